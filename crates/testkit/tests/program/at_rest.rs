//! What other users of the machine can read of a router: nothing; and what it says to anybody of its secrets:
//! nothing either.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde_json::Value;
use testkit::router::Router;
use testkit::{Release, Server, wait_until};

/// Names and modes of the directory and of what is in it.
fn modes(dir: &Path) -> Vec<(String, u32)> {
    let mode = |path: &Path| {
        fs::symlink_metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
    };
    let mut all = vec![(".".to_owned(), mode(dir) & 0o777)];
    for entry in fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        // A socket has its mode a moment after its name; until then the directory closes it.
        if name.starts_with("handover.sock.") {
            continue;
        }
        all.push((name, mode(&entry.path()) & 0o777));
    }
    all
}

fn assert_closed(dir: &Path) {
    let all = modes(dir);
    assert!(all.iter().any(|(name, _)| name == "state.redb"), "{all:?}");
    let open: Vec<_> = all.iter().filter(|(_, mode)| mode & 0o077 != 0).collect();
    assert!(open.is_empty(), "open to others: {open:?}");
}

#[test]
fn the_state_of_a_router_is_closed_to_other_users() {
    let mut router = Router::start("");
    let dir = router.state_dir();
    assert_closed(&dir);
    fs::set_permissions(&dir, Permissions::from_mode(0o755)).expect("its owner may");
    for entry in fs::read_dir(&dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let kind = entry.file_type().expect("it has a type");
        if kind.is_file() {
            let open = Permissions::from_mode(0o644);
            fs::set_permissions(entry.path(), open).expect("its owner may");
        }
    }
    router.renew();
    assert!(router.says("WARNING: other users could read the state"));
    assert!(router.says("state.redb"));
    assert_closed(&dir);
    wait_until(
        std::time::Duration::from_secs(30),
        "the end of the first",
        || router.relieved() == 0,
    );
}

/// What the HTTP door answers to whoever has this token.
fn page(door: SocketAddr, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(door).expect("it listens");
    let asked = format!(
        "GET /{path} HTTP/1.1\r\nHost: {door}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(asked.as_bytes()).expect("sent");
    let mut said = String::new();
    stream.read_to_string(&mut said).expect("a text");
    said
}

/// What the farm's routers know each other by: its secret, and a line of its authority's key. They stand in one
/// place, which says so.
fn known_by(router: &Router) -> [String; 2] {
    let exported = router.run(&["meta", "export", "--json"]);
    let rows: Vec<Value> = serde_json::from_str(&exported).expect("an array");
    let kept = |key: &str| -> Value {
        let row = rows.iter().find(|row| row["key"] == key);
        let value = row.and_then(|row| row["value"].as_str());
        serde_json::from_str(value.expect("each farm has it")).expect("JSON")
    };
    let secret = kept("/farm/secret");
    let authority = kept("/farm/authority");
    let key = authority["key"].as_str().and_then(|pem| pem.lines().nth(1));
    [secret.as_str(), key].map(|text| text.expect("a text").to_owned())
}

/// Neither commands nor pages say any of these.
#[track_caller]
fn assert_keeps(router: &Router, secrets: &[String; 7]) {
    let asked: [&[&str]; 10] = [
        &["config", "show"],
        &["config", "settings"],
        &["config", "history"],
        &["config", "rules"],
        &["group", "events", "g"],
        &["group", "health", "g"],
        &["router", "list"],
        &["session", "list"],
        &["dump", "servers"],
        &["manage", "help"],
    ];
    for words in asked {
        let said = router.run(words);
        for secret in secrets {
            assert!(!said.contains(secret), "{words:?}: {said}");
        }
    }
    for path in ["v1/farm", "metrics", ""] {
        let page = page(router.http, path, &secrets[3]);
        assert!(page.starts_with("HTTP/1.1 200"), "/{path}: {page}");
        for secret in secrets {
            assert!(!page.contains(secret), "/{path}: {page}");
        }
    }
}

/// Each secret that was planted, or that the router made, is looked for in all that it says.
#[test]
fn nothing_that_a_router_says_has_a_secret_in_it() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let planted = |name: &str| {
        let secret = format!("planted {name}");
        let file = dir.path().join(name);
        fs::write(&file, format!("{secret}\n")).expect("written");
        (secret, file.display().to_string())
    };
    let (admin, admin_file) = planted("admin");
    let (replication, replication_file) = planted("replication");
    let (backend, backend_file) = planted("backend");
    let mut root = server.client();
    root.run(&format!("CREATE USER heddle IDENTIFIED BY '{admin}'"));
    root.run("GRANT ALL ON *.* TO heddle WITH GRANT OPTION");
    let router = Router::start(&format!(
        "admin_user = \"heddle\"\nadmin_password_file = \"{admin_file}\"\n\
         replication_password_file = \"{replication_file}\"\ncore_dumps = \"off\"\n\
         log_level = \"trace\"\n[[backend_credential]]\nuser = \"app\"\n\
         password_file = \"{backend_file}\""
    ));
    router.run(&["group", "create", "g"]);
    // It is the password of the file that lets it in.
    router.run(&["group", "add", "g", &server.address().to_string()]);
    router.run(&["group", "activate", "g"]);
    wait_until(
        std::time::Duration::from_secs(60),
        "a farm that answers",
        || router.run(&["group", "health", "g"]).contains("true"),
    );
    let token = |name: &str| {
        let text = fs::read_to_string(router.state_dir().join(name)).expect("it was made");
        text.trim().to_owned()
    };
    let [secret, key] = known_by(&router);
    let secrets = [
        admin,
        replication,
        backend,
        token("token"),
        token("monitor-token"),
        secret,
        key,
    ];
    assert_keeps(&router, &secrets);
    assert!(router.says("ready sql="), "the log is read");
    for secret in &secrets {
        assert!(!router.says(secret), "the log has {secret}");
    }
}
