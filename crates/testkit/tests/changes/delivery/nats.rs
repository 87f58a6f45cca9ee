//! A real server of NATS with JetStream, and a client that makes a stream and reads it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::ports::free_port;
use testkit::{skip, wait_until};

const READY: Duration = Duration::from_secs(180);

/// A line of settings.
pub const JETSTREAM: &str = "jetstream: enabled\n";

/// A running server; killed when dropped.
pub struct Nats {
    program: PathBuf,
    pub port: u16,
    dir: TempDir,
    child: Child,
}

/// Where `nats-server` is; it is installed where Go can be had. Tests run side by side, and one of them installs it.
fn program() -> Option<PathBuf> {
    static FOUND: OnceLock<Option<PathBuf>> = OnceLock::new();
    FOUND.get_or_init(find_program).clone()
}

fn find_program() -> Option<PathBuf> {
    if Command::new("nats-server")
        .arg("--version")
        .output()
        .is_ok()
    {
        return Some(PathBuf::from("nats-server"));
    }
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    let bin = home.join(".cache/heddle/bin");
    let program = bin.join("nats-server");
    if program.exists() {
        return Some(program);
    }
    let installed = Command::new("go")
        .args(["install", "github.com/nats-io/nats-server/v2@latest"])
        .env("GOBIN", &bin)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if !installed.is_ok_and(|status| status.success()) {
        skip(&"no nats-server here, and Go cannot install it");
        return None;
    }
    Some(program)
}

impl Nats {
    pub fn start() -> Option<Nats> {
        let program = program()?;
        let dir = tempfile::tempdir().expect("a directory");
        let port = free_port();
        let child = launch(&program, port, &dir, None);
        let nats = Nats {
            program,
            port,
            dir,
            child,
        };
        nats.wait();
        Some(nats)
    }

    fn wait(&self) {
        wait_until(READY, "JetStream", || {
            self.try_ask("$JS.API.INFO", &json!({}))
                .is_some_and(|it| it["error"].is_null() && it["memory"].is_number())
        });
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("a killed child ends");
    }

    pub fn start_again(&mut self) {
        self.child = launch(&self.program, self.port, &self.dir, None);
        self.wait();
    }

    /// With what a file of settings says: nobody but who logs in is answered. [`JETSTREAM`] enables JetStream.
    pub fn start_guarded(&mut self, settings: &str) {
        let file = self.dir.path().join("guarded.conf");
        std::fs::write(&file, settings).expect("it is written");
        self.child = launch(&self.program, self.port, &self.dir, Some(&file));
        wait_until(READY, "the server", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    /// Asks JetStream something.
    pub fn ask(&self, subject: &str, of: &Value) -> Value {
        self.try_ask(subject, of).expect("an answer")
    }

    fn try_ask(&self, subject: &str, of: &Value) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(READY)).ok()?;
        let of = of.to_string();
        let text = format!(
            "CONNECT {{\"verbose\":false}}\r\nSUB in 1\r\nPUB {subject} in {}\r\n{of}\r\nPING\r\n",
            of.len()
        );
        stream.write_all(text.as_bytes()).ok()?;
        let mut from = BufReader::new(stream);
        loop {
            let mut line = String::new();
            from.read_line(&mut line).ok().filter(|read| *read > 0)?;
            if line.starts_with("MSG ") {
                let length = line.trim().rsplit(' ').next()?.parse().ok()?;
                let mut bytes = vec![0; length];
                from.read_exact(&mut bytes).ok()?;
                return serde_json::from_slice(&bytes).ok();
            }
        }
    }

    pub fn make_stream(&self, name: &str) {
        let made = self.ask(
            &format!("$JS.API.STREAM.CREATE.{name}"),
            &json!({ "name": name, "subjects": [format!("{name}.>")], "storage": "file" }),
        );
        assert!(made["error"].is_null(), "{made}");
    }

    /// The subjects and events of a stream, from its beginning.
    pub fn read(&self, name: &str) -> Vec<(String, Value)> {
        let info = self.ask(&format!("$JS.API.STREAM.INFO.{name}"), &json!({}));
        let last = info["state"]["last_seq"].as_u64().unwrap_or(0);
        let subject = format!("$JS.API.STREAM.MSG.GET.{name}");
        let message = |number| {
            let found = self.ask(&subject, &json!({ "seq": number }));
            let data = found["message"]["data"].as_str().expect("data");
            let line = BASE64.decode(data).expect("Base64");
            let to = found["message"]["subject"].as_str().expect("a subject");
            let event = serde_json::from_slice(&line).expect("JSON");
            (to.to_owned(), event)
        };
        (1..=last).map(message).collect()
    }
}

impl Drop for Nats {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn launch(program: &PathBuf, port: u16, dir: &TempDir, settings: Option<&Path>) -> Child {
    let mut command = Command::new(program);
    match settings {
        Some(file) => command.arg("-c").arg(file),
        None => command.arg("-js"),
    };
    let child = command
        .args(["-a", "127.0.0.1", "-p", &port.to_string(), "-sd"])
        .arg(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    child.expect("the server can be run")
}
