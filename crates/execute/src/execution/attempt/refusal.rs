//! An error at the beginning of a reply that says nothing about the command itself: the server, or its
//! transaction, could not run it now, and another attempt may.
//!
//! Must not know: what is done about it ([`crate::execution::servers`]).

use mysql_wire::packet::HEADER_BYTES;
use mysql_wire::relay::Outcome;
use mysql_wire::reply::ErrPacket;
use mysql_wire::status::Status;

use crate::client::Client;
use crate::client::refuse::ServerRefusal;
use crate::connections::group_connections::GroupConnections;
use crate::connections::hold::{is_tended, says_read_only};
use crate::execution::exec::{Answer, Run};
use crate::execution::pipe::Pipe;
use crate::execution::relayed;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::session::context::StatementContext;
use crate::session::is_free;
use crate::transaction::claimed_ids::is_collision;
use crate::transaction::lock_waits;
use crate::variables::session_variables::SessionVariables;

impl StatementContext<'_> {
    /// How the attempt ended when this error, whose packet comes next, says nothing about the command itself.
    /// The connection goes on behind it.
    pub fn refusal(
        &self,
        handle: &Handle,
        run: &Run,
        outcome: &Outcome,
        read_only: bool,
        pipe: &Pipe,
    ) -> Option<Answer> {
        if let Some(refusal) = lock_waits::waited_across(self.core, self.transaction, run, outcome)
        {
            return Some(Answer::Refused(refusal));
        }
        if is_collision(self, run, outcome.error) {
            return Some(Answer::Collided);
        }
        let refusal = run.refusal(outcome, read_only);
        let refusal = refusal.or_else(|| {
            refusal_in_transaction(
                self.core,
                handle,
                self.client,
                self.variables,
                self.connections,
                outcome,
                pipe,
            )
        });
        refusal.or_else(|| {
            let alone = run.alone && is_free(self.variables.status);
            let plain = run.pipeline.commands.is_empty() && !run.shape.has_several_results();
            let error =
                (alone && plain && !read_only).then(|| read_only_error(self.client, outcome, pipe));
            let error = error.flatten()?;
            Some(Answer::ReadOnly(ServerRefusal {
                number: error.number,
                sqlstate: error.sqlstate,
                message: error.message.to_vec(),
            }))
        })
    }
}

/// The same within a transaction. In one that can be done again elsewhere: the server takes no writes any
/// more. A READ ONLY one is told what a primary says, for a replica of MySQL thinks of itself first.
fn refusal_in_transaction(
    core: &Core,
    handle: &Handle,
    client: &Client,
    variables: &SessionVariables,
    connections: &GroupConnections,
    outcome: &Outcome,
    pipe: &Pipe,
) -> Option<Answer> {
    if variables.status.contains(Status::IN_TRANS_READONLY) {
        let error = read_only_error(client, outcome, pipe);
        return error.map(|_| Answer::Refused(ServerRefusal::in_read_only_transaction()));
    }
    let log = connections.current.replay.as_ref()?;
    if relayed::is_killed(handle) || !is_tended(&core.glance(), connections.current.group) {
        return None;
    }
    let error = log.may_be_repeated().then(|| read_only_error(client, outcome, pipe));
    error.flatten().map(|_| Answer::UNSENT)
}

/// The error that comes next, if it says that the server is read-only.
fn read_only_error<'p>(
    client: &Client,
    outcome: &Outcome,
    pipe: &'p Pipe,
) -> Option<ErrPacket<'p>> {
    outcome.error?;
    let packet = pipe.buffer.get(pipe.ready + HEADER_BYTES..)?;
    let error = ErrPacket::decode(packet, client.capabilities).ok()?;
    says_read_only(error.number, error.message).then_some(error)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory::Budget;
    use mysql_wire::packet;

    use super::*;
    use crate::client::sink::buffer::CAPABILITIES;

    /// What is in the way of a server's reply that begins with this error, behind what is ready to be sent.
    fn pipe(ready: &[u8], number: u16, message: &[u8]) -> Pipe {
        let mut buffer = ready.to_vec();
        let refusal = ErrPacket::new(number, message);
        packet::write_with(&mut buffer, &mut 1, |out| refusal.encode(out, CAPABILITIES));
        Pipe {
            buffer,
            ready: ready.len(),
        }
    }

    fn is_read_only(number: u16, message: &[u8]) -> bool {
        let client = Client::nobody(CAPABILITIES, &Arc::new(Budget::new(1 << 20)));
        let outcome = Outcome {
            error: Some(number),
            ..Outcome::default()
        };
        let pipe = pipe(b"rows before it", number, message);
        read_only_error(&client, &outcome, &pipe).is_some()
    }

    #[test]
    fn a_server_that_takes_no_writes_says_so_itself() {
        let text = b"The MySQL server is running with the --read-only option so it cannot execute \
            this statement";
        assert!(is_read_only(1290, text));
        assert!(!is_read_only(1064, b"You have an error in your SQL syntax"));
    }

    #[test]
    fn a_reply_without_an_error_says_nothing_of_the_kind() {
        let client = Client::nobody(CAPABILITIES, &Arc::new(Budget::new(1 << 20)));
        let pipe = pipe(b"", 1290, b"--read-only");
        assert!(read_only_error(&client, &Outcome::default(), &pipe).is_none());
    }
}
