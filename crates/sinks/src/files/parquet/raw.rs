//! The members of a JSON object, with their values as they stand there: no number is rounded, and no document is
//! written otherwise than the stream told it.

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Deserializer;

/// The members of an object in their order; `None` where the text is none.
pub(super) fn members(text: &str) -> Option<Vec<(String, &str)>> {
    let mut rest = text.trim_start().strip_prefix('{')?.trim_start();
    let mut all = Vec::new();
    if rest.starts_with('}') {
        return Some(all);
    }
    loop {
        let (name, _, behind) = value::<String>(rest)?;
        rest = behind.trim_start().strip_prefix(':')?.trim_start();
        let (_, raw, behind) = value::<IgnoredAny>(rest)?;
        all.push((name, raw));
        rest = behind.trim_start();
        match rest.strip_prefix(',') {
            Some(more) => rest = more.trim_start(),
            None => return rest.starts_with('}').then_some(all),
        }
    }
}

/// The value at the front, how it stands there, and what is behind it.
fn value<T: DeserializeOwned>(text: &str) -> Option<(T, &str, &str)> {
    let mut values = Deserializer::from_str(text).into_iter::<T>();
    let value = values.next()?.ok()?;
    let (raw, behind) = text.split_at_checked(values.byte_offset())?;
    Some((value, raw, behind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_as_they_were_told() {
        let text = r#"{"a":1.10, "b\"":{"x":[1, 2]},"c":"}","d":18446744073709551616,"e":null}"#;
        let all = members(text).expect("an object");
        let all: Vec<(&str, &str)> = all.iter().map(|(name, raw)| (&**name, *raw)).collect();
        let expected = [
            ("a", "1.10"),
            ("b\"", r#"{"x":[1, 2]}"#),
            ("c", "\"}\""),
            ("d", "18446744073709551616"),
            ("e", "null"),
        ];
        assert_eq!(all, expected);
        assert_eq!(members("{}"), Some(Vec::new()));
        for end in 0..text.len() {
            assert_eq!(members(&text[..end]), None, "{end}");
        }
    }
}
