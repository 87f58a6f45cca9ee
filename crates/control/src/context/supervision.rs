//! Tasks of the control plane outlive a panic.
//!
//! A loop that panics is begun again, from what the store and the servers say: nothing that it kept to itself
//! counts. A job or a failover's step that panics has failed. Each panic is an event `task_panicked`, which is
//! counted among the events; where it happened is in the log.
//!
//! Invariant: what other tasks share with a task that panicked is as whole as behind any early end, because locks
//! are held for single steps only, each of which leaves the data valid.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, mpsc};

use crate::context::Context;
use catalog::event::Event;

/// A queue whose reader may be begun again.
pub(crate) type Queue<T> = Arc<Mutex<mpsc::Receiver<T>>>;

/// The pause before a loop is begun again; it doubles with each panic.
const PAUSE: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// A loop that ran so long begins with the shortest pause again.
const HEALTHY: Duration = Duration::from_secs(60);

/// What a future gives, or what it said when it panicked.
pub(crate) async fn caught<F: Future>(future: F) -> Result<F::Output, String> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context)));
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(panic) => Poll::Ready(Err(said(&*panic))),
        }
    })
    .await
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "no text".to_owned())
}

/// Runs a loop, and again whenever it panicked; `told` hears what it said. Ends when the loop does.
async fn again<L: Future<Output = ()>>(mut begin: impl FnMut() -> L, mut told: impl FnMut(String)) {
    let mut pause = PAUSE;
    loop {
        let began = Instant::now();
        let Err(text) = caught(begin()).await else {
            return;
        };
        told(text);
        if began.elapsed() >= HEALTHY {
            pause = PAUSE;
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

impl Context {
    /// Keeps a loop running. `group` is what it is about, if it is about one.
    pub(crate) async fn keep_running<L: Future<Output = ()>>(
        self: Arc<Self>,
        name: &'static str,
        group: String,
        begin: impl Fn() -> L,
    ) {
        let told = |text: String| self.tell_panic(name, &group, &text);
        again(begin, told).await;
    }

    pub(crate) fn tell_panic(&self, name: &str, group: &str, text: &str) {
        let text = format!("a task of the control plane panicked ({name}): {text}");
        tracing::error!("{text}");
        self.happened(Event::now("task_panicked", group, text));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    #[tokio::test]
    async fn a_loop_that_panics_is_begun_again() {
        let begun = Cell::new(0);
        let told = RefCell::new(Vec::new());
        let begin = || {
            begun.set(begun.get() + 1);
            let number = begun.get();
            async move {
                tokio::task::yield_now().await;
                assert!(number > 2, "number {number}");
            }
        };
        again(begin, |text| told.borrow_mut().push(text)).await;
        assert_eq!(begun.get(), 3);
        assert_eq!(told.into_inner(), ["number 1", "number 2"]);
    }

    #[tokio::test]
    async fn what_gives_a_value_gives_it() {
        assert_eq!(caught(async { 7 }).await, Ok(7));
    }
}
