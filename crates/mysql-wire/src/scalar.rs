//! Numbers and strings as they lie in a payload: a [`Reader`] that takes them off the front, and
//! the functions that append them. All numbers are little-endian.

use crate::Malformed;

/// Takes values off the front of a payload. A failed read takes nothing.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    left: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads from the first byte of `payload`.
    pub fn new(payload: &'a [u8]) -> Reader<'a> {
        Reader { left: payload }
    }

    /// How many bytes are left.
    pub fn remaining(&self) -> usize {
        self.left.len()
    }

    /// Whether everything was read.
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// The next byte, without taking it.
    pub fn peek(&self) -> Option<u8> {
        self.left.first().copied()
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.left)
    }

    /// Exactly `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let Some((head, tail)) = self.left.split_at_checked(count) else {
            return Err(Malformed::new("the payload ends too early"));
        };
        self.left = tail;
        Ok(head)
    }

    /// Exactly `N` bytes, copied.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let Some((head, tail)) = self.left.split_first_chunk::<N>() else {
            return Err(Malformed::new("the payload ends too early"));
        };
        self.left = tail;
        Ok(*head)
    }

    /// An unsigned number of 1 byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array()?))
    }

    /// An unsigned number of 2 bytes.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// An unsigned number of 3 bytes.
    pub fn u24(&mut self) -> Result<u32, Malformed> {
        let [low, middle, high] = self.array()?;
        Ok(u32::from_le_bytes([low, middle, high, 0]))
    }

    /// An unsigned number of 4 bytes.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// An unsigned number of 6 bytes.
    pub fn u48(&mut self) -> Result<u64, Malformed> {
        let [a, b, c, d, e, f] = self.array()?;
        Ok(u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
    }

    /// An unsigned number of 8 bytes.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A length-encoded number. 0xFB (NULL in a text row) and 0xFF (the mark of an error) are
    /// not numbers.
    pub fn lenenc_int(&mut self) -> Result<u64, Malformed> {
        let before = self.left;
        let value = match self.u8()? {
            0xFB | 0xFF => Err(Malformed::new("not a length-encoded number")),
            0xFC => self.u16().map(u64::from),
            0xFD => self.u24().map(u64::from),
            0xFE => self.u64(),
            small => Ok(u64::from(small)),
        };
        if value.is_err() {
            self.left = before;
        }
        value
    }

    /// A string behind its length-encoded length.
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let before = self.left;
        let length = self.lenenc_int()?;
        let taken = match usize::try_from(length) {
            Ok(count) => self.bytes(count),
            Err(_) => Err(Malformed::new("a string longer than memory")),
        };
        if taken.is_err() {
            self.left = before;
        }
        taken
    }

    /// A string up to a NUL, which is taken and not returned.
    pub fn nul_bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let Some(end) = self.left.iter().position(|byte| *byte == 0) else {
            return Err(Malformed::new("a string without its closing NUL"));
        };
        let text = &self.left[..end];
        self.left = &self.left[end + 1..];
        Ok(text)
    }

    /// A string up to a NUL or to the end of the payload: several clients and servers leave the
    /// last NUL out.
    pub fn nul_bytes_or_rest(&mut self) -> &'a [u8] {
        match self.nul_bytes() {
            Ok(text) => text,
            Err(_) => self.rest(),
        }
    }
}

/// Appends a number of 2 bytes.
pub fn put_u16(out: &mut Vec<u8>, value: u16) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends the low 3 bytes of a number; its high byte must be 0.
pub fn put_u24(out: &mut Vec<u8>, value: u32) {
    debug_assert!(value <= 0xFF_FF_FF, "a 3-byte number holds 24 bits");
    out.extend_from_slice(&value.to_le_bytes()[..3]);
}

/// Appends a number of 4 bytes.
pub fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a number of 8 bytes.
pub fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a length-encoded number in its shortest form.
pub fn put_lenenc_int(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=0xFA => out.push(value as u8),
        0xFB..=0xFFFF => {
            out.push(0xFC);
            put_u16(out, value as u16);
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            put_u24(out, value as u32);
        }
        _ => {
            out.push(0xFE);
            put_u64(out, value);
        }
    }
}

/// How many bytes [`put_lenenc_int`] appends for `value`.
pub const fn lenenc_int_bytes(value: u64) -> usize {
    match value {
        0..=0xFA => 1,
        0xFB..=0xFFFF => 3,
        0x1_0000..=0xFF_FFFF => 4,
        _ => 9,
    }
}

/// Appends a string behind its length-encoded length.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_lenenc_int(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a string and a NUL. A NUL inside `bytes` would end the string there for the receiver,
/// so the rest of `bytes` is left out.
pub fn put_nul_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let end = bytes
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(bytes.len());
    out.extend_from_slice(&bytes[..end]);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_numbers_use_their_shortest_form_and_read_back() {
        let edges = [
            0,
            250,
            251,
            0xFFFF,
            0x1_0000,
            0xFF_FFFF,
            0x100_0000,
            u64::MAX,
        ];
        for value in edges {
            let mut out = Vec::new();
            put_lenenc_int(&mut out, value);
            assert_eq!(out.len(), lenenc_int_bytes(value), "{value}");
            let mut reader = Reader::new(&out);
            assert_eq!(reader.lenenc_int(), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_failed_read_takes_nothing() {
        for bytes in [
            &[0xFB][..],
            &[0xFF],
            &[0xFC, 1],
            &[0xFD, 1, 2],
            &[0xFE, 0],
            &[5, 1, 2],
        ] {
            let mut reader = Reader::new(bytes);
            assert!(reader.lenenc_bytes().is_err());
            assert_eq!(reader.rest(), bytes);
        }
        let mut reader = Reader::new(b"abc");
        assert!(reader.u32().is_err());
        assert!(reader.nul_bytes().is_err());
        assert_eq!(reader.nul_bytes_or_rest(), b"abc");
    }

    #[test]
    fn fixed_numbers_are_little_endian() {
        let mut reader = Reader::new(&[1, 2, 0, 3, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0, 1]);
        assert_eq!(reader.u8(), Ok(1));
        assert_eq!(reader.u16(), Ok(2));
        assert_eq!(reader.u24(), Ok(3));
        assert_eq!(reader.u32(), Ok(4));
        assert_eq!(reader.u48(), Ok(0x0100_0000_0005));
        assert_eq!(reader.peek(), None);
    }

    #[test]
    fn a_length_beyond_memory_is_refused() {
        let mut reader = Reader::new(&[0xFE, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert!(reader.lenenc_bytes().is_err());
    }

    #[test]
    fn a_nul_inside_a_nul_terminated_string_ends_it() {
        let mut out = Vec::new();
        put_nul_bytes(&mut out, b"ab\0cd");
        assert_eq!(out, b"ab\0");
    }
}
