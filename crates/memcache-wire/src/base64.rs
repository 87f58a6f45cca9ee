//! Base64 of RFC 4648 with padding, for keys of arbitrary bytes.

/// Decodes `word` to the front of `out` and gives the length; nothing when the word is not base64, or
/// would decode to no bytes or to more than `out` holds. Bits behind the last byte must be zero, so
/// that a key has one spelling only.
pub(crate) fn decode(word: &[u8], out: &mut [u8]) -> Option<usize> {
    if word.is_empty() || !word.len().is_multiple_of(4) {
        return None;
    }
    let padding = word.iter().rev().take_while(|byte| **byte == b'=').count();
    if padding > 2 {
        return None;
    }
    let mut length = 0;
    for (index, four) in word.chunks_exact(4).enumerate() {
        let last = (index + 1) * 4 == word.len();
        let digits = if last { 4 - padding } else { 4 };
        let mut bits = 0_u32;
        for byte in &four[..digits] {
            bits = bits << 6 | value(*byte)?;
        }
        bits <<= 6 * (4 - digits) as u32;
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (keep, none) = bytes.split_at(digits - 1);
        if none.iter().any(|byte| *byte != 0) {
            return None;
        }
        out.get_mut(length..length + keep.len())?
            .copy_from_slice(keep);
        length += keep.len();
    }
    Some(length)
}

fn value(byte: u8) -> Option<u32> {
    let value = match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(word: &str) -> Option<Vec<u8>> {
        let mut out = [0; 16];
        let length = decode(word.as_bytes(), &mut out)?;
        Some(out[..length].to_vec())
    }

    #[test]
    fn what_is_base64_and_what_is_not() {
        for (word, bytes) in [
            ("Zg==", "f"),
            ("Zm8=", "fo"),
            ("Zm9v", "foo"),
            ("Zm9vYmFy", "foobar"),
        ] {
            assert_eq!(decoded(word).as_deref(), Some(bytes.as_bytes()), "{word}");
        }
        assert_eq!(decoded("AP/+").as_deref(), Some(&[0, 255, 254][..]));
        for word in [
            "", "Z", "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9 ", "Zh==", "Zm9v,m9v",
        ] {
            assert_eq!(decoded(word), None, "{word}");
        }
        assert_eq!(decoded(&"AAAA".repeat(6)), None, "longer than the buffer");
    }
}
