//! Statements that wait, for a primary or for the end of a move: nothing was sent, and the client sees
//! only time pass.
//!
//! Who waits costs a waker and, once, a timer. All of a core's are woken together when a group
//! stands differently from before: by the control plane's word at once, and else by a look every few
//! milliseconds, which is taken only while somebody waits.

pub mod wait;

use std::cell::{Cell, RefCell};
use std::hash::Hasher;
use std::time::Duration;

use backend::{ConnectionError, PoolError, ends_connection};
use farm::{Group, GroupKind, Snapshot};
use futures_channel::oneshot;
use rustc_hash::{FxHashMap, FxHasher};

use crate::connections::home::group_of;

/// Time between two looks at the snapshot while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A server that failed though it should serve is tried again after this time, which doubles up to
/// the other: nothing may ever be published, because nothing but a connection was lost.
const PAUSE_MIN_US: u64 = 1000;
const PAUSE_MAX_US: u64 = 200_000;

/// Those of one core who wait.
#[derive(Default)]
pub struct Waiting {
    waiters: RefCell<FxHashMap<u64, oneshot::Sender<Wake>>>,
    last_ticket: Cell<u64>,
    /// How the groups stood at the last look.
    standing: Cell<u64>,
    /// The task that looks is there.
    looks: Cell<bool>,
}

/// Why a wait was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// It is worth another try.
    Try,
    /// Somebody ends the statement.
    Interrupted,
}

/// How long one statement has waited, over all its tries.
#[derive(Clone, Copy, Debug)]
pub struct Hold {
    began_us: u64,
    /// Tries that failed with a server which should serve.
    failures: u32,
}

/// What kept a statement from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No server is there that may serve it.
    NoServer,
    /// The one that should have served it failed.
    Failure,
}

/// What is to be done after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The statement may be tried again.
    Again,
    /// Nobody waits for this group, or not any longer: so long it was waited for.
    Over { waited_ms: u64 },
    /// The client has been answered.
    Answered,
}

impl Waiting {
    /// Somebody waits.
    fn is_used(&self) -> bool {
        !self.waiters.borrow().is_empty()
    }

    /// Wakes all when the group stands differently from the last look.
    fn look(&self, snapshot: &Snapshot) {
        let standing = standing(snapshot);
        if self.standing.replace(standing) != standing && self.is_used() {
            self.wake_all(Wake::Try);
        }
    }

    fn wake_all(&self, wake: Wake) {
        for (_, waiter) in std::mem::take(&mut *self.waiters.borrow_mut()) {
            // Its wait may just have ended otherwise.
            let _ = waiter.send(wake);
        }
    }

    /// Ends the wait with this number, if there is one.
    pub fn interrupt(&self, ticket: u64) {
        if let Some(waiter) = self.waiters.borrow_mut().remove(&ticket) {
            let _ = waiter.send(Wake::Interrupted);
        }
    }

    /// Ends all waits.
    pub(crate) fn interrupt_all(&self) {
        self.wake_all(Wake::Interrupted);
    }
}

/// What of the groups decides whether a statement can run, as one number.
fn standing(snapshot: &Snapshot) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(snapshot.sharding.as_ref().map_or(0, |sharding| sharding.epoch));
    for group in &snapshot.groups {
        hasher.write_u8(u8::from(group.paused));
        for server in &group.servers {
            hasher.write_u32(server.id.0);
            hasher.write_u32(server.term);
            let serves = [server.serves_reads(), server.serves_writes()];
            hasher
                .write_u8(server.status as u8 * 4 + u8::from(serves[0]) * 2 + u8::from(serves[1]));
        }
    }
    hasher.finish()
}

/// True while the group takes statements that need its primary.
fn is_served(group: &Group) -> bool {
    !group.paused && group.primary().is_some_and(|server| server.serves_writes())
}

/// True where somebody works on it that the group has a primary again, or its cluster does.
pub(crate) fn is_tended(snapshot: &Snapshot, seat: u32) -> bool {
    group_of(snapshot, seat)
        .is_some_and(|group| group.active || group.paused || group.kind == GroupKind::Galera)
}

/// True for errors of a server that is gone, or is not the primary any more: nothing was done.
pub fn is_failure(error: &PoolError) -> bool {
    match error {
        PoolError::Connection(ConnectionError::Refused {
            number, message, ..
        }) => ends_connection(*number) || says_read_only(*number, message),
        PoolError::Connection(ConnectionError::Broken { .. } | ConnectionError::Timeout { .. }) => {
            true
        }
        _ => false,
    }
}

/// A server's refusal because all of it is read-only: ER_OPTION_PREVENTS_STATEMENT, which is about
/// other options too, and ER_READ_ONLY_MODE.
pub(crate) fn says_read_only(number: u16, message: &[u8]) -> bool {
    let names = |option: &[u8]| message.windows(option.len()).any(|part| part == option);
    number == 1836 || (number == 1290 && (names(b"read-only") || names(b"read_only")))
}

impl Hold {
    pub fn new(began_us: u64) -> Hold {
        Hold {
            began_us,
            failures: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_is_told_from_other_options() {
        let of_option = |option: &str| {
            let text = format!("The MariaDB server is running with the {option} option");
            says_read_only(1290, text.as_bytes())
        };
        assert!(of_option("--read-only") && of_option("--super-read-only"));
        assert!(!of_option("--secure-file-priv") && !of_option("--skip-grant-tables"));
        assert!(says_read_only(1836, b"Running in read-only mode"));
        assert!(!says_read_only(1792, b"in a READ ONLY transaction"));
    }

    #[test]
    fn who_waits_is_woken_once_and_for_one_reason() {
        let waiting = Waiting::default();
        let [mut first, mut second] = [1, 2].map(|ticket| {
            let (tell, told) = oneshot::channel();
            waiting.waiters.borrow_mut().insert(ticket, tell);
            told
        });
        waiting.interrupt(1);
        waiting.interrupt(7);
        assert_eq!(first.try_recv(), Ok(Some(Wake::Interrupted)));
        assert_eq!(second.try_recv(), Ok(None), "it waits on");
        let snapshot = Snapshot::empty("farm", std::time::Instant::now());
        waiting.standing.set(standing(&snapshot));
        waiting.look(&snapshot);
        assert_eq!(second.try_recv(), Ok(None), "the groups stand as they did");
        waiting.standing.set(standing(&snapshot).wrapping_add(1));
        waiting.look(&snapshot);
        assert_eq!(second.try_recv(), Ok(Some(Wake::Try)));
        assert!(!waiting.is_used());
    }
}
