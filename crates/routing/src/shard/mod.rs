//! Key to shard, and what a condition on keys leaves of a map's shards.
//!
//! Nothing is guessed: a literal that the servers might compare in another way than by its value
//! ([`literal`]) is no key, and then all shards are meant. Sets only ever hold too many shards, never
//! too few.

mod literal;
mod set;

pub use literal::{Literal, compared, stored};
pub use set::ShardSet;

use std::ops::Bound as End;

use farm::shard::{Bound, Key, SLOTS, Shard, ShardIx, ShardKind, ShardMap};
use md5::{Digest, Md5};

/// A key that has no shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nowhere {
    /// It is below the lowest bound, or in no list.
    OutOfRange,
    /// Its shard is disabled.
    Disabled { shard: u32 },
}

/// A range of so many integers or fewer is looked up key by key where a map has no order.
const ENUMERATED_MAX: i128 = 256;

/// The shard of a key.
///
/// # Errors
/// No shard has it, or its shard is disabled.
pub fn locate(map: &ShardMap, key: &Key) -> Result<ShardIx, Nowhere> {
    let at = place(map, key).ok_or(Nowhere::OutOfRange)?;
    let shard = map.shard(at);
    match shard.enabled {
        true => Ok(at),
        false => Err(Nowhere::Disabled { shard: shard.id }),
    }
}

/// The slot of a key in a map of the kind SLOTS.
pub fn slot(key: &Key) -> usize {
    crc32fast::hash(&key.text()) as usize % SLOTS
}

/// The MD5 of a key's text, or of a group's name for the bound that HASH gives it.
pub fn digest(text: &[u8]) -> [u8; 16] {
    Md5::digest(text).into()
}

/// The shard of a key, whether it is enabled or not; `None` when no shard has it.
pub fn shard_of(map: &ShardMap, key: &Key) -> Option<ShardIx> {
    place(map, key)
}

fn place(map: &ShardMap, key: &Key) -> Option<ShardIx> {
    match map.kind {
        ShardKind::Slots => map.slots.get(slot(key)).copied(),
        ShardKind::List => map
            .places()
            .find(|at| matches!(&map.shard(*at).bound, Bound::Keys(keys) if keys.contains(key))),
        ShardKind::Hash => {
            let wanted = digest(&key.text());
            let below = |shard: &Shard| matches!(shard.bound, Bound::Digest(low) if low <= wanted);
            last(map, below).or_else(|| map.places().last())
        }
        _ => last(
            map,
            |shard| matches!(&shard.bound, Bound::Lower(low) if low <= key),
        ),
    }
}

/// The last shard of those at the front.
fn last(map: &ShardMap, belongs: impl Fn(&Shard) -> bool) -> Option<ShardIx> {
    let count = map.shards.partition_point(belongs);
    let at = count.checked_sub(1)?;
    u16::try_from(at).ok().map(ShardIx)
}

/// The shards that can have a key; none when no shard has it.
pub fn with_key(map: &ShardMap, key: &Key) -> ShardSet {
    place(map, key).into_iter().collect()
}

/// The shards that can have keys between these ends.
pub fn between(map: &ShardMap, low: End<&Key>, high: End<&Key>) -> ShardSet {
    if map.kind.is_ordered() {
        let first = match low {
            End::Included(key) | End::Excluded(key) => place(map, key).unwrap_or(ShardIx(0)),
            End::Unbounded => ShardIx(0),
        };
        let starts_below = |shard: &Shard| match (&shard.bound, high) {
            (Bound::Lower(start), End::Included(key)) => start <= key,
            (Bound::Lower(start), End::Excluded(key)) => start < key,
            _ => true,
        };
        let meant = |at: &ShardIx| *at >= first && starts_below(map.shard(*at));
        return map.places().filter(meant).collect();
    }
    let inside = |key: &Key| {
        (match low {
            End::Included(low) => key >= low,
            End::Excluded(low) => key > low,
            End::Unbounded => true,
        }) && match high {
            End::Included(high) => key <= high,
            End::Excluded(high) => key < high,
            End::Unbounded => true,
        }
    };
    if map.kind == ShardKind::List {
        let meant = |at: &ShardIx| match &map.shard(*at).bound {
            Bound::Keys(keys) => keys.iter().any(inside),
            _ => true,
        };
        return map.places().filter(meant).collect();
    }
    match (low, high) {
        (
            End::Included(Key::Int(low)) | End::Excluded(Key::Int(low)),
            End::Included(Key::Int(high)) | End::Excluded(Key::Int(high)),
        ) if high.saturating_sub(*low) < ENUMERATED_MAX => (*low..=*high)
            .map(Key::Int)
            .filter(inside)
            .filter_map(|key| place(map, &key))
            .collect(),
        _ => map.places().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(kind: ShardKind, bounds: Vec<Bound>) -> ShardMap {
        let shards = (1u32..).zip(bounds).map(|(id, bound)| Shard {
            id,
            group: format!("g{id}").into(),
            bound,
            enabled: id != 4,
        });
        let shards: Vec<Shard> = shards.collect();
        let slots = match kind {
            ShardKind::Slots => (0..SLOTS)
                .map(|slot| ShardIx((slot * shards.len() / SLOTS) as u16))
                .collect(),
            _ => Vec::new(),
        };
        ShardMap {
            id: 1,
            kind,
            global_group: "g0".into(),
            shards,
            slots,
        }
    }

    fn lower(keys: &[i128]) -> Vec<Bound> {
        keys.iter()
            .map(|key| Bound::Lower(Key::Int(*key)))
            .collect()
    }

    fn ids(map: &ShardMap, set: &ShardSet) -> Vec<u32> {
        set.iter().map(|at| map.shard(at).id).collect()
    }

    #[test]
    fn a_key_belongs_to_the_greatest_bound_below_it() {
        let map = map(ShardKind::Range, lower(&[1, 100, 200, 300]));
        let id = |key| locate(&map, &Key::Int(key)).map(|at| map.shard(at).id);
        assert_eq!(id(0), Err(Nowhere::OutOfRange));
        assert_eq!(
            (id(1), id(99), id(100), id(299)),
            (Ok(1), Ok(1), Ok(2), Ok(3))
        );
        assert_eq!(id(i128::MAX), Err(Nowhere::Disabled { shard: 4 }));
    }

    #[test]
    fn ranges_of_keys_are_ranges_of_shards() {
        let map = map(ShardKind::RangeInteger, lower(&[1, 100, 200]));
        let (a, b, c) = (Key::Int(50), Key::Int(100), Key::Int(150));
        let set = |low, high| ids(&map, &between(&map, low, high));
        assert_eq!(set(End::Included(&a), End::Excluded(&b)), [1]);
        assert_eq!(set(End::Included(&a), End::Included(&b)), [1, 2]);
        assert_eq!(set(End::Excluded(&c), End::Unbounded), [2, 3]);
        assert_eq!(set(End::Unbounded, End::Excluded(&Key::Int(1))), []);
        assert_eq!(set(End::Unbounded, End::Unbounded), [1, 2, 3]);
        assert_eq!(set(End::Included(&c), End::Included(&a)), []);
    }

    #[test]
    fn hash_wraps_to_the_highest_bound() {
        let map = map(
            ShardKind::Hash,
            vec![Bound::Digest([0x40; 16]), Bound::Digest([0xC0; 16])],
        );
        for number in 0..200i128 {
            let first = digest(number.to_string().as_bytes())[0];
            let expected = match first {
                0x40..=0xBF => 1,
                _ => 2,
            };
            let at = locate(&map, &Key::Int(number)).expect("everything has a shard");
            assert_eq!(map.shard(at).id, expected, "{number}: {first:x}");
        }
        // A group without a bound of its own begins at the MD5 of its name.
        let text = hex::encode_upper(digest(b"g1"));
        assert_eq!(text, "0120A4F9196A5F9EB9F523F31F914DA7");
    }

    #[test]
    fn slots_are_spread_evenly_and_small_ranges_are_enumerated() {
        let map = map(
            ShardKind::Slots,
            vec![Bound::Slots, Bound::Slots, Bound::Slots],
        );
        let mut rows = [0u32; 3];
        for number in 0..30_000 {
            let at = locate(&map, &Key::Int(number)).expect("everything has a shard");
            rows[usize::from(at.0)] += 1;
        }
        assert!(
            rows.iter().all(|rows| (9_000..11_000).contains(rows)),
            "{rows:?}"
        );
        let (one, two, far) = (Key::Int(1), Key::Int(2), Key::Int(100_000));
        let both = between(&map, End::Included(&one), End::Included(&two));
        let mut expected = with_key(&map, &one);
        expected.join(&with_key(&map, &two));
        assert_eq!(both, expected);
        assert_eq!(
            between(&map, End::Included(&one), End::Included(&far)).len(),
            3
        );
    }

    #[test]
    fn lists_name_their_keys() {
        let keys = |keys: &[i128]| Bound::Keys(keys.iter().copied().map(Key::Int).collect());
        let map = map(ShardKind::List, vec![keys(&[1, 3]), keys(&[2])]);
        assert_eq!(locate(&map, &Key::Int(3)), Ok(ShardIx(0)));
        assert_eq!(locate(&map, &Key::Int(4)), Err(Nowhere::OutOfRange));
        let set = between(
            &map,
            End::Excluded(&Key::Int(1)),
            End::Excluded(&Key::Int(3)),
        );
        assert_eq!(ids(&map, &set), [2]);
    }
}
