//! Answers as result sets: one about the farm, then one for each set of the answer.

use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::{ErrPacket, OkPacket};
use mysql_wire::result::{ColumnKind, write_text_result};
use mysql_wire::status::Status;
use serde_json::{Map, Value as Json};

use crate::answer::{Answer, Failure, Set};
use crate::shape::{Head, sets};
use crate::value::Value;

/// There is no such command.
const UNKNOWN: u16 = 1305;
/// The account may not.
const DENIED: u16 = 1370;
/// The command failed, or its arguments are wrong.
const FAILED: u16 = 1107;

/// Writes the packets of an answer, the first of which follows a command.
pub fn put_answer(out: &mut Vec<u8>, head: &Head, answer: &Answer, json: bool, caps: Capabilities) {
    let about = Set {
        names: vec!["fabric_uuid", "ttl", "message"],
        rows: vec![vec![
            head.uuid.as_str().into(),
            head.ttl_s.into(),
            Value::Nil,
        ]],
    };
    let mut all = vec![about];
    all.extend(sets(answer));
    let mut sequence = 1;
    let count = all.len();
    for (at, set) in all.into_iter().enumerate() {
        let set = if json && at > 0 { as_json(&set) } else { set };
        let mut status = Status::AUTOCOMMIT;
        status.set(Status::MORE_RESULTS, at + 1 < count);
        put_set(out, &mut sequence, &set, status, caps);
    }
}

/// Writes one set.
pub fn put_set(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    set: &Set,
    status: Status,
    caps: Capabilities,
) {
    let kind = |at: usize| {
        let mut cells = set.rows.iter().filter_map(|row| row.get(at));
        match cells.find(|cell| **cell != Value::Nil) {
            Some(Value::Int(_)) => ColumnKind::LongLong,
            Some(Value::Double(_)) => ColumnKind::NewDecimal,
            Some(Value::Bool(_)) => ColumnKind::Tiny,
            _ => ColumnKind::VarString,
        }
    };
    let names = set.names.iter().enumerate();
    let columns: Vec<_> = names.map(|(at, name)| (*name, kind(at))).collect();
    let cell = |value: &Value| match value {
        Value::Nil => None,
        Value::Bool(truth) => Some(vec![b'0' + u8::from(*truth)]),
        Value::Array(_) | Value::Struct(_) => Some(json_of(value).to_string().into_bytes()),
        single => single.word().map(String::into_bytes),
    };
    let rows: Vec<Vec<_>> = set
        .rows
        .iter()
        .map(|row| row.iter().map(cell).collect())
        .collect();
    write_text_result(out, sequence, &columns, &rows, status, caps);
}

/// A set as one text.
fn as_json(set: &Set) -> Set {
    let row = |row: &Vec<Value>| {
        let names = set.names.iter().map(|name| (*name).to_owned());
        Json::Object(names.zip(row.iter().map(json_of)).collect())
    };
    let rows: Vec<Json> = set.rows.iter().map(row).collect();
    Set {
        names: vec!["json"],
        rows: vec![vec![Json::Array(rows).to_string().into()]],
    }
}

fn json_of(value: &Value) -> Json {
    match value {
        Value::Int(number) => (*number).into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Text(text) | Value::Time(text) => text.as_str().into(),
        Value::Double(number) => (*number).into(),
        Value::Nil => Json::Null,
        Value::Array(values) => values.iter().map(json_of).collect(),
        Value::Struct(members) => {
            let members = members.iter();
            let members = members.map(|(name, value)| (name.clone(), json_of(value)));
            Json::Object(members.collect::<Map<_, _>>())
        }
    }
}

/// Writes an OK.
pub fn put_ok(out: &mut Vec<u8>, sequence: &mut u8, caps: Capabilities) {
    let ok = OkPacket::new(Status::AUTOCOMMIT);
    packet::write_with(out, sequence, |out| ok.encode(out, caps));
}

/// Writes an error.
pub fn put_error(
    out: &mut Vec<u8>,
    sequence: &mut u8,
    number: u16,
    text: &str,
    caps: Capabilities,
) {
    let mut error = ErrPacket::new(number, text.as_bytes());
    match number {
        UNKNOWN | DENIED => error.sqlstate = *b"42000",
        FAILED => error.sqlstate = *b"22000",
        _ => {}
    }
    packet::write_with(out, sequence, |out| error.encode(out, caps));
}

/// The number and text of an answer that is an error.
pub fn failure(failure: &Failure) -> (u16, String) {
    match failure {
        Failure::Unknown(method) => (UNKNOWN, format!("PROCEDURE {method} does not exist")),
        Failure::Denied(why) => (DENIED, why.clone()),
        Failure::Signature(why) | Failure::Failed(why) => (FAILED, why.clone()),
    }
}
