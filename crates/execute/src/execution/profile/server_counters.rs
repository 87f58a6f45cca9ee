//! A server's own counters of a session before and behind a statement, for `HEDDLE PROFILE SERVER`.
//!
//! They are asked for on the connection that runs the statement, since only that session has them. The question counts,
//! too: before the statement it is asked twice, and what it adds itself is taken off.
//!
//! Must not know: sessions and their parts, when there is something to count.

use backend::Connection;
use sqltext::{Class, Facts, Verb};

/// What the servers count for each session, on both engines. What InnoDB counts is the whole server's.
const QUESTION: &[u8] =
    b"SHOW SESSION STATUS WHERE Variable_name RLIKE '^(Handler|Sort|Select|Created_tmp|Rows)_'";

/// Names and values, by name.
pub type Values = Vec<(String, u64)>;

/// The counters before a statement.
#[derive(Debug)]
pub struct Before {
    first: Values,
    second: Values,
}

/// Whether they may be asked for around such a statement: that must change nothing of what the statement finds, and
/// nothing of what it leaves, since who asks for FOUND_ROWS() or for warnings then has to have them still.
pub(crate) fn may_count(class: Class, verb: Verb, facts: Facts) -> bool {
    let counts = matches!(class, Class::Read | Class::Write)
        || matches!(verb, Verb::Select | Verb::Update | Verb::Delete);
    let asks = Facts::FOUND_ROWS | Facts::ROW_COUNT | Facts::WARNINGS;
    let leaves = Facts::FOUND_ROWS_SET | Facts::MULTIPLE | Facts::COMPOUND;
    counts && !facts.intersects(asks | leaves)
}

/// Asks for them before a statement; `None` when the connection broke.
pub(crate) async fn before(connection: &mut Connection) -> Option<Box<Before>> {
    let first = ask(connection).await?;
    let second = ask(connection).await?;
    Some(Box::new(Before { first, second }))
}

impl Before {
    /// What the statement has added, without what has not moved; `None` when the connection broke.
    pub async fn added(&self, connection: &mut Connection) -> Option<Values> {
        let after = ask(connection).await?;
        Some(added(&self.first, &self.second, &after))
    }
}

/// `None`: the connection is to be closed.
async fn ask(connection: &mut Connection) -> Option<Values> {
    let Ok(rows) = connection.ask_all(QUESTION).await else {
        connection.condemn();
        return None;
    };
    let value = |row: Vec<Vec<u8>>| {
        let [name, value] = <[Vec<u8>; 2]>::try_from(row).ok()?;
        let value = str::from_utf8(&value).ok()?.parse().ok()?;
        Some((String::from_utf8(name).ok()?, value))
    };
    let mut values: Values = rows.into_iter().filter_map(value).collect();
    values.sort();
    Some(values)
}

/// What came between the second and the third reading, less what one reading adds.
fn added(first: &Values, second: &Values, after: &Values) -> Values {
    let of = |values: &Values, name: &str| {
        let at = values.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
        Some(values[at].1)
    };
    let difference = |(name, after): &(String, u64)| {
        let (first, second) = (of(first, name)?, of(second, name)?);
        let own = second.saturating_sub(first);
        let added = after.saturating_sub(second).saturating_sub(own);
        (added > 0).then(|| (name.clone(), added))
    };
    after.iter().filter_map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::{Values, added};

    fn values(of: &[(&str, u64)]) -> Values {
        of.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn what_the_question_adds_is_taken_off() {
        let first = values(&[
            ("Handler_read_key", 1),
            ("Handler_write", 10),
            ("Sort_rows", 0),
        ]);
        let second = values(&[
            ("Handler_read_key", 1),
            ("Handler_write", 15),
            ("Sort_rows", 0),
        ]);
        let after = values(&[
            ("Handler_read_key", 3),
            ("Handler_write", 20),
            ("Sort_rows", 7),
            ("X", 5),
        ]);
        let expected = values(&[("Handler_read_key", 2), ("Sort_rows", 7)]);
        assert_eq!(added(&first, &second, &after), expected);
        assert_eq!(added(&first, &second, &values(&[("Sort_rows", 0)])), values(&[]));
    }
}
