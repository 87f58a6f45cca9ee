//! LAST_INSERT_ID() belongs to the session, not to the connection: it is kept here and moves with
//! the session.
//!
//! An OK reports the id of an INSERT, also one that the client chose, which LAST_INSERT_ID() never
//! returns. Where that matters the connection that ran the INSERT is asked.

use backend::{Connection, ConnectionError};
use mysql_wire::command::Command;
use sqltext::{Class, Facts};

use crate::client::request::Request;
use crate::execution::exec::{Job, Shape};
use crate::per_core::handle::Handle;
use crate::prepared::statements::PreparedStatements;
use crate::variables::session_variables::SessionVariables;

const ASK: &[u8] = b"SELECT LAST_INSERT_ID()";

/// True for a statement that must find the session's value on its connection: it asks for it,
/// or keeps the connection and may change the value without saying so.
pub(crate) fn needs_insert_id(shape: &Shape) -> bool {
    let hidden = Facts::LAST_INSERT_ID | Facts::COMPOUND | Facts::TEXT_PREPARE;
    shape.class == Class::Call || shape.facts.intersects(hidden)
}

/// After an OK that reports an id.
pub(crate) fn note_insert_id(
    handle: &Handle,
    variables: &mut SessionVariables,
    connection: &mut Connection,
    id: u64,
) {
    let knew = has_insert_id(handle, variables, connection);
    if !knew {
        variables.insert_id.before = variables.insert_id.value;
    }
    let sure = knew && connection.owner.insert_id_sure;
    variables.insert_id.value = id;
    variables.insert_id.version += 1;
    own_insert_id(handle, variables, connection, sure);
}

/// Brings the session's value to the connection.
pub(crate) async fn move_insert_id(
    handle: &Handle,
    variables: &mut SessionVariables,
    connection: &mut Connection,
) -> Result<(), ConnectionError> {
    if has_insert_id(handle, variables, connection) {
        if connection.owner.insert_id_sure {
            return Ok(());
        }
        if fetch(connection).await? == variables.insert_id.value {
            own_insert_id(handle, variables, connection, true);
            return Ok(());
        }
        variables.insert_id.value = variables.insert_id.before;
        variables.insert_id.version += 1;
    }
    let set = format!("SET last_insert_id = {}", variables.insert_id.value);
    connection.run(&[(Command::Query, set.as_bytes())]).await?;
    own_insert_id(handle, variables, connection, true);
    Ok(())
}

/// After a statement that gave the function a value by naming it (`LAST_INSERT_ID(5)`, SET),
/// which no OK reports.
pub(crate) async fn learn_insert_id(
    handle: &Handle,
    variables: &mut SessionVariables,
    connection: &mut Connection,
) -> Result<(), ConnectionError> {
    variables.insert_id.value = fetch(connection).await?;
    variables.insert_id.version += 1;
    own_insert_id(handle, variables, connection, true);
    Ok(())
}

/// True when the text may assign the value: anything but the bare function and `@@` variables
/// that are only read.
pub(crate) fn assigns_insert_id(
    request: &Request,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
) -> bool {
    if !shape.facts.contains(Facts::LAST_INSERT_ID) {
        return false;
    }
    let text = match job {
        Job::Execute(id) => prepared.statement_text(id),
        _ => request.payload().get(1..).unwrap_or_default(),
    };
    shape.class == Class::Set || has_argument(text)
}

/// The connection's value is the session's, or was reported as such.
fn has_insert_id(handle: &Handle, variables: &SessionVariables, connection: &Connection) -> bool {
    let owner = connection.owner;
    owner.insert_id_session == handle.id && owner.insert_id_version == variables.insert_id.version
}

fn own_insert_id(
    handle: &Handle,
    variables: &SessionVariables,
    connection: &mut Connection,
    sure: bool,
) {
    connection.owner.insert_id_session = handle.id;
    connection.owner.insert_id_version = variables.insert_id.version;
    connection.owner.insert_id_sure = sure;
}

async fn fetch(connection: &mut Connection) -> Result<u64, ConnectionError> {
    let values = connection.ask(ASK).await?;
    let value = values.first().map_or(&b""[..], Vec::as_slice);
    // The function has a number always.
    Ok(String::from_utf8_lossy(value).parse().unwrap_or(0))
}

/// `LAST_INSERT_ID(` is followed by anything but `)` somewhere in the text.
fn has_argument(text: &[u8]) -> bool {
    const NAME: &[u8] = b"last_insert_id";
    let starts = text.windows(NAME.len()).enumerate();
    let mut calls = starts.filter(|(_, word)| word.eq_ignore_ascii_case(NAME));
    calls.any(|(at, _)| {
        let rest = text[at + NAME.len()..].trim_ascii_start();
        let argument = rest.strip_prefix(b"(").map(<[u8]>::trim_ascii_start);
        argument.is_some_and(|a| !a.starts_with(b")"))
    })
}

#[cfg(test)]
mod tests {
    use super::has_argument;

    #[test]
    fn only_an_argument_assigns() {
        assert!(!has_argument(b"SELECT LAST_INSERT_ID(), last_insert_id ( )"));
        assert!(!has_argument(b"SELECT @@last_insert_id"));
        assert!(has_argument(b"SELECT LAST_INSERT_ID() + Last_Insert_Id( 5)"));
    }
}
