//! CALL on the group that decides a transaction: there a COMMIT within a routine would end one part alone,
//! and no server refuses it. So it runs when its text, and those of the routines that it calls, have nothing
//! that might end a transaction. The texts are read as the client's account may see them.

use std::collections::HashSet;

use execute::client::request::Request;
use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::Job;
use execute::prepared::statements::PreparedStatements;
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use sqltext::{Mode, PieceKind, put_string};

/// Words of statements that end a transaction, or may do anything. Who has one of them in another sense is
/// refused for nothing.
const ENDS: [&str; 31] = [
    "alter",
    "analyze",
    "autocommit",
    "backup",
    "cache",
    "change",
    "check",
    "commit",
    "create",
    "drop",
    "execute",
    "flush",
    "grant",
    "import",
    "install",
    "load",
    "lock",
    "optimize",
    "password",
    "prepare",
    "rename",
    "repair",
    "reset",
    "revoke",
    "role",
    "rollback",
    "start",
    "stop",
    "truncate",
    "uninstall",
    "xa",
];

/// Deeper is not looked.
const ROUTINES_MAX: usize = 32;

/// A database and a name in it.
type Routine = (Vec<u8>, Vec<u8>);

/// The routines that a text calls, which stands in this database; `None` where it might end a transaction.
fn calls(text: &[u8], database: &[u8], mode: &Mode) -> Option<Vec<Routine>> {
    let pieces = sqltext::pieces(text, mode)?;
    let mut found = Vec::new();
    for (at, piece) in pieces.iter().enumerate() {
        let sets = piece.kind == PieceKind::SystemVariable
            && piece.span.of(text).to_ascii_lowercase().ends_with(b"autocommit");
        if sets || ENDS.iter().any(|word| piece.is(text, word)) {
            return None;
        }
        if !piece.is(text, "call") {
            continue;
        }
        let name = |at: usize| Some(pieces.get(at)?.name(text, mode)?.into_owned());
        let dotted = pieces.get(at + 2).is_some_and(|it| it.kind == PieceKind::Dot);
        found.push(match dotted {
            true => (name(at + 1)?, name(at + 3)?),
            false => (database.to_vec(), name(at + 1)?),
        });
    }
    Some(found)
}

/// The CALL that is about to run on the current seat ends no transaction.
pub(super) async fn calls_no_end(
    request: &Request,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    prepared: &PreparedStatements,
    job: Job,
) -> bool {
    let database = variables.state.database().unwrap_or_default().to_vec();
    let Some(mut left) =
        calls(user_variables::text(request, prepared, job), &database, &variables.mode)
    else {
        return false;
    };
    let mut seen = HashSet::new();
    while let Some((database, name)) = left.pop() {
        if seen.contains(&(database.clone(), name.clone())) {
            continue;
        }
        // Of others it is not sure what the server makes of the bytes.
        let plain = database.is_ascii() && name.is_ascii();
        let Some(held) =
            connections.current.held.as_mut().filter(|_| plain && seen.len() < ROUTINES_MAX)
        else {
            return false;
        };
        let mut query = b"SELECT MAX(ROUTINE_DEFINITION) FROM information_schema.ROUTINES \
                          WHERE ROUTINE_TYPE='PROCEDURE' AND ROUTINE_SCHEMA="
            .to_vec();
        put_string(&database, variables.mode.no_backslash_escapes, &mut query);
        query.extend_from_slice(b" AND ROUTINE_NAME=");
        put_string(&name, variables.mode.no_backslash_escapes, &mut query);
        let told = held.lease.connection_mut().ask(&query).await;
        let text = told.ok().and_then(|row| row.into_iter().next());
        // What is not there is NULL, and what the account may not see.
        let text = text.filter(|text| !text.is_empty());
        match text.and_then(|text| calls(&text, &database, &variables.mode)) {
            Some(more) => left.extend(more),
            None => return false,
        }
        seen.insert((database, name));
    }
    true
}

#[cfg(test)]
mod tests {
    use sqltext::{Dialect, Mode};

    use super::calls;

    #[test]
    fn what_might_end_a_transaction_is_seen() {
        let read = |text: &str| {
            let mode = Mode::new(Dialect::MariaDb, 101_106);
            let found = calls(text.as_bytes(), b"d", &mode)?;
            let names = found.iter().map(|(database, name)| {
                let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                format!("{}.{}", text(database), text(name))
            });
            Some(names.collect::<Vec<_>>().join(" "))
        };
        for text in [
            "BEGIN INSERT INTO t VALUES (1); COMMIT; END",
            "BEGIN /*!50000 ROLLBACK */; END",
            "SET autocommit = 1",
            "SET @@session.autocommit = 1",
            "BEGIN PREPARE s FROM @text; EXECUTE s; END",
            "create table u (a int)",
            "SELECT 'not closed",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        let quiet =
            "BEGIN UPDATE t SET `commit` = 'commit' /* COMMIT */; CALL e.p(1); CALL `q`; END";
        assert_eq!(read(quiet).as_deref(), Some("e.p d.q"));
    }
}
