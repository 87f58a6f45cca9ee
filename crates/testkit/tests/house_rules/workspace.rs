//! The rules that look at the whole tree: which crate may depend on which, and golden files that
//! no test reads.

use std::fs;
use std::path::{Path, PathBuf};

use crate::rules::{PURE, Violation};
use crate::source::Source;

/// Every crate and its rank. Dependencies point to lower ranks only; see docs/ARCHITECTURE.md.
const RANKS: &[(&str, u8)] = &[
    ("mysql-wire", 0),
    ("memcache-wire", 0),
    ("proxy-wire", 0),
    ("sqltext", 0),
    ("farm", 0),
    ("enginesql", 0),
    ("memory", 0),
    ("recorder", 0),
    ("changes", 1),
    ("routing", 1),
    ("machines", 1),
    ("planner", 1),
    ("statistics", 1),
    ("doctor", 1),
    ("faults", 2),
    ("reactor", 2),
    ("channel", 2),
    ("backend", 2),
    ("engine", 2),
    ("rowcache", 2),
    ("meta", 2),
    ("mysqld", 2),
    ("sinks", 2),
    ("auth", 3),
    ("execute", 3),
    ("dist-txn", 3),
    ("dist-query", 3),
    ("session", 3),
    ("kv", 3),
    ("catalog", 3),
    ("control", 3),
    ("door-sql", 4),
    ("door-kv", 4),
    ("door-http", 4),
    ("door-fabric", 4),
    ("heddle", 5),
    ("testkit", TESTS_RANK),
];

/// Above everything: tests may use every crate, and no crate uses what is for tests.
const TESTS_RANK: u8 = 6;

/// Dependencies within a rank that we agreed to, and why.
const EXCEPTIONS: &[(&str, &str, &str)] = &[
    (
        "planner",
        "routing",
        "a statement's condition becomes shards by the key's place in its map",
    ),
    (
        "enginesql",
        "farm",
        "texts name engines and ids of transactions, which are values of the farm",
    ),
    (
        "backend",
        "reactor",
        "a pool is made of the data plane's sockets; reactor knows no protocol",
    ),
    (
        "channel",
        "reactor",
        "a channel is a socket of the data plane with layers on it",
    ),
    (
        "execute",
        "auth",
        "a core keeps what logins share, and a session its client's account; auth knows no session",
    ),
    (
        "dist-txn",
        "execute",
        "its parts are statements on servers; execute knows the data of a transaction over groups, not its end",
    ),
    (
        "dist-query",
        "execute",
        "what is placed is run by execute, which knows no shard",
    ),
    (
        "dist-query",
        "dist-txn",
        "writes on several groups are one transaction; dist-txn knows no sharded table",
    ),
    (
        "session",
        "execute",
        "the front runs statements; execute knows no command loop",
    ),
    (
        "session",
        "dist-txn",
        "the front ends what a client leaves open; dist-txn knows no command loop",
    ),
    (
        "session",
        "dist-query",
        "the front has statements placed; dist-query knows no command loop",
    ),
    (
        "session",
        "auth",
        "a session asks who its client is; auth knows no session",
    ),
    (
        "kv",
        "session",
        "its statements are served as a client's are; session knows no key",
    ),
    (
        "backend",
        "channel",
        "a connection to a server is a channel; channel knows no login",
    ),
    (
        "control",
        "catalog",
        "what commands, records and events are is said once, for doors too",
    ),
    (
        "engine",
        "channel",
        "whom to trust inside TLS is said once, for both planes; channel knows no login",
    ),
];

/// Foreign crates that bring I/O, clocks or tasks: not for crates that decide purely.
const IMPURE: [&str; 8] = [
    "tokio",
    "io-uring",
    "socket2",
    "mysql_async",
    "axum",
    "libc",
    "redb",
    "futures-channel",
];

/// The repository's root.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize()
        .expect("the crate lies two folders below the root")
}

/// All files that belong to the project, relative to the root, sorted.
pub fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        for entry in entries {
            let entry = entry.expect("an entry of a folder that was just opened");
            let path = entry.path();
            let relative = path.strip_prefix(root).expect("the walk began at the root");
            let name = relative.to_string_lossy().replace('\\', "/");
            let kind = entry
                .file_type()
                .expect("the kind of a file that was just listed");
            if kind.is_dir() && !is_foreign_folder(&name) {
                folders.push(path);
            } else if kind.is_file() && name != ".git" {
                found.push(name);
            }
        }
    }
    found.sort();
    found
}

/// Folders that git ignores or that hold bytes which nobody wrote by hand.
fn is_foreign_folder(name: &str) -> bool {
    let whole = [".git", "bin", "fuzz/corpus", "fuzz/artifacts"];
    let last = name.rsplit('/').next().unwrap_or(name);
    whole.contains(&name)
        || last == "__pycache__"
        || last == "node_modules"
        || last.starts_with("target")
        || last.starts_with("heddle-data")
}

/// Reads every Rust file, and marks the files of modules that are declared for tests only.
pub fn sources(root: &Path, files: &[String]) -> Vec<Source> {
    let rust = files.iter().filter(|path| path.ends_with(".rs"));
    let mut sources: Vec<Source> = rust
        .map(|path| {
            let text = fs::read_to_string(root.join(path));
            Source::new(
                path,
                &text.unwrap_or_else(|error| panic!("{path}: {error}")),
            )
        })
        .collect();
    let test_files: Vec<String> = sources.iter().flat_map(test_files_of).collect();
    for source in &mut sources {
        let stem = source.path.trim_end_matches(".rs");
        source.is_test |= test_files.iter().any(|test| {
            stem == test
                || stem
                    .strip_prefix(test.as_str())
                    .is_some_and(|rest| rest.starts_with('/'))
        });
    }
    sources
}

/// The files, without `.rs`, of the modules that a file declares for tests only.
fn test_files_of(source: &Source) -> Vec<String> {
    let stem = source.path.trim_end_matches(".rs");
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let owns_folder = matches!(name, "lib" | "main" | "mod");
    let home = if owns_folder { folder } else { stem };
    source
        .test_modules
        .iter()
        .map(|module| format!("{home}/{module}"))
        .collect()
}

/// A dependency as written in a manifest.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    pub name: String,
    pub line: usize,
    pub for_tests: bool,
}

/// Reads the dependency tables of a manifest, `[dependencies.NAME]` and target tables included.
pub fn dependencies(manifest: &str) -> Vec<Dependency> {
    let mut found = Vec::new();
    let (mut inside, mut for_tests) = (false, false);
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(table) = line.strip_prefix('[') {
            let table = table.trim_end_matches(']');
            for_tests = table.contains("dev-dependencies");
            inside = table.ends_with("dependencies");
            if let Some((_, name)) = table.split_once("dependencies.") {
                found.push(Dependency {
                    name: name.to_string(),
                    line: index + 1,
                    for_tests,
                });
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let end = line.find(['.', ' ', '=']).unwrap_or(line.len());
            found.push(Dependency {
                name: line[..end].to_string(),
                line: index + 1,
                for_tests,
            });
        }
    }
    found
}

fn rank(name: &str) -> Option<u8> {
    RANKS
        .iter()
        .find(|(crate_name, _)| *crate_name == name)
        .map(|(_, rank)| *rank)
}

/// Checks one crate's manifest against the ranks.
pub fn ranks(crate_name: &str, manifest: &str) -> Vec<Violation> {
    let path = format!("crates/{crate_name}/Cargo.toml");
    let Some(own) = rank(crate_name) else {
        let instead = "give it a rank in this test and in docs/ARCHITECTURE.md";
        return vec![Violation::new(&path, 1, "a crate without a rank", instead)];
    };
    let mut found = Vec::new();
    for dependency in dependencies(manifest) {
        let Dependency {
            name,
            line,
            for_tests,
        } = dependency;
        if for_tests && name == "testkit" {
            continue;
        }
        if !for_tests && PURE.contains(&crate_name) && IMPURE.contains(&name.as_str()) {
            let rule = format!("{crate_name} decides purely but depends on {name}");
            let instead = "let a crate of rank 2 do the I/O and pass in what it learnt";
            found.push(Violation::new(&path, line, rule, instead));
        }
        let agreed = EXCEPTIONS
            .iter()
            .any(|(from, to, _)| *from == crate_name && *to == name);
        if let Some(other) = rank(&name)
            && other >= own
            && !agreed
        {
            let rule = format!("{crate_name} (rank {own}) depends on {name} (rank {other})");
            let instead =
                "move what both need to a lower rank, or declare a trait where it is needed";
            found.push(Violation::new(&path, line, rule, instead));
        }
    }
    found
}

/// Every crate builds with the same features, whether cargo builds it for the program alone or for all tests; otherwise
/// it would build it, and what depends on it, twice.
pub fn own_features(crate_name: &str, manifest: &str) -> Vec<Violation> {
    let path = format!("crates/{crate_name}/Cargo.toml");
    let chooses = |line: &str| {
        let line = line.trim();
        line == "[features]" || (!line.starts_with('#') && line.contains("features = "))
    };
    let chosen = manifest.lines().enumerate().filter(|(_, it)| chooses(it));
    let violation = |(index, _)| {
        let rule = "a crate that chooses features by itself";
        let instead = "give them to the dependency in the workspace's Cargo.toml";
        Violation::new(&path, index + 1, rule, instead)
    };
    chosen.map(violation).collect()
}

/// Crates that the map in docs/ARCHITECTURE.md does not place in their rank: a rank's lines begin
/// with `rank N` and end with the next rank's.
pub fn missing_in_map(map: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for &(name, rank) in RANKS {
        let mut current = None;
        let mut placed = false;
        for line in map.lines() {
            let mut words = line.split_whitespace().peekable();
            if words.next_if_eq(&"rank").is_some() {
                current = words.next().and_then(|number| number.parse::<u8>().ok());
            } else if words.next_if_eq(&"tests").is_some() {
                current = Some(TESTS_RANK);
            }
            placed |= current == Some(rank) && words.next() == Some(name);
        }
        if !placed {
            let rule = format!("the map does not show {name} in rank {rank}");
            let instead = "add its line, with its job, to the map";
            found.push(Violation::new("docs/ARCHITECTURE.md", 1, rule, instead));
        }
    }
    found
}

/// A golden file is named by a test of its crate, or lies in a folder that a test reads whole.
pub fn dead_golden_files(files: &[String], sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for path in files {
        let parts: Vec<&str> = path.split('/').collect();
        let is_golden = parts
            .iter()
            .any(|part| ["testdata", "golden", "scenarios"].contains(part));
        if parts[0] != "crates" || !is_golden || path.ends_with(".rs") || path.ends_with(".md") {
            continue;
        }
        let file = parts[parts.len() - 1];
        let stem = file.split('.').next().unwrap_or(file);
        let folder = parts[parts.len() - 2];
        let reads_it = |source: &Source| {
            let names_file =
                source.text.contains(file) || source.text.contains(&format!("\"{stem}\""));
            names_file || (source.text.contains(folder) && source.text.contains("read_dir"))
        };
        let mut own = sources
            .iter()
            .filter(|source| source.crate_name() == parts[1]);
        if !own.any(reads_it) {
            let instead = "name it in a test, or remove it";
            found.push(Violation::new(
                path,
                1,
                "a golden file that no test reads",
                instead,
            ));
        }
    }
    found
}
