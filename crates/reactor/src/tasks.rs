//! The tasks of one core: their futures, their wakers, and the queue of those that are to run.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use crate::remote::{TASKS_MAX, TaskId};
use crate::runtime;

/// Whom an event wakes.
pub(crate) enum Waiter {
    /// A task of this core, by its own waker: nothing to clone and nothing to drop.
    Task(TaskId),
    /// A waker that somebody put between the task and us.
    Foreign(Waker),
}

impl Waiter {
    pub(crate) fn of(context: &Context<'_>) -> Waiter {
        match task_of(context.waker()) {
            Some(task) => Waiter::Task(task),
            None => Waiter::Foreign(context.waker().clone()),
        }
    }

    pub(crate) fn wake(self) {
        match self {
            Waiter::Task(task) => runtime::wake(task),
            Waiter::Foreign(waker) => waker.wake(),
        }
    }
}

/// A static, so that every one of our wakers has the table at the same address.
static WAKER: RawWakerVTable = RawWakerVTable::new(copy, wake, wake, forget);

fn copy(data: *const ()) -> RawWaker {
    RawWaker::new(data, &WAKER)
}

fn wake(data: *const ()) {
    runtime::wake(TaskId::from_bits(data.addr()));
}

fn forget(_: *const ()) {}

#[expect(unsafe_code)]
fn waker(task: TaskId) -> Waker {
    let data = std::ptr::without_provenance(task.bits());
    // SAFETY: the data is a number that is never dereferenced and owns nothing, so copying and
    // forgetting it any number of times is right; `wake` may be called on any thread and after the
    // task's end (see `TaskId`).
    unsafe { Waker::from_raw(RawWaker::new(data, &WAKER)) }
}

fn task_of(waker: &Waker) -> Option<TaskId> {
    std::ptr::eq(waker.vtable(), &WAKER).then(|| TaskId::from_bits(waker.data().addr()))
}

type Life = Pin<Box<dyn Future<Output = ()>>>;

enum State {
    Free,
    Waits(Life),
    /// Its future is on the stack of [`Tasks::run_next`].
    Runs,
    /// It was cancelled while it ran.
    Cancelled,
}

struct Slot {
    generation: u32,
    /// It stands in the queue.
    queued: bool,
    state: State,
}

#[derive(Default)]
struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: VecDeque<TaskId>,
    /// The core is at its end: nothing new is started.
    closed: bool,
}

impl Table {
    /// The slot, if the task still is.
    fn slot(&mut self, task: TaskId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(task.slot())?;
        let current = TaskId::new(task.core(), slot.generation, task.slot() as u32);
        (current == task && !matches!(slot.state, State::Free)).then_some(slot)
    }

    fn free(&mut self, task: TaskId) {
        let slot = &mut self.slots[task.slot()];
        slot.generation = slot.generation.wrapping_add(1);
        slot.queued = false;
        slot.state = State::Free;
        self.free.push(task.slot() as u32);
    }
}

/// All tasks of a core. No user code runs while the table is borrowed: not a poll, not a drop.
#[derive(Default)]
pub(crate) struct Tasks {
    table: RefCell<Table>,
}

impl Tasks {
    /// Takes a new task in and queues it. `None` at the core's end: the future is dropped.
    pub(crate) fn add(&self, core: u16, life: Life) -> Option<TaskId> {
        let mut table = self.table.borrow_mut();
        if table.closed || (table.free.is_empty() && table.slots.len() == TASKS_MAX) {
            drop(table);
            drop(life);
            return None;
        }
        let slot = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot {
                generation: 0,
                queued: false,
                state: State::Free,
            });
            table.slots.len() as u32 - 1
        });
        let entry = &mut table.slots[slot as usize];
        entry.state = State::Waits(life);
        entry.queued = true;
        let task = TaskId::new(core, entry.generation, slot);
        table.queue.push_back(task);
        Some(task)
    }

    /// Queues a task, if it still is and is not queued.
    pub(crate) fn queue(&self, task: TaskId) {
        let mut table = self.table.borrow_mut();
        if let Some(slot) = table.slot(task)
            && !slot.queued
        {
            slot.queued = true;
            table.queue.push_back(task);
        }
    }

    /// True while a task stands in the queue.
    pub(crate) fn has_queued(&self) -> bool {
        !self.table.borrow().queue.is_empty()
    }

    /// Runs the next task of the queue. False when there is none.
    pub(crate) fn run_next(&self) -> bool {
        let mut table = self.table.borrow_mut();
        let Some(task) = table.queue.pop_front() else {
            return false;
        };
        let Some(slot) = table.slot(task) else {
            return true;
        };
        slot.queued = false;
        let mut life = match std::mem::replace(&mut slot.state, State::Runs) {
            State::Waits(life) => life,
            other => {
                slot.state = other;
                return true;
            }
        };
        drop(table);
        let waker = waker(task);
        let mut context = Context::from_waker(&waker);
        let polled = contain(|| life.as_mut().poll(&mut context));
        let mut table = self.table.borrow_mut();
        let state = &mut table.slots[task.slot()].state;
        if polled == Some(Poll::Pending) && !matches!(state, State::Cancelled) {
            *state = State::Waits(life);
            return true;
        }
        table.free(task);
        drop(table);
        contain(|| drop(life));
        true
    }

    /// Ends a task: its future is dropped, now or when it next lets go of the thread.
    fn cancel(&self, task: TaskId) {
        let mut table = self.table.borrow_mut();
        let Some(slot) = table.slot(task) else {
            return;
        };
        match std::mem::replace(&mut slot.state, State::Cancelled) {
            State::Waits(life) => {
                table.free(task);
                drop(table);
                contain(|| drop(life));
            }
            State::Runs | State::Cancelled | State::Free => {}
        }
    }

    /// Ends all tasks, and refuses new ones.
    pub(crate) fn close(&self) {
        self.table.borrow_mut().closed = true;
        let count = self.table.borrow().slots.len();
        for slot in 0..count {
            let mut table = self.table.borrow_mut();
            let generation = table.slots[slot].generation;
            let task = TaskId::new(0, generation, slot as u32);
            if table.slot(task).is_some() {
                drop(table);
                self.cancel(task);
            }
        }
    }
}

static PANICS: AtomicU64 = AtomicU64::new(0);

/// How often tasks of all cores have panicked.
pub fn panics() -> u64 {
    PANICS.load(Relaxed)
}

/// Runs a piece of a task. `None` when it panicked, which is the end of that piece and of nothing
/// else; what the panic said is in the log.
pub fn contain<T>(piece: impl FnOnce() -> T) -> Option<T> {
    // What a broken task leaves behind is seen by others only through the cells that they share, as
    // with any error that ends a task early.
    let piece = std::panic::AssertUnwindSafe(piece);
    match std::panic::catch_unwind(piece) {
        Ok(value) => Some(value),
        Err(panic) => {
            let text = panic.downcast_ref::<&str>().copied();
            let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            PANICS.fetch_add(1, Relaxed);
            tracing::error!(panic = text.unwrap_or("no text"), "a task panicked");
            None
        }
    }
}

struct Outcome<T> {
    value: Cell<Option<T>>,
    over: Cell<bool>,
    waiter: Cell<Option<Waiter>>,
}

/// The task's side of its outcome. Dropped in any way, it tells that the task is over.
struct Teller<T>(Rc<Outcome<T>>);

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        self.0.over.set(true);
        if let Some(waiter) = self.0.waiter.take() {
            waiter.wake();
        }
    }
}

/// A running task. Dropping the handle cancels the task; [`Task::detach`] lets it run.
pub struct Task<T> {
    id: Option<TaskId>,
    outcome: Rc<Outcome<T>>,
}

impl<T> Task<T> {
    /// Lets the task run to its end by itself.
    pub fn detach(mut self) {
        self.id = None;
    }

    /// Waits for the task; `None` when it panicked, or when its core is at its end.
    pub async fn join(self) -> Option<T> {
        std::future::poll_fn(|context| {
            if self.outcome.over.get() {
                return Poll::Ready(self.outcome.value.take());
            }
            self.outcome.waiter.set(Some(Waiter::of(context)));
            Poll::Pending
        })
        .await
    }

    pub(crate) fn is_over(&self) -> bool {
        self.outcome.over.get()
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take()
            && !self.is_over()
            && let Some(runtime) = runtime::current()
        {
            runtime.tasks.cancel(id);
        }
    }
}

/// Starts a task on this core.
///
/// # Panics
/// On a thread that is no core.
pub fn spawn<F: Future + 'static>(future: F) -> Task<F::Output> {
    let runtime = runtime::current().expect("tasks are started on a core");
    start(&runtime, future)
}

pub(crate) fn start<F>(runtime: &runtime::Runtime, future: F) -> Task<F::Output>
where
    F: Future + 'static,
{
    let outcome = Rc::new(Outcome {
        value: Cell::new(None),
        over: Cell::new(false),
        waiter: Cell::new(None),
    });
    let teller = Teller(outcome.clone());
    let life = futures_util::FutureExt::map(future, move |value| {
        let teller = teller;
        teller.0.value.set(Some(value));
    });
    let id = runtime.tasks.add(runtime.core(), Box::pin(life));
    Task { id, outcome }
}
