//! Expired rows go in the background, whether or not a client asks for anything.

use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use farm::Container;

use crate::batches::linger::COMMITS;
use crate::batches::side::Side;
use crate::kv::Kv;
use crate::store::{Store, now};

/// How soon a container that is new is looked at, and after how many such looks all are again.
const LOOK: Duration = Duration::from_secs(1);
const LOOKS: u64 = 60;
/// Rows of one DELETE.
const ROWS_MAX: u32 = 1000;

impl Kv {
    /// Deletes what has expired in all containers, for as long as the core is there. One core of a router
    /// is enough.
    pub fn keep_clean(self: &Rc<Kv>) {
        reactor::spawn(purge_all(Rc::downgrade(self))).detach();
    }
}

async fn purge_all(kv: Weak<Kv>) {
    let mut clean: Vec<Arc<Container>> = Vec::new();
    for look in 0_u64.. {
        reactor::sleep(LOOK).await;
        let Some(kv) = kv.upgrade() else { return };
        if look % LOOKS == 0 {
            clean.clear();
        }
        for container in kv.containers() {
            if container.expiry.is_some() && !clean.contains(&container) {
                let store = kv.container(Some(&container.name));
                clean.push(container);
                if let Some(store) = store {
                    purge(&store).await;
                }
            }
        }
    }
}

/// What cannot be deleted now is found the next time.
async fn purge(store: &Store) {
    let Ok(mut open) = store.open(&Side::new(COMMITS)).await else {
        return;
    };
    let Ok(columns) = store.columns(&mut open.internal).await else {
        return;
    };
    let Some(text) = columns.purge(now().as_secs(), ROWS_MAX) else {
        return;
    };
    while let Ok(session::Heard::Ok { affected_rows, .. }) = open.internal.ask(&text).await {
        if affected_rows < u64::from(ROWS_MAX) {
            return;
        }
    }
}
