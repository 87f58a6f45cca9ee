//! Under which GTIDs the server said that it committed what a connection changed: of each stream the
//! last. A stream is a MariaDB domain, or a MySQL source with its tag; numbers of different ones cannot
//! be compared, and a client may write to one after the other.

use farm::{Engine, Position};

/// Streams that are kept apart. A client that writes to more has its lost writes unknown.
const STREAMS_MAX: usize = 64;

/// What a server reported on a connection.
#[derive(Debug, Default)]
pub struct Reported {
    last: Option<Position>,
    /// There was more than could be read or kept.
    more: bool,
}

impl Reported {
    /// Takes note of what came with a reply, in the engine's notation.
    pub fn note(&mut self, engine: Engine, gtids: &[u8]) {
        self.add(Position::read(engine, gtids).as_ref());
    }

    /// Takes note of a position that somebody has read already; `None` where it could not be read.
    pub fn add(&mut self, now: Option<&Position>) {
        let Some(now) = now else {
            self.more = true;
            return;
        };
        match (&mut self.last, now) {
            (Some(Position::MariaDb(last)), Position::MariaDb(now)) => match now.only() {
                Some((domain, now)) => last.insert(domain, now),
                None => last.extend(now.iter().map(|(domain, last)| (domain, *last))),
            },
            (Some(Position::MySql(last)), Position::MySql(now)) => {
                last.extend(
                    now.iter()
                        .map(|(source, all)| (source.clone(), all.clone())),
                );
            }
            (last, now) => *last = Some(now.clone()),
        }
        self.more |= match &self.last {
            Some(Position::MariaDb(last)) => last.len() > STREAMS_MAX,
            Some(Position::MySql(last)) => last.len() > STREAMS_MAX,
            None => false,
        };
        if self.more {
            self.last = None;
        }
    }

    /// The last GTIDs in the engine's notation; `None` when a report could not be read or there were too many streams.
    pub fn text(&self) -> Option<String> {
        let all = self.last.as_ref().map(Position::to_string);
        (!self.more).then(|| all.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(engine: Engine, all: &[&str]) -> Option<String> {
        let mut reported = Reported::default();
        for gtids in all {
            let gtids = gtids.replace('$', "3e11fa47-71ca-11e1-9e33-c80aa9429562");
            reported.note(engine, gtids.as_bytes());
        }
        let text = reported.text()?;
        Some(text.replace("3e11fa47-71ca-11e1-9e33-c80aa9429562", "$"))
    }

    #[test]
    fn the_last_of_each_stream_is_known() {
        let mysql = |all: &[&str]| noted(Engine::MySql, all);
        assert_eq!(mysql(&[]).as_deref(), Some(""));
        assert_eq!(mysql(&["$:5", "$:9"]).as_deref(), Some("$:9"));
        assert_eq!(
            mysql(&["$:5", "$:t:1", "$:t:2"]).as_deref(),
            Some("$:5:t:2")
        );
        assert_eq!(mysql(&["$:5", "what"]), None);
        assert_eq!(mysql(&["$:5", "what", "$:6"]), None);
        let mariadb = |all: &[&str]| noted(Engine::MariaDb, all);
        assert_eq!(mariadb(&["0-1-5", "1-1-2"]).as_deref(), Some("0-1-5,1-1-2"));
        assert_eq!(mariadb(&["0-1-5", "0-1-6"]).as_deref(), Some("0-1-6"));
        let domains: Vec<String> = (0..65).map(|domain| format!("{domain}-1-1")).collect();
        let domains: Vec<&str> = domains.iter().map(String::as_str).collect();
        assert_eq!(mariadb(&domains), None);
        assert!(mariadb(&domains[1..]).is_some());
    }
}
