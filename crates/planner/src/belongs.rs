//! The rows of a shard as a condition in SQL, for the servers to count and delete others by. It must
//! say what `routing::shard::locate` says.

use farm::shard::{Bound, Key, KeyType, SLOTS, Shard, ShardIx, ShardKind, ShardMap};
use farm::sharding::Column;
use sqltext::ticked;

/// True for the rows whose key in `column` is of the shard at this place.
pub fn belongs(map: &ShardMap, at: ShardIx, column: &str, key: KeyType) -> String {
    let column = ticked(column);
    let text = text(&column, key);
    let next = || map.shards.get(usize::from(at.0) + 1);
    match (&map.shard(at).bound, map.kind) {
        (Bound::Slots, _) => slots(map, at, &text),
        (Bound::Keys(keys), _) => {
            let one = match key {
                KeyType::Integer => column,
                _ => format!("CAST({text} AS BINARY)"),
            };
            let keys: Vec<String> = keys.iter().map(value).collect();
            format!("{one} IN ({})", keys.join(","))
        }
        (Bound::Digest(low), _) => {
            let hash = format!("CAST(UPPER(MD5({text})) AS BINARY)");
            let first = at.0 == 0;
            match next().map(|shard| &shard.bound) {
                _ if map.shards.len() == 1 => "TRUE".to_owned(),
                Some(Bound::Digest(high)) => {
                    format!("{hash} >= {} AND {hash} < {}", quoted(low), quoted(high))
                }
                // Below the lowest bound it wraps to the highest.
                _ => match map.shards.first().map(|shard| &shard.bound) {
                    Some(Bound::Digest(lowest)) if !first => {
                        format!("{hash} >= {} OR {hash} < {}", quoted(low), quoted(lowest))
                    }
                    _ => "TRUE".to_owned(),
                },
            }
        }
        (Bound::Lower(low), kind) => {
            let one = match kind {
                ShardKind::Range | ShardKind::RangeInteger => column,
                _ => format!("CAST({text} AS BINARY)"),
            };
            let low = format!("{one} >= {}", value(low));
            match next().map(|shard| &shard.bound) {
                Some(Bound::Lower(high)) => format!("{low} AND {one} < {}", value(high)),
                _ => low,
            }
        }
    }
}

/// The text that HASH and SLOTS are computed from.
fn text(column: &str, key: KeyType) -> String {
    match key {
        KeyType::Integer => format!("CAST({column} AS CHAR)"),
        KeyType::Bytes | KeyType::Binary { .. } => column.to_owned(),
        KeyType::Uuid => format!("CAST({column} AS CHAR)"),
        KeyType::Date | KeyType::Datetime => {
            format!("DATE_FORMAT({column}, '%Y-%m-%d %H:%i:%s.%f')")
        }
        KeyType::Text { folds, pads } => {
            let mut text = format!("CONVERT({column} USING utf8mb4)");
            if pads {
                text = format!("TRIM(TRAILING ' ' FROM {text})");
            }
            match folds {
                true => format!("LOWER({text})"),
                false => text,
            }
        }
    }
}

fn value(key: &Key) -> String {
    match key {
        Key::Int(number) => number.to_string(),
        Key::Bytes(bytes) => {
            format!("X'{}'", hex::encode_upper(bytes))
        }
    }
}

fn quoted(digest: &[u8; 16]) -> String {
    format!("'{}'", hex::encode_upper(digest))
}

fn slots(map: &ShardMap, at: ShardIx, text: &str) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for (slot, _) in map.slots.iter().enumerate().filter(|(_, of)| **of == at) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == slot => *last = slot,
            _ => ranges.push((slot, slot)),
        }
    }
    if ranges.is_empty() {
        return "FALSE".to_owned();
    }
    let slot = format!("MOD(CRC32({text}), {SLOTS})");
    let parts = ranges.iter();
    let parts = parts.map(|(from, to)| format!("{slot} BETWEEN {from} AND {to}"));
    parts.collect::<Vec<_>>().join(" OR ")
}

/// The type of a shard key whose column is not made yet, as far as its map tells: what need be no integer and no
/// moment is text. HASH and SLOTS have an integer and its digits on one shard, so that text means both.
pub fn key_of_map(map: &ShardMap) -> KeyType {
    let text = KeyType::Text {
        folds: false,
        pads: false,
    };
    let is_integer = |key: &Key| matches!(key, Key::Int(_));
    let integers =
        |shard: &Shard| matches!(&shard.bound, Bound::Keys(keys) if keys.iter().all(is_integer));
    match map.kind {
        ShardKind::Range | ShardKind::RangeInteger => KeyType::Integer,
        ShardKind::RangeDatetime => KeyType::Datetime,
        ShardKind::List if map.shards.iter().all(integers) => KeyType::Integer,
        ShardKind::RangeString | ShardKind::Hash | ShardKind::List | ShardKind::Slots => text,
    }
}

/// How a column compares its values, when it can be a shard key of a map of this kind.
///
/// # Errors
/// It cannot, and what could.
pub fn key_type(kind: ShardKind, column: &Column) -> Result<KeyType, String> {
    let found = comparison(column)?;
    let fits = match kind {
        ShardKind::Range | ShardKind::RangeInteger => found == KeyType::Integer,
        ShardKind::RangeDatetime => matches!(found, KeyType::Date | KeyType::Datetime),
        // In the order of their bytes, as the columns must compare them, too.
        ShardKind::RangeString => match found {
            KeyType::Text { folds: false, .. } => {
                let collation = column.collation.as_deref().unwrap_or_default();
                ["utf8", "ascii"]
                    .iter()
                    .any(|set| collation.starts_with(set))
            }
            KeyType::Bytes | KeyType::Binary { .. } => true,
            _ => false,
        },
        // A list has texts, which these columns would store in another form.
        ShardKind::List => !matches!(found, KeyType::Binary { .. } | KeyType::Uuid),
        ShardKind::Hash | ShardKind::Slots => true,
    };
    if fits {
        return Ok(found);
    }
    let wanted = match kind {
        ShardKind::RangeString => {
            "a VARCHAR whose collation is utf8mb4_bin, utf8mb3_bin or ascii_bin, a BINARY or a VARBINARY"
        }
        ShardKind::RangeDatetime => "a DATE or DATETIME",
        ShardKind::List => "an integer, a text, a VARBINARY, a DATE or a DATETIME",
        _ => "an integer",
    };
    Err(format!(
        "a map of the kind {} needs {wanted} as the shard key, and {} is {}",
        kind.name(),
        column.name,
        column.full_type
    ))
}

fn comparison(column: &Column) -> Result<KeyType, String> {
    let collation = column.collation.as_deref().unwrap_or_default();
    Ok(match &*column.data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => KeyType::Integer,
        "varbinary" => KeyType::Bytes,
        "binary" => KeyType::Binary {
            bytes: length(&column.full_type),
        },
        "uuid" => KeyType::Uuid,
        "date" => KeyType::Date,
        "datetime" => KeyType::Datetime,
        kind @ ("char" | "varchar") => KeyType::Text {
            folds: !collation.ends_with("_bin"),
            // What a CHAR has at its end nobody sees.
            pads: kind == "char"
                || !(collation.contains("_nopad_") || collation.contains("_0900_")),
        },
        _ => {
            return Err(format!(
                "{} is {}, and a shard key is an integer, CHAR, VARCHAR, BINARY, VARBINARY, UUID, DATE \
                 or DATETIME",
                column.name, column.full_type
            ));
        }
    })
}

/// That of `binary(16)`; `binary` has one byte.
fn length(full_type: &str) -> u8 {
    let written = full_type.split(['(', ')']).nth(1);
    written.and_then(|it| it.trim().parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_tells_the_type_of_a_key_that_nobody_has_made_yet() {
        let of = |kind, bounds: Vec<Bound>| {
            let shards = (1u32..).zip(bounds).map(|(id, bound)| Shard {
                id,
                group: "g".into(),
                bound,
                enabled: true,
            });
            key_of_map(&ShardMap {
                id: 1,
                kind,
                global_group: "g".into(),
                shards: shards.collect(),
                slots: Vec::new(),
            })
        };
        let text = KeyType::Text {
            folds: false,
            pads: false,
        };
        let list = |key: Key| Bound::Keys(vec![Key::Int(1), key]);
        assert_eq!(of(ShardKind::Range, Vec::new()), KeyType::Integer);
        assert_eq!(of(ShardKind::RangeInteger, Vec::new()), KeyType::Integer);
        assert_eq!(of(ShardKind::RangeString, Vec::new()), text);
        assert_eq!(of(ShardKind::RangeDatetime, Vec::new()), KeyType::Datetime);
        assert_eq!(of(ShardKind::Hash, Vec::new()), text);
        assert_eq!(of(ShardKind::Slots, vec![Bound::Slots]), text);
        assert_eq!(
            of(ShardKind::List, vec![list(Key::Int(2))]),
            KeyType::Integer
        );
        let mixed = vec![list(Key::Int(2)), list(Key::Bytes(b"DE".to_vec()))];
        assert_eq!(of(ShardKind::List, mixed), text);
    }
}
