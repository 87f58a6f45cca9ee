//! Structures in Thrift's compact protocol, as far as the metadata of Parquet has them.
//!
//! Invariant: the fields of a structure are written in the order of their numbers.

/// Types, as the protocol numbers them.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// Lists with fewer items have their length in the first byte.
const SHORT_LIST: usize = 15;

/// Writes one structure and what is in it.
#[derive(Default)]
pub(super) struct Thrift {
    out: Vec<u8>,
    /// Of the structures that are open, the number of the last field.
    open: Vec<u8>,
}

impl Thrift {
    /// A structure that is no field.
    pub(super) fn of(fields: impl FnOnce(&mut Thrift)) -> Vec<u8> {
        let mut all = Thrift::default();
        all.body(fields);
        all.out
    }

    fn body(&mut self, fields: impl FnOnce(&mut Thrift)) {
        self.open.push(0);
        fields(self);
        self.open.pop();
        self.out.push(0);
    }

    /// Fields' numbers are small, so each is less than 16 above the one before.
    fn head(&mut self, field: u8, kind: u8) {
        let last = self.open.last_mut();
        let before = last.map_or(0, |last| std::mem::replace(last, field));
        self.out.push(field.saturating_sub(before) << 4 | kind);
    }

    pub(super) fn bool(&mut self, field: u8, value: bool) {
        self.head(field, if value { TRUE } else { FALSE });
    }

    pub(super) fn byte(&mut self, field: u8, value: u8) {
        self.head(field, BYTE);
        self.out.push(value);
    }

    pub(super) fn i32(&mut self, field: u8, value: i32) {
        self.head(field, I32);
        self.number(value.into());
    }

    pub(super) fn i64(&mut self, field: u8, value: i64) {
        self.head(field, I64);
        self.number(value);
    }

    pub(super) fn text(&mut self, field: u8, value: &str) {
        self.head(field, BINARY);
        self.bytes(value);
    }

    pub(super) fn structure(&mut self, field: u8, fields: impl FnOnce(&mut Thrift)) {
        self.head(field, STRUCT);
        self.body(fields);
    }

    /// A list of structures.
    pub(super) fn structures<T>(
        &mut self,
        field: u8,
        items: &[T],
        mut each: impl FnMut(&T, &mut Thrift),
    ) {
        self.list(field, STRUCT, items.len());
        for item in items {
            self.body(|thrift| each(item, thrift));
        }
    }

    pub(super) fn numbers(&mut self, field: u8, items: &[i32]) {
        self.list(field, I32, items.len());
        items.iter().for_each(|item| self.number((*item).into()));
    }

    pub(super) fn texts(&mut self, field: u8, items: &[String]) {
        self.list(field, BINARY, items.len());
        items.iter().for_each(|item| self.bytes(item));
    }

    fn list(&mut self, field: u8, kind: u8, count: usize) {
        self.head(field, LIST);
        match u8::try_from(count) {
            Ok(short) if count < SHORT_LIST => self.out.push(short << 4 | kind),
            _ => {
                self.out.push(0xF0 | kind);
                self.unsigned(count as u64);
            }
        }
    }

    fn bytes(&mut self, text: &str) {
        self.unsigned(text.len() as u64);
        self.out.extend_from_slice(text.as_bytes());
    }

    fn number(&mut self, value: i64) {
        self.unsigned((value << 1 ^ value >> 63) as u64);
    }

    fn unsigned(&mut self, value: u64) {
        unsigned(value, &mut self.out);
    }
}

/// Appends a number in groups of seven bits, the lowest first.
pub(super) fn unsigned(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7F {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_written_as_the_protocol_says() {
        let bytes = Thrift::of(|it| {
            it.i32(1, -1);
            it.text(4, "ab");
            it.structures(5, &[7_i64], |number, it| it.i64(1, *number));
            it.structure(6, |it| it.bool(2, true));
            it.numbers(7, &[0; 15]);
        });
        let expected = [
            &[0x15, 1, 0x38, 2, b'a', b'b', 0x19, 0x1C, 0x16, 14, 0][..],
            &[0x1C, 0x21, 0, 0x19, 0xF5, 15],
            &[0; 16],
        ];
        assert_eq!(bytes, expected.concat());
    }
}
