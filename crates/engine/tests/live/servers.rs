//! The engine on real servers of every release.

use std::net::IpAddr;
use std::time::Duration;

use crate::root::{MS, link, login};
use engine::replication::{self, ACK_WAIT_FOREVER_MS, AcksSet};
use engine::{Known, Link, LinkTls, Login, Thread, heartbeat, requirements};
use farm::{AuthPlugin, Engine, Position};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{AuthMore, AuthSwitch, Greeting};
use mysql_wire::packet::{self, HEADER_BYTES, Header};
use testkit::proxy::{Proxy, outer_address};
use testkit::{Client, Release, Server, wait_until};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

const PATIENCE: Duration = Duration::from_secs(60);

fn servers<const N: usize>(release: Release) -> Option<[Server; N]> {
    let mut started = Vec::new();
    for _ in 0..N {
        started.push(Server::start(release)?);
    }
    started.try_into().ok()
}

fn secret_hash() -> AuthPlugin {
    let mut hash = [0; 20];
    let hex = "14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
    for (byte, at) in hash.iter_mut().zip((0..40).step_by(2)) {
        *byte = u8::from_str_radix(&hex[at..at + 2], 16).expect("hex digits");
    }
    AuthPlugin::Native(Some(hash))
}

/// Probe and accounts of one server.
async fn knows_a_server(release: Release) {
    let Some([server]) = servers::<1>(release) else {
        return;
    };
    let mut client = server.client();
    let mut open = link(&server).await;
    let before = engine::probe(&mut open, true, MS).await.expect("an answer");
    assert_eq!(before.version, client.value("SELECT @@version"));
    assert!(!before.read_only && before.server_id > 0);
    assert_eq!(before.replica, None);
    assert_eq!(before.uuid.is_some(), server.engine() == Engine::MySql);
    assert_eq!(before.acks.is_some(), has_semi_sync(&server));

    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    heartbeats_while_it_takes_writes(&mut open, &mut client).await;
    let after = engine::probe(&mut open, false, MS)
        .await
        .expect("an answer");
    assert!(after.read_only);
    let read = |gtid: &str| Position::parse(server.engine(), gtid).expect("a position");
    assert!(read(&after.gtid).covers(&read(&before.gtid)));
    assert!(
        !read(&before.gtid).covers(&read(&after.gtid)),
        "{} {}",
        before.gtid,
        after.gtid
    );
    assert_eq!(replication::user_tables(&mut open, MS).await, Ok(1));
    let missing = requirements::missing(&mut open, MS)
        .await
        .expect("an answer");
    assert!(
        missing.iter().all(|missing| !missing.requirement.essential),
        "{missing:?}"
    );

    keyless_tables(&mut open, &mut client, server.engine()).await;
    accounts_of(&mut open, &mut client, server.engine()).await;
}

/// Tables without a primary key are named where replicas could read them in another order.
async fn keyless_tables(open: &mut Link, client: &mut Client, engine: Engine) {
    let threads = match engine {
        Engine::MariaDb => "slave_parallel_threads",
        Engine::MySql => "slave_parallel_workers",
    };
    client.run("CREATE DATABASE bare");
    client.run("CREATE TABLE bare.one (v INT)");
    client.run("CREATE TABLE bare.keyed (v INT PRIMARY KEY)");
    client.run(&format!("SET GLOBAL {threads} = 4"));
    let advice = requirements::unordered_tables(open, MS).await;
    let advice = advice.expect("an answer").expect("advice");
    assert!(
        advice.contains("bare.one") && !advice.contains("keyed"),
        "{advice}"
    );
    client.run(&format!("SET GLOBAL {threads} = 0"));
    let advice = requirements::unordered_tables(open, MS).await;
    assert_eq!(advice.expect("an answer"), None);
    client.run("DROP DATABASE bare");
}

/// A heartbeat gives a primary another position, and a server that is read-only none, although Heddle's
/// account could write there: a former primary must have nothing that its group has not.
async fn heartbeats_while_it_takes_writes(open: &mut Link, client: &mut Client) {
    let mut heartbeat = async || {
        heartbeat::write(open, "router", MS)
            .await
            .expect("a position")
    };
    let first = heartbeat().await;
    let second = heartbeat().await;
    assert!(second.covers(&first) && !first.covers(&second));
    client.run("SET GLOBAL read_only=1");
    assert_eq!(heartbeat().await, second);
    assert_eq!(client.value("SELECT beats FROM heddle.heartbeat"), "2");
}

async fn accounts_of(open: &mut Link, client: &mut Client, engine: Engine) {
    client.run("SET GLOBAL read_only=0");
    match engine {
        Engine::MariaDb => {
            client.run("CREATE USER app@'10.%' IDENTIFIED BY 'secret'");
            client.run("CREATE USER shut@'%' ACCOUNT LOCK");
            client.run(
                "CREATE USER twofold@'%' IDENTIFIED VIA unix_socket OR mysql_native_password \
                 USING PASSWORD('secret')",
            );
            client.run("CREATE ROLE readers");
            client.run("CREATE USER old@'%' IDENTIFIED BY 'secret' PASSWORD EXPIRE");
        }
        Engine::MySql => {
            client.run("CREATE USER app@'10.%' IDENTIFIED WITH mysql_native_password BY 'secret'");
            client.run("CREATE USER shut@'%' IDENTIFIED WITH mysql_native_password ACCOUNT LOCK");
            client.run("CREATE USER twofold@'%' IDENTIFIED WITH caching_sha2_password BY 'secret'");
            client.run("CREATE USER old@'%' IDENTIFIED BY 'secret' PASSWORD EXPIRE INTERVAL 1 DAY");
            client.run(
                "UPDATE mysql.user SET password_last_changed = '2020-01-01' WHERE user = 'old'",
            );
        }
    }
    client.run("CREATE USER few@'%' IDENTIFIED BY 'secret' WITH MAX_USER_CONNECTIONS 3");
    let accounts = engine::accounts(open, MS).await.expect("accounts");
    let find = |user: &str| {
        let mut found = accounts.iter().filter(|account| &*account.user == user);
        found
            .next()
            .unwrap_or_else(|| panic!("no account {user} in {accounts:?}"))
    };
    let app = find("app");
    assert_eq!((&*app.host, &app.ways[0]), ("10.%", &secret_hash()));
    assert!(!app.admin && !app.locked);
    assert!(find("shut").locked);
    assert!(find("root").admin);
    let empty = match engine {
        Engine::MariaDb => AuthPlugin::Native(None),
        Engine::MySql => AuthPlugin::CachingSha2(b"".as_slice().into()),
    };
    assert_eq!(find("root").ways, [empty]);
    match (&find("twofold").ways[..], engine) {
        ([socket, password], Engine::MariaDb) => {
            let plugin = "unix_socket".into();
            let os_user = "".into();
            assert_eq!(*socket, AuthPlugin::Socket { plugin, os_user });
            assert_eq!(*password, secret_hash());
        }
        ([AuthPlugin::CachingSha2(hash)], Engine::MySql) => assert!(hash.starts_with(b"$A$005$")),
        (other, _) => panic!("{other:?}"),
    }
    assert!(!app.expired && find("old").expired);
    assert_eq!((app.connections_max, find("few").connections_max), (0, 3));
    assert!(accounts.iter().all(|account| &*account.user != "readers"));
}

/// MariaDB has it built in; MySQL where its plugins are installed.
fn has_semi_sync(server: &Server) -> bool {
    let sql = "SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_%_enabled'";
    !server.client().rows(sql).is_empty()
}

/// A primary and a replica: joined, drained, exchanged.
async fn joins_and_exchanges(release: Release) {
    let Some([a, b]) = servers::<2>(release) else {
        return;
    };
    let (mut to_a, mut to_b) = (link(&a).await, link(&b).await);
    let semi_sync = has_semi_sync(&a);
    let off = engine::make_primary(&mut to_a, None, MS)
        .await
        .expect("a primary");
    assert_eq!(
        off,
        if semi_sync {
            AcksSet::Off
        } else {
            AcksSet::Unavailable
        }
    );
    a.client().run("CREATE DATABASE d");
    let primary = login(&a);
    engine::make_replica(&mut to_b, &primary, MS)
        .await
        .expect("a replica");
    wait_until(PATIENCE, "the database on the replica", || {
        b.client().rows("SHOW DATABASES LIKE 'd'").len() == 1
    });
    let seen = engine::probe(&mut to_b, false, MS)
        .await
        .expect("an answer");
    let replica = seen.replica.expect("it follows");
    assert!(seen.read_only && replica.by_gtid);
    assert_eq!(
        (replica.io, replica.sql),
        (Thread::Running, Thread::Running)
    );
    assert_eq!(replica.primary_port, a.address().port());

    waits_for_acks(&a, &mut to_a, &mut to_b).await;
    exchange([&a, &b], to_a, to_b).await;
}

/// A second `make_replica` finds it done; commits of `a` now wait for `b`.
async fn waits_for_acks(a: &Server, to_a: &mut Link, to_b: &mut Link) {
    let semi_sync = has_semi_sync(a);
    let primary = login(a);
    engine::make_replica(to_b, &primary, MS)
        .await
        .expect("still a replica");
    // The step that only points it comes behind the one that started it, and stops nothing.
    let late = engine::exchange::point(to_b, &primary, false, MS).await;
    late.expect("nothing is left to do");
    let seen = replication::status(to_b, MS).await.expect("an answer");
    let threads = seen.map(|replica| (replica.io, replica.sql));
    assert_eq!(threads, Some((Thread::Running, Thread::Running)));
    let on = engine::set_acks(to_a, Some(ACK_WAIT_FOREVER_MS), MS)
        .await
        .expect("set");
    assert_eq!(
        on,
        if semi_sync {
            AcksSet::On
        } else {
            AcksSet::Unavailable
        }
    );
    a.client().run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    a.client().run("INSERT INTO d.t VALUES (1)");
    let acks = engine::probe(to_a, true, MS).await.expect("an answer").acks;
    let active = acks.map(|acks| (acks.enabled, acks.active, acks.replicas));
    assert_eq!(active, semi_sync.then_some((true, true, 1)));
}

/// What `b` received is applied, then `b` leads and `a` follows.
async fn exchange([a, b]: [&Server; 2], mut to_a: Link, mut to_b: Link) {
    if !has_semi_sync(a) {
        // Nobody waited until it had received the row.
        let count = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_NAME = 't'";
        wait_until(PATIENCE, "the table on the replica", || {
            b.client().value(count) == "1" && b.client().value("SELECT COUNT(*) FROM d.t") == "1"
        });
    }
    engine::drain(&mut to_b, MS).await.expect("drained");
    assert_eq!(b.client().value("SELECT COUNT(*) FROM d.t"), "1");
    engine::make_primary(&mut to_b, None, MS)
        .await
        .expect("a primary");
    engine::make_replica(&mut to_a, &login(b), MS)
        .await
        .expect("a replica");
    b.client().run("INSERT INTO d.t VALUES (2)");
    wait_until(PATIENCE, "the row on the former primary", || {
        a.client().value("SELECT COUNT(*) FROM d.t") == "2"
    });
    engine::detach(&mut to_a, MS).await.expect("detached");
    assert_eq!(replication::status(&mut to_a, MS).await, Ok(None));
    engine::detach(&mut to_a, MS).await.expect("twice is once");
}

/// A replica that cannot log in says so, and does not hang.
async fn says_why_it_does_not_replicate(release: Release) {
    let Some([a, b]) = servers::<2>(release) else {
        return;
    };
    let mut to_b = link(&b).await;
    let wrong = Login {
        password: "wrong".to_owned(),
        ..login(&a)
    };
    let error = engine::make_replica(&mut to_b, &wrong, 3000)
        .await
        .expect_err("wrong password");
    let error = error.to_string();
    assert!(
        error.contains("does not replicate") && error.contains("Access denied"),
        "{error}"
    );
    assert!(error.contains("check the replication account"), "{error}");
}

#[tokio::test]
async fn mariadb_is_known() {
    knows_a_server(Release::Installed).await;
}

#[tokio::test]
async fn mariadb_joins_and_exchanges() {
    joins_and_exchanges(Release::Installed).await;
}

#[tokio::test]
async fn mariadb_says_why_it_does_not_replicate() {
    says_why_it_does_not_replicate(Release::Installed).await;
}

#[tokio::test]
async fn mariadb_114_is_known_and_joins() {
    knows_a_server(Release::MariaDb114).await;
    joins_and_exchanges(Release::MariaDb114).await;
}

#[tokio::test]
async fn mysql_is_known_and_joins() {
    knows_a_server(Release::MySql80).await;
    joins_and_exchanges(Release::MySql80).await;
}

/// A server that hangs accepts connections and answers nothing: the probe ends in time.
#[tokio::test]
async fn a_hanging_server_is_given_up() {
    let Some([mut server]) = servers::<1>(Release::Installed) else {
        return;
    };
    let mut open = link(&server).await;
    server.freeze();
    let began = std::time::Instant::now();
    // The signal reaches a running thread a moment later; until then answers are right.
    let error = loop {
        if let Err(error) = engine::probe(&mut open, false, 200).await {
            break error;
        }
        assert!(began.elapsed() < PATIENCE, "it never stopped");
    };
    let began = std::time::Instant::now();
    assert!(
        matches!(
            error,
            engine::Error::Timeout {
                timeout_ms: 200,
                ..
            }
        ),
        "{error}"
    );
    let error = Link::open(&login(&server), 200)
        .await
        .err()
        .expect("it hangs");
    assert!(
        error.to_string().contains("no answer within 200 ms"),
        "{error}"
    );
    assert!(began.elapsed() < PATIENCE);
    server.thaw();
}

/// MariaDB 11.4 makes its own certificate, which no authority has signed.
#[tokio::test]
async fn a_link_inside_tls() {
    let Some(server) = Server::start_with(Release::MariaDb114, &[("ssl", "1")]) else {
        return;
    };
    let on = |tls| Login {
        tls,
        ..login(&server)
    };
    let mut root = server.client();
    root.run("CREATE USER tls_only IDENTIFIED BY 'secret' REQUIRE SSL");
    root.run("GRANT ALL ON *.* TO tls_only");
    let as_user = |tls| Login {
        user: "tls_only".to_owned(),
        password: "secret".to_owned(),
        ..on(tls)
    };
    let refused = Link::open(&as_user(engine::LinkTls::Off), MS).await;
    assert!(refused.is_err(), "the account wants TLS");
    let required = as_user(engine::LinkTls::Required);
    Link::open(&required, MS).await.expect("any certificate");
    let nobody = testkit::certificates::Authority::new("another CA");
    let verified = engine::LinkTls::VerifyCa(nobody.file());
    let refused = Link::open(&on(verified), MS).await;
    assert!(refused.is_err(), "nobody has signed it");
}

const SECRET: &str = "the farm's own secret";

/// How a stranger asks for the password.
#[derive(Clone, Copy, Debug)]
enum Wish {
    /// The full exchange of the plugin that it greets with.
    Full,
    /// A switch to this plugin.
    Switch(&'static str),
}

async fn read(stream: &mut (impl AsyncRead + Unpin), heard: &mut Vec<u8>) -> Option<u8> {
    let mut header = [0; HEADER_BYTES];
    stream.read_exact(&mut header).await.ok()?;
    let parsed = Header::parse(&header)?;
    let mut payload = vec![0; parsed.payload_bytes];
    stream.read_exact(&mut payload).await.ok()?;
    heard.extend_from_slice(&payload);
    Some(parsed.sequence.wrapping_add(1))
}

async fn write(stream: &mut (impl AsyncWrite + Unpin), mut sequence: u8, payload: &[u8]) {
    let mut out = Vec::new();
    packet::write(&mut out, &mut sequence, payload);
    // Whoever has heard enough is gone.
    let _ = stream.write_all(&out).await;
    let _ = stream.flush().await;
}

/// Answers one login with the wish; gives all that it was told.
async fn stranger(listener: TcpListener, tls: Option<TlsAcceptor>, wish: Wish) -> Vec<u8> {
    let mut capabilities = Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::LONG_PASSWORD;
    capabilities.set(Capabilities::SSL, tls.is_some());
    let greeting = Greeting {
        version: "8.0.36",
        connection_id: 7,
        salt: [b's'; 20],
        capabilities,
        collation: 45,
        status: mysql_wire::status::Status::empty(),
        plugin: auth::CACHING_SHA2,
    };
    let (mut stream, _) = listener.accept().await.expect("a client");
    let mut heard = Vec::new();
    let mut out = Vec::new();
    greeting.encode(&mut out);
    write(&mut stream, 0, &out).await;
    match tls {
        None => {
            ask(&mut stream, wish, &mut heard).await;
        }
        Some(tls) => {
            let mut request = Vec::new();
            read(&mut stream, &mut request).await.expect("wants TLS");
            if let Ok(mut stream) = tls.accept(stream).await {
                ask(&mut stream, wish, &mut heard).await;
            }
        }
    }
    heard
}

async fn ask(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    wish: Wish,
    heard: &mut Vec<u8>,
) -> Option<()> {
    let sequence = read(stream, heard).await?;
    let mut out = Vec::new();
    match wish {
        Wish::Full => AuthMore(&[auth::FULL]).encode(&mut out),
        Wish::Switch(plugin) => AuthSwitch {
            plugin,
            salt: &[b't'; 20],
        }
        .encode(&mut out),
    }
    write(stream, sequence, &out).await;
    // The password, or the wish for a key to seal it with.
    let sequence = read(stream, heard).await?;
    write(stream, sequence, b"\xff\x15\x04#28000no").await;
    Some(())
}

/// What a stranger at this address of the machine hears, and how the login ends.
async fn tells(outer: IpAddr, tls: bool, wish: Wish, known: Known) -> (Vec<u8>, String) {
    let listener = TcpListener::bind((outer, 0)).await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let acceptor = tls.then(|| {
        let authority = testkit::certificates::Authority::new("nobody's");
        let pair = authority.sign("stranger", &["elsewhere.example"]);
        let read = |file| std::fs::read(file).expect("a file of the test");
        let shown = channel::Presented::from_pem(&read(pair.certificate), &read(pair.key), None);
        TlsAcceptor::from(shown.expect("a pair").config)
    });
    let login = Login {
        host: address.ip().to_string(),
        port: address.port(),
        user: "heddle".to_owned(),
        password: SECRET.to_owned(),
        tls: LinkTls::Preferred,
        known,
        engine: None,
    };
    let (heard, opened) = tokio::join!(stranger(listener, acceptor, wish), async {
        Link::open(&login, MS).await
    });
    let error = opened.err().expect("a stranger is no server");
    (heard, error.to_string())
}

fn has_secret(heard: &[u8]) -> bool {
    heard
        .windows(SECRET.len())
        .any(|part| part == SECRET.as_bytes())
}

/// Whoever answers on another machine gets proofs of the password, and no key of his is used.
#[tokio::test]
async fn strangers_get_no_password() {
    let Some(outer) = outer_address() else { return };
    let wishes = [
        Wish::Full,
        Wish::Switch(auth::CLEAR),
        Wish::Switch(auth::SHA256),
        Wish::Switch(auth::DIALOG),
    ];
    for wish in wishes {
        for tls in [false, true] {
            let (heard, error) = tells(outer, tls, wish, Known::Nothing).await;
            assert!(!heard.is_empty(), "{wish:?} {tls}: it was not heard");
            assert!(!has_secret(&heard), "{wish:?} {tls}");
            let asked_for_key = [auth::REQUEST_KEY, auth::SHA256_REQUEST_KEY];
            assert!(
                heard
                    .last()
                    .is_none_or(|last| !asked_for_key.contains(last)),
                "{wish:?} {tls}: {heard:?}"
            );
            assert!(error.contains("3159"), "{wish:?} {tls}: {error}");
        }
    }
    // An operator's word lets the first one in, inside TLS; so the stranger above did ask rightly.
    let (heard, _) = tells(outer, true, Wish::Full, Known::FirstUse).await;
    assert!(has_secret(&heard));
    let (heard, error) = tells(outer, false, Wish::Full, Known::FirstUse).await;
    assert!(!has_secret(&heard) && error.contains("3159"), "{error}");
    // One that is known by its key is told nothing by another, nor by one without TLS.
    for tls in [false, true] {
        let (heard, error) = tells(outer, tls, Wish::Full, Known::Key([7; 32])).await;
        assert!(heard.is_empty(), "{heard:?}");
        assert!(error.contains("server accept_certificate"), "{error}");
    }
}

/// A MySQL on another machine: its cache forgets the password, and only one that is known gets it anew.
#[tokio::test]
async fn a_server_is_known_by_its_key() {
    let Some(outer) = outer_address() else { return };
    let Some(server) = Server::start(Release::MySqlNewer) else {
        return;
    };
    let mut root = server.client();
    root.run(&format!(
        "CREATE USER heddle IDENTIFIED WITH caching_sha2_password BY '{}'",
        SECRET.replace('\'', "''")
    ));
    root.run("GRANT ALL ON *.* TO heddle");
    let way = Proxy::on(outer, server.address());
    let login = |known| Login {
        host: way.address.ip().to_string(),
        port: way.address.port(),
        user: "heddle".to_owned(),
        password: SECRET.to_owned(),
        tls: LinkTls::Preferred,
        known,
        engine: None,
    };
    let unknown = Link::open(&login(Known::Nothing), MS).await.err();
    let unknown = unknown.expect("it asks for the password").to_string();
    assert!(unknown.contains("3159"), "{unknown}");
    let first = Link::open(&login(Known::FirstUse), MS).await;
    let key = first.expect("believed").key().expect("it has TLS");
    let shown = engine::key_at(&login(Known::Nothing), MS).await;
    assert_eq!(shown, Ok(Some(key)));
    // It remembers the password now, and needs only a proof.
    let unknown = Link::open(&login(Known::Nothing), MS).await;
    assert_eq!(unknown.expect("a proof will do").key(), Some(key));
    root.run("FLUSH PRIVILEGES");
    let known = Link::open(&login(Known::Key(key)), MS).await;
    let mut known = known.expect("it is known");
    let seen = engine::probe(&mut known, false, MS).await;
    assert!(seen.is_ok(), "{seen:?}");
    let other = Link::open(&login(Known::Key([1; 32])), MS).await.err();
    assert!(
        matches!(other, Some(engine::Error::Certificate { .. })),
        "{other:?}"
    );
}
