//! Rules as they are written and what they decide, and what is wrong with others.

use routing::rules::{Question, Rules};
use sqltext::{Class, Dialect, Digest, Mode, Scan};

use super::super::file::{parse, parse_rules};

const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

/// One line of a scenario: `user=app database=shop client=10.0.0.1 : TEXT`, the words in any order
/// and number.
fn decided(rules: &Rules, line: &str) -> String {
    let (words, text) = line.split_once(": ").expect("a colon before the text");
    let mut scan = Scan::new();
    scan.read(text.as_bytes(), &MODE);
    let mut question = Question::new(text.as_bytes(), &MODE, [127, 0, 0, 1].into());
    question.class = scan.class;
    question.digest = Some(Digest::of(text.as_bytes(), &MODE));
    question.writes = matches!(scan.class, Class::Write | Class::Ddl | Class::Call);
    for word in words.split_whitespace() {
        match word.split_once('=').expect("key=value") {
            ("user", user) => question.user = user.as_bytes(),
            ("database", database) => question.database = Some(database.as_bytes()),
            ("client", client) => question.client = client.parse().expect("an address"),
            other => panic!("{other:?}"),
        }
    }
    match rules.decide(&question) {
        None => "-".to_owned(),
        Some(decision) => {
            let actions = decision.actions.to_string();
            format!("{} => {actions}", rules.names(&decision))
        }
    }
}

/// Plays the scenarios: rules in TOML up to `----`, then questions, each followed by a line with its
/// answer. Returns the file as it should be.
fn play(scenarios: &str) -> String {
    let mut out = String::new();
    let mut toml = String::new();
    let mut rules = None;
    for line in scenarios.lines() {
        if line.starts_with("    ") {
            continue; // An answer; it is given anew.
        }
        out.push_str(line);
        out.push('\n');
        if line == "----" {
            let read = parse_rules(&std::mem::take(&mut toml));
            rules = Some(read.unwrap_or_else(|errors| panic!("{errors:?}")));
        } else if line == "====" {
            rules = None;
        } else if let Some(rules) = rules.as_ref().filter(|_| line.contains(": ")) {
            out.push_str(&format!("    {}\n", decided(rules, line)));
        } else if rules.is_none() {
            toml.push_str(line);
            toml.push('\n');
        }
    }
    out
}

/// `HEDDLE_WRITE_GOLDEN=1 cargo test -p heddle` writes the answers anew; read what has changed.
#[test]
fn rules_decide_as_written_down() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/rules.txt");
    let golden = std::fs::read_to_string(path).expect("the scenarios are there");
    let played = play(&golden);
    if std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() {
        std::fs::write(path, &played).expect("it can be written");
        return;
    }
    for (wanted, is) in golden.lines().zip(played.lines()) {
        assert_eq!(wanted, is);
    }
    assert_eq!(golden, played);
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    for (rule, line, part) in [
        (
            "regex = \"a(\"",
            3,
            "rule: regex: \"a(\" is not a regular expression (unclosed group)",
        ),
        (
            "rewrite = \"[\"\nrewrite_to = \"\"",
            3,
            "unclosed character class",
        ),
        ("rewrite = \"a\"", 3, "needs rewrite_to"),
        ("rewrite_to = \"a\"", 3, "with rewrite only"),
        ("usr = \"a\"", 3, "unknown key `usr`"),
        ("user = 3", 3, "a text in quotes"),
        ("user = [\"a\", \"\"]", 3, "none is empty"),
        ("table = \"t\"", 3, "DATABASE.TABLE"),
        ("digest = \"12\"", 3, "32 hexadecimal digits"),
        ("client = \"10.0.0.0/33\"", 3, "ADDRESS/BITS"),
        ("class = \"ddl\"", 3, "read or write"),
        ("level = \"best\"", 3, "eventual, session, client or strong"),
        (
            "level = \"session\"\nmax_lag_ms = 5",
            4,
            "with level = \"eventual\" only",
        ),
        ("level = \"eventual\"\nmax_lag_ms = -1", 4, "from 0 to"),
        ("delay_ms = 60001", 3, "from 1 to 60000"),
        ("timeout_ms = \"5\"", 3, "must be a number"),
        ("continue = 1", 3, "true or false"),
        ("hook = \"https://a/\"", 3, "is no http://"),
        ("hook = \"http://a:b/\"", 3, "is no http://"),
        ("hook = \"http://a/b c\"", 3, "is no http://"),
        ("hook_cache_ms = 5", 3, "with hook only"),
        (
            "hook = \"http://a\"\nhook_fallback = \"x\"",
            4,
            "route, primary or refuse",
        ),
        ("servers = []", 3, "a list of texts"),
        ("refuse = \" \"", 3, "is empty"),
    ] {
        let text = format!("threads = 1\n[[rule]]\n{rule}\n");
        let errors = parse(&text).expect_err(rule);
        assert!(
            errors[0].0 == line && errors[0].1.contains(part),
            "{rule}: {errors:?}"
        );
    }
}

#[test]
fn users_and_foreign_keys() {
    let text = "[[user]]\nname = \"report\"\nhost = \"10.%\"\nconsistency = \"eventual\"\n\
                max_lag_ms = 500\nmonotonic = \"off\"\nmarks = \"off\"\n";
    let rules = parse_rules(text).expect("right");
    let client = |ip: &str| ip.parse().expect("an address");
    let found = rules
        .defaults(b"report", client("10.1.1.1"))
        .expect("it fits");
    assert_eq!(found.max_lag_ms, Some(500));
    assert_eq!((found.monotonic, found.marks), (Some(false), Some(false)));
    assert!(rules.defaults(b"report", client("11.1.1.1")).is_none());
    assert!(rules.defaults(b"other", client("10.1.1.1")).is_none());
    for (text, line, part) in [
        (
            "[[user]]\nconsistency = \"strong\"",
            1,
            "name must be given",
        ),
        (
            "[[user]]\nname = \"a\"\nlevel = \"strong\"",
            3,
            "unknown key `level`",
        ),
        ("threads = 4", 1, "[[rule]] and [[user]] only"),
        ("[rule]\nuser = \"a\"", 1, "[[rule]]"),
        ("[[rule]]\nuser = ", 2, ""),
    ] {
        let errors = parse_rules(text).expect_err(text);
        assert!(
            errors[0].0 == line && errors[0].1.contains(part),
            "{text}: {errors:?}"
        );
    }
}
