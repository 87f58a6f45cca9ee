//! What every implementation of [`Store`] must do; each one's tests run it.

use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::{Change, Error, Lease, Outcome, Store, Transaction};

/// Shorter than what etcd grants, so that what was granted has to be looked at.
const TTL: Duration = Duration::from_millis(300);

/// Runs the whole suite against an empty store.
pub async fn run(store: &dyn Store) {
    compares_guard_changes(store).await;
    transactions_are_whole(store).await;
    scans_list_a_prefix_in_order(store).await;
    watches_see_each_update_once(store).await;
    keys_are_changed_once(store).await;
    leased_keys_end_with_their_lease(store).await;
    a_kept_lease_outlives_its_length(store).await;
    keys_leave_their_lease(store).await;
    leadership_is_a_leased_key(store).await;
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
    assert!(second > first);
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
        lease: None,
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

async fn lease(store: &dyn Store) -> Box<dyn Lease> {
    let lease = store.lease(TTL).await.expect("a lease");
    assert!(lease.ttl() >= TTL, "never shorter than asked");
    lease
}

async fn leased_keys_end_with_their_lease(store: &dyn Store) {
    let (runs_out, revoked) = (lease(store).await, lease(store).await);
    assert_ne!(runs_out.id(), revoked.id());
    let written = Transaction::new()
        .put_leased("/l/a", "1", runs_out.id())
        .put_leased("/l/b", "1", revoked.id())
        .put("/l/c", "1");
    let written = applied(store, written).await;
    let entry = store.get("/l/a").await.expect("readable").expect("written");
    assert_eq!(entry.lease, Some(runs_out.id()));
    let leases = store.scan("/l/").await.expect("listed").entries;
    let leases: Vec<_> = leases.into_iter().map(|entry| entry.lease).collect();
    assert_eq!(leases, [Some(runs_out.id()), Some(revoked.id()), None]);

    let mut watch = store.watch("/l/", written).await.expect("a watch");
    revoked.revoke().await.expect("revoked");
    assert_eq!(value(store, "/l/b").await, None);
    for key in ["/l/b", "/l/a"] {
        let key = key.to_owned();
        let update = watch.next().await.expect("the end of a lease is told");
        assert_eq!(update.changes, [Change::Delete { key }]);
        assert!(update.revision > written);
    }
    for ended in [runs_out, revoked] {
        assert!(matches!(ended.keep().await, Err(Error::LeaseLost)));
        ended.revoke().await.expect("ended already");
        let late = Transaction::new()
            .put("/l/d", "1")
            .put_leased("/l/e", "1", ended.id());
        let late = store.commit(late).await;
        assert!(matches!(late, Err(Error::LeaseLost)), "{late:?}");
    }
    assert_eq!(
        value(store, "/l/d").await,
        None,
        "it is whole or not at all"
    );
    assert_eq!(value(store, "/l/c").await, Some(("1".to_owned(), written)));
}

async fn a_kept_lease_outlives_its_length(store: &dyn Store) {
    let kept = lease(store).await;
    let written = Transaction::new().put_leased("/k/a", "1", kept.id());
    let written = applied(store, written).await;
    let mut watch = store.watch("/k/", written).await.expect("a watch");
    let begin = Instant::now();
    while begin.elapsed() < kept.ttl() * 2 {
        kept.keep().await.expect("kept");
        let told = timeout(kept.ttl() / 20, watch.next()).await;
        assert!(told.is_err(), "it must not end: {told:?}");
    }
    let entry = value(store, "/k/a").await;
    assert_eq!(
        entry,
        Some(("1".to_owned(), written)),
        "keeping writes nothing"
    );
    kept.revoke().await.expect("revoked");
}

async fn keys_leave_their_lease(store: &dyn Store) {
    let (first, second) = (lease(store).await, lease(store).await);
    let bound = Transaction::new()
        .put_leased("/m/stays", "1", first.id())
        .put_leased("/m/moves", "1", first.id())
        .put_leased("/m/again", "1", first.id());
    applied(store, bound).await;
    let freed = Transaction::new()
        .put("/m/stays", "2")
        .put_leased("/m/moves", "2", second.id())
        .delete("/m/again");
    applied(store, freed).await;
    applied(store, Transaction::new().put("/m/again", "2")).await;
    first.revoke().await.expect("revoked");
    let left = store.scan("/m/").await.expect("listed").entries;
    let left: Vec<_> = left.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(left, ["/m/again", "/m/moves", "/m/stays"]);
    second.revoke().await.expect("revoked");
    assert_eq!(value(store, "/m/moves").await, None);
}

async fn leadership_is_a_leased_key(store: &dyn Store) {
    let (first, second) = (lease(store).await, lease(store).await);
    let campaign = |candidate: &dyn Lease| {
        let id = candidate.id();
        Transaction::new()
            .when_absent("/leader")
            .put_leased("/leader", "{}", id)
    };
    let number = applied(store, campaign(&*first)).await;
    let lost = store.commit(campaign(&*second)).await;
    assert_eq!(lost.expect("answered"), Outcome::Stale);
    let act = |number, text| {
        Transaction::new()
            .when_revision("/leader", number)
            .put("/act", text)
    };
    applied(store, act(number, "1")).await;

    first.revoke().await.expect("it resigns");
    let next = applied(store, campaign(&*second)).await;
    assert!(next > number, "fencing numbers grow");
    let deposed = store.commit(act(number, "2")).await;
    assert_eq!(deposed.expect("answered"), Outcome::Stale);
    applied(store, act(next, "3")).await;
    second.revoke().await.expect("revoked");
}
