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

/// A read that moves to another server, a write that waits for a new primary, and a transaction over two groups.
fn of_core() -> Vec<(u32, Step)> {
    let (one, two) = (Server(1), Server(2));
    let digest = Digest(0x00ab_cdef_0123_4567);
    let chosen = |server, reason, wait| Step::Chosen {
        reason: Some(reason),
        server,
        wait,
    };
    let why = |why, server| Step::Retried {
        why: Some(why),
        server,
    };
    let moment = |moment, server| Step::Distributed {
        moment: Some(moment),
        server,
        connection: 90,
    };
    let what = Some(Awaited::Primary);
    let nobody = Server(0);
    let connection = 90;
    vec![
        (17, Step::Accepted {}),
        (17, Step::LoggedIn {}),
        (17, Step::Statement { command: 3, digest }),
        (17, chosen(one, Reason::Read, true)),
        (
            17,
            Step::Opened {
                server: one,
                connection,
            },
        ),
        (
            17,
            Step::Taken {
                held: false,
                server: one,
                connection,
            },
        ),
        (
            17,
            Step::Sent {
                server: one,
                connection,
            },
        ),
        (
            17,
            Step::Lost {
                forwarded: false,
                server: one,
                connection,
            },
        ),
        (17, why(Retry::Refused, one)),
        (
            18,
            Step::Statement {
                command: 3,
                digest: Digest(0),
            },
        ),
        (18, Step::NoServer { error: 1290 }),
        (
            18,
            Step::WaitBegins {
                what,
                server: nobody,
            },
        ),
        (17, chosen(two, Reason::NoReplica, false)),
        (
            17,
            Step::Answered {
                server: two,
                error: 0,
            },
        ),
        (17, Step::Finished { error: 0, rows: 3 }),
        (
            18,
            Step::WaitEnds {
                what,
                server: nobody,
                came: true,
            },
        ),
        (18, chosen(two, Reason::NotARead, false)),
        (
            18,
            Step::Answered {
                server: two,
                error: 1062,
            },
        ),
        (
            18,
            Step::Committed {
                source: 7,
                number: 25,
            },
        ),
        (18, moment(Moment::Prepare, two)),
        (18, moment(Moment::Prepared, two)),
        (18, moment(Moment::Decide, Server(5))),
        (
            17,
            Step::Ended {
                how: Some(End::Refused),
                error: 1045,
            },
        ),
    ]
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

#[test]
fn timelines_are_as_they_were() {
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
    let mut damaged = whole.clone();
    // In the body of the ring of the core: the statement of session 17.
    damaged[sections[0].len() + 128 + 2 * 32 + 20] ^= 0x40;
    let mut foreign = whole.clone();
    foreign[3] = b'X';
    let mut later = whole.clone();
    later[8] = 2;
    let texts = [
        ("whole", told(&whole, &all)),
        ("session 17", told(&whole, &filter(Some(17), None, None))),
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
                    last: Some(2),
                    ..all.clone()
                },
            ),
        ),
        (
            "without names",
            told(&sections[1..].concat(), &filter(Some(18), None, None)),
        ),
        (
            "cut within a record",
            told(&whole[..sections[0].len() + 128 + 3 * 32 + 7], &all),
        ),
        ("damaged", told(&damaged, &filter(Some(17), None, None))),
        ("foreign", told(&foreign, &all)),
        ("of a later release", told(&later, &all)),
        ("empty", told(b"", &all)),
    ];
    let text: String = texts
        .iter()
        .map(|(name, text)| format!("# {name}\n{text}\n"))
        .collect();
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
        let mut bent = seed.clone();
        bent[at] ^= 1 << (at % 8);
        reading::check(&bent);
    }
}
