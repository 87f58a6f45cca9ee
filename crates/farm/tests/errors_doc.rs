//! `docs/ERRORS.md` is the table of client errors, written out. `HEDDLE_WRITE_DOCS=1` rewrites it.

use std::fmt::Write;

use farm::error::ALL;

const HEAD: &str = "# Errors that Heddle itself gives to clients

Errors of the servers pass through as they are. These are the router's own; `{}` stands for details.
«again» tells whether the same statement may be sent again without harm.

| name | number | SQLSTATE | message | again | what to do |
| --- | --- | --- | --- | --- | --- |
";

fn page() -> String {
    let mut page = HEAD.to_owned();
    for error in ALL {
        let again = if error.retryable { "yes" } else { "no" };
        let cell = |text: &str| text.replace('|', "\\|");
        writeln!(
            page,
            "| {} | {} | {} | {} | {again} | {} |",
            error.name,
            error.number,
            error.sqlstate,
            cell(error.message),
            cell(error.cure)
        )
        .expect("a string takes any text");
    }
    page
}

#[test]
fn the_page_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ERRORS.md");
    if std::env::var_os("HEDDLE_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).expect("docs/ can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/ERRORS.md is old: HEDDLE_WRITE_DOCS=1 cargo test -p farm"
    );
}
