//! XML-RPC: calls are read, answers and faults written, both as Fabric's clients know them.

mod read;
mod write;

pub use read::{Call, Unreadable, read, read_answer};
pub use write::{call, fault, response};
