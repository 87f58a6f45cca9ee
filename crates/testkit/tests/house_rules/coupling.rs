//! The rules on coupling: how many methods a type has, over how many files they are spread, how many
//! fields a struct has, how many files lie flat in a folder, and how many files of a crate import each other
//! in a circle.
//!
//! What is over its limit today stands in [`KNOWN`] with its number. It may shrink, and then the number here
//! shrinks with it; it may not grow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

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
    ("fields", "control::Settings", 41),
    ("fields", "machines::Change", 24),
    ("fields", "machines::Failover", 21),
    ("fields", "machines::Policy", 23),
    ("fields", "session::Core", 32),
    ("fields", "session::Handle", 29),
    ("fields", "session::Settings", 23),
    ("methods", "machines::Failover", 129),
    ("methods", "session::Core", 92),
    ("methods", "session::Session", 224),
    ("files", "session::Core", 23),
    ("files", "session::Session", 60),
    ("files flat", "crates/backend/src", 23),
    ("files flat", "crates/engine/src", 30),
    ("files flat", "crates/farm/src", 21),
    ("files flat", "crates/heddle/src", 24),
    ("files flat", "crates/session/src/place", 22),
    ("files flat", "crates/sqltext/src", 37),
    ("files flat", "crates/testkit/src", 24),
    ("files in a circle", "backend", 15),
];

static IMPL: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?ms)^impl(?:<[^>{]*>)? (\w+)(?:<[^{]*>)? (?:where [^{]*)?\{\n(.*?)^\}")
});
static METHOD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^    (?:pub(?:\([a-z]+\))? )?(?:const |async |unsafe )*fn "));
static STRUCT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"(?ms)^(?:pub(?:\([a-z]+\))? )?struct (\w+)(?:<[^{;(]*>)? \{\n(.*?)^\}")
});
static FIELD: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^    (?:pub(?:\([a-z]+\))? )?\w+:"));
static PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bcrate::([a-z_0-9]+(?:::[a-z_0-9]+)*)"));
/// `use crate::{a::X, b}` and its like, whole.
static IMPORT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?ms)^use (crate|super)::\{(.*?)\};"));

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
    let (mut found, mut flat) = (Vec::new(), BTreeMap::new());
    let mut crates: BTreeMap<&str, Vec<&Source>> = BTreeMap::new();
    for source in sources {
        if source.is_test || !source.path.contains("/src/") || source.crate_name().is_empty() {
            continue;
        }
        crates.entry(source.crate_name()).or_default().push(source);
        if let Some((folder, _)) = source.path.rsplit_once('/') {
            *flat.entry(folder.to_owned()).or_insert(0) += 1;
        }
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
    found.extend(flat.into_iter().map(|(folder, number)| Count {
        measure: "files flat",
        of: folder.clone(),
        path: folder,
        number,
        max: FILES_FLAT_MAX,
    }));
    found.extend(crates.into_iter().map(|(name, files)| Count {
        measure: "files in a circle",
        of: name.to_owned(),
        path: format!("crates/{name}"),
        number: largest_circle(&files),
        max: CIRCLE_MAX,
    }));
    found
}

/// The code without what is compiled for tests only.
fn live(source: &Source) -> String {
    let lines = source.code.lines().enumerate();
    let live = lines.map(|(at, line)| match source.is_test_line(at + 1) {
        true => "",
        false => line,
    });
    live.collect::<Vec<_>>().join("\n") + "\n"
}

/// The module of a file within its crate, as `a::b`; empty for the root.
fn module(path: &str) -> String {
    let (_, inside) = path.split_once("/src/").unwrap_or_default();
    let name = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    match name {
        "lib" | "main" => String::new(),
        _ => name.replace('/', "::"),
    }
}

/// The number of files in the largest set of which each imports, by steps, each other one.
fn largest_circle(files: &[&Source]) -> usize {
    let modules: BTreeMap<String, usize> = files
        .iter()
        .enumerate()
        .map(|(at, source)| (module(&source.path), at))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    let edges: Vec<BTreeSet<usize>> = files
        .iter()
        .map(|source| imports(source, &modules))
        .collect();
    let reached: Vec<BTreeSet<usize>> = (0..files.len()).map(|at| reach(at, &edges)).collect();
    let circle = |at: usize| {
        let others = reached[at].iter();
        others
            .filter(|&&other| reached[other].contains(&at))
            .count()
    };
    (0..files.len()).map(circle).max().unwrap_or(0)
}

/// The files whose modules a file names.
fn imports(source: &Source, modules: &BTreeMap<String, usize>) -> BTreeSet<usize> {
    let code = live(source);
    let own = module(&source.path);
    let parent = own.rsplit_once("::").map_or("", |(parent, _)| parent);
    let mut paths: Vec<String> = PATH
        .captures_iter(&code)
        .map(|path| path[1].to_owned())
        .collect();
    for list in IMPORT.captures_iter(&code) {
        let root = if &list[1] == "crate" { "" } else { parent };
        let names = list[2].split(',').map(|name| name.trim());
        paths.extend(names.map(|name| match root {
            "" => name.to_owned(),
            root => format!("{root}::{name}"),
        }));
    }
    let named = paths.iter().filter_map(|path| {
        // The longest module that the path begins with.
        let mut path = path.as_str();
        loop {
            if let Some(&at) = modules.get(path) {
                return Some(at);
            }
            path = path.rsplit_once("::")?.0;
        }
    });
    let me = modules.get(&own).copied();
    named.filter(|&at| Some(at) != me).collect()
}

fn reach(from: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        for &next in &edges[at] {
            if reached.insert(next) {
                open.push(next);
            }
        }
    }
    reached
}
