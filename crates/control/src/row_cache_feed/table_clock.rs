//! Runs the clocks of tables: one reader of the binlog of each group in which reads have met a replica
//! that was late.
//!
//! A reader begins at its server's position. DDL stops its clock, by which tables are named, until the
//! server has been asked for views and foreign keys anew, and everything that was there after the look
//! has been read. Whatever goes wrong, the clock is stopped and another reader begins.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use engine::binlog::{End, Event, Gtid, Reader, Statement, vantage};
use engine::relations::relations;
use engine::{Error, Link, Login, heartbeat};
use farm::relations::{Relations, table_number};
use farm::{Position, ServerId};
use rowcache::TableClock;
use rowcache::table_clock::Changed;

use crate::pace;
use crate::row_cache_feed::RowCacheFeed;
use changes::is_harmless;

/// After a failure, and while nobody wants the clock.
const PAUSE: Duration = Duration::from_millis(100);

/// How often it is looked whether the reader is still wanted, and after DDL for views and foreign keys.
const LOOK: Duration = Duration::from_millis(100);

/// The server says so often that it is there.
const HEARTBEAT_MS: u64 = 1000;

/// One reader's life.
struct Ticking<'c> {
    clock: &'c TableClock,
    reader: Reader,
    link: Link,
    timeout_ms: u64,
    open: Option<Gtid>,
    /// A position without transactions.
    nothing: Position,
    tables: HashSet<u64>,
    /// What the open transaction changed is not known.
    anything: bool,
    /// There was DDL since the last look.
    stale: bool,
    /// What the last look found, until this position has been read.
    found: Option<(Relations, Position)>,
}

impl RowCacheFeed {
    /// Runs one group's clock whenever somebody wants it, for as long as the farm has the group.
    pub(crate) async fn run_table_clock(self: Arc<Self>, group: String) {
        let clock = self.context.reads.clocks.of(&group);
        loop {
            if !self.context.state().records.groups.contains_key(&group) {
                return;
            }
            if clock.is_wanted(self.context.now_us())
                && let Some((server, login)) = self.clock_server(&group)
            {
                let read = self.tick_from(&group, server, &login, &clock).await;
                clock.stop();
                if let Err(error) = read {
                    tracing::info!(%group, "reads wait for writes to other tables, too: {error}");
                }
            }
            pace::next_look(self.context.started, PAUSE).await;
        }
    }

    /// The group's primary.
    fn clock_server(&self, group: &str) -> Option<(ServerId, Login)> {
        let state = self.context.state();
        let (id, record) = state.records.primary(group)?;
        Some((ServerId(id), self.links.login(record)))
    }

    /// Runs for as long as this server is the primary and the clock is wanted.
    async fn tick_from(
        &self,
        group: &str,
        server: ServerId,
        login: &Login,
        clock: &TableClock,
    ) -> Result<(), Error> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = Link::open(login, timeout_ms).await?;
        let (position, _) = vantage(&mut link, timeout_ms).await?;
        let reader = Reader::open(login, &position, HEARTBEAT_MS, timeout_ms).await?;
        let nothing = Position::empty(link.version().engine);
        clock.start(position);
        let mut ticking = Ticking {
            clock,
            reader,
            link,
            timeout_ms,
            open: None,
            nothing,
            tables: HashSet::new(),
            anything: false,
            stale: true,
            found: None,
        };
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                event = ticking.reader.next() => ticking.take(event?),
                _ = look.tick() => {
                    let primary = self.clock_server(group).map(|(id, _)| id);
                    if primary != Some(server) || !clock.is_wanted(self.context.now_us()) {
                        return Ok(());
                    }
                    ticking.look().await?;
                }
            }
        }
    }
}

impl Ticking<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Begin(gtid) => {
                self.open = Some(gtid);
                self.tables.clear();
                self.anything = false;
            }
            Event::Rows(rows) => match table_number(rows.table.name.as_bytes()) {
                Some(table) => drop(self.tables.insert(table)),
                None => self.anything = true,
            },
            Event::Statement(statement) if is_harmless(&statement.text) => {}
            Event::Statement(statement) => {
                self.anything = true;
                if !changes_rows(&statement) {
                    (self.stale, self.found) = (true, None);
                    self.clock.relate(None);
                }
            }
            Event::Block(_) | Event::Source(_) | Event::Alive => {}
            Event::End(end) => self.end(&end),
        }
    }

    fn end(&mut self, end: &End) {
        let tables = std::mem::take(&mut self.tables);
        // A branch may be from before the reader.
        let branch = matches!(end, End::BranchCommitted(_) | End::BranchRolledBack(_));
        let changed = match self.anything || branch {
            true => Changed::Anything,
            false => Changed::Tables(tables),
        };
        if let Some(gtid) = self.open.take() {
            let mut position = self.nothing.clone();
            gtid.add_to(&mut position);
            self.clock.tick(&position, changed);
        }
        self.relate_when_read();
    }

    /// After DDL: looks for views and foreign keys, once the server shows all that has been read.
    async fn look(&mut self) -> Result<(), Error> {
        if !self.stale {
            return Ok(());
        }
        let shown = heartbeat::position(&mut self.link, self.timeout_ms).await?;
        if !shown.covers(self.reader.position()) {
            return Ok(());
        }
        let relations = relations(&mut self.link, self.timeout_ms).await?;
        let until = heartbeat::position(&mut self.link, self.timeout_ms).await?;
        self.stale = false;
        self.found = Some((relations, until));
        self.relate_when_read();
        Ok(())
    }

    fn relate_when_read(&mut self) {
        let read = |(_, until): &mut (Relations, Position)| self.reader.position().covers(until);
        if let Some((relations, _)) = self.found.take_if(read) {
            self.clock.relate(Some(relations));
        }
    }
}

/// A statement of a server that logs no rows of it: it changes no table's definition.
fn changes_rows(statement: &Statement) -> bool {
    let text = statement.text.trim_ascii_start();
    let begins = |word: &str| {
        text.get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    ["INSERT ", "UPDATE ", "DELETE ", "REPLACE ", "LOAD DATA"]
        .into_iter()
        .any(begins)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_change_of_rows_may_change_definitions() {
        let statement = |text: &str| Statement {
            text: text.into(),
            ..Statement::default()
        };
        assert!(changes_rows(&statement("insert into t values (1)")));
        assert!(!changes_rows(&statement("CREATE VIEW v AS SELECT 1")));
        assert!(!changes_rows(&statement("/* c */ UPDATE t SET a = 1")));
    }
}
