//! A client that moves money.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::{Client, Failure, Login, Reply, Statement, Value};
use crate::failover::ledger::now_us;
use crate::failover::load::Dice;
use crate::history::{Ended, Id, Key, Reads, Transaction};
use crate::holds_within;

use super::books::{Books, Entry, ended, is_usual};
use super::{ACCOUNTS, FIRST_NOTE, FIRST_SAFE, PATIENCE, SAFES, row_of};

/// One transfer in so many takes its rows in any order, and may meet a deadlock that no server sees.
const DISORDERLY: u64 = 40;

/// How a transfer is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// BEGIN, statements, COMMIT.
    Plain,
    /// The same with statements that were prepared.
    Prepared,
    /// It first locks and reads what it changes.
    Reading,
    /// One UPDATE of both rows, in autocommit.
    OneStatement,
    /// A savepoint, what is undone to it, and the rest.
    Savepoint,
    /// Rolled back in the end.
    Undone,
}

/// What one transfer does.
struct Plan {
    id: Id,
    form: Form,
    moves: Vec<(Key, i64)>,
}

/// Logs in until it succeeds; `None` when the round is over.
pub(super) fn login(address: SocketAddr, books: &Books) -> Option<Client> {
    let login = Login {
        user: "app",
        password: "secret",
        ..Login::default()
    };
    let mut client = None;
    holds_within(PATIENCE, || {
        client = Client::login(address, &login).ok();
        client.is_some() || books.is_over()
    });
    client
}

/// Moves money until the round is over.
pub(super) fn run(address: SocketAddr, number: u64, seed: u64, next: &AtomicU64, books: &Books) {
    let mut dice = Dice::new(seed ^ (number << 32));
    while !books.is_over() {
        let Some(mut client) = login(address, books) else {
            return;
        };
        let session = next.fetch_add(1, Ordering::Relaxed);
        let mut prepared = Vec::new();
        while !books.is_over() {
            let plan = plan(&mut dice, number, next);
            let entry = carry_out(&mut client, &mut prepared, &plan, session, books);
            let unclear = entry.transaction.ended == Ended::Unknown;
            books.enter(entry);
            if unclear || client.ping().is_err() {
                break;
            }
        }
    }
}

fn plan(dice: &mut Dice, number: u64, next: &AtomicU64) -> Plan {
    let id = next.fetch_add(1, Ordering::Relaxed);
    let form = match dice.below(20) {
        0..=5 => Form::Plain,
        6..=10 => Form::Prepared,
        11..=13 => Form::Reading,
        14..=16 => Form::OneStatement,
        17 | 18 => Form::Savepoint,
        _ => Form::Undone,
    };
    let from = dice.below(ACCOUNTS);
    let to = match form {
        Form::OneStatement => (from + 1 + dice.below(ACCOUNTS - 1)) % ACCOUNTS,
        _ if dice.below(4) == 0 => FIRST_SAFE + dice.below(SAFES),
        _ => (from + 1 + dice.below(ACCOUNTS - 1)) % ACCOUNTS,
    };
    let mut moves = vec![(from, -1), (to, 1)];
    if dice.below(8) == 0 && form != Form::OneStatement {
        moves.push((FIRST_NOTE + number, 1));
    }
    if dice.below(DISORDERLY) != 0 {
        moves.sort_unstable();
    }
    Plan { id, form, moves }
}

/// Where a transfer stands when one of its statements fails.
struct Progress {
    reads: Vec<(Key, Vec<Id>)>,
    /// The statement that commits has been sent.
    ending: bool,
}

fn carry_out(
    client: &mut Client,
    prepared: &mut Vec<(&'static str, Statement)>,
    plan: &Plan,
    session: u64,
    books: &Books,
) -> Entry {
    let mut progress = Progress {
        reads: Vec::new(),
        ending: false,
    };
    let began_us = now_us();
    let ran = match plan.form {
        Form::OneStatement => in_one(client, plan, &mut progress),
        _ => in_several(client, prepared, plan, &mut progress),
    };
    let story = format!("{:?} {:?} {ran:?}", plan.form, plan.moves);
    let ended = match ran {
        Ok(()) if plan.form == Form::Undone => Ended::Undone,
        Ok(()) => Ended::Committed,
        Err(failure) => {
            if !is_usual(&failure, books) {
                books.complain(format!(
                    "transfer {}, {:?} {:?}: {failure}",
                    plan.id, plan.form, plan.moves
                ));
            }
            // What an error left open.
            let _ = client.query("ROLLBACK");
            ended(&failure, progress.ending)
        }
    };
    let transaction = Transaction {
        id: plan.id,
        session,
        ended,
        appends: plan.moves.iter().map(|(key, _)| *key).collect(),
        kind: Reads::Locked,
        reads: progress.reads,
        began_us,
        ended_us: now_us(),
    };
    Entry {
        transaction,
        moves: plan.moves.clone(),
        story,
    }
}

/// Both rows by one UPDATE of its own transaction.
fn in_one(client: &mut Client, plan: &Plan, progress: &mut Progress) -> Result<(), Failure> {
    progress.ending = true;
    let [(from, _), (to, _)] = plan.moves[..] else {
        return Err(Failure::Protocol("two moves".to_owned()));
    };
    let (from, to) = match plan.moves[0].1 {
        -1 => (from, to),
        _ => (to, from),
    };
    let sql = format!(
        "UPDATE bank.account SET balance = balance + IF(id = {from}, -1, 1), \
         log = CONCAT(log, '{},') WHERE id IN ({from}, {to})",
        plan.id
    );
    changed(client.query(sql)?, 2)
}

fn in_several(
    client: &mut Client,
    prepared: &mut Vec<(&'static str, Statement)>,
    plan: &Plan,
    progress: &mut Progress,
) -> Result<(), Failure> {
    client.query("BEGIN")?;
    for (at, (key, amount)) in plan.moves.iter().enumerate() {
        let (table, row) = row_of(*key);
        if plan.form == Form::Reading {
            let sql = format!("SELECT log FROM {table} WHERE id = {row} FOR UPDATE");
            // A global table's rows are read on one group, and locked there only.
            if *key < FIRST_NOTE {
                let log = log_of(client.query(sql)?)?;
                progress.reads.push((*key, log));
            }
        }
        if plan.form == Form::Savepoint && at == 1 {
            client.query("SAVEPOINT half")?;
            let sql = format!("UPDATE {table} SET balance = 0, log = 'x' WHERE id = {row}");
            client.query(sql)?;
            client.query("ROLLBACK TO half")?;
        }
        match plan.form {
            Form::Prepared => {
                let statement = match prepared.iter().find(|(name, _)| *name == table) {
                    Some((_, statement)) => statement.clone(),
                    None => {
                        let sql = format!(
                            "UPDATE {table} SET balance = balance + ?, log = CONCAT(log, ?) \
                             WHERE id = ?"
                        );
                        let statement = client.prepare(&sql)?;
                        prepared.push((table, statement.clone()));
                        statement
                    }
                };
                let values = [
                    Value::Int(*amount),
                    Value::from(&*format!("{},", plan.id)),
                    Value::Int(i64::try_from(row).unwrap_or_default()),
                ];
                changed(client.execute(&statement, &values)?, 1)?;
            }
            _ => {
                let sql = format!(
                    "UPDATE {table} SET balance = balance + {amount}, \
                     log = CONCAT(log, '{},') WHERE id = {row}",
                    plan.id
                );
                changed(client.query(sql)?, 1)?;
            }
        }
    }
    if plan.form == Form::Undone {
        client.query("ROLLBACK")?;
        return Ok(());
    }
    progress.ending = true;
    client.query("COMMIT")?;
    Ok(())
}

/// An UPDATE that must have changed so many rows.
fn changed(replies: Vec<Reply>, rows: u64) -> Result<(), Failure> {
    match replies.first() {
        Some(Reply::Done(done)) if done.affected_rows == rows => Ok(()),
        other => Err(Failure::Protocol(format!("{rows} rows, not {other:?}"))),
    }
}

fn log_of(replies: Vec<Reply>) -> Result<Vec<Id>, Failure> {
    match replies.first() {
        Some(Reply::Rows(rows)) if rows.rows.len() == 1 => {
            let text = rows.text();
            let text = text[0][0].as_deref().unwrap_or_default();
            Ok(ids(text))
        }
        other => Err(Failure::Protocol(format!("one row, not {other:?}"))),
    }
}

/// The ids in a log.
pub(super) fn ids(log: &str) -> Vec<Id> {
    let parts = log.split(',').filter(|part| !part.is_empty());
    parts.map(|part| part.parse().unwrap_or(Id::MAX)).collect()
}
