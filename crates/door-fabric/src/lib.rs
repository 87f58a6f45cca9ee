//! The Fabric door: the farm as MySQL Fabric's clients ask for it, by XML-RPC or by CALLs of MySQL's protocol.
//!
//! Job: read calls of Fabric 1.4 to 1.6, have Heddle's commands carry them out, and answer in the form that
//! each client reads.
//!
//! Invariants: what a client sends is bounded in bytes, depth and values before anything is made of it; a
//! look-up reads the published snapshot and asks nobody; every command needs its right ([`farm::Access`]),
//! which is that of Heddle's own command.
//!
//! Must not know: sockets of HTTP, statements, sessions, how a command works.

mod answer;
mod arguments;
mod client;
pub mod digest;
mod door;
#[cfg(test)]
mod every_command;
mod http;
mod lookup;
mod mysql;
mod procedures;
mod shape;
mod statistics;
mod table;
mod value;
pub mod xml;

pub use client::{Form, Replies};
pub use door::{Door, Options};
pub use http::paths;
pub use mysql::MysqlDoor;
pub use statistics::Counts;
pub use table::{Command, Param, TABLE};
pub use value::Value;
