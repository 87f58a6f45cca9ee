//! The words of UPDATE and DELETE that the parser does not know, taken out or put in other words
//! before it reads them. Everything else stays where it stands in the text.

use sqlparser::dialect::MySqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer, TokenizerError};

/// They stand behind the verb, and say nothing about which rows are meant.
const OF_UPDATE: [&str; 2] = ["LOW_PRIORITY", "IGNORE"];
const OF_DELETE: [&str; 3] = ["LOW_PRIORITY", "QUICK", "IGNORE"];

/// The tokens of a text, as the parser is to read them.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, TokenizerError> {
    let mut tokens = Tokenizer::new(&MySqlDialect {}, text).tokenize_with_location()?;
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

fn is_blank(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

fn is_keyword(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

/// A modifier is one only in front of something else of the statement's: a table may have its name.
fn drop_modifiers(tokens: &mut Vec<TokenWithSpan>, from: usize, modifiers: &[&str]) {
    loop {
        let mut rest = (from..tokens.len()).filter(|at| !is_blank(&tokens[*at].token));
        let (Some(first), Some(next)) = (rest.next(), rest.next()) else {
            return;
        };
        let Token::Word(word) = &tokens[first].token else {
            return;
        };
        let modifier = word.quote_style.is_none()
            && modifiers
                .iter()
                .any(|it| it.eq_ignore_ascii_case(&word.value));
        let follows =
            matches!(&tokens[next].token, Token::Word(word) if word.keyword != Keyword::SET);
        if !modifier || !follows {
            return;
        }
        tokens.remove(first);
    }
}

/// `UPDATE a, b SET` is read as `UPDATE a CROSS JOIN b SET`.
fn join_lists(tokens: &mut Vec<TokenWithSpan>, from: usize) {
    let (mut at, mut depth) = (from, 0usize);
    while let Some(token) = tokens.get(at) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            word if depth == 0 && is_keyword(word, Keyword::SET) => return,
            Token::Comma if depth == 0 => {
                let span = token.span;
                let word = |text| TokenWithSpan::new(Token::make_keyword(text), span);
                tokens.splice(at..=at, ["CROSS", "JOIN"].map(word));
            }
            _ => {}
        }
        at += 1;
    }
}
