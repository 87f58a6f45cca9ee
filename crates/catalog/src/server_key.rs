//! Keys that servers are known by, as records have them.

use farm::ServerKey;

/// In hexadecimal digits.
pub fn text(key: &ServerKey) -> String {
    hex::encode(key)
}

/// The reverse of [`text`].
pub fn parse(text: &str) -> Option<ServerKey> {
    let mut key = ServerKey::default();
    hex::decode_to_slice(text, &mut key).ok()?;
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let key: ServerKey = std::array::from_fn(|at| at as u8 * 7);
        assert_eq!(parse(&text(&key)), Some(key));
        for bad in ["", "00", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
