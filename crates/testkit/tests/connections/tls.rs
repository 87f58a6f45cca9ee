//! The SQL door: clients inside TLS, those who may not do without, and handshakes that break.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use channel::{Presented, ServerTls, Trust};
use farm::{Account, AuthPlugin, TlsDemand};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::handshake::TlsRequest;
use reactor::Io;
use rustls::HandshakeKind;
use session::{ClientTls, Terms, Transport};
use testkit::certificates::{Authority, Pair};
use testkit::client::{Failure, Login, Value, any_certificate};
use testkit::door::account;
use testkit::{Client, Door, Release, Stage};

const SOON: Duration = Duration::from_secs(20);

pub(crate) fn shown(pair: &Pair) -> Presented {
    let read = |path| fs::read(path).expect("a file of the test");
    Presented::from_pem(&read(&pair.certificate), &read(&pair.key), None).expect("a good pair")
}

fn transport(tls: ClientTls, pair: &Pair) -> Arc<Transport> {
    Arc::new(Transport::new(tls, Some(shown(pair)), Terms::plain()))
}

fn secure() -> Login<'static> {
    Login {
        tls: Some(any_certificate()),
        ..Login::default()
    }
}

/// A door with TLS on each of the kernel's interfaces.
fn each_io(stage: &Stage, tls: ClientTls, test: impl Fn(&Door)) {
    let authority = Authority::new("test CA");
    let pair = authority.sign("router", &["localhost"]);
    for io in [Io::Epoll, Io::Auto] {
        let door = stage.door_with(|tuning| {
            tuning.io = io;
            tuning.transport = transport(tls, &pair);
            // As long as a login may take on a busy machine.
            tuning.settings.handshake_timeout_s = 3;
        });
        test(&door);
        door.wait_unused();
    }
}

#[test]
fn tls_is_offered_and_not_forced() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, ClientTls::Preferred, |door| {
        let mut plain = door.client();
        assert_eq!(plain.value("SELECT 1"), "1");
        let mut client = door.login(&secure()).expect("TLS is offered");
        for number in 0..100 {
            let text = format!("SELECT {number}, REPEAT('x', {})", number * 100);
            assert_eq!(client.rows(&text)[0][0], Some(number.to_string()));
        }
        let statement = client.prepare("SELECT ? + 1").expect("prepared");
        let rows = client.execute(&statement, &[Value::Int(41)]);
        assert!(format!("{rows:?}").contains("42"), "{rows:?}");
        client.run("SET @a = 5");
        assert_eq!(client.value("SELECT @a"), "5");
        client.quit();
    });
}

#[test]
fn a_client_resumes_its_session_with_the_ticket() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, ClientTls::Required, |door| {
        let login = secure();
        let kinds = [(); 3].map(|()| {
            let mut client = door.login(&login).expect("logged in");
            // The ticket comes before the first answer.
            assert_eq!(client.value("SELECT 1"), "1");
            client.tls().and_then(|tls| tls.handshake_kind())
        });
        assert_eq!(kinds[0], Some(HandshakeKind::Full));
        assert_eq!(kinds[1..], [Some(HandshakeKind::Resumed); 2]);
    });
}

#[test]
fn both_versions_of_tls_are_spoken() {
    let Some(stage) = Stage::shared() else { return };
    let authority = Authority::new("test CA");
    let pair = authority.sign("router", &["localhost"]);
    let door = stage.door_with(|t| t.transport = transport(ClientTls::Preferred, &pair));
    let ca = fs::read(authority.file()).expect("a file");
    let trust = Trust::new(ServerTls::VerifyIdentity, Some(&ca)).expect("an authority");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let certificate = rustls::pki_types::pem::PemObject::from_pem_slice(&ca);
        roots
            .add(certificate.expect("a certificate"))
            .expect("an authority");
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])
            .expect("a version that rustls has")
            .with_root_certificates(roots)
            .with_no_client_auth();
        let login = Login {
            tls: Some(Arc::new(config)),
            ..Login::default()
        };
        let mut client = door.login(&login).expect("the certificate is right");
        let tls = client.tls().expect("inside TLS");
        assert_eq!(tls.protocol_version(), Some(version.version));
        assert_eq!(client.value("SELECT 'inside'"), "inside");
    }
    let login = Login {
        tls: Some(trust.config),
        ..Login::default()
    };
    door.login(&login)
        .expect("the chain and the name are right");
}

#[test]
fn required_refuses_the_others_and_off_offers_nothing() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, ClientTls::Required, |door| {
        let refused = door.login(&Login::default()).expect_err("plain");
        let text = "3159 (HY000): Connections using insecure transport are prohibited while \
                    --require_secure_transport=ON.";
        assert_eq!(refused.to_string(), text);
        let mut client = door.login(&secure()).expect("TLS is offered");
        assert_eq!(client.value("SELECT 1"), "1");
    });
    each_io(&stage, ClientTls::Off, |door| {
        let refused = door.login(&secure()).expect_err("not offered");
        assert!(matches!(refused, Failure::Protocol(_)), "{refused}");
        let mut client = asks_for_tls(door);
        let payload = client.read_packet().expect("an error");
        assert_eq!(payload[..3], [0xFF, 0x13, 0x04], "1043");
        assert!(client.is_closed_within(SOON));
    });
}

/// A connection whose request for TLS was sent, and nothing behind it.
fn asks_for_tls(door: &Door) -> Client {
    let mut client = Client::dial(door.address()).expect("connected");
    client.read_packet().expect("a greeting");
    client.send_bytes(&request()).expect("sent");
    client.sequence = 2;
    client
}

/// The packet that asks for TLS.
fn request() -> Vec<u8> {
    let mut packet = vec![32, 0, 0, 1];
    TlsRequest {
        capabilities: Login::default().capabilities | Capabilities::SSL,
        packet_bytes_max: 1 << 24,
        collation: 45,
    }
    .encode(&mut packet);
    packet
}

#[test]
fn what_is_said_before_tls_counts_for_nothing() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, ClientTls::Preferred, |door| {
        let mut witness = door.client();
        // A login in the clear behind the request, as somebody on the way would put it there.
        let mut client = Client::dial(door.address()).expect("connected");
        client.read_packet().expect("a greeting");
        let mut bytes = request();
        let login = mysql_wire::handshake::Login {
            capabilities: Login::default().capabilities,
            packet_bytes_max: 1 << 24,
            collation: 45,
            user: b"root",
            auth: b"",
            database: None,
            plugin: Some(auth::NATIVE.as_bytes()),
            attributes: None,
            zstd_level: None,
        };
        mysql_wire::packet::write_with(&mut bytes, &mut 2, |out| login.encode(out));
        client.send_bytes(&bytes).expect("sent");
        // The alert of a handshake that failed, and the end.
        let alert = client.read_bytes(100).expect("an alert");
        assert!(matches!(alert[..], [21, 3, _, 0, 2, 2, _]), "{alert:?}");
        assert!(client.is_closed_within(SOON));
        assert_eq!(witness.value("SELECT 1"), "1");
    });
}

#[test]
fn handshakes_that_break_hurt_nobody_else() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, ClientTls::Preferred, |door| {
        let mut witness = door.client();
        for bytes in [
            &b""[..],
            b"\x16",
            b"\x16\x03\x01\x02\0\x01\0",
            b"GET / HTTP/1.1\r\n\r\n",
        ] {
            let mut gone = asks_for_tls(door);
            gone.send_bytes(bytes).expect("sent");
            drop(gone);
            let mut half_closed = asks_for_tls(door);
            half_closed.send_bytes(bytes).expect("sent");
            half_closed.close_send().expect("closed");
            assert!(half_closed.is_closed_within(SOON));
            let mut silent = asks_for_tls(door);
            silent.send_bytes(bytes).expect("sent");
            assert!(silent.is_closed_within(SOON), "handshake_timeout_s is over");
        }
        // Inside TLS, and then no login.
        let mut mute = asks_for_tls(door);
        mute.start_tls(any_certificate())
            .expect("the handshake is right");
        let payload = mute.read_packet().expect("an error");
        assert_eq!(payload[..3], [0xFF, 0x87, 0x04], "1159");
        let mut twice = asks_for_tls(door);
        twice
            .start_tls(any_certificate())
            .expect("the handshake is right");
        let again = &mut request();
        again[3] = 2;
        twice.send_bytes(again).expect("sent");
        twice.sequence = 3;
        let payload = twice.read_packet().expect("an error");
        assert_eq!(payload[..3], [0xFF, 0x13, 0x04], "1043");
        // Gone without a word in a session: in the middle of a command, and of a record.
        let mut gone = door.login(&secure()).expect("TLS is offered");
        gone.send_bytes(b"\x40\0\0\0\x03SELECT").expect("sent");
        drop(gone);
        let mut broken = door.login(&secure()).expect("TLS is offered");
        broken.send_bytes(b"\x09\0\0\0\x03SELECT 1").expect("sent");
        broken
            .send_raw(b"\x17\x03\x03\0\x30garbage that is no record of this connection....")
            .expect("sent");
        assert!(broken.is_closed_within(SOON));
        assert_eq!(witness.value("SELECT 1"), "1");
    });
}

#[test]
fn long_packets_rows_and_pipelines() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("tls_long");
    stage.everywhere("CREATE TABLE tls_long.t (id INT PRIMARY KEY, b LONGBLOB)");
    each_io(&stage, ClientTls::Preferred, |door| {
        let mut client = door.login(&secure()).expect("TLS is offered");
        client.run("DELETE FROM tls_long.t");
        let long = "ab".repeat(10 << 20);
        client.run(&format!("INSERT INTO tls_long.t VALUES (1, '{long}')"));
        let back = client.value("/*ms=master*/ SELECT b FROM tls_long.t");
        assert!(back == long, "{} bytes", back.len());
        let many: Vec<String> = (2..4000)
            .map(|i| format!("({i}, REPEAT('r', 100))"))
            .collect();
        client.run(&format!("INSERT INTO tls_long.t VALUES {}", many.join(",")));
        let rows = client.rows("/*ms=master*/ SELECT id, b FROM tls_long.t WHERE id > 1");
        assert_eq!(rows.len(), 3998);
        for number in 0..200 {
            client
                .send_command(Command::Query, format!("SELECT {number}").as_bytes())
                .expect("sent");
        }
        for number in 0..200 {
            client.sequence = 1;
            let reply = client.read_results(false).expect("a result");
            assert!(format!("{reply:?}").contains(&format!("{:?}", number.to_string().as_bytes())));
        }
    });
}

#[test]
fn a_new_certificate_is_shown_from_the_next_login_on() {
    let Some(stage) = Stage::shared() else { return };
    let authority = Authority::new("test CA");
    let pairs = ["first", "second"].map(|name| authority.sign(name, &["localhost"]));
    let terms = transport(ClientTls::Required, &pairs[0]);
    let door = stage.door_with(|tuning| tuning.transport = terms.clone());
    let certificate = |client: &Client| {
        let chain = client.tls().and_then(|tls| tls.peer_certificates());
        chain.expect("a server has a certificate")[0].to_vec()
    };
    let mut old = door.login(&secure()).expect("TLS is offered");
    let before = certificate(&old);
    terms.presented.store(Some(Arc::new(shown(&pairs[1]))));
    let new = door.login(&secure()).expect("TLS is offered");
    assert_ne!(certificate(&new), before);
    assert_eq!(old.value("SELECT 1"), "1");
}

#[test]
fn passwords_of_every_plugin_inside_tls() {
    let Some(stage) = Stage::shared() else { return };
    stage.everywhere("CREATE OR REPLACE USER tls_app@localhost IDENTIFIED BY 'secret'");
    let authority = Authority::new("test CA");
    let pair = authority.sign("router", &["localhost"]);
    let door = stage.door_with(|tuning| {
        tuning.transport = transport(ClientTls::Required, &pair);
        tuning.accounts.push(account("tls_app", "%", "secret"));
    });
    let app = |password| Login {
        user: "tls_app",
        password,
        ..secure()
    };
    let mut client = door.login(&app("secret")).expect("the password is right");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "tls_app@localhost");
    client.change_user(&app("secret")).expect("the same again");
    let refused = door.login(&app("wrong")).expect_err("not the password");
    assert_eq!(refused.number(), 1045);
}

#[test]
fn a_clear_password_inside_tls_takes_the_place_of_rsa() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    stage.everywhere("CREATE USER tls_sha2 IDENTIFIED WITH caching_sha2_password BY 'secret'");
    let mut client = stage.primary.client();
    let stored =
        client.value("SELECT authentication_string FROM mysql.user WHERE user = 'tls_sha2'");
    let authority = Authority::new("test CA");
    let pair = authority.sign("router", &["localhost"]);
    let door = stage.door_with(|tuning| {
        tuning.transport = transport(ClientTls::Preferred, &pair);
        tuning.accounts.push(Account {
            ways: vec![AuthPlugin::CachingSha2(stored.as_bytes().into())],
            ..account("tls_sha2", "%", "")
        });
    });
    for password in ["secret", "wrong", "secret"] {
        let login = Login {
            user: "tls_sha2",
            password,
            ..secure()
        };
        match door.login(&login) {
            Ok(mut client) => {
                assert_eq!(password, "secret");
                assert_eq!(client.value("SELECT CURRENT_USER()"), "tls_sha2@%");
                client.change_user(&login).expect("the same again");
            }
            Err(refused) => assert_eq!((password, refused.number()), ("wrong", 1045)),
        }
    }
}

/// A client that presents a certificate, all three in PEM.
fn with_certificate(ca: &[u8], certificate: &[u8], key: &[u8]) -> rustls::ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let root = rustls::pki_types::pem::PemObject::from_pem_slice(ca);
    roots
        .add(root.expect("a certificate"))
        .expect("an authority");
    let own = rustls::pki_types::pem::PemObject::from_pem_slice(certificate);
    let key = rustls::pki_types::pem::PemObject::from_pem_slice(key);
    rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![own.expect("a certificate")], key.expect("a key"))
        .expect("a pair")
}

#[test]
fn accounts_get_what_they_require() {
    let Some(stage) = Stage::shared() else { return };
    let authority = Authority::new("test CA");
    let pair = authority.sign("router", &["localhost"]);
    let mine = authority.sign("client", &["client"]);
    let read = |path| fs::read(path).expect("a file of the test");
    let file = authority.file();
    let ca = read(&file);
    let presented = Presented::from_pem(&read(&pair.certificate), &read(&pair.key), Some(&ca));
    let presented = Some(presented.expect("a good pair"));
    let terms = Transport::new(ClientTls::Preferred, presented, Terms::plain());
    let named = |subject: &str| TlsDemand::Specified {
        cipher: String::new(),
        issuer: "/O=Heddle tests/CN=test CA".to_owned(),
        subject: subject.to_owned(),
    };
    let demands = [
        ("tls_any", TlsDemand::Any, [false, true, true]),
        ("tls_x509", TlsDemand::X509, [false, false, true]),
        (
            "tls_me",
            named("/O=Heddle tests/CN=client"),
            [false, false, true],
        ),
        (
            "tls_you",
            named("/O=Heddle tests/CN=you"),
            [false, false, false],
        ),
    ];
    let door = stage.door_with(|tuning| {
        tuning.transport = Arc::new(terms);
        for (user, demand, _) in &demands {
            tuning.accounts.push(Account {
                tls: demand.clone(),
                ..account(user, "%", "secret")
            });
        }
    });
    let with_own = with_certificate(&ca, &read(&mine.certificate), &read(&mine.key));
    for (user, _, expected) in demands {
        stage.everywhere(&format!(
            "CREATE OR REPLACE USER {user} IDENTIFIED BY 'secret'"
        ));
        let ways = [
            None,
            Some(any_certificate()),
            Some(Arc::new(with_own.clone())),
        ];
        for (tls, may) in ways.into_iter().zip(expected) {
            let login = Login {
                user,
                password: "secret",
                tls,
                ..Login::default()
            };
            match door.login(&login) {
                Ok(mut client) => {
                    assert!(may, "{user}");
                    assert_eq!(client.value("SELECT 1"), "1");
                }
                Err(refused) => assert_eq!((may, refused.number()), (false, 1045), "{user}"),
            }
        }
    }
}

/// Logs in with MariaDB's client from 11.4, which wants a certificate that it can trust, or the proof
/// that who shows it knows the password. Gives what it prints.
fn by_mariadbs_client(release: Release, plugin: &str) -> Option<String> {
    let client = Release::MariaDb114.binary().ok()?;
    let client = client.path.with_file_name("mariadb");
    let stage = Stage::start_with(release)?;
    let authority = Authority::new("a CA of nobody");
    let pair = authority.sign("router", &["elsewhere"]);
    let door = stage.door_with(|tuning| {
        tuning.live_accounts = true;
        tuning.transport = transport(ClientTls::Preferred, &pair);
    });
    let account = format!("CREATE USER app@'%' IDENTIFIED {plugin} 'secret'");
    door.client().run(&account);
    let mut command = std::process::Command::new(client);
    command
        // What it knows as an address of its own machine it trusts.
        .args(["--no-defaults", "-h127.1", "-uapp", "-psecret", "-N"])
        .arg(format!("-P{}", door.address().port()))
        .args(["-e", "SELECT CURRENT_USER()"]);
    let output = command.output().expect("the client runs");
    let text = [output.stdout, output.stderr].concat();
    Some(String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_certificate_that_nobody_signed_is_proved_to_mariadbs_client() {
    for release in [Release::Installed, Release::MariaDb114] {
        let said = by_mariadbs_client(release, "BY");
        assert_eq!(said.as_deref().unwrap_or("app@%\n"), "app@%\n");
    }
    // In front of MySQL there is no such proof.
    let plugin = "WITH mysql_native_password BY";
    if let Some(said) = by_mariadbs_client(Release::MySql80, plugin) {
        assert!(said.contains("ERROR 2026"), "{said}");
    }
}
