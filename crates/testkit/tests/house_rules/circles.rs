//! How many files of a crate import each other in a circle.
//!
//! A file imports another when it names that file's module, or something in it: in a `use`, nested or not, or in
//! a path in its code; from `crate`, `super` or `self`, or from a module inside its own. A name that a module only
//! passes on by `pub use` leads to the file that defines it, and passing on is no import.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use crate::coupling::live;
use crate::source::{Source, find_words};

/// `use` with what it names.
static USE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^[ \t]*(pub(?:\([a-z: ]+\))? )?use ([^;]+);"));
static PATH: LazyLock<Regex> = LazyLock::new(|| pattern(r"\w+(?:::\w+)+"));

/// A name may be passed on so many times before nobody follows it.
const STEPS_MAX: usize = 8;

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file")
}

/// The names from the crate's root to a module, or to something in one.
type Path = Vec<String>;

/// What a file names, in its own words.
#[derive(Default)]
struct Module {
    named: Vec<Path>,
    /// Names that others get from here, and where they come from.
    passed_on: BTreeMap<String, Path>,
}

type Modules = BTreeMap<Path, Module>;

/// The number of files in the largest set of which each imports, by steps, each other one; 0 without a circle.
pub fn largest(files: &[&Source]) -> usize {
    let read = files.iter().map(|source| (module(&source.path), *source));
    let sources: BTreeMap<Path, &Source> = read.collect();
    let modules: Modules = sources
        .iter()
        .map(|(own, source)| (own.clone(), named(own, &sources, &live(source))))
        .collect();
    let number: BTreeMap<&Path, usize> = modules.keys().zip(0..).collect();
    let imports = |own: &Path, module: &Module| -> BTreeSet<usize> {
        let all = module.named.iter();
        let others = all.filter_map(|path| file_of(absolute(path, own, &modules)?, &modules));
        others
            .filter(|other| other != own)
            .map(|other| number[&other])
            .collect()
    };
    let edges: Vec<_> = modules
        .iter()
        .map(|(own, module)| imports(own, module))
        .collect();
    let reached: Vec<_> = (0..edges.len()).map(|at| reach(at, &edges)).collect();
    let circle = |at: usize| {
        let others = reached[at].iter();
        others
            .filter(|&&other| reached[other].contains(&at))
            .count()
    };
    (0..edges.len()).map(circle).max().unwrap_or(0)
}

/// The module of a file within its crate; empty for the root.
fn module(path: &str) -> Path {
    let (_, inside) = path.split_once("/src/").unwrap_or_default();
    let name = inside.trim_end_matches(".rs").trim_end_matches("/mod");
    match name {
        "lib" | "main" => Path::new(),
        _ => name.split('/').map(str::to_owned).collect(),
    }
}

/// What the code of a module names.
fn named(own: &Path, sources: &BTreeMap<Path, &Source>, code: &str) -> Module {
    let mut module = Module::default();
    let mut body = code.to_owned();
    let mut passed_on = Vec::new();
    for item in USE.captures_iter(code) {
        let whole = item.get(0).expect("the whole match").range();
        body.replace_range(whole.clone(), &" ".repeat(whole.len()));
        for (path, name) in leaves(&[], &item[2]) {
            match item.get(1) {
                Some(_) => passed_on.push((name, path)),
                None => module.named.push(path),
            }
        }
    }
    for (name, path) in passed_on {
        // What is passed on may also be used here.
        if !find_words(&body, &name).is_empty() {
            module.named.push(path.clone());
        }
        module.passed_on.insert(name, path);
    }
    let inside = |name: &str| {
        let mut path = own.clone();
        path.push(name.to_owned());
        sources.contains_key(&path)
    };
    for found in PATH.find_iter(&body) {
        let before = body[..found.start()].bytes().next_back();
        let path: Path = found.as_str().split("::").map(str::to_owned).collect();
        let begins = ["crate", "super", "self"].contains(&path[0].as_str()) || inside(&path[0]);
        if begins && !matches!(before, Some(b'$' | b':' | b'.')) {
            module.named.push(path);
        }
    }
    module
}

/// The paths that a tree of `use` names, each with the name that it gets here.
fn leaves(above: &[String], tree: &str) -> Vec<(Path, String)> {
    let tree = tree.trim();
    if let Some((head, rest)) = tree.split_once('{') {
        let mut above = above.to_vec();
        let names = head.split("::").map(str::trim);
        above.extend(names.filter(|name| !name.is_empty()).map(str::to_owned));
        let end = rest.rfind('}').unwrap_or(rest.len());
        let parts = branches(&rest[..end]);
        return parts.iter().flat_map(|part| leaves(&above, part)).collect();
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.trim().to_owned())),
        None => (tree, None),
    };
    let mut whole = above.to_vec();
    whole.extend(path.split("::").map(|name| name.trim().to_owned()));
    if whole.len() > 1 && whole.last().is_some_and(|name| name == "self") {
        whole.pop();
    }
    let name = alias.or_else(|| whole.last().cloned());
    name.map(|name| (whole, name)).into_iter().collect()
}

/// The parts of a list between braces, at the commas that are in no braces of their own.
fn branches(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[start..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// A path as it is from the crate's root; `None` for one that leads out of the crate.
fn absolute(path: &[String], own: &[String], modules: &Modules) -> Option<Path> {
    let mut base = own.to_vec();
    let mut rest = path;
    match rest.first()?.as_str() {
        "crate" => return Some(rest[1..].to_vec()),
        "super" | "self" => {
            while let [first, others @ ..] = rest {
                match first.as_str() {
                    "super" => drop(base.pop()?),
                    "self" => {}
                    _ => break,
                }
                rest = others;
            }
        }
        inside => {
            let mut child = base.clone();
            child.push(inside.to_owned());
            modules.get(&child)?;
        }
    }
    base.extend_from_slice(rest);
    Some(base)
}

/// The file that defines what a path from the root leads to.
fn file_of(mut path: Path, modules: &Modules) -> Option<Path> {
    for _ in 0..STEPS_MAX {
        let mut end = path.len();
        while !modules.contains_key(&path[..end]) {
            end = end.checked_sub(1)?;
        }
        let (file, rest) = path.split_at(end);
        let passed_on = &modules[file].passed_on;
        let Some(from) = rest.first().and_then(|name| passed_on.get(name)) else {
            return Some(file.to_vec());
        };
        let mut next = absolute(from, file, modules)?;
        next.extend_from_slice(&rest[1..]);
        path = next;
    }
    None
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
