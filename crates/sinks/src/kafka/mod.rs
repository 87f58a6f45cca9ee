//! Kafka: one record for each event, by an idempotent producer.
//!
//! A record's key names table and primary key, so that a row's events are in one partition, in their order; events of a
//! table without a key are in one partition, those of transactions and definitions in the one of their group. Headers
//! have the id and the token. Within one connection's life the broker drops what is sent again; behind a new
//! beginning events come again with equal ids.

mod batch;
mod broker;
mod login;
mod scram;
mod wire;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::time::Instant;

use crate::message::Message;
use crate::spec::{Brokers, Spec};
use crate::undelivered::{Undelivered, later};
use batch::{Producer, Record, partition_of, write_batch};
use broker::{Broker, Leaders};
use login::Entrance;
pub use login::Mechanism;

/// A batch is tried for so long before somebody is told.
const PATIENCE: Duration = Duration::from_secs(20);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(200);

/// Numbers of errors.
const DUPLICATE_SEQUENCE: i16 = 46;
/// CORRUPT_MESSAGE, UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER, REQUEST_TIMED_OUT,
/// NETWORK_EXCEPTION, COORDINATOR_LOAD_IN_PROGRESS, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
/// KAFKA_STORAGE_ERROR, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH: another try may go well.
const PASSING: &[i16] = &[2, 3, 5, 6, 7, 13, 14, 19, 20, 56, 74, 75];
/// MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD.
const REFUSED: &[i16] = &[10, 18, 87];

/// Produces into one topic.
pub struct Kafka {
    at: Brokers,
    spec: Spec,
    /// `None` in front of the first batch, and behind a failure: a new producer begins then.
    session: Option<Session>,
}

/// A producer that brokers know.
struct Session {
    entrance: Entrance,
    producer: Producer,
    leaders: Leaders,
    /// By number.
    brokers: BTreeMap<i32, Broker>,
    /// The number of the next record of each partition.
    next: BTreeMap<i32, i32>,
}

impl Kafka {
    pub(crate) fn new(at: Brokers, spec: &Spec) -> Kafka {
        Kafka {
            at,
            spec: spec.clone(),
            session: None,
        }
    }

    pub(crate) async fn deliver(&mut self, batch: &[Message]) -> Result<usize, Undelivered> {
        if batch.is_empty() {
            return Ok(0);
        }
        let until = Instant::now() + PATIENCE;
        // What was dropped in the middle is of an unknown fate: only a new producer's numbers are sure.
        let session = self.session.take();
        let delivering = async {
            let mut session = match session {
                Some(session) => session,
                None => Session::begin(&self.at, Entrance::of(&self.spec)?).await?,
            };
            session.deliver(&self.at, batch, until).await?;
            Ok(session)
        };
        let done = tokio::time::timeout_at(until + PATIENCE, delivering).await;
        let done = done.unwrap_or_else(|_| Err(later("Kafka does not answer")));
        self.session = Some(done?);
        Ok(batch.iter().map(|it| it.line.len()).sum())
    }
}

impl Session {
    async fn begin(at: &Brokers, entrance: Entrance) -> Result<Session, Undelivered> {
        let mut why = later("there is no address");
        for address in &at.addresses {
            let begun = async {
                let mut broker = Broker::open(address, &entrance).await?;
                let producer = broker.new_producer().await?;
                Ok((producer, broker.leaders(&at.name).await?))
            };
            match tokio::time::timeout(PATIENCE, begun).await {
                Ok(Ok((producer, leaders))) => {
                    return Ok(Session {
                        entrance,
                        producer,
                        leaders,
                        brokers: BTreeMap::new(),
                        next: BTreeMap::new(),
                    });
                }
                Ok(Err(error)) => why = error,
                Err(_) => why = later(format!("Kafka at {address} does not answer")),
            }
        }
        Err(why)
    }

    async fn deliver(
        &mut self,
        at: &Brokers,
        batch: &[Message],
        until: Instant,
    ) -> Result<(), Undelivered> {
        let mut waiting = self.by_partition(batch)?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        loop {
            let mut why = None;
            let mut of_broker: BTreeMap<i32, Vec<(i32, Vec<u8>)>> = BTreeMap::new();
            for (partition, records) in &waiting {
                let leader = self.leaders.of(*partition);
                let leader = leader.ok_or_else(|| later("a partition has no leader"))?;
                let first = self.next.get(partition).copied().unwrap_or(0);
                let bytes = write_batch(&self.producer, first, now_ms, records);
                of_broker
                    .entry(leader)
                    .or_default()
                    .push((*partition, bytes));
            }
            for (leader, partitions) in of_broker {
                match self.produce(leader, &at.name, &partitions).await {
                    Ok(answers) => {
                        for (partition, number) in answers {
                            match number {
                                0 | DUPLICATE_SEQUENCE => self.is_taken(partition, &mut waiting),
                                number if PASSING.contains(&number) => why = Some(error(number)),
                                number if REFUSED.contains(&number) => {
                                    return Err(Undelivered::Refused(error(number)));
                                }
                                number => return Err(later(error(number))),
                            }
                        }
                    }
                    Err(Undelivered::Later(text, _)) => {
                        self.brokers.remove(&leader);
                        why = Some(text);
                    }
                    Err(refused) => return Err(refused),
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            let why = why.unwrap_or_else(|| "a broker answered for other partitions".to_owned());
            if Instant::now() > until {
                return Err(later(why));
            }
            tokio::time::sleep(PAUSE).await;
            self.look_for_leaders(at).await;
        }
    }

    /// A partition has its records.
    fn is_taken(&mut self, partition: i32, waiting: &mut BTreeMap<i32, Vec<Record<'_>>>) {
        if let Some(records) = waiting.remove(&partition) {
            let next = self.next.entry(partition).or_insert(0);
            // As Java's clients count: behind the greatest number comes 0.
            let count = i64::try_from(records.len()).unwrap_or(0);
            let sum = (i64::from(*next) + count) % (i64::from(i32::MAX) + 1);
            *next = i32::try_from(sum).unwrap_or(0);
        }
    }

    fn by_partition<'a>(
        &self,
        batch: &'a [Message],
    ) -> Result<BTreeMap<i32, Vec<Record<'a>>>, Undelivered> {
        let count = self.leaders.count();
        if count == 0 {
            return Err(later("the topic has no partition"));
        }
        let mut waiting: BTreeMap<i32, Vec<Record<'a>>> = BTreeMap::new();
        for message in batch {
            let key = key(message);
            let partition = partition_of(key.as_deref().unwrap_or(&message.group), count);
            let record = Record { key, message };
            waiting.entry(partition).or_default().push(record);
        }
        Ok(waiting)
    }

    async fn produce(
        &mut self,
        leader: i32,
        topic: &str,
        partitions: &[(i32, Vec<u8>)],
    ) -> Result<Vec<(i32, i16)>, Undelivered> {
        let broker = match self.brokers.remove(&leader) {
            Some(broker) => broker,
            None => {
                let address = self.leaders.address(leader);
                let address = address.ok_or_else(|| later("a broker is not known"))?;
                Broker::open(&address, &self.entrance).await?
            }
        };
        let broker = self.brokers.entry(leader).or_insert(broker);
        broker.produce(topic, partitions).await
    }

    async fn look_for_leaders(&mut self, at: &Brokers) {
        for address in &at.addresses {
            let entrance = &self.entrance;
            let asked = async {
                let mut broker = Broker::open(address, entrance).await?;
                broker.leaders(&at.name).await
            };
            if let Ok(Ok(leaders)) = tokio::time::timeout(PATIENCE / 4, asked).await {
                self.leaders = leaders;
                return;
            }
        }
    }
}

fn error(number: i16) -> String {
    format!("Kafka answered with its error {number}")
}

/// The key of a message's record, if it is about a table.
fn key(message: &Message) -> Option<String> {
    if let Some(record) = &message.record {
        return record.key.clone();
    }
    let (database, table) = message.table.as_ref()?;
    let table = Value::from(format!("{database}.{table}"));
    Some(match &message.key {
        Some(key) => format!(r#"{{"table":{table},"key":{key}}}"#),
        None => format!(r#"{{"table":{table}}}"#),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_the_table_and_the_row() {
        let mut message = Message::default();
        assert_eq!(key(&message), None);
        message.table = Some(("d".to_owned(), "t".to_owned()));
        assert_eq!(key(&message).as_deref(), Some(r#"{"table":"d.t"}"#));
        message.key = Some(r#"{"a":1}"#.to_owned());
        let expected = r#"{"table":"d.t","key":{"a":1}}"#;
        assert_eq!(key(&message).as_deref(), Some(expected));
        message.record = Some(crate::message::Record {
            key: Some(r#"{"a":1}"#.to_owned()),
            ..crate::message::Record::default()
        });
        assert_eq!(key(&message).as_deref(), Some(r#"{"a":1}"#));
    }
}
