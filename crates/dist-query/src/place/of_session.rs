//! What the session has set that decides what a write may do.
//!
//! Must not know: the statement.

use execute::variables::session_variables::SessionVariables;

/// A zero in an AUTO_INCREMENT column is stored as it is.
pub(super) fn keeps_zeros(variables: &SessionVariables) -> bool {
    let mode = variables.state.variable("sql_mode").unwrap_or_default();
    let wanted = b"NO_AUTO_VALUE_ON_ZERO";
    mode.windows(wanted.len()).any(|it| it == wanted)
}

/// What a statement only reads must stay as it is until the statement's transaction ends, as it does
/// on one server that keeps a log by statements.
pub(super) fn shares(variables: &SessionVariables) -> bool {
    !["transaction_isolation", "tx_isolation"]
        .iter()
        .filter_map(|name| variables.state.variable(name))
        .any(|level| matches!(level, b"READ-COMMITTED" | b"READ-UNCOMMITTED"))
}
