//! What turns one JSON value into another: a JSON Merge Patch (RFC 7386).
//!
//! Objects are compared by their keys, everything else as a whole; null takes a key away. So no value of a picture may be
//! null: what is not known is left out.

use serde_json::{Map, Value};

/// The patch from `old` to `new`; `None` where they are equal.
pub(super) fn patch(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let mut differs = Map::new();
    for (key, value) in new {
        let change = match old.get(key) {
            Some(before) => patch(before, value),
            None => Some(value.clone()),
        };
        if let Some(change) = change {
            differs.insert(key.clone(), change);
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        differs.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(differs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What RFC 7386 has a reader do.
    fn applied(target: Value, patch: &Value) -> Value {
        let Value::Object(patch) = patch else {
            return patch.clone();
        };
        let mut target = match target {
            Value::Object(target) => target,
            _ => Map::new(),
        };
        for (key, value) in patch {
            if value.is_null() {
                target.remove(key);
            } else {
                let before = target.remove(key).unwrap_or_default();
                target.insert(key.clone(), applied(before, value));
            }
        }
        Value::Object(target)
    }

    #[test]
    fn a_patch_says_what_differs_and_no_more() {
        let old =
            json!({"servers": {"a": {"lag_ms": 1, "state": "up"}, "b": {"lag_ms": 2}}, "at": 1});
        let new = json!({"servers": {"a": {"lag_ms": 3, "state": "up"}, "c": {}}, "at": 1});
        let difference = patch(&old, &new).expect("they differ");
        assert_eq!(
            difference,
            json!({"servers": {"a": {"lag_ms": 3}, "b": null, "c": {}}})
        );
        assert_eq!(applied(old.clone(), &difference), new);
        assert_eq!(patch(&new, &new), None);
    }

    #[test]
    fn applying_a_patch_gives_the_new_value() {
        let some = [
            json!({}),
            json!({"a": 1}),
            json!({"a": {"b": 1}}),
            json!({"a": {"b": {"c": [1, 2]}, "d": "x"}}),
            json!({"a": [1], "e": {}}),
            json!({"e": 0}),
        ];
        for old in &some {
            for new in &some {
                let difference = patch(old, new);
                assert_eq!(difference.is_none(), old == new);
                if let Some(difference) = difference {
                    assert_eq!(&applied(old.clone(), &difference), new, "{old} {new}");
                }
            }
        }
    }
}
