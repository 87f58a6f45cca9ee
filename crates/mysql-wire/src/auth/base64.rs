//! Base64 without padding, as MariaDB stores keys and salts.

/// `N` bytes from their characters; `None` for another number of them, or for others.
pub(super) fn decode<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    if text.len() != (N * 4).div_ceil(3) {
        return None;
    }
    let mut bytes = [0; N];
    let (mut bits, mut count, mut at) = (0u32, 0, 0);
    for &character in text {
        bits = bits << 6 | u32::from(digit(character)?);
        count += 6;
        if count >= 8 {
            count -= 8;
            // Of the last character fewer than eight bits are over, so `at` stays below `N`.
            bytes[at] = (bits >> count) as u8;
            at += 1;
        }
    }
    Some(bytes)
}

fn digit(character: u8) -> Option<u8> {
    Some(match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_become_bytes() {
        assert_eq!(decode::<3>(b"AQID"), Some([1, 2, 3]));
        assert_eq!(decode::<2>(b"//8"), Some([255, 255]));
        assert_eq!([decode::<3>(b"AQI"), decode::<3>(b"AQI=")], [None; 2]);
        assert_eq!(decode::<0>(b""), Some([]));
    }
}
