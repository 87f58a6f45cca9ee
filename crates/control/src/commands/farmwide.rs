//! Views over all routers of the farm: everybody is asked at once, and who does not answer in time
//! stands there by name, so that nothing is missing without a word.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::commands::dispatch::Commands;
use crate::peers::roster::{Peer, Roster};
use crate::peers::transport::PeerError;
use catalog::command::{Arguments, Call, CommandError, Table, Verb};

/// The column that says whose a row is.
const ROUTER: &str = "router";

/// What one router contributed to a view.
pub(crate) struct Part {
    pub(crate) router: String,
    pub(crate) table: Result<Table, PeerError>,
}

impl Commands {
    /// A command whose answer is all routers': the rows of this one and of the others, each with its
    /// router, or only of the one that the arguments `router` and `local` name.
    pub(crate) async fn over_farm(
        &self,
        verb: Verb,
        arguments: &Arguments,
        call: &Call,
    ) -> Result<Table, CommandError> {
        let roster = self.election.roster();
        let wanted = Wanted::of(arguments, &roster)?;
        let mut parts = Vec::with_capacity(roster.others.len() + 1);
        let peers = wanted.peers(&roster);
        let question = narrowed(call);
        let (own, others) = tokio::join!(
            async {
                match wanted {
                    Wanted::One(_) => None,
                    Wanted::All | Wanted::Own => Some(self.dispatch(verb, arguments).await),
                }
            },
            self.peers.ask_these(peers, &question)
        );
        if let Some(own) = own {
            parts.push(Part {
                router: roster.own.name.clone(),
                table: Ok(own?),
            });
        }
        for (peer, table) in others {
            // What is wrong with the call itself is wrong everywhere; one peer asked alone gives its
            // own answer.
            match table {
                Err(PeerError::Command(error)) if matches!(wanted, Wanted::One(_)) => {
                    return Err(error);
                }
                Err(error) if matches!(wanted, Wanted::One(_)) => {
                    return Err(CommandError::Internal(format!(
                        "router {}: {error}",
                        peer.name
                    )));
                }
                table => parts.push(Part {
                    router: peer.name.clone(),
                    table,
                }),
            }
        }
        let note = verb.note_column();
        self.background.in_turn(move |_| joined(parts, note)).await
    }
}

/// Whose rows are wanted.
enum Wanted {
    All,
    Own,
    One(Arc<Peer>),
}

impl Wanted {
    fn of(arguments: &Arguments, roster: &Roster) -> Result<Wanted, CommandError> {
        if arguments.switch("local")? {
            return Ok(Wanted::Own);
        }
        let Some(name) = arguments.get(ROUTER) else {
            return Ok(Wanted::All);
        };
        if name == roster.own.name {
            return Ok(Wanted::Own);
        }
        let peer = roster.others.iter().find(|peer| peer.name == name);
        peer.map(|peer| Wanted::One(Arc::clone(peer)))
            .ok_or_else(|| {
                CommandError::Refused(format!(
                    "no router {name:?} lives; there are: {}",
                    roster.names().join(", ")
                ))
            })
    }

    fn peers(&self, roster: &Roster) -> Vec<Arc<Peer>> {
        match self {
            Wanted::All => roster.others.clone(),
            Wanted::Own => Vec::new(),
            Wanted::One(peer) => vec![Arc::clone(peer)],
        }
    }
}

/// The call as a peer is to have it: it answers for itself anyway.
fn narrowed(call: &Call) -> Call {
    let mut call = call.clone();
    call.options.remove(ROUTER);
    call.options.remove("local");
    let named = call.spec().map_or(0, |spec| {
        let narrows = |arg: &&catalog::command::ArgSpec| arg.name == ROUTER || arg.name == "local";
        spec.args.iter().filter(narrows).count()
    });
    // They are the last ones of the command's arguments.
    let own = call.spec().map_or(0, |spec| spec.args.len() - named);
    call.args.truncate(own);
    call
}

/// All rows under the first router's columns and the router's own. One without an answer has a row
/// that says why, in the column `note`.
fn joined(parts: Vec<Part>, note: &'static str) -> Table {
    let columns = |part: &Part| part.table.as_ref().ok().map(|table| table.columns.clone());
    let mut columns = parts.iter().find_map(columns).unwrap_or_default();
    if columns.is_empty() {
        columns.push(Cow::Borrowed(note));
    }
    let mut rows = Vec::new();
    for part in parts {
        let router = Value::from(part.router);
        match part.table {
            Ok(table) => {
                // A router of another version may have other columns.
                let place = |name: &Cow<'_, str>| table.columns.iter().position(|it| it == name);
                let places: Vec<Option<usize>> = columns.iter().map(place).collect();
                for mut row in table.rows {
                    let taken = places.iter().map(|place| {
                        let cell = place.and_then(|place| row.get_mut(place));
                        cell.map_or(Value::Null, Value::take)
                    });
                    rows.push(taken.chain([router.clone()]).collect());
                }
            }
            Err(error) => {
                let why = format!("no answer: {error}");
                let cell = |name: &Cow<'_, str>| match name == note {
                    true => Value::from(why.as_str()),
                    false => Value::Null,
                };
                rows.push(columns.iter().map(cell).chain([router]).collect());
            }
        }
    }
    columns.push(Cow::Borrowed(ROUTER));
    Table { columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_other_versions_are_matched_by_name_and_silence_is_a_row() {
        let part = |router: &str, table| Part {
            router: router.to_owned(),
            table,
        };
        let own = Table {
            rows: vec![vec![1.into(), "idle".into()]],
            ..Table::new(&["id", "state"])
        };
        let other = Table {
            rows: vec![vec!["runs".into(), true.into(), 2.into()]],
            ..Table::new(&["state", "news", "id"])
        };
        let parts = vec![
            part("r1", Ok(own)),
            part("r2", Ok(other)),
            part("r3", Err(PeerError::Gone)),
        ];
        let table = joined(parts, "state");
        assert_eq!(table.columns, ["id", "state", "router"]);
        let text = table.to_json().to_string();
        assert!(text.contains(r#""r2""#) && !text.contains("news"), "{text}");
        assert_eq!(table.rows[1][0], 2);
        assert_eq!(table.rows[2][0], Value::Null);
        let why = table.rows[2][1].as_str().unwrap_or_default();
        assert!(why.contains("process is gone"), "{why}");
    }

    #[test]
    fn a_peer_is_not_asked_to_narrow() {
        let mut call = Call::new("session", "list", &["r2", "true"]);
        assert_eq!(narrowed(&call).args, [""; 0]);
        call.args.clear();
        call.options.insert("router".to_owned(), "r2".to_owned());
        assert_eq!(narrowed(&call), Call::new("session", "list", &[]));
    }
}
