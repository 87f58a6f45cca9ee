//! What changes at the source while rows move: the keys of changed rows, from its binary log, until they
//! have been brought to the target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use engine::Login;
use engine::binlog::{Change, End, Event, Image, Kind, Reader, Rows, Statement, Xid};
use engine::part::{Ferry, Key, PartTable};
use farm::{Engine, Position};

use super::run::Trouble;

/// The source says so often that it is there.
const ALIVE_MS: u64 = 1000;

/// Beyond so many keys they are brought before more is read.
pub(super) const WAITING_MAX: usize = 20_000;

/// Words with which statements begin that change tables.
const DEFINING: [&str; 6] = ["alter", "create", "drop", "rename", "truncate", "optimize"];

/// A row's table and key.
type Row = (usize, Key);

/// The log of the source, and what it said that has not been brought.
pub(super) struct Feed {
    reader: Reader,
    tables: Vec<Arc<PartTable>>,
    by_name: BTreeMap<(String, String), usize>,
    /// Rows of the transaction that is being read; true where rows of other tables may follow them.
    open: BTreeMap<Row, bool>,
    /// What had been read when it began.
    begun: Position,
    /// Rows of prepared branches, and the position before each.
    prepared: BTreeMap<Vec<u8>, (Position, BTreeMap<Row, bool>)>,
    /// Rows that may be otherwise at the target.
    changed: BTreeMap<Row, bool>,
    /// Those that branches changed since both sides were compared: the log tells of their commit, which
    /// may be visible later than any that follows it.
    branches: BTreeMap<Row, bool>,
}

impl Feed {
    /// Behind a position.
    pub(super) async fn open(
        login: &Login,
        engine: Engine,
        position: &str,
        tables: &[Arc<PartTable>],
        timeout_ms: u64,
    ) -> Result<Feed, Trouble> {
        let from = Position::parse(engine, position)
            .ok_or_else(|| Trouble::Gone(format!("{position:?} is no position")))?;
        let reader = Reader::open(login, &from, ALIVE_MS, timeout_ms).await?;
        let names = tables.iter().enumerate();
        let by_name = names.map(|(at, table)| ((table.database.clone(), table.name.clone()), at));
        Ok(Feed {
            reader,
            by_name: by_name.collect(),
            tables: tables.to_vec(),
            open: BTreeMap::new(),
            begun: from,
            prepared: BTreeMap::new(),
            changed: BTreeMap::new(),
            branches: BTreeMap::new(),
        })
    }

    /// Where a reading has to begin that misses nothing, once what is waiting has been brought.
    pub(super) fn safe(&self) -> String {
        let oldest = self.prepared.values().map(|(position, _)| position);
        let first = oldest.reduce(|a, b| if a.covers(b) { b } else { a });
        first.unwrap_or_else(|| self.reader.position()).to_string()
    }

    /// True when everything up to this position has been read.
    pub(super) fn has_read(&self, position: &Position) -> bool {
        self.reader.position().covers(position)
    }

    /// Both sides are about to be compared.
    pub(super) fn forget_branches(&mut self) {
        self.branches.clear();
    }

    /// Nothing is prepared or open at the source any more: what branches changed is brought once more.
    pub(super) fn repeat_branches(&mut self) {
        let rows = std::mem::take(&mut self.branches);
        add(&mut self.changed, rows);
    }

    /// So many rows wait.
    pub(super) fn waiting(&self) -> usize {
        self.changed.len()
    }

    /// Reads what there is, until the position or for so long. What was read stays when it is dropped.
    pub(super) async fn read(&mut self, until: &Position, limit: Duration) -> Result<(), Trouble> {
        let end = tokio::time::Instant::now() + limit;
        while !self.has_read(until) && self.changed.len() < WAITING_MAX {
            match tokio::time::timeout_at(end, self.reader.next()).await {
                Ok(event) => self.take(event?)?,
                Err(_) => break,
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Trouble> {
        match event {
            Event::Begin(_) => {
                self.open.clear();
                self.begun = self.reader.position().clone();
            }
            Event::Rows(rows) => self.take_rows(&rows)?,
            Event::Statement(statement) => self.take_statement(&statement)?,
            Event::Block(_) | Event::Source(_) | Event::Alive => {}
            Event::End(end) => self.end(end),
        }
        Ok(())
    }

    fn end(&mut self, end: End) {
        let open = std::mem::take(&mut self.open);
        match end {
            End::Commit => add(&mut self.changed, open),
            End::RolledBack => {}
            End::Prepared(xid) => {
                self.prepared.insert(name(&xid), (self.begun.clone(), open));
            }
            End::BranchCommitted(xid) => {
                add(&mut self.changed, open);
                if let Some((_, rows)) = self.prepared.remove(&name(&xid)) {
                    add(&mut self.branches, rows.clone());
                    add(&mut self.changed, rows);
                }
            }
            End::BranchRolledBack(xid) => drop(self.prepared.remove(&name(&xid))),
        }
    }

    fn take_rows(&mut self, rows: &Rows) -> Result<(), Trouble> {
        let name = (rows.table.database.clone(), rows.table.name.clone());
        let Some(&at) = self.by_name.get(&name) else {
            return Ok(());
        };
        for change in rows.changes() {
            let Change { before, after } = change.map_err(Trouble::Stuck)?;
            let before = before.map(|image| self.key(at, &image, rows)).transpose()?;
            let mut after = after.map(|image| self.key(at, &image, rows)).transpose()?;
            // An image without the key's columns: it stays as it was.
            if after.as_ref().is_some_and(Option::is_none) {
                after = None;
            }
            let (before, after) = (before.flatten(), after.flatten());
            let renumbered = after.is_some() && before != after;
            let takes_along = match rows.kind {
                Kind::Insert => false,
                Kind::Update => renumbered,
                Kind::Delete => true,
            };
            for key in [before, after].into_iter().flatten() {
                *self.open.entry((at, key)).or_default() |= takes_along;
            }
        }
        Ok(())
    }

    /// The key in an image; `None` where the image lacks a part of it.
    fn key(&self, at: usize, image: &Image<'_>, rows: &Rows) -> Result<Option<Key>, Trouble> {
        let table = &self.tables[at];
        let mut key = Key::new();
        for part in &table.keys {
            let cell = image.get(part.place).and_then(Option::as_ref);
            let column = rows.table.columns.get(part.place);
            let Some((cell, column)) = cell.zip(column) else {
                return Ok(None);
            };
            let literal = part.of_cell(cell, column).ok_or_else(|| {
                Trouble::Gone(format!(
                    "{}.{} was altered on the server meanwhile: {} is not what it was",
                    table.database, table.name, part.name
                ))
            })?;
            key.push(literal);
        }
        Ok(Some(key))
    }

    /// Definitions stay as they are while rows move, unless somebody changes them past Heddle.
    fn take_statement(&self, statement: &Statement) -> Result<(), Trouble> {
        let text = String::from_utf8_lossy(&statement.text).to_lowercase();
        let first = text.split_whitespace().next().unwrap_or_default();
        let named = |table: &&Arc<PartTable>| {
            let inside = table.database == statement.database
                || text.contains(&table.database.to_lowercase());
            inside && text.contains(&table.name.to_lowercase())
        };
        let Some(table) = self.tables.iter().find(named) else {
            return Ok(());
        };
        let full = format!("{}.{}", table.database, table.name);
        if DEFINING.contains(&first) {
            return Err(Trouble::Gone(format!(
                "{full} was changed on the server: {text}"
            )));
        }
        if ["insert", "update", "delete", "replace", "load"].contains(&first) {
            return Err(Trouble::Stuck(format!(
                "rows of {full} were changed by a statement that stands in the binary log as text: SET \
                 GLOBAL binlog_format='ROW', `job abort` and move again"
            )));
        }
        Ok(())
    }

    /// Brings all rows that wait. Everything that the log has said of them must be visible at the
    /// source.
    pub(super) async fn bring(&mut self, ferry: &mut Ferry) -> Result<u64, Trouble> {
        let mut brought = 0;
        let changed = std::mem::take(&mut self.changed);
        match self.bring_rows(&changed, ferry).await {
            Ok(rows) => brought += rows,
            Err(trouble) => {
                add(&mut self.changed, changed);
                return Err(trouble);
            }
        }
        Ok(brought)
    }

    async fn bring_rows(
        &self,
        changed: &BTreeMap<Row, bool>,
        ferry: &mut Ferry,
    ) -> Result<u64, Trouble> {
        let mut rows: BTreeSet<Row> = changed.keys().cloned().collect();
        let along = changed.iter().filter(|(_, along)| **along);
        let mut leading: Vec<Row> = along.map(|(row, _)| row.clone()).collect();
        // Rows of rows that follow: each is looked at once.
        while !leading.is_empty() {
            let mut next = Vec::new();
            for (at, table) in self.tables.iter().enumerate() {
                let keys = leading.iter().filter(|(of, _)| *of == at);
                let keys: Vec<Key> = keys.map(|(_, key)| key.clone()).collect();
                for cascade in table.cascades.iter().filter(|_| !keys.is_empty()) {
                    let name = (cascade.database.clone(), cascade.table.clone());
                    let Some(&follower) = self.by_name.get(&name) else {
                        continue;
                    };
                    let of = &self.tables[follower];
                    let found = ferry.followers(of, &cascade.columns, &keys).await?;
                    let new = found.into_iter().map(|key| (follower, key));
                    next.extend(new.filter(|row| rows.insert(row.clone())));
                }
            }
            leading = next;
        }
        let mut brought = 0;
        for (at, table) in self.tables.iter().enumerate() {
            let keys = rows.iter().filter(|(of, _)| *of == at);
            let keys: Vec<Key> = keys.map(|(_, key)| key.clone()).collect();
            if !keys.is_empty() {
                brought += ferry.bring(table, &keys).await?;
            }
        }
        Ok(brought)
    }
}

fn add(all: &mut BTreeMap<Row, bool>, more: BTreeMap<Row, bool>) {
    for (row, along) in more {
        *all.entry(row).or_default() |= along;
    }
}

fn name(xid: &Xid) -> Vec<u8> {
    let mut name = xid.format.to_be_bytes().to_vec();
    name.extend_from_slice(&(xid.transaction.len() as u64).to_be_bytes());
    name.extend_from_slice(&xid.transaction);
    name.extend_from_slice(&xid.branch);
    name
}
