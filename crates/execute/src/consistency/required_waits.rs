//! Waits for replicas that lack what a read needs; sessions of one core share them.
//!
//! At the level client all connections of a client need the same, so one write would have each of them
//! ask a replica whether it has that. While one asks, those that need no more wait for its answer.

pub mod ask;

use std::cell::RefCell;

use farm::{Position, ServerId};
use futures_channel::oneshot;

/// The questions that are under way.
#[derive(Default)]
pub(crate) struct RequiredWaits {
    asked: RefCell<Vec<Asked>>,
}

struct Asked {
    /// Names the question.
    number: u64,
    server: ServerId,
    position: Position,
    others: Vec<oneshot::Sender<bool>>,
}

impl RequiredWaits {
    /// Waits for the answer to a question whose answer will do; `None` when there is no such question, or
    /// it was given up.
    pub async fn join(&self, server: ServerId, required: &Position) -> Option<bool> {
        let told = {
            let mut asked = self.asked.borrow_mut();
            let mut fitting = asked.iter_mut();
            let one = fitting.find(|one| one.server == server && one.position.covers(required))?;
            let (tell, told) = oneshot::channel();
            one.others.push(tell);
            told
        };
        told.await.ok()
    }

    /// Notes a question. Dropped, it was given up, and those who wait for it ask themselves.
    pub fn ask(&self, server: ServerId, position: Position) -> Question<'_> {
        let mut asked = self.asked.borrow_mut();
        let number = asked.last().map_or(1, |last| last.number + 1);
        asked.push(Asked {
            number,
            server,
            position,
            others: Vec::new(),
        });
        Question {
            waits: self,
            number,
        }
    }
}

/// A question under way.
pub(crate) struct Question<'w> {
    waits: &'w RequiredWaits,
    number: u64,
}

impl Question<'_> {
    /// The replica has what was asked for, or has not got it in time.
    pub fn answer(self, came: bool) {
        let mut asked = self.waits.asked.borrow_mut();
        for one in asked.iter_mut().filter(|one| one.number == self.number) {
            for other in one.others.drain(..) {
                // Its session may be gone.
                let _ = other.send(came);
            }
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut asked = self.waits.asked.borrow_mut();
        asked.retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farm::Engine;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    /// What it gives at once.
    fn now<T>(future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn at(sequence: u64) -> Position {
        Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
    }

    #[test]
    fn who_needs_no_more_waits_for_the_answer_of_another() {
        let waits = RequiredWaits::default();
        let (one, other) = (ServerId(1), ServerId(2));
        let join = |server, sequence| now(pin!(waits.join(server, &at(sequence))));
        assert_eq!(join(one, 5), Some(None));
        let question = waits.ask(one, at(5));
        let four = at(4);
        let mut joined = pin!(waits.join(one, &four));
        assert_eq!(now(joined.as_mut()), None);
        assert_eq!(join(one, 6), Some(None), "more");
        assert_eq!(join(other, 4), Some(None));
        question.answer(true);
        assert_eq!(now(joined), Some(Some(true)));
        assert_eq!(join(one, 4), Some(None), "over");
        // Given up: they ask themselves.
        let question = waits.ask(one, at(5));
        let five = at(5);
        let mut joined = pin!(waits.join(one, &five));
        assert_eq!(now(joined.as_mut()), None);
        drop(question);
        assert_eq!(now(joined), Some(None));
    }
}
