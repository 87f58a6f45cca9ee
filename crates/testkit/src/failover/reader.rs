//! Clients that read: at all levels, with a pin, and with long results.

use std::sync::atomic::Ordering;

use crate::client::{Client, Failure, Reply, Value};

use super::ledger::Trouble;
use super::load::{ACCOUNTS, BALANCE, Seat, WRITERS, number, think_time};

/// Rows in a temporary table before a client with a pool gives it up.
const LENT_ROWS: u64 = 50;

/// Works until the end of the round; the error is a broken connection.
pub(super) fn work(seat: &mut Seat, client: &mut Client, number: u64) -> Result<(), Failure> {
    match number {
        0 | 1 => at_level(seat, client, "strong"),
        2 | 3 => at_level(seat, client, "session"),
        4 | 5 => at_level(seat, client, "eventual"),
        6 => with_pins(seat, client),
        _ => long_results(seat, client),
    }
}

/// Strong: at least what was acknowledged before. Session: never back in time. Eventual: each
/// statement sees whole transactions.
fn at_level(seat: &mut Seat, client: &mut Client, level: &str) -> Result<(), Failure> {
    set_level(seat, client, level)?;
    let mut seen = vec![0; WRITERS as usize];
    while !seat.stand.stop.is_raised() {
        seat.borrow(client)?;
        let writer = seat.dice.below(WRITERS) as usize;
        let required = seat.stand.counters[writer].load(Ordering::SeqCst);
        let sql = match level {
            "eventual" => "SELECT SUM(balance) FROM proof.account".to_owned(),
            _ => format!("SELECT v FROM proof.counter WHERE writer = {writer}"),
        };
        let value = match number(client, &sql) {
            Ok(value) => value,
            Err(failure) => {
                seat.fail(&sql, failure)?;
                continue;
            }
        };
        let (kept, bound) = match level {
            "strong" => (value >= required, required),
            "session" => (value >= seen[writer], seen[writer]),
            _ => (value == ACCOUNTS * BALANCE, ACCOUNTS * BALANCE),
        };
        seen[writer] = seen[writer].max(value);
        let text = || format!("{level}: {sql} gave {value}, promised {bound}");
        seat.ledger.promise(kept, text);
        seat.stand.stop.rest(think_time());
    }
    Ok(())
}

fn set_level(seat: &mut Seat, client: &mut Client, level: &str) -> Result<(), Failure> {
    let set = format!("SET heddle_consistency = '{level}'");
    match client.query(&set) {
        Ok(_) => Ok(()),
        Err(failure) => seat.fail(&set, failure),
    }
}

/// Holds a user lock and a temporary table. When their server dies there is one error that names
/// them; then both are made again on the same connection. With a pool both are given up now and then,
/// before the connection goes back.
fn with_pins(seat: &mut Seat, client: &mut Client) -> Result<(), Failure> {
    while !seat.stand.stop.is_raised() {
        seat.borrow(client)?;
        let pooled = seat.stand.pooled.load(Ordering::SeqCst);
        let mut rows = 0;
        let mut step = |client: &mut Client| -> Result<(bool, u64), Failure> {
            if rows == 0 {
                client.query("SELECT GET_LOCK('proof', 0)")?;
                client.query("DROP TEMPORARY TABLE IF EXISTS proof.mine")?;
                client.query("CREATE TEMPORARY TABLE proof.mine (id BIGINT PRIMARY KEY)")?;
            }
            rows += 1;
            client.query(format!("INSERT INTO proof.mine VALUES ({rows})"))?;
            let kept = number(client, "SELECT COUNT(*) FROM proof.mine")? == rows;
            if pooled && rows == LENT_ROWS {
                client.query("DROP TEMPORARY TABLE proof.mine")?;
                client.query("SELECT RELEASE_LOCK('proof')")?;
            }
            Ok((kept, rows))
        };
        while !seat.stand.stop.is_raised() {
            match step(client) {
                Ok((kept, rows)) => {
                    let text = || "a temporary table has not its rows".to_owned();
                    seat.ledger.promise(kept, text);
                    if pooled && rows == LENT_ROWS {
                        break;
                    }
                }
                Err(failure) => {
                    let is_pin = Trouble::of(&failure) == Trouble::LostPin;
                    seat.fail("temporary table", failure)?;
                    if is_pin {
                        break;
                    }
                }
            }
            seat.stand.stop.rest(think_time());
        }
    }
    Ok(())
}

/// Results of a megabyte from the primary, which never change: cut in the middle, they go on or end
/// with an error, and never show a row twice or not at all.
fn long_results(seat: &mut Seat, client: &mut Client) -> Result<(), Failure> {
    set_level(seat, client, "strong")?;
    let sql = format!(
        "SELECT a.id * {ACCOUNTS} + b.id, REPEAT('x', 200) \
         FROM proof.account a JOIN proof.account b ORDER BY 1"
    );
    while !seat.stand.stop.is_raised() {
        seat.borrow(client)?;
        match client.query(&sql) {
            Ok(replies) => {
                let whole = is_whole(&replies);
                let text = || "a long result has not its rows in their order".to_owned();
                seat.ledger.promise(whole, text);
            }
            Err(failure) => seat.fail("long result", failure)?,
        }
        seat.stand.stop.rest(think_time() * 10);
    }
    Ok(())
}

fn is_whole(replies: &[Reply]) -> bool {
    let [Reply::Rows(rows)] = replies else {
        return false;
    };
    let mut numbers = rows.rows.iter().map(|row| row[0].text());
    rows.rows.len() as u64 == ACCOUNTS * ACCOUNTS
        && (0..ACCOUNTS * ACCOUNTS).all(|n| numbers.next() == Some(Value::UInt(n).text()))
}
