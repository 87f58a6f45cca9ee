//! Finding a setting by its name, and the nearest one where there is none.

use super::{Setting, TABLE};

/// The row of this name.
pub(super) fn find(name: &str) -> Option<&'static Setting> {
    TABLE.iter().find(|setting| setting.name == name)
}

/// The message for a name that is not in the table, with the nearest that is.
pub(super) fn unknown(name: &str) -> String {
    let nearest = TABLE.iter().map(|s| (distance(name, s.name), s.name)).min();
    match nearest {
        Some((far, near)) if far <= name.len().max(4) / 2 => {
            format!("there is no setting `{name}`; did you mean `{near}`?")
        }
        _ => format!("there is no setting `{name}`; `heddle serve --help` lists them"),
    }
}

/// Levenshtein's distance: how many letters to change, insert or delete.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &other) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
