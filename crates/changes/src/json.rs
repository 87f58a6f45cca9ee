//! Rows as JSON. Which form each type has is told in docs/CHANGES.md.

use std::borrow::Cow;
use std::fmt::Write;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use crate::cell::{Cell, moment};
use crate::charset::{Charset, charset_of};
use crate::context::{Context, UserValue};
use crate::event::{Block, Statement};
use crate::rows::Image;
use crate::table::{Column, Table, code};

/// Integers beyond it, either way, are texts: most readers of JSON would round them.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// Appends an object of the columns that the image has.
pub fn image(image: &Image<'_>, table: &Table, out: &mut String) {
    out.push('{');
    let mut is_first = true;
    for (at, (cell, column)) in image.iter().zip(&table.columns).enumerate() {
        if let Some(cell) = cell {
            member(cell, column, at, &mut is_first, out);
        }
    }
    out.push('}');
}

/// A row's primary key, as the stream tells it; `None` where the image lacks a part, or there is no key.
pub fn key_of(row: &Image<'_>, table: &Table) -> Option<String> {
    let mut text = String::new();
    key(row, table, &mut text).then_some(text)
}

/// Appends an object of the primary key's columns; false where the image lacks one, or there is no key.
pub(crate) fn key(image: &Image<'_>, table: &Table, out: &mut String) -> bool {
    let begin = out.len();
    out.push('{');
    let mut is_first = true;
    for &place in &table.key {
        let cell = image.get(place).and_then(Option::as_ref);
        let (Some(cell), Some(column)) = (cell, table.columns.get(place)) else {
            out.truncate(begin);
            return false;
        };
        member(cell, column, place, &mut is_first, out);
    }
    match is_first {
        true => out.truncate(begin),
        false => out.push('}'),
    }
    !is_first
}

fn member(cell: &Cell<'_>, column: &Column, at: usize, is_first: &mut bool, out: &mut String) {
    if !std::mem::take(is_first) {
        out.push(',');
    }
    text(&name(column, at), out);
    out.push(':');
    value(cell, column, out);
}

/// A column's name, or its place from 1 where the server does not say it.
pub(crate) fn name(column: &Column, at: usize) -> Cow<'_, str> {
    match &column.name {
        Some(name) => Cow::Borrowed(name),
        None => Cow::Owned(format!("@{}", at + 1)),
    }
}

/// Appends a text in quotes.
pub(crate) fn text(text: &str, out: &mut String) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0x08 => "\\b",
            0x0C => "\\f",
            0..0x20 => "",
            _ => continue,
        };
        // A byte below 0x80 is a whole character.
        out.push_str(&text[from..at]);
        match escape {
            "" => drop(write!(out, "\\u{byte:04x}")),
            escape => out.push_str(escape),
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// Appends with what a statement was run, as far as the log says it.
pub(crate) fn context(statement: &Statement, out: &mut String) {
    let mut all = serde_json::Map::new();
    let mut add = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            all.insert(name.to_owned(), value);
        }
    };
    let of = &statement.context;
    let name = |id: u16| match charset_of(id.into()) {
        Some(charset) => Value::from(charset.name()),
        None => Value::Null,
    };
    let moment = of.timestamp.map(|(seconds, micros)| match micros {
        0 => Value::from(seconds),
        micros => Value::from(format!("{seconds}.{micros:06}")),
    });
    add("timestamp", moment);
    add("sql_mode", of.modes().map(|it| it.join(",").into()));
    if let Some((client, connection, server)) = of.collations {
        add("character_set_client", Some(name(client)));
        add("collation_connection", Some(connection.into()));
        add("collation_server", Some(server.into()));
    }
    add("collation_database", of.collation_database.map(Value::from));
    add("time_zone", of.time_zone.clone().map(Value::from));
    add(
        "lc_time_names",
        of.time_names.filter(|it| *it > 0).map(Value::from),
    );
    if let Some((foreign_keys, unique)) = of.checks() {
        add("foreign_key_checks", Some(foreign_keys.into()));
        add("unique_checks", Some(unique.into()));
    }
    if let Some((increment, offset)) = of.auto_increment {
        add("auto_increment_increment", Some(increment.into()));
        add("auto_increment_offset", Some(offset.into()));
    }
    let explicit = of.explicit_defaults_for_timestamp;
    add("explicit_defaults_for_timestamp", explicit.map(Value::from));
    let utf8mb4 = of.default_collation_for_utf8mb4.map(Value::from);
    add("default_collation_for_utf8mb4", utf8mb4);
    let invoker = of.invoker.as_ref();
    add(
        "invoker",
        invoker.map(|(user, host)| format!("{user}@{host}").into()),
    );
    // As a text: a reader of JSON might round it.
    let whole = |number: Option<u64>| number.map(|it| Value::from(it.to_string()));
    add("insert_id", whole(of.insert_id));
    add("last_insert_id", whole(of.last_insert_id));
    let seeds = of
        .rand
        .map(|(one, two)| vec![one.to_string(), two.to_string()]);
    add("rand_seeds", seeds.map(Value::from));
    all.extend(variables(of));
    if !all.is_empty() {
        let _ = write!(out, ",\"context\":{}", Value::Object(all));
    }
    text_of(statement, out);
}

/// The client's variables, and their types where the values do not say them.
fn variables(of: &Context) -> impl Iterator<Item = (String, Value)> {
    let all = of.variables.iter();
    let values: Map<String, Value> = all
        .clone()
        .map(|it| (it.name.clone(), variable(&it.value)))
        .collect();
    let types: Map<String, Value> = all
        .filter_map(|it| Some((it.name.clone(), variable_type(&it.value)?)))
        .collect();
    let both = [("variables", values), ("variable_types", types)];
    let told = both.into_iter().filter(|(_, all)| !all.is_empty());
    told.map(|(name, all)| (name.to_owned(), Value::Object(all)))
}

/// Appends what a statement's text does not say in UTF-8: the parts of a LOAD DATA, and bytes that are no text.
fn text_of(statement: &Statement, out: &mut String) {
    let (of, text) = (&statement.context, &statement.text);
    if let Some(load) = &statement.load {
        let (begin, end) = (load.name.0 as usize, load.name.1 as usize);
        let words = |part: Option<&[u8]>| Value::from(of.words(part.unwrap_or_default()));
        let (head, tail) = (words(text.get(..begin)), words(text.get(end..)));
        let duplicates = match load.duplicates {
            1 => "ignore",
            2 => "replace",
            _ => "error",
        };
        let _ = write!(
            out,
            ",\"file\":{},\"load\":{{\"head\":{head},\"tail\":{tail},\"duplicates\":\"{duplicates}\"}}",
            load.file
        );
    }
    if of.exact_words(text).is_none() {
        let _ = write!(out, ",\"bytes\":{{\"base64\":\"{}\"}}", BASE64.encode(text));
    }
}

/// What a client's variable is, where its value in JSON does not say it; of a text the number of its collation.
fn variable_type(value: &UserValue) -> Option<Value> {
    match value {
        UserValue::Decimal(_) => Some("decimal".into()),
        UserValue::Integer(number) if number.unsigned_abs() > EXACT_MAX => Some("integer".into()),
        UserValue::Unsigned(number) if *number > EXACT_MAX => Some("integer".into()),
        UserValue::Text(_, collation) => Some((*collation).into()),
        _ => None,
    }
}

/// What a client's variable had.
fn variable(value: &UserValue) -> Value {
    match value {
        UserValue::Null => Value::Null,
        UserValue::Real(number) => Value::from(*number),
        UserValue::Integer(number) if number.unsigned_abs() <= EXACT_MAX => Value::from(*number),
        UserValue::Integer(number) => number.to_string().into(),
        UserValue::Unsigned(number) if *number <= EXACT_MAX => Value::from(*number),
        UserValue::Unsigned(number) => number.to_string().into(),
        UserValue::Decimal(text) => text.clone().into(),
        UserValue::Text(bytes, collation) => {
            let charset = charset_of(*collation);
            match charset.and_then(|charset| charset.decode(bytes)) {
                Some(words) => words.into_owned().into(),
                None => {
                    let bytes = serde_json::json!({ "base64": BASE64.encode(bytes) });
                    bytes
                }
            }
        }
    }
}

/// Appends a piece of a file.
pub(crate) fn block(block: &Block, out: &mut String) {
    let (file, data) = (block.file, BASE64.encode(&block.data));
    let _ = write!(out, r#","file":{file},"data":{{"base64":"{data}"}}"#);
}

/// Appends a cell.
pub fn value(cell: &Cell<'_>, column: &Column, out: &mut String) {
    if let (Cell::Integer(number), Some(other)) = (cell, column.other_reading(cell)) {
        out.push_str("{\"signed\":");
        signed(*number, out);
        out.push_str(",\"unsigned\":");
        unsigned(other, out);
        return out.push('}');
    }
    match cell {
        Cell::Null => out.push_str("null"),
        Cell::Integer(number) if column.unsigned == Some(true) => {
            let bits = column.integer_bits();
            let mask = u64::MAX >> (64 - bits);
            unsigned(*number as u64 & mask, out);
        }
        Cell::Integer(number) => signed(*number, out),
        Cell::Bits(bits) => unsigned(*bits, out),
        Cell::Float(number) if number.is_finite() => drop(write!(out, "{number}")),
        Cell::Double(number) if number.is_finite() => {
            out.push_str(&serde_json::Value::from(*number).to_string());
        }
        Cell::Float(number) => text(&number.to_string(), out),
        Cell::Double(number) => text(&number.to_string(), out),
        Cell::Text(year) if column.code == code::YEAR => {
            out.push_str(match year.trim_start_matches('0') {
                "" => "0",
                year => year,
            });
        }
        Cell::Text(words) => text(words, out),
        Cell::Instant(0, fraction) => text(&format!("0000-00-00 00:00:00{fraction}"), out),
        Cell::Instant(seconds, fraction) => text(&format!("{}{fraction}", moment(*seconds)), out),
        Cell::Bytes(bytes) => characters(bytes, column, out),
        Cell::Enum(0) => out.push_str("\"\""),
        Cell::Enum(member) => match column.members.get(usize::from(*member) - 1) {
            Some(label) => characters(label, column, out),
            None => unsigned(u64::from(*member), out),
        },
        Cell::Set(members) => set(*members, column, out),
        Cell::Json(document) => out.push_str(document),
    }
}

fn signed(number: i64, out: &mut String) {
    match number.unsigned_abs() <= EXACT_MAX {
        true => out.push_str(itoa::Buffer::new().format(number)),
        false => drop(write!(out, "\"{number}\"")),
    }
}

fn unsigned(number: u64, out: &mut String) {
    match number <= EXACT_MAX {
        true => out.push_str(itoa::Buffer::new().format(number)),
        false => drop(write!(out, "\"{number}\"")),
    }
}

/// A list of labels; the number where they are not known.
fn set(members: u64, column: &Column, out: &mut String) {
    let chosen = (0..64).filter(|at| members >> at & 1 == 1);
    let labels: Option<Vec<&Vec<u8>>> = chosen.map(|at| column.members.get(at)).collect();
    let Some(labels) = labels else {
        return unsigned(members, out);
    };
    out.push('[');
    for (at, label) in labels.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        characters(label, column, out);
    }
    out.push(']');
}

/// Appends the labels of an ENUM or a SET as a member of an object.
pub(crate) fn members(column: &Column, out: &mut String) {
    for (at, label) in column.members.iter().enumerate() {
        out.push_str(if at == 0 { ",\"members\":[" } else { "," });
        characters(label, column, out);
    }
    if !column.members.is_empty() {
        out.push(']');
    }
}

/// A text, or `{"base64": …}` for bytes; with `charset` for a text that cannot be told otherwise.
fn characters(bytes: &[u8], column: &Column, out: &mut String) {
    let charset = column.charset();
    if let Some(words) = charset.and_then(|charset| charset.decode(bytes)) {
        return text(&words, out);
    }
    let mut encoded = BASE64.encode(bytes);
    let padded = column.padded_bytes();
    if bytes.len() < padded {
        let mut whole = bytes.to_vec();
        whole.resize(padded, 0);
        encoded = BASE64.encode(whole);
    }
    let is_bytes = matches!(charset, Some(Charset::Binary)) || !column.has_characters();
    match (is_bytes, charset) {
        (true, _) => drop(write!(out, r#"{{"base64":"{encoded}"}}"#)),
        (false, Some(charset)) => drop(write!(
            out,
            r#"{{"base64":"{encoded}","charset":"{}"}}"#,
            charset.name()
        )),
        (false, None) => drop(write!(out, r#"{{"base64":"{encoded}","charset":null}}"#)),
    }
}

impl Column {
    /// It is a text, or has labels; a BLOB is one as well.
    fn has_characters(&self) -> bool {
        self.is_text() || [code::ENUM, code::SET].contains(&self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(code: u8, collation: Option<u32>) -> Column {
        Column {
            code,
            metadata: 0x04FE,
            nullable: true,
            unsigned: None,
            name: None,
            collation,
            members: vec![b"a".to_vec(), b"b\xF6".to_vec()],
        }
    }

    fn shown(cell: Cell<'_>, column: &Column) -> String {
        let mut out = String::new();
        value(&cell, column, &mut out);
        out
    }

    #[test]
    fn texts_are_escaped_as_serde_escapes_them() {
        let all: String = (0..0x300).filter_map(char::from_u32).collect();
        for words in ["", "ab", "\"", "a\\\u{1}b", "ö\n😀", &all] {
            let mut out = "in front ".to_owned();
            text(words, &mut out);
            assert_eq!(out, format!("in front {}", Value::from(words)));
        }
    }

    #[test]
    fn integers_that_readers_would_round_are_texts() {
        let mut big = column(code::LONGLONG, None);
        let either = r#"{"signed":-1,"unsigned":"18446744073709551615"}"#;
        assert_eq!(shown(Cell::Integer(-1), &big), either);
        big.unsigned = Some(false);
        let exact = i64::try_from(EXACT_MAX).expect("it fits");
        assert_eq!(shown(Cell::Integer(-exact), &big), "-9007199254740991");
        assert_eq!(
            shown(Cell::Integer(exact + 1), &big),
            "\"9007199254740992\""
        );
        assert_eq!(
            shown(Cell::Integer(i64::MIN), &big),
            "\"-9223372036854775808\""
        );
        big.unsigned = Some(true);
        assert_eq!(shown(Cell::Integer(-1), &big), "\"18446744073709551615\"");
        let mut small = column(code::TINY, None);
        small.unsigned = Some(true);
        assert_eq!(shown(Cell::Integer(-1), &small), "255");
    }

    #[test]
    fn bytes_and_texts_are_told_apart() {
        let binary = column(code::STRING, Some(63));
        let bytes = || Cell::Bytes(Cow::Borrowed(&b"\xF6"[..]));
        assert_eq!(shown(bytes(), &binary), r#"{"base64":"9gAAAA=="}"#);
        assert_eq!(shown(bytes(), &column(code::STRING, Some(8))), "\"ö\"");
        let broken = column(code::VARCHAR, Some(45));
        assert_eq!(
            shown(bytes(), &broken),
            r#"{"base64":"9g==","charset":"utf8mb4"}"#
        );
        let labels = column(code::SET, Some(8));
        assert_eq!(shown(Cell::Set(3), &labels), "[\"a\",\"bö\"]");
        assert_eq!(shown(Cell::Set(0), &labels), "[]");
        assert_eq!(shown(Cell::Set(4), &labels), "4");
        let one = column(code::ENUM, Some(8));
        assert_eq!(shown(Cell::Enum(2), &one), "\"bö\"");
        assert_eq!(
            (shown(Cell::Enum(0), &one), shown(Cell::Enum(9), &one)),
            ("\"\"".into(), "9".into())
        );
    }

    #[test]
    fn numbers_and_times_have_their_forms() {
        let plain = |code| column(code, None);
        assert_eq!(shown(Cell::Float(1.1), &plain(code::FLOAT)), "1.1");
        assert_eq!(shown(Cell::Double(1e300), &plain(code::DOUBLE)), "1e+300");
        assert_eq!(
            shown(Cell::Double(f64::NAN), &plain(code::DOUBLE)),
            "\"NaN\""
        );
        assert_eq!(shown(Cell::Text("0000".into()), &plain(code::YEAR)), "0");
        assert_eq!(shown(Cell::Text("2024".into()), &plain(code::YEAR)), "2024");
        let decimal = Cell::Text("1.10".into());
        assert_eq!(shown(decimal, &plain(code::DECIMAL)), "\"1.10\"");
        let instant = Cell::Instant(951_827_696, ".5".into());
        assert_eq!(
            shown(instant, &plain(code::TIMESTAMP2)),
            "\"2000-02-29 12:34:56.5\""
        );
        let document = Cell::Json(r#"{"a": 1}"#.into());
        assert_eq!(shown(document, &plain(code::JSON)), r#"{"a": 1}"#);
    }
}
