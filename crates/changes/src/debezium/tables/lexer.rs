//! The words of a statement that defines a table.

use crate::words::{behind_comment, quoted};

/// A piece of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word without quotes, as it stands there.
    Word(String),
    /// A name in backticks, or in double quotes.
    Name(String),
    /// A text in quotes.
    Text(String),
    Other(char),
}

impl Token {
    /// A bare word is this one, in letters of any case.
    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(text) if text.eq_ignore_ascii_case(word))
    }

    /// What may be the name of something.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Token::Word(name) | Token::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// The pieces, without comments; what stands in `/*!…*/` counts.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    let is_word = |c: char| c.is_alphanumeric() || "_$.".contains(c) || !c.is_ascii();
    while let Some(c) = rest.chars().next() {
        if let Some(behind) = behind_comment(rest).or_else(|| rest.strip_prefix("*/")) {
            rest = behind;
        } else if "`'\"".contains(c) {
            let (inner, behind) = quoted(&rest[1..], c);
            tokens.push(match c {
                '\'' => Token::Text(inner),
                _ => Token::Name(inner),
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

/// The pieces between commas that stand in no parentheses.
pub(super) fn parts(tokens: &[Token]) -> Vec<&[Token]> {
    let (mut all, mut begin, mut depth) = (Vec::new(), 0, 0_u32);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('(') => depth += 1,
            Token::Other(')') => depth = depth.saturating_sub(1),
            Token::Other(',') if depth == 0 => {
                all.push(&tokens[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    all.push(&tokens[begin..]);
    all
}

/// What stands in parentheses at the front, and what is behind them.
pub(super) fn enclosed(tokens: &[Token]) -> Option<(&[Token], &[Token])> {
    if tokens.first() != Some(&Token::Other('(')) {
        return None;
    }
    let mut depth = 0_u32;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('(') => depth += 1,
            Token::Other(')') => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some((&tokens[1..at], &tokens[at + 1..]));
        }
    }
    None
}
