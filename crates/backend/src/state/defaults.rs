//! What a connection takes over from its server and keeps: at login the global values of variables, and
//! when a database is selected, its default charset and what the account may do in it.
//!
//! Clients change these while pooled connections live on. Here is counted how often they did, so that
//! a connection which is behind is brought up to date before it serves anybody.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farm::ServerId;
use mysql_wire::command::Command;

use crate::connection::{Connection, ConnectionError};
use crate::state::SessionState;

/// Changes of global variables that are remembered. Sessions that are older than all of these find
/// the new values.
const CHANGES_MAX: usize = 256;

/// What a connection goes by as it was at its login: a reset gives the variable its new value, and the
/// server goes on with the old one.
const OF_LOGIN: [&str; 2] = ["max_allowed_packet", "net_buffer_length"];

/// A global variable that got another value.
#[derive(Clone, Debug)]
pub struct Global {
    pub name: Arc<str>,
    /// What it was before.
    pub value: Arc<[u8]>,
}

/// The changes that went through this router. Shared by its cores.
#[derive(Debug, Default)]
pub struct Defaults {
    databases: AtomicU64,
    globals: AtomicU64,
    log: Mutex<VecDeque<(u64, ServerId, Global)>>,
}

/// How much of it a connection has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    databases: u64,
    globals: u64,
}

impl Defaults {
    /// A database was made, altered or dropped, or somebody's privileges on databases changed.
    pub fn database_changed(&self) {
        self.databases.fetch_add(1, Ordering::Release);
    }

    /// Global variables of this server were set.
    pub fn globals_changed(&self, server: ServerId, before: &[Global]) {
        if before.is_empty() {
            return;
        }
        let mut log = self.log();
        let edition = self.globals.load(Ordering::Acquire) + 1;
        log.extend(before.iter().map(|one| (edition, server, one.clone())));
        while log.len() > CHANGES_MAX {
            log.pop_front();
        }
        self.globals.store(edition, Ordering::Release);
    }

    /// How often global variables were set.
    #[inline]
    pub fn globals(&self) -> u64 {
        self.globals.load(Ordering::Acquire)
    }

    /// The values from before the first change behind `edition`, the oldest first.
    pub fn since(&self, edition: u64) -> Vec<Global> {
        let log = self.log();
        let later = log.iter().filter(|(changed, ..)| *changed > edition);
        later.map(|(_, _, global)| global.clone()).collect()
    }

    /// Variables of this server were set behind `edition`, or nobody knows any more.
    fn concerns(&self, server: ServerId, edition: u64) -> bool {
        let log = self.log();
        let lost = log.front().is_some_and(|(first, ..)| *first > edition + 1);
        lost || (log.iter()).any(|(changed, at, _)| *changed > edition && *at == server)
    }

    /// A new login alone can take up what was set of this server behind `edition`.
    fn needs_login(&self, server: ServerId, edition: u64) -> bool {
        let log = self.log();
        let lost = log.front().is_some_and(|(first, ..)| *first > edition + 1);
        let mut later = log.iter().filter(|(changed, ..)| *changed > edition);
        lost || later.any(|(_, at, global)| *at == server && OF_LOGIN.contains(&&*global.name))
    }

    #[inline]
    pub(crate) fn now(&self) -> Seen {
        Seen {
            databases: self.databases.load(Ordering::Acquire),
            globals: self.globals(),
        }
    }

    fn log(&self) -> MutexGuard<'_, VecDeque<(u64, ServerId, Global)>> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection that was idle for longer than this is looked at before use.
const QUIET_CHECK_S: u64 = 1;

/// The servers end connections that were idle for their `wait_timeout`: with less than this they may
/// end while they are in the pool.
const PATIENT_S: u64 = 120;

impl Connection {
    /// True for a connection that surely lives, having served somebody just now.
    #[inline]
    pub(crate) fn is_fresh(&self, now_s: u64) -> bool {
        self.idle_since_s + QUIET_CHECK_S >= now_s && !self.impatient
    }

    /// Takes note of a state that a statement has brought about.
    pub fn set_state(&mut self, state: Rc<SessionState>) {
        let timeout = state.variable("wait_timeout");
        let timeout_s = timeout.and_then(|value| str::from_utf8(value).ok()?.parse().ok());
        self.impatient = self.needs_haste(timeout_s);
        self.state = state;
    }

    /// True where the server soon ends a connection that is idle; `own_s` is the session's own limit.
    pub(crate) fn needs_haste(&self, own_s: Option<u64>) -> bool {
        let known = Some(self.login_timeout_s).filter(|limit| *limit > 0);
        own_s.or(known).is_some_and(|limit| limit < PATIENT_S)
    }

    /// Brings the connection up to date. On an error it must be closed.
    pub(crate) async fn catch_up(&mut self, defaults: &Defaults) -> Result<(), ConnectionError> {
        let (now, then) = (defaults.now(), self.defaults);
        if now == then {
            return Ok(());
        }
        if defaults.needs_login(self.server, then.globals) {
            return Err(ConnectionError::Broken {
                operation: "taking up what was set globally",
                source: std::io::Error::other("a reset does not"),
            });
        }
        if defaults.concerns(self.server, then.globals) {
            self.renew().await?;
        } else if now.databases != then.databases {
            self.select_again().await?;
        }
        self.defaults = now;
        Ok(())
    }

    /// Selects the current database once more, as it is now: its default charset and what the account
    /// may do there.
    pub(crate) async fn select_again(&mut self) -> Result<(), ConnectionError> {
        let Some(database) = self.state.database() else {
            return Ok(());
        };
        // MariaDB does nothing to select the database that is selected.
        let (other, database) = (b"information_schema", database.to_vec());
        let commands = [(Command::InitDb, &other[..]), (Command::InitDb, &database)];
        match self.run(&commands).await {
            Ok(_) => {}
            // It is gone, or not for this account any more.
            Err(ConnectionError::Refused { .. }) => {
                self.set_state(Rc::new(self.state.with_database(Some(other))));
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn global(name: &str, value: &str) -> Global {
        Global {
            name: name.into(),
            value: value.as_bytes().into(),
        }
    }

    #[test]
    fn changes_are_told_to_who_is_older() {
        let defaults = Defaults::default();
        let (one, two) = (ServerId(1), ServerId(2));
        defaults.globals_changed(one, &[global("a", "1"), global("b", "2")]);
        defaults.globals_changed(two, &[global("a", "3")]);
        let names = |edition| -> Vec<String> {
            let since = defaults.since(edition).into_iter();
            since.map(|global| global.name.to_string()).collect()
        };
        assert_eq!(names(0), ["a", "b", "a"]);
        assert_eq!(names(1), ["a"]);
        assert!(names(2).is_empty());
        assert!(defaults.concerns(one, 0) && !defaults.concerns(one, 1));
        assert!(defaults.concerns(two, 1) && !defaults.concerns(two, 2));
        assert!(!defaults.needs_login(two, 0));
        defaults.globals_changed(two, &[global("max_allowed_packet", "4")]);
        assert!(defaults.needs_login(two, 2) && !defaults.needs_login(one, 2));
        for _ in 0..CHANGES_MAX {
            defaults.globals_changed(two, &[global("a", "3")]);
        }
        assert!(defaults.concerns(one, 1), "nobody knows any more");
        assert!(!defaults.concerns(one, defaults.globals()));
    }
}
