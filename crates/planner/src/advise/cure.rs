//! Which tables would have to be placed otherwise for a SELECT to be gathered no more.

use farm::Sharding;
use farm::sharding::Placed;

use super::terms::Terms;
use super::way::{Text, Way};
use super::{Change, To, changed, map_of};
use crate::answer::Asked;

/// More are not thought of for one statement: each costs a plan.
const CANDIDATES_MAX: usize = 32;

/// Changes of which all together help, on this map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cure {
    pub map: u32,
    pub changes: Vec<Change>,
}

/// What might help a SELECT that is gathered, the least change first. Nobody has looked whether it does:
/// [`helps`] tells.
pub fn candidates(text: &str, asked: &Asked<'_>) -> Vec<Cure> {
    let Some(terms) = Terms::of(text, asked) else {
        return Vec::new();
    };
    let Some(map) = map_of(asked.sharding, &terms.tables) else {
        return Vec::new();
    };
    let sets = sets(&terms, asked.sharding);
    let cures = sets.into_iter().map(|changes| Cure { map, changes });
    cures.take(CANDIDATES_MAX).collect()
}

/// With these changes the SELECT is answered without its rows' being gathered.
pub fn helps(text: &str, asked: &Asked<'_>, cure: &Cure) -> bool {
    let Some(then) = changed(asked.sharding, cure.map, &cure.changes) else {
        return false;
    };
    let whole = Text {
        text,
        database: asked.database,
        mode: asked.mode,
        home: asked.home,
        writes: false,
    };
    matches!(whole.way(&then), Way::One | Way::Each(_))
}

/// Sets of changes: first keys by which tables are joined, then global tables, then two at once.
pub(super) fn sets(terms: &Terms, sharding: &Sharding) -> Vec<Vec<Change>> {
    let change = |at: usize, to: To| {
        let (database, table) = terms.tables[at].clone();
        Change {
            database,
            table,
            to,
        }
    };
    let (mut one, mut both) = (Vec::new(), Vec::new());
    for (left, right) in &terms.pairs {
        let pair = [left, right].map(|(at, column)| change(*at, To::Key(column.clone())));
        let left: Vec<Change> = pair
            .into_iter()
            .filter(|it| !it.is_done(sharding))
            .collect();
        match left.len() {
            0 => {}
            1 => one.push(left),
            _ => both.push(left),
        }
    }
    let places = 0..terms.tables.len();
    let moved = places.filter(|at| {
        let (database, table) = &terms.tables[*at];
        !matches!(sharding.placed(database, table), Placed::Global(_))
    });
    let global: Vec<Change> = moved.map(|at| change(at, To::Global)).collect();
    let mut all = one.clone();
    all.extend(global.iter().map(|it| vec![it.clone()]));
    all.append(&mut both);
    for (place, first) in global.iter().enumerate() {
        let rest = global[place + 1..].iter();
        all.extend(rest.map(|second| vec![first.clone(), second.clone()]));
    }
    for key in &one {
        let others = global.iter().filter(|it| it.table != key[0].table);
        all.extend(others.map(|it| vec![key[0].clone(), it.clone()]));
    }
    all
}
