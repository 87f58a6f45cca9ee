//! The mailboxes of the groups' failover drivers: whoever learns something about a group leaves it there.
//!
//! Invariant: to tell a driver something takes no time and cannot fail. A driver that is so far behind that its
//! mailbox is full learns the same from what follows.
//!
//! Must not know: what a driver does with what it is told.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use machines::failover::{Event, Order};
use tokio::sync::{mpsc, oneshot};

/// What a driver may have waiting; a heartbeat too many is no loss, as more follow.
const TOLD_MAX: usize = 4096;

/// What became of an order, for people.
pub(crate) type Outcome = Result<String, String>;

/// What a driver is told.
#[derive(Debug)]
pub(crate) enum Told {
    /// For its machine.
    Event(Event),
    /// An operator's wish, and who waits for the outcome.
    Order(Order, oneshot::Sender<Outcome>),
    /// The group's records changed.
    Members,
    /// Who is there, who leads, who votes or who has cut may have changed.
    Leadership,
    /// The store has this record of a change of primary now.
    Recorded(String),
}

/// The mailboxes, by group.
#[derive(Debug, Default)]
pub(crate) struct Drivers(Mutex<HashMap<String, mpsc::Sender<Told>>>);

impl Drivers {
    fn all(&self) -> MutexGuard<'_, HashMap<String, mpsc::Sender<Told>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A group's driver reads here from now on.
    pub(crate) fn begin(&self, group: &str) -> mpsc::Receiver<Told> {
        let (sender, inbox) = mpsc::channel(TOLD_MAX);
        self.all().insert(group.to_owned(), sender);
        inbox
    }

    /// The group has no driver any more.
    pub(crate) fn end(&self, group: &str) {
        self.all().remove(group);
    }

    /// Tells the driver of a group, if the group has one.
    pub(crate) fn tell(&self, group: &str, told: Told) {
        if let Some(driver) = self.all().get(group) {
            let _ = driver.try_send(told);
        }
    }

    /// Tells all drivers.
    pub(crate) fn tell_all(&self, told: impl Fn() -> Told) {
        for driver in self.all().values() {
            let _ = driver.try_send(told());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_told_what() {
        let drivers = Drivers::default();
        drivers.tell("a", Told::Members);
        let [mut a, mut b] = ["a", "b"].map(|group| drivers.begin(group));
        drivers.tell("a", Told::Recorded("{}".to_owned()));
        drivers.tell_all(|| Told::Leadership);
        assert!(matches!(a.try_recv(), Ok(Told::Recorded(text)) if text == "{}"));
        assert!(matches!(a.try_recv(), Ok(Told::Leadership)));
        assert!(matches!(b.try_recv(), Ok(Told::Leadership)));
        drivers.end("a");
        drivers.tell_all(|| Told::Members);
        assert!(matches!(b.try_recv(), Ok(Told::Members)));
        assert!(matches!(
            a.try_recv(),
            Err(mpsc::error::TryRecvError::Disconnected)
        ));
    }

    #[test]
    fn an_order_to_nobody_is_dropped_and_its_waiter_knows() {
        let (waiter, mut outcome) = oneshot::channel();
        Drivers::default().tell("a", Told::Order(Order::Activate, waiter));
        assert!(matches!(
            outcome.try_recv(),
            Err(oneshot::error::TryRecvError::Closed)
        ));
    }
}
