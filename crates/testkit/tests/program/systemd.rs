//! What systemd hears of a router and what it gives to it, played by this test.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::farm::heddle;
use testkit::ports::free_port;
use testkit::{Client, wait_until};

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Passes a listening socket as descriptor 3, as systemd does, and becomes the program.
const ACTIVATE: &str = "
import os, socket, sys
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_FDNAMES='sql', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

/// Ends the program however the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn it_hears_of_readiness_life_and_end_and_gives_a_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    let notified = UnixDatagram::bind(dir.path().join("notify")).expect("bound");
    notified.set_read_timeout(Some(PATIENCE)).expect("set");
    let sql = free_port();
    let settings = dir.path().join("heddle.toml");
    let state = dir.path().join("state");
    let text = format!(
        "sql_listen = \"127.0.0.1:1\"\nhttp_listen = \"127.0.0.1:0\"\nstate_dir = \"{}\"\n",
        state.display()
    );
    fs::write(&settings, text).expect("written");
    let started = Command::new("python3")
        .args(["-c", ACTIVATE, &sql.to_string()])
        .arg(heddle())
        .args(["serve", "--config"])
        .arg(&settings)
        .env("NOTIFY_SOCKET", dir.path().join("notify"))
        .env("WATCHDOG_USEC", "400000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    let mut program = Ended(started.expect("python3 can be run"));
    let process = program.0.id();
    let mut heard = Vec::new();
    let mut hear_until = |what: &str| loop {
        let mut word = [0; 4096];
        let bytes = notified.recv(&mut word).expect("a word in time");
        let word = String::from_utf8_lossy(&word[..bytes]).into_owned();
        let found = word.contains(what);
        heard.push(word);
        if found {
            return heard.clone();
        }
    };
    let heard = hear_until("READY=1");
    let ready = heard.last().expect("it was heard");
    assert!(ready.contains(&format!("MAINPID={process}\n")), "{ready}");
    let kept = |name: &str| {
        heard
            .iter()
            .any(|word| *word == format!("FDSTORE=1\nFDNAME={name}"))
    };
    assert!(kept("heddle-sql") && kept("heddle-http"), "{heard:?}");
    hear_until("WATCHDOG=1");
    hear_until("WATCHDOG=1");

    // On the socket that was given, not on the one of the settings. The farm is empty.
    let refused = Client::connect(([127, 0, 0, 1], sql).into(), "root", "");
    let refused = refused.expect_err("no server").to_string();
    assert!(!refused.contains("refused"), "{refused}");

    let told = Command::new("kill").arg(process.to_string()).status();
    assert!(told.expect("kill can be run").success());
    hear_until("STOPPING=1");
    wait_until(PATIENCE, "the end", || {
        program
            .0
            .try_wait()
            .expect("a child can be asked")
            .is_some()
    });
}
