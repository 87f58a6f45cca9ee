//! One real server in a temporary directory on a free port, with relaxed durability.
//!
//! These are plain servers, as an application's own would be: they take writes, have `root` without
//! a password, and keep their data in files that vanish with the handle.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use ::farm::Engine;
use mysqld::{Binary, Error, Options};
use tempfile::TempDir;

use crate::client::Client;
use crate::servers::bundle::{self, Artifact};
use crate::servers::keeper;
use crate::servers::network::Host;
use crate::servers::ports::free_port;
use crate::wait::wait_until;

/// A loaded machine with two cores may need this long for a start that takes 0.3 s alone.
const START_PATIENCE: Duration = Duration::from_secs(60);

/// Somebody who reserves no ports may take one before the server binds it; then another is tried.
const PORT_TRIES: usize = 5;

/// What a server on a host of its own does first: it lets `root` in from everywhere and tells no
/// replica.
const WELCOME: &str = "SET SESSION sql_log_bin = 0;\n\
                       CREATE USER IF NOT EXISTS 'root'@'%';\n\
                       GRANT ALL ON *.* TO 'root'@'%' WITH GRANT OPTION;\n";

/// Which server software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The distribution's MariaDB (10.11 on Debian 12).
    Installed,
    /// MariaDB 11.4.5, fetched once.
    MariaDb114,
    /// MySQL 8.0.12, fetched once. It has no plugins, hence no semi-sync. Where `HEDDLE_NEWER_MYSQL` is
    /// set, it is [`Release::MySqlNewer`], on which everything has to hold as well.
    MySql80,
    /// A MySQL that is newer: the executable that `HEDDLE_MYSQLD` names, or an archive in
    /// `../shared/mysql` beside the project's root.
    MySqlNewer,
}

impl Release {
    /// All releases that the engines' differential tests run on.
    pub const ALL: [Release; 3] = [Release::Installed, Release::MariaDb114, Release::MySql80];

    /// The newest MySQL that this machine has.
    pub fn newest_mysql() -> Release {
        match Release::MySqlNewer.binary() {
            Ok(_) => Release::MySqlNewer,
            Err(_) => Release::MySql80,
        }
    }

    /// The flags by which a farm of this release takes transactions over groups: MySQL 8.0.12 is older than
    /// MySQL's safe XA. For tests in which no server dies.
    pub fn xa_flags(self) -> &'static [&'static str] {
        match self {
            Release::MySql80 => &["--set", "allow_unsafe_xa=on"],
            _ => &[],
        }
    }

    /// The executable; the error says why this machine does not have it.
    pub fn binary(self) -> Result<Binary, String> {
        let fetched = |engine, artifact: &Artifact| {
            let base = bundle::fetch(artifact)?;
            Binary::find(engine, Some(&base)).map_err(|error| error.to_string())
        };
        match self {
            Release::Installed => {
                Binary::find(Engine::MariaDb, None).map_err(|error| error.to_string())
            }
            Release::MariaDb114 => fetched(Engine::MariaDb, &bundle::MARIADB_114),
            Release::MySql80 if std::env::var_os("HEDDLE_NEWER_MYSQL").is_some() => {
                Release::MySqlNewer.binary()
            }
            Release::MySql80 => fetched(Engine::MySql, &bundle::MYSQL_80),
            Release::MySqlNewer => {
                let path = match std::env::var_os("HEDDLE_MYSQLD") {
                    Some(path) => PathBuf::from(path),
                    None => bundle::newer_mysql()?,
                };
                Binary::find(Engine::MySql, Some(&path)).map_err(|error| error.to_string())
            }
        }
    }
}

/// Makes two tests of each function that takes a [`Release`]: `NAME::on_mariadb` with the one that is
/// installed, and `NAME::on_mysql` with the newest MySQL of the machine.
#[macro_export]
macro_rules! on_both_engines {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[test]
            fn on_mariadb() {
                super::$name($crate::Release::Installed);
            }

            #[test]
            fn on_mysql() {
                super::$name($crate::Release::newest_mysql());
            }
        }
    )+};
}

/// A running server; killed when dropped.
pub struct Server {
    process: mysqld::Server,
    binary: Binary,
    template: PathBuf,
    /// Where it runs.
    pub host: Arc<Host>,
    dir: TempDir,
}

impl Server {
    /// Starts the release with no settings of the test's own, or says why the test is skipped.
    pub fn start(release: Release) -> Option<Server> {
        Server::start_with(release, &[])
    }

    /// Starts the release with more lines for `my.cnf`, or says why the test is skipped.
    ///
    /// # Panics
    /// When the server is there but does not start.
    pub fn start_with(release: Release, settings: &[(&str, &str)]) -> Option<Server> {
        Server::start_on(&Host::loopback(), release, settings)
    }

    /// So many of the same, which start side by side.
    ///
    /// # Panics
    /// When a server is there but does not start.
    pub fn start_some(
        count: usize,
        release: Release,
        settings: &[(&str, &str)],
    ) -> Option<Vec<Server>> {
        if let Err(reason) = release.binary() {
            crate::skip(&reason);
            return None;
        }
        thread::scope(|scope| {
            let start = || scope.spawn(|| Server::start_with(release, settings));
            let begun: Vec<_> = (0..count).map(|_| start()).collect();
            let started = begun.into_iter().map(|one| one.join());
            started
                .map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    /// The same on this host. There `root` may come from other hosts, too.
    ///
    /// # Panics
    /// When the server is there but does not start.
    pub fn start_on(
        host: &Arc<Host>,
        release: Release,
        settings: &[(&str, &str)],
    ) -> Option<Server> {
        let binary = match release.binary() {
            Ok(binary) => binary,
            Err(reason) => {
                crate::skip(&reason);
                return None;
            }
        };
        let cache = mysqld::cache_dir(&std::env::temp_dir());
        let template = mysqld::template(&binary, &cache).expect("a template of a data directory");
        for _ in 1..PORT_TRIES {
            if let Ok(server) = Server::try_start(host, &binary, &template, settings) {
                return Some(server);
            }
        }
        let last = Server::try_start(host, &binary, &template, settings);
        Some(last.unwrap_or_else(|error| panic!("{}: {error}", binary.version)))
    }

    fn try_start(
        host: &Arc<Host>,
        binary: &Binary,
        template: &std::path::Path,
        settings: &[(&str, &str)],
    ) -> Result<Server, Error> {
        let dir = tempfile::Builder::new().prefix("heddle-server-").tempdir();
        let dir = dir.expect("a temporary directory");
        keeper::keep(dir.path());
        let id = next_id();
        let mut options = Options::new(
            &format!("test-{id}"),
            dir.path(),
            host.within(free_port),
            id,
        );
        options.buffer_pool_bytes = 32 << 20;
        let relaxed = [
            ("read_only", "OFF"),
            ("sync_binlog", "0"),
            ("innodb_flush_log_at_trx_commit", "0"),
        ];
        let (ip, welcome) = (host.ip.to_string(), dir.path().join("welcome.sql"));
        std::fs::write(&welcome, WELCOME).expect("a temporary directory takes files");
        let welcome = welcome.display().to_string();
        let abroad = [
            ("bind_address", "0.0.0.0"),
            ("report_host", ip.as_str()),
            // Nobody there knows names, and asking takes seconds.
            ("skip_name_resolve", "ON"),
            ("init_file", welcome.as_str()),
        ];
        let abroad = abroad.iter().filter(|_| host.namespace().is_some());
        let all = relaxed.iter().chain(abroad).chain(settings);
        options.extra = all
            .map(|&(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        let process = host.within(|| mysqld::Server::start(binary, template, options))?;
        let mut server = Server {
            process,
            binary: binary.clone(),
            template: template.to_owned(),
            host: Arc::clone(host),
            dir,
        };
        host.within(|| server.process.wait_ready(START_PATIENCE))?;
        Ok(server)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((self.host.ip, self.process.address().port()))
    }

    /// True when a prepared transaction is its connection's no more, so that anybody may end it: MySQL's
    /// `xa_detach_on_prepare`, on by default since 8.0.29.
    pub fn detaches_xa(&self) -> bool {
        let sql =
            "SHOW GLOBAL VARIABLES WHERE Variable_name = 'xa_detach_on_prepare' AND Value = 'ON'";
        !self.client().rows(sql).is_empty()
    }

    pub fn engine(&self) -> Engine {
        self.binary.engine
    }

    /// As `@@version` has it, without what only a distribution adds.
    pub fn version(&self) -> &str {
        &self.binary.version
    }

    /// A new connection as `root`.
    ///
    /// # Panics
    /// When the server refuses it.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.address(), "root", "").expect("root has no password")
    }

    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// kill -9.
    pub fn kill(&mut self) {
        self.process.kill().expect("a killed process ends");
    }

    /// SIGTERM, as a service manager does it; returns when the server has ended.
    pub fn stop(&mut self) {
        self.process
            .stop(START_PATIENCE)
            .expect("a stopped process ends");
    }

    /// Starts a killed or stopped server again on its data and port.
    pub fn restart(&mut self) {
        self.restart_with(&[]);
    }

    /// The same with more lines for `my.cnf`.
    pub fn restart_with(&mut self, settings: &[(&str, &str)]) {
        let mut options = self.process.options().clone();
        let more = settings.iter();
        options
            .extra
            .extend(more.map(|&(key, value)| (key.to_owned(), value.to_owned())));
        let (binary, template) = (&self.binary, &self.template);
        let host = Arc::clone(&self.host);
        let started = host.within(|| mysqld::Server::start(binary, template, options));
        self.process = started.expect("starts again");
        host.within(|| self.process.wait_ready(START_PATIENCE))
            .expect("answers again");
    }

    /// Goes on with another release's software on the same data. The error says why this machine does not
    /// have it; then nothing was done.
    ///
    /// # Panics
    /// When it does not start on these data.
    pub fn upgrade(&mut self, release: Release) -> Result<(), String> {
        let binary = release.binary()?;
        self.stop();
        self.binary = binary;
        self.restart();
        Ok(())
    }

    /// False when the process has ended.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// SIGSTOP: connections are accepted by the kernel and nothing answers.
    pub fn freeze(&mut self) {
        self.process.signal(mysqld::Signal::STOP);
        let tasks = format!("/proc/{}/task", self.process.pid());
        let stopped = |task: std::fs::DirEntry| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            // A thread that is gone since has no state.
            let state = stat.rsplit_once(") ").map(|(_, rest)| &rest[..1]);
            state.is_none_or(|state| state == "T")
        };
        wait_until(START_PATIENCE, "a server whose threads are stopped", || {
            let tasks = std::fs::read_dir(&tasks).into_iter().flatten();
            tasks.flatten().all(stopped)
        });
    }

    /// SIGCONT.
    pub fn thaw(&mut self) {
        self.process.signal(mysqld::Signal::CONT);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing can be done about a process that survives SIGKILL, least of all in a panic.
        let _ = self.process.kill();
        keeper::forget(self.dir.path());
    }
}

/// Server ids differ within a test process, so that its servers may replicate from each other.
fn next_id() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}
