//! A follower's snapshot: what is told of it, and when.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use changes::Parts;
use engine::chunk::{Unreadable, made};

use super::{ENDED, Follower, Trouble, lost};
use crate::change_stream::outlet::Left;
use crate::change_stream::reading::{Done, Reading, name_of};
use crate::change_stream::source::Primary;

impl From<Unreadable> for Trouble {
    fn from(unreadable: Unreadable) -> Trouble {
        match unreadable {
            Unreadable::Server(error) if error.number().is_some_and(|it| !is_passing(it)) => {
                Trouble::Broken("error", error.to_string())
            }
            Unreadable::Server(error) => Trouble::Server(error),
            Unreadable::Table(text) => Trouble::Broken("error", text),
            Unreadable::Changed => Trouble::Broken("error", "a table has changed".to_owned()),
        }
    }
}

/// Of a server that cannot do it now: ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK, ER_QUERY_INTERRUPTED,
/// ER_STATEMENT_TIMEOUT, ER_QUERY_TIMEOUT, ER_SERVER_SHUTDOWN.
fn is_passing(number: u16) -> bool {
    matches!(number, 1205 | 1213 | 1317 | 1969 | 3024 | 1053)
}

impl Follower {
    /// Looks at how the tables are made, where nothing of them was read.
    pub(super) async fn look_at_tables(&mut self, primary: &Primary) -> Result<(), Trouble> {
        let reading = self.reading.as_ref();
        if reading.is_some_and(|it| it.unread().from.is_none()) {
            let wanted = &self.wanted;
            let is_wanted = |database: &str, table: &str| wanted.has(database, table);
            self.made = made(&primary.login, is_wanted, self.source.timeout_ms()).await?;
        }
        Ok(())
    }

    /// Tells how the tables are made, in front of everything else.
    pub(super) async fn tell_tables(&mut self) -> Result<(), Left> {
        let (Some(reached), false) = (&self.reached, self.made.is_empty()) else {
            return Ok(());
        };
        let mut outlet = Arc::clone(&self.outlet).lock_owned().await;
        for it in std::mem::take(&mut self.made) {
            let group = &self.source.group;
            let teller = outlet.teller(group);
            let line = teller.made(&it.database, &it.name, &it.sql, now_s());
            outlet.tell(group, &line, reached.clone()).await?;
        }
        outlet.flush().await
    }

    /// Tells what of the snapshot is due, and has the next chunk read. Called between transactions.
    pub(super) async fn read_on(&mut self) -> Result<(), Trouble> {
        if self.reading.is_none() || !self.outlet.lock().await.has_begun() {
            return Ok(());
        }
        self.tell_tables().await?;
        let (Some(reading), Some(reached)) = (&mut self.reading, &self.reached) else {
            return Ok(());
        };
        let mut outlet = Arc::clone(&self.outlet).lock_owned().await;
        let group = &self.source.group;
        // Others have told branches of this group meanwhile.
        let told = self.order.as_ref().map(|it| it.take_notes(group, true));
        note_all(reading, told.unwrap_or_default())?;
        // A chunk is told between transactions.
        let due = match outlet.told_in_part() {
            Some(_) => None,
            None => reading.due(&reached.told),
        };
        if let Some((chunk, stale)) = due {
            let (time_s, table) = (now_s(), Arc::clone(&chunk.read.table));
            let is_stale = |key: &str| stale.contains(&name_of(&table.database, &table.name, key));
            let teller = outlet.teller(group);
            let lines = teller.read(&chunk.read, time_s, is_stale);
            let mut lines = lines.map_err(|why| Trouble::Broken("error", why))?;
            let last = lines.pop().unwrap_or_default();
            for line in lines {
                outlet.tell(group, &line, reached.clone()).await?;
            }
            outlet.leave_unread(group, Some(reading.unread().clone()));
            outlet.tell(group, &last, reached.clone()).await?;
            outlet.flush().await?;
        }
        if reading.go_on() {
            // The server may not show yet what was told of them.
            let told = self.order.as_ref().map(|it| it.told_branches(group));
            note_all(reading, told.unwrap_or_default())?;
        }
        Ok(())
    }

    /// A chunk has been read, or cannot be.
    pub(super) async fn take_read(&mut self, primary: &Primary, done: Done) -> Result<(), Trouble> {
        let (Some(reading), Some(reached)) = (&mut self.reading, &self.reached) else {
            return Ok(());
        };
        let is_complete = reading.take(done);
        // What failed because the server leads no more is not the table's fault.
        if is_complete.is_err() && !self.source.is_led_by(primary) {
            return Err(Trouble::Server(lost(&primary.login, ENDED)));
        }
        let mut outlet = Arc::clone(&self.outlet).lock_owned().await;
        let group = &self.source.group;
        if is_complete? {
            self.reading = None;
            if let Some(order) = &self.order {
                order.take_notes(group, false);
            }
            outlet.leave_unread(group, None);
            let line = outlet.teller(group).read_all(now_s());
            outlet.tell(group, &line, reached.clone()).await?;
            return Ok(outlet.flush().await?);
        }
        outlet.leave_unread(group, Some(reading.unread().clone()));
        drop(outlet);
        self.read_on().await
    }
}

/// Takes note of what others told of the group.
fn note_all(reading: &mut Reading, told: Vec<Parts>) -> Result<(), Trouble> {
    for parts in told {
        match parts {
            Parts::Kept(parts) => {
                for part in parts.iter() {
                    let noted = reading.note(part);
                    noted.map_err(|why| Trouble::Broken("error", why))?;
                }
            }
            Parts::Reread { .. } => reading.spoil(),
        }
    }
    Ok(())
}

/// Waits until a chunk of the snapshot has been read.
pub(super) async fn done(reading: &mut Option<Reading>) -> Done {
    match reading {
        Some(reading) => reading.done().await,
        None => std::future::pending().await,
    }
}

/// Seconds since 1970.
fn now_s() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |it| u32::try_from(it.as_secs()).unwrap_or(u32::MAX))
}
