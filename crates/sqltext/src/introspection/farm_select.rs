//! The simplest SELECTs of a table about the farm, which need no server.
//!
//! Job: read `SELECT *, columns or COUNT(*) FROM table [WHERE column operator literal AND …] [ORDER BY
//! columns] [LIMIT n]`. Whoever has the rows in memory can answer these by himself.
//!
//! Invariants: what is read is the whole statement; anything else is none.

use crate::introspection::farm_table::FarmSchema;
use crate::introspection::identity::{name_of, tokens};
use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Token};
use crate::session_state::word::unquote;

/// Such a SELECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub table: &'static str,
    pub wanted: Selected,
    /// All of them hold.
    pub conditions: Vec<Condition>,
    /// Columns, and whether each is in descending order.
    pub order: Vec<(String, bool)>,
    /// Rows that are left out at the start.
    pub offset: usize,
    /// So many rows at most.
    pub rows_max: Option<usize>,
}

/// What is wanted of each row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selected {
    All,
    Count,
    /// Columns, and what they are to be called.
    Columns(Vec<(String, String)>),
}

/// A condition on a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    pub column: String,
    pub operator: Comparison,
    /// What it is compared with; `None` is NULL.
    pub value: Option<String>,
    /// The value is written as a number.
    pub number: bool,
}

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Is,
    IsNot,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Like,
}

/// Reads a text as such a SELECT.
pub fn selection(text: &[u8], mode: &Mode, schema: &FarmSchema<'_>) -> Option<Selection> {
    let mut all = tokens(text, mode);
    if all
        .last()
        .is_some_and(|token| token.kind == Kind::Semicolon)
    {
        all.pop();
    }
    let mut reader = SelectReader {
        text,
        mode,
        all: &all,
        at: 0,
    };
    reader.word(Kw::SELECT)?;
    let wanted = reader.wanted()?;
    reader.word(Kw::FROM)?;
    let first = reader.name()?;
    let table = match reader.kind(Kind::Dot) {
        Some(_) => schema.table(Some(&first), &reader.name()?),
        None => schema.table(None, &first),
    }?;
    let conditions = reader.conditions()?;
    let order = reader.order()?;
    let (offset, rows_max) = reader.limit()?;
    (reader.at == all.len()).then_some(Selection {
        table,
        wanted,
        conditions,
        order,
        offset,
        rows_max,
    })
}

struct SelectReader<'t> {
    text: &'t [u8],
    mode: &'t Mode,
    all: &'t [Token],
    at: usize,
}

impl<'t> SelectReader<'t> {
    fn next_if(&mut self, is: impl Fn(&Token, &[u8]) -> bool) -> Option<&'t Token> {
        let token = self.all.get(self.at)?;
        if !is(token, token.bytes(self.text)) {
            return None;
        }
        self.at += 1;
        Some(token)
    }

    fn word(&mut self, kw: Kw) -> Option<&'t Token> {
        self.next_if(|token, _| token.kw == kw)
    }

    fn kind(&mut self, kind: Kind) -> Option<&'t Token> {
        self.next_if(|token, _| token.kind == kind)
    }

    fn spelled(&mut self, word: &str) -> bool {
        let is = |_: &Token, bytes: &[u8]| bytes.eq_ignore_ascii_case(word.as_bytes());
        self.next_if(is).is_some()
    }

    fn name(&mut self) -> Option<Vec<u8>> {
        let token = *self.all.get(self.at)?;
        if token.kw.is_reserved() {
            return None;
        }
        let name = name_of(&token, self.text)?;
        self.at += 1;
        Some(name.to_vec())
    }

    fn column(&mut self) -> Option<String> {
        String::from_utf8(self.name()?)
            .ok()
            .map(|name| name.to_ascii_lowercase())
    }

    fn wanted(&mut self) -> Option<Selected> {
        if self.spelled("*") {
            return Some(Selected::All);
        }
        let at = self.at;
        if self.spelled("count") && self.kind(Kind::Open).is_some() {
            (self.spelled("*") && self.kind(Kind::Close).is_some()).then_some(())?;
            return Some(Selected::Count);
        }
        self.at = at;
        let mut columns = Vec::new();
        loop {
            let written = self.column()?;
            let called = match self.word(Kw::AS) {
                Some(_) => String::from_utf8(self.name()?).ok()?,
                None => written.clone(),
            };
            columns.push((written, called));
            if self.kind(Kind::Comma).is_none() {
                return Some(Selected::Columns(columns));
            }
        }
    }

    fn conditions(&mut self) -> Option<Vec<Condition>> {
        let mut all = Vec::new();
        if self.word(Kw::WHERE).is_none() {
            return Some(all);
        }
        loop {
            all.push(self.condition()?);
            if !self.spelled("and") {
                return Some(all);
            }
        }
    }

    fn condition(&mut self) -> Option<Condition> {
        let column = self.column()?;
        if self.spelled("is") {
            let operator = if self.spelled("not") {
                Comparison::IsNot
            } else {
                Comparison::Is
            };
            self.spelled("null").then_some(())?;
            return Some(Condition {
                column,
                operator,
                value: None,
                number: false,
            });
        }
        // An operator of two characters may be two tokens.
        let mut written = self.all.get(self.at)?.bytes(self.text).to_vec();
        self.at += 1;
        while let Some(more) = self.kind(Kind::Operator) {
            written.extend_from_slice(more.bytes(self.text));
        }
        let operator = match &*written {
            b"=" => Comparison::Equal,
            b"<>" | b"!=" => Comparison::Unequal,
            b"<" => Comparison::Less,
            b"<=" => Comparison::LessOrEqual,
            b">" => Comparison::Greater,
            b">=" => Comparison::GreaterOrEqual,
            word if word.eq_ignore_ascii_case(b"like") => Comparison::Like,
            _ => return None,
        };
        let literal = self.kind(Kind::Literal)?.bytes(self.text);
        let number = literal
            .iter()
            .all(|byte| byte.is_ascii_digit() || *byte == b'.');
        let value = match literal.first()? {
            b'\'' | b'"' => unquote(literal, self.mode),
            _ if number => literal.into(),
            _ => return None,
        };
        let value = Some(String::from_utf8(value.into_owned()).ok()?);
        Some(Condition {
            column,
            operator,
            value,
            number,
        })
    }

    fn order(&mut self) -> Option<Vec<(String, bool)>> {
        let mut all = Vec::new();
        if self.word(Kw::ORDER).is_none() {
            return Some(all);
        }
        self.spelled("by").then_some(())?;
        loop {
            let column = self.column()?;
            let descends = self.spelled("desc");
            if !descends {
                self.spelled("asc");
            }
            all.push((column, descends));
            if self.kind(Kind::Comma).is_none() {
                return Some(all);
            }
        }
    }

    fn limit(&mut self) -> Option<(usize, Option<usize>)> {
        if self.word(Kw::LIMIT).is_none() {
            return Some((0, None));
        }
        let first = self.number()?;
        if self.kind(Kind::Comma).is_some() {
            return Some((first, Some(self.number()?)));
        }
        match self.spelled("offset") {
            true => Some((self.number()?, Some(first))),
            false => Some((0, Some(first))),
        }
    }

    fn number(&mut self) -> Option<usize> {
        let literal = self.kind(Kind::Literal)?.bytes(self.text);
        str::from_utf8(literal).ok()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn read(text: &str) -> Option<Selection> {
        let schema = FarmSchema {
            schema: "heddle",
            database: None,
            names: &["servers"],
        };
        selection(text.as_bytes(), &Mode::new(Dialect::MySql, 80_045), &schema)
    }

    #[test]
    fn simple_statements_are_read_whole() {
        let all = read("SELECT * FROM heddle.servers;").expect("it is simple");
        assert_eq!(
            (all.wanted, all.conditions.len(), all.rows_max),
            (Selected::All, 0, None)
        );
        let text = "select address, Lag_ms as lag from heddle.servers where status = 'SECONDARY' and lag_ms >= 1.5 \
                    and error is not null order by lag_ms desc, address limit 2 offset 1";
        let some = read(text).expect("it is simple");
        let columns = vec![
            ("address".to_owned(), "address".to_owned()),
            ("lag_ms".to_owned(), "lag".to_owned()),
        ];
        assert_eq!(some.wanted, Selected::Columns(columns));
        assert_eq!(some.conditions.len(), 3);
        assert!(some.conditions[1].number && !some.conditions[0].number);
        assert_eq!(
            some.order,
            [("lag_ms".to_owned(), true), ("address".to_owned(), false)]
        );
        assert_eq!((some.offset, some.rows_max), (1, Some(2)));
        let count = read("SELECT COUNT(*) FROM heddle.servers").expect("it is simple");
        assert_eq!(count.wanted, Selected::Count);
    }

    #[test]
    fn everything_else_is_a_servers_affair() {
        for text in [
            "SELECT * FROM app.servers",
            "SELECT * FROM heddle.servers s",
            "SELECT address, COUNT(*) FROM heddle.servers GROUP BY 1",
            "SELECT * FROM heddle.servers WHERE a = 1 OR b = 2",
            "SELECT * FROM heddle.servers WHERE a = b",
            "SELECT * FROM heddle.servers WHERE a = ?",
            "SELECT * FROM heddle.servers, heddle.servers",
            "SELECT * FROM heddle.servers LIMIT 1 FOR UPDATE",
            "SELECT * FROM heddle.servers; SELECT 1",
            "SELECT DISTINCT status FROM heddle.servers",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
