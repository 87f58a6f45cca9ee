//! The order as text: what logs have, in the words of the scenarios.

use std::collections::BTreeSet;

use super::{Next, Order, Turn, Wish};

/// Plays one line to an order, and says what came of it.
///
/// | line | |
/// | --- | --- |
/// | `begin a b` | a new order over these groups |
/// | `resume a=5 b=6` | one that goes on, with each group's number |
/// | `replay a prepared x` | what was told before, or is before the beginning |
/// | `early a x b c` | what `a` decided in front of what is read |
/// | `ready a` | all of it was replayed |
/// | `a tick 5`, `a silent`, `a whole`, `a prepared x`, `a decided x b c`, `a ended x c`, `a rolled-back x` | what the log has next |
/// | `join a`, `leave a`, `withdraw a` | |
///
/// # Errors
/// It is none of these.
pub fn play(order: &mut Option<Order<String>>, line: &str) -> Result<Vec<String>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let wrong = || format!("«{line}» is no line of a scenario");
    match words[..] {
        ["begin", ref groups @ ..] => *order = Some(Order::begin(groups.iter().copied())),
        ["resume", ref places @ ..] => {
            let places: Option<Vec<_>> = places.iter().map(|place| resumed(place)).collect();
            *order = Some(Order::resume(places.ok_or_else(wrong)?));
        }
        _ => {
            let order = order.as_mut().ok_or("begin comes first")?;
            match words[..] {
                ["join", group] => order.join(group),
                ["leave", group] => order.leave(group),
                ["withdraw", group] => order.withdraw(group),
                ["ready", group] => order.ready(group),
                ["early", group, id, ref groups @ ..] => {
                    let groups = groups.iter().map(|it| (*it).to_owned());
                    order.early(group, id.to_owned(), groups.collect());
                }
                ["replay", group, ref of @ ..] => order.replay(group, next(of).ok_or_else(wrong)?),
                [group, ref of @ ..] => order.arrive(group, next(of).ok_or_else(wrong)?),
                [] => return Err(wrong()),
            }
        }
    }
    let order = order.as_mut().ok_or_else(wrong)?;
    Ok(settle(order))
}

fn resumed(place: &str) -> Option<(String, u64)> {
    let (group, clock) = place.split_once('=')?;
    Some((group.to_owned(), clock.parse().ok()?))
}

fn next(words: &[&str]) -> Option<Next<String>> {
    Some(match words {
        ["tick", number] => Next::Tick(number.parse().ok()?),
        ["silent"] => Next::Silent,
        ["whole"] => Next::Whole,
        ["prepared", id] => Next::Prepared((*id).to_owned()),
        ["decided", id, groups @ ..] => {
            let groups = groups.iter().map(|it| (*it).to_owned());
            Next::Decided((*id).to_owned(), groups.collect())
        }
        ["ended", id, by] => Next::Ended((*id).to_owned(), (*by).to_owned()),
        ["rolled-back", id] => Next::RolledBack((*id).to_owned()),
        _ => return None,
    })
}

/// Passes and tells until everything waits; says what was told, and what is waited for.
fn settle(order: &mut Order<String>) -> Vec<String> {
    let mut said = Vec::new();
    loop {
        let groups: Vec<String> = order.logs.keys().cloned().collect();
        let turns = groups.into_iter().map(|group| {
            let turn = order.turn(&group);
            (group, turn)
        });
        let Some((group, Some(turn))) = turns.into_iter().find(|(_, turn)| turn.is_some()) else {
            break;
        };
        match turn {
            Turn::Pass => {}
            Turn::Tell(with) if with.is_empty() => said.push(format!("tell {group}")),
            Turn::Tell(with) => said.push(format!("tell {group} with {}", words(&with))),
            Turn::Torn(of) => {
                said.push(format!("torn {group}: {of} lacks its branch"));
                break;
            }
        }
        order.pass(&group);
    }
    let waits_for = order.waits_for().join(" ");
    if !waits_for.is_empty() {
        let wish = match order.wish() {
            None => String::new(),
            Some(Wish::Next) => ", wants the next number".to_owned(),
            Some(Wish::AtLeast(number)) => format!(", wants {number}"),
        };
        said.push(format!("wait for {waits_for}{wish}"));
    }
    said
}

fn words(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_farm_begins_too() {
        let mut order = None;
        for line in ["begin a b", "a tick 7", "b tick 7"] {
            play(&mut order, line).expect("a line");
        }
        let mut order = order.expect("it was begun");
        // Nobody else would raise the clock.
        assert_eq!(order.wish(), Some(Wish::Next));
        for group in ["a", "b"] {
            order.arrive(group, Next::Tick(8));
            order.pass(group);
        }
        assert_eq!((order.wish(), order.place("a")), (None, Some(8)));
    }
}
