//! The terms that hold for one session.

use crate::consistency::promises::Promises;
use crate::execution::rules;
use crate::per_core::Core;
use crate::session::user::SessionUser;
use crate::settings::dist_txn_terms::DistTxnTerms;

/// The terms of this session: what it has chosen itself, its user's, or the farm's.
pub fn dist_txn_terms(core: &Core, user: &SessionUser, promises: &Promises) -> DistTxnTerms {
    let mut terms = core.settings().dist_txns;
    let name = user.name();
    let own = promises.atomic;
    let own = own.or_else(|| rules::atomic_of(core, name, user.peer.ip()));
    terms.atomic = own.unwrap_or(terms.atomic);
    terms
}
