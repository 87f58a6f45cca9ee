//! A text as tokens, as the lexers of both servers cut it.
//!
//! Job: cut a text into tokens ([`token`]), find keywords among them, say what the meaning of a text depends on
//! besides its bytes ([`mode`]), and write names and strings as SQL has them ([`quote`]).
//!
//! Invariants: any bytes may come in; tokens come in order, never overlap, and take linear time.
//!
//! Must not know: statements, clauses, what anybody does with a token.

pub(crate) mod byte;
pub(crate) mod keyword;
pub(crate) mod mode;
pub(crate) mod piece;
pub(crate) mod quote;
pub(crate) mod token;
