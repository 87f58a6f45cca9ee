//! Columns on their way to another server: how they are asked for, declared and written there.

use farm::sharding::Column;
use sqltext::{Dialect, ticked};

use crate::answer::{Load, Written};

/// Up to so many bytes a column is made a key of a scratch table.
const KEY_BYTES_MAX: usize = 760;

/// What a column is asked for with, so that its value arrives whole whatever the session's charset
/// and time zone are, and how that is written again.
pub(crate) fn asked(column: &Column) -> (String, Written) {
    asked_as(column, &ticked(&column.name))
}

/// The same of a text whose value is one of the column's.
pub(crate) fn asked_as(column: &Column, name: &str) -> (String, Written) {
    let name = name.to_owned();
    match &*column.data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal"
        | "numeric" | "double" | "real" | "year" => (name, Written::Plain),
        // Printed with six digits otherwise.
        "float" => (format!("{name}+0e0"), Written::Plain),
        "bit" => (name, Written::Hex),
        // Its text is ambiguous when clocks are set back.
        "timestamp" => (format!("UNIX_TIMESTAMP({name})"), Written::Seconds),
        // Only their text means the same to every server; of bytes they take their own form.
        "uuid" | "inet4" | "inet6" => (
            format!("CAST(CONVERT({name} USING ascii) AS BINARY)"),
            Written::Text("ascii".to_owned()),
        ),
        "json" => (
            format!("CAST(CONVERT({name} USING utf8mb4) AS BINARY)"),
            Written::Text("utf8mb4".to_owned()),
        ),
        _ => match charset(column) {
            Some(charset) => (format!("CAST({name} AS BINARY)"), Written::Text(charset)),
            None => (name, Written::Quoted),
        },
    }
}

/// How rows of these columns, in this order, are read into a table from the client's file. Fields are taken
/// as bytes, which a column of text keeps as they are.
pub(crate) fn load(table: &str, columns: &[&Column]) -> Load {
    let (mut fields, mut sets, mut forgets) = (Vec::new(), Vec::new(), Vec::new());
    for (at, column) in columns.iter().enumerate() {
        let name = ticked(&column.name);
        // What they make of bytes is no text.
        let charset = match &*column.data_type {
            "uuid" | "inet4" | "inet6" => "ascii",
            "json" => "utf8mb4",
            _ => {
                fields.push(name);
                continue;
            }
        };
        let field = format!("@heddle_field{at}");
        sets.push(format!("{name} = CONVERT({field} USING {charset})"));
        forgets.push(format!("{field} = NULL"));
        fields.push(field);
    }
    let mut text = format!(
        "LOAD DATA LOCAL INFILE 'rows' INTO TABLE {table} CHARACTER SET binary ({})",
        fields.join(", ")
    );
    if !sets.is_empty() {
        text.push_str(&format!(" SET {}", sets.join(", ")));
    }
    Load {
        text,
        forget: (!forgets.is_empty()).then(|| format!("SET {}", forgets.join(", "))),
    }
}

/// Ends a field that another one follows.
pub const FIELD_END: u8 = b'\t';

/// Ends a row.
pub const ROW_END: u8 = b'\n';

/// Writes a value, as it came in the text protocol, as a field of the file that [`Load`] reads. `None` is
/// NULL.
pub fn put_field(out: &mut Vec<u8>, how: &Written, value: Option<&[u8]>) {
    let Some(value) = value else {
        out.extend_from_slice(b"\\N");
        return;
    };
    match how {
        Written::Plain | Written::Quoted | Written::Text(_) | Written::Hex => escape(out, value),
        Written::Seconds => match moment(value) {
            Some(moment) => out.extend_from_slice(moment.as_bytes()),
            // The server says that it is none.
            None => escape(out, value),
        },
    }
}

fn escape(out: &mut Vec<u8>, value: &[u8]) {
    for byte in value {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            _ => out.push(*byte),
        }
    }
}

/// A TIMESTAMP in the time zone `+00:00`, of seconds since 1970 with any fraction; zero is the moment that
/// never was. `None` of what is no such number.
fn moment(seconds: &[u8]) -> Option<String> {
    const DAY_S: u64 = 86_400;
    /// Days of 400 years, after which the calendar begins anew.
    const ERA_DAYS: u64 = 146_097;
    /// From the first of March of the year 0 to the first of January 1970.
    const BEFORE_1970_DAYS: u64 = 719_468;
    let text = std::str::from_utf8(seconds).ok()?;
    if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) {
        return Some("0000-00-00 00:00:00".to_owned());
    }
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let whole: u64 = whole.parse().ok()?;
    let (days, second) = (whole / DAY_S + BEFORE_1970_DAYS, whole % DAY_S);
    // Years begin in March, so that a leap day is a year's last.
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    Some(format!(
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}"
    ))
}

/// The charset of a column of text.
pub(crate) fn charset(column: &Column) -> Option<String> {
    let collation = column.collation.as_deref()?;
    let charset = collation.split('_').next()?;
    (charset != "binary").then(|| charset.to_owned())
}

/// As CREATE TABLE has it: the same type, and nothing that fills it by itself. `hides`: invisible where
/// it is, since the statement selects `*`. Else a table of invisible columns only could come, which no
/// server makes.
pub(crate) fn declared(column: &Column, hides: bool) -> String {
    let mut text = declared_as(column, &ticked(&column.name), column.nullable);
    if column.invisible && hides {
        text.push_str(" INVISIBLE");
    }
    text
}

/// The same type by another name.
pub(crate) fn declared_as(column: &Column, name: &str, nullable: bool) -> String {
    let mut text = format!("{name} {}", column.full_type);
    if let Some(collation) = column.collation.as_deref().filter(|it| *it != "binary")
        && column.data_type.as_ref() != "json"
    {
        text.push_str(" COLLATE ");
        text.push_str(collation);
    }
    // Without a word a TIMESTAMP would fill itself.
    text.push_str(if nullable { " NULL" } else { " NOT NULL" });
    if column.data_type.as_ref() == "timestamp" && !nullable {
        text.push_str(" DEFAULT '2000-01-01 00:00:00'");
    }
    text
}

/// It can be a key of a scratch table.
pub(crate) fn can_be_key(column: &Column) -> bool {
    match &*column.data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal"
        | "numeric" | "year" | "date" | "datetime" | "timestamp" | "time" | "enum" => true,
        "char" | "varchar" | "binary" | "varbinary" => {
            length(column).is_some() && key_bytes(column) <= KEY_BYTES_MAX
        }
        _ => false,
    }
}

/// The bytes that a column takes in a key, at most.
pub(crate) fn key_bytes(column: &Column) -> usize {
    /// Of a DECIMAL of 65 digits.
    const NUMBER_BYTES_MAX: usize = 30;
    match (&*column.data_type, length(column)) {
        ("char" | "varchar", Some(length)) => length * 4,
        ("binary" | "varbinary", Some(length)) => length,
        _ => NUMBER_BYTES_MAX,
    }
}

/// The N of VARCHAR(N).
pub(crate) fn length(column: &Column) -> Option<usize> {
    let (_, rest) = column.full_type.split_once('(')?;
    rest.split(')').next()?.trim().parse().ok()
}

/// How a scratch table is kept.
pub(crate) fn engine(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MariaDb => "ENGINE=Aria TRANSACTIONAL=0",
        Dialect::MySql => "ENGINE=InnoDB",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(data_type: &str) -> Column {
        Column {
            name: data_type.into(),
            data_type: data_type.into(),
            full_type: data_type.into(),
            collation: None,
            nullable: true,
            auto_increment: false,
            generated: false,
            invisible: false,
            default: None,
        }
    }

    #[test]
    fn values_become_fields() {
        let field = |how: Written, value: &[u8]| {
            let mut out = Vec::new();
            put_field(&mut out, &how, Some(value));
            out
        };
        assert_eq!(field(Written::Plain, b"-1.5"), b"-1.5");
        assert_eq!(field(Written::Hex, b"\0\xFF\\"), b"\0\xFF\\\\");
        let text = Written::Text("latin1".to_owned());
        assert_eq!(field(text, b"a\tb\nc\r\\N'\xE4"), b"a\\tb\\nc\r\\\\N'\xE4");
        assert_eq!(field(Written::Quoted, b""), b"");
        let mut out = Vec::new();
        put_field(&mut out, &Written::Quoted, None);
        assert_eq!(out, b"\\N");
    }

    #[test]
    fn seconds_become_moments() {
        for (seconds, expected) in [
            ("0", "0000-00-00 00:00:00"),
            ("0.000", "0000-00-00 00:00:00"),
            ("1", "1970-01-01 00:00:01"),
            ("0.25", "1970-01-01 00:00:00.25"),
            ("951782399", "2000-02-28 23:59:59"),
            ("951782400.000001", "2000-02-29 00:00:00.000001"),
            ("951868800", "2000-03-01 00:00:00"),
            ("1704067199", "2023-12-31 23:59:59"),
            ("2147483647", "2038-01-19 03:14:07"),
            ("4107542400", "2100-03-01 00:00:00"),
            ("4294967295", "2106-02-07 06:28:15"),
        ] {
            assert_eq!(moment(seconds.as_bytes()).as_deref(), Some(expected));
        }
        assert_eq!(moment(b"soon"), None);
        assert_eq!(moment(b"-1"), None);
    }

    #[test]
    fn what_is_made_of_text_only_is_converted() {
        let (id, doc, name) = (column("int"), column("json"), column("inet6"));
        let plain = load("t", &[&id]);
        assert_eq!(
            plain.text,
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE t CHARACTER SET binary (`int`)"
        );
        assert_eq!(plain.forget, None);
        let made = load("t", &[&id, &doc, &name]);
        assert_eq!(
            made.text,
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE t CHARACTER SET binary \
             (`int`, @heddle_field1, @heddle_field2) \
             SET `json` = CONVERT(@heddle_field1 USING utf8mb4), \
             `inet6` = CONVERT(@heddle_field2 USING ascii)"
        );
        assert_eq!(
            made.forget.as_deref(),
            Some("SET @heddle_field1 = NULL, @heddle_field2 = NULL")
        );
    }
}
