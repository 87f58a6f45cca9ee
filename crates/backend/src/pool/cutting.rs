//! Ends the connections of a server that Heddle has cut itself off from: idle ones, those in use, and those that
//! are being opened.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use farm::ServerId;
use futures_channel::oneshot;

use crate::connection::target::Target;
use crate::connection::{Connection, ConnectionError};
use crate::pool::{Pools, wake_next};

impl Pools {
    /// Runs an opening for as long as it may take, or until Heddle cuts itself off from the server.
    pub(crate) async fn unless_cut(
        &self,
        target: &Target,
        opening: impl Future<Output = Result<Connection, ConnectionError>>,
    ) -> Result<Connection, ConnectionError> {
        let (cut, told) = oneshot::channel();
        {
            let mut servers = self.servers.borrow_mut();
            let openings = &mut servers.entry(target.server).or_default().openings;
            openings.retain(|opening| !opening.is_canceled());
            openings.push(cut);
        }
        let limit = Duration::from_millis(self.limits.get().connect_ms);
        let operation = "connecting";
        unless_cut(told, reactor::timeout(limit, opening))
            .await
            .ok_or_else(cut_off)?
            .unwrap_or(Err(ConnectionError::Timeout { operation }))
    }

    /// Gives a new connection its number, by which it can be ended.
    pub(crate) fn enter(&self, target: &Target, connection: &mut Connection) {
        let id = self.next_id.replace(self.next_id.get() + 1);
        let closer = connection.sock.closer();
        (connection.id, connection.term) = (id, target.term);
        let entry = self.ends.enter(id, target.server, target.term, closer);
        connection.entry = Some(entry);
    }

    /// Ends every connection to the server that was opened before this term, whatever runs on it, and
    /// every opening under way; who waits for one hears that there is none.
    pub fn cut(&self, server: ServerId, term: u32) {
        if term == 0 {
            return;
        }
        let mut closed = 0;
        {
            let mut servers = self.servers.borrow_mut();
            let server = servers.entry(server).or_default();
            if server.term >= term {
                return;
            }
            server.term = term;
            let before = server.idle.len();
            server
                .idle
                .retain(|(_, connection)| connection.term >= term);
            closed += before - server.idle.len();
            server.count -= closed;
            server.openings.clear();
            // They look at the term first.
            while !server.line.is_empty() {
                wake_next(server, None);
            }
        }
        let ended = closed + self.ends.cut(server, term);
        self.ended.set(self.ended.get() + ended as u64);
    }

    /// False for a target from before Heddle cut itself off from its server.
    pub(crate) fn is_current(&self, target: &Target) -> bool {
        self.cut(target.server, target.term);
        let servers = self.servers.borrow();
        let known = servers.get(&target.server);
        known.is_none_or(|server| server.term <= target.term)
    }

    /// A waiter that was woken does not take its place.
    pub(crate) fn pass_on(&self, server: ServerId) {
        if let Some(server) = self.servers.borrow_mut().get_mut(&server) {
            wake_next(server, None);
        }
    }
}

/// Runs a future to its end; `None` as soon as the other end of `told` is dropped.
async fn unless_cut<T>(told: oneshot::Receiver<()>, future: impl Future<Output = T>) -> Option<T> {
    let (mut told, mut future) = (pin!(told), pin!(future));
    poll_fn(|context| {
        if let Poll::Ready(output) = future.as_mut().poll(context) {
            return Poll::Ready(Some(output));
        }
        told.as_mut().poll(context).map(|_| None)
    })
    .await
}

/// What hears who wants a connection to a server of before.
pub(crate) fn cut_off() -> ConnectionError {
    ConnectionError::Broken {
        operation: "connecting",
        source: io::Error::new(
            io::ErrorKind::ConnectionAborted,
            "Heddle has cut itself off from the server",
        ),
    }
}
