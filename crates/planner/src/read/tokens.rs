//! The words of UPDATE and DELETE that the parser does not know, taken out or put in other words
//! before it reads them, as operators are ([`signs`]). Everything else stays where it stands in the text.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use crate::depth;

use super::signs;

/// They stand behind the verb, and say nothing about which rows are meant.
const OF_UPDATE: [&str; 2] = ["LOW_PRIORITY", "IGNORE"];
const OF_DELETE: [&str; 3] = ["LOW_PRIORITY", "QUICK", "IGNORE"];

/// The tokens of a text, as the parser is to read them.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, String> {
    let mut tokens = depth::tokens(text)?;
    signs::settle(&mut tokens);
    let Some(verb) = tokens.iter().position(|it| !is_blank(&it.token)) else {
        return Ok(tokens);
    };
    let updates = is_keyword(&tokens[verb].token, Keyword::UPDATE);
    if updates {
        drop_modifiers(&mut tokens, verb + 1, &OF_UPDATE);
        join_lists(&mut tokens, verb + 1);
    } else if is_keyword(&tokens[verb].token, Keyword::DELETE) {
        drop_modifiers(&mut tokens, verb + 1, &OF_DELETE);
    }
    Ok(tokens)
}

pub(super) fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// A modifier is one only in front of something else of the statement's: a table may have its name.
fn drop_modifiers(tokens: &mut Vec<TokenWithSpan>, from: usize, modifiers: &[&str]) {
    let is_modifier = |token: &Token| {
        let Token::Word(word) = token else {
            return false;
        };
        let mut names = modifiers.iter();
        word.quote_style.is_none() && names.any(|it| it.eq_ignore_ascii_case(&word.value))
    };
    let follows = |token: &Token| matches!(token, Token::Word(it) if it.keyword != Keyword::SET);
    let mut rest = (from..tokens.len()).filter(|at| !is_blank(&tokens[*at].token));
    let (mut first, mut end) = (rest.next(), from);
    while let (Some(one), Some(next)) = (first, rest.next()) {
        if !is_modifier(&tokens[one].token) || !follows(&tokens[next].token) {
            break;
        }
        end = one + 1;
        first = Some(next);
    }
    tokens.drain(from..end);
}

/// `UPDATE a, b SET` is read as `UPDATE a CROSS JOIN b SET`.
fn join_lists(tokens: &mut Vec<TokenWithSpan>, from: usize) {
    let (mut depth, mut is_list) = (0usize, true);
    for token in tokens.split_off(from) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            word if depth == 0 && is_keyword(word, Keyword::SET) => is_list = false,
            Token::Comma if depth == 0 && is_list => {
                let span = token.span;
                let word = |text| TokenWithSpan::new(Token::make_keyword(text), span);
                tokens.extend(["CROSS", "JOIN"].map(word));
                continue;
            }
            _ => {}
        }
        tokens.push(token);
    }
}
