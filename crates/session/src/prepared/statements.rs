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
use mysql_wire::capability::Capabilities;
use mysql_wire::packet::{self};
use mysql_wire::reply::EofPacket;
use mysql_wire::result::{Column, ColumnKind};
use mysql_wire::statement::{BulkExecute, Execute, LAST_PREPARED, PARAMETERS_COUNTED, PrepareOk};
use mysql_wire::status::Status;
use rustc_hash::{FxHashMap, FxHashSet};
use sqltext::{Class, Dialect, Facts, Slot, Verb};

use crate::client::Client;
use crate::client::end::End;
use crate::client::refuse::out_of_memory;
use crate::client::sink::ReplySink;
use crate::consistency::promises::Promises;
use crate::consistency::write_tags;
use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::introspection::{listing, processlist};
use crate::per_core::{Core, Handle};
use crate::place::{Texts, chosen};
use crate::prepared::prepared_bytes::{Portion, PreparedBytes};
use crate::prepared::prepared_packets;
use crate::query;
use crate::session::Session;
use crate::variables::session_variables::SessionVariables;
use crate::variables::{own_variables, shown};

/// COM_STMT_EXECUTE without parameters: the command, the id, the flags, the number of executions.
const EXECUTE_BYTES_MIN: usize = 10;

/// A statement as its client knows it.
pub(crate) struct Statement {
    pub(crate) key: Prepared,
    /// The client's own text, where a rule has changed it.
    pub(crate) asked: Option<Rc<Text>>,
    /// Under which it was prepared; prepared elsewhere, it must mean the same.
    pub(crate) state: Rc<SessionState>,
    pub(crate) shape: Shape,
    pub(crate) params: u16,
    /// Its rows have numbers that text rows would cut.
    pub(crate) cuts_digits: bool,
    /// The parameter types that the client bound last.
    pub(crate) types: Vec<u8>,
    pub(crate) types_hash: u64,
    /// The values of its text, once somebody wanted to know them.
    pub(crate) slots: std::cell::OnceCell<Box<[Slot]>>,
    /// Rows are waiting at the server.
    pub cursor: bool,
    /// Long data is waiting at the server for the next EXECUTE.
    pub long_data: bool,
    /// Long data was lost with its connection: the next EXECUTE must not run without it.
    pub(crate) broken: bool,
    /// Long data came for a parameter that is not there: EXECUTE says so until the next RESET.
    pub(crate) astray: bool,
    /// Long data came that there was no memory for: the next EXECUTE says so and does not run.
    pub(crate) starved: Option<Full>,
    /// What it takes of the session's bytes.
    pub(crate) _portion: Portion,
}

impl Statement {
    /// One that has not been executed yet.
    fn new(
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
    pub(crate) fn is_own(&self) -> bool {
        self.shape.class == Class::Local
    }
}

/// The prepared statements of one session.
pub(crate) struct PreparedStatements {
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
}

impl Session {
    /// COM_STMT_PREPARE.
    pub(crate) async fn prepare(&mut self) -> Result<(), End> {
        if self.prepared.statements.len() >= self.core.settings().statements_max {
            return self.client.error(&error::TOO_MANY_STATEMENTS, &[]).await;
        }
        let text = match self.client.is_split() {
            true => self.core.text(&packet::joined(self.client.frame())[1..]),
            false => self.core.text(&self.client.payload()[1..]),
        };
        let mut shape = self.core.shape(text.bytes(), &self.variables.mode);
        if shape.facts.contains(Facts::MULTIPLE) || self.client.is_split() {
            shape.writes = true;
            shape.class = if shape.class == Class::Read {
                Class::Write
            } else {
                shape.class
            };
        }
        if own_variables::names_own(&self.client, &shape) || shape.class == Class::Local {
            let words = sqltext::heddle_words(text.bytes(), &self.variables.mode);
            return match chosen::is_select(&words) {
                true => {
                    let (core, client, prepared) =
                        (&self.core, &mut self.client, &mut self.prepared);
                    prepare_select(core, client, &self.variables, prepared, text, shape).await
                }
                // Clients that hear this send the text as it is.
                false => self.client.error(&error::NOT_PREPARABLE, &[]).await,
            };
        }
        let ruled = match self.core.shared.rules.is_empty() {
            true => Ok((text, None)),
            false => self.prepare_by_rules(text, &mut shape),
        };
        let (text, asked) = match ruled {
            Ok(texts) => texts,
            Err(refusal) => return self.client.error(&refusal.error, &[&refusal.detail]).await,
        };
        let text =
            identified(&self.core, &self.handle, &mut self.client, &self.variables, text, &shape);
        let own = asked.as_ref().map_or(&b""[..], |asked| asked.bytes());
        let bytes_max = self.core.settings().statements_bytes_max;
        let portion = match self.prepared.bytes.take([text.bytes(), own], bytes_max) {
            Ok(portion) => portion,
            Err(error) => {
                self.run.ruled = None;
                return self.client.error(&error, &[]).await;
            }
        };
        let id = self.prepared.next_statement_id();
        let key = statement_key(&self.variables, &self.prepared, text);
        self.prepared.preparing = Some((key.clone(), None));
        let state = self.variables.state.clone();
        let done = self.run_command(preparing(&shape), Job::Prepare(id)).await;
        self.run.ruled = None;
        done?;
        if let Some((_, Some(reply))) = self.prepared.preparing.take() {
            let statement = Statement::new(key, asked, state, shape, &reply, portion);
            self.prepared.keys.insert(statement.key.clone());
            self.prepared.statements.insert(id, statement);
        }
        Ok(())
    }

    /// COM_STMT_EXECUTE.
    pub(crate) async fn execute(&mut self) -> Result<(), End> {
        if self.client.payload().len() < EXECUTE_BYTES_MIN {
            let row = &error::MALFORMED_PACKET;
            return self.client.error(row, &["COM_STMT_EXECUTE"]).await;
        }
        let id = named_statement(&self.client, &self.prepared);
        let named = query::has_attributes(&self.client);
        let Some(statement) = self.prepared.statements.get_mut(&id) else {
            return unknown_statement(&mut self.client, &self.variables, id, "mysqld_stmt_execute")
                .await;
        };
        if statement.astray {
            let function = function(&self.variables, "mysqld_stmt_send_long_data");
            return self.client.error(&error::WRONG_ARGUMENTS, &[function]).await;
        }
        if let Some(full) = statement.starved.take() {
            return self.client.error(&out_of_memory(full), &[]).await;
        }
        if std::mem::take(&mut statement.broken) {
            return self.client.error(&error::SESSION_LOST_PIN, &["long data"]).await;
        }
        if statement.is_own() {
            return self.client.error(&error::NOT_PREPARABLE, &[]).await;
        }
        let body = &self.client.payload()[1..];
        let Ok(execute) = Execute::decode(body, statement.params, named) else {
            let details = "parameters that do not fit the statement";
            return self.client.error(&error::MALFORMED_PACKET, &[details]).await;
        };
        if execute.new_params_bound && execute.types != statement.types {
            statement.types = execute.types.to_vec();
            statement.types_hash = prepared_packets::hash(&statement.types);
        }
        let mut shape = statement.shape;
        let cursor = execute.flags & !PARAMETERS_COUNTED != 0;
        if cursor && shape.class == Class::Read {
            // A cursor holds its connection, and with it all that the session does next.
            shape.class = Class::Show;
        }
        let job = Job::Execute(id);
        if shape.facts.intersects(Facts::KILL | Facts::SHUTDOWN) {
            return Box::pin(self.kill_statement(shape, job)).await;
        }
        if let Some(full) = processlist::asks_processlist(
            &self.client,
            &self.variables,
            &self.prepared,
            &shape,
            job,
        ) {
            return Box::pin(self.show_processlist(full, job)).await;
        }
        if shape.verb == Verb::Show
            && self.prepared.statements.get(&id).is_none_or(|it| it.params == 0)
            && let Some(show) =
                shown::shows_values(&self.client, &self.variables, &self.prepared, &shape, job)
        {
            return Box::pin(self.show_values(show, shape, job)).await;
        }
        if listing::may_list(&self.variables, &shape)
            && let Some(done) = Box::pin(self.list_in_execute(id, shape)).await
        {
            return done;
        }
        self.run_command(shape, job).await
    }

    /// COM_STMT_BULK_EXECUTE: like an EXECUTE, of many rows.
    pub(crate) async fn bulk_execute(&mut self) -> Result<(), End> {
        let capable = Capabilities::MARIADB_STMT_BULK;
        if !self.client.capabilities.contains(capable) {
            let error = match self.variables.mode.dialect {
                Dialect::MariaDb => error::BULK_NOT_AGREED,
                Dialect::MySql => error::UNKNOWN_COMMAND,
            };
            return self.client.error(&error, &[]).await;
        }
        if self.client.payload().len() < EXECUTE_BYTES_MIN {
            let row = &error::MALFORMED_PACKET;
            return self.client.error(row, &["COM_STMT_EXECUTE"]).await;
        }
        let id = named_statement(&self.client, &self.prepared);
        let Some(statement) = self.prepared.statements.get_mut(&id) else {
            return unknown_statement(&mut self.client, &self.variables, id, "mysqld_stmt_execute")
                .await;
        };
        if statement.is_own() {
            return self.client.error(&error::NOT_PREPARABLE, &[]).await;
        }
        let body = &self.client.payload()[1..];
        let Ok(bulk) = BulkExecute::decode(body, statement.params) else {
            let details = "parameters that do not fit the statement";
            return self.client.error(&error::MALFORMED_PACKET, &[details]).await;
        };
        if !bulk.types.is_empty() && bulk.types != statement.types {
            statement.types = bulk.types.to_vec();
            statement.types_hash = prepared_packets::hash(&statement.types);
        }
        let shape = statement.shape;
        self.run_command(shape, Job::Execute(id)).await
    }
}

impl PreparedStatements {
    /// The text of a statement; empty when there is no such statement.
    pub(crate) fn statement_text(&self, id: u32) -> &[u8] {
        self.statements.get(&id).map_or(&[], |statement| statement.key.text.bytes())
    }

    /// True while an open cursor or long data ties a statement to its connection. Nobody looks
    /// through a client's thousands of statements unless one of them was tied lately.
    pub(crate) fn has_ties(&self) -> bool {
        if self.ties.get() {
            let tied = self.statements.values().any(|s| s.cursor || s.long_data);
            self.ties.set(tied);
        }
        self.ties.get()
    }

    /// Gives a statement another text to run under, and returns the one that it had.
    pub(crate) fn exchange_text(&mut self, id: u32, text: Rc<Text>) -> Option<Rc<Text>> {
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

    fn next_statement_id(&mut self) -> u32 {
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

/// Prepares `HEDDLE SELECT ?`, of which no server hears.
async fn prepare_select(
    core: &Core,
    client: &mut Client,
    variables: &SessionVariables,
    prepared: &mut PreparedStatements,
    text: Rc<Text>,
    shape: Shape,
) -> Result<(), End> {
    if core.shared.published.load().sharding.is_none() {
        return client.error(&error::SETTING_UNKNOWN, &["heddle_shard_key"]).await;
    }
    let bytes_max = core.settings().statements_bytes_max;
    let portion = match prepared.bytes.take([text.bytes(), b""], bytes_max) {
        Ok(portion) => portion,
        Err(error) => return client.error(&error, &[]).await,
    };
    let id = prepared.next_statement_id();
    let reply = PrepareOk {
        statement_id: id,
        columns: 0,
        params: 1,
        warnings: 0,
        cuts_digits: false,
    };
    let key = statement_key(variables, prepared, text);
    prepared.keys.insert(key.clone());
    let statement = Statement::new(key, None, variables.state.clone(), shape, &reply, portion);
    prepared.statements.insert(id, statement);
    let (mut out, caps) = (Vec::with_capacity(64), client.capabilities);
    let sequence = &mut client.sequence;
    packet::write_with(&mut out, sequence, |out| reply.encode(out));
    let tag = Column::new("?", ColumnKind::VarString);
    packet::write_with(&mut out, sequence, |out| tag.encode(out, caps));
    if !caps.contains(Capabilities::DEPRECATE_EOF) {
        let end = EofPacket {
            warnings: 0,
            status: variables.status,
        };
        packet::write_with(&mut out, sequence, |out| end.encode(out));
    }
    client.say(out).await
}

/// The text of a PREPARE with the id that the client knows, where it asks for its connection's.
fn identified(
    core: &Core,
    handle: &Handle,
    client: &mut Client,
    variables: &SessionVariables,
    text: Rc<Text>,
    shape: &Shape,
) -> Rc<Text> {
    if !shape.facts.contains(Facts::CONNECTION_ID) {
        return text;
    }
    match sqltext::identify(text.bytes(), &variables.mode, handle.id) {
        Some(new) => {
            client.replace_text(&new);
            core.text(&new)
        }
        None => text,
    }
}

/// A key that no other statement of this session has.
fn statement_key(
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
pub(crate) fn named_statement(client: &Client, prepared: &PreparedStatements) -> u32 {
    let id = client.payload().get(1..5).map_or([0; 4], |b| [b[0], b[1], b[2], b[3]]);
    match u32::from_le_bytes(id) {
        LAST_PREPARED => prepared.last_id,
        id => id,
    }
}

/// The servers' error names the function that missed the statement: in MySQL it is always one.
pub(crate) async fn unknown_statement(
    client: &mut Client,
    variables: &SessionVariables,
    id: u32,
    command: &str,
) -> Result<(), End> {
    let function = function(variables, command);
    client.error(&error::UNKNOWN_STATEMENT, &[&id.to_string(), function]).await
}

/// What the servers' errors call the function that carries out a command.
pub(crate) fn function<'a>(variables: &SessionVariables, command: &'a str) -> &'a str {
    match variables.mode.dialect {
        Dialect::MariaDb => command,
        Dialect::MySql => "mysql_stmt_precheck",
    }
}

/// Makes sure that the connection knows the statement.
pub(crate) async fn ready_statement(
    core: &Core,
    promises: &Promises,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    id: u32,
) -> Result<(), ConnectionError> {
    let Some(statement) = prepared.statements.get(&id) else {
        return Ok(());
    };
    if connection.known(&statement.key).is_some() {
        return Ok(());
    }
    count(&core.counters.prepares_repeated);
    let tag = write_tags::tag_for(core, promises, connection, &statement.shape);
    Box::pin(prepare_elsewhere(connection, statement, &tag)).await
}

/// After a server refused to prepare one statement more: makes room on this connection, or else
/// by closing idle ones. After it did not know a statement: forgets it, so that it is prepared
/// anew.
pub(crate) async fn make_room_for_statement(
    core: &Core,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    job: Job,
) {
    // A connection that breaks here is found out by its next use.
    match job {
        Job::Execute(id) => {
            if let Some(statement) = prepared.statements.get(&id) {
                let _ = connection.forget(&statement.key).await;
            }
        }
        _ => {
            if !matches!(connection.close_free_statements().await, Ok(true)) {
                core.pools.close_idle_of(connection.server);
            }
        }
    }
}

/// What the PREPARE of a text does: nothing yet. It pins nothing and writes nothing.
fn preparing(shape: &Shape) -> Shape {
    let class = match shape.class {
        Class::Read => Class::Read,
        _ => Class::Show,
    };
    Shape {
        class,
        verb: Verb::Other,
        facts: Facts::empty(),
        tracking: false,
        writes: false,
        ..*shape
    }
}

/// Prepares a statement on a connection that does not know it, under the state of its PREPARE.
async fn prepare_elsewhere(
    connection: &mut Connection,
    statement: &Statement,
    tag: &str,
) -> Result<(), ConnectionError> {
    let now = connection.state().clone();
    let then = Rc::new(now.parsing_as(&statement.state));
    if SessionState::same(&now, &then) || !now.can_become(&then) {
        return connection.prepare(&statement.key, tag).await.map(drop);
    }
    connection.become_state(&then).await?;
    let prepared = connection.prepare(&statement.key, tag).await;
    if connection.become_state(&now).await.is_err() {
        let (operation, source) =
            ("returning to the session's state", std::io::Error::other("refused"));
        return Err(ConnectionError::Broken { operation, source });
    }
    prepared.map(drop)
}
