//! Statements that change definitions: on which groups they run, and what has to be declared after.
//!
//! The definitions of a database with declared tables are on all groups of their maps, so that joins,
//! views, triggers and foreign keys find what they name; accounts and databases are on all groups.
//! Events run on one group only, and a temporary table is where its connection is.

mod declaration;
mod engine;
mod partial;
mod rename;
mod unique;

use std::sync::Arc;

use declaration::Declared;
use farm::Sharding;
use farm::sharding::{Placed, Placement};
use rename::renamed;
use sqltext::{Mode, Piece, PieceKind, Span, pieces};

/// Where a definition is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Defines {
    /// Where statements go that name no declared table.
    Elsewhere,
    /// On these groups, in this order: when the first refuses it, it is done nowhere. And the tables
    /// that may be others then; no names for all.
    On(Vec<Arc<str>>, Then, Vec<Named>),
    /// Not at all; why, and what to do.
    Refused(String),
}

/// What follows when it has gone well everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    Nothing,
    /// The new table is declared, as its comment says.
    Declare(Declaration),
    /// Tables that are gone: database and name.
    Forget(Vec<(String, String)>),
}

/// What a comment in CREATE TABLE asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    pub database: String,
    pub table: String,
    /// A map's number or name.
    pub map: String,
    /// `None` for a global table.
    pub column: Option<String>,
}

/// In which farm and session a statement is.
pub struct Around<'a> {
    pub sharding: &'a Sharding,
    pub home: &'a Arc<str>,
    /// The session's; empty without one.
    pub database: &'a str,
    pub mode: &'a Mode,
}

/// A table, view or other thing with its database.
pub type Named = (String, String);

/// Reads a statement of the class of definitions. `accounts`: it changes accounts.
pub fn define(text: &[u8], accounts: bool, around: &Around<'_>) -> Defines {
    let all = || {
        let groups = around.sharding.groups(around.home);
        Defines::On(groups, Then::Nothing, Vec::new())
    };
    if accounts {
        return all();
    }
    let Some(words) = pieces(text, around.mode) else {
        return Defines::Elsewhere;
    };
    let reader = Reader {
        text,
        words: &words,
        around,
    };
    let Some(verb) = words.first() else {
        return Defines::Elsewhere;
    };
    let is = |word: &str| verb.is(text, word);
    if is("truncate") {
        let at = 1 + usize::from(reader.is(1, "table"));
        return reader.on(&reader.names(at), Then::Nothing);
    }
    let known = is("create") || is("alter") || is("drop") || is("rename");
    match reader.object().filter(|_| known) {
        Some((at, "database" | "schema")) => match is("drop") {
            true => Defines::On(
                around.sharding.groups(around.home),
                Then::Forget(reader.tables_within(at + 1)),
                Vec::new(),
            ),
            false => all(),
        },
        Some((at, "table")) if is("create") => reader.create_table(at),
        Some((at, "table")) if is("drop") => {
            let names = reader.names(at + 1);
            let declared = names.iter().filter(|name| reader.is_declared(name));
            let then = Then::Forget(declared.cloned().collect());
            reader.on(&names, then)
        }
        Some((at, "table")) if is("rename") => reader.rename(at),
        Some((at, "table")) => reader.alter_table(at),
        Some((at, "index")) => reader.on_table(at),
        Some((at, "view")) if !is("drop") => reader.view(at),
        Some((at, "view" | "procedure" | "function" | "trigger" | "sequence")) => {
            reader.on(&reader.names(at + 1), Then::Nothing)
        }
        _ => Defines::Elsewhere,
    }
}

/// What a statement can be about; the first of these words behind its verb counts.
const OBJECTS: [&str; 14] = [
    "database",
    "schema",
    "table",
    "view",
    "procedure",
    "function",
    "trigger",
    "sequence",
    "index",
    "event",
    "server",
    "tablespace",
    "package",
    "logfile",
];

/// `CREATE OR REPLACE ALGORITHM = x DEFINER = a@b SQL SECURITY INVOKER VIEW`
const WORDS_BEFORE_MAX: usize = 16;

struct Reader<'a> {
    text: &'a [u8],
    words: &'a [Piece],
    around: &'a Around<'a>,
}

impl Reader<'_> {
    fn is(&self, at: usize, word: &str) -> bool {
        self.words
            .get(at)
            .is_some_and(|piece| piece.is(self.text, word))
    }

    fn kind(&self, at: usize) -> Option<PieceKind> {
        self.words.get(at).map(|piece| piece.kind)
    }

    /// Where the word stands that says what it is about.
    fn object(&self) -> Option<(usize, &'static str)> {
        let mut places = 1..self.words.len().min(WORDS_BEFORE_MAX);
        places.find_map(|at| {
            let named = OBJECTS.iter().find(|word| self.is(at, word))?;
            // CREATE TEMPORARY TABLE, DROP TEMPORARY TABLE.
            let temporary = (1..at).any(|before| self.is(before, "temporary"));
            let object = match temporary {
                true => "event",
                false => named,
            };
            Some((at, object))
        })
    }

    fn text_of(&self, at: usize) -> Option<String> {
        let name = self.words.get(at)?.name(self.text, self.around.mode)?;
        Some(String::from_utf8_lossy(&name).into_owned())
    }

    /// A name, perhaps with its database, and what follows it.
    fn name(&self, at: usize) -> Option<(Named, usize)> {
        let first = self.text_of(at)?;
        if self.kind(at + 1) == Some(PieceKind::Dot) {
            let second = self.text_of(at + 2)?;
            return Some(((first, second), at + 3));
        }
        Some(((self.around.database.to_owned(), first), at + 1))
    }

    /// Behind IF NOT EXISTS, IF EXISTS.
    fn behind_if(&self, at: usize) -> usize {
        match (self.is(at, "if"), self.is(at + 1, "not")) {
            (true, true) => at + 3,
            (true, false) => at + 2,
            _ => at,
        }
    }

    /// The names of a list.
    fn names(&self, at: usize) -> Vec<Named> {
        let mut found = Vec::new();
        let mut at = self.behind_if(at);
        while let Some((name, next)) = self.name(at) {
            found.push(name);
            if self.kind(next) != Some(PieceKind::Comma) {
                break;
            }
            at = next + 1;
        }
        found
    }

    /// On the groups that have the definitions of these names' databases.
    fn on(&self, names: &[Named], then: Then) -> Defines {
        let Around { sharding, home, .. } = self.around;
        let mut groups: Vec<Arc<str>> = Vec::new();
        for (database, _) in names {
            if database.is_empty() {
                return Defines::Elsewhere;
            }
            for group in sharding.groups_of(database, home) {
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        match groups.is_empty() {
            true => Defines::Elsewhere,
            false => Defines::On(groups, then, names.to_vec()),
        }
    }

    fn is_declared(&self, (database, table): &Named) -> bool {
        let placed = self.around.sharding.placed(database, table);
        matches!(placed, Placed::Sharded(_) | Placed::Global(_))
    }

    /// CREATE INDEX, DROP INDEX … ON
    fn on_table(&self, at: usize) -> Defines {
        let on = (at..self.words.len()).find(|&at| self.is(at, "on"));
        let Some((name, next)) = on.and_then(|on| self.name(on + 1)) else {
            return Defines::Elsewhere;
        };
        let unique = (0..at).any(|at| self.is(at, "unique"));
        let torn = self
            .sharded(&name)
            .filter(|_| unique)
            .and_then(|table| self.torn_list(next, table));
        torn.map_or_else(|| self.on(&[name], Then::Nothing), Defines::Refused)
    }

    /// Declared tables of the database that is named here.
    fn tables_within(&self, at: usize) -> Vec<Named> {
        let Some(database) = self.text_of(self.behind_if(at)) else {
            return Vec::new();
        };
        let declared = self.around.sharding.declared();
        let within = declared.filter(|(of, ..)| ***of == *database);
        within
            .map(|(of, table, _)| (of.to_string(), table.to_string()))
            .collect()
    }

    fn create_table(&self, at: usize) -> Defines {
        let names = self.names(at + 1);
        let Some(name) = names.first() else {
            return Defines::Elsewhere;
        };
        let on = self.on(&names[..1], Then::Nothing);
        let asked = match self.comment() {
            Ok(asked) => asked,
            Err(why) => return Defines::Refused(why),
        };
        let asked = asked.or_else(|| self.expected(name));
        let fills = self.words.iter().any(|word| word.is(self.text, "select"));
        let several = matches!(&on, Defines::On(groups, ..) if groups.len() > 1);
        if fills && (several || asked.is_some()) {
            return Defines::Refused(format!(
                "CREATE TABLE … SELECT does not work in database {}, which has sharded tables: create \
                 the table first, then INSERT INTO … SELECT",
                name.0
            ));
        }
        if fills && self.reads_shards(&name.0) {
            return Defines::Refused(
                "the rows that it reads are on several groups: create the table first, then INSERT INTO … \
                 SELECT"
                    .to_owned(),
            );
        }
        let Some((map, column)) = asked.filter(|_| !self.is_declared(name)) else {
            return on;
        };
        let Some(mapped) = self.around.sharding.map_called(&map) else {
            return Defines::Refused(format!(
                "there is no shard map {map}; `HEDDLE sharding list_definitions` lists them"
            ));
        };
        if name.0.is_empty() {
            return Defines::Elsewhere;
        }
        // The other groups get it when it is declared.
        let declaration = Declaration {
            database: name.0.clone(),
            table: name.1.clone(),
            map,
            column,
        };
        let first = vec![mapped.map.global_group.clone()];
        Defines::On(first, Then::Declare(declaration), names[..1].to_vec())
    }

    fn alter_table(&self, at: usize) -> Defines {
        let names = self.names(at + 1);
        let Some((database, table)) = names.first() else {
            return Defines::Elsewhere;
        };
        let mut on = self.on(&names[..1], Then::Nothing);
        if let Defines::On(.., changed) = &mut on {
            changed.extend(self.new_name(at));
        }
        let placed = self.around.sharding.placed(database, table);
        let (Placed::Sharded(_) | Placed::Global(_)) = placed else {
            return on;
        };
        if let Some(why) = self.without_transactions(at) {
            return Defines::Refused(why);
        }
        let sharded = self.sharded(&names[0]);
        if let Some(why) = sharded.and_then(|table| self.torn_unique(at, table)) {
            return Defines::Refused(why);
        }
        for at in 0..self.words.len() {
            if self.renames(at) {
                return Defines::Refused(renamed(database, table));
            }
            let changes = ["drop", "change", "rename"];
            let Placed::Sharded(sharded) = placed else {
                continue;
            };
            if !changes.iter().any(|word| self.is(at, word)) {
                continue;
            }
            let column = at + 1 + usize::from(self.is(at + 1, "column"));
            let column = self.text_of(self.behind_if(column));
            if column.is_some_and(|column| column.eq_ignore_ascii_case(&sharded.column)) {
                return Defines::Refused(format!(
                    "{} is the shard key of {database}.{table}: it stays as it is as long as the \
                     table is on a map (`heddle sharding remove_table`)",
                    sharded.column
                ));
            }
        }
        on
    }

    /// Map and shard key of a table that was named before it is made. A temporary one is another table.
    fn expected(&self, name: &Named) -> Option<(String, Option<String>)> {
        let placement = self.around.sharding.expected(&name.0, &name.1)?;
        let column = match placement {
            Placement::Sharded(table) => Some(table.column.to_string()),
            Placement::Global { .. } => None,
        };
        Some((placement.map().to_string(), column))
    }

    /// Map and shard key of the comments `/*heddle shard_map=… shard_key=…*/` or `/*heddle
    /// global_map=…*/`, wherever in the text they stand.
    fn comment(&self) -> Result<Option<(String, Option<String>)>, String> {
        let (mut declared, mut from) = (Declared::default(), 0);
        let ends = self.words.iter().map(|word| word.span);
        let end = u32::try_from(self.text.len()).unwrap_or(u32::MAX);
        let last = Span { start: end, end };
        for span in ends.chain([last]) {
            let between = self.text.get(from..span.start as usize).unwrap_or_default();
            declared.read(between)?;
            from = span.end as usize;
        }
        declared.end()
    }
}

#[cfg(test)]
mod tests {
    use farm::samples;
    use sqltext::Dialect;

    use super::*;

    fn farm() -> Sharding {
        let map = samples::range_map(1, &[("g3", 100), ("g2", 200)]);
        let mut sharding = Sharding::new(1, vec![map]);
        sharding.name(1, "shop");
        let orders = samples::sharded("shop", "orders", "customer_id", 1);
        sharding.declare("shop", "orders", orders);
        sharding.assign("logs", "g4".into());
        sharding
    }

    fn defines(text: &str) -> Defines {
        let sharding = farm();
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let around = Around {
            sharding: &sharding,
            home: &"g1".into(),
            database: "shop",
            mode: &mode,
        };
        define(text.as_bytes(), text.starts_with("GRANT"), &around)
    }

    /// The groups and what follows, or why not.
    pub(super) fn told(text: &str) -> String {
        match defines(text) {
            Defines::Elsewhere => "elsewhere".to_owned(),
            Defines::On(groups, Then::Nothing, _) => groups.join(" "),
            Defines::On(groups, Then::Forget(all), _) => {
                let all: Vec<String> = all.iter().map(|(a, b)| format!("{a}.{b}")).collect();
                format!("{} forget [{}]", groups.join(" "), all.join(" "))
            }
            Defines::On(groups, Then::Declare(it), _) => {
                let column = it.column.unwrap_or_default();
                format!(
                    "{} {}.{} on {} by {column}",
                    groups.join(" "),
                    it.database,
                    it.table,
                    it.map
                )
            }
            Defines::Refused(why) => why,
        }
    }

    #[test]
    fn definitions_are_on_all_groups_of_their_databases_maps() {
        for text in [
            "CREATE TABLE notes (a INT)",
            "create or replace table if not exists `notes` (a int)",
            "ALTER TABLE shop.orders ADD INDEX (a), MODIFY customer_id BIGINT",
            "TRUNCATE orders",
            "TRUNCATE TABLE shop.orders",
            "CREATE ALGORITHM=MERGE DEFINER=`root`@`localhost` SQL SECURITY INVOKER VIEW v AS SELECT 1",
            "CREATE UNIQUE INDEX i ON orders (customer_id)",
            "DROP INDEX i ON shop.orders",
            "CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET NEW.a=1",
            "DROP PROCEDURE IF EXISTS p",
            "RENAME TABLE notes TO other",
        ] {
            assert_eq!(told(text), "g1 g2 g3", "{text}");
        }
        assert_eq!(told("CREATE TABLE logs.lines (a INT)"), "g4");
        assert_eq!(told("CREATE TABLE plain.lines AS SELECT 1"), "g1");
        assert_eq!(told("CREATE VIEW plain.v AS SELECT 1 FROM plain.a"), "g1");
        assert_eq!(told("CREATE DATABASE d"), "g1 g3 g2 g4");
        assert_eq!(told("GRANT SELECT ON a.* TO b"), "g1 g3 g2 g4");
        for text in [
            "CREATE TEMPORARY TABLE orders (a INT)",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DELETE FROM orders",
            "ANALYZE TABLE orders",
            "CREATE TABLE 'odd",
        ] {
            assert_eq!(told(text), "elsewhere", "{text}");
        }
    }

    #[test]
    fn what_one_group_has_of_a_table_is_not_taken_for_the_whole() {
        for text in [
            "CREATE VIEW plain.v AS SELECT COUNT(*) FROM shop.orders",
            "ALTER VIEW plain.v AS SELECT 1 FROM plain.a, orders",
            "CREATE TABLE plain.t AS SELECT COUNT(*) FROM orders",
        ] {
            assert!(told(text).contains("on several groups"), "{text}");
        }
        assert_eq!(told("CREATE VIEW v AS SELECT * FROM orders"), "g1 g2 g3");
    }

    #[test]
    fn declarations_follow_their_tables() {
        let create = "CREATE TABLE items (id INT PRIMARY KEY, customer_id INT)";
        assert_eq!(
            told(&format!(
                "{create} /*heddle shard_map=shop shard_key=customer_id*/"
            )),
            "g1 shop.items on shop by customer_id"
        );
        assert_eq!(
            told(&format!("/* heddle global_map=1 */ {create} ENGINE=InnoDB")),
            "g1 shop.items on 1 by "
        );
        assert_eq!(
            told(&format!("{create} COMMENT '/*heddle global_map=1*/'")),
            "g1 g2 g3"
        );
        assert!(told(&format!("{create} /*heddle shard_map=shop*/")).contains("shard_key=COLUMN"));
        let typo = told(&format!("{create} /*heddle globalmap=1*/"));
        assert!(typo.contains("has no globalmap"), "{typo}");
        for (comment, why) in [
            ("global_map shop", "the word 'global_map' in a comment"),
            ("global_map=1 shop", "the word 'shop' in a comment"),
            ("global_map= shop", "the word 'shop' in a comment"),
            ("global_map=", "global_map has no value"),
            ("global_map='1", "the word 'global_map='1' in a comment"),
            ("global_map=1 global_map=shop", "one global_map, not two"),
            (
                "global_map=1*/ /*heddle global_map=2",
                "one global_map, not two",
            ),
            ("global_map=1 shard_map=1", "shard_key=COLUMN"),
            ("consistancy=strong", "has no consistancy"),
            ("strong", "the word 'strong' in a comment"),
        ] {
            for text in [
                format!("{create} /*heddle {comment}*/"),
                format!("CREATE TABLE /*heddle {comment}*/ items (id INT) -- /* */"),
            ] {
                let said = told(&text);
                assert!(said.contains(why), "{text}: {said}");
                assert!(said.contains("shard_key=COLUMN"), "{text}: {said}");
            }
        }
        for quiet in [
            "/*heddle*/",
            "/* heddle-like words */",
            "/*heddle consistency=strong*/",
        ] {
            assert_eq!(told(&format!("{create} {quiet}")), "g1 g2 g3", "{quiet}");
        }
        assert_eq!(
            told(&format!(
                "{create} /*heddle shard_map='shop'*/ COMMENT 'x' /*heddle shard_key=\"customer_id\"*/"
            )),
            "g1 shop.items on shop by customer_id"
        );
        let unknown = told(&format!("{create} /*heddle global_map=x*/"));
        assert!(unknown.contains("no shard map x"), "{unknown}");
        assert_eq!(
            told("DROP TABLE IF EXISTS a, orders, logs.b"),
            "g1 g2 g3 g4 forget [shop.orders]"
        );
        assert_eq!(
            told("DROP DATABASE shop"),
            "g1 g3 g2 g4 forget [shop.orders]"
        );
    }

    #[test]
    fn what_would_tear_a_table_from_its_map_is_refused() {
        for (text, words) in [
            (
                "ALTER TABLE orders DROP COLUMN customer_id",
                "is the shard key",
            ),
            (
                "ALTER TABLE orders ADD a INT, CHANGE `Customer_ID` c INT",
                "is the shard key",
            ),
            (
                "ALTER TABLE orders RENAME COLUMN customer_id TO c",
                "is the shard key",
            ),
            (
                "ALTER TABLE orders RENAME TO o",
                "make a table of the new name",
            ),
            (
                "RENAME TABLE a TO b, shop.orders TO o",
                "make a table of the new name",
            ),
            (
                "CREATE TABLE copy AS SELECT * FROM orders",
                "create the table first",
            ),
        ] {
            let why = told(text);
            assert!(why.contains(words), "{text}: {why}");
        }
        assert_eq!(
            told("ALTER TABLE orders RENAME INDEX a TO b, DROP KEY c"),
            "g1 g2 g3"
        );
    }
}
