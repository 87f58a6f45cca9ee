//! Valid exchanges in any order, for the test `exchange` and the fuzz target `wire_exchange`.
//!
//! The input chooses what both sides have agreed on and what the server says; the same replies are
//! written down twice, once as the server sends them and once as this client must read them. What a
//! [`Relay`] makes of the first, received in any pieces, has to be the second.

use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::query::Query;
use mysql_wire::relay::{Expect, Relay};
use mysql_wire::reply::{EofPacket, ErrPacket, OkPacket, SessionChange, Shown, Tracking};
use mysql_wire::scalar::put_lenenc_int;
use mysql_wire::statement::{BulkExecute, Execute, PrepareOk};
use mysql_wire::status::Status;

/// Where the bytes of the input go.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    /// The next byte; 0 behind the end.
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        *first
    }

    fn yes(&mut self) -> bool {
        self.byte() & 1 == 1
    }

    fn below(&mut self, end: u8) -> u8 {
        self.byte() % end
    }

    /// Some bytes, mostly few.
    fn blob(&mut self) -> Vec<u8> {
        let bytes = match self.byte() {
            255 => 70_000,
            254 => 5000,
            253 => 300,
            small => usize::from(small) % 20,
        };
        vec![self.byte(); bytes]
    }
}

/// The same packets on both sides.
struct Sides {
    client_caps: Capabilities,
    server_caps: Capabilities,
    server: Vec<u8>,
    client: Vec<u8>,
    server_sequence: u8,
    client_sequence: u8,
    /// What the client reads in EOF packets that the server does not send.
    status: Status,
    /// Where flags stand in the client's stream that are only known as far as they are near: those
    /// in front of rows.
    guessed: Vec<usize>,
    /// Files that were asked for, each as the client sends it and as the server must get it.
    files: Vec<(Vec<u8>, Vec<u8>)>,
    /// How long the server's stream is where each file goes.
    stops: Vec<usize>,
    rows: u64,
}

impl Sides {
    fn server(&mut self, payload: &[u8]) {
        packet::write(&mut self.server, &mut self.server_sequence, payload);
    }

    fn client(&mut self, payload: &[u8]) {
        packet::write(&mut self.client, &mut self.client_sequence, payload);
    }

    fn both(&mut self, payload: &[u8]) {
        self.server(payload);
        self.client(payload);
    }

    fn client_has(&self, flag: Capabilities) -> bool {
        self.client_caps.contains(flag)
    }

    /// The client's EOF behind columns.
    fn end_of_columns(&mut self) {
        if !self.client_has(Capabilities::DEPRECATE_EOF) {
            let mut payload = Vec::new();
            let (warnings, status) = (0, self.status);
            EofPacket { warnings, status }.encode(&mut payload);
            self.client(&payload);
            self.guessed.push(self.client.len() - 2);
        }
    }

    /// An OK with session changes, some of which the client is to see.
    fn ok(&mut self, header: u8, more: bool, choices: &mut Choices<'_>) {
        let value = [choices.byte()];
        let changes = [
            SessionChange::Variable {
                name: b"autocommit",
                value: &value,
            },
            SessionChange::Variable {
                name: b"sql_mode",
                value: &value,
            },
            SessionChange::Schema(&value),
            SessionChange::TransactionState(b"T_______"),
            SessionChange::StateChanged(true),
        ];
        let chosen = choices.byte();
        let (mut told, mut seen) = (Vec::new(), Vec::new());
        for (at, change) in changes.iter().enumerate() {
            if chosen & 1 << at != 0 {
                change.encode(&mut told);
                if shown().shows(change) {
                    change.encode(&mut seen);
                }
            }
        }
        if !self.client_has(Capabilities::SESSION_TRACK) {
            seen.clear();
        }
        let mut status = Status::AUTOCOMMIT;
        status.set(Status::MORE_RESULTS, more);
        status.set(Status::IN_TRANS, choices.yes());
        let info = if choices.yes() {
            &b"Rows matched: 1"[..]
        } else {
            b""
        };
        let mut ok = OkPacket::new(status);
        (ok.header, ok.info, ok.affected_rows) = (header, info, u64::from(value[0]) << 40);
        self.status = status - Status::MORE_RESULTS;
        let mut payload = Vec::new();
        (ok.session_state, ok.status) = (&told, status);
        ok.status
            .set(Status::SESSION_STATE_CHANGED, !told.is_empty());
        ok.encode(&mut payload, self.server_caps);
        self.server(&payload);
        payload.clear();
        if header == 0xFE && !self.client_has(Capabilities::DEPRECATE_EOF) {
            EofPacket {
                warnings: 0,
                status,
            }
            .encode(&mut payload);
        } else {
            (ok.session_state, ok.status) = (&seen, status);
            ok.status
                .set(Status::SESSION_STATE_CHANGED, !seen.is_empty());
            ok.encode(&mut payload, self.client_caps);
        }
        self.client(&payload);
    }

    fn error(&mut self, number: u16) {
        let mut payload = Vec::new();
        ErrPacket::new(number, b"no").encode(&mut payload, self.server_caps);
        self.both(&payload);
    }

    /// A column definition or a row: what is in it does not matter, except for the first byte.
    fn opaque(&mut self, first: u8, choices: &mut Choices<'_>) {
        let mut payload = vec![first];
        payload.extend(choices.blob());
        self.both(&payload);
    }

    fn file(&mut self, choices: &mut Choices<'_>) {
        self.both(b"\xFBname");
        self.stops.push(self.server.len());
        let (mut sent, mut got) = (Vec::new(), Vec::new());
        for _ in 0..choices.below(4) {
            let mut payload = choices.blob();
            payload.push(b'\n');
            packet::write(&mut sent, &mut self.client_sequence, &payload);
            packet::write(&mut got, &mut self.server_sequence, &payload);
        }
        packet::write(&mut sent, &mut self.client_sequence, b"");
        packet::write(&mut got, &mut self.server_sequence, b"");
        self.files.push((sent, got));
    }

    fn result(&mut self, more: bool, choices: &mut Choices<'_>) {
        let count = 1 + choices.below(3);
        let tells =
            Capabilities::OPTIONAL_RESULTSET_METADATA | Capabilities::MARIADB_CACHE_METADATA;
        let optional = self.server_caps.intersects(tells);
        let described = !optional || choices.yes();
        let mut payload = Vec::new();
        put_lenenc_int(&mut payload, count.into());
        if optional {
            payload.push(u8::from(described));
        }
        self.server(&payload);
        if self.client_caps.intersects(tells) && !optional {
            payload.push(1);
        }
        self.client(&payload);
        for _ in 0..if described { count } else { 0 } {
            self.opaque(3, choices);
        }
        self.end_of_columns();
        for _ in 0..choices.below(5) {
            self.rows += 1;
            let first = choices.below(0xFC);
            self.opaque(first, choices);
        }
        match choices.below(8) {
            0 => self.error(1317),
            _ => self.ok(0xFE, more, choices),
        }
    }
}

fn shown() -> Shown {
    let variables = b"sql_mode".as_slice().into();
    let schema = false;
    Shown::of(Tracking {
        variables,
        schema,
        gtids: false,
    })
}

/// Builds an exchange from the input, relays it, and compares.
pub fn check(input: &[u8]) {
    let choices = &mut Choices(input);
    bulk(choices);
    attributes(choices);
    let mut client_caps = Capabilities::PROTOCOL_41;
    let mut server_caps = client_caps | Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK;
    client_caps.set(Capabilities::DEPRECATE_EOF, choices.yes());
    client_caps.set(Capabilities::SESSION_TRACK, choices.yes());
    client_caps.set(Capabilities::MARIADB_CACHE_METADATA, choices.yes());
    for shared in [
        Capabilities::MARIADB_PROGRESS,
        Capabilities::OPTIONAL_RESULTSET_METADATA,
    ] {
        let agreed = choices.yes();
        client_caps.set(shared, agreed);
        server_caps.set(shared, agreed);
    }
    let mut sides = Sides {
        client_caps,
        server_caps,
        server: Vec::new(),
        client: Vec::new(),
        server_sequence: 1,
        client_sequence: 1,
        status: Status::AUTOCOMMIT,
        guessed: Vec::new(),
        files: Vec::new(),
        stops: Vec::new(),
        rows: 0,
    };
    let expect = if choices.below(5) == 0 {
        prepared(&mut sides, choices)
    } else {
        results(&mut sides, choices);
        Expect::Results
    };
    run(&sides, expect, choices);
}

fn results(sides: &mut Sides, choices: &mut Choices<'_>) {
    loop {
        let more = choices.below(3) != 0 && !choices.0.is_empty();
        if sides.client_has(Capabilities::MARIADB_PROGRESS) && choices.yes() {
            sides.both(b"\xFF\xFF\xFF\x01\x01\x02\0\0\0\x05stage");
        }
        let before = sides.client.len();
        match choices.below(4) {
            0 => sides.ok(0, more, choices),
            1 => {
                sides.file(choices);
                sides.ok(0, more, choices);
            }
            2 => {
                sides.error(1064);
                return;
            }
            _ => sides.result(more, choices),
        }
        let failed = sides.client[before..].ends_with(b"#70100no");
        if !more || failed {
            return;
        }
    }
}

fn prepared(sides: &mut Sides, choices: &mut Choices<'_>) -> Expect {
    let optional = sides.client_has(Capabilities::OPTIONAL_RESULTSET_METADATA);
    let described = !optional || choices.yes();
    let (params, columns) = (u16::from(choices.below(3)), u16::from(choices.below(3)));
    for (id, is_server) in [(77, true), (5, false)] {
        let mut payload = Vec::new();
        let ok = PrepareOk {
            statement_id: id,
            columns,
            params,
            warnings: 0,
            cuts_digits: false,
        };
        ok.encode(&mut payload);
        if optional {
            payload.push(u8::from(described));
        }
        match is_server {
            true => sides.server(&payload),
            false => sides.client(&payload),
        }
    }
    for count in [params, columns] {
        for _ in 0..if described { count } else { 0 } {
            sides.opaque(3, choices);
        }
        if count > 0 {
            sides.end_of_columns();
        }
    }
    Expect::Prepare { client_id: 5 }
}

/// Relays the server's side in pieces, with the files in their places.
fn run(sides: &Sides, expect: Expect, choices: &mut Choices<'_>) {
    let mut relay = Relay::new(
        expect,
        sides.client_caps,
        sides.server_caps,
        Status::AUTOCOMMIT,
    )
    .showing(shown())
    .of_several(choices.yes());
    let (mut out, mut buffer, mut at) = (Vec::new(), Vec::with_capacity(64), 0);
    let mut files = sides.files.iter();
    let mut stops = sides.stops.iter().copied().chain([sides.server.len()]);
    let mut stop = stops.next().unwrap_or(0);
    let piece = 1 + usize::from(choices.byte());
    loop {
        let progress = relay
            .advance(&mut buffer, 0, &mut |_| {})
            .expect("a valid reply");
        out.extend(buffer.drain(..progress.forward));
        if progress.wants_file {
            let (sent, got) = files.next().expect("a file that was asked for");
            let mut walk = relay.file();
            let (mut passed, mut waiting) = (Vec::new(), Vec::new());
            for part in sent.chunks(piece) {
                waiting.extend_from_slice(part);
                let step = walk.advance(&mut waiting).expect("in order");
                passed.extend(waiting.drain(..step.forward));
            }
            assert!(passed == *got && waiting.is_empty());
            relay.file_sent(&walk);
            stop = stops.next().expect("more behind a file");
        }
        if progress.done {
            break;
        }
        assert!(at < stop, "a whole reply is an end");
        let end = (at + piece).min(stop);
        buffer.extend_from_slice(&sides.server[at..end]);
        at = end;
    }
    assert!(buffer.is_empty() && at == sides.server.len());
    assert_eq!(relay.outcome().rows, sides.rows);
    assert_eq!(relay.next_sequence(), Some(sides.client_sequence));
    let mut expected = sides.client.clone();
    for &at in &sides.guessed {
        for stream in [&mut out, &mut expected] {
            stream
                .iter_mut()
                .skip(at)
                .take(2)
                .for_each(|flags| *flags = 0);
        }
    }
    assert!(out == expected, "{out:?}\n{expected:?}");
}

/// A bulk execution of any bytes: what is understood is written down again as it was.
fn bulk(choices: &mut Choices<'_>) {
    let params = u16::from(choices.below(4));
    let Ok(bulk) = BulkExecute::decode(choices.0, params) else {
        return;
    };
    let mut out = Vec::new();
    bulk.encode(&mut out);
    if params > 0 || bulk.flags & mysql_wire::statement::BULK_TYPES == 0 {
        assert_eq!(out, choices.0);
    }
}

/// Texts and executions with attributes of any bytes: what is understood can be written down, with
/// its attributes and without.
fn attributes(choices: &mut Choices<'_>) {
    if let Ok(query) = Query::decode(choices.0) {
        let mut out = Vec::new();
        query.encode(&mut out);
        // A number may be longer than it has to be; it is kept as it was.
        assert_eq!(out, choices.0);
    }
    let params = u16::from(choices.below(4));
    let long_data = choices.yes();
    let Ok(execute) = Execute::decode(choices.0, params, true) else {
        return;
    };
    let mut plain = Vec::new();
    if execute
        .encode_plain(params, b"", long_data, &mut plain)
        .is_ok()
    {
        let read = Execute::decode(&plain, params, false).expect("written by us");
        assert_eq!(
            (read.params, read.statement_id),
            (params, execute.statement_id)
        );
        assert!(execute.values.starts_with(read.values));
    }
}
