//! Decimal numbers, read and written without allocation.

/// Reads a number of digits only; nothing when the word is empty, has other bytes, or is too large.
pub fn read_number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Reads a number that may have a minus.
pub(crate) fn read_signed(word: &[u8]) -> Option<i64> {
    match word.split_first() {
        Some((b'-', digits)) => 0_i64.checked_sub_unsigned(read_number(digits)?),
        _ => read_number(word)?.try_into().ok(),
    }
}

/// Appends `number` in decimal digits.
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_and_fit() {
        let good: [(&[u8], u64); 4] = [
            (b"0", 0),
            (b"007", 7),
            (b"18446744073709551615", u64::MAX),
            (b"00000000000000000000000001", 1),
        ];
        for (word, number) in good {
            assert_eq!(read_number(word), Some(number));
        }
        let bad: [&[u8]; 6] = [b"", b"-1", b"+1", b"1a", b"18446744073709551616", b"0x1"];
        for word in bad {
            assert_eq!(read_number(word), None, "{word:?}");
        }
        assert_eq!(read_signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!(read_signed(b"9223372036854775807"), Some(i64::MAX));
        for word in [
            &b"-9223372036854775809"[..],
            b"9223372036854775808",
            b"-",
            b"--1",
        ] {
            assert_eq!(read_signed(word), None, "{word:?}");
        }
    }

    #[test]
    fn what_is_written_is_what_format_writes() {
        for number in [0, 1, 9, 10, 99, 100, 12_345_678_901, u64::MAX] {
            let mut out = Vec::new();
            push_number(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
            assert_eq!(read_number(&out), Some(number));
        }
    }
}
