//! SHOW STATUS and SHOW VARIABLES: what they say of the client's own connection is that of the client's
//! to the router, and the counts of a session are its own.
//!
//! Servers count for a connection, which others have used before. So a session that asks for its status
//! is tied to a connection from then on, which is reset first where the session has nothing on it. Texts
//! that ask for nothing of this are the server's affair as they are.

use backend::{Connection, ConnectionError, PoolError, Table, Target};
use channel::{Algorithm, Channel};
use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::connections::group_connections::Held;
use execute::connections::hold::wait::hold;
use execute::connections::hold::{Cause, Turn, is_failure};
use execute::connections::parked::reclaim;
use execute::connections::pin::Pins;
use execute::connections::target::nowhere;
use execute::consistency::reads;
use execute::execution::exec::{Job, Shape};
use execute::execution::{route, servers_tried};
use execute::prepared::statements::PreparedStatements;
use execute::session::{self, Session};
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use mysql_wire::relay::{Expect, Outcome};
use mysql_wire::status::Status;
use routing::Plan;
use sqltext::{Facts, Listing, ShowFilter, ShowValues};

use crate::introspection::processlist::{Row, columns, encoded};
use crate::introspection::rows_text::{Column, rows_alone};
use crate::query::by_rules;

/// Status variables that tell of the client's own connection.
const OWN_STATUS: [&str; 6] = [
    "compression",
    "compression_algorithm",
    "compression_level",
    "ssl_cipher",
    "ssl_cipher_list",
    "ssl_version",
];

/// System variables that are not the servers' to say.
const OWN_VARIABLES: [&str; 1] = ["socket"];

/// What the names of status variables begin with that count nothing for a session.
const OF_SERVERS: [&[u8]; 23] = [
    b"aborted",
    b"aria",
    b"compression",
    b"connection",
    b"delayed",
    b"flush_commands",
    b"group_",
    b"innodb",
    b"key_",
    b"max_used",
    b"not_flushed",
    b"open_",
    b"performance_schema",
    b"prepared_stmt",
    b"qcache",
    b"replica",
    b"rpl",
    b"slave",
    b"ssl",
    b"tc_log",
    b"threads",
    b"uptime",
    b"wsrep",
];

/// Whether a SHOW may want one of these names.
fn wants(filter: &ShowFilter, names: &[&str]) -> bool {
    match filter {
        ShowFilter::All | ShowFilter::Where(_, None) | ShowFilter::Like(None) => true,
        ShowFilter::Where(_, Some(spelled)) => spelled.iter().any(|one| {
            let mut names = names.iter();
            names.any(|name| one.trim_ascii().eq_ignore_ascii_case(name.as_bytes()))
        }),
        ShowFilter::Like(Some(pattern)) => {
            let mut names = names.iter();
            names.any(|name| farm::account::like(pattern, name.as_bytes()))
        }
    }
}

/// Whether a SHOW STATUS may want what is counted for a session.
fn wants_counts(filter: &ShowFilter) -> bool {
    let of_server = |name: &[u8]| {
        let name = name.to_ascii_lowercase();
        OF_SERVERS.iter().any(|start| name.starts_with(start))
    };
    match filter {
        ShowFilter::Like(Some(pattern)) => !of_server(pattern),
        ShowFilter::Where(_, Some(names)) => !names.iter().all(|name| of_server(name)),
        _ => true,
    }
}

/// Answers a SHOW STATUS or SHOW VARIABLES.
pub(crate) async fn show_values(
    session: &mut Session,
    show: ShowValues,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    if show.status {
        if wants_counts(&show.filter) && !hold_for_status(session, &shape).await? {
            return Ok(());
        }
        if !wants(&show.filter, &OWN_STATUS) {
            return by_rules::run_command(session, shape, job).await;
        }
    }
    let text = match &show.filter {
        ShowFilter::Where(..) => show.unfiltered().into_bytes(),
        _ => user_variables::text(&session.client.request, &session.prepared, job).to_vec(),
    };
    let Some(table) = ask_here(session, &shape, &text).await? else {
        return Ok(());
    };
    let definitions = table.columns;
    let mut rows = table.rows;
    for row in &mut rows {
        if let [Some(name), value, ..] = &mut row[..]
            && let Some(own) = own_value(&session.client, show.status, name)
        {
            *value = Some(own.into_bytes());
        }
    }
    if let ShowFilter::Where(condition, _) = &show.filter {
        let condition = condition
            .of(user_variables::text(&session.client.request, &session.prepared, job))
            .to_vec();
        let mut query = of_rows(&rows).into_bytes();
        query.extend_from_slice(b" WHERE ");
        query.extend_from_slice(&condition);
        rows = match ask_here(session, &shape, &query).await? {
            Some(table) => table.rows,
            None => return Ok(()),
        };
    }
    let kinds = columns(&definitions, session.client.capabilities);
    let binary = matches!(job, Job::Execute(_));
    let rows: Vec<Vec<u8>> = rows.iter().map(|row| encoded(row, &kinds, binary)).collect();
    let answered = Outcome {
        has_rows: true,
        rows: rows.len() as u64,
        ..Outcome::default()
    };
    session.variables.diagnostics.note(&shape, &answered, session.variables.mode.dialect);
    let status = session::status_now(&session.variables, &session.transaction);
    session.client.raw_rows(&definitions, &rows, status).await
}

/// Ties the session to a connection whose counts are its own. False: the client has been told why
/// there is none.
pub(crate) async fn hold_for_status(session: &mut Session, shape: &Shape) -> Result<bool, End> {
    if let Some(held) = &mut session.connections.current.held {
        // What it is kept for would not outlive a reset.
        let before = held.pins;
        held.pins |= Pins::STATUS;
        held.pins.count_new(before, &session.core.counters);
        return Ok(true);
    }
    let (plan, target) = match route::route(session, shape, None, &[]) {
        Ok(route) => route,
        Err(refusal) => {
            let told = session.client.error(&refusal.error, &[&refusal.detail]).await;
            return told.map(|()| false);
        }
    };
    let taken = servers_tried::checkout(session, &plan, &target, shape).await;
    let held = match taken {
        Ok((mut lease, pins)) => {
            let connection = lease.connection_mut();
            let mut renewed = Ok(());
            // Values of variables may stand on the connection alone.
            if pins.is_empty() && !reclaim::unfetched(&session.variables) {
                renewed = connection.renew().await;
            }
            if renewed.is_ok() {
                renewed = connection.become_state(&session.variables.state).await;
            }
            renewed.map(|()| (lease, pins)).map_err(PoolError::from)
        }
        Err(error) => Err(error),
    };
    match held {
        Ok((lease, before)) => {
            let pins = before | Pins::STATUS;
            pins.count_new(before, &session.core.counters);
            session.connections.current.held = Some(Held { lease, pins });
            Ok(true)
        }
        Err(error) => {
            session.client.pool_error(&error, &target).await?;
            Ok(false)
        }
    }
}

/// Asks as the session's own statement would: on the connection that it keeps, or on one that it
/// would run on, with its own settings of what is reported. `None`: the client has been told why
/// there is no answer.
async fn ask_here(
    session: &mut Session,
    shape: &Shape,
    query: &[u8],
) -> Result<Option<Table>, End> {
    let mut run = reads::new_run(session, *shape, Job::Frame(Expect::Results));
    loop {
        let kept = session.connections.current.held.is_some();
        let place = match route::route(session, shape, None, &[]) {
            Ok(place) => place,
            Err(refusal) => match hold(session, &mut run, Cause::NoServer).await? {
                Turn::Again => continue,
                Turn::Answered => return Ok(None),
                Turn::Over { .. } => {
                    let told = session.client.error(&refusal.error, &[&refusal.detail]).await;
                    return told.map(|()| None);
                }
            },
        };
        let error = match try_to_ask(session, place, shape, query).await {
            Ok(table) => return Ok(Some(table)),
            Err(error) => error,
        };
        // Whoever kept nothing may ask the next primary anew.
        let turn = match !kept && is_failure(&error) {
            true => hold(session, &mut run, Cause::Failure).await?,
            false => Turn::Over { waited_ms: 0 },
        };
        match turn {
            Turn::Again => {}
            Turn::Answered => return Ok(None),
            Turn::Over { .. } => {
                let told = session.client.pool_error(&error, &nowhere()).await;
                return told.map(|()| None);
            }
        }
    }
}

async fn try_to_ask(
    session: &mut Session,
    place: (Plan, Target),
    shape: &Shape,
    query: &[u8],
) -> Result<Table, PoolError> {
    let kept = session.connections.current.held.is_some();
    let (mut lease, pins) = match session.connections.current.held.take() {
        Some(held) => (held.lease, held.pins),
        None => servers_tried::checkout(session, &place.0, &place.1, shape).await?,
    };
    let connection = lease.connection_mut();
    connection.owner.statement = 0;
    let asked = ask_lent(&session.variables, connection, shape, query).await;
    let whole = matches!(&asked, Ok(_) | Err(ConnectionError::Refused { .. }));
    if kept {
        // A connection that broke is found out by the next statement.
        session.connections.current.held = Some(Held { lease, pins });
    } else if whole {
        reclaim::give_back_after_error(
            &session.core,
            &session.handle,
            &session.variables,
            &mut session.connections,
            lease,
            pins,
        );
    }
    Ok(asked?)
}

/// What the current text shows of the client's connection, if it does.
pub(crate) fn shows_values(
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
) -> Option<ShowValues> {
    let single = !shape.facts.contains(Facts::MULTIPLE);
    let show = sqltext::show_values(user_variables::text(request, prepared, job), &variables.mode)
        .filter(|_| single)?;
    match show.status {
        true => !show.global,
        false => wants(&show.filter, &OWN_VARIABLES),
    }
    .then_some(show)
}

/// The current text has the session's counts begin anew.
pub(crate) fn flushes_status(
    request: &Request,
    variables: &SessionVariables,
    shape: &Shape,
) -> bool {
    let text = &request.payload()[1..];
    !shape.facts.contains(Facts::MULTIPLE) && sqltext::flushes_status(text, &variables.mode)
}

/// The value of such a name for the client; `None` where it is the server's.
fn own_value(client: &Client, status: bool, name: &[u8]) -> Option<String> {
    let name = str::from_utf8(name).ok()?.to_ascii_lowercase();
    if !status {
        return OWN_VARIABLES.contains(&&*name).then(String::new);
    }
    let compression = client.compression;
    let channel = client.channel();
    Some(match &*name {
        "compression" => if compression.is_some() { "ON" } else { "OFF" }.to_owned(),
        "compression_algorithm" => match compression {
            None => "",
            Some(Algorithm::Zlib) => "zlib",
            Some(Algorithm::Zstd(_)) => "zstd",
        }
        .to_owned(),
        "compression_level" => match compression {
            None => "0".to_owned(),
            Some(Algorithm::Zlib) => ZLIB_LEVEL.to_owned(),
            Some(Algorithm::Zstd(level)) => level.to_string(),
        },
        "ssl_cipher" => channel.map_or("", Channel::cipher).to_owned(),
        "ssl_cipher_list" => channel.map(Channel::ciphers).unwrap_or_default(),
        "ssl_version" => channel.map_or("", Channel::protocol).to_owned(),
        _ => return None,
    })
}

/// The query that stands for a table of status or of variables.
pub(crate) fn own_values_of(client: &Client, listing: Listing) -> String {
    let names: &[&str] = match listing.is_status() {
        true => &OWN_STATUS,
        false => &OWN_VARIABLES,
    };
    let case = |name: &&str| {
        let value = own_value(client, listing.is_status(), name.as_bytes());
        format!("WHEN '{name}' THEN '{}' ", value.unwrap_or_default())
    };
    let cases: String = names.iter().map(case).collect();
    // Servers merge a query without LIMIT into the one around it, whose columns take its names then.
    format!(
        "(SELECT VARIABLE_NAME, CASE LOWER(VARIABLE_NAME) {cases}ELSE VARIABLE_VALUE END \
         AS VARIABLE_VALUE FROM {} LIMIT 18446744073709551615)",
        listing.name()
    )
}

async fn ask_lent(
    variables: &SessionVariables,
    connection: &mut Connection,
    shape: &Shape,
    query: &[u8],
) -> Result<Table, ConnectionError> {
    if !shape.tracking {
        return connection.table(query).await;
    }
    variables.lend_tracking(connection).await?;
    let asked = connection.table(query).await;
    if let Ok(_) | Err(ConnectionError::Refused { .. }) = &asked {
        let open = variables.status.contains(Status::IN_TRANS);
        connection.track_all(open).await?;
    }
    asked
}

/// What zlib packs by.
const ZLIB_LEVEL: &str = "6";

/// A query with the rows of a SHOW, whose condition is about its columns.
fn of_rows(rows: &[Row]) -> String {
    let column = |name: &str, characters: usize| Column {
        name: name.to_owned(),
        kind: format!("varchar({characters})"),
        collation: Some("utf8mb3_general_ci".to_owned()),
        nullable: false,
    };
    let columns = [column("Variable_name", 64), column("Value", 1024)];
    let rows = rows_alone(&columns, rows);
    format!("SELECT Variable_name, Value FROM ({rows}) AS STATUS")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_filter_may_want() {
        let like = |pattern: &str| ShowFilter::Like(Some(pattern.as_bytes().to_vec()));
        assert!(wants(&like("SSL%"), &OWN_STATUS) && wants(&like("%comp%"), &OWN_STATUS));
        assert!(!wants(&like("Com_select"), &OWN_STATUS));
        assert!(wants(&ShowFilter::Like(None), &OWN_VARIABLES));
        assert!(!wants(&like("version"), &OWN_VARIABLES));
        assert!(wants_counts(&like("Com_select")) && wants_counts(&ShowFilter::All));
        for server in ["Threads_connected", "wsrep%", "Uptime", "Ssl_cipher"] {
            assert!(!wants_counts(&like(server)), "{server}");
        }
    }
}
