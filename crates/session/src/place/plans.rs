//! The plans of the shapes that a core has seen.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farm::Sharding;
use planner::place::Plan;
use rustc_hash::FxHashMap;
use sqltext::{Keyed, Mode, Multibyte};

/// Beyond this many shapes the cache starts anew.
const PLANS_MAX: usize = 10_000;

/// Plans by shape, of one state of the farm's declarations.
#[derive(Default)]
pub(crate) struct Plans {
    epoch: Cell<u64>,
    plans: RefCell<FxHashMap<Key, Rc<Plan>>>,
}

/// What a plan depends on besides the declarations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    hash: u128,
    folds: u64,
    /// Of the session's database and of how its texts are read.
    session: u128,
}

impl Plans {
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
