//! The flight recorder: what a router did last, step by step, in a form that outlives the router.
//!
//! Job: each thread that has a ring writes its steps there ([`note`]); a ring is memory that somebody else maps from a
//! file. What stands in rings and in dumps is read back ([`read`]) and put in order ([`Timeline`]).
//!
//! Invariants: a step costs four stores, no lock, no allocation, no system call; it holds numbers and never data, texts
//! or secrets; a record that was cut off while it was written is told from a whole one; reading takes any bytes and
//! never more memory than they have.
//!
//! # The format
//!
//! A trace is one section behind the other. A section is a head of 128 bytes and a body; numbers are little-endian.
//!
//! | bytes of the head | what |
//! | --- | --- |
//! | 0-7 | `HEDLREC` and a line feed |
//! | 8-11, 12-15 | version of the format, kind of the section (1: ring, 2: notes) |
//! | 16-23 | length of the body |
//! | 24-27, 28-31 | core (the largest number: the control plane), process |
//! | 32-39 | the moment from which times count, in microseconds since 1970 |
//! | 40-47 | check of the bytes before |
//!
//! The body of a ring is records of 32 bytes: number (48 bits, from 1 on) and check (16); time in microseconds (48), kind
//! of step and code (8 each); session (32) and a first value (32); a second value (64). Record `n` of a ring for `c`
//! records stands in place `(n - 1) % c`. The body of notes is lines of words: `server ID ADDRESS GROUP`, `group NUMBER
//! NAME`, `cause WORD`, `version WORD`.
//!
//! Must not know: files, signals, what time it is, the farm; what a step means to who takes it.

mod codes;
mod field;
mod format;
mod notes;
mod ring;
mod step;
mod timeline;

pub use codes::{Awaited, End, Moment, Question, Reason, Retry, Told};
pub use field::{Digest, Group, Server, Value};
pub use format::{CONTROL, Entry, NotATrace, RingRead, Trace, read};
pub use notes::Notes;
pub use ring::{Ring, bytes_of, install, note, remove};
pub use step::Step;
pub use timeline::{Filter, Line, Timeline};
