//! Tables about the farm in a text, and the text in which a query stands for each of them.
//!
//! A table is taken for one of the farm where a table's name must stand. What is stored and run later (views,
//! routines) is left alone: the rows of today are not those of tomorrow.

use crate::dml::table::tables;
use crate::introspection::identity::{name_of, runs_from, tokens};
use crate::introspection::listing::is_aliased;
use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::quote::{Edit, edited, ticked};
use crate::lexer::token::{Kind, Token};
use crate::session_state::word::statements;

/// Where the tables about the farm are, and which there are.
#[derive(Clone, Copy, Debug)]
pub struct FarmSchema<'a> {
    /// The database that they are in.
    pub schema: &'static str,
    /// The session's current one.
    pub database: Option<&'a [u8]>,
    /// Their names, in lower case.
    pub names: &'static [&'static str],
}

impl FarmSchema<'_> {
    /// The session is in the database of these tables.
    pub fn is_current(&self) -> bool {
        self.is_named(self.database.unwrap_or_default())
    }

    pub(crate) fn is_named(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.schema.as_bytes())
    }

    /// The table of this name, which stands in `database`, or alone.
    pub(crate) fn table(&self, database: Option<&[u8]>, name: &[u8]) -> Option<&'static str> {
        let inside = database.map_or_else(|| self.is_current(), |it| self.is_named(it));
        let mut names = self.names.iter();
        names
            .find(|it| inside && name.eq_ignore_ascii_case(it.as_bytes()))
            .copied()
    }
}

/// The tables about the farm that a text names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FarmTables {
    /// Those that it reads, each once.
    pub read: Vec<&'static str>,
    /// One that it would change, lock or remove.
    pub written: Option<&'static str>,
}

/// The tables about the farm that a text names where [`with_farm_tables`] would replace them.
pub fn farm_tables(text: &[u8], mode: &Mode, schema: &FarmSchema<'_>) -> FarmTables {
    let mut all = FarmTables::default();
    for span in statements(text, mode) {
        let statement = span.of(text);
        let found = Found::read(statement, mode, schema);
        for place in found.places {
            if !all.read.contains(&place.table) {
                all.read.push(place.table);
            }
        }
        all.written = all.written.or(found.written);
    }
    all
}

/// The text with each of these tables replaced by `query`'s text for it, a query in parentheses. `None` when
/// there is nothing to replace.
pub fn with_farm_tables(
    text: &[u8],
    mode: &Mode,
    schema: &FarmSchema<'_>,
    query: impl Fn(&str) -> String,
) -> Option<Vec<u8>> {
    let mut edits = Vec::new();
    for span in statements(text, mode) {
        let found = Found::read(span.of(text), mode, schema);
        let start = span.start as usize;
        let moved = found.edits(span.of(text), mode, schema, &query);
        edits.extend(
            moved
                .into_iter()
                .map(|((from, to), with)| ((start + from, start + to), with)),
        );
    }
    (!edits.is_empty()).then(|| edited(text, edits))
}

/// A table's name in a statement.
struct Place {
    table: &'static str,
    from: usize,
    to: usize,
}

#[derive(Default)]
struct Found {
    places: Vec<Place>,
    written: Option<&'static str>,
}

impl Found {
    fn read(statement: &[u8], mode: &Mode, schema: &FarmSchema<'_>) -> Found {
        let mut found = Found::default();
        let all = tokens(statement, mode);
        let Some(from) = runs_from(&all) else {
            return found;
        };
        let Some(first) = all.iter().find(|token| token.kind != Kind::Open) else {
            return found;
        };
        if matches!(first.kw, Kw::SHOW | Kw::DESC | Kw::DESCRIBE) {
            return found;
        }
        let runs_query = first.kw == Kw::ANALYZE && all.iter().any(|it| it.kw == Kw::SELECT);
        let changes = first.kw != Kw::NONE
            && !runs_query
            && !matches!(
                first.kw,
                Kw::SELECT | Kw::WITH | Kw::TABLE | Kw::EXPLAIN | Kw::SET | Kw::DO | Kw::VALUES
            );
        for (nth, name) in tables(statement, mode).iter().enumerate() {
            let Some(table) = schema.table(name.database.as_deref(), &name.name) else {
                continue;
            };
            let (start, end) = (name.span.start as usize, name.span.end as usize);
            if changes && nth == 0 {
                found.written = Some(table);
            } else if start >= from {
                let (from, to) = (start, end);
                found.places.push(Place { table, from, to });
            }
        }
        found
    }

    fn edits(
        &self,
        text: &[u8],
        mode: &Mode,
        schema: &FarmSchema<'_>,
        query: &impl Fn(&str) -> String,
    ) -> Vec<Edit> {
        let all = tokens(text, mode);
        let mut edits = Vec::new();
        for place in &self.places {
            let Some(last) = all.iter().position(|token| token.end as usize == place.to) else {
                continue;
            };
            let mut with = query(place.table);
            if !is_aliased(text, &all, last) {
                let name = name_of(&all[last], text).unwrap_or_default();
                with.push_str(" AS ");
                with.push_str(&ticked(&String::from_utf8_lossy(name)));
            }
            edits.push(((place.from, place.to), with));
            // `TABLE t` takes no query.
            let before = all.iter().rfind(|token| token.end as usize <= place.from);
            if let Some(word) = before.filter(|token| token.kw == Kw::TABLE) {
                edits.push((
                    (word.start as usize, word.end as usize),
                    "SELECT * FROM".to_owned(),
                ));
            }
        }
        if !edits.is_empty() {
            edits.extend(self.columns(text, &all, schema));
        }
        edits
    }

    /// `heddle.servers.name` becomes a column of the query that stands for the table.
    fn columns(&self, text: &[u8], all: &[Token], schema: &FarmSchema<'_>) -> Vec<Edit> {
        let dot = |at: usize| all.get(at).is_some_and(|token| token.kind == Kind::Dot);
        let named = |at: usize| {
            let first = name_of(all.get(at)?, text).filter(|name| schema.is_named(name))?;
            let second = name_of(all.get(at + 2)?, text)?;
            let table = schema.table(Some(first), second)?;
            let used = self.places.iter().any(|place| place.table == table);
            (used && dot(at + 1) && dot(at + 3)).then_some(second)
        };
        let edit = |at: usize| -> Option<Edit> {
            let second = named(at).filter(|_| at == 0 || !dot(at - 1))?;
            let place = (all[at].start as usize, all[at + 2].end as usize);
            Some((place, ticked(&String::from_utf8_lossy(second))))
        };
        (0..all.len()).filter_map(edit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    const NAMES: [&str; 3] = ["servers", "groups", "events"];

    fn mode() -> Mode {
        Mode::new(Dialect::MySql, 80_045)
    }

    fn schema(database: Option<&'static [u8]>) -> FarmSchema<'static> {
        FarmSchema {
            schema: "heddle",
            database,
            names: &NAMES,
        }
    }

    fn replaced(text: &str, database: Option<&'static [u8]>) -> String {
        let schema = schema(database);
        let query = |table: &str| format!("({})", &table[..1]);
        let new = with_farm_tables(text.as_bytes(), &mode(), &schema, query);
        let read = farm_tables(text.as_bytes(), &mode(), &schema).read;
        assert_eq!(new.is_some(), !read.is_empty(), "{text}");
        new.map_or("-".to_owned(), |new| {
            String::from_utf8(new).expect("as it came")
        })
    }

    #[test]
    fn a_query_takes_the_place_of_each_table() {
        for (text, wanted) in [
            (
                "SELECT * FROM heddle.servers",
                "SELECT * FROM (s) AS `servers`",
            ),
            (
                "select heddle.servers.name, s.x from `Heddle` . `servers` , heddle.groups as s where 1",
                "select `servers`.name, s.x from (s) AS `servers` , (g) as s where 1",
            ),
            (
                "SELECT 1 FROM app.t JOIN heddle.servers s ON s.name = t.a LEFT JOIN heddle.groups g USING (group_id)",
                "SELECT 1 FROM app.t JOIN (s) s ON s.name = t.a LEFT JOIN (g) g USING (group_id)",
            ),
            (
                "SELECT (SELECT COUNT(*) FROM heddle.events) a; SELECT 2 FROM heddle.groups ORDER BY 1",
                "SELECT (SELECT COUNT(*) FROM (e) AS `events`) a; SELECT 2 FROM (g) AS `groups` ORDER BY 1",
            ),
            (
                "INSERT INTO app.t SELECT name FROM heddle.servers",
                "INSERT INTO app.t SELECT name FROM (s) AS `servers`",
            ),
            (
                "CREATE TABLE app.t AS SELECT name FROM heddle.servers",
                "CREATE TABLE app.t AS SELECT name FROM (s) AS `servers`",
            ),
            ("TABLE heddle.servers", "SELECT * FROM (s) AS `servers`"),
            (
                "EXPLAIN SELECT 1 FROM heddle.servers",
                "EXPLAIN SELECT 1 FROM (s) AS `servers`",
            ),
            (
                "WITH w AS (SELECT * FROM heddle.servers) SELECT * FROM w",
                "WITH w AS (SELECT * FROM (s) AS `servers`) SELECT * FROM w",
            ),
        ] {
            assert_eq!(replaced(text, None), wanted, "{text}");
        }
        let bare = "SELECT * FROM servers, app.groups";
        assert_eq!(replaced(bare, Some(b"app")), "-");
        assert_eq!(
            replaced(bare, Some(b"HEDDLE")),
            "SELECT * FROM (s) AS `servers`, app.groups"
        );
        let given = "WITH servers AS (SELECT 1) SELECT * FROM servers";
        assert_eq!(replaced(given, Some(b"heddle")), "-");
    }

    #[test]
    fn what_is_no_table_or_stored_stays() {
        for text in [
            "SELECT heddle.events, heddle.servers FROM app.heddle",
            "SELECT 'heddle.servers' /* heddle.servers */ FROM t",
            "SELECT * FROM heddle.mark",
            "CREATE VIEW v AS SELECT * FROM heddle.servers",
            "CREATE PROCEDURE p() SELECT * FROM heddle.servers",
            "DESCRIBE heddle.servers",
            "SHOW COLUMNS FROM heddle.servers",
            "SELECT f(heddle.servers) FROM app.heddle",
        ] {
            assert_eq!(replaced(text, None), "-", "{text}");
        }
    }

    #[test]
    fn what_would_change_one_is_known() {
        for (text, written) in [
            ("INSERT INTO heddle.servers VALUES (1)", Some("servers")),
            ("UPDATE heddle.servers SET weight = 1", Some("servers")),
            ("DELETE FROM heddle.events", Some("events")),
            ("TRUNCATE heddle.events", Some("events")),
            ("DROP TABLE heddle.events", Some("events")),
            ("LOCK TABLES heddle.events READ", Some("events")),
            ("SELECT * FROM heddle.events", None),
            ("UPDATE app.t, heddle.events e SET t.a = e.time", None),
        ] {
            let found = farm_tables(text.as_bytes(), &mode(), &schema(None));
            assert_eq!(found.written, written, "{text}");
        }
    }
}
