//! One reader's life: what its events void, and what servers are known to hold.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use changes::is_harmless;
use engine::binlog::{End, Event, Gtid, Reader, Rows, Shown, Xid};
use engine::remembering::{KeyColumn, key_column};
use engine::{Error, Link, heartbeat};
use farm::freshness::Known;
use farm::{Position, ServerId};
use faults::Plant;
use rowcache::{Feed, Space};

use super::Told;

/// Transactions that some server may not hold yet; when there are more, servers that lack the oldest
/// give no rows until they have caught up.
const LOG_MAX: usize = 100_000;

/// Keys of one transaction that are kept for the case that it is a branch; with more, the branch voids
/// everything when it is committed.
const KEYS_MAX: usize = 10_000;

/// A space and how its table's binlog writes the key; `None` while it is closed for good.
struct Watched {
    space: Arc<Space>,
    key: Option<KeyColumn>,
}

/// A transaction that was read.
struct Logged {
    number: u64,
    gtid: Gtid,
    file: Arc<str>,
    end: u64,
}

/// Keys that a transaction changed, by the places of their spaces.
#[derive(Default)]
struct Changed {
    keys: Vec<(usize, Vec<u8>)>,
    /// There were more.
    more: bool,
}

pub(super) struct Reading {
    pub(super) reader: Reader,
    link: Link,
    /// What the server showed when the reader began: nothing before it is read.
    began: Shown,
    server: ServerId,
    feed: Arc<Feed>,
    watched: Vec<Watched>,
    timeout_ms: u64,
    /// Spaces open when this has been read.
    opens_at: Option<Position>,
    open: Option<Gtid>,
    changed: Changed,
    branches: HashMap<Xid, Changed>,
    log: VecDeque<Logged>,
    /// For each server the number up to which it was said to hold everything.
    held: HashMap<ServerId, u64>,
    /// What replicas were last known to hold.
    known: Vec<(ServerId, Arc<Known>)>,
    file: Arc<str>,
    told: Told,
}

impl Reading {
    pub(super) fn new(
        link: Link,
        reader: Reader,
        began: Shown,
        server: ServerId,
        feed: &Arc<Feed>,
        spaces: &[Arc<Space>],
        timeout_ms: u64,
    ) -> Reading {
        let watched = spaces.iter().map(|space| Watched {
            space: space.clone(),
            key: None,
        });
        Reading {
            reader,
            link,
            began,
            server,
            feed: feed.clone(),
            watched: watched.collect(),
            timeout_ms,
            opens_at: None,
            open: None,
            changed: Changed::default(),
            branches: HashMap::new(),
            log: VecDeque::new(),
            held: HashMap::from([(server, feed.reached())]),
            known: Vec::new(),
            file: Arc::from(""),
            told: None,
        }
    }

    /// True while a transaction was read that the primary may not show yet, or it is not known whether
    /// everything has been read.
    pub(super) fn is_busy(&self) -> bool {
        self.told.is_some() || self.held.get(&self.server) != Some(&self.feed.reached())
    }

    /// Closes all spaces and looks at their tables anew. They open when everything has been read that
    /// was there after the look.
    pub(super) async fn look_at_tables(&mut self) -> Result<(), Error> {
        for watched in &mut self.watched {
            watched.space.close();
            let container = &watched.space.container;
            let (database, table) = (&container.database, &container.table);
            let found = key_column(
                &mut self.link,
                database,
                table,
                &container.key,
                self.timeout_ms,
            );
            watched.key = match found.await? {
                Ok(key) => Some(key),
                Err(why) => {
                    tracing::info!(container = %container.name, "its rows are not remembered: {why}");
                    watched.space.refuse(&why);
                    None
                }
            };
        }
        let position = heartbeat::position(&mut self.link, self.timeout_ms).await?;
        self.opens_at = Some(position);
        self.open_when_read();
        Ok(())
    }

    fn open_when_read(&mut self) {
        let read = |position: &Position| self.reader.position().covers(position);
        if self.opens_at.as_ref().is_some_and(read) {
            self.opens_at = None;
            for watched in &self.watched {
                if let Some(key) = &watched.key {
                    watched.space.open(key.ascii, key.form);
                }
            }
        }
    }

    pub(super) async fn take(&mut self, event: Event) -> Result<(), Error> {
        match event {
            Event::Begin(gtid) => {
                self.open = Some(gtid);
                self.changed = Changed::default();
            }
            Event::Rows(rows) => self.void_rows(&rows),
            Event::Statement(statement) if is_harmless(&statement.text) => {}
            Event::Statement(_) => {
                for watched in &self.watched {
                    watched.space.void_all();
                }
                self.look_at_tables().await?;
            }
            Event::Block(_) | Event::Source(_) | Event::Alive => {}
            Event::End(end) => self.end(end),
        }
        Ok(())
    }

    fn void_rows(&mut self, rows: &Rows) {
        for (at, watched) in self.watched.iter().enumerate() {
            let Some(key) = &watched.key else { continue };
            let table = &rows.table;
            if key.table != table.name || key.database != table.database {
                continue;
            }
            let voided = void(&watched.space, key, rows, |key| {
                match self.changed.keys.len() < KEYS_MAX {
                    true => self.changed.keys.push((at, key)),
                    false => self.changed.more = true,
                }
            });
            if voided.is_none() {
                // What changed is not known: anything may have.
                watched.space.void_all();
                self.changed.more = true;
            }
        }
    }

    fn end(&mut self, end: End) {
        let changed = std::mem::take(&mut self.changed);
        match end {
            End::Commit | End::RolledBack => {}
            End::Prepared(xid) => drop(self.branches.insert(xid, changed)),
            End::BranchRolledBack(xid) => drop(self.branches.remove(&xid)),
            End::BranchCommitted(xid) => {
                let branch = self.branches.remove(&xid);
                self.void_branch(branch);
            }
        }
        self.feed.end(self.reader.position().clone());
        if let Some(gtid) = self.open.take() {
            let (file, end) = self.reader.place();
            if *self.file != *file {
                self.file = Arc::from(file);
            }
            self.log.push_back(Logged {
                number: self.feed.reached(),
                gtid,
                file: self.file.clone(),
                end,
            });
            if self.log.len() > LOG_MAX {
                self.log.pop_front();
            }
        }
        if self.opens_at.is_some() {
            self.open_when_read();
        }
        if Plant::BelievesEvents.is_made() {
            let servers: Vec<ServerId> = self.held.keys().copied().collect();
            for server in servers {
                self.hold(server, self.feed.reached());
            }
        }
        self.compare();
    }

    /// A branch that was prepared before the reader began may have changed anything.
    fn void_branch(&self, branch: Option<Changed>) {
        let Some(branch) = branch.filter(|branch| !branch.more) else {
            return self.watched.iter().for_each(|w| w.space.void_all());
        };
        for (at, key) in &branch.keys {
            if let Some(watched) = self.watched.get(*at) {
                watched.space.void(key);
            }
        }
    }

    /// What the primary showed.
    pub(super) fn take_shown(&mut self, told: Told) {
        self.told = told;
        self.compare();
    }

    /// Compares what the primary showed with what has been read.
    fn compare(&mut self) {
        let Some((asked_us, shown)) = self.told.clone() else {
            return;
        };
        self.advance(self.server, |logged| {
            shown.has(&logged.gtid, (&logged.file, logged.end))
        });
        // Before the first event the reader is where it began.
        let place = self.reader.place();
        let place = match &self.began {
            Shown::Until(file, end) if place < (file.as_str(), *end) => (file.as_str(), *end),
            _ => place,
        };
        let read = shown.is_read(self.reader.position(), place);
        if read {
            self.feed.is_current(asked_us);
            self.told = None;
        }
    }

    /// What replicas are known to hold. One of which that is not known, or less than before, was
    /// restored: what it held does not count any more.
    pub(super) fn heed_replicas(&mut self, known: &[(ServerId, Arc<Known>)]) {
        let before = std::mem::take(&mut self.known);
        for (server, old) in &before {
            let now = known.iter().find(|(id, _)| id == server);
            if !now.is_some_and(|(_, now)| now.position.covers(&old.position)) {
                self.held.remove(server);
                self.feed.lose(*server);
            }
        }
        self.known = known.to_vec();
        for (server, known) in known {
            // One that has all that was read before the log begins may begin with it.
            let oldest = self.log.front().map(|logged| logged.number);
            if known.position.covers(self.reader.position()) {
                self.hold(*server, self.feed.reached());
            } else if oldest.is_some_and(|oldest| {
                self.held
                    .get(server)
                    .is_some_and(|held| *held + 1 >= oldest)
            }) {
                self.advance(*server, |logged| logged.gtid.is_in(&known.position));
            }
        }
        let least = self.held.values().min().copied().unwrap_or(0);
        while self
            .log
            .front()
            .is_some_and(|logged| logged.number <= least)
        {
            self.log.pop_front();
        }
    }

    /// The server holds the transactions of the log for which this is true, up to the first other.
    fn advance(&mut self, server: ServerId, has: impl Fn(&Logged) -> bool) {
        let Some(&held) = self.held.get(&server) else {
            return;
        };
        let next = self.log.partition_point(|logged| logged.number <= held);
        // A hole: what was there is not known any more.
        if self
            .log
            .get(next)
            .is_some_and(|logged| logged.number > held + 1)
        {
            return;
        }
        let more = self.log.iter().skip(next).take_while(|logged| has(logged));
        if let Some(last) = more.last() {
            let number = last.number;
            self.hold(server, number);
        }
    }

    fn hold(&mut self, server: ServerId, number: u64) {
        self.held.insert(server, number);
        self.feed.hold(server, number);
    }
}

/// Voids the keys of changed rows; `None` when one cannot be told.
fn void(space: &Space, key: &KeyColumn, rows: &Rows, mut note: impl FnMut(Vec<u8>)) -> Option<()> {
    if !key.fits(&rows.table) {
        return None;
    }
    let forgets = Plant::KeepsChangedRows.is_made();
    for change in rows.changes() {
        let change = change.ok()?;
        let mut last = None;
        for image in [change.before, change.after].into_iter().flatten() {
            let name = key.of(&image)?;
            if last.as_ref() == Some(&name) {
                continue;
            }
            if !(forgets && name.ends_with(b"7")) {
                space.void(&name);
            }
            note(name.clone());
            last = Some(name);
        }
    }
    Some(())
}
