//! Databases that servers let logins into a moment ago: the next login of the same kind takes no connection to ask
//! again.
//!
//! Invariants: an entry is at most two seconds old. It ends at once when another server leads, when a client of this router
//! changes databases or privileges, and when the account changes. Where the server would refuse the login by now, the first
//! statement hears so.
//!
//! Must not know: who logs in.

use std::cell::RefCell;

use farm::ServerId;
use rustc_hash::FxHashMap;

use crate::connection::target::Target;
use crate::login::pass::Pass;
use crate::pool::Pools;
use crate::pool::lease::Lease;
use crate::state::defaults::Seen;

/// Databases that are known of one second; more are asked for.
const KNOWN_MAX: usize = 10_000;

/// By pass and database: who let it in.
type Known = FxHashMap<u32, FxHashMap<Box<[u8]>, Gate>>;

/// What was learnt in this second, and in the one before.
#[derive(Default)]
pub(crate) struct Entered(RefCell<[Known; 2]>);

#[derive(Clone, Copy, PartialEq, Eq)]
struct Gate {
    server: ServerId,
    term: u32,
    /// What had changed by then.
    defaults: Seen,
}

impl Entered {
    /// Another second begins.
    pub fn tick(&self) {
        let known = &mut *self.0.borrow_mut();
        known.swap(0, 1);
        known[0].clear();
    }
}

impl Pools {
    /// True when this server has let a login by the pass into the database within two seconds, and nothing is known
    /// to have changed since.
    pub fn has_entered(&self, target: &Target, pass: &Pass, database: &[u8]) -> bool {
        let gate = Gate {
            server: target.server,
            term: target.term,
            defaults: self.defaults.now(),
        };
        let of = |known: &Known| known.get(&pass.number())?.get(database).copied();
        let known = self.entered.0.borrow();
        !pass.is_stale() && known.iter().any(|known| of(known) == Some(gate))
    }

    /// Takes note of the database into which a connection was let for a login.
    pub fn note_entered(&self, lease: &Lease) {
        let connection = lease.connection();
        let (Some(database), Some(pass)) = (connection.state.database(), &connection.pass) else {
            return;
        };
        let gate = Gate {
            server: connection.server,
            term: connection.term,
            defaults: connection.defaults,
        };
        let known = &mut self.entered.0.borrow_mut()[0];
        let of_pass = known.entry(pass.number()).or_default();
        let has_room = of_pass.len() < KNOWN_MAX;
        match of_pass.get_mut(database) {
            Some(before) => *before = gate,
            None if has_room => drop(of_pass.insert(database.into(), gate)),
            None => {}
        }
    }
}
