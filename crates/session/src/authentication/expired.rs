//! Sessions of accounts whose password has expired.
//!
//! A server decides whether it lets such a client in (MySQL not without the client's flag for it,
//! where `disconnect_on_expired_password` is set), and then refuses everything but a new password.
//! The session is therefore logged in at the primary at once, with the client's own flag and with
//! nothing prepared, and stays on that connection: all answers are the server's own. It stays there
//! after the password was changed, too, for nobody has told the router the new one.

use backend::Lease;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::connections::group_connections::{GroupConnections, Held};
use execute::connections::pin::Pins;
use execute::connections::renew::renew;
use execute::execution::exec::{Job, Shape, text_shape};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::session::{self, Session};
use mysql_wire::command::Command;
use mysql_wire::relay::Expect;

use crate::command::cursor;
use crate::command::prepared;
use crate::query;
use crate::query::by_rules;

/// One command while the password has not been changed. Nothing is answered here that the
/// server would refuse.
pub(crate) async fn in_sandbox(session: &mut Session, command: Command) -> Result<(), End> {
    match command {
        Command::Query => {
            if text_shape::has_attributes(&session.client)
                && session.client.request.take_attributes().is_err()
            {
                return query::malformed_attributes(&mut session.client).await;
            }
            let shape =
                text_shape::query_shape(&session.core, &session.client.request, &session.variables);
            by_rules::run_command(session, shape, Job::Frame(Expect::Results)).await
        }
        Command::Quit => Err(End::Quit),
        Command::Ping => {
            session.client.ok(session::status_now(&session.variables, &session.transaction)).await
        }
        Command::StmtPrepare => prepared::prepare(session).await,
        Command::StmtExecute => prepared::execute(session).await,
        Command::StmtClose => {
            cursor::close_statement(
                &session.core,
                &session.handle,
                &session.client.request,
                &session.variables,
                &mut session.connections,
                &mut session.prepared,
            )
            .await
        }
        Command::StmtSendLongData if cursor::takes_choice(session) => Ok(()),
        Command::StmtSendLongData => cursor::long_data(session).await,
        _ => {
            let job = Job::Frame(Expect::Single);
            by_rules::run_command(session, Shape::command(), job).await
        }
    }
}

/// Keeps the connection of a login with an expired password.
pub(crate) fn stay_on(core: &Core, connections: &mut GroupConnections, lease: Lease) {
    let pins = Pins::PASSWORD;
    pins.count_new(Pins::empty(), &core.counters);
    connections.current.last_server = Some(lease.connection().server);
    connections.current.held = Some(Held { lease, pins });
}

/// Ends what belongs to the session on the connection that it held. One that cannot be had
/// again is kept.
pub(crate) async fn end_hold(handle: &Handle, connections: &mut GroupConnections, mut held: Held) {
    if !held.pins.contains(Pins::PASSWORD) {
        renew(handle, held).await;
        return;
    }
    let reset = [(Command::ResetConnection, &b""[..])];
    if held.lease.connection_mut().run(&reset).await.is_ok() {
        held.pins = Pins::PASSWORD;
        connections.current.held = Some(held);
    }
}
