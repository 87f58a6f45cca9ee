//! What the tokenizer says of a text, as the shape of a statement.
//!
//! Must not know: what is done with the statement, and where it goes.

use std::borrow::Cow;

use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use sqltext::{Class, Facts, Verb};

use crate::client::Client;
use crate::client::request::Request;
use crate::consistency::consistency_hints::{Asked, hinted};
use crate::consistency::write_tags::is_taggable;
use crate::execution::exec::Shape;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::variables::session_variables::SessionVariables;
use crate::variables::tracking::mentions_tracking;
use crate::variables::user_variables;

/// Puts the id that the client knows where the current text asks for its connection's.
#[cold]
pub fn identify(
    core: &Core,
    handle: &Handle,
    request: &mut Request,
    variables: &SessionVariables,
    shape: &mut Shape,
) {
    let frame = request.frame();
    let text = match request.is_split() {
        true => Cow::Owned(packet::joined(frame).split_off(1)),
        false => Cow::Borrowed(&request.payload()[1..]),
    };
    let identified = sqltext::identify(&text, &variables.mode, handle.id);
    if let Some(identified) = identified {
        user_variables::leave_text(core, variables, shape, &text);
        request.replace_text(&identified);
    }
}

/// True for a client whose texts and executions come with attributes (MySQL).
pub fn has_attributes(client: &Client) -> bool {
    let attributes = Capabilities::QUERY_ATTRIBUTES;
    client.capabilities.contains(attributes)
}

/// What the tokenizer says of the current command's text.
pub fn query_shape(core: &Core, request: &Request, variables: &SessionVariables) -> Shape {
    let mut shape = core.shape(&request.payload()[1..], &variables.mode);
    if request.is_split() {
        // Only the first 16 MB were read: what follows may write.
        shape.writes = true;
        shape.class = if shape.class == Class::Read {
            Class::Write
        } else {
            shape.class
        };
    }
    shape.heed_hint();
    shape
}

impl Core {
    /// What the tokenizer says of a text.
    pub fn shape(&self, text: &[u8], mode: &sqltext::Mode) -> Shape {
        let mut scan = self.statements.scan.borrow_mut();
        scan.read(text, mode);
        let asked = match scan.hint.is_empty() {
            true => Ok(Asked::default()),
            false => hinted(&scan.hint, text),
        };
        let bad_hint = asked.is_err();
        let asked = asked.unwrap_or_default();
        Shape {
            class: scan.class,
            verb: scan.verb,
            facts: scan.facts,
            hint: scan.hint.ms,
            hash: scan.shape,
            folds: scan.folds,
            scan: scan.number,
            tagged: is_taggable(scan.class, scan.verb, scan.facts),
            tracking: mentions_tracking(text, scan.class, scan.facts),
            writes: writes(text, scan.class, scan.verb, scan.facts),
            level: asked.level,
            cache_ttl_s: asked.cache_ttl_s,
            bad_hint,
            shard_hint: asked.shard,
        }
    }
}

/// After such a statement replicas may lack what the session has done.
fn writes(text: &[u8], class: Class, verb: Verb, facts: Facts) -> bool {
    match class {
        Class::Write | Class::Ddl | Class::Call => true,
        Class::Other => !is_question(text, verb, facts),
        Class::Read
        | Class::Transaction
        | Class::Set
        | Class::Use
        | Class::Show
        | Class::Lock
        | Class::Local
        | Class::Empty => false,
    }
}

/// Words before a parenthesis that is no call. A routine named so is called by a quoted name only.
const WORDS: [&str; 34] = [
    "all",
    "and",
    "any",
    "as",
    "between",
    "by",
    "case",
    "distinct",
    "else",
    "except",
    "exists",
    "from",
    "having",
    "in",
    "index",
    "intersect",
    "interval",
    "join",
    "key",
    "like",
    "not",
    "on",
    "or",
    "over",
    "partition",
    "select",
    "some",
    "then",
    "union",
    "using",
    "values",
    "when",
    "where",
    "xor",
];

/// A query that is no [`Class::Read`] only because it asks about its session or server, as drivers do
/// when they connect: it calls nothing that could write.
fn is_question(text: &[u8], verb: Verb, facts: Facts) -> bool {
    let about = Facts::SYSTEM_VARIABLE
        | Facts::SERVER_SCHEMA
        | Facts::USER_VARIABLE
        | Facts::CONNECTION_ID
        | Facts::LAST_INSERT_ID
        | Facts::FOUND_ROWS
        | Facts::FOUND_ROWS_SET
        | Facts::ROW_COUNT
        | Facts::WARNINGS;
    if verb != Verb::Select || !about.contains(facts) {
        return false;
    }
    calls_only_quiet(text)
}

/// True for a text that calls nothing but functions which surely change nothing: each opening parenthesis
/// follows the name of one, a word that is no name, or nothing.
pub(crate) fn calls_only_quiet(text: &[u8]) -> bool {
    let mut opens = text.iter().enumerate().filter(|(_, byte)| **byte == b'(');
    opens.all(|(at, _)| {
        let before = text[..at].trim_ascii_end();
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b == b'$' || *b >= 0x80;
        let start = before.iter().rposition(|b| !word(b)).map_or(0, |p| p + 1);
        // A quoted or qualified name may be anybody's function, and a comment may hide one.
        let last = before.get(start.wrapping_sub(1));
        match std::str::from_utf8(&before[start..]) {
            Ok("") => !matches!(last, Some(b'`' | b'"' | b'/')),
            Ok(name) if last != Some(&b'.') => {
                let is_word = WORDS.iter().any(|word| name.eq_ignore_ascii_case(word));
                is_word || sqltext::is_quiet(name, before.len() < at)
            }
            _ => false,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_of_drivers_write_nothing() {
        let asks = |text: &str| is_question(text.as_bytes(), Verb::Select, Facts::SYSTEM_VARIABLE);
        assert!(asks("SELECT @@session.auto_increment_increment AS a, @@sql_mode"));
        assert!(asks("SELECT @@a, CONNECTION_ID(), Last_Insert_Id ()"));
        assert!(!asks("SELECT @@a, f()"));
        assert!(!asks("SELECT @@a, d.version()"));
        assert!(!asks("SELECT @@a, `version`()"));
        // A stored function of this name is called so.
        assert!(!asks("SELECT @@a, count (1)") && asks("SELECT @@a, count(1)"));
        let facts = Facts::SYSTEM_VARIABLE | Facts::LOCKING_READ;
        assert!(!is_question(b"SELECT a FROM t FOR UPDATE", Verb::Select, facts));
    }
}
