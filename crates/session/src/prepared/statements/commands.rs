//! The commands about prepared statements, and making sure that a connection knows one.

use std::rc::Rc;

use backend::Text;
use farm::error;
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::EofPacket;
use mysql_wire::result::{Column, ColumnKind};
use mysql_wire::statement::{BulkExecute, Execute, PARAMETERS_COUNTED, PrepareOk};
use sqltext::{Class, Dialect, Facts, Verb};

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::refuse::out_of_memory;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::execution::choice;
use crate::execution::exec::{Job, Shape, text_shape};
use crate::execution::rules;
use crate::introspection::{listing, processlist};
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::prepared::prepared_packets;
use crate::prepared::statements::{
    PreparedStatements, Statement, function, named_statement, statement_key, unknown_statement,
};
use crate::query::by_rules;
use crate::session::Session;
use crate::variables::session_variables::SessionVariables;
use crate::variables::{own_variables, shown};

/// COM_STMT_EXECUTE without parameters: the command, the id, the flags, the number of executions.
const EXECUTE_BYTES_MIN: usize = 10;

impl Session {
    /// COM_STMT_PREPARE.
    pub(crate) async fn prepare(&mut self) -> Result<(), End> {
        if self.prepared.statements.len() >= self.core.settings().statements_max {
            return self.client.error(&error::TOO_MANY_STATEMENTS, &[]).await;
        }
        let text = match self.client.request.is_split() {
            true => self.core.text(&packet::joined(self.client.request.frame())[1..]),
            false => self.core.text(&self.client.request.payload()[1..]),
        };
        let mut shape = self.core.shape(text.bytes(), &self.variables.mode);
        if shape.facts.contains(Facts::MULTIPLE) || self.client.request.is_split() {
            shape.writes = true;
            shape.class = if shape.class == Class::Read {
                Class::Write
            } else {
                shape.class
            };
        }
        if own_variables::names_own(&self.client.request, &shape) || shape.class == Class::Local {
            let words = sqltext::heddle_words(text.bytes(), &self.variables.mode);
            return match choice::is_select(&words) {
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
            false => {
                let (core, user, run) = (&self.core, &self.user, &mut self.run);
                let (request, own) = (&mut self.client.request, &self.variables);
                rules::prepare_by_rules(core, user, request, own, run, text, &mut shape)
            }
        };
        let (text, asked) = match ruled {
            Ok(texts) => texts,
            Err(refusal) => return self.client.error(&refusal.error, &[&refusal.detail]).await,
        };
        let (request, own) = (&mut self.client.request, &self.variables);
        let text = identified(&self.core, &self.handle, request, own, text, &shape);
        let texts = (text, asked);
        let (text, asked) = listing::prepared(&self.core, request, own, texts, &shape);
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
        let done = by_rules::run_command(self, preparing(&shape), Job::Prepare(id)).await;
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
        if self.client.request.payload().len() < EXECUTE_BYTES_MIN {
            let row = &error::MALFORMED_PACKET;
            return self.client.error(row, &["COM_STMT_EXECUTE"]).await;
        }
        let id = named_statement(&self.client.request, &self.prepared);
        let named = text_shape::has_attributes(&self.client);
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
        let body = &self.client.request.payload()[1..];
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
        let (request, own, prepared) = (&self.client.request, &self.variables, &self.prepared);
        if let Some(full) = processlist::asks_processlist(request, own, prepared, &shape, job) {
            return Box::pin(processlist::show_processlist(self, full, job)).await;
        }
        if shape.verb == Verb::Show
            && self.prepared.statements.get(&id).is_none_or(|it| it.params == 0)
            && let Some(show) = shown::shows_values(request, own, prepared, &shape, job)
        {
            return Box::pin(self.show_values(show, shape, job)).await;
        }
        if listing::may_list(&self.variables, &shape)
            && let Some(done) = Box::pin(self.list_in_execute(id, shape)).await
        {
            return done;
        }
        by_rules::run_command(self, shape, job).await
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
        if self.client.request.payload().len() < EXECUTE_BYTES_MIN {
            let row = &error::MALFORMED_PACKET;
            return self.client.error(row, &["COM_STMT_EXECUTE"]).await;
        }
        let id = named_statement(&self.client.request, &self.prepared);
        let Some(statement) = self.prepared.statements.get_mut(&id) else {
            return unknown_statement(&mut self.client, &self.variables, id, "mysqld_stmt_execute")
                .await;
        };
        if statement.is_own() {
            return self.client.error(&error::NOT_PREPARABLE, &[]).await;
        }
        let body = &self.client.request.payload()[1..];
        let Ok(bulk) = BulkExecute::decode(body, statement.params) else {
            let details = "parameters that do not fit the statement";
            return self.client.error(&error::MALFORMED_PACKET, &[details]).await;
        };
        if !bulk.types.is_empty() && bulk.types != statement.types {
            statement.types = bulk.types.to_vec();
            statement.types_hash = prepared_packets::hash(&statement.types);
        }
        let shape = statement.shape;
        by_rules::run_command(self, shape, Job::Execute(id)).await
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
    request: &mut Request,
    variables: &SessionVariables,
    text: Rc<Text>,
    shape: &Shape,
) -> Rc<Text> {
    if !shape.facts.contains(Facts::CONNECTION_ID) {
        return text;
    }
    match sqltext::identify(text.bytes(), &variables.mode, handle.id) {
        Some(new) => {
            request.replace_text(&new);
            core.text(&new)
        }
        None => text,
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
