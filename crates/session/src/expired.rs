//! Sessions of accounts whose password has expired.
//!
//! A server decides whether it lets such a client in (MySQL not without the client's flag for it,
//! where `disconnect_on_expired_password` is set), and then refuses everything but a new password.
//! The session is therefore logged in at the primary at once, with the client's own flag and with
//! nothing prepared, and stays on that connection: all answers are the server's own. It stays there
//! after the password was changed, too, for nobody has told the router the new one.

use backend::Lease;
use mysql_wire::command::Command;
use mysql_wire::relay::Expect;

use crate::end::End;
use crate::exec::{Job, Shape};
use crate::group_connections::Held;
use crate::pin::Pins;
use crate::renew::renew;
use crate::session::Session;

impl Session {
    /// Keeps the connection of a login with an expired password.
    pub(crate) fn stay_on(&mut self, lease: Lease) {
        let pins = Pins::PASSWORD;
        pins.count_new(Pins::empty(), &self.core.counters);
        self.connections.current.last_server = Some(lease.connection().server);
        self.connections.current.held = Some(Held { lease, pins });
    }

    /// One command while the password has not been changed. Nothing is answered here that the
    /// server would refuse.
    pub(crate) async fn in_sandbox(&mut self, command: Command) -> Result<(), End> {
        match command {
            Command::Query => {
                if self.has_attributes() && self.client.take_attributes().is_err() {
                    return self.malformed_attributes().await;
                }
                let shape = self.query_shape();
                self.run_command(shape, Job::Frame(Expect::Results)).await
            }
            Command::Quit => Err(End::Quit),
            Command::Ping => self.client.ok(self.status_now()).await,
            Command::StmtPrepare => self.prepare().await,
            Command::StmtExecute => self.execute().await,
            Command::StmtClose => self.close_statement().await,
            Command::StmtSendLongData => self.long_data().await,
            _ => {
                let job = Job::Frame(Expect::Single);
                self.run_command(Shape::command(), job).await
            }
        }
    }

    /// Ends what belongs to the session on the connection that it held. One that cannot be had
    /// again is kept.
    pub(crate) async fn end_hold(&mut self, mut held: Held) {
        if !held.pins.contains(Pins::PASSWORD) {
            renew(&self.handle, held).await;
            return;
        }
        let reset = [(Command::ResetConnection, &b""[..])];
        if held.lease.connection_mut().run(&reset).await.is_ok() {
            held.pins = Pins::PASSWORD;
            self.connections.current.held = Some(held);
        }
    }
}
