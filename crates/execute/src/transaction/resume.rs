//! Reads that go on after their server was lost in the middle of the result: they run again, as many
//! bytes as the client has are swallowed, and the rest follows only when those were the same.
//!
//! What the client has is kept as a length and a checksum, and only of replies that take more than one
//! send: the usual reply costs nothing.

use crc32fast::Hasher;

use crate::execution::exec::Loss;
use crate::execution::pipe::Pipe;

/// A reply of which the client has the beginning.
#[derive(Clone, Copy, Debug)]
pub struct Resume {
    pub sent: Sent,
    /// How the first attempt ended.
    pub loss: Loss,
}

/// The beginning of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    bytes: u64,
    checksum: u32,
}

/// What has passed of a reply.
#[derive(Default)]
pub(crate) struct Tally {
    bytes: u64,
    sum: Hasher,
    /// What the client had before this attempt, until it has been swallowed.
    before: Option<Resume>,
}

impl Tally {
    /// The tally of a reply whose beginning the client has already.
    pub fn after(resume: Resume) -> Box<Tally> {
        Box::new(Tally {
            before: Some(resume),
            ..Tally::default()
        })
    }

    /// Takes note of what is ready in the pipe, if the reply is to be counted: it goes on behind what
    /// the client has, or is `counted` because it may be gone on with and is not done with its first
    /// piece. False when the client has another beginning.
    pub fn takes(
        tally: &mut Option<Box<Tally>>,
        pipe: &mut Pipe,
        counted: bool,
        done: bool,
    ) -> bool {
        if tally.is_none() && (done || !counted) {
            return true;
        }
        let tally = tally.get_or_insert_default();
        tally.pass(pipe) && !(done && tally.swallows())
    }

    /// The beginning that the client has is not swallowed yet.
    pub fn swallows(&self) -> bool {
        self.before.is_some()
    }

    /// What the client has now.
    pub fn sent(&self) -> Sent {
        match self.before {
            Some(before) => before.sent,
            None => Sent {
                bytes: self.bytes,
                checksum: self.sum.clone().finalize(),
            },
        }
    }

    /// How the attempt before ended, while nothing of this one has passed.
    pub fn loss_before(&self) -> Option<Loss> {
        self.before.map(|before| before.loss)
    }

    /// Takes note of the bytes that are ready in the pipe; those that the client has are taken out of
    /// it. False when they are not the same: then nothing of the pipe may go to the client.
    fn pass(&mut self, pipe: &mut Pipe) -> bool {
        let Some(before) = self.before else {
            self.count(&pipe.buffer[..pipe.ready]);
            return true;
        };
        let left = before.sent.bytes - self.bytes;
        let swallowed = usize::try_from(left).map_or(pipe.ready, |left| left.min(pipe.ready));
        self.count(&pipe.buffer[..swallowed]);
        if self.bytes == before.sent.bytes {
            self.before = None;
            if self.sent() != before.sent {
                return false;
            }
            self.count(&pipe.buffer[swallowed..pipe.ready]);
        }
        pipe.buffer.drain(..swallowed);
        pipe.ready -= swallowed;
        true
    }

    fn count(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.sum.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOSS: Loss = Loss {
        unsent: false,
        forwarded: true,
        file: false,
        sequence: None,
        sent: None,
    };

    fn pipe(ready: &[u8], behind: &[u8]) -> Pipe {
        Pipe {
            buffer: [ready, behind].concat(),
            ready: ready.len(),
        }
    }

    /// A tally behind these bytes.
    fn resumed(bytes: &[u8]) -> Box<Tally> {
        let mut tally = Tally::default();
        assert!(tally.pass(&mut pipe(bytes, b"")));
        Tally::after(Resume {
            sent: tally.sent(),
            loss: LOSS,
        })
    }

    #[test]
    fn the_beginning_is_swallowed_in_whatever_pieces_it_comes() {
        for cut in 0..=6 {
            let mut tally = resumed(b"abcdef");
            let mut first = pipe(&b"abcdef"[..cut], b"more");
            assert!(tally.pass(&mut first));
            assert_eq!((first.ready, &first.buffer[..]), (0, &b"more"[..]));
            let mut second = pipe(&b"abcdefgh"[cut..], b"i");
            assert!(tally.pass(&mut second));
            assert_eq!((second.ready, &second.buffer[..]), (2, &b"ghi"[..]));
            assert!(!tally.swallows());
            // What follows counts from the very beginning.
            let mut whole = Tally::default();
            assert!(whole.pass(&mut pipe(b"abcdefgh", b"")));
            assert_eq!(tally.sent(), whole.sent());
        }
    }

    #[test]
    fn another_beginning_is_refused_and_a_shorter_one_is_not_over() {
        let mut tally = resumed(b"abcdef");
        assert!(!tally.pass(&mut pipe(b"abcdeFgh", b"")));
        let mut tally = resumed(b"abcdef");
        assert!(tally.pass(&mut pipe(b"xyz", b"")));
        assert!(tally.swallows());
        assert!(!tally.pass(&mut pipe(b"def", b"")));
    }
}
