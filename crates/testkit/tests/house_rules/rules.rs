//! The rules that look at one file at a time. Each finding says where, which rule, and what to
//! write in its place.

use std::fmt;

use crate::source::{Source, find_words, line_of};

pub const FILE_LINES_MAX: usize = 600;
pub const FUNCTION_LINES_MAX: usize = 70;

/// Crates whose threads serve clients: a thread that sleeps there stops every session of its core.
const DATA_PLANE: [&str; 8] = [
    "reactor",
    "backend",
    "auth",
    "execute",
    "dist-txn",
    "dist-query",
    "session",
    "door-sql",
];

/// The one file of `testkit` that may sleep: it polls conditions until a deadline.
const WAITS: &str = "crates/testkit/src/wait.rs";

/// Where texts are bounded before the parser of SQL reads them.
const PARSERS_DOOR: &str = "crates/planner/src/depth.rs";

/// Crates that decide and describe; what they need of the world is passed in.
pub const PURE: [&str; 9] = [
    "changes",
    "doctor",
    "enginesql",
    "mysql-wire",
    "sqltext",
    "farm",
    "routing",
    "machines",
    "planner",
];

/// Names that say nothing about what a module holds.
const EMPTY_NAMES: [&str; 11] = [
    "util", "utils", "common", "helper", "helpers", "manager", "managers", "base", "core", "misc",
    "types",
];

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub path: String,
    pub line: usize,
    pub rule: String,
    pub instead: &'static str,
}

impl Violation {
    pub fn new(path: &str, line: usize, rule: impl Into<String>, instead: &'static str) -> Self {
        Violation {
            path: path.to_string(),
            line,
            rule: rule.into(),
            instead,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{}:{}: {}; {}",
            self.path, self.line, self.rule, self.instead
        )
    }
}

/// Every file opens with `//!`; a crate's root also names its job, its invariants and what it must
/// not know.
pub fn opening(source: &Source) -> Vec<Violation> {
    let opening = source.opening();
    if opening.trim().is_empty() {
        let instead = "open the file with a `//!` comment that says its job";
        return vec![Violation::new(
            &source.path,
            1,
            "no opening comment",
            instead,
        )];
    }
    let is_root = source.path.ends_with("/src/lib.rs") || source.path.ends_with("/src/main.rs");
    if !is_root || !source.path.starts_with("crates/") {
        return Vec::new();
    }
    let text = opening.to_lowercase();
    // The first sentence may say the job without the word.
    let first_words = text.lines().next().unwrap_or("").split_whitespace().count();
    let says_job = text.contains("job:") || first_words > 3;
    let parts = [
        (says_job, "the crate's root does not say its job"),
        (
            text.contains("invariant"),
            "the crate's root does not say its invariants",
        ),
        (
            text.contains("must not know"),
            "the crate's root does not say what it must not know",
        ),
    ];
    let instead = "write paragraphs `//! Job: …`, `//! Invariants: …`, `//! Must not know: …`";
    let missing = parts.iter().filter(|(present, _)| !present);
    missing
        .map(|(_, rule)| Violation::new(&source.path, 1, *rule, instead))
        .collect()
}

/// No file and no function so long that a reader loses its beginning.
pub fn sizes(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    let lines = source.text.lines().count();
    if lines > FILE_LINES_MAX {
        let rule = format!("the file has {lines} lines, more than {FILE_LINES_MAX}");
        let instead = "split it by noun or verb into modules of their own";
        found.push(Violation::new(
            &source.path,
            FILE_LINES_MAX + 1,
            rule,
            instead,
        ));
    }
    for function in &source.functions {
        let (first, last) = (*function.lines.start(), *function.lines.end());
        let count = last - first + 1;
        if count > FUNCTION_LINES_MAX {
            let name = &function.name;
            let rule = format!("fn {name} has {count} lines, more than {FUNCTION_LINES_MAX}");
            let instead = "name its steps and make them functions";
            found.push(Violation::new(&source.path, first, rule, instead));
        }
    }
    found
}

/// `unsafe` stands in `reactor` alone, each with its reason.
pub fn unsafe_code(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for line in lines_with(source, "unsafe") {
        if source.crate_name() != "reactor" {
            let instead = "give `reactor` a safe function that does it";
            found.push(Violation::new(
                &source.path,
                line,
                "unsafe outside `reactor`",
                instead,
            ));
        } else if !reason_above(source, line) {
            let instead = "write `// SAFETY: …` above it: why it cannot go wrong";
            found.push(Violation::new(
                &source.path,
                line,
                "unsafe without its reason",
                instead,
            ));
        }
    }
    found
}

/// True when the line, or the comment block right above it, says `SAFETY` (`# Safety` on a function).
fn reason_above(source: &Source, line: usize) -> bool {
    let comments: Vec<&str> = source.comments.lines().collect();
    let code: Vec<&str> = source.code.lines().collect();
    let says_why = |at: usize| {
        comments
            .get(at)
            .is_some_and(|comment| comment.to_lowercase().contains("safety"))
    };
    let mut at = line - 1;
    while !says_why(at) {
        let above_is_code = at == 0 || !code[at - 1].trim().is_empty();
        let above_is_attribute = at > 0 && code[at - 1].trim().starts_with("#[");
        // The statement that holds the block may have begun on the line before.
        if above_is_code && !above_is_attribute && line - at > 2 {
            return false;
        }
        if at == 0 {
            return false;
        }
        at -= 1;
    }
    true
}

/// A call or macro that has no place in the code, and where that holds.
struct Ban {
    words: &'static [&'static str],
    holds: fn(&Source, usize) -> bool,
    rule: &'static str,
    instead: &'static str,
}

const BANS: [Ban; 7] = [
    Ban {
        words: &["Parser::new", "Tokenizer::new"],
        holds: |source, _| source.path != PARSERS_DOOR,
        rule: "a text that the parser reads without a bound",
        instead: "use `depth::tokens` and `depth::parser`: a tree that is too deep ends the process",
    },
    Ban {
        words: &[".unwrap()"],
        holds: |source, line| !source.is_test_line(line),
        rule: "`unwrap` outside tests",
        instead: "return the error, or `expect(\"why it cannot fail\")`",
    },
    Ban {
        words: &["thread::sleep"],
        holds: blocks_badly,
        rule: "a sleeping thread in a test or on the data plane",
        instead: "wait for the condition with a deadline: `testkit::wait_until` in tests, a timer of `reactor` in sessions",
    },
    Ban {
        words: &["time::sleep"],
        holds: |source, line| source.is_test_line(line),
        rule: "a sleep in a test",
        instead: "wait for the condition with a deadline: `testkit::wait_until`",
    },
    Ban {
        words: &["println!", "eprintln!", "print!", "eprint!"],
        holds: prints_badly,
        rule: "a library prints",
        instead: "return it, or say it with `tracing`; only `heddle` prints",
    },
    Ban {
        words: &["todo!", "unimplemented!", "dbg!"],
        holds: |_, _| true,
        rule: "an unfinished place",
        instead: "finish it, or return a typed error that says what is missing",
    },
    Ban {
        words: &[
            "Instant::now",
            "SystemTime::now",
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "thread::spawn",
            "std::fs",
        ],
        holds: |source, line| PURE.contains(&source.crate_name()) && !source.is_test_line(line),
        rule: "I/O, a clock or a thread in a crate that decides purely",
        instead: "take the value as an argument; rank 2 and above touch the world",
    },
];

/// Sleeping is for nobody in tests and nobody who serves clients, but the module that waits.
fn blocks_badly(source: &Source, line: usize) -> bool {
    if source.crate_name() == "testkit" && !source.is_test {
        return source.path != WAITS;
    }
    source.is_test_line(line) || DATA_PLANE.contains(&source.crate_name())
}

fn prints_badly(source: &Source, line: usize) -> bool {
    // A build script talks to cargo by printing, a driver's program to what compares its output.
    let is_program = source.path.ends_with("/build.rs") || source.path.starts_with("test/");
    source.crate_name() != "heddle" && !is_program && !source.is_test_line(line)
}

pub fn bans(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for ban in &BANS {
        for word in ban.words {
            for line in lines_with(source, word) {
                if (ban.holds)(source, line) {
                    let rule = format!("{}: `{word}`", ban.rule);
                    found.push(Violation::new(&source.path, line, rule, ban.instead));
                }
            }
        }
    }
    found
}

/// A note about work left carries the issue that will do it.
pub fn notes(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, comment) in source.comments.lines().enumerate() {
        let has_note = ["TODO", "FIXME", "XXX", "HACK"]
            .iter()
            .any(|word| !find_words(comment, word).is_empty());
        let digit_follows =
            |at: usize| comment[at + 1..].starts_with(|letter: char| letter.is_ascii_digit());
        let has_issue = comment.match_indices('#').any(|(at, _)| digit_follows(at));
        if has_note && !has_issue {
            let instead = "write `TODO #N: …` with the number of the issue, or do it now";
            let rule = "a note without an issue";
            found.push(Violation::new(&source.path, index + 1, rule, instead));
        }
    }
    found
}

/// What a crate offers is a list that can be read, so nothing is re-exported by `*`.
pub fn globs(source: &Source) -> Vec<Violation> {
    let mut found = Vec::new();
    for at in find_words(&source.code, "use") {
        let line = line_of(&source.code, at);
        let before = source.code[..at].rsplit('\n').next().unwrap_or("").trim();
        let statement = source.code[at..].split(';').next().unwrap_or("");
        if before.starts_with("pub") && statement.contains("::*") {
            let instead = "name what is re-exported";
            found.push(Violation::new(
                &source.path,
                line,
                "a re-export by `*`",
                instead,
            ));
        }
    }
    found
}

/// A module is called by what it holds.
pub fn names(source: &Source) -> Vec<Violation> {
    let instead = "name it by the noun of the field that it holds";
    let mut found = Vec::new();
    for part in source.path.trim_end_matches(".rs").split('/') {
        if EMPTY_NAMES.contains(&part) {
            let rule = format!("`{part}` as a name");
            found.push(Violation::new(&source.path, 1, rule, instead));
        }
    }
    for at in find_words(&source.code, "mod") {
        let head = source.code[at + 3..].trim_start();
        let end = head.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
        let name = &head[..end.unwrap_or(head.len())];
        if EMPTY_NAMES.contains(&name) {
            let rule = format!("`{name}` as a module's name");
            found.push(Violation::new(
                &source.path,
                line_of(&source.code, at),
                rule,
                instead,
            ));
        }
    }
    found
}

/// Nothing in the repository depends on the machine where it was written. Any text file.
pub fn machine_paths(path: &str, text: &str) -> Vec<Violation> {
    // In two halves, so that this file obeys its own rule.
    let places = [
        concat!("/wo", "rk/"),
        concat!("/tmp/bash", "_jobs"),
        concat!("/tmp/tar", "get"),
    ];
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let names_place = |place: &&&str| {
            let begins_path = |at: usize| at == 0 || !line[..at].ends_with(char::is_alphanumeric);
            line.match_indices(**place).any(|(at, _)| begins_path(at))
        };
        if let Some(place) = places.iter().find(names_place) {
            let rule = format!("a path of one machine: {place}");
            let instead = "use a path relative to the repository, or a temporary directory";
            found.push(Violation::new(path, index + 1, rule, instead));
        }
    }
    found
}

/// All rules that need nothing but the file.
pub fn all(source: &Source) -> Vec<Violation> {
    let rules = [opening, sizes, unsafe_code, bans, notes, globs, names];
    rules.iter().flat_map(|rule| rule(source)).collect()
}

fn lines_with(source: &Source, word: &str) -> Vec<usize> {
    let positions = find_words(&source.code, word);
    positions
        .into_iter()
        .map(|at| line_of(&source.code, at))
        .collect()
}
