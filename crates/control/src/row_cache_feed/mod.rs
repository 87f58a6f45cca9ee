//! Feeds the row cache: one reader of the binlog of each group of which rows are remembered.
//!
//! A reader begins at a position that its server shows to everybody, with nothing remembered. A space
//! is open once the definition of its table is as old as what has been read, and any statement of DDL
//! closes all spaces until that is so again. Whatever goes wrong, the spaces are closed and another
//! reader begins.

pub(crate) mod client_writes;
mod reading;
pub(crate) mod table_clock;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::binlog::{Reader, Shown, shown, vantage};
use engine::{Error, Link, Login};
use farm::{Container, ServerId};
use rowcache::{Feed, Space};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::context::Context;
use crate::links::Links;
use crate::pace;
use reading::Reading;

/// After a failure, and while there is nothing to remember.
const PAUSE: Duration = Duration::from_millis(200);

/// How often it is looked whether the group has another primary, or other containers.
const LOOK: Duration = Duration::from_millis(100);

/// How often the server is asked what it shows: while transactions were read that it may not show yet,
/// and otherwise. The latter bounds how old an answer from the cache is known to be.
const ASK_BUSY: Duration = Duration::from_millis(15);
const ASK_IDLE: Duration = Duration::from_millis(150);

/// The server says so often that it is there.
const HEARTBEAT_MS: u64 = 1000;

/// What the server showed when it was asked, and when that was.
type Told = Option<(u64, Arc<Shown>)>;

/// Reads the groups' binlogs for what this router remembers of rows and tables.
pub(crate) struct RowCacheFeed {
    context: Arc<Context>,
    links: Arc<Links>,
}

impl RowCacheFeed {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> RowCacheFeed {
        RowCacheFeed {
            context: Arc::clone(context),
            links: Arc::clone(links),
        }
    }
}

impl RowCacheFeed {
    /// Feeds the row cache with one group's changes for as long as the farm has it.
    pub(crate) async fn feed_rows(self: Arc<Self>, group: String) {
        let feed = Arc::<Feed>::default();
        loop {
            let containers = self.remembered();
            let spaces = self.context.reads.rows.keep(&group, &feed, &containers);
            let primary = {
                let state = self.context.state();
                if !state.records.groups.contains_key(&group) {
                    self.context.reads.rows.keep(&group, &feed, &[]);
                    return;
                }
                let primary = state.records.primary(&group);
                primary.map(|(id, record)| (ServerId(id), self.links.login(record)))
            };
            if let Some((server, login)) = primary.filter(|_| !spaces.is_empty()) {
                let read = self.feed_from(&group, server, &login, &feed, &spaces).await;
                feed.close();
                spaces.iter().for_each(|space| space.close());
                if let Err(error) = read {
                    tracing::info!(%group, "rows of the group are not remembered for now: {error}");
                }
            }
            pace::next_look(self.context.started, PAUSE).await;
        }
    }

    /// The containers whose rows are to be remembered.
    fn remembered(&self) -> Vec<Arc<Container>> {
        let containers = self.context.state().records.containers.clone();
        let strong = |container: &Container| container.consistency.as_deref() == Some("strong");
        let all = containers
            .iter()
            .filter(|c| c.cache_bytes > 0 && !strong(c));
        let mut all: Vec<Arc<Container>> = all.cloned().collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Feeds for as long as this server is the primary and the containers are these.
    async fn feed_from(
        &self,
        group: &str,
        server: ServerId,
        login: &Login,
        feed: &Arc<Feed>,
        spaces: &[Arc<Space>],
    ) -> Result<(), Error> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = Link::open(login, timeout_ms).await?;
        let (position, shown) = vantage(&mut link, timeout_ms).await?;
        let reader = Reader::open(login, &position, HEARTBEAT_MS, timeout_ms).await?;
        feed.open(server, position);
        let mut reading = Reading::new(link, reader, shown, server, feed, spaces, timeout_ms);
        reading.look_at_tables().await?;
        let busy = Arc::new(AtomicBool::new(true));
        let (tell, mut told) = watch::channel::<Told>(None);
        let mut asker = JoinSet::new();
        asker.spawn(ask(
            login.clone(),
            timeout_ms,
            self.context.started,
            tell,
            Arc::clone(&busy),
        ));
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                event = reading.reader.next() => reading.take(event?).await?,
                changed = told.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                    let said = told.borrow_and_update().clone();
                    reading.take_shown(said);
                }
                _ = look.tick() => {
                    if !self.still_feeds(group, server, spaces) {
                        return Ok(());
                    }
                    reading.heed_replicas(&self.replicas_known(group));
                }
            }
            busy.store(reading.is_busy(), Relaxed);
        }
    }

    fn still_feeds(&self, group: &str, server: ServerId, spaces: &[Arc<Space>]) -> bool {
        let containers = self.remembered();
        let same = containers.len() == spaces.len()
            && containers
                .iter()
                .zip(spaces)
                .all(|(c, s)| *c == s.container);
        let primary = self
            .context
            .state()
            .records
            .primary(group)
            .map(|(id, _)| id);
        same && primary == Some(server.0)
    }

    /// What each replica of the group was last known to hold.
    fn replicas_known(&self, group: &str) -> Vec<(ServerId, Arc<farm::freshness::Known>)> {
        let state = self.context.state();
        let members = state.records.members(group);
        let known = members.filter(|(_, record)| record.status != farm::Status::Primary);
        let known =
            known.filter_map(|(id, _)| Some((ServerId(id), state.seen.get(&id)?.fresh.known()?)));
        known.collect()
    }
}

/// Asks a server again and again what it shows.
async fn ask(
    login: Login,
    timeout_ms: u64,
    origin: std::time::Instant,
    tell: watch::Sender<Told>,
    busy: Arc<AtomicBool>,
) {
    let Ok(mut link) = Link::open(&login, timeout_ms).await else {
        return;
    };
    loop {
        let asked_us = u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX);
        let Ok(shown) = shown(&mut link, timeout_ms).await else {
            return;
        };
        if tell.send(Some((asked_us, Arc::new(shown)))).is_err() {
            return;
        }
        let pause = if busy.load(Relaxed) {
            ASK_BUSY
        } else {
            ASK_IDLE
        };
        tokio::time::sleep(pause).await;
    }
}
