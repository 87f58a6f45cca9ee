//! The warnings of several groups as one server would have given them.
//!
//! What a server finds wrong with a row, one group says of its own rows: those of all groups add up.
//! What it finds odd about the text (a table that is not there, a name that means two columns, an old
//! way of writing), every group says of the same text: it counts once.

use std::collections::HashMap;

use backend::Warning;

/// Codes of warnings about values and rows, beside those that say «at row 7».
///
/// NULL for a column without, duplicate keys, GROUP_CONCAT that is cut, lines of a file, values that do
/// not fit, divisions by zero, foreign keys, conditions, partitions, JSON, XML, what cannot be uncompressed,
/// matched or put into another character set, values for generated columns, signals of triggers.
const ABOUT_ROWS: [u32; 55] = [
    1048, 1062, 1139, 1169, 1242, 1256, 1257, 1258, 1259, 1260, 1261, 1262, 1263, 1264, 1265, 1292,
    1300, 1301, 1365, 1366, 1369, 1406, 1411, 1416, 1441, 1451, 1452, 1525, 1526, 1586, 1642, 1643,
    1690, 1748, 1906, 1916, 1918, 1977, 3140, 3141, 3142, 3147, 3156, 3819, 3854, 3903, 3904, 4025,
    4035, 4036, 4037, 4038, 4039, 4040, 4041,
];

/// What the groups said, as one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Together {
    pub rows: Vec<Warning>,
    /// So many of what they counted is said already.
    pub repeated: u16,
}

/// The level, the code and the message.
type Words<'w> = [&'w [u8]; 3];

/// The warnings of a statement: those of each group, and the text that it ran. Every group that ran one
/// is here.
pub(super) fn together(groups: &[(&[u8], Vec<Warning>)]) -> Together {
    let mut all = Together::default();
    let mut said: HashMap<Words<'_>, usize> = HashMap::new();
    for (_, warnings) in groups {
        let mut here: HashMap<Words<'_>, usize> = HashMap::new();
        for warning in warnings {
            let words = [&warning.level, &warning.code, &warning.message].map(Vec::as_slice);
            let times = here.entry(words).or_default();
            *times += 1;
            let before = said.entry(words).or_default();
            let known = *times <= *before;
            *before = (*before).max(*times);
            if known && (!is_about_rows(warning) || is_about_literal(warning, groups)) {
                all.repeated = all.repeated.saturating_add(1);
            } else {
                all.rows.push(warning.clone());
            }
        }
    }
    all
}

fn is_about_rows(warning: &Warning) -> bool {
    let code = std::str::from_utf8(&warning.code).unwrap_or_default();
    let code = code.parse().unwrap_or(0);
    ABOUT_ROWS.contains(&code) || says_row(&warning.message)
}

/// `… at row 7`.
fn says_row(message: &[u8]) -> bool {
    let digits = message.iter().rev().take_while(|b| b.is_ascii_digit());
    let words = &message[..message.len() - digits.count()];
    words.len() < message.len() && words.ends_with(b" at row ")
}

/// A literal of the text is no good value, and each group has noticed once: that is when it made its
/// plan. Of each row that it reads a server says it again.
fn is_about_literal(warning: &Warning, groups: &[(&[u8], Vec<Warning>)]) -> bool {
    let Some(literal) = quoted(&warning.message).filter(|_| !says_row(&warning.message)) else {
        return false;
    };
    let holds = |text: &[u8]| text.windows(literal.len()).any(|part| part == literal);
    groups.iter().all(|(text, warnings)| {
        let times = warnings.iter().filter(|it| *it == warning).count();
        times == 1 && holds(text)
    })
}

/// The value of `Truncated incorrect DOUBLE value: 'abc'`, with its quotes.
fn quoted(message: &[u8]) -> Option<&[u8]> {
    let start = message.iter().position(|&byte| byte == b'\'')?;
    let end = message.iter().rposition(|&byte| byte == b'\'')?;
    (start < end).then(|| &message[start..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(code: &str, message: &str) -> Warning {
        Warning {
            level: b"Warning".to_vec(),
            code: code.as_bytes().to_vec(),
            message: message.as_bytes().to_vec(),
        }
    }

    fn said(text: &'static str, groups: &[&[Warning]]) -> (usize, u16) {
        let groups: Vec<_> =
            groups.iter().map(|warnings| (text.as_bytes(), warnings.to_vec())).collect();
        let all = together(&groups);
        (all.rows.len(), all.repeated)
    }

    #[test]
    fn what_is_said_of_the_text_counts_once() {
        let missing = warning("1051", "Unknown table 'd.t'");
        let other = warning("1051", "Unknown table 'd.u'");
        let text = "DROP TABLE IF EXISTS t, u";
        let each = [missing.clone(), other.clone()];
        assert_eq!(said(text, &[&each, &each, &each]), (2, 4));
        // One group has one of them.
        assert_eq!(said(text, &[&[missing], &each]), (2, 1));
        assert_eq!(said(text, &[&[], &[other]]), (1, 0));
        // A text may do the same thing twice.
        let old = warning("1287", "'VALUES function' is deprecated");
        let twice = [old.clone(), old.clone()];
        assert_eq!(said("", &[&twice, &twice]), (2, 2));
        assert_eq!(said("", &[&[old], &twice]), (2, 1));
    }

    #[test]
    fn what_is_said_of_rows_adds_up() {
        let cut = warning("1265", "Data truncated for column 'a' at row 1");
        let alike = [cut.clone()];
        assert_eq!(said("", &[&alike, &alike]), (2, 0));
        let zero = [warning("1365", "Division by 0")];
        assert_eq!(said("SELECT 1 / a", &[&zero, &zero]), (2, 0));
        // Of a code that is not listed.
        let odd = [warning("9999", "Something is odd at row 12")];
        assert_eq!(said("", &[&odd, &odd]), (2, 0));
    }

    #[test]
    fn what_each_group_said_once_of_a_literal_counts_once() {
        let text = "SELECT a FROM t WHERE a = 'abc'";
        let bad = warning("1292", "Truncated incorrect DOUBLE value: 'abc'");
        let once = [bad.clone()];
        assert_eq!(said(text, &[&once, &once]), (1, 1));
        // It is said of rows: one group has none, or more of them.
        assert_eq!(said(text, &[&once, &[]]), (1, 0));
        assert_eq!(said(text, &[&once, &once, &[]]), (2, 0));
        let twice = [bad.clone(), bad];
        assert_eq!(said(text, &[&once, &twice]), (3, 0));
        // Rows hold it.
        assert_eq!(said("SELECT a + 0 FROM t", &[&once, &once]), (2, 0));
    }
}
