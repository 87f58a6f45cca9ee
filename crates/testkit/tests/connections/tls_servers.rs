//! The SQL door's connections to servers: TLS on every term, with servers that have it and that
//! have not.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use channel::{ServerTls, Trust};
use session::{ClientTls, Terms, Transport};
use testkit::certificates::Authority;
use testkit::client::Client;
use testkit::client::{Failure, Login};
use testkit::door::account;
use testkit::proxy::{Proxy, outer_address};
use testkit::router::Router;
use testkit::{Door, Release, Server, wait_until};

/// A loaded machine takes its time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A door whose servers are met on these terms.
fn door(server: &Server, mode: ServerTls, ca: Option<&Authority>) -> Door {
    let ca = ca.map(|authority| fs::read(authority.file()).expect("a file of the test"));
    let terms = Terms {
        trust: Trust::new(mode, ca.as_deref()).expect("authorities"),
        compress: None,
        proxy: None,
        sockets: false,
    };
    door_with(server, terms)
}

fn door_with(server: &Server, terms: Terms) -> Door {
    Door::start(&[server], |tuning| {
        tuning.transport = Arc::new(Transport::new(ClientTls::Off, None, terms));
        tuning.accounts.push(account("tls_in", "%", "secret"));
    })
}

/// What the server says of the connection behind the door: the cipher, empty without TLS.
fn cipher(door: &Door) -> Result<String, Failure> {
    let login = Login {
        user: "tls_in",
        password: "secret",
        ..Login::default()
    };
    let mut client = door.login(&login)?;
    client.query("SELECT 1")?;
    // What is prepared in SQL is the server's own affair.
    client.run("PREPARE asks FROM \"SHOW SESSION STATUS LIKE 'Ssl_cipher'\"");
    let rows = client.rows("EXECUTE asks");
    Ok(rows[0][1].clone().unwrap_or_default())
}

fn server(authority: &Authority, hosts: &[&str]) -> Option<Server> {
    let pair = authority.sign("server", hosts);
    let (certificate, key) = (pair.certificate.display(), pair.key.display());
    let settings = [
        ("ssl_cert", certificate.to_string()),
        ("ssl_key", key.to_string()),
    ];
    let settings = settings
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    let server = Server::start_with(Release::Installed, &settings)?;
    let mut client = server.client();
    client.run("CREATE USER tls_in IDENTIFIED BY 'secret'");
    Some(server)
}

#[test]
fn every_mode_with_a_server_that_has_tls() {
    let (right, wrong) = (Authority::new("right CA"), Authority::new("wrong CA"));
    let Some(server) = server(&right, &["elsewhere.example"]) else {
        return;
    };
    let plain = |mode| cipher(&door(&server, mode, None)).expect("connected");
    assert_eq!(plain(ServerTls::Disabled), "");
    assert_eq!(
        plain(ServerTls::Preferred),
        "",
        "nothing leaves this machine"
    );
    assert!(plain(ServerTls::Required).contains("GCM"));
    let verified = cipher(&door(&server, ServerTls::VerifyCa, Some(&right)));
    assert!(
        verified
            .expect("signed by the right authority")
            .contains("GCM")
    );
    for (mode, ca) in [
        (ServerTls::VerifyCa, &wrong),
        (ServerTls::VerifyIdentity, &wrong),
        (ServerTls::VerifyIdentity, &right),
    ] {
        let refused = cipher(&door(&server, mode, Some(ca))).expect_err("not to be trusted");
        let text = refused.to_string();
        assert!(text.starts_with("1429 (HY000)"), "{mode:?}: {text}");
        assert!(
            text.contains("TLS: invalid peer certificate"),
            "{mode:?}: {text}"
        );
    }
}

#[test]
fn a_servers_name_is_verified() {
    let authority = Authority::new("right CA");
    let Some(server) = server(&authority, &["127.0.0.1"]) else {
        return;
    };
    let verified = cipher(&door(&server, ServerTls::VerifyIdentity, Some(&authority)));
    assert!(verified.expect("its own certificate").contains("GCM"));
}

#[test]
fn a_server_without_tls_is_refused_only_where_it_must_have_it() {
    let Some(server) = Server::start_with(Release::Installed, &[("skip_ssl", "1")]) else {
        return;
    };
    server
        .client()
        .run("CREATE USER tls_in IDENTIFIED BY 'secret'");
    let preferred = cipher(&door(&server, ServerTls::Preferred, None));
    assert_eq!(preferred.expect("connected"), "");
    let refused = cipher(&door(&server, ServerTls::Required, None)).expect_err("no TLS");
    let text = refused.to_string();
    assert!(text.contains("the server offers no TLS"), "{text}");
}

#[test]
fn long_ones_and_idle_connections_inside_tls() {
    let authority = Authority::new("right CA");
    let Some(server) = server(&authority, &["127.0.0.1"]) else {
        return;
    };
    let door = door(&server, ServerTls::VerifyCa, Some(&authority));
    let mut client = door.client();
    client.run("CREATE DATABASE tls_long");
    client.run("CREATE TABLE tls_long.t (b LONGBLOB)");
    client.run("SET GLOBAL max_allowed_packet = 67108864");
    let mut client = door.client();
    let long = "xyz".repeat(6 << 20);
    drop(door.client());
    let sent = client.query(format!("INSERT INTO tls_long.t VALUES ('{long}')"));
    if let Err(failure) = sent {
        // The pool's connection is older than the limit; a new one has it.
        assert_eq!(failure.number(), 1153, "{failure}");
    } else {
        assert!(client.value("SELECT b FROM tls_long.t") == long);
    }
    let opened = |door: &Door| door.counter("pool_opened");
    testkit::wait_until(std::time::Duration::from_secs(20), "the gauge", || {
        opened(&door) > 0
    });
    let before = client.server_id();
    // Longer than a pooled connection is trusted without a look.
    let waits = "SELECT SLEEP(2.5)";
    let mut other = server.client();
    other.query(waits).expect("slept");
    assert_eq!(client.server_id(), before);
}

/// MySQL before 8.0.16 has no elliptic curves for TLS, and Heddle nothing else.
#[test]
fn without_a_common_cipher_only_preferred_goes_on() {
    let Some(server) = Server::start(Release::MySql80) else {
        return;
    };
    let mut root = server.client();
    root.run("CREATE USER tls_in IDENTIFIED WITH mysql_native_password BY 'secret'");
    let refused = cipher(&door(&server, ServerTls::Required, None)).expect_err("no cipher");
    let text = refused.to_string();
    assert!(text.contains("TLS: received fatal alert"), "{text}");
    let mut trust = Trust::new(ServerTls::Preferred, None).expect("no file is read");
    trust.spares_loopback = false;
    let compress = None;
    let door = door_with(
        &server,
        Terms {
            trust,
            compress,
            proxy: None,
            sockets: false,
        },
    );
    assert_eq!(cipher(&door).expect("without TLS"), "");
}

#[test]
fn mariadb_11_4_makes_its_own_certificate() {
    let Some(server) = Server::start_with(Release::MariaDb114, &[("ssl", "1")]) else {
        return;
    };
    let mut root = server.client();
    root.run("CREATE USER tls_in IDENTIFIED BY 'secret'");
    let required = cipher(&door(&server, ServerTls::Required, None));
    assert!(!required.expect("any certificate will do").is_empty());
    let mut trust = Trust::new(ServerTls::Preferred, None).expect("no file is read");
    trust.spares_loopback = false;
    let compress = None;
    let door = door_with(
        &server,
        Terms {
            trust,
            compress,
            proxy: None,
            sockets: false,
        },
    );
    assert!(!cipher(&door).expect("it is offered").is_empty());
}

/// A MySQL on another machine that an operator adds is known by its key from then on, so that it may have
/// passwords; another key is refused and told, until an operator says that it is the server's.
#[test]
fn a_member_of_the_farm_is_known_by_its_key() {
    let Some(outer) = outer_address() else { return };
    let authority = Authority::new("the farm's");
    let (old, new) = (authority.sign("old", &["a"]), authority.sign("new", &["a"]));
    let text = |path: &std::path::Path| path.display().to_string();
    let settings = [
        ("ssl_cert", text(&old.certificate)),
        ("ssl_key", text(&old.key)),
    ];
    let settings = settings
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    let Some(server) = Server::start_with(Release::MySqlNewer, &settings) else {
        return;
    };
    let mut root = server.client();
    for user in ["heddle", "app"] {
        root.run(&format!(
            "CREATE USER {user} IDENTIFIED WITH caching_sha2_password BY 'secret'"
        ));
        root.run(&format!("GRANT ALL ON *.* TO {user} WITH GRANT OPTION"));
    }
    let way = Proxy::on(outer, server.address());
    let member = way.address.to_string();
    let router = Router::start("admin_user = \"heddle\"\nadmin_password = \"secret\"");
    router.run(&["group", "create", "g"]);
    router.run(&["group", "add", "g", &member]);
    let key = router.run(&["server", "accept_certificate", &member]);
    let shown = |word: &str| router.run(&["group", "events", "g"]).contains(word);
    assert!(!shown("certificate_"), "it was known already: {key}");
    let mut app = None;
    wait_until(PATIENCE, "a login", || {
        app = Client::connect(router.sql, "app", "secret").ok();
        app.is_some()
    });
    let asked = "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)";
    let mut app = app.expect("it was waited for");
    assert_eq!(
        app.value(asked),
        "app",
        "the server may ask for the password"
    );

    root.run(&format!(
        "SET GLOBAL ssl_cert = '{}'",
        text(&new.certificate)
    ));
    root.run(&format!("SET GLOBAL ssl_key = '{}'", text(&new.key)));
    root.run("ALTER INSTANCE RELOAD TLS");
    let own = root.value("SELECT CONNECTION_ID()");
    let others = root.rows(&format!(
        "SELECT id FROM information_schema.processlist WHERE user IN ('heddle', 'app') AND id <> {own}"
    ));
    for row in others {
        let id = row[0].clone().expect("an id");
        // Some end by themselves.
        let _ = root.query(format!("KILL {id}"));
    }
    wait_until(PATIENCE, "certificate_changed", || {
        shown("certificate_changed")
    });
    let wrong = ["server", "accept_certificate", &member, &"0".repeat(64)];
    assert!(router.error(&wrong).contains("shows another key"));
    assert_ne!(router.run(&["server", "accept_certificate", &member]), key);
    assert!(shown("certificate_accepted"));
    wait_until(PATIENCE, "a login", || {
        let app = Client::connect(router.sql, "app", "secret").ok();
        app.is_some_and(|mut app| app.query(asked).is_ok())
    });
}
