//! What every implementation of [`Store`] must do; each one's tests run it.

use crate::{Change, Error, Outcome, Store, Transaction};

/// Runs the whole suite against an empty store.
pub async fn run(store: &dyn Store) {
    compares_guard_changes(store).await;
    transactions_are_whole(store).await;
    scans_list_a_prefix_in_order(store).await;
    watches_see_each_update_once(store).await;
    keys_are_changed_once(store).await;
}

async fn applied(store: &dyn Store, transaction: Transaction) -> u64 {
    match store.commit(transaction).await {
        Ok(Outcome::Applied(revision)) => revision,
        other => panic!("not applied: {other:?}"),
    }
}

async fn value(store: &dyn Store, key: &str) -> Option<(String, u64)> {
    let entry = store.get(key).await.expect("readable");
    entry.map(|entry| (entry.value, entry.revision))
}

async fn compares_guard_changes(store: &dyn Store) {
    let first = applied(
        store,
        Transaction::new().when_absent("/c/k").put("/c/k", "1"),
    )
    .await;
    let again = Transaction::new().when_absent("/c/k").put("/c/k", "2");
    assert_eq!(store.commit(again).await.expect("answered"), Outcome::Stale);
    assert_eq!(value(store, "/c/k").await, Some(("1".to_owned(), first)));

    let second = applied(
        store,
        Transaction::new()
            .when_revision("/c/k", first)
            .put("/c/k", "2"),
    )
    .await;
    assert_eq!(second, first + 1);
    let stale = Transaction::new()
        .when_revision("/c/k", first)
        .delete("/c/k");
    assert_eq!(store.commit(stale).await.expect("answered"), Outcome::Stale);
    let missing = Transaction::new()
        .when_revision("/c/none", first)
        .put("/c/none", "1");
    assert_eq!(
        store.commit(missing).await.expect("answered"),
        Outcome::Stale
    );
    applied(
        store,
        Transaction::new()
            .when_revision("/c/k", second)
            .delete("/c/k"),
    )
    .await;
    assert_eq!(value(store, "/c/k").await, None);
}

async fn transactions_are_whole(store: &dyn Store) {
    let before = store.scan("/w/").await.expect("listed").revision;
    let refused = Transaction::new()
        .put("/w/a", "1")
        .put("/w/b", "1")
        .when_revision("/w/none", 1);
    assert_eq!(
        store.commit(refused).await.expect("answered"),
        Outcome::Stale
    );
    let listing = store.scan("/w/").await.expect("listed");
    assert!(listing.entries.is_empty());
    assert_eq!(
        listing.revision, before,
        "a refused transaction has no revision"
    );

    let revision = applied(store, Transaction::new().put("/w/a", "1").put("/w/b", "2")).await;
    assert_eq!(value(store, "/w/a").await, Some(("1".to_owned(), revision)));
    assert_eq!(value(store, "/w/b").await, Some(("2".to_owned(), revision)));
}

async fn scans_list_a_prefix_in_order(store: &dyn Store) {
    for key in ["/s/b", "/s/a", "/s/ü", "/sa", "/r/z", "/s"] {
        applied(store, Transaction::new().put(key, "{}")).await;
    }
    let listing = store.scan("/s/").await.expect("listed");
    let keys: Vec<&str> = listing
        .entries
        .iter()
        .map(|entry| entry.key.as_str())
        .collect();
    assert_eq!(keys, ["/s/a", "/s/b", "/s/ü"]);
    assert!(
        listing
            .entries
            .iter()
            .all(|entry| entry.revision <= listing.revision)
    );
}

async fn watches_see_each_update_once(store: &dyn Store) {
    let start = store.scan("/v/").await.expect("listed").revision;
    let mut watch = store.watch("/v/", start).await.expect("a watch");
    let first = applied(
        store,
        Transaction::new().put("/v/a", "1").put("/other", "1"),
    )
    .await;
    applied(store, Transaction::new().put("/other", "2")).await;
    let last = applied(store, Transaction::new().delete("/v/a")).await;

    let update = watch.next().await.expect("the first update");
    assert_eq!(update.revision, first);
    let put = Change::Put {
        key: "/v/a".to_owned(),
        value: "1".to_owned(),
    };
    assert_eq!(update.changes, [put], "only what lies under the prefix");
    let update = watch.next().await.expect("the second update");
    assert_eq!(update.revision, last);
    assert_eq!(
        update.changes,
        [Change::Delete {
            key: "/v/a".to_owned()
        }]
    );

    // A watch from an older revision sees what happened since; one that waits is woken.
    let mut late = store.watch("/v/", first).await.expect("a watch");
    assert_eq!(late.next().await.expect("an update").revision, last);
    let (woken, written) = tokio::join!(
        late.next(),
        applied(store, Transaction::new().put("/v/b", "1"))
    );
    assert_eq!(woken.expect("an update").revision, written);
}

async fn keys_are_changed_once(store: &dyn Store) {
    let twice = Transaction::new().put("/t", "1").delete("/t");
    assert!(matches!(store.commit(twice).await, Err(Error::KeyTwice(key)) if key == "/t"));
    assert_eq!(value(store, "/t").await, None);
}
