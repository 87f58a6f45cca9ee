//! A server that a change stream is applied to: its tables, up to where it has the stream, and the carrying out of
//! transactions.
//!
//! Up to where it has the stream stands on the server itself, in the database [`DATABASE`]: a token behind which some
//! transactions were carried out already, and the names of these. A transaction writes its own name together with
//! what it changes, so it is carried out once, whatever dies in between. Whoever begins to apply takes the stream
//! over: from then on transactions of an earlier applier find another number than theirs, and are rolled back.

mod carry;
mod context;
mod literal;
mod progress;
mod run;
mod tables;

pub use carry::{Carried, Refusal, Tables};
pub use progress::{DATABASE, Progress};
pub use tables::{TargetTable, Ties};

use changes::apply::{Described, names};
use serde_json::{Map, Value};
use sqltext::ticked;

use crate::error::Error;
use crate::link::{Link, Login};

const OPERATION: &str = "apply changes";

/// One statement's rows take no longer.
const STATEMENT_MS: u64 = 120_000;

/// A definition of a large table takes its time.
const DEFINITION_MS: u64 = 3_600_000;

/// The same where it may have been carried out before: database, table, column, key.
const DONE_PERHAPS: [u16; 5] = [1049, 1054, 1068, 1072, 1146];

/// What a server says of a definition that it has already, or of which nothing is left to take away: database,
/// table, column, key, routine, foreign key, sequence, index, view.
const DONE_ALREADY: [u16; 14] = [
    1007, 1008, 1050, 1051, 1060, 1061, 1091, 1304, 1305, 1826, 4091, 4092, 1176, 1347,
];

/// ER_BAD_DB_ERROR.
const NO_DATABASE: u16 = 1049;

/// What a session of the applier has.
const SETTINGS: &str = "SET NAMES utf8mb4; SET SESSION time_zone='+00:00', sql_mode='NO_AUTO_VALUE_ON_ZERO'; \
                        SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";

/// A statement that defines something, as the stream tells it.
#[derive(Clone, Copy)]
pub struct Defining<'a> {
    /// The session's database.
    pub database: &'a str,
    pub sql: &'a str,
    /// With what it was run.
    pub context: &'a Map<String, Value>,
}

/// A connection to the target.
pub struct Target {
    link: Link,
    /// Whose progress it is.
    name: String,
    /// This applier's number; 0 before it took over.
    epoch: u64,
}

impl Target {
    /// Connects for the applier of this name.
    ///
    /// # Errors
    /// The server cannot be reached, or refuses the account.
    pub async fn open(
        login: &Login,
        name: &str,
        epoch: u64,
        timeout_ms: u64,
    ) -> Result<Target, Error> {
        let mut link = Link::open_for_rows(login, timeout_ms).await?;
        link.run(OPERATION, SETTINGS, timeout_ms).await?;
        Ok(Target {
            link,
            name: name.to_owned(),
            epoch,
        })
    }

    /// Writes down that a definition begins, under a name by which it is found.
    ///
    /// # Errors
    /// The server fails.
    pub async fn mark(&mut self, group: &str, name: &str, number: u64) -> Result<(), Error> {
        let sql = self.done(group, name, number);
        self.link.run(OPERATION, &sql, STATEMENT_MS).await
    }

    /// Runs a statement that defines something; `Ok(false)` when the server says that it has been done. Foreign
    /// keys are checked when `checks`; `may_be_done` when it may have been carried out before.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn define(
        &mut self,
        defining: Defining<'_>,
        checks: bool,
        may_be_done: bool,
    ) -> Result<bool, Error> {
        const OPERATION: &str = "carry out a definition";
        let Defining {
            database,
            sql,
            context,
        } = defining;
        let checks = format!("SET SESSION foreign_key_checks={}", u8::from(checks));
        self.link.run(OPERATION, &checks, STATEMENT_MS).await?;
        if !database.is_empty() {
            let enter = format!("USE {}", ticked(database));
            match self.link.run(OPERATION, &enter, STATEMENT_MS).await {
                // MariaDB logs a database that is made as the session's.
                Err(error) if error.number() == Some(NO_DATABASE) && is_of_database(sql) => {}
                other => other?,
            }
        }
        self.enter_context(context).await?;
        let defined = self.link.run(OPERATION, sql, DEFINITION_MS).await;
        if !context.is_empty() {
            self.leave_context().await?;
        }
        match defined {
            Ok(()) => Ok(true),
            Err(error) => match error.number() {
                Some(number) if DONE_ALREADY.contains(&number) => Ok(false),
                Some(number) if may_be_done && DONE_PERHAPS.contains(&number) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Makes a table as a snapshot tells it, and its database; `Ok(false)` when it is there.
    ///
    /// # Errors
    /// What the server refuses.
    pub async fn make(&mut self, database: &str, sql: &str) -> Result<bool, Error> {
        let create = format!("CREATE DATABASE IF NOT EXISTS {}", ticked(database));
        self.link.run(OPERATION, &create, STATEMENT_MS).await?;
        let defining = Defining {
            database,
            sql,
            context: &Map::new(),
        };
        let made = self.define(defining, false, false).await?;
        let checks = "SET SESSION foreign_key_checks=1";
        self.link.run(OPERATION, checks, STATEMENT_MS).await?;
        Ok(made)
    }
}

/// True for a statement that makes, changes or drops a database.
fn is_of_database(sql: &str) -> bool {
    let words = names(sql);
    let is = |at: usize, word: &str| words.get(at).is_some_and(|it| it == word);
    let at = if is(1, "OR") { 3 } else { 1 };
    is(at, "DATABASE") || is(at, "SCHEMA")
}

/// How its name is written.
fn full(table: &Described) -> String {
    format!("{}.{}", ticked(&table.database), ticked(&table.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_about_databases_are_known() {
        assert!(is_of_database("create database d") && is_of_database("DROP SCHEMA IF EXISTS d"));
        assert!(is_of_database("CREATE OR REPLACE DATABASE d"));
        assert!(!is_of_database("CREATE TABLE t (a INT)"));
    }
}
