//! In which order tables are fetched, by how many rows the servers think that their conditions leave: the
//! order in which the fewest rows move, where the values of one table leave rows out of the next.
//!
//! A guess only chooses an order, which decides how much moves, never what the answer is.

use crate::answer::{Answer, Finish, Reduced, Scratch};

/// Of more tables not all orders are compared: the smallest of those that are left comes next.
const COMPARED_MAX: usize = 6;

/// The share of its rows that a table's conditions leave, where nothing else is known.
const SHARE: f64 = 0.1;

/// More values of a table leave nothing out of others.
const VALUES_MAX: f64 = 64.0 * 1024.0;

/// Another order has to save so much of what moves, since sizes are guesses.
const SAVES: f64 = 0.2;

/// Puts the fragments of a gathered answer into the order in which the fewest rows move, and tells why.
/// `sizes`: the rows that the servers think each fragment looks at; the order stays where one is not known.
/// `filtered`: their guesses take conditions that no index serves into account, as MySQL's do. `learned`: the rows that a
/// fragment gave when it was fetched without values of others, where that is known; nothing where nobody knows.
pub fn order_by_size(
    answer: &mut Answer,
    sizes: &[Option<u64>],
    filtered: bool,
    learned: &[Option<u64>],
) {
    let Finish::Scratch(scratch) = &mut answer.finish else {
        return;
    };
    let Some(sizes) = sizes.iter().copied().collect::<Option<Vec<u64>>>() else {
        return;
    };
    if sizes.len() != scratch.reduced.len() || !asks_for_sizes(scratch) {
        return;
    }
    let costs = Costs::of(scratch, &sizes, filtered, learned);
    let written = costs.rows_of(&scratch.order);
    let best = costs.best(&scratch.order);
    let (least, order) = match costs.rows_of(&best) {
        least if least <= written * (1.0 - SAVES) => (least, best),
        _ => (written, scratch.order.clone()),
    };
    let names = order.iter().map(|at| scratch.reduced[*at].called.as_str());
    let names = names.collect::<Vec<_>>().join(", ");
    let mut reason = format!("fetched in the order {names}: some {least:.0} rows");
    if order != scratch.order {
        reason.push_str(&format!(", {written:.0} without the servers' sizes"));
    }
    scratch.order = order;
    answer.reasons.push(reason);
}

/// The order matters: values of a table leave rows out of another one.
pub fn asks_for_sizes(scratch: &Scratch) -> bool {
    scratch.order.len() > 1 && scratch.reduced.iter().any(|it| !it.by.is_empty())
}

/// What is guessed of each table.
pub(crate) struct Costs<'s> {
    reduced: &'s [Reduced],
    /// Its rows without conditions that no index serves.
    whole: Vec<f64>,
    /// The rows that its own conditions leave.
    alone: Vec<f64>,
    /// The same are those that conditions leave which a group can tell by itself.
    counted: Vec<bool>,
}

impl<'s> Costs<'s> {
    pub(crate) fn of(
        scratch: &'s Scratch,
        sizes: &[u64],
        filtered: bool,
        learned: &[Option<u64>],
    ) -> Costs<'s> {
        let guessed = |at: usize| {
            let (rows, has_conditions) = (
                sizes[at].max(1) as f64,
                scratch.reduced[at].has_conditions(),
            );
            match (has_conditions, filtered) {
                (false, _) => (rows, rows),
                (true, false) => (rows, (rows * SHARE).max(1.0)),
                (true, true) => (rows / SHARE, rows),
            }
        };
        let rows = |at: usize| {
            let (whole, alone) = guessed(at);
            match learned.get(at).copied().flatten() {
                Some(rows) => (whole.max(rows as f64), (rows as f64).max(1.0)),
                None => (whole, alone),
            }
        };
        let (whole, alone) = (0..sizes.len()).map(rows).unzip();
        let counted = |at: usize| learned.get(at).is_some_and(Option::is_some);
        Costs {
            reduced: &scratch.reduced,
            whole,
            alone,
            counted: (0..sizes.len()).map(counted).collect(),
        }
    }

    /// The rows of a table that move now, where so many of others have come.
    fn rows(&self, at: usize, fetched: &[Option<f64>]) -> f64 {
        // Several columns may be compared with those of one table: they say much the same.
        let mut shares: Vec<(usize, f64)> = Vec::new();
        for one in &self.reduced[at].by {
            let share = match fetched[one.by] {
                Some(rows) if rows <= VALUES_MAX => rows / self.whole[one.by],
                _ if one.there.is_some() && !self.counted[at] => {
                    self.alone[one.by] / self.whole[one.by]
                }
                _ => continue,
            };
            match shares.iter_mut().find(|(by, _)| *by == one.by) {
                Some((_, least)) => *least = least.min(share),
                None => shares.push((one.by, share)),
            }
        }
        let share: f64 = shares.iter().map(|(_, share)| share.min(1.0)).product();
        (self.alone[at] * share).max(1.0)
    }

    /// The rows of a table that move where no other one has come.
    pub(crate) fn first(&self, at: usize) -> f64 {
        self.rows(at, &vec![None; self.alone.len()])
    }

    /// The rows of each table that move in this order.
    pub(crate) fn rows_each(&self, order: &[usize]) -> Vec<f64> {
        let mut fetched = vec![None; order.len()];
        for at in order {
            fetched[*at] = Some(self.rows(*at, &fetched));
        }
        fetched.into_iter().flatten().collect()
    }

    /// The rows that move in this order.
    fn rows_of(&self, order: &[usize]) -> f64 {
        self.rows_each(order).iter().sum()
    }

    /// The best order; of equal ones the first, where tables are taken in this one.
    fn best(&self, written: &[usize]) -> Vec<usize> {
        let mut search = Search {
            costs: self,
            written,
            fetched: vec![None; written.len()],
            order: Vec::new(),
            best: (f64::INFINITY, written.to_vec()),
        };
        match written.len() <= COMPARED_MAX {
            true => search.all(0.0),
            false => search.smallest(),
        }
        search.best.1
    }
}

struct Search<'c> {
    costs: &'c Costs<'c>,
    written: &'c [usize],
    fetched: Vec<Option<f64>>,
    order: Vec<usize>,
    /// The rows of the best order so far, and it.
    best: (f64, Vec<usize>),
}

impl Search<'_> {
    /// Looks at all orders that begin with what is there, of so many rows.
    fn all(&mut self, rows: f64) {
        if rows >= self.best.0 {
            return;
        }
        if self.order.len() == self.written.len() {
            self.best = (rows, self.order.clone());
            return;
        }
        for &at in self.written {
            if self.fetched[at].is_none() {
                let own = self.costs.rows(at, &self.fetched);
                self.fetched[at] = Some(own);
                self.order.push(at);
                self.all(rows + own);
                self.order.pop();
                self.fetched[at] = None;
            }
        }
    }

    fn smallest(&mut self) {
        while self.order.len() < self.written.len() {
            let left = self
                .written
                .iter()
                .filter(|at| self.fetched[**at].is_none());
            let sized = left.map(|at| (*at, self.costs.rows(*at, &self.fetched)));
            let Some((at, rows)) = sized.min_by(|one, other| one.1.total_cmp(&other.1)) else {
                break;
            };
            self.fetched[at] = Some(rows);
            self.order.push(at);
        }
        self.best.1 = std::mem::take(&mut self.order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Passed, Reduction, Tier};

    /// Tables: what they are called, whether they have conditions, and what reduces them.
    fn answer(tables: &[(&str, bool, &[usize])]) -> Answer {
        let reduction = |by: &usize| Reduction {
            by: *by,
            from: "`a`".to_owned(),
            column: None,
            to: "`t`.`a`".to_owned(),
            passed: Passed::Number,
            is_key: false,
            there: None,
        };
        let reduced = tables.iter().map(|(called, filtered, by)| Reduced {
            by: by.iter().map(reduction).collect(),
            at: 0,
            word: if *filtered { "AND" } else { "WHERE" },
            called: (*called).to_owned(),
        });
        Answer {
            tier: Tier::Gather,
            fragments: Vec::new(),
            finish: Finish::Scratch(Scratch {
                tables: Vec::new(),
                text: String::new(),
                variables: Vec::new(),
                order: (0..tables.len()).collect(),
                reduced: reduced.collect(),
            }),
            locks: false,
            clock: false,
            reasons: Vec::new(),
            sending: None,
            otherwise: None,
        }
    }

    fn ordered(tables: &[(&str, bool, &[usize])], sizes: &[Option<u64>], filtered: bool) -> String {
        let mut answer = answer(tables);
        order_by_size(&mut answer, sizes, filtered, &[]);
        answer.reasons.join("; ")
    }

    #[test]
    fn what_was_learned_stands_in_place_of_a_guess() {
        let both: [(&str, bool, &[usize]); 2] = [("lines", true, &[1]), ("parts", true, &[0])];
        let mut answer = answer(&both);
        let sizes = [Some(600_000), Some(20_000)];
        order_by_size(&mut answer, &sizes, false, &[Some(7), None]);
        assert_eq!(
            answer.reasons.join("; "),
            "fetched in the order lines, parts: some 8 rows"
        );
    }

    #[test]
    fn what_is_small_comes_first() {
        let both: [(&str, bool, &[usize]); 2] = [("lines", true, &[1]), ("parts", true, &[0])];
        let sizes = [Some(600_000), Some(20_000)];
        assert_eq!(
            ordered(&both, &sizes, false),
            "fetched in the order parts, lines: some 8000 rows, 60200 without the servers' sizes"
        );
        assert_eq!(
            ordered(&both, &[Some(60_000), Some(20)], true),
            "fetched in the order parts, lines: some 6020 rows, 60002 without the servers' sizes"
        );
        // As good as equal: it stays as it is.
        assert_eq!(
            ordered(&both, &[Some(1000), Some(990)], false),
            "fetched in the order lines, parts: some 110 rows"
        );
        // Nothing is known, or nothing is left out.
        assert_eq!(ordered(&both, &[Some(9), None], false), "");
        let apart: [(&str, bool, &[usize]); 2] = [("lines", true, &[]), ("parts", true, &[])];
        assert_eq!(ordered(&apart, &sizes, false), "");
    }

    #[test]
    fn chains_are_followed_from_their_small_end() {
        let chain: [(&str, bool, &[usize]); 4] = [
            ("lines", false, &[1]),
            ("orders", false, &[0, 2]),
            ("customers", false, &[1, 3]),
            ("nations", true, &[2]),
        ];
        let sizes = [600_000, 150_000, 15_000, 20].map(Some);
        assert_eq!(
            ordered(&chain, &sizes, false),
            "fetched in the order nations, customers, orders, lines: some 76502 rows, \
             765002 without the servers' sizes"
        );
        // A table without conditions comes behind one that leaves most of it out.
        let pair: [(&str, bool, &[usize]); 2] = [("people", false, &[1]), ("visits", true, &[0])];
        assert_eq!(
            ordered(&pair, &[Some(1000), Some(5000)], false),
            "fetched in the order visits, people: some 600 rows, 1500 without the servers' sizes"
        );
    }

    #[test]
    fn many_tables_are_ordered_at_once() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let table = |name: &&'static str| (*name, *name == "h", &[7usize][..]);
        let tables: Vec<(&str, bool, &[usize])> = names.iter().map(table).collect();
        let sizes: Vec<Option<u64>> = (1..=8u64).rev().map(|at| Some(at * 100)).collect();
        let told = ordered(&tables, &sizes, false);
        assert!(
            told.starts_with("fetched in the order h, g, f, e, d, c, b, a"),
            "{told}"
        );
    }
}
