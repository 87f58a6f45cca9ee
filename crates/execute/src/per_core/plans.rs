//! The plans of the shapes that a core has seen, and how many rows the servers think that their fragments
//! have.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farm::Sharding;
use planner::Answer;
use planner::place::Plan;
use rustc_hash::FxHashMap;
use sqltext::{Digest, Keyed, Mode, Multibyte};

/// Beyond this many shapes the cache starts anew.
const PLANS_MAX: usize = 10_000;

/// What a group refused is not sent again for so long.
const TURNED_BACK_S: u64 = 600;

/// Plans by shape, of one state of the farm's declarations.
#[derive(Default)]
pub struct Plans {
    epoch: Cell<u64>,
    plans: RefCell<FxHashMap<Key, Rc<Plan>>>,
    /// How many rows fragments have.
    pub sizes: Sizes,
    /// Statements of an account, by the shapes of their fetches, for which a group refused the tables that it was given.
    turned_back: Sizes,
}

/// What a plan depends on besides the declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    hash: u128,
    folds: u64,
    /// Of the session's database and of how its texts are read.
    session: u128,
}

/// The shape of all fetches of a statement, in which no name of a session's own stands.
pub fn fetches(gathered: &Answer, mode: &Mode) -> Digest {
    Digest::of(texts(gathered).as_bytes(), mode)
}

fn texts(gathered: &Answer) -> String {
    let texts: Vec<&str> = gathered.fragments.iter().map(|it| &*it.text).collect();
    texts.join("; ")
}

/// The same, of an account.
fn fetches_of(account: &[u8], gathered: &Answer, mode: &Mode) -> Digest {
    let text = format!("`{}` {}", hex::encode(account), texts(gathered));
    Digest::of(text.as_bytes(), mode)
}

/// Guesses by shape, and when they were made.
#[derive(Default)]
pub struct Sizes(RefCell<FxHashMap<Digest, Guess>>);

/// How many rows a fragment has, as servers guess, and when they did, in seconds of the core's clock.
#[derive(Clone, Copy)]
pub struct Guess {
    pub rows: u64,
    pub made_s: u64,
}

impl Sizes {
    pub fn get(&self, shape: &Digest) -> Option<Guess> {
        self.0.borrow().get(shape).copied()
    }

    pub fn put(&self, shape: Digest, guess: Guess) {
        let mut all = self.0.borrow_mut();
        if all.len() >= PLANS_MAX {
            all.clear();
        }
        all.insert(shape, guess);
    }

    fn forget(&self) {
        self.0.borrow_mut().clear();
    }
}

impl Plans {
    /// A group refused the tables that it was given for a statement that is gathered so, of this account.
    pub fn turn_back(&self, account: &[u8], gathered: &Answer, mode: &Mode, made_s: u64) {
        let shape = fetches_of(account, gathered, mode);
        self.turned_back.put(shape, Guess { rows: 0, made_s });
    }

    /// The same, not long ago.
    pub fn is_turned_back(
        &self,
        account: &[u8],
        gathered: &Answer,
        mode: &Mode,
        now_s: u64,
    ) -> bool {
        let guess = self.turned_back.get(&fetches_of(account, gathered, mode));
        guess.is_some_and(|guess| guess.made_s + TURNED_BACK_S >= now_s)
    }

    pub fn key(&self, hash: u128, folds: u64, database: &[u8], mode: &Mode) -> Key {
        let mut session = Keyed::new();
        session.mix_bytes(database);
        let quirks = [
            mode.ansi_quotes,
            mode.no_backslash_escapes,
            mode.multibyte != Multibyte::None,
        ];
        session.mix_bytes(&quirks.map(u8::from));
        Key {
            hash,
            folds,
            session: session.finish(),
        }
    }

    /// The plan, if it is known and the declarations are those that it was made by.
    #[inline]
    pub fn get(&self, key: &Key, sharding: &Sharding) -> Option<Rc<Plan>> {
        if self.epoch.get() != sharding.epoch {
            self.plans.borrow_mut().clear();
            self.sizes.forget();
            self.turned_back.forget();
            self.epoch.set(sharding.epoch);
            return None;
        }
        self.plans.borrow().get(key).cloned()
    }

    pub fn put(&self, key: Key, plan: Plan) -> Rc<Plan> {
        let mut plans = self.plans.borrow_mut();
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        let plan = Rc::new(plan);
        plans.insert(key, plan.clone());
        plan
    }
}
