//! A line of a change stream as a message: its id, its token, and by what a target spreads it.
//!
//! The token of an event says how far all groups of the stream were, which depends on how the groups' transactions
//! met. So it differs when the event is told again. The id does not: it is made of the group, the transaction and the
//! number of the change, or of the contents where there is no transaction.

use std::collections::BTreeMap;

use changes::Within;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Bytes of a digest that make an id.
const DIGEST_BYTES: usize = 16;

/// One event for a target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The event as a JSON object without an end of line; `id` is its first member.
    pub line: Vec<u8>,
    /// The same whenever the event is told again.
    pub id: String,
    /// A stream that goes on by this begins behind the event.
    pub token: String,
    pub event: String,
    pub group: String,
    /// Database and table, where the event is about one.
    pub table: Option<(String, String)>,
    /// The primary key as JSON, of a row that has one.
    pub key: Option<String>,
    /// What a broker of records gets, where the stream has another form than its own.
    pub record: Option<Record>,
}

/// An event as a record with a key and a value of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Where Debezium would send it.
    pub topic: String,
    pub key: Option<String>,
    /// `None` says that nothing is left of the key.
    pub value: Option<String>,
    pub headers: Vec<(String, String)>,
}

/// What a line says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    Message(Box<Message>),
    /// Nothing to deliver; the stream is here now.
    Position(String),
    /// The stream ends: the event's name (`gap`, `undone`, `error`), and why.
    End(String, String),
}

#[derive(Deserialize)]
struct Line {
    token: Option<String>,
    event: String,
    group: Option<String>,
    gtid: Option<String>,
    database: Option<String>,
    table: Option<String>,
    key: Option<Value>,
    error: Option<String>,
    /// The place among the records of one change, but for the last.
    part: Option<u32>,
    topic: Option<String>,
    value: Option<Value>,
    headers: Option<BTreeMap<String, Value>>,
}

/// Reads a line of a change stream, without its end.
///
/// # Errors
/// It is none; the text says why.
pub fn read(line: &[u8]) -> Result<Read, String> {
    let parsed: Line = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    let error = parsed.error.clone().unwrap_or_default();
    let Some(token) = parsed.token.clone() else {
        return Ok(Read::End(parsed.event, error));
    };
    match &*parsed.event {
        "gap" | "undone" | "error" => return Ok(Read::End(parsed.event, error)),
        "heartbeat" | "group" | "gone" => return Ok(Read::Position(token)),
        _ => {}
    }
    let group = parsed.group.clone().unwrap_or_default();
    let within = Within::of(&token, &group).unwrap_or_default();
    let id = match &parsed.gtid {
        Some(gtid) if parsed.event == "commit" => format!("{group}:{gtid}:commit"),
        Some(gtid) => {
            let part = parsed.part.map_or(String::new(), |part| format!(":{part}"));
            format!("{group}:{gtid}:{}:{}{part}", within.changes, parsed.event)
        }
        None => format!("{group}:{}", digest_of_read(&parsed, line, &within.unread)),
    };
    let record = parsed.topic.as_ref().map(|_| record(&parsed, line));
    let mut with_id = format!("{{\"id\":{},", Value::from(&*id)).into_bytes();
    with_id.extend_from_slice(line.strip_prefix(b"{").unwrap_or(line));
    let message = Message {
        line: with_id,
        id,
        token,
        event: parsed.event,
        group,
        table: parsed.database.zip(parsed.table),
        key: parsed
            .key
            .filter(|it| !it.is_null())
            .map(|it| it.to_string()),
        record,
    };
    Ok(Read::Message(Box::new(message)))
}

/// The key and the value as they stand in the line, so that no number in them is written otherwise.
fn record(parsed: &Line, line: &[u8]) -> Record {
    let text = String::from_utf8_lossy(line);
    // What stands in texts has a backslash in front of its quotes.
    let mut rest = text.split_once(",\"topic\":").map_or("", |it| it.1);
    // The value at the front, and what its name has to be.
    let mut next = |name: &str| {
        rest = rest.strip_prefix(name)?;
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        values.next()?.ok()?;
        let (value, behind) = rest.split_at(values.byte_offset());
        rest = behind;
        Some(value.to_owned())
    };
    next("");
    let (key, value) = (next(",\"key\":"), next(",\"value\":"));
    let headers = parsed.headers.iter().flatten();
    Record {
        topic: parsed.topic.clone().unwrap_or_default(),
        key: key.filter(|_| parsed.key.is_some()),
        value: value.filter(|_| parsed.value.is_some()),
        headers: headers
            .map(|(name, value)| (name.clone(), value.to_string()))
            .collect(),
    }
}

/// Of what a snapshot told: the contents and the place in the snapshot, without the token and the time.
fn digest_of_read(parsed: &Line, line: &[u8], unread: &str) -> String {
    if let Some(value) = &parsed.value {
        let value = value.get("payload").unwrap_or(value);
        let mut digest = Sha256::new();
        let table = parsed.database.iter().chain(&parsed.table);
        table.for_each(|name| digest.update(format!("{name}.")));
        digest.update(format!(
            "{} {} {}",
            parsed.event, value["after"], value["ddl"]
        ));
        digest.update(unread);
        return hex::encode(&digest.finalize()[..DIGEST_BYTES]);
    }
    let text = String::from_utf8_lossy(line);
    let body = text.split_once("\",\"event\"").map_or(&*text, |it| it.1);
    let mut digest = Sha256::new();
    match body.split_once(",\"time\":") {
        Some((head, rest)) => {
            digest.update(head);
            digest.update(rest.trim_start_matches(|it: char| it.is_ascii_digit()));
        }
        None => digest.update(body),
    }
    digest.update(unread);
    hex::encode(&digest.finalize()[..DIGEST_BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens as streams have them: the alphabet of URLs, without padding.
    mod tokens {
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

        pub fn of(count: u32, other: &str) -> String {
            let inner = format!("1;f;g@1=0-1-7//0-1-8/{count};h@1={other}///0;.");
            let mut text = String::new();
            for three in inner.as_bytes().chunks(3) {
                let bits = three
                    .iter()
                    .fold(0_u32, |all, &byte| all << 8 | u32::from(byte));
                let bits = bits << (8 * (3 - three.len()));
                for at in 0..=three.len() {
                    let six = bits >> (18 - 6 * at) & 63;
                    text.push(char::from(LETTERS[usize::try_from(six).expect("six bits")]));
                }
            }
            text
        }
    }

    fn message(line: &str) -> Message {
        match read(line.as_bytes()) {
            Ok(Read::Message(message)) => *message,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_event_that_is_told_again_has_its_id_again() {
        let row = |token: &str| {
            format!(
                r#"{{"token":"{token}","event":"row","group":"g","gtid":"0-1-8","time":1,"database":"d","table":"t","kind":"insert","key":{{"a":1}},"before":null,"after":{{"a":1}}}}"#
            )
        };
        let (one, two) = (tokens::of(3, "0-1-1"), tokens::of(3, "0-1-9"));
        assert_ne!(one, two, "the other group was elsewhere");
        let (one, two) = (message(&row(&one)), message(&row(&two)));
        assert_eq!(one.id, "g:0-1-8:3:row");
        assert_eq!(one.id, two.id);
        assert_eq!(one.table, Some(("d".to_owned(), "t".to_owned())));
        assert_eq!(one.key.as_deref(), Some(r#"{"a":1}"#));
        let line: Value = serde_json::from_slice(&one.line).expect("JSON");
        assert_eq!(line["id"], "g:0-1-8:3:row");
        assert_eq!(line["after"]["a"], 1);
    }

    #[test]
    fn what_a_snapshot_told_is_known_by_its_contents() {
        let row = |token: u32, time: u32, value: u32| {
            let token = tokens::of(token, "0-1-1");
            let line = format!(
                r#"{{"token":"{token}","event":"row","group":"g","snapshot":true,"time":{time},"database":"d","table":"t","kind":"read","key":null,"before":null,"after":{{"a":{value}}}}}"#
            );
            message(&line).id
        };
        assert_eq!(row(1, 5, 7), row(2, 66, 7));
        assert_ne!(row(1, 5, 7), row(1, 5, 8));
    }

    #[test]
    fn records_are_what_stands_in_the_line() {
        let line = |part: &str, value: &str| {
            let token = tokens::of(3, "0-1-1");
            format!(
                r#"{{"token":"{token}","event":"row","group":"g","gtid":"0-1-8","time":1,"database":"d","table":"t"{part},"topic":"h.d.t,\"key\":","key":{{"a":1.10,"value":0}},"value":{value},"headers":{{"__debezium.newkey":{{"a":2}}}}}}"#
            )
        };
        let first = message(&line(r#","part":1"#, r#"{"op":"d", "n":1.50}"#));
        assert_eq!(first.id, "g:0-1-8:3:row:1");
        let record = first.record.clone().expect("it has one");
        assert_eq!(record.key.as_deref(), Some(r#"{"a":1.10,"value":0}"#));
        assert_eq!(record.value.as_deref(), Some(r#"{"op":"d", "n":1.50}"#));
        let header = ("__debezium.newkey".to_owned(), r#"{"a":2}"#.to_owned());
        assert_eq!(record.headers, [header]);
        assert_eq!(record.topic, "h.d.t,\"key\":");
        // A line that was kept is read once more.
        let again = message(&String::from_utf8(first.line).expect("a text"));
        assert_eq!((again.id, again.record), (first.id, Some(record)));
        let tombstone = message(&line("", "null")).record.expect("it has one");
        assert_eq!(tombstone.value, None);
        assert!(tombstone.key.is_some());
    }

    #[test]
    fn some_lines_only_say_where_the_stream_is_or_that_it_ends() {
        let read = |line: &str| read(line.as_bytes());
        assert_eq!(
            read(r#"{"token":"x","event":"heartbeat"}"#),
            Ok(Read::Position("x".to_owned()))
        );
        assert_eq!(
            read(r#"{"token":null,"event":"gap","error":"gone"}"#),
            Ok(Read::End("gap".to_owned(), "gone".to_owned()))
        );
        assert!(read("{").is_err());
    }
}
