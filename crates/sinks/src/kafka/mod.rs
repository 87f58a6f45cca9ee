//! Kafka: one record for each event, by an idempotent producer.
//!
//! A record's key names table and primary key, so that a row's events are in one partition, in their order; events of a
//! table without a key are in one partition, those of transactions and definitions in the one of their group. Headers
//! have the id and the token. All records are in one topic, or those of each table in one of its own. Within one connection's life the broker drops what is sent again; behind a new
//! beginning events come again with equal ids.

mod batch;
mod broker;
mod login;
mod scram;
mod topics;
mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tokio::time::Instant;

use crate::message::Message;
use crate::spec::{Brokers, Spec, Topics};
use crate::undelivered::{Undelivered, later};
use batch::{Producer, Record, partition_of, write_batch};
use broker::{Broker, Leaders, NO_LEADER, NO_TOPIC, Partition};
use login::Entrance;
pub use login::Mechanism;
use topics::topic_of;

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

/// A broker that makes a topic has it by then.
const MAKING: Duration = Duration::from_secs(5);

/// Produces into one topic, or into one for each table.
pub struct Kafka {
    at: Brokers,
    spec: Spec,
    /// `None` in front of the first batch, and behind a failure: a new producer begins then.
    session: Option<Session>,
}

/// Batches of records, by topic, each with its partition.
type Batches = BTreeMap<String, Vec<(i32, Vec<u8>)>>;

/// Records that wait, by their partitions.
type Waiting<'a> = BTreeMap<Partition, Vec<Record<'a>>>;

/// A producer that brokers know.
struct Session {
    entrance: Entrance,
    spec: Spec,
    producer: Producer,
    /// By topic.
    leaders: BTreeMap<String, Leaders>,
    /// By number.
    brokers: BTreeMap<i32, Broker>,
    /// The number of the next record of each partition.
    next: BTreeMap<Partition, i32>,
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
                None => Session::begin(&self.at, &self.spec).await?,
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
    async fn begin(at: &Brokers, spec: &Spec) -> Result<Session, Undelivered> {
        let entrance = Entrance::of(spec)?;
        let mut why = later("there is no address");
        for address in &at.addresses {
            let begun = async {
                let mut broker = Broker::open(address, &entrance).await?;
                broker.new_producer().await
            };
            match tokio::time::timeout(PATIENCE, begun).await {
                Ok(Ok(producer)) => {
                    return Ok(Session {
                        entrance,
                        spec: spec.clone(),
                        producer,
                        leaders: BTreeMap::new(),
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
        let mut waiting = self.by_partition(at, batch).await?;
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        loop {
            let mut why = None;
            for (leader, topics) in self.by_broker(&waiting, now_ms)? {
                match self.produce(leader, &topics).await {
                    Ok(answers) => {
                        for (partition, number) in answers {
                            match number {
                                0 | DUPLICATE_SEQUENCE => self.is_taken(&partition, &mut waiting),
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
            let topics: BTreeSet<&String> = waiting.keys().map(|(topic, _)| topic).collect();
            for topic in topics {
                if let Ok(leaders) = self.look_for_leaders(at, topic).await {
                    self.leaders.insert(topic.clone(), leaders);
                }
            }
        }
    }

    /// What each broker gets: by topic, each partition's records as a batch.
    fn by_broker(
        &self,
        waiting: &Waiting<'_>,
        now_ms: i64,
    ) -> Result<BTreeMap<i32, Batches>, Undelivered> {
        let mut of_broker: BTreeMap<i32, Batches> = BTreeMap::new();
        for (of, records) in waiting {
            let (topic, partition) = of;
            let leaders = self.leaders.get(topic);
            let leader = leaders.and_then(|it| it.of(*partition));
            let leader = leader.ok_or_else(|| later("a partition has no leader"))?;
            let first = self.next.get(of).copied().unwrap_or(0);
            let compress = self.spec.compress;
            let bytes = write_batch(&self.producer, first, now_ms, records, compress);
            let batches = of_broker.entry(leader).or_default();
            let batches = batches.entry(topic.clone()).or_default();
            batches.push((*partition, bytes));
        }
        Ok(of_broker)
    }

    /// A partition has its records.
    fn is_taken(&mut self, partition: &Partition, waiting: &mut Waiting<'_>) {
        if let Some(records) = waiting.remove(partition) {
            let next = self.next.entry(partition.clone()).or_insert(0);
            // As Java's clients count: behind the greatest number comes 0.
            let count = i64::try_from(records.len()).unwrap_or(0);
            let sum = (i64::from(*next) + count) % (i64::from(i32::MAX) + 1);
            *next = i32::try_from(sum).unwrap_or(0);
        }
    }

    async fn by_partition<'a>(
        &mut self,
        at: &Brokers,
        batch: &'a [Message],
    ) -> Result<Waiting<'a>, Undelivered> {
        let mut waiting = Waiting::new();
        for message in batch {
            let topic = topic_of(message, self.spec.topics, &at.name);
            let count = self.partitions(at, &topic).await?;
            let key = key(message);
            let partition = partition_of(key.as_deref().unwrap_or(&message.group), count);
            let record = Record { key, message };
            let of = (topic.into_owned(), partition);
            waiting.entry(of).or_default().push(record);
        }
        Ok(waiting)
    }

    /// How many partitions a topic has.
    async fn partitions(&mut self, at: &Brokers, topic: &str) -> Result<i32, Undelivered> {
        if !self.leaders.contains_key(topic) {
            let leaders = self.look_for_leaders(at, topic).await?;
            self.leaders.insert(topic.to_owned(), leaders);
        }
        match self.leaders.get(topic).map_or(0, Leaders::count) {
            0 => Err(later(format!("the topic {topic} has no partition"))),
            count => Ok(count),
        }
    }

    async fn produce(
        &mut self,
        leader: i32,
        topics: &Batches,
    ) -> Result<Vec<(Partition, i16)>, Undelivered> {
        let broker = match self.brokers.remove(&leader) {
            Some(broker) => broker,
            None => {
                let mut all = topics.keys().filter_map(|topic| self.leaders.get(topic));
                let address = all.find_map(|leaders| leaders.address(leader));
                let address = address.ok_or_else(|| later("a broker is not known"))?;
                Broker::open(&address, &self.entrance).await?
            }
        };
        let broker = self.brokers.entry(leader).or_insert(broker);
        broker.produce(topics).await
    }

    /// Who leads a topic's partitions. A topic of a table may have to be made by its broker.
    async fn look_for_leaders(&self, at: &Brokers, topic: &str) -> Result<Leaders, Undelivered> {
        let may_make = self.spec.topics == Topics::Table;
        let until = Instant::now() + MAKING;
        let mut why = later("there is no address");
        for address in at.addresses.iter().cycle() {
            let entrance = &self.entrance;
            let asked = async {
                let broker = Broker::open(address, entrance).await;
                let mut broker = broker.map_err(|error| (0, error))?;
                broker.leaders(topic, may_make).await
            };
            let number = match tokio::time::timeout(PATIENCE / 4, asked).await {
                Ok(Ok(leaders)) => return Ok(leaders),
                Ok(Err((number, error))) => {
                    why = error;
                    number
                }
                Err(_) => {
                    why = later(format!("Kafka at {address} does not answer"));
                    0
                }
            };
            let is_made = may_make && matches!(number, NO_TOPIC | NO_LEADER);
            let is_last = at.addresses.last() == Some(address);
            if Instant::now() > until || is_last && !is_made {
                break;
            }
            if is_last {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Err(why)
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
