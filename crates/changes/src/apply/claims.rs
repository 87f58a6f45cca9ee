//! What of the tables a transaction changes, so that two which change the same keep their order.
//!
//! A claim may stand for more rows than are changed, never for less. So values that a server may hold for equal though
//! they are told otherwise (texts by their collation, floating-point numbers) make no difference, and tables that
//! foreign keys tie together are one claim: a DELETE may take along rows of other tables, and an INSERT needs them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Map, Value};

use super::{Change, RowChange, Transaction};

/// Two claims are the same when they are equal.
pub type Claim = u64;

/// How rows of a table are told apart at the target, by one of its unique keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// By these columns of the unique key alone.
    Columns(Vec<String>),
    /// Not at all: all rows of the table are one claim, and so are those of all tables with this name.
    Whole(String),
}

/// Everything that a transaction claims; `identities` says how a table's rows are told apart, by each of its unique
/// keys: a place in a key that one transaction gives up may be taken by another.
pub fn claims(
    transaction: &Transaction,
    identities: impl Fn(&RowChange) -> Vec<Identity>,
) -> BTreeSet<Claim> {
    let mut all = BTreeSet::new();
    for change in &transaction.changes {
        let Change::Row(row) = change else { continue };
        for identity in identities(row) {
            match identity {
                Identity::Whole(name) => drop(all.insert(hashed(&("whole", name)))),
                Identity::Columns(columns) => {
                    let images = [&row.before, &row.after].into_iter().flatten();
                    all.extend(images.map(|image| of_image(row, &columns, image)));
                }
            }
        }
    }
    all
}

fn of_image(row: &RowChange, columns: &[String], image: &Map<String, Value>) -> Claim {
    let values = columns.iter().map(|name| image.get(name));
    // Most collations pad texts with spaces when they compare them.
    let text = |value: &Value| match value {
        Value::String(text) => text.trim_end_matches(' ').to_owned(),
        other => other.to_string(),
    };
    let values: Vec<String> = values
        .map(|value| value.map(text).unwrap_or_default())
        .collect();
    hashed(&(&row.table.database, &row.table.name, columns, values))
}

fn hashed(of: &impl Hash) -> Claim {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::apply::Described;
    use crate::rows::Kind;

    fn update(before: Value, after: Value) -> Transaction {
        let image = |value: Value| value.as_object().cloned();
        let row = RowChange {
            table: Arc::new(Described {
                database: "d".to_owned(),
                name: "t".to_owned(),
                columns: Vec::new(),
            }),
            kind: Some(Kind::Update),
            key: image(json!({"id": before["id"]})),
            before: image(before),
            after: image(after),
        };
        Transaction {
            group: "g".to_owned(),
            gtid: Some("0-1-1".to_owned()),
            is_move: false,
            changes: vec![Change::Row(row)],
            token: String::new(),
            bytes: 0,
        }
    }

    #[test]
    fn a_row_is_claimed_by_its_keys_before_and_after() {
        let by_id = |_: &RowChange| vec![Identity::Columns(vec!["id".to_owned()])];
        let of = |before, after| {
            let images = [before, after].map(|id| json!({"id": id, "v": id * 7}));
            let [before, after] = images;
            claims(&update(before, after), by_id)
        };
        assert_eq!(of(1, 1).len(), 1);
        assert_eq!(of(1, 2).len(), 2);
        assert!(!of(1, 2).is_disjoint(&of(2, 3)) && of(1, 2).is_disjoint(&of(3, 4)));
        let by_both =
            |_: &RowChange| (["id", "v"].map(|it| Identity::Columns(vec![it.to_owned()]))).to_vec();
        let taken = claims(
            &update(json!({"id": 1, "v": 5}), json!({"id": 1, "v": 6})),
            by_both,
        );
        let takes = claims(
            &update(json!({"id": 2, "v": 7}), json!({"id": 2, "v": 5})),
            by_both,
        );
        assert!(
            !taken.is_disjoint(&takes),
            "the one gives up what the other takes"
        );
        let whole = |_: &RowChange| vec![Identity::Whole("d.t".to_owned())];
        let one = claims(&update(json!({"id": 1}), json!({"id": 1})), whole);
        assert_eq!(
            one,
            claims(&update(json!({"id": 2}), json!({"id": 3})), whole)
        );
    }
}
