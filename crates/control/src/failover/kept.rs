//! What the state store knows of a change of primary: the machine's record under `/failover/GROUP`.

use farm::{Engine, Position, ServerId, Status};
use machines::failover::{Record, Step};
use meta::{Entry, Outcome, Store, Transaction};
use serde::{Deserialize, Serialize};

use crate::failover::FailoverDrivers;
use crate::leadership::lead::Lead;
use catalog::Error;
use catalog::command::CommandError;
use catalog::record::Records;

/// Prefix of the keys.
pub(super) const FAILOVER: &str = "/failover/";

/// The key of a group's record.
pub(crate) fn record_key(group: &str) -> String {
    format!("{FAILOVER}{group}")
}

/// The record as JSON. Fields may be added, never renamed.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    number: u64,
    #[serde(default)]
    fork: Option<String>,
    /// Servers that were not heard, to be brought back.
    #[serde(default)]
    lost: Vec<u32>,
    /// Replicas that could not be pointed at the primary.
    #[serde(default)]
    unproved: Vec<u32>,
    /// Replicas that were restarted while the primary was lost.
    #[serde(default)]
    forgetful: Vec<u32>,
    step: KeptStep,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeptStep {
    Clearing { old: Option<u32> },
    Turning { old: Option<u32>, winner: u32 },
    Switching { from: u32 },
    Over { primary: Option<u32> },
}

impl Kept {
    fn of(record: &Record) -> Kept {
        let id = |server: Option<ServerId>| server.map(|server| server.0);
        let ids = |servers: &[ServerId]| servers.iter().map(|server| server.0).collect();
        Kept {
            number: record.number,
            fork: record.fork.as_ref().map(Position::to_string),
            lost: ids(&record.lost),
            unproved: ids(&record.unproved),
            forgetful: ids(&record.forgetful),
            step: match &record.step {
                Step::Clearing { old } => KeptStep::Clearing { old: id(*old) },
                Step::Turning { old, winner } => KeptStep::Turning {
                    old: id(*old),
                    winner: winner.0,
                },
                Step::Switching { from } => KeptStep::Switching { from: from.0 },
                Step::Over { primary } => KeptStep::Over {
                    primary: id(*primary),
                },
            },
        }
    }

    fn read(self, engine: Engine) -> Option<Record> {
        let fork = match self.fork {
            None => None,
            Some(text) => Some(Position::parse(engine, &text)?),
        };
        let id = |server: Option<u32>| server.map(ServerId);
        let ids = |servers: Vec<u32>| servers.into_iter().map(ServerId).collect();
        Some(Record {
            number: self.number,
            fork,
            lost: ids(self.lost),
            unproved: ids(self.unproved),
            forgetful: ids(self.forgetful),
            step: match self.step {
                KeptStep::Clearing { old } => Step::Clearing { old: id(old) },
                KeptStep::Turning { old, winner } => Step::Turning {
                    old: id(old),
                    winner: ServerId(winner),
                },
                KeptStep::Switching { from } => Step::Switching {
                    from: ServerId(from),
                },
                KeptStep::Over { primary } => Step::Over {
                    primary: id(primary),
                },
            },
        })
    }
}

impl FailoverDrivers {
    /// What was recorded of a group's last change of primary. What is left of a group that has no
    /// server any more is deleted: a new one would number its records from the beginning.
    pub(super) async fn recorded_step(&self, group: &str) -> Result<Option<Record>, Error> {
        let key = record_key(group);
        let Some(entry) = self.context.store().get(&key).await? else {
            return Ok(None);
        };
        let Some(engine) = self.engine_of(group) else {
            let deletion = Transaction::new().when_revision(&key, entry.revision);
            self.context.store().commit(deletion.delete(&key)).await?;
            return Ok(None);
        };
        read(&entry, engine).map(Some)
    }

    /// The record as it is stored; `None` also for a group that has no server any more.
    pub(super) async fn kept_record(&self, group: &str) -> Result<Option<Record>, Error> {
        let entry = self.context.store().get(&record_key(group)).await?;
        match (entry, self.engine_of(group)) {
            (Some(entry), Some(engine)) => read(&entry, engine).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) fn engine_of(&self, group: &str) -> Option<Engine> {
        let state = self.context.state();
        let mut members = state.records.members(group);
        members.next().map(|(_, record)| record.engine)
    }

    /// Stores a step, if nothing later is stored. At the end of a change the servers' standing and the
    /// end of the timeline go with it.
    pub(super) async fn record_step(
        &self,
        lead: &Lead,
        group: &str,
        record: &Record,
    ) -> Result<(), CommandError> {
        // What it was compared with may have changed since: then all is read again.
        for _ in 0..RECORD_TRIES {
            let engine = self.engine_of(group);
            let transaction = put_record(self.context.store(), group, engine, record).await?;
            let Step::Over { primary } = &record.step else {
                match self
                    .context
                    .store()
                    .commit(self.context.leadership.fenced(lead, transaction)?)
                    .await?
                {
                    Outcome::Applied(_) => return Ok(()),
                    Outcome::Stale => continue,
                }
            };
            let transaction = {
                let state = self.context.state();
                let begins = state.standing.has_timeline_ahead(group);
                standing(
                    &state.records,
                    transaction,
                    group,
                    *primary,
                    &record.lost,
                    begins,
                )
            };
            match self.context.commit(lead, transaction).await {
                // It may be this router that was replaced, not the farm that changed.
                Err(CommandError::Stale) => {
                    drop(self.context.leadership.fenced(lead, Transaction::new())?)
                }
                // The same is tried again, and what is published stays.
                Err(error) => return Err(error),
                Ok(()) => {
                    self.context.state().standing.recorded(group);
                    return Ok(());
                }
            }
        }
        Err(CommandError::Internal(
            "the records of the group change all the time".to_owned(),
        ))
    }
}

/// Commands that change the same records win over a step so often.
const RECORD_TRIES: u32 = 20;

/// A record as it is stored; `None` for what cannot be read.
pub(super) fn read_value(value: &str, engine: Engine) -> Option<Record> {
    let kept: Kept = serde_json::from_str(value).ok()?;
    kept.read(engine)
}

/// A stored record.
fn read(entry: &Entry, engine: Engine) -> Result<Record, Error> {
    let odd = |reason: String| Error::Record {
        key: entry.key.clone(),
        reason,
    };
    let kept: Kept = serde_json::from_str(&entry.value).map_err(|error| odd(error.to_string()))?;
    kept.read(engine)
        .ok_or_else(|| odd("its fork is no position".to_owned()))
}

/// Puts the record in the place of the one that is stored, unless that has a greater number: steps run
/// side by side, and one that was held up may come after its successor. What cannot be read has no
/// number, as for a router that starts.
async fn put_record(
    store: &dyn Store,
    group: &str,
    engine: Option<Engine>,
    record: &Record,
) -> Result<Transaction, CommandError> {
    let key = record_key(group);
    let value = serde_json::to_string(&Kept::of(record))
        .map_err(|error| CommandError::Internal(error.to_string()))?;
    let transaction = match store.get(&key).await? {
        None => Transaction::new().when_absent(&key),
        Some(entry) => {
            let stored = engine.and_then(|engine| read(&entry, engine).ok());
            if let Some(later) = stored.filter(|stored| stored.number > record.number) {
                return Err(CommandError::Refused(format!(
                    "record {} of group {group} came after record {}",
                    record.number, later.number
                )));
            }
            Transaction::new().when_revision(&key, entry.revision)
        }
    };
    Ok(transaction.put(&key, &value))
}

/// Everybody's standing after a change of primary, and where the timeline before it ended, if one begins.
fn standing(
    records: &Records,
    mut transaction: Transaction,
    group: &str,
    primary: Option<ServerId>,
    lost: &[ServerId],
    begins_timeline: bool,
) -> Transaction {
    for (id, record) in records.members(group) {
        let leads = primary == Some(ServerId(id));
        let changed = match lost.contains(&ServerId(id)) && !leads {
            true => record.with_status(Status::Faulty),
            false => record.after_change_of_primary(leads),
        };
        transaction = records.change_server(transaction, id, &changed);
    }
    if begins_timeline && let Some(kept) = records.groups.get(group) {
        transaction = records.change_group_in(transaction, group, &kept.value);
    }
    transaction
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u64, step: Step) -> Record {
        Record {
            number,
            fork: Position::parse(Engine::MariaDb, "0-1-7"),
            lost: vec![ServerId(1)],
            unproved: vec![ServerId(2)],
            forgetful: vec![ServerId(3)],
            step,
        }
    }

    #[tokio::test]
    async fn a_record_that_came_late_is_not_stored() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = meta::Embedded::open(dir.path()).expect("a store");
        let engine = Some(Engine::MariaDb);
        let old = Some(ServerId(1));
        let first = record(1, Step::Clearing { old });
        let second = record(2, Step::Over { primary: old });
        let put = put_record(&store, "g", engine, &second).await;
        let outcome = store.commit(put.expect("newer")).await.expect("written");
        assert!(matches!(outcome, Outcome::Applied(_)));
        let late = put_record(&store, "g", engine, &first).await;
        assert!(late.is_err(), "{late:?}");
        // The same one again may be stored: its answer was lost.
        let again = put_record(&store, "g", engine, &second).await;
        assert!(again.is_ok(), "{again:?}");
        let entry = store
            .get(&record_key("g"))
            .await
            .expect("read")
            .expect("there");
        assert_eq!(read(&entry, Engine::MariaDb).expect("read"), second);
    }

    #[tokio::test]
    async fn of_two_records_at_once_the_later_one_stays() {
        let dir = tempfile::tempdir().expect("a directory");
        let store = meta::Embedded::open(dir.path()).expect("a store");
        let engine = Some(Engine::MariaDb);
        let old = Some(ServerId(1));
        let first = record(1, Step::Clearing { old });
        let second = record(2, Step::Clearing { old });
        let early = put_record(&store, "g", engine, &first).await;
        let put = put_record(&store, "g", engine, &second).await;
        store.commit(put.expect("newer")).await.expect("written");
        let outcome = store.commit(early.expect("newer")).await;
        assert_eq!(outcome.expect("answered"), Outcome::Stale);
    }
}
