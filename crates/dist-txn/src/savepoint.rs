//! Savepoints of a transaction over several groups: on all of them, and on those that come later.

use backend::ConnectionError;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::{Job, Shape};
use execute::per_core::Core;
use execute::session::Session;
use execute::variables::user_variables;
use farm::error;
use sqltext::{Mode, PieceKind, Verb};

use crate::{snapshot, verb};

/// The name at the end of SAVEPOINT, ROLLBACK TO and RELEASE SAVEPOINT, as names are compared; `None` in
/// what no server takes.
fn name_of(text: &[u8], mode: &Mode) -> Option<String> {
    let mut pieces = sqltext::pieces(text, mode)?;
    pieces.retain(|piece| piece.kind != PieceKind::Semicolon);
    let (last, words) = pieces.split_last()?;
    let whole = !words.first()?.is(text, "savepoint") || words.len() == 1;
    let name = last.name(text, mode).filter(|_| whole)?;
    Some(String::from_utf8_lossy(&name).to_lowercase())
}

/// Runs such a statement on all groups of the open transaction. False: it is one group's matter.
pub(super) async fn savepoint(session: &mut Session, shape: &Shape, job: Job) -> Result<bool, End> {
    let text = user_variables::text(&session.client.request, &session.prepared, job).to_vec();
    let Some(dist_txn) = &mut session.transaction.dist_txn else {
        return Ok(false);
    };
    let mode = &session.variables.mode;
    let name = name_of(&text, mode);
    let mut set = dist_txn.savepoints.iter();
    let at = set.position(|it| name_of(it, mode) == name);
    let groups: Vec<u32> = dist_txn.parts.iter().map(|part| part.group).collect();
    if let Some(name) = &name
        && groups.is_empty()
        && at.is_none()
        && shape.verb != Verb::Savepoint
    {
        session.client.error(&error::SAVEPOINT_UNKNOWN, &[name]).await?;
        return Ok(true);
    }
    match (shape.verb, at) {
        // Its server says what is wrong with it.
        _ if name.is_none() => {}
        (Verb::Savepoint, at) => {
            if let Some(at) = at {
                dist_txn.savepoints.remove(at);
            }
            dist_txn.savepoints.push(text.clone());
        }
        (Verb::RollbackTo, Some(at)) => dist_txn.savepoints.truncate(at + 1),
        (_, Some(at)) => dist_txn.savepoints.truncate(at),
        (_, None) => {}
    }
    match groups[..] {
        [] if name.is_some() => verb::say_done(
            &mut session.client,
            &mut session.variables,
            &session.transaction,
            &mut session.run,
            shape,
        )
        .await
        .map(|()| true),
        [] | [_] => {
            verb::sit_at_coordinator(&session.core, &mut session.connections, &session.transaction);
            Ok(false)
        }
        _ => {
            savepoint_on_all(session, shape, &groups, &text).await?;
            Ok(true)
        }
    }
}

/// The groups all run it at once, and the client gets one answer for them: the first error counts.
async fn savepoint_on_all(
    session: &mut Session,
    shape: &Shape,
    groups: &[u32],
    text: &[u8],
) -> Result<(), End> {
    match run_on(&session.core, &mut session.connections, groups, text).await {
        Ok(()) => {
            verb::say_done(
                &mut session.client,
                &mut session.variables,
                &session.transaction,
                &mut session.run,
                shape,
            )
            .await?
        }
        Err(ConnectionError::Refused {
            number,
            sqlstate,
            message,
        }) => {
            let client = &mut session.client;
            let refusal = mysql_wire::reply::ErrPacket {
                number,
                sqlstate,
                message: &message,
            };
            client.answer_error(&refusal).await?;
        }
        Err(error) => {
            let why = error.to_string();
            session.client.error(&error::DIST_TXN_UNDONE, &[&why]).await?;
        }
    }
    Ok(())
}

/// Runs a text on the connections of these groups, all at once; the first error counts. A
/// connection that breaks is closed.
pub(crate) async fn run_on(
    core: &Core,
    connections: &mut GroupConnections,
    groups: &[u32],
    text: &[u8],
) -> Result<(), ConnectionError> {
    let texts = groups.iter().map(|group| (*group, vec![text.to_vec()]));
    snapshot::run_each(core, connections, texts.collect()).await
}

#[cfg(test)]
mod tests {
    use sqltext::{Dialect, Mode};

    use super::name_of;

    #[test]
    fn names_are_found_and_compared_without_case() {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        for text in ["SAVEPOINT 'a'", "SAVEPOINT", "SAVEPOINT a b", "SAVEPOINT 1"] {
            assert_eq!(name_of(text.as_bytes(), &mode), None, "{text}");
        }
        for (text, name) in [
            ("SAVEPOINT a", "a"),
            ("ROLLBACK WORK TO SAVEPOINT  A ; ", "a"),
            ("RELEASE SAVEPOINT `My Point`", "my point"),
            ("SAVEPOINT `a``b`", "a`b"),
            ("SAVEPOINT /* b */ a /* c */", "a"),
            ("SAVEPOINT a -- c", "a"),
        ] {
            assert_eq!(name_of(text.as_bytes(), &mode).as_deref(), Some(name), "{text}");
        }
    }
}
