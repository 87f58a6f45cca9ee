//! What only the file can do: it outlives the process, is locked, full, damaged or foreign.

use super::*;

fn open(dir: &tempfile::TempDir) -> Embedded {
    Embedded::open(dir.path()).expect("a new file")
}

#[tokio::test]
async fn suite() {
    let dir = tempfile::tempdir().expect("a directory");
    crate::suite::run(&open(&dir)).await;
}

#[tokio::test]
async fn state_outlives_the_process() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let done = store
        .commit(Transaction::new().put("/farm/id", "\"f\""))
        .await;
    let Ok(Outcome::Applied(revision)) = done else {
        panic!("{done:?}")
    };
    drop(store);

    let store = open(&dir);
    let entry = store
        .get("/farm/id")
        .await
        .expect("readable")
        .expect("kept");
    assert_eq!((entry.value.as_str(), entry.revision), ("\"f\"", revision));
    // Revisions go on from where they were; a watch from before the restart has a gap.
    let mut watch = store.watch("/", revision - 1).await.expect("a watch");
    assert!(matches!(watch.next().await, Err(Error::Gap)));
    let next = store
        .commit(Transaction::new().put("/a", "1"))
        .await
        .expect("written");
    assert_eq!(next, Outcome::Applied(revision + 1));
}

#[tokio::test]
async fn leased_keys_of_a_process_that_died_are_gone() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let lease = store.lease(Duration::from_secs(3600)).await;
    let lease = lease.expect("a lease");
    let written = Transaction::new()
        .put_leased("/router/1", "{}", lease.id())
        .put("/farm/id", "\"f\"");
    let Ok(Outcome::Applied(written)) = store.commit(written).await else {
        panic!("not written")
    };
    drop((store, lease));

    let store = open(&dir);
    let listing = store.scan("/").await.expect("listed");
    let keys: Vec<&str> = listing.entries.iter().map(|one| &*one.key).collect();
    assert_eq!(keys, ["/farm/id"]);
    assert!(listing.revision > written, "the deletion is a change");
    drop(store);
    let again = open(&dir).scan("/").await.expect("listed");
    assert_eq!(
        again.revision, listing.revision,
        "nothing is left to delete"
    );
}

#[tokio::test]
async fn revisions_go_on_where_another_store_ended() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    store.raise_revisions(1000).await.expect("raised");
    store.raise_revisions(10).await.expect("nothing to do");
    let put = Transaction::new().put("/a", "1");
    let written = store.commit(put).await.expect("written");
    assert_eq!(written, Outcome::Applied(1001));
}

#[tokio::test]
async fn a_watch_that_lags_too_far_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let mut watch = store.watch("/", 0).await.expect("a watch");
    for revision in 1..=UPDATES_MAX as u64 + 1 {
        store.inner.remember(Update {
            revision,
            changes: vec![Change::Delete {
                key: "/x".to_owned(),
            }],
        });
    }
    assert!(matches!(watch.next().await, Err(Error::Gap)));
}

#[test]
fn a_second_process_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let _first = open(&dir);
    let error = Embedded::open(dir.path())
        .err()
        .expect("locked")
        .to_string();
    assert!(
        error.contains("in use by another process; stop the other heddle"),
        "{error}"
    );
}

#[test]
fn a_missing_directory_and_a_foreign_file_are_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let error = Embedded::open(&dir.path().join("none"))
        .err()
        .expect("refused")
        .to_string();
    assert!(
        error.contains("none/state.redb") && error.contains("make the directory"),
        "{error}"
    );

    std::fs::write(
        dir.path().join(FILE_NAME),
        "not a database, but long enough to be read",
    )
    .expect("written");
    let error = Embedded::open(dir.path())
        .err()
        .expect("refused")
        .to_string();
    assert!(error.contains("is damaged"), "{error}");
}

#[test]
fn a_full_disk_is_named_with_its_cure() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let failure = Failure(redb::Error::Io(full));
    let error = failure
        .describe("write", Path::new("/data/state.redb"))
        .to_string();
    assert!(
        error.contains("write /data/state.redb") && error.contains("free some"),
        "{error}"
    );
}

#[tokio::test]
async fn a_lent_file_is_another_ones_until_it_is_taken_back() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(&dir);
    let put = |key| Transaction::new().put(key, "1");
    let done = store.commit(put("/a")).await.expect("written");
    let Outcome::Applied(revision) = done else {
        panic!("{done:?}")
    };
    let mut watch = store.watch("/", revision).await.expect("a watch");
    store.lend().await.expect("closed");
    let error = store.commit(put("/b")).await.expect_err("lent");
    assert!(matches!(error, Error::Lent), "{error}");

    let other = open(&dir);
    let refused = store.reclaim().await.expect_err("in use");
    assert!(matches!(refused, Error::Locked(_)), "{refused}");
    assert!(store.get("/a").await.expect("remembered").is_some());
    other.commit(put("/c")).await.expect("written");

    // What the other one tells is seen here.
    store.learn(other.scan("/").await.expect("readable"));
    assert!(matches!(watch.next().await, Err(Error::Gap)));
    let told = store.scan("/c").await.expect("remembered");
    assert_eq!((told.entries.len(), told.revision), (1, revision + 1));
    let mut watch = store.watch("/", revision + 1).await.expect("a watch");
    other.commit(put("/d")).await.expect("written");
    drop(other);

    store.reclaim().await.expect("free again");
    store.reclaim().await.expect("once more does nothing");
    assert!(store.get("/c").await.expect("readable").is_some());
    assert!(matches!(watch.next().await, Err(Error::Gap)));
    let next = store.commit(put("/b")).await.expect("written");
    assert_eq!(next, Outcome::Applied(revision + 3));
    store.learn(told);
    assert!(
        store.get("/b").await.expect("readable").is_some(),
        "its own"
    );
}
