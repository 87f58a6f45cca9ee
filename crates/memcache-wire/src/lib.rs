//! memcached's text and meta protocols, as a server reads and writes them.
//!
//! Job: [`parse`] finds the next request in a buffer of received bytes, without copying or allocating;
//! [`login`] reads the first command of a client that has to say who it is; [`reply`] and [`meta`]
//! append replies to a buffer. The texts of errors are those of memcached 1.6.
//!
//! Invariants: any bytes may come in, nothing panics; what is not complete consumes nothing; time is
//! linear in the bytes looked at; a request that was parsed obeys the [`Limits`], and its keys are
//! between 1 and 250 bytes without control bytes (or valid base64).
//!
//! Must not know: sockets, clocks, tables, what a key stands for.

mod line;
mod login;
pub mod meta;
mod number;
mod parse;
pub mod reply;
mod request;
mod text;

pub use line::Words;
pub use login::{DENIED, Login, login};
pub use number::{push_number, read_number};
pub use parse::{Limits, Parsed, parse};
pub use request::{Count, Get, KEY_BYTES_MAX, Key, Meta, Request, Store, StoreMode};
