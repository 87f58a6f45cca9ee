//! The words in front of a statement that is to be explained.

use sqltext::{Mode, Piece, PieceKind, pieces};

/// In which form the answer is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Unsaid,
    /// Rows of a table: `FORMAT=TRADITIONAL`.
    Table,
    /// Lines for people.
    Tree,
    Json,
    /// One that only a server has, or none.
    Other,
}

/// What is asked of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asking {
    /// It is run, and what it took is told.
    pub runs: bool,
    pub form: Form,
    /// HEDDLE stands in front.
    pub own: bool,
    pub statement: Vec<u8>,
}

/// Reads `[HEDDLE] EXPLAIN | DESCRIBE | DESC | ANALYZE`, what may stand behind it, and the statement;
/// `None` for every other text.
pub fn asking(text: &[u8], mode: &Mode) -> Option<Asking> {
    let all = pieces(text, mode)?;
    let is = |at: usize, word: &str| all.get(at).is_some_and(|it| it.is(text, word));
    let own = is(0, "HEDDLE");
    let mut at = usize::from(own);
    let mut runs = match () {
        () if is(at, "ANALYZE") => true,
        () if ["EXPLAIN", "DESCRIBE", "DESC"].iter().any(|word| is(at, word)) => false,
        () => return None,
    };
    at += 1;
    let mut form = Form::Unsaid;
    loop {
        if is(at, "ANALYZE") {
            runs = true;
            at += 1;
        } else if is(at, "EXTENDED") || is(at, "PARTITIONS") {
            form = Form::Other;
            at += 1;
        } else if is(at, "FORMAT") && all.get(at + 1).is_some_and(|it| is_equals(it, text)) {
            form = form_called(all.get(at + 2)?, text, mode);
            at += 3;
        } else {
            break;
        }
    }
    let before = &all[at - 1];
    let statement = text[before.span.end as usize..].trim_ascii();
    Some(Asking {
        runs,
        form,
        own,
        statement: statement.strip_suffix(b";").unwrap_or(statement).to_vec(),
    })
}

fn is_equals(piece: &Piece, text: &[u8]) -> bool {
    piece.kind == PieceKind::Operator && piece.span.of(text) == b"="
}

fn form_called(piece: &Piece, text: &[u8], mode: &Mode) -> Form {
    let name = sqltext::unquote(piece.span.of(text), mode).to_ascii_lowercase();
    match &name[..] {
        b"tree" => Form::Tree,
        b"json" => Form::Json,
        b"traditional" | b"table" => Form::Table,
        _ => Form::Other,
    }
}

#[cfg(test)]
mod tests {
    use sqltext::Dialect;

    use super::*;

    #[test]
    fn both_words_ask_for_a_run() {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let read = |text: &str| {
            let asking = asking(text.as_bytes(), &mode)?;
            let statement = String::from_utf8(asking.statement).ok()?;
            Some((asking.runs, asking.form, statement))
        };
        let of = |runs, form, statement: &str| Some((runs, form, statement.to_owned()));
        assert_eq!(read("EXPLAIN SELECT 1;"), of(false, Form::Unsaid, "SELECT 1"));
        assert_eq!(read("desc (SELECT 1)"), of(false, Form::Unsaid, "(SELECT 1)"));
        assert_eq!(read("ANALYZE SELECT 1"), of(true, Form::Unsaid, "SELECT 1"));
        assert_eq!(read("ANALYZE FORMAT=JSON SELECT 1"), of(true, Form::Json, "SELECT 1"));
        assert_eq!(
            read("EXPLAIN ANALYZE FORMAT = tree SELECT 1"),
            of(true, Form::Tree, "SELECT 1")
        );
        assert_eq!(
            read("HEDDLE EXPLAIN FORMAT='json' /*ms=master*/ SELECT 1"),
            of(false, Form::Json, "/*ms=master*/ SELECT 1")
        );
        assert_eq!(
            read("HEDDLE ANALYZE SELECT format FROM t"),
            of(true, Form::Unsaid, "SELECT format FROM t")
        );
        assert_eq!(read("EXPLAIN FORMAT=TRADITIONAL SELECT 1"), of(false, Form::Table, "SELECT 1"));
        assert_eq!(read("EXPLAIN EXTENDED SELECT 1"), of(false, Form::Other, "SELECT 1"));
        assert_eq!(read("SELECT 1"), None);
    }
}
