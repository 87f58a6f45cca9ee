//! Gets that the row cache answers, and rows for it.
//!
//! What a store's own clients wrote is a token: until all of it has been read in the group's binlog the
//! cache answers none of their gets. After an answer from the cache the next read has what the primary
//! had then, so that reads of a key do not go back in time. After an answer from a server the cache has that answer, or
//! nothing of its keys from before it: somebody else may have put an older row in meanwhile.
//!
//! Gets that came together are answered by one [`Sight`]: whether the cache may answer is asked once, and only
//! what depends on the key is asked for each key.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use farm::sharding::Placed;
use farm::token::Promise;
use farm::{Group, ServerId, Snapshot, Token};
use routing::Level;
use rowcache::{Facts, Lease, Remembered, Space};
use session::{Core, Internal};

use crate::columns::Columns;
use crate::item::Row;
use crate::op::Item;
use crate::store::{Line, Store, now};

/// An answer from the cache is not older.
const BOUND_US: u64 = 1_000_000;

/// What a line knows of its space.
#[derive(Default)]
pub(crate) struct Recall {
    /// The version of the cache of which this is.
    version: Cell<u64>,
    space: RefCell<Option<Arc<Space>>>,
    /// How many of the store's writings have been read in the binlog.
    covered: Cell<u64>,
    /// The version of what all clients of the door wrote that has been read there.
    client_covered: Cell<u64>,
    /// The cache has answered since the line's reader read last.
    answered: Cell<bool>,
}

/// Rows of a read on their way to the cache.
pub(crate) struct Filling {
    space: Arc<Space>,
    /// `None` where the rows may not be remembered.
    lease: Option<Lease>,
    origin: Instant,
}

/// Since the origin of the farm's snapshots.
fn now_us(origin: Instant) -> u64 {
    u64::try_from(origin.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Filling {
    /// The rows of these keys that this server gave, with their keys as the table has them. What else is remembered of the
    /// keys goes: it may be older than what this read's clients are told.
    pub(crate) fn put(
        &self,
        server: Option<ServerId>,
        columns: &Columns,
        keys: &[&[u8]],
        rows: &[(Vec<u8>, Row)],
    ) {
        let own = rows.iter().map(|(key, _)| key.as_slice());
        let Some(lease) = &self.lease else {
            keys.iter()
                .copied()
                .chain(own)
                .for_each(|key| self.space.forget(key));
            return;
        };
        let put: HashSet<&[u8]> = own.collect();
        let others = keys.iter().filter(|key| !put.contains(**key));
        others.for_each(|key| self.space.forget(key));
        let read_us = now_us(self.origin);
        for (key, row) in rows {
            let facts = Facts {
                flags: row.flags,
                cas: row.fingerprint(),
                expiry: row.expiry,
            };
            let value = columns.layout.joined(&row.parts);
            let row = (key.as_slice(), value.as_slice(), facts);
            self.space.put(lease, server.as_slice(), row, read_us);
        }
    }
}

/// An item of the row cache, as it is there.
pub struct Recalled {
    row: Remembered,
    ttl_s: Option<u64>,
}

impl Recalled {
    /// Its value.
    pub fn value(&self) -> &[u8] {
        self.row.value()
    }

    /// Its flags.
    pub fn flags(&self) -> u32 {
        self.row.facts.flags
    }

    /// Differs whenever a column of the container does.
    pub fn cas(&self) -> u64 {
        self.row.facts.cas
    }

    pub(crate) fn item(self) -> Item {
        Item {
            value: self.value().to_vec(),
            flags: self.flags(),
            cas: self.cas(),
            ttl_s: self.ttl_s,
        }
    }
}

/// What the cache may show at one moment of the rows of one line. It is for gets that had all come by then, and
/// that are answered before anything else happens on the core: whatever is acknowledged later, none of them came
/// behind it.
#[derive(Default)]
pub struct Sight {
    line: Option<Rc<Line>>,
    /// `None` where servers have to answer.
    space: Option<Arc<Space>>,
    hits: u64,
    misses: u64,
}

impl Sight {
    fn of(space: Option<Arc<Space>>) -> Sight {
        Sight {
            line: None,
            space,
            hits: 0,
            misses: 0,
        }
    }

    fn is_of(&self, line: &Rc<Line>) -> bool {
        self.line.as_ref().is_some_and(|it| Rc::ptr_eq(it, line))
    }

    fn row(&mut self, key: &[u8]) -> Option<Remembered> {
        let row = self.space.as_ref()?.look(key);
        match row {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        row
    }
}

impl Drop for Sight {
    fn drop(&mut self) {
        if let Some(space) = &self.space {
            space.counts.looked(self.hits, self.misses);
        }
    }
}

impl Store {
    /// The key's item, if it is remembered and may be shown to who asks now.
    pub(crate) fn recall(&self, key: &[u8]) -> Option<Recalled> {
        self.recall_in(&mut Sight::default(), key)
    }

    /// The same, to one of those who asked together; `sight` is theirs, and a new one at first.
    pub fn recall_in(&self, sight: &mut Sight, key: &[u8]) -> Option<Recalled> {
        if self.declared.cache_bytes == 0 {
            return None;
        }
        let core = self.core.upgrade()?;
        let snapshot = core.glance();
        let line = self.line(&snapshot, key).ok()?;
        if !sight.is_of(&line) {
            *sight = Sight::of(self.shown(&line, &core, &snapshot, None));
            sight.line = Some(line.clone());
        }
        self.recall_from(sight, &line, key)
    }

    /// The same, to somebody with a token.
    pub(crate) fn recall_after(&self, key: &[u8], token: &Token) -> Option<Recalled> {
        if self.declared.cache_bytes == 0 {
            return None;
        }
        let core = self.core.upgrade()?;
        let snapshot = core.glance();
        let line = self.line(&snapshot, key).ok()?;
        let mut sight = Sight::of(self.shown(&line, &core, &snapshot, Some(token)));
        self.recall_from(&mut sight, &line, key)
    }

    fn recall_from(&self, sight: &mut Sight, line: &Line, key: &[u8]) -> Option<Recalled> {
        if line.is_changing(key) || self.may_be_early(key) {
            return None;
        }
        let row = sight.row(key)?;
        let ttl_s = match row.facts.expiry {
            0 => None,
            expiry => Some(
                expiry
                    .checked_sub(now().as_secs())
                    .filter(|&left| left > 0)?,
            ),
        };
        line.recall.answered.set(true);
        Some(Recalled { row, ttl_s })
    }

    /// The line's remembered rows, while they may be shown.
    fn shown(
        &self,
        line: &Line,
        core: &Core,
        snapshot: &Snapshot,
        token: Option<&Token>,
    ) -> Option<Arc<Space>> {
        let group = self.group_of(line, snapshot)?;
        let space = self.space(line, core, group)?;
        let level = self.level(core);
        let bound_us = bound_us(level, core)?;
        let primary = group.primary().filter(|_| !group.paused)?.id;
        let now_us = now_us(snapshot.origin);
        let current = space.feed.answers(primary, now_us, bound_us);
        if !current
            || !self.own_are_read(line, group, &space)
            || !self.all_are_read(line, group, &space, level)
        {
            return None;
        }
        let mut promises = token.iter().flat_map(|token| &token.groups);
        let read = |promise: &Promise| {
            *promise.group != *group.name || space.feed.covers(&promise.position)
        };
        promises.all(read).then_some(space)
    }

    /// Before a read: where its rows go. `reader` is the line's own; another one's rows, as of a read with a token, are not
    /// remembered.
    pub(crate) fn filling(&self, line: &Line, reader: Option<&mut Internal>) -> Option<Filling> {
        if self.declared.cache_bytes == 0 {
            return None;
        }
        let core = self.core.upgrade()?;
        let snapshot = core.snapshot();
        let group = self.group_of(line, &snapshot)?;
        let is_own = reader.is_some();
        if let Some(internal) = reader
            && line.recall.answered.take()
        {
            internal.has_read_primary(group);
        }
        let space = self.space(line, &core, group)?;
        let lease = is_own.then(|| space.begin()).flatten();
        Some(Filling {
            space,
            lease,
            origin: snapshot.origin,
        })
    }

    /// These keys have been written: what is remembered of them is old.
    pub(crate) fn forget<'k>(&self, line: &Line, keys: impl Iterator<Item = &'k [u8]>) {
        if let Some(space) = &*line.recall.space.borrow() {
            keys.for_each(|key| space.void(key));
        }
    }

    /// The group that has all keys of the line, if one has.
    pub(crate) fn group_of<'s>(
        &self,
        line: &Line,
        snapshot: &'s Snapshot,
    ) -> Option<&'s Arc<Group>> {
        if !line.group.is_empty() {
            return snapshot.group(&line.group);
        }
        let Some(sharding) = &snapshot.sharding else {
            return snapshot.home();
        };
        match sharding.placed(&self.declared.database, &self.declared.table) {
            Placed::Home => snapshot.home(),
            Placed::Group(name) => snapshot.group(name),
            Placed::Sharded(_) | Placed::Global(_) => None,
        }
    }

    fn space(&self, line: &Line, core: &Core, group: &Group) -> Option<Arc<Space>> {
        let rows = &core.shared.reads.rows;
        let version = rows.version();
        if line.recall.version.replace(version) != version {
            let found = rows.space(&self.declared, &group.name);
            line.recall.space.replace(found);
        }
        line.recall.space.borrow().clone()
    }

    /// The container's level, or the farm's.
    fn level(&self, core: &Core) -> Level {
        let declared = self.declared.consistency.as_deref();
        let declared = declared.map(|level| Level::named(level.as_bytes()));
        // What this version does not know is asked for at the primary.
        declared.map_or(core.settings().consistency.level, |level| {
            level.unwrap_or(Level::Strong)
        })
    }

    /// At the level client: true when everything that any client of the door wrote, on whichever core or
    /// router, has been read in the group's binlog.
    fn all_are_read(&self, line: &Line, group: &Group, space: &Space, level: Level) -> bool {
        let covered = &line.recall.client_covered;
        if level != Level::Client || covered.get() == self.writes.version() {
            return true;
        }
        let required = self.writes.required(group);
        let sure = required.doubts == 0 && !required.unlogged;
        let read = sure && required.position.is_none_or(|it| space.feed.covers(&it));
        if read {
            covered.set(required.version);
        }
        read
    }

    /// True when everything that the store has written has been read in the group's binlog.
    fn own_are_read(&self, line: &Line, group: &Group, space: &Space) -> bool {
        let writings = self.writings.get();
        if line.recall.covered.get() == writings {
            return true;
        }
        let written = self.written.borrow();
        let read = written.iter().all(|one| one.is_read(group, &space.feed));
        if read {
            line.recall.covered.set(writings);
        }
        read
    }
}

/// How old an answer may be; `None` where only the primary may answer.
fn bound_us(level: Level, core: &Core) -> Option<u64> {
    match level {
        Level::Eventual { .. } => {
            let max_lag_ms = core.settings().consistency.max_lag_ms;
            Some(BOUND_US.min(max_lag_ms.saturating_mul(1000)))
        }
        Level::Session | Level::Client => Some(BOUND_US),
        Level::Strong => None,
    }
}
