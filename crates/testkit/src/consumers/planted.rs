//! Mistakes that a stream could make, made on purpose in what a consumer was told: the checker has to find them.

use serde_json::Value;

use crate::failover::load::Dice;

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// A row's change is not told.
    Lost,
    /// It is told twice.
    Doubled,
    /// A whole transaction is told twice.
    Repeated,
    /// Two changes of one row are told in the wrong order.
    Swapped,
    /// A transaction over groups is told as two.
    Split,
}

impl Planted {
    pub const ALL: [Planted; 5] = [
        Planted::Lost,
        Planted::Doubled,
        Planted::Repeated,
        Planted::Swapped,
        Planted::Split,
    ];
}

/// The events with the mistake somewhere; `None` where there is no place for it.
pub fn plant(events: &[Value], planted: Planted, dice: &mut Dice) -> Option<Vec<Value>> {
    let mut events = events.to_vec();
    match planted {
        Planted::Lost => {
            let at = pick(&events, dice, |at| events[at]["event"] == "row")?;
            events.remove(at);
        }
        Planted::Doubled => {
            let at = pick(&events, dice, |at| events[at]["event"] == "row")?;
            events.insert(at, events[at].clone());
        }
        Planted::Repeated => {
            let begin = pick(&events, dice, |at| {
                events[at]["event"] == "begin" && has_rows(&events[at..])
            })?;
            let length = events[begin..]
                .iter()
                .position(|it| it["event"] == "commit")?
                + 1;
            let again = events[begin..begin + length].to_vec();
            events.splice(begin..begin, again);
        }
        Planted::Swapped => {
            let later = |at: usize| {
                let mut rest = events[at + 1..].iter();
                let found = rest.position(|it| is_same_row(it, &events[at]))?;
                Some(at + 1 + found)
            };
            let at = pick(&events, dice, |at| later(at).is_some())?;
            let other = later(at)?;
            events.swap(at, other);
        }
        Planted::Split => {
            // Behind the first row of a transaction over groups.
            let is_within = |at: usize| {
                let [begin, rows @ ..] = &events[at..] else {
                    return None;
                };
                begin["groups"].as_array()?;
                let is_row = |it: &Value| it["event"] == "row" && it["after"]["tx"].is_u64();
                let end = rows.iter().position(|it| it["event"] == "commit")?;
                let first = rows[..end].iter().position(is_row)?;
                rows[first + 1..end]
                    .iter()
                    .any(is_row)
                    .then_some(at + 1 + first)
            };
            let begin = pick(&events, dice, |at| is_within(at).is_some())?;
            let row = is_within(begin)?;
            let length = events[begin..]
                .iter()
                .position(|it| it["event"] == "commit")?;
            let again = [events[begin + length].clone(), events[begin].clone()];
            events.splice(row + 1..row + 1, again);
        }
    }
    Some(events)
}

/// One of the places that fit.
fn pick(events: &[Value], dice: &mut Dice, fits: impl Fn(usize) -> bool) -> Option<usize> {
    let places: Vec<usize> = (0..events.len()).filter(|at| fits(*at)).collect();
    let count = u64::try_from(places.len()).ok().filter(|it| *it > 0)?;
    let chosen = usize::try_from(dice.below(count)).ok()?;
    places.get(chosen).copied()
}

fn has_rows(events: &[Value]) -> bool {
    events.get(1).is_some_and(|it| it["event"] == "row")
}

fn is_same_row(one: &Value, other: &Value) -> bool {
    let parts = ["event", "group", "database", "table", "key"];
    one["event"] == "row"
        && one["kind"] == "update"
        && parts.iter().all(|it| one[*it] == other[*it])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::copy::{Copy, Told};
    use super::*;

    /// Transactions over two groups, each of which writes the same two rows.
    fn told() -> Vec<Value> {
        let mut events = Vec::new();
        for tx in 1..=6_u64 {
            let gtid = format!("0-1-{tx}");
            events
                .push(json!({"event": "begin", "group": "a", "gtid": gtid, "groups": ["a", "b"]}));
            for group in ["a", "b"] {
                let row = |tx: u64| json!({"id": 1, "v": tx, "tx": tx, "n": 2});
                let before = if tx > 1 { row(tx - 1) } else { Value::Null };
                let kind = if tx > 1 { "update" } else { "insert" };
                events.push(json!({
                    "event": "row", "group": group, "database": "bank", "table": "account", "kind": kind,
                    "key": {"id": 1}, "before": before, "after": row(tx),
                }));
            }
            events.push(json!({"event": "commit", "group": "a", "gtid": gtid}));
        }
        events
    }

    fn check(events: &[Value], told: Told) -> Result<(), String> {
        let mut copy = Copy::new(told, &BTreeMap::new());
        events.iter().try_for_each(|event| copy.take(event))?;
        match copy.take_seen().1.pop() {
            None if copy.rows().len() == 2 => Ok(()),
            None => Err(format!("{:?}", copy.rows())),
            Some(torn) => Err(torn),
        }
    }

    #[test]
    fn what_is_right_is_not_found_wrong() {
        assert_eq!(check(&told(), Told::InOrder), Ok(()));
        assert_eq!(check(&told(), Told::ByGroup), Ok(()));
    }

    #[test]
    fn every_mistake_is_found_wherever_it_is() {
        for planted in Planted::ALL {
            for seed in 0..40 {
                let spoilt = plant(&told(), planted, &mut Dice::new(seed));
                let spoilt = spoilt.expect("there is a place for it");
                assert!(check(&spoilt, Told::InOrder).is_err(), "{planted:?} {seed}");
                // Each group's part by itself is no mistake there.
                if planted != Planted::Split {
                    assert!(check(&spoilt, Told::ByGroup).is_err(), "{planted:?} {seed}");
                }
            }
        }
    }
}
