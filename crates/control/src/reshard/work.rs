//! The long works of a move: looking, copying, following, and deleting.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::definitions::Extent;
use engine::heartbeat;
use engine::part::{self, Ferry, Key, PartTable};
use farm::Position;
use faults::Stage;

use super::feed::Feed;
use super::run::{Crew, Leads, Trouble};
use super::verify::lost;
use crate::reshard::Resharding;
use catalog::record::{Declared, MoveRecord};

/// Rows that are copied at once, at most; fewer where they are long.
const PIECE_ROWS: u64 = 2000;
const PIECE_BYTES: u64 = 4 << 20;

/// Rows of a stretch in which those that moved are deleted.
const STRETCH_ROWS: u64 = 2000;

/// How often progress is recorded.
const NOTE: Duration = Duration::from_millis(1000);

/// Prepared branches end within so long, or recovery ends them.
const BRANCHES: Duration = Duration::from_secs(30);

/// Statements that were on their way when a move was told have reached their servers.
const SETTLED: Duration = Duration::from_millis(1000);

/// What writes the heartbeats of moves.
pub(super) const HEARTBEAT: &str = "move";

/// The target follows so closely that clients may be asked to wait for the rest.
const CLOSE: Duration = Duration::from_millis(300);

impl Resharding {
    /// Looks at the tables, makes what the target lacks, and notes where the source's log is.
    pub(super) async fn prepare_move(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        *crew = Crew::default();
        let record = self.moved(job)?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut source = self.sharding.ask_group(&record.from).await?;
        if let Some(why) = part::log_objection(&mut source, timeout_ms).await? {
            return Err(Trouble::Stuck(format!("group {}: {why}", record.from)));
        }
        self.make_alike(&record).await?;
        let tables = self.part_tables(&record).await?;
        if record.began {
            self.delete_part(&record, &record.to, &tables).await?;
        }
        let mut target = self.sharding.ask_group(&record.to).await?;
        PartTable::prepare_to_delete(&mut target, timeout_ms).await?;
        for table in &tables {
            if table.has_rows(&mut target).await? {
                return Err(Trouble::Stuck(format!(
                    "group {} has rows already that would come to {}.{}; `sharding prune_shard {}.{}` \
                     deletes those that no statement looks for, or empty the table there",
                    record.to, table.database, table.name, table.database, table.name
                )));
            }
            let triggers = table.triggers(&mut target, timeout_ms).await?;
            match (triggers.is_empty(), record.fresh) {
                (true, _) => {}
                // They come back before anybody writes there.
                (false, true) => table.drop_triggers(&mut target, timeout_ms).await?,
                (false, false) => {
                    return Err(Trouble::Stuck(format!(
                        "{}.{} has triggers ({}), which would do their work again for every row that \
                         comes to group {}: move to a group that has no part of the map, or drop them \
                         for the move",
                        table.database,
                        table.name,
                        triggers.join(", "),
                        record.to
                    )));
                }
            }
        }
        let position = heartbeat::position(&mut source, timeout_ms).await?;
        // What was committed before the position is visible when a later commit has ended.
        heartbeat::write(&mut source, HEARTBEAT, timeout_ms).await?;
        let before = part::prepared_now(&mut source, timeout_ms).await?;
        self.await_branches(&mut source, |now| before.is_disjoint(now), &record.from)
            .await?;
        let position = position.to_string();
        let lead = &self.context.leadership.must_lead()?;
        self.change_move(lead, job, |record| {
            record.position.clone_from(&position);
            (record.table, record.rows, record.bytes) = (0, 0, 0);
            record.behind = Vec::new();
        })
        .await?;
        Ok(())
    }

    /// The target gets the definitions of the map's databases.
    pub(super) async fn make_alike(&self, record: &MoveRecord) -> Result<(), Trouble> {
        let mut declared: Declared = self.context.state().records.declared.clone();
        for (id, shard) in &record.puts {
            declared.shards.insert(*id, shard.clone());
        }
        let map = declared.map(record.map);
        let map = map.ok_or_else(|| Trouble::Stuck(format!("there is no map {}", record.map)))?;
        let whole: BTreeSet<String> = record
            .tables
            .iter()
            .map(|table| table.database.clone())
            .collect();
        let lead = &self.context.leadership.must_lead()?;
        match self
            .sharding
            .spread(lead, &map, &Extent::Databases(whole))
            .await
        {
            Err(catalog::command::CommandError::Refused(why)) => Err(Trouble::Stuck(why)),
            other => Ok(other?),
        }
    }

    /// True when tables of a move have triggers at the source.
    pub(super) async fn have_triggers(&self, record: &MoveRecord) -> Result<bool, Trouble> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut source = self.sharding.ask_group(&record.from).await?;
        for table in self.part_tables(record).await? {
            if !table.triggers(&mut source, timeout_ms).await?.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads how the tables of a move are made.
    pub(super) async fn part_tables(
        &self,
        record: &MoveRecord,
    ) -> Result<Vec<Arc<PartTable>>, Trouble> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut source = self.sharding.ask_group(&record.from).await?;
        let declared = self.context.state().records.declared.clone();
        let on_map = |database: &str, table: &str| {
            let name = (database.to_owned(), table.to_owned());
            declared
                .tables
                .get(&name)
                .is_some_and(|it| it.map == record.map)
        };
        let (mut tables, mut wrong) = (Vec::new(), Vec::new());
        for it in &record.tables {
            let (table, objections) =
                PartTable::read(&mut source, &it.database, &it.table, &it.only, timeout_ms).await?;
            wrong.extend(objections);
            for (database, name) in table.named_by(&mut source, timeout_ms).await? {
                if !on_map(&database, &name) {
                    wrong.push(format!(
                        "{}.{} has a foreign key to {database}.{name}, which is not on map {}: declare \
                         it, or drop the key",
                        it.database, it.table, record.map
                    ));
                }
            }
            for cascade in &table.cascades {
                if !on_map(&cascade.database, &cascade.table) {
                    wrong.push(format!(
                        "{}.{} follows {}.{} by a foreign key and is not on map {}: declare it, or drop \
                         the key",
                        cascade.database, cascade.table, it.database, it.table, record.map
                    ));
                }
            }
            tables.push(Arc::new(table));
        }
        match wrong.is_empty() {
            true => Ok(tables),
            false => Err(Trouble::Stuck(wrong.join("; "))),
        }
    }

    /// Waits until the prepared branches of a group are as wanted.
    pub(super) async fn await_branches(
        &self,
        link: &mut engine::Link,
        fine: impl Fn(&BTreeSet<Vec<u8>>) -> bool,
        group: &str,
    ) -> Result<(), Trouble> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let began = Instant::now();
        while !fine(&part::prepared_now(link, timeout_ms).await?) {
            if began.elapsed() > BRANCHES {
                return Err(Trouble::Failed(format!(
                    "group {group} has prepared transactions that do not end: `transaction list`, and \
                     XA RECOVER there"
                )));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Connects to both sides and reads the tables, where that is not done.
    pub(super) async fn equip(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        let record = self.moved(job)?;
        if crew.ferry.is_none() {
            crew.primaries = Some(self.leading(&record)?);
            let (from, to) = (
                self.sharding.login_of(&record.from)?,
                self.sharding.login_of(&record.to)?,
            );
            let timeout_ms = self.context.settings().step_timeout_ms;
            crew.ferry = Some(Ferry::open(&from, &to, timeout_ms).await?);
        }
        if crew.tables.is_empty() {
            crew.tables = self.part_tables(&record).await?;
            crew.feed = None;
        }
        Ok(())
    }

    /// The primaries of both sides, which nobody is exchanging.
    fn leading(&self, record: &MoveRecord) -> Result<[Leads; 2], Trouble> {
        let snapshot = self.context.snapshot_now();
        let leads = |name: &str| {
            let group = snapshot.group(name).filter(|group| !group.paused)?;
            let primary = group.primary()?;
            Some((primary.id, primary.term, group.timeline()))
        };
        let none =
            |name: &str| Trouble::Failed(format!("the primary of group {name} is exchanged"));
        let of = |name: &str| leads(name).ok_or_else(|| none(name));
        Ok([of(&record.from)?, of(&record.to)?])
    }

    /// Checks that the connections still go to the primaries. What another server says is not what the group has: such
    /// connections are given up, and everything that was compared on them counts for nothing.
    pub(super) fn still_leading(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        let record = self.moved(job)?;
        let leading = self.leading(&record);
        if leading.as_ref().ok() == crew.primaries.as_ref() {
            return Ok(());
        }
        (crew.ferry, crew.feed) = (None, None);
        crew.hot.clear();
        leading?;
        Err(Trouble::Failed(
            "a group has another primary since both sides were connected to".to_owned(),
        ))
    }

    /// Copies all rows of the part, from where the record says.
    pub(super) async fn copy_part(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        crew.ferry = None;
        self.equip(job, crew).await?;
        let record = self.moved(job)?;
        if !record.fresh {
            // What began to read there before it was said that rows come.
            tokio::time::sleep(SETTLED).await;
        }
        let (mut at, mut behind) = (record.table, record.behind);
        let (mut rows, mut bytes) = (record.rows, record.bytes);
        let (mut limit, mut noted) = (PIECE_ROWS / 4, Instant::now());
        while let Some(table) = crew.tables.get(at).cloned() {
            let ferry = crew.ferry.as_mut().ok_or_else(lost)?;
            let from = (!behind.is_empty()).then_some(&behind);
            let piece = ferry.copy(&table, from, limit).await?;
            (rows, bytes) = (rows + piece.rows, bytes + piece.bytes);
            if let Some(each) = piece.bytes.checked_div(piece.rows) {
                limit = (PIECE_BYTES / each.max(1)).clamp(1, PIECE_ROWS);
            }
            Stage::Copies.pass();
            let ended = piece.last.is_none();
            match piece.last {
                Some(key) => behind = key,
                None => (at, behind) = (at + 1, Key::new()),
            }
            if ended || noted.elapsed() > NOTE {
                noted = Instant::now();
                let lead = &self.context.leadership.must_lead()?;
                self.change_move(lead, job, |record| {
                    (record.table, record.rows, record.bytes) = (at, rows, bytes);
                    record.behind.clone_from(&behind);
                })
                .await?;
            }
        }
        Ok(())
    }

    /// Brings what changed, until the target is close behind.
    pub(super) async fn follow_part(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        (crew.ferry, crew.feed) = (None, None);
        loop {
            let began = Instant::now();
            if self.catch_up(job, crew, Duration::from_secs(5)).await? && began.elapsed() < CLOSE {
                return Ok(());
            }
        }
    }

    /// Reads the source's log up to now and brings what it says; false when there is more than could be
    /// read in so long.
    pub(super) async fn catch_up(
        &self,
        job: &str,
        crew: &mut Crew,
        limit: Duration,
    ) -> Result<bool, Trouble> {
        self.equip(job, crew).await?;
        self.still_leading(job, crew)?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        if crew.feed.is_none() {
            let record = self.moved(job)?;
            let login = self.sharding.login_of(&record.from)?;
            let ferry = crew.ferry.as_ref().ok_or_else(lost)?;
            let engine = ferry.from.version().engine;
            let feed = Feed::open(&login, engine, &record.position, &crew.tables, timeout_ms);
            crew.feed = Some(feed.await?);
        }
        let (ferry, feed) = (crew.ferry.as_mut(), crew.feed.as_mut());
        let (ferry, feed) = ferry.zip(feed).ok_or_else(lost)?;
        let until = heartbeat::write(&mut ferry.from, HEARTBEAT, timeout_ms).await?;
        let end = Instant::now() + limit;
        loop {
            feed.read(&until, end.saturating_duration_since(Instant::now()))
                .await?;
            let done = feed.has_read(&until);
            if feed.waiting() > 0 {
                self.make_visible(ferry, timeout_ms).await?;
                feed.bring(ferry).await?;
            }
            if done || Instant::now() >= end {
                self.note_position(job, feed.safe(), done).await?;
                return Ok(done);
            }
        }
    }

    /// What the log has told may be visible a moment later only: behind a commit of our own it is.
    async fn make_visible(&self, ferry: &mut Ferry, timeout_ms: u64) -> Result<Position, Trouble> {
        Ok(heartbeat::write(&mut ferry.from, HEARTBEAT, timeout_ms).await?)
    }

    /// Records the position, now and then.
    async fn note_position(&self, job: &str, safe: String, soon: bool) -> Result<(), Trouble> {
        let record = self.moved(job)?;
        // Each record is a write of the store, and the cut must not wait for it.
        if !record.holds() && (soon || record.position != safe) {
            let lead = &self.context.leadership.must_lead()?;
            self.change_move(lead, job, |record| record.position.clone_from(&safe))
                .await?;
        }
        Ok(())
    }

    /// Deletes the part's rows at the source.
    pub(super) async fn prune_part(&self, job: &str) -> Result<(), Trouble> {
        let record = self.moved(job)?;
        let tables = self.part_tables(&record).await?;
        let declared = self.context.state().records.declared.clone();
        let used = declared.map(record.map).is_some_and(|map| {
            let mapped = farm::sharding::Mapped::new(map);
            mapped.groups.iter().any(|group| **group == *record.from)
        });
        let moved = tables.iter().zip(&record.tables);
        let gone: Vec<Arc<PartTable>> = moved
            .filter(|(_, it)| !(it.global && used))
            .map(|(table, _)| Arc::clone(table))
            .collect();
        self.delete_part(&record, &record.from, &gone).await
    }

    /// Takes back what was begun at the target.
    pub(super) async fn clean_part(&self, job: &str) -> Result<(), Trouble> {
        let record = self.moved(job)?;
        if !record.began {
            return Ok(());
        }
        let tables = self.part_tables(&record).await?;
        self.delete_part(&record, &record.to, &tables).await?;
        // Its triggers were taken away for the move; nobody misses them before the next one.
        Ok(())
    }

    /// Deletes the part's rows on a group, a stretch at a time.
    async fn delete_part(
        &self,
        record: &MoveRecord,
        group: &str,
        tables: &[Arc<PartTable>],
    ) -> Result<(), Trouble> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self.sharding.ask_group(group).await?;
        PartTable::prepare_to_delete(&mut link, timeout_ms).await?;
        for table in tables {
            let mut behind: Option<Key> = None;
            loop {
                let deleted = table.delete(&mut link, behind.as_ref(), STRETCH_ROWS).await;
                let (_, end) = deleted?;
                Stage::Prunes.pass();
                match end {
                    Some(key) => behind = Some(key),
                    None => break,
                }
                tokio::task::yield_now().await;
            }
        }
        tracing::debug!(map = record.map, group, "rows of a move were deleted");
        Ok(())
    }
}
