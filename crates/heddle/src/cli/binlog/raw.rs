//! `heddle binlog dump --raw`: the events as they are, as one file that the servers' own programs read.
//!
//! Invariants: what is written is whole events; transactions of `--from` are left out as a whole.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;

use changes::{Gtid, LogFile, RawEvent, code};
use engine::Login;
use engine::binlog::Event;
use farm::{Engine, Position};

use super::{BinlogDump, Reading, from, of_closed, runtime};
use crate::cli::login;
use crate::failure::Failure;

/// Writes a file's events.
pub(super) fn of_file(
    path: &Path,
    flags: &BinlogDump,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let failed = |at: u64, error: &dyn std::fmt::Display| {
        Failure::new(format!("{}, at byte {at}: {error}", path.display()))
    };
    let file = File::open(path).map_err(|error| failed(0, &error))?;
    let log = LogFile::open_for_bytes(BufReader::new(file));
    let mut log = log.map_err(|error| failed(0, &error))?;
    let engine = log.engine();
    let told = from(flags, engine)?;
    let mut is_told = false;
    let mut goes_on = write(out, &log.take_bytes())?;
    while goes_on {
        let at = log.at();
        let Some(event) = log.read_event().map_err(|error| failed(at, &error))? else {
            break;
        };
        is_told = is_told_behind(is_told, engine, &event, &told);
        let bytes = log.take_bytes();
        goes_on = is_told || write(out, &bytes)?;
    }
    Ok(())
}

/// Whether an event is of a transaction that was told before; `before` is that of the event in front of it.
fn is_told_behind(before: bool, engine: Engine, event: &RawEvent<'_>, told: &Position) -> bool {
    let gtid = match (engine, event.kind) {
        (Engine::MariaDb, code::MARIADB_GTID) => Gtid::of_mariadb(event.server_id, event.data),
        (Engine::MySql, code::GTID | code::GTID_TAGGED) => Gtid::of_mysql(event.kind, event.data),
        (_, code::ANONYMOUS | code::FORMAT | code::ROTATE | code::STOP) => return false,
        (_, code::PREVIOUS_GTIDS | code::GTID_LIST | code::CHECKPOINT) => return false,
        _ => return before,
    };
    gtid.is_some_and(|gtid| gtid.is_in(told))
}

/// Writes a server's events up to its present end.
pub(super) fn of_server(
    place: (&str, u16),
    flags: &BinlogDump,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let login = login::login(place, &flags.user, flags.password_file.as_deref())?;
    runtime()?.block_on(read_server(&login, flags, out))
}

async fn read_server(
    login: &Login,
    flags: &BinlogDump,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut reading = Reading::begin(login, flags).await?;
    reading.reader = reading.reader.with_bytes();
    loop {
        // The beginning of a file comes with the first event, also where nothing follows.
        let event = reading.reader.next().await.map_err(Failure::new)?;
        // Not in the middle of a transaction, of those that have come meanwhile either.
        let is_between = matches!(event, Event::End(_) | Event::Alive);
        let is_last = reading.is_last(&event) && is_between;
        if !write(out, &reading.reader.take_bytes())? || is_last {
            return Ok(());
        }
    }
}

/// False when nobody reads any more.
fn write(out: &mut impl Write, bytes: &[u8]) -> Result<bool, Failure> {
    match out.write_all(bytes) {
        Ok(()) => Ok(true),
        Err(error) => of_closed(error).map(|()| false).map_err(Failure::new),
    }
}
