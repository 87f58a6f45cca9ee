//! Rows that cannot matter are not fetched: the values that a table has already are put into the
//! condition of the next one, as a list while they are few, else as a range.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::rc::Rc;
use std::sync::Arc;

use backend::Connection;
use execute::per_core::Core;
use execute::variables::session_variables::SessionVariables;
use farm::shard::{Key, KeyType, ShardMap};
use farm::sharding::Placed;
use planner::{Fragment, Passed, Reduced, Reduction, Scratch};
use routing::shard::shard_of;
use sqltext::{Mode, tables};

use super::filling::seen::Seen;

/// So many values make a list; of more, numbers and dates make a range.
const LIST_MAX: usize = 1000;

/// The same of numbers. MariaDB makes a table of a longer list than [`LIST_MAX`], whose columns compare
/// with a table's as columns do, not as literals: the same for numbers only.
const NUMBERS_MAX: usize = 64 * 1024;

/// A list is no longer.
const LIST_BYTES_MAX: usize = 1024 * 1024;

/// The values of a larger table are not looked for: they would be many.
const ROWS_MAX: u64 = 100_000;

/// The conditions that values of fetched tables make, by table and column; `None` where they make
/// none.
#[derive(Default)]
pub(super) struct Known(HashMap<(usize, String), Option<Values>>);

enum Values {
    List(Rc<[String]>),
    Range(String, String),
}

impl Values {
    /// Of whole numbers, each once and in order.
    fn of_whole(all: &[i128]) -> Option<Values> {
        if let (Some(least), Some(most)) = (all.first(), all.last())
            && all.len() > NUMBERS_MAX
        {
            return Some(Values::Range(least.to_string(), most.to_string()));
        }
        let list: Vec<String> = all.iter().map(ToString::to_string).collect();
        let bytes: usize = list.iter().map(String::len).sum();
        (bytes <= LIST_BYTES_MAX).then(|| Values::List(list.into()))
    }
}

/// The columns of a table whose values are wanted for those that are still to be fetched, where these are whole numbers.
pub(super) fn columns(scratch: &Scratch, by: usize, left: &[usize]) -> impl Iterator<Item = usize> {
    let wanted = left.iter().flat_map(|&at| &scratch.reduced[at].by);
    wanted.filter(move |it| it.by == by && it.passed == Passed::Number).filter_map(|it| it.column)
}

impl Known {
    /// Looks for the values of a table that has been filled with so many rows, for those that are
    /// still to be fetched: among what was seen on the way, else on the scratch server.
    pub async fn learn(
        &mut self,
        scratch: &Scratch,
        (by, rows): (usize, u64),
        left: &[usize],
        (mut seen, connection): (Vec<Seen>, &mut Connection),
    ) {
        if rows > ROWS_MAX {
            return;
        }
        let wanted = left.iter().flat_map(|&at| &scratch.reduced[at].by);
        for one in wanted.filter(|it| it.by == by) {
            if let Entry::Vacant(unknown) = self.0.entry((by, one.from.clone())) {
                let table = &scratch.tables[by].name;
                let passed = seen.iter().position(|it| Some(it.column) == one.column);
                let passed = passed.and_then(|at| seen.swap_remove(at).values());
                unknown.insert(match passed {
                    _ if rows == 0 => Some(Values::List(Rc::new([]))),
                    Some(passed) => Values::of_whole(&passed),
                    None => values(table, one, connection).await,
                });
            }
        }
    }

    /// The fragment with what is known of others; `None` when it has no row that matters.
    pub fn reduced<'f>(&self, fragment: &'f Fragment, reduced: &'f Reduced) -> Option<Wanted<'f>> {
        let (mut conditions, mut narrows, mut by_values) = (Vec::new(), false, false);
        let mut keys = None;
        for one in &reduced.by {
            let key = (one.by, one.from.clone());
            match self.0.get(&key) {
                Some(Some(Values::List(list))) if list.is_empty() => return None,
                Some(Some(Values::List(list))) => {
                    by_values = true;
                    // All groups have some of many, and a long list takes long to read.
                    let (is_key, few) =
                        (one.is_key && one.passed == Passed::Number, list.len() <= LIST_MAX);
                    narrows |= few && is_key;
                    match is_key && !few && keys.is_none() {
                        true => keys = Some((one.to.clone(), list.clone())),
                        false => conditions.push(among(&one.to, list)),
                    }
                }
                Some(Some(Values::Range(least, most))) => {
                    conditions.push(format!("{} BETWEEN {least} AND {most}", one.to));
                    by_values = true;
                    conditions.extend(one.there.clone());
                }
                Some(None) | None => conditions.extend(one.there.clone()),
            }
        }
        Some(Wanted {
            fragment,
            reduced,
            conditions,
            keys,
            narrows,
            by_values,
        })
    }
}

/// A fragment with conditions more.
pub(super) struct Wanted<'f> {
    fragment: &'f Fragment,
    reduced: &'f Reduced,
    conditions: Vec<String>,
    /// Many shard keys, and what they are called: each group needs those only that belong there.
    keys: Option<(String, Rc<[String]>)>,
    /// Not all of its groups can have such rows.
    narrows: bool,
    /// Values of others are among the conditions.
    pub by_values: bool,
}

impl Wanted<'_> {
    /// What is asked, of the groups that can have rows of it.
    pub fn fragments(&self, core: &Core, variables: &SessionVariables) -> Vec<Fragment> {
        let Some((to, list)) = &self.keys else {
            let whole = self.with(None, &self.fragment.groups);
            return match self.narrows {
                true => vec![narrowed(core, variables, whole)],
                false => vec![whole],
            };
        };
        match divided(core, &variables.mode, self.fragment, list) {
            Some(each) => {
                let own = |(group, keys): &(Arc<str>, Vec<&str>)| {
                    self.with(Some(among(to, keys)), std::slice::from_ref(group))
                };
                each.iter().map(own).collect()
            }
            None => vec![self.with(Some(among(to, list)), &self.fragment.groups)],
        }
    }

    fn with(&self, more: Option<String>, groups: &[Arc<str>]) -> Fragment {
        let all: Vec<String> = self.conditions.iter().cloned().chain(more).collect();
        Fragment {
            text: self.reduced.text(&self.fragment.text, &all),
            groups: groups.to_vec(),
            any: self.fragment.any,
        }
    }
}

fn among<T: AsRef<str>>(column: &str, list: &[T]) -> String {
    let mut text = format!("{column} IN (");
    for (at, value) in list.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(value.as_ref());
    }
    text.push(')');
    text
}

/// Shard keys of a fragment's table by the groups that they belong to; `None` where that is not known.
fn divided<'l>(
    core: &Core,
    mode: &Mode,
    fragment: &Fragment,
    list: &'l [String],
) -> Option<Vec<(Arc<str>, Vec<&'l str>)>> {
    let snapshot = core.glance();
    let sharding = snapshot.sharding.as_ref()?;
    let named = tables(fragment.text.as_bytes(), mode).into_iter().next()?;
    let database = String::from_utf8_lossy(named.database.as_deref()?);
    let Placed::Sharded(table) = sharding.placed(&database, &String::from_utf8_lossy(&named.name))
    else {
        return None;
    };
    let map = &sharding.map(table.map)?.map;
    match table.key {
        KeyType::Integer => by_group(map, &fragment.groups, list),
        _ => None,
    }
}

/// Integers by the groups that they belong to, without those that belong to none of these.
fn by_group<'l>(
    map: &ShardMap,
    groups: &[Arc<str>],
    list: &'l [String],
) -> Option<Vec<(Arc<str>, Vec<&'l str>)>> {
    let mut all: Vec<(Arc<str>, Vec<&str>)> =
        groups.iter().map(|group| (group.clone(), Vec::new())).collect();
    for key in list {
        let Some(at) = shard_of(map, &Key::Int(key.parse().ok()?)) else {
            continue;
        };
        let group = &map.shard(at).group;
        if let Some((_, own)) = all.iter_mut().find(|(it, _)| it == group) {
            own.push(key);
        }
    }
    all.retain(|(_, own)| !own.is_empty());
    Some(all)
}

/// `None` also when they cannot be had: they are not needed.
async fn values(table: &str, one: &Reduction, connection: &mut Connection) -> Option<Values> {
    let column = &one.from;
    let most = match one.passed {
        Passed::Number => NUMBERS_MAX,
        Passed::Date | Passed::Text(_) => LIST_MAX,
    };
    let query = format!(
        "SELECT DISTINCT {column} FROM {table} WHERE {column} IS NOT NULL LIMIT {}",
        most + 1
    );
    let rows = connection.ask_all(query.as_bytes()).await.ok()?;
    let written = |row: &Vec<Vec<u8>>| literal(row.first()?, &one.passed);
    if rows.len() <= most {
        let list: Vec<String> = rows.iter().map(written).collect::<Option<_>>()?;
        let bytes: usize = list.iter().map(String::len).sum();
        return (bytes <= LIST_BYTES_MAX).then(|| Values::List(list.into()));
    }
    if matches!(one.passed, Passed::Text(_)) {
        return None;
    }
    let query = format!("SELECT MIN({column}), MAX({column}) FROM {table}");
    let ends = connection.ask(query.as_bytes()).await.ok()?;
    let end = |at: usize| literal(ends.get(at)?, &one.passed);
    Some(Values::Range(end(0)?, end(1)?))
}

fn literal(value: &[u8], passed: &Passed) -> Option<String> {
    let text = || std::str::from_utf8(value).ok();
    Some(match passed {
        Passed::Number => text()?.to_owned(),
        Passed::Date => format!("'{}'", text()?),
        Passed::Text(charset) => {
            format!("_{charset} x'{}'", hex::encode(value))
        }
    })
}

/// The groups that can have rows of a fragment whose key has been narrowed.
fn narrowed(core: &Core, variables: &SessionVariables, mut fragment: Fragment) -> Fragment {
    let snapshot = core.glance();
    let (Some(sharding), Some(home)) = (&snapshot.sharding, snapshot.home()) else {
        return fragment;
    };
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let asked = planner::Asked {
        sharding,
        home: &home.name,
        database: &database,
        mode: &variables.mode,
        scratch: "",
        changing: None,
    };
    if let Some(groups) = planner::groups_of(&fragment.text, &asked) {
        fragment.groups.retain(|group| groups.contains(group));
    }
    fragment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_conditions() {
        let fragment = Fragment {
            text: "SELECT `a` FROM `s`.`t` AS `x`".to_owned(),
            groups: vec!["g1".into()],
            any: false,
        };
        let reduction = |from: &str| Reduction {
            by: 1,
            from: from.to_owned(),
            column: None,
            to: "`x`.`a`".to_owned(),
            passed: Passed::Number,
            is_key: true,
            there: Some(format!("{from} is there")),
        };
        let reduced = Reduced {
            by: vec![reduction("b"), reduction("c"), reduction("d")],
            at: fragment.text.len(),
            word: "WHERE",
            called: "x".to_owned(),
        };
        let mut known = Known::default();
        let text = |known: &Known| {
            let wanted = known.reduced(&fragment, &reduced)?;
            Some(wanted.with(None, &fragment.groups).text)
        };
        assert_eq!(
            text(&known).as_deref(),
            Some("SELECT `a` FROM `s`.`t` AS `x` WHERE b is there AND c is there AND d is there")
        );
        let list = Values::List(Rc::new(["1".into(), "2".into()]));
        known.0.insert((1, "b".into()), Some(list));
        let range = Values::Range("3".into(), "9".into());
        known.0.insert((1, "c".into()), Some(range));
        known.0.insert((1, "d".into()), None);
        assert_eq!(
            text(&known).as_deref(),
            Some(
                "SELECT `a` FROM `s`.`t` AS `x` WHERE `x`.`a` IN (1,2) AND \
                 `x`.`a` BETWEEN 3 AND 9 AND c is there AND d is there"
            )
        );
        known.0.insert((1, "d".into()), Some(Values::List(Rc::new([]))));
        assert_eq!(text(&known), None);
        let many: Vec<String> = (0..=LIST_MAX).map(|key| key.to_string()).collect();
        known.0.insert((1, "d".into()), Some(Values::List(many.into())));
        let wanted = known.reduced(&fragment, &reduced).expect("it has rows");
        let (to, list) = wanted.keys.as_ref().expect("keys are divided");
        assert_eq!((&**to, list.len()), ("`x`.`a`", LIST_MAX + 1));
        let text = literal("é'".as_bytes(), &Passed::Text("utf8mb4".into()));
        assert_eq!(text.as_deref(), Some("_utf8mb4 x'c3a927'"));
    }
    #[test]
    fn keys_go_where_they_belong() {
        let map = farm::samples::slot_map(1, &["g1", "g2", "g3"]);
        let list: Vec<String> = (-5..40).map(|key: i32| key.to_string()).collect();
        let groups = ["g1".into(), "g3".into()];
        let all = by_group(&map, &groups, &list).expect("they are integers");
        assert_eq!(all.len(), 2);
        for (group, keys) in &all {
            assert!(keys.len() > 5, "{group}: {keys:?}");
            for key in keys {
                let key = Key::Int(key.parse().expect("a number"));
                let at = shard_of(&map, &key).expect("slots have all keys");
                assert_eq!(map.shard(at).group, *group);
            }
        }
        let count: usize = all.iter().map(|(_, keys)| keys.len()).sum();
        assert!(count < list.len(), "those of g2 are left out");
        assert!(by_group(&map, &groups, &["1.5".to_owned()]).is_none());
        assert!(by_group(&map, &groups, &[]).is_some_and(|it| it.is_empty()));
    }
}
