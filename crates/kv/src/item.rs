//! An item as its row has it: parts of the value, flags, cas and expiry.

use crate::op::Item;

/// How values and rows become each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The columns of the value, and which of them may be NULL.
    pub nullable: Vec<bool>,
    pub integers: Vec<bool>,
    pub separator: Vec<u8>,
    pub escape: bool,
    pub keeps_flags: bool,
    pub keeps_cas: bool,
    pub keeps_expiry: bool,
    /// What append and prepend may make of a value.
    pub value_bytes_max: usize,
}

/// The container's columns of one row, but for the key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The value's columns as text.
    pub parts: Vec<Option<Vec<u8>>>,
    pub flags: u32,
    /// What the cas column has.
    pub cas: u64,
    /// The second since 1970 at which it expires; 0 for never.
    pub expiry: u64,
}

impl Layout {
    /// The value of a row: its parts with the separator between them. NULL is empty.
    pub fn joined(&self, parts: &[Option<Vec<u8>>]) -> Vec<u8> {
        let mut value = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                value.extend_from_slice(&self.separator);
            }
            let part = part.as_deref().unwrap_or_default();
            match self.escape && parts.len() > 1 {
                true => self.escape(part, &mut value),
                false => value.extend_from_slice(part),
            }
        }
        value
    }

    /// A backslash goes in front of backslashes and of what a separator may begin with.
    fn escape(&self, part: &[u8], out: &mut Vec<u8>) {
        let first = self.separator.first();
        for byte in part {
            if *byte == b'\\' || Some(byte) == first {
                out.push(b'\\');
            }
            out.push(*byte);
        }
    }

    /// The parts of a value. What is missing at the end is NULL, and so is an empty part of several
    /// where its column allows it. `None` for more parts than there are columns.
    pub fn split(&self, value: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
        let columns = self.nullable.len();
        if columns == 1 {
            return Some(vec![Some(value.to_vec())]);
        }
        let mut parts = vec![Vec::new()];
        let mut rest = value;
        while let Some(&byte) = rest.first() {
            if self.escape && byte == b'\\' && rest.len() > 1 {
                parts.last_mut()?.push(rest[1]);
                rest = &rest[2..];
            } else if rest.starts_with(&self.separator) {
                parts.push(Vec::new());
                rest = &rest[self.separator.len()..];
            } else {
                parts.last_mut()?.push(byte);
                rest = &rest[1..];
            }
        }
        if parts.len() > columns {
            return None;
        }
        let mut parts: Vec<Option<Vec<u8>>> = parts.into_iter().map(Some).collect();
        parts.resize(columns, None);
        for (part, &nullable) in parts.iter_mut().zip(&self.nullable) {
            let empty = part.as_ref().is_none_or(Vec::is_empty);
            if empty {
                *part = (!nullable).then(Vec::new);
            }
        }
        Some(parts)
    }

    /// What clients see of a row at the second `now_s`; `None` when it has expired.
    pub fn item(&self, row: &Row, now_s: u64) -> Option<Item> {
        self.taken(row.clone(), now_s)
    }

    /// The same of a row that nobody needs any more.
    pub fn taken(&self, mut row: Row, now_s: u64) -> Option<Item> {
        let ttl_s = row.ttl_s(now_s);
        if ttl_s == Some(0) {
            return None;
        }
        let cas = row.fingerprint();
        let value = match &mut row.parts[..] {
            [only] => only.take().unwrap_or_default(),
            several => self.joined(several),
        };
        Some(Item {
            value,
            flags: row.flags,
            cas,
            ttl_s,
        })
    }
}

impl Row {
    /// Seconds left at the second `now_s`; 0 when it has expired, `None` for ever.
    pub fn ttl_s(&self, now_s: u64) -> Option<u64> {
        (self.expiry != 0).then(|| self.expiry.saturating_sub(now_s))
    }

    /// Bytes of its value.
    pub fn bytes(&self) -> usize {
        self.parts.iter().flatten().map(Vec::len).sum()
    }

    /// Differs whenever one of the container's columns does, whoever changed it; never 0. It has
    /// 53 bits: there are clients that read a cas as a signed number, and some as a floating-point one.
    /// Routers of one farm must agree on it.
    pub fn fingerprint(&self) -> u64 {
        let cas = self.cas ^ (self.cas >> CAS_BITS);
        (self.print() ^ cas & CAS_MAX).max(1)
    }

    /// Gives the cas column what makes this the fingerprint; false for what can be none.
    pub fn stamp(&mut self, cas: u64) -> bool {
        self.cas = self.print() ^ cas;
        (1..=CAS_MAX).contains(&cas)
    }

    /// The same of all columns but that of the cas.
    fn print(&self) -> u64 {
        let mut hash = Hash(0xCBF2_9CE4_8422_2325);
        for part in &self.parts {
            // NULL is another value than an empty text.
            hash.word(part.as_ref().map_or(0, |part| part.len() as u64 + 1));
            hash.bytes(part.as_deref().unwrap_or_default());
        }
        hash.word(u64::from(self.flags));
        hash.word(self.expiry);
        let mut mixed = hash.0;
        mixed ^= mixed >> 33;
        mixed = mixed.wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        mixed ^= mixed >> 33;
        mixed >> (64 - CAS_BITS)
    }
}

/// Bits of a fingerprint, and the largest.
const CAS_BITS: u32 = 53;
const CAS_MAX: u64 = (1 << CAS_BITS) - 1;

/// FNV-1a on words of eight bytes, with its high bits folded down after each.
struct Hash(u64);

impl Hash {
    fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// Their number is known from elsewhere.
    fn bytes(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn layout(columns: usize, escape: bool) -> Layout {
        Layout {
            nullable: vec![true; columns],
            integers: vec![false; columns],
            separator: b"|".to_vec(),
            escape,
            keeps_flags: true,
            keeps_cas: true,
            keeps_expiry: true,
            value_bytes_max: 1000,
        }
    }

    fn parts(texts: &[Option<&str>]) -> Vec<Option<Vec<u8>>> {
        texts
            .iter()
            .map(|text| text.map(|text| text.as_bytes().to_vec()))
            .collect()
    }

    #[test]
    fn values_are_cut_at_separators() {
        let three = layout(3, false);
        let cases: [(&str, &[Option<&str>]); 5] = [
            ("a|b|c", &[Some("a"), Some("b"), Some("c")]),
            ("a", &[Some("a"), None, None]),
            ("|b|", &[None, Some("b"), None]),
            ("a||c", &[Some("a"), None, Some("c")]),
            ("", &[None, None, None]),
        ];
        for (value, expected) in cases {
            assert_eq!(
                three.split(value.as_bytes()),
                Some(parts(expected)),
                "{value}"
            );
        }
        assert_eq!(three.split(b"a|b|c|d"), None);
        assert_eq!(three.joined(&parts(&[Some("a"), None, Some("c")])), b"a||c");
        let one = layout(1, true);
        assert_eq!(one.split(b"a|\\b"), Some(parts(&[Some("a|\\b")])));
        assert_eq!(one.joined(&parts(&[Some("a|\\b")])), b"a|\\b");
    }

    #[test]
    fn an_empty_part_is_empty_where_null_is_not_allowed() {
        let mut two = layout(2, false);
        two.nullable[1] = false;
        assert_eq!(two.split(b""), Some(parts(&[None, Some("")])));
    }

    #[test]
    fn escaped_values_come_back_as_they_were() {
        let mut two = layout(2, true);
        for separator in ["|", "::"] {
            two.separator = separator.as_bytes().to_vec();
            for part in ["a|b", "::", "x\\", "\\\\|", "a:b", ":"] {
                let row = parts(&[Some(part), Some("z")]);
                let value = two.joined(&row);
                assert_eq!(two.split(&value), Some(row), "{separator} {part}");
            }
        }
    }

    #[test]
    fn any_column_changes_the_fingerprint() {
        let row = Row {
            parts: parts(&[Some("a"), None]),
            ..Row::default()
        };
        let mut others = vec![row.clone(); 5];
        others[0].parts[1] = Some(Vec::new());
        others[1].parts[0] = Some(b"b".to_vec());
        others[2].flags = 1;
        others[3].cas = 1;
        others[4].expiry = 1;
        for cas in [1, 77, CAS_MAX] {
            let mut stamped = others[0].clone();
            assert!(stamped.stamp(cas));
            assert_eq!(stamped.fingerprint(), cas);
        }
        assert!(!row.clone().stamp(0) && !row.clone().stamp(CAS_MAX + 1));
        let mut all: Vec<u64> = others.iter().map(Row::fingerprint).collect();
        all.push(row.fingerprint());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 6);
    }

    #[test]
    fn expired_rows_are_not_seen() {
        let one = layout(1, false);
        let row = |expiry| Row {
            parts: parts(&[Some("a")]),
            expiry,
            ..Row::default()
        };
        assert_eq!(one.item(&row(0), 100).map(|item| item.ttl_s), Some(None));
        assert_eq!(
            one.item(&row(101), 100).map(|item| item.ttl_s),
            Some(Some(1))
        );
        assert_eq!(one.item(&row(100), 100), None);
    }
}
