//! etcd as it is: members die, freeze and fill up, history is compacted, accounts are wrong.

use std::sync::atomic::{AtomicBool, Ordering};

use testkit::certificates::Authority;
use testkit::etcd::{Etcd as Cluster, Options};

use super::*;
use crate::Change;

const PREFIX: &str = "/heddle";

fn access(cluster: &Cluster) -> Access {
    Access {
        urls: cluster.urls().split(',').map(str::to_owned).collect(),
        prefix: PREFIX.to_owned(),
        account: None,
        authority: None,
        identity: None,
    }
}

async fn connect(cluster: &Cluster) -> Etcd {
    Etcd::connect(access(cluster)).await.expect("connected")
}

async fn error(access: Access) -> Error {
    Etcd::connect(access).await.err().expect("refused")
}

fn loopback(members: usize) -> Options {
    Options {
        hosts: vec!["127.0.0.1".to_owned(); members],
        ..Options::default()
    }
}

/// Runs something that blocks, as the testkit does, beside the tasks of the store.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("it ran")
}

/// Each write compares what the one before it wrote, so one that is applied twice, or not, shows.
/// At least `length` writes, and more until `enough` says so.
async fn write_chain(store: &dyn Store, length: usize, enough: impl Fn() -> bool) -> Vec<u64> {
    let mut revisions: Vec<u64> = Vec::new();
    while revisions.len() < length || !enough() {
        let next = match revisions.last() {
            None => Transaction::new().when_absent("/chain"),
            Some(&last) => Transaction::new().when_revision("/chain", last),
        };
        let text = revisions.len().to_string();
        match store.commit(next.put("/chain", &text)).await {
            Ok(Outcome::Applied(revision)) => revisions.push(revision),
            other => panic!("write {text}: {other:?}"),
        }
    }
    store
        .commit(Transaction::new().delete("/chain"))
        .await
        .expect("ended");
    revisions
}

/// Reads a watch until the chain's end; every link must come, in order, once.
async fn read_chain(store: &dyn Store, after: u64) -> Vec<u64> {
    let mut watch = store.watch("/chain", after).await.expect("a watch");
    let mut revisions = Vec::new();
    loop {
        let update = watch.next().await.expect("no gap");
        let [Change::Put { value, .. }] = &update.changes[..] else {
            return revisions;
        };
        assert_eq!(
            *value,
            revisions.len().to_string(),
            "each link, in order, once"
        );
        revisions.push(update.revision);
    }
}

/// Writes a key and gives the revision.
async fn put(store: &dyn Store, key: &str, value: &str) -> u64 {
    match store.commit(Transaction::new().put(key, value)).await {
        Ok(Outcome::Applied(revision)) => revision,
        other => panic!("{key}: {other:?}"),
    }
}

#[tokio::test]
async fn suite() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    crate::suite::run(&connect(&cluster).await).await;
}

#[tokio::test]
async fn suite_with_three_members_accounts_and_certificates() {
    let authority = Authority::new("etcd");
    let client = authority.sign("client", &["client"]);
    let Some(cluster) = Cluster::start_with(Options {
        certificate: Some(authority.sign("server", &["127.0.0.1"])),
        client_certificate: Some(client.clone()),
        authority: Some(authority.file()),
        root_password: Some("secret".to_owned()),
        ..loopback(3)
    }) else {
        return;
    };
    cluster.add_user("heddle", "pw", PREFIX);
    let access = Access {
        account: Some(("heddle".to_owned(), "pw".to_owned())),
        authority: Some(authority.file()),
        identity: Some((client.certificate, client.key)),
        ..access(&cluster)
    };
    let store = Etcd::connect(access).await.expect("connected");
    crate::suite::run(&store).await;
}

#[tokio::test]
async fn farms_share_an_etcd_and_see_only_their_own() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let store = connect(&cluster).await;
    let other = Access {
        prefix: "/heddle2".to_owned(),
        ..access(&cluster)
    };
    let other = Etcd::connect(other).await.expect("connected");
    for (store, value) in [(&store, "1"), (&other, "2")] {
        let put = Transaction::new().put("/farm/id", value);
        store.commit(put).await.expect("written");
    }
    for (store, value) in [(&store, "1"), (&other, "2")] {
        let listing = store.scan("/").await.expect("listed");
        assert_eq!(listing.entries.len(), 1, "nothing of the store's own shows");
        let entry = &listing.entries[0];
        assert_eq!((&*entry.key, &*entry.value), ("/farm/id", value));
    }
}

#[tokio::test]
async fn revisions_go_on_where_another_store_ended() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let first = connect(&cluster).await;
    let early = put(&first, "/early", "1").await;
    first.raise_revisions(1_000_000).await.expect("raised");
    let store = connect(&cluster).await;
    let listing = store.scan("/").await.expect("listed");
    assert!(listing.revision > 1_000_000, "{listing:?}");
    let mut late = store.watch("/", early).await.expect("a watch");
    assert!(matches!(late.next().await, Err(Error::Gap)));
    crate::suite::run(&store).await;
    store.raise_revisions(1000).await.expect("nothing to do");
    let again = connect(&cluster).await.scan("/").await.expect("listed");
    assert!(again.revision > listing.revision);
}

#[tokio::test]
async fn writes_and_watches_outlive_members_that_die() {
    let Some(cluster) = Cluster::start(3) else {
        return;
    };
    let store = connect(&cluster).await;
    let start = store.scan("/").await.expect("listed").revision;
    let over = AtomicBool::new(false);
    let chaos = blocking(move || {
        let mut cluster = cluster;
        let leader = cluster.leader();
        cluster.kill(leader);
        let next = cluster.leader();
        cluster.restart(leader);
        cluster.freeze(next);
        let third = cluster.leader();
        cluster.thaw(next);
        cluster.stop(third);
        cluster.restart(third);
        cluster
    });
    let chaos = async {
        let cluster = chaos.await;
        over.store(true, Ordering::Relaxed);
        cluster
    };
    let writes = write_chain(&store, 1, || over.load(Ordering::Relaxed));
    let (_cluster, written, read) = tokio::join!(chaos, writes, read_chain(&store, start));
    assert_eq!(written, read);
}

#[tokio::test]
async fn a_write_that_hangs_is_applied_once() {
    let Some(cluster) = Cluster::start(3) else {
        return;
    };
    let store = connect(&cluster).await;
    let first = put(&store, "/k", "first").await;
    // The member that the store prefers takes the write and says nothing; it is sent again to
    // another. What the frozen one sends when it goes on is refused by its sequencer.
    let preferred = store.inner.members.preferred();
    cluster.freeze(preferred);
    let write = Transaction::new().when_revision("/k", first);
    let outcome = store.commit(write.put("/k", "second")).await;
    let Ok(Outcome::Applied(second)) = outcome else {
        panic!("{outcome:?}")
    };
    cluster.thaw(preferred);
    let third = Transaction::new().when_revision("/k", second);
    let outcome = store.commit(third.put("/k", "third")).await;
    assert!(matches!(outcome, Ok(Outcome::Applied(_))), "{outcome:?}");
    let last = store.get("/k").await.expect("readable");
    assert_eq!(last.expect("written").value, "third");
}

#[tokio::test]
async fn a_lease_is_kept_while_the_leader_of_etcd_dies() {
    let Some(cluster) = Cluster::start(3) else {
        return;
    };
    let store = connect(&cluster).await;
    let lease = store.lease(Duration::from_secs(8)).await.expect("a lease");
    let put = Transaction::new().put_leased("/k", "1", lease.id());
    store.commit(put).await.expect("written");
    let mut cluster = cluster;
    let leader = cluster.leader();
    cluster.kill(leader);
    for _ in 0..10 {
        lease.keep().await.expect("kept");
    }
    let entry = store.get("/k").await.expect("readable");
    assert_eq!(entry.and_then(|entry| entry.lease), Some(lease.id()));
}

#[tokio::test]
async fn compacted_history_is_a_gap() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let store = connect(&cluster).await;
    let start = store.scan("/").await.expect("listed").revision;
    let mut current = store.watch("/", start).await.expect("a watch");
    for value in ["1", "2", "3"] {
        put(&store, "/k", value).await;
        current.next().await.expect("an update");
    }
    cluster.compact();
    let mut late = store.watch("/", start).await.expect("a watch");
    let told = late.next().await;
    assert!(matches!(told, Err(Error::Gap)), "{told:?}");
    // Who scans again goes on from there, and who was up to date is not disturbed.
    let newest = store.scan("/").await.expect("listed").revision;
    let mut again = store.watch("/", newest).await.expect("a watch");
    put(&store, "/a", "1").await;
    for watch in [&mut again, &mut current] {
        let update = watch.next().await.expect("an update");
        assert_eq!(update.changes[0].key(), "/a");
    }
}

#[tokio::test]
async fn a_frozen_member_is_left() {
    let Some(cluster) = Cluster::start(3) else {
        return;
    };
    let store = connect(&cluster).await;
    let start = store.scan("/").await.expect("listed").revision;
    let mut watch = store.watch("/k", start).await.expect("a watch");
    put(&store, "/k", "1").await;
    watch.next().await.expect("an update");
    // It listens at the member that is frozen now, and the leader may be that one too.
    cluster.freeze(store.inner.members.preferred());
    let written = put(&store, "/k", "2").await;
    assert_eq!(watch.next().await.expect("an update").revision, written);
}

#[tokio::test]
async fn a_slow_disk_delays_and_loses_nothing() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let store = connect(&cluster).await;
    let start = store.scan("/").await.expect("listed").revision;
    let Some(_slow) = cluster.slow_disk(0, Duration::from_millis(700)) else {
        return;
    };
    let (written, read) = tokio::join!(write_chain(&store, 5, || true), read_chain(&store, start));
    assert_eq!(written, read);
}

#[tokio::test]
async fn a_full_etcd_is_named_with_its_cure() {
    let Some(cluster) = Cluster::start_with(Options {
        quota_bytes: Some(256 << 10),
        ..loopback(1)
    }) else {
        return;
    };
    let store = connect(&cluster).await;
    let text = "x".repeat(32 << 10);
    let full = loop {
        let put = Transaction::new().put("/big", &text);
        if let Err(error) = store.commit(put).await {
            break error;
        }
    };
    assert!(matches!(full, Error::Full(_)), "{full}");
    assert!(full.to_string().contains("etcdctl alarm disarm"), "{full}");
    let lease = store.lease(Duration::from_secs(2)).await;
    assert!(matches!(lease.err(), Some(Error::Full(_))));
    let entry = store.get("/big").await.expect("reads go on");
    assert_eq!(entry.map(|entry| entry.value), Some(text));

    cluster.compact();
    cluster.ctl(&["defrag"]).expect("defragmented");
    cluster.ctl(&["alarm", "disarm"]).expect("disarmed");
    put(&store, "/big", "1").await;
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let store = connect(&cluster).await;
    let long = Transaction::new().put("/long", &"x".repeat(3 << 20));
    let long = store.commit(long).await;
    assert!(matches!(long, Err(Error::TooLarge(_))), "{long:?}");
    let many = (0..200).fold(Transaction::new(), |many, number| {
        many.put(&format!("/many/{number}"), "1")
    });
    let many = store.commit(many).await;
    assert!(matches!(many, Err(Error::TooLarge(_))), "{many:?}");
    let left = store.scan("/").await.expect("listed").entries;
    assert_eq!(left, []);
}

#[tokio::test]
async fn accounts_are_checked_and_come_back() {
    let Some(mut cluster) = Cluster::start_with(Options {
        root_password: Some("secret".to_owned()),
        ..loopback(1)
    }) else {
        return;
    };
    cluster.add_user("heddle", "pw", PREFIX);
    cluster.add_user("other", "pw", "/other");
    let with = |account: Option<(&str, &str)>| Access {
        account: account.map(|(name, password)| (name.to_owned(), password.to_owned())),
        ..access(&cluster)
    };
    for account in [
        None,
        Some(("heddle", "wrong")),
        Some(("nobody", "pw")),
        Some(("other", "pw")),
    ] {
        let refused = error(with(account)).await;
        assert!(
            matches!(refused, Error::Credentials(_)),
            "{account:?}: {refused}"
        );
        assert!(
            refused.to_string().contains("check `etcd_user`"),
            "{refused}"
        );
    }
    let store = Etcd::connect(with(Some(("heddle", "pw"))))
        .await
        .expect("connected");
    let start = store.scan("/").await.expect("listed").revision;
    let mut watch = store.watch("/", start).await.expect("a watch");
    let lease = store.lease(Duration::from_secs(60)).await.expect("a lease");
    put(&store, "/k", "1").await;
    watch.next().await.expect("an update");
    // A member that starts again knows none of the tokens that it gave out.
    cluster.kill(0);
    cluster.restart(0);
    lease.keep().await.expect("kept");
    let put = Transaction::new().put_leased("/leased", "1", lease.id());
    store.commit(put).await.expect("written");
    let update = watch.next().await.expect("an update");
    assert_eq!(update.changes[0].key(), "/leased");
}

#[tokio::test]
async fn an_account_where_there_are_none_is_told() {
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    let account = Some(("heddle".to_owned(), "pw".to_owned()));
    let refused = error(Access {
        account,
        ..access(&cluster)
    })
    .await;
    assert!(
        refused
            .to_string()
            .contains("authentication is not enabled"),
        "{refused}"
    );
}

#[tokio::test]
async fn certificates_are_checked() {
    let authority = Authority::new("etcd");
    let Some(cluster) = Cluster::start_with(Options {
        certificate: Some(authority.sign("server", &["127.0.0.1"])),
        authority: Some(authority.file()),
        ..loopback(1)
    }) else {
        return;
    };
    let right = Access {
        authority: Some(authority.file()),
        ..access(&cluster)
    };
    Etcd::connect(right.clone()).await.expect("connected");

    let stranger = Authority::new("stranger");
    let wrong = Access {
        authority: Some(stranger.file()),
        ..right.clone()
    };
    let plain = Access {
        urls: vec![cluster.url(0).replace("https", "http")],
        ..right.clone()
    };
    let missing = Access {
        authority: Some(authority.dir().join("none.pem")),
        ..right.clone()
    };
    for (access, words) in [(wrong, "UnknownIssuer"), (missing, "none.pem")] {
        let refused = error(access).await.to_string();
        assert!(refused.contains(words), "{refused}");
        assert!(refused.contains("check `etcd_ca`"), "{refused}");
    }
    let refused = error(plain).await;
    assert!(matches!(refused, Error::Unreachable { .. }), "{refused}");
}

#[tokio::test]
async fn an_etcd_out_of_reach_is_named() {
    let closed = format!("http://127.0.0.1:{}", testkit::ports::free_port());
    let nowhere = Access {
        urls: vec![closed.clone()],
        prefix: PREFIX.to_owned(),
        account: None,
        authority: None,
        identity: None,
    };
    let refused = error(nowhere.clone()).await.to_string();
    assert!(
        refused.starts_with(&format!("cannot reach etcd at {closed}: ")),
        "{refused}"
    );
    assert!(
        refused.contains("refused") && refused.contains("client URLs"),
        "{refused}"
    );
    let Some(cluster) = Cluster::start(1) else {
        return;
    };
    // One member out of reach is no fault.
    let one_of_two = Access {
        urls: vec![closed, cluster.url(0).to_owned()],
        ..nowhere
    };
    Etcd::connect(one_of_two).await.expect("connected");
}

#[tokio::test]
async fn members_of_two_clusters_are_not_mixed() {
    let (Some(mut one), Some(two)) = (Cluster::start(1), Cluster::start(1)) else {
        return;
    };
    let mixed = Access {
        urls: vec![one.url(0).to_owned(), two.url(0).to_owned()],
        ..access(&one)
    };
    let store = Etcd::connect(mixed).await.expect("the first answers");
    one.kill(0);
    let read = store.get("/a").await;
    assert!(matches!(read, Err(Error::OtherCluster(_))), "{read:?}");
}
