//! The table as text: for `--help` and for `docs/SETTINGS.md`.

use std::fmt::Write;

use super::{Setting, TABLE};

const NO_FAIL: &str = "writing to a String cannot fail";

/// The end of `--help`: every setting with its default, what it may be, and its meaning.
pub fn help() -> String {
    let mut text = String::from(
        "Settings: keys of heddle.toml, and names for --set NAME=VALUE (with their defaults)\n",
    );
    for setting in TABLE {
        let Setting {
            name, text: about, ..
        } = setting;
        let (default, kind, bounds) = (shown(setting), kind(setting), bounds(setting));
        let bounds = if bounds.is_empty() {
            bounds
        } else {
            format!(", {bounds}")
        };
        let applies = setting.applies.name();
        writeln!(
            text,
            "  {name} = {default}\n      {about} [{kind}{bounds}; takes effect {applies}]"
        )
        .expect(NO_FAIL);
    }
    text
}

/// The whole of `docs/SETTINGS.md`.
#[cfg(test)]
fn markdown() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         Keys of `heddle.toml` (`heddle serve --config FILE`), and names for `--set NAME=VALUE` of\n\
         `heddle up` and `heddle serve`. A setting that takes effect immediately does so when the\n\
         file changes. It may stand in the farm's configuration, which goes before the file (CONFIGURATION.md). This page is\n\
         made from the table in `crates/heddle/src/settings`; a test compares them.\n\n\
         | name | value | default | bounds | takes effect | meaning |\n\
         | --- | --- | --- | --- | --- | --- |\n",
    );
    for setting in TABLE {
        let Setting {
            name, text: about, ..
        } = setting;
        let (default, kind, bounds) = (shown(setting), kind(setting), bounds(setting));
        let applies = setting.applies.name();
        writeln!(
            text,
            "| `{name}` | {kind} | `{default}` | {bounds} | {applies} | {about} |"
        )
        .expect(NO_FAIL);
    }
    text
}

/// The default as it would be written; nothing shows as an empty text.
pub(super) fn shown(setting: &Setting) -> String {
    match setting.default {
        "" if setting.kind.starts_with("list") => "[]".to_owned(),
        "" => "\"\"".to_owned(),
        default => default.to_owned(),
    }
}

/// «number of ms», «address:port».
fn kind(setting: &Setting) -> String {
    match setting.unit {
        "" => setting.kind.to_owned(),
        unit => format!("{} of {unit}", setting.kind),
    }
}

fn bounds(setting: &Setting) -> String {
    setting
        .bounds
        .map_or(String::new(), |(min, max)| format!("{min} to {max}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `HEDDLE_WRITE_DOCS=1 cargo test -p heddle` writes the page anew.
    #[test]
    fn the_page_says_what_the_table_says() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SETTINGS.md");
        if std::env::var_os("HEDDLE_WRITE_DOCS").is_some() {
            std::fs::write(path, markdown()).expect("docs can be written");
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == markdown(),
            "write it anew: HEDDLE_WRITE_DOCS=1 cargo test -p heddle"
        );
    }

    #[test]
    fn help_names_every_setting() {
        let help = help();
        assert!(
            TABLE
                .iter()
                .all(|setting| help.contains(&format!("  {} = ", setting.name)))
        );
    }
}
