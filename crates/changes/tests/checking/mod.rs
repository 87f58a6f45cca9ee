//! Reads any bytes as a binlog, as far as they are one, and makes lines and statements of what they say.

use std::collections::HashSet;

use changes::debezium::{Debezium, Types};
use changes::{Decoder, Event, LogFile, Part, Parts, Teller, Transactions, Wanted, sql};
use farm::Position;

/// What one transaction may take; a file of the corpus is shorter.
const BYTES_MAX: usize = 1 << 20;

/// Must not panic, and must come to an end. Gives how many lines were told.
pub fn check(input: &[u8]) -> usize {
    let Ok(mut log) = LogFile::open(input) else {
        return 0;
    };
    let nothing = Position::empty(log.engine());
    let mut decoder = Decoder::new(log.engine(), nothing.clone());
    let mut all = Transactions::new(nothing, HashSet::new(), BYTES_MAX);
    let mut teller = Teller::new("g", Wanted::default());
    let mut records = Teller::new("g", Wanted::default());
    records.tell_as(Types::Debezium(Debezium {
        schema: true,
        tombstones: true,
        ..Debezium::default()
    }));
    let mut lines = 0;
    while let Ok(Some(raw)) = log.read_event() {
        let Ok(told) = decoder.take(raw) else {
            return lines;
        };
        for event in told.into_iter().chain(decoder.due()) {
            lines += tell(&decoder, &mut all, [&mut teller, &mut records], event);
        }
    }
    lines
}

fn tell(
    decoder: &Decoder,
    all: &mut Transactions,
    [teller, records]: [&mut Teller; 2],
    event: Event,
) -> usize {
    let position = decoder.position().clone();
    let ended = all.take(event, &position, decoder.place(), decoder.logged());
    let Ok(Some(ended)) = ended else {
        return 0;
    };
    let Parts::Kept(parts) = &ended.parts else {
        return 0;
    };
    teller.begin(&ended.gtid, ended.logged, ended.xid.as_ref(), None);
    records.begin(&ended.gtid, ended.logged, ended.xid.as_ref(), None);
    let (mut lines, mut other) = (Vec::new(), Vec::new());
    for part in parts.iter() {
        // Not everything can be told in this form.
        let _ = records.part(part, &mut other);
        if teller.part(part, &mut lines).is_err() {
            return lines.len();
        }
        if let Part::Rows(rows) = part {
            for change in rows.changes().map_while(Result::ok) {
                // Whether it can be said is not the question.
                let _ = sql::statement(rows, &change);
            }
        }
    }
    lines.extend(teller.end());
    other.extend(records.end());
    for line in lines.iter().chain(&other) {
        let line = format!("{{{}}}", line.line);
        assert!(
            serde_json::from_str::<serde_json::Value>(&line).is_ok(),
            "{line}"
        );
    }
    lines.len()
}
