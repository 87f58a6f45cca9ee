//! `heddle serve` as a child process, for farms whose servers are not of `heddle up`.

use std::fs;
use std::net::SocketAddr;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::client::Client;
use crate::farm::heddle;
use crate::server::free_port;
use crate::wait_until;

/// From the start to the ready line.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// A running router with an empty farm; killed when dropped.
pub struct Router {
    child: Child,
    pub sql: SocketAddr,
    pub http: SocketAddr,
    home: TempDir,
}

impl Router {
    /// A router with these lines in its `heddle.toml`, ready for commands.
    ///
    /// # Panics
    /// When it is not ready in time.
    #[track_caller]
    pub fn start(settings: &str) -> Router {
        let home = tempfile::Builder::new().prefix("heddle-serve-").tempdir();
        let home = home.expect("a temporary directory");
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let (sql, http) = (at(free_port()), at(free_port()));
        let state = home.path().join("state");
        let text = format!(
            "sql_listen = \"{sql}\"\nhttp_listen = \"{http}\"\nstate_dir = \"{}\"\n\
             admin_user = \"root\"\n{settings}\n",
            state.display()
        );
        let file = home.path().join("heddle.toml");
        fs::write(&file, text).expect("written");
        let messages = || fs::File::create(home.path().join("messages")).expect("a file");
        let child = Command::new(heddle())
            .args(["serve", "--config"])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(messages())
            .stderr(Stdio::null())
            .spawn();
        let router = Router {
            child: child.expect("the program can be run"),
            sql,
            http,
            home,
        };
        wait_until(READY_PATIENCE, "heddle: ready", || {
            let said = fs::read_to_string(router.home.path().join("messages"));
            said.is_ok_and(|said| said.contains("ready sql="))
        });
        router
    }

    /// Runs `heddle WORDS…` against this router.
    pub fn command(&self, words: &[&str]) -> Output {
        let token = self.home.path().join("state").join("token");
        Command::new(heddle())
            .args(words)
            .env("HEDDLE_HTTP", self.http.to_string())
            .env(
                "HEDDLE_TOKEN",
                fs::read_to_string(token).unwrap_or_default(),
            )
            .stdin(Stdio::null())
            .output()
            .expect("the program can be run")
    }

    /// Runs a command that must succeed and gives what it prints.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn run(&self, words: &[&str]) -> String {
        let output = self.command(words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "heddle {words:?}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// What a command that must fail says.
    ///
    /// # Panics
    /// When it succeeds.
    #[track_caller]
    pub fn error(&self, words: &[&str]) -> String {
        let output = self.command(words);
        assert!(!output.status.success(), "heddle {words:?} succeeded");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// A connection as `root` through the router, once somebody can log in.
    ///
    /// # Panics
    /// When nobody can in time.
    #[track_caller]
    pub fn client(&self) -> Client {
        let mut client = None;
        wait_until(READY_PATIENCE, "a login", || {
            client = Client::connect(self.sql, "root", "").ok();
            client.is_some()
        });
        client.expect("it was waited for")
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        // Nothing can be done about a process that survives SIGKILL, least of all in a panic.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
