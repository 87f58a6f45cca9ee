//! `heddle bench-commit`: commits per second of the operator's own servers, against connections, with and without
//! group commit, with and without the binlog's sync, and how far replicas are behind.
//!
//! Invariants: what it changes on a server is as before when it ends, by itself, by a failure or by Ctrl-C; it
//! writes to a schema of its own; a server that others use is left alone unless the operator insists.
//!
//! Must not know: groups and routers. It asks the servers that it is given.

mod case;
mod flags;
mod load;
mod restore;

use std::time::Duration;

use engine::commits::{self, Work};
use engine::{Link, Login};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::cli::login;
use crate::failure::Failure;
use crate::printing;
use crate::router::runtime;
use case::{Case, cases, names_of_primary, names_of_replica};
pub use flags::BenchCommit;
use load::{Load, Measured};
use restore::Restorer;

/// For one statement.
const TIMEOUT_MS: u64 = 30_000;

/// For so long it is looked what others do.
const LOOK: Duration = Duration::from_secs(2);

/// More statements in a second than Heddle's own probes and heartbeats are somebody's work.
const WRITES_MAX: u64 = 10;
const READS_MAX: u64 = 100;

/// So long a replica may need for what was committed.
const LAG_MS_MAX: u64 = 120_000;

/// Measures, and prints the table.
///
/// # Errors
/// It may not be measured, a server cannot be asked, or it was ended; what was changed is as before.
pub fn run(flags: &BenchCommit) -> Result<(), Failure> {
    runtime()?.block_on(bench(flags))
}

async fn bench(flags: &BenchCommit) -> Result<(), Failure> {
    let mut primary = open(flags, &flags.primary).await?;
    let mut replicas = Vec::new();
    for address in &flags.replica {
        replicas.push(open(flags, address).await?);
    }
    let is_there = may_write(flags, &mut primary).await?;
    if !flags.force {
        is_idle(&mut primary).await?;
    }
    let mut restorer = Restorer::new(login_of(flags, &flags.primary)?);
    let ended = tokio::select! {
        measured = measure(flags, &mut primary, &mut replicas, !is_there, &mut restorer) => measured,
        signal = stopped() => Err(signal),
    };
    let restored = restorer.restore().await;
    let rows = ended?;
    restored?;
    match flags.json {
        true => printing::put(&format!("{}\n", Value::Array(rows))),
        false => printing::put(&printing::table(&rows)),
    }
    Ok(())
}

/// Waits for Ctrl-C, or for the end by a service manager.
async fn stopped() -> Failure {
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        return Failure::new("cannot wait for signals");
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Failure::new("it was ended; the settings are as before")
}

fn login_of(flags: &BenchCommit, address: &str) -> Result<Login, Failure> {
    let place = login::place_of(address);
    let place =
        place.ok_or_else(|| Failure::usage(format!("{address}: no HOST:PORT of a server")))?;
    login::login(place, &flags.user, flags.password_file.as_deref())
}

async fn open(flags: &BenchCommit, address: &str) -> Result<Link, Failure> {
    let login = login_of(flags, address)?;
    Link::open(&login, TIMEOUT_MS).await.map_err(Failure::new)
}

/// True when the schema is there.
async fn may_write(flags: &BenchCommit, primary: &mut Link) -> Result<bool, Failure> {
    let schema = &flags.schema;
    let tables = commits::tables_in(primary, schema, TIMEOUT_MS)
        .await
        .map_err(Failure::new)?;
    match tables {
        Some(1..) => Err(Failure::usage(format!(
            "the schema {schema} has tables: name one that is empty, or one that is not there (--schema)"
        ))),
        Some(0) => Ok(true),
        None if flags.yes => Ok(false),
        None => Err(Failure::usage(format!(
            "this makes the schema {schema} on {}, fills it, and changes sync_binlog and the settings of \
             group commit and of its replicas' appliers meanwhile: say --yes, or make an empty schema for \
             it (--schema)",
            flags.primary
        ))),
    }
}

/// # Errors
/// Others use the server.
async fn is_idle(primary: &mut Link) -> Result<(), Failure> {
    let before = commits::work(primary, TIMEOUT_MS)
        .await
        .map_err(Failure::new)?;
    tokio::time::sleep(LOOK).await;
    let after = commits::work(primary, TIMEOUT_MS)
        .await
        .map_err(Failure::new)?;
    match traffic(&before, &after, LOOK.as_secs()) {
        Some(said) => Err(Failure::new(format!(
            "others use the server: {said}. They would be measured, and slowed down; --force does it all \
             the same"
        ))),
        None => Ok(()),
    }
}

/// What others do, if that is more than a farm's own probes.
fn traffic(before: &Work, after: &Work, seconds: u64) -> Option<String> {
    let writes = after.writes.saturating_sub(before.writes) / seconds;
    let reads = after.reads.saturating_sub(before.reads) / seconds;
    (writes > WRITES_MAX || reads > READS_MAX)
        .then(|| format!("{writes} writes and {reads} reads in a second"))
}

/// All cases, one after the other.
async fn measure(
    flags: &BenchCommit,
    primary: &mut Link,
    replicas: &mut [Link],
    with_schema: bool,
    restorer: &mut Restorer,
) -> Result<Vec<Value>, Failure> {
    let engine = primary.version().engine;
    restorer
        .keep(primary, &names_of_primary(engine), false)
        .await?;
    let mut appliers = Vec::new();
    for replica in replicas.iter_mut() {
        let names = names_of_replica(replica.version().engine);
        appliers.push(restorer.keep(replica, names, true).await?);
    }
    let [make, take_away] = commits::making(&flags.schema, with_schema);
    restorer.also(take_away);
    commits::run(primary, &make, TIMEOUT_MS)
        .await
        .map_err(Failure::new)?;
    let load = Load::new(login_of(flags, &flags.primary)?, flags);
    let (mut rows, mut last) = (Vec::new(), None);
    for case in cases(&flags.threads, !replicas.is_empty()) {
        for (name, value) in names_of_primary(engine)
            .iter()
            .zip(case.of_primary(flags.wait_us))
        {
            let sql = commits::setting(name, &value);
            commits::run(primary, &sql, TIMEOUT_MS)
                .await
                .map_err(Failure::new)?;
        }
        if last != Some(case.parallel) {
            last = Some(case.parallel);
            for (replica, name) in replicas.iter_mut().zip(&appliers) {
                let Some(value) = case.of_replica(name) else {
                    continue;
                };
                let sql = commits::setting_of_applier(replica, name, value);
                commits::run(replica, &sql, TIMEOUT_MS)
                    .await
                    .map_err(Failure::new)?;
            }
        }
        let measured = load.run(case.threads).await?;
        let lag = lag_ms(primary, replicas).await?;
        rows.push(row(&case, &measured, lag));
        if !flags.json {
            printing::complain(&said(&case, &measured));
        }
    }
    Ok(rows)
}

/// How long the slowest replica needs from now on for what was committed.
async fn lag_ms(primary: &mut Link, replicas: &mut [Link]) -> Result<Option<u64>, Failure> {
    let begin = std::time::Instant::now();
    for replica in replicas.iter_mut() {
        let there = commits::catches_up(primary, replica, LAG_MS_MAX, TIMEOUT_MS).await;
        if !there.map_err(Failure::new)? {
            let address = replica.address();
            let text =
                format!("{address} is {LAG_MS_MAX} ms behind, or does not follow the primary");
            return Err(Failure::new(text));
        }
    }
    let elapsed = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok((!replicas.is_empty()).then_some(elapsed))
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn row(case: &Case, measured: &Measured, lag_ms: Option<u64>) -> Value {
    let mut row = json!({
        "sync_binlog": u8::from(case.sync_binlog),
        "group_commit": on_off(case.group_commit),
        "threads": case.threads,
        "commits_per_s": measured.per_second,
        "p50_ms": measured.p50_ms,
        "p99_ms": measured.p99_ms,
    });
    if let (Some(parallel), Some(lag_ms)) = (case.parallel, lag_ms) {
        row["parallel_apply"] = on_off(parallel).into();
        row["lag_ms"] = lag_ms.into();
    }
    row
}

fn said(case: &Case, measured: &Measured) -> String {
    format!(
        "{} threads, sync_binlog {}, group commit {}: {} commits/s",
        case.threads,
        u8::from(case.sync_binlog),
        on_off(case.group_commit),
        measured.per_second
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_farms_own_probes_are_no_traffic() {
        let work = |writes, reads| Work { writes, reads };
        let idle = work(100, 1000);
        assert_eq!(traffic(&idle, &work(110, 1100), 2), None);
        assert!(traffic(&idle, &work(160, 1000), 2).is_some());
        assert!(traffic(&idle, &work(100, 2000), 2).is_some());
    }
}
