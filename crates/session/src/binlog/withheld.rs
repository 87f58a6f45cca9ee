//! What of a group's binlog may go on to its reader, and what has to wait.
//!
//! A server sends a transaction as soon as it is written, while its client still waits for a replica; a
//! failover may take it back. So the bytes of a transaction stay here until the server shows it, and go on in
//! the order in which they came.
//!
//! Invariants: nothing goes on that stands behind a transaction which waits; a connection that ends in front
//! of a transaction ends between two packets.
//!
//! Must not know: sockets, sessions, who is asked what the server shows.

use std::collections::VecDeque;
use std::rc::Rc;

use changes::{Gtid, Shown, code, file_of};
use farm::{Engine, Position};
use mysql_wire::binlog::{EVENT_HEADER_BYTES, Events};
use mysql_wire::packet::Header;

/// A transaction that waits.
#[derive(Debug)]
struct Waiting {
    /// Where in the bytes its first packet begins.
    at: usize,
    gtid: Gtid,
    /// Where in the server's log it begins.
    file: Rc<str>,
    begins: u64,
}

/// The packets of a stream that have not gone on.
#[derive(Debug)]
pub(super) struct Withheld {
    engine: Engine,
    bytes: Vec<u8>,
    events: Events,
    /// So many bytes at the front are events, or parts of one.
    walked: usize,
    waiting: VecDeque<Waiting>,
    /// The file that events come from.
    file: Rc<str>,
    /// The stream's last packet is what follows the events.
    ended: bool,
    /// Transactions wait; else everything goes on.
    withholds: bool,
}

impl Withheld {
    /// For a stream from its beginning. What comes goes on at once unless the stream `withholds`.
    pub fn new(engine: Engine, withholds: bool) -> Withheld {
        Withheld {
            engine,
            bytes: Vec::new(),
            events: Events::new(),
            walked: 0,
            waiting: VecDeque::new(),
            file: Rc::from(""),
            ended: false,
            withholds,
        }
    }

    /// Takes over what was received.
    pub fn take(&mut self, received: &[u8]) {
        self.bytes.extend_from_slice(received);
        let begins = self.walked;
        let mut found = Vec::new();
        let note = &mut |at: usize, head: &[u8]| found.extend(note_of(begins + at, head));
        let walked = self.events.walk(&self.bytes[begins..], note);
        self.walked += walked.events;
        self.ended = walked.last > 0;
        for (at, event) in found {
            self.note(at, event);
        }
    }

    fn note(&mut self, at: usize, event: Head) {
        if event.kind == code::ROTATE {
            self.file = file_of(&event.data).into();
            return;
        }
        let gtid = match self.engine {
            Engine::MariaDb if event.kind == code::MARIADB_GTID => {
                Gtid::of_mariadb(event.server_id, &event.data)
            }
            Engine::MariaDb => None,
            Engine::MySql => Gtid::of_mysql(event.kind, &event.data),
        };
        if let Some(gtid) = gtid.filter(|_| self.withholds) {
            self.waiting.push_back(Waiting {
                at,
                gtid,
                file: Rc::clone(&self.file),
                begins: u64::from(event.end.wrapping_sub(event.bytes)),
            });
        }
    }

    /// How much waits, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The stream's last packet is here.
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// True while a transaction waits.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The transactions at the front that the server shows, as one position; `None` without any.
    pub fn shown(&self, shown: &Shown) -> Option<(usize, Position)> {
        let has = |one: &&Waiting| shown.has_from(&one.gtid, (&one.file, one.begins));
        let all = self.waiting.iter().take_while(has);
        let mut position = Position::empty(self.engine);
        let count = all.map(|one| one.gtid.add_to(&mut position)).count();
        (count > 0).then_some((count, position))
    }

    /// So many transactions at the front wait no longer.
    pub fn release(&mut self, count: usize) {
        self.waiting.drain(..count);
    }

    /// How many bytes at the front may go on.
    fn free(&self) -> usize {
        self.waiting.front().map_or(self.walked, |first| first.at)
    }

    /// Takes what may go on; `None` when nothing may.
    pub fn pass(&mut self) -> Option<Vec<u8>> {
        let free = self.free();
        if free == 0 {
            return None;
        }
        let rest = self.bytes.split_off(free);
        self.walked -= free;
        for one in &mut self.waiting {
            one.at -= free;
        }
        Some(std::mem::replace(&mut self.bytes, rest))
    }

    /// The stream's last packet, once nothing stands in front of it.
    pub fn last(&mut self) -> Option<Vec<u8>> {
        (self.ended && self.walked == 0).then(|| std::mem::take(&mut self.bytes))
    }

    /// The number of the packet that follows what has gone on; `None` in the middle of an event.
    pub fn next_sequence(&self) -> Option<u8> {
        match self.waits() {
            true => Header::parse(&self.bytes).map(|header| header.sequence),
            false => self.events.next_sequence(),
        }
    }
}

/// An event's header, and the beginning of what it says.
struct Head {
    kind: u8,
    server_id: u32,
    bytes: u32,
    end: u32,
    data: Vec<u8>,
}

/// What of an event counts here; `None` of most.
fn note_of(at: usize, head: &[u8]) -> Option<(usize, Head)> {
    // The byte in front says that it is an event.
    let (header, data) = head.get(1..)?.split_at_checked(EVENT_HEADER_BYTES)?;
    let number = |at: usize| Some(u32::from_le_bytes(*header.get(at..)?.first_chunk()?));
    let kind = header[4];
    let counts = [
        code::ROTATE,
        code::GTID,
        code::GTID_TAGGED,
        code::MARIADB_GTID,
    ];
    let head = Head {
        kind,
        server_id: number(5)?,
        bytes: number(9)?,
        end: number(13)?,
        data: data.to_vec(),
    };
    counts.contains(&kind).then_some((at, head))
}

#[cfg(test)]
mod tests {
    use mysql_wire::packet;

    use super::*;

    /// An event of server 7 that ends here, behind the byte of a packet.
    fn event(kind: u8, end: u32, data: &[u8]) -> Vec<u8> {
        let bytes = (EVENT_HEADER_BYTES + data.len()) as u32;
        let mut event = vec![0, 0, 0, 0, 0, kind];
        event.extend(7u32.to_le_bytes());
        event.extend(bytes.to_le_bytes());
        event.extend(end.to_le_bytes());
        event.extend([0, 0]);
        event.extend(data);
        event
    }

    fn rotate(file: &str) -> Vec<u8> {
        event(code::ROTATE, 0, &[&4u64.to_le_bytes()[..], file.as_bytes()].concat())
    }

    /// Begins the transaction 0-7-NUMBER at this place.
    fn begin(number: u64, begins: u32) -> Vec<u8> {
        let mut data = number.to_le_bytes().to_vec();
        data.extend([0; 11]);
        let bytes = (EVENT_HEADER_BYTES + data.len()) as u32;
        event(code::MARIADB_GTID, begins + bytes, &data)
    }

    fn packets(events: &[Vec<u8>]) -> Vec<u8> {
        let (mut out, mut sequence) = (Vec::new(), 1);
        for event in events {
            packet::write(&mut out, &mut sequence, event);
        }
        out
    }

    fn until(file: &str, bytes: u64) -> Shown {
        Shown::Until(file.to_owned(), bytes)
    }

    #[test]
    fn a_transaction_goes_on_when_it_is_shown_and_what_follows_with_it() {
        let events = [
            rotate("b.000001"),
            begin(1, 100),
            event(code::XID, 200, &[0; 8]),
            rotate("b.000002"),
            begin(2, 4),
            event(code::XID, 300, &[0; 8]),
        ];
        let all = packets(&events);
        let lengths: Vec<usize> = (0..=6).map(|count| packets(&events[..count]).len()).collect();
        let mut withheld = Withheld::new(Engine::MariaDb, true);
        for piece in all.chunks(5) {
            withheld.take(piece);
        }
        let passed = withheld.pass().expect("what no transaction is");
        assert_eq!(passed, all[..lengths[1]]);
        assert_eq!((withheld.pass(), withheld.next_sequence()), (None, Some(2)));
        assert_eq!(withheld.shown(&until("b.000001", 100)), None);
        let (count, position) = withheld.shown(&until("b.000001", 200)).expect("the first");
        assert_eq!((count, position.to_string()), (1, "0-7-1".to_owned()));
        withheld.release(count);
        assert_eq!(withheld.pass().expect("the first"), all[lengths[1]..lengths[4]]);
        assert_eq!(withheld.next_sequence(), Some(5));
        assert_eq!(withheld.shown(&until("b.000002", 4)), None);
        let (count, _) = withheld.shown(&until("b.000002", 300)).expect("the second");
        withheld.release(count);
        assert_eq!(withheld.pass().expect("the second"), all[lengths[4]..]);
        assert!(!withheld.waits() && withheld.bytes() == 0);
        assert_eq!(withheld.next_sequence(), Some(7));
    }

    #[test]
    fn a_long_transaction_that_is_shown_goes_on_in_pieces() {
        let events = [begin(1, 4), event(30, 0, &[1; 100_000])];
        let all = packets(&events);
        let mut withheld = Withheld::new(Engine::MariaDb, true);
        withheld.take(&all[..50_000]);
        assert_eq!(withheld.pass(), None);
        let (count, _) = withheld.shown(&until("b.000001", 5)).expect("it is");
        withheld.release(count);
        assert_eq!(withheld.pass().expect("a part"), all[..50_000]);
        assert_eq!(withheld.next_sequence(), None);
        withheld.take(&all[50_000..]);
        assert_eq!(withheld.pass().expect("the rest"), all[50_000..]);
    }

    #[test]
    fn the_last_packet_waits_for_those_in_front_of_it() {
        let end = [0xFE, 0, 0, 2, 0];
        let all = packets(&[begin(1, 4), event(code::XID, 99, &[0; 8]), end.to_vec()]);
        let mut withheld = Withheld::new(Engine::MariaDb, true);
        withheld.take(&all);
        assert_eq!((withheld.pass(), withheld.last()), (None, None));
        withheld.release(1);
        assert!(withheld.pass().is_some());
        assert_eq!(withheld.last().expect("the end")[4..], end);
        let mut open = Withheld::new(Engine::MariaDb, false);
        open.take(&all);
        assert!(open.pass().is_some() && open.last().is_some());
    }
}
