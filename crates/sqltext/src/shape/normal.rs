//! The normal form of a text, for people: slow logs, statistics, EXPLAIN.

use crate::comment::hint::Hints;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Past, Token};
use crate::shape::{Folder, Sink, is_folded, is_joined};

/// Writes the normal form of `text` to `out`, which is cleared first. Texts with equal normal forms
/// have equal shapes and digests, and a normal form is its own normal form. Bytes that are no UTF-8 are replaced.
pub fn normalise(text: &[u8], mode: &Mode, out: &mut String) {
    let mut hints = Hints::default();
    hints.read(text);
    let mut writer = Writer {
        out: Vec::with_capacity(text.len()),
    };
    hints.write(text, &mut writer.out);
    let mut folder = Folder::new(writer, Vec::new());
    let mut lexer = Lexer::new(text, mode);
    let mut past = Past::new();
    loop {
        let token = lexer.next();
        folder.see(&token, &past, text);
        past.push(&token);
        if token.kind == Kind::End {
            break;
        }
    }
    out.clear();
    out.push_str(&String::from_utf8_lossy(&folder.sink.out));
}

/// In a text that carries a password or a key one of these is found, in any case.
const SECRETS: [&[u8]; 10] = [
    b"passw",
    b"pwd",
    b"identified",
    b"secret",
    b"crypt",
    b"credential",
    b"token",
    b"authentication",
    b"private_key",
    b"api_key",
];

/// True unless a text surely carries no password, so that its literals may be shown. Errs to the safe side: a
/// column that is called so is enough.
pub fn may_hold_secret(text: &[u8]) -> bool {
    let has = |word: &&[u8]| {
        let mut places = text.windows(word.len());
        places.any(|place| place.eq_ignore_ascii_case(word))
    };
    SECRETS.iter().any(has)
}

struct Writer {
    out: Vec<u8>,
}

impl Writer {
    fn space(&mut self, token: &Token, past: &Past) {
        let tight = match (past.kind, token.kind) {
            // Where a dot touches nothing it must go on touching nothing.
            (Kind::Dot, _) | (_, Kind::Dot) => false,
            (Kind::Open, _) => true,
            (_, Kind::Comma | Kind::Close | Kind::Semicolon) => true,
            _ => false,
        };
        let begins = self.out.is_empty();
        if !begins && !tight && !is_joined(past, token) {
            self.out.push(b' ');
        }
    }
}

impl Sink for Writer {
    type Mark = usize;
    /// Start and end in `out`, without a leading space.
    type Element = (usize, usize);

    fn keep_element(&mut self, _element: Self::Element) {}

    fn drop_element(&mut self, _list: u32, _element: u32) {}

    fn put(&mut self, token: &Token, past: &Past, text: &[u8]) {
        if token.kind == Kind::End {
            return;
        }
        self.space(token, past);
        match token.kind {
            Kind::Word if is_folded(past, token) => {
                self.out.extend_from_slice(token.kw.text().as_bytes());
            }
            Kind::Literal | Kind::Placeholder => self.out.push(b'?'),
            _ => self.out.extend_from_slice(token.bytes(text)),
        }
    }

    fn mark(&self) -> Self::Mark {
        self.out.len()
    }

    fn rewind(&mut self, mark: Self::Mark) {
        self.out.truncate(mark);
    }

    fn open_element(&mut self) -> Self::Mark {
        self.mark()
    }

    fn close_element(
        &mut self,
        start: Self::Mark,
        before: Option<(usize, usize)>,
    ) -> ((usize, usize), bool) {
        let mut from = start;
        if self.out.get(from) == Some(&b' ') {
            from += 1;
        }
        let element = (from, self.out.len());
        let same = before.is_some_and(|(a, b)| self.out[a..b] == self.out[from..]);
        (element, same)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_with_passwords_are_told() {
        for text in [
            "CREATE USER a IDENTIFIED BY 'x'",
            "set password = 'x'",
            "CHANGE MASTER TO MASTER_PASSWORD='x'",
            "UPDATE users SET passwd = 'x'",
            "SELECT AES_ENCRYPT('x', 'y')",
            "INSERT INTO t (Api_Key) VALUES ('x')",
        ] {
            assert!(may_hold_secret(text.as_bytes()), "{text}");
        }
        assert!(!may_hold_secret(b"SELECT name FROM users WHERE id = 5"));
        assert!(!may_hold_secret(b""));
    }
}
