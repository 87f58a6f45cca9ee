//! Where a statement goes: a pure function of the statement, the session's standing and the farm.
//!
//! Job: [`plan`] turns what the tokenizer and the session know into one server, or into a refusal
//! with its reason; [`plan_all`] names all servers of a group. [`Balance`] remembers whose turn it is among
//! replicas. [`rules`] tells what an operator wants done with a statement before that.
//!
//! Invariants: a statement that is not surely a read never gets a replica; inside a transaction or a
//! pin nothing moves; a server that is not alive is never chosen.
//!
//! Must not know: sockets, tasks, clocks, the wire format.

mod all;
mod balance;
mod level;
mod plan;
pub mod rules;
pub mod shard;

pub use all::plan_all;
pub use balance::{Balance, Near, Preferences, Slowness, Strategy, Turn};
pub use level::{LastRead, Level, Need};
pub use plan::{Plan, Reason, Refusal, Standing, plan};
