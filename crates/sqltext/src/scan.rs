//! The one pass over a text that answers everything the hot path asks.

mod kept;

use crate::classify::facts::Facts;
use crate::classify::statement::Statement;
use crate::classify::{Class, Verb};
use crate::comment::hint::Hints;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Past, Token, Visitor};
use crate::scan::kept::{Answers, Front, KeptTexts};
use crate::shape::{Folder, Frame, Hash};

/// A part of a text, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: u32,
    /// Behind the last byte.
    pub end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Span {
        Span {
            start: start as u32,
            end: end as u32,
        }
    }

    /// The bytes of `text` that this names; none when it does not lie in `text`.
    pub fn of<'a>(&self, text: &'a [u8]) -> &'a [u8] {
        text.get(self.start as usize..self.end as usize)
            .unwrap_or(b"")
    }
}

/// What one text says. Kept and reused: reading allocates nothing once it is warm.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Of the first statement.
    pub verb: Verb,
    /// Of the whole text: [`Class::Read`] only if every statement surely reads. Statements of one
    /// class have that class; reads and writes together are a write; else it is [`Class::Other`].
    pub class: Class,
    /// Over all statements.
    pub facts: Facts,
    /// Equal for texts of one shape, and for no others; see the module `shape`. It holds within this process:
    /// people are told the [`crate::Digest`].
    pub shape: u128,
    /// Grows by one with every text that is read.
    pub number: u64,
    /// Tells which elements of lists the shape has dropped. Texts that are equal in this and in
    /// their shape have the same values in the same order; see [`crate::slots`].
    pub folds: u64,
    /// Statements that are not empty.
    pub statements: u32,
    pub placeholders: u32,
    pub hint: Hints,
    /// Strings with their quotes, numbers with their sign (where it can be no operator), hexadecimal
    /// and binary literals, in order. NULL, TRUE and FALSE are words.
    pub literals: Vec<Span>,
    /// Room for the shape's lists, empty between texts.
    frames: Vec<Frame<Hash>>,
    /// Room for the hints' normal form.
    hints: Vec<u8>,
    /// Texts whose copies with other values are not read again.
    kept: KeptTexts,
}

/// Room for this many literals is kept between texts; what a huge text took is given back.
const LITERALS_KEPT: usize = 4096;

impl Scan {
    pub fn new() -> Scan {
        Scan {
            literals: Vec::with_capacity(32),
            ..Scan::default()
        }
    }

    /// Reads `text` and replaces all answers. Any bytes will do. Time is linear in the length.
    pub fn read(&mut self, text: &[u8], mode: &Mode) {
        self.reset();
        self.hint.read(text);
        if !self.hint.is_empty() {
            return self.read_anew(text, mode);
        }
        let front = Front::of(text);
        if front.is_some_and(|front| self.recall(front, text, mode)) {
            return;
        }
        self.read_anew(text, mode);
        if let Some(front) = front {
            let answers = self.answers();
            self.kept.note(front, text, mode, &self.literals, answers);
        }
    }

    /// Answers for the copy of a kept text. False: it is none.
    #[inline]
    fn recall(&mut self, front: Front, text: &[u8], mode: &Mode) -> bool {
        let found = self.kept.find(front, text, mode, &mut self.literals);
        let Some(&answers) = found else {
            return false;
        };
        self.verb = answers.verb;
        self.class = answers.class;
        self.facts = answers.facts;
        self.shape = answers.shape;
        self.folds = answers.folds;
        self.statements = answers.statements;
        self.placeholders = answers.placeholders;
        true
    }

    fn answers(&self) -> Answers {
        Answers {
            verb: self.verb,
            class: self.class,
            facts: self.facts,
            shape: self.shape,
            folds: self.folds,
            statements: self.statements,
            placeholders: self.placeholders,
        }
    }

    /// Goes through the text, whose hints are read and for which the answers are blank.
    fn read_anew(&mut self, text: &[u8], mode: &Mode) {
        let mut hash = Hash::new();
        if !self.hint.is_empty() {
            self.mix_hints(text, &mut hash);
        }
        if text.len() >= u32::MAX as usize {
            // No packet is so long; positions could not name its end.
            self.facts = Facts::AMBIGUOUS;
            self.class = Class::Other;
            self.verb = Verb::Other;
            return;
        }
        let mut lexer = Lexer::new(text, mode);
        let folder = Folder::new(hash, std::mem::take(&mut self.frames));
        let mut pass = Pass {
            text,
            folder,
            statement: Statement::new(),
            scan: self,
        };
        lexer.run(&mut pass);
        let (shape, folds, frames) = pass.folder.finish();
        self.shape = shape;
        self.folds = folds;
        self.frames = frames;
        if lexer.doubtful() {
            self.facts |= Facts::AMBIGUOUS;
            if self.class == Class::Read {
                self.class = Class::Other;
            }
        }
    }

    fn reset(&mut self) {
        self.verb = Verb::Empty;
        self.class = Class::Empty;
        self.facts = Facts::empty();
        self.shape = 0;
        self.folds = 0;
        self.number += 1;
        self.statements = 0;
        self.placeholders = 0;
        self.literals.clear();
        if self.literals.capacity() > LITERALS_KEPT {
            self.literals.shrink_to(LITERALS_KEPT);
        }
    }

    #[cold]
    fn mix_hints(&mut self, text: &[u8], hash: &mut Hash) {
        self.hints.clear();
        self.hint.write(text, &mut self.hints);
        if !self.hints.is_empty() {
            hash.mix_text(&self.hints);
        }
    }

    /// Adds a finished statement to the answers.
    #[inline]
    fn add(&mut self, statement: &Statement) {
        if statement.is_empty() {
            return;
        }
        let (verb, class, facts) = statement.finish();
        self.facts |= facts;
        self.statements += 1;
        if self.statements == 1 {
            self.verb = verb;
            self.class = class;
            return;
        }
        self.facts |= Facts::MULTIPLE;
        self.class = match (self.class, class) {
            (a, b) if a == b => a,
            (Class::Read | Class::Write, Class::Read | Class::Write) => Class::Write,
            _ => Class::Other,
        };
    }
}

/// One reading of one text.
struct Pass<'a> {
    text: &'a [u8],
    folder: Folder<Hash>,
    statement: Statement,
    scan: &'a mut Scan,
}

impl Visitor for Pass<'_> {
    #[inline(always)]
    fn see(&mut self, token: Token, past: &Past) {
        self.folder.see(&token, past, self.text);
        match token.kind {
            Kind::End => {
                self.scan.add(&self.statement);
                return;
            }
            Kind::Semicolon if self.statement.has_body() => self.statement.go_on(),
            Kind::Semicolon => {
                self.scan.add(&self.statement);
                self.statement = Statement::new();
                return;
            }
            Kind::Literal => self.scan.literals.push(span(&token)),
            Kind::Placeholder => self.scan.placeholders += 1,
            _ => {}
        }
        self.statement.see(&token, past, self.text);
    }

    #[inline(never)]
    fn see_rare(&mut self, token: Token, past: &Past) {
        self.see(token, past);
    }
}

fn span(token: &Token) -> Span {
    Span {
        start: token.start,
        end: token.end,
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
