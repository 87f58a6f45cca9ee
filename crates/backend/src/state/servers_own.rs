//! Session variables that a server lets no session set, or no other connection have: they say something
//! of the connection or of a statement, and are no part of a session's settings.
//!
//! No list of names knows them, for releases differ (MySQL reports `statement_id` with every reply from
//! 8.0.19 on, and has `original_commit_timestamp` from 8.0.1 on). So Heddle asks each server three things. The
//! server lists the variables that have no global value and those that are read-only. A variable that it
//! reports behind a SELECT without assignments changes by itself. Its answer to a SET of a value that it has
//! just reported settles the rest.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use farm::Engine;
use mysql_wire::command::Command;
use rustc_hash::FxHashSet;

use crate::connection::{Connection, ConnectionError};
use crate::state::{Assignment, READ_ONLY, SessionState, Tracked, classify};

/// ER_INCORRECT_GLOBAL_LOCAL_VAR: «Variable 'statement_id' is a read only variable».
const NOT_TO_BE_SET: u16 = 1238;

/// The variables without a global value, and whether each is read-only. MySQL has no list of the read-only
/// ones: Heddle learns them from what the server reports by itself, and from what it refuses.
const MARIADB_SESSION_ONLY: &[u8] = b"SELECT LOWER(VARIABLE_NAME), READ_ONLY \
    FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_SCOPE = 'SESSION ONLY' LIMIT 10000";
const MYSQL_SESSION_ONLY: &[u8] =
    b"SELECT /*+ SET_VAR(sql_big_selects = ON) */ VARIABLE_NAME, 'NO' \
    FROM (SELECT VARIABLE_NAME, 0 AS is_global FROM performance_schema.session_variables \
          UNION ALL SELECT VARIABLE_NAME, 1 FROM performance_schema.global_variables) AS v \
    GROUP BY VARIABLE_NAME HAVING SUM(is_global) = 0 LIMIT 10000";

/// What a core has learnt of one server's variables.
#[derive(Debug, Default)]
pub(crate) struct ServersOwn {
    names: RefCell<FxHashSet<Box<str>>>,
    /// Those that it took again as it had reported them.
    settable: RefCell<FxHashSet<Box<str>>>,
    /// Those that have no global value; `None` before the server was asked.
    session_only: RefCell<Option<FxHashSet<Box<str>>>>,
    /// Those that are NULL where the server reports an empty text.
    nullable: RefCell<FxHashSet<Box<str>>>,
    /// How often it refused to set a variable as a session had it.
    refused: Cell<u64>,
}

impl ServersOwn {
    /// The server is another release than before: all has to be learnt again.
    pub fn of_another_release(&self) -> ServersOwn {
        ServersOwn {
            refused: self.refused.clone(),
            ..ServersOwn::default()
        }
    }

    /// The server lets no session set this variable.
    fn contains(&self, name: &str) -> bool {
        let names = self.names.borrow();
        !names.is_empty() && names.contains(name)
    }

    fn is_session_only(&self, name: &str) -> bool {
        let names = self.session_only.borrow();
        names.as_ref().is_some_and(|names| names.contains(name))
    }

    /// Takes note of a variable that changed without a SET.
    pub fn note(&self, name: &str) {
        self.names.borrow_mut().insert(name.into());
    }

    /// How often the server refused to set a variable as a session had it.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    fn note_refusal(&self, number: u16, names: &[Arc<str>]) {
        self.refused.set(self.refused.get() + 1);
        if number == NOT_TO_BE_SET {
            names.iter().for_each(|name| self.note(name));
        }
    }

    /// Has variables be NULL that are known to be that where they seem empty.
    fn spell(&self, assignments: &mut [Assignment]) {
        let known = self.nullable.borrow();
        for one in assignments.iter_mut().filter(|_| !known.is_empty()) {
            if known.contains(&*one.names[0])
                && let Some(null) = one.to_null()
            {
                *one = null;
            }
        }
    }

    /// The state without what no session has.
    fn strip(&self, state: &Rc<SessionState>) -> Rc<SessionState> {
        if !state.any(|name| self.contains(name)) {
            return state.clone();
        }
        let names: Vec<_> = self
            .names
            .borrow()
            .iter()
            .map(|name| (**name).into())
            .collect();
        Rc::new(state.without_variables(&names))
    }
}

/// The server keeps what another session has set.
fn left_behind() -> ConnectionError {
    ConnectionError::Broken {
        operation: "undoing what another session has set",
        source: io::Error::other("the server refuses it"),
    }
}

impl Connection {
    /// How a session variable that this server reports is treated. One without a global value is of
    /// the connection or of a statement: the session stays.
    pub fn classify(&self, name: &str) -> Tracked {
        if self.servers_own.contains(name) {
            return Tracked::Ignored;
        }
        match classify(name) {
            Tracked::State if self.servers_own.is_session_only(name) => Tracked::Pins,
            tracked => tracked,
        }
    }

    /// True where it is known that the server takes the variable as it reports it.
    pub fn is_settable(&self, name: &str) -> bool {
        self.servers_own.settable.borrow().contains(name)
    }

    /// Asks the server about its variables, unless this core has asked before.
    pub(crate) async fn learn_variables(&mut self) -> Result<(), ConnectionError> {
        if self.servers_own.session_only.borrow().is_some() {
            return Ok(());
        }
        let ask = match self.engine() {
            Engine::MariaDb => MARIADB_SESSION_ONLY,
            Engine::MySql => MYSQL_SESSION_ONLY,
        };
        let mut session_only = FxHashSet::default();
        for row in self.ask_all(ask).await? {
            let [name, read_only] = &row[..] else {
                continue;
            };
            let name = String::from_utf8_lossy(name);
            match &read_only[..] {
                b"YES" => self.servers_own.note(&name),
                _ => drop(session_only.insert((*name).into())),
            }
        }
        *self.servers_own.session_only.borrow_mut() = Some(session_only);
        Ok(())
    }

    /// Sets a variable to the value that the server has just reported of it. False: it cannot be
    /// brought to another connection.
    pub async fn try_to_set(&mut self, name: &str, value: &[u8]) -> Result<bool, ConnectionError> {
        match self.assign(&Assignment::one(name, Some(value))).await {
            Ok(()) => {
                let mut settable = self.servers_own.settable.borrow_mut();
                settable.insert(name.into());
                Ok(true)
            }
            Err(ConnectionError::Refused { number, .. }) => {
                self.servers_own.note_refusal(number, &[name.into()]);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// The state that this connection can have of a session's.
    pub(crate) fn possible(&self, wanted: &Rc<SessionState>) -> Rc<SessionState> {
        self.servers_own.strip(wanted)
    }

    /// Makes one assignment. An empty text that the server refuses stands for NULL.
    async fn assign(&mut self, one: &Assignment) -> Result<(), ConnectionError> {
        let set = Assignment::statement(std::slice::from_ref(one)).unwrap_or_default();
        let done = self.run(&[(Command::Query, &set)]).await;
        match (done, one.to_null()) {
            (Err(ConnectionError::Refused { .. }), Some(null)) => {
                let set = Assignment::statement(std::slice::from_ref(&null)).unwrap_or_default();
                self.run(&[(Command::Query, &set)]).await?;
                let mut nullable = self.servers_own.nullable.borrow_mut();
                nullable.insert((*one.names[0]).into());
                Ok(())
            }
            (done, _) => done.map(drop),
        }
    }

    /// Makes the variables those of `wanted`. What the server refuses stays as it was at the login; on
    /// a connection that Heddle made READ ONLY that is an error, for another server may do better.
    /// Where another session's value would stay, the connection is of no use any more.
    pub(crate) async fn become_variables(
        &mut self,
        wanted: &Rc<SessionState>,
    ) -> Result<(), ConnectionError> {
        let guarded = self.guarded;
        let left = |name: &str| guarded && READ_ONLY.contains(&name);
        let mut assignments = self.state.assignments(wanted, &self.login, left);
        self.servers_own.spell(&mut assignments);
        let Some(set) = Assignment::statement(&assignments) else {
            self.set_state(wanted.clone());
            return Ok(());
        };
        match self.run(&[(Command::Query, &set)]).await {
            Ok(_) => {
                self.set_state(wanted.clone());
                return Ok(());
            }
            Err(ConnectionError::Refused { .. }) => {}
            Err(error) => return Err(error),
        }
        self.become_one_by_one(wanted, assignments).await
    }

    async fn become_one_by_one(
        &mut self,
        wanted: &SessionState,
        assignments: Vec<Assignment>,
    ) -> Result<(), ConnectionError> {
        let (mut state, mut refused) = ((*self.state).clone(), Vec::new());
        for one in assignments {
            let number = match self.assign(&one).await {
                Ok(()) => {
                    state = state.taking(wanted, &one.names);
                    continue;
                }
                Err(ConnectionError::Refused { number, .. }) => number,
                Err(error) => return Err(error),
            };
            let others = |name: &Arc<str>| self.state.variable(name).is_some();
            if number != NOT_TO_BE_SET && one.names.iter().any(others) {
                return Err(left_behind());
            }
            self.servers_own.note_refusal(number, &one.names);
            match number {
                NOT_TO_BE_SET => state = state.without_variables(&one.names),
                _ => refused.extend(one.names),
            }
        }
        self.set_state(Rc::new(state));
        match self.guarded && !refused.is_empty() {
            true => Err(ConnectionError::Variables { names: refused }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_release_is_asked_anew_and_refusals_are_counted_on() {
        let own = ServersOwn::default();
        own.note_refusal(NOT_TO_BE_SET, &["statement_id".into()]);
        own.note_refusal(1231, &["sql_mode".into()]);
        assert!(own.contains("statement_id") && !own.contains("sql_mode"));
        *own.session_only.borrow_mut() = Some(["timestamp".into()].into_iter().collect());
        let newer = own.of_another_release();
        assert!(own.is_session_only("timestamp") && !newer.is_session_only("timestamp"));
        assert!(!newer.contains("statement_id"));
        assert_eq!((own.refused(), newer.refused()), (2, 2));
    }
}
