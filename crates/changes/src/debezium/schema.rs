//! Schemas of Kafka Connect, as JSON's converter writes them beside keys and values.

use super::value::{Form, form};
use crate::json;
use crate::table::{Column, Table};

/// Appends the schema of a column's field.
fn field(column: &Column, at: usize, out: &mut String) {
    let (kind, name, parameters) = described(column);
    out.push_str(&format!("{{\"type\":\"{kind}\""));
    match form(column) {
        Form::Geometry => out.push_str(
            ",\"fields\":[{\"type\":\"bytes\",\"optional\":false,\"field\":\"wkb\"},\
             {\"type\":\"int32\",\"optional\":true,\"field\":\"srid\"}]",
        ),
        Form::Vector => out.push_str(",\"items\":{\"type\":\"float\",\"optional\":false}"),
        _ => {}
    }
    out.push_str(&format!(",\"optional\":{}", column.nullable));
    if !name.is_empty() {
        out.push_str(&format!(",\"name\":\"{name}\",\"version\":1"));
    }
    for (at, (name, value)) in parameters.iter().enumerate() {
        out.push_str(if at == 0 { ",\"parameters\":{" } else { "," });
        out.push_str(&format!("\"{name}\":"));
        json::text(value, out);
    }
    if !parameters.is_empty() {
        out.push('}');
    }
    out.push_str(",\"field\":");
    json::text(&json::name(column, at), out);
    out.push('}');
}

/// A column's type, its name for people, and what belongs to it.
fn described(column: &Column) -> (&'static str, &'static str, Vec<(&'static str, String)>) {
    let allowed = || {
        let words = |label: &Vec<u8>| match column.charset().and_then(|it| it.decode(label)) {
            Some(words) => words.into_owned(),
            None => String::from_utf8_lossy(label).into_owned(),
        };
        let labels: Vec<String> = column.members.iter().map(words).collect();
        vec![("allowed", labels.join(","))]
    };
    let plain = |kind| (kind, "", Vec::new());
    let named = |kind, name| (kind, name, Vec::new());
    match form(column) {
        Form::Int16 => plain("int16"),
        Form::Int32 => plain("int32"),
        Form::Int64 => plain("int64"),
        Form::Float => plain("float"),
        Form::Double => plain("double"),
        Form::Boolean => plain("boolean"),
        Form::Bytes => plain("bytes"),
        Form::Text => plain("string"),
        Form::Decimal(precision, scale) => (
            "bytes",
            "org.apache.kafka.connect.data.Decimal",
            vec![
                ("scale", scale.to_string()),
                ("connect.decimal.precision", precision.to_string()),
            ],
        ),
        Form::Bits(count) => (
            "bytes",
            "io.debezium.data.Bits",
            vec![("length", count.to_string())],
        ),
        Form::Json => named("string", "io.debezium.data.Json"),
        Form::Enum => ("string", "io.debezium.data.Enum", allowed()),
        Form::Set => ("string", "io.debezium.data.EnumSet", allowed()),
        Form::Year => named("int32", "io.debezium.time.Year"),
        Form::Date => named("int32", "io.debezium.time.Date"),
        Form::Time => named("int64", "io.debezium.time.MicroTime"),
        Form::Timestamp => named("int64", "io.debezium.time.Timestamp"),
        Form::MicroTimestamp => named("int64", "io.debezium.time.MicroTimestamp"),
        Form::Zoned(_) => named("string", "io.debezium.time.ZonedTimestamp"),
        Form::Geometry => named("struct", "io.debezium.data.geometry.Geometry"),
        Form::Vector => named("array", "io.debezium.data.FloatVector"),
    }
}

/// The fields of a row's columns, or of those of its key.
fn fields<'a>(columns: impl Iterator<Item = (usize, &'a Column)>) -> String {
    let mut out = String::from("\"fields\":[");
    for (count, (at, column)) in columns.enumerate() {
        out.push_str(if count > 0 { "," } else { "" });
        field(column, at, &mut out);
    }
    out + "]"
}

/// Of a row's key. `topic` is the table's.
pub(super) fn key(table: &Table, topic: &str) -> String {
    let columns = table.key.iter();
    let columns = columns.filter_map(|&at| Some((at, table.columns.get(at)?)));
    let fields = fields(columns);
    let name = avro(&format!("{topic}.Key"));
    format!("{{\"type\":\"struct\",{fields},\"optional\":false,\"name\":\"{name}\"}}")
}

/// Of a change. `topic` is the table's.
pub(super) fn envelope(table: &Table, topic: &str, connector: &str) -> String {
    let row = |side: &str| {
        let fields = fields(table.columns.iter().enumerate());
        let name = avro(&format!("{topic}.Value"));
        format!(
            "{{\"type\":\"struct\",{fields},\"optional\":true,\"name\":\"{name}\",\"field\":\"{side}\"}}"
        )
    };
    let (before, after) = (row("before"), row("after"));
    let (source, rest) = (source(connector), rest());
    let name = avro(&format!("{topic}.Envelope"));
    format!(
        "{{\"type\":\"struct\",\"fields\":[{before},{after},{source},{TRANSACTION},{rest}],\"optional\":false,\
         \"name\":\"{name}\",\"version\":2}}"
    )
}

const TRANSACTION: &str = "{\"type\":\"struct\",\"fields\":[\
     {\"type\":\"string\",\"optional\":false,\"field\":\"id\"},\
     {\"type\":\"int64\",\"optional\":false,\"field\":\"total_order\"},\
     {\"type\":\"int64\",\"optional\":false,\"field\":\"data_collection_order\"}],\
     \"optional\":true,\"name\":\"event.block\",\"version\":1,\"field\":\"transaction\"}";

/// A field without a name of its own.
fn plain(kind: &str, optional: bool, field: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"optional\":{optional},\"field\":\"{field}\"}}")
}

fn rest() -> String {
    [
        plain("string", false, "op"),
        plain("int64", true, "ts_ms"),
        plain("int64", true, "ts_us"),
        plain("int64", true, "ts_ns"),
    ]
    .join(",")
}

fn source(connector: &str) -> String {
    let fields = [
        plain("string", false, "version"),
        plain("string", false, "connector"),
        plain("string", false, "name"),
        plain("int64", false, "ts_ms"),
        plain("string", true, "snapshot"),
        plain("string", false, "db"),
        plain("string", true, "sequence"),
        plain("int64", true, "ts_us"),
        plain("int64", true, "ts_ns"),
        plain("string", true, "table"),
        plain("int64", false, "server_id"),
        plain("string", true, "gtid"),
        plain("string", false, "file"),
        plain("int64", false, "pos"),
        plain("int32", false, "row"),
        plain("int64", true, "thread"),
        plain("string", true, "query"),
    ]
    .join(",");
    format!(
        "{{\"type\":\"struct\",\"fields\":[{fields}],\"optional\":false,\
         \"name\":\"io.debezium.connector.{connector}.Source\",\"version\":1,\"field\":\"source\"}}"
    )
}

/// A name that Avro takes: what it does not allow is an underscore.
fn avro(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    name.chars()
        .map(|c| if plain(c) { c } else { '_' })
        .collect()
}

/// Of the key of a definition.
pub(super) fn definition_key(connector: &str) -> String {
    let field = plain("string", false, "databaseName");
    format!(
        "{{\"type\":\"struct\",\"fields\":[{field}],\"optional\":false,\
         \"name\":\"io.debezium.connector.{connector}.SchemaChangeKey\",\"version\":1}}"
    )
}

/// Of a definition.
pub(super) fn definition(connector: &str) -> String {
    let fields = [
        source(connector),
        plain("int64", false, "ts_ms"),
        plain("string", true, "databaseName"),
        plain("string", true, "schemaName"),
        plain("string", true, "ddl"),
        list(&table_change(), false, "tableChanges"),
    ]
    .join(",");
    format!(
        "{{\"type\":\"struct\",\"fields\":[{fields}],\"optional\":false,\
         \"name\":\"io.debezium.connector.{connector}.SchemaChangeValue\",\"version\":1}}"
    )
}

/// A list as a field.
fn list(items: &str, optional: bool, field: &str) -> String {
    format!(
        "{{\"type\":\"array\",\"items\":{items},\"optional\":{optional},\"field\":\"{field}\"}}"
    )
}

/// What became of a table.
fn table_change() -> String {
    const TEXT: &str = "{\"type\":\"string\",\"optional\":false}";
    let column = [
        plain("string", false, "name"),
        plain("int32", false, "jdbcType"),
        plain("int32", true, "nativeType"),
        plain("string", false, "typeName"),
        plain("string", true, "typeExpression"),
        plain("string", true, "charsetName"),
        plain("int32", true, "length"),
        plain("int32", true, "scale"),
        plain("int32", false, "position"),
        plain("boolean", true, "optional"),
        plain("boolean", true, "autoIncremented"),
        plain("boolean", true, "generated"),
        plain("string", true, "comment"),
        plain("string", true, "defaultValueExpression"),
        list(TEXT, true, "enumValues"),
    ]
    .join(",");
    let part = |fields: &str, optional: bool, name: &str, field: &str| {
        format!(
            "{{\"type\":\"struct\",\"fields\":[{fields}],\"optional\":{optional},\
             \"name\":\"io.debezium.connector.schema.{name}\",\"version\":1{field}}}"
        )
    };
    let table = [
        plain("string", true, "defaultCharsetName"),
        list(TEXT, true, "primaryKeyColumnNames"),
        list(&part(&column, false, "Column", ""), false, "columns"),
        plain("string", true, "comment"),
    ]
    .join(",");
    let change = [
        plain("string", false, "type"),
        plain("string", false, "id"),
        part(&table, true, "Table", ",\"field\":\"table\""),
    ]
    .join(",");
    part(&change, false, "Change", "")
}

/// Of the key of a transaction's beginning or end.
pub(super) fn transaction_key() -> String {
    let field = plain("string", false, "id");
    format!(
        "{{\"type\":\"struct\",\"fields\":[{field}],\"optional\":false,\
         \"name\":\"io.debezium.connector.common.TransactionMetadataKey\",\"version\":1}}"
    )
}

/// Of a transaction's beginning or end.
pub(super) fn transaction() -> String {
    let collection = [
        plain("string", false, "data_collection"),
        plain("int64", false, "event_count"),
    ]
    .join(",");
    let fields = [
        plain("string", false, "status"),
        plain("string", false, "id"),
        plain("int64", true, "event_count"),
        format!(
            "{{\"type\":\"array\",\"items\":{{\"type\":\"struct\",\"fields\":[{collection}],\
             \"optional\":false,\"name\":\"event.collection\",\"version\":1}},\"optional\":true,\
             \"field\":\"data_collections\"}}"
        ),
        plain("int64", false, "ts_ms"),
    ]
    .join(",");
    format!(
        "{{\"type\":\"struct\",\"fields\":[{fields}],\"optional\":false,\
         \"name\":\"io.debezium.connector.common.TransactionMetadataValue\",\"version\":1}}"
    )
}
