//! The connection on which a gathered statement runs: empty tables before it, none behind it.
//!
//! It is one of the scratch server's, used again and again. Without such a server, or for a statement
//! that needs what only the farm's own servers have (stored functions), a primary stands in for it; the
//! client's own account must be allowed to make tables there.

pub(crate) mod state;

use std::sync::Arc;

use backend::{Connection, ConnectionError, Lease, PoolError};
use execute::client::end::End;
use execute::client::request::Request;
use execute::connections::hold::Hold;
use execute::connections::hold::wait::wait_once;
use execute::connections::target::target;
use execute::counters::count;
use execute::execution::exec::{Run, Shape};
use execute::execution::statement_run::clock;
use execute::per_core::handle::Handle;
use execute::prepared::statements::PreparedStatements;
use execute::scratch::ScratchServer;
use execute::scratch::pass::scratch_pass;
use execute::session::Session;
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use planner::Scratch;
use sqltext::Dialect;

use super::parts::TEXT;

/// What the session has set, so that it can be set again when the rows are there.
const KEEP: &str = "SET @heddle_mode = @@sql_mode, @heddle_zone = @@time_zone, \
                    @heddle_depth = @@optimizer_search_depth, \
                    @heddle_patience = @@net_read_timeout";
const RESTORE: &str = "SET sql_mode = @heddle_mode, time_zone = @heddle_zone, \
                       net_read_timeout = @heddle_patience";
/// The character sets, by name and as a login or SET NAMES sets them: only so the collation is right
/// that definitions of columns have.
const NAMES: [&str; 3] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
];
const COLLATION: &str = "collation_connection";
/// Values are taken as they are, and the next piece of a file is waited for while groups think.
const PLAIN: &[u8] = b"SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', \
                       time_zone = '+00:00', net_read_timeout = 86400";
const LETTERS: &[u8] = b"SET NAMES utf8mb4";
const BYTES: &[u8] = b"SET NAMES binary";

/// Of more tables a server looks no further ahead than [`DEPTH_MAX`] for the best order of their joins:
/// it has no statistics of them, and all orders of fifteen tables take it longer than the statement.
const TABLES_WHOLE_MAX: usize = 6;
const DEPTH_MAX: usize = 4;

/// A connection in an idle pool may have ended with its server.
const TRIES: usize = 3;

/// Within so long it is noticed that the scratch server has ended. One that lives and cannot be used is not waited for.
const NOTICED_US: u64 = 1_000_000;

/// Where a gathered statement runs.
pub(super) struct ScratchLease {
    pub lease: Lease,
    /// Of the scratch server; else of a primary that stands in for it.
    pub is_own: bool,
    /// The server may be asked to read a client's file.
    pub takes_files: bool,
}

/// A connection with empty tables, ready for rows. `on_farm`: of the farm's own servers.
pub(super) async fn scratch_lease(
    session: &mut Session,
    scratch: &Scratch,
    run: &Run,
    on_farm: bool,
) -> Result<ScratchLease, PoolError> {
    count(&session.core.counters.gathers);
    let own = session.core.shared.scratch.server().filter(|_| !on_farm);
    if let Some(server) = own {
        for _ in 0..TRIES {
            let why = match own_scratch_lease(session, &server, scratch, run).await {
                Ok(scratch_lease) => return Ok(scratch_lease),
                Err(why) => why,
            };
            let broken = matches!(why, PoolError::Connection(ConnectionError::Broken { .. }));
            tracing::debug!(?why, "the scratch server cannot be used");
            if !broken {
                break;
            }
        }
    }
    count(&session.core.counters.gathers_on_stand_in);
    stand_in(session, scratch, run).await
}

/// What came of waiting for the scratch server.
pub(super) enum Awaited {
    /// It is there.
    Came,
    /// Nobody starts it, or it did not come within `failover_wait_ms`.
    Never,
    /// The statement was ended, and the client has been told.
    Told,
}

/// Waits for the scratch server when one is being started: for accounts that may make no tables on the server that
/// stands in for it. `tried`: the one that did not answer.
pub(super) async fn await_own(
    session: &mut Session,
    shape: &Shape,
    tried: Option<Arc<ScratchServer>>,
) -> Result<Awaited, End> {
    let began_us = session.core.now_us();
    let limit_us = session.promises.failover_wait_ms * 1000;
    let mut hold = Hold::new(began_us);
    clock::start_clock(&session.core, &session.handle, &mut session.run, shape);
    loop {
        let scratch = &session.core.shared.scratch;
        let limit_us = match (scratch.server(), &tried) {
            (Some(there), Some(tried)) if Arc::ptr_eq(&there, tried) => NOTICED_US.min(limit_us),
            (Some(_), _) => return Ok(Awaited::Came),
            (None, _) => limit_us,
        };
        let waited_us = session.core.now_us() - began_us;
        if !scratch.is_guarded() || waited_us >= limit_us {
            return Ok(Awaited::Never);
        }
        if !wait_once(session, &mut hold, limit_us - waited_us).await? {
            return Ok(Awaited::Told);
        }
    }
}

async fn own_scratch_lease(
    session: &mut Session,
    server: &ScratchServer,
    scratch: &Scratch,
    run: &Run,
) -> Result<ScratchLease, PoolError> {
    let pass = scratch_pass(&session.core, server, &session.user.identity.pass);
    let target = server.target();
    let key = session.core.pools.key(target.server, false, &pass);
    let state = state::scratch_state(&session.core, &session.user, &mut session.variables).await?;
    let taken = session.core.pools.take(&target, key, &state, 0);
    let lease = Box::pin(taken).await?;
    let lease = set_up(
        &session.handle,
        &session.client.request,
        &mut session.variables,
        &session.prepared,
        lease,
        scratch,
        run,
    )
    .await?;
    let capable = lease.connection().capabilities.contains(Capabilities::LOCAL_FILES);
    let scratch = &session.core.shared.scratch;
    Ok(ScratchLease {
        lease,
        is_own: true,
        takes_files: capable && scratch.takes_files(session.core.now_s.get()),
    })
}

/// The primary of the group that has the session's database.
async fn stand_in(
    session: &mut Session,
    scratch: &Scratch,
    run: &Run,
) -> Result<ScratchLease, PoolError> {
    let snapshot = session.core.snapshot();
    let database = String::from_utf8_lossy(session.variables.state.database().unwrap_or_default());
    let sharding = snapshot.sharding.as_ref();
    let group = sharding
        .and_then(|sharding| sharding.database(&database))
        .and_then(|name| snapshot.group(name))
        .or(snapshot.home());
    let primary = group.and_then(|group| group.primary().cloned());
    let found = primary.and_then(|primary| target(&snapshot, primary.id, false));
    let found = found.ok_or(PoolError::Connection(ConnectionError::Timeout {
        operation: "looking for a server that stands in for the scratch server",
    }))?;
    let pass = &session.user.identity.pass;
    let key = session.core.pools.key(found.server, false, pass);
    let taken = session.core.pools.take(&found, key, &session.variables.state, 0);
    let lease = Box::pin(taken).await?;
    let lease = set_up(
        &session.handle,
        &session.client.request,
        &mut session.variables,
        &session.prepared,
        lease,
        scratch,
        run,
    )
    .await?;
    Ok(ScratchLease {
        lease,
        is_own: false,
        // That is for the accounts of the farm's servers to say.
        takes_files: false,
    })
}

async fn set_up(
    handle: &Handle,
    request: &Request,
    variables: &mut SessionVariables,
    prepared: &PreparedStatements,
    mut lease: Lease,
    scratch: &Scratch,
    run: &Run,
) -> Result<Lease, PoolError> {
    let connection = lease.connection_mut();
    user_variables::bring_values(
        handle, request, variables, prepared, connection, &run.shape, TEXT,
    )
    .await?;
    if !variables.bring_lasting(connection).await?.is_empty() {
        // What was set so is not taken back.
        connection.condemn();
    }
    connection.owner.session = handle.id;
    let keep = format!("{KEEP}, @heddle_limit = @@{}", limit_name(variables));
    let mut commands: Vec<(Command, &[u8])> = vec![
        (Command::Query, keep.as_bytes()),
        (Command::Query, PLAIN),
        (Command::Query, LETTERS),
    ];
    for part in &scratch.tables {
        commands.push((Command::Query, part.drop.as_bytes()));
        commands.push((Command::Query, part.create.as_bytes()));
    }
    commands.push((Command::Query, BYTES));
    connection.run(&commands).await?;
    Ok(lease)
}

/// So many tables are filled: the connection is as the session's statements want it. The statement
/// may run for so long, when that is bounded.
pub(super) async fn set_to_work(
    variables: &SessionVariables,
    connection: &mut Connection,
    tables: usize,
    left_ms: Option<u64>,
) -> Result<(), ConnectionError> {
    let letters = letters(connection);
    let mut text = RESTORE.to_owned();
    if tables > TABLES_WHOLE_MAX {
        // Zero has the server choose by itself.
        text.push_str(&format!(
            ", optimizer_search_depth = CAST(LEAST(@heddle_depth, {DEPTH_MAX}) AS UNSIGNED)"
        ));
    }
    if let Some(left_ms) = left_ms {
        text.push_str(&limit(variables, left_ms));
    }
    let both = [
        (Command::Query, letters.as_bytes()),
        (Command::Query, text.as_bytes()),
    ];
    connection.run(&both).await.map(drop)
}

/// Takes the tables away and gives the connection back; one that is not sound is closed.
pub(super) async fn clear(
    variables: &SessionVariables,
    mut scratch_lease: ScratchLease,
    scratch: &Scratch,
) {
    let limit = limit_name(variables);
    let back =
        format!("{RESTORE}, optimizer_search_depth = @heddle_depth, {limit} = @heddle_limit");
    let letters = letters(scratch_lease.lease.connection());
    let mut commands: Vec<(Command, &[u8])> = vec![
        (Command::Query, letters.as_bytes()),
        (Command::Query, back.as_bytes()),
    ];
    for part in &scratch.tables {
        commands.push((Command::Query, part.drop.as_bytes()));
    }
    // What belongs to the client's account ends with its connection.
    let whole = scratch_lease.lease.connection_mut().run(&commands).await.is_ok();
    if whole && scratch_lease.is_own {
        scratch_lease.lease.release();
    }
}

/// The variable that bounds a statement's time.
fn limit_name(variables: &SessionVariables) -> &'static str {
    match variables.mode.dialect {
        Dialect::MariaDb => "max_statement_time",
        Dialect::MySql => "max_execution_time",
    }
}

/// The end of a SET that bounds a statement's time. The session's own bound holds when it is less;
/// 0 is none.
fn limit(variables: &SessionVariables, left_ms: u64) -> String {
    let (name, own) = (limit_name(variables), "IF(@heddle_limit = 0, 1e9, @heddle_limit)");
    match variables.mode.dialect {
        Dialect::MariaDb => {
            let left = format!("{}.{:03}", left_ms / 1000, left_ms % 1000);
            format!(", {name} = LEAST({own}, {left})")
        }
        Dialect::MySql => format!(", {name} = CAST(LEAST({own}, {left_ms}) AS UNSIGNED)"),
    }
}

/// Sets the character sets that the connection has between statements.
fn letters(connection: &Connection) -> String {
    let said = |name: &str| {
        let value = connection.variable(name).unwrap_or_default();
        String::from_utf8_lossy(value).into_owned()
    };
    let [client, own, results] = NAMES.map(said);
    let collation = said(COLLATION);
    if client == own && own == results {
        return format!("SET NAMES '{client}' COLLATE '{collation}'");
    }
    // The server says nothing of NULL.
    let results = match results.is_empty() {
        true => "NULL".to_owned(),
        false => format!("'{results}'"),
    };
    format!(
        "SET character_set_client = '{client}', character_set_results = {results}, \
         character_set_connection = '{own}', collation_connection = '{collation}'"
    )
}
