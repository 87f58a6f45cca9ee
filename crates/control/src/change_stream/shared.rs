//! One reading of a group's primary that all streams share that have caught up.
//!
//! Job: reads the binlog once, and keeps the last transactions that may be told, for streams that go on by them.
//!
//! Invariants: what is kept is without gaps from where it begins, and bounded in bytes and number; a stream that is
//! slower than that finds out and reads by itself. Everything ends with the primary that is read, and when nobody
//! uses it any more.
//!
//! Must not know: who wants what of it, tokens, snapshots.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use changes::Ended;
use engine::Link;
use engine::binlog::Reader;
use farm::{Position, ServerId};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use super::following::{HEARTBEAT_MS, LOOK, Waiting, ask, beginning};
use super::source::{Primary, Source};
use super::{ChangesCounts, Reads};

/// Of what may be told; what is older is forgotten.
const KEPT_BYTES_MAX: usize = 32 << 20;
const KEPT_MAX: usize = 10_000;

/// The readings that streams share, by group.
#[derive(Default)]
pub(super) struct SharedReadings(Mutex<HashMap<String, Weak<Shared>>>);

/// A reading of one primary.
pub(super) struct Shared {
    server: ServerId,
    timeline: u32,
    kept: Mutex<Kept>,
    /// Something was added, or the reading has ended.
    news: watch::Sender<()>,
}

#[derive(Default)]
struct Kept {
    /// The reading has begun: all that comes behind this position is, or was, in `last`.
    end: Option<Position>,
    last: VecDeque<Arc<Ended>>,
    bytes: usize,
    /// How many came before the first one of `last`.
    forgotten: u64,
    is_over: bool,
}

/// A stream's place in a reading.
pub(super) struct Listener {
    shared: Arc<Shared>,
    news: watch::Receiver<()>,
    next: u64,
    /// What comes is behind this position.
    pub(super) behind: Position,
}

impl SharedReadings {
    /// The reading of this primary; begun if there is none.
    pub(super) fn of(
        &self,
        source: &Source,
        primary: &Primary,
        counts: &Arc<ChangesCounts>,
    ) -> Arc<Shared> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(&source.group).and_then(Weak::upgrade);
        if let Some(shared) = known.filter(|it| it.is_of(primary)) {
            return shared;
        }
        let shared = Arc::new(Shared {
            server: primary.id,
            timeline: primary.timeline,
            kept: Mutex::default(),
            news: watch::Sender::new(()),
        });
        all.insert(source.group.clone(), Arc::downgrade(&shared));
        let reading = Reading {
            source: source.clone(),
            primary: primary.clone(),
            for_whom: Arc::downgrade(&shared),
        };
        let counts = Arc::clone(counts);
        tokio::spawn(async move {
            let _counted = Reads::new(&counts);
            reading.run().await;
        });
        shared
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_of(&self, primary: &Primary) -> bool {
        let is_same = self.server == primary.id && self.timeline == primary.timeline;
        is_same && !self.kept().is_over
    }

    /// A place behind everything that is kept; `None` before the reading has begun.
    pub(super) fn listen(self: &Arc<Self>) -> Option<Listener> {
        let kept = self.kept();
        let behind = kept.end.clone().filter(|_| !kept.is_over)?;
        Some(Listener {
            shared: Arc::clone(self),
            news: self.news.subscribe(),
            next: kept.forgotten + number(kept.last.len()),
            behind,
        })
    }

    fn add(&self, ended: Ended) {
        self.kept().add(ended, KEPT_BYTES_MAX, KEPT_MAX);
    }

    fn begin(&self, position: &Position) {
        self.kept().end.get_or_insert_with(|| position.clone());
    }

    fn end(&self) {
        self.kept().is_over = true;
        self.news.send_replace(());
    }
}

impl Kept {
    fn add(&mut self, ended: Ended, bytes_max: usize, max: usize) {
        self.end = Some(ended.position.clone());
        self.bytes += ended.bytes();
        self.last.push_back(Arc::new(ended));
        while self.last.len() > 1 && (self.bytes > bytes_max || self.last.len() > max) {
            if let Some(oldest) = self.last.pop_front() {
                self.bytes -= oldest.bytes();
                self.forgotten += 1;
            }
        }
    }

    /// The transaction of this number; an error when it is forgotten, `None` when it has not come.
    fn get(&self, number: u64) -> Result<Option<Arc<Ended>>, ()> {
        let at = number.checked_sub(self.forgotten).ok_or(())?;
        let at = usize::try_from(at).map_err(drop)?;
        Ok(self.last.get(at).cloned())
    }
}

impl Listener {
    /// The next transaction; `None` when the reading has ended, or this was too slow for it. Dropped before it is
    /// done, nothing is lost.
    pub(super) async fn next(&mut self) -> Option<Arc<Ended>> {
        loop {
            if let Some(next) = self.next_now()? {
                return Some(next);
            }
            self.news.changed().await.ok()?;
        }
    }

    /// The same without waiting: nothing within when nothing more has come.
    #[allow(clippy::option_option)]
    pub(super) fn next_now(&mut self) -> Option<Option<Arc<Ended>>> {
        self.news.mark_unchanged();
        let kept = self.shared.kept();
        let found = kept.get(self.next).ok()?;
        if found.is_none() && kept.is_over {
            return None;
        }
        self.next += u64::from(found.is_some());
        Some(found)
    }
}

/// What reads.
struct Reading {
    source: Source,
    primary: Primary,
    for_whom: Weak<Shared>,
}

impl Reading {
    async fn run(self) {
        // Whoever listens reads by himself then, and says what is wrong, if it still is.
        if let Err(error) = self.read().await {
            tracing::debug!(group = %self.source.group, "a shared reading ends: {error}");
        }
        if let Some(shared) = self.for_whom.upgrade() {
            shared.end();
        }
    }

    /// Reads until nobody listens, or another server leads.
    async fn read(&self) -> Result<(), engine::Error> {
        let timeout_ms = self.source.timeout_ms();
        let login = &self.primary.login;
        let mut link = Link::open(login, timeout_ms).await?;
        let (from, until, mut transactions) = beginning(&mut link, timeout_ms, None).await?;
        let mut reader = Reader::with_sources(login, &from, HEARTBEAT_MS, timeout_ms).await?;
        let wanted = Arc::new(Notify::new());
        let (tell, mut told) = watch::channel(None);
        let mut asker = JoinSet::new();
        asker.spawn(ask(link, timeout_ms, Arc::clone(&wanted), tell));
        let mut look = super::interval(LOOK);
        let mut waiting = Waiting::default();
        let mut before = from;
        loop {
            let is_sure = reader.position().covers(&until);
            let begins = is_sure && transactions.has_begun();
            tokio::select! {
                event = reader.next(), if waiting.has_room() => {
                    let event = event?;
                    let place = reader.place();
                    let ended = transactions.take(event, reader.position(), place, reader.time_s());
                    // A branch of before ended while this began: it begins anew.
                    let Ok(ended) = ended else { return Ok(()) };
                    if let Some(ended) = ended {
                        waiting.add(ended);
                        wanted.notify_one();
                    }
                }
                changed = told.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let shown = told.borrow_and_update().clone();
                    let Some(shared) = self.for_whom.upgrade() else { return Ok(()) };
                    if let Some(shown) = shown.filter(|_| is_sure && self.source.is_led_by(&self.primary)) {
                        while let Some(ended) = waiting.next_shown(&shown, &self.source) {
                            if ended.counts {
                                shared.begin(&before);
                                shared.add(ended);
                            } else {
                                before = ended.position;
                            }
                        }
                        shared.news.send_replace(());
                    }
                }
                _ = look.tick() => {
                    let Some(shared) = self.for_whom.upgrade() else { return Ok(()) };
                    if !self.source.is_led_by(&self.primary) {
                        return Ok(());
                    }
                    if begins && waiting.is_empty() {
                        shared.begin(&before);
                    }
                }
            }
            if !waiting.is_empty() {
                wanted.notify_one();
            }
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
