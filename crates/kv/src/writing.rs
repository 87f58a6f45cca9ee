//! Changes of many clients as few statements and one commit.
//!
//! Sets that ask for nothing are one INSERT; where the table refuses it, one of each half, until what it refuses is
//! alone. All others are a transaction: their rows are read and locked, each command is carried out on what is there
//! then, and what came of it is written. When a table refuses that, it is done command by command. So only the command
//! that the table refuses fails.

use session::{Internal, Lost};
use sqltext::{KeyedMap, KeyedSet};

use crate::change::{Moment, Next, apply, fresh};
use crate::columns::{Alike, Columns};
use crate::item::Row;
use crate::op::{Change, Op, Outcome, Refusal};
use crate::reading::{Refused, Rows, assign, one_line, run, select};

/// A batch that others disturb is tried so often.
const TRIES: u32 = 4;

mod errno {
    pub const NO_DEFAULT: u16 = 1364;
    pub const DUPLICATE: u16 = 1062;
    pub const LOCK_WAIT: u16 = 1205;
    pub const DEADLOCK: u16 = 1213;
    pub const MOVED_ROWS: u16 = 1020;
    /// NOT NULL, unique, CHECK and foreign keys; and another unique key than the container's.
    pub const CONSTRAINTS: [u16; 12] = [
        1048, DUPLICATE, 1169, 1216, 1217, 1242, NO_DEFAULT, 1451, 1452, 1586, 3819, 4025,
    ];
    /// The column cannot hold the value.
    pub const VALUES: [u16; 9] = [1264, 1265, 1292, 1300, 1366, 1406, 3140, 3988, 4078];
}

/// Commands in the order in which they came, and where each one's outcome goes.
pub(crate) struct Batch<'b> {
    pub columns: &'b Columns,
    pub ops: Vec<&'b Op>,
    pub moment: Moment,
}

impl Batch<'_> {
    /// Carries all of them out, each as if it were alone.
    ///
    /// # Errors
    /// The internal session is lost: what was under way may or may not have happened.
    pub async fn carry_out(&self, internal: &mut Internal) -> Result<Vec<Outcome>, Lost> {
        let mut outcomes: Vec<Option<Outcome>> =
            self.ops.iter().map(|op| self.reject(op)).collect();
        let open: Vec<usize> = (0..self.ops.len())
            .filter(|&at| outcomes[at].is_none())
            .collect();
        if self.all_sets(&open) {
            self.set_all(internal, &open, &mut outcomes).await?;
            return Ok(outcomes.into_iter().map(known).collect());
        }
        let at_once = match self.told_apart(&open) {
            true => self.transact(internal, &open).await?,
            false => None,
        };
        match at_once {
            Some(done) => {
                for (at, outcome) in open.into_iter().zip(done) {
                    outcomes[at] = Some(outcome);
                }
            }
            None => {
                for at in open {
                    outcomes[at] = Some(self.alone(internal, at).await?);
                }
            }
        }
        Ok(outcomes.into_iter().map(known).collect())
    }

    /// The answer to a command that no row can satisfy.
    fn reject(&self, op: &Op) -> Option<Outcome> {
        let Err(why) = self.columns.check_key(&op.key) else {
            return None;
        };
        Some(match op.change.plain() {
            Change::Get | Change::Read | Change::GetAndTouch(_) => Outcome::Miss,
            Change::Delete { .. } | Change::Touch(_) => Outcome::NotFound,
            Change::Count { initial: None, .. } => Outcome::NotFound,
            Change::Count { .. }
            | Change::Store { .. }
            | Change::Write { .. }
            | Change::Stamped { .. } => Outcome::Refused(Refusal::client(why)),
        })
    }

    fn all_sets(&self, ats: &[usize]) -> bool {
        ats.iter().all(|&at| self.ops[at].change.is_plain_set())
    }

    /// No two different keys can be one row's.
    fn told_apart(&self, ats: &[usize]) -> bool {
        let keys: KeyedSet<&[u8]> = ats.iter().map(|&at| &*self.ops[at].key).collect();
        match self.columns.alike {
            _ if keys.len() <= 1 => true,
            Alike::Bytes => true,
            Alike::Collation => false,
            Alike::NoCase => {
                let folded: KeyedSet<Vec<u8>> =
                    keys.iter().map(|key| key.to_ascii_lowercase()).collect();
                folded.len() == keys.len() && keys.iter().all(|key| key.is_ascii())
            }
        }
    }

    /// Plain sets in their order, as few INSERTs as the table lets be.
    async fn set_all(
        &self,
        internal: &mut Internal,
        ats: &[usize],
        outcomes: &mut [Option<Outcome>],
    ) -> Result<(), Lost> {
        let mut left = vec![ats];
        while let Some(ats) = left.pop() {
            if ats.is_empty() {
                continue;
            }
            match self.set(internal, ats).await? {
                Sets::Stored(done) => {
                    for (&at, outcome) in ats.iter().zip(done) {
                        outcomes[at] = Some(outcome);
                    }
                }
                Sets::Refused if ats.len() > 1 => {
                    let (first, second) = ats.split_at(ats.len() / 2);
                    left.extend([second, first]);
                }
                Sets::Refused | Sets::Disturbed => {
                    for &at in ats {
                        outcomes[at] = Some(self.alone(internal, at).await?);
                    }
                }
            }
        }
        Ok(())
    }

    /// One INSERT.
    async fn set(&self, internal: &mut Internal, ats: &[usize]) -> Result<Sets, Lost> {
        let mut rows: Vec<Row> = Vec::with_capacity(ats.len());
        for &at in ats {
            let Some(row) = self.row_of(&self.ops[at].change) else {
                return Ok(Sets::Refused);
            };
            rows.push(row);
        }
        // Of several values for one key the last one stays.
        let last: KeyedMap<&[u8], usize> = ats
            .iter()
            .enumerate()
            .map(|(place, &at)| (&*self.ops[at].key, place))
            .collect();
        let stays = |place: &usize| last.get(&*self.ops[ats[*place]].key) == Some(place);
        let pairs = (0..ats.len())
            .filter(stays)
            .map(|place| (&*self.ops[ats[place]].key, &rows[place]));
        let text = self.columns.insert(pairs, true);
        for _ in 0..TRIES {
            match run(internal, &text).await? {
                Ok(()) => {
                    let stored = |row: &Row| Outcome::Stored {
                        cas: row.fingerprint(),
                    };
                    return Ok(Sets::Stored(rows.iter().map(stored).collect()));
                }
                Err(refused) if is_disturbed(&refused) => {}
                Err(_) => return Ok(Sets::Refused),
            }
        }
        Ok(Sets::Disturbed)
    }

    /// The row that a plain set stores, if the columns can have it.
    fn row_of(&self, change: &Change) -> Option<Row> {
        let Change::Store {
            value,
            flags,
            expiry,
            ..
        } = change
        else {
            return None;
        };
        let row = fresh(value, *flags, *expiry, &self.columns.layout, self.moment).ok()?;
        self.columns.check_row(&row).is_ok().then_some(row)
    }

    async fn alone(&self, internal: &mut Internal, at: usize) -> Result<Outcome, Lost> {
        let mut tries = TRIES;
        loop {
            tries -= 1;
            match self.attempt(internal, &[at]).await? {
                Ok(mut outcomes) => {
                    return Ok(outcomes.pop().unwrap_or(Outcome::NotFound));
                }
                Err(refused) if is_disturbed(&refused) && tries > 0 => {}
                Err(refused) => return Ok(outcome_of(&self.ops[at].change, &refused)),
            }
        }
    }

    /// One transaction; `None` when they have to be done one by one.
    async fn transact(
        &self,
        internal: &mut Internal,
        ats: &[usize],
    ) -> Result<Option<Vec<Outcome>>, Lost> {
        for _ in 0..TRIES {
            match self.attempt(internal, ats).await? {
                Ok(outcomes) => return Ok(Some(outcomes)),
                Err(refused) if is_disturbed(&refused) => {}
                Err(_) => break,
            }
        }
        Ok(None)
    }

    async fn attempt(
        &self,
        internal: &mut Internal,
        ats: &[usize],
    ) -> Result<Result<Vec<Outcome>, Refused>, Lost> {
        if let Err(refused) = run(internal, b"BEGIN").await? {
            return Ok(Err(refused));
        }
        let done = self.within(internal, ats).await?;
        let end: &[u8] = if done.is_ok() { b"COMMIT" } else { b"ROLLBACK" };
        let ended = run(internal, end).await?;
        Ok(match (done, ended) {
            (Ok(outcomes), Ok(())) => Ok(outcomes),
            (Ok(_), Err(refused)) | (Err(refused), _) => Err(refused),
        })
    }

    async fn within(
        &self,
        internal: &mut Internal,
        ats: &[usize],
    ) -> Result<Result<Vec<Outcome>, Refused>, Lost> {
        let mut keys: Vec<&[u8]> = ats.iter().map(|&at| &*self.ops[at].key).collect();
        // One order for all, so that two batches wait for each other at most once.
        keys.sort_unstable();
        keys.dedup();
        let found = match select(internal, self.columns, &keys, true).await? {
            Ok(found) => found,
            Err(refused) => return Ok(Err(refused)),
        };
        let mut before = Rows::default();
        // Keys are told apart by now: none is left open.
        assign(self.columns.alike, &keys, found, &mut before);
        let mut after: KeyedMap<&[u8], Option<Row>> = KeyedMap::default();
        let mut outcomes = Vec::with_capacity(ats.len());
        for &at in ats {
            let op = self.ops[at];
            let now = match after.get(&*op.key) {
                Some(changed) => changed.as_ref(),
                None => before.get(&op.key),
            };
            let (outcome, next) = apply(&op.change, now, &self.columns.layout, self.moment);
            let (outcome, next) = match next {
                Next::Put(row) => match self.columns.check_row(&row) {
                    Ok(()) => (outcome, Next::Put(row)),
                    Err(why) => (Outcome::Refused(Refusal::client(why)), Next::Keep),
                },
                other => (outcome, other),
            };
            match next {
                Next::Keep => {}
                Next::Put(row) => drop(after.insert(&op.key, Some(row))),
                Next::Remove => drop(after.insert(&op.key, None)),
            }
            outcomes.push(outcome);
        }
        let written = self.write(internal, &before, &after).await?;
        Ok(written.map(|()| outcomes))
    }

    /// Makes the rows what they have become.
    async fn write(
        &self,
        internal: &mut Internal,
        before: &Rows,
        after: &KeyedMap<&[u8], Option<Row>>,
    ) -> Result<Result<(), Refused>, Lost> {
        let (mut inserted, mut updated, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for (&key, row) in after {
            match (before.get(key), row) {
                (None, Some(row)) => inserted.push((key, row)),
                (Some(old), Some(row)) if old != row => updated.push((key, row)),
                (Some(_), None) => removed.push(key),
                _ => {}
            }
        }
        if !removed.is_empty() {
            let text = self.columns.delete(removed.into_iter());
            if let Err(refused) = run(internal, &text).await? {
                return Ok(Err(refused));
            }
        }
        if !inserted.is_empty() {
            let text = self.columns.insert(inserted.into_iter(), false);
            if let Err(refused) = run(internal, &text).await? {
                return Ok(Err(refused));
            }
        }
        if updated.is_empty() {
            return Ok(Ok(()));
        }
        let text = self.columns.insert(updated.iter().copied(), true);
        match run(internal, &text).await? {
            // Columns that the container does not have need values where a row is inserted, only.
            Err(refused) if refused.number == errno::NO_DEFAULT => {}
            done => return Ok(done),
        }
        for (key, row) in updated {
            if let Err(refused) = run(internal, &self.columns.update(key, row)).await? {
                return Ok(Err(refused));
            }
        }
        Ok(Ok(()))
    }
}

/// What became of plain sets that were one INSERT.
enum Sets {
    Stored(Vec<Outcome>),
    /// The table cannot store one of them, or more.
    Refused,
    /// Others hold one of their rows: to try parts of them takes long each time.
    Disturbed,
}

fn known(outcome: Option<Outcome>) -> Outcome {
    outcome.unwrap_or_else(|| Outcome::Refused(Refusal::server("no outcome")))
}

/// Others changed the rows at the same time: it may go better another time. A key that was inserted
/// since it was read is such a case, too; where it is another unique key, the tries run out.
fn is_disturbed(refused: &Refused) -> bool {
    let numbers = [
        errno::DEADLOCK,
        errno::LOCK_WAIT,
        errno::MOVED_ROWS,
        errno::DUPLICATE,
    ];
    numbers.contains(&refused.number)
}

/// What the client of a command hears that its table refuses.
fn outcome_of(change: &Change, refused: &Refused) -> Outcome {
    let stores = matches!(
        change.plain(),
        Change::Store { .. } | Change::Write { .. } | Change::Count { .. }
    );
    if stores && errno::CONSTRAINTS.contains(&refused.number) {
        return Outcome::NotStored;
    }
    if errno::VALUES.contains(&refused.number) {
        return Outcome::Refused(Refusal::client(one_line(&refused.message)));
    }
    Outcome::Refused(refused.for_client())
}
