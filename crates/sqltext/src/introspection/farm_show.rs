//! SHOW and DESCRIBE about the database of the farm's tables, and about those tables.

use crate::introspection::farm_table::FarmSchema;
use crate::introspection::identity::{name_of, tokens};
use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Token};
use crate::scan::Span;

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShowWhat {
    /// SHOW DATABASES, whose database may be missing on the servers.
    Databases,
    /// SHOW TABLES of the farm's database.
    Tables,
    /// SHOW TABLE STATUS of it.
    Status,
    /// SHOW COLUMNS and DESCRIBE of one of the tables.
    Columns(&'static str),
    /// SHOW CREATE TABLE.
    Create(&'static str),
    /// SHOW INDEX.
    Indexes(&'static str),
}

/// A statement of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FarmShow {
    pub what: ShowWhat,
    pub full: bool,
    /// Only names like this literal, which stands here with its quotes.
    pub like: Option<Span>,
    /// Only rows for which this expression is true.
    pub condition: Option<Span>,
}

/// Reads a SHOW or DESCRIBE that is about the farm's tables; `None` for any other.
pub fn farm_show(text: &[u8], mode: &Mode, schema: &FarmSchema<'_>) -> Option<FarmShow> {
    let all = tokens(text, mode);
    let end = all.iter().position(|token| token.kind == Kind::Semicolon);
    let all = &all[..end.unwrap_or(all.len())];
    let mut reader = ShowReader { text, all, at: 0 };
    let first = reader.next()?;
    match first.kw {
        Kw::SHOW => show(&mut reader, schema),
        Kw::DESC | Kw::DESCRIBE | Kw::EXPLAIN => describe(&mut reader, schema),
        _ => None,
    }
}

fn show(reader: &mut ShowReader<'_>, schema: &FarmSchema<'_>) -> Option<FarmShow> {
    reader.take(b"extended");
    let full = reader.take(b"full");
    let what = if reader.take(b"databases") || reader.take(b"schemas") {
        ShowWhat::Databases
    } else if reader.take(b"tables") {
        reader.schema(schema)?;
        ShowWhat::Tables
    } else if reader.take(b"table") {
        reader.take(b"status").then_some(())?;
        reader.schema(schema)?;
        ShowWhat::Status
    } else if reader.take(b"columns") || reader.take(b"fields") {
        ShowWhat::Columns(reader.table_from(schema)?)
    } else if [&b"index"[..], b"indexes", b"keys"]
        .iter()
        .any(|word| reader.take(word))
    {
        ShowWhat::Indexes(reader.table_from(schema)?)
    } else if reader.take(b"create") {
        (reader.take(b"table") || reader.take(b"view")).then_some(())?;
        ShowWhat::Create(reader.table(schema)?)
    } else {
        return None;
    };
    let (mut like, mut condition) = (None, None);
    if reader.take(b"like") {
        like = Some(span(
            reader.next().filter(|token| token.kind == Kind::Literal)?,
        ));
    } else if reader.take(b"where") {
        let (start, last) = (reader.all.get(reader.at)?, reader.all.last()?);
        condition = Some(Span {
            start: start.start,
            end: last.end,
        });
        reader.at = reader.all.len();
    }
    (reader.at == reader.all.len()).then_some(FarmShow {
        what,
        full,
        like,
        condition,
    })
}

/// `DESCRIBE table [column | 'pattern']`.
fn describe(reader: &mut ShowReader<'_>, schema: &FarmSchema<'_>) -> Option<FarmShow> {
    let what = ShowWhat::Columns(reader.table(schema)?);
    let like = reader.next().map(span);
    (reader.at == reader.all.len()).then_some(FarmShow {
        what,
        full: false,
        like,
        condition: None,
    })
}

fn span(token: &Token) -> Span {
    let (start, end) = (token.start, token.end);
    Span { start, end }
}

struct ShowReader<'t> {
    text: &'t [u8],
    all: &'t [Token],
    at: usize,
}

impl<'t> ShowReader<'t> {
    fn next(&mut self) -> Option<&'t Token> {
        let token = self.all.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    fn take(&mut self, word: &[u8]) -> bool {
        let next = self.all.get(self.at);
        let is = next.is_some_and(|token| {
            token.kind == Kind::Word && token.bytes(self.text).eq_ignore_ascii_case(word)
        });
        self.at += usize::from(is);
        is
    }

    fn take_dot(&mut self) -> bool {
        let is = self
            .all
            .get(self.at)
            .is_some_and(|token| token.kind == Kind::Dot);
        self.at += usize::from(is);
        is
    }

    fn name(&mut self) -> Option<&'t [u8]> {
        name_of(self.next()?, self.text)
    }

    /// `[FROM database]`, which must be the farm's.
    fn schema(&mut self, schema: &FarmSchema<'_>) -> Option<()> {
        let is = match self.take(b"from") || self.take(b"in") {
            true => schema.is_named(self.name()?),
            false => schema.is_current(),
        };
        is.then_some(())
    }

    /// `table`, `database.table`.
    fn table(&mut self, schema: &FarmSchema<'_>) -> Option<&'static str> {
        let first = self.name()?;
        match self.take_dot() {
            true => schema.table(Some(first), self.name()?),
            false => schema.table(None, first),
        }
    }

    /// `FROM table [FROM database]`.
    fn table_from(&mut self, schema: &FarmSchema<'_>) -> Option<&'static str> {
        (self.take(b"from") || self.take(b"in")).then_some(())?;
        let first = self.name()?;
        if self.take_dot() {
            return schema.table(Some(first), self.name()?);
        }
        match self.take(b"from") || self.take(b"in") {
            true => schema.table(Some(self.name()?), first),
            false => schema.table(None, first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn shown(text: &str, database: Option<&'static [u8]>) -> Option<String> {
        let schema = FarmSchema {
            schema: "heddle",
            database,
            names: &["servers", "events"],
        };
        let show = farm_show(
            text.as_bytes(),
            &Mode::new(Dialect::MariaDb, 101_100),
            &schema,
        )?;
        let part = |span: Option<Span>| {
            span.map_or(String::new(), |it| {
                String::from_utf8_lossy(it.of(text.as_bytes())).into_owned()
            })
        };
        let full = if show.full { " full" } else { "" };
        Some(format!(
            "{:?}{full} {}{}",
            show.what,
            part(show.like),
            part(show.condition)
        ))
    }

    #[test]
    fn statements_about_the_farms_tables() {
        for (text, wanted) in [
            ("SHOW TABLES FROM heddle", "Tables "),
            (
                "show full tables in `heddle` like 's%';",
                "Tables full 's%'",
            ),
            (
                "SHOW TABLES FROM heddle WHERE Tables_in_heddle = 'x'",
                "Tables Tables_in_heddle = 'x'",
            ),
            ("SHOW TABLE STATUS FROM heddle", "Status "),
            ("SHOW COLUMNS FROM heddle.servers", "Columns(\"servers\") "),
            (
                "SHOW FULL FIELDS FROM servers FROM heddle",
                "Columns(\"servers\") full ",
            ),
            ("DESC heddle.Servers", "Columns(\"servers\") "),
            (
                "EXPLAIN heddle.servers weight",
                "Columns(\"servers\") weight",
            ),
            ("SHOW CREATE TABLE heddle.events", "Create(\"events\") "),
            ("SHOW INDEX FROM heddle.events", "Indexes(\"events\") "),
            ("SHOW DATABASES LIKE 'h%'", "Databases 'h%'"),
        ] {
            assert_eq!(shown(text, None).as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(
            shown("SHOW TABLES", Some(b"heddle")).as_deref(),
            Some("Tables ")
        );
        assert_eq!(
            shown("DESCRIBE events", Some(b"heddle")).as_deref(),
            Some("Columns(\"events\") ")
        );
    }

    #[test]
    fn other_statements() {
        for text in [
            "SHOW TABLES",
            "SHOW TABLES FROM app",
            "SHOW COLUMNS FROM heddle.mark",
            "DESCRIBE servers",
            "EXPLAIN SELECT * FROM heddle.servers",
            "SHOW CREATE TABLE app.servers",
            "SHOW STATUS",
            "SHOW TABLES FROM heddle LIKE",
            "SELECT 1",
            "",
        ] {
            assert_eq!(shown(text, Some(b"app")), None, "{text}");
        }
    }
}
