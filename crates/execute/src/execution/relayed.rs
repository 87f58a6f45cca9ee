//! What an attempt asks and does beside the reply: a file for LOAD DATA, warnings, the room for more, and whether
//! the statement was killed meanwhile.

use crate::client::end::End;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::client::{Client, local_file};
use crate::execution::exec::{Answer, Job, Loss, PipelinedCommand, Run};
use crate::execution::pipe::Pipe;
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::transaction::resume::Tally;
use backend::{Connection, Questions, Residue, ends_connection};
use farm::Engine;
use mysql_wire::command::Command;
use mysql_wire::relay::Relay;

/// ER_QUERY_INTERRUPTED.
const QUERY_INTERRUPTED: u16 = 1317;

/// The server wants a file of the client's.
pub(crate) async fn ask_file(
    core: &Core,
    handle: &Handle,
    client: &mut Client,
    connection: &mut Connection,
    relay: &mut Relay,
) -> Result<(), End> {
    if !local_file::pass_file(core, handle, client, connection, relay).await? {
        // What the server said before it went may still be there to read.
        connection.condemn();
    }
    Ok(())
}

/// True for an error by which the server goes, or ends a connection that is Heddle's: nothing that
/// a client asked for.
pub(crate) async fn ends(
    handle: &Handle,
    connection: &mut Connection,
    run: &Run,
    number: u16,
) -> bool {
    if is_killed(handle) {
        return false;
    }
    // MySQL says no more of a connection that it ends than of a statement.
    let unclear = number == QUERY_INTERRUPTED
        && connection.engine() == Engine::MySql
        && run.pipeline.commands.is_empty();
    ends_connection(number)
        || (unclear && Box::pin(connection.run(&[(Command::Ping, b"")])).await.is_err())
}

/// Somebody ends the session or its statement through Heddle.
pub(crate) fn is_killed(handle: &Handle) -> bool {
    handle.killed.get() || handle.at_servers.killing.get() != 0
}

/// Sends what is ready in the pipe and removes it from there.
pub(crate) async fn forward(
    client: &mut impl ReplySink,
    run: &mut StatementRun,
    pipe: &mut Pipe,
) -> Result<(), End> {
    let bytes = std::mem::take(&mut pipe.ready);
    if bytes == 0 {
        return Ok(());
    }
    run.profile.sent(bytes);
    let buffer = std::mem::take(&mut pipe.buffer);
    run.record(&buffer[..bytes]);
    let (sent, back) = client.send(buffer, 0..bytes).await;
    pipe.buffer = back;
    if bytes == pipe.buffer.len() {
        pipe.buffer.clear();
    } else {
        pipe.buffer.drain(..bytes);
    }
    sent.map_err(|_| End::Gone)
}

/// Asks for the warnings of a PREPARE, for the connection need not be that of the statement before.
pub(crate) async fn ask_warnings(connection: &mut Connection) -> Option<Box<Residue>> {
    let questions = Questions {
        warnings: true,
        ..Questions::default()
    };
    connection.residue(&questions).await.ok().map(Box::new)
}

/// What a refusal means when a part of the reply may have been sent on; `next` is the number of the
/// packet behind that part. None: the client gets the rest as it is.
pub(crate) fn behind(
    refused: Answer,
    forwarded: bool,
    next: Option<u8>,
    tally: Option<&Tally>,
) -> Option<Answer> {
    match (refused, tally) {
        (refused, _) if !forwarded => Some(refused),
        (Answer::Lost(_), Some(tally)) => {
            Some(Answer::Lost(Loss::within(next, Some(tally.sent()))))
        }
        _ => None,
    }
}

/// Gives up the pipeline behind the current command: its commands come again as if they had never
/// been sent, which is true for their effects when they were reads of a READ ONLY session. True
/// when there was one: then the connection has replies that nobody will read.
pub(crate) fn leave_pipeline(client: &mut Client, run: &mut Run) -> bool {
    if run.pipeline.commands.is_empty() {
        return false;
    }
    let place = client.request.place();
    for command in std::mem::take(&mut run.pipeline).commands {
        client.step();
        readdress(&mut client.request, &command);
    }
    client.go_back(place);
    true
}

/// Writes the client's own id of a statement back into the current command.
pub(crate) fn readdress(request: &mut Request, command: &PipelinedCommand) {
    if let Job::Execute(id) = command.job {
        request.patch(1, &id.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::sink::buffer::now;

    #[test]
    fn what_was_walked_is_forwarded_and_counted_and_the_rest_stays() {
        let (mut sink, mut run) = (Vec::new(), StatementRun::default());
        run.recording = Some(Vec::new());
        let mut pipe = Pipe {
            buffer: b"walked, not walked".to_vec(),
            ready: 6,
        };
        assert!(now(forward(&mut sink, &mut run, &mut pipe)).is_ok());
        assert_eq!((&*sink, &*pipe.buffer, pipe.ready), (&b"walked"[..], &b", not walked"[..], 0));
        assert_eq!((run.profile.bytes(0), run.recording.as_deref()), (6, Some(&b"walked"[..])));
        assert!(now(forward(&mut sink, &mut run, &mut pipe)).is_ok());
        assert_eq!(sink, b"walked", "nothing is ready");
        pipe.ready = pipe.buffer.len();
        assert!(now(forward(&mut sink, &mut run, &mut pipe)).is_ok());
        assert_eq!((&*sink, pipe.buffer.len()), (&b"walked, not walked"[..], 0));
    }
}
