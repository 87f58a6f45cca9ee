//! Putting write tags in front of statements.

use backend::Connection;
use mysql_wire::packet::{HEADER_BYTES, Header};
use mysql_wire::relay::Expect;

use crate::client::request::Request;
use crate::consistency::promises::Promises;
use crate::consistency::write_tags::{COMMENT_BYTES_MAX, Comment};
use crate::execution::exec::{Job, Run, Shape};
use crate::per_core::Core;

/// A text longer than this goes without a write tag, so that it stays within one packet and within what
/// servers take.
const TEXT_BYTES_MAX: usize = (16 << 20) - 128;

impl Promises {
    /// True when this statement is marked on this connection.
    pub fn tags(&self, connection: &Connection, shape: &Shape) -> bool {
        shape.tagged && self.tags_on && !connection.is_guarded()
    }
}

/// The comment for a statement on this connection; empty where it gets none.
pub(crate) fn tag_for(
    core: &Core,
    promises: &Promises,
    connection: &Connection,
    shape: &Shape,
) -> Comment {
    match promises.tags(connection, shape) {
        true => core.write_tags.comment(connection),
        false => Comment::NONE,
    }
}

/// The current command and the pipeline behind it with the write tags that belong to them, in a buffer of
/// the core, to which it goes back; `None` when none does, and the client's own bytes may be sent.
pub(crate) fn tagged(
    core: &Core,
    request: &Request,
    promises: &Promises,
    connection: &Connection,
    run: &Run,
) -> Option<Vec<u8>> {
    let carries = |shape: &Shape, job: Job| {
        matches!(job, Job::Frame(Expect::Results) | Job::Prepare(_))
            && promises.tags(connection, shape)
    };
    let commands = &run.pipeline.commands;
    let first = carries(&run.shape, run.job) && !request.is_split();
    if !first && !commands.iter().any(|command| carries(&command.shape, command.job)) {
        return None;
    }
    let comment = core.write_tags.comment(connection);
    let mut rest = request.frames(run.pipeline.bytes);
    let mut out = core.take_buffer();
    out.reserve(rest.len() + (commands.len() + 1) * COMMENT_BYTES_MAX);
    let tagged = commands.iter().map(|command| carries(&command.shape, command.job));
    for tagged in std::iter::once(first).chain(tagged) {
        let bytes = Header::parse(rest).map_or(0, |header| header.payload_bytes);
        let frame = rest.get(..HEADER_BYTES + bytes)?;
        match tagged && bytes < TEXT_BYTES_MAX {
            true => tag_frame(&mut out, frame, comment.as_bytes()),
            false => out.extend_from_slice(frame),
        }
        rest = &rest[frame.len()..];
    }
    // What is left belongs to a command of several packets.
    out.extend_from_slice(rest);
    Some(out)
}

/// Writes a COM_QUERY or COM_STMT_PREPARE with the comment in front of its text. It is shorter than a packet may be;
/// see [`TEXT_BYTES_MAX`].
fn tag_frame(out: &mut Vec<u8>, frame: &[u8], comment: &[u8]) {
    let (command, text) = frame[HEADER_BYTES..].split_at(1);
    let header = Header {
        payload_bytes: command.len() + comment.len() + text.len(),
        sequence: 0,
    };
    for part in [&header.encode()[..], command, comment, text] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use mysql_wire::packet;

    use super::*;

    #[test]
    fn the_tag_stands_in_front_of_the_text() {
        let mut frame = Vec::new();
        packet::write(&mut frame, &mut 0, b"\x03INSERT");
        let mut out = Vec::new();
        tag_frame(&mut out, &frame, b"/*heddle:a-1*/ ");
        assert_eq!(&out[HEADER_BYTES..], b"\x03/*heddle:a-1*/ INSERT");
        assert_eq!(usize::from(out[0]), out.len() - HEADER_BYTES);
    }
}
