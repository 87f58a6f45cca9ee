//! Starts, adopts, crashes and stops real servers. Skipped where no MariaDB is installed.

#![expect(
    clippy::print_stderr,
    reason = "a skipped test says so where the runner shows it"
)]

use std::path::Path;
use std::time::Duration;

use farm::Engine;
use mysqld::{Binary, Error, Options, Server};
use testkit::ports::free_port;

const PATIENCE: Duration = Duration::from_secs(30);

fn mariadb() -> Option<Binary> {
    let found = Binary::find(Engine::MariaDb, None);
    if let Err(error) = &found {
        eprintln!("skipped: {error}");
    }
    found.ok()
}

fn started(binary: &Binary, dir: &Path) -> Server {
    let template = mysqld::template(binary, &mysqld::cache_dir(dir)).expect("a template");
    let mut options = Options::new("t1", &dir.join("t1"), free_port(), 1);
    options.buffer_pool_bytes = 16 << 20;
    let mut server = Server::start(binary, &template, options).expect("started");
    server.wait_ready(PATIENCE).expect("ready");
    server
}

#[test]
fn a_server_is_started_adopted_after_its_parent_forgot_it_and_stopped() {
    let Some(binary) = mariadb() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = started(&binary, dir.path());
    let (pid, options) = (server.pid(), server.options().clone());
    assert!(server.is_running());

    let mut adopted = Server::adopt(options.clone()).expect("it runs");
    assert_eq!(adopted.pid(), pid);
    adopted.wait_ready(PATIENCE).expect("it answers");
    // The original handle reaps the process: here both are in one process.
    server.stop(PATIENCE).expect("stopped");
    assert!(!adopted.is_running());
    assert!(Server::adopt(options).is_none());
}

/// As while it recovers, and while it shuts down.
#[test]
fn a_server_without_a_pid_file_is_adopted() {
    let Some(binary) = mariadb() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = started(&binary, dir.path());
    std::fs::remove_file(dir.path().join("t1/mysqld.pid")).expect("it wrote one");
    let adopted = Server::adopt(server.options().clone()).expect("it runs");
    assert_eq!(adopted.pid(), server.pid());
    server.stop(PATIENCE).expect("stopped");
}

#[test]
fn a_killed_server_starts_again_on_its_data() {
    let Some(binary) = mariadb() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut server = started(&binary, dir.path());
    server.kill().expect("killed");
    assert!(!server.is_running());
    std::fs::write(dir.path().join("t1/data/witness"), "").expect("written");

    let mut again = started(&binary, dir.path());
    assert!(dir.path().join("t1/data/witness").exists());
    again.stop(PATIENCE).expect("stopped");
}

#[test]
fn a_port_in_use_is_named_before_anything_is_made() {
    let Some(binary) = mariadb() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("bound").port();
    let options = Options::new("t1", &dir.path().join("t1"), port, 1);
    let error = Server::start(&binary, dir.path(), options).expect_err("the port is taken");
    assert!(matches!(error, Error::PortInUse { .. }), "{error}");
    assert!(error.to_string().contains(&port.to_string()), "{error}");
    assert!(!dir.path().join("t1/data").exists());
}

#[test]
fn a_server_that_cannot_start_says_why() {
    let Some(binary) = mariadb() else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let template = mysqld::template(&binary, &mysqld::cache_dir(dir.path())).expect("a template");
    let mut options = Options::new("t1", &dir.path().join("t1"), free_port(), 1);
    options
        .extra
        .push(("no_such_setting".to_owned(), "1".to_owned()));
    let mut server = Server::start(&binary, &template, options).expect("started");
    let error = server
        .wait_ready(PATIENCE)
        .expect_err("the setting is unknown");
    assert!(error.to_string().contains("no_such_setting"), "{error}");
}
