//! Replies as both engines send them, relayed to clients with and without DEPRECATE_EOF and session
//! tracking, cut into pieces of every size.

mod relaying;

use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::relay::Expect;
use mysql_wire::reply::{EofPacket, ErrPacket, OkPacket, SessionChange};
use mysql_wire::result::{Column, ColumnKind, encode_text_row};
use mysql_wire::statement::PrepareOk;
use mysql_wire::status::Status;
use relaying::{relay, server};

const OLD: Capabilities = Capabilities::PROTOCOL_41;

fn new() -> Capabilities {
    server()
}

/// Builds a reply packet by packet.
struct Reply {
    bytes: Vec<u8>,
    sequence: u8,
    caps: Capabilities,
}

impl Reply {
    fn new(caps: Capabilities) -> Reply {
        Reply {
            bytes: Vec::new(),
            sequence: 1,
            caps,
        }
    }

    fn raw(mut self, payload: &[u8]) -> Reply {
        packet::write(&mut self.bytes, &mut self.sequence, payload);
        self
    }

    fn columns(mut self, names: &[&str]) -> Reply {
        for name in names {
            let caps = self.caps;
            packet::write_with(&mut self.bytes, &mut self.sequence, |out| {
                Column::new(name, ColumnKind::VarString).encode(out, caps);
            });
        }
        self
    }

    fn row(mut self, values: &[Option<&[u8]>]) -> Reply {
        packet::write_with(&mut self.bytes, &mut self.sequence, |out| {
            encode_text_row(out, values);
        });
        self
    }

    fn eof(mut self, status: Status) -> Reply {
        packet::write_with(&mut self.bytes, &mut self.sequence, |out| {
            EofPacket {
                warnings: 0,
                status,
            }
            .encode(out);
        });
        self
    }

    fn ok(mut self, header: u8, status: Status, state: &[u8]) -> Reply {
        let caps = self.caps;
        let ok = OkPacket {
            header,
            session_state: state,
            ..OkPacket::new(status)
        };
        packet::write_with(&mut self.bytes, &mut self.sequence, |out| {
            ok.encode(out, caps)
        });
        self
    }

    fn err(mut self, number: u16) -> Reply {
        let caps = self.caps;
        packet::write_with(&mut self.bytes, &mut self.sequence, |out| {
            ErrPacket::new(number, b"no").encode(out, caps);
        });
        self
    }
}

/// Relays in every even cut and checks that all give the same.
fn relayed(from: &Reply, expect: Expect, client: Capabilities) -> relaying::Relayed {
    let whole = relay(&from.bytes, expect, client, &[from.bytes.len()]);
    for cut in 1..from.bytes.len().min(64) {
        assert_eq!(
            relay(&from.bytes, expect, client, &[cut]),
            whole,
            "pieces of {cut}"
        );
    }
    assert!(whole.done && !whole.failed && whole.left == 0, "{whole:?}");
    whole
}

const AUTO: Status = Status::AUTOCOMMIT;

#[test]
fn a_result_set_gains_its_eofs_for_an_old_client() {
    let rows = |reply: Reply| {
        reply
            .row(&[Some(b"a"), None])
            .row(&[Some(b"bb"), Some(b"")])
    };
    let from = rows(Reply::new(new()).raw(&[2]).columns(&["x", "y"])).ok(0xFE, AUTO, b"");
    let want = rows(Reply::new(OLD).raw(&[2]).columns(&["x", "y"]).eof(AUTO)).eof(AUTO);
    let got = relayed(&from, Expect::Results, OLD);
    assert_eq!(got.out, want.bytes);
    assert_eq!(got.rows, 2);
    assert_eq!(relayed(&from, Expect::Results, new()).out, from.bytes);
}

#[test]
fn several_results_keep_their_sequence() {
    let more = AUTO | Status::MORE_RESULTS;
    let from = Reply::new(new())
        .raw(&[1])
        .columns(&["x"])
        .row(&[Some(b"1")])
        .ok(0xFE, more, b"")
        .ok(0x00, more, b"")
        .raw(&[1])
        .columns(&["y"])
        .ok(0xFE, AUTO, b"");
    let want = Reply::new(OLD)
        .raw(&[1])
        .columns(&["x"])
        .eof(more)
        .row(&[Some(b"1")])
        .eof(more)
        .ok(0x00, more, b"")
        .raw(&[1])
        .columns(&["y"])
        .eof(AUTO)
        .eof(AUTO);
    assert_eq!(relayed(&from, Expect::Results, OLD).out, want.bytes);
}

#[test]
fn out_parameters_are_announced_before_they_come() {
    let more = AUTO | Status::MORE_RESULTS;
    let out = more | Status::PS_OUT_PARAMS;
    let row = |reply: Reply| reply.raw(&[1]).columns(&["x"]).row(&[Some(b"1")]);
    let from = row(Reply::new(new())).ok(0xFE, more, b"");
    let from = from.raw(&[1]).columns(&["y"]).ok(0xFE, more, b"");
    let from = row(from).ok(0xFE, out, b"").ok(0x00, AUTO, b"");
    let old = |reply: Reply, flags| {
        let reply = reply.raw(&[1]).columns(&["x"]).eof(flags);
        reply.row(&[Some(b"1")])
    };
    let want = old(Reply::new(OLD), more).eof(more);
    let want = want.raw(&[1]).columns(&["y"]).eof(more).eof(more);
    let want = old(want, out).eof(out).ok(0x00, AUTO, b"");
    assert_eq!(relayed(&from, Expect::Call, OLD).out, want.bytes);
    assert_eq!(relayed(&from, Expect::Call, new()).out, from.bytes);
    // A reply that ends in the place of rows waits for nothing.
    let from = Reply::new(new()).raw(&[1]).columns(&["x"]).err(1317);
    let want = Reply::new(OLD)
        .raw(&[1])
        .columns(&["x"])
        .eof(more)
        .err(1317);
    assert_eq!(relayed(&from, Expect::Call, OLD).out, want.bytes);
}

#[test]
fn session_changes_are_heard_and_taken_out() {
    let mut state = Vec::new();
    let own = SessionChange::Variable {
        name: b"last_gtid",
        value: b"0-1-2",
    };
    let schema = SessionChange::Schema(b"shop");
    own.encode(&mut state);
    schema.encode(&mut state);
    let status = AUTO | Status::SESSION_STATE_CHANGED;
    let from = Reply::new(new()).ok(0x00, status, &state);
    let got = relayed(&from, Expect::Results, OLD);
    assert_eq!(got.out, Reply::new(OLD).ok(0x00, AUTO, b"").bytes);
    assert_eq!(got.changes, 2);
    // A client that tracks its session sees what it would see by default: the database.
    let mut visible = Vec::new();
    schema.encode(&mut visible);
    let want = Reply::new(new()).ok(0x00, status, &visible);
    assert_eq!(relayed(&from, Expect::Results, new()).out, want.bytes);
}

#[test]
fn a_prepared_statement_gets_the_clients_id_and_its_eofs() {
    let reply = |id| PrepareOk {
        statement_id: id,
        columns: 1,
        params: 2,
        warnings: 0,
        cuts_digits: false,
    };
    let head = |id| {
        let mut payload = Vec::new();
        reply(id).encode(&mut payload);
        payload
    };
    let from = Reply::new(new())
        .raw(&head(99))
        .columns(&["?", "?"])
        .columns(&["x"]);
    let want = Reply::new(OLD)
        .raw(&head(7))
        .columns(&["?", "?"])
        .eof(AUTO)
        .columns(&["x"])
        .eof(AUTO);
    let expect = Expect::Prepare { client_id: 7 };
    assert_eq!(relayed(&from, expect, OLD).out, want.bytes);
    let none = PrepareOk {
        statement_id: 9,
        columns: 0,
        params: 0,
        warnings: 0,
        cuts_digits: false,
    };
    let mut payload = Vec::new();
    none.encode(&mut payload);
    assert_eq!(
        relayed(&Reply::new(new()).raw(&payload), expect, OLD).out[5],
        7
    );
}

#[test]
fn a_cursor_has_one_eof_only() {
    let open = AUTO | Status::CURSOR_EXISTS;
    let from = Reply::new(new())
        .raw(&[1])
        .columns(&["x"])
        .ok(0xFE, open, b"");
    let want = Reply::new(OLD).raw(&[1]).columns(&["x"]).eof(open);
    assert_eq!(relayed(&from, Expect::Cursor, OLD).out, want.bytes);
    // Nobody asked for one: the flag is a leftover of a stored program's own cursor.
    let want = Reply::new(OLD)
        .raw(&[1])
        .columns(&["x"])
        .eof(open)
        .eof(open);
    assert_eq!(relayed(&from, Expect::Results, OLD).out, want.bytes);
    let last = AUTO | Status::LAST_ROW_SENT;
    let rows = Reply::new(new()).row(&[Some(b"1")]).ok(0xFE, last, b"");
    let want = Reply::new(OLD).row(&[Some(b"1")]).eof(last);
    assert_eq!(relayed(&rows, Expect::Rows, OLD).out, want.bytes);
}

#[test]
fn errors_end_a_reply_wherever_they_come() {
    for client in [OLD, new()] {
        let early = relayed(&Reply::new(new()).err(1064), Expect::Results, client);
        assert_eq!(
            (early.error, early.out.len()),
            (Some(1064), Reply::new(OLD).err(1064).bytes.len())
        );
        let from = Reply::new(new())
            .raw(&[1])
            .columns(&["x"])
            .row(&[Some(b"1")])
            .err(1317);
        assert_eq!(relayed(&from, Expect::Results, client).error, Some(1317));
    }
}

#[test]
fn a_row_larger_than_the_buffer_passes_through_in_pieces() {
    // The end is too far away to say whether another result follows.
    let guessed = AUTO | Status::MORE_RESULTS;
    let large = vec![b'x'; 40_000_000];
    let from = Reply::new(new())
        .raw(&[1])
        .columns(&["x"])
        .row(&[Some(&large)])
        .ok(0xFE, AUTO, b"");
    let want = Reply::new(OLD)
        .raw(&[1])
        .columns(&["x"])
        .eof(guessed)
        .row(&[Some(&large)])
        .eof(AUTO);
    let got = relay(&from.bytes, Expect::Results, OLD, &[16_384]);
    assert!(got.done && got.rows == 1 && got.out == want.bytes);
    // A payload of exactly 16 MB - 1 is followed by an empty packet that belongs to it.
    let exact = vec![b'y'; packet::PAYLOAD_BYTES_MAX - 4];
    let from = Reply::new(new())
        .raw(&[1])
        .columns(&["x"])
        .row(&[Some(&exact)])
        .ok(0xFE, AUTO, b"");
    let want = Reply::new(OLD)
        .raw(&[1])
        .columns(&["x"])
        .eof(guessed)
        .row(&[Some(&exact)])
        .eof(AUTO);
    let got = relay(&from.bytes, Expect::Results, OLD, &[1 << 20]);
    assert!(got.done && got.rows == 1 && got.out == want.bytes);
}

#[test]
fn any_bytes_in_any_pieces_do_no_harm() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/wire_relay");
    let mut inputs = 0;
    for file in std::fs::read_dir(corpus).expect("the corpus is there") {
        let bytes = std::fs::read(file.expect("an entry").path()).expect("readable");
        for cut in 0..bytes.len() {
            relaying::check(&bytes[..cut]);
        }
        relaying::check(&bytes);
        inputs += 1;
    }
    assert!(inputs >= 5, "the corpus has {inputs} inputs");
}

/// Writes the corpus of the fuzz target from the replies above; run with `--ignored` after a change
/// of the wire format.
#[test]
#[ignore = "writes the corpus; it is committed"]
fn write_the_corpus() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/wire_relay");
    std::fs::create_dir_all(corpus).expect("writable");
    for (name, kind, reply) in replies() {
        let mut bytes = vec![kind, 0, 3, 9];
        bytes.extend_from_slice(&reply.bytes);
        std::fs::write(format!("{corpus}/{name}"), bytes).expect("writable");
    }
}

/// Replies of every kind, with the first byte of their inputs.
fn replies() -> Vec<(&'static str, u8, Reply)> {
    let mut all = results();
    all.push(("prepare", 1, prepared()));
    let fetched = start().row(&[Some(b"1")]).ok(0xFE, AUTO, b"");
    all.push(("fetch", 2, fetched));
    all.push(("fields", 3, start().columns(&["x", "y"]).eof(AUTO)));
    all.push(("single", 4, start().raw(b"Uptime: 1  Threads: 2")));
    all
}

fn start() -> Reply {
    Reply::new(new())
}

/// Replies to a query.
fn results() -> Vec<(&'static str, u8, Reply)> {
    let rows = || head().row(&[Some(b"1")]).row(&[None]);
    let head_only = AUTO | Status::CURSOR_EXISTS;
    let more = AUTO | Status::MORE_RESULTS;
    let mut state = Vec::new();
    let change = SessionChange::Variable {
        name: b"autocommit",
        value: b"OFF",
    };
    change.encode(&mut state);
    let changed = AUTO | Status::SESSION_STATE_CHANGED;
    vec![
        ("result", 0, rows().ok(0xFE, AUTO, b"")),
        ("more", 0, rows().ok(0xFE, more, b"").ok(0, AUTO, b"")),
        ("torn", 0, rows().err(1317)),
        ("error", 0, start().err(1064)),
        ("state", 0, start().ok(0, changed, &state)),
        ("cursor", 0, head().ok(0xFE, head_only, b"")),
        ("file", 0, start().raw(b"\xFBname").ok(0, AUTO, b"")),
    ]
}

fn head() -> Reply {
    start().raw(&[1]).columns(&["x"])
}

fn prepared() -> Reply {
    let mut payload = Vec::new();
    let reply = PrepareOk {
        statement_id: 3,
        columns: 1,
        params: 1,
        warnings: 0,
        cuts_digits: false,
    };
    reply.encode(&mut payload);
    start().raw(&payload).columns(&["?"]).columns(&["x"])
}
