//! Conditions by which a group leaves rows out because rows of another table are there that they would
//! have to meet: the other table is on the group as a whole, or lies together with the first one.
//!
//! What a row must meet are rows that matter themselves, so such conditions are nested: a line matters
//! by its order, and an order by its customer. They say no more than the statement does, and are left
//! out where they would lock rows.

use farm::sharding::Placed;
use sqltext::ticked;

use super::filters::from;
use super::reduce::Side;
use super::references::Reference;
use crate::answer::Asked;

/// So many tables are looked through from one to the next.
const DEPTH_MAX: usize = 4;

/// So many tables in all, for one condition.
const TABLES_MAX: usize = 12;

/// Of more tables a statement is put together without such conditions.
const REFERENCES_MAX: usize = 64;

/// The tables from the first one to the one at hand, and how many may still be looked at.
struct Path {
    seen: Vec<usize>,
    left: usize,
}

pub(super) struct Semijoins<'a> {
    found: &'a [Reference],
    /// What is reduced, and by what.
    pairs: &'a [(Side, Side)],
    asked: &'a Asked<'a>,
}

impl<'a> Semijoins<'a> {
    pub(super) fn of(
        found: &'a [Reference],
        pairs: &'a [(Side, Side)],
        asked: &'a Asked<'a>,
    ) -> Semijoins<'a> {
        Semijoins {
            found,
            pairs,
            asked,
        }
    }

    /// The condition on rows of `target` that rows of `by` make; `None` where a group cannot tell, or
    /// where it would leave nothing out.
    pub(super) fn condition(
        &self,
        (target, to): (usize, &str),
        (by, from): (usize, &str),
    ) -> Option<String> {
        let locks = self.asked.changing.is_some() || self.found[target].lock.is_some();
        if locks || self.found.len() > REFERENCES_MAX {
            return None;
        }
        let mut path = Path {
            seen: vec![target],
            left: TABLES_MAX,
        };
        self.nested((target, to), (by, from), &mut path)
    }

    fn nested(
        &self,
        (target, to): (usize, &str),
        (by, column): (usize, &str),
        path: &mut Path,
    ) -> Option<String> {
        if path.seen.contains(&by)
            || path.seen.len() > DEPTH_MAX
            || self.found[by].lock.is_some()
            || !self.lie_together((target, to), (by, column))
        {
            return None;
        }
        path.left = path.left.checked_sub(1)?;
        path.seen.push(by);
        let pushed = self.found[by].pushed.iter();
        let mut conditions: Vec<String> = pushed.map(|it| format!("({it}\n)")).collect();
        for ((one, to), (other, column)) in self.pairs {
            if *one == by {
                conditions.extend(self.nested((by, to), (*other, column), path));
            }
        }
        path.seen.pop();
        let rows = &self.found[by];
        let whole = format!(
            "{}.{} IN (SELECT {}.{} {} WHERE {})",
            ticked(self.found[target].called()),
            ticked(to),
            ticked(rows.called()),
            ticked(column),
            from(rows),
            conditions.join(" AND ")
        );
        (!conditions.is_empty()).then_some(whole)
    }

    /// Rows of `by` that a row of `target` meets by these columns are on its group.
    fn lie_together(&self, (target, to): (usize, &str), (by, column): (usize, &str)) -> bool {
        let placed = |at: usize| {
            let it = &self.found[at];
            self.asked.sharding.placed(&it.database, &it.table)
        };
        match (placed(target), placed(by)) {
            (Placed::Sharded(one), Placed::Sharded(other)) => {
                one.map == other.map
                    && one.key == other.key
                    && one.column.eq_ignore_ascii_case(to)
                    && other.column.eq_ignore_ascii_case(column)
            }
            (Placed::Sharded(one), Placed::Global(map)) => one.map == map,
            (Placed::Global(one), Placed::Global(map)) => one == map,
            _ => false,
        }
    }
}
