//! What others see of digests: rows of one core, and the same rows of several added up.

use std::collections::HashMap;
use std::sync::Arc;

use sqltext::Digest;

use crate::counts::Counts;

/// One digest of one account, database, group and source tag.
#[derive(Clone, Debug)]
pub struct Row {
    pub digest: Digest,
    /// In no database: empty.
    pub database: Arc<[u8]>,
    pub user: Arc<[u8]>,
    /// Where it ran: a group's name, `*` for several, empty where none was asked.
    pub group: Arc<str>,
    /// Where it comes from; empty where nobody said so.
    pub tag: Arc<str>,
    /// The normal form, cut at [`crate::TEXT_BYTES_MAX`].
    pub text: Arc<str>,
    /// As a client sent it, where that may be shown.
    pub example: Option<Arc<str>>,
    pub counts: Counts,
}

/// Rows that are about the same become one. In no order.
pub fn joined(rows: Vec<Row>) -> Vec<Row> {
    let mut known: HashMap<_, usize> = HashMap::with_capacity(rows.len());
    let mut all: Vec<Row> = Vec::with_capacity(rows.len());
    for row in rows {
        let name = (
            row.digest,
            Arc::clone(&row.user),
            Arc::clone(&row.database),
            Arc::clone(&row.group),
            Arc::clone(&row.tag),
        );
        match known.get(&name) {
            Some(&at) => {
                let there = &mut all[at];
                there.counts.join(&row.counts);
                if there.text.is_empty() {
                    there.text = row.text;
                }
                there.example = there.example.take().or(row.example);
            }
            None => {
                known.insert(name, all.len());
                all.push(row);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::Call;

    #[test]
    fn rows_of_two_cores_become_one_where_all_names_are_equal() {
        let row = |tag: &str, text: &str| {
            let mut counts = Counts::default();
            counts.add(&Call::default());
            Row {
                digest: Digest::of_normal("SELECT ?"),
                database: Arc::from(&b"d"[..]),
                user: Arc::from(&b"u"[..]),
                group: "g1".into(),
                tag: tag.into(),
                text: text.into(),
                example: None,
                counts,
            }
        };
        let all = joined(vec![
            row("a", ""),
            row("b", "SELECT ?"),
            row("a", "SELECT ?"),
        ]);
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].counts.calls, &*all[0].text), (2, "SELECT ?"));
    }
}
