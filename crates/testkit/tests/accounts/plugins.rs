//! The SQL door: accounts of plugins that need more than a scramble: two passwords, PAM, several factors,
//! signatures with drawn keys; and accounts that the door has to refuse.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use channel::{Presented, ServerTls, Trust};
use farm::{Account, AuthPlugin};
use mysql_wire::auth::{self, ParsecTerms};
use session::{BackendCredential, ClientTls, Secret, Terms, Transport};
use testkit::certificates::{Authority, Pair};
use testkit::client::{Login, any_certificate};
use testkit::door::{Tuning, account};
use testkit::{Client, Door, Release, Server, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

fn as_user<'a>(user: &'a str, password: &'a str) -> Login<'a> {
    Login {
        user,
        password,
        ..Login::default()
    }
}

fn secure<'a>(user: &'a str, password: &'a str) -> Login<'a> {
    Login {
        tls: Some(any_certificate()),
        ..as_user(user, password)
    }
}

#[track_caller]
fn admitted(door: &Door, user: &str, password: &str) -> Client {
    let name = || format!("{user} by {password}");
    let login = door.login(&as_user(user, password));
    login.unwrap_or_else(|failure| panic!("{}: {failure}", name()))
}

#[track_caller]
fn refused(door: &Door, login: &Login<'_>) -> String {
    let refused = door.login(login).expect_err("not to be let in");
    refused.to_string()
}

/// Ends the connections of a user at the server, and waits until they are gone.
fn cut(server: &Server, user: &str) {
    let list = format!(
        "SELECT GROUP_CONCAT(id) FROM information_schema.processlist WHERE user = '{user}'"
    );
    for id in server.client().value(&list).split(',') {
        let _ = server.client().query(format!("KILL {id}"));
    }
    wait_until(SOON, "the connections are gone", || {
        server.client().value(&list) == "NULL"
    });
}

/// What a session hears on a connection that is new.
fn hear_anew(server: &Server, client: &mut Client, user: &str) -> u16 {
    cut(server, user);
    // The first one may find its connection lost.
    let _ = client.query("SELECT CURRENT_USER()");
    match client.query("SELECT CURRENT_USER()") {
        Ok(_) => 0,
        Err(failure) => failure.number(),
    }
}

/// Both passwords let in, each as long as the server keeps it, and sessions outlive the change.
#[test]
fn either_of_two_passwords_lets_in() {
    let Some(stage) = Stage::start_with(Release::MySqlNewer) else {
        return;
    };
    let door = stage.door_with(Tuning::follow_accounts);
    let mut root = door.client();
    for plugin in [auth::NATIVE, auth::CACHING_SHA2, auth::SHA256] {
        let user = plugin.trim_end_matches("_password");
        root.run(&format!(
            "CREATE USER {user}@'%' IDENTIFIED WITH {plugin} BY 'old'"
        ));
        let mut session = admitted(&door, user, "old");
        assert_eq!(session.value("SELECT CURRENT_USER()"), format!("{user}@%"));
        root.run(&format!(
            "ALTER USER {user}@'%' IDENTIFIED BY 'new' RETAIN CURRENT PASSWORD"
        ));
        for password in ["old", "new", "old"] {
            let mut client = admitted(&door, user, password);
            assert_eq!(client.value("SELECT CURRENT_USER()"), format!("{user}@%"));
        }
        let wrong = door.login(&as_user(user, "neither")).expect_err("wrong");
        assert_eq!(wrong.number(), 1045, "{plugin}: {wrong}");
        // The session can still prove itself, on a new connection, too.
        let heard = hear_anew(&stage.primary, &mut session, user);
        assert_eq!(heard, 0, "{plugin}");

        let mut newer = admitted(&door, user, "new");
        root.run(&format!("ALTER USER {user}@'%' DISCARD OLD PASSWORD"));
        assert_eq!(session.value("SELECT 1 + 1"), "2", "{plugin}: it goes on");
        for address in [stage.primary.address(), door.address()] {
            let old = Client::login(address, &as_user(user, "old")).expect_err("discarded");
            assert_eq!(old.number(), 1045, "{plugin}: {old}");
        }
        drop(admitted(&door, user, "new"));
        let heard = hear_anew(&stage.primary, &mut newer, user);
        assert_eq!(heard, 0, "{plugin}: the other session knows the new one");
    }
}

/// No single proof lets in where the account wants several, and the reason is said at once.
#[test]
fn several_factors_are_refused_with_the_reason() {
    let Some(stage) = Stage::start_with(Release::MySqlNewer) else {
        return;
    };
    stage.everywhere(
        "CREATE USER factors@'%' IDENTIFIED WITH mysql_native_password BY 'first'; \
         CREATE USER factors_too@'%' IDENTIFIED WITH mysql_native_password BY 'first'; \
         CREATE USER plain@'%' IDENTIFIED WITH mysql_native_password BY 'other'; \
         UPDATE mysql.user SET User_attributes = '{\"multi_factor_authentication\": \
           [{\"plugin\": \"authentication_webauthn\", \"passwordless\": 0, \
             \"authentication_string\": \"\", \"requires_registration\": 1}]}' \
           WHERE User LIKE 'factors%'; \
         FLUSH PRIVILEGES",
    );
    let door = stage.door_with(|tuning| {
        tuning.follow_accounts();
        let credential = |user: &str, server_user: Option<&str>| BackendCredential {
            user: user.to_owned(),
            host: None,
            password: Secret::new(b"other"),
            server_user: server_user.map(str::to_owned),
        };
        tuning.backend_credentials = vec![credential("factors_too", Some("plain"))];
    });
    for password in ["first", "wrong", ""] {
        let said = refused(&door, &as_user("factors", password));
        assert!(said.starts_with("1524 (HY000)"), "{said}");
        assert!(
            said.contains("authentication_webauthn") && said.contains("server_user"),
            "{said}"
        );
    }
    let mut other = admitted(&door, "factors_too", "other");
    assert_eq!(other.value("SELECT CURRENT_USER()"), "plain@%");
    assert!(refused(&door, &as_user("factors_too", "first")).starts_with("1045"));
}

/// A door whose clients have TLS, and whose servers have it on these terms.
fn inside_tls(server: &Server, pair: &Pair, servers: ServerTls) -> Door {
    let read = |path| fs::read(path).expect("a file of the test");
    let shown = Presented::from_pem(&read(&pair.certificate), &read(&pair.key), None);
    let terms = Terms {
        trust: Trust::new(servers, None).expect("no authority is asked"),
        compress: None,
        proxy: None,
        sockets: false,
    };
    let shown = Some(shown.expect("a good pair"));
    Door::start(&[server], |tuning| {
        tuning.transport = Arc::new(Transport::new(ClientTls::Preferred, shown, terms));
        tuning.live_accounts = true;
    })
}

/// A server with TLS, if this release can be had.
fn with_tls(release: Release, pair: &Pair, more: &[(&str, &str)]) -> Option<Server> {
    let (certificate, key) = (pair.certificate.display(), pair.key.display());
    let (certificate, key) = (certificate.to_string(), key.to_string());
    let mut settings = vec![("ssl_cert", &*certificate), ("ssl_key", &*key)];
    settings.extend(more);
    Server::start_with(release, &settings)
}

/// A service of this machine's PAM that knows one password; removed when dropped.
struct Service {
    name: String,
    rules: PathBuf,
    _dir: tempfile::TempDir,
    known: PathBuf,
}

impl Service {
    /// `None` where services cannot be made.
    fn make(password: &str) -> Option<Service> {
        let dir = tempfile::tempdir().expect("a directory");
        let (known, program) = (dir.path().join("known"), dir.path().join("judge"));
        let name = format!("heddle-test-{}", std::process::id());
        let rules = PathBuf::from("/etc/pam.d").join(&name);
        fs::write(&known, password).expect("a file");
        let text = format!(
            "#!/bin/sh\n[ \"$(tr -d '\\0')\" = \"$(cat {})\" ]\n",
            known.display()
        );
        fs::write(&program, text).expect("a file");
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&program, mode.clone()).expect("its owner may");
        fs::set_permissions(dir.path(), mode).expect("its owner may");
        let service = format!(
            "auth required pam_exec.so expose_authtok quiet {}\naccount required pam_permit.so\n",
            program.display()
        );
        fs::write(&rules, service).ok()?;
        Some(Service {
            name,
            rules,
            _dir: dir,
            known,
        })
    }

    fn knows(&self, password: &str) {
        fs::write(&self.known, password).expect("a file");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.rules);
    }
}

/// What PAM judges comes in clear, inside TLS on both sides, and a server is asked at each login.
#[test]
fn what_pam_judges_is_sent_inside_tls() {
    let Some(service) = Service::make("secret") else {
        testkit::skip(&"no PAM service can be made here");
        return;
    };
    let authority = Authority::new("test CA");
    let pair = authority.sign("both", &["127.0.0.1"]);
    for cleartext in ["OFF", "ON"] {
        let pam = [
            ("plugin_load_add", "auth_pam"),
            ("loose_pam_use_cleartext_plugin", cleartext),
        ];
        let Some(server) = with_tls(Release::Installed, &pair, &pam) else {
            return;
        };
        let mut root = server.client();
        let made = root.query(format!(
            "CREATE USER by_pam@'%' IDENTIFIED VIA pam USING '{}'",
            service.name
        ));
        if made.is_err() {
            testkit::skip(&"this MariaDB has no auth_pam");
            return;
        }
        service.knows("secret");
        // As far as the server itself lets in, so does the door.
        let straight = Client::login(server.address(), &secure("by_pam", "secret"));
        if let Err(failure) = &straight {
            testkit::skip(&format!("PAM does not work here: {failure}"));
            return;
        }
        let door = inside_tls(&server, &pair, ServerTls::Required);
        let open = refused(&door, &as_user("by_pam", "secret"));
        assert!(
            open.starts_with("3159") && open.contains("inside TLS"),
            "{open}"
        );
        let mut client = door
            .login(&secure("by_pam", "secret"))
            .expect("PAM knows it");
        assert_eq!(client.value("SELECT CURRENT_USER()"), "by_pam@%");
        for plugin in [auth::CLEAR, auth::NATIVE, auth::CACHING_SHA2] {
            let login = Login {
                plugin: Some(plugin),
                ..secure("by_pam", "secret")
            };
            let mut client = door.login(&login).expect("PAM knows it");
            assert_eq!(client.value("SELECT CURRENT_USER()"), "by_pam@%");
        }
        let again = Login {
            plugin: Some(auth::CLEAR),
            ..secure("by_pam", "secret")
        };
        client.change_user(&again).expect("PAM knows it");
        assert_eq!(client.value("SELECT CURRENT_USER()"), "by_pam@%");
        for wrong in ["wrong", ""] {
            assert!(refused(&door, &secure("by_pam", wrong)).starts_with("1045"));
        }
        // What was right before is of no use once PAM knows another one, whatever is idle.
        service.knows("other");
        let old = refused(&door, &secure("by_pam", "secret"));
        assert!(old.starts_with("1045"), "{cleartext}: {old}");
        drop(door.login(&secure("by_pam", "other")).expect("the new one"));
        assert_eq!(client.value("SELECT 1 + 1"), "2");
    }
}

/// With a backend credential a client of PAM need not show its password at all.
#[test]
fn a_credential_stands_for_what_pam_would_ask() {
    let Some(stage) = Stage::start() else { return };
    stage.everywhere("CREATE USER in_place@'%' IDENTIFIED BY 'configured'");
    let clear = |name: &str| Account {
        ways: vec![AuthPlugin::Clear {
            plugin: "pam".into(),
            dialog: true,
        }],
        ..account(name, "%", "")
    };
    let door = stage.door_with(|tuning| {
        tuning.accounts.extend([clear("by_pam"), clear("alone")]);
        tuning.backend_credentials = vec![BackendCredential {
            user: "by_pam".to_owned(),
            host: None,
            password: Secret::new(b"configured"),
            server_user: Some("in_place".to_owned()),
        }];
    });
    let mut client = admitted(&door, "by_pam", "configured");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "in_place@%");
    assert!(refused(&door, &as_user("by_pam", "other")).starts_with("1045"));
    assert!(refused(&door, &as_user("alone", "configured")).starts_with("3159"));
}

/// MySQL's plugins send the password itself where TLS hides it, on both sides of the door.
#[test]
fn plugins_of_mysql_inside_tls() {
    let authority = Authority::new("test CA");
    let pair = authority.sign("both", &["127.0.0.1"]);
    // The older one has no cipher that it could share with us.
    for (release, servers) in [
        (Release::MySql80, ServerTls::Disabled),
        (Release::MySqlNewer, ServerTls::Required),
    ] {
        let server = match servers {
            ServerTls::Disabled => Server::start(release),
            _ => with_tls(release, &pair, &[]),
        };
        let Some(server) = server else { continue };
        let door = inside_tls(&server, &pair, servers);
        let mut root = server.client();
        for plugin in [auth::NATIVE, auth::CACHING_SHA2, auth::SHA256] {
            let user = plugin.trim_end_matches("_password");
            root.run(&format!(
                "CREATE USER {user}@'%' IDENTIFIED WITH {plugin} BY 'secret'"
            ));
            // The first time in full, then by what is remembered.
            for _ in 0..2 {
                let mut client = door.login(&secure(user, "secret")).expect("the right one");
                assert_eq!(client.value("SELECT CURRENT_USER()"), format!("{user}@%"));
                let wrong = refused(&door, &secure(user, "wrong"));
                assert!(wrong.starts_with("1045"), "{user}: {wrong}");
            }
            let mut open = admitted(&door, user, "secret");
            assert_eq!(open.value("SELECT CURRENT_USER()"), format!("{user}@%"));
        }
    }
}

fn parsec(password: &str) -> AuthPlugin {
    let terms = ParsecTerms {
        doublings: 1,
        salt: *b"salt of this test!",
    };
    AuthPlugin::Parsec {
        doublings: terms.doublings,
        salt: terms.salt,
        public: terms.public(password.as_bytes()),
    }
}

/// One door is the server of another: what the second asks for, the first has to answer.
#[test]
fn parsec_is_spoken_on_both_sides() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    server
        .client()
        .run("CREATE USER last@'%' IDENTIFIED BY 'secret'");
    let signs = |way: AuthPlugin| Account {
        ways: vec![way],
        ..account("signs", "%", "")
    };
    let credential = |server_user: Option<&str>| BackendCredential {
        user: "signs".to_owned(),
        host: None,
        password: Secret::new(b"secret"),
        server_user: server_user.map(str::to_owned),
    };
    let tune = |tuning: &mut Tuning, password: &str, server_user: Option<&str>| {
        tuning.accounts.push(signs(parsec(password)));
        tuning.backend_credentials = vec![credential(server_user)];
    };
    let second = Door::start(&[&server], |tuning| tune(tuning, "secret", Some("last")));
    let first = Door::start(&[&server], |tuning| tune(tuning, "secret", None));
    first.change(0, |server| server.port = second.address().port());
    for door in [&second, &first] {
        for plugin in [auth::NATIVE, auth::CACHING_SHA2] {
            let login = |password| Login {
                plugin: Some(plugin),
                ..as_user("signs", password)
            };
            let mut client = door.login(&login("secret")).expect("it is right");
            assert_eq!(client.value("SELECT CURRENT_USER()"), "last@%");
            client.change_user(&login("secret")).expect("again");
            assert!(refused(door, &login("wrong")).starts_with("1045"));
            assert!(refused(door, &login("")).starts_with("1045"));
        }
    }
    // The password that the configuration gives is not the one behind: said, and no hang.
    let other = Door::start(&[&server], |tuning| {
        tuning.accounts.push(signs(parsec("other")));
        tuning.backend_credentials = vec![BackendCredential {
            password: Secret::new(b"other"),
            ..credential(None)
        }];
    });
    other.change(0, |server| server.port = second.address().port());
    let mut client = admitted(&other, "signs", "other");
    let failure = client.query("SELECT 1").expect_err("another password");
    assert_eq!(failure.number(), 1045, "{failure}");
}
