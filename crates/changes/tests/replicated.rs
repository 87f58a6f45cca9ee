//! The example of docs/CHANGES.md: a filter and an applier of one's own read a log file.

#[path = "../examples/copy.rs"]
#[allow(dead_code, reason = "an example begins by itself")]
mod copy;

use std::fs::File;
use std::path::PathBuf;

fn file(name: &str) -> File {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name);
    File::open(path).expect("a file")
}

#[tokio::test]
async fn the_example_copies_a_table_of_both_engines() {
    for name in ["mariadb", "mysql"] {
        let copy = copy::copy(file(&format!("corpus/changes_log/{name}")))
            .await
            .expect("it is read");
        assert!(!copy.rows.contains_key("1"), "{name}: it is deleted");
        let row = &copy.rows["2"];
        assert!(row["v"].is_string(), "{name}: it was null before");
        assert!(!row.contains_key("p"), "{name}: {row:?}");
        assert!(!copy.token.is_empty());
    }
}

#[tokio::test]
async fn what_is_no_log_is_an_error() {
    assert!(copy::copy(file("Cargo.toml")).await.is_err());
}

#[test]
fn the_page_has_the_example() {
    let read = |name: &str| std::io::read_to_string(file(name)).expect("a text");
    let (page, example) = (read("../../docs/CHANGES.md"), read("examples/copy.rs"));
    let (_, rest) = page.split_once("```rust\n").expect("a program");
    let (program, _) = rest.split_once("```").expect("its end");
    assert!(
        example.contains(program.trim_end()),
        "copy the example into the page: they differ"
    );
}
