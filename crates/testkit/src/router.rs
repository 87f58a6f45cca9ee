//! `heddle serve` as a child process, for farms whose servers are not of `heddle up`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::client::Client;
use crate::farm::{heddle, kill_those};
use crate::servers::keeper;
use crate::servers::ports::free_port;
use crate::wait_until;

/// From the start to the ready line.
const READY_PATIENCE: Duration = Duration::from_secs(30);

/// A running router with an empty farm; killed when dropped.
pub struct Router {
    child: Child,
    /// Those before `child`, which may still serve clients.
    before: Vec<Child>,
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
        let admin = match settings.contains("admin_user") {
            true => "",
            false => "admin_user = \"root\"\n",
        };
        let patience = match settings.contains("detection_timeout_ms") {
            true => String::new(),
            false => format!("detection_timeout_ms = {}\n", crate::DETECTION_TIMEOUT_MS),
        };
        let text = format!(
            "sql_listen = \"{sql}\"\nhttp_listen = \"{http}\"\nstate_dir = \"{}\"\n\
             {admin}{patience}{settings}\n",
            state.display()
        );
        fs::write(home.path().join("heddle.toml"), text).expect("written");
        let child = launch(&home);
        let router = Router {
            child,
            before: Vec::new(),
            sql,
            http,
            home,
        };
        wait_until(READY_PATIENCE, "heddle: ready", || {
            router.says("ready sql=")
        });
        router
    }

    /// Starts another process on the same settings, which takes over, and waits until it serves. The one
    /// before stays for its clients.
    ///
    /// # Panics
    /// When it is not ready in time.
    #[track_caller]
    pub fn renew(&mut self) {
        self.start_beside();
        wait_until(READY_PATIENCE, "a new process that is ready", || {
            self.says("ready sql=")
        });
    }

    /// Starts another process on the same settings, and does not wait for it.
    pub fn start_beside(&mut self) {
        let next = launch(&self.home);
        self.before.push(std::mem::replace(&mut self.child, next));
    }

    /// Whether the newest process has printed this on stdout or stderr.
    pub fn says(&self, words: &str) -> bool {
        let said = fs::read_to_string(messages(&self.home, self.child.id()));
        said.is_ok_and(|said| said.contains(words))
    }

    /// The process that has taken over from the newest one, as that one says; 0 for none.
    pub fn taken_over_by(&self) -> u32 {
        let said = fs::read_to_string(messages(&self.home, self.child.id())).unwrap_or_default();
        let line = said.lines().find(|line| line.contains("has taken over"));
        let mut words = line.unwrap_or_default().split_whitespace();
        words.find_map(|word| word.parse().ok()).unwrap_or(0)
    }

    /// Whether the newest process is not there any more.
    ///
    /// # Panics
    /// When a child cannot be asked.
    pub fn has_ended(&mut self) -> bool {
        let ended = self.child.try_wait().expect("a child can be asked");
        ended.is_some()
    }

    /// The text of its settings.
    ///
    /// # Panics
    /// When it cannot be read.
    pub fn settings(&self) -> String {
        fs::read_to_string(self.home.path().join("heddle.toml")).expect("it was written")
    }

    /// Where it keeps its state.
    pub fn state_dir(&self) -> PathBuf {
        self.home.path().join("state")
    }

    /// Gives the next process other settings.
    ///
    /// # Panics
    /// When they cannot be written.
    pub fn write_settings(&self, text: &str) {
        fs::write(self.home.path().join("heddle.toml"), text).expect("written");
    }

    /// The newest process.
    pub fn process(&mut self) -> &mut Child {
        &mut self.child
    }

    /// The processes that were relieved and are still there.
    ///
    /// # Panics
    /// When one of them ended with an error.
    #[track_caller]
    pub fn relieved(&mut self) -> usize {
        self.before.retain_mut(|child| {
            let ended = child.try_wait().expect("a child can be asked");
            assert!(ended.is_none_or(|status| status.success()), "{ended:?}");
            ended.is_none()
        });
        self.before.len()
    }

    /// The newest process has died: from now on the one before counts.
    pub fn forget_newest(&mut self) {
        let before = self.before.pop().expect("there was one before");
        let mut dead = std::mem::replace(&mut self.child, before);
        // It may have been killed already.
        let _ = dead.kill();
        let _ = dead.wait();
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
        // Nothing can be done about a process that survives SIGKILL, least of all in a panic. Those that a
        // process has started itself have the same settings, and would outlive the test; the children go
        // first, so that none of them starts another.
        for child in self.before.iter_mut().chain([&mut self.child]) {
            let _ = child.kill();
            let _ = child.wait();
        }
        let settings = self.home.path().join("heddle.toml").display().to_string();
        kill_those(|word| word == settings);
        keeper::forget_rings(&self.state_dir());
    }
}

/// Starts a process on the settings in this directory; what it prints goes to a file of its own.
fn launch(home: &TempDir) -> Child {
    // What a router writes is closed to other users even under the most open umask.
    let shell = "umask 0; exec \"$0\" serve --config \"$1/heddle.toml\" >\"$1/messages.$$\" 2>&1";
    let child = Command::new("/bin/sh")
        .args(["-c", shell])
        .arg(heddle())
        .arg(home.path())
        .stdin(Stdio::null())
        .spawn();
    child.expect("the program can be run")
}

/// Where the process of this number prints.
fn messages(home: &TempDir, process: u32) -> PathBuf {
    home.path().join(format!("messages.{process}"))
}
