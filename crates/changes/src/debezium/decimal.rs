//! Decimals as `org.apache.kafka.connect.data.Decimal`: the number without its point, as the bytes of a big integer.

/// The bytes of a decimal's text: two's complement, the highest byte first, no more than it needs. `None` for what is
/// no decimal.
pub fn unscaled(text: &str) -> Option<Vec<u8>> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    // The lowest byte first.
    let mut bytes: Vec<u8> = vec![0];
    for digit in digits.chars().filter(|it| *it != '.') {
        let mut carry = digit.to_digit(10)?;
        for byte in &mut bytes {
            let value = u32::from(*byte) * 10 + carry;
            *byte = (value & 0xFF) as u8;
            carry = value >> 8;
        }
        while carry > 0 {
            bytes.push((carry & 0xFF) as u8);
            carry >>= 8;
        }
    }
    // The highest bit is the sign.
    bytes.push(0);
    if is_negative {
        let mut carry = true;
        for byte in &mut bytes {
            let (value, more) = (!*byte).overflowing_add(u8::from(carry));
            (*byte, carry) = (value, more);
        }
    }
    let fill = if is_negative && bytes.iter().any(|it| *it != 0) {
        0xFF
    } else {
        0
    };
    while let [.., before, last] = bytes[..]
        && last == fill
        && (before & 0x80 != 0) == (fill != 0)
    {
        bytes.pop();
    }
    bytes.reverse();
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_big_integers() {
        for (text, expected) in [
            ("0", &[0][..]),
            ("0.00", &[0]),
            ("-0.0", &[0]),
            ("1.27", &[0x7F]),
            ("1.28", &[0, 0x80]),
            ("-1.28", &[0x80]),
            ("-1.29", &[0xFF, 0x7F]),
            ("256", &[1, 0]),
            ("-1", &[0xFF]),
            // What Debezium's documentation of decimals shows for 123.45.
            ("123.45", &[0x30, 0x39]),
            ("18446744073709551616", &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
        ] {
            assert_eq!(unscaled(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(unscaled("1e5"), None);
    }
}
