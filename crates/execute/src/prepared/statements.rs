//! Prepared statements: the client's own ids over whichever connection serves.
//!
//! A statement is prepared again where it is not known yet. The types of parameters, which a client
//! sends once and the server remembers per connection, are put back into an EXECUTE that relies on
//! types which this connection does not have.

use std::cell::Cell;
use std::rc::Rc;

use backend::{Connection, ConnectionError, Prepared, SessionState, Text};
use farm::error;
use memory::Full;
use mysql_wire::statement::{LAST_PREPARED, PrepareOk};
use mysql_wire::status::Status;
use rustc_hash::{FxHashMap, FxHashSet};
use sqltext::{Class, Dialect, Slot};

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::execution::exec::{Job, Shape};
use crate::prepared::prepared_bytes::{Portion, PreparedBytes};
use crate::prepared::texts::Texts;
use crate::variables::session_variables::SessionVariables;

/// A statement as its client knows it.
pub struct Statement {
    pub key: Prepared,
    /// The client's own text, where a rule has changed it.
    pub asked: Option<Rc<Text>>,
    /// Under which it was prepared; prepared elsewhere, it must mean the same.
    pub state: Rc<SessionState>,
    pub shape: Shape,
    pub params: u16,
    /// Its rows have numbers that text rows would cut.
    pub cuts_digits: bool,
    /// The parameter types that the client bound last.
    pub types: Vec<u8>,
    pub types_hash: u64,
    /// The values of its text, once somebody wanted to know them.
    pub slots: std::cell::OnceCell<Box<[Slot]>>,
    /// Rows are waiting at the server.
    pub cursor: bool,
    /// Long data is waiting at the server for the next EXECUTE.
    pub long_data: bool,
    /// Long data was lost with its connection: the next EXECUTE must not run without it.
    pub broken: bool,
    /// Long data came for a parameter that is not there: EXECUTE says so until the next RESET.
    pub astray: bool,
    /// Long data came that there was no memory for: the next EXECUTE says so and does not run.
    pub starved: Option<Full>,
    /// What it takes of the session's bytes.
    pub _portion: Portion,
}

impl Statement {
    /// One that has not been executed yet.
    pub fn new(
        key: Prepared,
        asked: Option<Rc<Text>>,
        state: Rc<SessionState>,
        shape: Shape,
        reply: &PrepareOk,
        portion: Portion,
    ) -> Statement {
        Statement {
            key,
            asked,
            state,
            shape,
            params: reply.params,
            cuts_digits: reply.cuts_digits,
            types: Vec::new(),
            types_hash: 0,
            slots: Default::default(),
            cursor: false,
            long_data: false,
            broken: false,
            astray: false,
            starved: None,
            _portion: portion,
        }
    }

    /// No server knows it: it is there to take what the client selects.
    pub fn is_own(&self) -> bool {
        self.shape.class == Class::Local
    }
}

/// The prepared statements of one session.
pub struct PreparedStatements {
    pub statements: FxHashMap<u32, Statement>,
    pub bytes: PreparedBytes,
    /// What the statements above are on any connection.
    pub keys: FxHashSet<Prepared>,
    /// One of them may have an open cursor or long data.
    pub ties: Cell<bool>,
    pub last_id: u32,
    /// The statement that a PREPARE under way is about, and the server's reply to it.
    pub preparing: Option<(Prepared, Option<PrepareOk>)>,
    /// Statements prepared in SQL that several groups may have to run, once there are any.
    pub texts: Option<Box<Texts>>,
}

impl PreparedStatements {
    /// None yet; their bytes are taken from this budget.
    pub fn new(bytes: PreparedBytes) -> PreparedStatements {
        PreparedStatements {
            statements: FxHashMap::default(),
            bytes,
            keys: FxHashSet::default(),
            ties: Cell::new(false),
            last_id: 0,
            preparing: None,
            texts: None,
        }
    }

    /// The client's command is an EXECUTE whose rows have numbers that text rows would cut.
    pub fn wants_digits(&self, job: Job) -> bool {
        let Job::Execute(id) = job else { return false };
        let statement = self.statements.get(&id);
        statement.is_some_and(|statement| statement.cuts_digits)
    }
}

impl PreparedStatements {
    /// The text of a statement; empty when there is no such statement.
    pub fn statement_text(&self, id: u32) -> &[u8] {
        self.statements.get(&id).map_or(&[], |statement| statement.key.text.bytes())
    }

    /// True while an open cursor or long data ties a statement to its connection. Nobody looks
    /// through a client's thousands of statements unless one of them was tied lately.
    pub fn has_ties(&self) -> bool {
        if self.ties.get() {
            let tied = self.statements.values().any(|s| s.cursor || s.long_data);
            self.ties.set(tied);
        }
        self.ties.get()
    }

    /// Gives a statement another text to run under, and returns the one that it had.
    pub fn exchange_text(&mut self, id: u32, text: Rc<Text>) -> Option<Rc<Text>> {
        let statement = self.statements.get_mut(&id)?;
        statement.slots.take();
        Some(std::mem::replace(&mut statement.key.text, text))
    }

    /// The connection with all cursors and long data is gone.
    pub(crate) fn forget_cursors(&mut self) {
        for statement in self.statements.values_mut() {
            statement.cursor = false;
            statement.broken |= std::mem::take(&mut statement.long_data);
        }
    }

    pub fn next_statement_id(&mut self) -> u32 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            let id = self.last_id;
            if id != 0 && id != LAST_PREPARED && !self.statements.contains_key(&id) {
                return id;
            }
        }
    }

    /// After the server prepared a statement: the connection knows it from now on.
    pub(crate) async fn note_prepared(
        &mut self,
        connection: &mut Connection,
        reply: PrepareOk,
    ) -> Result<(), ConnectionError> {
        let Some((key, answer)) = &mut self.preparing else {
            return Ok(());
        };
        *answer = Some(reply);
        connection.remember(key.clone(), reply.statement_id).await
    }

    /// Notes after an EXECUTE what is left of the statement at the server.
    pub(crate) fn note_executed(
        &mut self,
        connection: &mut Connection,
        id: u32,
        status: Option<Status>,
    ) {
        if let Some(statement) = self.statements.get_mut(&id) {
            let cursor = status.is_some_and(|s| s.contains(Status::CURSOR_EXISTS));
            if cursor || statement.cursor || statement.long_data {
                connection.tie(&statement.key, cursor);
            }
            (statement.cursor, statement.long_data) = (cursor, false);
            self.ties.set(self.ties.get() || cursor);
        }
    }
}

/// A key that no other statement of this session has.
pub fn statement_key(
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    text: Rc<Text>,
) -> Prepared {
    let (state, copy) = (variables.state.parsing().hash(), 0);
    let mut key = Prepared { text, state, copy };
    while prepared.keys.contains(&key) {
        key.copy += 1;
    }
    key
}

/// The statement id of the current command; MariaDB's clients may mean the last one prepared.
pub fn named_statement(request: &Request, prepared: &PreparedStatements) -> u32 {
    let id = request.payload().get(1..5).map_or([0; 4], |b| [b[0], b[1], b[2], b[3]]);
    match u32::from_le_bytes(id) {
        LAST_PREPARED => prepared.last_id,
        id => id,
    }
}

/// The servers' error names the function that missed the statement: in MySQL it is always one.
pub async fn unknown_statement(
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    id: u32,
    command: &str,
) -> Result<(), End> {
    let function = function(variables, command);
    client.error(&error::UNKNOWN_STATEMENT, &[&id.to_string(), function]).await
}

/// What the servers' errors call the function that carries out a command.
pub fn function<'a>(variables: &SessionVariables, command: &'a str) -> &'a str {
    match variables.mode.dialect {
        Dialect::MariaDb => command,
        Dialect::MySql => "mysql_stmt_precheck",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::sink::buffer::{now, refusal};
    use crate::variables::session_variables::fresh;

    #[test]
    fn who_names_no_statement_of_its_own_hears_so_in_its_servers_words() {
        for (dialect, function) in [
            (Dialect::MariaDb, "mysqld_stmt_execute"),
            (Dialect::MySql, "mysql_stmt_precheck"),
        ] {
            let mut sink = Vec::<u8>::new();
            let variables = fresh(dialect);
            let told = unknown_statement(&mut sink, &variables, 7, "mysqld_stmt_execute");
            now(told).expect("a buffer takes all");
            let (number, text) = refusal(&sink);
            assert_eq!(number, error::UNKNOWN_STATEMENT.number);
            assert!(text.contains('7') && text.contains(function), "{text}");
        }
    }

    #[test]
    fn an_id_that_is_in_use_is_given_to_no_other_statement() {
        let memory = std::sync::Arc::new(memory::Budget::new(1 << 20));
        let mut prepared = PreparedStatements::new(PreparedBytes::new(&memory));
        assert_eq!(prepared.next_statement_id(), 1);
        prepared.last_id = u32::MAX;
        assert_eq!(prepared.next_statement_id(), 1, "0 and the last prepared one have no number");
    }
}
