//! Base64 of the usual alphabet, with padding.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut three = [0; 3];
        three[..chunk.len()].copy_from_slice(chunk);
        let [a, b, c] = three.map(u32::from);
        let bits = a << 16 | b << 8 | c;
        for place in 0..4 {
            let six = (bits >> (18 - 6 * place)) as usize & 63;
            text.push(match place <= chunk.len() {
                true => char::from(ALPHABET[six]),
                false => '=',
            });
        }
    }
    text
}

/// `None` for what is no base64.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - digits.len() > 2 {
        return None;
    }
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for digit in digits.bytes() {
        let six = ALPHABET.iter().position(|&has| has == digit)? as u32;
        (bits, count) = (bits << 6 | six, count + 6);
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"\0\xff", "AP8="),
        ] {
            assert_eq!(encoded(bytes), text);
            assert_eq!(decoded(text).as_deref(), Some(bytes));
        }
        for wrong in ["Zg", "Z===", "Zm9!", "Zm=v"] {
            assert_eq!(decoded(wrong), None, "{wrong}");
        }
    }
}
