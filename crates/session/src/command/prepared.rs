//! The commands about prepared statements, and making sure that a connection knows one.

use std::rc::Rc;

use backend::Text;
use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::refuse::out_of_memory;
use execute::client::request::Request;
use execute::client::sink::ReplySink;
use execute::execution::exec::{Job, Shape, text_shape};
use execute::execution::{choice, rules};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::prepared::prepared_packets;
use execute::prepared::statements::{
    PreparedStatements, Statement, function, named_statement, statement_key, unknown_statement,
};
use execute::session::Session;
use execute::variables::own_variables;
use execute::variables::session_variables::SessionVariables;
use farm::error;
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::EofPacket;
use mysql_wire::result::{Column, ColumnKind};
use mysql_wire::statement::{BulkExecute, Execute, PARAMETERS_COUNTED, PrepareOk};
use reactor::rarely;
use sqltext::{Class, Dialect, Facts, Verb};

use crate::introspection::kill;
use crate::introspection::{listing, processlist, shown};
use crate::query::by_rules;

/// COM_STMT_EXECUTE without parameters: the command, the id, the flags, the number of executions.
const EXECUTE_BYTES_MIN: usize = 10;

/// COM_STMT_PREPARE.
pub(crate) async fn prepare(session: &mut Session) -> Result<(), End> {
    if session.prepared.statements.len() >= session.core.settings().statements_max {
        return session.client.error(&error::TOO_MANY_STATEMENTS, &[]).await;
    }
    let text = match session.client.request.is_split() {
        true => session.core.text(&packet::joined(session.client.request.frame())[1..]),
        false => session.core.text(&session.client.request.payload()[1..]),
    };
    let mut shape = session.core.shape(text.bytes(), &session.variables.mode);
    if shape.facts.contains(Facts::MULTIPLE) || session.client.request.is_split() {
        shape.writes = true;
        shape.class = if shape.class == Class::Read {
            Class::Write
        } else {
            shape.class
        };
    }
    if own_variables::names_own(&session.client.request, &shape) || shape.class == Class::Local {
        let words = sqltext::heddle_words(text.bytes(), &session.variables.mode);
        return match choice::is_select(&words) {
            true => {
                let (core, client, prepared) =
                    (&session.core, &mut session.client, &mut session.prepared);
                prepare_select(core, client, &session.variables, prepared, text, shape).await
            }
            // Clients that hear this send the text as it is.
            false => session.client.error(&error::NOT_PREPARABLE, &[]).await,
        };
    }
    let ruled = match session.core.shared.rules.is_empty() {
        true => Ok((text, None)),
        false => {
            let (core, user, run) = (&session.core, &session.user, &mut session.run);
            let (request, own) = (&mut session.client.request, &session.variables);
            rules::prepare_by_rules(core, user, request, own, run, text, &mut shape)
        }
    };
    let (text, asked) = match ruled {
        Ok(texts) => texts,
        Err(refusal) => return session.client.error(&refusal.error, &[&refusal.detail]).await,
    };
    let (request, own) = (&mut session.client.request, &session.variables);
    let text = identified(&session.core, &session.handle, request, own, text, &shape);
    let texts = (text, asked);
    let (text, asked) = listing::prepared(&session.core, request, own, texts, &shape);
    let own = asked.as_ref().map_or(&b""[..], |asked| asked.bytes());
    let bytes_max = session.core.settings().statements_bytes_max;
    let portion = match session.prepared.bytes.take([text.bytes(), own], bytes_max) {
        Ok(portion) => portion,
        Err(error) => {
            session.run.ruled = None;
            return session.client.error(&error, &[]).await;
        }
    };
    let id = session.prepared.next_statement_id();
    let key = statement_key(&session.variables, &session.prepared, text);
    session.prepared.preparing = Some((key.clone(), None));
    let state = session.variables.state.clone();
    let done = by_rules::run_command(session, preparing(&shape), Job::Prepare(id)).await;
    session.run.ruled = None;
    done?;
    if let Some((_, Some(reply))) = session.prepared.preparing.take() {
        let statement = Statement::new(key, asked, state, shape, &reply, portion);
        session.prepared.keys.insert(statement.key.clone());
        session.prepared.statements.insert(id, statement);
    }
    Ok(())
}

/// COM_STMT_EXECUTE.
pub(crate) async fn execute(session: &mut Session) -> Result<(), End> {
    if session.client.request.payload().len() < EXECUTE_BYTES_MIN {
        let row = &error::MALFORMED_PACKET;
        return session.client.error(row, &["COM_STMT_EXECUTE"]).await;
    }
    let id = named_statement(&session.client.request, &session.prepared);
    let named = text_shape::has_attributes(&session.client);
    let Some(statement) = session.prepared.statements.get_mut(&id) else {
        return unknown_statement(
            &mut session.client,
            &session.variables,
            id,
            "mysqld_stmt_execute",
        )
        .await;
    };
    if statement.astray {
        let function = function(&session.variables, "mysqld_stmt_send_long_data");
        return session.client.error(&error::WRONG_ARGUMENTS, &[function]).await;
    }
    if let Some(full) = statement.starved.take() {
        return session.client.error(&out_of_memory(full), &[]).await;
    }
    if std::mem::take(&mut statement.broken) {
        return session.client.error(&error::SESSION_LOST_PIN, &["long data"]).await;
    }
    if statement.is_own() {
        return session.client.error(&error::NOT_PREPARABLE, &[]).await;
    }
    let body = &session.client.request.payload()[1..];
    let Ok(execute) = Execute::decode(body, statement.params, named) else {
        let details = "parameters that do not fit the statement";
        return session.client.error(&error::MALFORMED_PACKET, &[details]).await;
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
        return rarely(kill::kill_statement(session, shape, job)).await;
    }
    let (request, own, prepared) = (&session.client.request, &session.variables, &session.prepared);
    if let Some(full) = processlist::asks_processlist(request, own, prepared, &shape, job) {
        return rarely(processlist::show_processlist(session, full, job)).await;
    }
    if shape.verb == Verb::Show
        && session.prepared.statements.get(&id).is_none_or(|it| it.params == 0)
        && let Some(show) = shown::shows_values(request, own, prepared, &shape, job)
    {
        return rarely(shown::show_values(session, show, shape, job)).await;
    }
    if listing::may_list(&session.variables, &shape)
        && let Some(done) = rarely(listing::list_in_execute(session, id, shape)).await
    {
        return done;
    }
    by_rules::run_command(session, shape, job).await
}

/// COM_STMT_BULK_EXECUTE: like an EXECUTE, of many rows.
pub(crate) async fn bulk_execute(session: &mut Session) -> Result<(), End> {
    let capable = Capabilities::MARIADB_STMT_BULK;
    if !session.client.capabilities.contains(capable) {
        let error = match session.variables.mode.dialect {
            Dialect::MariaDb => error::BULK_NOT_AGREED,
            Dialect::MySql => error::UNKNOWN_COMMAND,
        };
        return session.client.error(&error, &[]).await;
    }
    if session.client.request.payload().len() < EXECUTE_BYTES_MIN {
        let row = &error::MALFORMED_PACKET;
        return session.client.error(row, &["COM_STMT_EXECUTE"]).await;
    }
    let id = named_statement(&session.client.request, &session.prepared);
    let Some(statement) = session.prepared.statements.get_mut(&id) else {
        return unknown_statement(
            &mut session.client,
            &session.variables,
            id,
            "mysqld_stmt_execute",
        )
        .await;
    };
    if statement.is_own() {
        return session.client.error(&error::NOT_PREPARABLE, &[]).await;
    }
    let body = &session.client.request.payload()[1..];
    let Ok(bulk) = BulkExecute::decode(body, statement.params) else {
        let details = "parameters that do not fit the statement";
        return session.client.error(&error::MALFORMED_PACKET, &[details]).await;
    };
    if !bulk.types.is_empty() && bulk.types != statement.types {
        statement.types = bulk.types.to_vec();
        statement.types_hash = prepared_packets::hash(&statement.types);
    }
    let shape = statement.shape;
    by_rules::run_command(session, shape, Job::Execute(id)).await
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
    if core.glance().sharding.is_none() {
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
