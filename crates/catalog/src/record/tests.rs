//! Records as stores of all ages have them.

use super::samples::{records, server};
use super::*;

/// What a store is given that lacks it.
fn fresh(id: &str, secret: &str) -> Fresh {
    Fresh {
        id: id.to_owned(),
        secret: Secret::new(secret),
        authority: Secret::new(&format!("key of {secret}")),
    }
}

#[tokio::test]
async fn records_survive_the_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = meta::Embedded::open(dir.path()).expect("a store");
    let empty = Records::load(&store, &fresh("f1", "s1"))
        .await
        .expect("read");
    assert_eq!((&*empty.farm_id, empty.secret.reveal()), ("f1", "s1"));
    let again = Records::load(&store, &fresh("f2", "s2")).await;
    let again = again.expect("read");
    assert_eq!((&*again.farm_id, again.secret.reveal()), ("f1", "s1"));
    assert_eq!(again.authority.reveal(), "key of s1");
    // A store of a release that had no authority.
    let without = Transaction::new().delete(FARM_AUTHORITY);
    store.commit(without).await.expect("written");
    let newer = Records::load(&store, &fresh("f3", "s3")).await;
    let newer = newer.expect("read");
    assert_eq!((&*newer.farm_id, newer.secret.reveal()), ("f1", "s1"));
    assert_eq!(newer.authority.reveal(), "key of s3");
    assert!(!format!("{newer:?}").contains("key of s3"));

    let group = GroupRecord {
        description: "d".to_owned(),
        active: true,
        ..GroupRecord::default()
    };
    store
        .commit(empty.create_group("g", &group))
        .await
        .expect("written");
    let one = Records::read(&store).await.expect("read");
    let numbered = GroupRecord { number: 1, ..group };
    assert_eq!(one.groups["g"].value, numbered);

    let (id, add) = one.add_server(&server("g", 3307, Status::Primary));
    store.commit(add.clone()).await.expect("written");
    let two = Records::read(&store).await.expect("read");
    assert_eq!(two.servers[&id].value, server("g", 3307, Status::Primary));
    // The same addition again is stale: the id was given away.
    assert_eq!(
        store.commit(add).await.expect("answered"),
        meta::Outcome::Stale
    );
    let (next, _) = two.add_server(&server("g", 3308, Status::Replica));
    assert_eq!(next, id + 1);

    store.commit(two.remove_server(id)).await.expect("written");
    let three = Records::read(&store).await.expect("read");
    let (after_removal, _) = three.add_server(&server("g", 3309, Status::Replica));
    assert_eq!(after_removal, id + 1, "ids are never used again");
}

#[tokio::test]
async fn groups_of_an_older_store_get_numbers() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = meta::Embedded::open(dir.path()).expect("a store");
    Records::load(&store, &fresh("f1", "s1"))
        .await
        .expect("read");
    let old = Transaction::new()
        .put("/group/a", "{}")
        .put("/group/b", "{}");
    store.commit(old).await.expect("written");
    let records = Records::load(&store, &fresh("f1", "s1"))
        .await
        .expect("read");
    let numbers = |records: &Records| -> Vec<u32> {
        records.groups.values().map(|it| it.value.number).collect()
    };
    assert_eq!(numbers(&records), [1, 2]);
    let removed = records.remove_group("b");
    store.commit(removed).await.expect("written");
    let records = Records::load(&store, &fresh("f1", "s1"))
        .await
        .expect("read");
    let again = records.create_group("b", &GroupRecord::default());
    store.commit(again).await.expect("written");
    let records = Records::read(&store).await.expect("read");
    assert_eq!(numbers(&records), [1, 3], "never given again");
}

#[tokio::test]
async fn a_value_of_another_version_is_named() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = meta::Embedded::open(dir.path()).expect("a store");
    let odd = Transaction::new().put("/server/0000000001", "{\"uuid\":7}");
    store.commit(odd).await.expect("written");
    let error = Records::read(&store)
        .await
        .expect_err("unreadable")
        .to_string();
    assert!(
        error.contains("/server/0000000001") && error.contains("start the version"),
        "{error}"
    );
}

#[test]
fn differences_become_events() {
    let old = records(
        "g",
        &[
            server("g", 1, Status::Primary),
            server("g", 2, Status::Replica),
        ],
    );
    let mut new = records(
        "g",
        &[
            server("g", 1, Status::Replica),
            server("g", 2, Status::Primary),
        ],
    );
    new.servers.insert(
        9,
        Kept {
            value: server("g", 9, Status::Spare),
            revision: 2,
        },
    );
    let kinds = |new: &Records, old: &Records| {
        new.events_since(old)
            .iter()
            .map(|event| event.kind)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        kinds(&new, &old),
        [
            "status_changed",
            "mode_changed",
            "primary_changed",
            "server_added"
        ]
    );
    assert_eq!(kinds(&old, &old), Vec::<&str>::new());
    let empty = Records::default();
    assert_eq!(
        kinds(&empty, &old),
        ["server_removed", "server_removed", "group_destroyed"]
    );
}

#[test]
fn servers_are_found_by_uuid_address_and_name() {
    let records = records("g", &[server("g", 3307, Status::Primary)]);
    let find = |text: &str| records.find(text).map(|(id, _)| id);
    assert_eq!(find("00000000-0000-4000-8000-000000003307"), Some(1));
    assert_eq!(find("127.0.0.1:3307"), Some(1));
    assert_eq!(find("s3307"), Some(1));
    assert_eq!(find("3307"), None);
}

#[test]
fn the_mode_goes_with_the_standing() {
    let primary = server("g", 1, Status::Primary);
    let replica = server("g", 2, Status::Replica);
    let led = replica.after_change_of_primary(true);
    assert_eq!((led.status, led.mode), (Status::Primary, Mode::ReadWrite));
    let follows = primary.after_change_of_primary(false);
    assert_eq!(
        (follows.status, follows.mode),
        (Status::Replica, Mode::ReadOnly)
    );
    assert_eq!(replica.after_change_of_primary(false), replica);
    // What an operator chose stays: the mode of a primary that leads on, and that a server is offline.
    let quiet = ServerRecord {
        mode: Mode::WriteOnly,
        ..primary
    };
    assert_eq!(quiet.after_change_of_primary(true), quiet);
    let offline = ServerRecord {
        mode: Mode::Offline,
        ..replica
    };
    assert_eq!(offline.with_status(Status::Faulty).mode, Mode::Offline);
    assert_eq!(offline.with_status(Status::Primary).mode, Mode::ReadWrite);
}
