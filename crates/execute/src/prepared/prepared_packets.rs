//! The packets of prepared statements, with the ids and the parameter types of the connection that they go to.

use crate::client::Client;
use crate::client::request::Request;
use crate::execution::exec::{Shape, text_shape};
use crate::prepared::statements;
use crate::prepared::statements::{PreparedStatements, Statement};
use backend::{Connection, Prepared};
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet::{self, HEADER_BYTES};
use mysql_wire::statement::{BulkExecute, Execute};
use rustc_hash::FxHasher;

/// Writes the server's id of the statement into the command. Returns the command rewritten
/// where types had to be put in.
pub fn address_statement(
    client: &mut Client,
    prepared: &PreparedStatements,
    connection: &mut Connection,
    id: u32,
) -> Option<Vec<u8>> {
    let named = text_shape::has_attributes(client);
    let statement = prepared.statements.get(&id)?;
    let takes_names = connection.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
    let known = connection.known(&statement.key)?;
    client.request.patch(1, &known.server_id.to_le_bytes());
    let command = Command::try_from(client.request.payload()[0]);
    let executes = matches!(command, Ok(Command::StmtExecute | Command::StmtBulkExecute));
    if named && !takes_names && command == Ok(Command::StmtExecute) {
        return Some(without_attributes(&packet::joined(client.request.frame()), statement));
    }
    if statement.params == 0 || !executes {
        return None;
    }
    let has = std::mem::replace(&mut known.types, statement.types_hash);
    if has == statement.types_hash {
        return None;
    }
    let body = &client.request.payload()[1..];
    let bound = match command {
        Ok(Command::StmtBulkExecute) => {
            BulkExecute::decode(body, statement.params).is_ok_and(|b| !b.types.is_empty())
        }
        _ => Execute::decode(body, statement.params, named).is_ok_and(|e| e.new_params_bound),
    };
    (!bound).then(|| with_types(&packet::joined(client.request.frame()), statement, named))
}

/// The current EXECUTE for another connection, which knows neither its id nor its types: the
/// statement, and the whole command, without a cursor. `None` where it relies on more.
pub(crate) fn execution(
    client: &Client,
    prepared: &PreparedStatements,
    id: u32,
) -> Option<(Prepared, Vec<u8>)> {
    let statement = prepared.statements.get(&id)?;
    let command = Command::try_from(client.request.payload()[0]);
    if statement.long_data
        || text_shape::has_attributes(client)
        || command != Ok(Command::StmtExecute)
    {
        return None;
    }
    let mut payload = packet::joined(client.request.frame());
    let execute = Execute::decode(&payload[1..], statement.params, false).ok()?;
    if statement.params > 0 && !execute.new_params_bound {
        payload = packet::joined(&with_types(&payload, statement, false));
    }
    payload[5] = 0;
    Some((statement.key.clone(), payload))
}

/// The statement of the current EXECUTE when it waits for nothing: no long data, no cursor.
pub(crate) fn executable(request: &Request, prepared: &PreparedStatements) -> Option<(u32, Shape)> {
    let id = statements::named_statement(request, prepared);
    let statement = prepared.statements.get(&id)?;
    let lost = statement.broken || statement.astray || statement.starved.is_some();
    let tied = lost || statement.long_data || statement.cursor;
    (!tied).then_some((id, statement.shape))
}

/// Writes the server's id of the statement into the current EXECUTE, when the connection knows
/// the statement and the command can be sent as it is, without a cursor. Else false, and
/// nothing is changed.
pub(crate) fn address_as_it_is(
    request: &mut Request,
    prepared: &mut PreparedStatements,
    connection: &mut Connection,
    id: u32,
) -> bool {
    let Some(statement) = prepared.statements.get_mut(&id) else {
        return false;
    };
    let Some(known) = connection.known(&statement.key) else {
        return false;
    };
    let body = &request.payload()[1..];
    let Ok(execute) = Execute::decode(body, statement.params, false) else {
        return false;
    };
    let relies = statement.params > 0 && !execute.new_params_bound;
    if execute.flags != 0 || (relies && known.types != statement.types_hash) {
        return false;
    }
    if execute.new_params_bound && execute.types != statement.types {
        statement.types = execute.types.to_vec();
        statement.types_hash = hash(&statement.types);
    }
    known.types = statement.types_hash;
    request.patch(1, &known.server_id.to_le_bytes());
    true
}

/// The EXECUTE in `payload` with the statement's types put in where they were left out.
pub(crate) fn with_types(payload: &[u8], statement: &Statement, named: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + statement.types.len() + HEADER_BYTES);
    packet::write_with(&mut out, &mut 0, |out| {
        out.push(payload[0]);
        if payload[0] == Command::StmtBulkExecute as u8 {
            match BulkExecute::decode(&payload[1..], statement.params) {
                Ok(bulk) => {
                    let types = &statement.types[..];
                    BulkExecute { types, ..bulk }.encode(out);
                }
                Err(_) => out.extend_from_slice(&payload[1..]),
            }
            return;
        }
        match Execute::decode(&payload[1..], statement.params, named) {
            Ok(execute) => {
                let types = &statement.types[..];
                Execute {
                    new_params_bound: true,
                    types,
                    ..execute
                }
                .encode(out);
            }
            Err(_) => out.extend_from_slice(&payload[1..]),
        }
    });
    out
}

/// The EXECUTE in `payload`, which comes with query attributes, for a server that takes none.
pub(crate) fn without_attributes(payload: &[u8], statement: &Statement) -> Vec<u8> {
    let mut out = Vec::with_capacity(payload.len() + HEADER_BYTES);
    packet::write_with(&mut out, &mut 0, |out| {
        out.push(payload[0]);
        let written = Execute::decode(&payload[1..], statement.params, true).and_then(|execute| {
            execute.encode_plain(statement.params, &statement.types, statement.long_data, out)
        });
        if written.is_err() {
            // The server says what is wrong with it.
            out.extend_from_slice(&payload[1..]);
        }
    });
    out
}

pub fn hash(bytes: &[u8]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    hasher.finish()
}
