//! Clients that write: every row that a transaction writes has its number, and how many rows that one writes.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;

use crate::client::{Client, Failure, Login, Reply};
use crate::failover::load::Dice;
use crate::holds_within;

use super::course::Course;
use super::{ACCOUNTS, CLIENTS, GROUPS, MOVED, PATIENCE, RATES};

/// Entries that a client leaves before it takes them back.
const ENTRIES: usize = 20;

/// What a transaction does.
struct Plan {
    tx: u64,
    /// Table, account, amount.
    moves: Vec<(&'static str, u64, i64)>,
    /// Two of them by one statement, which commits by itself.
    at_once: bool,
    rate: Option<u64>,
    /// The account of a new entry, of one that is numbered anew, and of one that is taken back, with their numbers.
    writes: Option<u64>,
    renames: Option<(u64, u64)>,
    takes_back: Option<(u64, u64)>,
    rolls_back: bool,
}

impl Plan {
    fn new(tx: u64, dice: &mut Dice, entries: &VecDeque<(u64, u64)>) -> Plan {
        let mut moves = Vec::new();
        let tables: &[&'static str] = match dice.below(4) {
            0 => &["bank.account"],
            1 | 2 => &[MOVED],
            _ => &["bank.account", MOVED],
        };
        for table in tables {
            let from = dice.below(ACCOUNTS);
            let to = (from + 1 + dice.below(ACCOUNTS - 1)) % ACCOUNTS;
            moves.extend([(*table, from, -1), (*table, to, 1)]);
        }
        moves.sort_unstable();
        let at_once = moves.len() == 2 && dice.below(4) == 0;
        let sometimes = |dice: &mut Dice, of: u64| !at_once && dice.below(of) == 0;
        let aged = entries.front().copied().filter(|_| entries.len() > ENTRIES);
        let (mut renames, mut takes_back) = (None, None);
        if sometimes(dice, 3) {
            // One that was numbered anew has no number that can be known again.
            match dice.below(4) {
                0 => renames = aged,
                _ => takes_back = aged,
            }
        }
        Plan {
            tx,
            at_once,
            rate: sometimes(dice, 10).then(|| dice.below(RATES)),
            writes: sometimes(dice, 3).then(|| dice.below(ACCOUNTS)),
            renames,
            takes_back,
            rolls_back: sometimes(dice, 20),
            moves,
        }
    }

    /// The rows that it writes.
    fn rows(&self) -> usize {
        let of_rate = if self.rate.is_some() { GROUPS.len() } else { 0 };
        let entries = usize::from(self.writes.is_some()) + usize::from(self.renames.is_some());
        self.moves.len() + of_rate + entries
    }

    /// Its statements, each with the rows that it has to find.
    fn statements(&self) -> Vec<(String, u64)> {
        let (tx, n) = (self.tx, self.rows());
        let mut all = Vec::new();
        if let (true, [(table, one, by), (_, other, _)]) = (self.at_once, &self.moves[..]) {
            let sql = format!(
                "UPDATE {table} SET v = v + 1, money = money + IF(id = {one}, {by}, -({by})), tx = {tx}, n = {n} \
                 WHERE id IN ({one}, {other})"
            );
            all.push((sql, 2));
            return all;
        }
        for (table, id, by) in &self.moves {
            let sql = format!(
                "UPDATE {table} SET v = v + 1, money = money + {by}, tx = {tx}, n = {n} WHERE id = {id}"
            );
            all.push((sql, 1));
        }
        if let Some((account, id)) = self.takes_back {
            let sql = format!("DELETE FROM bank.entry WHERE account = {account} AND id = {id}");
            all.push((sql, 1));
        }
        if let Some((account, id)) = self.renames {
            let sql = format!(
                "UPDATE bank.entry SET id = -id, tx = {tx}, n = {n} WHERE account = {account} AND id = {id}"
            );
            all.push((sql, 1));
        }
        if let Some(account) = self.writes {
            let sql = format!("INSERT INTO bank.entry VALUES ({account}, {tx}, {tx}, {n})");
            all.push((sql, 1));
        }
        if let Some(rate) = self.rate {
            let sql =
                format!("UPDATE bank.rate SET v = v + 1, tx = {tx}, n = {n} WHERE id = {rate}");
            all.push((sql, 1));
        }
        all
    }
}

/// Begins them.
pub(super) fn start(address: SocketAddr, seed: u64, course: &Arc<Course>) -> Vec<JoinHandle<()>> {
    let one = |number| {
        let course = Arc::clone(course);
        std::thread::spawn(move || work(address, Dice::new(seed ^ (number << 32)), &course))
    };
    (0..CLIENTS).map(one).collect()
}

/// Writes until it is over.
fn work(address: SocketAddr, mut dice: Dice, course: &Course) {
    let mut entries = VecDeque::new();
    let mut client = None;
    while !course.is_over() {
        course.rest_if_asked();
        let Some(open) = client.as_mut() else {
            client = login(address, course);
            continue;
        };
        let plan = Plan::new(course.next_transaction(), &mut dice, &entries);
        if plan.renames.is_some() || plan.takes_back.is_some() {
            entries.pop_front();
        }
        match carry_out(open, &plan) {
            Ok(true) => {
                course.acknowledge(plan.tx);
                entries.extend(plan.writes.map(|account| (account, plan.tx)));
            }
            Ok(false) => {}
            Err(failure) => {
                if !course.is_usual(&failure) {
                    course.complain(format!("transaction {}: {failure}", plan.tx));
                }
                if open.query("ROLLBACK").is_err() {
                    client = None;
                }
            }
        }
    }
}

fn login(address: SocketAddr, course: &Course) -> Option<Client> {
    let login = Login {
        user: "app",
        password: "secret",
        patience: PATIENCE,
        ..Login::default()
    };
    let mut client = None;
    let found = holds_within(PATIENCE, || {
        client = Client::login(address, &login).ok();
        client.is_some() || course.is_over() || course.is_paused()
    });
    if !found {
        course.complain(format!("nobody lets clients in within {PATIENCE:?}"));
    }
    client
}

/// True when it is acknowledged, false when it was rolled back.
fn carry_out(client: &mut Client, plan: &Plan) -> Result<bool, Failure> {
    if !plan.at_once {
        client.query("BEGIN")?;
    }
    for (sql, rows) in plan.statements() {
        let replies = client.query(&sql)?;
        match replies.first() {
            Some(Reply::Done(done)) if done.affected_rows == rows => {}
            other => return Err(Failure::Protocol(format!("{other:?} to {sql}"))),
        }
    }
    match (plan.at_once, plan.rolls_back) {
        (true, _) => Ok(true),
        (_, true) => client.query("ROLLBACK").map(|_| false),
        (_, false) => client.query("COMMIT").map(|_| true),
    }
}

/// Lets nobody write any more, and waits until nobody does.
pub(super) fn pause(course: &Course) {
    course.pause(true);
    let rests = holds_within(PATIENCE, || course.resting.load(Relaxed) == CLIENTS);
    if !rests {
        course.complain(format!("a statement hangs for {PATIENCE:?}"));
    }
}
