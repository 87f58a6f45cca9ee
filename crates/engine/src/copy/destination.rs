//! The server that is copied into: emptied, filled, and given its position.

use std::time::{Duration, Instant};

use enginesql::quoted;
use enginesql::words;
use farm::{Engine, Position};
use sqltext::ticked;

use super::UNFINISHED;
use super::catalog::{Catalog, Program, Schema, schemas};
use super::rows;
use super::snapshot::Snapshot;
use crate::error::Error;
use crate::link::{Link, Login, bytes_at, text_at};
use crate::replication::detach;
use crate::replication::retirement::take_no_writes;

/// ER_UNKNOWN_SYSTEM_VARIABLE and what a variable that cannot be set in a session gives.
const NO_SUCH_VARIABLE: [u16; 3] = [1193, 1229, 1238];

/// Pause between two looks at prepared transactions.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a server holds that a copy into it would destroy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Tables, views and routines outside the system's databases.
    pub objects: u64,
    /// A copy into it was begun and never ended.
    pub unfinished: bool,
}

/// Looks what a server holds. Heddle's own database does not count.
pub async fn contents(link: &mut Link, timeout_ms: u64) -> Result<Contents, Error> {
    const OTHERS: &str =
        "NOT IN ('mysql','information_schema','performance_schema','sys','heddle')";
    let sql = format!(
        "SELECT (SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA {OTHERS}) + \
         (SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA {OTHERS}), \
         (SELECT COUNT(*) FROM information_schema.SCHEMATA WHERE SCHEMA_NAME='{UNFINISHED}')"
    );
    let rows = link.rows("count its tables", &sql, timeout_ms).await?;
    let count = |index| {
        let cell = rows.first().and_then(|row| text_at(row, index));
        cell.and_then(|cell| cell.parse().ok()).unwrap_or(0)
    };
    Ok(Contents {
        objects: count(0),
        unfinished: count(1) > 0,
    })
}

/// Empties a server whose copy was given up: its databases go, its accounts stay as they are.
pub async fn wipe(destination: &Login, timeout_ms: u64) -> Result<(), Error> {
    let mut link = Link::open(destination, timeout_ms).await?;
    prepare_to_fill(&mut link, timeout_ms).await?;
    drop_unfinished(&mut link, timeout_ms).await
}

/// Ends all other work on the server and drops its databases. Nothing of it is logged.
async fn empty(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "be emptied";
    detach(link, timeout_ms).await?;
    take_no_writes(link, timeout_ms).await?;
    if link.version().engine == Engine::MySql {
        // `read_only` lets accounts with CONNECTION_ADMIN write.
        let sql = "SET GLOBAL super_read_only=0; SET GLOBAL read_only=1";
        link.run(OPERATION, sql, timeout_ms).await?;
    }
    set_up(link, timeout_ms).await?;
    let mark = format!("CREATE DATABASE IF NOT EXISTS {UNFINISHED}");
    link.run(OPERATION, &mark, timeout_ms).await?;
    roll_back_prepared(link, timeout_ms).await?;
    for name in schemas(link, timeout_ms).await? {
        let sql = format!("DROP DATABASE IF EXISTS {}", ticked(&name));
        // Dropping a large database takes its time.
        link.run(OPERATION, &sql, timeout_ms.max(600_000)).await?;
    }
    Ok(())
}

/// The session's settings for what follows. Those that a version does not know are left out.
async fn set_up(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const SETTINGS: &[&str] = &[
        "sql_log_bin=0",
        "time_zone='+00:00'",
        "foreign_key_checks=0",
        "unique_checks=0",
        "lock_wait_timeout=60",
        "innodb_strict_mode=0",
        "check_constraint_checks=0",
        "system_versioning_insert_history=1",
        "sql_require_primary_key=0",
        "sql_generate_invisible_primary_key=0",
        "show_gipk_in_create_table_and_information_schema=1",
        "net_read_timeout=3600",
        "sql_mode='NO_AUTO_VALUE_ON_ZERO,NO_DIR_IN_CREATE'",
    ];
    for setting in SETTINGS {
        let sql = format!("SET SESSION {setting}");
        match link.run("set up the copy", &sql, timeout_ms).await {
            Err(error)
                if error
                    .number()
                    .is_some_and(|number| NO_SUCH_VARIABLE.contains(&number)) => {}
            other => other?,
        }
    }
    link.run("set up the copy", "SET NAMES utf8mb4", timeout_ms)
        .await
}

/// Prepared transactions hold locks for ever; some MySQL versions crash when such a table is dropped.
async fn roll_back_prepared(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "roll back prepared transactions";
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    loop {
        let prepared = link.rows(OPERATION, "XA RECOVER", timeout_ms).await?;
        if prepared.is_empty() {
            return Ok(());
        }
        for row in prepared {
            let number = |index| text_at(&row, index).and_then(|n| n.parse::<usize>().ok());
            let data = bytes_at(&row, 3).unwrap_or_default();
            let (format, length) = (number(0).unwrap_or(1), number(1).unwrap_or(0));
            let (global, branch) = data.split_at(length.min(data.len()));
            let (global, branch) = (hex::encode(global), hex::encode(branch));
            let sql = format!("XA ROLLBACK x'{global}',x'{branch}',{format}");
            match link.run(OPERATION, &sql, timeout_ms).await {
                // XAER_NOTA: the connection that prepared it is still being ended.
                Err(error) if error.number() == Some(1397) && Instant::now() < deadline => {}
                other => other?,
            }
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Empties the server, marks it as one whose data are not whole, and lets it forget its position.
pub async fn prepare_to_fill(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    empty(link, timeout_ms).await?;
    let reset = words::RESET_LOG.of(link.version());
    link.run("forget its position", reset, timeout_ms).await
}

/// Databases, sequences and tables, without rows.
pub(super) async fn make_tables(
    link: &mut Link,
    catalog: &Catalog,
    timeout_ms: u64,
) -> Result<(), Error> {
    for schema in &catalog.schemas {
        run_bytes(link, &schema.create).await?;
        enter(link, &schema.name, timeout_ms).await?;
        for sequence in &schema.sequences {
            run_bytes(link, &sequence.create).await?;
            link.run("set a sequence", &sequence.after, timeout_ms)
                .await?;
        }
        for table in &schema.tables {
            run_bytes(link, &table.create).await?;
        }
    }
    Ok(())
}

/// Routines first, since views and triggers call them; views of views in the order that works.
pub(super) async fn make_programs(
    link: &mut Link,
    catalog: &Catalog,
    timeout_ms: u64,
) -> Result<(), Error> {
    let trusting = trust_programs(link, catalog, timeout_ms).await?;
    let mut made = make_all(link, catalog, timeout_ms).await;
    if trusting {
        let sql = "SET GLOBAL log_bin_trust_function_creators=0";
        let back = link.run("take the source's programs", sql, timeout_ms);
        made = made.and(back.await);
    }
    made?;
    set_up(link, timeout_ms).await
}

async fn make_all(link: &mut Link, catalog: &Catalog, timeout_ms: u64) -> Result<(), Error> {
    for schema in &catalog.schemas {
        for routine in &schema.routines {
            make(link, schema, routine, timeout_ms).await?;
        }
    }
    make_views(link, catalog, timeout_ms).await?;
    let events = catalog.schemas.iter().any(|s| !s.events.is_empty());
    let scheduler = if events {
        stop_scheduler(link, timeout_ms).await?
    } else {
        false
    };
    for schema in &catalog.schemas {
        for program in schema.triggers.iter().chain(&schema.events) {
            make(link, schema, program, timeout_ms).await?;
        }
    }
    if scheduler {
        let sql = "SET GLOBAL event_scheduler=ON";
        link.run("start its events", sql, timeout_ms).await?;
    }
    Ok(())
}

/// A server with a binary log takes functions and triggers from accounts with SUPER only, and no function
/// that does not say what it reads, unless it trusts their creators. The source took these. True when the
/// server has to be told again that it trusts nobody.
async fn trust_programs(
    link: &mut Link,
    catalog: &Catalog,
    timeout_ms: u64,
) -> Result<bool, Error> {
    const OPERATION: &str = "take the source's programs";
    let has_any = |schema: &Schema| !(schema.routines.is_empty() && schema.triggers.is_empty());
    if !catalog.schemas.iter().any(has_any) {
        return Ok(false);
    }
    let sql = "SELECT @@global.log_bin_trust_function_creators";
    let trusts = link.cell(OPERATION, sql, timeout_ms).await?;
    if trusts.as_deref() != Some("0") {
        return Ok(false);
    }
    let sql = "SET GLOBAL log_bin_trust_function_creators=1";
    link.run(OPERATION, sql, timeout_ms).await?;
    Ok(true)
}

/// An event that is due between its making and its disabling would run here. True when the scheduler
/// has to be started again.
async fn stop_scheduler(link: &mut Link, timeout_ms: u64) -> Result<bool, Error> {
    const OPERATION: &str = "stop its events";
    let state = link
        .cell(OPERATION, "SELECT @@global.event_scheduler", timeout_ms)
        .await?;
    let on = state.is_some_and(|state| state == "ON");
    if on {
        let sql = "SET GLOBAL event_scheduler=OFF";
        link.run(OPERATION, sql, timeout_ms).await?;
    }
    Ok(on)
}

async fn make_views(link: &mut Link, catalog: &Catalog, timeout_ms: u64) -> Result<(), Error> {
    let all = |schema: &'_ Schema| schema.views.len();
    let mut waiting: Vec<(&Schema, &Program)> =
        Vec::with_capacity(catalog.schemas.iter().map(all).sum());
    for schema in &catalog.schemas {
        waiting.extend(schema.views.iter().map(|view| (schema, view)));
    }
    while !waiting.is_empty() {
        let before = waiting.len();
        let mut later = Vec::new();
        let mut last = None;
        for (schema, view) in waiting {
            match make(link, schema, view, timeout_ms).await {
                Ok(()) => {}
                // The server refused it; a view that it is made of may follow.
                Err(error) if error.number().is_some() => {
                    last = Some(error);
                    later.push((schema, view));
                }
                Err(error) => return Err(error),
            }
        }
        if later.len() == before {
            return Err(invalid_view(link, &later, last));
        }
        waiting = later;
    }
    Ok(())
}

fn invalid_view(link: &Link, views: &[(&Schema, &Program)], last: Option<Error>) -> Error {
    let names: Vec<String> = views
        .iter()
        .map(|(schema, view)| format!("{}.{}", schema.name, view.name))
        .collect();
    let reason = last.map_or(String::new(), |error| error.to_string());
    Error::Refused {
        operation: "take the source's views",
        server: link.address().to_owned(),
        number: 1356,
        // The number stands for «this view is invalid», which no second try mends.
        message: format!("{}: {reason}", names.join(", ")),
        cure: "; mend or drop them on the primary".to_owned(),
    }
}

/// Makes one program with the session settings that it was made with.
pub(crate) async fn make(
    link: &mut Link,
    schema: &Schema,
    program: &Program,
    timeout_ms: u64,
) -> Result<(), Error> {
    const OPERATION: &str = "make a definition";
    enter(link, &schema.name, timeout_ms).await?;
    let odd_collation = if program.collation.is_empty() {
        None
    } else {
        let now = link
            .cell(OPERATION, "SELECT @@collation_database", timeout_ms)
            .await?
            .unwrap_or_default();
        (now != program.collation).then_some(now)
    };
    // Routines keep the collation that their database had when they were made.
    if odd_collation.is_some() {
        collate(link, schema, &program.collation, timeout_ms).await?;
    }
    if !program.session.is_empty() {
        link.run(OPERATION, &program.session, timeout_ms).await?;
    }
    let made = run_bytes(link, &program.create).await;
    let back = "SET NAMES utf8mb4; SET SESSION sql_mode='', SESSION time_zone='+00:00'";
    link.run(OPERATION, back, timeout_ms).await?;
    if let Some(collation) = odd_collation {
        collate(link, schema, &collation, timeout_ms).await?;
    }
    made?;
    if !program.after.is_empty() {
        link.run(OPERATION, &program.after, timeout_ms).await?;
    }
    Ok(())
}

async fn collate(
    link: &mut Link,
    schema: &Schema,
    collation: &str,
    timeout_ms: u64,
) -> Result<(), Error> {
    let name = ticked(&schema.name);
    let sql = format!("ALTER DATABASE {name} COLLATE {}", quoted(collation));
    link.run("set a collation", &sql, timeout_ms).await
}

async fn enter(link: &mut Link, schema: &str, timeout_ms: u64) -> Result<(), Error> {
    let sql = format!("USE {}", ticked(schema));
    link.run("enter a database", &sql, timeout_ms).await
}

/// Runs a statement as the bytes that it is.
pub(crate) async fn run_bytes(link: &mut Link, statement: &[u8]) -> Result<(), Error> {
    let server = link.address().to_owned();
    rows::insert(link.conn(), &server, statement.to_vec()).await
}

/// Replaces the accounts by the source's. The account of this connection keeps what it has on everything and
/// on databases, and stays if the source has none of its name: without it nobody could reach the server.
pub(super) async fn put_grants(
    link: &mut Link,
    catalog: &Catalog,
    timeout_ms: u64,
) -> Result<(), Error> {
    const OPERATION: &str = "take the accounts";
    let own = link
        .cell(OPERATION, "SELECT CURRENT_USER()", timeout_ms)
        .await?
        .unwrap_or_default();
    let (user, host) = own.rsplit_once('@').unwrap_or((&own, "%"));
    let (user, host) = (quoted(user), quoted(host));
    let own_rows = match link.version().engine {
        Engine::MariaDb => &["global_priv", "db"][..],
        Engine::MySql => &["user", "global_grants", "db"][..],
    };
    for table in own_rows {
        let kept = format!(
            "CREATE TEMPORARY TABLE {UNFINISHED}.own_{table} AS SELECT * FROM mysql.{table} \
             WHERE User={user} AND Host={host}"
        );
        link.run(OPERATION, &kept, timeout_ms).await?;
    }
    link.run(OPERATION, "START TRANSACTION", timeout_ms).await?;
    for grants in &catalog.grants {
        let only = if grants.only.is_empty() {
            String::new()
        } else {
            format!(" WHERE {}", grants.only)
        };
        let sql = format!("DELETE FROM mysql.{}{only}", grants.table);
        link.run(OPERATION, &sql, timeout_ms).await?;
        for insert in &grants.inserts {
            run_bytes(link, insert).await?;
        }
    }
    for table in own_rows {
        let back =
            format!("INSERT IGNORE INTO mysql.{table} SELECT * FROM {UNFINISHED}.own_{table}");
        link.run(OPERATION, &back, timeout_ms).await?;
    }
    link.run(OPERATION, "COMMIT", timeout_ms).await?;
    for table in own_rows {
        let drop = format!("DROP TEMPORARY TABLE {UNFINISHED}.own_{table}");
        link.run(OPERATION, &drop, timeout_ms).await?;
    }
    link.run(OPERATION, "FLUSH PRIVILEGES", timeout_ms).await
}

/// Gives the server the snapshot's position and takes the mark away.
pub(super) async fn finish(
    link: &mut Link,
    snapshot: &Snapshot,
    timeout_ms: u64,
) -> Result<(), Error> {
    const OPERATION: &str = "take its position";
    let reset = words::RESET_LOG.of(link.version());
    link.run(OPERATION, reset, timeout_ms).await?;
    let position = quoted(&snapshot.position.to_string());
    let sql = match link.version().engine {
        Engine::MariaDb => format!(
            "SET GLOBAL gtid_binlog_state={}; SET GLOBAL gtid_slave_pos={position}",
            quoted(&snapshot.binlog_state)
        ),
        Engine::MySql => format!("SET GLOBAL gtid_purged={position}"),
    };
    link.run(OPERATION, &sql, timeout_ms).await?;
    drop_unfinished(link, timeout_ms).await
}

/// Gives a MariaDB server that got another one's files the position of these, as the backup noted it.
/// It follows nobody then. Binary logs that it got (`has_logs`) stay if they end there; says whether it has any.
pub async fn take_position(
    destination: &Login,
    gtids: &str,
    has_logs: bool,
    timeout_ms: u64,
) -> Result<(Position, bool), Error> {
    const OPERATION: &str = "take its position";
    let mut link = Link::open(destination, timeout_ms).await?;
    let position = Position::parse(Engine::MariaDb, gtids).ok_or_else(|| Error::Reply {
        operation: OPERATION,
        server: link.address().to_owned(),
        what: format!("the backup notes the position {gtids:?}"),
    })?;
    detach(&mut link, timeout_ms).await?;
    let logged = link.cell(OPERATION, "SELECT @@gtid_binlog_pos", timeout_ms);
    let logged = logged.await?.unwrap_or_default();
    let keeps_logs =
        has_logs && Position::parse(Engine::MariaDb, &logged).as_ref() == Some(&position);
    let gtids = quoted(&position.to_string());
    if !keeps_logs {
        let reset = words::RESET_LOG.of(link.version());
        let sql = format!("{reset}; SET GLOBAL gtid_binlog_state={gtids}");
        link.run(OPERATION, &sql, timeout_ms).await?;
    }
    let sql = format!("SET GLOBAL gtid_slave_pos={gtids}");
    link.run(OPERATION, &sql, timeout_ms).await?;
    Ok((position, keeps_logs))
}

async fn drop_unfinished(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    let sql = format!("DROP DATABASE IF EXISTS {UNFINISHED}");
    link.run("end the copy", &sql, timeout_ms).await
}
