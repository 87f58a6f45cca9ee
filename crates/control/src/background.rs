//! Work that would keep the control thread: looks at all sessions, which wait for the cores, and tables
//! that are as long as there are sessions. It is done on threads beside, and the control thread goes
//! on with its failovers and leases.
//!
//! What operators and clients ask for is done one piece after the other, so that all of them together take one
//! thread. What the control plane needs itself does not stand in that row.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::context::Context;
use crate::sessions::Sessions;
use catalog::command::CommandError;

/// The row in which looks of operators and clients stand.
#[derive(Debug, Default)]
pub(crate) struct Aside {
    turn: Arc<Mutex<()>>,
}

/// Does on threads of their own what would keep the control thread.
pub(crate) struct Background {
    context: Arc<Context>,
    aside: Aside,
}

impl Background {
    pub(crate) fn new(context: &Arc<Context>) -> Background {
        Background {
            context: Arc::clone(context),
            aside: Aside::default(),
        }
    }
}

impl Background {
    /// Does for an operator or a client what takes its time, when those before him have been served.
    pub(crate) async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Sessions) -> T + Send + 'static,
    ) -> Result<T, CommandError> {
        let turn = Arc::clone(&self.aside.turn).lock_owned().await;
        self.aside(move |sessions| {
            // Kept by the work, not by who waits for it: he may leave before it ends.
            let _turn = turn;
            work(sessions)
        })
        .await
    }

    /// Does at once what takes its time.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Sessions) -> T + Send + 'static,
    ) -> Result<T, CommandError> {
        let sessions = Arc::clone(&self.context.sessions);
        let done = tokio::task::spawn_blocking(move || work(&*sessions)).await;
        done.map_err(|_| {
            CommandError::Internal(
                "a look at the sessions panicked; please report it with the router's log"
                    .to_owned(),
            )
        })
    }
}
