//! How the tables of a file become sharded tables, and its statements statements on them.
//!
//! Such files know nothing of shards. A table is sharded by the first column of its primary key; it is
//! global when another unique key or a foreign key stands against that, or when the column's type is none
//! of a shard key. A table without a primary key gets an invisible column as one, numbered by the
//! server. What is changed for this is changed on both sides, so that their answers can be compared.

use std::collections::HashMap;

use sqltext::{Mode, Piece, PieceKind, pieces};

/// The map that the tables are on.
pub const MAP: &str = "slt";

/// The primary key of tables that have none.
const HIDDEN: &str = "slt_row";

/// Types whose columns can be shard keys.
const KEY_TYPES: [&str; 13] = [
    "int",
    "integer",
    "tinyint",
    "smallint",
    "mediumint",
    "bigint",
    "char",
    "varchar",
    "binary",
    "varbinary",
    "uuid",
    "date",
    "datetime",
];

/// Words with which a constraint begins, and no column.
const CONSTRAINTS: [&str; 9] = [
    "constraint",
    "primary",
    "unique",
    "foreign",
    "key",
    "index",
    "check",
    "fulltext",
    "spatial",
];

/// The tables that a file has made.
pub struct Tables {
    made: HashMap<String, Table>,
    /// The servers know invisible columns. Else a table without a primary key stays on one group.
    hides: bool,
}

struct Table {
    /// As it was written.
    name: String,
    /// Those that the file named.
    columns: Vec<String>,
    /// `None`: it is global.
    key: Option<String>,
    /// It has the invisible column.
    hidden: bool,
}

impl Tables {
    pub fn new(hides: bool) -> Tables {
        Tables {
            made: HashMap::new(),
            hides,
        }
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.made.values().map(|table| table.name.clone()).collect();
        names.sort();
        names
    }

    /// The text that both sides get in place of the file's.
    pub fn adapted(&mut self, text: &str, mode: &Mode) -> String {
        let Some(words) = pieces(text.as_bytes(), mode) else {
            return text.to_owned();
        };
        let reader = Reader {
            text,
            words: &words,
            mode,
        };
        let adapted = match reader.word(0).as_deref() {
            Some("create") if reader.is(1, "table") => self.create(&reader),
            Some("create") if reader.is(1, "unique") => self.index(&reader),
            Some("insert" | "replace") => self.insert(&reader),
            Some("drop") if reader.is(1, "table") => self.drop(&reader),
            _ => None,
        };
        adapted.unwrap_or_else(|| text.to_owned())
    }

    /// CREATE TABLE gets its place, and perhaps a primary key.
    fn create(&mut self, reader: &Reader<'_>) -> Option<String> {
        let at = 2 + 3 * usize::from(reader.is(2, "if"));
        let name = reader.name(at)?;
        let known =
            self.made.contains_key(&name.to_lowercase()) || reader.text.contains("/*heddle");
        if known || reader.words.get(at + 1)?.kind != PieceKind::Open {
            return None;
        }
        let (items, close) = reader.list(at + 1)?;
        let fills =
            (close..reader.words.len()).any(|at| reader.is(at, "select") || reader.is(at, "as"));
        let columns: Vec<&Item> = items
            .iter()
            .filter(|item| !item.is_constraint(reader))
            .collect();
        if fills || columns.is_empty() {
            return None;
        }
        let names = columns
            .iter()
            .map(|column| reader.written(column.0))
            .collect();
        let (primary, unique) = keys(reader, &items);
        let hidden = primary.is_empty();
        if hidden && !self.hides {
            return None;
        }
        let refers = (at..close).any(|at| reader.is(at, "references"));
        let wanted = primary.first().map_or(HIDDEN.to_owned(), Clone::clone);
        let typed = |column: &&Item| reader.name(column.0).as_deref() == Some(&wanted);
        let kind = columns
            .iter()
            .copied()
            .find(typed)
            .and_then(|column| reader.word(column.0 + 1));
        let fits = hidden || kind.is_some_and(|kind| KEY_TYPES.contains(&&*kind));
        let torn = unique.iter().any(|key| !key.contains(&wanted));
        let key = (fits && !torn && !refers).then_some(wanted);
        let mut made = reader.text.to_owned();
        if hidden {
            let column = format!(", {HIDDEN} BIGINT NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY");
            made.insert_str(reader.words[close].span.start as usize, &column);
        }
        made.push_str(&match &key {
            Some(key) => format!(" /*heddle shard_map={MAP} shard_key={key}*/"),
            None => format!(" /*heddle global_map={MAP}*/"),
        });
        let table = Table {
            name: reader.written(at),
            columns: names,
            key,
            hidden,
        };
        self.made.insert(name.to_lowercase(), table);
        Some(made)
    }

    /// DROP TABLE stays as it is; so does a CREATE TABLE of a table that is there.
    fn drop(&mut self, reader: &Reader<'_>) -> Option<String> {
        let at = 2 + 2 * usize::from(reader.is(2, "if"));
        self.made.remove(&reader.name(at)?.to_lowercase());
        None
    }

    /// CREATE UNIQUE INDEX becomes CREATE INDEX where shards could not keep it.
    fn index(&self, reader: &Reader<'_>) -> Option<String> {
        let on = (2..reader.words.len()).find(|&at| reader.is(at, "on"))?;
        let table = self.made.get(&reader.name(on + 1)?.to_lowercase())?;
        let key = table.key.as_ref()?;
        let (items, _) = reader.list(on + 2)?;
        let kept = items
            .iter()
            .any(|item| reader.name(item.0).as_ref() == Some(key));
        let unique = reader.words[1].span;
        let (before, behind) = (
            &reader.text[..unique.start as usize],
            &reader.text[unique.end as usize..],
        );
        (!kept).then(|| format!("{before}{behind}"))
    }

    /// INSERT names its columns where the table has more of them than the file knows.
    fn insert(&self, reader: &Reader<'_>) -> Option<String> {
        let into = (1..reader.words.len()).find(|&at| reader.is(at, "into"))?;
        let table = self.made.get(&reader.name(into + 1)?.to_lowercase())?;
        let behind = ["values", "value", "select"]
            .iter()
            .any(|word| reader.is(into + 2, word));
        let end = reader.words[into + 1].span.end as usize;
        let (before, rest) = reader.text.split_at(end);
        let columns = table.columns.join(", ");
        (table.hidden && behind).then(|| format!("{before} ({columns}){rest}"))
    }
}

/// The columns of the primary key, and of each other unique key.
fn keys(reader: &Reader<'_>, items: &[Item]) -> (Vec<String>, Vec<Vec<String>>) {
    let (mut primary, mut unique) = (Vec::new(), Vec::new());
    for item in items {
        let has = |word: &str| (item.0..item.1).find(|&at| reader.is(at, word));
        let columns = |from: usize| -> Vec<String> {
            if !item.is_constraint(reader) {
                return reader.name(item.0).into_iter().collect();
            }
            let open = (from..item.1).find(|&at| reader.words[at].kind == PieceKind::Open);
            let list = open.and_then(|open| reader.list(open));
            let list = list.map(|(list, _)| list).unwrap_or_default();
            list.iter()
                .filter_map(|column| reader.name(column.0))
                .collect()
        };
        match (has("primary"), has("unique")) {
            (Some(at), _) => primary = columns(at),
            (None, Some(at)) => unique.push(columns(at)),
            (None, None) => {}
        }
    }
    (primary, unique)
}

/// What stands between two commas of a list: the first token and the one behind the last.
struct Item(usize, usize);

impl Item {
    fn is_constraint(&self, reader: &Reader<'_>) -> bool {
        CONSTRAINTS.iter().any(|word| reader.is(self.0, word))
    }
}

/// A statement's tokens.
struct Reader<'a> {
    text: &'a str,
    words: &'a [Piece],
    mode: &'a Mode,
}

impl Reader<'_> {
    fn is(&self, at: usize, word: &str) -> bool {
        self.words
            .get(at)
            .is_some_and(|piece| piece.is(self.text.as_bytes(), word))
    }

    /// In small letters.
    fn word(&self, at: usize) -> Option<String> {
        let bytes = self.words.get(at)?.span.of(self.text.as_bytes());
        Some(String::from_utf8_lossy(bytes).to_lowercase())
    }

    /// With its quotes.
    fn written(&self, at: usize) -> String {
        String::from_utf8_lossy(self.words[at].span.of(self.text.as_bytes())).into_owned()
    }

    fn name(&self, at: usize) -> Option<String> {
        let name = self.words.get(at)?.name(self.text.as_bytes(), self.mode)?;
        Some(String::from_utf8_lossy(&name).into_owned())
    }

    /// What stands in the parenthesis that opens here, by its commas, and where it closes.
    fn list(&self, open: usize) -> Option<(Vec<Item>, usize)> {
        let (mut depth, mut from, mut items) = (0, open + 1, Vec::new());
        for at in open..self.words.len() {
            match self.words[at].kind {
                PieceKind::Open => depth += 1,
                PieceKind::Close if depth == 1 => {
                    items.push(Item(from, at));
                    return Some((items, at));
                }
                PieceKind::Close => depth -= 1,
                PieceKind::Comma if depth == 1 => {
                    items.push(Item(from, at));
                    from = at + 1;
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use sqltext::Dialect;

    use super::*;

    fn adapted(texts: &[&str]) -> String {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let mut tables = Tables::new(true);
        let all = texts.iter().map(|text| tables.adapted(text, &mode));
        all.last().expect("one text at least")
    }

    /// The comment that a table gets.
    fn placed(columns: &str) -> String {
        let made = adapted(&[&format!("CREATE TABLE t ({columns})")]);
        let comment = made
            .split_once("/*heddle ")
            .map(|(_, comment)| comment.to_owned());
        comment.unwrap_or(made).trim_end_matches("*/").to_owned()
    }

    #[test]
    fn tables_are_sharded_by_their_primary_key() {
        assert_eq!(
            placed("a INT PRIMARY KEY, b INT"),
            "shard_map=slt shard_key=a"
        );
        assert_eq!(
            placed("a INT, b VARCHAR(9) PRIMARY KEY"),
            "shard_map=slt shard_key=b"
        );
        assert_eq!(
            placed("a INT, b INT, PRIMARY KEY (b, a)"),
            "shard_map=slt shard_key=b"
        );
        assert_eq!(
            placed("a INT, CONSTRAINT x PRIMARY KEY (`a`)"),
            "shard_map=slt shard_key=a"
        );
        let both = "a INT PRIMARY KEY, b INT, UNIQUE (b, a)";
        assert_eq!(placed(both), "shard_map=slt shard_key=a");
    }

    #[test]
    fn tables_that_cannot_be_are_global() {
        assert_eq!(placed("a INT PRIMARY KEY, b INT UNIQUE"), "global_map=slt");
        assert_eq!(
            placed("a INT PRIMARY KEY, b INT, UNIQUE KEY x (b)"),
            "global_map=slt"
        );
        assert_eq!(placed("a FLOAT PRIMARY KEY"), "global_map=slt");
        assert_eq!(
            placed("a INT PRIMARY KEY, b INT REFERENCES u (c)"),
            "global_map=slt"
        );
        assert_eq!(placed("a INT UNIQUE"), "global_map=slt");
    }

    #[test]
    fn tables_without_a_key_get_one() {
        let made = adapted(&["CREATE TABLE t1(x INTEGER)"]);
        let expected = "CREATE TABLE t1(x INTEGER, slt_row BIGINT NOT NULL AUTO_INCREMENT INVISIBLE PRIMARY KEY) \
                        /*heddle shard_map=slt shard_key=slt_row*/";
        assert_eq!(made, expected);
        let create = "CREATE TABLE t1(x INTEGER, `a b` TEXT)";
        let inserted = |text: &str| adapted(&[create, text]);
        assert_eq!(
            inserted("INSERT INTO T1 VALUES(1, '')"),
            "INSERT INTO T1 (x, `a b`) VALUES(1, '')"
        );
        assert_eq!(
            inserted("INSERT INTO t1 SELECT 1, 2"),
            "INSERT INTO t1 (x, `a b`) SELECT 1, 2"
        );
        for same in ["INSERT INTO t1(x) VALUES (1)", "INSERT INTO t2 VALUES (1)"] {
            assert_eq!(inserted(same), same);
        }
    }

    #[test]
    fn unique_keys_without_the_shard_key_are_plain() {
        let create = "CREATE TABLE t(a INT PRIMARY KEY, b INT)";
        let index = |text: &str| adapted(&[create, text]);
        assert_eq!(
            index("CREATE UNIQUE INDEX i ON t(b)"),
            "CREATE  INDEX i ON t(b)"
        );
        assert_eq!(
            index("CREATE UNIQUE INDEX i ON t(b DESC, a)"),
            "CREATE UNIQUE INDEX i ON t(b DESC, a)"
        );
    }

    #[test]
    fn other_statements_stay() {
        let others = [
            "SELECT 1",
            "CREATE TABLE t AS SELECT 1",
            "CREATE TABLE t LIKE u",
            "CREATE TABLE t (a INT PRIMARY KEY) SELECT 1 AS a",
            "CREATE TABLE t (a INT PRIMARY KEY, b INT) /*heddle shard_map=slt shard_key=b*/",
            "CREATE TEMPORARY TABLE t (a INT)",
            "CREATE TABLE t (a INT",
            "SELECT 'open",
        ];
        for text in others {
            assert_eq!(adapted(&[text]), text);
        }
    }
}
