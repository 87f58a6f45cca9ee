//! The HTTP door: health, metrics, the farm as JSON, the commands, and the web console.
//!
//! Job: turn HTTP requests into commands of `control` and their answers into JSON.
//!
//! Invariants: everything but change streams and the console's live picture, which have a thread each, runs on the door's own thread, and what it asks of the control plane goes
//! through the commander's queue or is one short look; GET changes nothing; every path and command needs its right ([`farm::Access`]); a request whose
//! Host or Origin is foreign is refused before it is looked at (DNS rebinding); connections, heads and bodies are bounded, and no client
//! is waited for without a deadline.
//!
//! Must not know: SQL, sessions, how a command works.

mod answer;
mod body;
mod census;
mod change_stream;
pub mod client;
mod commands;
mod condition;
mod connection;
mod console;
mod counted;
mod guard;
pub mod metrics;
mod peer_tls;
pub mod peers;
mod rows;
mod server;
mod serving;

pub use metrics::{Exemplar, Family, Kind, Metrics, Sample};
pub use peers::HttpPeers;
pub use rows::{Act, Column, Only, Rows, Told, Wanted};
pub use server::{Door, Error, Guest, Settings};
pub use serving::{Certificate, Demand};
