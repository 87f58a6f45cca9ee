//! Which branches a server has prepared: their rows are in no table yet, and stand in the binary log
//! where they were prepared.

use std::collections::BTreeSet;

use crate::error::Error;
use crate::link::{Link, bytes_at};

/// The names of all of them, whosever they are.
pub async fn prepared_now(link: &mut Link, timeout_ms: u64) -> Result<BTreeSet<Vec<u8>>, Error> {
    let rows = link.rows("list prepared transactions", "XA RECOVER", timeout_ms);
    let name = |row: &mysql_async::Row| {
        let cells = (0..4).map(|at| bytes_at(row, at).unwrap_or_default());
        cells.collect::<Vec<_>>().join(&b',')
    };
    Ok(rows.await?.iter().map(name).collect())
}
