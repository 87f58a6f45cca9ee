//! A client that adds up all accounts, again and again: the sum never moves.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::client::{Client, Failure, Reply};
use crate::failover::ledger::now_us;
use crate::history::{Ended, Id, Key, Reads, Transaction};

use super::books::{Books, Entry, is_usual};
use super::teller::{ids, login};
use super::{ACCOUNTS, FIRST_NOTE, FIRST_SAFE, SAFES, START};

/// What all accounts have together.
pub(super) fn sum_of_all() -> i64 {
    START * i64::try_from(ACCOUNTS + SAFES).unwrap_or_default()
}

/// What is read, and the keys of its rows begin.
const TABLES: [(&str, Key); 3] = [
    ("bank.account", 0),
    ("safe.account", FIRST_SAFE),
    ("bank.note", FIRST_NOTE),
];

/// Adds up until the round is over. Those that lock what they read need no snapshot, but hold up
/// everybody.
pub(super) fn run(address: SocketAddr, kind: Reads, next: &AtomicU64, books: &Books) {
    while !books.is_over() {
        let Some(mut client) = login(address, books) else {
            return;
        };
        let session = next.fetch_add(1, Ordering::Relaxed);
        while !books.is_over() {
            let id = next.fetch_add(1, Ordering::Relaxed);
            let began_us = now_us();
            let (reads, sum) = match audit(&mut client, kind) {
                Ok(audited) => audited,
                Err(failure) => {
                    if !is_usual(&failure, books) {
                        books.complain(format!("audit {id}, {kind:?}: {failure}"));
                    }
                    if client.query("ROLLBACK").is_err() {
                        break;
                    }
                    continue;
                }
            };
            if sum != sum_of_all() {
                books.complain(format!("audit {id}, {kind:?}: the sum is {sum}"));
            }
            books.audits.fetch_add(1, Ordering::Relaxed);
            let transaction = Transaction {
                id,
                session,
                ended: Ended::Committed,
                appends: Vec::new(),
                kind,
                reads,
                began_us,
                ended_us: now_us(),
            };
            let moves = Vec::new();
            let story = String::new();
            books.enter(Entry {
                transaction,
                moves,
                story,
            });
        }
    }
}

type Audited = (Vec<(Key, Vec<Id>)>, i64);

fn audit(client: &mut Client, kind: Reads) -> Result<Audited, Failure> {
    let (begin, locks) = match kind {
        Reads::Snapshot => ("START TRANSACTION WITH CONSISTENT SNAPSHOT", ""),
        Reads::Locked => ("BEGIN", " LOCK IN SHARE MODE"),
        Reads::Plain => ("BEGIN", ""),
    };
    client.query(begin)?;
    let mut reads = Vec::new();
    let mut sum = 0;
    for (table, first) in TABLES {
        // A global table's rows are read on one group, and locked there only.
        if kind == Reads::Locked && first == FIRST_NOTE {
            continue;
        }
        let sql = format!("SELECT id, balance, log FROM {table}{locks}");
        let replies = client.query(sql)?;
        let Some(Reply::Rows(rows)) = replies.first() else {
            return Err(Failure::Protocol(format!("rows, not {replies:?}")));
        };
        for row in rows.text() {
            let [Some(id), Some(balance), Some(log)] = &row[..] else {
                return Err(Failure::Protocol(format!("three values, not {row:?}")));
            };
            let number = |text: &String| text.parse::<i64>().unwrap_or(i64::MIN / 1024);
            if first != FIRST_NOTE {
                sum += number(balance);
            }
            let key = first + id.parse::<Key>().unwrap_or(Key::MAX / 2);
            reads.push((key, ids(log)));
        }
    }
    client.query("COMMIT")?;
    Ok((reads, sum))
}
