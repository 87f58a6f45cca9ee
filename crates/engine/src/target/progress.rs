//! Up to where a target has the stream.

use std::collections::HashSet;

use enginesql::quoted;

use super::{OPERATION, STATEMENT_MS, Target};
use crate::error::Error;
use crate::link::text_at;

/// Where an applier keeps what it needs on the target.
pub const DATABASE: &str = "heddle_apply";

/// Names in one statement.
const NAMES_MAX: usize = 500;

/// Up to where a target has the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Behind the last transaction before which all are done; `None` at the very beginning.
    pub token: Option<String>,
    /// Transactions behind the token that are done: the group and the GTID.
    pub done: HashSet<(String, String)>,
    /// Groups whose snapshots are complete.
    pub complete: Vec<String>,
    /// The number of the applier that took over.
    pub epoch: u64,
}

/// The epochs have a table of their own: transactions lock their row while checkpoints write the other one.
const TABLES: [&str; 4] = [
    "CREATE DATABASE IF NOT EXISTS heddle_apply CHARACTER SET utf8mb4",
    "CREATE TABLE IF NOT EXISTS heddle_apply.appliers (name VARCHAR(64) NOT NULL PRIMARY KEY, \
     epoch BIGINT UNSIGNED NOT NULL) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "CREATE TABLE IF NOT EXISTS heddle_apply.progress (name VARCHAR(64) NOT NULL PRIMARY KEY, \
     token MEDIUMTEXT NOT NULL, complete TEXT NOT NULL) \
     ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
    "CREATE TABLE IF NOT EXISTS heddle_apply.done (name VARCHAR(64) NOT NULL, source VARCHAR(64) NOT NULL, \
     gtid VARCHAR(128) NOT NULL, epoch BIGINT UNSIGNED NOT NULL, number BIGINT UNSIGNED NOT NULL, \
     PRIMARY KEY (name, source, gtid)) ENGINE=InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
];

impl Target {
    /// Takes the stream over from whoever applied it before, and reads up to where the target has it. Waits for
    /// transactions that an earlier applier has under way.
    ///
    /// # Errors
    /// The account may not write the database [`DATABASE`].
    pub async fn take_over(&mut self) -> Result<Progress, Error> {
        const OPERATION: &str = "take over the stream";
        for sql in TABLES {
            self.link.run(OPERATION, sql, STATEMENT_MS).await?;
        }
        let name = quoted(&self.name);
        let raise = format!(
            "INSERT INTO {DATABASE}.appliers VALUES ({name}, 1) ON DUPLICATE KEY UPDATE epoch=epoch+1"
        );
        self.link.run(OPERATION, &raise, STATEMENT_MS).await?;
        let sql = format!("SELECT epoch FROM {DATABASE}.appliers WHERE name={name}");
        let epoch = self.link.cell(OPERATION, &sql, STATEMENT_MS).await?;
        self.epoch = epoch.and_then(|it| it.parse().ok()).unwrap_or(0);
        let sql = format!("SELECT token, complete FROM {DATABASE}.progress WHERE name={name}");
        let rows = self.link.rows(OPERATION, &sql, STATEMENT_MS).await?;
        let first = rows.first();
        let complete = first.and_then(|row| text_at(row, 1)).unwrap_or_default();
        let complete = complete.split(',').filter(|it| !it.is_empty());
        let sql = format!("SELECT source, gtid FROM {DATABASE}.done WHERE name={name}");
        let done = self.link.rows(OPERATION, &sql, STATEMENT_MS).await?;
        let pair = |row: &mysql_async::Row| Some((text_at(row, 0)?, text_at(row, 1)?));
        Ok(Progress {
            token: first.and_then(|row| text_at(row, 0)),
            done: done.iter().filter_map(pair).collect(),
            complete: complete.map(str::to_owned).collect(),
            epoch: self.epoch,
        })
    }

    /// Everything up to this token is done: this applier's transactions up to a number, and those of earlier
    /// appliers that are named.
    ///
    /// # Errors
    /// Another applier took over, or the server fails.
    pub async fn checkpoint(
        &mut self,
        token: &str,
        complete: &[String],
        number: u64,
        passed: &[(String, String)],
    ) -> Result<(), Error> {
        const OPERATION: &str = "write down up to where it has the stream";
        self.link.run(OPERATION, "BEGIN", STATEMENT_MS).await?;
        self.lead(OPERATION).await?;
        let (name, epoch) = (quoted(&self.name), self.epoch);
        let mut sql = format!(
            "REPLACE INTO {DATABASE}.progress VALUES ({name}, {}, {}); \
             DELETE FROM {DATABASE}.done WHERE name={name} AND epoch={epoch} AND number<={number}",
            quoted(token),
            quoted(&complete.join(","))
        );
        for some in passed.chunks(NAMES_MAX) {
            let one = |(source, gtid): &(String, String)| {
                format!("(source={} AND gtid={})", quoted(source), quoted(gtid))
            };
            let named: Vec<String> = some.iter().map(one).collect();
            sql.push_str(&format!(
                "; DELETE FROM {DATABASE}.done WHERE name={name} AND ({})",
                named.join(" OR ")
            ));
        }
        sql.push_str("; COMMIT");
        self.link.run(OPERATION, &sql, STATEMENT_MS).await
    }

    /// Makes sure within a transaction that no other applier has taken over, and cannot before its end.
    pub(super) async fn lead(&mut self, operation: &'static str) -> Result<(), Error> {
        let sql = self.leads();
        let rows = self.link.rows(operation, &sql, STATEMENT_MS).await?;
        match rows.is_empty() {
            false => Ok(()),
            true => Err(self.deposed()),
        }
    }

    /// The statement that gives a row, and locks it, while this applier leads.
    pub(super) fn leads(&self) -> String {
        let (name, epoch) = (quoted(&self.name), self.epoch);
        format!(
            "SELECT 'leads', 1 FROM {DATABASE}.appliers WHERE name={name} AND epoch={epoch} LOCK IN SHARE MODE"
        )
    }

    pub(super) fn deposed(&self) -> Error {
        Error::Reply {
            operation: OPERATION,
            server: self.link.address().to_owned(),
            what: format!(
                "another applier called {:?} has taken over; give each its own name by --name",
                self.name
            ),
        }
    }

    /// The statement by which a transaction is known to be done.
    pub(super) fn done(&self, group: &str, gtid: &str, number: u64) -> String {
        format!(
            "INSERT INTO {DATABASE}.done VALUES ({}, {}, {}, {}, {number})",
            quoted(&self.name),
            quoted(group),
            quoted(gtid),
            self.epoch
        )
    }
}
