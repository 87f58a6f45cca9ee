//! The parts of one statement, which run at the same time.

use std::future::poll_fn;
use std::task::Poll;

use super::feed::{Event, Feed};

/// All parts, in the order of the statement's.
pub(crate) struct Feeds {
    pub all: Vec<Feed>,
    /// Their connections keep the statement's time behind it.
    pub clocked: bool,
}

impl Feeds {
    /// Has every part's server work, without waiting for any.
    pub async fn nudge(&mut self) {
        poll_fn(|context| {
            for feed in &mut self.all {
                let _ = feed.poll(context);
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Waits until this part can go on.
    pub async fn of(&mut self, at: usize) {
        poll_fn(|context| {
            let mut ready = Poll::Pending;
            for (place, feed) in self.all.iter_mut().enumerate() {
                let polled = feed.poll(context);
                if place == at {
                    ready = polled;
                }
            }
            ready
        })
        .await;
    }

    /// Waits until any part that has not ended can go on.
    pub async fn any(&mut self) {
        poll_fn(|context| {
            let mut ready = self.all.iter().all(Feed::is_done);
            for feed in self.all.iter_mut().filter(|feed| !feed.is_done()) {
                ready |= feed.poll(context).is_ready();
            }
            match ready {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        })
        .await;
    }

    /// Waits until each part has answered with columns or has ended, or one has failed.
    pub async fn begin(&mut self) {
        let mut begun = vec![false; self.all.len()];
        loop {
            for (feed, begun) in self.all.iter_mut().zip(&mut begun) {
                if !*begun {
                    *begun = !matches!(feed.step(), Event::Wait);
                }
            }
            if begun.iter().all(|begun| *begun) || self.failed().is_some() {
                return;
            }
            // Those that have begun wait for nothing.
            poll_fn(|context| {
                let mut ready = Poll::Pending;
                for (feed, begun) in self.all.iter_mut().zip(&begun) {
                    if !*begun && feed.poll(context).is_ready() {
                        ready = Poll::Ready(());
                    }
                }
                ready
            })
            .await;
        }
    }

    /// The first part that has failed.
    pub fn failed(&self) -> Option<usize> {
        self.all.iter().position(Feed::failed)
    }
}
