//! Parts of a definition: what stands between commas, and in parentheses.

use crate::words::Token;

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
