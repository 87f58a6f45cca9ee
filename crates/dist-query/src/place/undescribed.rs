//! Statements that cannot be placed yet: they name a table whose columns this router does not know, as when it has just
//! begun. They wait, as for a move.

use execute::execution::exec::Shape;
use execute::variables::session_variables::SessionVariables;
use farm::Sharding;
use sqltext::Verb;

/// The database of the first table that the statement names, or may name, whose columns have still to be asked for.
pub(crate) fn named(
    variables: &SessionVariables,
    shape: &Shape,
    text: &[u8],
    sharding: &Sharding,
) -> Option<String> {
    let session = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    for name in sqltext::tables(text, &variables.mode) {
        let database = name.database.as_deref().map(String::from_utf8_lossy);
        let database = database.as_deref().unwrap_or(&session);
        if sharding.is_undescribed(database, &String::from_utf8_lossy(&name.name)) {
            return Some(database.to_owned());
        }
    }
    // What these name stands in another text.
    let runs_others =
        matches!(shape.verb, Verb::Prepare | Verb::Execute | Verb::ExecuteImmediate | Verb::Call);
    (runs_others && sharding.is_undescribed(&session, "")).then(|| session.into_owned())
}
