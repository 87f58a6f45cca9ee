//! Bounds of shards as operators write them: `group/lower_bound`, `group/k1|k2`, or only `group`.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use farm::shard::{Bound, Key, KeyType, Shard, ShardKind};
use routing::shard::{Literal, digest, stored};

/// Reads the text of a bound of a map of this kind; what is wrong with it otherwise.
pub fn read(kind: ShardKind, text: &str) -> Result<Bound, String> {
    let key = |key: KeyType, what: &str| {
        let read = stored(Literal::Text(text.as_bytes()), key);
        read.map(Bound::Lower)
            .ok_or_else(|| format!("{text:?} is no {what}"))
    };
    match kind {
        ShardKind::Range | ShardKind::RangeInteger => key(KeyType::Integer, "integer"),
        ShardKind::RangeDatetime => key(KeyType::Datetime, "date (YYYY-MM-DD HH:MM:SS)"),
        ShardKind::RangeString => Ok(Bound::Lower(Key::Bytes(text.as_bytes().to_vec()))),
        ShardKind::Hash => hash(text).map(Bound::Digest).ok_or_else(|| {
            format!("{text:?} is no hash; it has 32 hexadecimal digits, or is left out")
        }),
        ShardKind::List => list(text),
        ShardKind::Slots if text.is_empty() => Ok(Bound::Slots),
        ShardKind::Slots => Err(format!(
            "a map of the kind SLOTS divides its slots evenly; leave {text:?} out"
        )),
    }
}

/// The bound that a group has where none is given.
pub fn default(kind: ShardKind, group: &str) -> Option<String> {
    match kind {
        ShardKind::Hash => Some(hex::encode_upper(digest(group.as_bytes()))),
        ShardKind::Slots => Some(String::new()),
        _ => None,
    }
}

fn hash(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    hex::decode_to_slice(text, &mut bytes).ok()?;
    Some(bytes)
}

/// Keys that are all integers are integers.
fn list(text: &str) -> Result<Bound, String> {
    let parts: Vec<&str> = text.split('|').map(str::trim).collect();
    if parts.iter().any(|part| part.is_empty()) {
        return Err(format!(
            "{text:?} lacks a key; a shard of a LIST is group/key|key|…"
        ));
    }
    let integer = |part: &&str| stored(Literal::Text(part.as_bytes()), KeyType::Integer);
    let integers: Option<Vec<Key>> = parts.iter().map(integer).collect();
    let text = |part: &&str| Key::Bytes(part.as_bytes().to_vec());
    Ok(Bound::Keys(
        integers.unwrap_or_else(|| parts.iter().map(text).collect()),
    ))
}

/// The order of the shards in their map.
pub fn order(a: &Bound, b: &Bound) -> Ordering {
    match (a, b) {
        (Bound::Lower(a), Bound::Lower(b)) => a.cmp(b),
        (Bound::Digest(a), Bound::Digest(b)) => a.cmp(b),
        _ => Ordering::Equal,
    }
}

/// Keys of text are looked up as their columns fold them, so that a LIST names them in small letters,
/// too, unless another shard does.
pub fn fold_lists(shards: &mut [Shard]) {
    let keys = |shard: &Shard| match &shard.bound {
        Bound::Keys(keys) => keys.clone(),
        _ => Vec::new(),
    };
    let mut named: BTreeSet<Key> = shards.iter().flat_map(keys).collect();
    for shard in shards {
        let Bound::Keys(keys) = &mut shard.bound else {
            continue;
        };
        let small = |key: &Key| match key {
            Key::Bytes(bytes) => Some(Key::Bytes(bytes.to_ascii_lowercase())),
            Key::Int(_) => None,
        };
        let folded: Vec<Key> = keys.iter().filter_map(small).collect();
        keys.extend(folded.into_iter().filter(|key| named.insert(key.clone())));
    }
}

/// What two shards of a map must not share; in words, when they do.
pub fn overlap(a: &Bound, b: &Bound) -> Option<String> {
    let same = match (a, b) {
        (Bound::Lower(a), Bound::Lower(b)) => (a == b).then(|| shown(a)),
        (Bound::Digest(a), Bound::Digest(b)) => (a == b).then(|| hex::encode_upper(a)),
        (Bound::Keys(a), Bound::Keys(b)) => a.iter().find(|key| b.contains(key)).map(shown),
        _ => None,
    };
    same.map(|key| format!("both have {key}"))
}

/// A key for people.
pub fn shown(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Bytes(bytes) => format!("{:?}", String::from_utf8_lossy(bytes)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_as_their_kind_says() {
        let int = |number| Ok(Bound::Lower(Key::Int(number)));
        assert_eq!(read(ShardKind::Range, "-100"), int(-100));
        assert_eq!(
            read(ShardKind::RangeInteger, "18446744073709551615"),
            int(u64::MAX.into())
        );
        for (kind, text, words) in [
            (ShardKind::Range, "1x", "no integer"),
            (ShardKind::RangeDatetime, "2026-13-01", "no date"),
            (ShardKind::Hash, "12", "32 hexadecimal digits"),
            (ShardKind::List, "1||2", "lacks a key"),
            (ShardKind::Slots, "1", "leave \"1\" out"),
        ] {
            let error = read(kind, text).expect_err(text);
            assert!(error.contains(words), "{error}");
        }
        let date = read(ShardKind::RangeDatetime, "2026-11-22");
        let full = Key::Bytes(b"2026-11-22 00:00:00.000000".to_vec());
        assert_eq!(date, Ok(Bound::Lower(full)));
    }

    #[test]
    fn a_group_has_a_hash_of_its_own() {
        let text = default(ShardKind::Hash, "g1").expect("a hash");
        assert_eq!(text, "0120A4F9196A5F9EB9F523F31F914DA7");
        assert_eq!(
            read(ShardKind::Hash, &text.to_lowercase()),
            Ok(Bound::Digest(digest(b"g1")))
        );
        assert_eq!(default(ShardKind::Range, "g1"), None);
    }

    #[test]
    fn lists_fold_and_do_not_overlap() {
        let bound = |text| read(ShardKind::List, text).expect("keys");
        assert!(overlap(&bound("1|2"), &bound("2|3")).is_some_and(|why| why.contains('2')));
        assert_eq!(overlap(&bound("DE"), &bound("FR")), None);
        let shard = |id, text| Shard {
            id,
            group: "g".into(),
            bound: bound(text),
            enabled: true,
        };
        let mut shards = [shard(1, "DE|at"), shard(2, "de")];
        fold_lists(&mut shards);
        assert_eq!(shards[0].bound, bound("DE|at"));
        let mut shards = [shard(1, "DE")];
        fold_lists(&mut shards);
        assert_eq!(shards[0].bound, bound("DE|de"));
    }
}
