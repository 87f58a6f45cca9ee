//! Texts that were read lately, for those that differ from them in the values of literals only: these are not read again.
//!
//! Job: find the kept text of which another one is a copy but for digits in the place of digits, and a plain string in
//! the place of one; say where its literals are.
//!
//! Invariants: such a copy has the tokens of the kept text, so everything that a scan says of one holds for the other,
//! but for the places of literals. The lexer goes forward, and which digits or letters a literal has decides nothing,
//! with one exception: the version of an executable comment. A text in which a comment of this kind could begin is not
//! kept, and neither is one with hints or doubts. Nobody can choose what another client's text is taken for: all bytes
//! outside of literals are compared.
//!
//! Must not know: what the answers mean.

use crate::classify::facts::Facts;
use crate::classify::{Class, Verb};
use crate::lexer::byte::{self, LiteralStarts};
use crate::lexer::keyword::load_padded;
use crate::lexer::mode::Mode;
use crate::scan::Span;

/// Longer texts are read each time.
const TEXT_BYTES_MAX: usize = 512;

/// Texts with more literals are read each time.
const LITERALS_MAX: usize = 32;

/// Places are numbered by so many bits.
const PLACE_BITS: u32 = 6;

/// Texts of one place.
const TEXTS_OF_PLACE: usize = 2;

/// What a scan says of a text beside its literals.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answers {
    pub verb: Verb,
    pub class: Class,
    pub facts: Facts,
    pub shape: u128,
    pub folds: u64,
    pub statements: u32,
    pub placeholders: u32,
}

/// What may stand in a literal's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    /// One digit or more.
    Digits,
    /// A string in single quotes without quotes, escapes and bytes beyond ASCII.
    PlainString,
    /// The same bytes.
    Same,
}

impl Filling {
    fn of(literal: &[u8]) -> Filling {
        let plain = |byte: &u8| byte.is_ascii() && !matches!(byte, b'\'' | b'\\');
        match literal {
            [b'\'', inner @ .., b'\''] if inner.iter().all(plain) => Filling::PlainString,
            _ if literal.iter().all(u8::is_ascii_digit) => Filling::Digits,
            _ => Filling::Same,
        }
    }
}

#[derive(Clone, Debug)]
struct Text {
    front: Front,
    mode: Mode,
    bytes: Box<[u8]>,
    literals: Box<[(Span, Filling)]>,
    answers: Answers,
}

impl Text {
    /// Puts the literals of `text` into `literals`. False: it is no copy of this one.
    fn match_copy(&self, text: &[u8], literals: &mut Vec<Span>) -> bool {
        let (mut at, mut from) = (0, 0);
        for (span, filling) in &self.literals {
            let same = &self.bytes[from..span.start as usize];
            if !text[at..].starts_with(same) {
                return false;
            }
            let start = at + same.len();
            let end = match filling {
                Filling::Digits => Some(byte::digits(text, start)).filter(|end| *end > start),
                Filling::PlainString => byte::plain_string(text, start),
                Filling::Same => {
                    let same = span.of(&self.bytes);
                    text[start..]
                        .starts_with(same)
                        .then_some(start + same.len())
                }
            };
            let Some(end) = end else {
                return false;
            };
            literals.push(Span::new(start, end));
            (at, from) = (end, span.end as usize);
        }
        text[at..] == self.bytes[from..]
    }
}

/// The bytes of a text before its first literal, as a number. Different texts may have the same one: it says where to
/// look, and no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Front(u64);

impl Front {
    /// `None` for a text that is not kept in any case.
    pub fn of(text: &[u8]) -> Option<Front> {
        if text.len() > TEXT_BYTES_MAX {
            return None;
        }
        let (mut front, mut starts) = (0u64, LiteralStarts::default());
        for at in (0..text.len()).step_by(8) {
            let chunk = load_padded(text, at);
            let before = starts.bytes_before(chunk);
            let part = match before {
                8 => chunk,
                _ => chunk & ((1 << (8 * before)) - 1),
            };
            front = (front.rotate_left(29) ^ part).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            if before < 8 {
                break;
            }
        }
        Some(Front(front))
    }

    fn place(self) -> usize {
        (self.0 >> (u64::BITS - PLACE_BITS)) as usize
    }
}

#[derive(Clone, Debug, Default)]
struct Place {
    /// The one kept last stands first.
    texts: [Option<Box<Text>>; TEXTS_OF_PLACE],
    /// The front that was looked for in vain last. A text is kept when its front comes a second time, so that texts
    /// which never come again are not kept in the place of others.
    missed: Front,
}

/// The texts, by their fronts.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptTexts {
    /// Empty until the first text is missed.
    places: Box<[Place]>,
}

impl KeptTexts {
    /// The answers to a text that is a copy of a kept one; `literals`, which are empty, get its own.
    pub fn find(
        &self,
        front: Front,
        text: &[u8],
        mode: &Mode,
        literals: &mut Vec<Span>,
    ) -> Option<&Answers> {
        let place = self.places.get(front.place())?;
        let kept = place.texts.iter().flatten();
        for kept in kept.filter(|kept| kept.front == front && kept.mode == *mode) {
            if kept.match_copy(text, literals) {
                return Some(&kept.answers);
            }
            literals.clear();
        }
        None
    }

    /// A text was read that was not found: it is kept, if it may be and its front is not new.
    #[inline(never)]
    pub fn note(
        &mut self,
        front: Front,
        text: &[u8],
        mode: &Mode,
        literals: &[Span],
        answers: Answers,
    ) {
        if self.places.is_empty() {
            self.places = vec![Place::default(); 1 << PLACE_BITS].into();
        }
        let place = &mut self.places[front.place()];
        if std::mem::replace(&mut place.missed, front) != front
            || literals.len() > LITERALS_MAX
            || answers.facts.contains(Facts::AMBIGUOUS)
            || text.windows(2).any(|pair| pair == b"/*")
        {
            return;
        }
        let literals = literals
            .iter()
            .map(|span| (*span, Filling::of(span.of(text))));
        let kept = Text {
            front,
            mode: *mode,
            bytes: text.into(),
            literals: literals.collect(),
            answers,
        };
        place.texts.rotate_right(1);
        place.texts[0] = Some(Box::new(kept));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scan;
    use crate::lexer::mode::Dialect;

    const MODE: Mode = Mode::new(Dialect::MariaDb, 101_106);

    fn keeps(text: &str) -> Scan {
        let mut scan = Scan::new();
        scan.read(text.as_bytes(), &MODE);
        scan.read(text.as_bytes(), &MODE);
        scan
    }

    /// Whether the second text is taken for a copy of the first, which was read twice. In any case it is read as it
    /// would be without that.
    fn is_copy(kept: &str, text: &str) -> bool {
        let mut scan = keeps(kept);
        let mut literals = Vec::new();
        let front = Front::of(text.as_bytes()).expect("it is short");
        let copy = scan
            .kept
            .find(front, text.as_bytes(), &MODE, &mut literals)
            .is_some();
        scan.read(text.as_bytes(), &MODE);
        let mut fresh = Scan::new();
        fresh.read(text.as_bytes(), &MODE);
        let said = |scan: &Scan| {
            let Scan {
                verb,
                class,
                facts,
                shape,
                ..
            } = *scan;
            (verb, class, facts, shape, scan.folds, scan.literals.clone())
        };
        assert_eq!(said(&scan), said(&fresh), "{text}");
        copy
    }

    #[test]
    fn other_values_make_a_copy() {
        for (kept, text) in [
            (
                "SELECT c FROM t WHERE id=5",
                "SELECT c FROM t WHERE id=123456789",
            ),
            (
                "UPDATE t SET k=k+1 WHERE id=5",
                "UPDATE t SET k=k+22 WHERE id=0",
            ),
            (
                "UPDATE t SET c='ab' WHERE id=5",
                "UPDATE t SET c='' WHERE id=77",
            ),
            (
                "SELECT 'a', -5, 1.5, \"x\", 3",
                "SELECT 'it is /* 5 */', -5, 1.5, \"x\", 12",
            ),
            (
                "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
                "INSERT INTO t VALUES (3, 'c'), (44, '')",
            ),
            ("COMMIT", "COMMIT"),
        ] {
            assert!(is_copy(kept, text), "{text}");
        }
    }

    #[test]
    fn what_could_mean_something_else_is_read() {
        for (kept, text) in [
            ("SELECT c FROM t WHERE id=5", "SELECT c FROM t WHERE id=5a"),
            (
                "SELECT c FROM t WHERE id=5",
                "SELECT c FROM t WHERE id=0x1F",
            ),
            ("SELECT c FROM t WHERE id=5", "SELECT c FROM t WHERE id=5.5"),
            (
                "SELECT c FROM t WHERE id=5",
                "SELECT c FROM t WHERE id=5 FOR UPDATE",
            ),
            ("SELECT c FROM t WHERE id=5", "SELECT c FROM t WHERE id="),
            (
                "SELECT c FROM t WHERE c='a'",
                "SELECT c FROM t WHERE c='a' 'b'",
            ),
            (
                "SELECT c FROM t WHERE c='a' OR d='b'",
                r"SELECT c FROM t WHERE c='a\' OR d='b'",
            ),
            (
                "SELECT c FROM t WHERE c='a' OR d='b'",
                "SELECT c FROM t WHERE c='a'' OR d='b'",
            ),
            (
                "SELECT c FROM t WHERE c='a'",
                "SELECT c FROM t WHERE c='\u{e9}'",
            ),
            ("SELECT c FROM t WHERE c='a'", "SELECT c FROM t WHERE c='a"),
            ("SELECT -5", "SELECT -6"),
            ("SELECT 1.5", "SELECT 1.6"),
            // Not a version, and a version that no server has yet.
            ("SELECT /*!1 + */ 1", "SELECT /*!99999 + */ 1"),
            ("SELECT /* 1 */ 1", "SELECT /* 1 */ 2"),
        ] {
            assert!(!is_copy(kept, text), "{text}");
        }
    }

    #[test]
    fn another_mode_or_a_hint_is_read() {
        let mut scan = keeps("SELECT \"a\", 1");
        let mut ansi = MODE;
        ansi.set_sql_mode("ANSI");
        scan.read(b"SELECT \"a\", 2", &ansi);
        assert_eq!(scan.literals.len(), 1);
        scan.read(b"/*ms=master*/SELECT \"a\", 1", &MODE);
        assert!(scan.hint.ms.is_some());
        scan.read(b"SELECT \"a\", 1", &MODE);
        assert!(scan.hint.ms.is_none() && scan.literals.len() == 2);
    }

    #[test]
    fn texts_of_one_front_stand_beside_each_other() {
        let mut scan = keeps("INSERT INTO t VALUES (1)");
        scan.read(b"INSERT INTO t VALUES (1, 2)", &MODE);
        for text in ["INSERT INTO t VALUES (7)", "INSERT INTO t VALUES (8, 9)"] {
            let front = Front::of(text.as_bytes()).expect("it is short");
            let mut literals = Vec::new();
            assert!(
                scan.kept
                    .find(front, text.as_bytes(), &MODE, &mut literals)
                    .is_some()
            );
        }
    }

    #[test]
    fn a_front_ends_at_the_first_literal() {
        let front = |text: &str| Front::of(text.as_bytes());
        assert_eq!(
            front("SELECT c FROM sbtest1 WHERE id=5"),
            front("SELECT c FROM sbtest1 WHERE id=99 OR 1")
        );
        assert_ne!(
            front("SELECT c FROM sbtest1 WHERE id=5"),
            front("SELECT c FROM sbtest2 WHERE id=5")
        );
        assert_eq!(front("SET a='b'"), front("SET a='c', b = 5"));
        assert_eq!(front(&"x".repeat(TEXT_BYTES_MAX + 1)), None);
    }
}
