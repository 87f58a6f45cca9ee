//! How statements over several groups were answered that came before, by their texts with all values.
//!
//! Job: keep what the planner made of a text, and what it made of it with tables that are sent, so that a statement that
//! comes again is not planned again.
//!
//! Invariants: what is kept is of one state of the farm's declarations; names of scratch tables begin with a word that
//! nobody can know; it is bounded in number and in bytes. Which of two answers is taken depends on sizes that are the same
//! as then.
//!
//! Must not know: how a statement is planned.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use planner::{Answer, Ran, Scalar, Seen};
use rustc_hash::FxHashMap;
use sqltext::{Dialect, Keyed, Mode, Multibyte};

/// Beyond so many texts the cache starts anew.
const TEXTS_MAX: usize = 512;

/// A longer text is planned each time.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// What was made of texts.
pub struct Answers {
    epoch: Cell<u64>,
    /// What names of scratch tables begin with, in all that is kept.
    placeholder: String,
    all: RefCell<FxHashMap<Key, Rc<Kept>>>,
}

/// A text, and what its answer depends on besides the declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key(u128);

impl Key {
    /// `home`: the farm's first group; `database`: the session's.
    pub fn of(text: &[u8], home: &str, database: &[u8], mode: &Mode) -> Key {
        let mut all = Keyed::new();
        for bytes in [text, home.as_bytes(), database] {
            all.mix_bytes(bytes);
        }
        let quirks = [
            mode.dialect == Dialect::MySql,
            mode.ansi_quotes,
            mode.no_backslash_escapes,
            mode.multibyte != Multibyte::None,
        ];
        all.mix_bytes(&quirks.map(u8::from));
        all.mix(u64::from(mode.version));
        Key(all.finish())
    }
}

/// What was made of one text.
pub struct Kept {
    pub answer: Answer,
    /// The subqueries that are asked first, once somebody has looked for them.
    scalars: OnceCell<Rc<[Scalar]>>,
    /// The last choice whether tables are sent.
    choice: RefCell<Option<Choice>>,
}

/// A choice, and the sizes that it was made by.
struct Choice {
    sizes: SizesOf,
    made: Result<Answer, String>,
}

/// All that a choice depends on besides the text.
#[derive(Clone, Debug, PartialEq)]
pub struct SizesOf {
    /// In which order the gather fetches.
    pub order: Vec<usize>,
    /// Servers' guesses take conditions that no index serves into account.
    pub filtered: bool,
    pub rows: Vec<Option<u64>>,
    pub ran: Ran,
    pub whole: Vec<Option<Seen>>,
    pub bytes_max: u64,
}

impl Default for Answers {
    fn default() -> Answers {
        let mut random = Keyed::new();
        random.mix_bytes(b"names of scratch tables");
        Answers {
            epoch: Cell::new(0),
            placeholder: format!("{:032x}_", random.finish()),
            all: RefCell::default(),
        }
    }
}

impl Answers {
    /// What names of scratch tables begin with in an answer that is to be kept.
    pub fn placeholder(&self) -> &str {
        &self.placeholder
    }

    /// What was made of a text under these declarations.
    pub fn get(&self, key: &Key, epoch: u64) -> Option<Rc<Kept>> {
        if self.epoch.get() != epoch {
            self.all.borrow_mut().clear();
            self.epoch.set(epoch);
            return None;
        }
        self.all.borrow().get(key).cloned()
    }

    /// Keeps what was made of a text.
    pub fn put(&self, key: Key, text: &[u8], answer: Answer) -> Rc<Kept> {
        let kept = Rc::new(Kept {
            answer,
            scalars: OnceCell::new(),
            choice: RefCell::default(),
        });
        if text.len() <= TEXT_BYTES_MAX {
            let mut all = self.all.borrow_mut();
            if all.len() >= TEXTS_MAX {
                all.clear();
            }
            all.insert(key, kept.clone());
        }
        kept
    }
}

impl Kept {
    /// The subqueries that are asked first, which are looked for once.
    pub fn scalars(&self, find: impl FnOnce() -> Vec<Scalar>) -> Rc<[Scalar]> {
        self.scalars.get_or_init(|| find().into()).clone()
    }

    /// The answer with tables that are sent, or why there is none, by these sizes.
    pub fn chosen(
        &self,
        sizes: SizesOf,
        choose: impl FnOnce(&SizesOf) -> Result<Answer, String>,
    ) -> Result<Answer, String> {
        if let Some(choice) = &*self.choice.borrow()
            && choice.sizes == sizes
        {
            return choice.made.clone();
        }
        let made = choose(&sizes);
        *self.choice.borrow_mut() = Some(Choice {
            sizes,
            made: made.clone(),
        });
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use planner::{Finish, Merging, Tier};

    const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

    fn answer(reason: &str) -> Answer {
        Answer {
            tier: Tier::Push,
            fragments: Vec::new(),
            finish: Finish::Merge(Merging::default()),
            locks: false,
            clock: false,
            reasons: vec![reason.to_owned()],
            sending: None,
            otherwise: None,
        }
    }

    #[test]
    fn a_text_is_known_under_the_same_declarations() {
        let answers = Answers::default();
        let key = Key::of(b"SELECT 1", "g1", b"shop", &MODE);
        assert!(answers.get(&key, 3).is_none());
        answers.put(key, b"SELECT 1", answer("a"));
        assert_eq!(answers.get(&key, 3).expect("it is kept").answer, answer("a"));
        let quoted = Mode {
            ansi_quotes: true,
            ..MODE
        };
        for other in [
            Key::of(b"SELECT 2", "g1", b"shop", &MODE),
            Key::of(b"SELECT 1", "g2", b"shop", &MODE),
            Key::of(b"SELECT 1", "g1", b"bank", &MODE),
            Key::of(b"SELECT 1", "g1", b"shop", &quoted),
        ] {
            assert!(answers.get(&other, 3).is_none());
        }
        assert!(answers.get(&key, 4).is_none(), "other declarations");
        assert!(answers.get(&key, 4).is_none(), "it is forgotten");
    }

    #[test]
    fn it_is_bounded() {
        let answers = Answers::default();
        let long = vec![b'x'; TEXT_BYTES_MAX + 1];
        let key = Key::of(&long, "g1", b"shop", &MODE);
        answers.put(key, &long, answer("long"));
        assert!(answers.get(&key, 0).is_none());
        for number in 0..TEXTS_MAX + 3 {
            let text = number.to_string();
            let key = Key::of(text.as_bytes(), "g1", b"shop", &MODE);
            answers.put(key, text.as_bytes(), answer(&text));
        }
        assert_eq!(answers.all.borrow().len(), 3);
    }

    #[test]
    fn a_choice_holds_while_sizes_are_the_same() {
        let answers = Answers::default();
        let key = Key::of(b"SELECT 1", "g1", b"shop", &MODE);
        let kept = answers.put(key, b"SELECT 1", answer("gathered"));
        let sizes = |rows| SizesOf {
            order: vec![0],
            filtered: false,
            rows: vec![rows],
            ran: Ran::default(),
            whole: Vec::new(),
            bytes_max: 1,
        };
        let made = kept.chosen(sizes(Some(1)), |_| Ok(answer("first")));
        assert_eq!(made, Ok(answer("first")));
        let made = kept.chosen(sizes(Some(1)), |_| Err("it is not asked again".to_owned()));
        assert_eq!(made, Ok(answer("first")));
        let made = kept.chosen(sizes(None), |_| Err("other sizes".to_owned()));
        assert_eq!(made, Err("other sizes".to_owned()));
    }
}
