//! Tables of the servers that list their connections, or what is said of the client's own connection,
//! and a text in which such a table is replaced by what the router knows.
//!
//! A statement that also names other tables with the servers' ids is left alone: there the ids must
//! agree. So is what is stored and run later, and what asks about the table itself (EXPLAIN, SHOW).

use crate::introspection::identity::{in_place, is_server_id, name_of, runs_from, tokens};
use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::quote::{Edit, edited};
use crate::lexer::token::{Kind, Token};
use crate::session_state::word::statements;

/// A table that lists connections, or names values of the own one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listing {
    /// `information_schema.PROCESSLIST`
    Processes,
    /// `performance_schema.processlist` (MySQL)
    PerformanceProcesses,
    /// `performance_schema.threads`, with the threads that serve no client
    Threads,
    /// `information_schema.SESSION_STATUS` (MariaDB)
    Status,
    /// `performance_schema.session_status`
    PerformanceStatus,
    /// `information_schema.SESSION_VARIABLES` (MariaDB)
    Variables,
    /// `information_schema.GLOBAL_VARIABLES` (MariaDB)
    GlobalVariables,
    /// `performance_schema.session_variables` (MySQL)
    PerformanceVariables,
    /// `performance_schema.global_variables` (MySQL)
    PerformanceGlobalVariables,
}

impl Listing {
    const ALL: [Listing; 9] = [
        Listing::Processes,
        Listing::PerformanceProcesses,
        Listing::Threads,
        Listing::Status,
        Listing::PerformanceStatus,
        Listing::Variables,
        Listing::GlobalVariables,
        Listing::PerformanceVariables,
        Listing::PerformanceGlobalVariables,
    ];

    /// As a statement names it.
    pub fn name(self) -> &'static str {
        match self {
            Listing::Processes => "information_schema.PROCESSLIST",
            Listing::PerformanceProcesses => "performance_schema.processlist",
            Listing::Threads => "performance_schema.threads",
            Listing::Status => "information_schema.SESSION_STATUS",
            Listing::PerformanceStatus => "performance_schema.session_status",
            Listing::Variables => "information_schema.SESSION_VARIABLES",
            Listing::GlobalVariables => "information_schema.GLOBAL_VARIABLES",
            Listing::PerformanceVariables => "performance_schema.session_variables",
            Listing::PerformanceGlobalVariables => "performance_schema.global_variables",
        }
    }

    /// It has a row for each connection.
    pub fn lists_processes(self) -> bool {
        matches!(self, Listing::Processes | Listing::PerformanceProcesses)
    }

    /// It has the status of the session.
    pub fn is_status(self) -> bool {
        matches!(self, Listing::Status | Listing::PerformanceStatus)
    }

    fn named(schema: &[u8], table: &[u8]) -> Option<Listing> {
        let is = |listing: &Listing| {
            let (own_schema, own_table) = listing.name().split_once('.').unwrap_or_default();
            schema.eq_ignore_ascii_case(own_schema.as_bytes())
                && table.eq_ignore_ascii_case(own_table.as_bytes())
        };
        Listing::ALL.into_iter().find(is)
    }
}

/// The listings that [`with_listings`] would replace. `database` is the current one.
pub fn listings(text: &[u8], mode: &Mode, database: Option<&[u8]>) -> Vec<Listing> {
    let mut all = Vec::new();
    for span in statements(text, mode) {
        let statement = span.of(text);
        let found = Found::read(statement, &tokens(statement, mode), database);
        for table in found.iter().flat_map(|found| &found.tables) {
            if !all.contains(&table.listing) {
                all.push(table.listing);
            }
        }
    }
    all
}

/// The text with each of these tables replaced by `query`'s text for it, a query in parentheses, and
/// with the client's `id` where the same statement asks for its connection's. `None` when there is
/// nothing to replace.
pub fn with_listings(
    text: &[u8],
    mode: &Mode,
    database: Option<&[u8]>,
    id: u32,
    query: impl Fn(Listing) -> String,
) -> Option<Vec<u8>> {
    let (mut out, mut done) = (Vec::new(), 0);
    for span in statements(text, mode) {
        let statement = span.of(text);
        let Some(from) = Found::read(statement, &tokens(statement, mode), database) else {
            continue;
        };
        let (kept, runs) = statement.split_at(from.from);
        let runs = in_place(runs, mode, id).unwrap_or_else(|| runs.to_vec());
        let statement = [kept, &runs].concat();
        let tokens = tokens(&statement, mode);
        let Some(found) = Found::read(&statement, &tokens, database) else {
            continue;
        };
        out.extend_from_slice(&text[done..span.start as usize]);
        out.extend_from_slice(&edited(
            &statement,
            found.edits(&statement, &tokens, &query),
        ));
        done = span.end as usize;
    }
    if done == 0 {
        return None;
    }
    out.extend_from_slice(&text[done..]);
    Some(out)
}

/// A place in a FROM clause.
struct Table {
    listing: Listing,
    /// Its first token and its last one.
    tokens: (usize, usize),
    /// The statement gives it a name of its own.
    aliased: bool,
}

struct Found {
    /// What stands before this byte is kept as it is.
    from: usize,
    tables: Vec<Table>,
    /// Tokens of schemas in qualified names of columns.
    schemas: Vec<usize>,
}

/// Words that may follow a table and that one of the engines takes for names elsewhere.
const BEHIND_TABLE: [&[u8]; 8] = [
    b"except",
    b"fetch",
    b"for",
    b"intersect",
    b"minus",
    b"offset",
    b"returning",
    b"window",
];

impl Found {
    /// `None`: there is none, or the statement must be left alone.
    fn read(text: &[u8], tokens: &[Token], database: Option<&[u8]>) -> Option<Found> {
        let mut found = Found {
            from: runs_from(tokens)?,
            tables: Vec::new(),
            schemas: Vec::new(),
        };
        let first = tokens.iter().find(|token| token.kind != Kind::Open)?;
        let reads = matches!(
            first.kw,
            Kw::SELECT
                | Kw::WITH
                | Kw::INSERT
                | Kw::REPLACE
                | Kw::UPDATE
                | Kw::DELETE
                | Kw::CREATE
                | Kw::SET
                | Kw::DO
                | Kw::KILL
        );
        if !reads {
            return None;
        }
        let kind = |at: usize| tokens.get(at).map_or(Kind::End, |token: &Token| token.kind);
        for at in 0..tokens.len() {
            let Some(name) = name_of(&tokens[at], text) else {
                continue;
            };
            let after_dot = at > 0 && kind(at - 1) == Kind::Dot;
            let before_dot = kind(at + 1) == Kind::Dot;
            let second = tokens.get(at + 2).and_then(|token| name_of(token, text));
            let listing = second.and_then(|second| Listing::named(name, second));
            if let Some(listing) = bare(tokens, at, name, database) {
                found.take(text, tokens, listing, (at, at));
                continue;
            }
            match listing.filter(|_| !after_dot && before_dot) {
                Some(_) if kind(at + 3) == Kind::Dot => found.schemas.push(at),
                Some(listing) if stands_in_from(tokens, at) => {
                    found.take(text, tokens, listing, (at, at + 2));
                }
                Some(_) => return None,
                None if is_server_id(tokens, at, text) => {
                    let of_listing = after_dot || before_dot;
                    if !(of_listing && name.eq_ignore_ascii_case(b"processlist")) {
                        return None;
                    }
                }
                None => {}
            }
        }
        let any = |is: fn(Listing) -> bool| found.tables.iter().any(|table| is(table.listing));
        let mixed = any(Listing::lists_processes) && any(|listing| listing == Listing::Threads);
        (!mixed && !found.tables.is_empty()).then_some(found)
    }

    fn take(&mut self, text: &[u8], tokens: &[Token], listing: Listing, place: (usize, usize)) {
        self.tables.push(Table {
            listing,
            tokens: place,
            aliased: is_aliased(text, tokens, place.1),
        });
    }

    fn edits(
        &self,
        text: &[u8],
        tokens: &[Token],
        query: &impl Fn(Listing) -> String,
    ) -> Vec<Edit> {
        let place =
            |first: usize, last: usize| (tokens[first].start as usize, tokens[last].end as usize);
        let mut edits = Vec::new();
        for table in &self.tables {
            let (first, last) = table.tokens;
            let mut with = query(table.listing);
            if !table.aliased {
                let name = String::from_utf8_lossy(tokens[last].bytes(text));
                with.push_str(&format!(" AS {name}"));
            }
            edits.push((place(first, last), with));
        }
        for &schema in &self.schemas {
            edits.push((place(schema, schema + 1), String::new()));
        }
        // The servers find their own table's columns by its name in any case, those of a query not.
        for table in self.tables.iter().filter(|table| !table.aliased) {
            let last = table.tokens.1;
            let written = tokens[last].bytes(text);
            let Some(name) = name_of(&tokens[last], text) else {
                continue;
            };
            for (at, token) in tokens.iter().enumerate() {
                let same = name_of(token, text).is_some_and(|n| n.eq_ignore_ascii_case(name));
                let next = tokens.get(at + 1).map_or(Kind::End, |next| next.kind);
                if same && next == Kind::Dot && token.bytes(text) != written {
                    let written = String::from_utf8_lossy(written).into_owned();
                    edits.push((place(at, at), written));
                }
            }
        }
        edits
    }
}

/// Behind the table whose name ends with this token stands a name of its own.
pub(crate) fn is_aliased(text: &[u8], tokens: &[Token], last: usize) -> bool {
    tokens.get(last + 1).is_some_and(|next| {
        let word = next.bytes(text);
        let clause = BEHIND_TABLE.iter().any(|w| word.eq_ignore_ascii_case(w));
        match next.kind {
            Kind::Word => next.kw == Kw::AS || !(next.kw.is_reserved() || clause),
            kind => kind == Kind::Quoted,
        }
    })
}

/// A table's name may stand here, and a column's may not: behind FROM, JOIN, or a comma of theirs. A
/// name of two parts without a third is no column of such a table.
fn stands_in_from(tokens: &[Token], at: usize) -> bool {
    let Some(before) = at.checked_sub(1).map(|before| &tokens[before]) else {
        return false;
    };
    follows_from(before) || matches!(before.kind, Kind::Comma | Kind::Open)
}

fn follows_from(before: &Token) -> bool {
    matches!(before.kw, Kw::FROM | Kw::JOIN | Kw::STRAIGHT_JOIN)
}

/// The table by its name alone, where information_schema is the current database.
fn bare(tokens: &[Token], at: usize, name: &[u8], database: Option<&[u8]>) -> Option<Listing> {
    let schema: &[u8] = b"information_schema";
    let inside = database?.eq_ignore_ascii_case(schema) && at > 0;
    let next = tokens.get(at + 1).map_or(Kind::End, |token| token.kind);
    let alone = inside && follows_from(&tokens[at - 1]) && next != Kind::Dot;
    Listing::named(schema, name).filter(|_| alone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn listed(text: &str, database: Option<&[u8]>) -> String {
        let mode = Mode::new(Dialect::MySql, 80_045);
        let query = |listing| match listing {
            Listing::Threads => "(T)".to_owned(),
            listing if listing.lists_processes() => "(P)".to_owned(),
            _ => "(V)".to_owned(),
        };
        let new = with_listings(text.as_bytes(), &mode, database, 5, query);
        let asked = !listings(text.as_bytes(), &mode, database).is_empty();
        assert_eq!(asked, new.is_some(), "{text}");
        new.map_or("-".to_owned(), |new| String::from_utf8(new).unwrap())
    }

    #[test]
    fn the_table_becomes_a_query_of_the_same_name() {
        let cases = [
            (
                "SELECT * FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()",
                "SELECT * FROM (P) AS PROCESSLIST WHERE ID = (5|0)",
            ),
            (
                "select p.id from `Information_Schema` . `processlist` as p, t",
                "select p.id from (P) as p, t",
            ),
            (
                "SELECT Processlist.ID, information_schema.processlist.HOST x FROM t JOIN information_schema.PROCESSLIST ON 1",
                "SELECT PROCESSLIST.ID, PROCESSLIST.HOST x FROM t JOIN (P) AS PROCESSLIST ON 1",
            ),
            (
                "SELECT 1 FROM a, performance_schema.processlist LIMIT 1; SELECT CONNECTION_ID()",
                "SELECT 1 FROM a, (P) AS processlist LIMIT 1; SELECT CONNECTION_ID()",
            ),
            (
                "INSERT INTO t SELECT ID FROM (information_schema.processlist q)",
                "INSERT INTO t SELECT ID FROM ((P) q)",
            ),
            (
                "select PROCESSLIST_ID, PROCESSLIST_HOST from performance_schema.threads where PROCESSLIST_ID=9",
                "select PROCESSLIST_ID, PROCESSLIST_HOST from (T) AS threads where PROCESSLIST_ID=9",
            ),
            (
                "SELECT s.* FROM performance_schema.session_status s, performance_schema.global_variables",
                "SELECT s.* FROM (V) s, (V) AS global_variables",
            ),
            (
                "CREATE TABLE t AS SELECT CONNECTION_ID() i FROM information_schema.processlist",
                "CREATE TABLE t AS SELECT (5|0) i FROM (P) AS processlist",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(listed(text, None), wanted, "{text}");
        }
        let bare = "SELECT COUNT(*) FROM processlist";
        assert_eq!(listed(bare, None), "-");
        assert_eq!(
            listed(bare, Some(b"INFORMATION_SCHEMA")),
            "SELECT COUNT(*) FROM (P) AS processlist"
        );
    }

    #[test]
    fn what_must_agree_with_the_servers_ids_is_left_alone() {
        for text in [
            "SELECT 1 FROM information_schema.processlist p JOIN information_schema.innodb_trx t ON p.id = t.trx_mysql_thread_id",
            "SELECT 1 FROM performance_schema.threads JOIN performance_schema.events_statements_current USING (thread_id)",
            "SELECT 1 FROM performance_schema.threads t JOIN information_schema.processlist p ON p.id = t.processlist_id",
            "SELECT IS_USED_LOCK('a'), ID FROM information_schema.processlist",
            "SELECT 1 FROM sys.session, information_schema.processlist",
            "CREATE VIEW v AS SELECT * FROM information_schema.processlist",
            "CREATE PROCEDURE p() SELECT * FROM information_schema.processlist",
            "SHOW COLUMNS FROM information_schema.processlist",
            "EXPLAIN SELECT * FROM information_schema.processlist",
            "DESCRIBE information_schema.processlist",
            "TABLE information_schema.processlist",
            "PREPARE s FROM 'SELECT * FROM information_schema.processlist'",
            "SELECT information_schema.processlist.id FROM t",
            "SELECT 'information_schema.processlist' /* information_schema.processlist */",
            "SELECT * FROM processlist, d.processlist, information_schema.tables",
        ] {
            assert_eq!(listed(text, Some(b"d")), "-", "{text}");
        }
    }
}
