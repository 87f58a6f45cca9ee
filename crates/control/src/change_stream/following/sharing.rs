//! A follower that has caught up goes on by a reading that it shares with others, until it is too slow for that.

use std::sync::Arc;
use std::time::Duration;

use changes::Reached;
use farm::ServerId;
use tokio::time::Instant;

use super::snapshot::done;
use super::{Follower, Trouble};
use crate::change_stream::interval;
use crate::change_stream::queue::Seat;
use crate::change_stream::shared::{Listener, Shared};
use crate::change_stream::source::Primary;

/// A stream that ends sooner is not worth a shared reading.
pub(super) const SETTLED: Duration = Duration::from_secs(1);

/// One that could not join by then lets others read.
const STAYED: Duration = Duration::from_secs(10);

/// How often a stream that waits for a seat looks whether it can do without.
const WAITS: Duration = Duration::from_millis(200);

/// What a follower has of shared readings.
#[derive(Default)]
pub(super) struct Sharing {
    /// The one that it is about to join: it goes on while somebody has it.
    shared: Option<Arc<Shared>>,
    /// The server of the last one that ended, and its timeline. Where another server leads then, the next one begins where
    /// that one ended, so that all who shared that one share this one.
    left: Option<(ServerId, u32)>,
}

impl Follower {
    /// A place in a shared reading: at once where that has what comes, or else when this has read alone up to there.
    /// `None` when another server leads, or others want the seat.
    pub(super) async fn come_to_share(
        &mut self,
        primary: &Primary,
    ) -> Result<Option<Listener>, Trouble> {
        let is_other = |it: &(ServerId, u32)| *it != (primary.id, primary.timeline);
        if self.sharing.left.take_if(|it| is_other(it)).is_some() {
            self.sharing.shared = Some(self.shared(primary, self.reached.clone()));
        }
        let queues = Arc::clone(&self.queues);
        let seat = queues.alone.seat();
        tokio::pin!(seat);
        let mut look = interval(WAITS);
        let seat = loop {
            if let Some(listener) = self.join_at_once(primary).await? {
                return Ok(Some(listener));
            }
            tokio::select! {
                biased;
                seat = &mut seat => break seat,
                _ = look.tick() => {
                    if !self.source.is_led_by(primary) {
                        return Ok(None);
                    }
                }
            }
        };
        self.read(primary, seat).await
    }

    /// The shared reading of this primary; begun if there is none, behind `from` or where the server is.
    fn shared(&self, primary: &Primary, from: Option<Reached>) -> Arc<Shared> {
        self.readings.of(&self.source, primary, from, &self.counts)
    }

    /// A place in the shared reading, for a stream that begins now, or lacks no more than what that keeps. Streams in one
    /// order over all groups, and those with a snapshot to begin, read by themselves at first.
    async fn join_at_once(&mut self, primary: &Primary) -> Result<Option<Listener>, Trouble> {
        if self.order.is_some() || self.reading.is_some() {
            return Ok(None);
        }
        let Some(shared) = self.readings.known(&self.source, primary) else {
            return Ok(None);
        };
        let listener = match &self.reached {
            None => shared.listen(),
            Some(reached) if reached.open.is_none() => shared.listen_behind(&reached.told),
            Some(_) => None,
        };
        let Some(listener) = listener else {
            return Ok(None);
        };
        self.enter_timeline(primary).await?;
        if self.reached.is_none() {
            self.start = Some(listener.behind.clone());
            self.begin(primary).await?;
        }
        self.gaps = 0;
        Ok(Some(listener))
    }

    /// Others want the seat, and this has had it for long without coming to share.
    pub(super) fn has_stayed(&self, since: Instant, seat: &Seat) -> bool {
        seat.is_wanted() && since.elapsed() > STAYED && self.reached.is_some()
    }

    /// Asks for the shared reading, if it may, and gives the place in it when everything in front of that was told.
    pub(super) fn join(&mut self, primary: &Primary, may: bool) -> Option<Listener> {
        let is_whole = |it: &Reached| self.is_placed && may && it.open.is_none();
        let told = self
            .reached
            .as_ref()
            .filter(|it| is_whole(it))?
            .told
            .clone();
        let shared = match &self.sharing.shared {
            Some(shared) => Arc::clone(shared),
            None => {
                let shared = self.shared(primary, None);
                Arc::clone(self.sharing.shared.insert(shared))
            }
        };
        shared.listen_behind(&told)
    }

    /// What it was about to join is of no use with this primary, and what is read alone leads away from where the others
    /// were.
    pub(super) fn forget_others(&mut self, primary: &Primary) {
        self.sharing.shared.take_if(|it| !it.is_of(primary));
        self.sharing.left = None;
    }

    /// Goes on by a shared reading. Ends when that has ended, or when this is too slow for it: it is read on alone
    /// then.
    pub(super) async fn read_shared(
        &mut self,
        primary: &Primary,
        mut listener: Listener,
    ) -> Result<(), Trouble> {
        self.sharing.shared = None;
        self.listen(primary, &mut listener).await?;
        self.sharing.left = listener
            .has_ended()
            .then_some((primary.id, primary.timeline));
        Ok(())
    }

    async fn listen(&mut self, primary: &Primary, listener: &mut Listener) -> Result<(), Trouble> {
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
                // The reading itself looks whether its server leads.
                _ = look.tick(), if self.reading.is_some() => self.read_on().await?,
            }
        }
    }
}
