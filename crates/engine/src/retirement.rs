//! How a server that must not write any more is brought to it.

use farm::Engine;

use crate::error::Error;
use crate::link::{Link, text_at};
use crate::replication::set_acks;

/// Ends all clients' connections and makes the server read-only. Commits that wait there for a
/// replica are let go after their clients are gone, so that nobody takes them for acknowledged.
pub async fn take_no_writes(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    end_clients(link, timeout_ms).await?;
    set_acks(link, None, timeout_ms).await?;
    let read_only = match link.version().engine {
        Engine::MariaDb => "SET GLOBAL read_only=1",
        Engine::MySql => "SET GLOBAL super_read_only=1",
    };
    link.run("become read-only", read_only, timeout_ms).await
}

/// Ends every connection but this one and those of replicas.
async fn end_clients(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "end its clients";
    let sql = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID<>CONNECTION_ID() AND \
               USER NOT IN ('system user','event_scheduler') AND COMMAND NOT IN \
               ('Daemon','Binlog Dump','Binlog Dump GTID')";
    for row in link.rows(OPERATION, sql, timeout_ms).await? {
        let Some(id) = text_at(&row, 0) else { continue };
        let kill = format!("KILL CONNECTION {id}");
        match link.run(OPERATION, &kill, timeout_ms).await {
            // ER_NO_SUCH_THREAD: it left by itself.
            Err(error) if error.number() == Some(1094) => {}
            other => other?,
        }
    }
    Ok(())
}
