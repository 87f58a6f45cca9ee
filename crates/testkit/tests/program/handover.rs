//! One process takes over from another on the same machine: nobody is refused, no statement fails.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use testkit::router::Router;
use testkit::{Client, Release, Server, running_with, wait_until};

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Dropped, also by a failure, it ends the load.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// A router in front of one server with a table.
fn farm(settings: &str) -> Option<(Router, Server)> {
    let server = Server::start(Release::Installed)?;
    let router = Router::start(settings);
    router.run(&["group", "create", "g"]);
    router.run(&["group", "add", "g", &server.address().to_string()]);
    router.run(&["group", "activate", "g"]);
    let mut client = router.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, n INT)");
    Some((router, server))
}

/// Comes, reads, writes and goes, again and again; how often.
fn comes_and_goes(sql: SocketAddr, over: &AtomicBool) -> usize {
    let mut rounds = 0;
    while !over.load(SeqCst) {
        let mut client = Client::connect(sql, "root", "").expect("let in");
        assert_eq!(client.value("SELECT 1"), "1");
        client.run("INSERT INTO d.t (n) VALUES (1)");
        client.quit();
        rounds += 1;
    }
    rounds
}

/// Stays connected, with transactions; how many statements.
fn stays(sql: SocketAddr, over: &AtomicBool, moved: &AtomicUsize) -> usize {
    let mut client = Client::connect(sql, "root", "").expect("let in");
    let mut rounds = 0;
    while !over.load(SeqCst) {
        client.run("BEGIN");
        client.run("INSERT INTO d.t (n) VALUES (1)");
        client.run("COMMIT");
        assert_eq!(client.value("SELECT COUNT(*) FROM d.t WHERE id = 1"), "1");
        rounds += 1;
        moved.fetch_add(1, SeqCst);
    }
    client.quit();
    rounds
}

/// Only connects, without a word, again and again: the kernel must never refuse. It waits for a first byte
/// each time, or it would be a thousand clients, and others would be too many.
fn connects(sql: SocketAddr, over: &AtomicBool) -> usize {
    let mut rounds = 0;
    while !over.load(SeqCst) {
        let connected = TcpStream::connect(sql);
        let mut stream = connected.unwrap_or_else(|error| panic!("connection {rounds}: {error}"));
        let limit = stream.set_read_timeout(Some(Duration::from_secs(1)));
        limit.expect("a socket takes a limit");
        // Whether it is greeted is not asked here.
        let _ = stream.read(&mut [0]);
        rounds += 1;
    }
    rounds
}

#[test]
fn under_load_nobody_is_refused_and_nothing_fails() {
    let Some((mut router, server)) = farm("clients_max = 1000\n") else {
        return;
    };
    // The row that is read is there before anybody's transaction may be open.
    router.client().run("INSERT INTO d.t (n) VALUES (1)");
    let (over, moved) = (AtomicBool::new(false), AtomicUsize::new(0));
    let written = thread::scope(|scope| {
        let over = Over(&over);
        let (sql, stop, moved) = (router.sql, over.0, &moved);
        let comers: Vec<_> = (0..3)
            .map(|_| scope.spawn(move || comes_and_goes(sql, stop)))
            .collect();
        let stayers: Vec<_> = (0..3)
            .map(|_| scope.spawn(move || stays(sql, stop, moved)))
            .collect();
        let connecting = scope.spawn(move || connects(sql, stop));
        for _ in 0..4 {
            let before = moved.load(SeqCst);
            wait_until(PATIENCE, "work by those who stay", || {
                moved.load(SeqCst) > before + 20
            });
            router.renew();
        }
        drop(over);
        let all = comers.into_iter().chain(stayers);
        let written: usize = all.map(|load| load.join().expect("no error")).sum();
        // One for each hand-over at least; how many there is time for is the machine's affair.
        assert!(connecting.join().expect("no refusal") >= 4);
        written
    });
    let mut client = router.client();
    assert_eq!(
        client.value("SELECT COUNT(*) FROM d.t"),
        (1 + written).to_string()
    );
    drop(client);
    wait_until(PATIENCE, "the end of those before", || {
        router.relieved() == 0
    });
    drop(server);
}

/// Sends a signal by its name.
fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status();
    assert!(sent.expect("kill can be run").success());
}

/// Whether a statement is answered, over a connection of its own.
fn serves(router: &Router) -> bool {
    let client = Client::connect(router.sql, "root", "");
    client.is_ok_and(|mut client| client.query("INSERT INTO d.t (n) VALUES (1)").is_ok())
}

#[test]
fn a_new_process_that_dies_leaves_the_old_one_serving() {
    let Some((mut router, _server)) = farm("") else {
        return;
    };
    let mut stays = router.client();
    stays.run("BEGIN");
    stays.run("INSERT INTO d.t (n) VALUES (1)");

    // One with settings that cannot be served gets as far as the file of the state.
    let settings = router.settings();
    let tls = "tls_certificate = \"/nowhere.pem\"\ntls_key = \"/nowhere.pem\"\n";
    router.write_settings(&format!("{settings}{tls}"));
    router.start_beside();
    wait_until(PATIENCE, "the end of the new one", || router.has_ended());
    assert!(router.says("nowhere.pem"), "it says why");
    router.forget_newest();
    router.write_settings(&settings);
    wait_until(PATIENCE, "notice", || router.says("this one goes on"));
    assert!(serves(&router));
    router.run(&["group", "create", "g2"]);

    // One that is stopped at some moment of the hand-over, and killed; at many moments.
    for delay_ms in [0, 30, 60, 90, 120, 200, 400] {
        router.start_beside();
        let killed = router.process().id();
        let begin = Instant::now();
        wait_until(PATIENCE, "the moment", || {
            begin.elapsed().as_millis() >= delay_ms
        });
        signal(killed, "KILL");
        wait_until(PATIENCE, "its death", || router.has_ended());
        router.forget_newest();
        assert!(serves(&router), "killed after {delay_ms} ms");
    }
    // One that had taken over altogether.
    router.renew();
    assert!(serves(&router));
    signal(router.process().id(), "KILL");
    wait_until(PATIENCE, "its death", || router.has_ended());
    router.forget_newest();
    wait_until(PATIENCE, "the old one steps in", || {
        router.says("serving again")
    });
    assert!(serves(&router));
    wait_until(PATIENCE, "the file of the state", || {
        router.command(&["group", "destroy", "g2"]).status.success()
    });
    stays.run("COMMIT");
    drop(stays);

    // And it can be relieved still.
    router.renew();
    assert!(serves(&router));
    wait_until(PATIENCE, "the end of those before", || {
        router.relieved() == 0
    });
}

#[test]
fn sigusr2_brings_a_successor_and_sigterm_ends_both() {
    let Some((mut router, _server)) = farm("drain_s = 1\n") else {
        return;
    };
    let mut stays = router.client();
    stays.run("BEGIN");
    signal(router.process().id(), "USR2");
    wait_until(PATIENCE, "a successor", || {
        router.says("has taken over; 1 clients")
    });
    assert!(serves(&router));
    let successor = router.taken_over_by();
    assert_ne!(successor, router.process().id());
    stays.run("COMMIT");
    stays.run("BEGIN");
    signal(successor, "TERM");
    // The old one hears that its successor ends, and ends too, after drain_s.
    wait_until(PATIENCE, "the end of the old one", || router.has_ended());
    assert!(stays.is_closed_within(PATIENCE));
    assert!(TcpStream::connect(router.sql).is_err(), "nobody listens");
}

/// The processes that a router has started itself end with it, too, whether the test passes or fails.
#[test]
fn no_process_outlives_its_test() {
    for fails in [false, true] {
        let router = Router::start("");
        let settings = router.state_dir().with_file_name("heddle.toml");
        let settings = settings.display().to_string();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            let mut router = router;
            signal(router.process().id(), "USR2");
            wait_until(PATIENCE, "a successor", || router.taken_over_by() != 0);
            assert!(!fails, "as a test that fails");
        }));
        assert_eq!(ended.is_err(), fails);
        wait_until(PATIENCE, "the end of all", || {
            running_with(|word| word == settings).is_empty()
        });
    }
}

#[test]
fn readiness_goes_before_the_door() {
    let Some((mut router, _server)) = farm("drain_ready_ms = 600000\n") else {
        return;
    };
    let ready = |router: &Router| {
        let answer = Command::new("curl")
            .args([
                "--silent",
                "--output",
                "/dev/null",
                "--write-out",
                "%{http_code}",
            ])
            .arg(format!("http://{}/readyz", router.http))
            .output();
        String::from_utf8_lossy(&answer.expect("curl can be run").stdout).into_owned()
    };
    wait_until(PATIENCE, "readiness", || ready(&router) == "200");
    signal(router.process().id(), "TERM");
    wait_until(PATIENCE, "its end", || ready(&router) == "503");
    assert!(serves(&router), "clients still come");
    // Enough: a second signal.
    signal(router.process().id(), "TERM");
    wait_until(PATIENCE, "the end", || router.has_ended());
}
