//! The words of a statement, for whoever reads what it defines.
//!
//! Invariants: any text may come in, also one that ends in the middle; comments give no tokens, and what stands in
//! `/*!…*/` counts.
//!
//! Must not know: what the words mean, or the session's `sql_mode`: what stands in double quotes is kept apart.

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A word or a number without quotes, as it stands there.
    Word(String),
    /// A name in backticks.
    Name(String),
    /// What stands in double quotes: a name where `sql_mode` has ANSI_QUOTES, otherwise a text.
    DoubleQuoted(String),
    /// A text in single quotes.
    Text(String),
    Other(char),
}

impl Token {
    /// A bare word is this one, in letters of any case.
    pub(crate) fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(text) if text.eq_ignore_ascii_case(word))
    }

    /// What may be the name of something.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Token::Word(name) | Token::Name(name) | Token::DoubleQuoted(name) => Some(name),
            Token::Text(_) | Token::Other(_) => None,
        }
    }

    /// A word, or a name in backticks, in upper case; empty for anything else.
    pub(crate) fn upper(&self) -> String {
        match self {
            Token::Word(word) | Token::Name(word) => word.to_ascii_uppercase(),
            _ => String::new(),
        }
    }
}

/// The tokens of a statement.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    let is_word = |c: char| c.is_alphanumeric() || "_$.".contains(c) || !c.is_ascii();
    while let Some(c) = rest.chars().next() {
        if let Some(behind) = behind_comment(rest).or_else(|| rest.strip_prefix("*/")) {
            rest = behind;
        } else if "`'\"".contains(c) {
            let (inner, behind) = quoted(&rest[1..], c);
            tokens.push(match c {
                '`' => Token::Name(inner),
                '"' => Token::DoubleQuoted(inner),
                _ => Token::Text(inner),
            });
            rest = behind;
        } else if is_word(c) && c != '.' {
            // A point is part of a number, and stands between names.
            let is_number = c.is_ascii_digit();
            let ends = |c: char| !is_word(c) || c == '.' && !is_number;
            let end = rest.find(ends).unwrap_or(rest.len());
            tokens.push(Token::Word(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            tokens.push(Token::Other(c));
            rest = &rest[c.len_utf8()..];
        }
        rest = rest.trim_start();
    }
    tokens
}

/// The text behind a leading comment. Of a comment that servers run (`/*!…*/`) only the opening is left out. `None`: no
/// comment leads.
fn behind_comment(text: &str) -> Option<&str> {
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
fn quoted(text: &str, quote: char) -> (String, &str) {
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
