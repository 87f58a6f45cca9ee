//! What a command makes of a row: pure.

use crate::item::{Layout, Row};
use crate::op::{Change, Expiry, Item, Mode, Outcome, Refusal};

/// What becomes of the row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Keep,
    Put(Row),
    Remove,
}

/// The moment of a command, and what it may give away.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Seconds since 1970.
    pub now_s: u64,
    /// What the cas column gets, if the row is written.
    pub cas: u64,
}

/// Carries a command out on the row as it is now; `None` where there is none, or where it has expired.
pub(crate) fn apply(
    change: &Change,
    row: Option<&Row>,
    layout: &Layout,
    moment: Moment,
) -> (Outcome, Next) {
    let row = row.filter(|row| row.ttl_s(moment.now_s) != Some(0));
    let other_cas = |cas: Option<u64>| {
        let given = cas?;
        match row {
            None => Some(Outcome::NotFound),
            Some(row) => (row.fingerprint() != given).then_some(Outcome::Exists),
        }
    };
    match change {
        Change::Get | Change::Read => {
            let outcome = seen(change, row.cloned(), layout, moment.now_s);
            (outcome, Next::Keep)
        }
        Change::GetAndTouch(expiry) => get_and_touch(row, *expiry, layout, moment),
        Change::Touch(expiry) => match touched(row, *expiry, layout, moment) {
            Some(row) => (Outcome::Touched, Next::Put(row)),
            None => (Outcome::NotFound, Next::Keep),
        },
        Change::Delete { cas } => match (other_cas(*cas), row) {
            (Some(no), _) => (no, Next::Keep),
            (None, None) => (Outcome::NotFound, Next::Keep),
            (None, Some(_)) => (Outcome::Deleted, Next::Remove),
        },
        Change::Store {
            mode,
            value,
            flags,
            expiry,
            cas,
        } => match other_cas(*cas) {
            Some(no) => (no, Next::Keep),
            None => match store(*mode, value, *flags, *expiry, row, layout, moment) {
                Ok(row) => put(row),
                Err(no) => (no, Next::Keep),
            },
        },
        Change::Write {
            parts,
            mode,
            expiry,
            cas,
        } => match other_cas(*cas) {
            Some(no) => (no, Next::Keep),
            None => match write(parts, *mode, *expiry, row, layout, moment) {
                Ok(row) => put(row),
                Err(no) => (no, Next::Keep),
            },
        },
        Change::Count { cas, .. } => match other_cas(*cas) {
            Some(no) => (no, Next::Keep),
            None => count(change, row, layout, moment),
        },
        Change::Stamped { cas, change } => {
            stamped(apply(change, row, layout, moment), *cas, layout)
        }
    }
}

/// What is written gets another cas than its own.
fn stamped((outcome, next): (Outcome, Next), cas: u64, layout: &Layout) -> (Outcome, Next) {
    let refused = |why: &str| (Outcome::Refused(Refusal::client(why)), Next::Keep);
    let Next::Put(mut row) = next else {
        return (outcome, next);
    };
    if !layout.keeps_cas {
        return refused("flag E: the container has no cas column");
    }
    if !row.stamp(cas) {
        return refused("flag E: a cas is a number from 1 to 9007199254740991 here");
    }
    let outcome = match outcome {
        Outcome::Stored { .. } => Outcome::Stored { cas },
        Outcome::Number { value, ttl_s, .. } => Outcome::Number { value, cas, ttl_s },
        other => other,
    };
    (outcome, Next::Put(row))
}

/// What a read answers of a row that nobody else needs.
pub(crate) fn seen(change: &Change, row: Option<Row>, layout: &Layout, now_s: u64) -> Outcome {
    let Some(row) = row else {
        return Outcome::Miss;
    };
    match (change, row.ttl_s(now_s)) {
        (_, Some(0)) => Outcome::Miss,
        (Change::Read, ttl_s) => Outcome::Row {
            cas: row.fingerprint(),
            parts: row.parts,
            integers: layout.integers.clone(),
            ttl_s,
        },
        _ => layout.taken(row, now_s).map_or(Outcome::Miss, Outcome::Hit),
    }
}

/// The row of these parts; flags stay what they are.
fn write(
    parts: &[Option<Vec<u8>>],
    mode: Mode,
    expiry: Expiry,
    row: Option<&Row>,
    layout: &Layout,
    moment: Moment,
) -> Result<Row, Outcome> {
    let allowed = match mode {
        Mode::Add => row.is_none(),
        Mode::Replace => row.is_some(),
        Mode::Set | Mode::Append { .. } | Mode::Prepend { .. } => true,
    };
    if !allowed {
        return Err(Outcome::NotStored);
    }
    if parts.len() != layout.nullable.len() {
        let text = "the row has another number of columns";
        return Err(Outcome::Refused(Refusal::client(text)));
    }
    Ok(Row {
        parts: parts.to_vec(),
        flags: row.map_or(0, |row| row.flags),
        cas: kept(layout.keeps_cas, moment.cas),
        expiry: kept(layout.keeps_expiry, expiry.stored(moment.now_s)),
    })
}

fn put(row: Row) -> (Outcome, Next) {
    let cas = row.fingerprint();
    (Outcome::Stored { cas }, Next::Put(row))
}

/// The row with another expiry. Where the container keeps none, it stays as it is.
fn touched(row: Option<&Row>, expiry: Expiry, layout: &Layout, moment: Moment) -> Option<Row> {
    let mut row = row?.clone();
    if layout.keeps_expiry {
        row.expiry = expiry.stored(moment.now_s);
        row.cas = kept(layout.keeps_cas, moment.cas);
    }
    Some(row)
}

/// One that expires by this is seen for the last time.
fn get_and_touch(
    row: Option<&Row>,
    expiry: Expiry,
    layout: &Layout,
    moment: Moment,
) -> (Outcome, Next) {
    let item = row.and_then(|row| layout.item(row, moment.now_s));
    let Some((item, row)) = item.zip(touched(row, expiry, layout, moment)) else {
        return (Outcome::Miss, Next::Keep);
    };
    let (cas, ttl_s) = (row.fingerprint(), row.ttl_s(moment.now_s));
    let item = Item { cas, ttl_s, ..item };
    (Outcome::Hit(item), Next::Put(row))
}

/// A new row of this value.
pub(crate) fn fresh(
    value: &[u8],
    flags: u32,
    expiry: Expiry,
    layout: &Layout,
    moment: Moment,
) -> Result<Row, Outcome> {
    let parts = layout.split(value).ok_or_else(|| {
        let columns = layout.nullable.len();
        Outcome::Refused(Refusal::client(format!(
            "the value has more than {columns} parts"
        )))
    })?;
    Ok(Row {
        parts,
        flags: if layout.keeps_flags { flags } else { 0 },
        cas: kept(layout.keeps_cas, moment.cas),
        expiry: kept(layout.keeps_expiry, expiry.stored(moment.now_s)),
    })
}

fn kept(keeps: bool, number: u64) -> u64 {
    if keeps { number } else { 0 }
}

fn store(
    mode: Mode,
    value: &[u8],
    flags: u32,
    expiry: Expiry,
    row: Option<&Row>,
    layout: &Layout,
    moment: Moment,
) -> Result<Row, Outcome> {
    let fresh = || fresh(value, flags, expiry, layout, moment);
    match (mode, row) {
        (Mode::Set, _) | (Mode::Add, None) | (Mode::Replace, Some(_)) => fresh(),
        (Mode::Append { vivify: true } | Mode::Prepend { vivify: true }, None) => fresh(),
        (Mode::Add, Some(_))
        | (Mode::Replace | Mode::Append { .. } | Mode::Prepend { .. }, None) => {
            Err(Outcome::NotStored)
        }
        (Mode::Append { .. } | Mode::Prepend { .. }, Some(row)) => {
            let mut row = row.clone();
            let there = row.parts.first_mut().ok_or(Outcome::NotStored)?;
            let mut joined = there.take().unwrap_or_default();
            match mode {
                Mode::Prepend { .. } => drop(joined.splice(..0, value.iter().copied())),
                _ => joined.extend_from_slice(value),
            }
            if joined.len() > layout.value_bytes_max {
                let text = "object too large for cache";
                return Err(Outcome::Refused(Refusal::server(text)));
            }
            *there = Some(joined);
            row.cas = kept(layout.keeps_cas, moment.cas);
            Ok(row)
        }
    }
}

fn count(change: &Change, row: Option<&Row>, layout: &Layout, moment: Moment) -> (Outcome, Next) {
    let Change::Count {
        by,
        down,
        initial,
        expiry,
        ..
    } = change
    else {
        return (Outcome::NotFound, Next::Keep);
    };
    let (row, value) = match (row, initial) {
        (None, None) => return (Outcome::NotFound, Next::Keep),
        (None, Some((value, expiry))) => {
            let text = value.to_string();
            match fresh(text.as_bytes(), 0, *expiry, layout, moment) {
                Ok(row) => (row, *value),
                Err(no) => return (no, Next::Keep),
            }
        }
        (Some(row), _) => {
            let mut row = row.clone();
            let first = row.parts.first_mut();
            let number = first.as_ref().and_then(|part| number(part.as_deref()?));
            let (Some(first), Some(number)) = (first, number) else {
                let text = "cannot increment or decrement non-numeric value";
                return (Outcome::Refused(Refusal::client(text)), Next::Keep);
            };
            let value = match down {
                true => number.saturating_sub(*by),
                false => number.wrapping_add(*by),
            };
            *first = Some(value.to_string().into_bytes());
            row.cas = kept(layout.keeps_cas, moment.cas);
            if let Some(expiry) = expiry.filter(|_| layout.keeps_expiry) {
                row.expiry = expiry.stored(moment.now_s);
            }
            (row, value)
        }
    };
    let cas = row.fingerprint();
    let ttl_s = row.ttl_s(moment.now_s);
    (Outcome::Number { value, cas, ttl_s }, Next::Put(row))
}

/// A number as memcached counts: digits only, but for blanks around them.
fn number(text: &[u8]) -> Option<u64> {
    let text = text.trim_ascii();
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::item::tests::layout;

    const NOW: Moment = Moment { now_s: 100, cas: 9 };

    fn row(value: &str) -> Row {
        Row {
            parts: vec![Some(value.into())],
            flags: 5,
            cas: 1,
            expiry: 0,
        }
    }

    fn store(mode: Mode, cas: Option<u64>) -> Change {
        Change::Store {
            mode,
            value: b"new".as_slice().into(),
            flags: 7,
            expiry: Expiry::After(10),
            cas,
        }
    }

    fn done(change: &Change, row: Option<&Row>) -> (Outcome, Next) {
        apply(change, row, &layout(1, false), NOW)
    }

    fn value(next: &Next) -> Option<String> {
        match next {
            Next::Put(row) => Some(String::from_utf8_lossy(row.parts[0].as_deref()?).into_owned()),
            _ => None,
        }
    }

    #[test]
    fn conditions_of_the_modes_hold() {
        let there = row("old");
        let append = Mode::Append { vivify: false };
        let prepend = Mode::Prepend { vivify: false };
        let cases = [
            (Mode::Set, Some("new"), Some("new")),
            (Mode::Add, None, Some("new")),
            (Mode::Replace, Some("new"), None),
            (append, Some("oldnew"), None),
            (prepend, Some("newold"), None),
            (Mode::Append { vivify: true }, Some("oldnew"), Some("new")),
        ];
        for (mode, with, without) in cases {
            let (outcome, next) = done(&store(mode, None), Some(&there));
            assert_eq!(value(&next).as_deref(), with, "{mode:?}");
            assert_eq!(with.is_none(), outcome == Outcome::NotStored);
            let (outcome, next) = done(&store(mode, None), None);
            assert_eq!(value(&next).as_deref(), without, "{mode:?}");
            assert_eq!(without.is_none(), outcome == Outcome::NotStored);
        }
    }

    #[test]
    fn what_is_appended_keeps_flags_and_expiry() {
        let (_, next) = done(
            &store(Mode::Append { vivify: false }, None),
            Some(&row("a")),
        );
        let expected = Row {
            cas: 9,
            ..row("anew")
        };
        assert_eq!(next, Next::Put(expected));
        let (_, next) = done(&store(Mode::Set, None), Some(&row("a")));
        let Next::Put(stored) = next else {
            panic!("set stores")
        };
        assert_eq!((stored.flags, stored.expiry, stored.cas), (7, 110, 9));
    }

    #[test]
    fn a_cas_is_compared_with_what_the_row_is_now() {
        let there = row("old");
        let right = Some(there.fingerprint());
        let wrong = right.map(|cas| cas ^ 2);
        for (cas, expected) in [(right, None), (wrong, Some(Outcome::Exists))] {
            let (outcome, next) = done(&store(Mode::Set, cas), Some(&there));
            assert_eq!(next == Next::Keep, expected.is_some());
            assert_eq!(
                expected.is_none(),
                matches!(outcome, Outcome::Stored { .. })
            );
            let (outcome, _) = done(&Change::Delete { cas }, Some(&there));
            assert_eq!(outcome, expected.unwrap_or(Outcome::Deleted));
        }
        assert_eq!(done(&store(Mode::Set, right), None).0, Outcome::NotFound);
    }

    fn counting(by: u64, down: bool) -> Change {
        Change::Count {
            by,
            down,
            initial: None,
            expiry: None,
            cas: None,
        }
    }

    #[test]
    fn numbers_wrap_above_and_stop_at_zero() {
        let cases = [
            ("5", 3, false, 8),
            ("5", 9, true, 0),
            ("18446744073709551615", 2, false, 1),
            ("7 ", 1, false, 8),
            (" 7", 1, false, 8),
        ];
        for (text, by, down, expected) in cases {
            let (outcome, next) = done(&counting(by, down), Some(&row(text)));
            assert!(matches!(outcome, Outcome::Number { value, .. } if value == expected));
            assert_eq!(value(&next), Some(expected.to_string()));
        }
        for text in ["", "x", "-1", "1x", "99999999999999999999"] {
            let (outcome, next) = done(&counting(1, false), Some(&row(text)));
            assert!(matches!(outcome, Outcome::Refused(why) if why.by_client));
            assert_eq!(next, Next::Keep);
        }
        assert_eq!(done(&counting(1, false), None).0, Outcome::NotFound);
    }

    #[test]
    fn expired_items_are_not_there() {
        let old = Row {
            expiry: 50,
            ..row("old")
        };
        assert_eq!(done(&Change::Get, Some(&old)).0, Outcome::Miss);
        assert_eq!(
            done(&Change::Touch(Expiry::Never), Some(&old)).0,
            Outcome::NotFound
        );
        let (outcome, _) = done(&store(Mode::Add, None), Some(&old));
        assert!(matches!(outcome, Outcome::Stored { .. }));
        assert_eq!(
            done(&Change::Delete { cas: None }, Some(&old)).0,
            Outcome::NotFound
        );
    }

    #[test]
    fn a_touch_changes_the_expiry_only() {
        let (outcome, next) = done(&Change::GetAndTouch(Expiry::After(5)), Some(&row("a")));
        assert!(matches!(outcome, Outcome::Hit(item) if item.ttl_s == Some(5)));
        let expected = Row {
            expiry: 105,
            cas: 9,
            ..row("a")
        };
        assert_eq!(next, Next::Put(expected));
        // What is to be gone is given once more.
        let (outcome, next) = done(&Change::GetAndTouch(Expiry::Past), Some(&row("a")));
        assert!(matches!(outcome, Outcome::Hit(item) if item.ttl_s == Some(0)));
        assert!(matches!(next, Next::Put(row) if row.expiry == 1));
    }
}
