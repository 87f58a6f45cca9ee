//! Which part of a map moves: the map behind the move, and the rows that are meant, as a condition in
//! SQL.

use farm::shard::{Bound, SLOTS, ShardKind};
use planner::belongs::belongs;

use catalog::bounds;
use catalog::record::{Declared, PartRecord, ShardRecord, TableRecord};

/// The group of the part while it is asked for; no group has such a name.
const PART: &str = "\0part";

/// What a move makes of a map.
pub(super) struct Next {
    pub(super) puts: Vec<(u32, ShardRecord)>,
    pub(super) removes: Vec<u32>,
    pub(super) tables: Vec<PartRecord>,
    pub(super) fresh: bool,
    pub(super) keeps: bool,
}

/// The whole shard goes to the group; onto the shard that it has, where the map has slots.
pub(super) fn of_move(declared: &Declared, id: u32, to: &str) -> Result<Next, String> {
    let shard = &declared.shards[&id];
    let part = ShardRecord {
        group: PART.to_owned(),
        ..shard.clone()
    };
    let (mut puts, mut removes) = (Vec::new(), Vec::new());
    match landed(declared, to, shard)? {
        (None, there) => puts.push((id, there)),
        (Some(other), there) => {
            puts.push((other, there));
            removes.push(id);
        }
    }
    next(declared, shard.map, to, &[(id, part)], puts, removes, false)
}

/// The whole shard goes to the group of another shard of its map, which has its keys, too, from then on.
pub(super) fn of_merge(declared: &Declared, id: u32, into: u32) -> Result<Next, String> {
    let (shard, other) = (&declared.shards[&id], &declared.shards[&into]);
    if id == into {
        return Err(format!("shard {id} cannot become a part of itself"));
    }
    if shard.map != other.map {
        return Err(format!(
            "shard {id} is of map {} and shard {into} of map {}; only shards of one map become one",
            shard.map, other.map
        ));
    }
    let kind = kind_of(declared, shard.map);
    let merged = match kind {
        ShardKind::Slots => {
            let slots = numbers(&other.slots).chain(numbers(&shard.slots));
            ShardRecord {
                slots: ranges(slots.collect()),
                ..other.clone()
            }
        }
        ShardKind::List => ShardRecord {
            bound: format!("{}|{}", other.bound, shard.bound),
            ..other.clone()
        },
        _ => ShardRecord {
            bound: joined_bound(declared, kind, (id, shard), (into, other))?,
            ..other.clone()
        },
    };
    let part = ShardRecord {
        group: PART.to_owned(),
        ..shard.clone()
    };
    let puts = if merged == *other {
        Vec::new()
    } else {
        vec![(into, merged)]
    };
    let to = &other.group;
    next(
        declared,
        shard.map,
        to,
        &[(id, part)],
        puts,
        vec![id],
        false,
    )
}

/// The bound of two neighbours that become one: the lower one's. The last hash of a map has also what is
/// below the lowest, so there the first and the last are neighbours, too.
fn joined_bound(
    declared: &Declared,
    kind: ShardKind,
    (id, shard): (u32, &ShardRecord),
    (into, other): (u32, &ShardRecord),
) -> Result<String, String> {
    let mut all = Vec::new();
    for (id, record) in declared.shards_of(shard.map) {
        all.push((id, bounds::read(kind, &record.bound)?));
    }
    all.sort_by(|(_, one), (_, other)| bounds::order(one, other));
    let at = |wanted: u32| all.iter().position(|(id, _)| *id == wanted);
    let (Some(goes), Some(stays)) = (at(id), at(into)) else {
        return Err("the map cannot be read".to_owned());
    };
    let behind = |place: usize| match kind {
        ShardKind::Hash => Some((place + 1) % all.len()),
        _ => Some(place + 1).filter(|place| *place < all.len()),
    };
    if behind(stays) == Some(goes) {
        return Ok(other.bound.clone());
    }
    if behind(goes) == Some(stays) {
        return Ok(shard.bound.clone());
    }
    let place = match goes < stays {
        true => goes + 1,
        false => goes - 1,
    };
    Err(format!(
        "shards {id} (from {}) and {into} (from {}) are not neighbours: shard {} lies between them; \
         `sharding list_shards` shows their bounds",
        shard.bound, other.bound, all[place].0
    ))
}

/// A part of the shard goes to the group, as a shard `new` of its own.
pub(super) fn of_split(
    declared: &Declared,
    id: u32,
    new: u32,
    to: &str,
    value: Option<&str>,
) -> Result<Next, String> {
    let shard = &declared.shards[&id];
    let kind = kind_of(declared, shard.map);
    let (stays, goes) = divided(declared, kind, id, shard, value)?;
    let mut puts = Vec::new();
    if stays != *shard {
        puts.push((id, stays.clone()));
    }
    let (other, there) = landed(declared, to, &goes)?;
    puts.push((other.unwrap_or(new), there));
    let part = ShardRecord {
        group: PART.to_owned(),
        ..goes
    };
    let parts = [(id, stays), (new, part)];
    next(declared, shard.map, to, &parts, puts, Vec::new(), true)
}

/// A part as it is once the group has it: a shard of its own, or one with the numbered shard that the
/// group has, where the map has slots.
fn landed(
    declared: &Declared,
    to: &str,
    part: &ShardRecord,
) -> Result<(Option<u32>, ShardRecord), String> {
    let mut shards = declared.shards_of(part.map);
    let Some((other, there)) = shards.find(|(_, shard)| shard.group == to) else {
        let group = to.to_owned();
        let own = ShardRecord {
            group,
            ..part.clone()
        };
        return Ok((None, own));
    };
    if kind_of(declared, part.map) != ShardKind::Slots {
        return Err(format!(
            "group {to} has shard {other} of map {} already, and a group has one shard of a map: name \
             a group that has none, or have both become one by `sharding merge_shards`",
            part.map
        ));
    }
    let slots = numbers(&there.slots).chain(numbers(&part.slots));
    let both = ShardRecord {
        slots: ranges(slots.collect()),
        ..there.clone()
    };
    Ok((Some(other), both))
}

fn kind_of(declared: &Declared, map: u32) -> ShardKind {
    let map = declared.maps.get(&map);
    map.map_or(ShardKind::Slots, |map| map.kind)
}

/// What stays of a shard, and what goes.
fn divided(
    declared: &Declared,
    kind: ShardKind,
    id: u32,
    shard: &ShardRecord,
    value: Option<&str>,
) -> Result<(ShardRecord, ShardRecord), String> {
    let with = |bound: String| ShardRecord {
        bound,
        ..shard.clone()
    };
    if kind == ShardKind::Slots {
        let all: Vec<u16> = numbers(&shard.slots).collect();
        let goes = slots_that_go(&all, value)?;
        let stays = all
            .into_iter()
            .filter(|slot| !goes.contains(slot))
            .collect();
        let of = |slots| ShardRecord {
            slots: ranges(slots),
            ..shard.clone()
        };
        return Ok((of(stays), of(goes)));
    }
    if kind == ShardKind::List {
        return divided_list(shard, value);
    }
    let value = match (value, kind) {
        (Some(value), _) => value.to_owned(),
        (None, ShardKind::Hash) => middle(declared, id, shard)?,
        (None, _) => {
            return Err(format!(
                "a map of the kind {} is split where --split_value says: the lowest key that goes",
                kind.name()
            ));
        }
    };
    let (old, new) = (
        bounds::read(kind, &shard.bound)?,
        bounds::read(kind, &value)?,
    );
    let others = declared.shards_of(shard.map);
    let above_old = others
        .filter_map(|(_, record)| bounds::read(kind, &record.bound).ok())
        .filter(|bound| bounds::order(bound, &old).is_gt());
    let next = above_old.min_by(bounds::order);
    let above = bounds::order(&new, &old).is_gt();
    let below = next
        .as_ref()
        .is_none_or(|next| bounds::order(&new, next).is_lt());
    // The last hash of a map has also what is below the lowest.
    let wraps = kind == ShardKind::Hash && next.is_none();
    if !(above && below || wraps && bounds::order(&new, &old).is_ne()) {
        return Err(format!(
            "{value} is not within shard {id}, which begins with {}; `sharding list_shards` shows their \
             bounds",
            shard.bound
        ));
    }
    Ok((shard.clone(), with(value)))
}

/// LIST: the keys that are named go.
fn divided_list(
    shard: &ShardRecord,
    value: Option<&str>,
) -> Result<(ShardRecord, ShardRecord), String> {
    let shown = "a LIST is split by --split_value=KEY|KEY|…: the keys that go";
    let value = value.ok_or(shown)?;
    let all: Vec<&str> = shard.bound.split('|').map(str::trim).collect();
    let goes: Vec<&str> = value.split('|').map(str::trim).collect();
    if let Some(strange) = goes.iter().find(|key| !all.contains(key)) {
        return Err(format!(
            "the shard has no key {strange:?}; it has {}",
            shard.bound
        ));
    }
    let stays: Vec<&str> = all.into_iter().filter(|key| !goes.contains(key)).collect();
    if stays.is_empty() {
        return Err("all its keys would go: that is `sharding move_shard`".to_owned());
    }
    let with = |keys: Vec<&str>| ShardRecord {
        bound: keys.join("|"),
        ..shard.clone()
    };
    Ok((with(stays), with(goes)))
}

/// The hash in the middle between a shard's and the next one's.
fn middle(declared: &Declared, id: u32, shard: &ShardRecord) -> Result<String, String> {
    let number = |text: &str| match bounds::read(ShardKind::Hash, text) {
        Ok(Bound::Digest(bytes)) => Some(u128::from_be_bytes(bytes)),
        _ => None,
    };
    let low = number(&shard.bound).ok_or_else(|| format!("the bound of shard {id} is damaged"))?;
    let others = declared.shards_of(shard.map);
    let distance = others
        .filter(|(other, _)| *other != id)
        .filter_map(|(_, record)| Some(number(&record.bound)?.wrapping_sub(low)))
        .min();
    let half = distance.map_or(1 << 127, |distance| distance / 2);
    Ok(hex::encode_upper(low.wrapping_add(half).to_be_bytes()))
}

/// SLOTS: the upper half, so many of the highest, or those that are named.
fn slots_that_go(all: &[u16], value: Option<&str>) -> Result<Vec<u16>, String> {
    let bad = || {
        format!(
            "a map of the kind SLOTS is split by --split_value=NUMBER (so many of the shard's {} slots), \
             or by slots: FROM-TO|FROM-TO|…",
            all.len()
        )
    };
    let goes: Vec<u16> = match value {
        None => all[all.len().div_ceil(2)..].to_vec(),
        Some(text) if text.contains('-') => {
            let mut some = Vec::new();
            for part in text.split('|') {
                let (from, to) = part.trim().split_once('-').ok_or_else(bad)?;
                let (from, to) = (from.parse::<u16>(), to.parse::<u16>());
                let (from, to) = (from.map_err(|_| bad())?, to.map_err(|_| bad())?);
                some.extend(from..=to);
            }
            if let Some(slot) = some.iter().find(|slot| !all.contains(slot)) {
                return Err(format!("slot {slot} is not of this shard; {}", bad()));
            }
            some
        }
        Some(text) => {
            let count: usize = text.parse().map_err(|_| bad())?;
            all[all.len().saturating_sub(count)..].to_vec()
        }
    };
    if goes.is_empty() || goes.len() >= all.len() {
        return Err(format!(
            "one slot must go at least, and one stay; {}",
            bad()
        ));
    }
    Ok(goes)
}

fn numbers(ranges: &[(u16, u16)]) -> impl Iterator<Item = u16> {
    ranges.iter().flat_map(|&(from, to)| from..=to)
}

/// Numbers as ranges.
fn ranges(mut numbers: Vec<u16>) -> Vec<(u16, u16)> {
    numbers.sort_unstable();
    numbers.dedup();
    let mut all: Vec<(u16, u16)> = Vec::new();
    for number in numbers
        .into_iter()
        .filter(|slot| usize::from(*slot) < SLOTS)
    {
        match all.last_mut() {
            Some((_, last)) if u32::from(*last) + 1 == u32::from(number) => *last = number,
            _ => all.push((number, number)),
        }
    }
    all
}

fn next(
    declared: &Declared,
    map: u32,
    to: &str,
    parts: &[(u32, ShardRecord)],
    puts: Vec<(u32, ShardRecord)>,
    removes: Vec<u32>,
    keeps: bool,
) -> Result<Next, String> {
    let mut divided = declared.clone();
    for (id, record) in parts {
        divided.shards.insert(*id, record.clone());
    }
    let whole = divided.map(map).ok_or("the map cannot be read")?;
    let at = whole.places().find(|at| &*whole.shard(*at).group == PART);
    let at = at.ok_or("the part cannot be found in its map")?;
    let has = declared.map(map).ok_or("the map cannot be read")?;
    let fresh = !farm::sharding::Mapped::new(has)
        .groups
        .iter()
        .any(|group| **group == *to);
    let mut tables = Vec::new();
    let part = |table: &TableRecord, only: String, global| PartRecord {
        database: table.database.clone(),
        table: table.table.clone(),
        only,
        global,
    };
    for table in declared
        .tables_of(map)
        .filter(|table| table.key.is_none() && fresh)
    {
        tables.push(part(table, "TRUE".to_owned(), true));
    }
    for table in declared.tables_of(map) {
        if let Some(key) = &table.key {
            let only = belongs(&whole, at, &key.column, key.key);
            tables.push(part(table, only, false));
        }
    }
    Ok(Next {
        puts,
        removes,
        tables,
        fresh,
        keeps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::record::MapRecord;

    #[test]
    fn slots_are_divided_by_number_and_by_name() {
        let all: Vec<u16> = (0..10).collect();
        let goes = |value| slots_that_go(&all, value);
        assert_eq!(goes(None), Ok(vec![5, 6, 7, 8, 9]));
        assert_eq!(goes(Some("2")), Ok(vec![8, 9]));
        assert_eq!(goes(Some("1-2|4-4")), Ok(vec![1, 2, 4]));
        for bad in ["0", "10", "x", "9-10", "1-"] {
            assert!(goes(Some(bad)).is_err(), "{bad}");
        }
        assert_eq!(ranges(vec![3, 1, 2, 7]), [(1, 3), (7, 7)]);
    }

    /// A map of a kind whose shards 1, 2, … lie on g1, g2, … and have these bounds.
    fn map_of(kind: ShardKind, bounds: &[&str]) -> Declared {
        let mut declared = Declared::default();
        let map = MapRecord {
            kind,
            global_group: "g1".to_owned(),
            name: String::new(),
        };
        declared.maps.insert(1, map);
        for (id, bound) in (1..).zip(bounds) {
            let shard = ShardRecord {
                map: 1,
                group: format!("g{id}"),
                bound: (*bound).to_owned(),
                enabled: true,
                slots: Vec::new(),
            };
            declared.shards.insert(id, shard);
        }
        declared
    }

    /// Merges, as `kind, bounds: which into which = what the other one's bound becomes`.
    #[test]
    fn neighbours_become_one() {
        const DIGITS: [&str; 3] = ["2", "6", "A"];
        let digests = DIGITS.map(|digit| format!("{digit}{}", "0".repeat(31)));
        let digests: Vec<&str> = digests.iter().map(String::as_str).collect();
        let numbers = ["1", "100", "1000"];
        let lists = ["DE|AT", "FR", "IT"];
        let becomes = |kind, bounds: &[&str], id: u32, into: u32| {
            let declared = map_of(kind, bounds);
            let next = of_merge(&declared, id, into)?;
            assert_eq!(next.removes, [id]);
            assert!(!next.fresh && !next.keeps);
            let own = &declared.shards[&into];
            let put = next.puts.first().map_or(own, |(put, shard)| {
                assert_eq!(*put, into);
                shard
            });
            assert_eq!(put.group, own.group);
            Ok::<_, String>(put.bound.clone())
        };
        for (kind, bounds) in [
            (ShardKind::RangeInteger, &numbers[..]),
            (ShardKind::Hash, &digests),
        ] {
            let low = |id: u32, into: u32| becomes(kind, bounds, id, into);
            assert_eq!(
                low(2, 1).as_deref(),
                Ok(bounds[0]),
                "the upper one goes down"
            );
            assert_eq!(low(1, 2).as_deref(), Ok(bounds[0]), "the lower one goes up");
            assert_eq!(low(3, 2).as_deref(), Ok(bounds[1]));
            assert!(low(2, 2).is_err_and(|it| it.contains("itself")));
        }
        let far = becomes(ShardKind::RangeInteger, &numbers, 3, 1);
        assert!(far.is_err_and(|it| it.contains("shard 2 lies between them")));
        let far = becomes(ShardKind::RangeInteger, &numbers, 1, 3);
        assert!(far.is_err_and(|it| it.contains("shard 2 lies between them")));
        // The highest hash has what is below the lowest.
        assert_eq!(
            becomes(ShardKind::Hash, &digests, 1, 3).as_deref(),
            Ok(digests[2])
        );
        assert_eq!(
            becomes(ShardKind::Hash, &digests, 3, 1).as_deref(),
            Ok(digests[2])
        );
        assert_eq!(
            becomes(ShardKind::List, &lists, 1, 3).as_deref(),
            Ok("IT|DE|AT")
        );
    }

    #[test]
    fn a_hash_is_divided_in_the_middle() {
        let mut declared = Declared::default();
        let shard = |bound: &str| ShardRecord {
            map: 1,
            group: "g".to_owned(),
            bound: bound.to_owned(),
            enabled: true,
            slots: Vec::new(),
        };
        let low = shard("20000000000000000000000000000000");
        declared.shards.insert(1, low.clone());
        let found = middle(&declared, 1, &low).expect("one");
        assert_eq!(found, "A0000000000000000000000000000000");
        declared
            .shards
            .insert(2, shard("40000000000000000000000000000000"));
        let found = middle(&declared, 1, &low).expect("one");
        assert_eq!(found, "30000000000000000000000000000000");
    }
}
