//! In which order tables are fetched, so that the values of small ones leave rows of larger ones out.

use super::references::Reference;
use crate::answer::{Fragment, Reduced};

/// Tables that have conditions of their own begin, those first that are small for the most part: they
/// are on every group. Then comes whatever the values of fetched ones reduce, along the joins.
pub(super) fn order(
    found: &[&Reference],
    fragments: &[Fragment],
    reduced: &[Reduced],
) -> Vec<usize> {
    let rank = |at: usize, fetched: &[bool]| {
        let is_small = fragments[at].any;
        let filtered = !found[at].pushed.is_empty();
        let reached = reduced[at].by.iter().any(|it| fetched[it.by]);
        let rank = match (is_small, filtered, reached) {
            (true, true, _) => 0,
            (true, false, true) => 1,
            (false, true, true) => 2,
            (false, false, true) => 3,
            (false, true, false) => 4,
            (true, false, false) => 5,
            (false, false, false) => 6,
        };
        (rank, fragments[at].groups.len(), at)
    };
    let mut fetched = vec![false; found.len()];
    let mut order = Vec::new();
    let next = |fetched: &[bool]| {
        let left = (0..fetched.len()).filter(|at| !fetched[*at]);
        left.min_by_key(|at| rank(*at, fetched))
    };
    while let Some(at) = next(&fetched) {
        fetched[at] = true;
        order.push(at);
    }
    order
}
