//! The containers of one core.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use farm::Container;
use rustc_hash::FxHashMap;
use session::{Core, Own};

use crate::store::Store;

/// What one core has of the farm's containers.
pub struct Kv {
    core: Weak<Core>,
    own: Own,
    stores: RefCell<FxHashMap<String, Rc<Store>>>,
}

impl Kv {
    /// The core's own; `own` counts where it is made. `None` on a core that another engine uses.
    pub fn on(core: &Rc<Core>, own: &Own) -> Option<Rc<Kv>> {
        core.guest(|| Kv {
            core: Rc::downgrade(core),
            own: own.clone(),
            stores: RefCell::default(),
        })
    }

    /// All containers as they are declared now.
    pub fn containers(&self) -> Vec<Arc<Container>> {
        let snapshot = self.core.upgrade().map(|core| core.snapshot());
        let all = snapshot
            .iter()
            .flat_map(|snapshot| snapshot.containers.iter());
        all.cloned().collect()
    }

    /// The container of this name as it is declared now; without a name the default one.
    pub fn container(&self, name: Option<&str>) -> Option<Rc<Store>> {
        let core = self.core.upgrade()?;
        let snapshot = core.glance();
        let declared = match name {
            Some(name) => snapshot.containers.get(name),
            None => snapshot.containers.default_one(),
        }?;
        let mut stores = self.stores.borrow_mut();
        if let Some(store) = stores.get(&declared.name)
            && (Arc::ptr_eq(store.declared(), declared) || store.declared() == declared)
        {
            return Some(store.clone());
        }
        // What was acknowledged by the old declaration is committed by it, before the new one counts.
        if let Some(store) = stores.get(&declared.name).filter(|store| store.has_early()) {
            store.end_early();
            return Some(store.clone());
        }
        let store = Store::new(&core, &self.own, declared.clone());
        stores.insert(declared.name.clone(), store.clone());
        Some(store)
    }

    /// Waits until the core has no early writes of the container any more, or of all.
    pub(crate) async fn commit_early(&self, name: Option<&str>) {
        let stores: Vec<Rc<Store>> = {
            let stores = self.stores.borrow();
            let meant = |known: &str| name.is_none_or(|name| name == known);
            let meant = stores.iter().filter(|(known, _)| meant(known));
            meant.map(|(_, store)| store.clone()).collect()
        };
        for store in stores {
            store.commit_early().await;
        }
    }
}
