//! One reading of a group's primary that all streams share that have caught up.
//!
//! Job: reads the binlog once, and keeps the last transactions that may be told, for streams that go on by them.
//!
//! Invariants: what is kept is without gaps from where it begins, and bounded in bytes and number; a stream that is
//! slower than that finds out and reads by itself. Few of a group do so at a time ([`Queues`]), however many are slow.
//! Everything ends with the primary that is read, and when nobody uses it any more.
//!
//! Must not know: who wants what of it, tokens, snapshots.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use changes::{Ended, Reached};
use engine::Link;
use engine::binlog::{Reader, vantage};
use farm::{Position, ServerId};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::following::{HEARTBEAT_MS, LOOK, Waiting, ask, beginning};
use super::queue::Queues;
use super::source::{Primary, Source};
use super::{ChangesCounts, Reads};

/// Of what may be told; what is older is forgotten.
const KEPT_BYTES_MAX: usize = 32 << 20;
const KEPT_MAX: usize = 10_000;

/// The readings that streams share, by group, and the seats of those that read by themselves.
#[derive(Default)]
pub(super) struct SharedReadings {
    all: Mutex<HashMap<String, Weak<Shared>>>,
    queues: Mutex<HashMap<String, Arc<Queues>>>,
}

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
    /// The reading has begun: all that comes behind this is in `last`. In front of that, everything.
    begin: Option<Position>,
    /// Behind the last one.
    end: Option<Reached>,
    /// Where the server was when the reading began.
    now: Option<Position>,
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
    /// What comes is behind this.
    pub(super) behind: Reached,
}

impl SharedReadings {
    /// The reading of this primary; begun if there is none, behind `from` or where the server is.
    pub(super) fn of(
        &self,
        source: &Source,
        primary: &Primary,
        from: Option<Reached>,
        counts: &Arc<ChangesCounts>,
    ) -> Arc<Shared> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = known(&all, source, primary) {
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
            from,
            for_whom: Arc::downgrade(&shared),
        };
        let counts = Arc::clone(counts);
        tokio::spawn(async move {
            let _counted = Reads::new(&counts);
            reading.run().await;
        });
        shared
    }

    /// The reading of this primary, if there is one.
    pub(super) fn known(&self, source: &Source, primary: &Primary) -> Option<Arc<Shared>> {
        known(
            &self.all.lock().unwrap_or_else(PoisonError::into_inner),
            source,
            primary,
        )
    }

    /// The seats of a group's streams that read by themselves.
    pub(super) fn queues(&self, group: &str) -> Arc<Queues> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(queues.entry(group.to_owned()).or_default())
    }
}

fn known(
    all: &HashMap<String, Weak<Shared>>,
    source: &Source,
    primary: &Primary,
) -> Option<Arc<Shared>> {
    let known = all.get(&source.group).and_then(Weak::upgrade);
    known.filter(|it| it.is_of(primary))
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_of(&self, primary: &Primary) -> bool {
        let is_same = self.server == primary.id && self.timeline == primary.timeline;
        is_same && !self.kept().is_over
    }

    /// A place behind everything that is kept; `None` before the reading has come to where the server was when it began.
    pub(super) fn listen(self: &Arc<Self>) -> Option<Listener> {
        let kept = self.kept();
        let behind = kept.end.clone().filter(|_| !kept.is_over)?;
        if !kept.now.as_ref().is_some_and(|now| behind.told.covers(now)) {
            return None;
        }
        Some(Listener {
            shared: Arc::clone(self),
            news: self.news.subscribe(),
            next: kept.forgotten + number(kept.last.len()),
            behind,
        })
    }

    /// The place of a stream that has this; `None` where more is missing to it than what is kept.
    pub(super) fn listen_behind(self: &Arc<Self>, told: &Position) -> Option<Listener> {
        let kept = self.kept();
        let begin = kept.begin.as_ref().filter(|_| !kept.is_over)?;
        told.covers(begin).then(|| Listener {
            shared: Arc::clone(self),
            news: self.news.subscribe(),
            next: kept.forgotten,
            behind: Reached {
                told: begin.clone(),
                from: None,
                open: None,
            },
        })
    }

    fn add(&self, ended: Ended) {
        self.kept().add(ended, KEPT_BYTES_MAX, KEPT_MAX);
    }

    fn begin(&self, reached: &Reached, now: &Position) {
        let mut kept = self.kept();
        if kept.end.is_none() {
            kept.begin = Some(reached.told.clone());
            kept.end = Some(reached.clone());
            kept.now = Some(now.clone());
        }
    }

    fn end(&self) {
        self.kept().is_over = true;
        self.news.send_replace(());
    }
}

impl Kept {
    fn add(&mut self, ended: Ended, bytes_max: usize, max: usize) {
        self.end = Some(Reached {
            told: ended.position.clone(),
            from: ended.from.clone(),
            open: None,
        });
        self.bytes += ended.bytes();
        self.last.push_back(Arc::new(ended));
        while self.last.len() > 1 && (self.bytes > bytes_max || self.last.len() > max) {
            if let Some(oldest) = self.last.pop_front() {
                self.bytes -= oldest.bytes();
                self.forgotten += 1;
                self.begin = Some(oldest.position.clone());
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

    /// The reading has ended, and everything of it was taken.
    pub(super) fn has_ended(&self) -> bool {
        let kept = self.shared.kept();
        kept.is_over && kept.get(self.next).is_ok_and(|next| next.is_none())
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
    from: Option<Reached>,
    for_whom: Weak<Shared>,
}

impl Reading {
    async fn run(self) {
        let _over = Over(self.for_whom.clone());
        // Whoever listens reads by himself then, and says what is wrong, if it still is.
        if let Err(error) = self.read().await {
            tracing::debug!(group = %self.source.group, "a shared reading ends: {error}");
        }
    }

    /// Reads until nobody listens, or another server leads.
    async fn read(&self) -> Result<(), engine::Error> {
        let timeout_ms = self.source.timeout_ms();
        let login = &self.primary.login;
        let mut link = Link::open(login, timeout_ms).await?;
        engine::keep_columns(&mut link, timeout_ms).await?;
        let (now, _) = vantage(&mut link, timeout_ms).await?;
        let (from, until, mut transactions) =
            beginning(&mut link, timeout_ms, self.from.as_ref()).await?;
        let mut reader = Reader::with_sources(login, &from, HEARTBEAT_MS, timeout_ms).await?;
        let (want, wanted) = watch::channel(0);
        let (tell, mut told) = watch::channel(None);
        let mut asker = JoinSet::new();
        asker.spawn(ask(link, timeout_ms, false, wanted, tell));
        let mut look = super::interval(LOOK);
        let mut waiting = Waiting::default();
        let mut before = self.from.clone().unwrap_or(Reached {
            told: from,
            from: None,
            open: None,
        });
        loop {
            let is_sure = reader.position().covers(&until);
            let begins = is_sure && transactions.has_begun();
            tokio::select! {
                event = reader.next(), if waiting.has_room() => {
                    let event = event?;
                    let place = reader.place();
                    let ended = transactions.take(event, reader.position(), place, reader.logged());
                    // A branch of before ended while this began: it begins anew.
                    let Ok(ended) = ended else { return Ok(()) };
                    if let Some(ended) = ended {
                        waiting.add(ended);
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
                                shared.begin(&before, &now);
                                shared.add(ended);
                            } else {
                                before.told = ended.position;
                                before.from = ended.from;
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
                        shared.begin(&before, &now);
                    }
                }
            }
            if !waiting.is_empty() {
                want.send_replace(waiting.len());
            }
        }
    }
}

/// Tells who listens that the reading has ended, however it has.
struct Over(Weak<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        if let Some(shared) = self.0.upgrade() {
            shared.end();
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use changes::{Gtid, Logged, Own, Parts};
    use farm::Engine;

    use super::*;

    fn at(sequence: u64) -> Position {
        Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
    }

    fn reached(sequence: u64) -> Reached {
        Reached {
            told: at(sequence),
            from: None,
            open: None,
        }
    }

    fn ended(sequence: u64) -> Ended {
        Ended {
            gtid: Gtid::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a GTID"),
            logged: Logged::default(),
            xid: None,
            counts: true,
            was_told: false,
            own: Own::default(),
            branch: None,
            parts: Parts::Kept(Arc::default()),
            position: at(sequence),
            from: None,
            place: (String::new(), 0),
        }
    }

    #[test]
    fn streams_join_where_nothing_is_missing_to_them() {
        let shared = Arc::new(Shared {
            server: ServerId(1),
            timeline: 1,
            kept: Mutex::default(),
            news: watch::Sender::new(()),
        });
        assert!(shared.listen().is_none() && shared.listen_behind(&at(9)).is_none());
        shared.begin(&reached(3), &at(5));
        assert!(shared.listen().is_none(), "it is not where the server was");
        assert!(shared.listen_behind(&at(3)).is_some());
        for sequence in 4..=6 {
            shared.kept().add(ended(sequence), usize::MAX, 2);
        }
        let now = shared.listen().expect("it is there now");
        assert_eq!(now.behind, reached(6));
        assert!(shared.listen_behind(&at(3)).is_none(), "4 is forgotten");
        let mut late = shared.listen_behind(&at(4)).expect("all is kept");
        let mut next = || {
            late.next_now()
                .map(|next| next.map(|it| it.position.clone()))
        };
        assert_eq!(
            [next(), next(), next()],
            [Some(Some(at(5))), Some(Some(at(6))), Some(None)]
        );
        shared.end();
        assert_eq!(next(), None);
        assert!(late.has_ended());
        assert!(shared.listen().is_none());
    }
}
