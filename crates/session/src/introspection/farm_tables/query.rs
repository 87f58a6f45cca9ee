//! Rows of a table about the farm as a query of constants.

use farm::tables::{DATABASE, FarmKind, FarmTable, TABLES};
use mysql_wire::result::{ColumnKind, ValueKind};

use crate::introspection::farm_tables::Cells;
use crate::introspection::rows_text::{Column, rows_alone};

/// Explicit, so that a comparison with a user's column of another collation is no error.
const COLLATION: &str = "utf8mb4_general_ci";

/// The query that stands for the table, in parentheses.
pub(crate) fn of_table(table: &FarmTable, rows: &[Cells]) -> String {
    let columns: Vec<Column> = table.columns.iter().map(|it| column(it.name, it.kind)).collect();
    format!("({})", rows_alone(&columns, &bytes(rows)))
}

/// The query that stands for rows of texts under these names, in parentheses.
pub(crate) fn of_texts(names: &[&str], rows: &[Cells]) -> String {
    let columns: Vec<Column> = names.iter().map(|name| column(name, FarmKind::Long)).collect();
    format!("({})", rows_alone(&columns, &bytes(rows)))
}

fn column(name: &str, kind: FarmKind) -> Column {
    Column {
        name: name.to_owned(),
        kind: kind.sql().to_owned(),
        collation: kind.is_text().then(|| COLLATION.to_owned()),
        nullable: true,
    }
}

fn bytes(rows: &[Cells]) -> Vec<Vec<Option<Vec<u8>>>> {
    let cell = |cell: &Option<String>| cell.as_ref().map(|text| text.as_bytes().to_vec());
    rows.iter().map(|row| row.iter().map(cell).collect()).collect()
}

/// The query that stands for a table of information_schema: what the server has in it, whose columns these are, and
/// the farm's.
pub(crate) fn of_catalogue(table: &str, columns: &[Column]) -> String {
    let kinds: Vec<(String, ValueKind)> = columns.iter().map(Column::as_shown).collect();
    let mut rows = Vec::new();
    for farm_table in TABLES {
        if table == "tables" {
            rows.push(kinds.iter().map(|kind| of_tables(kind, farm_table)).collect());
            continue;
        }
        for at in 0..farm_table.columns.len() {
            rows.push(kinds.iter().map(|kind| of_columns(kind, farm_table, at)).collect());
        }
    }
    let names: Vec<String> = columns.iter().map(|it| sqltext::ticked(&it.name)).collect();
    let farms: Vec<String> = TABLES.iter().map(|it| format!("'{}'", it.name)).collect();
    format!(
        "(SELECT {} FROM information_schema.{table} \
         WHERE NOT (TABLE_SCHEMA = '{DATABASE}' AND TABLE_NAME IN ({})) UNION ALL {})",
        names.join(", "),
        farms.join(", "),
        rows_alone(columns, &rows)
    )
}

/// A cell of information_schema.TABLES; what is not known of a table is NULL, or 0 where a number must be.
fn of_tables((name, kind): &(String, ValueKind), table: &FarmTable) -> Option<Vec<u8>> {
    text(match name.as_str() {
        "table_catalog" => "def",
        "table_schema" => DATABASE,
        "table_name" => table.name,
        "table_type" => SYSTEM_VIEW,
        "table_comment" => table.about,
        "temporary" => "N",
        _ => return otherwise(*kind),
    })
}

fn of_columns((name, kind): &(String, ValueKind), table: &FarmTable, at: usize) -> Option<Vec<u8>> {
    let column = &table.columns[at];
    text(match name.as_str() {
        "table_catalog" => "def",
        "table_schema" => DATABASE,
        "table_name" => table.name,
        "column_name" => column.name,
        "ordinal_position" => return text(&(at + 1).to_string()),
        "is_nullable" => "YES",
        "data_type" => column.kind.data_type(),
        "column_type" => column.kind.sql(),
        "character_set_name" if column.kind.is_text() => "utf8mb4",
        "collation_name" if column.kind.is_text() => COLLATION,
        "character_maximum_length" if column.kind == FarmKind::Text => "255",
        "column_comment" => column.about,
        "privileges" => "select",
        "is_generated" => "NEVER",
        "column_key" | "extra" | "generation_expression" => "",
        "character_set_name" | "collation_name" | "character_maximum_length" => return None,
        "character_octet_length"
        | "numeric_precision"
        | "numeric_scale"
        | "datetime_precision"
        | "srs_id" => return None,
        _ => return otherwise(*kind),
    })
}

/// As information_schema calls tables that no engine keeps.
pub(crate) const SYSTEM_VIEW: &str = "SYSTEM VIEW";

fn text(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn otherwise(kind: ValueKind) -> Option<Vec<u8>> {
    (kind.column == ColumnKind::LongLong).then(|| b"0".to_vec())
}

#[cfg(test)]
mod tests {
    use farm::tables;

    use super::*;

    #[test]
    fn a_table_without_rows_still_has_its_columns() {
        let shards = tables::find("shards").expect("it is there");
        let query = of_table(shards, &[]);
        assert!(query.contains("`lower_bound`") && query.contains("c0 bigint PATH"), "{query}");
        // `[]`
        assert!(query.contains("CONVERT(0x5b5d USING utf8mb4)"), "{query}");
        let events = of_table(tables::find("events").expect("it is there"), &[]);
        assert!(
            events.contains("j.c0 AS `time`") && events.contains("c0 datetime(3) PATH"),
            "{events}"
        );
    }

    #[test]
    fn information_schema_has_rows_for_the_farms_tables() {
        let column = |name: &str, kind: &str| Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            collation: None,
            nullable: true,
        };
        let columns = [
            column("TABLE_NAME", "varchar(64)"),
            column("TABLE_ROWS", "bigint(21)"),
        ];
        let query = of_catalogue("tables", &columns);
        let rows = hex::encode("{\"c0\":\"servers\",\"c1\":\"0\"}");
        assert!(query.contains(&rows), "{query}");
        let columns = [
            column("COLUMN_NAME", "varchar(64)"),
            column("ORDINAL_POSITION", "bigint(21)"),
        ];
        let rows = hex::encode("{\"c0\":\"lag_ms\",\"c1\":\"13\"}");
        assert!(of_catalogue("columns", &columns).contains(&rows));
    }
}
