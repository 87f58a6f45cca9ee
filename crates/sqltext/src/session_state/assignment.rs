//! The items of a SET statement.

use std::borrow::Cow;

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;

/// What an assignment is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// No scope was written: the session's variable, or a routine's own.
    Default,
    /// SESSION, LOCAL, `@@x`, `@@session.x`, `@@local.x`.
    Session,
    Global,
    Persist,
    PersistOnly,
    /// `@x`
    User,
    /// SET NAMES: `name` is `names`, `value` may go on with COLLATE.
    Names,
    /// SET CHARACTER SET and SET CHARSET: `name` is `charset`.
    Charset,
    /// SET STATEMENT … FOR: for one statement only.
    Statement,
}

/// `name = value`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment<'a> {
    pub scope: Scope,
    /// In lower case, without quotes and scope: `sql_mode`, `hot_cache.key_buffer_size`.
    pub name: Cow<'a, str>,
    /// The expression, without the white space and comments around it. Not empty.
    pub value: Span,
}

/// The assignments of the first statement of `text`, in order; none when it is no SET, or one of the
/// forms that assign nothing (SET TRANSACTION, SET PASSWORD, SET ROLE). An item that cannot be read
/// ends the list: the server will refuse the whole statement.
pub fn assignments<'a>(text: &'a [u8], mode: &Mode) -> Assignments<'a> {
    let mut lexer = Lexer::new(text, mode);
    let mut token = lexer.next();
    let mut scope = Scope::Default;
    let is_set = token.kw == Kw::SET;
    if is_set {
        token = lexer.next();
        if token.kw == Kw::STATEMENT {
            token = lexer.next();
            scope = Scope::Statement;
        }
    }
    Assignments {
        text,
        lexer,
        token,
        scope,
        done: !is_set,
    }
}

/// See [`assignments`].
pub struct Assignments<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    /// The first token that is not used up.
    token: Token,
    /// What SET STATEMENT, or the scope written last, gives to names without a scope.
    scope: Scope,
    done: bool,
}

impl<'a> Iterator for Assignments<'a> {
    type Item = Assignment<'a>;

    fn next(&mut self) -> Option<Assignment<'a>> {
        if self.done {
            return None;
        }
        let item = self.item();
        self.done = item.is_none() || self.token.kind != Kind::Comma;
        if !self.done {
            self.step();
        }
        item
    }
}

impl<'a> Assignments<'a> {
    fn step(&mut self) -> Token {
        std::mem::replace(&mut self.token, self.lexer.next())
    }

    fn item(&mut self) -> Option<Assignment<'a>> {
        let first = self.step();
        match (first.kind, first.kw) {
            (Kind::UserVariable, _) => {
                let name = name_of(&first.bytes(self.text)[1..]);
                self.assigned(Scope::User, name)
            }
            (Kind::SystemVariable, _) => self.system(&first),
            (Kind::Word, Kw::NAMES) if !self.is_assigned() => {
                self.valued(Scope::Names, Cow::Borrowed("names"))
            }
            (Kind::Word, Kw::CHARSET) if !self.is_assigned() => {
                self.valued(Scope::Charset, Cow::Borrowed("charset"))
            }
            (Kind::Word, Kw::CHARACTER | Kw::CHAR) if self.token.kw == Kw::SET => {
                self.step();
                self.valued(Scope::Charset, Cow::Borrowed("charset"))
            }
            (Kind::Word, Kw::PASSWORD | Kw::ROLE | Kw::TRANSACTION | Kw::DEFAULT)
                if !self.is_assigned() || first.kw == Kw::PASSWORD =>
            {
                None
            }
            (Kind::Word, kw) if scope_of(kw).is_some() && !self.is_assigned() => {
                self.scope = scope_of(kw)?;
                let name = self.step();
                self.named(&name)
            }
            _ => self.named(&first),
        }
    }

    /// `name` or `instance.name`, then the value.
    fn named(&mut self, first: &Token) -> Option<Assignment<'a>> {
        if !matches!(first.kind, Kind::Word | Kind::Quoted) {
            return None;
        }
        let mut name = name_of(first.bytes(self.text));
        while self.token.kind == Kind::Dot {
            self.step();
            let part = self.step();
            name = Cow::Owned(format!("{name}.{}", name_of(part.bytes(self.text))));
        }
        self.assigned(self.scope, name)
    }

    /// `@@scope.name`
    fn system(&mut self, token: &Token) -> Option<Assignment<'a>> {
        let bytes: &'a [u8] = &token.bytes(self.text)[2..];
        let mut parts: Vec<&[u8]> = bytes.split(|byte| *byte == b'.').collect();
        while self.token.kind == Kind::Dot {
            self.step();
            let part = self.step();
            parts.push(part.bytes(self.text));
        }
        let mut scope = Scope::Session;
        if parts.len() > 1
            && let Some(written) = scope_of(Kw::find(parts[0]))
        {
            scope = written;
            parts.remove(0);
        }
        let names: Vec<_> = parts.iter().map(|part| name_of(part)).collect();
        self.assigned(scope, Cow::Owned(names.join(".")))
    }

    fn is_assigned(&self) -> bool {
        self.token.kind == Kind::Operator && matches!(self.token.bytes(self.text), b"=" | b":=")
    }

    fn assigned(&mut self, scope: Scope, name: Cow<'a, str>) -> Option<Assignment<'a>> {
        if !self.is_assigned() {
            return None;
        }
        self.step();
        self.valued(scope, name)
    }

    /// Takes everything up to the comma, FOR of SET STATEMENT, or the end.
    fn valued(&mut self, scope: Scope, name: Cow<'a, str>) -> Option<Assignment<'a>> {
        let mut value = Span {
            start: self.token.start,
            end: self.token.start,
        };
        let mut depth = 0u32;
        loop {
            let statement_follows = scope == Scope::Statement && self.token.kw == Kw::FOR;
            match self.token.kind {
                Kind::End | Kind::Semicolon => break,
                Kind::Comma if depth == 0 => break,
                Kind::Word if depth == 0 && statement_follows => break,
                Kind::Open => depth += 1,
                Kind::Close => depth = depth.saturating_sub(1),
                _ => {}
            }
            value.end = self.step().end;
        }
        (value.end > value.start).then_some(Assignment { scope, name, value })
    }
}

fn scope_of(kw: Kw) -> Option<Scope> {
    Some(match kw {
        Kw::SESSION | Kw::LOCAL => Scope::Session,
        Kw::GLOBAL => Scope::Global,
        Kw::PERSIST => Scope::Persist,
        Kw::PERSIST_ONLY => Scope::PersistOnly,
        _ => return None,
    })
}

/// A name without its quotes, in lower case.
fn name_of(bytes: &[u8]) -> Cow<'_, str> {
    let inner = match bytes {
        [b'`', inner @ .., b'`'] | [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        _ => bytes,
    };
    let name = String::from_utf8_lossy(inner);
    if name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        Cow::Owned(name.to_ascii_lowercase())
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn read(text: &str) -> Vec<String> {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        assignments(text.as_bytes(), &mode)
            .map(|item| {
                let value = str::from_utf8(item.value.of(text.as_bytes())).unwrap();
                format!("{:?} {} {value}", item.scope, item.name)
            })
            .collect()
    }

    #[test]
    fn every_way_to_name_a_variable() {
        assert_eq!(read("SET Autocommit=0"), ["Default autocommit 0"]);
        assert_eq!(
            read("set session sql_mode := 'a,b'"),
            ["Session sql_mode 'a,b'"]
        );
        assert_eq!(read("SET LOCAL x = 1"), ["Session x 1"]);
        assert_eq!(
            read("SET @@x = 1, @@session.y = 2"),
            ["Session x 1", "Session y 2"]
        );
        assert_eq!(read("SET @@GLOBAL . x = 1"), ["Global x 1"]);
        assert_eq!(read("SET PERSIST x = 1"), ["Persist x 1"]);
        assert_eq!(read("SET @@persist_only.`X` = 1"), ["PersistOnly x 1"]);
        assert_eq!(
            read("SET @a = 1, @'B c' := @a+1"),
            ["User a 1", "User b c @a+1"]
        );
        assert_eq!(
            read("SET GLOBAL hot.key_buffer_size=8"),
            ["Global hot.key_buffer_size 8"]
        );
        assert_eq!(
            read("SET @@hot.key_buffer_size=8"),
            ["Session hot.key_buffer_size 8"]
        );
        assert_eq!(read("SET names = 1"), ["Default names 1"]);
    }

    #[test]
    fn values_end_at_their_own_comma() {
        assert_eq!(
            read("SET a = f(1, 2), b = (SELECT 1) /* c */ , c = 'x, y' ; SELECT 1"),
            [
                "Default a f(1, 2)",
                "Default b (SELECT 1)",
                "Default c 'x, y'"
            ]
        );
    }

    #[test]
    fn a_scope_holds_for_the_names_behind_it() {
        assert_eq!(read("SET SESSION a=1, b=2"), ["Session a 1", "Session b 2"]);
        assert_eq!(
            read("SET GLOBAL a=1, SESSION b=2, c=3"),
            ["Global a 1", "Session b 2", "Session c 3"]
        );
    }

    #[test]
    fn charsets_and_the_statement_form() {
        assert_eq!(
            read("SET NAMES 'utf8mb4' COLLATE x, a=1"),
            ["Names names 'utf8mb4' COLLATE x", "Default a 1"]
        );
        assert_eq!(read("SET CHARACTER SET utf8"), ["Charset charset utf8"]);
        assert_eq!(read("SET CHARSET DEFAULT"), ["Charset charset DEFAULT"]);
        assert_eq!(
            read("SET STATEMENT a=1, b=2 FOR SELECT 1, 2"),
            ["Statement a 1", "Statement b 2"]
        );
    }

    #[test]
    fn other_statements_assign_nothing() {
        for text in [
            "SELECT 1",
            "",
            "SET",
            "SET a",
            "SET a =",
            "SET TRANSACTION READ ONLY",
            "SET SESSION TRANSACTION READ ONLY",
            "SET PASSWORD = 'x'",
            "SET ROLE r",
            "SET DEFAULT ROLE r TO u",
            "UPDATE t SET a=1",
        ] {
            assert!(read(text).is_empty(), "{text}");
        }
    }
}
