//! TLS between routers over real sockets: who is taken for a router of the farm and who is not, and what both
//! ends say then.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::routers::{House, SILENCE, house, house_of, in_clear, peer, question, two};
use catalog::Call;
use channel::{Authority, CLOCK_ALLOWANCE, ClientConfig, Mutual, ServerConfig, ServerTls, Trust};
use control::peers::{TLS_NAME, Way};
use control::{Leads, Peer, PeerError, Peers};
use door_http::HttpPeers;
use door_http::client::Place;
use meta::Transaction;
use rustls::client::ResolvesClientCert;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{AlertDescription, SignatureScheme};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};

const HOUR: Duration = Duration::from_secs(3600);

/// What a test waits for comes sooner.
const PATIENCE: Duration = Duration::from_secs(60);

const AUTHORITY: &str = "/farm/authority";

/// The private key of the farm's authority, from its store.
async fn key_of(house: &House) -> String {
    let kept = house.store.get(AUTHORITY).await.expect("a store");
    let kept = kept.expect("each farm has one");
    let record: Value = serde_json::from_str(&kept.value).expect("JSON");
    record["key"].as_str().expect("PEM").to_owned()
}

/// A certificate of this authority, as a router makes it whose clock says so.
fn made(key: &str, name: &str, now: SystemTime) -> Mutual {
    let authority = Authority::from_key(key).expect("a key");
    authority.sign(name, now).expect("signed")
}

/// What a router answers to one who shows this.
async fn answer(house: &House, config: &Arc<ClientConfig>) -> Result<(), PeerError> {
    let asked = question(&house.peer, Way::Tls(Arc::clone(config)));
    HttpPeers.ask(asked).await.map(drop)
}

/// What one router answers to the other now.
async fn answer_of(asking: &House, asked: &House) -> Result<(), PeerError> {
    let asked = question(&asked.peer, asking.way());
    HttpPeers.ask(asked).await.map(drop)
}

/// Why it is no router of the farm.
#[track_caller]
fn strange(answer: Result<(), PeerError>) -> String {
    match answer {
        Err(PeerError::Strange(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// Why this router asks nothing of an impostor with this.
async fn refusal(one: &House, config: Arc<ServerConfig>) -> String {
    let address = impostor(config).await;
    let asked = HttpPeers.ask(question(&peer(9, address), one.way())).await;
    strange(asked.map(drop))
}

/// Somebody who takes TLS with this at an address, and no more.
async fn impostor(config: Arc<ServerConfig>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(config);
        while let Ok((stream, _)) = listener.accept().await {
            // The other end says what it thinks of it.
            let _ = acceptor.accept(stream).await;
        }
    });
    address
}

#[tokio::test]
async fn routers_of_one_store_know_each_other_by_its_authority() {
    let (one, two, _dir) = two().await;
    assert!(key_of(&one).await.contains("PRIVATE KEY"));
    let table = HttpPeers.ask(question(&two.peer, one.way())).await;
    let table = table.expect("an answer");
    assert_eq!(table.columns[0], "farm_id");
    assert_eq!(table.rows.len(), 1);
    // What is shown is made once, and not for each question.
    let again = [&one, &one].map(|house| house.control.mutual().expect("a certificate"));
    assert!(Arc::ptr_eq(&again[0], &again[1]));
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn a_router_of_another_farm_is_no_peer() {
    let (one, two, _dir) = two().await;
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn meta::Store> = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
    let foreign = house(1, store).await;
    // Each end finds out by itself: the asking one first, since the asked one shows its certificate first.
    let why = HttpPeers.ask(question(&two.peer, foreign.way())).await;
    let why = strange(why.map(drop));
    assert!(why.contains("not of this farm's authority"), "{why}");
    // One that takes everybody for a router of its farm.
    let trusting = Trust::new(ServerTls::Required, None).expect("no files");
    let mut config = (*trusting.config).clone();
    let shown = foreign.control.mutual().expect("a certificate");
    config.client_auth_cert_resolver = Arc::clone(&shown.client.client_auth_cert_resolver);
    let why = strange(answer(&two, &Arc::new(config)).await);
    assert!(
        why.contains("does not take this router's certificate (UnknownCA)"),
        "{why}"
    );
    for house in [one, two, foreign] {
        house.end().await;
    }
}

/// Shows this, whoever asks.
#[derive(Debug)]
struct Shows(Arc<CertifiedKey>);

impl ResolvesClientCert for Shows {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// A certificate that signed itself, for the right name.
fn self_signed() -> (rcgen::Certificate, PrivateKeyDer<'static>) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let parameters = rcgen::CertificateParams::new([TLS_NAME.to_owned()]).expect("a name");
    let certificate = parameters.self_signed(&key).expect("signed");
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    (certificate, key.into())
}

#[tokio::test]
async fn who_shows_no_certificate_or_its_own_is_refused() {
    let (one, two, _dir) = two().await;
    let trusting = Trust::new(ServerTls::Required, None).expect("no files");
    let why = strange(answer(&two, &trusting.config).await);
    assert!(why.contains("(CertificateRequired)"), "{why}");

    let (certificate, key) = self_signed();
    let provider = rustls::crypto::ring::default_provider();
    let chain = vec![certificate.der().clone()];
    let shown = CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider).expect("a pair");
    let mut config = (*trusting.config).clone();
    config.client_auth_cert_resolver = Arc::new(Shows(Arc::new(shown)));
    let why = strange(answer(&two, &Arc::new(config)).await);
    assert!(why.contains("does not take this router's"), "{why}");

    // The same as the asked end.
    let config = ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a pair");
    let why = refusal(&one, Arc::new(config)).await;
    assert!(why.contains("not of this farm's authority"), "{why}");
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn a_certificate_of_the_farm_for_something_else_is_refused() {
    let (one, two, _dir) = two().await;
    let other = made(&key_of(&one).await, "other.internal", SystemTime::now());
    let why = refusal(&one, Arc::clone(&other.server)).await;
    assert!(why.contains("not of this farm's authority"), "{why}");
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn clocks_may_differ_by_a_day_and_not_by_more() {
    let (one, two, _dir) = two().await;
    let key = key_of(&one).await;
    let now = SystemTime::now();
    let within = CLOCK_ALLOWANCE - HOUR;
    for at in [now - within, now + within] {
        let early = made(&key, TLS_NAME, at);
        answer(&two, &early.client).await.expect("near enough");
    }
    // A certificate is used for a day, so one that was made two days ago and an hour is at its end.
    let expired = now - 2 * CLOCK_ALLOWANCE - HOUR;
    let unborn = now + CLOCK_ALLOWANCE + HOUR;
    for at in [expired, unborn] {
        let off = made(&key, TLS_NAME, at);
        let why = strange(answer(&two, &off.client).await);
        assert!(
            why.contains("this router's certificate is not valid at its time")
                && why.contains("24 hours"),
            "{why}"
        );
        let why = refusal(&one, Arc::clone(&off.server)).await;
        assert!(
            why.contains("its certificate is not valid at this router's time"),
            "{why}"
        );
    }
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn who_breaks_off_or_speaks_no_tls_was_asked_nothing() {
    let (one, two, _dir) = two().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let nobody = peer(9, listener.local_addr().expect("bound"));
    let mut asked = question(&nobody, one.way());
    asked.limit = SILENCE;
    let silent = HttpPeers.ask(asked).await;
    let within = format!("within {} ms", SILENCE.as_millis());
    assert_eq!(silent, Err(PeerError::Unreached(within)));
    let takes = async |says: &'static [u8]| {
        let (mut stream, _) = listener.accept().await.expect("asked");
        let mut hello = [0; 4096];
        let read = stream.read(&mut hello).await.expect("asked");
        // The name is the only thing that is read on the way.
        assert!(read > 0 && !hello.windows(5).any(|it| it == b"POST "));
        stream.write_all(says).await.expect("taken");
    };
    // The question that nobody took.
    drop(listener.accept().await);
    let asked = HttpPeers.ask(question(&nobody, one.way()));
    let (cut, ()) = tokio::join!(asked, takes(b""));
    assert!(
        matches!(&cut, Err(PeerError::Unreached(why)) if why.contains("TLS began")),
        "{cut:?}"
    );
    let asked = HttpPeers.ask(question(&nobody, one.way()));
    let (plain, ()) = tokio::join!(asked, takes(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    let why = strange(plain.map(drop));
    assert!(why.contains("speaks no TLS"), "{why}");
    one.end().await;
    two.end().await;
}

/// Shows the farm's secret as older releases do.
async fn shows_secret(house: &House) -> (u16, String) {
    let secret = house.control.secret();
    let bearer = format!("Bearer {}", secret.reveal());
    let asked = br#"{"protocol":1,"call":{"group":"manage","command":"ping"}}"#;
    let place = Place::of(&house.peer.http);
    let headers = [("authorization", bearer)];
    let answer = place.post("/v1/peer", &headers, asked.to_vec(), None).await;
    let (status, body) = answer.expect("an answer");
    (status, String::from_utf8(body.to_vec()).expect("text"))
}

#[tokio::test]
async fn the_secret_in_clear_opens_nothing() {
    let (one, two, _dir) = two().await;
    let (status, body) = shows_secret(&two).await;
    assert_eq!(status, 401, "{body}");
    assert!(
        body.contains("inside TLS") && body.contains("peers_in_clear"),
        "{body}"
    );
    // An older release's question has the same answer.
    let secret = one.control.secret();
    let asked = question(&two.peer, Way::InClear(secret));
    let why = strange(HttpPeers.ask(asked).await.map(drop));
    assert!(why.contains("401"), "{why}");
    // The setting alone opens nothing either, while all routers that live do better.
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn meta::Store> = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
    let third = house_of(3, store, |settings, _| settings.peers.peers_in_clear = true).await;
    third.knows(&[&one.peer], Leads::Here);
    let (status, body) = shows_secret(&third).await;
    assert_eq!(status, 401, "{body}");
    for house in [one, two, third] {
        house.end().await;
    }
}

/// The registration of a router of an older release.
fn older(peer: &Peer) -> Peer {
    Peer {
        tls: false,
        version: "0.0.9".to_owned(),
        ..peer.clone()
    }
}

#[tokio::test]
async fn an_older_release_is_spoken_to_in_clear_where_that_is_allowed() {
    let dir = tempfile::tempdir().expect("a directory");
    let store: Arc<dyn meta::Store> = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
    let strict = house(1, Arc::clone(&store)).await;
    let allowing = |settings: &mut control::Settings, _| settings.peers.peers_in_clear = true;
    let lenient = house_of(2, Arc::clone(&store), allowing).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let old = older(&peer(3, listener.local_addr().expect("bound")));

    let list = |house: &House| {
        let control = Arc::clone(&house.control);
        async move { control.execute(Call::new("session", "list", &["r3"])).await }
    };
    strict.knows(&[&old], Leads::Here);
    let error = list(&strict).await.expect_err("not asked").to_string();
    assert!(
        error.contains("0.0.9") && error.contains("peers_in_clear"),
        "{error}"
    );
    lenient.knows(&[&old], Leads::Here);
    let heard = async {
        // Nobody else was there before.
        let (mut stream, _) = listener.accept().await.expect("asked");
        let mut question = vec![0; 4096];
        let read = stream.read(&mut question).await.expect("a question");
        question.truncate(read);
        String::from_utf8(question).expect("in clear")
    };
    let (heard, _) = tokio::join!(heard, list(&lenient));
    let secret = lenient.control.secret();
    assert!(
        heard.starts_with("POST /v1/peer ") && heard.contains(secret.reveal()),
        "{heard}"
    );
    // The other way round.
    assert_eq!(shows_secret(&lenient).await.0, 200);
    assert_eq!(shows_secret(&strict).await.0, 401);
    // A router that does better is asked inside TLS all the same.
    lenient.knows(&[&old, &strict.peer], Leads::Here);
    let call = Call::new("session", "list", &["r1"]);
    lenient.control.execute(call).await.expect("an answer");
    strict.end().await;
    lenient.end().await;
}

#[tokio::test]
async fn clients_do_not_get_in_by_the_peers_name() {
    let (one, two, _dir) = two().await;
    let trusting = Trust::new(ServerTls::Required, None).expect("no files");
    let knock = async |name: &'static str, config: Arc<ClientConfig>| {
        let stream = TcpStream::connect(&two.peer.http)
            .await
            .expect("it listens");
        let name = ServerName::try_from(name).expect("a name");
        let mut stream = TlsConnector::from(config).connect(name, stream).await?;
        let asked = b"GET /v1/farm HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(asked).await?;
        let mut said = String::new();
        stream.read_to_string(&mut said).await?;
        io::Result::Ok(said)
    };
    // This door has no certificate for clients.
    let error = knock("localhost", Arc::clone(&trusting.config)).await;
    let error = error.expect_err("no TLS").into_inner().expect("of TLS");
    let alert = rustls::Error::AlertReceived(AlertDescription::UnrecognisedName);
    assert_eq!(error.downcast_ref(), Some(&alert));
    let error = knock(TLS_NAME, Arc::clone(&trusting.config)).await;
    let error = error.expect_err("no certificate").into_inner();
    let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
    assert_eq!(error.expect("of TLS").downcast_ref(), Some(&alert));
    // A peer's certificate gives no right over other paths.
    let mutual = one.control.mutual().expect("a certificate");
    let said = knock(TLS_NAME, Arc::clone(&mutual.client)).await;
    let said = said.expect("an answer");
    assert!(said.starts_with("HTTP/1.1 401 "), "{said}");
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn another_authority_is_followed_while_routers_run() {
    let (one, two, _dir) = two().await;
    let before = one.control.mutual().expect("a certificate");
    let key = key_of(&one).await;
    // The other one leads, and so it is asked inside TLS.
    let rotate = || {
        one.control
            .execute(Call::new("router", "rotate_authority", &[]))
    };
    rotate().await.expect("made");
    assert_ne!(key_of(&one).await, key);
    let followed = async {
        loop {
            let mutual = one.control.mutual().expect("a certificate");
            // The other router may not have seen it yet.
            if !Arc::ptr_eq(&mutual, &before) && answer(&two, &mutual.client).await.is_ok() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    let followed = tokio::time::timeout(PATIENCE, followed).await;
    followed.expect("all routers show certificates of the new authority");
    let why = strange(answer(&two, &before.client).await);
    assert!(why.contains("not of this farm's authority"), "{why}");
    // What is no key says so, and stops nobody.
    let broken = Transaction::new().put(AUTHORITY, r#"{"key":"garbage"}"#);
    one.store.commit(broken).await.expect("written");
    let told = async {
        loop {
            if let Err(error) = one.control.mutual() {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await.expect("read");
    assert!(told.contains(AUTHORITY), "{told}");
    one.knows(&[&two.peer], Leads::Here);
    let list = Call::new("session", "list", &["r2"]);
    let error = one.control.execute(list).await.expect_err("no way");
    assert!(error.to_string().contains(AUTHORITY), "{error}");
    // The router that leads is told to make another one.
    rotate().await.expect("made");
    let mended = async {
        while one.control.mutual().is_err() || answer_of(&one, &two).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    let mended = tokio::time::timeout(PATIENCE, mended).await;
    mended.expect("peers again");
    one.end().await;
    two.end().await;
}

#[tokio::test]
async fn no_key_and_no_secret_is_shown() {
    let (one, two, _dir) = two().await;
    let asked = question(&two.peer, one.way());
    let key = key_of(&one).await;
    let line = key.lines().nth(1).expect("the key itself");
    let shown = format!(
        "{asked:?} {:?} {:?} {:?}",
        one.control.mutual(),
        question(&two.peer, in_clear("s3cr3t")),
        one.control.snapshot(),
    );
    assert!(
        !shown.contains(line) && !shown.contains("s3cr3t"),
        "{shown}"
    );
    for (group, command) in [
        ("config", "show"),
        ("config", "settings"),
        ("router", "list"),
    ] {
        let table = one.control.execute(Call::new(group, command, &[])).await;
        let text = table.expect("a table").to_json().to_string();
        assert!(!text.contains(line), "{group} {command}: {text}");
    }
    one.end().await;
    two.end().await;
}
