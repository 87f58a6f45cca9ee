//! The rules on coupling: how many methods a type has, over how many files they are spread, how many
//! fields a struct has, how many files lie flat in a folder, and how many files of a crate import each other
//! in a circle ([`circles`]).
//!
//! What is over its limit today stands in [`KNOWN`] with its number. It may shrink, and then the number here
//! shrinks with it; it may not grow. No folder is over its limit, and none stands there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::circles;
use crate::rules::Violation;
use crate::source::Source;

pub const METHODS_MAX: usize = 60;
pub const FILES_OF_TYPE_MAX: usize = 12;
pub const FIELDS_MAX: usize = 20;
pub const FILES_FLAT_MAX: usize = 20;
/// Files that import each other in a circle.
pub const CIRCLE_MAX: usize = 12;

/// What is over its limit: the measure, what it is of, and the number that it must not pass.
pub const KNOWN: &[(&str, &str, usize)] = &[
    ("fields", "backend::Connection", 30),
    ("fields", "catalog::MoveRecord", 25),
    ("fields", "machines::Change", 24),
    ("fields", "machines::Failover", 21),
    ("fields", "machines::Policy", 23),
    ("fields", "execute::Settings", 23),
    ("methods", "machines::Failover", 129),
];

static IMPL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?ms)^impl(?:<[^>{]*>)? (\w+)(?:<[^{]*>)? (?:where [^{]*)?\{\n(.*?)^\}")
});
static METHOD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^    (?:pub(?:\([a-z_: ]+\))? )?(?:const |async |unsafe )*fn "));
static STRUCT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?ms)^(?:pub(?:\([a-z_: ]+\))? )?struct (\w+)(?:<[^{;(]*>)? \{\n(.*?)^\}")
});
static FIELD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^    (?:pub(?:\([a-z_: ]+\))? )?\w+:"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file")
}

/// One number: its measure, what it is of, where to look.
struct Count {
    measure: &'static str,
    of: String,
    path: String,
    number: usize,
    max: usize,
}

/// Everything over its limit that is not known, everything that has grown, and what has shrunk without its
/// number in the list of what is known.
pub fn excess(sources: &[Source], known: &[(&str, &str, usize)]) -> Vec<Violation> {
    let counts = counts(sources);
    let mut found = Vec::new();
    for count in &counts {
        let entry = known
            .iter()
            .find(|(measure, of, _)| *measure == count.measure && *of == count.of);
        let allowed = entry.map_or(count.max, |(_, _, number)| *number);
        let of = format!(
            "{} {} {}, {allowed} at most",
            count.of, count.number, count.measure
        );
        if count.number > allowed {
            let instead = "split it along its parts";
            found.push(Violation::new(&count.path, 1, of, instead));
        } else if entry.is_some() && count.number < allowed {
            let instead = "write the smaller number down in coupling.rs";
            found.push(Violation::new(&count.path, 1, of, instead));
        }
    }
    for (measure, of, _) in known {
        if !counts
            .iter()
            .any(|count| count.measure == *measure && count.of == *of)
        {
            let what = format!("{of} {measure} is not there");
            found.push(Violation::new("coupling.rs", 1, what, "remove it"));
        }
    }
    found
}

fn counts(sources: &[Source]) -> Vec<Count> {
    let (mut methods, mut spread) = (BTreeMap::new(), BTreeMap::new());
    let mut found = Vec::new();
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if source.is_test || !source.path.contains("/src/") || source.crate_name().is_empty() {
            continue;
        }
        crates.entry(source.crate_name()).or_default().push(source);
        let code = live(source);
        for item in IMPL.captures_iter(&code) {
            let of = format!("{}::{}", source.crate_name(), &item[1]);
            *methods.entry(of.clone()).or_insert(0) += METHOD.find_iter(&item[2]).count();
            let files: &mut BTreeSet<&str> = spread.entry(of).or_default();
            files.insert(&source.path);
        }
        for item in STRUCT.captures_iter(&code) {
            found.push(Count {
                measure: "fields",
                of: format!("{}::{}", source.crate_name(), &item[1]),
                path: source.path.clone(),
                number: FIELD.find_iter(&item[2]).count(),
                max: FIELDS_MAX,
            });
        }
    }
    for (of, files) in &spread {
        let path = (*files.first().expect("an impl is in a file")).to_owned();
        let count = |measure, number, max| Count {
            measure,
            of: of.clone(),
            path: path.clone(),
            number,
            max,
        };
        found.push(count("methods", methods[of], METHODS_MAX));
        found.push(count("files", files.len(), FILES_OF_TYPE_MAX));
    }
    found.extend(crates.into_iter().map(|(name, files)| Count {
        measure: "files in a circle",
        of: name.to_owned(),
        path: format!("crates/{name}"),
        number: circles::largest(&files),
        max: CIRCLE_MAX,
    }));
    found
}

/// Folders with more files of Rust than anyone finds their way in, those of tests too. None is known, and none
/// is excused.
pub fn crowded(sources: &[Source]) -> Vec<Violation> {
    let mut flat: BTreeMap<&str, usize> = BTreeMap::new();
    for source in sources {
        if let Some((folder, _)) = source.path.rsplit_once('/') {
            *flat.entry(folder).or_insert(0) += 1;
        }
    }
    let crowded = flat
        .into_iter()
        .filter(|(_, number)| *number > FILES_FLAT_MAX);
    let found = crowded.map(|(folder, number)| {
        let rule = format!("{number} files in {folder}, {FILES_FLAT_MAX} at most");
        let instead = "put those of one domain into a folder with its name";
        Violation::new(folder, 1, rule, instead)
    });
    found.collect()
}

/// The code without what is compiled for tests only.
pub fn live(source: &Source) -> String {
    let lines = source.code.lines().enumerate();
    let live = lines.map(|(at, line)| match source.is_test_line(at + 1) {
        true => "",
        false => line,
    });
    live.collect::<Vec<_>>().join("\n") + "\n"
}
