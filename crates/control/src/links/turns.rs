//! Whose turn it is to change a server: two that change whom it follows, or whether it takes writes, undo each other's
//! work.
//!
//! Job: a change of primary gets its servers at once. Whoever brings a server back into its group gives it up for that, at
//! its next wait, and begins again later.
//!
//! Invariants: of those who bring a server back one at a time has it, and nobody beside a change of primary. The steps of
//! a change may share it. Nobody waits for one that does not give way.
//!
//! Must not know: what is done on the server.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedRwLockReadGuard, RwLock, watch};

/// The turns of all servers.
#[derive(Default)]
pub(crate) struct Turns(Mutex<HashMap<u32, Server>>);

#[derive(Clone, Default)]
struct Server {
    /// Shared by steps of changes of primary, held alone by who brings the server back.
    held: Arc<RwLock<()>>,
    /// How many steps of changes of primary want it, or have it.
    wanted: watch::Sender<usize>,
}

/// A change of primary has the server, until this is dropped.
pub(crate) struct Turn {
    _held: OwnedRwLockReadGuard<()>,
    _wish: Wish,
}

struct Wish(watch::Sender<usize>);

impl Wish {
    fn of(server: &Server) -> Wish {
        server.wanted.send_modify(|wanted| *wanted += 1);
        Wish(server.wanted.clone())
    }
}

impl Drop for Wish {
    fn drop(&mut self) {
        self.0.send_modify(|wanted| *wanted -= 1);
    }
}

impl Turns {
    fn server(&self, id: u32) -> Server {
        let mut servers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        servers.entry(id).or_default().clone()
    }

    /// The server for a step of a change of primary, as soon as who brings it back has let go.
    pub(crate) async fn take(&self, id: u32) -> Turn {
        let server = self.server(id);
        let wish = Wish::of(&server);
        Turn {
            _held: server.held.read_owned().await,
            _wish: wish,
        }
    }

    /// Does this work on the server while no change of primary wants it. `None`: one does, or somebody else brings the
    /// server back. The work has not begun then, or was dropped at a wait.
    pub(crate) async fn unless_wanted<T>(
        &self,
        id: u32,
        work: impl Future<Output = T>,
    ) -> Option<T> {
        let server = self.server(id);
        // Nobody queues for it, so a step of a change never waits behind one that waits.
        let _alone = Arc::clone(&server.held).try_write_owned().ok()?;
        let mut wanted = server.wanted.subscribe();
        tokio::select! {
            biased;
            _ = wanted.wait_for(|wanted| *wanted > 0) => None,
            done = work => Some(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn who_brings_a_server_back_gives_way_to_a_change_of_primary() {
        let turns = Turns::default();
        let (begun, has_begun) = tokio::sync::oneshot::channel();
        let endless = turns.unless_wanted(1, async {
            begun.send(()).expect("it is waited for");
            pending::<()>().await;
        });
        let change = async {
            has_begun.await.expect("it begins");
            turns.take(1).await
        };
        let (given_up, turn) = tokio::join!(endless, change);
        assert_eq!(given_up, None);

        let not_begun = async { unreachable!("the change has the server") };
        assert_eq!(turns.unless_wanted::<()>(1, not_begun).await, None);
        assert_eq!(
            turns.unless_wanted(2, async { 7 }).await,
            Some(7),
            "another server"
        );
        let beside = turns.take(1).await;
        drop(turn);
        assert_eq!(
            turns.unless_wanted(1, async { 7 }).await,
            None,
            "one step is left"
        );
        drop(beside);
        assert_eq!(turns.unless_wanted(1, async { 7 }).await, Some(7));
    }

    #[tokio::test]
    async fn one_at_a_time_brings_a_server_back() {
        let turns = Turns::default();
        let inner = turns.unless_wanted(1, async { turns.unless_wanted(1, async { 7 }).await });
        assert_eq!(inner.await, Some(None));
    }

    #[tokio::test]
    async fn a_step_that_was_given_up_wants_nothing_more() {
        let turns = Turns::default();
        let waits = turns.unless_wanted(1, async {
            let mut step = Box::pin(turns.take(1));
            // It is polled once: it has its wish and waits for the turn.
            let polled = std::future::poll_fn(|context| {
                std::task::Poll::Ready(step.as_mut().poll(context).is_pending())
            });
            polled.await
        });
        assert_eq!(waits.await, Some(true));
        assert_eq!(turns.unless_wanted(1, async { 7 }).await, Some(7));
    }
}
