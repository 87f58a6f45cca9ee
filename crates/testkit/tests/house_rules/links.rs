//! The rules on pages: what a page links to is there, heading and all; a file of Rust that a page names is
//! there; what other files call a page of `docs/` is one; and a newcomer finds every page from the README.

use std::collections::{BTreeMap, BTreeSet};

use crate::rules::Violation;

/// Every file by its path; a file that is no text has none.
pub type Files = BTreeMap<String, Option<String>>;

const INDEX: &str = "README.md";

/// What is wrong with the links and mentions of all files.
pub fn broken(files: &Files) -> Vec<Violation> {
    let mut found = Vec::new();
    for (path, text) in files {
        let Some(text) = text else { continue };
        if path.ends_with(".md") {
            found.extend(broken_links(path, text, files));
            found.extend(missing_sources(path, text, files));
        } else {
            found.extend(broken_mentions(path, text, files));
        }
    }
    found.extend(pages_that_nobody_finds(files));
    found
}

fn broken_links(path: &str, text: &str, files: &Files) -> Vec<Violation> {
    let mut found = Vec::new();
    for (line, target) in links(text) {
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let whole = if file.is_empty() {
            path.to_string()
        } else {
            resolved(path, file)
        };
        found.extend(missing(path, line, &whole, anchor, files));
    }
    found
}

/// Names of files of Rust between backticks, each the end of a path: `src/lib.rs`.
fn missing_sources(path: &str, text: &str, files: &Files) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let spans = line.split('`').skip(1).step_by(2);
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
        let names = spans.filter(|span| span.ends_with(".rs") && span.chars().all(is_name));
        for name in names {
            let inside = format!("/{name}");
            if !files
                .keys()
                .any(|file| file == name || file.ends_with(&inside))
            {
                let rule = format!("{name} is not there");
                let instead = "name the file that has taken its place";
                found.push(Violation::new(path, index + 1, rule, instead));
            }
        }
    }
    found
}

/// Names of pages in `docs/`, perhaps with `#heading`, in code, settings and scripts.
fn broken_mentions(path: &str, text: &str, files: &Files) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (at, start) in line.match_indices("docs/") {
            let name_at = at + start.len();
            let name = word(&line[name_at..], |c| c.is_ascii_uppercase() || c == '_');
            let Some(behind) = line[name_at + name.len()..].strip_prefix(".md") else {
                continue;
            };
            if name.is_empty() {
                continue;
            }
            let anchor = behind.strip_prefix('#').unwrap_or("");
            let anchor = word(anchor, |c| c.is_alphanumeric() || c == '-' || c == '_');
            let page = format!("docs/{name}.md");
            found.extend(missing(path, index + 1, &page, anchor, files));
        }
    }
    found
}

fn word(text: &str, belongs: impl Fn(char) -> bool) -> &str {
    let end = text.find(|c| !belongs(c)).unwrap_or(text.len());
    &text[..end]
}

fn missing(
    path: &str,
    line: usize,
    target: &str,
    anchor: &str,
    files: &Files,
) -> Option<Violation> {
    let Some(text) = files.get(target) else {
        let folder = format!("{}/", target.trim_end_matches('/'));
        let is_folder = files.keys().any(|file| file.starts_with(&folder));
        let rule = format!("{target} is not there");
        let instead = "name the page that has taken its place";
        return (!is_folder).then(|| Violation::new(path, line, rule, instead));
    };
    let is_there = anchor.is_empty()
        || text
            .as_ref()
            .is_some_and(|text| anchors(text).contains(anchor));
    let rule = format!("{target} has no heading #{anchor}");
    let instead = "name a heading that is there, or give the page its old one again";
    (!is_there).then(|| Violation::new(path, line, rule, instead))
}

/// Pages of `docs/` that the README does not link to.
fn pages_that_nobody_finds(files: &Files) -> Vec<Violation> {
    let Some(Some(index)) = files.get(INDEX) else {
        return Vec::new();
    };
    let named: BTreeSet<String> = links(index)
        .into_iter()
        .map(|(_, target)| target.split('#').next().unwrap_or_default().to_string())
        .collect();
    files
        .keys()
        .filter(|path| path.starts_with("docs/") && path.ends_with(".md"))
        .filter(|path| !named.contains(*path))
        .map(|path| {
            let instead = "add it to the README's list of pages";
            Violation::new(path, 1, "a page that the README does not name", instead)
        })
        .collect()
}

/// The path of `file` as seen from the page `from`.
fn resolved(from: &str, file: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            name => parts.push(name),
        }
    }
    parts.join("/")
}

/// The links of a page that lead within the repository, with their lines.
pub fn links(text: &str) -> Vec<(usize, String)> {
    let prose = prose(text);
    let mut found = Vec::new();
    for (at, bracket) in prose.match_indices("](") {
        let rest = &prose[at + bracket.len()..];
        let target = &rest[..rest.find(')').unwrap_or(rest.len())];
        if !target.contains("://") && !target.starts_with("mailto:") {
            let line = prose[..at].matches('\n').count() + 1;
            found.push((line, target.to_string()));
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut is_code = false;
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if is_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor = anchor_of(title.trim());
        let first = anchor.clone();
        let numbered = (1..).map(|number| format!("{first}-{number}"));
        let free = std::iter::once(anchor).chain(numbered);
        found.extend(free.into_iter().find(|anchor| !found.contains(anchor)));
    }
    found
}

fn anchor_of(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The text with blanks in place of code, fenced or between backticks; lines stay where they are.
fn prose(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    let (mut is_fenced, mut is_code) = (false, false);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        // A span of code ends with its paragraph at the latest.
        is_code &= !line.trim().is_empty();
        if !is_fenced && !is_fence {
            for c in line.chars() {
                is_code ^= c == '`';
                found.push(if is_code { ' ' } else { c });
            }
        }
        found.push('\n');
    }
    found
}
