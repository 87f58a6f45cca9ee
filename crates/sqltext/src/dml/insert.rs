//! Where the parts of an INSERT or REPLACE stand: its table, its columns, its rows and their values,
//! so that rows can be taken out of it and values put in.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;

/// An INSERT or REPLACE. Spans hold no white space at their ends; names have their quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Insert {
    pub replace: bool,
    /// INSERT IGNORE: what cannot be stored is adjusted or left out.
    pub ignore: bool,
    pub database: Option<Span>,
    pub table: Span,
    /// The names in the parentheses behind the table; `None` without parentheses.
    pub columns: Option<Vec<Span>>,
    /// Where the list of columns begins, behind its parenthesis, and ends, in front of it; without
    /// parentheses the place where they would stand.
    pub columns_at: Span,
    pub source: Source,
    /// ON DUPLICATE KEY UPDATE: the names in front of its `=`, and their values.
    pub updates: Vec<(Span, Span)>,
    /// RETURNING is there.
    pub returns: bool,
    /// Behind the rows, or the SET list: ON DUPLICATE KEY UPDATE, RETURNING, or the end.
    pub tail: u32,
}

/// What an INSERT stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// VALUES: each row with its parentheses, and the places of its first and behind its last value
    /// in `values`.
    Rows { rows: Vec<Row>, values: Vec<Span> },
    /// SET: names and values.
    Set(Vec<(Span, Span)>),
    /// A query, from here to the tail.
    Query(u32),
}

impl Default for Source {
    fn default() -> Source {
        Source::Query(0)
    }
}

/// A row of VALUES.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// From `(`, or ROW, to `)`.
    pub whole: Span,
    pub first: u32,
    /// Behind its last value.
    pub last: u32,
}

/// The parts of a text that is one INSERT or REPLACE; `None` for everything else, and where the
/// tokenizer is not sure.
pub fn insert(text: &[u8], mode: &Mode) -> Option<Insert> {
    let mut reader = Reader::new(text, mode);
    let found = reader.read()?;
    reader.ends().then_some(found)
}

/// Takes a statement's tokens by what they should be.
pub(crate) struct Reader<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    /// The first token that is not used up.
    pub token: Token,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a [u8], mode: &Mode) -> Reader<'a> {
        let mut lexer = Lexer::new(text, mode);
        let token = lexer.next();
        Reader { text, lexer, token }
    }

    /// The statement is over here, and the tokenizer was sure of all of it.
    pub fn ends(&mut self) -> bool {
        let ended = match self.token.kind {
            Kind::End => true,
            Kind::Semicolon => self.lexer.next().kind == Kind::End,
            _ => false,
        };
        ended && !self.lexer.doubtful()
    }

    pub fn step(&mut self) -> Token {
        std::mem::replace(&mut self.token, self.lexer.next())
    }

    pub fn is(&self, word: &str) -> bool {
        self.token.kind == Kind::Word
            && self
                .token
                .bytes(self.text)
                .eq_ignore_ascii_case(word.as_bytes())
    }

    pub fn eat(&mut self, word: &str) -> bool {
        let found = self.is(word);
        if found {
            self.step();
        }
        found
    }

    pub fn eat_kind(&mut self, kind: Kind) -> Option<Token> {
        (self.token.kind == kind).then(|| self.step())
    }

    pub fn name(&mut self) -> Option<Span> {
        let named = matches!(self.token.kind, Kind::Word | Kind::Quoted);
        named.then(|| span(&self.step()))
    }

    fn read(&mut self) -> Option<Insert> {
        let mut found = Insert {
            replace: self.eat("REPLACE"),
            ..Insert::default()
        };
        if !found.replace && !self.eat("INSERT") {
            return None;
        }
        while self.eat("LOW_PRIORITY") || self.eat("DELAYED") || self.eat("HIGH_PRIORITY") {}
        found.ignore = self.eat("IGNORE");
        self.eat("INTO");
        found.table = self.name()?;
        if self.eat_kind(Kind::Dot).is_some() {
            found.database = Some(found.table);
            found.table = self.name()?;
        }
        if self.is("PARTITION") {
            return None;
        }
        let behind = found.table.end;
        found.columns_at = Span {
            start: behind,
            end: behind,
        };
        self.columns(&mut found)?;
        match self.token.kw {
            Kw::SET => {
                self.step();
                let set = self.assignments(&mut found.tail)?;
                found.source = Source::Set(set);
            }
            Kw::VALUES | Kw::VALUE => {
                self.step();
                found.source = self.rows(&mut found.tail)?;
            }
            _ => {
                found.source = Source::Query(self.token.start);
                self.query(&mut found.tail)?;
            }
        }
        self.tail(&mut found)?;
        Some(found)
    }

    /// The list of columns, if the parentheses are one, and not those around a query.
    fn columns(&mut self, found: &mut Insert) -> Option<()> {
        if self.token.kind != Kind::Open {
            return Some(());
        }
        let open = self.token;
        let queries = {
            let mut ahead = Lexer::new(&self.text[open.end as usize..], self.lexer.mode());
            let first = ahead.next();
            matches!(first.kw, Kw::SELECT | Kw::WITH | Kw::VALUES | Kw::TABLE)
                || first.kind == Kind::Open
        };
        if queries {
            return Some(());
        }
        self.step();
        found.columns_at.start = open.end;
        let mut names = Vec::new();
        while self.token.kind != Kind::Close {
            let mut name = self.name()?;
            // A name may be qualified by its table.
            while self.eat_kind(Kind::Dot).is_some() {
                name = self.name()?;
            }
            names.push(name);
            if self.token.kind == Kind::Comma {
                self.step();
            } else if self.token.kind != Kind::Close {
                return None;
            }
        }
        found.columns_at.end = self.token.start;
        self.step();
        found.columns = Some(names);
        Some(())
    }

    fn rows(&mut self, tail: &mut u32) -> Option<Source> {
        let (mut rows, mut values) = (Vec::new(), Vec::new());
        loop {
            let start = self.token.start;
            self.eat("ROW");
            self.eat_kind(Kind::Open)?;
            let first = values.len() as u32;
            while self.token.kind != Kind::Close {
                values.push(self.expression(false)?);
                match self.token.kind {
                    Kind::Comma => drop(self.step()),
                    Kind::Close => {}
                    _ => return None,
                }
            }
            let close = self.step();
            rows.push(Row {
                whole: Span {
                    start,
                    end: close.end,
                },
                first,
                last: values.len() as u32,
            });
            *tail = close.end;
            if self.token.kind != Kind::Comma {
                return Some(Source::Rows { rows, values });
            }
            self.step();
        }
    }

    /// `a = 1, b = 2`, as SET and ON DUPLICATE KEY UPDATE have it.
    pub fn assignments(&mut self, tail: &mut u32) -> Option<Vec<(Span, Span)>> {
        let mut all = Vec::new();
        loop {
            let mut name = self.name()?;
            while self.eat_kind(Kind::Dot).is_some() {
                name = self.name()?;
            }
            let operator = self.eat_kind(Kind::Operator)?;
            if !matches!(operator.bytes(self.text), b"=" | b":=") {
                return None;
            }
            let value = self.expression(true)?;
            *tail = value.end;
            all.push((name, value));
            if self.token.kind != Kind::Comma {
                return Some(all);
            }
            self.step();
        }
    }

    /// An expression up to a comma, a closing parenthesis, or, with `clauses`, the next clause.
    fn expression(&mut self, clauses: bool) -> Option<Span> {
        let first = self.token;
        let mut end = first.start;
        let mut depth = 0usize;
        loop {
            match self.token.kind {
                Kind::End | Kind::Semicolon if depth == 0 => break,
                Kind::End | Kind::Semicolon => return None,
                Kind::Comma if depth == 0 => break,
                Kind::Close if depth == 0 => break,
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                Kind::Word
                    if depth == 0
                        && clauses
                        && (self.token.kw == Kw::ON
                            || self.is("RETURNING")
                            || self.token.kw == Kw::AS) =>
                {
                    break;
                }
                _ => {}
            }
            end = self.step().end;
        }
        (end > first.start).then_some(Span {
            start: first.start,
            end,
        })
    }

    /// A query, up to ON DUPLICATE KEY UPDATE, RETURNING or the end.
    fn query(&mut self, tail: &mut u32) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.token.kind {
                Kind::End | Kind::Semicolon => return (depth == 0).then_some(()),
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.checked_sub(1)?,
                Kind::Word if depth == 0 && self.token.kw == Kw::ON => {
                    let rest = &self.text[self.token.end as usize..];
                    let next = Lexer::new(rest, self.lexer.mode()).next();
                    if next.bytes(rest).eq_ignore_ascii_case(b"DUPLICATE") {
                        return Some(());
                    }
                }
                Kind::Word if depth == 0 && self.is("RETURNING") => return Some(()),
                _ => {}
            }
            *tail = self.step().end;
        }
    }

    fn tail(&mut self, found: &mut Insert) -> Option<()> {
        if self.eat("AS") {
            // MySQL: VALUES … AS new, or AS new(a, b).
            self.name()?;
            if self.token.kind == Kind::Open {
                while self.step().kind != Kind::Close {
                    if self.token.kind == Kind::End {
                        return None;
                    }
                }
            }
        }
        if self.eat("ON") {
            if !(self.eat("DUPLICATE") && self.eat("KEY") && self.eat("UPDATE")) {
                return None;
            }
            found.updates = self.assignments(&mut 0)?;
        }
        if self.eat("RETURNING") {
            found.returns = true;
            while !matches!(self.token.kind, Kind::End | Kind::Semicolon) {
                self.step();
            }
        }
        Some(())
    }
}

fn span(token: &Token) -> Span {
    Span {
        start: token.start,
        end: token.end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn shown(text: &str) -> String {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let Some(found) = insert(text.as_bytes(), &mode) else {
            return "none".to_owned();
        };
        let of = |span: &Span| text[span.start as usize..span.end as usize].to_owned();
        let pairs = |pairs: &[(Span, Span)]| {
            let one = |(name, value): &(Span, Span)| format!("{}={}", of(name), of(value));
            pairs.iter().map(one).collect::<Vec<_>>().join(",")
        };
        let mut parts = vec![of(&found.table)];
        if let Some(columns) = &found.columns {
            parts.push(columns.iter().map(of).collect::<Vec<_>>().join(","));
        }
        match &found.source {
            Source::Rows { rows, values } => parts.extend(rows.iter().map(|row| {
                let values = &values[row.first as usize..row.last as usize];
                let values: Vec<String> = values.iter().map(of).collect();
                format!("{}: {}", of(&row.whole), values.join("|"))
            })),
            Source::Set(set) => parts.push(format!("set {}", pairs(set))),
            Source::Query(at) => {
                parts.push(text[*at as usize..found.tail as usize].to_owned());
            }
        }
        if !found.updates.is_empty() {
            parts.push(format!("update {}", pairs(&found.updates)));
        }
        if found.returns {
            parts.push("returning".to_owned());
        }
        parts.push(format!("tail[{}]", text[found.tail as usize..].trim()));
        parts.join("; ")
    }

    #[test]
    fn parts_of_inserts() {
        for (text, expected) in [
            (
                "INSERT INTO t VALUES (1, 'a,(b')",
                "t; (1, 'a,(b'): 1|'a,(b'; tail[]",
            ),
            (
                "insert ignore d.`t x` (b, `a`) value (f(1, 2), -3), ROW(4, DEFAULT);",
                "`t x`; b,`a`; (f(1, 2), -3): f(1, 2)|-3; ROW(4, DEFAULT): 4|DEFAULT; tail[;]",
            ),
            (
                "INSERT t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = VALUES(a), t.b = b + 1 RETURNING a, b",
                "t; a; (1): 1; update a=VALUES(a),b=b + 1; returning; tail[ON DUPLICATE KEY UPDATE a = VALUES(a), t.b = b + 1 RETURNING a, b]",
            ),
            (
                "REPLACE INTO t SET a = 1, b = (SELECT MAX(x) FROM u)",
                "t; set a=1,b=(SELECT MAX(x) FROM u); tail[]",
            ),
            (
                "INSERT INTO t (a) SELECT b FROM u JOIN v ON u.x = v.x ON DUPLICATE KEY UPDATE a = 1",
                "t; a; SELECT b FROM u JOIN v ON u.x = v.x; update a=1; tail[ON DUPLICATE KEY UPDATE a = 1]",
            ),
            ("INSERT INTO t (SELECT 1)", "t; (SELECT 1); tail[]"),
            (
                "INSERT INTO t VALUES (1) AS n(x) ON DUPLICATE KEY UPDATE a = n.x",
                "t; (1): 1; update a=n.x; tail[AS n(x) ON DUPLICATE KEY UPDATE a = n.x]",
            ),
            ("INSERT INTO t () VALUES ()", "t; ; (): ; tail[]"),
            ("SELECT 1", "none"),
            ("INSERT INTO t VALUES (1", "none"),
            ("INSERT INTO t VALUES (1); SELECT 1", "none"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
