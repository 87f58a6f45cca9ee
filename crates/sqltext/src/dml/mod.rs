//! Statements that read and change rows: SELECT, INSERT, REPLACE, UPDATE, DELETE, LOAD DATA.
//!
//! Job: say where the parts of such a statement stand (its tables, clauses, rows, values), so that text can be
//! put between them, or a part taken out.
//!
//! Invariants: a statement that has anything else than its file names has no parts, and nobody guesses.
//!
//! Must not know: what the tables are, where they lie, whether a statement is allowed.

pub(crate) mod change;
pub(crate) mod clause;
pub(crate) mod insert;
pub(crate) mod load;
pub(crate) mod point;
pub(crate) mod table;
