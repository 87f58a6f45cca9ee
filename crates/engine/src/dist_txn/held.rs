//! XA transactions of clients' own: over one group they are the servers' affair; over several, the
//! client's transaction at the coordinator group carries the row that names the branches on the others.
//!
//! The row is written by the client's own transaction, just before its XA PREPARE
//! ([`crate::dist_txn::decisions::hold`]), and so becomes a decision with its XA COMMIT, whoever sends that and
//! wherever; with its XA ROLLBACK it is gone, and the branches are rolled back as those of any
//! transaction that was never decided. While it is prepared, the row can be read as uncommitted data
//! only, and whoever wants to bar the transaction would wait for its lock: it is *held*.
//!
//! `heddle.xid` has the names that clients gave these transactions.

use std::collections::{BTreeMap, HashMap};

use farm::Xid;
use farm::dist_txn::{GlobalId, Verdict};

use crate::dist_txn::branches::{Told, end_transaction};
use crate::dist_txn::decisions::unless_missing;
use crate::error::Error;
use crate::link::{Link, bytes_at, text_at};

/// Of these transactions those that are held at this coordinator group, with their clients' names.
pub async fn held(
    link: &mut Link,
    ids: &[GlobalId],
    timeout_ms: u64,
) -> Result<HashMap<GlobalId, Xid>, Error> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let list: Vec<String> = ids.iter().map(|id| format!("X'{id}'")).collect();
    let wanted = format!("id IN ({})", list.join(","));
    let rows = rows(link, &wanted, timeout_ms).await?;
    let open = rows.into_iter().filter(|(_, row)| row.verdict.is_none());
    Ok(open.map(|(id, row)| (id, row.xid)).collect())
}

/// The last transaction over several groups that had this name at this coordinator group; its verdict once it is
/// committed. `None` where there was none, and for one that was rolled back.
pub async fn named(
    link: &mut Link,
    xid: &Xid,
    timeout_ms: u64,
) -> Result<Option<(GlobalId, Option<Verdict>)>, Error> {
    let wanted = format!("xid = X'{}'", hex::encode(xid.key()));
    let rows = rows(link, &wanted, timeout_ms).await?;
    let last = rows.into_iter().max_by_key(|(id, _)| id.at_ms);
    Ok(last.map(|(id, row)| (id, row.verdict)))
}

/// Ends a prepared transaction of a client's own, whoever began it. False when the server has none, or
/// its owner's connection lives.
pub async fn end(
    link: &mut Link,
    xid: &Xid,
    verdict: Verdict,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let told = end_transaction(link, &xid.to_string(), verdict, timeout_ms).await?;
    Ok(told != Told::NotThere)
}

struct Row {
    xid: Xid,
    /// `None` while it is not committed.
    verdict: Option<Verdict>,
}

/// The rows that are meant, those that are not committed with them.
async fn rows(
    link: &mut Link,
    wanted: &str,
    timeout_ms: u64,
) -> Result<BTreeMap<GlobalId, Row>, Error> {
    const OPERATION: &str = "read the names of XA transactions";
    let sql = format!(
        "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; START TRANSACTION; \
         SELECT id, xid FROM heddle.xid WHERE {wanted}; COMMIT; \
         SELECT m.id, m.state FROM heddle.xid x JOIN heddle.mark m ON m.id = x.id WHERE x.{wanted}; \
         COMMIT"
    );
    let sets = link.sets(OPERATION, &sql, timeout_ms).await;
    let sets = unless_missing(sets)?.unwrap_or_default();
    let mut with_rows = sets.into_iter().filter(|set| !set.is_empty());
    let mut found = BTreeMap::new();
    // Statements without rows have a set too, or none, by the driver.
    for row in with_rows.by_ref().flatten() {
        let Some(id) = bytes_at(&row, 0).and_then(|it| GlobalId::decode(&it)) else {
            continue;
        };
        let second = bytes_at(&row, 1).unwrap_or_default();
        match text_at(&row, 1).as_deref().and_then(Verdict::parse) {
            Some(verdict) => {
                if let Some(row) = found.get_mut(&id) {
                    let row: &mut Row = row;
                    row.verdict = Some(verdict);
                }
            }
            None => {
                if let Some(xid) = Xid::of_key(&second) {
                    found.insert(id, Row { xid, verdict: None });
                }
            }
        }
    }
    Ok(found)
}
