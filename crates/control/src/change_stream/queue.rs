//! How many streams of a group read by themselves at a time.
//!
//! A stream that is behind what the shared reading keeps reads the server by itself: that takes connections to the server,
//! and memory. However many consumers are slow, few of them do so at a time.
//!
//! Invariants: seats are given in the order in which they are wanted; who has one learns that others want it.
//!
//! Must not know: what is read.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Streams of a group that read by themselves. Each takes two connections to the server.
const ALONE_MAX: usize = 16;

/// Transactions of a group that are too long to be kept, and are read once more. Each takes a connection.
const AGAIN_MAX: usize = 8;

/// What a client takes later is not worth a seat that others want.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

/// The seats of one group's streams.
pub(super) struct Queues {
    pub(super) alone: Queue,
    pub(super) again: Queue,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues {
            alone: Queue::new(ALONE_MAX),
            again: Queue::new(AGAIN_MAX),
        }
    }
}

#[derive(Clone)]
pub(super) struct Queue {
    seats: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// The right to read. Free again when it is dropped.
pub(super) struct Seat {
    _permit: Option<OwnedSemaphorePermit>,
    waiting: Arc<AtomicUsize>,
}

/// Counts who waits while he does.
struct Waits<'a>(&'a AtomicUsize);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Queue {
    fn new(seats: usize) -> Queue {
        Queue {
            seats: Arc::new(Semaphore::new(seats)),
            waiting: Arc::default(),
        }
    }

    /// A seat, when there is one. Dropped before, nothing is lost.
    pub(super) async fn seat(&self) -> Seat {
        self.waiting.fetch_add(1, Relaxed);
        let _waits = Waits(&self.waiting);
        Seat {
            // The semaphore is never closed.
            _permit: Arc::clone(&self.seats).acquire_owned().await.ok(),
            waiting: Arc::clone(&self.waiting),
        }
    }
}

impl Seat {
    /// Somebody waits for a seat.
    pub(super) fn is_wanted(&self) -> bool {
        self.waiting.load(Relaxed) > 0
    }
}

/// What reads with a seat.
pub(super) trait Seated {
    fn seat(&self) -> &Seat;
}

/// Does something to its end. When that takes longer than `patience`, and others want the seat of what is `held`, gives
/// that up meanwhile, and says so by `given_up`.
pub(super) async fn held_while<T>(
    doing: impl Future<Output = T>,
    held: &mut Option<impl Seated>,
    patience: Duration,
    given_up: impl FnOnce(),
) -> T {
    tokio::pin!(doing);
    while let Some(holding) = held {
        if let Ok(done) = tokio::time::timeout(patience, &mut doing).await {
            return done;
        }
        if holding.seat().is_wanted() {
            *held = None;
            given_up();
            break;
        }
    }
    doing.await
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::sync::oneshot;

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    impl Seated for Seat {
        fn seat(&self) -> &Seat {
            self
        }
    }

    #[tokio::test]
    async fn a_seat_is_given_up_for_who_waits() {
        let queue = Queue::new(1);
        let mut held = Some(queue.seat().await);
        let (tell, told) = oneshot::channel();
        let other = async {
            let _seat = queue.seat().await;
            // Only who has got the seat says it.
            let _ = tell.send(7);
        };
        let mut is_given_up = false;
        let holding = held_while(told, &mut held, SHORT, || is_given_up = true);
        let (told, ()) = tokio::join!(holding, other);
        assert_eq!(told, Ok(7));
        assert!(held.is_none() && is_given_up);
    }

    #[tokio::test]
    async fn a_seat_that_nobody_waits_for_is_kept() {
        let queue = Queue::new(1);
        let mut held = Some(queue.seat().await);
        // Who has left does not wait.
        let left = tokio::time::timeout(SHORT, queue.seat()).await;
        assert!(left.is_err());
        let long = async {
            for _ in 0..5 {
                let _ = tokio::time::timeout(SHORT, pending::<()>()).await;
            }
        };
        held_while(long, &mut held, SHORT, || panic!("nobody waits")).await;
        assert!(held.is_some());
    }
}
