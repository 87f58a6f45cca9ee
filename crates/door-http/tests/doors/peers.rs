//! Routers of one farm that ask each other over real HTTP doors, on a farm without servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::routers::{House, LIMIT, SILENCE, house_of, in_clear, peer, question, two, two_of};
use catalog::{Call, CommandError, Table};
use control::{Leads, Membership, Peer, PeerError, Peers, Sessions, Settings};
use door_http::HttpPeers;
use farm::{Kill, Killed, Victim};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Somebody who listens, reads what comes and says this; `None` is silence.
async fn stranger(says: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut kept = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut question = [0; 4096];
            let _ = stream.read(&mut question).await;
            if let Some(says) = says {
                let _ = stream.write_all(says.as_bytes()).await;
            } else {
                kept.push(stream);
            }
        }
    });
    address
}

#[tokio::test]
async fn a_peer_may_be_called_by_a_name() {
    let (one, two, _dir) = two().await;
    let mut named = two.peer.clone();
    // A page's request by such a name would be refused.
    named.http = named.http.replace("127.0.0.1", "localhost.");
    if tokio::net::lookup_host(&named.http).await.is_ok() {
        let asked = question(&named, one.way());
        HttpPeers.ask(asked).await.expect("served");
    }
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn what_only_the_leader_does_is_done_there() {
    let (one, two, _dir) = two().await;
    let create = Call::new("group", "create", &["g1"]);
    let table = one.control.execute(create.clone()).await.expect("made");
    assert_eq!(table.columns, ["uuid", "finished", "success", "result"]);
    assert!(
        two.control.snapshot().group("g1").is_some(),
        "the leader has done it"
    );
    // The leader's own refusal comes back as it is.
    let none = Call::new("group", "destroy", &["none"]);
    let again = one.control.execute(none).await;
    assert!(matches!(&again, Err(CommandError::Refused(_))), "{again:?}");
    // One that does not lead any more passes nothing on.
    two.knows(&[&one.peer], Leads::Slot(1));
    let error = one.control.execute(create).await.expect_err("refused");
    assert!(
        error.to_string().contains("leads the farm no more"),
        "{error}"
    );
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn a_leader_that_does_not_answer_is_named() {
    let (one, two, _dir) = two().await;
    let create = || one.control.execute(Call::new("group", "create", &["g2"]));
    one.knows(&[&two.peer], Leads::Nobody);
    let error = create().await.expect_err("nobody leads").to_string();
    assert!(error.contains("no router leads"), "{error}");

    let gone = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = gone.local_addr().expect("bound");
    drop(gone);
    let dead = peer(3, address);
    one.knows(&[&dead], Leads::Slot(3));
    let error = create().await.expect_err("gone").to_string();
    assert!(
        error.contains("r3") && error.contains("nothing was done"),
        "{error}"
    );

    // It hangs until another one leads; then nobody knows what it did.
    let hung = peer(4, stranger(None).await);
    one.knows(&[&hung], Leads::Slot(4));
    let moved = async {
        tokio::task::yield_now().await;
        one.knows(&[&two.peer], Leads::Slot(2));
    };
    let (answer, ()) = tokio::join!(create(), moved);
    let error = answer.expect_err("moved").to_string();
    assert!(
        error.contains("r4") && error.contains("may have been done"),
        "{error}"
    );
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn strangers_are_told_from_peers() {
    let ask = async |says: Option<&'static str>| {
        let mut asked = question(&peer(9, stranger(says).await), in_clear("s"));
        if says.is_none() {
            asked.limit = SILENCE;
        }
        HttpPeers.ask(asked).await.expect_err("no answer")
    };
    let silent = ask(None).await;
    let within = format!("{} ms", SILENCE.as_millis());
    assert!(
        matches!(&silent, PeerError::Silent(why) if why.contains(&within)),
        "{silent:?}"
    );
    let garbage = ask(Some("SSH-2.0-OpenSSH_9.2\r\n")).await;
    assert!(matches!(garbage, PeerError::Silent(_)), "{garbage:?}");
    let cut = ask(Some("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")).await;
    assert!(matches!(cut, PeerError::Silent(_)), "{cut:?}");
    let page = ask(Some("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")).await;
    assert!(matches!(page, PeerError::Strange(_)), "{page:?}");
    let newer = "HTTP/1.1 200 OK\r\nContent-Length: 24\r\n\r\n{\"protocol\":9,\"table\":7}";
    let newer = ask(Some(newer)).await;
    assert!(
        matches!(&newer, PeerError::Strange(why) if why.contains("form 9")),
        "{newer:?}"
    );
}

#[tokio::test]
async fn only_a_refused_connection_is_a_gone_process() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let hangs = peer(1, address);
    assert!(!control::is_gone(&hangs.http, SILENCE).await);
    drop(listener);
    assert!(control::is_gone(&hangs.http, LIMIT).await);
    let asked = HttpPeers.ask(question(&hangs, in_clear("s"))).await;
    assert_eq!(asked, Err(PeerError::Gone));
    let nowhere = Peer {
        http: "no such host:1".to_owned(),
        ..hangs
    };
    assert!(!control::is_gone(&nowhere.http, SILENCE).await);
    let mut asked = question(&nowhere, in_clear("s"));
    asked.limit = SILENCE;
    let asked = HttpPeers.ask(asked).await;
    assert!(matches!(asked, Err(PeerError::Unreached(_))), "{asked:?}");
}

/// The cells of a column.
fn column(table: &Table, name: &str) -> Vec<Value> {
    let at = table.columns.iter().position(|column| column == name);
    let at = at.unwrap_or_else(|| panic!("no column {name}: {:?}", table.columns));
    table.rows.iter().map(|row| row[at].clone()).collect()
}

/// How long a router waits for one that is silent, and for one that answers.
const BOTH_MS: u64 = 5000;

#[tokio::test]
async fn sessions_are_listed_and_ended_over_all_routers() {
    let within = |settings: &mut Settings, _| settings.peers.peer_timeout_ms = BOTH_MS;
    let (one, two, _dir) = two_of(within).await;
    let silent = peer(3, stranger(None).await);
    one.knows(&[&two.peer, &silent], Leads::Slot(2));
    assert_eq!(one.clients.slots.lock().expect("no panic")[..], [1, 1]);
    let ids = [1 << 24 | 1, 2 << 24 | 1, 2 << 24 | 2];
    one.clients
        .now
        .lock()
        .expect("no panic")
        .push((ids[0], "a"));
    for id in &ids[1..] {
        two.clients.now.lock().expect("no panic").push((*id, "b"));
    }
    let list = async |house: &House, args: &[&str]| {
        let call = Call::new("session", "list", args);
        house.control.execute(call).await
    };
    let all = list(&one, &[]).await.expect("a list");
    let routers = column(&all, "router");
    assert_eq!(routers, ["r1", "r2", "r2", "r3"]);
    assert_eq!(column(&all, "id")[..3], ids);
    let state = column(&all, "state")[3].to_string();
    let unreached = format!("cannot be reached (within {BOTH_MS} ms)");
    assert!(state.contains(&unreached), "{state}");
    // One of them, by name; and only the asked one.
    let of_two = list(&one, &["r2"]).await.expect("a list");
    assert_eq!(column(&of_two, "id"), ids[1..]);
    let own = list(&one, &["", "true"]).await.expect("a list");
    assert_eq!(column(&own, "router"), ["r1"]);
    let error = list(&one, &["r3"]).await.expect_err("silent").to_string();
    assert!(
        error.contains("router r3") && error.contains("cannot be reached"),
        "{error}"
    );
    let error = list(&one, &["r9"]).await.expect_err("unknown").to_string();
    assert!(error.contains("r1, r2, r3"), "{error}");

    let kill = async |id: u32| {
        let call = Call::new("session", "kill", &[&id.to_string()]);
        one.control.execute(call).await
    };
    kill(ids[1]).await.expect("ended there");
    assert_eq!(two.clients.list().len(), 1);
    let error = kill(ids[1]).await.expect_err("gone").to_string();
    assert!(error.contains("no router has a session"), "{error}");
    let error = kill(3 << 24 | 1).await.expect_err("silent").to_string();
    assert!(error.contains("router r3"), "{error}");

    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn statistics_are_of_all_routers() {
    let (one, two, _dir) = two().await;
    two.clients.now.lock().expect("no panic").push((5, "b"));
    let list = Call::new("statistics", "list", &["log%"]);
    let table = one.control.execute(list).await.expect("a list");
    assert_eq!(column(&table, "router"), ["r1", "r2"]);
    assert_eq!(column(&table, "name"), ["logins", "logins"]);
    assert_eq!(column(&table, "value"), [0, 1]);
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn what_sessions_ask_of_peers() {
    let (one, two, _dir) = two().await;
    let id: u32 = 2 << 24 | 2;
    two.clients.now.lock().expect("no panic").push((id, "b"));
    let (tell, told) = oneshot::channel();
    let commander = one.control.commander();
    assert!(!commander.is_alone());
    commander.sessions_elsewhere(Box::new(|all| tell.send(all).expect("awaited")));
    let elsewhere = told.await.expect("answered");
    let sessions = elsewhere[0].sessions.as_ref().expect("its sessions");
    assert_eq!((sessions[0].id, sessions[0].running), (id, Some((1, 2))));
    let everybody = |only: Option<&str>| Kill {
        spares_system: false,
        victim: Victim::User {
            user: "b".to_owned(),
            host: "%".to_owned(),
        },
        query: false,
        soft: false,
        only: only.map(str::to_owned),
    };
    for (only, expected) in [
        (Some("a"), Ok(Killed::Foreign(id))),
        (Some("b"), Ok(Killed::Sessions(1))),
        (None, Ok(Killed::Sessions(0))),
    ] {
        let (tell, told) = oneshot::channel();
        let reply = Box::new(|killed| tell.send(killed).expect("awaited"));
        commander.kill_elsewhere(everybody(only), reply);
        assert_eq!(told.await.expect("answered"), expected, "{only:?}");
    }
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn only_peers_ask_what_is_for_peers() {
    let (one, two, _dir) = two().await;
    for command in ["sessions", "kill"] {
        let error = one
            .control
            .execute(Call::new("peer", command, &["{}"]))
            .await;
        let error = error.expect_err("no command").to_string();
        assert!(error.contains("no command group"), "{error}");
    }
    let mut asked = question(&two.peer, one.way());
    for (command, args) in [("kill", &["garbage"][..]), ("kill", &[]), ("dance", &[])] {
        asked.call = Call::new("peer", command, args);
        let error = HttpPeers.ask(asked.clone()).await.expect_err("refused");
        assert!(
            matches!(error, PeerError::Command(CommandError::Usage(_))),
            "{error:?}"
        );
    }
    one.end().await;
    two.end().await;
}

/// Waits until the router is registered and knows of so many others.
async fn registered(house: &House, others: usize) {
    let mut roster = house.control.watch_roster();
    let known = roster.wait_for(|it| it.own.slot != 0 && it.others.len() == others);
    let limit = Duration::from_secs(60);
    let known = tokio::time::timeout(limit, known).await;
    known.expect("in time").expect("the router runs");
}

/// A login of `app@%`, whose limit is this, as a session asks for its permit.
async fn log_in(house: &House, limit: u32) -> bool {
    let commander = house.control.commander();
    let permits = commander.permits().expect("the farm has several routers");
    while !permits.take("app@%") {
        let (tell, told) = oneshot::channel();
        let reply = Box::new(|brought| tell.send(brought).expect("awaited"));
        commander.permit("app@%".to_owned(), limit, reply);
        if !told.await.expect("answered") {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn limits_hold_over_all_routers() {
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn meta::Store> = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
    let member = |name: &'static str| {
        move |settings: &mut Settings, http: SocketAddr| {
            settings.membership = Some(Membership::new(name, &http.to_string(), "-"));
        }
    };
    let one = house_of(1, Arc::clone(&store), member("r1")).await;
    let two = house_of(2, Arc::clone(&store), member("r2")).await;
    registered(&one, 1).await;
    registered(&two, 1).await;
    // All together as many as the limit says, however they are spread.
    let mut there = [0_u32; 2];
    for round in 0..12 {
        let (at, house) = if round % 3 == 0 { (0, &one) } else { (1, &two) };
        there[at] += u32::from(log_in(house, 10).await);
    }
    assert_eq!(there, [4, 6]);
    assert!(!log_in(&one, 10).await && !log_in(&two, 10).await);
    // A place that comes free on one router serves the other.
    let permits = |house: &House| {
        let commander = house.control.commander();
        Arc::clone(commander.permits().expect("several routers"))
    };
    permits(&two).leave("app@%");
    assert!(log_in(&one, 10).await, "given back at once");
    assert!(!log_in(&two, 10).await);
    // Logins at the same moment do not pass the limit either.
    for _ in 0..5 {
        permits(&one).leave("app@%");
    }
    let all = tokio::join!(
        log_in(&one, 10),
        log_in(&two, 10),
        log_in(&one, 10),
        log_in(&two, 10),
        log_in(&one, 10),
        log_in(&two, 10),
        log_in(&one, 10),
        log_in(&two, 10),
    );
    let all = [all.0, all.1, all.2, all.3, all.4, all.5, all.6, all.7];
    let held = permits(&one).held("app@%") + permits(&two).held("app@%");
    assert!(held <= 10, "{held}");
    assert_eq!(all.iter().filter(|got| **got).count(), 5, "{all:?}");
    // What a router had that is gone is everybody's.
    let had = permits(&two).held("app@%");
    assert!(had > 0);
    two.end().await;
    registered(&one, 0).await;
    for _ in 0..had {
        assert!(log_in(&one, 10).await);
    }
    assert!(!log_in(&one, 10).await);
    one.end().await;
}
