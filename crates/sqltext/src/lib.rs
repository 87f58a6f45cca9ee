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

mod classify;
mod comment;
mod dml;
mod introspection;
mod lexer;
mod scan;
mod session_state;
mod shape;

pub use classify::facts::Facts;
pub use classify::functions::{FunctionTraits, is_quiet, traits_of};
pub use classify::tie::{Tie, tie};
pub use classify::{Class, Verb};
pub use comment::hint::{HINT_KEYS, HINTS_MAX, Hints, MsHint, Pair, leading_comments};
pub use comment::{Origin, SOURCE_TAG_BYTES_MAX, program_tag};
pub use dml::change::{Change, change};
pub use dml::clause::{Clauses, Limit, clauses};
pub use dml::insert::{Insert, Row, Source, insert};
pub use dml::load::{Load, Target, load};
pub use dml::point::{Point, PointKey, is_written_so, point};
pub use dml::table::{TableName, read_tables, tables};
pub use introspection::diagnostic::{ShowDiagnostics, show_diagnostics};
pub use introspection::farm_select::{Comparison, Condition, Selected, Selection, selection};
pub use introspection::farm_show::{FarmShow, ShowWhat, farm_show};
pub use introspection::farm_table::{FarmSchema, FarmTables, farm_tables, with_farm_tables};
pub use introspection::identity::identify;
pub use introspection::kill::{Kill, Victim, kill, processlist};
pub use introspection::listing::{Listing, listings, with_listings};
pub use introspection::replica::is_of_replica;
pub use introspection::rewrite::{Ask, replace};
pub use introspection::show::{ShowFilter, ShowValues, flushes_status, show_values};
pub use lexer::mode::{Dialect, Mode, Multibyte};
pub use lexer::piece::{Piece, PieceKind, pieces};
pub use lexer::quote::{Edit, edited, put_string, spliced, ticked};
pub use scan::{Scan, Span};
pub use session_state::assignment::{Assignment, Assignments, Scope, assignments};
pub use session_state::user_variable::{
    Literal, UserVariable, UserVariables, literal, user_variables, written,
};
pub use session_state::word::{
    Characteristics, Isolation, heddle_rest, heddle_words, statements, transaction, unquote,
    use_database,
};
pub use session_state::xa::{Xa, XaName, XaWay, xa};
pub use shape::digest::{Digest, NotADigest};
pub use shape::keyed::{Keyed, KeyedHasher, KeyedMap, KeyedSet, KeyedState};
pub use shape::normal::{may_hold_secret, normalise};
pub use shape::slot::{Slot, slots};
