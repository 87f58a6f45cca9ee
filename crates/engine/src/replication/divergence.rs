//! What a server holds that the primary of its group does not: *errant* transactions, and whether
//! replication can bring it up to date.
//!
//! A primary that died may have logged transactions that nobody received. On MySQL such a server
//! follows the new primary without a word and keeps rows that are on no other server; on MariaDB a
//! sequence number says nothing by itself, since two servers may have given it away. So GTIDs are
//! compared as sets (MySQL), or per domain and server (MariaDB).

use std::collections::BTreeMap;

use enginesql::quoted;
use farm::{Engine, Last, Position};

use crate::error::Error;
use crate::link::{Link, Login, text_at};

const OPERATION: &str = "compare positions";

/// How a server's history stands to its primary's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Divergence {
    /// The errant transactions, as GTIDs; empty when there are none.
    pub errant: String,
    /// How many they are.
    pub count: u64,
    /// Where they begin: what the server had executed before the first of them.
    pub since: String,
    /// What the server lacks is no longer in the primary's binary logs. Known at once on MySQL only;
    /// see [`is_out_of_reach`].
    pub out_of_reach: bool,
    /// The primary has transactions that the server itself wrote and does not have any more. A MySQL that
    /// replicates passes over what bears its own `server_id`, so it would lack them for ever, in silence.
    pub lost_own: bool,
}

/// Compares a server with the primary it should follow.
pub async fn divergence(
    link: &mut Link,
    primary: &mut Link,
    timeout_ms: u64,
) -> Result<Divergence, Error> {
    match link.version().engine {
        Engine::MariaDb => mariadb(link, primary, timeout_ms).await,
        Engine::MySql => mysql(link, primary, timeout_ms).await,
    }
}

async fn mysql(link: &mut Link, primary: &mut Link, timeout_ms: u64) -> Result<Divergence, Error> {
    let sql = "SELECT @@global.gtid_executed, @@server_uuid";
    let rows = link.rows(OPERATION, sql, timeout_ms).await?;
    let own = |index| rows.first().and_then(|row| text_at(row, index));
    let (mine, uuid) = (own(0).unwrap_or_default(), own(1).unwrap_or_default());
    let mine = quoted(&mine.replace('\n', ""));
    // A transaction that waits for its acknowledgement is in the primary's log and not among those that it has executed,
    // and a replica may have applied it. What waits is asked for first: what ends meanwhile is among the executed.
    let sql = "SELECT @@global.gtid_owned";
    let owned = primary.cell(OPERATION, sql, timeout_ms).await?;
    let owned = quoted(&without_owners(&owned.unwrap_or_default()));
    let sql = format!(
        "SELECT GTID_SUBTRACT(GTID_SUBTRACT({mine}, @@global.gtid_executed), {owned}), \
         GTID_SUBTRACT(@@global.gtid_purged, {mine}), @@global.gtid_executed, \
         GTID_SUBTRACT(@@global.gtid_executed, {mine}) LIKE {}",
        quoted(&format!("%{uuid}%"))
    );
    let rows = primary.rows(OPERATION, &sql, timeout_ms).await?;
    let cell = |index| {
        let cell = rows.first().and_then(|row| text_at(row, index));
        cell.unwrap_or_default().replace('\n', "")
    };
    let errant = cell(0);
    // What cannot be read is not nothing.
    let Some(Position::MySql(sources)) = Position::parse(Engine::MySql, &errant) else {
        return Err(Error::Reply {
            operation: OPERATION,
            server: link.address().to_owned(),
            what: format!("its errant transactions are {errant:?}"),
        });
    };
    let numbers = sources.values().flatten();
    let count = numbers
        .map(|(from, to)| to - from + 1)
        .fold(0, u64::saturating_add);
    Ok(Divergence {
        errant,
        count,
        since: cell(2),
        out_of_reach: !cell(1).is_empty(),
        lost_own: !uuid.is_empty() && cell(3) == "1",
    })
}

/// The set of GTIDs of `gtid_owned`, which has the owner behind each number, and nothing between two sources:
/// `UUID:23#4:24#9UUID:7#5`. The set ends where something else comes, such as a tag: whatever is in it hides an errant
/// transaction of that GTID.
fn without_owners(owned: &str) -> String {
    const UUID_BYTES: usize = 36;
    let mut parts = owned.split(':');
    let mut source = parts.next().unwrap_or_default().trim();
    let mut set = Vec::new();
    for part in parts {
        let Some((number, owner)) = part.split_once('#') else {
            break;
        };
        set.push(format!("{source}:{number}"));
        let next = owner.len().checked_sub(UUID_BYTES);
        if let Some(next) = next.and_then(|at| owner.get(at..)) {
            source = next;
        }
    }
    set.join(",")
}

async fn mariadb(
    link: &mut Link,
    primary: &mut Link,
    timeout_ms: u64,
) -> Result<Divergence, Error> {
    let mine = History::of(link, timeout_ms).await?;
    let theirs = History::of(primary, timeout_ms).await?;
    Ok(mine.beyond(&theirs))
}

/// Whether what a server lacks is no longer in its primary's binary logs. MariaDB's list of logs waits
/// behind commits that wait for a replica, so it is asked on a link of its own, and no answer counts as
/// «no»: the replica itself will say so (1236).
pub async fn is_out_of_reach(
    link: &mut Link,
    primary: &Login,
    timeout_ms: u64,
) -> Result<bool, Error> {
    const PATIENCE_MS: u64 = 2000;
    let mut leader = Link::open(primary, timeout_ms).await?;
    if leader.version().engine == Engine::MySql {
        return Ok(mysql(link, &mut leader, timeout_ms).await?.out_of_reach);
    }
    let mine = History::of(link, timeout_ms).await?;
    match oldest(&mut leader, PATIENCE_MS.min(timeout_ms)).await {
        Ok(oldest) => Ok(!mine.position().covers(&oldest)),
        Err(Error::Timeout { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// What had been executed when the server's oldest binary log began.
async fn oldest(link: &mut Link, timeout_ms: u64) -> Result<Position, Error> {
    let logs = link.rows(OPERATION, "SHOW BINARY LOGS", timeout_ms).await?;
    let Some(first) = logs.first().and_then(|row| text_at(row, 0)) else {
        return Ok(Position::empty(Engine::MariaDb));
    };
    // The list of GTIDs is the second event of a file.
    let sql = format!("SHOW BINLOG EVENTS IN {} LIMIT 2", quoted(&first));
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let list = rows.iter().find_map(|row| {
        let kind = text_at(row, 2)?;
        (kind == "Gtid_list").then(|| text_at(row, 5).unwrap_or_default())
    });
    let list = list.unwrap_or_default().replace(['[', ']'], "");
    Ok(History::read(&list).position())
}

/// Per domain and server the last sequence number that is known.
#[derive(Debug, Default)]
struct History {
    last: BTreeMap<u32, BTreeMap<u32, u64>>,
}

impl History {
    async fn of(link: &mut Link, timeout_ms: u64) -> Result<History, Error> {
        let sql = "SELECT CONCAT_WS(',', @@global.gtid_binlog_state, @@global.gtid_slave_pos)";
        let text = link.cell(OPERATION, sql, timeout_ms).await?;
        Ok(History::read(&text.unwrap_or_default()))
    }

    fn read(text: &str) -> History {
        let mut history = History::default();
        for part in text.split(',') {
            let numbers: Vec<u64> = part
                .trim()
                .split('-')
                .filter_map(|n| n.parse().ok())
                .collect();
            let &[domain, server, sequence] = numbers.as_slice() else {
                continue;
            };
            if let (Ok(domain), Ok(server)) = (u32::try_from(domain), u32::try_from(server)) {
                let known = history.last.entry(domain).or_default();
                let known = known.entry(server).or_default();
                *known = sequence.max(*known);
            }
        }
        history
    }

    fn position(&self) -> Position {
        let domains = self.last.iter().filter_map(|(&domain, servers)| {
            let (&server_id, &sequence) = servers.iter().max_by_key(|(_, sequence)| **sequence)?;
            let last = Last {
                server_id,
                sequence,
            };
            Some((domain, last))
        });
        Position::MariaDb(domains.collect())
    }

    /// What is here and not there.
    fn beyond(&self, there: &History) -> Divergence {
        let mut errant = Vec::new();
        let mut since = Vec::new();
        let mut count = 0;
        for (&domain, servers) in &self.last {
            let known = |server: u32| {
                let servers = there.last.get(&domain);
                servers.and_then(|servers| servers.get(&server)).copied()
            };
            // The last transaction of the domain that both have.
            let mut base: Option<(u64, u32)> = None;
            let mut first_beyond = BTreeMap::new();
            for (&server, &sequence) in servers {
                let both = known(server).map(|known| known.min(sequence));
                base = base.max(both.map(|both| (both, server)));
                if both != Some(sequence) {
                    first_beyond.insert(sequence, server);
                }
            }
            if let Some((sequence, server)) = base {
                since.push(format!("{domain}-{server}-{sequence}"));
            }
            let (Some((&last, &server)), base) = (
                first_beyond.last_key_value(),
                base.map_or(0, |(sequence, _)| sequence),
            ) else {
                continue;
            };
            // Strict servers number the transactions of a domain without gaps.
            count += last.saturating_sub(base);
            let first = base + 1;
            errant.push(if first < last {
                format!("{domain}-{server}-{first}..{last}")
            } else {
                format!("{domain}-{server}-{last}")
            });
        }
        Divergence {
            errant: errant.join(","),
            count,
            since: since.join(","),
            ..Divergence::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beyond(mine: &str, theirs: &str) -> (String, u64, String) {
        let it = History::read(mine).beyond(&History::read(theirs));
        (it.errant, it.count, it.since)
    }

    #[test]
    fn transactions_under_way_are_a_set() {
        const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        const B: &str = "4306fcce-ea89-11f1-bec7-02fc00000001";
        assert_eq!(without_owners(""), "");
        assert_eq!(without_owners(&format!("{A}:23#4")), format!("{A}:23"));
        let two = without_owners(&format!("\n{A}:23#4:24#19{B}:7#51"));
        assert_eq!(two, format!("{A}:23,{A}:24,{B}:7"));
        let tagged = without_owners(&format!("{A}:23#4:tag:5#6"));
        assert_eq!(tagged, format!("{A}:23"));
    }

    #[test]
    fn what_only_one_server_wrote_is_errant() {
        let none = (String::new(), 0, "0-1-98".to_owned());
        assert_eq!(beyond("0-1-98", "0-1-98,0-2-105"), none);
        let tail = ("0-1-99..100".to_owned(), 2, "0-1-98".to_owned());
        assert_eq!(beyond("0-1-100", "0-1-98,0-2-105"), tail);
        // It led before, then followed server 2, then led again.
        let again = ("0-1-98".to_owned(), 1, "0-2-97".to_owned());
        assert_eq!(beyond("0-1-98,0-2-97", "0-1-40,0-2-97,0-3-99"), again);
        let foreign = ("0-7-1..5".to_owned(), 5, String::new());
        assert_eq!(beyond("0-7-5", "0-1-100"), foreign);
        let domain = ("3-1-1".to_owned(), 1, "0-1-5".to_owned());
        assert_eq!(beyond("0-1-5,3-1-1", "0-1-5"), domain);
        assert_eq!(beyond("", "0-1-5"), (String::new(), 0, String::new()));
    }
}
