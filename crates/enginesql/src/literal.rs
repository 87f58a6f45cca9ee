//! String literals for statements of Heddle's own.

/// A string literal that cannot be left, whatever the text. The session that runs it takes backslashes for
/// escapes, as each of Heddle's own connections does.
pub fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('\'');
    for c in text.chars() {
        match c {
            '\'' => literal.push_str("\\'"),
            '\\' => literal.push_str("\\\\"),
            '\0' => literal.push_str("\\0"),
            c => literal.push(c),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_cannot_be_left() {
        assert_eq!(quoted(r"a'b\c"), r"'a\'b\\c'");
        assert_eq!(quoted("\0"), "'\\0'");
    }
}
