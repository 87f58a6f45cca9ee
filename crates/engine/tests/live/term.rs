//! The term register on real servers: only the last leadership opens a server.

use std::time::Duration;

use crate::root::{MS, link};
use engine::{Error, exchange, term};
use testkit::{Client, Release, Server};

/// What is left of one that surely lives.
fn lease() -> Duration {
    Duration::from_secs(60)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, Error>) {
    assert!(matches!(outcome, Err(Error::Deposed { .. })), "{outcome:?}");
}

async fn only_the_last_leadership_opens(release: Release) {
    let Some(server) = Server::start_with(release, &[("read_only", "ON")]) else {
        return;
    };
    let mut client = server.client();
    let (mut one, mut two) = (link(&server).await, link(&server).await);
    assert_eq!(term::told(&mut one, MS).await, Ok(0));
    let unknown = term::open(&mut one, 5, lease, MS).await;
    refused(unknown);
    term::raise(&mut one, 5, MS).await.expect("raised");
    term::raise(&mut two, 5, MS).await.expect("said again");
    assert_eq!(
        client.value("SELECT @@global.init_slave"),
        "DO 0 /*heddle:5*/"
    );
    term::raise(&mut two, 17, MS).await.expect("raised");
    assert_eq!(term::told(&mut one, MS).await, Ok(17));

    refused(term::raise(&mut one, 5, MS).await);
    refused(term::open(&mut one, 5, lease, MS).await);
    assert_eq!(client.value("SELECT @@global.read_only"), "1");
    // Its lease was over when the statement came.
    refused(term::open(&mut two, 17, || Duration::ZERO, MS).await);
    assert_eq!(client.value("SELECT @@global.read_only"), "1");
    term::open(&mut two, 17, lease, MS).await.expect("opened");
    assert_eq!(client.value("SELECT @@global.read_only"), "0");
    // Who was replaced does not close what the other one opened.
    refused(term::open(&mut one, 5, lease, MS).await);
    assert_eq!(client.value("SELECT @@global.read_only"), "0");

    client.run("SET GLOBAL init_slave = 'SET @a = 1'");
    term::raise(&mut one, 18, MS).await.expect("raised");
    term::raise(&mut one, 190, MS).await.expect("raised");
    let text = "SET @a = 1/*heddle:190*/";
    assert_eq!(client.value("SELECT @@global.init_slave"), text);
    // The lock was let go each time, also after a failure.
    assert_eq!(client.value("SELECT IS_FREE_LOCK('heddle.term')"), "1");
}

/// Each statement of a link is checked by the server together with it.
async fn steps_of_a_leadership_end_with_it(release: Release) {
    let Some(server) = Server::start(release) else {
        return;
    };
    let mut client = server.client();
    let (mut one, mut two) = (link(&server).await, link(&server).await);
    term::act(&mut one, 5, MS).await.expect("it leads");
    let before = exchange::look(&mut one, MS).await.expect("it leads");
    assert!(!before.read_only && before.up_s.is_some(), "{before:?}");
    exchange::refuse_writes(&mut one, MS)
        .await
        .expect("it leads");
    assert_eq!(client.value("SELECT @@global.read_only"), "1");
    term::raise(&mut two, 6, MS).await.expect("raised");
    term::open(&mut two, 6, lease, MS).await.expect("opened");
    refused(exchange::look(&mut one, MS).await);
    refused(exchange::refuse_writes(&mut one, MS).await);
    refused(term::act(&mut one, 5, MS).await);
    assert_eq!(client.value("SELECT @@global.read_only"), "0");
    one.act_for_all();
    let now = exchange::look(&mut one, MS)
        .await
        .expect("anybody may look");
    assert!(!now.read_only);
}

async fn a_held_lock_is_told(release: Release) {
    let Some(server) = Server::start(release) else {
        return;
    };
    let mut client = server.client();
    client.value("SELECT GET_LOCK('heddle.term', 1)");
    let mut one = link(&server).await;
    let error = term::raise(&mut one, 5, MS).await.expect_err("held");
    assert!(error.to_string().contains("held the lock"), "{error}");
    assert_eq!(term::told(&mut one, MS).await, Ok(0));
    client.value("SELECT RELEASE_LOCK('heddle.term')");
    term::raise(&mut one, 5, MS).await.expect("raised");
    // Another account's connection does not keep a leader from its servers.
    client.run("CREATE USER app@'%' IDENTIFIED BY 'x'");
    let mut app = Client::connect(server.address(), "app", "x").expect("an account");
    assert_eq!(app.value("SELECT GET_LOCK('heddle.term', 1)"), "1");
    term::raise(&mut one, 6, MS).await.expect("raised");
    assert!(app.ping().is_err(), "its connection was ended");
}

#[tokio::test]
async fn mariadb_opens_for_the_last_leadership() {
    only_the_last_leadership_opens(Release::Installed).await;
    steps_of_a_leadership_end_with_it(Release::Installed).await;
    a_held_lock_is_told(Release::Installed).await;
}

#[tokio::test]
async fn mariadb_114_opens_for_the_last_leadership() {
    only_the_last_leadership_opens(Release::MariaDb114).await;
    steps_of_a_leadership_end_with_it(Release::MariaDb114).await;
}

#[tokio::test]
async fn mysql_opens_for_the_last_leadership() {
    only_the_last_leadership_opens(Release::MySql80).await;
    steps_of_a_leadership_end_with_it(Release::MySql80).await;
    a_held_lock_is_told(Release::MySql80).await;
}
