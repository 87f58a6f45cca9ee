//! Cuts a text into tokens as the servers' own lexers do, in one pass and without copies.
//!
//! Invariants: tokens never overlap, come in order, lie in the text and are never empty; every byte
//! between two tokens belongs to white space or to a comment that the server ignores. The position
//! only grows, so the time is linear in the length.

use crate::comment::{self, Comment};
use crate::lexer::byte::{self, Class};
use crate::lexer::keyword::{Ends, Kw, load8};
use crate::lexer::mode::{Mode, Multibyte};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword without quotes.
    Word,
    /// `` `name` ``, or `"name"` under ANSI_QUOTES.
    Quoted,
    /// A string with its quotes and its N prefix, a number, `0x1F`, `X'1F'`, `0b1`, `B'1'`.
    Literal,
    /// `?`
    Placeholder,
    /// `@name` in any quoting; after an account's name it is the host.
    UserVariable,
    /// `@@name`, `@@session.name`.
    SystemVariable,
    Open,
    Close,
    Comma,
    Dot,
    Semicolon,
    /// Any other character, and those of several characters: `:=`, `->>`, `||`.
    Operator,
    /// The end of the text: the one empty token.
    End,
}

#[derive(Clone, Copy)]
pub(crate) struct Token {
    pub kind: Kind,
    /// Nothing but a word that stands where a keyword may stand has one.
    pub kw: Kw,
    pub start: u32,
    pub end: u32,
    /// Of a word; zeros in other tokens.
    pub ends: Ends,
}

impl Token {
    #[inline]
    pub fn bytes<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        &text[self.start as usize..self.end as usize]
    }
}

/// Takes the tokens of a text one by one.
pub(crate) trait Visitor {
    /// Compiled into the lexer once for every common kind of token, which it knows there.
    fn see(&mut self, token: Token, past: &Past);
    /// The same for all other tokens.
    fn see_rare(&mut self, token: Token, past: &Past);
}

/// The tokens before the one at hand, as far as they matter.
#[derive(Clone, Copy)]
pub(crate) struct Past {
    pub kind: Kind,
    pub kw: Kw,
    /// Keyword of the token before that.
    pub before: Kw,
    /// Where it begins, if it is a name in quotes.
    start: u32,
    pub end: u32,
}

impl Past {
    /// Before the first token, which touches nothing.
    pub fn new() -> Past {
        Past {
            kind: Kind::End,
            kw: Kw::NONE,
            before: Kw::NONE,
            start: 0,
            end: u32::MAX,
        }
    }

    #[inline(always)]
    pub fn push(&mut self, token: &Token) {
        self.before = self.kw;
        self.kind = token.kind;
        self.kw = token.kw;
        self.end = token.end;
        if token.kind == Kind::Quoted {
            self.start = token.start;
        }
    }

    /// `token`, the one at hand, begins where the one before ended.
    #[inline(always)]
    pub fn touches(&self, token: &Token) -> bool {
        self.end == token.start
    }

    /// The token at hand is the first of its statement.
    #[inline(always)]
    pub fn starts_statement(&self) -> bool {
        matches!(self.kind, Kind::End | Kind::Semicolon)
    }

    /// The keyword that the name in quotes before the token at hand would be without them.
    #[cold]
    pub fn quoted_word(&self, text: &[u8]) -> Kw {
        match &text[self.start as usize..self.end as usize] {
            [_, name @ .., _] => Kw::find(name),
            _ => Kw::NONE,
        }
    }
}

pub(crate) struct Lexer<'a> {
    text: &'a [u8],
    mode: Mode,
    at: usize,
    past: Past,
    /// Inside an executable comment, whose `*/` is no token.
    executing: bool,
    /// A quote or comment that never ends, or a byte of which the charset would have to be known.
    doubtful: bool,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a [u8], mode: &Mode) -> Lexer<'a> {
        Lexer {
            text,
            mode: *mode,
            at: 0,
            past: Past::new(),
            executing: false,
            doubtful: false,
        }
    }

    /// How it reads.
    pub fn mode(&self) -> &Mode {
        &self.mode
    }

    /// The tokens of a text that is one statement, without its end; `None` for a text of several.
    pub(crate) fn statement(&mut self) -> Option<Vec<Token>> {
        let mut tokens = Vec::new();
        loop {
            let token = self.next();
            match token.kind {
                Kind::End => return Some(tokens),
                Kind::Semicolon => return (self.next().kind == Kind::End).then_some(tokens),
                _ => tokens.push(token),
            }
        }
    }

    /// True once something was met that the server may read in another way, or not at all.
    pub fn doubtful(&self) -> bool {
        self.doubtful
    }

    #[inline(always)]
    fn peek(&self, offset: usize) -> u8 {
        // NUL stands for the end: no rule here takes NUL for anything but a stray character.
        self.text.get(self.at + offset).copied().unwrap_or(0)
    }

    /// Shows all tokens to `visitor`, the end included. The same tokens as [`Lexer::next`] gives.
    #[inline(always)]
    pub fn run(&mut self, visitor: &mut impl Visitor) {
        while let Some(&(mut byte)) = self.text.get(self.at) {
            if byte == b' ' {
                // One space between two tokens is the rule.
                self.at += 1;
                byte = self.peek(0);
            }
            macro_rules! show {
                ($token:expr) => {{
                    let token = $token;
                    visitor.see(token, &self.past);
                    self.past.push(&token);
                }};
            }
            match byte::CLASS[byte as usize] {
                Class::Space => self.at += 1,
                Class::Word => show!(self.word()),
                Class::Digit => show!(self.digits()),
                Class::Open => show!(self.take(Kind::Open, 1)),
                Class::Close => show!(self.take(Kind::Close, 1)),
                Class::Comma => show!(self.take(Kind::Comma, 1)),
                Class::Equals => show!(self.take(Kind::Operator, 1)),
                Class::Question => show!(self.take(Kind::Placeholder, 1)),
                Class::Quote => show!(self.string(0)),
                _ => {
                    let token = self.find();
                    visitor.see_rare(token, &self.past);
                    self.past.push(&token);
                    if token.kind == Kind::End {
                        return;
                    }
                }
            }
        }
        let token = self.end();
        visitor.see_rare(token, &self.past);
    }

    /// The next token; the end again and again when there is none.
    pub fn next(&mut self) -> Token {
        let token = self.find();
        self.past.push(&token);
        token
    }

    fn find(&mut self) -> Token {
        loop {
            let Some(&byte) = self.text.get(self.at) else {
                return self.end();
            };
            match byte::CLASS[byte as usize] {
                Class::Space => self.at += 1,
                Class::Word => return self.word(),
                Class::Digit => return self.digits(),
                Class::Open => return self.take(Kind::Open, 1),
                Class::Close => return self.take(Kind::Close, 1),
                Class::Comma => return self.take(Kind::Comma, 1),
                Class::Equals => return self.take(Kind::Operator, 1),
                Class::Question => return self.take(Kind::Placeholder, 1),
                Class::Semicolon => return self.take(Kind::Semicolon, 1),
                Class::Dot => return self.dot(),
                Class::Quote => return self.string(0),
                Class::Prefix if self.peek(1) == b'\'' && !self.is_behind_dot() => {
                    return self.string(1);
                }
                Class::Prefix => return self.word(),
                Class::Rare => {
                    if let Some(token) = self.rare(byte) {
                        return token;
                    }
                }
            }
        }
    }

    /// Right behind a dot there is a name, whatever it looks like.
    #[inline(always)]
    fn is_behind_dot(&self) -> bool {
        self.past.kind == Kind::Dot && self.past.end as usize == self.at
    }

    /// Makes the token of the next `bytes` bytes and steps behind it.
    #[inline(always)]
    fn take(&mut self, kind: Kind, bytes: usize) -> Token {
        let start = self.at;
        self.at = (start + bytes).min(self.text.len());
        Token {
            kind,
            kw: Kw::NONE,
            start: start as u32,
            end: self.at as u32,
            ends: Ends::default(),
        }
    }

    fn end(&mut self) -> Token {
        if self.executing {
            self.doubtful = true;
        }
        self.take(Kind::End, 0)
    }

    #[inline(always)]
    fn word(&mut self) -> Token {
        let start = self.at;
        let (end, ends) = self.word_end(start);
        let named = self.is_behind_dot();
        let mut token = self.take(Kind::Word, end - start);
        token.ends = ends;
        token.kw = Kw::find_by_ends(ends, &self.text[start..end]);
        if token.kw != Kw::NONE {
            // Next to a dot there are names only; the few that matter as names stay.
            let before_dot = self.peek(0) == b'.' && byte::is_word(self.peek(1));
            let schema = token.kw.is_server_schema() || token.kw == Kw::HEDDLE;
            let keep =
                schema && before_dot || matches!(token.kw, Kw::NEXTVAL | Kw::CURRVAL) && named;
            if (named || before_dot) && !keep {
                token.kw = Kw::NONE;
            }
        }
        token
    }

    /// Where the word that begins at `start` ends, and its ends. Always behind `start`.
    #[inline(always)]
    fn word_end(&mut self, start: usize) -> (usize, Ends) {
        if self.mode.multibyte != Multibyte::None {
            let end = self.charset_word_end(start);
            return (end, Ends::of(&self.text[start..end]));
        }
        let (end, first) = byte::word_end(self.text, start);
        let last = if end - start > 8 {
            load8(self.text, end - 8)
        } else {
            0
        };
        (end, Ends { first, last })
    }

    #[cold]
    fn charset_word_end(&mut self, start: usize) -> usize {
        let mut end = start;
        while end < self.text.len() && byte::is_word(self.text[end]) {
            let bytes = self.mode.multibyte.char_bytes(self.text, end);
            let next = self.text.get(end + 1).copied().unwrap_or(0);
            match self.mode.multibyte {
                // A space in some charsets, a letter in others: what stands behind it could be a
                // keyword, so the word ends here.
                Multibyte::SingleByte | Multibyte::Unknown if self.text[end] == 0xA0 => {
                    self.doubtful |= self.mode.multibyte == Multibyte::Unknown;
                    return end + 1;
                }
                Multibyte::Unknown if self.text[end] >= 0x80 && byte::may_trail(next) => {
                    self.doubtful = true;
                }
                _ => {}
            }
            end += bytes;
        }
        end
    }

    /// A number, or a name that begins with digits.
    #[inline(always)]
    fn digits(&mut self) -> Token {
        if self.is_behind_dot() {
            return self.word();
        }
        if let Some(length) = byte::short_integer(self.text, self.at) {
            return self.take(Kind::Literal, length);
        }
        match byte::number(&self.text[self.at..]) {
            Some(length) => self.take(Kind::Literal, length),
            None => self.word(),
        }
    }

    fn dot(&mut self) -> Token {
        // Behind a name a dot is a dot, whatever follows; elsewhere `.5` is a number.
        let behind_name = self.past.kind == Kind::Word && self.past.end as usize == self.at;
        if !behind_name && self.peek(1).is_ascii_digit() {
            let length = byte::fraction(&self.text[self.at..]);
            return self.take(Kind::Literal, length);
        }
        self.take(Kind::Dot, 1)
    }

    /// A string whose quote stands `prefix` bytes ahead.
    fn string(&mut self, prefix: usize) -> Token {
        let length = prefix + self.quoted_bytes(self.at + prefix, !self.mode.no_backslash_escapes);
        self.take(Kind::Literal, length)
    }

    /// Bytes from the quote at `open` through the closing one; to the end when there is none.
    fn quoted_bytes(&mut self, open: usize, escapes: bool) -> usize {
        let quoted = byte::quoted(self.text, open, escapes, self.mode.multibyte);
        self.doubtful |= !quoted.closed || quoted.doubtful;
        quoted.end - open
    }

    /// Comments, names in quotes, variables, operators. None: only a comment was there.
    fn rare(&mut self, byte: u8) -> Option<Token> {
        let here = self.at;
        Some(match byte {
            b'"' if self.mode.ansi_quotes => {
                let length = self.quoted_bytes(here, false);
                self.take(Kind::Quoted, length)
            }
            b'"' => return Some(self.string(0)),
            b'`' => {
                let length = self.quoted_bytes(here, false);
                self.take(Kind::Quoted, length)
            }
            b'@' => self.variable(),
            b'/' | b'-' | b'#' | b'*' => {
                if self.skip_comment() {
                    return None;
                }
                self.operator()
            }
            _ => self.operator(),
        })
    }

    /// Steps over a comment, or over the marks of one whose content is executed.
    fn skip_comment(&mut self) -> bool {
        if self.executing && self.peek(0) == b'*' && self.peek(1) == b'/' {
            self.at += 2;
            self.executing = false;
            return true;
        }
        match comment::at(self.text, self.at, &self.mode) {
            Comment::No => return false,
            Comment::Ignored { end, sure } => {
                self.at = end;
                self.doubtful |= !sure;
            }
            Comment::Executed { body } => {
                self.at = body;
                self.executing = true;
            }
        }
        true
    }

    fn operator(&mut self) -> Token {
        if let Some(bytes) = self.signed_number() {
            return self.take(Kind::Literal, bytes);
        }
        let bytes = match (self.peek(0), self.peek(1), self.peek(2)) {
            (b'-', b'>', b'>') | (b'<', b'=', b'>') => 3,
            (b':', b'=', _)
            | (b'-', b'>', _)
            | (b'|', b'|', _)
            | (b'&', b'&', _)
            | (b'<' | b'>' | b'!', b'=', _)
            | (b'<', b'>' | b'<', _)
            | (b'>', b'>', _) => 2,
            _ => 1,
        };
        self.take(Kind::Operator, bytes)
    }

    /// Length of a number with a sign, where the sign can only be one: behind an operator, a comma,
    /// an opening parenthesis or a keyword that wants a value.
    fn signed_number(&self) -> Option<usize> {
        if !matches!(self.peek(0), b'-' | b'+') {
            return None;
        }
        let wanted = match (self.past.kind, self.past.kw) {
            (Kind::Operator | Kind::Open | Kind::Comma, _) => true,
            (Kind::Word, kw) => kw.wants_value(),
            _ => false,
        };
        let bytes = &self.text[self.at + 1..];
        match bytes {
            _ if !wanted => None,
            [b'.', digit, ..] if digit.is_ascii_digit() => Some(1 + byte::fraction(bytes)),
            [digit, ..] if digit.is_ascii_digit() => Some(1 + byte::number(bytes)?),
            _ => None,
        }
    }

    fn variable(&mut self) -> Token {
        let here = self.at;
        if self.peek(1) == b'@' {
            let end = self.system_variable_end(here + 2);
            return self.take(Kind::SystemVariable, end - here);
        }
        let name = here + 1;
        let length = match self.peek(1) {
            b'`' => self.quoted_bytes(name, false),
            b'"' if self.mode.ansi_quotes => self.quoted_bytes(name, false),
            b'\'' | b'"' => self.quoted_bytes(name, !self.mode.no_backslash_escapes),
            _ => {
                let mut end = name;
                while end < self.text.len()
                    && (byte::is_word(self.text[end]) || self.text[end] == b'.')
                {
                    end += 1;
                }
                end - name
            }
        };
        self.take(Kind::UserVariable, 1 + length)
    }

    /// Takes `session.name` as one. Where space or a comment stands around the dot, the scope alone
    /// is the token.
    fn system_variable_end(&mut self, start: usize) -> usize {
        let mut end = self.name_end(start);
        while self.text.get(end) == Some(&b'.') {
            let after = self.name_end(end + 1);
            if after == end + 1 {
                break;
            }
            end = after;
        }
        end
    }

    fn name_end(&mut self, start: usize) -> usize {
        match self.text.get(start) {
            Some(b'`') => start + self.quoted_bytes(start, false),
            Some(&byte) if byte::is_word(byte) => self.word_end(start).0,
            _ => start.min(self.text.len()),
        }
    }
}

#[cfg(test)]
#[path = "token_tests.rs"]
mod tests;
