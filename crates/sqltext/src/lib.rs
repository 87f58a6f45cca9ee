//! SQL text of both dialects, read by its tokens: what a statement is, not what it means.
//!
//! Job: one pass over a text gives statement class, transaction verbs, facts that tie a session to a
//! connection, a hash of the shape, the positions of literals, and hints ([`Scan::read`]). Further
//! functions read single statements closer: [`assignments`], [`user_variables`], [`kill`],
//! [`heddle_words`].
//!
//! Invariants: any bytes may come in, nothing panics; time is linear; [`Class::Read`] is given only
//! when sure, and words in strings, comments and quoted names never pass for keywords, while words in
//! executed comments do.
//!
//! Must not know: connections, servers, the farm, which server a statement goes to. A text that it
//! does not understand is forwarded all the same, so there are no errors here.

mod assignment;
mod byte;
mod change;
mod classify;
mod clause;
mod comment;
mod diagnostic;
mod digest;
mod facts;
mod functions;
mod hint;
mod identity;
mod insert;
mod keyed;
mod keyword;
mod kill;
mod listing;
mod load;
mod mode;
mod normal;
mod piece;
mod point;
mod quote;
mod rewrite;
mod scan;
mod shape;
mod show;
mod slot;
mod statement;
mod table;
mod tie;
mod token;
mod user_variable;
mod word;
mod xa;

pub use assignment::{Assignment, Assignments, Scope, assignments};
pub use change::{Change, change};
pub use classify::{Class, Verb};
pub use clause::{Clauses, Limit, clauses};
pub use comment::{Origin, SOURCE_TAG_BYTES_MAX};
pub use diagnostic::{ShowDiagnostics, show_diagnostics};
pub use digest::{Digest, NotADigest};
pub use facts::Facts;
pub use functions::{FunctionTraits, is_quiet, traits_of};
pub use hint::{HINT_KEYS, HINTS_MAX, Hints, MsHint, Pair, leading_comments};
pub use identity::identify;
pub use insert::{Insert, Row, Source, insert};
pub use keyed::Keyed;
pub use kill::{Kill, Victim, kill, processlist};
pub use listing::{Listing, listings, with_listings};
pub use load::{Load, Target, load};
pub use mode::{Dialect, Mode, Multibyte};
pub use normal::{may_hold_secret, normalise};
pub use piece::{Piece, PieceKind, pieces};
pub use point::{Point, PointKey, is_written_so, point};
pub use quote::{Edit, edited, put_string, spliced, ticked};
pub use rewrite::{Ask, replace};
pub use scan::{Scan, Span};
pub use show::{ShowFilter, ShowValues, flushes_status, show_values};
pub use slot::{Slot, slots};
pub use table::{TableName, read_tables, tables};
pub use tie::{Tie, tie};
pub use user_variable::{Literal, UserVariable, UserVariables, literal, user_variables, written};
pub use word::{
    Characteristics, Isolation, heddle_rest, heddle_words, statements, transaction, unquote,
    use_database,
};
pub use xa::{Xa, XaName, XaWay, xa};
