//! What other threads may do to a core: wake its tasks, and its thread when that sleeps.
//!
//! A [`TaskId`] names a task for the whole process, so a waker is a plain number: it can be copied to
//! any thread, outlive its task and even its core, and then it wakes nobody, or at worst a task that
//! has nothing to do. The list of cores is the one global of the crate; it is asked only by a waker
//! that is used on a foreign thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustix::event::{EventfdFlags, eventfd};

/// A task of a core: the core's number (16 bits), the slot's generation (24), the slot (24).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId(u64);

/// Tasks that a core can have at one time.
pub(crate) const TASKS_MAX: usize = 1 << 24;

const _: () = assert!(usize::BITS == 64, "a waker carries 64 bits");

impl TaskId {
    pub(crate) fn new(core: u16, generation: u32, slot: u32) -> TaskId {
        let generation = u64::from(generation & 0xff_ffff);
        TaskId(u64::from(core) << 48 | generation << 24 | u64::from(slot))
    }

    pub(crate) fn from_bits(bits: usize) -> TaskId {
        TaskId(bits as u64)
    }

    pub(crate) fn bits(self) -> usize {
        self.0 as usize
    }

    pub(crate) fn core(self) -> u16 {
        (self.0 >> 48) as u16
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }
}

static CORES: RwLock<Vec<Option<Arc<Remote>>>> = RwLock::new(Vec::new());

/// The side of a core that other threads see.
pub(crate) struct Remote {
    core: u16,
    woken: Mutex<Vec<TaskId>>,
    /// `woken` is not empty. Set after the push, read by the core once a turn without the lock.
    pending: AtomicBool,
    /// The core's thread waits in the kernel, or is about to.
    asleep: AtomicBool,
    bell: OwnedFd,
}

impl Remote {
    /// Enters a new core in the list.
    pub(crate) fn enter() -> io::Result<Arc<Remote>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC)?;
        let mut cores = CORES.write().unwrap_or_else(PoisonError::into_inner);
        let core = cores
            .iter()
            .position(Option::is_none)
            .unwrap_or(cores.len());
        let number = u16::try_from(core).map_err(|_| io::Error::other("too many cores"))?;
        let remote = Arc::new(Remote {
            core: number,
            woken: Mutex::default(),
            pending: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            bell,
        });
        if core == cores.len() {
            cores.push(None);
        }
        cores[core] = Some(remote.clone());
        Ok(remote)
    }

    /// Takes the core off the list; its number may be given to another.
    pub(crate) fn leave(&self) {
        let mut cores = CORES.write().unwrap_or_else(PoisonError::into_inner);
        cores[usize::from(self.core)] = None;
    }

    pub(crate) fn core(&self) -> u16 {
        self.core
    }

    /// The eventfd that becomes readable when the core is wanted in its sleep.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Wakes a task of whichever core it is of, from any thread.
    pub(crate) fn wake(task: TaskId) {
        let cores = CORES.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(remote)) = cores.get(usize::from(task.core())) {
            remote.push(task);
        }
    }

    fn push(&self, task: TaskId) {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.push(task);
        drop(woken);
        // Both sides store first and load then, sequentially consistent: either the core sees the
        // task before it sleeps, or this thread sees that it sleeps.
        self.pending.store(true, Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::SeqCst) {
            // It can fail only when the count is at its end, and then the bell rings anyway.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    /// Announces that the core is about to sleep. False when it must not, because it is wanted.
    pub(crate) fn may_sleep(&self) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        !self.pending.load(Ordering::SeqCst)
    }

    /// The core is up: hands over the tasks that were woken.
    pub(crate) fn up(&self, mut take: impl FnMut(TaskId)) {
        self.asleep.store(false, Ordering::Relaxed);
        if !self.pending.load(Ordering::Relaxed) || !self.pending.swap(false, Ordering::SeqCst) {
            return;
        }
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        woken.drain(..).for_each(&mut take);
    }
}
