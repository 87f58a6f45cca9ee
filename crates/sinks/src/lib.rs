//! Targets outside the farm to which change streams are delivered: webhooks, files, message brokers.
//!
//! Job: make messages of a stream's lines, each with an id that is the same whenever the event is told again, and
//! bring batches of them to a target. Its client of HTTP is everybody's ([`Poster`]).
//!
//! Invariants: what [`Target::deliver`] was `Ok` for is as durable as the target makes anything; a batch that failed
//! may have been delivered whole, in part or not at all, and is delivered again with the same ids.
//!
//! Must not know: the farm, its records, who leads, and how often a delivery is tried.

mod account;
mod files;
mod http;
mod kafka;
mod link;
mod message;
mod nats;
mod spec;
mod target;
mod undelivered;
mod webhook;

pub use account::Account;
pub use http::{Answer, Poster, Url, trust};
pub use kafka::Mechanism;
pub use message::{Message, Read, Record, read};
pub use spec::{Brokers, Compression, Format, Place, Spec, Topics};
pub use target::{Means, Target};
pub use undelivered::Undelivered;
pub use webhook::signature;
