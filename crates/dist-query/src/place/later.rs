//! Statements of which something must be known before they can go anywhere: ids of rows, keys that a
//! server computes.

use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::{Job, Shape};
use execute::per_core::Core;
use execute::prepared::bound;
use execute::session::Session;
use execute::session::context::StatementContext;
use execute::session::user::SessionUser;
use execute::variables::session_variables::SessionVariables;
use farm::{ClientError, error};
use planner::place::{Goes, Literals, Spot, Statement, own_call};
use sqltext::{Span, edited};

use super::{Where, Writing};
use crate::place::writes::ids;
use crate::place::{self, names, of_session};

/// Rounds of one statement: ids, then expressions, and once more.
const ROUNDS_MAX: usize = 4;

/// Where the command goes, once what it lacks was put into its text.
pub(super) async fn place_later(session: &mut Session, shape: &Shape, job: Job) -> Where {
    match completed(session, shape, job).await {
        Ok(place) => place,
        Err((error, detail)) => Where::Refuse(error, detail),
    }
}

async fn completed(
    session: &mut Session,
    shape: &Shape,
    job: Job,
) -> Result<Where, (ClientError, String)> {
    let refuse = |why: &str| (error::NOT_OVER_GROUPS, why.to_owned());
    let mut text = bound::text_of(&session.context(), job)
        .ok_or_else(|| refuse("the statement's parameters cannot be written out"))?;
    let (mode, mut insert_id) = (session.variables.mode, None);
    for _ in 0..ROUNDS_MAX {
        let snapshot = session.core.snapshot();
        let sharding = snapshot
            .sharding
            .as_ref()
            .ok_or_else(|| refuse("the farm has no shard maps any more"))?;
        let plan = place::make_plan(&session.variables, &text, shape, &snapshot, sharding)
            .ok_or_else(|| refuse("the farm has no group"))?;
        let slots = sqltext::slots(&text, &mode);
        let spans: Vec<Span> = slots.iter().map(|slot| slot.span).collect();
        let literals = Literals {
            text: &text,
            spans: &spans,
            mode: &mode,
            utf8: session.variables.is_utf8(),
        };
        let statement = Statement {
            text: &text,
            mode: &mode,
            values: &literals,
            zero_is_value: of_session::keeps_zeros(&session.variables),
        };
        let spot = plan.spot(&statement, sharding);
        let new = match (&spot, &plan.goes) {
            (Spot::Ids(count), Goes::Insert(insert)) => {
                let first = ids::ids(&session.core, insert, u64::from(*count)).await?;
                insert_id.get_or_insert(first);
                insert
                    .with_ids(&statement, first)
                    .ok_or_else(|| refuse("ids cannot be put into this INSERT"))?
            }
            (Spot::Evaluate(spans), _) => {
                let spans = spans.clone();
                let values = computed(
                    &session.core,
                    &session.user,
                    &session.variables,
                    &mut session.connections,
                    &text,
                    &spans,
                )
                .await?;
                with_computed(&text, &spans, values)
            }
            _ => {
                if let Some(id) = ids::unheard_id(&session.core, &plan, &spot, &statement)
                    && let Goes::Insert(insert) = &plan.goes
                {
                    ids::raise_ids(&session.core, insert, id).await?;
                }
                let returns = plan.returns();
                let context = session.context();
                return Ok(ready(&context, spot, text, insert_id, returns, &snapshot, sharding));
            }
        };
        text = new;
    }
    Err(refuse("the statement's values cannot be found out"))
}

/// Where the completed text goes. It always goes as a text of its own, since it is not the client's.
fn ready(
    context: &StatementContext<'_>,
    spot: Spot,
    text: Vec<u8>,
    insert_id: Option<u64>,
    returns: bool,
    snapshot: &farm::Snapshot,
    sharding: &farm::Sharding,
) -> Where {
    let spot = match spot {
        Spot::Group(group) => Spot::Each(vec![group]),
        Spot::Anywhere | Spot::AnyOf(_) => {
            match names::in_database(context.variables, context.connections, snapshot, sharding) {
                Where::Group(group) => Spot::Each(vec![group.name.clone()]),
                other => return other,
            }
        }
        other => other,
    };
    match names::answer_spot(
        context.variables,
        context.connections,
        spot,
        || Some(text),
        returns,
        snapshot,
        sharding,
    ) {
        Where::Parts(writing) => Where::Parts(Writing {
            insert_id,
            ..writing
        }),
        Where::Later(spot) => Where::Refuse(error::NOT_OVER_GROUPS, format!("{spot:?}")),
        other => other,
    }
}

/// The text with its expressions replaced by their values, which the next round reads as keys.
fn with_computed(text: &[u8], spans: &[Span], values: Vec<String>) -> Vec<u8> {
    let edits: Vec<_> = spans
        .iter()
        .zip(values)
        .map(|(span, value)| ((span.start as usize, span.end as usize), value))
        .collect();
    edited(text, edits)
}

/// The seat where a question is asked: routines and sequences are of one group.
fn seat_of_calls(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    query: &[u8],
) -> u32 {
    let snapshot = core.snapshot();
    let place = own_call(query, &variables.mode)
        .zip(snapshot.sharding.as_ref())
        .map(|(call, sharding)| place::at_call(variables, &call, &snapshot, sharding));
    match place {
        Some(Where::Group(group)) => group.number,
        _ => connections.current.group,
    }
}

/// What these expressions of a text are, written as literals: a server says.
async fn computed(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    text: &[u8],
    spans: &[Span],
) -> Result<Vec<String>, (ClientError, String)> {
    let bad = |why: String| {
        let why = format!("the shard key cannot be computed: {why}");
        (error::NOT_OVER_GROUPS, why)
    };
    for span in spans {
        let written = String::from_utf8_lossy(span.of(text)).to_lowercase();
        // Other connections may have the session's variables, and other groups the rows.
        if (written.contains('@') && connections.current.held.is_none())
            || written.contains("select")
        {
            return Err(bad(format!("{written}: write its value out")));
        }
    }
    let mut query = b"SELECT ".to_vec();
    for (at, span) in spans.iter().enumerate() {
        if at > 0 {
            query.extend_from_slice(b", ");
        }
        query.push(b'(');
        query.extend_from_slice(span.of(text));
        query.push(b')');
    }
    let failed = |error: &dyn std::fmt::Display| {
        let shown = String::from_utf8_lossy(&query);
        bad(format!("{error}; asked by: {shown}"))
    };
    let seat = seat_of_calls(core, variables, connections, &query);
    let table =
        match connections.current.held.as_mut().filter(|_| seat == connections.current.group) {
            Some(held) => held.lease.connection_mut().table(&query).await,
            None => {
                let taken = core
                    .take_from_primary(seat, &user.identity.pass, &variables.state, false)
                    .await;
                let lease = taken.map_err(|_| failed(&"no server connection could be had"))?;
                lease.ask(&query).await
            }
        };
    let table = table.map_err(|error| failed(&error))?;
    let row = table.rows.into_iter().next().unwrap_or_default();
    let escapes = !variables.mode.no_backslash_escapes;
    let values: Option<Vec<String>> =
        row.into_iter().map(|cell| literal(cell, variables.is_utf8(), escapes)).collect();
    let why = match variables.is_utf8() {
        true => "an expression whose value cannot be written out",
        false => "its text is not UTF-8; use SET NAMES utf8mb4",
    };
    values.filter(|values| values.len() == spans.len()).ok_or_else(|| bad(why.to_owned()))
}

/// A value as a literal: texts quoted, with or without escapes. Where texts are in UTF-8, bytes that are
/// none are no text, and their digits are written; elsewhere only ASCII can be.
fn literal(value: Option<Vec<u8>>, utf8: bool, escapes: bool) -> Option<String> {
    let Some(bytes) = value else {
        return Some("NULL".to_owned());
    };
    if !utf8 && !bytes.is_ascii() {
        return None;
    }
    Some(match String::from_utf8(bytes) {
        Ok(text) => {
            let text = text.replace('\'', "''");
            match escapes {
                true => format!("'{}'", text.replace('\\', "\\\\")),
                false => format!("'{text}'"),
            }
        }
        Err(error) => {
            format!("X'{}'", hex::encode_upper(error.into_bytes()))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::literal;

    #[test]
    fn values_are_written_as_the_session_reads_them() {
        let text = |escapes| literal(Some(b"a'b\\".to_vec()), true, escapes);
        assert_eq!(text(true).as_deref(), Some("'a''b\\\\'"));
        assert_eq!(text(false).as_deref(), Some("'a''b\\'"));
        assert_eq!(literal(None, false, true).as_deref(), Some("NULL"));
        let bytes = || Some(b"\xff\0\x1a'\\a".to_vec());
        let digits = literal(bytes(), true, true);
        assert_eq!(digits.as_deref(), Some("X'FF001A275C61'"));
        assert_eq!(literal(bytes(), false, true), None);
        let accent = "\u{e9}".as_bytes().to_vec();
        assert_eq!(literal(Some(accent), false, true), None);
    }
}
