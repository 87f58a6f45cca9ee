//! Transactions of several statements: transfers between accounts, with reads in between.

use crate::client::{Client, Failure, Reply, Rows, Statement, Value};

use super::ledger::{Kind, Outcome, Write, now_us};
use super::load::{ACCOUNTS, BALANCE, Seat, number};

/// One transfer.
struct Transfer {
    id: u64,
    source: u64,
    target: u64,
    amount: u64,
}

/// The prepared forms of what a transfer does.
struct Forms {
    look: Statement,
    change: Statement,
    enter: Statement,
}

const LOOK: &str = "SELECT balance FROM proof.account WHERE id = ? FOR UPDATE";
const CHANGE: &str = "UPDATE proof.account SET balance = balance + ? WHERE id = ?";
const ENTER: &str = "INSERT INTO proof.transfer (id, source, target, amount) VALUES (?, ?, ?, ?)";

/// Transfers until the end of the round; every second teller uses prepared statements. The error is
/// a broken connection.
pub(super) fn work(seat: &mut Seat, client: &mut Client) -> Result<(), Failure> {
    let mut forms = None;
    if seat.number.is_multiple_of(2) {
        match prepare(client) {
            Ok(prepared) => forms = Some(prepared),
            Err(failure) => return seat.fail("PREPARE", failure),
        }
    }
    while !seat.stand.stop.is_raised() {
        seat.stand.think();
        seat.borrow(client)?;
        let source = seat.dice.below(ACCOUNTS);
        let transfer = Transfer {
            id: seat.next_id(),
            source,
            target: (source + 1 + seat.dice.below(ACCOUNTS - 1)) % ACCOUNTS,
            amount: seat.dice.below(9) + 1,
        };
        make(seat, client, forms.as_ref(), &transfer)?;
    }
    Ok(())
}

fn prepare(client: &mut Client) -> Result<Forms, Failure> {
    Ok(Forms {
        look: client.prepare(LOOK)?,
        change: client.prepare(CHANGE)?,
        enter: client.prepare(ENTER)?,
    })
}

fn make(
    seat: &mut Seat,
    client: &mut Client,
    forms: Option<&Forms>,
    transfer: &Transfer,
) -> Result<(), Failure> {
    let id = transfer.id;
    if let Err(failure) = statements(seat, client, forms, transfer) {
        // Without a COMMIT it never happened.
        seat.note(Kind::Transfer, id, Err((Outcome::Undone, failure)))?;
        return match client.query("ROLLBACK") {
            Ok(_) => Ok(()),
            Err(failure) => seat.fail("ROLLBACK after an error", failure),
        };
    }
    if seat.dice.below(8) == 0 {
        seat.ledger.writes.push(Write {
            kind: Kind::Transfer,
            id,
            insert_id: 0,
            at_us: now_us(),
            outcome: Outcome::Undone,
        });
        return match client.query("ROLLBACK") {
            Ok(_) => Ok(()),
            Err(failure) => seat.fail("ROLLBACK", failure),
        };
    }
    let answer = client.query("COMMIT");
    let failed = answer.is_err();
    let answer = answer.map(|_| 0);
    seat.note(
        Kind::Transfer,
        id,
        answer.map_err(|failure| (Outcome::Unanswered, failure)),
    )?;
    if failed && let Err(failure) = client.query("ROLLBACK") {
        return seat.fail("ROLLBACK after a failed COMMIT", failure);
    }
    Ok(())
}

/// Everything but the COMMIT. Accounts are locked in the order of their numbers, so that tellers do
/// not wait for each other in a circle.
fn statements(
    seat: &mut Seat,
    client: &mut Client,
    forms: Option<&Forms>,
    transfer: &Transfer,
) -> Result<(), Failure> {
    let Transfer {
        id,
        source,
        target,
        amount,
    } = *transfer;
    client.query("START TRANSACTION")?;
    let mut before = 0;
    for account in [source.min(target), source.max(target)] {
        let values = [Value::UInt(account)];
        let balance = run(client, forms.map(|f| &f.look), LOOK, &values)?;
        if account == source {
            before = balance;
        }
    }
    let signed = i64::try_from(amount).expect("amounts are small");
    for (change, account) in [(-signed, source), (signed, target)] {
        let values = [Value::Int(change), Value::UInt(account)];
        run(client, forms.map(|f| &f.change), CHANGE, &values)?;
    }
    let values = [id, source, target, amount].map(Value::UInt);
    run(client, forms.map(|f| &f.enter), ENTER, &values)?;
    let after = run(client, forms.map(|f| &f.look), LOOK, &[Value::UInt(source)])?;
    let text = || format!("transfer {id:#x} read {after} after {before} - {amount}");
    seat.ledger.promise(after == before - signed, text);
    if seat.dice.below(4) == 0 {
        let sum = number(client, "SELECT SUM(balance) FROM proof.account")?;
        let text = || format!("transfer {id:#x} read a sum of {sum}");
        seat.ledger.promise(sum == ACCOUNTS * BALANCE, text);
    }
    Ok(())
}

/// Runs the prepared form or the text with the values in it; gives the one value of a read.
fn run(
    client: &mut Client,
    form: Option<&Statement>,
    sql: &str,
    values: &[Value],
) -> Result<i64, Failure> {
    let replies = match form {
        Some(form) => client.execute(form, values)?,
        None => {
            let mut text = String::new();
            let mut values = values.iter();
            for part in sql.split_inclusive('?') {
                text.push_str(part.trim_end_matches('?'));
                if part.ends_with('?') {
                    let value = values.next().and_then(Value::text);
                    text.push_str(&value.expect("a value for each place"));
                }
            }
            client.query(text)?
        }
    };
    let value = match replies.as_slice() {
        [Reply::Rows(Rows { rows, .. })] => rows.first().and_then(|row| row.first()),
        _ => None,
    };
    Ok(value
        .and_then(Value::text)
        .and_then(|text| text.parse().ok())
        .unwrap_or(0))
}
