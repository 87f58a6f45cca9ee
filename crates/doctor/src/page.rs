//! The table of `docs/DOCTOR.md`, made of the checks.

use crate::finding::Fix;
use crate::table::TABLE;

/// The rows of all checks as a table of Markdown.
pub fn page() -> String {
    let mut text = String::from(
        "| check | severity | of a | breaks | cure | `--fix` |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    for check in TABLE {
        let fix = match check.fix {
            Fix::Safe => "does it".to_owned(),
            Fix::Asks(why) => format!("asks: {why}"),
            Fix::Refused(why) => format!("no: {why}"),
        };
        let cells = [check.breaks, check.cure, &fix].map(|it| it.replace('|', "\\|"));
        text.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            check.name,
            check.severity,
            check.scope().name(),
            cells.join(" | ")
        ));
    }
    text
}
