//! One statement as it passes: its first tokens, its facts, and where WITH leads.

use crate::classify::facts::{self, Facts, Watcher};
use crate::classify::{self, Class, Head, Verb};
use crate::lexer::keyword::Kw;
use crate::lexer::token::{Kind, Past, Token};

pub(crate) struct Statement {
    head: Head,
    watcher: Watcher,
    /// Open parentheses.
    depth: u32,
    /// The depth at which the statement's own words stand: SELECT may be in parentheses.
    own_depth: u32,
    /// What WITH leads to, once it is known.
    with: Kw,
    /// SET STATEMENT … FOR went before; `head` is that of the statement behind it.
    prefixed: bool,
    /// SET and WITH: more than the first words counts.
    reads_words: bool,
    any_tokens: bool,
}

impl Statement {
    pub fn new() -> Statement {
        Statement {
            head: Head::new(),
            watcher: Watcher::new(),
            depth: 0,
            own_depth: 0,
            with: Kw::NONE,
            prefixed: false,
            reads_words: false,
            any_tokens: false,
        }
    }

    pub fn is_empty(&self) -> bool {
        !self.any_tokens
    }

    /// A semicolon here ends nothing.
    pub fn has_body(&self) -> bool {
        self.head.has_body()
    }

    /// The rest of the text belongs to this statement.
    pub fn go_on(&mut self) {
        self.watcher.facts |= Facts::COMPOUND;
    }

    #[inline(always)]
    pub fn see(&mut self, token: &Token, past: &Past, text: &[u8]) {
        self.any_tokens = true;
        match token.kind {
            Kind::Word if self.reads_words => self.word(*token, past, text),
            Kind::Open => {
                // `) (` on the level of WITH: the list is over, a query in parentheses begins.
                if self.reads_words && self.seeks_with() && past.kind == Kind::Close {
                    self.with = Kw::SELECT;
                }
                self.depth += 1;
            }
            Kind::Close => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.head.count() == 0 && token.kind == Kind::Open {
            self.own_depth = self.depth;
        } else {
            if self.head.count() == 0 {
                if self.prefixed && token.kw == Kw::FOR {
                    // The FOR of SET STATEMENT belongs to neither statement.
                    return;
                }
                self.reads_words = matches!(token.kw, Kw::WITH | Kw::SET);
            }
            self.head.push(token);
        }
        self.watcher.see(token, past, text, &self.head);
    }

    #[inline]
    fn seeks_with(&self) -> bool {
        self.head.kw(0) == Kw::WITH && self.with == Kw::NONE && self.depth == self.own_depth
    }

    #[cold]
    fn word(&mut self, token: Token, past: &Past, text: &[u8]) {
        let token = &token;
        match self.head.kw(0) {
            Kw::WITH if self.seeks_with() => {
                let leads = matches!(
                    token.kw,
                    Kw::SELECT
                        | Kw::VALUES
                        | Kw::TABLE
                        | Kw::INSERT
                        | Kw::REPLACE
                        | Kw::UPDATE
                        | Kw::DELETE
                );
                if leads {
                    self.with = token.kw;
                }
            }
            Kw::SET => self.set_word(token, past, text),
            _ => {}
        }
    }

    fn set_word(&mut self, token: &Token, past: &Past, text: &[u8]) {
        let scope = matches!(token.kw, Kw::GLOBAL | Kw::PERSIST | Kw::PERSIST_ONLY);
        if scope && (past.kw == Kw::SET || past.kind == Kind::Comma) {
            self.watcher.facts |= Facts::GLOBAL_SETTING;
        }
        self.watcher.facts |= facts::setting(token.bytes(text));
        let statement_follows =
            token.kw == Kw::FOR && self.head.kw(1) == Kw::STATEMENT && self.depth == self.own_depth;
        if statement_follows {
            self.head = Head::new();
            self.prefixed = true;
        }
    }

    pub fn finish(&self) -> (Verb, Class, Facts) {
        let seen = self.watcher.facts;
        let (verb, class, more) = classify::classify(&self.head, seen, self.with);
        let mut facts = seen | more;
        facts.set(Facts::ACCOUNTS, self.head.changes_accounts());
        facts.set(Facts::DATABASE, self.head.changes_database());
        let query = matches!(verb, Verb::Select | Verb::Values | Verb::Table);
        if !query {
            // INSERT INTO, DROP PROCEDURE and their like.
            facts -= Facts::INTO | Facts::PROCEDURE_CLAUSE;
        }
        if !matches!(class, Class::Lock) {
            facts -= Facts::LOCK_TABLES;
        }
        if self.prefixed {
            let class = if class == Class::Read {
                Class::Other
            } else {
                class
            };
            return (Verb::SetStatement, class, facts);
        }
        (verb, class, facts)
    }
}
