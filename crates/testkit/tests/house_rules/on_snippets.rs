//! The house rules themselves, on small texts that break them.

use crate::rules::Violation;
use crate::source::Source;
use crate::{circles, counted, coupling, links, rules, settings, workspace};

const HEAD: &str = "//! A file.\n";

/// The lines, in the order found, at which a snippet breaks a rule.
fn lines(rule: fn(&Source) -> Vec<Violation>, path: &str, text: &str) -> Vec<usize> {
    rule(&Source::new(path, text))
        .iter()
        .map(|violation| violation.line)
        .collect()
}

#[test]
fn rule_opening() {
    assert_eq!(
        lines(rules::opening, "crates/farm/src/a.rs", "use std::io;\n"),
        [1]
    );
    assert_eq!(lines(rules::opening, "crates/farm/src/a.rs", HEAD), []);
    let root = "crates/farm/src/lib.rs";
    assert_eq!(lines(rules::opening, root, HEAD), [1, 1, 1]);
    let whole =
        "//! A crate.\n//!\n//! Job: x.\n//!\n//! Invariants: y.\n//!\n//! Must not know: z.\n";
    assert_eq!(lines(rules::opening, root, whole), []);
    assert_eq!(
        lines(
            rules::opening,
            root,
            &whole.replace("Must not know", "Knows")
        ),
        [1]
    );
}

#[test]
fn rule_sizes() {
    let path = "crates/farm/src/a.rs";
    let body = |count: usize| format!("fn long() {{\n{}}}\n", "    let _ = '{';\n".repeat(count));
    assert_eq!(
        lines(rules::sizes, path, &body(rules::FUNCTION_LINES_MAX - 2)),
        []
    );
    assert_eq!(
        lines(rules::sizes, path, &body(rules::FUNCTION_LINES_MAX - 1)),
        [1]
    );
    let file = "// x\n".repeat(rules::FILE_LINES_MAX);
    assert_eq!(lines(rules::sizes, path, &file), []);
    assert_eq!(
        lines(rules::sizes, path, &format!("{file}//\n")),
        [rules::FILE_LINES_MAX + 1]
    );
    // A brace in a string or comment does not lengthen or shorten a function.
    let tricky = Source::new(
        path,
        "fn a() -> [u8; 2] {\n \"}\"; r#\"}\"#; /* } */ b'}';\n}\nfn b() {}\n",
    );
    let found: Vec<_> = tricky
        .functions
        .iter()
        .map(|function| function.lines.clone())
        .collect();
    assert_eq!(found, [1..=3, 4..=4]);
}

#[test]
fn rule_unsafe() {
    let block = "fn a() {\n    unsafe { b() }\n}\n";
    assert_eq!(
        lines(rules::unsafe_code, "crates/farm/src/a.rs", block),
        [2]
    );
    assert_eq!(
        lines(rules::unsafe_code, "crates/reactor/src/a.rs", block),
        [2]
    );
    let reasoned = "fn a() {\n    // SAFETY: b has no\n    // conditions.\n    unsafe { b() }\n}\n";
    assert_eq!(
        lines(rules::unsafe_code, "crates/reactor/src/a.rs", reasoned),
        []
    );
    assert_eq!(
        lines(rules::unsafe_code, "crates/farm/src/a.rs", reasoned),
        [4]
    );
    let only_words = "// unsafe\n#![deny(unsafe_code)]\nconst A: &str = \"unsafe\";\n";
    assert_eq!(
        lines(rules::unsafe_code, "crates/farm/src/a.rs", only_words),
        []
    );
}

#[test]
fn rule_parser() {
    let text = "fn a() {\n    Parser::new(&MySqlDialect {});\n}\n";
    assert_eq!(lines(rules::bans, "crates/planner/src/read.rs", text), [2]);
    assert_eq!(lines(rules::bans, "crates/planner/src/depth.rs", text), []);
}

#[test]
fn rule_unwrap() {
    let text = "fn a() { b.unwrap(); }\n#[cfg(test)]\nmod tests {\n fn c() { d.unwrap(); }\n}\n";
    assert_eq!(lines(rules::bans, "crates/meta/src/a.rs", text), [1]);
    assert_eq!(lines(rules::bans, "crates/meta/tests/a.rs", text), []);
    let fine = "fn a() { b.unwrap_or(1); c.expect(\"it is .unwrap()\"); } // .unwrap()\n";
    assert_eq!(lines(rules::bans, "crates/meta/src/a.rs", fine), []);
}

#[test]
fn rule_sleep() {
    let text = "fn a() { std::thread::sleep(b); }\n#[cfg(test)]\nmod tests {\n fn c() { thread::sleep(d) }\n}\n";
    assert_eq!(lines(rules::bans, "crates/session/src/a.rs", text), [1, 4]);
    assert_eq!(lines(rules::bans, "crates/mysqld/src/a.rs", text), [4]);
    assert_eq!(lines(rules::bans, "crates/mysqld/tests/a.rs", text), [1, 4]);
    let waits = "pub fn wait_until() { thread::sleep(a) }\n";
    assert_eq!(lines(rules::bans, "crates/testkit/src/wait.rs", waits), []);
    assert_eq!(lines(rules::bans, "crates/testkit/src/farm.rs", waits), [1]);
    let timer = "async fn a() { tokio::time::sleep(b).await }\n";
    assert_eq!(lines(rules::bans, "crates/control/tests/a.rs", timer), [1]);
    assert_eq!(lines(rules::bans, "crates/control/src/a.rs", timer), []);
}

#[test]
fn rule_printing_and_unfinished_places() {
    let text = "fn a() { println!(\"b\"); eprintln!(\"c\"); }\n";
    assert_eq!(lines(rules::bans, "crates/meta/src/a.rs", text), [1, 1]);
    assert_eq!(lines(rules::bans, "crates/heddle/src/a.rs", text), []);
    assert_eq!(lines(rules::bans, "crates/meta/build.rs", text), []);
    let unfinished = "fn a() { todo!() }\nfn b() { unimplemented!() }\nfn c() { dbg!(1); }\n";
    assert_eq!(
        lines(rules::bans, "crates/heddle/tests/a.rs", unfinished),
        [1, 2, 3]
    );
}

#[test]
fn rule_purity() {
    let text = "use std::net::TcpStream;\nfn a() { Instant::now(); }\n";
    assert_eq!(lines(rules::bans, "crates/routing/src/a.rs", text).len(), 2);
    assert_eq!(lines(rules::bans, "crates/engine/src/a.rs", text), []);
}

#[test]
fn rule_notes() {
    let text =
        "// TODO: later\n// TODO #12: later\n// FIXME\nconst TODO: &str = \"TODO\"; // #x HACK\n";
    assert_eq!(lines(rules::notes, "crates/farm/src/a.rs", text), [1, 3, 4]);
}

#[test]
fn rule_globs() {
    let text = "pub use a::*;\npub use b::{c, d};\nuse e::*;\npub(crate) use f::{\n    g::*,\n};\n";
    assert_eq!(lines(rules::globs, "crates/farm/src/a.rs", text), [1, 4]);
}

#[test]
fn rule_names() {
    assert_eq!(lines(rules::names, "crates/farm/src/util.rs", HEAD), [1]);
    assert_eq!(lines(rules::names, "crates/farm/src/types/a.rs", HEAD), [1]);
    let text = "mod helpers;\npub mod account;\nmod common {}\n";
    assert_eq!(lines(rules::names, "crates/farm/src/lib.rs", text), [1, 3]);
}

#[test]
fn rule_machine_paths() {
    let text = format!(
        "see {}main\nhttps://example.org/net{}x\n",
        "/wo\u{72}k/", "/wo\u{72}k/"
    );
    let found = rules::machine_paths("README.md", &text);
    assert_eq!(
        found
            .iter()
            .map(|violation| violation.line)
            .collect::<Vec<_>>(),
        [1]
    );
}

#[test]
fn rule_counted() {
    let text = "counters! {\n    a \"An a.\";\n    b_now \"Some b.\";\n}\n\
                fn c() {\n    f(\"c\", \"A c.\"); // (\"d\", \"A d.\")\n    \
                Family { name: \"heddle_e\" };\n}\n\
                #[cfg(test)]\nmod tests {\n    fn g() { f(\"g\", \"A g.\"); }\n}\n";
    let table = Source::new("crates/session/src/a.rs", text);
    let counters = counted::counters(&table);
    let names: Vec<_> = counters.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["a", "b_now", "c", "heddle_e"]);
    let page = "| where | how |\n| `x` | y |\n\n| name | counts |\n| --- | --- |\n\
                | `a`, `b_now` *gauge* | of `z` |\n| `c` | |\n| `heddle_e{by,how}` | |\n";
    let lines_of = |page: &str| {
        let found = counted::differences(&counters, page);
        let places = found.iter().map(|one| (one.path.clone(), one.line));
        places.collect::<Vec<_>>()
    };
    let (code, page_path) = (table.path.clone(), counted::PAGE.to_string());
    assert_eq!(lines_of(page), []);
    assert_eq!(lines_of(&page.replace("`b_now`", "")), [(code.clone(), 3)]);
    let other = page.replace("`heddle_e{by,how}`", "`heddle_f`");
    assert_eq!(lines_of(&other), [(code, 7), (page_path.clone(), 8)]);
    let twice = page.replace("`c`", "`c`, `a`");
    assert_eq!(lines_of(&twice), [(page_path, 7)]);
    // Of the rows of a table, `a` is counted, and `b_now` in tests only.
    let user = "fn h() { count(&x.a); }\n#[cfg(test)]\nmod tests {\n fn i() { x.b_now; }\n}\n";
    let user = Source::new("crates/session/src/b.rs", user);
    let idle = counted::idle(&counters, &[table, user]);
    let lines: Vec<_> = idle.iter().map(|one| one.line).collect();
    assert_eq!(lines, [3]);
}

#[test]
fn rule_settings() {
    let unread = |files: &[(&str, &str)]| {
        let sources: Vec<_> = files
            .iter()
            .map(|&(at, text)| Source::new(at, text))
            .collect();
        let declared: Vec<_> = sources.iter().flat_map(settings::declared).collect();
        let found = settings::unread(&declared, &sources);
        found.iter().map(|one| one.line).collect::<Vec<_>>()
    };
    let table = "settings! {\n    a: u64 = \"1\" \"\" Live\n        \"An a.\";\n    \
                 b_ms: Switch = \"on\" \"\" Live\n        \"A b.\";\n}\n";
    let table = ("crates/heddle/src/settings/mod.rs", table);
    let reader = |text| [table, ("crates/heddle/src/a.rs", text)];
    assert_eq!(unread(&reader("fn f() { g(s.a, s.b_ms.0); }\n")), []);
    assert_eq!(
        unread(&reader("fn f() { g(s.a); s.b_ms = 1; } // s.b_ms\n")),
        [4]
    );
    let only_tests = "#[cfg(test)]\nmod tests {\n fn f() { g(s.a, s.b_ms); }\n}\n";
    assert_eq!(unread(&reader(only_tests)), [2, 4]);
    let obeys = |text| {
        let carried = "pub struct Settings {\n    /// A c.\n    pub c: u64,\n    pub d: u64,\n}\n\
                       impl Settings {\n    fn new() { Settings { c: 1, d: 2 }; }\n}\n";
        let elsewhere = ("crates/session/src/a.rs", "fn f() { s.c; s.d; }\n");
        let carried = ("crates/control/src/settings.rs", carried);
        unread(&[carried, elsewhere, ("crates/control/src/a.rs", text)])
    };
    assert_eq!(obeys("fn f() { s.c == s.d; }\n"), []);
    assert_eq!(obeys("fn f() { let Settings { c, .. } = s; }\n"), [4]);
    assert_eq!(obeys("fn f() { s.c(); s.d = 1; }\n"), [3, 4]);
}

#[test]
fn rule_coupling() {
    let file = |path: &str, text: &str| Source::new(&format!("crates/farm/src/{path}"), text);
    let broken = |sources: &[Source], known: &[(&str, &str, usize)]| -> Vec<String> {
        let found = coupling::excess(sources, known);
        found.into_iter().map(|it| it.rule).collect()
    };
    let methods = |many: usize| "    fn a() {\n    }\n".repeat(many);
    let of_type = |many: usize| format!("impl Farm {{\n{}}}\n", methods(many));
    let max = coupling::METHODS_MAX;
    assert!(broken(&[file("a.rs", &of_type(max))], &[]).is_empty());
    let many = [file("a.rs", &of_type(max)), file("b.rs", &of_type(1))];
    let what = format!("farm::Farm {} methods, {max} at most", max + 1);
    assert_eq!(broken(&many, &[]), [what]);
    assert!(broken(&many, &[("methods", "farm::Farm", max + 1)]).is_empty());
    // What has shrunk shrinks in the list, too, and what is gone goes.
    assert_eq!(
        broken(&many, &[("methods", "farm::Farm", max + 2)]).len(),
        1
    );
    assert_eq!(broken(&[], &[("methods", "farm::Farm", max)]).len(), 1);

    let spread = |many: usize| -> Vec<Source> {
        let path = |at: usize| format!("{}/{at}.rs", at % 2);
        (0..many).map(|at| file(&path(at), &of_type(1))).collect()
    };
    assert!(broken(&spread(coupling::FILES_OF_TYPE_MAX), &[]).is_empty());
    assert_eq!(
        broken(&spread(coupling::FILES_OF_TYPE_MAX + 1), &[]).len(),
        1
    );

    let fields = |many: usize| format!("struct A {{\n{}}}\n", "    pub a: u8,\n".repeat(many));
    assert!(broken(&[file("a.rs", &fields(coupling::FIELDS_MAX))], &[]).is_empty());
    assert_eq!(
        broken(&[file("a.rs", &fields(coupling::FIELDS_MAX + 1))], &[]).len(),
        1
    );

    let flat = |many: usize| -> Vec<Source> {
        (0..many).map(|at| file(&format!("{at}.rs"), "")).collect()
    };
    assert!(coupling::crowded(&flat(coupling::FILES_FLAT_MAX)).is_empty());
    let found = coupling::crowded(&flat(coupling::FILES_FLAT_MAX + 1));
    assert_eq!(found[0].path, "crates/farm/src");
    assert_eq!(found.len(), 1);

    let circle = |many: usize| -> Vec<Source> {
        let next = |at: usize| (at + 1) % many;
        let one = |at: usize| {
            file(
                &format!("m{at}.rs"),
                &format!("use crate::m{}::A;\n", next(at)),
            )
        };
        (0..many).map(one).collect()
    };
    assert!(broken(&circle(coupling::CIRCLE_MAX), &[]).is_empty());
    let found = broken(&circle(coupling::CIRCLE_MAX + 1), &[]);
    assert_eq!(
        found,
        [format!(
            "farm {} files in a circle, {} at most",
            coupling::CIRCLE_MAX + 1,
            coupling::CIRCLE_MAX
        )]
    );
}

#[test]
fn circles_are_found_in_every_form_of_import() {
    let circle = |files: &[(&str, &str)]| {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| Source::new(&format!("crates/farm/src/{path}"), text))
            .collect();
        circles::largest(&sources.iter().collect::<Vec<_>>())
    };
    let back = |text: &str| circle(&[("a/mod.rs", "use super::b::B;\n"), ("b.rs", text)]);
    assert_eq!(back("use crate::{c::{C, D}, a::{self, A}};\n"), 2);
    assert_eq!(back("use super::{\n    c,\n    a::A as Other,\n};\n"), 2);
    assert_eq!(back("fn b() {\n    crate::a::c::run(1);\n}\n"), 2);
    assert_eq!(back("fn b() {\n    use self::super::a;\n}\n"), 2);
    // Not an import: another crate's module of that name, a macro's crate, a comment, what tests name.
    assert_eq!(back("use other::a::A;\nfn b() {\n    a::run();\n}\n"), 0);
    assert_eq!(back("// crate::a::A\nm!($crate::a::A);\n"), 0);
    assert_eq!(
        back("#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        0
    );
    // A module names what is inside it without a word in front.
    let inside = [
        ("a/mod.rs", "fn a() {\n    b::run();\n}\n"),
        ("a/b.rs", "use super::A;\n"),
    ];
    assert_eq!(circle(&inside), 2);
    // What a module passes on stands where it is defined.
    let passed = |user: &'static str| {
        let passes = "mod d;\npub use d::D as E;\npub(crate) use crate::c::C;\n";
        let c = "use crate::a::b::B;\n";
        circle(&[
            ("lib.rs", passes),
            ("a/b.rs", user),
            ("c.rs", c),
            ("d.rs", ""),
        ])
    };
    assert_eq!(passed("use crate::{C, E};\n"), 2);
    assert_eq!(passed("use crate::E;\n"), 0);
}

#[test]
fn rule_links() {
    // Pages that are not there must not be named whole in this file.
    let page = |name: &str| format!("docs/{name}.md");
    let broken = |files: &[(&str, &str)]| {
        let files = files.iter().map(|(path, text)| {
            let path = if path.contains('.') {
                path.to_string()
            } else {
                page(path)
            };
            (path, Some(text.replace("PAGE", &page("A"))))
        });
        let found = links::broken(&files.collect());
        let places = found
            .iter()
            .map(|one| format!("{}:{}", one.path.replace(".md", ""), one.line));
        places.collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    let index = ("README.md", "[a](PAGE)\n");
    let text = "# A\n## «Did it?», `b_c` - d\n## Twice\n## Twice\n";
    let here = "[a](#a) [b](#did-it-b_c---d) [c](A.md#twice-1) [d](../README.md) [e](https://e.org/x.md)\n";
    assert_eq!(broken(&[index, ("A", &format!("{text}{here}"))]), none);
    let away = "[a](#gone)\n[b\nb](B.md) `[c](C.md)`\n```\n[d](D.md)\n```\n[e](../README.md#e)\n";
    assert_eq!(
        broken(&[index, ("A", away)]),
        ["docs/A:1", "docs/A:3", "docs/A:7"]
    );
    let code = |line: &str| broken(&[index, ("A", text), ("a.rs", line)]);
    assert_eq!(code("// PAGE PAGE#twice: x docs/x.md\n"), none);
    let gone = format!("// {}\n// PAGE#gone\n", page("B"));
    assert_eq!(code(&gone), ["a.rs:1", "a.rs:2"]);
    assert_eq!(broken(&[("README.md", ""), ("A", text)]), ["docs/A:1"]);
    // A file of Rust is named by the end of its path.
    let source = ("crates/a/src/b/c.rs", "");
    let named = "see `b/c.rs`, `c.rs`,\n`src/b/c.rs` (https://docs.rs/regex)\n`d/c.rs` `e.rs`\n";
    let pages = [index, ("A", named), source];
    assert_eq!(broken(&pages), ["docs/A:3", "docs/A:3"]);
}

#[test]
fn rule_ranks() {
    let up = "[package]\nname = \"x\"\n[dependencies]\nfarm.workspace = true\nsession = { path = \"a\" }\n";
    let lines = |found: Vec<Violation>| found.iter().map(|one| one.line).collect::<Vec<_>>();
    assert_eq!(lines(workspace::ranks("meta", up)), [5]);
    assert_eq!(lines(workspace::ranks("heddle", up)), []);
    assert_eq!(lines(workspace::ranks("nowhere", up)), [1]);
    let within = "[dependencies.reactor]\nworkspace = true\n";
    assert_eq!(lines(workspace::ranks("backend", within)), []);
    assert_eq!(lines(workspace::ranks("engine", within)), [1]);
    let impure =
        "[dependencies]\ntokio.workspace = true\n[dev-dependencies]\ntokio.workspace = true\n";
    assert_eq!(lines(workspace::ranks("routing", impure)), [2]);
    let tests = "[dev-dependencies]\ntestkit.workspace = true\nsession.workspace = true\n";
    assert_eq!(lines(workspace::ranks("meta", tests)), [3]);
}

#[test]
fn rule_own_features() {
    let own = "[features]\n[dependencies]\nfarm.workspace = true\n# features = \nx = { workspace = true, features = [\"y\"] }\n";
    let found = workspace::own_features("meta", own);
    assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), [1, 5]);
}

#[test]
fn rule_golden_files() {
    let golden = ["a.txt", "b.txt"].map(|name| format!("crates/farm/tests/testdata/{name}"));
    let names_one = Source::new("crates/farm/tests/a.rs", "const A: &str = \"a.txt\";\n");
    let found = workspace::dead_golden_files(&golden, &[names_one]);
    assert_eq!(
        found
            .iter()
            .map(|one| one.path.as_str())
            .collect::<Vec<_>>(),
        [&golden[1]]
    );
    let reads_all = Source::new(
        "crates/farm/tests/a.rs",
        "fs::read_dir(\"tests/testdata\")\n",
    );
    assert_eq!(workspace::dead_golden_files(&golden, &[reads_all]), []);
}

#[test]
fn test_modules_in_files_of_their_own_are_tests() {
    let lib = Source::new(
        "crates/farm/src/lib.rs",
        "#[cfg(test)]\n#[rustfmt::skip]\nmod tests;\nmod real;\n",
    );
    assert_eq!(lib.test_modules, ["tests"]);
    let both = Source::new("crates/farm/src/lib.rs", "#[cfg(not(test))]\nmod real;\n");
    assert_eq!(both.test_modules, [] as [&str; 0]);
}

#[test]
fn all_rules_run_on_one_file() {
    let text = "fn a() { b.unwrap() } // TODO\n";
    let found = rules::all(&Source::new("crates/meta/src/misc.rs", text));
    let whole: Vec<String> = found.iter().map(Violation::to_string).collect();
    assert_eq!(whole.len(), 4, "{whole:#?}");
    assert!(
        whole[1].starts_with("crates/meta/src/misc.rs:1: `unwrap` outside tests"),
        "{whole:#?}"
    );
}
