//! Reads any bytes as lines of a change stream, as an applier does, and as what else comes from outside: the unread
//! part of a token, and a statement that defines something.

use changes::Unread;
use changes::apply::{Change, Gatherer, Heard, Identity, claims, definition};

/// Must not panic, and must come to an end. Gives how many transactions were told whole.
pub fn check(input: &[u8]) -> usize {
    let mut gatherer = Gatherer::default();
    let mut whole = 0;
    for line in input.split(|&byte| byte == b'\n') {
        if let Ok(text) = std::str::from_utf8(line) {
            let _ = definition(text, "d", &["d".to_owned()]);
            if let Some(unread) = Unread::parse(text) {
                let again = Unread::parse(&unread.to_string());
                assert_eq!(again, Some(unread));
            }
        }
        let Ok(Heard::Transaction(transaction)) = gatherer.take(line) else {
            continue;
        };
        whole += 1;
        let by_key = |row: &changes::apply::RowChange| match &row.key {
            Some(key) => vec![Identity::Columns(key.keys().cloned().collect())],
            None => vec![Identity::Whole(row.table.name.clone())],
        };
        let has_rows = transaction
            .changes
            .iter()
            .any(|it| matches!(it, Change::Row(_)));
        assert_eq!(!claims(&transaction, by_key).is_empty(), has_rows);
    }
    whole
}
