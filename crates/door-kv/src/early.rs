//! Early writes as the door sees them: which requests may be one, and what their client hears of those that
//! are lost.

use std::rc::Rc;
use std::time::Duration;

use kv::{Kv, Op, Store, Ticket};
use memcache_wire::{Request, StoreMode};
use reactor::Dealer;
use session::{Message, Own};

use crate::intake::Exchange;
use crate::pending::Reply;

/// Commits early writes on behalf of another thread.
pub struct EarlyCommit {
    pub(crate) dealer: Dealer<Message>,
    pub(crate) own: Own,
}

impl EarlyCommit {
    /// Waits until there are none; false when that takes longer. Blocks.
    pub fn run(&self, limit: Duration) -> bool {
        Kv::commit_all_early(&self.dealer, &self.own, limit)
    }
}

/// Whether the reply to a meta request is the same before its write is committed: nobody asks for the cas, or
/// for a token, of what was written.
pub(crate) fn may_be(request: &Request<'_>) -> bool {
    match request {
        Request::MetaStore {
            meta,
            mode: StoreMode::Set,
            ..
        } => !meta.with_cas && meta.token.is_none() && meta.cas.is_none() && meta.compare.is_none(),
        _ => false,
    }
}

impl Exchange {
    /// Has a command carried out; one that may be early is acknowledged before its commit where that is allowed.
    pub fn submit(&self, store: &Rc<Store>, op: Op, may_be_early: bool) -> Ticket {
        match may_be_early {
            true => store.submit_early(op, &self.early),
            false => store.submit(op),
        }
    }

    /// Tells the client of writes that it takes for stored and that are lost, in place of what it asks now.
    /// Who wants no answer hears of it with the next request.
    pub fn tell_lost(&mut self, request: &Request<'_>) -> bool {
        let hears = match request {
            Request::Get(_)
            | Request::MetaGet(_)
            | Request::MetaStore { .. }
            | Request::MetaDelete(_)
            | Request::MetaCount { .. }
            | Request::MetaDebug(_) => true,
            Request::Store(store) => !store.quiet,
            Request::Count(counts) => !counts.quiet,
            Request::Delete { quiet, .. }
            | Request::Touch { quiet, .. }
            | Request::FlushAll { quiet, .. } => !quiet,
            _ => false,
        };
        if !hears {
            return false;
        }
        let Some((writes, why)) = self.early.take_lost() else {
            return false;
        };
        let line = format!(
            "SERVER_ERROR {writes} acknowledged writes of this connection were lost before their commit, and \
             this command was not carried out: {why}\r\n"
        );
        self.pending.push(Reply::Text(line.into_bytes()));
        true
    }
}
