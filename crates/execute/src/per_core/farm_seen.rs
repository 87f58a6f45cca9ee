//! A core's own hold on the farm's snapshot: a look at it writes nothing that other cores see.
//!
//! Invariant: a look gives what was published last, as the cell itself would.
//!
//! Must not know: what is looked for.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use arc_swap::cache::Cache;
use farm::{Published, Snapshot};

/// The farm as it was when somebody looked.
pub type Glance = Rc<Arc<Snapshot>>;

/// What a core saw last, which stays until it looks again.
pub(crate) struct FarmSeen(RefCell<Seen>);

struct Seen {
    cache: Cache<Arc<Published>, Arc<Snapshot>>,
    last: Glance,
}

impl FarmSeen {
    pub fn new(published: &Arc<Published>) -> FarmSeen {
        let mut cache = Cache::new(Arc::clone(published));
        let last = Rc::new(Arc::clone(cache.load()));
        FarmSeen(RefCell::new(Seen { cache, last }))
    }

    #[inline]
    pub fn look(&self) -> Glance {
        let mut seen = self.0.borrow_mut();
        let Seen { cache, last } = &mut *seen;
        let now = cache.load();
        if !Arc::ptr_eq(now, last) {
            *last = Rc::new(Arc::clone(now));
        }
        Rc::clone(last)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_look_gives_what_was_published_last() {
        let farm = |epoch| {
            let mut snapshot = Snapshot::empty("f", Instant::now());
            snapshot.epoch = epoch;
            Arc::new(snapshot)
        };
        let published = Arc::new(Published::new(farm(1)));
        let seen = FarmSeen::new(&published);
        let before = seen.look();
        assert!(Rc::ptr_eq(&before, &seen.look()));
        published.store(farm(2));
        assert_eq!((seen.look().epoch, before.epoch), (2, 1));
    }
}
