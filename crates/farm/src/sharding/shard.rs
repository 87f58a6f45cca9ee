//! Shard maps: which group has the rows of a key.
//!
//! Kinds and the meaning of bounds are MySQL Fabric's; LIST and SLOTS are ours. A bound is the lowest
//! key of its shard: a key belongs to the shard with the greatest bound that is not above it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Into so many slots a map of the kind SLOTS divides its keys.
pub const SLOTS: usize = 16_384;

/// Parts of a map are uneven when the largest is more than so many times the even one.
pub const UNEVEN: f64 = 1.5;

/// How a map finds the shard of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ShardKind {
    /// Integers, by lower bounds. Fabric knows it under two names.
    #[serde(rename = "RANGE")]
    Range,
    #[serde(rename = "RANGE_INTEGER")]
    RangeInteger,
    /// Strings, in the order of their bytes.
    #[serde(rename = "RANGE_STRING")]
    RangeString,
    #[serde(rename = "RANGE_DATETIME")]
    RangeDatetime,
    /// The MD5 of the key's text, by lower bounds; below the lowest one it wraps to the highest.
    #[serde(rename = "HASH")]
    Hash,
    /// Each key is named.
    #[serde(rename = "LIST")]
    List,
    /// The CRC-32 of the key's text names one of [`SLOTS`] slots, each of which has its shard.
    #[serde(rename = "SLOTS")]
    Slots,
}

impl ShardKind {
    /// All of them.
    pub const ALL: [ShardKind; 7] = [
        ShardKind::Range,
        ShardKind::RangeInteger,
        ShardKind::RangeString,
        ShardKind::RangeDatetime,
        ShardKind::Hash,
        ShardKind::List,
        ShardKind::Slots,
    ];

    /// Fabric's name.
    pub fn name(self) -> &'static str {
        match self {
            ShardKind::Range => "RANGE",
            ShardKind::RangeInteger => "RANGE_INTEGER",
            ShardKind::RangeString => "RANGE_STRING",
            ShardKind::RangeDatetime => "RANGE_DATETIME",
            ShardKind::Hash => "HASH",
            ShardKind::List => "LIST",
            ShardKind::Slots => "SLOTS",
        }
    }

    /// Reads a kind from its name, in any case.
    pub fn parse(text: &str) -> Option<ShardKind> {
        let mut all = ShardKind::ALL.into_iter();
        all.find(|kind| kind.name().eq_ignore_ascii_case(text))
    }

    /// Keys that are near each other are on the same shard.
    pub fn is_ordered(self) -> bool {
        use ShardKind::{Range, RangeDatetime, RangeInteger, RangeString};
        matches!(self, Range | RangeInteger | RangeString | RangeDatetime)
    }
}

/// A shard key in the form in which keys of its column are compared: equal keys are equal here,
/// whatever their statement wrote.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Key {
    Int(i128),
    /// Text as its collation folds it, a date as `YYYY-MM-DD HH:MM:SS.ffffff`, or bytes.
    Bytes(Vec<u8>),
}

impl Key {
    /// The text that HASH and SLOTS are computed from.
    pub fn text(&self) -> Vec<u8> {
        match self {
            Key::Int(number) => number.to_string().into_bytes(),
            Key::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// What a shard's keys begin with, or are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bound {
    /// The lowest key.
    Lower(Key),
    /// HASH: the lowest MD5, as its sixteen bytes.
    Digest([u8; 16]),
    /// LIST: all its keys.
    Keys(Vec<Key>),
    /// SLOTS: [`ShardMap::slots`] tells.
    Slots,
}

/// One part of a map, on one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// The number that operators know it by.
    pub id: u32,
    pub group: Arc<str>,
    pub bound: Bound,
    /// Statements for a disabled shard are refused.
    pub enabled: bool,
}

/// A shard's place in [`ShardMap::shards`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardIx(pub u16);

/// A sharding function and its shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardMap {
    /// The number that operators know it by.
    pub id: u32,
    pub kind: ShardKind,
    /// Where tables without a shard key live, and whose DDL the shards take over.
    pub global_group: Arc<str>,
    /// Those with lower bounds by their bounds, the others by their ids.
    pub shards: Vec<Shard>,
    /// SLOTS: the shard of each slot; empty for the other kinds.
    pub slots: Vec<ShardIx>,
}

impl ShardMap {
    /// The shard at this place.
    pub fn shard(&self, at: ShardIx) -> &Shard {
        &self.shards[usize::from(at.0)]
    }

    /// All places.
    pub fn places(&self) -> impl Iterator<Item = ShardIx> + use<> {
        (0..u16::try_from(self.shards.len()).unwrap_or(u16::MAX)).map(ShardIx)
    }

    /// Which part of all keys each group has, in the order of the shards, where hashes place them and the
    /// largest part is more than so many times the even one; else `None`.
    pub fn shares(&self, uneven: f64) -> Option<Vec<(Arc<str>, f64)>> {
        let mut shares: Vec<(Arc<str>, f64)> = Vec::new();
        for at in self.places() {
            let (group, share) = (&self.shard(at).group, self.share(at)?);
            match shares.iter_mut().find(|(known, _)| known == group) {
                Some((_, known)) => *known += share,
                None => shares.push((group.clone(), share)),
            }
        }
        let most = shares.iter().map(|(_, share)| *share).fold(0.0, f64::max);
        (most * shares.len() as f64 > uneven).then_some(shares)
    }

    /// The part of all hashes that a shard has; `None` where keys are not placed by hashes.
    fn share(&self, at: ShardIx) -> Option<f64> {
        let low = |shard: &Shard| match &shard.bound {
            Bound::Digest(low) => Some(u128::from_be_bytes(*low)),
            _ => None,
        };
        if self.kind == ShardKind::Slots {
            let own = self.slots.iter().filter(|of| **of == at).count();
            return Some(own as f64 / SLOTS as f64);
        }
        // The last one has what is below the first one, too.
        let next = (usize::from(at.0) + 1) % self.shards.len();
        let (from, to) = (low(self.shard(at))?, low(&self.shards[next])?);
        let part = match self.shards.len() {
            1 => return Some(1.0),
            _ => to.wrapping_sub(from),
        };
        Some(part as f64 / u128::MAX as f64)
    }
}

/// How a key's column compares its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum KeyType {
    Integer,
    /// CHAR, VARCHAR, …: `folds` when case does not count, `pads` when blanks at the end do not.
    Text {
        folds: bool,
        pads: bool,
    },
    /// VARBINARY.
    Bytes,
    /// BINARY: what is shorter is stored with zeros behind it, and equal to nothing.
    Binary {
        bytes: u8,
    },
    /// MariaDB's UUID, as its text.
    Uuid,
    Date,
    Datetime,
}

/// A table whose rows are placed by a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardedTable {
    pub database: Arc<str>,
    pub table: Arc<str>,
    pub column: Arc<str>,
    pub key: KeyType,
    /// The map's number.
    pub map: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_hashes_are_told_where_they_are_uneven() {
        let shard = |(id, (group, low)): (u32, (&str, u8))| Shard {
            id,
            group: group.into(),
            bound: Bound::Digest([low; 16]),
            enabled: true,
        };
        let map = |lows: [(&'static str, u8); 3]| ShardMap {
            id: 1,
            kind: ShardKind::Hash,
            global_group: "g1".into(),
            shards: (1..).zip(lows).map(shard).collect(),
            slots: Vec::new(),
        };
        let even = map([("g1", 0x00), ("g2", 0x55), ("g3", 0xAA)]);
        assert_eq!(even.shares(1.5), None);
        let uneven = map([("g1", 0x10), ("g2", 0x20), ("g3", 0xA0)]);
        let shares = uneven.shares(1.5).expect("one has half of them");
        let parts: Vec<u32> = shares
            .iter()
            .map(|(_, it)| (it * 100.0).round() as u32)
            .collect();
        assert_eq!(parts, [6, 50, 44]);
        assert_eq!(
            crate::samples::slot_map(1, &["g1", "g2", "g3"]).shares(1.5),
            None
        );
    }
}
