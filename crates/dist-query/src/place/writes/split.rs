//! Cuts an INSERT of several rows into one for each group.

use std::sync::Arc;

use sqltext::{Mode, Source};

use crate::place::Part;

/// The text with only these rows for each group; `None` for what is no INSERT of rows.
pub(in crate::place) fn rows(
    text: &[u8],
    mode: &Mode,
    parts: &[(Arc<str>, Vec<u32>)],
) -> Option<Vec<Part>> {
    let insert = sqltext::insert(text, mode)?;
    let Source::Rows { rows, .. } = &insert.source else {
        return None;
    };
    let (first, last) = (rows.first()?, rows.last()?);
    let (head, tail) = (&text[..first.whole.start as usize], &text[last.whole.end as usize..]);
    let part = |(group, numbers): &(Arc<str>, Vec<u32>)| {
        let mut text_of_part = head.to_vec();
        for (at, number) in numbers.iter().enumerate() {
            if at > 0 {
                text_of_part.extend_from_slice(b", ");
            }
            text_of_part.extend_from_slice(rows.get(*number as usize)?.whole.of(text));
        }
        text_of_part.extend_from_slice(tail);
        Some(Part {
            group: group.clone(),
            text: text_of_part,
        })
    };
    parts.iter().map(part).collect()
}

/// The part of each row, in the order of the rows.
pub(in crate::place) fn turns(parts: &[(Arc<str>, Vec<u32>)]) -> Vec<usize> {
    let mut turns = Vec::new();
    for (at, (_, numbers)) in parts.iter().enumerate() {
        turns.extend(numbers.iter().map(|number| (*number, at)));
    }
    turns.sort_unstable();
    turns.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::Dialect;

    #[test]
    fn each_group_gets_its_rows() {
        let text = "INSERT INTO t (a, b) VALUES (1, 'x,('), (2, 'y') , (3, DEFAULT) ON DUPLICATE KEY UPDATE b = 1";
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let parts = [("g1".into(), vec![0, 2]), ("g2".into(), vec![1])];
        assert_eq!(turns(&parts), [0, 1, 0]);
        let parts = rows(text.as_bytes(), &mode, &parts).unwrap_or_default();
        let texts = parts.iter().map(|part| String::from_utf8_lossy(&part.text));
        assert_eq!(
            texts.collect::<Vec<_>>(),
            [
                "INSERT INTO t (a, b) VALUES (1, 'x,('), (3, DEFAULT) ON DUPLICATE KEY UPDATE b = 1",
                "INSERT INTO t (a, b) VALUES (2, 'y') ON DUPLICATE KEY UPDATE b = 1",
            ]
        );
    }
}
