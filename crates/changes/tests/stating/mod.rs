//! Reads any bytes as the events of one transaction with a statement: values beside it, pieces of a file, the statement
//! itself; and tells them in both forms.

use changes::debezium::{Debezium, Types};
use changes::{Decoder, Event, Gtid, Part, RawEvent, Teller, Wanted};
use farm::{Engine, Position};

/// A GTID of MariaDB that begins a transaction with an end of its own.
const GTID: [u8; 13] = [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const MARIADB_GTID: u8 = 162;

/// Must not panic, and must come to an end. Each event is a byte of its kind, one of its length, and that many bytes.
/// Gives how many lines were told.
pub fn check(input: &[u8]) -> usize {
    let mut decoder = Decoder::new(Engine::MariaDb, Position::empty(Engine::MariaDb));
    let raw = |kind, data| RawEvent {
        kind,
        server_id: 1,
        time_s: 7,
        end: 0,
        flags: 0,
        data,
    };
    let begun = decoder.take(raw(MARIADB_GTID, &GTID));
    assert!(matches!(begun, Ok(Some(Event::Begin(_)))), "{begun:?}");
    let mut parts = Vec::new();
    let mut rest = input;
    while let [kind, length, behind @ ..] = rest {
        let (data, more) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = more;
        match decoder.take(raw(*kind, data)) {
            Ok(Some(Event::Statement(statement))) => parts.push(Part::Statement(statement)),
            Ok(Some(Event::Block(block))) => parts.push(Part::Block(block)),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let debezium = Types::Debezium(Debezium {
        schema: true,
        ..Debezium::default()
    });
    tell(&parts, Types::Heddle) + tell(&parts, debezium)
}

fn tell(parts: &[Part], types: Types) -> usize {
    let mut teller = Teller::new("g", Wanted::default());
    teller.tell_as(types);
    let gtid = Gtid::parse(Engine::MariaDb, "0-1-7").expect("a GTID");
    teller.begin(&gtid, 7, None, None);
    let mut lines = Vec::new();
    for part in parts {
        let told = teller.part(part, &mut lines);
        assert!(told.is_ok(), "{told:?}");
    }
    lines.extend(teller.end());
    for line in &lines {
        let line = format!("{{{}}}", line.line);
        let parsed = serde_json::from_str::<serde_json::Value>(&line);
        assert!(parsed.is_ok(), "{line}");
    }
    lines.len()
}
