//! What must hold when a round's clients have ended.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::client::{Client, Failure, Reply};
use crate::farm::Member;
use crate::history::{Anomaly, Id, Key, Places, check};
use crate::holds_within;

use super::auditor::sum_of_all;
use super::books::Entry;
use super::teller::ids;
use super::{Bank, FIRST_NOTE, FIRST_SAFE, GROUPS, PATIENCE, START};

/// Transactions of a client that are told of an anomaly.
const STORIES: usize = 4;

/// The rows of one server.
type Rows = BTreeMap<Key, (i64, Vec<Id>)>;

impl Bank {
    /// Waits until no server has anything prepared; gives how long that took.
    pub(super) fn nothing_prepared(&self) -> Result<Duration, String> {
        let from = Instant::now();
        let mut left = String::new();
        let empty = holds_within(PATIENCE, || {
            left = self.prepared();
            left.is_empty()
        });
        match empty {
            true => Ok(from.elapsed()),
            false => Err(format!("after {PATIENCE:?} there is prepared: {left}")),
        }
    }

    /// Who has what prepared, or does not answer.
    fn prepared(&self) -> String {
        let members = self.farm.members();
        let texts = members.iter().filter_map(|member| {
            let listed = open(member).and_then(|mut client| client.query("XA RECOVER"));
            match listed {
                Ok(replies) => match replies.first() {
                    Some(Reply::Rows(rows)) if rows.rows.is_empty() => None,
                    Some(Reply::Rows(rows)) => {
                        Some(format!("{}: {}", member.name, rows.rows.len()))
                    }
                    other => Some(format!("{}: {other:?}", member.name)),
                },
                Err(failure) => Some(format!("{}: {failure}", member.name)),
            }
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Everything that is wrong with what the servers have now.
    pub(super) fn judge(&self, entries: &[Entry]) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut all = Rows::new();
        let mut notes: Vec<Rows> = Vec::new();
        let mut places = Places::new();
        for (number, group) in (0..).zip(GROUPS) {
            let mut read = Err("there is no primary".to_owned());
            holds_within(PATIENCE, || {
                if let Some(primary) = self.farm.primary_of(group) {
                    read = rows_of(&primary).map_err(|failure| failure.to_string());
                }
                read.is_ok()
            });
            match read {
                Ok(rows) => {
                    let (accounts, global) =
                        rows.into_iter().partition(|(key, _)| *key < FIRST_NOTE);
                    let accounts: Rows = accounts;
                    places.extend(accounts.keys().map(|key| (*key, number)));
                    all.extend(accounts);
                    notes.push(global);
                }
                Err(failure) => wrong.push(format!("{group}: {failure}")),
            }
        }
        if !notes.windows(2).all(|pair| pair[0] == pair[1]) {
            wrong.push(format!("the global table differs: {}", difference(&notes)));
        }
        all.extend(notes.pop().unwrap_or_default());
        wrong.extend(balances(entries, &all));
        let history: Vec<_> = entries.iter().map(|it| it.transaction.clone()).collect();
        let last = all.iter().map(|(key, (_, log))| (*key, log.clone()));
        let found = check(&history, &last.collect(), &places);
        wrong.extend(found.iter().map(ToString::to_string));
        wrong.extend(found.iter().flat_map(|it| stories(it, entries)));
        wrong.extend(self.replicas_differ());
        wrong
    }

    /// Replicas that do not come to have what their primary has.
    fn replicas_differ(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for group in GROUPS.iter().filter(|_| self.replicas) {
            let mut differs = String::new();
            let equal = holds_within(PATIENCE, || {
                differs = self.differing(group);
                differs.is_empty()
            });
            if !equal {
                wrong.push(differs);
            }
        }
        wrong
    }

    fn differing(&self, group: &str) -> String {
        let Some(Ok(first)) = self.farm.primary_of(group).map(|it| rows_of(&it)) else {
            return format!("{group} has no primary that answers");
        };
        let members = self.farm.members();
        let others = members.iter().filter(|it| it.group == group);
        let differing = others.filter_map(|member| match rows_of(member) {
            Ok(rows) if rows == first => None,
            Ok(rows) => {
                let difference = difference(&[first.clone(), rows]);
                Some(format!(
                    "{} is not as its primary: {difference}",
                    member.name
                ))
            }
            Err(failure) => Some(format!("{}: {failure}", member.name)),
        });
        differing.collect::<Vec<_>>().join(", ")
    }
}

/// What the client of an anomaly did, up to it.
fn stories(anomaly: &Anomaly, entries: &[Entry]) -> Vec<String> {
    let id = match anomaly {
        Anomaly::Lost { id, .. } | Anomaly::Revived { id, .. } | Anomaly::Torn { id, .. } => *id,
        _ => return Vec::new(),
    };
    let by_id = |entry: &&Entry| entry.transaction.id == id;
    let Some(one) = entries.iter().find(by_id) else {
        return Vec::new();
    };
    let session = one.transaction.session;
    let same = entries
        .iter()
        .filter(|it| it.transaction.session == session && it.transaction.id <= id);
    let all: Vec<&Entry> = same.collect();
    let last = all.iter().rev().take(STORIES).rev();
    last.map(|it| {
        let (id, ended) = (it.transaction.id, it.transaction.ended);
        format!("story of {session}: {id} {ended:?}: {}", it.story)
    })
    .collect()
}

/// Balances that do not follow from what is in the logs of this round and from what was there before
/// it: nobody knows that, but all moves together change no sum.
fn balances(entries: &[Entry], all: &Rows) -> Vec<String> {
    let mut wrong = Vec::new();
    let accounts = all.iter().filter(|(key, _)| **key < FIRST_NOTE);
    let sum: i64 = accounts.map(|(_, (balance, _))| balance).sum();
    if sum != sum_of_all() {
        wrong.push(format!("the sum is {sum}, not {}", sum_of_all()));
    }
    let moves: BTreeMap<(Id, Key), i64> = entries
        .iter()
        .flat_map(|entry| {
            let id = entry.transaction.id;
            entry.moves.iter().map(move |(key, by)| ((id, *key), *by))
        })
        .collect();
    for (key, (balance, log)) in all {
        let moved = log.iter().filter_map(|id| moves.get(&(*id, *key)));
        let moved: i64 = moved.sum();
        let start = match *key {
            FIRST_NOTE.. => 0,
            _ => START,
        };
        if *balance != start + moved {
            wrong.push(format!(
                "the balance of {key} is {balance}; its log makes it {}",
                start + moved
            ));
        }
    }
    wrong
}

/// The first key whose rows differ, and how.
fn difference(all: &[Rows]) -> String {
    let keys = all.iter().flat_map(BTreeMap::keys);
    let mut differing = keys.filter(|key| {
        all.windows(2)
            .any(|pair| pair[0].get(key) != pair[1].get(key))
    });
    differing.next().map_or(String::new(), |key| {
        let rows: Vec<_> = all.iter().map(|rows| rows.get(key)).collect();
        format!("{key}: {rows:?}")
    })
}

fn open(member: &Member) -> Result<Client, Failure> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], member.port));
    Client::connect(address, "root", "")
}

/// All rows that a server has.
fn rows_of(member: &Member) -> Result<Rows, Failure> {
    let mut client = open(member)?;
    let mut all = Rows::new();
    for (table, first) in [
        ("bank.account", 0),
        ("safe.account", FIRST_SAFE),
        ("bank.note", FIRST_NOTE),
    ] {
        // The second map has one shard, on the second group.
        if first == FIRST_SAFE && member.group != GROUPS[1] {
            continue;
        }
        let replies = client.query(format!("SELECT id, balance, log FROM {table}"))?;
        let Some(Reply::Rows(rows)) = replies.first() else {
            return Err(Failure::Protocol(format!("rows, not {replies:?}")));
        };
        for row in rows.text() {
            let [Some(id), Some(balance), Some(log)] = &row[..] else {
                return Err(Failure::Protocol(format!("three values, not {row:?}")));
            };
            let key = first + id.parse::<Key>().unwrap_or(Key::MAX / 2);
            all.insert(key, (balance.parse().unwrap_or(i64::MIN), ids(log)));
        }
    }
    Ok(all)
}
