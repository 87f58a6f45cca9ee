//! Waiting for time: sleeps and limits.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use crate::clock;
use crate::runtime::{self, Runtime};
use crate::tasks::Waiter;
use crate::timers::TimerId;

/// A timer on the core's wheel; it is taken off when this is dropped.
struct Timer {
    runtime: Rc<Runtime>,
    id: Option<TimerId>,
}

impl Timer {
    fn set(limit: Duration, waiter: Waiter) -> Timer {
        let runtime = runtime::current().expect("timers are set on a core");
        // The tick after the one in which the time is over: never early.
        let limit_us = u64::try_from(limit.as_micros()).ok();
        let due_us = limit_us.and_then(|us| us.checked_add(clock::since_origin_us()));
        let tick = due_us.map_or(u64::MAX, |due_us| runtime.tick_of(due_us) + 1);
        let id = runtime.timers.borrow_mut().set(tick, waiter);
        Timer {
            runtime,
            id: Some(id),
        }
    }

    fn is_over(&self, waiter: Waiter) -> bool {
        let mut timers = self.runtime.timers.borrow_mut();
        self.id.as_ref().is_none_or(|id| timers.poll(id, waiter))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            let waiter = self.runtime.timers.borrow_mut().cancel(id);
            drop(waiter);
        }
    }
}

/// Polls a timer that is set when it is first asked for.
fn poll_timer(timer: &mut Option<Timer>, limit: Duration, context: &Context<'_>) -> Poll<()> {
    match timer {
        Some(timer) if timer.is_over(Waiter::of(context)) => Poll::Ready(()),
        Some(_) => Poll::Pending,
        None => {
            *timer = Some(Timer::set(limit, Waiter::of(context)));
            Poll::Pending
        }
    }
}

/// Waits for a duration, at a grain of a millisecond and never less.
pub async fn sleep(duration: Duration) {
    let mut timer = None;
    std::future::poll_fn(|context| poll_timer(&mut timer, duration, context)).await;
}

pin_project! {
    struct Limited<F> {
        // Before the timer: what ran out of time is dropped first.
        #[pin]
        future: F,
        limit: Duration,
        timer: Option<Timer>,
    }
}

impl<F: Future> Future for Limited<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        let this = self.project();
        if let Poll::Ready(output) = this.future.poll(context) {
            return Poll::Ready(Some(output));
        }
        poll_timer(this.timer, *this.limit, context).map(|()| None)
    }
}

/// Runs the future for at most `limit`; `None` when the time is over, and then the future is dropped
/// (see the crate's word on cancellation). The time begins when the future first has to wait.
pub fn timeout<F: Future>(limit: Duration, future: F) -> impl Future<Output = Option<F::Output>> {
    Limited {
        future,
        limit,
        timer: None,
    }
}
