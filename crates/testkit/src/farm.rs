//! A whole farm: `heddle up` as a child process in a temporary directory, on free ports.
//!
//! The program is built by cargo when the first farm starts, so that a test never runs an old one;
//! `HEDDLE_BIN` names another program to test, for example a release build.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::client::Client;
use crate::servers::keeper;
use crate::servers::network::Host;
use crate::servers::ports::free_port;
use crate::servers::server::Release;
use crate::{holds_within, wait_until};

/// From the start to the ready line, on a loaded machine and with a data directory to initialise.
const READY_PATIENCE: Duration = Duration::from_secs(90);

/// For an orderly end, which waits for every server to shut down.
const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// One line of `farm.json`'s `servers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub name: String,
    pub group: String,
    pub port: u16,
    pub pid: u32,
    pub socket: PathBuf,
    pub version: String,
}

impl Member {
    /// A connection as `root` past Heddle.
    ///
    /// # Panics
    /// When the server refuses it.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(SocketAddr::from(([127, 0, 0, 1], self.port)), "root", "")
            .expect("root has no password")
    }

    /// Sends a signal by its name, for example `KILL` or `STOP`.
    pub fn signal(&self, name: &str) {
        send_signal(self.pid, name);
    }
}

/// A running `heddle up`; everything of it is killed when dropped.
pub struct Farm {
    /// `None` after [`Farm::kill_up`] or [`Farm::stop`].
    child: Option<Child>,
    /// What it printed on stdout so far.
    lines: Arc<Mutex<Vec<String>>>,
    /// `up` or `serve`.
    verb: &'static str,
    flags: Vec<String>,
    /// Where it runs.
    pub host: Arc<Host>,
    pub sql: SocketAddr,
    pub kv: SocketAddr,
    pub http: SocketAddr,
    /// Of `up` only.
    pub fabric: SocketAddr,
    /// Likewise.
    pub fabric_mysql: SocketAddr,
    home: TempDir,
    /// Files outlive this handle.
    kept: bool,
}

impl Farm {
    /// A farm with these flags besides `--data` and the addresses of its doors, ready; or says why the test is
    /// skipped.
    ///
    /// # Panics
    /// When `heddle up` ends or is not ready in time.
    #[track_caller]
    pub fn start(flags: &[&str]) -> Option<Farm> {
        Farm::start_on(Release::Installed, flags)
    }

    /// The same with servers of another release.
    ///
    /// # Panics
    /// When `heddle up` ends or is not ready in time.
    #[track_caller]
    pub fn start_on(release: Release, flags: &[&str]) -> Option<Farm> {
        Farm::start_prepared(release, flags, |_| {})
    }

    /// The same in a directory that `prepare` has seen first; it does not exist yet.
    ///
    /// # Panics
    /// When `heddle up` ends or is not ready in time.
    #[track_caller]
    pub fn start_prepared(
        release: Release,
        flags: &[&str],
        prepare: impl FnOnce(&Path),
    ) -> Option<Farm> {
        let binary = match release.binary() {
            Ok(binary) => binary,
            Err(reason) => {
                crate::skip(&reason);
                return None;
            }
        };
        let mut flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        if release != Release::Installed {
            let path = binary.path.display().to_string();
            let engine = binary.engine.name().to_owned();
            flags.extend(["--engine".to_owned(), engine, "--mysqld".to_owned(), path]);
        }
        let mut farm = Farm::new("up", flags, Host::loopback());
        prepare(&farm.dir());
        farm.start_again();
        Some(farm)
    }

    /// A `heddle serve` with these settings (`NAME=VALUE`), without a group; its servers are whoever's
    /// `group add` names.
    ///
    /// # Panics
    /// When it ends or is not ready in time.
    #[track_caller]
    pub fn serve(settings: &[&str]) -> Farm {
        Farm::serve_on(Host::loopback(), settings)
    }

    /// The same on this host.
    ///
    /// # Panics
    /// When it ends or is not ready in time.
    #[track_caller]
    pub fn serve_on(host: Arc<Host>, settings: &[&str]) -> Farm {
        let flags = settings
            .iter()
            .flat_map(|&setting| ["--set".to_owned(), setting.to_owned()]);
        let mut farm = Farm::new("serve", flags.collect(), host);
        std::fs::write(farm.config(), "").expect("a temporary directory takes files");
        farm.start_again();
        farm
    }

    fn new(verb: &'static str, flags: Vec<String>, host: Arc<Host>) -> Farm {
        let home = tempfile::Builder::new().prefix("heddle-farm-").tempdir();
        let place = || SocketAddr::from((host.ip, host.within(free_port)));
        let farm = Farm {
            child: None,
            lines: Arc::default(),
            verb,
            flags,
            sql: place(),
            kv: place(),
            http: place(),
            fabric: place(),
            fabric_mysql: place(),
            host,
            home: home.expect("a temporary directory"),
            kept: false,
        };
        keeper::keep(farm.home.path());
        std::fs::create_dir(farm.faults()).expect("a temporary directory takes others");
        farm
    }

    /// Starts `heddle up` on the same directory and addresses, after it ended in whatever way.
    ///
    /// # Panics
    /// When it ends or is not ready in time.
    #[track_caller]
    pub fn start_again(&mut self) {
        self.begin_again();
        wait_until(READY_PATIENCE, "heddle: ready", || {
            let child = self.child.as_mut().expect("it was started");
            if let Some(status) = child.try_wait().expect("a child can be asked") {
                panic!(
                    "heddle up ended ({status}): {:?} {}",
                    self.lines(),
                    self.stderr()
                );
            }
            self.is_ready()
        });
    }

    /// The same without waiting for it.
    ///
    /// # Panics
    /// When it still runs, or cannot be run.
    #[track_caller]
    pub fn begin_again(&mut self) {
        assert!(self.child.is_none(), "it still runs");
        self.lines = Arc::default();
        let stderr = std::fs::File::create(self.home.path().join("stderr"));
        let mut command = self.launch();
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr.expect("a file for its messages"));
        let child = self.host.within(|| command.spawn());
        let mut child = child.expect("the program can be run");
        let stdout = child.stdout.take().expect("stdout was asked for");
        let lines = Arc::clone(&self.lines);
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                lines.lock().expect("no test panics in here").push(line);
            }
        });
        self.child = Some(child);
    }

    /// It has said that it serves.
    pub fn is_ready(&self) -> bool {
        let lines = self.lines();
        lines.iter().any(|line| line.starts_with("heddle: ready "))
    }

    /// The command that starts it.
    fn launch(&self) -> Command {
        let mut command = Command::new(heddle());
        let (sql, http) = (self.sql.to_string(), self.http.to_string());
        let kv = self.kv.to_string();
        let dir = self.dir().display().to_string();
        command.arg(self.verb);
        match self.verb {
            "up" => {
                let fabric = self.fabric.to_string();
                command.args(["--data", &dir, "--sql", &sql, "--kv", &kv, "--http", &http]);
                let calls = format!("fabric_mysql_listen={}", self.fabric_mysql);
                command.args(["--fabric", &fabric, "--set", &calls])
            }
            _ => {
                let settings = [
                    format!("sql_listen={sql}"),
                    format!("kv_listen={kv}"),
                    format!("http_listen={http}"),
                    format!("state_dir={dir}"),
                ];
                command.arg("--config").arg(self.config());
                command.args(settings.iter().flat_map(|setting| ["--set", setting]))
            }
        };
        if !self
            .flags
            .iter()
            .any(|flag| flag.contains("detection_timeout_ms"))
        {
            let patience = format!("detection_timeout_ms={}", crate::DETECTION_TIMEOUT_MS);
            command.args(["--set", &patience]);
        }
        command.args(&self.flags);
        command.env("HEDDLE_FAULTS", self.faults());
        command
    }

    /// The settings file of `heddle serve`.
    fn config(&self) -> PathBuf {
        self.home.path().join("heddle.toml")
    }

    /// The directory given with `--data`, or that of the state.
    pub fn dir(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// Where its fault points look for faults.
    pub fn faults(&self) -> PathBuf {
        self.home.path().join("faults")
    }

    /// What it printed on stdout since its last start.
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no test panics in here").clone()
    }

    /// What it printed on stderr since its last start.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.home.path().join("stderr")).unwrap_or_default()
    }

    /// False when it was killed or has ended by itself.
    pub fn is_running(&mut self) -> bool {
        if let Some(child) = &mut self.child
            && child.try_wait().is_ok_and(|ended| ended.is_some())
        {
            self.child = None;
        }
        self.child.is_some()
    }

    /// The process id of `heddle up`.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// The servers, from `farm.json`; empty when the file is not there.
    pub fn members(&self) -> Vec<Member> {
        let Ok(text) = std::fs::read_to_string(self.dir().join("farm.json")) else {
            return Vec::new();
        };
        let farm: Value = serde_json::from_str(&text).expect("farm.json is JSON at every moment");
        let servers = farm["servers"].as_array().expect("farm.json lists servers");
        servers.iter().map(member).collect()
    }

    /// The server of this name.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn member(&self, name: &str) -> Member {
        let found = self
            .members()
            .into_iter()
            .find(|member| member.name == name);
        found.unwrap_or_else(|| panic!("no server {name} in farm.json"))
    }

    /// A server of the group in this role (`PRIMARY`, `SECONDARY`), as the router has it; `None` while there
    /// is none, or no router.
    pub fn in_role(&self, group: &str, role: &str) -> Option<Member> {
        let output = self.command(&["group", "lookup_servers", group, "--json"]);
        let servers: Vec<Value> = serde_json::from_slice(&output.stdout).ok()?;
        let found = servers.iter().find(|server| server["status"] == role)?;
        let (_, port) = found["address"].as_str()?.rsplit_once(':')?;
        let port: u16 = port.parse().ok()?;
        self.members().into_iter().find(|it| it.port == port)
    }

    /// The group's primary, as the router has it; `None` while there is none.
    pub fn primary_of(&self, group: &str) -> Option<Member> {
        self.in_role(group, "PRIMARY")
    }

    /// The same, once there is one: a busy machine may doubt a primary that lives.
    ///
    /// # Panics
    /// When there is none in time.
    #[track_caller]
    pub fn primary(&self, group: &str) -> Member {
        let mut found = None;
        wait_until(READY_PATIENCE, "a primary", || {
            found = self.primary_of(group);
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Lets another server lead the group, or the one at this address. It is ordered again where it is refused: a busy machine
    /// may doubt a primary that lives, and then another change is under way.
    ///
    /// # Panics
    /// When it is refused for too long.
    #[track_caller]
    pub fn promote(&self, group: &str, to: Option<&str>) {
        let words: Vec<&str> = ["group", "promote", group].into_iter().chain(to).collect();
        let mut said = String::new();
        let promoted = holds_within(READY_PATIENCE, || {
            let output = self.command(&words);
            said = String::from_utf8_lossy(&output.stderr).into_owned();
            output.status.success()
        });
        assert!(promoted, "{words:?}: {said}");
    }

    /// The number of a shard that the group has.
    ///
    /// # Panics
    /// When there is none.
    #[track_caller]
    pub fn shard_on(&self, group: &str) -> String {
        let shards = self.json(&["sharding", "list_shards"]);
        let shard = shards.iter().find(|shard| shard["group_id"] == group);
        shard.expect("a shard there")["shard_id"].to_string()
    }

    /// A connection as `root` through Heddle.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.sql, "root", "").expect("root has no password")
    }

    /// Runs `heddle WORDS…` against this farm.
    pub fn command(&self, words: &[&str]) -> Output {
        let token = std::fs::read_to_string(self.dir().join("token"));
        command_at(self.http, &token.unwrap_or_default(), words)
    }

    /// The rows of `heddle WORDS… --json`.
    ///
    /// # Panics
    /// When the command fails.
    #[track_caller]
    pub fn json(&self, words: &[&str]) -> Vec<Value> {
        let output = self.command(&[words, &["--json"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "heddle {words:?}: {said}");
        serde_json::from_slice(&output.stdout).expect("--json gives an array")
    }

    /// Declares a container: the words behind `kv create`.
    ///
    /// # Panics
    /// When it is refused.
    #[track_caller]
    pub fn make_container(&self, words: &str) {
        let made: Vec<&str> = ["kv", "create"]
            .into_iter()
            .chain(words.split(' '))
            .collect();
        let output = self.command(&made);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "heddle {made:?}: {said}");
    }

    /// The directory outlives this handle, for a look at what went wrong; its processes do not.
    pub fn keep(&mut self) -> PathBuf {
        self.home.disable_cleanup(true);
        self.kept = true;
        self.home.path().to_owned()
    }

    /// kill -9 of `heddle up` alone; its servers run on.
    pub fn kill_up(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it can be killed");
        child.wait().expect("a killed child ends");
    }

    /// SIGTERM, and the exit status of the orderly end.
    ///
    /// # Panics
    /// When it does not end.
    #[track_caller]
    pub fn stop(&mut self) -> ExitStatus {
        let mut child = self.child.take().expect("it runs");
        send_signal(child.id(), "TERM");
        let mut ended = None;
        wait_until(STOP_PATIENCE, "the end of heddle up", || {
            ended = child.try_wait().expect("a child can be asked");
            ended.is_some()
        });
        ended.expect("it was waited for")
    }
}

impl Drop for Farm {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What a failed test needs most vanishes with the directory.
            let (printed, logged) = (self.lines().join("\n"), self.stderr());
            let health = self.command(&["group", "health", "g1"]).stdout;
            let health = String::from_utf8_lossy(&health);
            let _ = writeln!(
                std::io::stderr(),
                "heddle up:\n{printed}\n{logged}\n{health}"
            );
        }
        if let Some(mut child) = self.child.take() {
            // First, so that it does not restart what is killed next.
            let _ = child.kill();
            let _ = child.wait();
        }
        kill_servers_below(&self.dir());
        if !self.kept {
            keeper::forget_rings(&self.dir().join("state"));
            keeper::forget_rings(&self.dir());
        }
        keeper::forget(self.home.path());
    }
}

/// Kills every server that runs on a directory below `dir`, and waits until it is gone.
pub fn kill_servers_below(dir: &Path) {
    let prefix = format!("--defaults-file={}/", dir.display());
    kill_those(|word| word.starts_with(&prefix));
}

/// Kills every process with such a word on its command line, whoever started it, and waits until it is gone.
pub(crate) fn kill_those(is_meant: impl Fn(&str) -> bool) {
    for pid in running_with(&is_meant) {
        send_signal(pid, "KILL");
    }
    // A second panic would hide the first one's message.
    if !std::thread::panicking() {
        wait_until(
            Duration::from_secs(10),
            "the end of killed processes",
            || running_with(&is_meant).is_empty(),
        );
    }
}

/// The processes with such a word on their command line.
pub fn running_with(is_meant: impl Fn(&str) -> bool) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.split('\0').any(&is_meant))
    })
    .collect()
}

/// The program under test.
pub fn heddle() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        if let Some(given) = std::env::var_os("HEDDLE_BIN") {
            return PathBuf::from(given)
                .canonicalize()
                .expect("HEDDLE_BIN is there");
        }
        // Tests run as TARGET/PROFILE/deps/NAME; the program is TARGET/PROFILE/heddle.
        let this = std::env::current_exe().expect("a test knows its own program");
        let profile = this
            .ancestors()
            .nth(2)
            .expect("deps stands in a profile's directory");
        let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        build.args(["build", "--quiet", "--package", "heddle"]);
        build.args([
            "--target-dir",
            &profile.with_file_name("").display().to_string(),
        ]);
        if profile.ends_with("release") {
            build.arg("--release");
        }
        // What cargo tells a test of its own package; build scripts of others that look at the same
        // names would run, and their crates be built, anew in turns with every build from outside.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                build.env_remove(&name);
            }
        }
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR"));
        let status = build
            .current_dir(workspace)
            .status()
            .expect("cargo can be run");
        assert!(status.success(), "heddle does not build");
        profile.join("heddle")
    })
}

/// Runs `heddle WORDS…` against the router with this HTTP door.
///
/// # Panics
/// When the program cannot be run.
pub fn command_at(http: SocketAddr, token: &str, words: &[&str]) -> Output {
    Command::new(heddle())
        .args(words)
        .env("HEDDLE_HTTP", http.to_string())
        .env("HEDDLE_TOKEN", token)
        .stdin(Stdio::null())
        .output()
        .expect("the program can be run")
}

fn member(server: &Value) -> Member {
    let text = |key: &str| {
        server[key]
            .as_str()
            .expect("farm.json has text here")
            .to_owned()
    };
    let number = |key: &str| server[key].as_u64().expect("farm.json has a number here");
    Member {
        name: text("name"),
        group: text("group"),
        port: u16::try_from(number("port")).expect("a port"),
        pid: u32::try_from(number("pid")).expect("a pid"),
        socket: text("socket").into(),
        version: text("version"),
    }
}

pub(crate) fn send_signal(pid: u32, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &pid.to_string()])
        // It may have ended, which is no news.
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok(), "the command kill is on every machine");
}
