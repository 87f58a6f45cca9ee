//! The clauses of a LOAD DATA: its table, how its file is cut into rows and values, and where they go.

use std::borrow::Cow;

use crate::dml::insert::Reader;
use crate::lexer::mode::Mode;
use crate::lexer::token::Kind;
use crate::scan::Span;

/// A LOAD DATA. Names have their quotes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The file is the client's.
    pub local: bool,
    /// REPLACE: rows that are there give way.
    pub replace: bool,
    /// The name of the file, with its quotes.
    pub file: Span,
    pub database: Option<Span>,
    pub table: Span,
    /// CHARACTER SET.
    pub charset: Option<Span>,
    /// FIELDS TERMINATED BY, ENCLOSED BY and ESCAPED BY; `None` where they are not said.
    pub fields_end: Option<Vec<u8>>,
    pub enclosed: Option<Vec<u8>>,
    pub escaped: Option<Vec<u8>>,
    /// LINES STARTING BY and TERMINATED BY.
    pub lines_start: Option<Vec<u8>>,
    pub lines_end: Option<Vec<u8>>,
    /// IGNORE n LINES.
    pub skip: u64,
    /// The list of columns and variables; `None` without one.
    pub columns: Option<Vec<Target>>,
    /// Behind the opening parenthesis of that list; where it would begin when there is none.
    pub columns_at: u32,
    /// SET: names and values.
    pub set: Vec<(Span, Span)>,
}

/// Where the value of a field goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// With its quotes, and its `@`.
    pub name: Span,
    /// It is a variable of the session.
    pub variable: bool,
}

/// The clauses of a text that is one LOAD DATA; `None` for everything else, LOAD XML too.
pub fn load(text: &[u8], mode: &Mode) -> Option<Load> {
    let mut reader = Loads {
        text,
        mode,
        reader: Reader::new(text, mode),
    };
    let found = reader.read()?;
    reader.reader.ends().then_some(found)
}

struct Loads<'a> {
    text: &'a [u8],
    mode: &'a Mode,
    reader: Reader<'a>,
}

impl Loads<'_> {
    fn read(&mut self) -> Option<Load> {
        let mut found = Load::default();
        let reader = &mut self.reader;
        if !(reader.eat("LOAD") && reader.eat("DATA")) {
            return None;
        }
        let _ = reader.eat("LOW_PRIORITY") || reader.eat("CONCURRENT");
        found.local = reader.eat("LOCAL");
        if !reader.eat("INFILE") {
            return None;
        }
        found.file = span(reader.eat_kind(Kind::Literal)?);
        found.replace = reader.eat("REPLACE");
        let _ = !found.replace && reader.eat("IGNORE");
        if !(reader.eat("INTO") && reader.eat("TABLE")) {
            return None;
        }
        found.table = reader.name()?;
        if reader.eat_kind(Kind::Dot).is_some() {
            found.database = Some(found.table);
            found.table = reader.name()?;
        }
        if reader.eat("PARTITION") {
            reader.eat_kind(Kind::Open)?;
            while reader.step().kind != Kind::Close {
                if reader.token.kind == Kind::End {
                    return None;
                }
            }
        }
        if reader.eat("CHARSET") || (reader.eat("CHARACTER") && reader.eat("SET")) {
            let quoted = reader.eat_kind(Kind::Literal).map(span);
            found.charset = quoted.or_else(|| reader.name());
        }
        self.format(&mut found)?;
        self.targets(&mut found)?;
        if self.reader.eat("SET") {
            found.set = self.reader.assignments(&mut 0)?;
        }
        Some(found)
    }

    fn format(&mut self, found: &mut Load) -> Option<()> {
        if self.reader.eat("FIELDS") || self.reader.eat("COLUMNS") {
            loop {
                if self.reader.eat("TERMINATED") {
                    found.fields_end = Some(self.by()?);
                } else if self.reader.eat("OPTIONALLY") || self.reader.is("ENCLOSED") {
                    if !self.reader.eat("ENCLOSED") {
                        return None;
                    }
                    found.enclosed = Some(self.by()?);
                } else if self.reader.eat("ESCAPED") {
                    found.escaped = Some(self.by()?);
                } else {
                    break;
                }
            }
        }
        if self.reader.eat("LINES") {
            loop {
                if self.reader.eat("TERMINATED") {
                    found.lines_end = Some(self.by()?);
                } else if self.reader.eat("STARTING") {
                    found.lines_start = Some(self.by()?);
                } else {
                    break;
                }
            }
        }
        if self.reader.eat("IGNORE") {
            let number = self.reader.eat_kind(Kind::Literal)?;
            let digits = std::str::from_utf8(number.bytes(self.text)).ok()?;
            found.skip = digits.parse().ok()?;
            if !(self.reader.eat("LINES") || self.reader.eat("ROWS")) {
                return None;
            }
        }
        Some(())
    }

    /// `BY 'string'`.
    fn by(&mut self) -> Option<Vec<u8>> {
        if !self.reader.eat("BY") {
            return None;
        }
        let token = self.reader.step();
        // A string in double quotes is a name to the tokenizer in some modes, and to the servers then.
        if token.kind != Kind::Literal {
            return None;
        }
        bytes(token.bytes(self.text), self.mode).map(Cow::into_owned)
    }

    fn targets(&mut self, found: &mut Load) -> Option<()> {
        let reader = &mut self.reader;
        found.columns_at = reader.token.start;
        let Some(open) = reader.eat_kind(Kind::Open) else {
            return Some(());
        };
        found.columns_at = open.end;
        let mut all = Vec::new();
        while reader.token.kind != Kind::Close {
            let variable = reader.token.kind == Kind::UserVariable;
            let mut name = match variable {
                true => span(reader.step()),
                false => reader.name()?,
            };
            while !variable && reader.eat_kind(Kind::Dot).is_some() {
                name = reader.name()?;
            }
            all.push(Target { name, variable });
            if reader.token.kind == Kind::Comma {
                reader.step();
            } else if reader.token.kind != Kind::Close {
                return None;
            }
        }
        reader.step();
        found.columns = Some(all).filter(|all| !all.is_empty());
        Some(())
    }
}

fn span(token: crate::lexer::token::Token) -> Span {
    Span {
        start: token.start,
        end: token.end,
    }
}

/// The bytes of a string literal, or of one in hexadecimal digits.
fn bytes<'a>(token: &'a [u8], mode: &Mode) -> Option<Cow<'a, [u8]>> {
    let digits = match token {
        [b'\'' | b'"', ..] => return Some(crate::session_state::word::unquote(token, mode)),
        [b'0', b'x', digits @ ..] | [b'x' | b'X', b'\'', digits @ .., b'\''] => digits,
        _ => return None,
    };
    let value = |digit: &u8| (*digit as char).to_digit(16).map(|digit| digit as u8);
    // An odd number of digits has a zero in front.
    let (first, pairs) = digits.split_at(digits.len() % 2);
    let mut out = Vec::with_capacity(digits.len().div_ceil(2));
    for digit in first {
        out.push(value(digit)?);
    }
    for pair in pairs.chunks(2) {
        out.push(value(&pair[0])? << 4 | value(&pair[1])?);
    }
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn read(text: &str) -> Option<Load> {
        load(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_100))
    }

    #[test]
    fn clauses_are_found() {
        let text = "load data low_priority local infile 'a.csv' replace into table `d`.t \
            partition (p0, p1) character set utf8mb4 columns terminated by ',' \
            optionally enclosed by '\"' escaped by '\\\\' lines starting by 'x' terminated by \
            '\\r\\n' ignore 2 rows (a, @v, t.b) set c = f(@v, 1), d = 2;";
        let found = read(text).expect("a LOAD DATA");
        let of = |span: &Span| &text[span.start as usize..span.end as usize];
        assert!(found.local && found.replace);
        assert_eq!(of(&found.file), "'a.csv'");
        assert_eq!(found.database.as_ref().map(of), Some("`d`"));
        assert_eq!(of(&found.table), "t");
        assert_eq!(found.charset.as_ref().map(of), Some("utf8mb4"));
        assert_eq!(found.fields_end.as_deref(), Some(&b","[..]));
        assert_eq!(found.enclosed.as_deref(), Some(&b"\""[..]));
        assert_eq!(found.escaped.as_deref(), Some(&b"\\"[..]));
        assert_eq!(found.lines_start.as_deref(), Some(&b"x"[..]));
        assert_eq!(found.lines_end.as_deref(), Some(&b"\r\n"[..]));
        assert_eq!(found.skip, 2);
        let columns = found.columns.expect("columns");
        let names: Vec<_> = columns
            .iter()
            .map(|it| (of(&it.name), it.variable))
            .collect();
        assert_eq!(names, [("a", false), ("@v", true), ("b", false)]);
        assert!(text[found.columns_at as usize..].starts_with("a, @v"));
        let set: Vec<_> = found.set.iter().map(|(a, b)| (of(a), of(b))).collect();
        assert_eq!(set, [("c", "f(@v, 1)"), ("d", "2")]);
    }

    #[test]
    fn what_is_left_out_is_not_there() {
        let found =
            read("LOAD DATA INFILE 'x' INTO TABLE t FIELDS TERMINATED BY 0x2C ENCLOSED BY X'22'");
        let found = found.expect("a LOAD DATA");
        assert!(!found.local && found.columns.is_none() && found.lines_end.is_none());
        assert_eq!(found.fields_end.as_deref(), Some(&b","[..]));
        assert_eq!(found.enclosed.as_deref(), Some(&b"\""[..]));
        for text in [
            "LOAD XML LOCAL INFILE 'x' INTO TABLE t",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t; SELECT 1",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a",
            "LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED 'x'",
            "SELECT 1",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
