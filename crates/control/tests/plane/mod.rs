//! A control plane on a thread of its own, as the program runs it, and real servers for it.

pub mod life;
mod told;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use catalog::{Call, CommandError};
use control::{Commander, Control, Credentials, NoSessions, Settings};
use farm::{Published, Server as Known, Snapshot, Status};
use serde_json::Value;
use testkit::client::Reply;
use testkit::{Release, Server, holds_within, wait_until};
use tokio::sync::oneshot;

/// Generous: two cores run several servers and their clients.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A running control plane; stopped when dropped.
pub struct Plane {
    pub published: Arc<Published>,
    pub control: Arc<Control>,
    commander: Commander,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Plane {
    /// A control plane on the store in this directory.
    pub fn start(dir: &Path) -> Plane {
        Plane::start_with(dir, |_| {})
    }

    /// The same with other settings.
    pub fn start_with(dir: &Path, set: impl FnOnce(&mut Settings)) -> Plane {
        let store = Arc::new(meta::Embedded::open(dir).expect("a store"));
        Plane::start_on(async { store as Arc<dyn meta::Store> }, dir, set)
    }

    /// The same on a store that others may share; it is opened on the plane's own thread.
    pub fn start_on(
        store: impl Future<Output = Arc<dyn meta::Store>> + Send + 'static,
        dir: &Path,
        set: impl FnOnce(&mut Settings),
    ) -> Plane {
        let credentials = Credentials {
            user: "root".to_owned(),
            password: String::new(),
            replication_user: "root".to_owned(),
            replication_password: String::new(),
            tls: control::LinkTls::Off,
        };
        let mut settings = Settings::new(credentials);
        settings.observation.probe_interval_ms = 50;
        settings.detection.detection_timeout_ms = testkit::DETECTION_TIMEOUT_MS;
        settings.observation.accounts_interval_ms = 50;
        settings.step_timeout_ms = 20_000;
        settings.provision.errant_dir = dir.join("errant");
        set(&mut settings);
        let published = Arc::new(Published::from_pointee(Snapshot::empty("", Instant::now())));
        let (stop, stopped) = oneshot::channel::<()>();
        let (ready, is_ready) = mpsc::channel();
        let cell = Arc::clone(&published);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                let control = Control::open(store.await, cell, Arc::new(NoSessions), settings)
                    .await
                    .expect("a farm");
                ready.send(Arc::clone(&control)).expect("the test waits");
                control
                    .run(async {
                        let _ = stopped.await;
                    })
                    .await;
            });
        });
        let control = is_ready.recv().expect("it opens");
        let commander = control.commander();
        Plane {
            published,
            control,
            commander,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// Calls a command from this thread, as the data plane does.
    pub fn call(&self, words: &[&str]) -> Result<Value, CommandError> {
        let answer = self.answer(words, PATIENCE * 2);
        answer.expect("every call is answered")
    }

    /// The same; `None` where it is not answered within this time.
    fn answer(&self, words: &[&str], within: Duration) -> Option<Result<Value, CommandError>> {
        let (send, receive) = mpsc::channel();
        let call = match Call::parse(words) {
            Ok(call) => call,
            Err(error) => return Some(Err(error)),
        };
        self.commander.submit(
            call,
            Box::new(move |answer| {
                let _ = send.send(answer);
            }),
        );
        let answer = receive.recv_timeout(within).ok()?;
        Some(answer.map(|table| table.to_json()))
    }

    /// The rows of a command that must succeed.
    #[track_caller]
    pub fn rows(&self, words: &[&str]) -> Value {
        self.call(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The text of a command that must fail.
    #[track_caller]
    pub fn error(&self, words: &[&str]) -> String {
        match self.call(words) {
            Ok(rows) => panic!("{words:?} gave {rows}"),
            Err(error) => error.to_string(),
        }
    }

    /// Lets this server lead its group. It is ordered again where it is refused: a busy machine may doubt a primary that
    /// lives, and then another change is under way.
    #[track_caller]
    pub fn promote(&self, group: &str, to: &str) {
        let mut told = String::new();
        let promoted = holds_within(PATIENCE, || {
            let answer = self.call(&["group", "promote", group, to]);
            told = answer
                .as_ref()
                .err()
                .map(ToString::to_string)
                .unwrap_or_default();
            answer.is_ok()
        });
        assert!(promoted, "{to} does not lead: {told}");
    }

    /// Waits until the published server at this address is as described.
    #[track_caller]
    pub fn wait_server(&self, what: &str, server: &Server, is: impl Fn(&Known) -> bool) {
        let address = server.address().to_string();
        wait_until(PATIENCE, &format!("{address} {what}"), || {
            let snapshot = self.published.load();
            let mut servers = snapshot.groups.iter().flat_map(|group| &group.servers);
            servers
                .find(|known| known.address() == address)
                .is_some_and(|known| is(known))
        });
    }

    /// Waits until a server that was gone follows the primary.
    #[track_caller]
    pub fn wait_replica_again(&self, server: &Server) {
        self.wait_server("is a replica again", server, |it| {
            it.status == Status::Replica && it.health.alive && it.health.io_running == Some(true)
        });
    }

    /// Waits for an event of this kind: what is published, or has happened to a server, is told a moment later.
    #[track_caller]
    pub fn wait_event(&self, kind: &str) {
        wait_until(PATIENCE, kind, || self.event_kinds().contains(&kind));
    }

    /// The kinds of all events so far.
    pub fn event_kinds(&self) -> Vec<&'static str> {
        self.control
            .events()
            .iter()
            .map(|event| event.kind)
            .collect()
    }
}

impl Drop for Plane {
    #[expect(
        clippy::print_stderr,
        reason = "the runner shows it below the test's name"
    )]
    fn drop(&mut self) {
        let failed = std::thread::panicking();
        if failed {
            // While it runs, and its servers do.
            eprintln!("{}", told::of(self));
        }
        if let Some(stop) = self.stop.take() {
            // The thread may have ended with a panic; that is told below.
            let _ = stop.send(());
        }
        let ended = self.thread.take().map(JoinHandle::join);
        if !failed {
            assert!(matches!(ended, Some(Ok(()))), "the control thread panicked");
        }
    }
}

/// Servers that start read-only, as those of a farm do, and whose commits survive kill -9; `None`
/// where there are no servers.
pub fn servers<const N: usize>() -> Option<[Server; N]> {
    servers_of(Release::Installed)
}

/// The same of another release.
pub fn servers_of<const N: usize>(release: Release) -> Option<[Server; N]> {
    let settings = [
        ("read_only", "ON"),
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
    ];
    Server::start_some(N, release, &settings)?.try_into().ok()
}

/// A control plane whose group `g` has these servers, the first as the primary.
pub fn farm_of(dir: &Path, servers: &[Server]) -> Plane {
    farm_with(dir, servers, |_| {})
}

/// The same with other settings.
pub fn farm_with(dir: &Path, servers: &[Server], set: impl FnOnce(&mut Settings)) -> Plane {
    let plane = Plane::start_with(dir, set);
    plane.rows(&["group", "create", "g"]);
    for server in servers {
        plane.rows(&["group", "add", "g", &server.address().to_string()]);
    }
    plane
}

/// Waits until a server is up for so long that what it had received before is not in doubt: for seconds, and
/// for as long as a loaded machine takes to see that its primary is lost.
pub fn wait_until_settled(server: &Server) {
    wait_until(PATIENCE, "the server to be up for a while", || {
        // A connection of its own: clients are ended when a busy machine has a living primary replaced.
        let said = server.client().query("SHOW GLOBAL STATUS LIKE 'Uptime'");
        let Ok([Reply::Rows(rows)]) = said.as_deref() else {
            return false;
        };
        let uptime = rows.text()[0][1]
            .as_deref()
            .and_then(|s| s.parse::<u64>().ok());
        uptime.is_some_and(|seconds| seconds >= 8)
    });
}
