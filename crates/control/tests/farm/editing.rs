//! A command whose records are changed by the farm itself before it writes is carried out on the newer
//! ones, and undoes nothing of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use crate::plane::{Plane, servers};
use meta::{Answer, Embedded, Entry, Lease, Listing, Outcome, Store, Transaction, Watch};
use serde_json::Value;

/// A store where somebody else changes every server just before a transaction, so often as it is told.
struct Meddled {
    store: Embedded,
    times: Arc<AtomicU32>,
}

impl Meddled {
    /// Who changes a server here changes its weight.
    async fn meddle(&self) -> Result<(), meta::Error> {
        let mut change = Transaction::new();
        for entry in self.store.scan("/").await?.entries {
            let Ok(mut record) = serde_json::from_str::<Value>(&entry.value) else {
                continue;
            };
            if let Some(weight) = record["weight"].as_f64() {
                record["weight"] = (weight + 1.0).into();
                change = change.put(&entry.key, &record.to_string());
            }
        }
        self.store.commit(change).await.map(drop)
    }
}

impl Store for Meddled {
    fn get(&self, key: &str) -> Answer<'_, Option<Entry>> {
        self.store.get(key)
    }

    fn scan(&self, prefix: &str) -> Answer<'_, Listing> {
        self.store.scan(prefix)
    }

    fn commit(&self, transaction: Transaction) -> Answer<'_, Outcome> {
        Box::pin(async move {
            let left = self
                .times
                .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            if left.is_ok() {
                self.meddle().await?;
            }
            self.store.commit(transaction).await
        })
    }

    fn watch(&self, prefix: &str, after: u64) -> Answer<'_, Box<dyn Watch>> {
        self.store.watch(prefix, after)
    }

    fn lease(&self, ttl: Duration) -> Answer<'_, Box<dyn Lease>> {
        self.store.lease(ttl)
    }
}

#[test]
fn a_command_is_carried_out_on_the_newest_records() {
    let Some([first, second]) = servers() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let times = Arc::new(AtomicU32::new(0));
    let store = Meddled {
        store: Embedded::open(dir.path()).expect("a store"),
        times: Arc::clone(&times),
    };
    let plane = Plane::start_on(
        async move { Arc::new(store) as Arc<dyn Store> },
        dir.path(),
        |_| {},
    );
    plane.rows(&["group", "create", "g"]);
    let [primary, replica] = [&first, &second].map(|server| server.address().to_string());
    plane.rows(&["group", "add", "g", &primary]);
    plane.rows(&["group", "add", "g", &replica]);
    let row = |address: &str| {
        let rows = plane.rows(&["group", "lookup_servers", "g"]);
        let mut rows = rows.as_array().expect("rows").clone().into_iter();
        rows.find(|row| row["address"] == address)
            .expect("a member")
    };

    times.store(2, SeqCst);
    plane.rows(&["server", "set_mode", &replica, "OFFLINE"]);
    assert_eq!(times.load(SeqCst), 0, "somebody else was first twice");
    let now = row(&replica);
    assert_eq!(now["mode"], "OFFLINE");
    assert_eq!(now["weight"], 3.0, "nothing of theirs is undone");

    times.store(1, SeqCst);
    plane.rows(&["server", "set_status", &replica, "SPARE"]);
    assert_eq!(times.load(SeqCst), 0);
    let now = row(&replica);
    assert_eq!(
        (&now["status"], &now["weight"]),
        (&"SPARE".into(), &4.0.into())
    );

    // Whoever never comes first is told, and has changed nothing.
    times.store(1000, SeqCst);
    let error = plane.error(&["server", "set_mode", &replica, "READ_ONLY"]);
    assert!(error.contains("changed from elsewhere"), "{error}");
    times.store(0, SeqCst);
    assert_eq!(row(&replica)["mode"], "OFFLINE");

    times.store(1, SeqCst);
    plane.rows(&["group", "remove", "g", &replica]);
    assert_eq!(times.load(SeqCst), 0);
    let rows = plane.rows(&["group", "lookup_servers", "g"]);
    assert_eq!(rows.as_array().expect("rows").len(), 1, "{rows}");
}
