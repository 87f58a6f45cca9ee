//! One core's loop: run the tasks that are woken, ask the kernel what has happened, move the time.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::clock;
use crate::cores::Io;
use crate::driver::Driver;
use crate::remote::{Remote, TaskId};
use crate::ring::Ring;
use crate::tasks::{Tasks, Waiter, start};
use crate::timers::Timers;

/// Tasks that run between two looks at the kernel, so that a crowd of them does not keep what has
/// come meanwhile waiting.
const TASKS_PER_TURN: usize = 1024;

/// System calls that a task may do in one go; then others have their turn.
const CALLS_PER_RUN: u32 = 64;

/// One core. It belongs to its thread.
pub(crate) struct Runtime {
    pub(crate) tasks: Tasks,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) driver: Driver,
    remote: Arc<Remote>,
    /// When it began, as all its times by the clock of [`clock::since_origin_us`].
    born_us: u64,
    calls_left: Cell<u32>,
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<Runtime>>> = const { RefCell::new(None) };
}

/// The core that this thread is.
pub(crate) fn current() -> Option<Rc<Runtime>> {
    CURRENT.try_with(|current| current.borrow().clone()).ok()?
}

/// To be called from time to time on a core, as once a second: sockets on which nothing has come for some of these
/// times give up the memory in which they would receive it.
pub fn recall_idle_receives() {
    if let Some(runtime) = current() {
        let mut woken = Vec::new();
        runtime.driver.recall_idle(&mut woken);
        woken.into_iter().for_each(Waiter::wake);
    }
}

/// Wakes a task from any thread.
pub(crate) fn wake(task: TaskId) {
    let here = CURRENT.try_with(|current| match &*current.borrow() {
        Some(runtime) if runtime.core() == task.core() => {
            runtime.tasks.queue(task);
            true
        }
        _ => false,
    });
    // A thread that is already losing its locals is as good as a foreign one.
    if !here.unwrap_or(false) {
        Remote::wake(task);
    }
}

impl Runtime {
    /// A core for this thread. `io` is not `Auto`.
    pub(crate) fn new(io: Io) -> io::Result<Rc<Runtime>> {
        let remote = Remote::enter()?;
        let driver = Driver::new(io, &remote).inspect_err(|_| remote.leave())?;
        Ok(Rc::new(Runtime {
            tasks: Tasks::default(),
            timers: RefCell::new(Timers::new()),
            driver,
            remote,
            born_us: clock::since_origin_us(),
            calls_left: Cell::new(0),
        }))
    }

    /// Tries whether this thread could be a core.
    pub(crate) fn probe(io: Io) -> io::Result<()> {
        let remote = Remote::enter()?;
        let tried = Driver::new(io, &remote).map(drop);
        remote.leave();
        tried
    }

    pub(crate) fn core(&self) -> u16 {
        self.remote.core()
    }

    /// Runs `main` to its end, and with it every task of the core.
    pub(crate) fn run(self: &Rc<Self>, main: impl Future<Output = ()> + 'static) {
        CURRENT.set(Some(self.clone()));
        let _end = End(self);
        let main = start(self, main);
        let mut woken = Vec::new();
        while !main.is_over() {
            self.run_tasks();
            if !main.is_over() {
                self.turn(&mut woken);
            }
        }
    }

    fn run_tasks(&self) {
        for _ in 0..TASKS_PER_TURN {
            self.calls_left.set(CALLS_PER_RUN);
            if !self.tasks.run_next() {
                return;
            }
        }
    }

    /// Asks the kernel what has happened; waits for it when there is nothing else to do.
    fn turn(&self, woken: &mut Vec<Waiter>) {
        let wait = if self.tasks.has_queued() || !self.remote.may_sleep() {
            Some(Duration::ZERO)
        } else {
            self.until_next_timer()
        };
        self.driver.turn(wait, woken);
        self.remote.up(|task| self.tasks.queue(task));
        let now_us = clock::turned();
        if self.timers.borrow().next().is_some() {
            self.timers
                .borrow_mut()
                .advance(self.tick_of(now_us), woken);
        }
        woken.drain(..).for_each(Waiter::wake);
    }

    fn until_next_timer(&self) -> Option<Duration> {
        let tick = self.timers.borrow().next()?;
        let due_us = tick.saturating_mul(1000).saturating_add(self.born_us);
        let wait_us = due_us.saturating_sub(clock::since_origin_us());
        // Whole milliseconds, upwards: epoll knows no others, and an early waking is in vain.
        Some(Duration::from_millis(wait_us.div_ceil(1000)))
    }

    /// True when the running task may send by a call of its own: there is nothing to share one with. Counts this call; a
    /// task that has had its share is not alone any more.
    pub(crate) fn is_alone(&self, ring: &RefCell<Ring>) -> bool {
        let left = self.calls_left.get();
        if left == 0 || ring.borrow().messages_come_together() {
            return false;
        }
        self.calls_left.set(left - 1);
        true
    }

    /// The tick that is over at this time.
    pub(crate) fn tick_of(&self, time_us: u64) -> u64 {
        time_us.saturating_sub(self.born_us) / 1000
    }

    /// Counts a system call of the running task. Pending when it has had its share: the task runs
    /// again after the others.
    pub(crate) fn poll_call(&self, context: &mut Context<'_>) -> Poll<()> {
        let left = self.calls_left.get();
        if left == 0 {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.calls_left.set(left - 1);
        Poll::Ready(())
    }
}

/// Ends a core in any case: tasks, then what they have asked of the kernel.
struct End<'a>(&'a Rc<Runtime>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.tasks.close();
        if let Some(ring) = &self.0.driver.ring {
            ring.borrow_mut().end();
        }
        self.0.remote.leave();
        CURRENT.set(None);
    }
}
