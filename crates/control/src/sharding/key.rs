//! Whether a column can be the shard key of a table.
//!
//! Pure: judged from the columns and unique keys that the global group has.

use farm::shard::ShardKind;
use farm::sharding::TableSchema;
use planner::belongs::key_type;

use catalog::command::CommandError;
use catalog::record::KeyRecord;

/// Makes sure that the column can be the table's shard key, and that its unique keys stay unique.
pub(crate) fn check_key(
    kind: &ShardKind,
    full: &str,
    schema: &TableSchema,
    key: &mut KeyRecord,
) -> Result<(), CommandError> {
    let columns = || {
        let names = schema.columns.iter().map(|column| &*column.name);
        names.collect::<Vec<_>>().join(", ")
    };
    let Some(at) = schema.column(&key.column) else {
        return Err(CommandError::Refused(format!(
            "{full} has no column {}; it has {}",
            key.column,
            columns()
        )));
    };
    let column = &schema.columns[at];
    key.column = column.name.to_string();
    key.key =
        key_type(*kind, column).map_err(|why| CommandError::Refused(format!("{full}: {why}")))?;
    if column.generated {
        return Err(CommandError::Refused(format!(
            "{full}: {} is computed by the server; a shard key is given by the statement",
            column.name
        )));
    }
    let named = |columns: &[u16]| {
        let of = columns
            .iter()
            .map(|at| schema.columns.get(usize::from(*at)));
        let names = of.map(|column| column.map_or("an expression", |column| &*column.name));
        names.collect::<Vec<_>>().join(", ")
    };
    // Heddle gives ids that are unique over the farm.
    let covered = |columns: &[u16]| {
        columns.iter().any(|&one| {
            usize::from(one) == at
                || schema
                    .columns
                    .get(usize::from(one))
                    .is_some_and(|column| column.auto_increment)
        })
    };
    let all = std::iter::once(&schema.primary).chain(&schema.unique);
    // A table without a primary key has nothing to be kept unique by it.
    let keys = all.filter(|columns| !columns.is_empty());
    let loose: Vec<String> = keys
        .filter(|columns| !covered(columns))
        .map(|columns| format!("({})", named(columns)))
        .collect();
    if loose.is_empty() || key.checked {
        return Ok(());
    }
    Err(CommandError::Refused(format!(
        "{full} has unique keys without {}: {}; the servers keep them unique on each shard only. Add \
         the column to them, or say --checked when the application sees to it",
        column.name,
        loose.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use farm::shard::KeyType;
    use farm::sharding::Column;

    use super::*;

    /// `id` gives ids, `user` is a number, `total` is computed.
    fn schema(primary: Vec<u16>, unique: Vec<Vec<u16>>) -> TableSchema {
        let column = |name: &str| Column {
            auto_increment: name == "id",
            generated: name == "total",
            ..farm::samples::column(name, "int(11)")
        };
        TableSchema {
            columns: ["id", "user", "total"].map(column).into(),
            primary,
            unique,
            ..TableSchema::default()
        }
    }

    fn check(schema: &TableSchema, column: &str, checked: bool) -> Result<KeyRecord, String> {
        let mut key = KeyRecord {
            column: column.to_owned(),
            key: KeyType::Bytes,
            checked,
        };
        let fits = check_key(&ShardKind::Hash, "shop.orders", schema, &mut key);
        fits.map(|()| key).map_err(|error| error.to_string())
    }

    #[test]
    fn unique_keys_have_the_shard_key_or_ids_of_the_farm() {
        let ids = schema(vec![0], Vec::new());
        let key = check(&ids, "USER", false).expect("ids are unique over the farm");
        assert_eq!((key.column.as_str(), key.key), ("user", KeyType::Integer));
        let both = schema(vec![1, 2], Vec::new());
        assert!(check(&both, "user", false).is_ok());
        let loose = schema(vec![0], vec![vec![2]]);
        let error = check(&loose, "user", false).expect_err("unique on each shard only");
        assert!(error.contains("without user: (total)"), "{error}");
        assert!(check(&loose, "user", true).is_ok(), "somebody sees to it");
    }

    #[test]
    fn a_column_that_cannot_be_the_key_is_refused() {
        let schema = schema(vec![0], Vec::new());
        let error = check(&schema, "price", false).expect_err("no such column");
        assert!(error.contains("it has id, user, total"), "{error}");
        let error = check(&schema, "total", false).expect_err("computed");
        assert!(error.contains("computed by the server"), "{error}");
    }
}
