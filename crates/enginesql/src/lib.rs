//! The SQL that servers are spoken to in: what both planes send, and in which words each release takes it.
//!
//! Job: statements and expressions as texts. The words of replication and of the binary log by engine and
//! release ([`words`]), positions and waits for them ([`position`]), the tables and routines by which
//! transactions over several groups are decided ([`decision`]), the seals that those routines check
//! ([`seal`]), and string literals ([`literal`]).
//!
//! Invariants: every function is pure. A value that stands in a text is a number, hexadecimal digits, or a
//! quoted literal. A text that depends on the server's release asks for its [`Version`].
//!
//! Must not know: connections, who sends a text and when, what the answer means.

pub mod decision;
pub mod literal;
pub mod position;
pub mod seal;
mod version;
pub mod words;

pub use literal::quoted;
pub use version::Version;
