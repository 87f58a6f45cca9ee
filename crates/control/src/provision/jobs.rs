//! Work that outlasts a command: it runs as a task of its own, is listed, and can be aborted.
//!
//! A job is made by a command or a loop and started by [`crate::Control::run`], which owns its task.
//! Whoever made it may wait for its end. Jobs that a router has begun end with it; what a copy that
//! was cut short leaves behind is recognised by the next one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use engine::copy::Progress;
use tokio::sync::{mpsc, watch};

use crate::provision::Provision;
use crate::provision::admission::Newcomer;
use catalog::Method;
use catalog::command::CommandError;
use catalog::record::ServerRecord;

/// Jobs that are remembered after their end; older ones are forgotten.
const ENDED_MAX: usize = 100;

/// What a job is for.
#[derive(Clone, Debug)]
pub(crate) enum Aim {
    /// Copy data to a server of no group.
    Copy { host: String, port: u16 },
    /// Copy data to a server, then add it to its group.
    Join(Newcomer),
    /// Copy data anew to a server of the group, then let it follow.
    Rebuild { id: u32 },
}

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    Done(String),
    Failed(CommandError),
    Aborted,
}

impl State {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            State::Running => "running",
            State::Done(_) => "done",
            State::Failed(_) => "failed",
            State::Aborted => "aborted",
        }
    }

    fn ended(&self) -> bool {
        *self != State::Running
    }
}

/// One job.
pub(crate) struct Job {
    pub(crate) uuid: String,
    pub(crate) aim: Aim,
    pub(crate) group: String,
    /// Address of the server that is filled.
    pub(crate) destination: String,
    /// The server to copy from, when it was named.
    pub(crate) wanted_source: Option<ServerRecord>,
    /// How it is to be filled, when that was said.
    pub(crate) wanted_method: Option<Method>,
    /// How it is filled, once that is chosen.
    method: Mutex<Option<Method>>,
    /// It is aborted because its router ends: the next one goes on.
    ends_with_router: AtomicBool,
    /// The destination has the source's binary logs, too.
    has_logs: AtomicBool,
    /// Address of the server that is copied, once it is chosen.
    source: Mutex<String>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) started_ms: u64,
    ended_ms: Mutex<Option<u64>>,
    state: watch::Sender<State>,
    abort: watch::Sender<bool>,
}

impl Job {
    pub(crate) fn state(&self) -> State {
        self.state.borrow().clone()
    }

    pub(crate) fn source(&self) -> String {
        lock(&self.source).clone()
    }

    pub(crate) fn copies_from(&self, address: String) {
        *lock(&self.source) = address;
    }

    pub(crate) fn method(&self) -> Option<Method> {
        *lock(&self.method)
    }

    pub(crate) fn fills_by(&self, method: Method) {
        *lock(&self.method) = Some(method);
    }

    pub(crate) fn has_logs(&self) -> bool {
        self.has_logs.load(Relaxed)
    }

    pub(crate) fn gets_logs(&self, has_logs: bool) {
        self.has_logs.store(has_logs, Relaxed);
    }

    pub(crate) fn ended_ms(&self) -> Option<u64> {
        *lock(&self.ended_ms)
    }

    /// Asks it to end; false when it has ended.
    pub(crate) fn abort(&self) -> bool {
        let running = !self.state.borrow().ended();
        self.abort.send_replace(running);
        running
    }

    /// The same because its router ends.
    pub(crate) fn end_with_router(&self) {
        self.ends_with_router.store(true, Relaxed);
        self.abort();
    }

    pub(crate) fn ends_with_router(&self) -> bool {
        self.ends_with_router.load(Relaxed)
    }

    /// Ready when somebody wants the job to end.
    pub(crate) async fn aborted(&self) {
        let mut abort = self.abort.subscribe();
        // The sender is a part of this job.
        let _ = abort.wait_for(|&wanted| wanted).await;
    }

    pub(crate) fn end(&self, state: State) {
        *lock(&self.ended_ms) = Some(now_ms());
        self.state.send_replace(state);
    }

    /// Waits for its end; gives what it was made for: the UUID of the server.
    pub(crate) async fn outcome(&self) -> Result<String, CommandError> {
        let mut state = self.state.subscribe();
        let ended = state.wait_for(State::ended).await;
        match ended.map(|state| state.clone()) {
            Ok(State::Done(result)) => Ok(result),
            Ok(State::Failed(error)) => Err(error),
            _ => Err(CommandError::Refused(format!(
                "job {} was aborted; server {} is empty and in no group",
                self.uuid, self.destination
            ))),
        }
    }

    /// Rows, bytes, tables that were copied, and all tables.
    pub(crate) fn counts(&self) -> [u64; 4] {
        let progress = &self.progress;
        [
            &progress.rows,
            &progress.bytes,
            &progress.tables_done,
            &progress.tables,
        ]
        .map(|counter| counter.load(Relaxed))
    }
}

/// All jobs of this router, the oldest first.
pub(crate) struct Jobs {
    list: Mutex<VecDeque<Arc<Job>>>,
    starts: mpsc::UnboundedSender<Arc<Job>>,
    /// Taken by `run`.
    waiting: Mutex<Option<mpsc::UnboundedReceiver<Arc<Job>>>>,
}

impl Jobs {
    pub(crate) fn new() -> Jobs {
        let (starts, waiting) = mpsc::unbounded_channel();
        Jobs {
            list: Mutex::default(),
            starts,
            waiting: Mutex::new(Some(waiting)),
        }
    }

    /// The jobs to start; `None` when they were taken.
    pub(crate) fn waiting(&self) -> Option<mpsc::UnboundedReceiver<Arc<Job>>> {
        lock(&self.waiting).take()
    }

    pub(crate) fn list(&self) -> Vec<Arc<Job>> {
        lock(&self.list).iter().cloned().collect()
    }

    pub(crate) fn find(&self, uuid: &str) -> Option<Arc<Job>> {
        let list = lock(&self.list);
        list.iter().find(|job| job.uuid == uuid).cloned()
    }

    /// Whether a job fills this server now.
    pub(crate) fn fills(&self, address: &str) -> Option<Arc<Job>> {
        let list = lock(&self.list);
        let running = |job: &&Arc<Job>| !job.state().ended() && job.destination == address;
        list.iter().find(running).cloned()
    }
}

impl Provision {
    /// Makes a job and has it started. Only one at a time fills a server.
    pub(crate) fn start_job(
        &self,
        aim: Aim,
        group: &str,
        destination: String,
        wanted_source: Option<ServerRecord>,
        wanted_method: Option<Method>,
    ) -> Result<Arc<Job>, CommandError> {
        let uuid = catalog::identity::uuid();
        let uuid = uuid.map_err(|error| CommandError::Internal(error.to_string()))?;
        let job = Arc::new(Job {
            uuid,
            aim,
            group: group.to_owned(),
            wanted_source,
            wanted_method,
            method: Mutex::default(),
            ends_with_router: AtomicBool::new(false),
            has_logs: AtomicBool::new(false),
            source: Mutex::default(),
            progress: Arc::default(),
            started_ms: now_ms(),
            ended_ms: Mutex::default(),
            state: watch::channel(State::Running).0,
            abort: watch::channel(false).0,
            destination,
        });
        let mut list = lock(&self.jobs.list);
        let running =
            |other: &&Arc<Job>| !other.state().ended() && other.destination == job.destination;
        if let Some(other) = list.iter().find(running) {
            return Err(CommandError::Refused(format!(
                "job {} fills server {} already; `job show {}` tells how far it is",
                other.uuid, other.destination, other.uuid
            )));
        }
        let ended = list.iter().filter(|job| job.state().ended()).count();
        if ended >= ENDED_MAX
            && let Some(oldest) = list.iter().position(|job| job.state().ended())
        {
            list.remove(oldest);
        }
        list.push_back(Arc::clone(&job));
        drop(list);
        self.jobs
            .starts
            .send(Arc::clone(&job))
            .map_err(|_| CommandError::Internal("the router is shutting down".to_owned()))?;
        Ok(job)
    }
}

fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since_1970.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// No holder panics in the middle of a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
