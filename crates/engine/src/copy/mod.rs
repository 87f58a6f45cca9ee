//! A consistent copy of one server's data into another one, over SQL alone.
//!
//! Copied are all databases but the systems' own: tables with their rows, sequences, routines, views,
//! triggers, events (disabled, as on every replica), the accounts with all their privileges, and the
//! GTID position of it all, so that the destination can follow the source's primary at once. What the
//! destination held before is lost.
//!
//! Invariants: the source is only read. Rows come from one consistent snapshot; definitions and
//! accounts are read before and after it is taken and must be equal both times, so they are the
//! snapshot's own although no lock is held. Nothing of the copy gets into the destination's binary
//! log. Neither server is touched before its account is known to have every privilege for it: servers leave
//! triggers and events that it may not see out of their lists. A database called [`UNFINISHED`] stands on the destination from the first change to the last,
//! so that a copy that was cut short is recognised.
//!
//! Locks on the source: none on MariaDB; on MySQL `FLUSH TABLES WITH READ LOCK` for the moment in
//! which the snapshot is taken, except while a commit waits for a replica there: nothing else is committed
//! then, and the snapshot needs no lock. Where there are tables without transactions (MyISAM, Aria), the lock
//! is held while these are copied.

mod catalog;
mod destination;
mod rows;
mod snapshot;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farm::Position;

use crate::accounts::needed::Feature;
use crate::accounts::own_privileges::demand;
use crate::error::Error;
use crate::link::{Link, Login};

pub(crate) use catalog::{Column, Form, Program, Schema, bare_schema, columns, schema, schemas};
pub use destination::{Contents, contents, prepare_to_fill, take_position, wipe};
pub(crate) use destination::{make, run_bytes};
pub(crate) use rows::put_row;

/// The database that marks a server whose copy has not ended.
pub const UNFINISHED: &str = "heddle_unfinished_clone";

/// How often a copy begins anew because a table was altered while its rows were read.
const TRIES: u32 = 3;

/// How far a copy is; others read it while it runs.
#[derive(Debug, Default)]
pub struct Progress {
    pub tables: AtomicU64,
    pub tables_done: AtomicU64,
    pub rows: AtomicU64,
    /// Bytes of the statements that were sent, or of the files.
    pub bytes: AtomicU64,
    /// All bytes, where that is known; else 0.
    pub bytes_total: AtomicU64,
    /// The connection of the destination that runs a clone; 0 while there is none.
    pub thread: AtomicU64,
    step: Mutex<String>,
    /// When the first byte could travel, and how long it took until the last one had.
    clock: Mutex<Clock>,
}

/// The time of a transfer.
#[derive(Clone, Copy, Debug, Default)]
struct Clock {
    begun: Option<Instant>,
    took: Option<Duration>,
}

impl Progress {
    /// What is being done, for people.
    pub fn step(&self) -> String {
        let step = self.step.lock().unwrap_or_else(PoisonError::into_inner);
        step.clone()
    }

    /// Says what is being done.
    pub fn enter(&self, step: impl Into<String>) {
        *self.step.lock().unwrap_or_else(PoisonError::into_inner) = step.into();
    }

    /// A transfer begins of so many bytes; 0 when nobody knows.
    pub fn begin_bytes(&self, total: u64) {
        for counter in [&self.tables, &self.tables_done, &self.rows, &self.bytes] {
            counter.store(0, Relaxed);
        }
        self.bytes_total.store(total, Relaxed);
        let begun = Some(Instant::now());
        *self.clock() = Clock { begun, took: None };
    }

    /// The last byte has arrived.
    pub fn end_bytes(&self) {
        let mut clock = self.clock();
        clock.took = clock.begun.map(|begun| begun.elapsed());
    }

    /// All bytes have arrived, also those that nobody has counted yet.
    pub fn complete_bytes(&self) {
        let total = self.bytes_total.load(Relaxed);
        self.bytes.fetch_max(total, Relaxed);
    }

    /// Bytes per second of the transfer under way, or of the last one; `None` before the first.
    pub fn bytes_per_s(&self) -> Option<u64> {
        let clock = *self.clock();
        let took = clock.took.or(clock.begun.map(|begun| begun.elapsed()))?;
        let bytes = u128::from(self.bytes.load(Relaxed));
        let rate = bytes * 1000 / took.as_millis().max(1);
        Some(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    fn clock(&self) -> MutexGuard<'_, Clock> {
        self.clock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, tables: usize) {
        self.begin_bytes(0);
        self.tables.store(tables as u64, Relaxed);
    }
}

/// Copies everything; gives the position that the copy has. The destination must not serve anybody,
/// and the caller has made sure that what it holds may be lost.
///
/// # Errors
/// Whatever a server refuses, with its name. The destination is then of no use until it is copied
/// anew or emptied ([`wipe`]).
pub async fn copy(
    source: &Login,
    destination: &Login,
    progress: &Progress,
    timeout_ms: u64,
) -> Result<Position, Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match copy_once(source, destination, progress, timeout_ms).await {
            Err(error) if tries < TRIES && was_altered(&error) => {
                progress.enter(format!("begins again: {error}"));
            }
            outcome => return outcome,
        }
    }
}

/// ER_TABLE_DEF_CHANGED, ER_NO_SUCH_TABLE, ER_BAD_FIELD, ER_BAD_DB: a table is not what it was when
/// the snapshot was taken.
fn was_altered(error: &Error) -> bool {
    error
        .number()
        .is_some_and(|number| matches!(number, 1412 | 1146 | 1054 | 1049))
}

async fn copy_once(
    source: &Login,
    destination: &Login,
    progress: &Progress,
    timeout_ms: u64,
) -> Result<Position, Error> {
    progress.enter("opens a consistent snapshot");
    let mut target = Link::open_for_rows(destination, timeout_ms).await?;
    demand(&mut target, Feature::Clone, "be filled", timeout_ms).await?;
    let mut snapshot = snapshot::open(source, timeout_ms).await?;
    progress.enter("empties the destination");
    destination::prepare_to_fill(&mut target, timeout_ms).await?;
    destination::make_tables(&mut target, &snapshot.catalog, timeout_ms).await?;
    let tables = snapshot.catalog.tables_in_order();
    progress.begin(tables.len());
    for table in tables {
        if table.transactional {
            snapshot.lock.release(timeout_ms).await?;
        }
        progress.enter(format!("copies {}.{}", table.schema, table.name));
        if table.has_rows {
            rows::copy(&mut snapshot.data, &mut target, table, progress).await?;
        }
        progress.tables_done.fetch_add(1, Relaxed);
    }
    snapshot.lock.release(timeout_ms).await?;
    progress.end_bytes();
    progress.enter("makes routines, views, triggers and events");
    destination::make_programs(&mut target, &snapshot.catalog, timeout_ms).await?;
    progress.enter("copies the accounts");
    destination::put_grants(&mut target, &snapshot.catalog, timeout_ms).await?;
    progress.enter("sets the position");
    destination::finish(&mut target, &snapshot, timeout_ms).await?;
    Ok(snapshot.position)
}

/// Copies the rows of one table into the same table of another server, where it must be empty. Unlike
/// those of a whole copy, these are logged there, so that its replicas get them.
///
/// # Errors
/// Whatever a server refuses, with its name; what was copied stays.
pub async fn copy_table(
    source: &Login,
    destination: &Login,
    database: &str,
    table: &str,
    timeout_ms: u64,
) -> Result<(), Error> {
    const OPERATION: &str = "copy a table";
    const READING: &str = "SET NAMES utf8mb4, SESSION time_zone='+00:00', \
                           character_set_results=NULL, SESSION net_write_timeout=3600";
    const WRITING: &str = "SET NAMES utf8mb4; SET SESSION time_zone='+00:00', foreign_key_checks=0, \
                           sql_mode='NO_AUTO_VALUE_ON_ZERO'";
    let mut from = Link::open_for_rows(source, timeout_ms).await?;
    let mut to = Link::open_for_rows(destination, timeout_ms).await?;
    from.run(OPERATION, READING, timeout_ms).await?;
    to.run(OPERATION, WRITING, timeout_ms).await?;
    let schema = catalog::schema(&mut from, database.to_owned(), Some(table), timeout_ms).await?;
    let Some(table) = schema.tables.iter().find(|one| one.name == table) else {
        return Err(Error::Reply {
            operation: OPERATION,
            server: from.address().to_owned(),
            what: format!("it has no table {database}.{table}"),
        });
    };
    rows::copy(&mut from, &mut to, table, &Progress::default()).await
}
