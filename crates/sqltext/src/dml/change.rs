//! Where the clauses of an UPDATE or DELETE of one table stand.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;

/// An UPDATE or DELETE. Spans hold no white space at their ends, and not the words that lead to them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub delete: bool,
    /// The table with its alias and hints.
    pub table: Span,
    /// The name alone, with quotes, and its database.
    pub name: Span,
    pub database: Option<Span>,
    /// The assignments of an UPDATE: columns and values.
    pub set: Vec<(Span, Span)>,
    pub filter: Option<Span>,
    /// From ORDER to the end of its expressions.
    pub order: Option<Span>,
    /// From LIMIT to its number.
    pub limit: Option<Span>,
}

/// The clauses of a text that is one UPDATE or DELETE of one table; `None` for everything else.
pub fn change(text: &[u8], mode: &Mode) -> Option<Change> {
    let mut lexer = Lexer::new(text, mode);
    let tokens = lexer.statement()?;
    if lexer.doubtful() {
        return None;
    }
    read(text, &tokens)
}

fn read(text: &[u8], tokens: &[Token]) -> Option<Change> {
    let word = |token: &Token, word: &str| {
        token.kind == Kind::Word && token.bytes(text).eq_ignore_ascii_case(word.as_bytes())
    };
    let mut found = Change {
        delete: tokens.first()?.kw == Kw::DELETE,
        ..Change::default()
    };
    if !found.delete && tokens.first()?.kw != Kw::UPDATE {
        return None;
    }
    let mut clauses = clauses(text, tokens)?;
    let mut first = 1;
    while word(tokens.get(first)?, "LOW_PRIORITY") || word(tokens.get(first)?, "QUICK") {
        first += 1;
    }
    if word(tokens.get(first)?, "IGNORE") {
        return None;
    }
    if found.delete {
        if clauses.first() != Some(&(Kw::FROM, first)) {
            return None;
        }
        clauses.remove(0);
        first += 1;
    }
    let end = |clause: usize| clauses.get(clause + 1).map_or(tokens.len(), |next| next.1);
    let span = |from: usize, to: usize| {
        (from < to).then(|| Span {
            start: tokens[from].start,
            end: tokens[to - 1].end,
        })
    };
    let table_end = clauses.first().map_or(tokens.len(), |clause| clause.1);
    if tokens
        .get(first..table_end)?
        .iter()
        .any(|it| it.kind == Kind::Comma)
    {
        return None;
    }
    found.table = span(first, table_end)?;
    found.name = span(first, first + 1)?;
    if tokens.get(first + 1).is_some_and(|it| it.kind == Kind::Dot) {
        found.database = Some(found.name);
        found.name = span(first + 2, first + 3)?;
    }
    for (number, (kw, at)) in clauses.iter().enumerate() {
        let (from, to) = (at + 1, end(number));
        match kw {
            Kw::SET => found.set = assignments(text, &tokens[from..to])?,
            Kw::WHERE => found.filter = Some(span(from, to)?),
            Kw::ORDER => found.order = Some(span(*at, to)?),
            Kw::LIMIT => found.limit = Some(span(*at, to)?),
            _ => return None,
        }
    }
    (found.delete == found.set.is_empty()).then_some(found)
}

/// Each clause's word, and its place; `None` where one is not known.
fn clauses(text: &[u8], tokens: &[Token]) -> Option<Vec<(Kw, usize)>> {
    let mut clauses: Vec<(Kw, usize)> = Vec::new();
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => depth += 1,
            Kind::Close => depth = depth.checked_sub(1)?,
            Kind::Word if depth == 0 => {
                let returns = token.bytes(text).eq_ignore_ascii_case(b"RETURNING");
                if returns || matches!(token.kw, Kw::USING | Kw::JOIN) {
                    return None;
                }
                let starts = [Kw::FROM, Kw::SET, Kw::WHERE, Kw::ORDER, Kw::LIMIT];
                if starts.contains(&token.kw) {
                    clauses.push((token.kw, at));
                }
            }
            _ => {}
        }
    }
    Some(clauses)
}

fn assignments(text: &[u8], tokens: &[Token]) -> Option<Vec<(Span, Span)>> {
    let mut all = Vec::new();
    let mut depth = 0usize;
    let mut from = 0;
    for at in 0..=tokens.len() {
        let ends = match tokens.get(at).map(|token| token.kind) {
            None => true,
            Some(Kind::Comma) => depth == 0,
            Some(Kind::Open) => {
                depth += 1;
                false
            }
            Some(Kind::Close) => {
                depth = depth.checked_sub(1)?;
                false
            }
            _ => false,
        };
        if !ends {
            continue;
        }
        let one = &tokens[from..at];
        let equals = one
            .iter()
            .position(|it| it.kind == Kind::Operator && matches!(it.bytes(text), b"=" | b":="))?;
        let (name, value) = (one.get(equals.checked_sub(1)?)?, one.get(equals + 1..)?);
        let whole = |tokens: &[Token]| {
            Some(Span {
                start: tokens.first()?.start,
                end: tokens.last()?.end,
            })
        };
        all.push((whole(std::slice::from_ref(name))?, whole(value)?));
        from = at + 1;
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn shown(text: &str) -> String {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let Some(found) = change(text.as_bytes(), &mode) else {
            return "none".to_owned();
        };
        let of = |span: &Span| text[span.start as usize..span.end as usize].to_owned();
        let mut parts = vec![of(&found.table)];
        parts.extend(
            found
                .set
                .iter()
                .map(|(name, value)| format!("{}<-{}", of(name), of(value))),
        );
        parts.extend(found.filter.as_ref().map(of));
        parts.extend(found.order.as_ref().map(of));
        parts.extend(found.limit.as_ref().map(of));
        parts.join(" | ")
    }

    #[test]
    fn clauses_of_changes() {
        for (text, expected) in [
            (
                "UPDATE d.t AS x SET a = b + 1, x.`c` = f(1, 2) WHERE (a = 1) ORDER BY a, b DESC LIMIT 5;",
                "d.t AS x | a<-b + 1 | `c`<-f(1, 2) | (a = 1) | ORDER BY a, b DESC | LIMIT 5",
            ),
            ("DELETE FROM t", "t"),
            (
                "delete quick from t where a in (select b from u limit 1) limit 3",
                "t | a in (select b from u limit 1) | limit 3",
            ),
            ("DELETE t FROM t JOIN u", "none"),
            ("UPDATE a, b SET x = 1", "none"),
            ("UPDATE t SET a = 1 WHERE b = 2 RETURNING c", "none"),
            ("SELECT 1", "none"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
