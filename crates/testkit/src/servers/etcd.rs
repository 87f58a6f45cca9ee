//! A real etcd of one or three members in a temporary directory, to be killed, frozen, filled and
//! locked.
//!
//! Members listen on loopback and on free ports unless [`Options`] says otherwise: other addresses,
//! or network namespaces whose partitions a test makes itself. Their log is in the directory and is
//! shown when a member does not start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::servers::certificates::Pair;
use crate::servers::keeper;
use crate::servers::ports::free_port;
use crate::wait::{holds_within, skip, wait_until};

/// A loaded machine with two cores may need this long for a start that takes half a second alone.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// A port that was free may be taken before a member binds it; then others are tried.
const PORT_TRIES: usize = 5;

/// How an etcd is set up. The default is one member on 127.0.0.1 without TLS and accounts.
#[derive(Clone, Debug)]
pub struct Options {
    /// One address per member; their count is the count of members.
    pub hosts: Vec<String>,
    /// The network namespace that each member runs in, as a path, or none: all run in the test's own.
    pub namespaces: Vec<PathBuf>,
    /// Serves clients by TLS with this certificate; `authority` is what signed it.
    pub certificate: Option<Pair>,
    /// The file of the authority that clients check, and that etcd checks clients by.
    pub authority: Option<PathBuf>,
    /// Clients must show a certificate of the authority; this one is [`Etcd::ctl`]'s own.
    pub client_certificate: Option<Pair>,
    /// The bytes after which etcd takes no more writes.
    pub quota_bytes: Option<u64>,
    /// Turns accounts on, with this password for `root`.
    pub root_password: Option<String>,
    /// Milliseconds after which members elect a new leader; etcd's default is 1000. The shortest
    /// lease that etcd grants is one and a half times this, in whole seconds.
    pub election_ms: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            hosts: vec!["127.0.0.1".to_owned()],
            namespaces: Vec::new(),
            certificate: None,
            authority: None,
            client_certificate: None,
            quota_bytes: None,
            root_password: None,
            election_ms: 1000,
        }
    }
}

/// A running etcd; killed when dropped.
pub struct Etcd {
    options: Options,
    members: Vec<Member>,
    dir: TempDir,
}

/// While it lives, a member's disk is slow.
pub struct SlowDisk(Child);

impl Drop for SlowDisk {
    fn drop(&mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // SIGTERM lets strace detach from what it traces; SIGKILL would leave that stopped.
        if let Some(pid) = pid {
            let _ = kill_process(pid, Signal::TERM);
        }
        let _ = self.0.wait();
    }
}

struct Member {
    name: String,
    client: String,
    arguments: Vec<String>,
    process: Option<Child>,
}

impl Etcd {
    /// Starts this many members on loopback, or says why the test is skipped.
    pub fn start(members: usize) -> Option<Etcd> {
        Etcd::start_with(Options {
            hosts: vec!["127.0.0.1".to_owned(); members],
            ..Options::default()
        })
    }

    /// Starts the members that the options name, or says why the test is skipped.
    ///
    /// # Panics
    /// When etcd is there but does not start.
    pub fn start_with(options: Options) -> Option<Etcd> {
        if let Err(error) = Command::new("etcd").arg("--version").output() {
            skip(&format!("no etcd here: {error}; install etcd-server"));
            return None;
        }
        for _ in 1..PORT_TRIES {
            if let Ok(etcd) = Etcd::try_start(&options) {
                return Some(etcd);
            }
        }
        Some(Etcd::try_start(&options).unwrap_or_else(|log| panic!("etcd does not start:\n{log}")))
    }

    fn try_start(options: &Options) -> Result<Etcd, String> {
        let dir = tempfile::Builder::new().prefix("heddle-etcd-").tempdir();
        let dir = dir.expect("a temporary directory");
        keeper::keep(dir.path());
        let members = members(options, dir.path());
        let mut etcd = Etcd {
            options: options.clone(),
            members,
            dir,
        };
        for member in 0..etcd.members.len() {
            etcd.spawn(member);
        }
        if !etcd.becomes_healthy() {
            return Err(etcd.logs());
        }
        if let Some(password) = &options.root_password {
            let account = format!("root:{password}");
            etcd.plain_ctl(&["user", "add", &account])?;
            etcd.plain_ctl(&["user", "grant-role", "root", "root"])?;
            etcd.plain_ctl(&["auth", "enable"])?;
        }
        Ok(etcd)
    }

    /// The URL of one member, as clients are told it.
    pub fn url(&self, member: usize) -> &str {
        &self.members[member].client
    }

    /// All URLs, joined by commas: what `--etcd` takes.
    pub fn urls(&self) -> String {
        let urls: Vec<&str> = self.members.iter().map(|one| one.client.as_str()).collect();
        urls.join(",")
    }

    /// The count of members, dead ones included.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// The process of a running member.
    pub fn pid(&self, member: usize) -> u32 {
        let process = self.members[member].process.as_ref();
        process.expect("the member runs").id()
    }

    /// False when the member was killed or stopped.
    pub fn is_running(&self, member: usize) -> bool {
        self.members[member].process.is_some()
    }

    /// kill -9.
    pub fn kill(&mut self, member: usize) {
        self.end(member, Signal::KILL);
    }

    /// SIGTERM; returns when the member has ended. A leader hands its leadership over first.
    pub fn stop(&mut self, member: usize) {
        self.end(member, Signal::TERM);
    }

    /// Starts a killed or stopped member again on its data and ports; returns when it answers, or,
    /// where most members are down, when it listens.
    pub fn restart(&mut self, member: usize) {
        self.spawn(member);
        let running = self.members.iter().filter(|one| one.process.is_some());
        let quorum = running.count() * 2 > self.members.len();
        wait_until(START_PATIENCE, "the answer of a restarted member", || {
            !quorum || self.ctl_at(member, &["endpoint", "health"]).is_ok()
        });
    }

    /// SIGSTOP: connections are accepted by the kernel and nothing answers.
    pub fn freeze(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// SIGCONT.
    pub fn thaw(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    /// Delays each sync of a running member's disk, until the value is dropped; `None`, with the
    /// reason told, where that cannot be done.
    pub fn slow_disk(&self, member: usize, delay: Duration) -> Option<SlowDisk> {
        let inject = format!("inject=fsync,fdatasync:delay_enter={}", delay.as_micros());
        let log = self.dir.path().join("slow.log");
        let strace = Command::new("strace")
            .args(["-f", "-e", "trace=fsync,fdatasync", "-e", &inject, "-o"])
            .arg(&log)
            .args(["-p", &self.pid(member).to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut tracer = match strace {
            Ok(strace) => SlowDisk(strace),
            Err(error) => {
                skip(&format!("no strace here: {error}; install strace"));
                return None;
            }
        };
        let status = format!("/proc/{}/status", self.pid(member));
        let traced = || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            text.lines()
                .any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
        };
        let mut ended = false;
        wait_until(START_PATIENCE, "a tracer of etcd, or its end", || {
            ended = !matches!(tracer.0.try_wait(), Ok(None));
            ended || traced()
        });
        if ended {
            skip(&"strace may not trace here; allow ptrace");
            return None;
        }
        Some(tracer)
    }

    /// The member that leads now.
    ///
    /// # Panics
    /// When none is elected within a minute.
    pub fn leader(&self) -> usize {
        let mut found = None;
        wait_until(START_PATIENCE, "a leader of etcd", || {
            found = (0..self.members.len()).find(|&member| self.leads(member));
            found.is_some()
        });
        found.expect("it was found")
    }

    fn leads(&self, member: usize) -> bool {
        if self.members[member].process.is_none() {
            return false;
        }
        let Ok(text) = self.ctl_at(member, &["endpoint", "status", "-w", "json"]) else {
            return false;
        };
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
        let status = &answer[0]["Status"];
        status["leader"].as_u64().unwrap_or(0) != 0
            && status["leader"] == status["header"]["member_id"]
    }

    /// Forgets all revisions before the newest.
    pub fn compact(&self) {
        let text = self.ctl(&["endpoint", "status", "-w", "json"]);
        let text = text.expect("all members answer");
        let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let revision = answer[0]["Status"]["header"]["revision"].to_string();
        let compacted = self.ctl(&["compact", "--physical", &revision]);
        compacted.expect("compacted");
    }

    /// Runs etcdctl against all members, as `root` where there are accounts; the error is what it
    /// said.
    pub fn ctl(&self, arguments: &[&str]) -> Result<String, String> {
        self.run_ctl(&self.urls(), true, arguments)
    }

    /// Runs etcdctl against one member.
    pub fn ctl_at(&self, member: usize, arguments: &[&str]) -> Result<String, String> {
        self.run_ctl(&self.members[member].client, true, arguments)
    }

    /// Makes an account that may read and write keys under `prefix` only.
    pub fn add_user(&self, name: &str, password: &str, prefix: &str) {
        let account = format!("{name}:{password}");
        for arguments in [
            vec!["user", "add", &account],
            vec!["role", "add", name],
            vec![
                "role",
                "grant-permission",
                "--prefix",
                name,
                "readwrite",
                prefix,
            ],
            vec!["user", "grant-role", name, name],
        ] {
            self.ctl(&arguments).expect("an account");
        }
    }

    /// The directory with each member's data and log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    fn plain_ctl(&self, arguments: &[&str]) -> Result<String, String> {
        self.run_ctl(&self.urls(), false, arguments)
    }

    fn run_ctl(&self, urls: &str, as_root: bool, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("etcdctl");
        command.env("ETCDCTL_API", "3").arg("--endpoints").arg(urls);
        if let Some(authority) = &self.options.authority {
            command.arg("--cacert").arg(authority);
        }
        if let Some(pair) = &self.options.client_certificate {
            command.arg("--cert").arg(&pair.certificate);
            command.arg("--key").arg(&pair.key);
        }
        match &self.options.root_password {
            Some(password) if as_root => drop(command.arg(format!("--user=root:{password}"))),
            _ => {}
        }
        let output = command.args(arguments).stdin(Stdio::null()).output();
        let output = output.map_err(|error| format!("etcdctl: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }

    fn becomes_healthy(&mut self) -> bool {
        holds_within(START_PATIENCE, || {
            self.some_ended() || self.plain_ctl(&["endpoint", "health"]).is_ok()
        }) && !self.some_ended()
    }

    fn some_ended(&mut self) -> bool {
        let mut processes = self.members.iter_mut().flat_map(|one| &mut one.process);
        processes.any(|process| !matches!(process.try_wait(), Ok(None)))
    }

    fn logs(&self) -> String {
        let paths = self.members.iter().map(|one| self.log_path(&one.name));
        let last_lines = |path: PathBuf| {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(10)..].join("\n")
        };
        paths.map(last_lines).collect::<Vec<_>>().join("\n\n")
    }

    fn log_path(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.log"))
    }

    fn spawn(&mut self, number: usize) {
        let member = &self.members[number];
        assert!(member.process.is_none(), "{} runs already", member.name);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path(&member.name));
        let log = log.expect("a log");
        let mut command = match self.options.namespaces.get(number) {
            Some(namespace) => within(namespace, "etcd"),
            None => Command::new("etcd"),
        };
        command.args(&member.arguments).stdin(Stdio::null());
        command
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log);
        self.members[number].process = Some(command.spawn().expect("etcd can be run"));
    }

    fn end(&mut self, member: usize, signal: Signal) {
        self.signal(member, signal);
        // A frozen process hears SIGTERM only when it goes on.
        self.signal(member, Signal::CONT);
        let process = self.members[member].process.take();
        let waited = process.expect("the member runs").wait();
        waited.expect("an ended process is reaped");
    }

    fn signal(&self, member: usize, signal: Signal) {
        let pid = i32::try_from(self.pid(member)).ok().and_then(Pid::from_raw);
        // A process that has ended by itself is not reaped yet, so its number is still its own.
        let _ = kill_process(pid.expect("a process has a number"), signal);
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for process in self.members.iter_mut().flat_map(|one| &mut one.process) {
            // Nothing can be done about a process that survives SIGKILL, least of all in a panic.
            let _ = process.kill();
            let _ = process.wait();
        }
        keeper::forget(self.dir.path());
    }
}

fn within(namespace: &Path, program: &str) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg(format!("--net={}", namespace.display()))
        .arg(program);
    command
}

/// The members with their command lines.
fn members(options: &Options, dir: &Path) -> Vec<Member> {
    let scheme = options.certificate.as_ref().map_or("http", |_| "https");
    let places: Vec<(String, String, String)> = (1..)
        .zip(&options.hosts)
        .map(|(number, host)| {
            let client = format!("{scheme}://{host}:{}", free_port());
            let peer = format!("http://{host}:{}", free_port());
            (format!("m{number}"), client, peer)
        })
        .collect();
    let all = places
        .iter()
        .map(|(name, _, peer)| format!("{name}={peer}"));
    let cluster = all.collect::<Vec<_>>().join(",");
    places
        .into_iter()
        .map(|(name, client, peer)| {
            let data = dir.join(&name).display().to_string();
            let mut arguments = vec![
                format!("--name={name}"),
                format!("--data-dir={data}"),
                format!("--listen-client-urls={client}"),
                format!("--advertise-client-urls={client}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster={cluster}"),
                "--logger=zap".to_owned(),
                "--log-level=warn".to_owned(),
                format!("--election-timeout={}", options.election_ms),
                format!("--heartbeat-interval={}", (options.election_ms / 10).max(1)),
            ];
            arguments.extend(
                options
                    .quota_bytes
                    .map(|bytes| format!("--quota-backend-bytes={bytes}")),
            );
            if let Some(pair) = &options.certificate {
                arguments.push(format!("--cert-file={}", pair.certificate.display()));
                arguments.push(format!("--key-file={}", pair.key.display()));
            }
            if let (Some(authority), Some(_)) = (&options.authority, &options.client_certificate) {
                arguments.push(format!("--trusted-ca-file={}", authority.display()));
                arguments.push("--client-cert-auth=true".to_owned());
            }
            Member {
                name,
                client,
                arguments,
                process: None,
            }
        })
        .collect()
}
