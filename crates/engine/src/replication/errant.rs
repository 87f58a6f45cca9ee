//! Saves errant transactions before they are given up: the server's own binary log events, in a file
//! that `mariadb-binlog` or `mysqlbinlog` reads.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use farm::{Engine, Position};
use futures_util::StreamExt;
use mysql_async::BinlogStreamRequest;
use mysql_async::binlog::events::Event;
use mysql_async::binlog::{BinlogVersion, EventFlags, EventType};
use mysql_async::prelude::Queryable;

use crate::binlog::{sids, unreadable};
use crate::error::Error;
use crate::link::{Link, Login};
use crate::replication::divergence::Divergence;

const OPERATION: &str = "give its errant transactions";

/// Begins every file of a binary log.
const MAGIC: &[u8] = b"\xfebin";

/// The router reads as a replica with this id; a server throws out another reader of the same id.
const READER_ID: u32 = 0x7EDD_1E00;

/// A server that gives no event for so long hangs.
const STALL: Duration = Duration::from_secs(30);

/// Writes the events of a server's errant transactions to an empty file, whose path is for messages;
/// gives how many events.
///
/// # Errors
/// The server's, for example when it has purged them (1236), or the file's as `Lost`.
pub async fn save(
    server: &Login,
    engine: Engine,
    divergence: &Divergence,
    (path, file): (&Path, File),
    timeout_ms: u64,
) -> Result<u64, Error> {
    let address = format!("{}:{}", server.host, server.port);
    let unwritable = |error: std::io::Error| Error::Lost {
        operation: OPERATION,
        server: address.clone(),
        reason: format!("cannot write {}: {error}", path.display()),
    };
    let failed = |error: mysql_async::Error| Error::from_driver(OPERATION, &address, &error);
    let link = Link::open_for_rows(server, timeout_ms).await?;
    let mut conn = link.into_driver();
    let mut request = BinlogStreamRequest::new(READER_ID).with_non_blocking();
    if engine == Engine::MariaDb {
        let sql = format!(
            "SET @mariadb_slave_capability=4, @slave_gtid_strict_mode=0, \
             @slave_connect_state='{}'",
            divergence.since
        );
        conn.query_drop(sql).await.map_err(failed)?;
    } else {
        let known = Position::parse(engine, &divergence.since);
        let known = known.ok_or_else(|| unreadable(&address, &divergence.since))?;
        let known = sids(&known).map_err(|error| unreadable(&address, &error))?;
        request = request.with_gtid().with_gtid_set(known);
    }
    let mut file = BufWriter::new(file);
    file.write_all(MAGIC).map_err(unwritable)?;
    let mut stream = pin!(conn.get_binlog_stream(request).await.map_err(failed)?);
    let mut events = 0;
    loop {
        let event = match tokio::time::timeout(STALL, stream.next()).await {
            Err(_) => {
                return Err(Error::Timeout {
                    operation: OPERATION,
                    server: address,
                    timeout_ms: STALL.as_secs() * 1000,
                });
            }
            Ok(None) => break,
            Ok(Some(event)) => event.map_err(failed)?,
        };
        if belongs(&event, events) {
            event
                .write(BinlogVersion::Version4, &mut file)
                .map_err(unwritable)?;
            events += 1;
        }
    }
    let file = file
        .into_inner()
        .map_err(|error| unwritable(error.into_error()))?;
    file.sync_all().map_err(unwritable)?;
    Ok(events)
}

/// A file has one description, at its beginning, and none of what a server makes up for its replicas.
fn belongs(event: &Event, events: u64) -> bool {
    let kind = event.header().event_type_raw();
    if kind == EventType::FORMAT_DESCRIPTION_EVENT as u8 {
        return events == 0;
    }
    let made_up = event
        .header()
        .flags()
        .contains(EventFlags::LOG_EVENT_ARTIFICIAL_F);
    !made_up && kind != EventType::HEARTBEAT_EVENT as u8 && kind != EventType::ROTATE_EVENT as u8
}
