//! Lines and the words on them. memcached knows one separator, the blank.

/// The position of the first byte like this one. Eight bytes at a time: lines of many keys are long.
fn first(input: &[u8], byte: u8) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    const HIGHS: u64 = u64::from_le_bytes([0x80; 8]);
    let pattern = u64::from_le_bytes([byte; 8]);
    let (words, rest) = input.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let zero_where_it_is = u64::from_le_bytes(*word) ^ pattern;
        // Above the first zero others may be taken for zeros.
        let found = zero_where_it_is.wrapping_sub(ONES) & !zero_where_it_is & HIGHS;
        if found != 0 {
            return Some(at * 8 + found.trailing_zeros() as usize / 8);
        }
    }
    let in_rest = rest.iter().position(|it| *it == byte)?;
    Some(words.len() * 8 + in_rest)
}

/// The position of the first line feed at `from` or later.
pub(crate) fn newline(input: &[u8], from: usize) -> Option<usize> {
    first(input.get(from..)?, b'\n').map(|at| from + at)
}

/// The words of a line or of a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The words of `text`, which has no line end.
    pub fn new(text: &'a [u8]) -> Words<'a> {
        Words(text)
    }

    /// What is left, blanks and all.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The last word.
    pub(crate) fn last_of(&self) -> Option<&'a [u8]> {
        let end = self.0.iter().rposition(|byte| *byte != b' ')? + 1;
        let start = self.0[..end].iter().rposition(|byte| *byte == b' ');
        Some(&self.0[start.map_or(0, |blank| blank + 1)..end])
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.0.iter().position(|byte| *byte != b' ')?;
        let from = &self.0[start..];
        let length = first(from, b' ');
        let (word, rest) = from.split_at(length.unwrap_or(from.len()));
        self.0 = rest;
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_feed_is_found_wherever_it_stands() {
        for length in 0..40 {
            let mut text = vec![0x8a_u8; length];
            assert_eq!(newline(&text, 0), None);
            for at in 0..length {
                text[at] = b'\n';
                for from in 0..=length + 1 {
                    let expected = (from <= at).then_some(at);
                    assert_eq!(newline(&text, from), expected, "{length} {at} {from}");
                }
                text[at] = 0x0b;
            }
        }
    }

    #[test]
    fn words_are_what_stands_between_blanks() {
        let words: Vec<&[u8]> = Words::new(b"  get a\tb  c ").collect();
        assert_eq!(words, [&b"get"[..], b"a\tb", b"c"]);
        assert_eq!(Words::new(b"  a bc  ").last_of(), Some(&b"bc"[..]));
        assert_eq!(Words::new(b"bc").last_of(), Some(&b"bc"[..]));
        assert_eq!(Words::new(b"  ").last_of(), None);
    }
}
