//! What a statement makes or ends on its connection, by name: temporary tables, handlers, statements
//! prepared as text, user locks.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::session_state::user_variable::{Literal, literal_token};

/// One thing that a statement does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tie {
    /// CREATE TEMPORARY TABLE. Names of tables are as they are written, without quotes.
    MakesTable(Vec<u8>),
    /// DROP TABLE.
    DropsTables(Vec<Vec<u8>>),
    OpensHandler(Vec<u8>),
    ClosesHandler(Vec<u8>),
    /// PREPARE; the text when it is spelt out.
    Prepares(Vec<u8>, Option<Vec<u8>>),
    Executes(Vec<u8>),
    Deallocates(Vec<u8>),
    /// GET_LOCK of these names; empty when only other functions of locks are called. Names in lower
    /// case.
    Locks(Vec<Vec<u8>>),
    ReleasesAllLocks,
    /// XA COMMIT and XA ROLLBACK.
    EndsXa,
}

/// Reads one statement. `None` when it cannot be told what it does.
pub fn tie(text: &[u8], mode: &Mode) -> Option<Tie> {
    let mut lexer = Lexer::new(text, mode);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind == Kind::End {
            break;
        }
        tokens.push(token);
    }
    if tokens
        .last()
        .is_some_and(|last| last.kind == Kind::Semicolon)
    {
        tokens.pop();
    }
    let tokens = &tokens;
    let reader = Reader { text, tokens };
    match reader.kw(0) {
        Kw::CREATE => reader.makes_table(),
        Kw::DROP if reader.kw(1) == Kw::PREPARE => Some(Tie::Deallocates(reader.last_name(2)?)),
        Kw::DROP => reader.drops_tables(),
        Kw::DEALLOCATE => Some(Tie::Deallocates(reader.last_name(2)?)),
        Kw::PREPARE => reader.prepares(),
        Kw::EXECUTE if reader.kw(1) == Kw::IMMEDIATE => None,
        Kw::EXECUTE => Some(Tie::Executes(reader.name(1)?.to_ascii_lowercase())),
        Kw::HANDLER => reader.handler(),
        Kw::XA => {
            let ends = ["commit", "rollback"];
            let word = String::from_utf8_lossy(reader.bytes(1)).to_ascii_lowercase();
            ends.contains(&&*word).then_some(Tie::EndsXa)
        }
        _ => reader.locks(),
    }
}

struct Reader<'a> {
    text: &'a [u8],
    tokens: &'a [Token],
}

impl Reader<'_> {
    fn kw(&self, at: usize) -> Kw {
        self.tokens.get(at).map_or(Kw::NONE, |token| token.kw)
    }

    fn kind(&self, at: usize) -> Kind {
        self.tokens.get(at).map_or(Kind::End, |token| token.kind)
    }

    fn bytes(&self, at: usize) -> &[u8] {
        self.tokens
            .get(at)
            .map_or(b"", |token| token.bytes(self.text))
    }

    fn is_word(&self, at: usize, word: &str) -> bool {
        self.bytes(at).eq_ignore_ascii_case(word.as_bytes())
    }

    /// A name without its quotes.
    fn name(&self, at: usize) -> Option<Vec<u8>> {
        match (self.kind(at), self.bytes(at)) {
            (Kind::Word, name) => Some(name.to_vec()),
            (Kind::Quoted, [_, name @ .., _]) if !name.contains(&b'`') => Some(name.to_vec()),
            _ => None,
        }
    }

    /// The name there, in lower case, as the last token.
    fn last_name(&self, at: usize) -> Option<Vec<u8>> {
        let name = self.name(at)?.to_ascii_lowercase();
        (at + 1 == self.tokens.len()).then_some(name)
    }

    /// `name` or `database.name`, and how many tokens it has.
    fn table(&self, at: usize) -> Option<(Vec<u8>, usize)> {
        let mut name = self.name(at)?;
        if self.kind(at + 1) != Kind::Dot {
            return Some((name, 1));
        }
        name.push(b'.');
        name.extend(self.name(at + 2)?);
        Some((name, 3))
    }

    fn makes_table(&self) -> Option<Tie> {
        let mut at = if self.kw(1) == Kw::OR { 3 } else { 1 };
        if self.kw(at) != Kw::TEMPORARY || self.kw(at + 1) != Kw::TABLE {
            return None;
        }
        at += 2;
        if self.kw(at) == Kw::IF {
            at += 3;
        }
        Some(Tie::MakesTable(self.table(at)?.0))
    }

    fn drops_tables(&self) -> Option<Tie> {
        let mut at = if self.kw(1) == Kw::TEMPORARY { 2 } else { 1 };
        if !matches!(self.kw(at), Kw::TABLE | Kw::TABLES) {
            return None;
        }
        at += 1;
        if self.kw(at) == Kw::IF {
            at += 2;
        }
        let mut names = Vec::new();
        loop {
            let (name, tokens) = self.table(at)?;
            names.push(name);
            at += tokens;
            if self.kind(at) != Kind::Comma {
                return Some(Tie::DropsTables(names));
            }
            at += 1;
        }
    }

    fn prepares(&self) -> Option<Tie> {
        let name = self.name(1)?.to_ascii_lowercase();
        let text = (self.tokens.len() == 4)
            .then(|| literal_token(self.bytes(3), self.kind(3)))
            .flatten();
        let text = match text {
            Some(Literal::Text(text)) => Some(text.to_vec()),
            _ => None,
        };
        Some(Tie::Prepares(name, text))
    }

    fn handler(&self) -> Option<Tie> {
        let (table, tokens) = self.table(1)?;
        let alone = |name: Vec<u8>| match name.iter().position(|byte| *byte == b'.') {
            Some(dot) => name[dot + 1..].to_ascii_lowercase(),
            None => name.to_ascii_lowercase(),
        };
        let verb = 1 + tokens;
        if self.is_word(verb, "open") {
            let alias = match self.tokens.len() - verb {
                1 => alone(table),
                2 => self.name(verb + 1)?.to_ascii_lowercase(),
                3 => self.name(verb + 2)?.to_ascii_lowercase(),
                _ => return None,
            };
            return Some(Tie::OpensHandler(alias));
        }
        self.is_word(verb, "close")
            .then(|| Tie::ClosesHandler(alone(table)))
    }

    fn locks(&self) -> Option<Tie> {
        let mut names = Vec::new();
        for at in 0..self.tokens.len() {
            if self.kind(at) == Kind::Quoted && self.kind(at + 1) == Kind::Open {
                // A function in quotes.
                return None;
            }
            match self.kw(at) {
                Kw::RELEASE_ALL_LOCKS if self.tokens.len() == 4 => {
                    return Some(Tie::ReleasesAllLocks);
                }
                Kw::SERVICE_GET_READ_LOCKS | Kw::SERVICE_GET_WRITE_LOCKS => return None,
                Kw::GET_LOCK => match literal_token(self.bytes(at + 2), self.kind(at + 2)) {
                    Some(Literal::Text(name)) if self.kind(at + 3) == Kind::Comma => {
                        names.push(name.to_ascii_lowercase());
                    }
                    _ => return None,
                },
                _ => {}
            }
        }
        Some(Tie::Locks(names))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    #[test]
    fn what_is_made_and_what_is_ended() {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        let read = |text: &str| tie(text.as_bytes(), &mode);
        let name = |name: &str| name.as_bytes().to_vec();
        let cases = [
            (
                "CREATE TEMPORARY TABLE a (b INT)",
                Tie::MakesTable(name("a")),
            ),
            (
                "create or replace temporary table if not exists `d`.`A` like x",
                Tie::MakesTable(name("d.A")),
            ),
            (
                "DROP TEMPORARY TABLE IF EXISTS a, d.b;",
                Tie::DropsTables(vec![name("a"), name("d.b")]),
            ),
            ("DROP TABLE a", Tie::DropsTables(vec![name("a")])),
            ("HANDLER d.T OPEN", Tie::OpensHandler(name("t"))),
            ("HANDLER t OPEN AS h", Tie::OpensHandler(name("h"))),
            ("HANDLER t OPEN H", Tie::OpensHandler(name("h"))),
            ("HANDLER h CLOSE", Tie::ClosesHandler(name("h"))),
            (
                "PREPARE S FROM 'SELECT 1'",
                Tie::Prepares(name("s"), Some(name("SELECT 1"))),
            ),
            ("PREPARE s FROM @a", Tie::Prepares(name("s"), None)),
            ("EXECUTE s USING @a", Tie::Executes(name("s"))),
            ("DEALLOCATE PREPARE s", Tie::Deallocates(name("s"))),
            ("DROP PREPARE s", Tie::Deallocates(name("s"))),
            (
                "SELECT GET_LOCK('A', 1), GET_LOCK('b', 0)",
                Tie::Locks(vec![name("a"), name("b")]),
            ),
            ("SELECT IS_FREE_LOCK('a')", Tie::Locks(vec![])),
            ("DO RELEASE_ALL_LOCKS()", Tie::ReleasesAllLocks),
            ("XA COMMIT 'a'", Tie::EndsXa),
        ];
        for (text, wanted) in cases {
            assert_eq!(read(text), Some(wanted), "{text}");
        }
        for text in [
            "CREATE TABLE a (b INT)",
            "SELECT GET_LOCK(@a, 1)",
            "SELECT GET_LOCK('a' 'b', 1)",
            "EXECUTE IMMEDIATE 'x'",
            "XA START 'a'",
            "HANDLER t READ FIRST",
            "SELECT `get_lock`('a', 1)",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
