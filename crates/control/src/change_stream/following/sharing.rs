//! A follower that has caught up goes on by a reading that it shares with others, until it is too slow for that.

use std::sync::Arc;
use std::time::Duration;

use changes::Reached;
use tokio::time::Instant;

use super::snapshot::done;
use super::{Follower, Trouble, Waiting};
use crate::change_stream::interval;
use crate::change_stream::shared::{Listener, Shared};
use crate::change_stream::source::Primary;

/// A stream that ends sooner is not worth it.
const SETTLED: Duration = Duration::from_secs(1);

/// The way of one reading to a shared one.
pub(super) struct Joining {
    since: Instant,
    shared: Option<Arc<Shared>>,
    listener: Option<Listener>,
}

impl Joining {
    pub(super) fn new() -> Joining {
        Joining {
            since: Instant::now(),
            shared: None,
            listener: None,
        }
    }
}

impl Follower {
    /// Asks for the shared reading, and gives the place in it when everything in front of that was told.
    pub(super) fn join(
        &self,
        joining: &mut Joining,
        primary: &Primary,
        waiting: &Waiting,
    ) -> Option<Listener> {
        let Reached { told, open, .. } = self.reached.as_ref().filter(|_| self.is_placed)?;
        if joining.since.elapsed() < SETTLED || !waiting.is_empty() || open.is_some() {
            return None;
        }
        let shared = &mut joining.shared;
        let shared =
            shared.get_or_insert_with(|| self.readings.of(&self.source, primary, &self.counts));
        if joining.listener.is_none() {
            joining.listener = shared.listen();
        }
        let has_caught_up = joining
            .listener
            .as_ref()
            .is_some_and(|it| told.covers(&it.behind));
        joining.listener.take().filter(|_| has_caught_up)
    }

    /// Goes on by a shared reading. Ends when that has ended, or when this is too slow for it: it is read on alone
    /// then.
    pub(super) async fn read_shared(
        &mut self,
        primary: &Primary,
        mut listener: Listener,
    ) -> Result<(), Trouble> {
        let mut look = interval(super::LOOK);
        loop {
            tokio::select! {
                ended = listener.next() => {
                    let Some(ended) = ended else { return Ok(()) };
                    let mut next = Some(ended);
                    while let Some(ended) = next {
                        let told = self.reached.as_ref().map(|it| &it.told);
                        if !told.is_some_and(|told| ended.gtid.is_in(told)) {
                            self.take(primary, &ended).await?;
                        }
                        let Some(now) = listener.next_now() else { return Ok(()) };
                        next = now;
                    }
                    self.outlet.lock().await.flush().await?;
                    self.read_on().await?;
                }
                done = done(&mut self.reading) => self.take_read(primary, done).await?,
                _ = look.tick() => {
                    if !self.source.is_led_by(primary) {
                        return Ok(());
                    }
                    self.read_on().await?;
                }
            }
        }
    }
}
