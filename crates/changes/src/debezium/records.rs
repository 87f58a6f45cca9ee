//! The records of changes, definitions and transactions, as the rest of a line.

use serde_json::Value;

use super::{Debezium, schema, value};
use crate::event::Logged;
use crate::json;
use crate::rows::{Change, Image};
use crate::table::Table;

/// What a record's source says, besides its table.
#[derive(Clone, Copy)]
pub(crate) struct Of<'a> {
    pub form: &'a Debezium,
    /// `mysql` or `mariadb`.
    pub connector: &'static str,
    /// The transaction; `None` for rows that a snapshot read.
    pub gtid: Option<&'a str>,
    pub logged: Logged,
    /// The binlog's file and the place in it where the transaction ends, as far as it is known.
    pub place: (&'a str, u64),
    /// The change's number in its transaction, from 0.
    pub row: u64,
    /// When it is told; milliseconds since 1970.
    pub now_ms: u64,
    pub sql: Option<&'a str>,
    /// The transaction's name, the number of the record in it, and among those of its table.
    pub transaction: Option<(&'a str, u64, u64)>,
}

/// What became of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Create,
    Update,
    Delete,
    Read,
}

impl Op {
    fn letter(self) -> char {
        match self {
            Op::Create => 'c',
            Op::Update => 'u',
            Op::Delete => 'd',
            Op::Read => 'r',
        }
    }
}

/// The records of one change of a row.
///
/// # Errors
/// It cannot be told in this form; the text says why.
pub(crate) fn row(of: &Of<'_>, table: &Table, change: &Change<'_>) -> Result<Vec<String>, String> {
    let (before, after) = (change.before.as_ref(), change.after.as_ref());
    let keys = (key(before, table)?, key(after, table)?);
    let record = |op, before, after, key: &Option<String>| {
        record(of, table, (op, before, after), key.as_deref())
    };
    let header = |name: &str, key: &str| {
        let topic = topic_of(of, table);
        let key = keyed(of, table, &topic, Some(key));
        format!(",\"headers\":{{\"{name}\":{key}}}")
    };
    let tombstone = |key: &Option<String>| {
        let wanted = of.form.tombstones && key.is_some();
        wanted.then(|| tombstone(of, table, key.as_deref()))
    };
    let mut records = Vec::new();
    match (before, after, &keys) {
        (Some(_), Some(_), (Some(old), Some(new))) if old != new => {
            let deleted = record(Op::Delete, before, None, &keys.0)?;
            records.push(deleted + &header("__debezium.newkey", new));
            records.extend(tombstone(&keys.0));
            // The second record of the change.
            let next = |(id, order, in_table)| (id, order + 1, in_table + 1);
            let of = Of {
                transaction: of.transaction.map(next),
                ..*of
            };
            let after = (Op::Create, None, after);
            let created = self::record(&of, table, after, keys.1.as_deref())?;
            records.push(created + &header("__debezium.oldkey", old));
        }
        (Some(_), Some(_), _) => records.push(record(Op::Update, before, after, &keys.1)?),
        (Some(_), None, _) => {
            records.push(record(Op::Delete, before, None, &keys.0)?);
            records.extend(tombstone(&keys.0));
        }
        _ => {
            let op = if of.gtid.is_none() {
                Op::Read
            } else {
                Op::Create
            };
            records.push(record(op, None, after, &keys.1)?);
        }
    }
    Ok(records)
}

/// A statement that defines something, and what became of tables by it.
pub(crate) fn definition(of: &Of<'_>, database: &str, sql: &str, changes: &[Value]) -> String {
    let topic = &of.form.prefix;
    let mut key = String::from("{\"databaseName\":");
    json::text(database, &mut key);
    key.push('}');
    let mut payload = source(of, database, None);
    payload.push_str(&format!(",\"ts_ms\":{},\"databaseName\":", of.now_ms));
    json::text(database, &mut payload);
    payload.push_str(",\"schemaName\":null,\"ddl\":");
    json::text(sql, &mut payload);
    payload.push_str(&format!(",\"tableChanges\":{}", Value::from(changes)));
    let key = with_schema(of, key, || schema::definition_key(of.connector));
    let value = with_schema(of, format!("{{{payload}}}"), || {
        schema::definition(of.connector)
    });
    tail(topic, &key, &value)
}

/// A transaction begins.
pub(crate) fn begun(of: &Of<'_>, id: &str) -> String {
    boundary(of, "BEGIN", id, "null", "null")
}

/// The end of a transaction, with the number of its records for each table.
pub(crate) fn ended<'a>(
    of: &Of<'_>,
    id: &str,
    counts: impl Iterator<Item = (&'a str, u64)>,
) -> String {
    let (mut all, mut collections) = (0, String::new());
    for (table, count) in counts {
        all += count;
        collections.push_str(if collections.is_empty() { "" } else { "," });
        collections.push_str("{\"data_collection\":");
        json::text(table, &mut collections);
        collections.push_str(&format!(",\"event_count\":{count}}}"));
    }
    boundary(of, "END", id, &all.to_string(), &format!("[{collections}]"))
}

fn boundary(of: &Of<'_>, status: &str, id: &str, count: &str, collections: &str) -> String {
    let topic = format!("{}.transaction", of.form.prefix);
    let mut name = String::new();
    json::text(id, &mut name);
    let key = with_schema(of, format!("{{\"id\":{name}}}"), schema::transaction_key);
    let value = format!(
        "{{\"status\":\"{status}\",\"id\":{name},\"event_count\":{count},\"data_collections\":{collections},\
         \"ts_ms\":{}}}",
        of.logged.micros() / 1000
    );
    tail(&topic, &key, &with_schema(of, value, schema::transaction))
}

fn topic_of(of: &Of<'_>, table: &Table) -> String {
    format!("{}.{}.{}", of.form.prefix, table.database, table.name)
}

fn record(
    of: &Of<'_>,
    table: &Table,
    (op, before, after): (Op, Option<&Image<'_>>, Option<&Image<'_>>),
    key: Option<&str>,
) -> Result<String, String> {
    let topic = topic_of(of, table);
    let key = keyed(of, table, &topic, key);
    let mut payload = String::new();
    for (name, image) in [("before", before), ("after", after)] {
        payload.push_str(&format!("\"{name}\":"));
        match image {
            Some(image) => row_of(image, table, &mut payload)?,
            None => payload.push_str("null"),
        }
        payload.push(',');
    }
    payload.push_str(&source(of, &table.database, Some(&table.name)));
    match of.transaction {
        None => payload.push_str(",\"transaction\":null"),
        Some((id, order, in_table)) => {
            payload.push_str(",\"transaction\":{\"id\":");
            json::text(id, &mut payload);
            payload.push_str(&format!(
                ",\"total_order\":{order},\"data_collection_order\":{in_table}}}"
            ));
        }
    }
    // A zero with zeros behind it is no number of JSON.
    let (letter, ms) = (op.letter(), of.now_ms.max(1));
    let us = ms * 1000;
    payload.push_str(&format!(
        ",\"op\":\"{letter}\",\"ts_ms\":{ms},\"ts_us\":{us},\"ts_ns\":{us}000"
    ));
    let value = with_schema(of, format!("{{{payload}}}"), || {
        schema::envelope(table, &topic, of.connector)
    });
    Ok(tail(&topic, &key, &value))
}

/// After a delete: nothing of the key is left.
fn tombstone(of: &Of<'_>, table: &Table, key: Option<&str>) -> String {
    let topic = topic_of(of, table);
    tail(&topic, &keyed(of, table, &topic, key), "null")
}

fn keyed(of: &Of<'_>, table: &Table, topic: &str, key: Option<&str>) -> String {
    match key {
        Some(key) => with_schema(of, key.to_owned(), || schema::key(table, topic)),
        None => "null".to_owned(),
    }
}

fn with_schema(of: &Of<'_>, payload: String, schema: impl FnOnce() -> String) -> String {
    match of.form.schema {
        true => format!("{{\"schema\":{},\"payload\":{payload}}}", schema()),
        false => payload,
    }
}

fn tail(topic: &str, key: &str, value: &str) -> String {
    let mut tail = String::from(",\"topic\":");
    json::text(topic, &mut tail);
    tail + &format!(",\"key\":{key},\"value\":{value}")
}

/// The columns of a row's primary key; `None` where there is none.
fn key(image: Option<&Image<'_>>, table: &Table) -> Result<Option<String>, String> {
    let Some(image) = image.filter(|_| !table.key.is_empty()) else {
        return Ok(None);
    };
    members(image, table, table.key.iter().copied()).map(Some)
}

fn row_of(image: &Image<'_>, table: &Table, out: &mut String) -> Result<(), String> {
    out.push_str(&members(image, table, 0..table.columns.len())?);
    Ok(())
}

fn members(
    image: &Image<'_>,
    table: &Table,
    places: impl Iterator<Item = usize>,
) -> Result<String, String> {
    let mut out = String::from("{");
    for (count, at) in places.enumerate() {
        let (Some(Some(cell)), Some(column)) = (image.get(at), table.columns.get(at)) else {
            return Err(format!(
                "the binlog has only some columns of {}.{}, and types=debezium needs all; set binlog_row_image=FULL \
                 on every server of the group",
                table.database, table.name
            ));
        };
        out.push_str(if count > 0 { "," } else { "" });
        json::text(&json::name(column, at), &mut out);
        out.push(':');
        value::value(cell, column, &mut out)?;
    }
    Ok(out + "}")
}

fn source(of: &Of<'_>, database: &str, table: Option<&str>) -> String {
    let text = |text: Option<&str>| match text {
        Some(text) => {
            let mut quoted = String::new();
            json::text(text, &mut quoted);
            quoted
        }
        None => "null".to_owned(),
    };
    let (version, connector) = (env!("CARGO_PKG_VERSION"), of.connector);
    let name = text(Some(&of.form.prefix));
    let snapshot = if of.gtid.is_none() {
        "incremental"
    } else {
        "false"
    };
    let (us, server_id, row) = (of.logged.micros(), of.logged.server_id, of.row);
    let (ms, ns) = (us / 1000, us.saturating_mul(1000));
    let thread = match of.logged.connection {
        Some(connection) => connection.to_string(),
        None => "null".to_owned(),
    };
    let (file, place) = (text(Some(of.place.0)), of.place.1);
    let (database, table, gtid, sql) = (
        text(Some(database)),
        text(table),
        text(of.gtid),
        text(of.sql),
    );
    format!(
        "\"source\":{{\"version\":\"{version}\",\"connector\":\"{connector}\",\"name\":{name},\
         \"ts_ms\":{ms},\"snapshot\":\"{snapshot}\",\"db\":{database},\"sequence\":null,\
         \"ts_us\":{us},\"ts_ns\":{ns},\"table\":{table},\"server_id\":{server_id},\
         \"gtid\":{gtid},\"file\":{file},\"pos\":{place},\"row\":{row},\"thread\":{thread},\"query\":{sql}}}"
    )
}
