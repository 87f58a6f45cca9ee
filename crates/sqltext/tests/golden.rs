//! Golden scenarios: every statement in `testdata/*.txt` with what is read from it.
//!
//! A file holds lines of four kinds: `#` comments, `mode: …` for the statements below it, `> ` a
//! statement (several such lines are one text), and, indented, the answers. `UPDATE_GOLDEN=1` writes
//! the answers anew, and the statements as seeds of the fuzz target; commit such a change only if you know why each line changed.

// A test may stop at what it did not expect.
#![allow(clippy::unwrap_used)]

mod checking;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use sqltext::{Dialect, Facts, Mode, Multibyte, Scan, Span, normalise};

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let entries = fs::read_dir(&folder).expect("the folder of scenarios is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// `mariadb 101106 ansi_quotes no_backslash_escapes charset=gbk`
fn mode(words: &str) -> Mode {
    let mut words = words.split_whitespace();
    let dialect = match words.next() {
        Some("mariadb") => Dialect::MariaDb,
        Some("mysql") => Dialect::MySql,
        other => panic!("no dialect: {other:?}"),
    };
    let version = words
        .next()
        .and_then(|word| word.parse().ok())
        .expect("a version");
    let mut mode = Mode::new(dialect, version);
    for word in words {
        match word.split_once('=') {
            Some(("charset", name)) => mode.multibyte = Multibyte::of_charset(name),
            _ if word == "ansi_quotes" => mode.ansi_quotes = true,
            _ if word == "no_backslash_escapes" => mode.no_backslash_escapes = true,
            _ => panic!("no such mode: {word}"),
        }
    }
    mode
}

/// Every statement of every file, with its mode.
fn statements() -> Vec<(Mode, String)> {
    let mut all = Vec::new();
    for file in files() {
        let mut at = Mode::new(Dialect::MariaDb, 101_106);
        let mut text = String::new();
        for line in fs::read_to_string(&file).unwrap().lines().chain([""]) {
            if let Some(words) = line.strip_prefix("mode: ") {
                at = mode(words);
            }
            if let Some(part) = line.strip_prefix('>') {
                let separator = if text.is_empty() { "" } else { "\n" };
                text = format!(
                    "{text}{separator}{}",
                    part.strip_prefix(' ').unwrap_or(part)
                );
            } else if !text.is_empty() {
                all.push((at, std::mem::take(&mut text)));
            }
        }
    }
    all
}

fn piece(span: Span, text: &str) -> String {
    String::from_utf8_lossy(span.of(text.as_bytes())).into_owned()
}

/// The answers as they stand in a file.
fn answers(text: &str, mode: &Mode, scan: &mut Scan) -> String {
    scan.read(text.as_bytes(), mode);
    let mut out = format!("  {:?} {:?}\n", scan.class, scan.verb);
    let names: Vec<&str> = scan.facts.iter_names().map(|(name, _)| name).collect();
    if !names.is_empty() {
        writeln!(out, "  facts: {}", names.join(" ")).unwrap();
    }
    if scan.statements > 1 {
        writeln!(out, "  statements: {}", scan.statements).unwrap();
    }
    if scan.placeholders > 0 {
        writeln!(out, "  placeholders: {}", scan.placeholders).unwrap();
    }
    if !scan.literals.is_empty() {
        let literals: Vec<String> = scan
            .literals
            .iter()
            .map(|span| piece(*span, text))
            .collect();
        writeln!(
            out,
            "  literals: {}",
            literals.join(" ¦ ").replace('\n', "\\n")
        )
        .unwrap();
    }
    if let Some(ms) = scan.hint.ms {
        writeln!(out, "  hint: ms {ms:?}").unwrap();
    }
    for pair in &scan.hint.heddle {
        writeln!(
            out,
            "  hint: {} = {}",
            piece(pair.key, text),
            piece(pair.value, text)
        )
        .unwrap();
    }
    if let Some(span) = scan.hint.malformed {
        writeln!(out, "  hint not understood: {}", piece(span, text)).unwrap();
    }
    let mut normal = String::new();
    normalise(text.as_bytes(), mode, &mut normal);
    writeln!(out, "  normal: {}", normal.replace('\n', "\\n")).unwrap();
    out
}

/// The file with fresh answers.
fn rewritten(old: &str) -> String {
    let mut scan = Scan::new();
    let mut at = Mode::new(Dialect::MariaDb, 101_106);
    let mut out = String::new();
    let mut text = String::new();
    for line in old.lines().chain([""]) {
        if let Some(part) = line.strip_prefix('>') {
            let separator = if text.is_empty() { "" } else { "\n" };
            text = format!(
                "{text}{separator}{}",
                part.strip_prefix(' ').unwrap_or(part)
            );
        } else if !text.is_empty() {
            out += &answers(&text, &at, &mut scan);
            text.clear();
        }
        if let Some(words) = line.strip_prefix("mode: ") {
            at = mode(words);
        }
        if !line.starts_with("  ") {
            out += line;
            out.push('\n');
        }
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

#[test]
fn scenarios_hold() {
    for file in files() {
        let old = fs::read_to_string(&file).unwrap();
        let new = rewritten(&old);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&file, &new).unwrap();
            continue;
        }
        let difference = old
            .lines()
            .zip(new.lines())
            .enumerate()
            .find(|(_, (a, b))| a != b);
        if let Some((number, (a, b))) = difference {
            panic!(
                "{}:{}:\n  file: {a}\n  read: {b}",
                file.display(),
                number + 1
            );
        }
        assert_eq!(
            old.len(),
            new.len(),
            "{}: lines are missing",
            file.display()
        );
    }
}

#[test]
fn statements_are_seeds_of_the_fuzz_target() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/sqltext_scan");
    for (number, (mode, text)) in statements().iter().enumerate() {
        let mut seed = vec![checking::byte_of(mode)];
        seed.extend_from_slice(text.as_bytes());
        let file = folder.join(format!("scenario-{number:03}"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(file, seed).unwrap();
        } else {
            assert_eq!(
                fs::read(&file).unwrap_or_default(),
                seed,
                "{}",
                file.display()
            );
        }
    }
}

#[test]
fn seeds_and_past_findings_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/sqltext_scan");
    for entry in fs::read_dir(folder).expect("the corpus is there") {
        let path = entry.unwrap().path();
        println!("{}", path.display());
        checking::check(&fs::read(&path).unwrap());
    }
}

#[test]
fn there_are_enough_scenarios_of_both_dialects() {
    let all = statements();
    for dialect in [Dialect::MariaDb, Dialect::MySql] {
        let count = all
            .iter()
            .filter(|(mode, _)| mode.dialect == dialect)
            .count();
        assert!(count >= 40, "{dialect:?}: {count}");
    }
    assert!(all.len() >= 150, "{}", all.len());
}

#[test]
fn prefixes_of_every_statement_can_be_read() {
    let mut scan = Scan::new();
    let mut normal = String::new();
    for (mode, text) in statements() {
        for end in 0..=text.len() {
            let prefix = &text.as_bytes()[..end];
            scan.read(prefix, &mode);
            for span in &scan.literals {
                assert!(span.start < span.end && span.end as usize <= end, "{text}");
            }
            normalise(prefix, &mode, &mut normal);
        }
    }
}

#[test]
fn a_normal_form_is_its_own() {
    let (mut scan, mut again) = (Scan::new(), Scan::new());
    let (mut normal, mut twice) = (String::new(), String::new());
    for (mode, text) in statements() {
        scan.read(text.as_bytes(), &mode);
        normalise(text.as_bytes(), &mode, &mut normal);
        normalise(normal.as_bytes(), &mode, &mut twice);
        assert_eq!(normal, twice, "{text}");
        again.read(normal.as_bytes(), &mode);
        assert_eq!(scan.shape, again.shape, "{text}\n{normal}");
    }
}

#[test]
fn shapes_differ_where_normal_forms_do() {
    let mut seen: Vec<(String, u128)> = Vec::new();
    let (mut scan, mut normal) = (Scan::new(), String::new());
    for (mode, text) in statements() {
        scan.read(text.as_bytes(), &mode);
        normalise(text.as_bytes(), &mode, &mut normal);
        for (other, shape) in &seen {
            assert_eq!(*other == normal, *shape == scan.shape, "{normal}\n{other}");
        }
        seen.push((normal.clone(), scan.shape));
    }
}

#[test]
fn words_in_strings_and_comments_never_trigger() {
    let mut scan = Scan::new();
    for (mode, text) in statements() {
        let flat = text.replace('\n', " ");
        if flat.contains("*/") || flat.contains(['\'', '\\', '`', '"']) {
            continue;
        }
        for hidden in [
            format!("SELECT '{flat}' FROM t"),
            format!("SELECT 1 /* {flat} */ FROM t"),
            format!("SELECT 1 FROM t -- {flat}"),
            format!("SELECT 1 # {flat}\n FROM t"),
            format!("SELECT `{flat}` FROM t"),
        ] {
            // A comment in the statement would make the text another one.
            if flat.contains("/*") && hidden.contains("1 /*") {
                continue;
            }
            scan.read(hidden.as_bytes(), &mode);
            let doubts = scan.facts & !Facts::AMBIGUOUS;
            assert_eq!(
                (scan.class, doubts),
                (sqltext::Class::Read, Facts::empty()),
                "{hidden}"
            );
        }
    }
}
