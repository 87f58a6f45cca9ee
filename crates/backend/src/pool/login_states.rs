//! The state of sessions that have changed nothing since their login. Those of one database share it: it is kept once
//! however many clients are there, and a look tells that two sessions are in the same state.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;

use rustc_hash::FxHashMap;

use crate::pool::Pools;
use crate::state::SessionState;

/// Databases that are known; beyond this many it begins anew.
const DATABASES_MAX: usize = 1000;

#[derive(Default)]
pub(crate) struct LoginStates {
    nowhere: OnceCell<Rc<SessionState>>,
    by_database: RefCell<FxHashMap<Box<[u8]>, Rc<SessionState>>>,
}

impl Pools {
    /// The state after a login with this default database.
    pub fn state_after_login(&self, database: Option<&[u8]>) -> Rc<SessionState> {
        let states = &self.login_states;
        let Some(database) = database else {
            let new = || Rc::new(SessionState::new(None));
            return states.nowhere.get_or_init(new).clone();
        };
        let mut known = states.by_database.borrow_mut();
        if let Some(state) = known.get(database) {
            return state.clone();
        }
        if known.len() >= DATABASES_MAX {
            known.clear();
        }
        let state = Rc::new(SessionState::new(Some(database)));
        known.insert(database.into(), state.clone());
        state
    }
}
