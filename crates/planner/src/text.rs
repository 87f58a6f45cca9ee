//! Places in a text: the parser counts lines and characters, the tokenizer bytes; and comments in
//! front of them; and what is put in place of a part of it.

use sqlparser::tokenizer::Location;

/// The bytes of a part of a text, from the first to behind the last, and what stands there instead.
pub(crate) type Cut = ((usize, usize), String);

/// Where each line of a text begins.
pub(crate) struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Lines<'a> {
        let breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Lines {
            text,
            starts: std::iter::once(0).chain(breaks).collect(),
        }
    }

    /// The byte at a place; `None` for one that is not in the text.
    pub(crate) fn byte(&self, place: Location) -> Option<u32> {
        let line = usize::try_from(place.line.checked_sub(1)?).ok()?;
        let column = usize::try_from(place.column.checked_sub(1)?).ok()?;
        let start = *self.starts.get(line)?;
        let (at, _) = self.text[start..].char_indices().nth(column)?;
        u32::try_from(start + at).ok()
    }

    /// The byte in front of which something ends at a place.
    pub(crate) fn end(&self, place: Location) -> Option<u32> {
        let before = Location {
            line: place.line,
            column: place.column.checked_sub(1)?,
        };
        let last = self.byte(before)?;
        let char = self.text[last as usize..].chars().next()?;
        u32::try_from(last as usize + char.len_utf8()).ok()
    }
}

/// A comment ends this text, but for spaces.
pub(crate) fn follows_comment(text: &str) -> bool {
    let text = text.trim_end();
    let line = text.rsplit('\n').next().unwrap_or_default();
    text.ends_with("*/") || line.contains("--") || line.contains('#')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_not_bytes() {
        let lines = Lines::new("SELECT 'é',\n 'ß', 7");
        let byte = |line, column| lines.byte(Location { line, column });
        assert_eq!(
            (byte(1, 8), byte(2, 2), byte(2, 7)),
            (Some(7), Some(14), Some(20))
        );
        assert_eq!((byte(0, 0), byte(9, 1)), (None, None));
    }
}
