//! The plans of the shapes that a core has seen.

use std::cell::{Cell, RefCell};
use std::hash::{Hash, Hasher};
use std::rc::Rc;

use farm::Sharding;
use planner::place::Plan;
use rustc_hash::{FxHashMap, FxHasher};
use sqltext::{Mode, Multibyte};

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
    digest: u64,
    folds: u64,
    /// Of the session's database and of how its texts are read.
    session: u64,
}

impl Plans {
    pub fn key(&self, digest: u64, folds: u64, database: &[u8], mode: &Mode) -> Key {
        let mut hasher = FxHasher::default();
        database.hash(&mut hasher);
        let quirks = [
            mode.ansi_quotes,
            mode.no_backslash_escapes,
            mode.multibyte != Multibyte::None,
        ];
        quirks.hash(&mut hasher);
        Key {
            digest,
            folds,
            session: hasher.finish(),
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
