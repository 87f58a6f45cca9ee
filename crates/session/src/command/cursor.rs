//! What ties a prepared statement to one connection, and how it ends: long data, cursors.

use std::rc::Rc;

use backend::Lease;
use dist_query::place::chosen;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::connections::group_connections::{GroupConnections, Held};
use execute::connections::parked::reclaim;
use execute::connections::pin::Pins;
use execute::execution::exec::{Job, Shape};
use execute::execution::{route, servers_tried};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::prepared::statements::{self, PreparedStatements, Statement};
use execute::prepared::{prepared_packets, ready};
use execute::session::{self, Session};
use execute::variables::session_variables::SessionVariables;
use farm::error;
use mysql_wire::relay::Expect;
use mysql_wire::status::Status;
use sqltext::{Class, Dialect, Facts};

use crate::query::by_rules;

/// Takes up the choice of a shard, where the long data that came is one. Of a loop that selects a shard before
/// each statement this is half of all commands.
pub(crate) fn takes_choice(session: &mut Session) -> bool {
    let id = statements::named_statement(&session.client.request, &session.prepared);
    let own = session.prepared.statements.get(&id).map(Statement::is_own);
    let payload = session.client.request.payload();
    own.unwrap_or(true) && chosen::take_choice(&mut session.run, payload, own == Some(true))
}

/// COM_STMT_SEND_LONG_DATA has no reply; what fails here is said by the EXECUTE.
pub(crate) async fn long_data(session: &mut Session) -> Result<(), End> {
    let id = statements::named_statement(&session.client.request, &session.prepared);
    let param = match session.client.request.payload().get(5..7) {
        Some(param) => u16::from_le_bytes([param[0], param[1]]),
        None => return Ok(()),
    };
    let Some(statement) = session.prepared.statements.get_mut(&id) else {
        return Ok(());
    };
    if param >= statement.params {
        // The server would keep its statement in error, for whoever uses it next.
        statement.astray = true;
        return Ok(());
    }
    if statement.broken || statement.starved.is_some() {
        // A part is lost already: what follows it must not pass for the whole.
        return Ok(());
    }
    let shape = Shape {
        facts: Facts::empty(),
        class: Class::Show,
        ..statement.shape
    };
    let sent = send_long_data(session, &shape, id).await;
    if let Some(statement) = session.prepared.statements.get_mut(&id) {
        statement.long_data = sent;
        statement.broken = !sent;
        session.prepared.ties.set(session.prepared.ties.get() || sent);
    }
    Ok(())
}

/// Sends the client's long data to the statement on the connection that is held from now on.
/// False when that could not be done.
async fn send_long_data(session: &mut Session, shape: &Shape, id: u32) -> bool {
    let was_held = session.connections.current.held.is_some();
    let Some((mut lease, pins)) = checkout_for(session, shape).await else {
        return false;
    };
    let connection = lease.connection_mut();
    let sent = match ready::ready_statement(
        &session.core,
        &session.promises,
        &session.prepared,
        connection,
        id,
    )
    .await
    {
        Ok(()) => {
            prepared_packets::address_statement(
                &mut session.client,
                &session.prepared,
                connection,
                id,
            );
            if let Some(statement) = session.prepared.statements.get(&id) {
                connection.tie(&statement.key, true);
            }
            let (frame, range) = session.client.request.lend();
            let (sent, frame) = connection.send(frame, range).await;
            session.client.request.restore(frame);
            sent.is_ok()
        }
        Err(_) => false,
    };
    if sent || was_held {
        // A transaction that broke with its connection is not given up in silence: the next
        // statement finds it broken and says so.
        let pin = if sent { Pins::STATEMENT } else { Pins::empty() };
        let pins = pins | pin;
        session.connections.current.held = Some(Held { lease, pins });
    }
    sent
}

/// COM_STMT_RESET: forgets long data and closes the cursor.
pub(crate) async fn reset_statement(session: &mut Session) -> Result<(), End> {
    let id = statements::named_statement(&session.client.request, &session.prepared);
    let Some(statement) = session.prepared.statements.get_mut(&id) else {
        return statements::unknown_statement(
            &mut session.client,
            &session.variables,
            id,
            "mysqld_stmt_reset",
        )
        .await;
    };
    let at_server = statement.cursor || statement.long_data;
    (statement.cursor, statement.long_data) = (false, false);
    (statement.broken, statement.astray, statement.starved) = (false, false, None);
    let key = statement.key.clone();
    let known = session.connections.current.held.as_mut().and_then(|held| {
        let known = held.lease.connection_mut().known(&key)?;
        known.tied = false;
        Some(*known)
    });
    match known {
        Some(known) if at_server => {
            session.client.request.patch(1, &known.server_id.to_le_bytes());
            by_rules::run_command(session, Shape::command(), Job::Frame(Expect::Single)).await
        }
        _ => session.client.ok(session::status_now(&session.variables, &session.transaction)).await,
    }
}

/// COM_STMT_FETCH: more rows of an open cursor.
pub(crate) async fn fetch(session: &mut Session) -> Result<(), End> {
    let id = statements::named_statement(&session.client.request, &session.prepared);
    let key = session.prepared.statements.get(&id).filter(|s| s.cursor).map(|s| s.key.clone());
    let known = match (&mut session.connections.current.held, key) {
        (Some(held), Some(key)) => held.lease.connection_mut().known(&key).copied(),
        _ => None,
    };
    let Some(known) = known else {
        if !session.prepared.statements.contains_key(&id) {
            return statements::unknown_statement(
                &mut session.client,
                &session.variables,
                id,
                "mysqld_stmt_fetch",
            )
            .await;
        }
        let end = match session.variables.mode.dialect {
            Dialect::MariaDb => "",
            Dialect::MySql => ".",
        };
        let row = &error::STATEMENT_WITHOUT_CURSOR;
        return session.client.error(row, &[&id.to_string(), end]).await;
    };
    session.client.request.patch(1, &known.server_id.to_le_bytes());
    by_rules::run_command(session, Shape::command(), Job::Frame(Expect::Rows)).await?;
    if session.variables.status.contains(Status::LAST_ROW_SENT) {
        if let Some(statement) = session.prepared.statements.get_mut(&id) {
            statement.cursor = false;
            if let Some(held) = &mut session.connections.current.held {
                held.lease.connection_mut().tie(&statement.key, false);
            }
        }
        recheck_hold(
            &session.core,
            &session.handle,
            &session.variables,
            &mut session.connections,
            &session.prepared,
        );
    }
    Ok(())
}

/// A connection for a command without a reply.
async fn checkout_for(session: &mut Session, shape: &Shape) -> Option<(Lease, Pins)> {
    let (plan, target) = route::route(session, shape, None, &[]).ok()?;
    servers_tried::checkout(session, &plan, &target, shape).await.ok()
}

/// COM_STMT_CLOSE has no reply. The connections keep the statement for whoever needs it next,
/// but a cursor ends now.
pub(crate) async fn close_statement(
    core: &Rc<Core>,
    handle: &Rc<Handle>,
    request: &Request,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    prepared: &mut PreparedStatements,
) -> Result<(), End> {
    let id = statements::named_statement(request, prepared);
    let Some(statement) = prepared.statements.remove(&id) else {
        return Ok(());
    };
    prepared.keys.remove(&statement.key);
    if !statement.cursor && !statement.long_data {
        if let Some(log) = &mut connections.current.replay {
            log.keep_closed(id, statement);
        }
        return Ok(());
    }
    if let Some(held) = &mut connections.current.held {
        // A connection that breaks here is found out by its next use: a transaction that is
        // lost with it must not be lost in silence.
        let _ = held.lease.connection_mut().forget(&statement.key).await;
    }
    recheck_hold(core, handle, variables, connections, prepared);
    Ok(())
}

/// Gives the held connection back when a statement was its only reason.
fn recheck_hold(
    core: &Rc<Core>,
    handle: &Rc<Handle>,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    prepared: &PreparedStatements,
) {
    let Some(Held { lease, mut pins }) = connections.current.held.take() else {
        return;
    };
    pins.set(Pins::STATEMENT, prepared.has_ties());
    reclaim::give_back_after_error(core, handle, variables, connections, lease, pins);
}
