//! The house rules, as a test of the tree. `on_snippets` checks the rules themselves on small texts that break them.

mod circles;
mod counted;
mod coupling;
mod links;
mod on_snippets;
mod rules;
mod settings;
mod source;
mod terms;
mod workspace;

use std::fs;
use std::sync::OnceLock;

use rules::Violation;
use source::Source;

/// All files of the project, and what those of Rust hold: read once for all rules.
fn tree() -> (&'static [String], &'static [Source]) {
    static TREE: OnceLock<(Vec<String>, Vec<Source>)> = OnceLock::new();
    let (files, sources) = TREE.get_or_init(|| {
        let root = workspace::root();
        let files = workspace::files(&root);
        let sources = workspace::sources(&root, &files);
        (files, sources)
    });
    (files, sources)
}

fn assert_none(violations: &[Violation]) {
    let lines: Vec<String> = violations.iter().map(Violation::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} broken house rules:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

fn check_sources(rule: fn(&Source) -> Vec<Violation>) {
    let (_, sources) = tree();
    assert!(
        sources.len() > 15,
        "the walk found only {} files",
        sources.len()
    );
    assert_none(&sources.iter().flat_map(rule).collect::<Vec<_>>());
}

#[test]
fn files_open_with_their_job() {
    check_sources(rules::opening);
}

#[test]
fn files_and_functions_stay_short() {
    check_sources(rules::sizes);
}

#[test]
fn unsafe_code_stands_in_reactor() {
    check_sources(rules::unsafe_code);
}

#[test]
fn nothing_calls_what_is_banned() {
    check_sources(rules::bans);
}

#[test]
fn notes_name_their_issue() {
    check_sources(rules::notes);
}

#[test]
fn re_exports_are_lists() {
    check_sources(rules::globs);
}

#[test]
fn modules_are_named_by_what_they_hold() {
    check_sources(rules::names);
}

#[test]
fn folders_of_tests_are_told() {
    let root = workspace::root().join("crates/testkit/tests");
    let page = fs::read_to_string(root.join("README.md")).expect("the page of the tests");
    for entry in fs::read_dir(&root).expect("the tests") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        let told = name == "README.md" || page.contains(&format!("`{name}`"));
        assert!(told, "crates/testkit/tests/README.md: no row for {name}");
    }
}

/// Nothing here builds the fuzz targets, so the compiler does not say it of theirs.
#[test]
fn paths_of_modules_lead_to_files() {
    let root = workspace::root();
    let mut seen = 0;
    for Source {
        path: name, text, ..
    } in tree().1
    {
        let paths = text
            .lines()
            .filter_map(|line| line.strip_prefix("#[path = \""));
        for path in paths.filter_map(|rest| rest.strip_suffix("\"]")) {
            let file = root.join(name).with_file_name(path);
            assert!(file.is_file(), "{name}: there is no {path}");
            seen += 1;
        }
    }
    assert!(seen > 10, "the walk found only {seen} paths");
}

fn check_manifests(rule: fn(&str, &str) -> Vec<Violation>) {
    let root = workspace::root();
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join("crates")).expect("the workspace has crates") {
        let entry = entry.expect("an entry of the folder of crates");
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml"));
        if let Ok(manifest) = manifest {
            found.extend(rule(&entry.file_name().to_string_lossy(), &manifest));
        }
    }
    assert_none(&found);
}

#[test]
fn dependencies_point_down() {
    check_manifests(workspace::ranks);
}

#[test]
fn features_are_chosen_once() {
    check_manifests(workspace::own_features);
}

#[test]
fn the_map_shows_every_crate() {
    let path = workspace::root().join("docs/ARCHITECTURE.md");
    let map = fs::read_to_string(path).expect("the project has a map");
    assert_none(&workspace::missing_in_map(&map));
    let moved = map.replace("rank 1 ", "rank 3 ");
    assert_eq!(workspace::missing_in_map(&moved).len(), 6);
}

#[test]
fn no_file_names_a_machine() {
    let root = workspace::root();
    let mut found = Vec::new();
    for path in tree().0 {
        // Captured bytes are not text; they name no path that anyone follows.
        if let Ok(text) = fs::read_to_string(root.join(path)) {
            found.extend(rules::machine_paths(path, &text));
        }
    }
    assert_none(&found);
}

#[test]
fn links_lead_somewhere() {
    let root = workspace::root();
    let read = |path: &String| {
        let text = fs::read_to_string(root.join(path)).ok();
        (path.clone(), text)
    };
    let files: links::Files = tree().0.iter().map(read).collect();
    let known = links::links(files["README.md"].as_ref().expect("the README is text"));
    assert!(known.len() > 20, "the README has {} links", known.len());
    assert_none(&links::broken(&files));
}

#[test]
fn every_golden_file_is_read() {
    let (files, sources) = tree();
    assert_none(&workspace::dead_golden_files(files, sources));
}

#[test]
fn counters_stand_on_their_page() {
    let root = workspace::root();
    let (_, sources) = tree();
    let counters: Vec<_> = sources.iter().flat_map(counted::counters).collect();
    assert!(
        counters.len() > 180,
        "the walk found only {} counters",
        counters.len()
    );
    let page = fs::read_to_string(root.join(counted::PAGE)).expect("counters have a page");
    assert_none(&counted::differences(&counters, &page));
    assert_none(&counted::idle(&counters, sources));
}

#[test]
fn settings_are_read() {
    let (_, sources) = tree();
    let declared: Vec<_> = sources.iter().flat_map(settings::declared).collect();
    assert!(
        declared.len() > 200,
        "the walk found only {} settings",
        declared.len()
    );
    assert_none(&settings::unread(&declared, sources));
}

#[test]
fn types_and_circles_stay_small() {
    assert_none(&coupling::excess(tree().1, coupling::KNOWN));
}

#[test]
fn folders_stay_small() {
    assert_none(&coupling::crowded(tree().1));
}

#[test]
fn words_of_before_are_gone() {
    let root = workspace::root();
    let page = fs::read_to_string(root.join("docs/TERMS.md")).expect("the page of terms");
    let retired = terms::Retired::of_page(&page);
    let count = retired.len();
    assert!(count > 5, "the page lists only {count} words");
    let (_, sources) = tree();
    let found = sources.iter().flat_map(|source| retired.found(source));
    assert_none(&found.collect::<Vec<_>>());
}
