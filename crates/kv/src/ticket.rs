//! A command's answer to come. One task waits for it, on the core where it was submitted.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use crate::op::{Outcome, Refusal};

#[derive(Default)]
struct Cell {
    answered: bool,
    outcome: Option<Outcome>,
    waker: Option<Waker>,
}

/// Becomes the outcome of a command. Dropped, the command is carried out all the same.
pub struct Ticket(Rc<RefCell<Cell>>);

/// The other end of a [`Ticket`]. Dropped without an answer, it answers that the command may or may not
/// have been carried out.
pub struct Waiting(Rc<RefCell<Cell>>);

impl Ticket {
    /// The two ends.
    pub fn new() -> (Waiting, Ticket) {
        let cell = Rc::new(RefCell::new(Cell::default()));
        (Waiting(cell.clone()), Ticket(cell))
    }

    /// One that has its answer.
    pub fn done(outcome: Outcome) -> Ticket {
        let (waiting, ticket) = Ticket::new();
        waiting.answer(outcome);
        ticket
    }

    /// The outcome, when it is there already.
    pub fn ready(&mut self) -> Option<Outcome> {
        self.0.borrow_mut().outcome.take()
    }
}

impl Waiting {
    /// Gives the answer.
    pub fn answer(self, outcome: Outcome) {
        self.give(outcome);
    }

    fn give(&self, outcome: Outcome) {
        let mut cell = self.0.borrow_mut();
        cell.answered = true;
        cell.outcome = Some(outcome);
        let waker = cell.waker.take();
        drop(cell);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let answered = self.0.borrow().answered;
        if !answered {
            self.give(Outcome::Refused(Refusal::server(
                "the router ends; the command may or may not have been carried out",
            )));
        }
    }
}

impl Future for Ticket {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut cell = self.0.borrow_mut();
        match cell.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                cell.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_nobody_answers_is_answered_all_the_same() {
        let (waiting, mut ticket) = Ticket::new();
        assert!(ticket.ready().is_none());
        drop(waiting);
        assert!(matches!(ticket.ready(), Some(Outcome::Refused(why)) if !why.by_client));
        let mut done = Ticket::done(Outcome::Miss);
        assert_eq!(done.ready(), Some(Outcome::Miss));
    }
}
