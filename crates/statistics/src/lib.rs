//! What is counted of statements: by digest, by kind and door, by error, and the slow ones one by one.
//!
//! Job: one core's [`Digests`], which the core alone writes to, the rows that others take of them and add up
//! ([`Row`], [`joined`]), the histograms that `/metrics` shows ([`Measured`]), and the queues of slow statements and of
//! traced ones ([`SlowQueue`], [`TraceQueue`]).
//!
//! Invariants: a statement costs two look-ups in maps of its core, no lock and, once its row is there, no allocation;
//! memory is bounded by a setting, and what goes for it is counted; nobody waits for a reader, and no reader holds a
//! core for longer than a slice of rows takes.
//!
//! Must not know: sessions and servers, what time it is, how anything is shown or written.

mod counts;
mod digests;
mod exemplars;
mod histogram;
mod history;
mod measured;
mod row;
mod saved;
mod settings;
mod slow;
mod table;
mod trace;

pub use counts::{Call, Counts, ERRORS_MAX};
pub use digests::Digests;
pub use exemplars::{Exemplar, Exemplars};
pub use histogram::{BUCKETS, Histogram, above_us, bucket};
pub use history::{History, Minute, Past};
pub use measured::{Door, Kind, Latency, Measured, OfCore};
pub use row::{Row, joined};
pub use saved::{MinuteReader, MinuteWriter};
pub use settings::Settings;
pub use slow::{QUEUE_MAX, Slow, SlowQueue, queue};
pub use table::{Name, TEXT_BYTES_MAX, Table};
pub use trace::{
    Failed, Peer, Span, Stage, TRACES_MAX, TraceContext, TraceQueue, Traced, trace_queue,
};
