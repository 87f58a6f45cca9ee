//! The parser's door. A text gets in only if its tree is so flat, and so small, that a core can hold it.
//!
//! The parser counts how deep it calls itself, but it reads chains (`a OR b OR c …`) in a loop, and the
//! tree of a chain is as deep as the chain is long. Whatever walks, copies or drops such a tree calls
//! itself once a level, on the stack of a core or of the control thread ([`STACK_BYTES`]): a tree
//! without a bound would end the process. So the tokens are looked at before the parser sees them.
//!
//! What is refused here is not refused to the client: a text that is not read goes the way of those that
//! the parser does not know.

use sqlparser::dialect::MySqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// What a thread that reads statements has for its stack, at least. The kernel gives it page by page, so
/// what is not used costs nothing.
pub const STACK_BYTES: usize = 16 << 20;

/// How often the parser may call itself.
const CALLS_MAX: usize = 50;

/// The deepest tree. `tests/plans/depth.rs` walks trees of this depth through everything that reads a
/// statement, with half of the stack that the threads have.
pub(crate) const LEVELS_MAX: usize = 1200;

/// The memory that reading one text may take.
const PLAN_BYTES_MAX: usize = 64 << 20;

/// What a token takes, with its share of the tree.
const TOKEN_BYTES: usize = 512;

const TOKENS_MAX: usize = PLAN_BYTES_MAX / TOKEN_BYTES;

/// Of a text that is only taken apart into [`sqltext::Piece`]s.
const PIECES_MAX: usize = PLAN_BYTES_MAX / size_of::<sqltext::Piece>();

/// The tokens of a text, as the parser is to read them.
///
/// # Errors
/// They are too many, or are not the parser's.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, String> {
    if more_tokens(text.as_bytes(), TOKENS_MAX) {
        return Err(format!("it has more than {TOKENS_MAX} words and signs"));
    }
    let mut tokenizer = Tokenizer::new(&MySqlDialect {}, text);
    let tokens = tokenizer.tokenize_with_location();
    tokens.map_err(|error| error.to_string())
}

/// Whether a text can be taken apart at all, also by what needs no tree.
///
/// # Errors
/// It has too many words and signs.
pub(crate) fn fits(text: &str) -> Result<(), String> {
    match more_tokens(text.as_bytes(), PIECES_MAX) {
        true => Err(format!("it has more than {PIECES_MAX} words and signs")),
        false => Ok(()),
    }
}

/// A parser of these tokens.
///
/// # Errors
/// The tree would be too deep.
pub(crate) fn parser(tokens: Vec<TokenWithSpan>) -> Result<Parser<'static>, String> {
    let levels = levels(&tokens);
    if levels > LEVELS_MAX {
        return Err(format!(
            "its terms are nested, or chained, {levels} deep; {LEVELS_MAX} are read"
        ));
    }
    let parser = Parser::new(&MySqlDialect {}).with_recursion_limit(CALLS_MAX);
    Ok(parser.with_tokens_with_locations(tokens))
}

/// Whether a text may have more tokens than so many. Told from its bytes, since tokens take much more
/// memory than they have letters; never too few are counted.
fn more_tokens(text: &[u8], max: usize) -> bool {
    let (mut at, mut count) = (0, 0);
    while at < text.len() && count <= max {
        let rest = &text[at..];
        at += match rest {
            [quote @ (b'\'' | b'"' | b'`'), ..] => quoted(rest, *quote),
            [b'#', ..] | [b'-', b'-', b' ' | b'\t' | b'\n', ..] => rest
                .iter()
                .position(|it| *it == b'\n')
                .unwrap_or(rest.len()),
            [b'/', b'*', ..] if rest.get(2) != Some(&b'!') => {
                let end = rest[2..].windows(2).position(|it| it == b"*/");
                end.map_or(rest.len(), |end| end + 4)
            }
            _ => {
                let word = rest.iter().take_while(|it| is_of_word(**it)).count();
                let digits = rest.iter().take_while(|it| it.is_ascii_digit()).count();
                // What begins as a number may be one, its unit, and a word.
                count += if (1..word).contains(&digits) { 2 } else { 0 };
                word.max(1)
            }
        };
        count += 1;
    }
    count > max
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii()
}

/// How long a text in quotes is.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match *byte {
            b'\\' if quote != b'`' => at += 2,
            it if it == quote && text.get(at + 1) == Some(&quote) => at += 2,
            it if it == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// At least as deep as the tree of these tokens is.
fn levels(tokens: &[TokenWithSpan]) -> usize {
    let mut open = Vec::new();
    let mut here = Level::default();
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                open.push(std::mem::take(&mut here));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                let inner = here.levels();
                // One too much closes nothing, and the parser will say so.
                here = open.pop().unwrap_or_default();
                here.inner = here.inner.max(inner);
                here.rest += 1;
            }
            token => here.take(token),
        }
    }
    while let Some(mut outer) = open.pop() {
        outer.inner = outer.inner.max(here.levels());
        here = outer;
    }
    here.levels()
}

/// What stands between two brackets. The operator that binds least is the top of the tree, so what its
/// sides have in them is no sum: the deeper one counts.
#[derive(Default)]
struct Level {
    /// Set operations and joins.
    sets: usize,
    /// The deepest of their sides before this one.
    side: usize,
    /// OR in this side, and the deepest of what it joined before.
    ors: usize,
    alternative: usize,
    /// AND in this alternative, and the deepest of what it joined before.
    ands: usize,
    term: usize,
    /// All other operators and words of the language in this term, and its deepest brackets.
    rest: usize,
    inner: usize,
    /// A word was there behind which a whole expression follows without brackets: its operators bind
    /// less than those around it, so all are added up.
    open_ended: bool,
}

impl Level {
    fn take(&mut self, token: &Token) {
        match token {
            Token::Comma => {
                self.end_side();
                self.open_ended = false;
            }
            Token::Word(word) if word.quote_style.is_none() => self.word(word.keyword),
            Token::Whitespace(_) | Token::Period | Token::Word(_) | Token::Number(..) => {}
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => {}
            _ => self.rest += 1,
        }
    }

    fn word(&mut self, word: Keyword) {
        match word {
            Keyword::NoKeyword => {}
            Keyword::CASE | Keyword::INTERVAL => {
                self.open_ended = true;
                self.rest += 1;
            }
            Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT | Keyword::MINUS => {
                self.sets += 1;
                if !self.open_ended {
                    self.end_side();
                }
            }
            Keyword::JOIN | Keyword::STRAIGHT_JOIN => self.sets += 1,
            Keyword::OR if !self.open_ended => {
                self.end_alternative();
                self.ors += 1;
            }
            Keyword::AND if !self.open_ended => {
                self.end_term();
                self.ands += 1;
            }
            _ => self.rest += 1,
        }
    }

    fn end_term(&mut self) {
        let term = std::mem::take(&mut self.rest) + std::mem::take(&mut self.inner);
        self.term = self.term.max(term);
    }

    fn end_alternative(&mut self) {
        self.end_term();
        let alternative = std::mem::take(&mut self.ands) + std::mem::take(&mut self.term);
        self.alternative = self.alternative.max(alternative);
    }

    fn end_side(&mut self) {
        self.end_alternative();
        let side = std::mem::take(&mut self.ors) + std::mem::take(&mut self.alternative);
        self.side = self.side.max(side);
    }

    fn levels(mut self) -> usize {
        self.end_side();
        1 + self.sets + self.side
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use sqlparser::ast::{Expr, Query, Visit, Visitor};

    use super::*;

    fn levels_of(text: &str) -> usize {
        levels(&tokens(text).expect("its tokens are known"))
    }

    #[test]
    fn chains_are_counted_and_lists_are_not() {
        let chain = |first: &str, more: &str, times| format!("{first}{}", more.repeat(times));
        for (first, more) in [
            ("SELECT a", " OR a"),
            ("SELECT a", " AND b = 2"),
            ("SELECT a", " + 1"),
            ("SELECT a", " IS NULL"),
            ("SELECT ", "NOT "),
            ("SELECT ", "- "),
            ("SELECT ", "("),
            ("SELECT ", "f("),
            ("SELECT ", "CASE WHEN "),
            ("SELECT 1", " UNION SELECT 1, 2"),
            ("SELECT 1 FROM t", " JOIN t ON a = b"),
            ("SELECT 1 COLLATE a", " COLLATE a"),
        ] {
            let levels = levels_of(&chain(first, more, 500));
            assert!((500..2600).contains(&levels), "{more}: {levels}");
        }
        for (first, more) in [
            ("SELECT 1", ", a.b"),
            ("SELECT a IN (1", ", -2"),
            ("INSERT INTO t VALUES (1)", ", (1 + 1, 'a')"),
            ("SELECT 1", " /* no */ "),
        ] {
            let levels = levels_of(&chain(first, more, 500));
            assert!(levels < 20, "{more}: {levels}");
        }
        let both = chain(
            "SELECT 1 FROM t WHERE a = 1 AND b = 2",
            " OR a = 1 AND b = 2",
            500,
        );
        assert!(levels_of(&both) < 520, "the terms of a chain are no chain");
    }

    /// How deep a tree is, by its expressions and queries.
    #[derive(Default)]
    struct Depth {
        here: usize,
        most: usize,
    }

    impl Depth {
        fn down(&mut self) -> ControlFlow<()> {
            self.here += 1;
            self.most = self.most.max(self.here);
            ControlFlow::Continue(())
        }

        fn up(&mut self) -> ControlFlow<()> {
            self.here -= 1;
            ControlFlow::Continue(())
        }
    }

    impl Visitor for Depth {
        type Break = ();

        fn pre_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
            self.down()
        }

        fn post_visit_expr(&mut self, _: &Expr) -> ControlFlow<()> {
            self.up()
        }

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.down()
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            self.up()
        }
    }

    /// Sentences of a small grammar, which nest and chain whatever they can.
    struct Grammar(u64);

    impl Grammar {
        fn next(&mut self, below: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % below
        }

        fn expr(&mut self, fuel: usize) -> String {
            if fuel == 0 {
                return ["a", "t.end", "1", "'x'", "NULL"][self.next(5) as usize].to_owned();
            }
            let left = self.expr(fuel - 1);
            let less = self.next(fuel as u64) as usize;
            let right = self.expr(less);
            match self.next(18) {
                0..4 => format!("{left} OR {right}"),
                4..7 => format!("{left} AND {right}"),
                7 => format!("{left} + {right}"),
                8 => format!("({left})"),
                9 => format!("CASE WHEN {left} THEN {right} END"),
                10 => format!("CASE {right} WHEN 1 THEN {left} ELSE 2 END + 1"),
                11 => format!("d + INTERVAL {left} DAY"),
                12 => format!("f({right}, {left})"),
                13 => format!("{left} BETWEEN 1 AND 2"),
                14 => format!("{left} IN (1, {right})"),
                15 => format!("NOT {left} XOR {right}"),
                16 => format!("(SELECT {right}, {left} UNION SELECT 1, 2)"),
                _ => format!("{left} || {right} IS NULL"),
            }
        }
    }

    #[test]
    fn no_tree_is_deeper_than_its_tokens_say() {
        let mut parsed = 0;
        for seed in 1..2000 {
            let mut grammar = Grammar(u64::wrapping_mul(seed, 0x9E37_79B9_7F4A_7C15));
            let text = format!("SELECT {}", grammar.expr(2 + seed as usize % 10));
            let tokens = tokens(&text).expect("its tokens are known");
            assert!(!more_tokens(text.as_bytes(), text.len()));
            let most = (0..=tokens.len())
                .rev()
                .find(|max| more_tokens(text.as_bytes(), *max));
            assert!(most.is_some_and(|most| most + 1 >= tokens.len()), "{text}");
            let bound = levels(&tokens);
            let Ok(Ok(statements)) = parser(tokens).map(|mut it| it.parse_statements()) else {
                continue;
            };
            parsed += 1;
            let mut depth = Depth::default();
            let _ = statements.visit(&mut depth);
            assert!(
                depth.most <= bound + 2,
                "{} deep, {bound}: {text}",
                depth.most
            );
        }
        assert!(parsed > 500, "{parsed}");
    }

    #[test]
    fn the_memory_of_a_plan_is_bounded() {
        let size = size_of::<TokenWithSpan>() * 2 + size_of::<Expr>();
        assert!(size <= 2 * TOKEN_BYTES, "{size}");
        let many = format!("SELECT 1 IN (1{})", ",1".repeat(TOKENS_MAX));
        assert!(tokens(&many).is_err());
        let long = format!("SELECT '{}'", "a b;".repeat(TOKENS_MAX));
        assert!(tokens(&long).is_ok(), "a text in quotes is one token");
    }
}
