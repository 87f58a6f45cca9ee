//! What the farm's state store keeps, and what commands, events and versions of the configuration are.
//!
//! Job: types and their encodings for everybody who stores, calls or shows: the records of the farm
//! ([`Records`]), the versions of its configuration ([`configuration`]), commands with their table, calls and
//! answers ([`command`]), events ([`event`]).
//!
//! Invariants: a record that is written can be read by every later release; fields may be added, never renamed.
//! A command stands in one table, with its right and with what it changes.
//!
//! Must not know: servers, sessions, doors, who carries a command out and how.

pub mod bounds;
pub mod command;
pub mod configuration;
mod error;
pub mod event;
pub mod identity;
mod method;
pub mod record;
mod secret;
pub mod server_key;
pub mod sink;
pub mod subscription;

pub use command::{Call, CommandError, Table, cure};
pub use error::Error;
pub use event::Event;
pub use method::Method;
pub use record::Records;
pub use secret::Secret;
