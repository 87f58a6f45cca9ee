//! What is taken from an account is taken from its memcached clients, too, those that are logged in
//! and those whose keys stand in a cache.

use std::time::Duration;

use testkit::raw::Raw;
use testkit::{Farm, Release, Server, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn login(farm: &Farm) -> Raw {
    let mut last = None;
    wait_until(PATIENCE, "the account is known", || {
        let mut raw = Raw::connect(farm.kv);
        raw.say("set auth 0 0 8\r\nu secret\r\n");
        let is_in = raw.line() == "STORED";
        last = Some(raw);
        is_in
    });
    last.expect("it is logged in")
}

/// Asks for the key until the answer is another one than its row.
#[track_caller]
fn loses(raw: &mut Raw) -> String {
    let mut said = String::new();
    // Accounts are read every second.
    wait_until(PATIENCE, "another answer than the row", || {
        raw.say("get k\r\n");
        said = raw.line();
        let answers = said.starts_with("VALUE");
        if answers {
            raw.hears("1\r\nEND\r\n");
        }
        !answers
    });
    said
}

fn farm() -> Option<(Farm, Server)> {
    let server = Server::start(Release::Installed)?;
    let farm = Farm::serve(&[]);
    farm.json(&["group", "create", "g"]);
    farm.json(&["group", "add", "g", &server.address().to_string()]);
    let mut root = server.client();
    root.run("CREATE DATABASE d");
    root.run("CREATE TABLE d.t (k VARCHAR(50) PRIMARY KEY, v VARCHAR(50))");
    root.run("INSERT INTO d.t VALUES ('k', '1')");
    farm.make_container("default --table=d.t --key=k --values=v");
    Some((farm, server))
}

/// The changes are made past the router, which has to find them by itself.
#[test]
fn what_an_account_loses_its_clients_lose() {
    let Some((farm, server)) = farm() else { return };
    let mut root = server.client();
    let lacks = "CLIENT_ERROR the account lacks the right for this on container default";
    let gone = "CLIENT_ERROR the account was changed; connect again";
    for (grant, loss, said) in [
        (
            "GRANT SELECT ON d.t TO u@'%'",
            "REVOKE SELECT ON d.t FROM u@'%'",
            lacks,
        ),
        (
            "GRANT SELECT (k, v) ON d.t TO u@'%'",
            "REVOKE SELECT (v) ON d.t FROM u@'%'",
            lacks,
        ),
        (
            "GRANT SELECT ON d.* TO u@'%'",
            "REVOKE SELECT ON d.* FROM u@'%'",
            lacks,
        ),
        (
            "GRANT SELECT ON *.* TO u@'%'",
            "REVOKE SELECT ON *.* FROM u@'%'",
            lacks,
        ),
        (
            "GRANT SELECT ON *.* TO u@'%'",
            "ALTER USER u@'%' ACCOUNT LOCK",
            gone,
        ),
        (
            "GRANT SELECT ON *.* TO u@'%'",
            "ALTER USER u@'%' IDENTIFIED BY 'other'",
            gone,
        ),
        ("GRANT SELECT ON *.* TO u@'%'", "DROP USER u@'%'", gone),
    ] {
        root.run("CREATE OR REPLACE USER u@'%' IDENTIFIED BY 'secret'");
        root.run(grant);
        let mut raw = login(&farm);
        wait_until(PATIENCE, "the rights are known", || {
            raw.say("get k\r\n");
            let known = raw.line().starts_with("VALUE");
            if known {
                raw.hears("1\r\nEND\r\n");
            } else {
                raw = login(&farm);
            }
            known
        });
        root.run(loss);
        assert_eq!(loses(&mut raw), said, "{loss}");
        if said == gone {
            raw.is_closed();
        } else {
            // What was lost can be given again.
            root.run(grant);
            wait_until(PATIENCE, "it may again", || {
                raw.say("get k\r\n");
                let may = raw.line().starts_with("VALUE");
                if may {
                    raw.hears("1\r\nEND\r\n");
                }
                may
            });
        }
    }
}

/// A key that a cache has is not given to who may not read its row any more.
#[test]
fn a_cache_does_not_answer_for_what_was_lost() {
    let Some((farm, server)) = farm() else { return };
    let dropped = farm.command(&["kv", "drop", "default"]);
    assert!(dropped.status.success());
    farm.make_container("default --table=d.t --key=k --values=v --cache_bytes=64000000");
    let mut root = server.client();
    root.run("CREATE USER u@'%' IDENTIFIED BY 'secret'");
    root.run("GRANT SELECT ON d.t TO u@'%'");
    let mut raw = login(&farm);
    let mut other = Raw::connect(farm.kv);
    other.asks("set auth 0 0 5\r\nroot \r\n", "STORED\r\n");
    for _ in 0..20 {
        other.asks("get k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
        raw.asks("get k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
    }
    root.run("REVOKE SELECT ON d.t FROM u@'%'");
    let lacks = "CLIENT_ERROR the account lacks the right for this on container default";
    assert_eq!(loses(&mut raw), lacks);
    other.asks("get k\r\n", "VALUE k 0 1\r\n1\r\nEND\r\n");
}
