//! The tables that a text names, for rules that go by them.
//!
//! Names are found by the words in front of them (FROM, JOIN, INTO, UPDATE, TABLE, …), over all
//! statements of a text. What routines and views use inside is not known here, and the names that a
//! WITH gives are no tables.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Past, Token};
use crate::scan::Span;
use crate::session_state::word::unquote;

/// A table as a text names it, without quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableName<'a> {
    /// `None` where the session's database is meant.
    pub database: Option<Cow<'a, [u8]>>,
    pub name: Cow<'a, [u8]>,
    /// Where it stands, its database included.
    pub span: Span,
}

/// The tables of a text in their order, each as often as it is named. Time is linear.
pub fn tables<'a>(text: &'a [u8], mode: &Mode) -> Vec<TableName<'a>> {
    let Reader {
        mut found, given, ..
    } = read(text, mode);
    if !given.is_empty() {
        found.retain(|table| {
            table.database.is_some() || !given.contains(&table.name.to_ascii_lowercase())
        });
    }
    found
}

/// The tables of a SELECT where it surely names all that it reads, but for what functions and views use
/// inside; `None` where something in it may hide one.
pub fn read_tables<'a>(text: &'a [u8], mode: &Mode) -> Option<Vec<TableName<'a>>> {
    let hides = |mark: &[u8]| text.windows(mark.len()).any(|part| part == mark);
    if hides(b"/*!") || hides(b"/*M!") {
        return None;
    }
    let reader = read(text, mode);
    let plain = reader.verb == Kw::SELECT && !reader.unsure && !reader.several;
    plain.then_some(reader.found)
}

fn read<'a, 'm>(text: &'a [u8], mode: &'m Mode) -> Reader<'a, 'm> {
    let mut reader = Reader {
        text,
        mode,
        lists: vec![List::default()],
        begins: true,
        verb: Kw::NONE,
        name: Name::None,
        found: Vec::new(),
        given: HashSet::new(),
        unsure: false,
        several: false,
    };
    let mut lexer = Lexer::new(text, mode);
    let mut past = Past::new();
    loop {
        let token = lexer.next();
        reader.see(&token, &past);
        past.push(&token);
        if token.kind == Kind::End {
            break;
        }
    }
    reader
}

/// What is known within one pair of parentheses.
#[derive(Clone, Copy, Default)]
struct List {
    /// A FROM here belongs to a query, not to a function like TRIM.
    query: bool,
    /// A comma leads to another table.
    tables: bool,
    /// The next name is a table's.
    expects: bool,
}

/// A table's name under way.
enum Name<'a> {
    None,
    One(Cow<'a, [u8]>, Span),
    /// A dot went by.
    Qualified(Cow<'a, [u8]>, Span),
    /// Found, and AS went by: a parenthesis behind it makes it a name that WINDOW gives.
    Renamed,
}

struct Reader<'a, 'm> {
    text: &'a [u8],
    mode: &'m Mode,
    /// The last one is that of the innermost parentheses.
    lists: Vec<List>,
    /// The next token is the first of its statement.
    begins: bool,
    verb: Kw,
    name: Name<'a>,
    found: Vec<TableName<'a>>,
    /// Names that are given within the text, in lower case.
    given: HashSet<Vec<u8>>,
    /// Where a table's name was expected stood something else, or a list of tables may go on in a way
    /// that is not known here.
    unsure: bool,
    /// It is more than one statement.
    several: bool,
}

impl<'a> Reader<'a, '_> {
    fn see(&mut self, token: &Token, past: &Past) {
        self.follow_name(token, past);
        match token.kind {
            Kind::Semicolon => {
                self.lists.truncate(1);
                self.lists[0] = List::default();
                self.begins = true;
                return;
            }
            Kind::Open => {
                let now = self.list();
                // `FROM (a, b)` and `FROM (SELECT …)`: what follows tells which.
                let List { expects, .. } = *now;
                now.expects = false;
                self.lists.push(List {
                    query: false,
                    tables: expects,
                    expects,
                });
            }
            Kind::Close if self.lists.len() > 1 => {
                self.lists.pop();
            }
            Kind::Comma => {
                let list = self.list();
                list.expects = list.tables;
            }
            Kind::Word if token.kw != Kw::NONE => self.word(token, past),
            Kind::Word | Kind::Quoted => self.candidate(token, past),
            _ => self.unsure |= std::mem::take(&mut self.list().expects),
        }
        self.begins = false;
    }

    fn list(&mut self) -> &mut List {
        // The first one is never taken out.
        let last = self.lists.len() - 1;
        &mut self.lists[last]
    }

    /// A keyword, which may lead to a table, end a list of them, or be a name after all.
    fn word(&mut self, token: &Token, past: &Past) {
        if self.begins {
            self.several |= self.verb != Kw::NONE;
            self.verb = token.kw;
        }
        let begins = self.begins;
        let verb = self.verb;
        let list = self.list();
        let (expected, listed) = (list.expects, list.tables);
        match token.kw {
            Kw::SELECT => {
                *list = List {
                    query: true,
                    ..List::default()
                };
            }
            Kw::DELETE | Kw::SHOW if begins => list.query = true,
            Kw::FROM if list.query || verb == Kw::DELETE || verb == Kw::SHOW => {
                (list.tables, list.expects) = (true, true);
            }
            Kw::JOIN | Kw::STRAIGHT_JOIN if list.tables => list.expects = true,
            Kw::INTO => list.expects = true,
            Kw::USING if verb == Kw::DELETE && list.tables => list.expects = true,
            Kw::UPDATE if !matches!(past.kw, Kw::FOR | Kw::KEY | Kw::ON) => {
                (list.tables, list.expects) = (true, true);
            }
            Kw::TABLE | Kw::TABLES if verb != Kw::SHOW => {
                (list.tables, list.expects) = (verb != Kw::ALTER, true);
            }
            Kw::INSERT | Kw::REPLACE | Kw::DESC | Kw::DESCRIBE | Kw::TRUNCATE if begins => {
                list.expects = true;
            }
            Kw::ON if matches!(verb, Kw::CREATE | Kw::DROP) && !list.tables => list.expects = true,
            Kw::LOW_PRIORITY
            | Kw::DELAYED
            | Kw::HIGH_PRIORITY
            | Kw::IGNORE
            | Kw::IF
            | Kw::NOT
            | Kw::EXISTS
            | Kw::ONLY => {}
            Kw::WHERE
            | Kw::SET
            | Kw::GROUP
            | Kw::ORDER
            | Kw::HAVING
            | Kw::LIMIT
            | Kw::UNION
            | Kw::VALUES
            | Kw::FOR
            | Kw::PROCEDURE => (list.tables, list.expects) = (false, false),
            kw if kw.is_reserved() => list.expects = false,
            _ => self.candidate(token, past),
        }
        let named = matches!(self.name, Name::One(..));
        let missed = expected && !named && token.kw != Kw::SELECT;
        // `t FOR SYSTEM_TIME ALL, u`, `t USE INDEX FOR JOIN (i), u`.
        let goes_on = listed && matches!(token.kw, Kw::FOR | Kw::PROCEDURE);
        self.unsure |= missed || goes_on;
    }

    /// A name: of a table, where one is expected, or of what WITH defines.
    fn candidate(&mut self, token: &Token, past: &Past) {
        let name = unquote(token.bytes(self.text), self.mode);
        if past.kind == Kind::Dot {
            return;
        }
        let defines = self.verb == Kw::WITH && !self.list().query;
        if std::mem::take(&mut self.list().expects) {
            let (start, end) = (token.start, token.end);
            self.name = Name::One(name, Span { start, end });
        } else if defines && self.lists.len() == 1 {
            self.given.insert(name.to_ascii_lowercase());
        }
    }

    /// Ends or goes on with a name under way.
    fn follow_name(&mut self, token: &Token, past: &Past) {
        let name = std::mem::replace(&mut self.name, Name::None);
        self.name = match (name, token.kind) {
            (Name::One(name, span), Kind::Dot) => Name::Qualified(name, span),
            (Name::Qualified(database, Span { start, .. }), Kind::Word | Kind::Quoted)
                if past.kind == Kind::Dot =>
            {
                let end = token.end;
                self.found.push(TableName {
                    database: Some(database),
                    name: unquote(token.bytes(self.text), self.mode),
                    span: Span { start, end },
                });
                Name::None
            }
            (Name::One(name, span), kind) => {
                self.found.push(TableName {
                    database: None,
                    name,
                    span,
                });
                match kind {
                    Kind::Word if token.kw == Kw::AS => Name::Renamed,
                    _ => Name::None,
                }
            }
            // `w AS (…)` behind a comma is a window, not a table.
            (Name::Renamed, Kind::Open) => {
                self.found.pop();
                Name::None
            }
            _ => Name::None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn names(text: &str) -> String {
        let all = tables(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_100));
        let shown = all.iter().map(|table| {
            let name = String::from_utf8_lossy(&table.name);
            match &table.database {
                Some(database) => format!("{}.{name}", String::from_utf8_lossy(database)),
                None => name.into_owned(),
            }
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn tables_of_queries() {
        for (text, found) in [
            ("SELECT 1", ""),
            ("SELECT a FROM t", "t"),
            (
                "select a from shop.`or``der` o where o.b = 1",
                "shop.or`der",
            ),
            (
                "SELECT * FROM a, d . b x, c WHERE x.d IN (1, 2) ORDER BY e, f",
                "a d.b c",
            ),
            (
                "SELECT * FROM a JOIN b ON a.x = b.y, c LEFT JOIN (d, e) USING (g, h)",
                "a b c d e",
            ),
            ("SELECT * FROM (SELECT x, y FROM t, u) AS v, w", "t u w"),
            (
                "(SELECT a FROM t) UNION ALL (SELECT b FROM u) ORDER BY c, d",
                "t u",
            ),
            ("SELECT TRIM('x' FROM y), EXTRACT(YEAR FROM z) FROM t", "t"),
            (
                "SELECT (SELECT MAX(a) FROM u), b FROM t FORCE INDEX (i, j), v",
                "u t v",
            ),
            (
                "SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.x = t.y)",
                "t u",
            ),
            ("SELECT a FROM t FOR UPDATE", "t"),
            ("SELECT a FROM DUAL", ""),
            ("SELECT a INTO @b FROM t", "t"),
            ("SELECT 'FROM x', `from` FROM t -- FROM u", "t"),
            (
                "WITH c AS (SELECT a FROM t), d AS (SELECT 1) SELECT * FROM c, D, e",
                "t e",
            ),
            (
                "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) SELECT * FROM c",
                "",
            ),
            (
                "SELECT a FROM t WINDOW w AS (ORDER BY a), x AS (ORDER BY b)",
                "t",
            ),
            ("TABLE t", "t"),
            ("SELECT a FROM t; SELECT b FROM d.u", "t d.u"),
        ] {
            assert_eq!(names(text), found, "{text}");
        }
    }

    #[test]
    fn a_query_surely_names_its_tables_or_nobody_relies_on_it() {
        let read = |text: &str| {
            let mode = Mode::new(Dialect::MariaDb, 101_100);
            let all = read_tables(text.as_bytes(), &mode)?;
            let names = all.iter().map(|table| String::from_utf8_lossy(&table.name));
            Some(names.collect::<Vec<_>>().join(" "))
        };
        for (text, names) in [
            ("SELECT 1", ""),
            ("SELECT a FROM t WHERE b = ?", "t"),
            (
                "SELECT a FROM d.t AS x, `u` JOIN v USING (a), w LIMIT 1",
                "t u v w",
            ),
            (
                "SELECT a FROM (t JOIN (u, v) ON 1) LEFT JOIN w ON t.a = w.a",
                "t u v w",
            ),
            (
                "SELECT (SELECT MAX(a) FROM t), TRIM(LEADING 'x' FROM b) FROM u",
                "t u",
            ),
            (
                "SELECT a FROM (SELECT a FROM t) AS x UNION SELECT b FROM u;",
                "t u",
            ),
            (
                "SELECT a FROM t PARTITION (p, q), u IGNORE INDEX (i, j), v",
                "t u v",
            ),
            (
                "SELECT a FROM t, LATERAL (SELECT b FROM u) AS x",
                "t LATERAL u",
            ),
            (
                "SELECT SUM(a) OVER w FROM t WINDOW w AS (ORDER BY a), x AS (w)",
                "t",
            ),
        ] {
            assert_eq!(read(text).as_deref(), Some(names), "{text}");
        }
        for text in [
            "WITH t AS (SELECT a FROM t) SELECT a FROM t",
            "SELECT a FROM t FOR SYSTEM_TIME ALL, u",
            "SELECT a FROM t USE INDEX FOR JOIN (i), u",
            "SELECT a FROM {OJ t LEFT JOIN u ON 1}",
            "SELECT a FROM t /*! , u */",
            "SELECT a FROM t /*M!100000 , u */",
            "SELECT a FROM t; SELECT b FROM u",
            "SELECT a FROM only, u",
            "TABLE t",
            "(SELECT a FROM t)",
            "INSERT INTO t SELECT a FROM u",
            "SHOW TABLES",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn tables_of_writes_and_of_the_rest() {
        for (text, found) in [
            ("INSERT INTO t (a, b) VALUES (1, 2), (3, 4)", "t"),
            ("INSERT IGNORE t SELECT a FROM u", "t u"),
            (
                "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 1, b = 2",
                "t",
            ),
            ("REPLACE LOW_PRIORITY INTO d.t SET a = 1, b = 2", "d.t"),
            ("UPDATE LOW_PRIORITY a, b SET a.x = 1, b.y = 2", "a b"),
            ("UPDATE a JOIN b USING (id) SET x = 1", "a b"),
            ("DELETE FROM t WHERE a = 1", "t"),
            ("DELETE FROM t USING t JOIN u WHERE t.a = u.a", "t t u"),
            ("CREATE TABLE IF NOT EXISTS d.t (a INT, b INT)", "d.t"),
            ("DROP TABLE a, b", "a b"),
            ("ALTER TABLE t ADD a INT, ADD b INT", "t"),
            ("TRUNCATE t", "t"),
            ("TRUNCATE TABLE t", "t"),
            ("LOCK TABLES a READ, b WRITE", "a b"),
            ("CREATE INDEX i ON t (a, b)", "t"),
            ("LOAD DATA LOCAL INFILE 'f' INTO TABLE t", "t"),
            ("SHOW COLUMNS FROM t", "t"),
            ("DESCRIBE d.t", "d.t"),
            ("SET a = 1, b = 2", ""),
            ("", ""),
            ("FROM", ""),
            (")))) FROM ((((", ""),
        ] {
            assert_eq!(names(text), found, "{text}");
        }
    }

    #[test]
    fn endless_texts_take_linear_time() {
        let text = format!("SELECT * FROM {}", "(".repeat(200_000));
        assert_eq!(names(&text), "");
        let text = format!("SELECT * FROM t{}", ", t".repeat(100_000));
        assert_eq!(names(&text).len(), 200_001);
    }
}
