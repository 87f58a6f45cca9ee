//! How other threads call commands, or ask for the newest accounts: bounded queues into the control
//! thread.

use tokio::sync::{mpsc, oneshot};

use crate::commands::{Call, CommandError, Table};

/// Calls that may wait at once; more are refused.
const CALLS_MAX: usize = 1024;

/// Askers for the newest accounts that may wait at once; more have to do with what is known.
const ASKERS_MAX: usize = 4096;

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
}

impl Commander {
    pub(crate) fn new() -> (Commander, mpsc::Receiver<Request>, mpsc::Receiver<Read>) {
        let (queue, calls) = mpsc::channel(CALLS_MAX);
        let (askers, asked) = mpsc::channel(ASKERS_MAX);
        (Commander { queue, askers }, calls, asked)
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
