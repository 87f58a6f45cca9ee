//! The term register on real servers: only the last leadership opens a server.

use engine::{Error, Link, Login, term};
use testkit::{Release, Server};

const STEP_MS: u64 = 20_000;

async fn link(server: &Server) -> Link {
    let address = server.address();
    let login = Login {
        host: address.ip().to_string(),
        port: address.port(),
        user: "root".to_owned(),
        password: String::new(),
        tls: engine::LinkTls::Off,
    };
    Link::open(&login, STEP_MS)
        .await
        .expect("root has no password")
}

fn told(outcome: Result<(), Error>) -> Option<u64> {
    match outcome {
        Ok(()) => None,
        Err(Error::Deposed { told, .. }) => Some(told),
        Err(error) => panic!("{error}"),
    }
}

async fn only_the_last_leadership_opens(release: Release) {
    let Some(server) = Server::start_with(release, &[("read_only", "ON")]) else {
        return;
    };
    let mut client = server.client();
    let (mut one, mut two) = (link(&server).await, link(&server).await);
    assert_eq!(term::told(&mut one, STEP_MS).await, Ok(0));
    let unknown = term::open(&mut one, 5, STEP_MS).await;
    assert_eq!(told(unknown), Some(0), "nobody said that it may");
    term::raise(&mut one, 5, STEP_MS).await.expect("raised");
    term::raise(&mut two, 5, STEP_MS).await.expect("said again");
    assert_eq!(
        client.value("SELECT @@global.init_slave"),
        "DO 0 /*heddle:5*/"
    );
    term::raise(&mut two, 17, STEP_MS).await.expect("raised");
    assert_eq!(term::told(&mut one, STEP_MS).await, Ok(17));

    assert_eq!(told(term::raise(&mut one, 5, STEP_MS).await), Some(17));
    assert_eq!(told(term::open(&mut one, 5, STEP_MS).await), Some(17));
    assert_eq!(client.value("SELECT @@global.read_only"), "1");
    term::open(&mut two, 17, STEP_MS).await.expect("opened");
    assert_eq!(client.value("SELECT @@global.read_only"), "0");
    // Who was replaced does not close what the other one opened.
    assert_eq!(told(term::open(&mut one, 5, STEP_MS).await), Some(17));
    assert_eq!(client.value("SELECT @@global.read_only"), "0");

    client.run("SET GLOBAL init_slave = 'SET @a = 1'");
    term::raise(&mut one, 18, STEP_MS).await.expect("raised");
    term::raise(&mut one, 190, STEP_MS).await.expect("raised");
    let text = "SET @a = 1/*heddle:190*/";
    assert_eq!(client.value("SELECT @@global.init_slave"), text);
    // The lock was let go each time, also after a failure.
    assert_eq!(client.value("SELECT IS_FREE_LOCK('heddle.term')"), "1");
}

async fn a_held_lock_is_told(release: Release) {
    let Some(server) = Server::start(release) else {
        return;
    };
    let mut client = server.client();
    client.value("SELECT GET_LOCK('heddle.term', 1)");
    let mut one = link(&server).await;
    let error = term::raise(&mut one, 5, STEP_MS).await.expect_err("held");
    assert!(error.to_string().contains("held the lock"), "{error}");
    assert_eq!(term::told(&mut one, STEP_MS).await, Ok(0));
    client.value("SELECT RELEASE_LOCK('heddle.term')");
    term::raise(&mut one, 5, STEP_MS).await.expect("raised");
}

#[tokio::test]
async fn mariadb_opens_for_the_last_leadership() {
    only_the_last_leadership_opens(Release::Installed).await;
    a_held_lock_is_told(Release::Installed).await;
}

#[tokio::test]
async fn mariadb_114_opens_for_the_last_leadership() {
    only_the_last_leadership_opens(Release::MariaDb114).await;
}

#[tokio::test]
async fn mysql_opens_for_the_last_leadership() {
    only_the_last_leadership_opens(Release::MySql80).await;
    a_held_lock_is_told(Release::MySql80).await;
}
