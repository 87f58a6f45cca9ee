//! Traced statements on their way from the cores to whoever exports them, and which statements are traced.
//!
//! A client's word counts: the trace context of the W3C that came with a statement says whether it is traced. Where a
//! client says nothing, one of so many is.
//!
//! The queue is bounded: when it is full, a statement is dropped, and the core that wanted to hand it over counts
//! that. A core never waits.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sqltext::Digest;

use crate::counts::Call;
use crate::measured::{Door, Kind};

/// So many traced statements wait to be exported.
pub const TRACES_MAX: usize = 4096;

/// The flag by which a client says that it records the trace.
const SAMPLED: u8 = 1;

/// Which span a statement is: of which trace, under which parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    pub trace: [u8; 16],
    pub span: [u8; 8],
    /// The client's span; `None` where Heddle began the trace.
    pub parent: Option<[u8; 8]>,
}

/// What a client's `traceparent` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parent {
    trace: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl Parent {
    /// Reads `VERSION-TRACE-PARENT-FLAGS`; `None` for what names no trace.
    fn read(text: &str) -> Option<Parent> {
        let mut parts = text.split('-');
        let mut next = || parts.next();
        let (version, trace, span, flags) = (next()?, next()?, next()?, next()?);
        let [version] = bytes(version)?;
        let [flags] = bytes(flags)?;
        let parent = Parent {
            trace: bytes(trace)?,
            span: bytes(span)?,
            sampled: flags & SAMPLED != 0,
        };
        let named = parent.trace != [0; 16] && parent.span != [0; 8];
        (named && version != 0xFF).then_some(parent)
    }
}

/// The bytes of hexadecimal digits.
fn bytes<const N: usize>(digits: &str) -> Option<[u8; N]> {
    let mut all = [0; N];
    if digits.len() != 2 * N || !digits.is_ascii() {
        return None;
    }
    for (at, byte) in all.iter_mut().enumerate() {
        *byte = u8::from_str_radix(digits.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(all)
}

/// Chooses what is traced on one core, and names it.
#[derive(Debug)]
pub(crate) struct Sampler {
    /// Of a generator that goes through all numbers (splitmix64); where it began, nobody can guess.
    state: Cell<u64>,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler {
            state: Cell::new(RandomState::new().hash_one(0)),
        }
    }
}

impl Sampler {
    /// The statement's span; `None` where it is not to be traced. `parent`: the client's `traceparent`, or nothing.
    /// Of statements without one, one of `one_in` is traced; 0 for none.
    pub fn begin(&self, parent: &str, one_in: u64) -> Option<TraceContext> {
        match Parent::read(parent) {
            Some(parent) => parent.sampled.then(|| TraceContext {
                trace: parent.trace,
                span: self.id(),
                parent: Some(parent.span),
            }),
            None if one_in == 0 || !self.next().is_multiple_of(one_in) => None,
            None => {
                let (high, low) = (self.id(), self.id());
                let mut trace = [0; 16];
                trace[..8].copy_from_slice(&high);
                trace[8..].copy_from_slice(&low);
                Some(TraceContext {
                    trace,
                    span: self.id(),
                    parent: None,
                })
            }
        }
    }

    /// A name that is not nothing.
    fn id(&self) -> [u8; 8] {
        self.next().max(1).to_be_bytes()
    }

    fn next(&self) -> u64 {
        let state = self.state.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.state.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// What a part of a statement's time was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A server was chosen, and a connection to it made ready.
    Connection,
    /// A replica was waited for to have what the session's reads need.
    Position,
    /// A primary was waited for.
    Primary,
    /// A server worked, and its reply went to the client.
    Server,
    /// Several groups worked; what each did is a part of it.
    Groups,
    /// Behind the servers' answers: a commit over several groups, and what was left of putting rows together.
    End,
    /// Heddle itself had a server do something for it: a branch of a transaction over several groups, from its
    /// beginning to its commit. By the first words of the command.
    Command(&'static str),
}

/// The server that something ran on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// `mysql` or `mariadb`; empty where nobody knows it any more.
    pub engine: &'static str,
    pub group: String,
    pub host: String,
    pub port: u16,
}

/// How something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    /// With a server's error of this number.
    Error(u16),
    /// It was to run elsewhere, or again: why.
    Retried(&'static str),
}

/// A part of a statement's time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub stage: Stage,
    /// Since 1970, in nanoseconds.
    pub began_ns: u64,
    pub ended_ns: u64,
    /// The place of the span that it is a part of; `None`: the statement itself.
    pub within: Option<usize>,
    pub peer: Option<Peer>,
    pub failed: Option<Failed>,
    /// What the server sent, where that is known.
    pub rows: Option<u64>,
}

/// A traced statement that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    pub context: TraceContext,
    pub call: Call,
    pub kind: Kind,
    pub door: Door,
    /// The id of its session.
    pub session: u32,
    pub user: String,
    /// Where its client is, as the kernel says it; `None` of a session of Heddle's own, and behind a Unix socket.
    pub client: Option<std::net::SocketAddr>,
    pub database: String,
    /// It was prepared, and not executed.
    pub prepares: bool,
    /// A group's name, `*` for several, empty where none was asked.
    pub group: String,
    /// `None` for a text that is too long.
    pub digest: Option<Digest>,
    /// The normal form, without literals; empty where nobody knows it.
    pub text: String,
    pub tag: String,
    /// Times that it was sent again.
    pub retries: u32,
    /// Since 1970, in nanoseconds.
    pub began_ns: u64,
    pub ended_ns: u64,
    /// What it did, a part behind what it is a part of.
    pub spans: Vec<Span>,
}

/// Takes traced statements.
#[derive(Clone, Debug)]
pub struct TraceQueue(SyncSender<Traced>);

/// A queue, and its other end.
pub fn trace_queue() -> (TraceQueue, Receiver<Traced>) {
    let (sender, receiver) = sync_channel(TRACES_MAX);
    (TraceQueue(sender), receiver)
}

impl TraceQueue {
    /// Hands a statement over; false where it was dropped.
    pub fn offer(&self, traced: Traced) -> bool {
        self.0.try_send(traced).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_clients_word_counts() {
        let sampler = Sampler::default();
        for one_in in [0, 1, 1000] {
            let context = sampler.begin(PARENT, one_in).expect("it is recorded");
            assert_eq!(context.trace[..2], [0x4b, 0xf9]);
            assert_eq!(
                context.parent,
                Some([0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7])
            );
            let unsampled = PARENT.replace("-01", "-00");
            assert_eq!(sampler.begin(&unsampled, one_in), None);
        }
        let [first, second] = [(); 2].map(|()| sampler.begin(PARENT, 0));
        assert_ne!(first.map(|it| it.span), second.map(|it| it.span));
    }

    #[test]
    fn what_names_no_trace_is_no_parent() {
        for odd in [
            "",
            "x",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473ä-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Parent::read(odd), None, "{odd}");
            assert_eq!(Sampler::default().begin(odd, 0), None);
        }
    }

    #[test]
    fn one_of_so_many_begins_a_trace() {
        let sampler = Sampler::default();
        let count = |one_in| {
            let begun = (0..10_000).filter_map(|_| sampler.begin("", one_in));
            begun.count()
        };
        assert_eq!((count(0), count(1)), (0, 10_000));
        let tenth = count(10);
        assert!((700..1300).contains(&tenth), "{tenth}");
        let context = sampler.begin("", 1).expect("it is traced");
        assert!(context.parent.is_none() && context.trace != [0; 16]);
    }

    #[test]
    fn a_full_queue_drops() {
        let (queue, receiver) = trace_queue();
        let traced = Traced {
            context: TraceContext {
                trace: [1; 16],
                span: [2; 8],
                parent: None,
            },
            call: Call::default(),
            kind: Kind::Read,
            door: Door::Sql,
            session: 1,
            user: String::new(),
            client: None,
            database: String::new(),
            prepares: false,
            group: String::new(),
            digest: None,
            text: String::new(),
            tag: String::new(),
            retries: 0,
            began_ns: 0,
            ended_ns: 0,
            spans: Vec::new(),
        };
        let taken = (0..TRACES_MAX + 10)
            .filter(|_| queue.offer(traced.clone()))
            .count();
        assert_eq!(taken, TRACES_MAX);
        drop(receiver);
        assert!(!queue.offer(traced), "nobody exports any more");
    }
}
