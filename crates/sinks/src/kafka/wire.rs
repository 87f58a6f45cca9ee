//! Values as Kafka writes them: numbers with their highest byte first, texts and lists behind their lengths.

/// Writes a request or a part of one.
#[derive(Debug, Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn i8(&mut self, value: i8) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i16(&mut self, value: i16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    /// The length of something.
    pub(super) fn length(&mut self, value: usize) {
        self.i32(i32::try_from(value).unwrap_or(i32::MAX));
    }

    /// Texts are shorter than 32 KiB.
    pub(super) fn text(&mut self, text: &str) {
        self.i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.length(bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// A number by its size, with the sign in the lowest bit.
    pub(super) fn varint(&mut self, value: i64) {
        let mut rest = (value << 1 ^ value >> 63) as u64;
        loop {
            let seven = (rest & 0x7F) as u8;
            rest >>= 7;
            if rest == 0 {
                self.0.push(seven);
                return;
            }
            self.0.push(seven | 0x80);
        }
    }

    /// Bytes behind such a number, which is -1 where there are none.
    pub(super) fn short(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.varint(-1),
            Some(bytes) => {
                self.varint(i64::try_from(bytes.len()).unwrap_or(i64::MAX));
                self.0.extend_from_slice(bytes);
            }
        }
    }
}

/// Reads an answer; `None` where it is shorter than it says.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    pub(super) fn i16(&mut self) -> Option<i16> {
        Some(i16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        Some(i64::from_be_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A text, empty where there is none.
    pub(super) fn text(&mut self) -> Option<String> {
        let length = usize::try_from(self.i16()?.max(0)).ok()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    /// Bytes behind their length, empty where there are none.
    pub(super) fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.i32()?.max(0)).ok()?;
        self.take(length)
    }

    /// A list of what `item` reads.
    pub(super) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let count = self.i32()?.max(0);
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(item(self)?);
        }
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_sizes() {
        let varint = |value: i64| {
            let mut writer = Writer::default();
            writer.varint(value);
            writer.0
        };
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(-1), [1]);
        assert_eq!(varint(63), [0x7E]);
        assert_eq!(varint(64), [0x80, 1]);
        assert_eq!(varint(300), [0xD8, 4]);
        assert_eq!(varint(i64::MIN).len(), 10);
    }

    #[test]
    fn what_is_cut_is_nothing() {
        let mut writer = Writer::default();
        writer.length(2);
        writer.text("ab");
        writer.text("");
        let read = |bytes: &[u8]| Reader(bytes).list(Reader::text);
        assert_eq!(read(&writer.0), Some(vec!["ab".to_owned(), String::new()]));
        for cut in 0..writer.0.len() {
            assert_eq!(read(&writer.0[..cut]), None, "{cut}");
        }
    }
}
