//! Threads that verify passwords. A hash that a server stored, and the router's own RSA key, take
//! milliseconds on purpose or by their nature; a core would serve nobody in that time.
//!
//! Invariants: what waits is bounded, and is done in the order in which it came; work that nobody waits
//! for any more leaves the queue; when the owner is dropped, the threads have ended.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::thread::JoinHandle;
use std::time::Duration;

use futures_channel::oneshot;
use reactor::Closer;

/// So often somebody whose work waits is looked after: clients leave without a word.
const LOOK: Duration = Duration::from_millis(100);

type Work = Box<dyn FnOnce() + Send>;

/// The threads. Dropped, it gives up what waits and joins them.
pub struct Verifiers {
    queue: Arc<VerifierQueue>,
    threads: Vec<JoinHandle<()>>,
}

/// What waits for a thread.
#[derive(Default)]
pub struct VerifierQueue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    /// In the order of arrival.
    works: BTreeMap<u64, Work>,
    submitted: u64,
    /// Nothing is done any more.
    closed: bool,
}

/// Work that was submitted; the future of its result, which is `None` when there is none. Dropped, the
/// work is not done, unless it has begun.
pub struct Ticket<T> {
    queue: Arc<VerifierQueue>,
    number: u64,
    told: oneshot::Receiver<T>,
}

/// Why nothing was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unverified {
    /// As much waits as may.
    Full,
    /// It was begun and has no result.
    Undone,
    /// The client has left.
    Gone,
}

impl Verifiers {
    /// So many threads, at least one.
    ///
    /// # Errors
    /// A thread cannot be started; those that were have ended.
    pub fn start(threads: usize) -> io::Result<Verifiers> {
        let mut verifiers = Verifiers {
            queue: Arc::default(),
            threads: Vec::new(),
        };
        for index in 0..threads.max(1) {
            let queue = verifiers.queue.clone();
            let thread = std::thread::Builder::new().name(format!("verifier-{index}"));
            verifiers.threads.push(thread.spawn(move || queue.run())?);
        }
        Ok(verifiers)
    }

    /// Where work is submitted.
    pub fn queue(&self) -> Arc<VerifierQueue> {
        self.queue.clone()
    }
}

impl Drop for Verifiers {
    fn drop(&mut self) {
        let given_up = {
            let mut waiting = self.queue.lock();
            waiting.closed = true;
            std::mem::take(&mut waiting.works)
        };
        drop(given_up);
        self.queue.changed.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl VerifierQueue {
    /// Has a thread do this; `None` when `waiting_max` works wait already.
    pub fn submit<T: Send + 'static>(
        self: &Arc<Self>,
        waiting_max: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<Ticket<T>> {
        let (tell, told) = oneshot::channel();
        let work = Box::new(move || {
            // A panic must not wake the one who waits: it ends here, and `tell` is dropped after it.
            if let Ok(done) = catch_unwind(AssertUnwindSafe(work)) {
                let _ = tell.send(done);
            }
        });
        let mut waiting = self.lock();
        if waiting.closed || waiting.works.len() >= waiting_max {
            return None;
        }
        waiting.submitted += 1;
        let number = waiting.submitted;
        waiting.works.insert(number, work);
        drop(waiting);
        self.changed.notify_one();
        Some(Ticket {
            queue: self.clone(),
            number,
            told,
        })
    }

    /// Has a thread do this for a client, while its core serves others. Ends early when the client leaves,
    /// and its work with it.
    pub async fn verify<T: Send + 'static>(
        self: &Arc<Self>,
        client: &Closer,
        waiting_max: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unverified> {
        let mut ticket = self.submit(waiting_max, work).ok_or(Unverified::Full)?;
        loop {
            match reactor::timeout(LOOK, &mut ticket).await {
                Some(done) => return done.ok_or(Unverified::Undone),
                None if client.peer_is_gone() => return Err(Unverified::Gone),
                None => {}
            }
        }
    }

    /// A thread's life.
    fn run(&self) {
        while let Some(work) = self.next() {
            work();
        }
    }

    /// Waits for work; `None` at the end.
    fn next(&self) -> Option<Work> {
        let waiting = self.lock();
        let idle = |waiting: &mut Waiting| waiting.works.is_empty() && !waiting.closed;
        let waited = self.changed.wait_while(waiting, idle);
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner);
        waiting.works.pop_first().map(|(_, work)| work)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that is done under the lock can panic halfway.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Future for Ticket<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.told).poll(context).map(Result::ok)
    }
}

impl<T> Drop for Ticket<T> {
    fn drop(&mut self) {
        // Dropped behind the lock: its secrets are overwritten then.
        let work = self.queue.lock().works.remove(&self.number);
        drop(work);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Verifiers of one thread, which is held up until the sender is dropped.
    fn held() -> (Verifiers, mpsc::Sender<()>) {
        let verifiers = Verifiers::start(1).expect("a thread");
        let ((hold, held), (begin, begun)) = (mpsc::channel::<()>(), mpsc::channel());
        let queue = verifiers.queue();
        let ticket = queue.submit(1, move || {
            let _ = begin.send(());
            let _ = held.recv();
        });
        begun.recv().expect("the thread works");
        drop(ticket);
        (verifiers, hold)
    }

    /// What a ticket's work gave, on a thread that may wait.
    fn result<T>(mut ticket: Ticket<T>) -> Option<T> {
        struct Unpark(std::thread::Thread);
        impl std::task::Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Arc::new(Unpark(std::thread::current())).into();
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(done) = Pin::new(&mut ticket).poll(&mut context) {
                return done;
            }
            std::thread::park();
        }
    }

    #[test]
    fn what_waits_is_bounded_and_who_leaves_frees_a_place() {
        let (verifiers, hold) = held();
        let queue = verifiers.queue();
        let one = queue.submit(2, || 1).expect("the first place");
        let two = queue.submit(2, || 2).expect("the second");
        assert!(queue.submit(2, || 3).is_none(), "there is no third");
        drop(one);
        let three = queue.submit(2, || 3).expect("a place came free");
        assert!(queue.submit(2, || 4).is_none());
        drop(hold);
        assert_eq!((result(three), result(two)), (Some(3), Some(2)));
    }

    #[test]
    fn work_that_nobody_waits_for_is_not_done() {
        let (verifiers, hold) = held();
        let queue = verifiers.queue();
        let (tell, told) = mpsc::channel();
        let gone = queue.submit(9, move || tell.send(()));
        drop(gone);
        drop(hold);
        assert_eq!(result(queue.submit(9, || 5).expect("room")), Some(5));
        assert!(told.try_recv().is_err(), "it was before the other one");
    }

    #[test]
    fn a_panic_ends_its_work_only() {
        let verifiers = Verifiers::start(1).expect("a thread");
        let queue = verifiers.queue();
        let broken = queue.submit(9, || -> u8 { panic!("of a test") });
        assert_eq!(result(broken.expect("room")), None);
        assert_eq!(result(queue.submit(9, || 6).expect("room")), Some(6));
    }

    #[test]
    fn the_end_gives_up_what_waits_and_joins_the_threads() {
        let (verifiers, hold) = held();
        let queue = verifiers.queue();
        let waiting = queue.submit(9, || 7).expect("room");
        let end = std::thread::spawn(move || drop(verifiers));
        assert_eq!(result(waiting), None);
        assert!(!end.is_finished(), "one work is under way");
        drop(hold);
        end.join().expect("the thread ended");
        assert!(queue.submit(9, || 8).is_none());
    }
}
