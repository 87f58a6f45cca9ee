//! The tables of a target as far as an applier has to know them.

use std::collections::{BTreeMap, HashMap};

use changes::apply::{Identity, RowChange};
use enginesql::quoted;

use super::{OPERATION, STATEMENT_MS, Target};
use crate::error::Error;
use crate::link::text_at;

/// A table of the target.
#[derive(Clone, Debug, Default)]
pub struct TargetTable {
    /// What is written, by name in lower case; of a text its collation.
    columns: HashMap<String, Option<String>>,
    /// What the server computes.
    computed: Vec<String>,
    /// Those of MariaDB's type UUID.
    uuids: Vec<String>,
    /// The columns of its unique keys beside the primary one, in lower case; an empty name where only a part of a
    /// value counts, or an expression.
    unique: Vec<Vec<String>>,
    /// Why nothing can be applied to it, and what to do.
    pub objection: Option<String>,
}

/// Which tables foreign keys tie together: a name for all of each such set.
pub type Ties = BTreeMap<(String, String), String>;

impl TargetTable {
    /// One with these columns, none of them a text.
    #[cfg(test)]
    pub(super) fn of(columns: &[&str], computed: &[&str]) -> TargetTable {
        TargetTable {
            columns: columns.iter().map(|it| ((*it).to_owned(), None)).collect(),
            computed: computed.iter().map(|it| (*it).to_owned()).collect(),
            ..TargetTable::default()
        }
    }

    /// Whether a column of the stream is written; `None` when the table has no such column.
    pub(super) fn writes(&self, column: &str) -> Option<bool> {
        let column = column.to_lowercase();
        match self.columns.contains_key(&column) {
            true => Some(true),
            false => self.computed.contains(&column).then_some(false),
        }
    }

    /// Whether a column is a UUID.
    pub(super) fn is_uuid(&self, column: &str) -> bool {
        self.uuids.contains(&column.to_lowercase())
    }

    /// How its rows are told apart surely, by each of its unique keys.
    pub fn identities(&self, row: &RowChange, ties: &Ties) -> Vec<Identity> {
        let table = &row.table;
        let name = (table.database.to_lowercase(), table.name.to_lowercase());
        if let Some(tied) = ties.get(&name) {
            return vec![Identity::Whole(tied.clone())];
        }
        let Some(key) = &row.key else {
            return vec![Identity::Whole(format!("{}.{}", name.0, name.1))];
        };
        let primary = self.exact(row, key.keys());
        let others = self.unique.iter().enumerate();
        let others = others.map(|(at, columns)| {
            let as_told = table.columns.iter().map(|it| &it.name);
            let columns = as_told.filter(|it| columns.contains(&it.to_lowercase()));
            (
                format!("{}.{} {at}", name.0, name.1),
                self.exact(row, columns),
            )
        });
        let all = [(format!("{}.{}", name.0, name.1), primary)]
            .into_iter()
            .chain(others);
        let identity = |(name, columns): (String, Vec<String>)| match columns.is_empty() {
            true => Identity::Whole(name),
            false => Identity::Columns(columns),
        };
        all.map(identity).collect()
    }

    /// Those of these columns whose values are equal when they are told alike, and only then.
    fn exact<'a>(&self, row: &RowChange, columns: impl Iterator<Item = &'a String>) -> Vec<String> {
        let table = &row.table;
        let is_exact = |name: &&String| {
            let shape = table.columns.iter().find(|it| it.name == **name);
            let is_float = shape.is_none_or(|it| ["float", "double"].contains(&&*it.data_type));
            let collation = self.columns.get(&name.to_lowercase());
            let is_bytewise = |it: &String| it.ends_with("_bin") || it == "binary";
            let is_text = collation.is_none_or(|it| it.as_ref().is_some_and(|it| !is_bytewise(it)));
            !is_float && !is_text
        };
        columns.filter(is_exact).cloned().collect()
    }
}

impl Target {
    /// A table; `None` when there is none.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn table(
        &mut self,
        database: &str,
        name: &str,
    ) -> Result<Option<TargetTable>, Error> {
        let (database_text, name_text) = (quoted(database), quoted(name));
        let of = |column| format!("={database_text} AND {column}={name_text}");
        let sql = format!(
            "SELECT COLUMN_NAME, COLLATION_NAME, EXTRA, DATA_TYPE FROM information_schema.COLUMNS \
             WHERE TABLE_SCHEMA{}",
            of("TABLE_NAME")
        );
        let mut table = TargetTable::default();
        for row in self.link.rows(OPERATION, &sql, STATEMENT_MS).await? {
            let cell = |at| text_at(&row, at).unwrap_or_default();
            let column = cell(0).to_lowercase();
            let extra = cell(2).to_ascii_uppercase();
            let is_computed = ["VIRTUAL GENERATED", "STORED GENERATED", "PERSISTENT"]
                .iter()
                .any(|word| extra.contains(word));
            if cell(3).eq_ignore_ascii_case("uuid") {
                table.uuids.push(column.clone());
            }
            match is_computed {
                true => table.computed.push(column),
                false => drop(table.columns.insert(column, text_at(&row, 1))),
            }
        }
        if table.columns.is_empty() {
            return Ok(None);
        }
        let sql = format!(
            "SELECT INDEX_NAME, COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS \
             WHERE NON_UNIQUE=0 AND INDEX_NAME<>'PRIMARY' AND TABLE_SCHEMA{}",
            of("TABLE_NAME")
        );
        let mut unique: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for row in self.link.rows(OPERATION, &sql, STATEMENT_MS).await? {
            let is_whole = text_at(&row, 2).is_none();
            let column = text_at(&row, 1).filter(|_| is_whole).unwrap_or_default();
            let of = unique.entry(text_at(&row, 0).unwrap_or_default());
            of.or_default().push(column.to_lowercase());
        }
        table.unique = unique.into_values().collect();
        let sql = format!(
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA{}",
            of("EVENT_OBJECT_TABLE")
        );
        let triggers = self.link.rows(OPERATION, &sql, STATEMENT_MS).await?;
        if let Some(trigger) = triggers.first().and_then(|row| text_at(row, 0)) {
            table.objection = Some(format!(
                "{database}.{name} of the target has the trigger {trigger}, which would do once more what the stream \
                 tells; drop it there"
            ));
        }
        Ok(Some(table))
    }

    /// The sets of tables that foreign keys tie together.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn ties(&mut self) -> Result<Ties, Error> {
        let sql = "SELECT TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME \
                   FROM information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_NAME IS NOT NULL";
        let mut ties = Ties::new();
        for row in self.link.rows(OPERATION, sql, STATEMENT_MS).await? {
            let cell = |at| text_at(&row, at).unwrap_or_default().to_lowercase();
            tie(&mut ties, (cell(0), cell(1)), (cell(2), cell(3)));
        }
        Ok(ties)
    }
}

/// Joins the sets of two tables.
fn tie(ties: &mut Ties, one: (String, String), other: (String, String)) {
    let name = |of: &(String, String)| format!("{}.{}", of.0, of.1);
    let first = ties.get(&one).cloned().unwrap_or_else(|| name(&one));
    let second = ties.get(&other).cloned();
    for set in ties
        .values_mut()
        .filter(|set| Some(&**set) == second.as_ref())
    {
        set.clone_from(&first);
    }
    ties.insert(one, first.clone());
    ties.insert(other, first);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use changes::apply::{Described, Shape};
    use serde_json::json;

    use super::*;

    #[test]
    fn foreign_keys_tie_tables_together() {
        let name = |table: &str| ("d".to_owned(), table.to_owned());
        let mut ties = Ties::new();
        for (one, other) in [("a", "b"), ("c", "e"), ("b", "c"), ("x", "x")] {
            tie(&mut ties, name(one), name(other));
        }
        let set = |table: &str| ties.get(&name(table)).cloned();
        assert!(["b", "c", "e"].iter().all(|it| set(it) == set("a")));
        assert!(set("x").is_some() && set("x") != set("a"));
    }

    #[test]
    fn rows_are_told_apart_by_what_is_compared_byte_by_byte() {
        let columns = [
            ("id", None),
            ("name", Some("utf8mb4_general_ci")),
            ("code", Some("utf8mb4_bin")),
        ];
        let table = TargetTable {
            columns: columns
                .iter()
                .map(|(name, it)| ((*name).to_owned(), it.map(str::to_owned)))
                .collect(),
            ..TargetTable::default()
        };
        let row = |key: serde_json::Value| RowChange {
            table: Arc::new(Described {
                database: "d".to_owned(),
                name: "t".to_owned(),
                columns: ["id", "name", "code"]
                    .map(|name| Shape {
                        name: name.to_owned(),
                        ..Shape::default()
                    })
                    .to_vec(),
            }),
            kind: None,
            key: key.as_object().cloned(),
            before: None,
            after: None,
        };
        let of = |key| table.identities(&row(key), &Ties::new());
        let whole = vec![Identity::Whole("d.t".to_owned())];
        assert_eq!(of(json!({"name": "x"})), whole);
        assert_eq!(of(json!(null)), whole);
        let by = |names: &[&str]| {
            vec![Identity::Columns(
                names.iter().map(|it| (*it).to_owned()).collect(),
            )]
        };
        assert_eq!(of(json!({"id": 1, "name": "x"})), by(&["id"]));
        assert_eq!(of(json!({"code": "x"})), by(&["code"]));
        let unique = TargetTable {
            unique: vec![vec!["code".to_owned()], vec!["name".to_owned()]],
            ..table.clone()
        };
        let all = unique.identities(&row(json!({"id": 1})), &Ties::new());
        let by_name = Identity::Whole("d.t 1".to_owned());
        assert_eq!(all, [by(&["id"]), by(&["code"]), vec![by_name]].concat());
    }
}
