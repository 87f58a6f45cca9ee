//! The life of a router that serves: until a signal ends it, or another process has taken over and the
//! last client has left.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use tokio::task::JoinSet;

use super::offer::{Later, Offer, Successor, Want, somebody_else};
use super::take::{Predecessor, Relieved};
use crate::doors::Doors;
use crate::doors::listeners::OWN;
use crate::failure::Failure;
use crate::host::signals::{Asked, Signals};
use crate::host::systemd::Systemd;
use crate::printing::say;
use crate::router::{Router, blocking};

/// Between two looks whether the last client has left.
const LOOK: Duration = Duration::from_millis(50);

/// A process that has been relieved stays so long in any case, to step in should the new one die.
const GUARD: Duration = Duration::from_secs(5);

/// A successor waits so long for what has to be committed before.
const EARLY_COMMIT_MAX: Duration = Duration::from_secs(5);

/// So long a successor that came to nothing may take to end; after half of it, it is ended.
const RECLAIM_MAX: Duration = Duration::from_secs(10);

/// All that a serving router has.
pub struct Life<'a> {
    pub router: &'a Router,
    pub doors: Doors,
    pub state: &'a Path,
    /// Who served before and may still have clients.
    pub before: Option<Relieved>,
    pub signals: Signals,
    pub systemd: Systemd,
    pub program: Program,
}

/// How this process was started, so that another can be started in the same way.
pub struct Program {
    path: Option<PathBuf>,
    arguments: Vec<OsString>,
    /// One task for each process that was started, until that ends.
    started: JoinSet<()>,
}

/// What comes after a hand-over.
enum After {
    /// Nobody needs this process any more.
    End,
    /// The successor died, and nobody else listens.
    Resume,
}

/// What ends the wait for something to do.
enum Event {
    Signal(Asked),
    Successor(Successor),
}

impl Life<'_> {
    /// Serves to the end, in place of the process before if there is one.
    ///
    /// # Errors
    /// The predecessor does not step back, or a thread of the data plane panicked.
    pub async fn live(mut self, before: Option<Predecessor>) -> Result<(), Failure> {
        self.router.http.serve(true);
        if let Some(before) = before {
            self.before = Some(before.relieve().await?);
        }
        say(self.doors.ready(self.router.http.address()));
        loop {
            let offer = self.open();
            let successor = match self.wait(offer.as_ref()).await {
                Event::Signal(Asked::End) => return self.end().await,
                Event::Signal(Asked::Renew) => {
                    self.program.start();
                    continue;
                }
                Event::Successor(successor) => successor,
            };
            let process = successor.process;
            let successor = match self.hand_over(successor).await {
                Ok(successor) => successor,
                Err(why) => {
                    tracing::error!("process {process} did not take over: {why}; this one goes on");
                    self.take_back(process).await;
                    continue;
                }
            };
            drop(offer);
            match self.linger(successor).await {
                After::End => return self.router.drain_at_once(self.doors).await,
                After::Resume => {
                    tracing::error!("process {process} took over and died; this one goes on");
                    self.take_back(process).await;
                    self.doors.resume();
                    self.router.http.serve(true);
                    say("serving again");
                }
            }
        }
    }

    /// Can be found by a successor from now on; systemd knows that this process serves.
    fn open(&self) -> Option<Offer> {
        let offer = Offer::open(self.state).inspect_err(|error| {
            let state = self.state.display();
            tracing::warn!("cannot offer a hand-over in {state}: {error}; a restart ends clients");
        });
        for (name, socket) in self.doors.listeners().unwrap_or_default() {
            self.systemd.keep(name, socket.as_fd());
        }
        self.systemd
            .keep("http", self.router.http.listener().as_fd());
        if let Some(fabric) = self.router.http.guest_listener() {
            self.systemd.keep("fabric", fabric.as_fd());
        }
        let sql = self.doors.sql_places();
        self.systemd.ready(&format!("serving SQL on {sql}"));
        offer.ok()
    }

    async fn wait(&mut self, offer: Option<&Offer>) -> Event {
        let asked = async {
            match offer {
                Some(offer) => offer.next().await,
                None => std::future::pending().await,
            }
        };
        let inform = async {
            match &self.before {
                Some(before) => before.inform(self.router).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            asked = self.signals.asked() => Event::Signal(asked),
            successor = asked => Event::Successor(successor),
            () = inform => Event::Signal(Asked::End),
            () = signs_of_life(&self.systemd, &self.doors.sql) => Event::Signal(Asked::End),
        }
    }

    /// Gives a successor what it wants until it serves in place of this process.
    async fn hand_over(&mut self, mut successor: Successor) -> std::io::Result<Successor> {
        let snapshot = self.router.published.load_full();
        if snapshot.groups.iter().any(|group| group.paused) {
            let why = "a group changes its primary just now; try again in a moment";
            successor.refuse(why).await;
            return Err(std::io::Error::other(why));
        }
        let doors = self.doors.listeners()?;
        let of_doors = doors.iter();
        let of_doors = of_doors.map(|(name, socket)| (format!("{OWN}{name}"), socket.as_fd()));
        let http = self.router.http.listener();
        let http = (format!("{OWN}http"), http.as_fd());
        let fabric = self.router.http.guest_listener();
        let fabric = fabric.as_ref();
        let fabric = fabric.map(|socket| (format!("{OWN}fabric"), socket.as_fd()));
        let sockets: Vec<_> = of_doors.chain([http]).chain(fabric).collect();
        let last_id = self.doors.sql.shared().registry.last_id();
        let lends = self.router.lends();
        successor.give(&sockets, lends, last_id).await?;
        loop {
            match successor.wants().await? {
                Want::Store => {
                    self.router.step_down().await;
                    self.router.lend().await.map_err(std::io::Error::other)?;
                }
                Want::Relief => break,
            }
            successor.grant().await?;
        }
        self.router.step_down().await;
        self.doors.rest();
        self.commit_early().await;
        self.router.http.serve(false);
        // The other one serves from here on, whether or not it hears this.
        if let Err(error) = successor.grant().await {
            tracing::debug!("the successor did not hear that it is alone: {error}");
        }
        Ok(successor)
    }

    /// Commits what key-value clients had acknowledged before its commit: those of the successor do not see it
    /// otherwise. What cannot be committed in time is committed later, or told as lost.
    async fn commit_early(&self) {
        let Some(early) = self.doors.early_commit() else {
            return;
        };
        if !matches!(
            blocking(move || early.run(EARLY_COMMIT_MAX)).await,
            Ok(true)
        ) {
            tracing::warn!("acknowledged writes of key-value clients are still to be committed");
        }
    }

    /// Serves the clients that are left, while the successor takes the new ones.
    async fn linger(&mut self, mut successor: Successor) -> After {
        if let Some(before) = self.before.take() {
            before.pass_on().await;
        }
        let process = successor.process;
        let clients = self.doors.sql.clients();
        say(format!(
            "process {process} has taken over; {clients} clients may stay here until they leave"
        ));
        let limit = Duration::from_secs(self.router.settings().handover_s);
        let (limit, guard) = (tokio::time::sleep(limit), tokio::time::sleep(GUARD));
        tokio::pin!(limit, guard);
        let (mut is_watched, mut epoch) = (true, 0);
        loop {
            let is_empty = self.doors.sql.clients() == 0;
            let now = self.router.published.load().epoch;
            if std::mem::replace(&mut epoch, now) != now {
                self.router.turned();
            }
            tokio::select! {
                () = self.signals.end() => return After::End,
                () = &mut limit => return After::End,
                () = &mut guard, if is_empty => return After::End,
                () = tokio::time::sleep(LOOK), if !is_empty => {}
                later = successor.later(), if is_watched => match later {
                    Later::State(told) => self.router.learn(told),
                    Later::Ended => return After::End,
                    Later::Died if !somebody_else(self.state).await => return After::Resume,
                    Later::Died | Later::Relieved => is_watched = false,
                },
            }
        }
    }

    /// Has the file of the farm's state again, after a successor that came to nothing. One that hangs
    /// with the file open is ended.
    async fn take_back(&self, process: i32) {
        let mut waited = Duration::ZERO;
        loop {
            let Err(error) = self.router.reclaim().await else {
                return;
            };
            if waited >= RECLAIM_MAX {
                return tracing::error!("the farm stands still for this router: {error}");
            }
            if waited >= RECLAIM_MAX / 2
                && let Some(process) = Pid::from_raw(process)
            {
                // An error says that it has gone.
                let _ = kill_process(process, Signal::KILL);
            }
            tokio::time::sleep(LOOK).await;
            waited += LOOK;
        }
    }

    async fn end(mut self) -> Result<(), Failure> {
        if let Some(before) = self.before.take() {
            before.part().await;
        }
        let status = "stopping: clients may finish their transactions";
        say(status);
        self.systemd.stopping(status);
        self.router.drain(self.doors, &mut self.signals).await
    }
}

/// Tells systemd again and again that this process lives, where that is wanted: that the control plane
/// runs, and that all cores answer. Ends never.
async fn signs_of_life(systemd: &Systemd, door: &door_sql::Door) {
    let Some(limit) = systemd.watchdog else {
        return std::future::pending().await;
    };
    loop {
        let killer = door.killer();
        let answered = blocking(move || killer.cores_answer(limit / 2)).await;
        if answered == Ok(true) {
            systemd.alive();
        }
        tokio::time::sleep(limit / 4).await;
    }
}

impl Program {
    /// This process' own program and arguments, as they are now.
    pub fn of_this() -> Program {
        Program {
            path: std::env::current_exe().ok(),
            arguments: std::env::args_os().skip(1).collect(),
            started: JoinSet::new(),
        }
    }

    /// Starts another process from the same path, which may be a newer version by now. It takes over
    /// by itself, or says why it does not.
    fn start(&mut self) {
        let Some(path) = &self.path else {
            return tracing::error!("the path of this program is not known; start it by hand");
        };
        let mut command = Command::new(path);
        command.args(&self.arguments).stdin(Stdio::null());
        // These are for this process alone.
        for name in ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "WATCHDOG_PID"] {
            command.env_remove(name);
        }
        match command.spawn() {
            Ok(mut child) => drop(self.started.spawn(async move {
                if let Ok(status) = child.wait().await
                    && !status.success()
                {
                    tracing::error!("the new process ended: {status}; this one goes on");
                }
            })),
            Err(error) => tracing::error!("cannot start {}: {error}", path.display()),
        }
    }
}
