//! Tables in queries whose rows Heddle knows: `information_schema.PROCESSLIST` and its kin, with what SHOW
//! PROCESSLIST lists; the tables of status and variables, where they tell of the client's own connection; the tables
//! about the farm, with the rows that the account may see.
//!
//! A query of constant rows takes the table's place in the statement, so that the server still filters,
//! joins and sorts it. SHOW and DESCRIBE of the farm's tables are answered here. So are the simplest SELECTs of them
//! where the home group has no server that serves. `performance_schema.threads` has more than clients: there only the
//! row of the statement's own connection is shown as the client's. Prepared statements are read anew each time that
//! they are executed.

use std::rc::Rc;

use backend::{ConnectionError, PoolError, Table, Text};
use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::connections::group_connections::GroupConnections;
use execute::connections::target::nowhere;
use execute::execution::exec::{Job, Shape, text_shape};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::per_core::operator::Answer;
use execute::prepared::statements::PreparedStatements;
use execute::session::user::SessionUser;
use execute::session::{self, Session};
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use farm::local::host_of;
use farm::tables::{self, FarmTable};
use farm::{Access, ClientError, error};
use mysql_wire::packet;
use mysql_wire::result::ValueKind;
use mysql_wire::statement::PARAMETERS_COUNTED;
use sqltext::{Class, Facts, FarmShow, Listing, ShowWhat};

use crate::introspection::farm_tables::{
    self, Cells, Filled, alone, query as farm_query, shown as farm_shown,
};
use crate::introspection::processlist::{self, Row, encoded, row};
use crate::introspection::rows_text::{Column, rows_alone};
use crate::introspection::{local, rights, shown};
use crate::query::by_rules;

/// More sessions than fit into so much text are not listed within a statement.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Where EXECUTE has its flags.
const FLAGS_AT: usize = 5;

/// What has become of a text.
enum Listed {
    AsItWas,
    Text(Vec<u8>),
    /// A query instead of a SHOW.
    Query(Vec<u8>),
    /// The client has its answer, or has been told why there is none.
    Told,
}

/// Puts the clients of the farm into the current text of a COM_QUERY where it lists connections, and the
/// farm's rows where it names tables about the farm. False: the client has its answer.
#[cold]
pub(crate) async fn list_in_query(session: &mut Session, shape: &mut Shape) -> Result<bool, End> {
    if session.client.request.is_split() {
        return Ok(true);
    }
    let text = packet::joined(session.client.request.frame()).split_off(1);
    match with_clients(session, &text, shape, false).await? {
        Listed::AsItWas => Ok(true),
        Listed::Told => Ok(false),
        Listed::Text(listed) => {
            user_variables::leave_text(&session.core, &session.variables, shape, &text);
            session.client.request.replace_text(&listed);
            Ok(true)
        }
        Listed::Query(listed) => {
            session.client.request.replace_text(&listed);
            *shape =
                text_shape::query_shape(&session.core, &session.client.request, &session.variables);
            Ok(true)
        }
    }
}

/// Runs the current EXECUTE with the clients of the farm, or its rows, in its statement. `None`: it asks for
/// neither.
#[cold]
pub(crate) async fn list_in_execute(
    session: &mut Session,
    id: u32,
    mut shape: Shape,
) -> Option<Result<(), End>> {
    let text = executed(&session.variables, &session.prepared, id).to_vec();
    let listed = match with_clients(session, &text, &shape, true).await {
        Ok(Listed::Text(listed) | Listed::Query(listed)) => session.core.text(&listed),
        Ok(Listed::AsItWas) => return None,
        Ok(Listed::Told) => return Some(Ok(())),
        Err(end) => return Some(Err(end)),
    };
    user_variables::leave_text(&session.core, &session.variables, &mut shape, &text);
    // A cursor would be fetched from under the other text.
    let flags = session.client.request.payload().get(FLAGS_AT).copied().unwrap_or(0);
    session.client.request.patch(FLAGS_AT, &[flags & PARAMETERS_COUNTED]);
    let own = session.prepared.exchange_text(id, listed);
    let done = Box::pin(by_rules::run_command(session, shape, Job::Execute(id))).await;
    if let Some(own) = own {
        session.prepared.exchange_text(id, own);
    }
    Some(done)
}

/// `executes`: the text is that of a prepared statement.
async fn with_clients(
    session: &mut Session,
    text: &[u8],
    shape: &Shape,
    executes: bool,
) -> Result<Listed, End> {
    let farm = match Box::pin(with_farm(session, text, executes)).await? {
        Listed::AsItWas => None,
        Listed::Text(text) => Some(text),
        done => return Ok(done),
    };
    let text = farm.as_deref().unwrap_or(text);
    let database = session.variables.state.database().map(<[u8]>::to_vec);
    let database = database.as_deref();
    let listings = sqltext::listings(text, &session.variables.mode, database);
    if listings.iter().any(|listing| listing.is_status())
        && !shown::hold_for_status(session, shape).await?
    {
        return Ok(Listed::Told);
    }
    let mut queries = Vec::new();
    for listing in listings {
        match query_for(
            (&session.core, &session.handle),
            &session.user,
            &session.client,
            &session.variables,
            &mut session.connections,
            listing,
            text,
        )
        .await
        {
            Ok(Some(query)) => queries.push((listing, query)),
            Ok(None) => return Ok(farm.map_or(Listed::AsItWas, Listed::Text)),
            Err(error) => {
                session.client.pool_error(&error, &nowhere()).await?;
                return Ok(Listed::Told);
            }
        }
    }
    let query = |wanted: Listing| {
        let found = queries.iter().find(|(listing, _)| *listing == wanted);
        found.map_or_else(String::new, |(_, query)| query.clone())
    };
    let id = session.handle.id;
    match sqltext::with_listings(text, &session.variables.mode, database, id, query) {
        None => Ok(farm.map_or(Listed::AsItWas, Listed::Text)),
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            session.client.error(&error::LISTING_TOO_LARGE, &[]).await?;
            Ok(Listed::Told)
        }
        Some(text) => Ok(Listed::Text(text)),
    }
}

/// The query that stands for a listing; `None` where the server has no such table.
async fn query_for(
    (core, handle): (&Core, &Handle),
    user: &SessionUser,
    client: &Client,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    listing: Listing,
    text: &[u8],
) -> Result<Option<String>, PoolError> {
    let Some(columns) = columns_of(core, user, variables, connections, listing.name()).await?
    else {
        return Ok(None);
    };
    if !listing.lists_processes() && listing != Listing::Threads {
        return Ok(Some(shown::own_values_of(client, listing)));
    }
    if listing == Listing::Threads {
        let host = host_of(user.peer.ip());
        return Ok(Some(own_thread(&columns, handle.id, &host)));
    }
    let names: Vec<(String, ValueKind)> = columns.iter().map(Column::as_shown).collect();
    let seen = processlist::seen(core, user, variables, connections).await;
    let all = format!("SELECT * FROM {}", listing.name());
    let said = processlist::said(core, user, &seen.views, all.as_bytes()).await;
    let mut rows: Vec<Row> = Vec::new();
    for view in &seen.views {
        let known = view.running.and_then(|place| said.get(&place));
        let asks = (view.id == handle.id).then_some(text);
        rows.push(row(view, &names, known, asks));
    }
    rows.extend(seen.silent.iter().map(|silent| silent.row(&names)));
    Ok(Some(constant(listing, &columns, &rows)))
}

/// The columns of a table of the servers'; `None` where they have no such table.
async fn columns_of(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    table: &str,
) -> Result<Option<Vec<Column>>, PoolError> {
    let asked = format!("SHOW FULL COLUMNS FROM {table}");
    match rights::ask_table(core, user, variables, connections, asked.as_bytes()).await {
        Ok(table) => Ok(Some(columns(&table)).filter(|columns| !columns.is_empty())),
        Err(PoolError::Connection(ConnectionError::Refused { .. })) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The current text may name a table that lists connections, or one about the farm.
#[inline]
pub(crate) fn may_list(variables: &SessionVariables, shape: &Shape) -> bool {
    let inside = || {
        let database = variables.state.database();
        database.is_some_and(|name| name.eq_ignore_ascii_case(b"information_schema"))
            || farm_tables::is_inside(database)
    };
    shape.facts.intersects(Facts::SERVER_SCHEMA | Facts::FARM_TABLE)
        || shape.class == Class::Show
        || inside()
}

/// What SHOW FULL COLUMNS says.
fn columns(table: &Table) -> Vec<Column> {
    let read = |row: &Row| -> Option<Column> {
        let cell = |at: usize| {
            let cell = row.get(at)?.as_deref()?;
            Some(String::from_utf8_lossy(cell).into_owned())
        };
        Some(Column {
            name: cell(0)?,
            kind: cell(1)?.to_ascii_lowercase(),
            collation: cell(2),
            nullable: cell(3)? == "YES",
        })
    };
    table.rows.iter().filter_map(read).collect()
}

/// A query with these rows, whose columns are those of the server's table.
fn constant(listing: Listing, columns: &[Column], rows: &[Row]) -> String {
    let names: Vec<String> = columns.iter().map(|c| sqltext::ticked(&c.name)).collect();
    format!(
        "(SELECT {} FROM {} WHERE FALSE UNION ALL {})",
        names.join(", "),
        listing.name(),
        rows_alone(columns, rows)
    )
}

/// The server's threads, of which the one that runs the statement has the client's id and address.
fn own_thread(columns: &[Column], id: u32, host: &str) -> String {
    let column = |column: &Column| {
        let name = sqltext::ticked(&column.name);
        let own = match column.name.to_ascii_uppercase().as_str() {
            "PROCESSLIST_ID" => id.to_string(),
            "PROCESSLIST_HOST" => format!("'{host}'"),
            _ => return name,
        };
        format!("IF(PROCESSLIST_ID = CONNECTION_ID(), {own}, {name}) AS {name}")
    };
    let columns: Vec<String> = columns.iter().map(column).collect();
    // A connection of the server that has the client's id by chance is not the client.
    format!(
        "(SELECT {} FROM {} WHERE PROCESSLIST_ID = CONNECTION_ID() OR NOT PROCESSLIST_ID <=> {id})",
        columns.join(", "),
        Listing::Threads.name()
    )
}

/// The text with the farm's rows in it. `executes`: it is that of a prepared statement.
async fn with_farm(session: &mut Session, text: &[u8], executes: bool) -> Result<Listed, End> {
    if !session.core.shared.live.load().farm_tables {
        return Ok(Listed::AsItWas);
    }
    let database = session.variables.state.database().map(<[u8]>::to_vec);
    let named = farm_tables::named(text, &session.variables.mode, database.as_deref());
    if let Some(table) = named.written {
        session.client.error(&error::FARM_TABLE_READ_ONLY, &[table.name]).await?;
        return Ok(Listed::Told);
    }
    if let Some(show) = named.show {
        return show_farm(session, &show, text, executes).await;
    }
    if named.read.is_empty() {
        return with_catalogue(session, text, database.as_deref()).await;
    }
    let mut filled: Vec<Filled> = Vec::new();
    for table in named.read {
        let (core, user) = (&session.core, &session.user);
        let rows = rows(core, user, &session.variables, &mut session.connections, table).await;
        match rows {
            Ok(rows) => filled.push((table, rows)),
            Err((error, detail)) => {
                session.client.error(&error, &[&detail]).await?;
                return Ok(Listed::Told);
            }
        }
    }
    if is_alone(&session.core, &session.connections) {
        return answer_alone(session, text, database.as_deref(), filled, executes).await;
    }
    let mode = &session.variables.mode;
    match farm_tables::with_rows(text, mode, database.as_deref(), &filled) {
        None => Ok(Listed::AsItWas),
        Some(text) if text.len() > TEXT_BYTES_MAX => {
            let largest = filled.iter().max_by_key(|(_, rows)| rows.len());
            let name = largest.map_or("", |(table, _)| table.name);
            session.client.error(&error::FARM_TABLE_TOO_LARGE, &[name]).await?;
            Ok(Listed::Told)
        }
        Some(text) => Ok(Listed::Text(text)),
    }
}

/// The rows of a table that the session's account may see.
async fn rows(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    table: &'static FarmTable,
) -> Result<Vec<Cells>, (ClientError, String)> {
    let words: Vec<String> = table.command.iter().map(|&word| word.to_owned()).collect();
    let needed = core.shared.operator.needs(&words);
    let access = local::access(core, user, variables, connections, needed).await;
    let own = match access < needed {
        true if table.owner.is_none() => return Err((local::refusal(needed), String::new())),
        true => Some(String::from_utf8_lossy(user.name()).into_owned()),
        false => None,
    };
    let Answer { columns, rows } = local::submitted(core, user, access.max(needed), words).await?;
    Ok(tables::rows_of(table, &columns, &rows, own.as_deref()))
}

/// No server of the home group could run a query.
fn is_alone(core: &Core, connections: &GroupConnections) -> bool {
    let snapshot = core.snapshot();
    let serves =
        snapshot.home().is_some_and(|home| home.servers.iter().any(|it| it.serves_reads()));
    !serves && connections.current.held.is_none()
}

async fn answer_alone(
    session: &mut Session,
    text: &[u8],
    database: Option<&[u8]>,
    filled: Vec<Filled>,
    executes: bool,
) -> Result<Listed, End> {
    let selection = alone::read(text, &session.variables.mode, database).filter(|_| !executes);
    let answer = match (selection, filled.into_iter().next()) {
        (Some(selection), Some((table, rows))) => alone::answer(&selection, table, rows),
        _ => Err("it is no plain SELECT of one table".to_owned()),
    };
    let (client, variables) = (&mut session.client, &session.variables);
    match answer {
        Ok(answer) => session::send_answer(client, variables, &session.transaction, answer).await?,
        Err(why) => client.error(&error::FARM_TABLES_ALONE, &[&why]).await?,
    }
    Ok(Listed::Told)
}

async fn may_monitor(session: &mut Session) -> bool {
    let (core, user, needed) = (&session.core, &session.user, Access::Monitor);
    let connections = &mut session.connections;
    local::access(core, user, &session.variables, connections, needed).await >= needed
}

/// What a table is anybody may know; which there are, who may look at the farm.
async fn show_farm(
    session: &mut Session,
    show: &FarmShow,
    text: &[u8],
    executes: bool,
) -> Result<Listed, End> {
    let lists = matches!(show.what, ShowWhat::Databases | ShowWhat::Tables | ShowWhat::Status);
    if lists && !may_monitor(session).await {
        return Ok(Listed::AsItWas);
    }
    if show.what == ShowWhat::Databases {
        return show_databases(session, show, text, executes).await;
    }
    let mut theirs = Vec::new();
    if show.what == ShowWhat::Tables && !is_alone(&session.core, &session.connections) {
        theirs = names(session, b"SHOW TABLES FROM heddle").await.unwrap_or_default();
    }
    let Some(shown) = farm_shown::shown(show, text, &theirs) else {
        return Ok(Listed::AsItWas);
    };
    if executes || show.condition.is_some() {
        return Ok(Listed::Query(shown.query(show, text)));
    }
    let answer = Answer {
        columns: shown.columns.iter().map(|&name| name.to_owned()).collect(),
        rows: shown.rows,
    };
    let (client, variables) = (&mut session.client, &session.variables);
    session::send_answer(client, variables, &session.transaction, answer).await?;
    Ok(Listed::Told)
}

/// The first column of a query; `None` where no server answers it.
async fn names(session: &mut Session, query: &[u8]) -> Option<Vec<String>> {
    let (core, user, variables) = (&session.core, &session.user, &session.variables);
    let asked = rights::ask_table(core, user, variables, &mut session.connections, query).await;
    let cell = |row: Vec<Option<Vec<u8>>>| row.into_iter().next().flatten();
    let text = |name: Vec<u8>| String::from_utf8_lossy(&name).into_owned();
    Some(asked.ok()?.rows.into_iter().filter_map(cell).map(text).collect())
}

/// SHOW DATABASES of servers that have no database of this name, or do not show it to the account.
async fn show_databases(
    session: &mut Session,
    show: &FarmShow,
    text: &[u8],
    executes: bool,
) -> Result<Listed, End> {
    let pattern = show.like.map(|like| like.of(text));
    let pattern = pattern.map(|like| like.trim_ascii().trim_ascii_start());
    let fits = pattern.is_none_or(|like| {
        let inner = like.get(1..like.len().saturating_sub(1)).unwrap_or_default();
        farm::account::like(&inner.to_ascii_lowercase(), tables::DATABASE.as_bytes())
    });
    if executes || show.condition.is_some() || !fits {
        return Ok(Listed::AsItWas);
    }
    let there = names(session, b"SHOW DATABASES LIKE 'heddle'").await;
    if there.is_none_or(|names| !names.is_empty()) {
        return Ok(Listed::AsItWas);
    }
    let (core, user, variables) = (&session.core, &session.user, &session.variables);
    let asked = rights::ask_table(core, user, variables, &mut session.connections, text).await;
    let Ok(mut table) = asked else {
        return Ok(Listed::AsItWas);
    };
    let own = vec![Some(tables::DATABASE.as_bytes().to_vec())];
    let at = table.rows.partition_point(|row| row[..] < own[..]);
    table.rows.insert(at, own);
    let kinds = processlist::columns(&table.columns, session.client.capabilities);
    let rows: Vec<Vec<u8>> = table.rows.iter().map(|row| encoded(row, &kinds, false)).collect();
    let status = session::status_now(variables, &session.transaction);
    session.client.raw_rows(&table.columns, &rows, status).await?;
    Ok(Listed::Told)
}

/// The text in which tables of information_schema have the farm's, too, where it asks for them by name.
async fn with_catalogue(
    session: &mut Session,
    text: &[u8],
    database: Option<&[u8]>,
) -> Result<Listed, End> {
    let asked = farm_tables::listed_elsewhere(text, &session.variables.mode, database);
    if asked.is_empty() || !may_monitor(session).await {
        return Ok(Listed::AsItWas);
    }
    let mut queries = Vec::new();
    for name in asked {
        let (core, user, variables) = (&session.core, &session.user, &session.variables);
        let table = format!("information_schema.{}", name.to_ascii_uppercase());
        let columns = columns_of(core, user, variables, &mut session.connections, &table).await;
        // Without them the server says what is wrong.
        let Ok(Some(columns)) = columns else {
            return Ok(Listed::AsItWas);
        };
        queries.push((name, farm_query::of_catalogue(name, &columns)));
    }
    let mode = &session.variables.mode;
    let listed = farm_tables::with_catalogue(text, mode, database, &queries);
    Ok(listed.map_or(Listed::AsItWas, Listed::Text))
}

/// The text of a PREPARE as a server can prepare it, and the client's own one, which is read anew at each EXECUTE.
pub(crate) fn prepared(
    core: &Core,
    request: &mut Request,
    variables: &SessionVariables,
    (text, asked): (Rc<Text>, Option<Rc<Text>>),
    shape: &Shape,
) -> (Rc<Text>, Option<Rc<Text>>) {
    if !may_list(variables, shape) || !core.shared.live.load().farm_tables {
        return (text, asked);
    }
    let database = variables.state.database();
    match farm_tables::without_rows(text.bytes(), &variables.mode, database) {
        Some(new) => {
            request.replace_text(&new);
            (core.text(&new), asked.or(Some(text)))
        }
        None => (text, asked),
    }
}

/// The text of a prepared statement: the client's own one, if that names the farm's tables.
fn executed<'p>(
    variables: &SessionVariables,
    prepared: &'p PreparedStatements,
    id: u32,
) -> &'p [u8] {
    let database = variables.state.database();
    let asked = prepared.statements.get(&id).and_then(|it| it.asked.as_deref());
    let own = asked
        .map(Text::bytes)
        .filter(|text| !farm_tables::named(text, &variables.mode, database).is_empty());
    own.unwrap_or_else(|| prepared.statement_text(id))
}
