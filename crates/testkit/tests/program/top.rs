//! `heddle top` in a pseudo-terminal, and once for scripts.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use testkit::farm::heddle;
use testkit::{Farm, wait_until};

/// For what a picture and an answer take on a busy machine.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn top_shows_the_farm_in_a_terminal_and_ends_a_session() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let _victim = farm.client();
    let program = heddle().display();
    let (http, data) = (&farm.http, farm.dir().display().to_string());
    // A terminal of a known size, with the program in it.
    let line = format!("stty rows 30 cols 120; exec {program} top --http {http} --data {data}");
    let mut terminal = Command::new("script")
        .args([
            "--quiet",
            "--return",
            "--flush",
            "--command",
            &line,
            "/dev/null",
        ])
        .env("TERM", "xterm-256color")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("script comes with the distribution");
    let mut keys = terminal.stdin.take().expect("piped");
    let mut output = terminal.stdout.take().expect("piped");
    let shown = Arc::<Mutex<String>>::default();
    let reading = {
        let shown = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(bytes @ 1..) = output.read(&mut part) {
                let text = String::from_utf8_lossy(&part[..bytes]).into_owned();
                shown.lock().expect("no panic").push_str(&text);
            }
        })
    };
    let sees = |what: &str| shown.lock().expect("no panic").contains(what);
    wait_until(SOON, "the verdict", || sees("group g1 takes writes"));
    keys.write_all(b"4").expect("it reads keys");
    wait_until(SOON, "the sessions", || sees("kept for") && sees("root"));
    keys.write_all(b"/127.0.0.1\r").expect("it reads keys");
    keys.write_all(b"k").expect("it reads keys");
    wait_until(SOON, "the question", || sees("y/n"));
    keys.write_all(b"y").expect("it reads keys");
    wait_until(SOON, "the session's end", || sees("was ended, as by"));
    keys.write_all(b"q").expect("it reads keys");
    drop(keys);
    assert!(terminal.wait().expect("it ends").success());
    reading.join().expect("no panic");
}

#[test]
fn top_tells_scripts_the_farm_once() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let output = farm.command(&["top", "--once", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(object["severity"], "well", "{object}");
    assert_eq!(object["groups"][0]["name"], "g1");
    assert!(object["traffic"]["statements"].is_number(), "{object}");
    let output = farm.command(&["top", "--once"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("group g1 takes writes"), "{text}");
    // Without a terminal there is nothing to draw on.
    let output = farm.command(&["top"]);
    assert_eq!(output.status.code(), Some(2));
}
