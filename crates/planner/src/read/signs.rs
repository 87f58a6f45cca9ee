//! Operators that the parser does not know, or binds otherwise than the servers, put in other words
//! before it reads them: `!`, `~`, MOD, and character sets of casts. MariaDB writes each NOT of a view as
//! `!`, and each CAST to text with its character set.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::is_blank;

/// `! a` becomes `(NOT a)` and `~ a` becomes `(~ a)`: of all operators the servers bind these two most
/// tightly. `a MOD b` becomes `a % b`. A sign stays as it is where it is not sure what it stands before.
pub(super) fn settle(tokens: &mut Vec<TokenWithSpan>) {
    rests(tokens);
    charsets(tokens);
    apart(tokens);
    if tokens.iter().any(|it| is_sign(&it.token)) {
        enclose(tokens);
    }
}

fn is_sign(token: &Token) -> bool {
    matches!(token, Token::ExclamationMark | Token::Tilde)
}

fn rests(tokens: &mut [TokenWithSpan]) {
    let mut behind_value = false;
    for TokenWithSpan { token, .. } in tokens.iter_mut().filter(|it| !is_blank(&it.token)) {
        let is_mod = matches!(token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("MOD"));
        if is_mod && behind_value {
            *token = Token::Mod;
        }
        behind_value = match token {
            Token::Word(word) => {
                let ends = [Keyword::NoKeyword, Keyword::NULL, Keyword::END];
                word.quote_style.is_some() || ends.contains(&word.keyword)
            }
            Token::RParen | Token::Number(..) | Token::Placeholder(_) => true,
            token => matches!(token, Token::SingleQuotedString(_)),
        };
    }
}

/// `CAST(a AS CHAR CHARSET x)` is read as `CAST(a AS CHAR(1))`: as a cast that nobody computes here.
fn charsets(tokens: &mut Vec<TokenWithSpan>) {
    let is = |token: &Token, name: &str| {
        matches!(token, Token::Word(word)
            if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(name))
    };
    if !tokens
        .iter()
        .any(|it| is(&it.token, "CHARSET") || is(&it.token, "CHARACTER"))
    {
        return;
    }
    let solid = (0..tokens.len()).filter(|at| !is_blank(&tokens[*at].token));
    let solid: Vec<usize> = solid.collect();
    // What is taken out, and whether a length is to stand there.
    let mut found: Vec<(usize, usize, bool)> = Vec::new();
    for at in 1..solid.len() {
        let named = |behind: usize, name: &str| {
            let token = solid.get(at + behind);
            token.is_some_and(|at| is(&tokens[*at].token, name))
        };
        let words = match (named(0, "CHARSET"), named(0, "CHARACTER")) {
            (true, _) => 1,
            (_, true) if named(1, "SET") => 2,
            _ => continue,
        };
        let before = &tokens[solid[at - 1]].token;
        let sized = *before == Token::RParen;
        if let (Some(name), Some(end)) = (solid.get(at + words), solid.get(at + words + 1))
            && tokens[*end].token == Token::RParen
            && (sized || is(before, "CHAR"))
        {
            found.push((solid[at], *name, !sized));
        }
    }
    let mut found = found.into_iter().peekable();
    for (at, one) in std::mem::take(tokens).into_iter().enumerate() {
        let Some(&(from, to, bare)) = found.peek().filter(|it| at >= it.0) else {
            tokens.push(one);
            continue;
        };
        if at == from && bare {
            let length = Token::Number("1".to_owned(), false);
            let length = [Token::LParen, length, Token::RParen];
            tokens.extend(length.map(|token| TokenWithSpan::new(token, one.span)));
        }
        if at == to {
            found.next();
        }
    }
}

/// Signs that touch each other are one token for the parser.
fn apart(tokens: &mut Vec<TokenWithSpan>) {
    use Token::{ExclamationMark as Not, Tilde};
    let signs = |token: &Token| match token {
        Token::DoubleExclamationMark => Some([Not, Not]),
        Token::ExclamationMarkTilde => Some([Not, Tilde]),
        Token::DoubleTilde => Some([Tilde, Tilde]),
        _ => None,
    };
    if !tokens.iter().any(|it| signs(&it.token).is_some()) {
        return;
    }
    for one in std::mem::take(tokens) {
        match signs(&one.token) {
            Some(both) => tokens.extend(both.map(|sign| TokenWithSpan::new(sign, one.span))),
            None => tokens.push(one),
        }
    }
}

fn enclose(tokens: &mut Vec<TokenWithSpan>) {
    let closings = closings(tokens);
    // Where the operand of each sign ends; and how many end at each token.
    let mut ends: Vec<Option<usize>> = vec![None; tokens.len()];
    let mut ended = vec![0usize; tokens.len()];
    // From the end, so that a sign behind a sign is known before it.
    for at in (0..tokens.len())
        .rev()
        .filter(|at| is_sign(&tokens[*at].token))
    {
        ends[at] = operand(tokens, &closings, &ends, at + 1);
        if let Some(end) = ends[at] {
            ended[end] += 1;
        }
    }
    for (at, one) in std::mem::take(tokens).into_iter().enumerate() {
        let span = one.span;
        let made = |token| TokenWithSpan::new(token, span);
        match (ends[at], &one.token) {
            (Some(_), Token::ExclamationMark) => {
                tokens.extend([Token::LParen, Token::make_keyword("NOT")].map(made));
            }
            (Some(_), _) => tokens.extend([made(Token::LParen), one]),
            (None, _) => tokens.push(one),
        }
        tokens.extend(std::iter::repeat_n(made(Token::RParen), ended[at]));
    }
}

/// For each parenthesis that opens the one that closes it.
fn closings(tokens: &[TokenWithSpan]) -> Vec<Option<usize>> {
    let mut found = vec![None; tokens.len()];
    let mut open = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => open.push(at),
            Token::RParen => {
                if let Some(begin) = open.pop() {
                    found[begin] = Some(at);
                }
            }
            _ => {}
        }
    }
    found
}

/// The last token of what a sign stands before: a value, a column, a call, what is in parentheses, or
/// what another sign stands before.
fn operand(
    tokens: &[TokenWithSpan],
    closings: &[Option<usize>],
    ends: &[Option<usize>],
    from: usize,
) -> Option<usize> {
    let next = |from: usize| (from..tokens.len()).find(|at| !is_blank(&tokens[*at].token));
    let mut at = next(from)?;
    while matches!(tokens[at].token, Token::Minus | Token::Plus) {
        at = next(at + 1)?;
    }
    let word = match &tokens[at].token {
        Token::LParen => return closings[at],
        Token::ExclamationMark | Token::Tilde => return ends[at],
        Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::Placeholder(_) => return Some(at),
        Token::Word(word) => word,
        _ => return None,
    };
    let mut last = at;
    while let Some(dot) = next(last + 1).filter(|at| tokens[*at].token == Token::Period) {
        last = next(dot + 1)?;
    }
    let calls = next(last + 1).filter(|at| tokens[*at].token == Token::LParen);
    match (calls, word.keyword) {
        (Some(open), _) => closings[open],
        (None, Keyword::NoKeyword | Keyword::NULL | Keyword::TRUE | Keyword::FALSE) => Some(last),
        // CASE, INTERVAL, BINARY and their like go on.
        (None, _) => (last > at || word.quote_style.is_some()).then_some(last),
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;

    fn read(text: &str) -> String {
        match parse::one(text) {
            Ok(statement) => statement.to_string(),
            Err(error) => error,
        }
    }

    #[test]
    fn signs_bind_most_tightly() {
        for (text, wanted) in [
            ("SELECT !a = 1", "SELECT (NOT a) = 1"),
            ("SELECT ! `t`.`a` + 1", "SELECT (NOT `t`.`a`) + 1"),
            ("SELECT !(a or b) AND c", "SELECT (NOT (a OR b)) AND c"),
            (
                "SELECT !!-a, !~b, ~~c",
                "SELECT (NOT (NOT -a)), (NOT (~b)), (~(~c))",
            ),
            ("SELECT ~a * b", "SELECT (~a) * b"),
            (
                "SELECT CAST(a AS char charset utf8mb4), CAST(b AS CHAR(5) CHARACTER SET latin1) + 1",
                "SELECT CAST(a AS CHAR(1)), CAST(b AS CHAR(5)) + 1",
            ),
            ("SELECT a.b MOD 7, (a) MOD (b)", "SELECT a.b % 7, (a) % (b)"),
            (
                "SELECT MOD(a, 7) AS m, a DIV 7",
                "SELECT MOD(a, 7) AS m, a DIV 7",
            ),
            ("SELECT ~f(a, (b)) | 1", "SELECT (~f(a, (b))) | 1"),
            (
                "SELECT 1 FROM t WHERE !exists(select 1 from u where !u.a in (1)) and b",
                "SELECT 1 FROM t WHERE (NOT EXISTS (SELECT 1 FROM u WHERE (NOT u.a) IN (1))) AND b",
            ),
            (
                "SELECT a FROM t WHERE b <> 1 AND c != 2",
                "SELECT a FROM t WHERE b <> 1 AND c <> 2",
            ),
        ] {
            assert_eq!(read(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_sign_before_what_goes_on_is_not_read() {
        assert!(read("SELECT ! CASE WHEN a THEN 1 END").starts_with("sql parser error"));
    }
}
