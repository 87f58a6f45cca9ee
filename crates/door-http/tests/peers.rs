//! Routers of one farm that ask each other over real HTTP doors, on a farm without servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::peers::{Question, Secret};
use control::{
    Call, CommandError, Control, Credentials, Leads, NoSessions, Peer, PeerError, Peers, Roster,
    Settings,
};
use door_http::{Door, HttpPeers};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// One router: control plane and HTTP door.
struct House {
    peer: Peer,
    control: Arc<Control>,
    stops: [oneshot::Sender<()>; 2],
    tasks: [JoinHandle<()>; 2],
}

async fn house(slot: u8, store: Arc<dyn meta::Store>) -> House {
    let credentials = Credentials {
        user: "root".to_owned(),
        password: String::new(),
        replication_user: "root".to_owned(),
        replication_password: String::new(),
        tls: control::LinkTls::Off,
    };
    let empty = farm::Snapshot::empty("", Instant::now());
    let published = Arc::new(farm::Published::from_pointee(empty));
    let mut settings = Settings::new(credentials);
    settings.peers = Arc::new(HttpPeers);
    settings.peer_timeout_ms = 200;
    let control = Control::open(store, published, Arc::new(NoSessions), settings)
        .await
        .expect("a farm");
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let settings = door_http::Settings::new(listen, "");
    let door = Door::bind(settings, Arc::clone(&control), Arc::default(), Vec::new())
        .await
        .expect("a free port");
    let peer = peer(slot, door.address());
    let (stop_control, control_stops) = oneshot::channel::<()>();
    let (stop_door, door_stops) = oneshot::channel::<()>();
    let running = Arc::clone(&control).run(async {
        let _ = control_stops.await;
    });
    let serving = door.serve(async {
        let _ = door_stops.await;
    });
    House {
        peer,
        control,
        stops: [stop_door, stop_control],
        tasks: [tokio::spawn(serving), tokio::spawn(running)],
    }
}

fn peer(slot: u8, http: SocketAddr) -> Peer {
    Peer {
        slot,
        id: format!("life-{slot}"),
        name: format!("r{slot}"),
        http: http.to_string(),
        version: "0.1.0".to_owned(),
    }
}

impl House {
    /// This router knows of these others, and that one of them leads, or itself.
    fn knows(&self, others: &[&Peer], leads: Leads) {
        self.control.set_roster(Roster {
            own: self.peer.clone(),
            others: others.iter().map(|&peer| Arc::new(peer.clone())).collect(),
            leads,
        });
    }

    async fn end(self) {
        for (stop, task) in self.stops.into_iter().zip(self.tasks) {
            stop.send(()).expect("it waits for this");
            task.await.expect("no panic");
        }
    }
}

/// Two routers over one store; the second one leads.
async fn two() -> (House, House, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn meta::Store> = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
    let (one, two) = tokio::join!(house(1, Arc::clone(&store)), house(2, store));
    one.knows(&[&two.peer], Leads::Slot(2));
    two.knows(&[&one.peer], Leads::Here);
    (one, two, dir)
}

fn question(peer: &Peer, secret: Secret) -> Question {
    Question {
        peer: peer.clone(),
        secret,
        call: Call::new("manage", "ping", &[]),
        limit: Duration::from_millis(300),
    }
}

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
async fn routers_of_one_store_know_each_other_by_its_secret() {
    let (one, two, _dir) = two().await;
    let secret = one.control.secret();
    assert_eq!(secret.reveal().len(), 64);
    assert_eq!(secret, two.control.secret());
    let table = HttpPeers.ask(question(&two.peer, secret)).await;
    let table = table.expect("an answer");
    assert_eq!(table.columns[0], "farm_id");
    assert_eq!(table.rows.len(), 1);
    for wrong in ["", "wrong", "0"] {
        let denied = HttpPeers.ask(question(&two.peer, Secret::new(wrong))).await;
        let Err(PeerError::Strange(why)) = denied else {
            panic!("{denied:?}");
        };
        assert!(why.contains("401") && why.contains("secret"), "{why}");
    }
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn a_peer_may_be_called_by_a_name() {
    let (one, two, _dir) = two().await;
    let mut named = two.peer.clone();
    // A page's request by such a name would be refused.
    named.http = named.http.replace("127.0.0.1", "localhost.");
    if tokio::net::lookup_host(&named.http).await.is_ok() {
        let secret = one.control.secret();
        HttpPeers
            .ask(question(&named, secret))
            .await
            .expect("served");
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
    let secret = Secret::new("s");
    let ask = async |says: Option<&'static str>| {
        let asked = question(&peer(9, stranger(says).await), secret.clone());
        HttpPeers.ask(asked).await.expect_err("no answer")
    };
    let silent = ask(None).await;
    assert!(
        matches!(&silent, PeerError::Silent(why) if why.contains("300 ms")),
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
    let limit = Duration::from_millis(200);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let hangs = peer(1, address);
    assert!(!HttpPeers.is_gone(&hangs, limit).await);
    drop(listener);
    assert!(HttpPeers.is_gone(&hangs, limit).await);
    let asked = HttpPeers.ask(question(&hangs, Secret::new("s"))).await;
    assert_eq!(asked, Err(PeerError::Gone));
    let nowhere = Peer {
        http: "no such host:1".to_owned(),
        ..hangs
    };
    assert!(!HttpPeers.is_gone(&nowhere, limit).await);
    let asked = HttpPeers.ask(question(&nowhere, Secret::new("s"))).await;
    assert!(matches!(asked, Err(PeerError::Unreached(_))), "{asked:?}");
}
