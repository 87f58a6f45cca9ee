//! Unix sockets of a router's doors over its life: made, handed over, taken from systemd, removed.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::client::Login;
use testkit::farm::heddle;
use testkit::router::Router;
use testkit::{Client, Release, Server, wait_until};

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn by_socket(path: &Path) -> Result<Client, testkit::client::Failure> {
    Client::login_by_socket(path, &Login::default())
}

/// What memcached's `version` is answered by this socket.
fn version(path: &Path) -> String {
    let mut stream = UnixStream::connect(path).expect("the door listens");
    stream.write_all(b"version\r\n").expect("sent");
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .expect("an answer");
    line
}

#[test]
fn they_are_made_handed_over_and_removed() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    let mut router = Router::start("");
    router.run(&["group", "create", "g"]);
    router.run(&["group", "add", "g", &server.address().to_string()]);
    router.run(&["group", "activate", "g"]);
    let home = router.state_dir().with_file_name("");
    let (sql, kv) = (home.join("sql.sock"), home.join("kv.sock"));
    // What a dead process left is replaced.
    drop(UnixListener::bind(&sql).expect("bound"));
    let address = router.sql.to_string();
    let settings = router.settings().replace(
        &format!("sql_listen = \"{address}\""),
        &format!(
            "sql_listen = [\"{address}\", {sql:?}]\nkv_listen = {kv:?}\nkv_auth = \"off\"\n\
             socket_permissions = \"0700\"\nserver_sockets = \"on\""
        ),
    );
    router.write_settings(&settings);
    router.renew();
    assert!(router.says(&format!(
        " sql_socket={} kv_socket={}",
        sql.display(),
        kv.display()
    )));
    let found = fs::metadata(&sql).expect("it is there");
    assert_eq!(found.permissions().mode() & 0o777, 0o700);
    let mut stays = None;
    wait_until(PATIENCE, "a login by the socket", || {
        stays = by_socket(&sql).ok();
        stays.is_some()
    });
    let mut stays = stays.expect("it was waited for");
    stays.run("CREATE DATABASE d");
    assert!(version(&kv).starts_with("VERSION "));
    let sessions = router.run(&["session", "list"]);
    assert!(sessions.contains("localhost"), "{sessions}");

    // The next process has the same socket, and the one before removes nothing.
    router.renew();
    stays.run("CREATE TABLE d.t (a INT)");
    let mut comes = by_socket(&sql).expect("the new process takes it");
    comes.run("INSERT INTO d.t VALUES (1)");
    drop(stays);
    wait_until(PATIENCE, "the one before to end", || router.relieved() == 0);
    let now = fs::metadata(&sql).expect("it is there still");
    assert_eq!(now.ino(), found.ino());
    assert!(by_socket(&sql).is_ok() && version(&kv).starts_with("VERSION "));

    // A live one is refused with a clear line.
    let other = heddle_on(&home.join("other"), &sql);
    let output = other.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("another process listens there"),
        "{said}"
    );

    drop(comes);
    let process = router.process().id().to_string();
    let told = Command::new("kill").arg(process).status();
    assert!(told.expect("kill can be run").success());
    wait_until(PATIENCE, "the end", || router.has_ended());
    assert!(!sql.exists() && !kv.exists());
}

/// A router of its own whose SQL door is a socket alone.
fn heddle_on(state: &Path, socket: &Path) -> Child {
    start(Command::new(heddle()), state, socket)
}

fn start(mut command: Command, state: &Path, socket: &Path) -> Child {
    fs::create_dir_all(state).expect("a directory");
    let settings = state.join("heddle.toml");
    let text = format!(
        "sql_listen = {socket:?}\nhttp_listen = \"127.0.0.1:0\"\nstate_dir = {:?}\n",
        state.join("state")
    );
    fs::write(&settings, text).expect("written");
    command.args(["serve", "--config"]).arg(settings);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped());
    command.spawn().expect("the program can be run")
}

/// Passes a listening Unix socket as descriptor 3, as systemd does, and becomes the program.
const ACTIVATE: &str = "
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_FDNAMES='heddle.socket', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn one_is_taken_from_systemd() {
    let home = tempfile::tempdir().expect("a directory");
    let socket = home.path().join("sql.sock");
    let mut command = Command::new("python3");
    command.args(["-c", ACTIVATE]).arg(&socket).arg(heddle());
    let mut program = start(command, home.path(), &socket);
    // The farm is empty: somebody is greeted and refused.
    wait_until(PATIENCE, "an answer", || {
        by_socket(&socket).is_err_and(|failure| failure.number() != 0)
    });
    let told = Command::new("kill").arg(program.id().to_string()).status();
    assert!(told.expect("kill can be run").success());
    assert!(program.wait().expect("it ends").success());
    assert!(!socket.exists(), "nobody else has it");
}
