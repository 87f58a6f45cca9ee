//! Files of sqllogictest say the same on one server and on a farm of three shards.
//!
//! The files are those of `test/slt`, or of the folder that SLT names. Rows, names and types of columns,
//! counts and errors are compared between the two; of our own files also with what they expect.
//! `test/slt/README.md` says how to add to them.

#[path = "../shards/corpus.rs"]
#[expect(
    dead_code,
    reason = "answers are compared by its steps; its own files are not read here"
)]
mod corpus;
mod expect;
#[path = "../shards/outcome.rs"]
mod outcome;
mod play;
mod script;
mod tables;

use std::io::Write as _;
use std::path::PathBuf;

use testkit::Release;

use outcome::Care;
use play::{Choice, Findings, Pair};

/// Differences and refusals of a file that are shown; SLT_SHOWN names another number.
const SHOWN: usize = 1;

/// Every so many queries are in each run of the tests.
const SAMPLED: usize = 5;

/// The files, and what is compared of them.
fn chosen(every: usize) -> (PathBuf, Choice) {
    let expects = std::env::var_os("SLT_EXPECT").is_some();
    match std::env::var_os("SLT") {
        Some(place) => {
            let choice = Choice {
                expected: expects,
                prepared: false,
                care: Care::Loose,
                every,
            };
            (place.into(), choice)
        }
        None => {
            let own = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../test/slt");
            let choice = Choice {
                expected: true,
                prepared: true,
                care: Care::Usual,
                every,
            };
            (own, choice)
        }
    }
}

/// Plays all files, and tells of each what it gave.
fn agree(release: Release, every: usize) {
    let (place, choice) = chosen(every);
    let scripts = script::read_all(&place).unwrap_or_else(|error| panic!("{error}"));
    assert!(!scripts.is_empty(), "{}: no .test file", place.display());
    let Some(mut pair) = Pair::start(release) else {
        return;
    };
    let mut differ = 0;
    for script in &scripts {
        let findings = pair.play(script, &choice);
        differ += findings.differences.len() + findings.columns.len();
        tell(&script.path.display().to_string(), &findings);
    }
    assert!(
        differ == 0,
        "{differ} differences in {} files",
        scripts.len()
    );
}

/// Shown as it comes: a run may take long.
fn tell(path: &str, findings: &Findings) {
    let Findings {
        statements,
        queries,
        refused,
        differences,
        columns,
    } = findings;
    let (differ, named, refusals) = (differences.len(), columns.len(), refused.len());
    let mut text = format!(
        "{path}: {statements} statements, {queries} queries, {refusals} refused, {differ} differences, \
         {named} in columns alone\n"
    );
    let shown = std::env::var("SLT_SHOWN").ok();
    let shown = shown
        .and_then(|number| number.parse().ok())
        .unwrap_or(SHOWN);
    let first = differences.iter().chain(columns).chain(refused).take(shown);
    for what in first {
        text.push_str(&format!("  {}\n", what.replace('\n', "\n  ")));
    }
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// For every run of the tests.
#[test]
fn a_sample_on_mariadb() {
    agree(Release::Installed, SAMPLED);
}

#[test]
#[ignore = "long: make test-slt"]
fn all_on_mariadb() {
    agree(Release::Installed, 1);
}

#[test]
#[ignore = "long: make test-slt"]
fn all_on_mysql() {
    agree(Release::MySql80, 1);
}

#[test]
#[ignore = "long: make test-slt"]
fn all_on_a_newer_mysql() {
    agree(Release::MySqlNewer, 1);
}
