//! Puts right what a crash left of XA branches on a MariaDB server: its log and its engine disagree.
//!
//! XA PREPARE, XA COMMIT and XA ROLLBACK are logged first, then wait for a replica, and only then reach
//! the engine. At its next start the server makes up for commits of plain transactions that are in its
//! log, but not for these: a branch may be missing that the log says is prepared, and one may be there
//! that the log says has ended. Positions cannot tell, since the log is what they count; a server
//! that followed its primary like this would lack rows without a word, or stop with 1397.
//!
//! So the end of the log is read, and what it says is done once more, without logging it: branches are
//! ended, or their row events are applied again and prepared.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::{Duration, Instant};

use farm::Engine;
use futures_util::StreamExt;
use mysql_async::BinlogStreamRequest;
use mysql_async::binlog::BinlogVersion;
use mysql_async::binlog::events::Event;

use crate::binlog::{self, file_before_last};
use crate::dist_txn::branches::NOT_THERE;
use crate::error::Error;
use crate::link::{Link, Login, bytes_at, text_at};

const OPERATION: &str = "put prepared transactions right";

/// The router reads as a replica with this id.
const READER_ID: u32 = 0x7EDD_1E01;

/// A server that gives no event for so long hangs.
const STALL: Duration = Duration::from_secs(30);

/// Pause between two looks for a connection that is being ended.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// XAER_DUPID: there is such a branch.
const THERE: u16 = 1440;

/// Events of one branch that are kept: as much as a statement may hold that applies them, with the
/// limit that servers have by default.
const BRANCH_BYTES_MAX: usize = 8 << 20;

/// Of all branches that are prepared at one time.
const BYTES_MAX: usize = 256 << 20;

/// What was put right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mended {
    /// Branches that the log says have ended.
    pub ended: usize,
    /// Branches that the log says are prepared.
    pub prepared: usize,
}

/// A branch's name, of whomever it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Xid {
    format: u32,
    gtrid: Vec<u8>,
    bqual: Vec<u8>,
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.gtrid, &self.bqual] {
            write!(f, "X'{}',", hex::encode(part))?;
        }
        write!(f, "{}", self.format)
    }
}

/// What the log says last of a branch.
#[derive(Debug, PartialEq, Eq)]
enum Last {
    /// With the events that make it; none where they cannot be applied again.
    Prepared(Option<Vec<u8>>),
    Committed,
    RolledBack,
}

/// Makes a server's engine agree with its log. The server must follow nobody and take no writes, and
/// its log must hold nothing that its group has not. Branches whose owners live are left to them.
///
/// # Errors
/// A branch cannot be made again: it wrote too much, or its log has no row events. Nothing is promised
/// of the server then but what a copy of another one puts right.
pub async fn mend_branches(login: &Login, timeout_ms: u64) -> Result<Mended, Error> {
    let mut link = Link::open(login, timeout_ms).await?;
    if link.version().engine == Engine::MySql {
        return Ok(Mended::default());
    }
    let there = listed(&mut link, timeout_ms).await?;
    let log = read(login, timeout_ms).await?;
    let mut mended = Mended::default();
    link.run(OPERATION, "SET SESSION sql_log_bin = 0", timeout_ms)
        .await?;
    // What has ended first: a branch that is made again may have had its rows behind it.
    for (xid, last) in &log.branches {
        let end = match last {
            Last::Committed => "COMMIT",
            Last::RolledBack => "ROLLBACK",
            Last::Prepared(_) => continue,
        };
        if there.contains(xid) {
            let sql = format!("XA {end} {xid}");
            match link.run(OPERATION, &sql, timeout_ms).await {
                Ok(()) => mended.ended += 1,
                // Its owner lives, and is at it.
                Err(error) if error.number() == Some(NOT_THERE) => {}
                Err(error) => return Err(error),
            }
        }
    }
    for (xid, last) in &log.branches {
        let Last::Prepared(events) = last else {
            continue;
        };
        if !there.contains(xid) {
            let events = events.as_ref().ok_or_else(|| Error::Reply {
                operation: OPERATION,
                server: link.address().to_owned(),
                what: format!("the events of {xid} cannot be applied again"),
            })?;
            match prepare(login, xid, &log.description, events, timeout_ms).await {
                Ok(()) => mended.prepared += 1,
                // Its owner lives, and waits for a replica.
                Err(error) if error.number() == Some(THERE) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(mended)
}

async fn listed(link: &mut Link, timeout_ms: u64) -> Result<BTreeSet<Xid>, Error> {
    let rows = link.rows(OPERATION, "XA RECOVER", timeout_ms).await?;
    let read = rows.iter().filter_map(|row| {
        let data = bytes_at(row, 3)?;
        let (gtrid, bqual) = data.split_at_checked(text_at(row, 1)?.parse().ok()?)?;
        Some(Xid {
            format: text_at(row, 0)?.parse().ok()?,
            gtrid: gtrid.to_vec(),
            bqual: bqual.to_vec(),
        })
    });
    Ok(read.collect())
}

/// Applies a branch's events, and leaves it prepared.
async fn prepare(
    login: &Login,
    xid: &Xid,
    description: &[u8],
    events: &[u8],
    timeout_ms: u64,
) -> Result<(), Error> {
    // A connection of its own: a branch belongs to the connection that prepared it until that ends.
    let mut link = Link::open(login, timeout_ms).await?;
    let id = link.id();
    let begin = format!(
        "SET SESSION sql_log_bin = 0; XA START {xid}; BINLOG '{}'",
        base64(description)
    );
    link.run(OPERATION, &begin, timeout_ms).await?;
    if !events.is_empty() {
        let rows = format!("BINLOG '{}'", base64(events));
        link.run(OPERATION, &rows, timeout_ms).await?;
    }
    let end = format!("XA END {xid}; XA PREPARE {xid}");
    link.run(OPERATION, &end, timeout_ms).await?;
    drop(link);
    let mut link = Link::open(login, timeout_ms).await?;
    match u32::try_from(id) {
        Ok(id) => leave(&mut link, id, timeout_ms).await,
        Err(_) => Ok(()),
    }
}

/// Ends a connection and waits until the server has taken it apart: until then its branch is no one
/// else's to end, and the client that tries gets XAER_NOTA as if there were none.
async fn leave(link: &mut Link, thread_id: u32, timeout_ms: u64) -> Result<(), Error> {
    binlog::kill(link, thread_id, timeout_ms).await?;
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    while binlog::is_connected(link, thread_id, timeout_ms).await? {
        if Instant::now() > deadline {
            return Err(Error::Timeout {
                operation: OPERATION,
                server: link.address().to_owned(),
                timeout_ms,
            });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(())
}

/// Reads the log from the file before the last: a server that starts begins a new one.
async fn read(login: &Login, timeout_ms: u64) -> Result<Log, Error> {
    let mut link = Link::open_for_rows(login, timeout_ms).await?;
    let server = link.address().to_owned();
    let file = file_before_last(&mut link, timeout_ms).await?;
    let capable = "SET @mariadb_slave_capability=4";
    link.run(OPERATION, capable, timeout_ms).await?;
    let request = BinlogStreamRequest::new(READER_ID)
        .with_non_blocking()
        .with_filename(file.as_bytes())
        .with_pos(4);
    let failed = |error: &mysql_async::Error| Error::from_driver(OPERATION, &server, error);
    let stream = link.into_driver().get_binlog_stream(request).await;
    let mut stream = stream.map_err(|error| failed(&error))?;
    let mut log = Log::default();
    loop {
        let event = match tokio::time::timeout(STALL, stream.next()).await {
            Err(_) => {
                return Err(Error::Timeout {
                    operation: OPERATION,
                    server,
                    timeout_ms: STALL.as_secs() * 1000,
                });
            }
            Ok(None) => break,
            Ok(Some(event)) => event.map_err(|error| failed(&error))?,
        };
        log.take(&event);
    }
    // The server has closed its side already.
    let _ = stream.close().await;
    Ok(log)
}

/// What a log says of branches.
#[derive(Debug, Default)]
struct Log {
    branches: BTreeMap<Xid, Last>,
    /// The event that says how the others are written.
    description: Vec<u8>,
    current: Current,
    /// Bytes of all events that are kept.
    bytes: usize,
}

/// The transaction that is being read.
#[derive(Debug, Default)]
enum Current {
    /// One without branches.
    #[default]
    Other,
    Prepares(Xid, Option<Vec<u8>>),
    Ends(Xid),
}

/// Numbers of events, and flags in one of MariaDB's GTID events.
mod code {
    pub const QUERY: u8 = 2;
    pub const FORMAT_DESCRIPTION: u8 = 15;
    pub const TABLE_MAP: u8 = 19;
    pub const ROWS: [u8; 6] = [23, 24, 25, 30, 31, 32];
    pub const XA_PREPARE: u8 = 38;
    pub const GTID: u8 = 162;
    /// Compressed rows, which are applied as they are.
    pub const COMPRESSED_ROWS: std::ops::RangeInclusive<u8> = 166..=171;

    pub const GROUP_COMMIT: u8 = 2;
    pub const PREPARES: u8 = 64;
    pub const ENDS: u8 = 128;
}

impl Log {
    fn take(&mut self, event: &Event) {
        let kind = event.header().event_type_raw();
        let data = event.data();
        match kind {
            code::FORMAT_DESCRIPTION => self.description = written(event).unwrap_or_default(),
            code::GTID => {
                self.current = match xid_of(data) {
                    Some((code::PREPARES, xid)) => Current::Prepares(xid, Some(Vec::new())),
                    Some((_, xid)) => Current::Ends(xid),
                    None => Current::Other,
                }
            }
            code::XA_PREPARE => {
                if let Current::Prepares(xid, events) = std::mem::take(&mut self.current) {
                    self.bytes += events.as_ref().map_or(0, Vec::len);
                    self.note(xid, Last::Prepared(events));
                }
            }
            code::QUERY => self.query(data),
            kind if kind == code::TABLE_MAP
                || code::ROWS.contains(&kind)
                || code::COMPRESSED_ROWS.contains(&kind) =>
            {
                self.rows(event);
            }
            _ => {}
        }
    }

    fn note(&mut self, xid: Xid, last: Last) {
        if let Some(Last::Prepared(Some(events))) = self.branches.insert(xid, last) {
            self.bytes = self.bytes.saturating_sub(events.len());
        }
    }

    fn rows(&mut self, event: &Event) {
        if let Current::Prepares(_, events) = &mut self.current {
            let more = written(event);
            let fits = |all: &Vec<u8>, more: &Vec<u8>| {
                all.len() + more.len() <= BRANCH_BYTES_MAX
                    && self.bytes + all.len() + more.len() <= BYTES_MAX
            };
            *events = match (events.take(), more) {
                (Some(mut all), Some(more)) if fits(&all, &more) => {
                    all.extend(more);
                    Some(all)
                }
                _ => None,
            };
        }
    }

    fn query(&mut self, data: &[u8]) {
        let Some(text) = changes::query_of(data) else {
            return;
        };
        match &mut self.current {
            Current::Ends(_) => {
                let Current::Ends(xid) = std::mem::take(&mut self.current) else {
                    return;
                };
                let last = match text.starts_with(b"XA COMMIT") {
                    true => Last::Committed,
                    false => Last::RolledBack,
                };
                self.note(xid, last);
            }
            // A statement that is logged as such runs in an order and a state that nobody knows.
            Current::Prepares(_, events) if !text.starts_with(b"XA ") => *events = None,
            _ => {}
        }
    }
}

/// An event as it stands in the log.
fn written(event: &Event) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    event.write(BinlogVersion::Version4, &mut bytes).ok()?;
    Some(bytes)
}

/// Whether a GTID event begins the making or the end of a branch, and of which.
fn xid_of(data: &[u8]) -> Option<(u8, Xid)> {
    let flags = *data.get(12)?;
    let kind = flags & (code::PREPARES | code::ENDS);
    if kind == 0 {
        return None;
    }
    let at = match flags & code::GROUP_COMMIT {
        0 => 13,
        _ => 21,
    };
    let format = u32::from_le_bytes(data.get(at..at + 4)?.try_into().ok()?);
    let gtrid = usize::from(*data.get(at + 4)?);
    let bqual = usize::from(*data.get(at + 5)?);
    let name = data.get(at + 6..at + 6 + gtrid + bqual)?;
    let (gtrid, bqual) = name.split_at_checked(gtrid)?;
    let xid = Xid {
        format,
        gtrid: gtrid.to_vec(),
        bqual: bqual.to_vec(),
    };
    Some((kind, xid))
}

/// RFC 4648.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut word = [0; 3];
        word[..chunk.len()].copy_from_slice(chunk);
        let [a, b, c] = word.map(u32::from);
        let bits = a << 16 | b << 8 | c;
        for place in 0..4 {
            let digit = bits >> (18 - 6 * place) & 63;
            let known = place <= chunk.len();
            text.push(match usize::try_from(digit) {
                Ok(digit) if known => char::from(DIGITS[digit]),
                _ => '=',
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_in_base64() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xFF, 0xEF, 0xFE]), "/+/+");
    }

    #[test]
    fn gtid_events_name_branches() {
        let mut event = vec![0; 12];
        event.push(code::PREPARES | code::GROUP_COMMIT);
        event.extend([9; 8]);
        event.extend(7_u32.to_le_bytes());
        event.extend([2, 1, b'a', b'b', b'c']);
        let (kind, xid) = xid_of(&event).expect("a branch");
        assert_eq!(kind, code::PREPARES);
        assert_eq!(xid.to_string(), "X'6162',X'63',7");
        for cut in 0..event.len() {
            assert_eq!(xid_of(&event[..cut]), None);
        }
        event[12] = code::GROUP_COMMIT;
        assert_eq!(xid_of(&event), None);
    }
}
