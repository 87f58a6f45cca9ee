//! After a round: whether the data is what the clients know it must be, on every server.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::client::{Client, Failure, Reply, Value};

use super::ledger::{Kind, Ledger, Outcome, Tally};
use super::load::{ACCOUNTS, BALANCE, WRITERS, first_id};
use super::rivals::Ack;

/// The tables whose rows carry ids.
const TABLES: [&str; 3] = ["single", "transfer", "rival"];

/// What a round did to the data.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Acknowledged writes that are not there.
    pub lost: u64,
    /// Writes that are there more than once.
    pub doubled: u64,
    /// Everything that is wrong, those two included.
    pub wrong: Tally,
    /// Unanswered writes that are there, and all of them.
    pub unanswered: (u64, u64),
}

/// What earlier rounds left, to see that it stays.
#[derive(Clone, Debug)]
pub struct Known {
    /// Rows and checksum of each table below the id of the next round.
    sums: BTreeMap<&'static str, String>,
    pub counters: Vec<u64>,
}

impl Known {
    /// Before the first round.
    pub fn new() -> Known {
        Known {
            sums: BTreeMap::new(),
            counters: vec![0; WRITERS as usize],
        }
    }
}

impl Default for Known {
    fn default() -> Known {
        Known::new()
    }
}

impl Known {
    /// What stands on this server, for when a round could not be judged: the next one is again.
    ///
    /// # Errors
    /// The server cannot be read.
    pub fn read(server: SocketAddr) -> Result<Known, Failure> {
        let mut client = Client::connect(server, "root", "")?;
        let mut counters = Vec::new();
        for writer in 0..WRITERS {
            let sql = format!("SELECT v FROM proof.counter WHERE writer = {writer}");
            counters.push(super::load::number(&mut client, &sql)?);
        }
        Ok(Known {
            sums: BTreeMap::new(),
            counters,
        })
    }
}

/// Rows of a table: number and id.
type Rows = Vec<(u64, u64)>;

/// Judges this round's writes on all servers, the primary's place among which is given. `rivals` are
/// judged by the data only where they were `safe`: acknowledged by a primary with semi-sync.
///
/// # Errors
/// A server that cannot be read.
pub fn judge(
    servers: &[SocketAddr],
    primary: usize,
    round: u64,
    ledger: &Ledger,
    rivals: Option<&[Ack]>,
    known: &mut Known,
) -> Result<Verdict, Failure> {
    let mut verdict = Verdict::default();
    let mut at_primary = Client::connect(servers[primary], "root", "")?;
    let range = (first_id(round), first_id(round + 1));
    let single = rows(&mut at_primary, "single", range)?;
    inserts(&mut verdict, &single, ledger, Kind::Insert);
    let transfers = rows(&mut at_primary, "transfer", range)?;
    inserts(&mut verdict, &transfers, ledger, Kind::Transfer);
    if let Some(acks) = rivals {
        let rows = rows(&mut at_primary, "rival", range)?;
        let counts = counts(&rows);
        let lost = acks
            .iter()
            .filter(|ack| !counts.contains_key(&ack.id))
            .count() as u64;
        verdict.lose(lost, || {
            format!("{lost} rows that a server acknowledged directly")
        });
        verdict.double(
            counts.values().filter(|&&count| count > 1).count() as u64,
            "rivals'",
        );
    }
    bumps(&mut verdict, &mut at_primary, ledger, known)?;
    balances(&mut verdict, &mut at_primary)?;
    alike(&mut verdict, servers, primary, range)?;
    earlier(&mut verdict, &mut at_primary, round, known)?;
    Ok(verdict)
}

impl Verdict {
    fn lose(&mut self, count: u64, what: impl FnOnce() -> String) {
        if count > 0 {
            self.lost += count;
            self.wrong.add(format!("lost: {}", what()));
        }
    }

    fn double(&mut self, count: u64, what: &str) {
        if count > 0 {
            self.doubled += count;
            self.wrong.add(format!("doubled: {count} {what} rows"));
        }
    }
}

/// Rows of a table with ids in this range.
fn rows(client: &mut Client, table: &str, (from, to): (u64, u64)) -> Result<Rows, Failure> {
    let sql = format!("SELECT n, id FROM proof.{table} WHERE id >= {from} AND id < {to}");
    let number = |value: &Value| value.text().and_then(|text| text.parse().ok()).unwrap_or(0);
    let rows = match client.query(sql)?.pop() {
        Some(Reply::Rows(rows)) => rows.rows,
        _ => Vec::new(),
    };
    Ok(rows
        .iter()
        .map(|row| (number(&row[0]), number(&row[1])))
        .collect())
}

fn counts(rows: &Rows) -> BTreeMap<u64, u64> {
    let mut counts = BTreeMap::new();
    for (_, id) in rows {
        *counts.entry(*id).or_default() += 1;
    }
    counts
}

/// Rows of one kind against the ledger: acknowledged exactly once, unanswered at most once, undone
/// never, nothing else; and the number of a row is the one that its OK told.
fn inserts(verdict: &mut Verdict, rows: &Rows, ledger: &Ledger, kind: Kind) {
    let counts = counts(rows);
    let by_number: BTreeMap<u64, u64> = rows.iter().copied().collect();
    let (mut lost, mut undone, mut foreign) = (Vec::new(), Vec::new(), counts.clone());
    for write in ledger.writes.iter().filter(|write| write.kind == kind) {
        let count = counts.get(&write.id).copied().unwrap_or(0);
        foreign.remove(&write.id);
        match write.outcome {
            Outcome::Acknowledged if count == 0 => lost.push((write.id, write.at_us / 1000)),
            Outcome::Acknowledged => {
                let told = write.insert_id;
                if told != 0 && by_number.get(&told) != Some(&write.id) {
                    let id = write.id;
                    let text =
                        format!("the OK of row {id:#x} told insert id {told}, another row's");
                    verdict.wrong.add(text);
                }
            }
            Outcome::Unanswered => {
                verdict.unanswered.0 += count.min(1);
                verdict.unanswered.1 += 1;
            }
            Outcome::Undone if count > 0 => undone.push(write.id),
            Outcome::Undone => {}
        }
    }
    let shown = lost.len().min(20);
    verdict.lose(lost.len() as u64, || {
        format!("{} of {kind:?}: (id, ms) {:x?}", lost.len(), &lost[..shown])
    });
    let doubled = counts.values().filter(|&&count| count > 1).count();
    verdict.double(doubled as u64, &format!("{kind:?}"));
    if !undone.is_empty() {
        let text = format!("present though rolled back or refused: {kind:?} {undone:x?}");
        verdict.wrong.add(text);
    }
    if !foreign.is_empty() {
        let ids: Vec<u64> = foreign.into_keys().take(20).collect();
        verdict
            .wrong
            .add(format!("rows that nobody wrote: {kind:?} {ids:x?}"));
    }
}

/// Each writer's counter went up by its acknowledged bumps, and at most by the unanswered ones besides.
fn bumps(
    verdict: &mut Verdict,
    client: &mut Client,
    ledger: &Ledger,
    known: &mut Known,
) -> Result<(), Failure> {
    for writer in 0..WRITERS {
        let sql = format!("SELECT v FROM proof.counter WHERE writer = {writer}");
        let value = super::load::number(client, &sql)?;
        let count = |outcome: Outcome| {
            let bumps = ledger
                .writes
                .iter()
                .filter(|w| w.kind == Kind::Bump && w.id == writer);
            bumps.filter(|write| write.outcome == outcome).count() as u64
        };
        let least = known.counters[writer as usize] + count(Outcome::Acknowledged);
        let unanswered = count(Outcome::Unanswered);
        let text = || format!("counter {writer} is {value}, {least} were acknowledged");
        verdict.lose(least.saturating_sub(value), text);
        let most = least + unanswered;
        if value > most {
            verdict.doubled += value - most;
            let text = format!("doubled: counter {writer} is {value}, {most} were sent");
            verdict.wrong.add(text);
        }
        verdict.unanswered.0 += value.saturating_sub(least).min(unanswered);
        verdict.unanswered.1 += unanswered;
        known.counters[writer as usize] = value;
    }
    Ok(())
}

/// No transfer is there by half: balances are what the transfers make of them.
fn balances(verdict: &mut Verdict, client: &mut Client) -> Result<(), Failure> {
    let sql = format!(
        "SELECT COUNT(*) FROM proof.account a WHERE balance <> {BALANCE} \
         + (SELECT COALESCE(SUM(amount), 0) FROM proof.transfer WHERE target = a.id) \
         - (SELECT COALESCE(SUM(amount), 0) FROM proof.transfer WHERE source = a.id)"
    );
    let torn = super::load::number(client, &sql)?;
    if torn > 0 {
        verdict.wrong.add(format!(
            "torn: {torn} balances are not what the transfers make"
        ));
    }
    let sum = super::load::number(client, "SELECT SUM(balance) FROM proof.account")?;
    if sum != ACCOUNTS * BALANCE {
        verdict
            .wrong
            .add(format!("the sum of the balances is {sum}"));
    }
    Ok(())
}

/// Count and checksum of a table's rows below this id.
fn sum(client: &mut Client, table: &str, below: u64) -> Result<String, Failure> {
    let columns = match table {
        "transfer" => "n, id, source, target, amount",
        _ => "n, id",
    };
    let sql = format!(
        "SELECT CONCAT(COUNT(*), ' rows, sum ', COALESCE(SUM(CRC32(CONCAT_WS(',', {columns}))), 0)) \
         FROM proof.{table} WHERE id < {below}"
    );
    text(client, &sql)
}

/// The one value of a query as text; empty for none.
pub(crate) fn text(client: &mut Client, sql: &str) -> Result<String, Failure> {
    let row = match client.query(sql)?.pop() {
        Some(Reply::Rows(rows)) => rows.text().into_iter().next(),
        _ => None,
    };
    let value = row.and_then(|row| row.into_iter().next()).flatten();
    Ok(value.unwrap_or_default())
}

/// Every server has the rows that the primary has; where not, which of this round differ.
fn alike(
    verdict: &mut Verdict,
    servers: &[SocketAddr],
    primary: usize,
    range: (u64, u64),
) -> Result<(), Failure> {
    let mut at_primary = Client::connect(servers[primary], "root", "")?;
    for (index, &address) in servers.iter().enumerate().filter(|(i, _)| *i != primary) {
        let mut here = Client::connect(address, "root", "")?;
        for table in TABLES {
            let (there_sum, here_sum) = (
                sum(&mut at_primary, table, range.1)?,
                sum(&mut here, table, range.1)?,
            );
            if there_sum == here_sum {
                continue;
            }
            let there: BTreeSet<_> = rows(&mut at_primary, table, range)?.into_iter().collect();
            let own: BTreeSet<_> = rows(&mut here, table, range)?.into_iter().collect();
            let lacks: Vec<_> = there.difference(&own).take(5).collect();
            let more: Vec<_> = own.difference(&there).take(5).collect();
            verdict.wrong.add(format!(
                "{table} of server {index} has {here_sum}, the primary's (server {primary}) {there_sum}; \
                 this round it lacks {lacks:x?} …, has more {more:x?} …"
            ));
        }
        for table in ["counter", "account"] {
            let sql = match table {
                "counter" => "SELECT SUM(CRC32(CONCAT(writer, ' ', v))) FROM proof.counter",
                _ => "SELECT SUM(CRC32(CONCAT(id, ' ', balance))) FROM proof.account",
            };
            if text(&mut at_primary, sql)? != text(&mut here, sql)? {
                verdict.wrong.add(format!(
                    "{table} of server {index} differs from the primary's"
                ));
            }
        }
    }
    Ok(())
}

/// What earlier rounds left is as it was; then this round's rows join it.
fn earlier(
    verdict: &mut Verdict,
    client: &mut Client,
    round: u64,
    known: &mut Known,
) -> Result<(), Failure> {
    for table in TABLES {
        if let Some(before) = known.sums.get(table) {
            let now = sum(client, table, first_id(round))?;
            if *before != now {
                let text = || format!("rows of earlier rounds: {table} had {before}, has {now}");
                verdict.lose(1, text);
            }
        }
        let now = sum(client, table, first_id(round + 1))?;
        known.sums.insert(table, now);
    }
    Ok(())
}
