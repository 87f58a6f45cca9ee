//! What definitions make of tables, in the words of the stream's own `columns` events.

use serde_json::{Map, Value, json};

use super::column::Column;
use super::{Changed, Known, Tables};
use crate::table::Table;

impl Tables {
    /// Rows of a table came: what it is, whatever was known.
    pub(crate) fn learn(&mut self, table: &Table) {
        let name = (table.database.clone(), table.name.clone());
        self.0.insert(name, Known::of(table));
    }

    /// Carries a definition out on what is known; gives what became of tables.
    pub(crate) fn define_plainly(&mut self, database: &str, sql: &str) -> Vec<Value> {
        let changes = self.carry_out(database, sql);
        changes.iter().map(Changed::plain).collect()
    }
}

impl Changed {
    fn plain(&self) -> Value {
        let (database, table) = &self.name;
        let change = self.kind.to_ascii_lowercase();
        let mut told = json!({ "database": database, "table": table, "change": change });
        if let Some(known) = &self.known {
            told["columns"] = known.columns.iter().map(|it| known.plain(it)).collect();
        }
        told
    }
}

impl Known {
    fn plain(&self, column: &Column) -> Value {
        let mut told = Map::new();
        let mut put = |name: &str, value: Value| drop(told.insert(name.to_owned(), value));
        put("name", column.name.clone().into());
        put("type", column.plain_type().into());
        put("nullable", column.nullable.into());
        if column.type_name.contains(" UNSIGNED") || column.type_name.contains(" ZEROFILL") {
            put("unsigned", true.into());
        }
        for (name, size) in column.plain_sizes() {
            put(name, size.into());
        }
        let is_it = |name: &String| name.eq_ignore_ascii_case(&column.name);
        if let Some(place) = self.key.iter().position(is_it) {
            put("key", (place + 1).into());
        }
        let charset = column.charset.as_ref().or(self.charset.as_ref());
        if let Some(charset) = charset.filter(|_| column.is_text()) {
            put("charset", charset.clone().into());
        }
        if !column.members.is_empty() {
            let labels = column.members.iter().map(|it| label(it));
            put("members", labels.collect());
        }
        Value::Object(told)
    }
}

/// A label without its quotes.
fn label(quoted: &str) -> Value {
    let inner = quoted
        .strip_prefix('\'')
        .and_then(|it| it.strip_suffix('\''));
    inner.unwrap_or(quoted).replace("''", "'").into()
}

impl Column {
    /// The type in one word, by the name that servers show for it where it has several.
    fn plain_type(&self) -> String {
        let plain = match self.word() {
            "INTEGER" | "INT4" => "int",
            "BOOL" | "BOOLEAN" | "INT1" => "tinyint",
            "INT2" => "smallint",
            "INT3" | "MIDDLEINT" => "mediumint",
            "INT8" => "bigint",
            "FLOAT4" => "float",
            "FLOAT8" => "double",
            "DEC" | "NUMERIC" | "FIXED" => "decimal",
            "CHARACTER" if self.type_name.ends_with(" VARYING") => "varchar",
            "CHARACTER" => "char",
            word => return word.to_ascii_lowercase(),
        };
        plain.to_owned()
    }

    /// Sizes by the names that `columns` has for them.
    fn plain_sizes(&self) -> Vec<(&'static str, u64)> {
        let sizes = match &*self.plain_type() {
            "decimal" => [("precision", self.length), ("scale", self.scale)],
            "time" | "datetime" | "timestamp" => {
                [("fraction", self.length.filter(|it| *it > 0)), ("", None)]
            }
            "bit" => [("bits", self.length), ("", None)],
            _ => return Vec::new(),
        };
        let said = sizes
            .into_iter()
            .filter_map(|(name, size)| Some((name, size?)));
        said.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(tables: &mut Tables, sql: &str) -> String {
        Value::from(tables.define_plainly("d", sql)).to_string()
    }

    #[test]
    fn definitions_say_the_columns_that_are_there_then() {
        let mut tables = Tables::default();
        let made = shown(
            &mut tables,
            "CREATE TABLE t (a INTEGER UNSIGNED PRIMARY KEY, b NUMERIC(9,2), c ENUM('x','it''s') NOT NULL) CHARSET=latin1",
        );
        assert_eq!(
            made,
            r#"[{"database":"d","table":"t","change":"create","columns":[{"name":"a","type":"int","nullable":false,"unsigned":true,"key":1},{"name":"b","type":"decimal","nullable":true,"precision":9,"scale":2},{"name":"c","type":"enum","nullable":false,"charset":"latin1","members":["x","it's"]}]}]"#
        );
        let altered = shown(
            &mut tables,
            "ALTER TABLE t DROP COLUMN b, MODIFY c DATETIME(3), ADD d BIT(3) FIRST",
        );
        assert_eq!(
            altered,
            r#"[{"database":"d","table":"t","change":"alter","columns":[{"name":"d","type":"bit","nullable":true,"bits":3},{"name":"a","type":"int","nullable":false,"unsigned":true,"key":1},{"name":"c","type":"datetime","nullable":true,"fraction":3}]}]"#
        );
        assert_eq!(
            shown(&mut tables, "RENAME TABLE t TO e.u, v TO w"),
            altered.replace(r#""d","table":"t""#, r#""e","table":"u""#)
        );
        assert_eq!(
            shown(&mut tables, "DROP TABLE IF EXISTS x"),
            r#"[{"database":"d","table":"x","change":"drop"}]"#
        );
        assert_eq!(shown(&mut tables, "ALTER TABLE nobody ADD a INT"), "[]");
    }
}
