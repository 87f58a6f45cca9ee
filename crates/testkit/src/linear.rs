//! Whether what clients saw of one key could have come from one copy of it that carries out one command
//! at a time, each between its request and its answer: Wing and Gong's search, which remembers, as Lowe's
//! does, which sets of commands with which value were tried in vain.

use std::collections::HashSet;

/// What a command did with a number, or found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    Get(Option<u64>),
    Set(u64),
    /// Stored when there was none.
    Add {
        value: u64,
        stored: bool,
    },
    Delete {
        found: bool,
    },
    /// The sum, or that there was none.
    Count {
        by: u64,
        sum: Option<u64>,
    },
}

/// One command of one client. Times are of one clock, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub act: Act,
    pub asked: u64,
    /// `None` when no answer came: it may have happened at any time since, or never.
    pub answered: Option<u64>,
}

impl Act {
    /// The value afterwards; `None` when the command cannot have seen what it saw.
    fn step(self, now: Option<u64>) -> Option<Option<u64>> {
        match self {
            Act::Get(seen) => (seen == now).then_some(now),
            Act::Set(value) => Some(Some(value)),
            Act::Add { value, stored } => match (now, stored) {
                (None, true) => Some(Some(value)),
                (Some(_), false) => Some(now),
                _ => None,
            },
            Act::Delete { found } => (found == now.is_some()).then_some(None),
            Act::Count { by, sum } => match now {
                Some(number) => (sum == Some(number + by)).then_some(sum),
                None => sum.is_none().then_some(None),
            },
        }
    }

    /// The same without an answer.
    fn blind_step(self, now: Option<u64>) -> Option<u64> {
        match self {
            Act::Get(_) => now,
            Act::Set(value) => Some(value),
            Act::Add { value, .. } => now.or(Some(value)),
            Act::Delete { .. } => None,
            Act::Count { by, .. } => now.map(|number| number + by),
        }
    }
}

/// Events that have found their places.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Placed(Vec<u64>);

impl Placed {
    fn has(&self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn flip(&mut self, at: usize) {
        self.0[at / 64] ^= 1 << (at % 64);
    }
}

/// Looks for an order. The key has no value at first.
///
/// # Errors
/// There is none: the longest order that was found, and what could not follow it.
pub fn check(history: &[Event]) -> Result<(), String> {
    let mut events = history.to_vec();
    events.sort_by_key(|event| event.asked);
    let answered = events
        .iter()
        .filter(|event| event.answered.is_some())
        .count();
    let mut placed = Placed(vec![0; events.len().div_ceil(64)]);
    let mut tried: HashSet<(Placed, Option<u64>)> = HashSet::new();
    // What was placed, and the value before it.
    let mut path: Vec<(usize, Option<u64>)> = Vec::new();
    let (mut value, mut known, mut from) = (None, 0, 0);
    let mut longest = Vec::new();
    loop {
        if known == answered {
            return Ok(());
        }
        let next = candidates(&events, &placed, from).find_map(|at| {
            let event = events[at];
            let after = match event.answered {
                Some(_) => event.act.step(value)?,
                None => event.act.blind_step(value),
            };
            let mut with = placed.clone();
            with.flip(at);
            tried.insert((with, after)).then_some((at, after))
        });
        match next {
            Some((at, after)) => {
                path.push((at, value));
                placed.flip(at);
                known += usize::from(events[at].answered.is_some());
                (value, from) = (after, 0);
                if path.len() > longest.len() {
                    longest.clone_from(&path);
                }
            }
            None => {
                let Some((at, before)) = path.pop() else {
                    return Err(told(&events, &longest));
                };
                placed.flip(at);
                known -= usize::from(events[at].answered.is_some());
                (value, from) = (before, at + 1);
            }
        }
    }
}

/// Events from a place on that may come next: nothing that is not placed was answered before they were
/// asked.
fn candidates<'e>(
    events: &'e [Event],
    placed: &'e Placed,
    from: usize,
) -> impl Iterator<Item = usize> + 'e {
    let open = move |at: &usize| !placed.has(*at);
    let first = (0..events.len()).find(open).unwrap_or(events.len());
    let mut bound = u64::MAX;
    for (at, event) in events.iter().enumerate().skip(first) {
        if event.asked > bound {
            break;
        }
        if open(&at) {
            bound = bound.min(event.answered.unwrap_or(u64::MAX));
        }
    }
    let reached = move |at: &usize| events[*at].asked <= bound;
    (first..events.len())
        .take_while(reached)
        .filter(open)
        .filter(move |at| *at >= from)
}

fn told(events: &[Event], path: &[(usize, Option<u64>)]) -> String {
    let placed: HashSet<usize> = path.iter().map(|(at, _)| *at).collect();
    let last: Vec<&Event> = path
        .iter()
        .rev()
        .take(5)
        .map(|(at, _)| &events[*at])
        .collect();
    let open: Vec<&Event> = (0..events.len())
        .filter(|at| !placed.contains(at))
        .take(5)
        .map(|at| &events[at])
        .collect();
    format!(
        "{} of {} commands have an order; its end, backwards: {last:?}; what cannot follow: {open:?}",
        path.len(),
        events.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(act: Act, asked: u64, answered: u64) -> Event {
        let answered = Some(answered);
        Event {
            act,
            asked,
            answered,
        }
    }

    #[test]
    fn what_overlaps_may_come_in_either_order() {
        let both = |seen| {
            check(&[
                event(Act::Set(1), 0, 10),
                event(Act::Set(2), 5, 15),
                event(Act::Get(Some(seen)), 20, 30),
            ])
        };
        assert_eq!((both(1), both(2)), (Ok(()), Ok(())));
        assert!(both(3).is_err());
    }

    #[test]
    fn faults_are_found() {
        let set = event(Act::Set(1), 0, 10);
        let stale = [
            set,
            event(Act::Set(2), 20, 30),
            event(Act::Get(Some(1)), 40, 50),
        ];
        let back = [
            set,
            event(Act::Set(2), 20, 60),
            event(Act::Get(Some(2)), 30, 35),
            event(Act::Get(Some(1)), 40, 50),
        ];
        let lost = [
            set,
            event(
                Act::Count {
                    by: 1,
                    sum: Some(2),
                },
                20,
                30,
            ),
            event(
                Act::Count {
                    by: 1,
                    sum: Some(2),
                },
                25,
                35,
            ),
        ];
        let twice = [
            event(
                Act::Add {
                    value: 1,
                    stored: true,
                },
                0,
                10,
            ),
            event(
                Act::Add {
                    value: 2,
                    stored: true,
                },
                5,
                12,
            ),
        ];
        let gone = [set, event(Act::Delete { found: false }, 20, 30)];
        for history in [&stale[..], &back, &lost, &twice, &gone] {
            assert!(check(history).is_err(), "{history:?}");
        }
    }

    #[test]
    fn what_was_not_answered_may_have_happened_or_not() {
        let silent = Event {
            answered: None,
            ..event(Act::Set(2), 5, 0)
        };
        for seen in [1, 2] {
            let history = [
                event(Act::Set(1), 0, 4),
                silent,
                event(Act::Get(Some(seen)), 9, 10),
            ];
            assert_eq!(check(&history), Ok(()));
        }
        let history = [
            event(Act::Set(1), 0, 4),
            silent,
            event(Act::Get(Some(2)), 9, 10),
            event(Act::Get(Some(1)), 11, 12),
        ];
        assert!(check(&history).is_err());
    }

    #[test]
    fn long_histories_are_checked_in_time() {
        let mut now = 0;
        let mut history = Vec::new();
        for round in 0..2000 {
            now += 10;
            history.push(event(Act::Set(round), now, now + 25));
            history.push(event(Act::Get(Some(round)), now + 1, now + 30));
        }
        assert_eq!(check(&history), Ok(()));
    }
}
