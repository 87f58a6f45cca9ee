//! What became of a lost write, read from a server's log: stands for the control plane where a test
//! has none.

use std::net::SocketAddr;

use ::farm::{Fate, LostWrite, TableRows};
use engine::binlog::{auto_column, is_after, unsigned_value, written};

use crate::door::admin::{link as link_to, with_link};

/// Reads a server's log as the control plane does.
///
/// # Panics
/// When the server does not answer.
pub fn fate_on(server: SocketAddr, lost: &LostWrite) -> Fate {
    with_link(server, async |link| {
        let all = written(link.login(), None, 20_000).await.expect("a log");
        let own = |tag: &Option<String>| tag.as_deref() == Some(&lost.tag);
        let found = all
            .into_iter()
            .find(|one| own(&one.tag) && is_after(&one.gtid, &lost.after));
        let Some(found) = found else {
            return Fate::Lost;
        };
        let mut link = link_to(server).await;
        let mut rows = Vec::new();
        for table in found.tables {
            let column = auto_column(&mut link, &table.database, &table.table, 20_000).await;
            let insert_id = column.expect("an answer").and_then(|(place, kind)| {
                let value = table.integers.iter().find(|(at, _)| *at == place)?.1;
                Some(unsigned_value(&kind, value))
            });
            rows.push(TableRows {
                database: table.database,
                table: table.table,
                inserted: table.inserted,
                updated: table.updated,
                deleted: table.deleted,
                insert_id,
            });
        }
        Fate::Committed {
            gtid: found.gtid,
            rows: Some(rows),
        }
    })
}
