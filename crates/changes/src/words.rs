//! What every reader of a statement's text passes in the same way: comments, and what stands in quotes.
//!
//! Must not know: what the words mean.

/// The text behind a leading comment. Of a comment that servers run (`/*!…*/`) only the opening is left out. `None`: no
/// comment leads.
pub(crate) fn behind_comment(text: &str) -> Option<&str> {
    let behind = |end: &str| text.split_once(end).map_or("", |(_, rest)| rest);
    if text.starts_with("/*!") || text.starts_with("/*M!") {
        let inner = text[2..].trim_start_matches(['M', '!']);
        return Some(inner.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    if text.starts_with("/*") {
        return Some(behind("*/"));
    }
    (text.starts_with('#') || text.starts_with("-- ")).then(|| behind("\n"))
}

/// What stands up to a quote, and what is behind it. A text may have a backslash in front of a quote.
pub(crate) fn quoted(text: &str, quote: char) -> (String, &str) {
    let mut inner = String::new();
    let mut characters = text.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        if c == '\\' && quote != '`' {
            inner.extend(characters.next().map(|(_, next)| next));
        } else if c != quote {
            inner.push(c);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            inner.push(quote);
        } else {
            return (inner, &text[at + quote.len_utf8()..]);
        }
    }
    (inner, "")
}
