//! How other threads call commands, or ask for the newest accounts: bounded queues into the control
//! thread.

use farm::{Fate, LostWrite, ServerId};
use tokio::sync::{mpsc, oneshot};

use crate::commands::{Call, CommandError, Table};
use crate::detect::Sign;
use crate::outcome::{Asked, Verdict};

/// Calls that may wait at once; more are refused.
const CALLS_MAX: usize = 1024;

/// Askers for the newest accounts that may wait at once; more have to do with what is known.
const ASKERS_MAX: usize = 4096;

/// Sessions that may wait at once to hear what became of their writes.
const LOST_MAX: usize = 65_536;

/// Suspicions that may wait at once.
const SUSPECTS_MAX: usize = 256;

/// Called when the accounts have been read, or could not be, on the control thread; must not block.
pub type Read = Box<dyn FnOnce() + Send>;

/// What a command's caller gets.
pub type Answer = Result<Table, CommandError>;

/// Receives the answer, on the control thread; must not block.
pub type Reply = Box<dyn FnOnce(Answer) + Send>;

/// A call with the place for its answer. A reply that is dropped unanswered tells the caller so.
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) reply: Reply,
}

/// Calls commands from any thread; clones share one queue.
#[derive(Clone)]
pub struct Commander {
    queue: mpsc::Sender<Request>,
    askers: mpsc::Sender<Read>,
    lost: mpsc::Sender<Asked>,
    suspects: mpsc::Sender<(ServerId, Sign)>,
}

/// The other ends of a commander's queues.
pub(crate) struct Queues {
    pub(crate) calls: mpsc::Receiver<Request>,
    pub(crate) askers: mpsc::Receiver<Read>,
    pub(crate) lost: mpsc::Receiver<Asked>,
    pub(crate) suspects: mpsc::Receiver<(ServerId, Sign)>,
}

/// How a server failed a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// It refused a new connection.
    Refused,
    /// An open connection broke.
    Broken,
}

impl Commander {
    pub(crate) fn new() -> (Commander, Queues) {
        let (queue, calls) = mpsc::channel(CALLS_MAX);
        let (ask, askers) = mpsc::channel(ASKERS_MAX);
        let (lose, lost) = mpsc::channel(LOST_MAX);
        let (suspect, suspects) = mpsc::channel(SUSPECTS_MAX);
        let commander = Commander {
            queue,
            askers: ask,
            lost: lose,
            suspects: suspect,
        };
        let queues = Queues {
            calls,
            askers,
            lost,
            suspects,
        };
        (commander, queues)
    }

    /// Finds out what became of a write whose answer was lost, on the group's primary once it has
    /// one, and calls `reply` with it: on the control thread, or here when that cannot be asked.
    pub fn resolve(&self, lost: LostWrite, reply: Verdict) {
        if let Err(refused) = self.lost.try_send(Asked {
            lost,
            reply,
            at_us: 0,
        }) {
            let asked = match refused {
                mpsc::error::TrySendError::Full(asked)
                | mpsc::error::TrySendError::Closed(asked) => asked,
            };
            let why = "the control plane does not answer";
            (asked.reply)(Fate::Unknown(why.to_owned()));
        }
    }

    /// Live traffic found a server failing. Costs next to nothing and may be said often: what the
    /// queue cannot take says nothing new.
    pub fn suspect(&self, server: ServerId, how: Suspicion) {
        let sign = match how {
            Suspicion::Refused => Sign::Refused,
            Suspicion::Broken => Sign::Broken,
        };
        let _ = self.suspects.try_send((server, sign));
    }

    /// Has the accounts read from a server and published, and calls `done` after that. One reading
    /// serves all who asked before it began; a dropped `done` was never called.
    pub fn read_accounts(&self, done: Read) {
        if let Err(mpsc::error::TrySendError::Full(done)) = self.askers.try_send(done) {
            done();
        }
    }

    /// Queues a call and returns at once. `reply` runs on the control thread, or here when the queue
    /// is full or the control plane has ended.
    pub fn submit(&self, call: Call, reply: Reply) {
        if let Err(refused) = self.queue.try_send(Request { call, reply }) {
            let (request, why) = match refused {
                mpsc::error::TrySendError::Full(request) => {
                    (request, "too many commands wait; try again")
                }
                mpsc::error::TrySendError::Closed(request) => {
                    (request, "the router is shutting down; try another one")
                }
            };
            (request.reply)(Err(CommandError::Internal(why.to_owned())));
        }
    }

    /// Calls a command and waits for its answer. Dropping the future does not stop the command.
    pub async fn execute(&self, call: Call) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.submit(
            call,
            Box::new(move |answer| {
                // The caller may have gone away; then nobody wants the answer.
                let _ = sender.send(answer);
            }),
        );
        receiver.await.unwrap_or_else(|_| {
            Err(CommandError::Internal(
                "the router shut down before the command ended".to_owned(),
            ))
        })
    }
}
