//! The HTTP door: health, metrics, the farm as JSON, the commands, and one page for people.
//!
//! Job: turn HTTP requests into commands of `control` and their answers into JSON.
//!
//! Invariants: GET changes nothing; what changes something needs the bearer token; a request whose
//! Host or Origin is foreign is refused before it is looked at (DNS rebinding); bodies are bounded.
//!
//! Must not know: SQL, sessions, how a command works.

mod answer;
mod commands;
mod condition;
mod connection;
mod guard;
pub mod metrics;
mod page;
pub mod peers;
mod rows;
mod server;

pub use metrics::{Family, Kind, Metrics, Sample};
pub use peers::HttpPeers;
pub use rows::{Act, Column, Only, Rows, Told, Wanted};
pub use server::{Door, Error, Settings};
