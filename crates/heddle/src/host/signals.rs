//! The signals that this process waits for.
//!
//! Job: say that one has come, and what it asks for.
//!
//! Invariants: from the moment that a signal is waited for it does not end the process by itself; none is lost
//! while somebody else is waited for.
//!
//! Must not know: what is ended or renewed.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    End,
    Renew,
}

/// The signals that end a router in order: Ctrl-C, `kill`, and, of one that has no settings file to
/// read anew, a terminal that went away.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Option<Signal>,
    renew: Signal,
}

impl Signals {
    /// From here on these signals wait to be asked for.
    ///
    /// # Errors
    /// The kernel refuses, which it does not do.
    pub fn install(hangup_ends: bool) -> Result<Signals, Failure> {
        let on = |kind| {
            signal(kind).map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))
        };
        Ok(Signals {
            interrupt: on(SignalKind::interrupt())?,
            terminate: on(SignalKind::terminate())?,
            // Asked for in any case: from then on it does not end the process by itself.
            hangup: Some(on(SignalKind::hangup())?).filter(|_| hangup_ends),
            renew: on(SignalKind::user_defined2())?,
        })
    }

    /// Waits for one that ends the router, or for SIGUSR2, which asks for a new process in place of this
    /// one. Cancellation-safe: a signal is not lost when this future is dropped.
    pub async fn asked(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::End,
            _ = self.terminate.recv() => Asked::End,
            () = received(&mut self.hangup) => Asked::End,
            _ = self.renew.recv() => Asked::Renew,
        }
    }

    /// Waits for one that ends the router. Cancellation-safe as well.
    pub async fn end(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            () = received(&mut self.hangup) => {}
        }
    }
}

/// Waits for the signal; for ever where there is none.
pub async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
