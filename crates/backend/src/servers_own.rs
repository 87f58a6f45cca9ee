//! Session variables that a server lets no session set: they say something of the connection or
//! of a statement, and are no part of a session's state.
//!
//! No list of names knows them, for releases differ (MySQL reports `statement_id` with every reply from
//! 8.0.19 on). So each server is asked: what it reports of a SELECT that assigns nothing changes by
//! itself, and what it says to a SET of the value that it has just reported tells the others.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mysql_wire::command::Command;
use rustc_hash::FxHashSet;

use crate::connection::{Connection, ConnectionError};
use crate::state::{Assignment, READ_ONLY, SessionState, Tracked, classify};

/// ER_INCORRECT_GLOBAL_LOCAL_VAR: «Variable 'statement_id' is a read only variable».
const NOT_TO_BE_SET: u16 = 1238;

/// What a core has learnt of one server's variables.
#[derive(Debug, Default)]
pub(crate) struct ServersOwn {
    names: RefCell<FxHashSet<Box<str>>>,
    /// Those that it took again as it had reported them.
    settable: RefCell<FxHashSet<Box<str>>>,
    /// Those that have no global value.
    session_only: RefCell<FxHashSet<Box<str>>>,
    /// How often it refused to set a variable as a session had it.
    refused: Cell<u64>,
}

impl ServersOwn {
    /// The server lets no session set this variable.
    fn contains(&self, name: &str) -> bool {
        let names = self.names.borrow();
        !names.is_empty() && names.contains(name)
    }

    /// Takes note of a variable that changed without a SET.
    pub fn note(&self, name: &str) {
        self.names.borrow_mut().insert(name.into());
    }

    /// How often the server refused to set a variable as a session had it.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    fn note_refusal(&self, number: u16, names: &[std::sync::Arc<str>]) {
        self.refused.set(self.refused.get() + 1);
        if number == NOT_TO_BE_SET {
            names.iter().for_each(|name| self.note(name));
        }
    }

    /// Has variables without a global value go back to their default.
    fn spell(&self, assignments: &mut [Assignment]) {
        let known = self.session_only.borrow();
        for one in assignments.iter_mut().filter(|_| !known.is_empty()) {
            if known.contains(&*one.names[0])
                && let Some(other) = one.without_global()
            {
                *one = other;
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

impl Connection {
    /// How a session variable that this server reports is treated.
    pub fn classify(&self, name: &str) -> Tracked {
        match self.servers_own.contains(name) {
            true => Tracked::Ignored,
            false => classify(name),
        }
    }

    /// True where it is known that the server takes the variable as it reports it.
    pub fn is_settable(&self, name: &str) -> bool {
        self.servers_own.settable.borrow().contains(name)
    }

    /// Sets a variable to the value that the server has just reported of it. False: it cannot be
    /// brought to another connection.
    pub async fn try_to_set(&mut self, name: &str, value: &[u8]) -> Result<bool, ConnectionError> {
        let Some(set) = Assignment::statement(&[Assignment::one(name, Some(value))]) else {
            return Ok(true);
        };
        match self.run(&[(Command::Query, &set)]).await {
            Ok(_) => {
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

    /// Makes one assignment.
    async fn assign(&mut self, one: &Assignment) -> Result<(), ConnectionError> {
        let set = Assignment::statement(std::slice::from_ref(one)).unwrap_or_default();
        let done = self.run(&[(Command::Query, &set)]).await;
        match (done, one.without_global()) {
            (Err(ConnectionError::Refused { .. }), Some(other)) => {
                let set = Assignment::statement(std::slice::from_ref(&other)).unwrap_or_default();
                self.run(&[(Command::Query, &set)]).await?;
                let mut session_only = self.servers_own.session_only.borrow_mut();
                session_only.insert((*one.names[0]).into());
                Ok(())
            }
            (done, _) => done.map(drop),
        }
    }

    /// Makes the variables those of `wanted`. What the server refuses stays as it is here; on a
    /// connection that Heddle made READ ONLY that is an error, for another server may do better.
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
        let (mut state, mut refused) = ((*self.state).clone(), Vec::new());
        for one in assignments {
            match self.assign(&one).await {
                Ok(_) => state = state.taking(wanted, &one.names),
                Err(ConnectionError::Refused { number, .. }) => {
                    self.servers_own.note_refusal(number, &one.names);
                    if number != NOT_TO_BE_SET {
                        refused.extend(one.names);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        self.set_state(Rc::new(state));
        match self.guarded && !refused.is_empty() {
            true => Err(ConnectionError::Variables { names: refused }),
            false => Ok(()),
        }
    }
}
