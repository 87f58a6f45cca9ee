//! What the session's account may do, as the primary says it, and other questions of Heddle's own
//! that are asked in the session's name.

use backend::{ConnectionError, PoolError, Table};
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::connections::home::HOME;
use execute::connections::parked::reclaim;
use execute::connections::target::nowhere;
use execute::execution::exec::{Job, Shape};
use execute::execution::{route, servers_tried};
use execute::per_core::Core;
use execute::session::Session;
use execute::session::user::SessionUser;
use execute::variables::session_variables::SessionVariables;
use execute::variables::{self, user_variables};
use farm::GlobalRights;
use farm::error;

/// A right by any of these names, on everything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right {
    /// To see the sessions of others.
    See,
    /// To end the sessions of others.
    Kill,
    /// Ending a server.
    Shutdown,
    /// To end sessions of accounts that have the right themselves (MySQL).
    System,
}

impl Right {
    fn is_in(self, rights: GlobalRights) -> bool {
        match self {
            Right::See => rights.see,
            Right::Kill => rights.kill,
            Right::Shutdown => rights.shutdown,
            Right::System => rights.system,
        }
    }
}

/// Who the session is to its server: the account, and the roles that are active.
const WHO: &[u8] =
    b"SELECT CAST(CURRENT_USER() AS BINARY), CAST(IFNULL(CURRENT_ROLE(), '') AS BINARY)";

/// The value of the first column of a query over the session's variables, which stand in the
/// current text too. `None`: the client has been told why there is none.
pub(crate) async fn evaluate(
    session: &mut Session,
    shape: &Shape,
    job: Job,
    query: &[u8],
) -> Result<Option<Vec<u8>>, End> {
    let (plan, target) = match route::route(session, shape, None, &[]) {
        Ok(route) => route,
        Err(refusal) => {
            let told = session.client.error(&refusal.error, &[&refusal.detail]).await;
            return told.map(|()| None);
        }
    };
    let (mut lease, pins) = match servers_tried::checkout(session, &plan, &target, shape).await {
        Ok(taken) => taken,
        Err(error) => {
            let told = session.client.pool_error(&error, &target).await;
            return told.map(|()| None);
        }
    };
    let connection = lease.connection_mut();
    connection.owner.statement = 0;
    let mut moved = Ok(());
    if user_variables::variables_differ(&session.handle, &session.variables, connection, shape) {
        moved = variables::user_variables::move_variables(
            &session.handle,
            &session.client.request,
            &mut session.variables,
            &session.prepared,
            connection,
            shape,
            job,
        )
        .await;
    }
    let asked = match moved {
        Ok(()) => connection.ask(query).await,
        Err(error) => Err(error),
    };
    if matches!(&asked, Ok(_) | Err(ConnectionError::Refused { .. })) {
        reclaim::give_back_after_error(
            &session.core,
            &session.handle,
            &session.variables,
            &mut session.connections,
            lease,
            pins,
        );
    }
    match asked {
        Ok(values) => Ok(Some(values.into_iter().next().unwrap_or_default())),
        Err(error) => {
            let told = session.client.pool_error(&error.into(), &nowhere()).await;
            told.map(|()| None)
        }
    }
}

/// True when the account, or a role that is active, has the right. Who cannot be asked about
/// has none.
pub(crate) async fn has_right(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    right: Right,
) -> bool {
    let accounts = core.shared.accounts_as_told().await;
    // Where the servers do not say who has what.
    if accounts.global_rights.is_empty() {
        return user.identity.admin;
    }
    let asked = ask_table(core, user, variables, connections, WHO).await.unwrap_or_default();
    let cells = asked.rows.into_iter().next().unwrap_or_default();
    let text =
        |cell: Option<Vec<u8>>| String::from_utf8_lossy(&cell.unwrap_or_default()).into_owned();
    let mut cells = cells.into_iter().map(text);
    let (account, roles) = (cells.next().unwrap_or_default(), cells.next());
    let roles = names_of(&roles.unwrap_or_default());
    let account = account.rsplit_once('@').map(|(user, host)| (user.to_owned(), host.to_owned()));
    let mut all = account.into_iter().chain(roles);
    all.any(|name| accounts.global_rights.get(&name).is_some_and(|it| right.is_in(*it)))
}

/// Asks in the session's name: on the connection that it keeps, else on one to the primary.
pub(crate) async fn ask_table(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    query: &[u8],
) -> Result<Table, PoolError> {
    if let Some(held) = &mut connections.current.held {
        let connection = held.lease.connection_mut();
        // It has the diagnostics of another statement now.
        connection.owner.statement = 0;
        return Ok(connection.table(query).await?);
    }
    let taking = core.take_from_primary(HOME, &user.identity.pass, &variables.state, false);
    Ok(taking.await?.ask(query).await?)
}

/// The roles that CURRENT_ROLE() gives, by user and host: MariaDB has one at most, by its name; MySQL a
/// list of quoted names with hosts, or NONE.
fn names_of(current: &str) -> Vec<(String, String)> {
    if !current.starts_with('`') {
        return vec![(current.to_owned(), String::new())];
    }
    let mut parts = Vec::new();
    let mut rest = current;
    while let Some(begun) = rest.find('`') {
        let (mut part, mut at) = (String::new(), begun + 1);
        while let Some(length) = rest[at..].find('`') {
            part.push_str(&rest[at..at + length]);
            at += length + 1;
            if !rest[at..].starts_with('`') {
                break;
            }
            // Twice, it stands for itself.
            part.push('`');
            at += 1;
        }
        parts.push(part);
        rest = &rest[at..];
    }
    let pairs = parts.chunks_exact(2);
    pairs.map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

/// COM_SHUTDOWN and SHUTDOWN: through one address nobody can say which server of the farm is meant.
pub(crate) async fn refuse_shutdown(
    core: &Core,
    user: &SessionUser,
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
) -> Result<(), End> {
    if !has_right(core, user, variables, connections, Right::Shutdown).await {
        return client.error(&error::SHUTDOWN_DENIED, &[]).await;
    }
    client.error(&error::SHUTDOWN_REFUSED, &[]).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_roles_are_named_by_both_engines() {
        let pair = |user: &str, host: &str| (user.to_owned(), host.to_owned());
        assert_eq!(names_of("reader"), [pair("reader", "")]);
        assert_eq!(names_of("`a`@`%`"), [pair("a", "%")]);
        let several = [pair("a`b", "10.%"), pair("c,`d", "%")];
        assert_eq!(names_of("`a``b`@`10.%`,`c,``d`@`%`"), several);
        // They are nobody's names.
        assert_eq!(names_of("NONE"), [pair("NONE", "")]);
        assert_eq!(names_of("`a"), []);
    }
}
