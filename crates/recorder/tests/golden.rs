//! What is read of traces, whole ones and others, against golden texts. `HEDDLE_WRITE_GOLDEN=1` writes them anew, and the
//! seeds of the fuzz target.

mod reading;

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

use recorder::{
    Awaited, CONTROL, Digest, End, Filter, Group, Moment, Notes, Question, Reason, Retry, Ring,
    Server, Step, Timeline, Told, bytes_of, install, note, read, remove,
};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/timeline.txt");
const SEED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/recorder_read/dump");

static NOW_US: AtomicU64 = AtomicU64::new(0);

/// Each question for the time is 100 us later.
fn clock() -> u64 {
    NOW_US.fetch_add(100, Ordering::Relaxed)
}

/// What a thread with a ring for so many records writes.
fn ring(core: u32, records: u64, steps: &[(u32, Step)]) -> Vec<u8> {
    let words = (0..bytes_of(records) / 8).map(|_| AtomicU64::new(0));
    let words: &'static [AtomicU64] = Vec::leak(words.collect());
    let ring = Ring {
        core,
        process: 4711,
        origin_us: 1_000_000,
    };
    install(words, ring, clock);
    for &(session, step) in steps {
        note(session, step);
    }
    remove();
    words
        .iter()
        .flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes())
        .collect()
}

fn notes() -> Vec<u8> {
    let mut notes = Notes {
        cause: "command".to_owned(),
        version: "0.1.0".to_owned(),
        ..Notes::default()
    };
    for (number, name) in [(1, "g1"), (2, "g2")] {
        notes.groups.insert(number, name.to_owned());
        let server = (format!("db{number}:3306"), name.to_owned());
        notes.servers.insert(number, server);
    }
    notes.section()
}

fn chosen(server: Server, reason: Reason, wait: bool) -> Step {
    let reason = Some(reason);
    Step::Chosen {
        reason,
        server,
        wait,
    }
}

fn moment(moment: Moment, server: Server) -> Step {
    let (moment, connection) = (Some(moment), 90);
    Step::Distributed {
        moment,
        server,
        connection,
    }
}

/// Of session 17: a read whose connection breaks.
fn broken_read() -> Vec<Step> {
    let (server, connection) = (Server(1), 90);
    let (command, digest) = (3, Digest(0x00ab_cdef_0123_4567));
    let (held, forwarded, why) = (false, false, Some(Retry::Refused));
    vec![
        Step::Accepted {},
        Step::LoggedIn {},
        Step::Statement { command, digest },
        chosen(server, Reason::Read, true),
        Step::Opened { server, connection },
        Step::Taken {
            held,
            server,
            connection,
        },
        Step::Sent { server, connection },
        Step::Lost {
            forwarded,
            server,
            connection,
        },
        Step::Retried { why, server },
    ]
}

/// Of session 18: a write that waits for a new primary.
fn waiting_write() -> Vec<Step> {
    let (what, server) = (Some(Awaited::Primary), Server(0));
    let (command, digest) = (3, Digest(0));
    vec![
        Step::Statement { command, digest },
        Step::NoServer { error: 1290 },
        Step::WaitBegins { what, server },
    ]
}

/// Of session 17: the read elsewhere.
fn moved_read() -> Vec<Step> {
    let (server, error) = (Server(2), 0);
    vec![
        chosen(server, Reason::NoReplica, false),
        Step::Answered { server, error },
        Step::Finished { error, rows: 3 },
    ]
}

/// Of session 18: the write, and a transaction over two groups.
fn write_and_commit() -> Vec<Step> {
    let (what, nobody, came) = (Some(Awaited::Primary), Server(0), true);
    let (server, error) = (Server(2), 1062);
    vec![
        Step::WaitEnds {
            what,
            server: nobody,
            came,
        },
        chosen(server, Reason::NotARead, false),
        Step::Answered { server, error },
        Step::Committed {
            source: 7,
            number: 25,
        },
        moment(Moment::Prepare, server),
        moment(Moment::Prepared, server),
        moment(Moment::Decide, Server(5)),
    ]
}

fn of_core() -> Vec<(u32, Step)> {
    let (how, error) = (Some(End::Refused), 1045);
    let parts = [
        (17, broken_read()),
        (18, waiting_write()),
        (17, moved_read()),
        (18, write_and_commit()),
        (17, vec![Step::Ended { how, error }]),
    ];
    let of =
        |(session, steps): (u32, Vec<Step>)| steps.into_iter().map(move |step| (session, step));
    parts.into_iter().flat_map(of).collect()
}

fn of_control() -> Vec<(u32, Step)> {
    let (server, group) = (Server(1), Group(1));
    let told = |told| Step::Failover {
        told: Some(told),
        server,
        group,
    };
    let what = Some(Question::Open);
    vec![
        (0, Step::Started {}),
        (0, Step::ProbeFailed { server }),
        (0, told(Told::Suspected)),
        (0, told(Told::Lost)),
        (
            0,
            Step::FailoverAsks {
                what,
                server: Server(2),
                group: Group(2),
            },
        ),
        (
            0,
            Step::FailoverAnswer {
                done: true,
                group: Group(2),
            },
        ),
        (
            0,
            Step::PrimaryPublished {
                server: Server(2),
                group: Group(2),
            },
        ),
    ]
}

fn told(bytes: &[u8], filter: &Filter) -> String {
    let mut text = String::new();
    match read(bytes) {
        Ok(trace) => {
            let mut timeline = Timeline::default();
            timeline.add(trace);
            for line in timeline.lines(filter) {
                let _ = writeln!(text, "{}", line.text(&line.at_us.to_string()));
            }
            let _ = writeln!(text, "torn {}, cut {}", timeline.torn, timeline.is_cut);
        }
        Err(why) => {
            let _ = writeln!(text, "{why}");
        }
    }
    text
}

/// Named traces, and what is told of them.
fn scenarios() -> (Vec<u8>, String) {
    let sections = [
        notes(),
        ring(0, 50, &of_core()),
        ring(CONTROL, 4, &of_control()),
    ];
    let whole = sections.concat();
    let filter = |session: Option<u32>, group: Option<&str>, server: Option<&str>| Filter {
        session,
        group: group.map(str::to_owned),
        server: server.map(str::to_owned),
        ..Filter::default()
    };
    let all = Filter::default();
    let last = Some(2);
    let [of_17, of_18] = [17, 18].map(|session| filter(Some(session), None, None));
    let body = sections[0].len() + 128;
    // The statement of session 17.
    let damaged = bent(&whole, body + 2 * 32 + 20, 0x40);
    let texts = [
        ("whole", told(&whole, &all)),
        ("session 17", told(&whole, &of_17)),
        ("group g1", told(&whole, &filter(None, Some("g1"), None))),
        (
            "server db2:3306",
            told(&whole, &filter(None, None, Some("db2:3306"))),
        ),
        (
            "the last two",
            told(
                &whole,
                &Filter {
                    last,
                    ..all.clone()
                },
            ),
        ),
        ("without names", told(&sections[1..].concat(), &of_18)),
        (
            "cut within a record",
            told(&whole[..body + 3 * 32 + 7], &all),
        ),
        ("damaged", told(&damaged, &of_17)),
        ("foreign", told(&bent(&whole, 3, 0x40), &all)),
        ("of a later release", told(&bent(&whole, 8, 3), &all)),
        ("empty", told(b"", &all)),
    ];
    let texts = texts
        .iter()
        .map(|(name, text)| format!("# {name}\n{text}\n"));
    (whole, texts.collect())
}

fn bent(bytes: &[u8], at: usize, bits: u8) -> Vec<u8> {
    let mut bent = bytes.to_vec();
    bent[at] ^= bits;
    bent
}

#[test]
fn timelines_are_as_they_were() {
    let (whole, text) = scenarios();
    if std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, &text).expect("written");
        std::fs::write(SEED, &whole).expect("written");
    }
    assert_eq!(
        text,
        std::fs::read_to_string(GOLDEN).expect("the golden text")
    );
    let seed = std::fs::read(SEED).expect("a seed");
    assert_eq!(seed, whole, "write the seed anew");
    for at in 0..seed.len() {
        reading::check(&seed[..at]);
        reading::check(&bent(&seed, at, 1 << (at % 8)));
    }
}
