//! Names and strings as SQL has them, for texts of Heddle's own.

/// A name between backticks.
pub fn ticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Appends a string literal. No byte of a character may pass for a quote, as in UTF-8. `plain`: a
/// backslash is one (NO_BACKSLASH_ESCAPES).
pub fn put_string(bytes: &[u8], plain: bool, out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in bytes {
        match byte {
            b'\'' => out.extend_from_slice(b"''"),
            b'\\' if !plain => out.extend_from_slice(b"\\\\"),
            0 if !plain => out.extend_from_slice(b"\\0"),
            _ => out.push(byte),
        }
    }
    out.push(b'\'');
}

/// Bytes from and to, and what stands there instead.
pub type Edit = ((usize, usize), String);

/// A text with something else in some places, which come in any order; of two that overlap the first
/// one counts.
pub fn edited(text: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    edits.sort_by_key(|(place, _)| *place);
    let more: usize = edits.iter().map(|(_, with)| with.len()).sum();
    let mut made = Vec::with_capacity(text.len() + more);
    let mut from = 0;
    for ((start, end), with) in edits {
        if start < from {
            continue;
        }
        made.extend_from_slice(&text[from..start]);
        made.extend_from_slice(with.as_bytes());
        from = end;
    }
    made.extend_from_slice(&text[from..]);
    made
}

/// The same of a text in UTF-8, where places are whole characters.
pub fn spliced(text: &str, edits: Vec<Edit>) -> String {
    String::from_utf8_lossy(&edited(text.as_bytes(), edits)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_put_together() {
        assert_eq!(ticked("a`b"), "`a``b`");
        let mut out = Vec::new();
        put_string(b"it's\\\0", false, &mut out);
        put_string(b"it's\\\0", true, &mut out);
        assert_eq!(out, b"'it''s\\\\\\0''it''s\\\0'");
        let cut = |start, end, with: &str| ((start, end), with.to_owned());
        let cuts = vec![
            cut(6, 7, "X"),
            cut(0, 2, ""),
            cut(1, 3, "no"),
            cut(9, 9, "!"),
        ];
        assert_eq!(spliced("abcdefghi", cuts), "cdefXhi!");
    }
}
