//! SHOW PROCESSLIST and COM_PROCESS_INFO over the farm: one row for each client of any router.
//!
//! Columns are those of the server that the session would ask. What a running statement's row says
//! beside its id and host is what its own server says of it; a session that runs nothing sleeps.

use std::collections::HashMap;

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::connections::group_connections::GroupConnections;
use execute::connections::target::{nowhere, target};
use execute::execution::exec::{Job, Shape};
use execute::per_core::Core;
use execute::per_core::peers::ask::sessions_elsewhere;
use execute::per_core::view::{Door, SessionView};
use execute::prepared::statements::PreparedStatements;
use execute::session::user::SessionUser;
use execute::session::{self, Session};
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use farm::ServerId;
use mysql_wire::capability::Capabilities;
use mysql_wire::result::{
    Column, ColumnKind, Value, ValueKind, encode_binary_row, encode_text_row,
};
use sqltext::{Facts, Verb};

use crate::introspection::rights::{self, Right};
use crate::introspection::views;

/// The sessions of the farm.
pub(crate) struct Seen {
    pub views: Vec<SessionView>,
    pub silent: Vec<Silent>,
}

/// A router whose sessions are not known.
pub(crate) struct Silent {
    id: u32,
    router: String,
    why: String,
}

/// A row of text cells; NULL is `None`.
pub(crate) type Row = Vec<Option<Vec<u8>>>;

/// What the servers said of connections, by server and by the server's id of the connection.
pub(crate) type Said = HashMap<(ServerId, u32), Row>;

/// Answers with the sessions that the client may see.
pub(crate) async fn show_processlist(
    session: &mut Session,
    full: bool,
    job: Job,
) -> Result<(), End> {
    let seen =
        seen(&session.core, &session.user, &session.variables, &mut session.connections).await;
    let text: &[u8] = match full {
        true => b"SHOW FULL PROCESSLIST",
        false => b"SHOW PROCESSLIST",
    };
    let own = match rights::ask_table(
        &session.core,
        &session.user,
        &session.variables,
        &mut session.connections,
        text,
    )
    .await
    {
        Ok(table) => table,
        Err(error) => return session.client.pool_error(&error, &nowhere()).await,
    };
    let binary = matches!(job, Job::Execute(_));
    let capabilities = session.client.capabilities;
    let columns = columns(&own.columns, capabilities);
    let said = said(&session.core, &session.user, &seen.views, text).await;
    let mut rows: Vec<Vec<u8>> = seen
        .views
        .iter()
        .map(|view| {
            let known = view.running.and_then(|place| said.get(&place));
            let asks = view.id == session.handle.id;
            let row = row(view, &columns, known, asks.then_some(text));
            encoded(&row, &columns, binary)
        })
        .collect();
    let missing = seen.silent.iter();
    rows.extend(missing.map(|silent| encoded(&silent.row(&columns), &columns, binary)));
    let status = session::status_now(&session.variables, &session.transaction);
    session.client.raw_rows(&own.columns, &rows, status).await
}

/// Whether a statement is `SHOW [FULL] PROCESSLIST`, and which of the two.
pub(crate) fn asks_processlist(
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
) -> Option<bool> {
    let shows = shape.verb == Verb::Show && !shape.facts.contains(Facts::MULTIPLE);
    shows.then(|| {
        sqltext::processlist(user_variables::text(request, prepared, job), &variables.mode)
    })?
}

/// The sessions that the client may see, on all routers of the farm.
pub(crate) async fn seen(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
) -> Seen {
    let mut views = views::all_views(core).await;
    let mut silent = Vec::new();
    for elsewhere in sessions_elsewhere(core).await {
        let (id, router) = (elsewhere.id, elsewhere.router);
        match elsewhere.sessions {
            Ok(sessions) => views.extend(sessions),
            Err(why) => silent.push(Silent { id, router, why }),
        }
    }
    let name = user.name().clone();
    let foreign = views.iter().any(|view| *view.user != *name);
    if foreign && !rights::has_right(core, user, variables, connections, Right::See).await {
        views.retain(|view| *view.user == *name);
    }
    Seen { views, silent }
}

/// What the servers that run statements of these sessions say of them. One that cannot be asked
/// says nothing.
pub(crate) async fn said(
    core: &Core,
    user: &SessionUser,
    views: &[SessionView],
    text: &[u8],
) -> Said {
    let mut servers: Vec<ServerId> = Vec::new();
    for (server, _) in views.iter().filter_map(|view| view.running) {
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    let snapshot = core.snapshot();
    let mut said = Said::new();
    for server in servers {
        let Some(target) = target(&snapshot, server, false) else {
            continue;
        };
        // Outside the pool: whoever looks must not wait for those whom it looks at.
        let opened = core.pools.open_extra(&target, &user.identity.pass);
        let Ok(mut connection) = opened.await else {
            continue;
        };
        for row in connection.table(text).await.unwrap_or_default().rows {
            if let Some(id) = row.first().and_then(number) {
                said.insert((server, id), row);
            }
        }
    }
    said
}

fn number(cell: &Option<Vec<u8>>) -> Option<u32> {
    str::from_utf8(cell.as_deref()?).ok()?.parse().ok()
}

/// Names, in lower case, and kinds.
pub(crate) fn columns(
    definitions: &[Box<[u8]>],
    capabilities: Capabilities,
) -> Vec<(String, ValueKind)> {
    let read = |definition: &[u8]| match Column::decode(definition, capabilities) {
        Ok(column) => {
            (String::from_utf8_lossy(column.name).to_ascii_lowercase(), column.value_kind())
        }
        Err(_) => (
            String::new(),
            ValueKind {
                column: ColumnKind::VarString,
                unsigned: false,
            },
        ),
    };
    definitions.iter().map(|definition| read(definition)).collect()
}

/// One session as a row of columns of these names; `known` is what the server of its statement says of it, `asks` the
/// statement that it asks by.
pub(crate) fn row(
    view: &SessionView,
    columns: &[(String, ValueKind)],
    known: Option<&Row>,
    asks: Option<&[u8]>,
) -> Row {
    let busy = view.command.is_some();
    let waits = busy && view.running.is_none() && view.door != Door::Keys;
    let state = match waits && asks.is_none() {
        true => "Waiting for a server connection",
        false => "",
    };
    let cell = |at: usize, name: &str, kind: ValueKind| -> Option<Vec<u8>> {
        let said = known.and_then(|row| row.get(at).cloned());
        let text = |text: &str| Some(text.as_bytes().to_vec());
        match name {
            "id" => text(&view.id.to_string()),
            "user" => Some(view.user.clone()),
            "host" => text(&view.host()),
            "db" => view.database.clone(),
            _ if said.is_some() => said.flatten(),
            "command" => text(if busy { "Query" } else { "Sleep" }),
            "time" => text(&view.time_s.to_string()),
            "time_ms" => text(&format!("{}.000", view.time_s * 1000)),
            "state" => text(state),
            "info" => asks.map(<[u8]>::to_vec),
            "progress" => text("0.000"),
            _ if kind.column.is_number() => text("0"),
            _ => None,
        }
    };
    let cells = columns.iter().enumerate();
    cells.map(|(at, (name, kind))| cell(at, name, *kind)).collect()
}

impl Silent {
    /// The router's row, in the way of the servers' own threads.
    pub fn row(&self, columns: &[(String, ValueKind)]) -> Row {
        let cell = |(name, kind): &(String, ValueKind)| -> Option<Vec<u8>> {
            let text = |text: &str| Some(text.as_bytes().to_vec());
            match name.as_str() {
                "id" => text(&self.id.to_string()),
                "user" => text("system user"),
                "host" => text(&self.router),
                "command" => text("Daemon"),
                "time" => text("0"),
                "state" => text(&format!("No answer from this router: {}", self.why)),
                "progress" => text("0.000"),
                _ if kind.column.is_number() => text("0"),
                _ => None,
            }
        };
        columns.iter().map(cell).collect()
    }
}

/// A row as the client's protocol has it.
pub(crate) fn encoded(row: &Row, columns: &[(String, ValueKind)], binary: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    if !binary {
        let cells: Vec<_> = row.iter().map(Option::as_deref).collect();
        encode_text_row(&mut out, &cells);
        return out;
    }
    let kinds: Vec<ValueKind> = columns.iter().map(|(_, kind)| *kind).collect();
    let cells = row.iter().zip(&kinds);
    let values: Vec<Value<'_>> = cells
        .map(|(cell, kind)| cell.as_deref().map_or(Value::Null, |text| value(text, *kind)))
        .collect();
    // Values that are not of their kinds would leave the row empty, which no client reads as one.
    let _ = encode_binary_row(&mut out, &kinds, &values);
    out
}

fn value(text: &[u8], kind: ValueKind) -> Value<'_> {
    let digits = str::from_utf8(text).unwrap_or_default();
    match kind.column {
        ColumnKind::Double => Value::Double(digits.parse().unwrap_or(0.0)),
        ColumnKind::Float => Value::Float(digits.parse().unwrap_or(0.0)),
        ColumnKind::NewDecimal | ColumnKind::Decimal => Value::Bytes(text),
        column if column.is_number() => Value::Int(digits.parse().unwrap_or(0)),
        _ => Value::Bytes(text),
    }
}
