//! Point SELECTs that the row cache vouches for (`heddle_row_cache`).
//!
//! The reply to a SELECT of one row by an integer key of a container with a row cache is kept beside the
//! replies of the result cache, with a voucher: it is given again while nothing has changed the row. So
//! it may only be one that no other key's row could have changed, and that says nothing but what stands
//! in the row. Sessions with a transaction, a pin, or the level `strong` get none.

use std::sync::Arc;

use farm::rowcache::{Lease, Space, Voucher};
use farm::{Group, ServerId};
use routing::{LastRead, Level};
use sqltext::Class;

use crate::cache::{Entry, Key};
use crate::consistency::bound_us;
use crate::counters::count;
use crate::end::End;
use crate::exec::Shape;
use crate::session::{Session, is_free};

/// An answer is not older.
const BOUND_US: u64 = 1_000_000;

/// A point SELECT whose reply may be kept.
pub(crate) struct Point {
    space: Arc<Space>,
    key: Box<[u8]>,
    lease: Lease,
}

/// What makes a kept reply good.
pub(crate) struct Vouched {
    space: Arc<Space>,
    key: Box<[u8]>,
    voucher: Voucher,
}

impl Vouched {
    /// The reply may be given.
    pub fn is_good(&self) -> bool {
        self.space.is_good(&self.key, &self.voucher)
    }

    /// The row is as it was, though it may be too early to say so to everybody.
    pub fn is_unchanged(&self) -> bool {
        self.space.is_unchanged(&self.key, &self.voucher)
    }
}

impl Session {
    /// Before a text is run: answers it if it can be, or has its reply kept. True when it was answered.
    pub(crate) async fn answer_by_row(&mut self, shape: &Shape) -> Result<bool, End> {
        self.point = None;
        let snapshot = self.core.shared.published.load_full();
        let Some(group) = self.group(&snapshot) else {
            return Ok(false);
        };
        let Some((space, key)) = self.point_of(shape, group) else {
            return Ok(false);
        };
        let cache_key = self.cache_key();
        if self.may_recall(shape, group, &space)
            && let Some((reply, outcome)) = self.core.cache.vouched(&cache_key)
        {
            if let Some(primary) = group.primary() {
                let (server, ended_us) = (primary.id, self.core.now_us());
                self.promises.seen.last_read = Some(LastRead { server, ended_us });
                self.promises.recalled_us = ended_us;
            }
            self.answer_kept(shape, &reply, &outcome).await?;
            return Ok(true);
        }
        count(&self.core.counters.cache_misses);
        if let Some(lease) = space.begin() {
            self.recording = Some(Vec::new());
            self.point = Some(Box::new(Point { space, key, lease }));
        }
        Ok(false)
    }

    /// The space and the key of a point SELECT.
    fn point_of(&self, shape: &Shape, group: &Group) -> Option<(Arc<Space>, Box<[u8]>)> {
        let plain = shape.hint.is_none() && !shape.shard_hint && self.ruled.is_none();
        let alone = self.held.is_none() && self.crossing.is_none() && is_free(self.status);
        let alone = alone && plain;
        if shape.class != Class::Read || !alone || self.client.is_split() || self.client.has_more()
        {
            return None;
        }
        let snapshot = self.core.shared.published.load();
        if snapshot.rows.version() == 0 {
            return None;
        }
        let text = &self.client.payload()[1..];
        let point = sqltext::point(text, &self.mode)?;
        let database = point
            .database
            .as_deref()
            .or_else(|| self.state.database())?;
        let spaces = snapshot.rows.spaces();
        let space = spaces.iter().find(|space| {
            let container = &space.container;
            *space.group == *group.name
                && container.table.as_bytes() == point.table
                && container.database.as_bytes() == database
                && container.key.as_bytes().eq_ignore_ascii_case(&point.column)
                && space.is_by_integer()
        })?;
        Some((space.clone(), point.number.into()))
    }

    /// The session may be answered with what has been read of the group's binlog.
    fn may_recall(&self, shape: &Shape, group: &Group, space: &Space) -> bool {
        let bound = match self.level_of(shape) {
            Level::Strong => return false,
            Level::Session => BOUND_US,
            Level::Eventual { max_lag_us: None } => {
                bound_us(self.promises.max_lag_ms).map_or(BOUND_US, |us| us.min(BOUND_US))
            }
            Level::Eventual {
                max_lag_us: Some(us),
            } => us.min(BOUND_US),
        };
        let Some(primary) = group.primary().filter(|_| !group.paused) else {
            return false;
        };
        let (feed, promises) = (&space.feed, &self.promises);
        let seen = &promises.seen;
        // What was read elsewhere may be newer than what has been read of the binlog.
        let read = seen
            .last_read
            .filter(|read| promises.monotonic && read.ended_us != promises.recalled_us);
        let to_primary = self.core.settings().reads.master_on_write && promises.wrote();
        if to_primary || seen.unproved || seen.unlogged {
            return false;
        }
        feed.answers(primary.id, self.core.now_us(), bound)
            && seen.floor.as_deref().is_none_or(|floor| feed.covers(floor))
            && read.is_none_or(|read| feed.has_read_until(read.ended_us))
    }

    /// After a complete reply that is worth keeping: keeps it if the row cache vouches for it.
    pub(crate) fn keep_point(&self, point: Point, server: ServerId, key: Key, mut entry: Entry) {
        let now_us = self.core.now_us();
        let Point {
            space,
            key: row,
            lease,
        } = point;
        let Some(voucher) = space.vouch(&lease, server, &row, now_us) else {
            return;
        };
        let vouched = Vouched {
            space,
            key: row,
            voucher,
        };
        let bytes_max = self.core.settings().cache_bytes_max / self.core.shared.counters.len();
        entry.vouched = Some(vouched);
        self.core.cache.put_vouched(key, entry, bytes_max);
    }
}
