//! Columns on their way to another server: how they are asked for, declared and written there.

use farm::sharding::Column;
use sqltext::{Dialect, ticked};

use crate::answer::Written;

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
