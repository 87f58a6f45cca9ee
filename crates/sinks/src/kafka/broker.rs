//! A connection to one broker, and the three questions that a producer has.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::batch::Producer;
use super::login::Entrance;
use super::wire::{Reader, Writer};
use crate::link::{Stream, connect, secure};
use crate::undelivered::{Undelivered, later};

/// For one question.
const PATIENCE: Duration = Duration::from_secs(10);

/// So long a broker may wait for its replicas.
const ACKS_MS: i32 = 8000;

/// Longest answer.
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// What is asked, with the version that is spoken: Kafka 0.11 to 4 know them.
const PRODUCE: (i16, i16) = (0, 7);
const METADATA: (i16, i16) = (3, 4);
const INIT_PRODUCER: (i16, i16) = (22, 1);

/// Numbers of errors: UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE.
pub(super) const NO_TOPIC: i16 = 3;
pub(super) const NO_LEADER: i16 = 5;

/// A topic, and the number of one of its partitions.
pub(super) type Partition = (String, i32);

pub(super) struct Broker {
    address: String,
    stream: Stream,
    /// Of the last question.
    number: i32,
}

/// Who leads the partitions of a topic.
pub(super) struct Leaders {
    addresses: BTreeMap<i32, String>,
    leaders: BTreeMap<i32, i32>,
}

impl Leaders {
    /// How many partitions there are.
    pub(super) fn count(&self) -> i32 {
        i32::try_from(self.leaders.len()).unwrap_or(0)
    }

    pub(super) fn of(&self, partition: i32) -> Option<i32> {
        self.leaders.get(&partition).copied().filter(|it| *it >= 0)
    }

    pub(super) fn address(&self, broker: i32) -> Option<String> {
        self.addresses.get(&broker).cloned()
    }
}

impl Broker {
    /// Connects, and logs in where somebody has to.
    pub(super) async fn open(address: &str, entrance: &Entrance) -> Result<Broker, Undelivered> {
        let mut mechanism = entrance.first();
        loop {
            let mut broker = Broker::connect(address, entrance).await?;
            if entrance.is_open() {
                return Ok(broker);
            }
            // A broker closes a connection that began with a mechanism which it does not know.
            match broker.log_in(entrance, mechanism).await? {
                None => return Ok(broker),
                Some(other) if other == mechanism => return Err(broker.broken()),
                Some(other) => mechanism = other,
            }
        }
    }

    async fn connect(address: &str, entrance: &Entrance) -> Result<Broker, Undelivered> {
        let connecting = async {
            let stream = connect(address).await?;
            match &entrance.trust {
                Some(trust) => secure(stream, address, trust).await,
                None => Ok(Box::new(stream) as Stream),
            }
        };
        let connecting = tokio::time::timeout(PATIENCE, connecting).await;
        let stream = connecting.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let stream = stream.map_err(|error| later(format!("Kafka at {address}: {error}")))?;
        Ok(Broker {
            address: address.to_owned(),
            stream,
            number: 0,
        })
    }

    /// A producer that nobody was before.
    pub(super) async fn new_producer(&mut self) -> Result<Producer, Undelivered> {
        let mut request = Writer::default();
        // Without transactions.
        request.i16(-1);
        request.i32(60_000);
        let answer = self.ask(INIT_PRODUCER, request).await?;
        let mut read = Reader(&answer);
        let mut parse = || {
            read.skip(4)?;
            Some((read.i16()?, read.i64()?, read.i16()?))
        };
        match parse() {
            Some((0, id, epoch)) => Ok(Producer { id, epoch }),
            Some((number, ..)) => Err(self.failed(&super::error(number))),
            None => Err(self.failed(BROKEN)),
        }
    }

    /// Who leads the partitions of a topic; `Err` with the error's number in front where it cannot be said.
    /// A topic that is not there may be made by the broker, if its settings say so, and if it `may_make` it.
    pub(super) async fn leaders(
        &mut self,
        topic: &str,
        may_make: bool,
    ) -> Result<Leaders, (i16, Undelivered)> {
        let mut request = Writer::default();
        request.length(1);
        request.text(topic);
        request.i8(i8::from(may_make));
        let answer = self.ask(METADATA, request).await.map_err(|it| (0, it))?;
        let parsed = parse_leaders(&mut Reader(&answer));
        match parsed {
            Some((0, leaders)) => Ok(leaders),
            Some((number @ NO_TOPIC, _)) => {
                Err((number, self.failed(&format!("there is no topic {topic}"))))
            }
            Some((number, _)) => Err((number, self.failed(&super::error(number)))),
            None => Err((0, self.failed(BROKEN))),
        }
    }

    /// Gives batches of records to partitions of topics that this broker leads; the answer has each partition's error,
    /// or 0.
    pub(super) async fn produce(
        &mut self,
        topics: &BTreeMap<String, Vec<(i32, Vec<u8>)>>,
    ) -> Result<Vec<(Partition, i16)>, Undelivered> {
        let mut request = Writer::default();
        request.i16(-1);
        // All replicas that are in sync have it.
        request.i16(-1);
        request.i32(ACKS_MS);
        request.length(topics.len());
        for (topic, partitions) in topics {
            request.text(topic);
            request.length(partitions.len());
            for (partition, records) in partitions {
                request.i32(*partition);
                request.bytes(records);
            }
        }
        let answer = self.ask(PRODUCE, request).await?;
        let mut read = Reader(&answer);
        let topics = read.list(|read| {
            let topic = read.text()?;
            let partitions = read.list(|read| {
                let (partition, number) = (read.i32()?, read.i16()?);
                read.skip(8 + 8 + 8)?;
                Some((partition, number))
            })?;
            let of_topic = partitions.into_iter();
            let of_topic = of_topic.map(|(it, number)| ((topic.clone(), it), number));
            Some(of_topic.collect::<Vec<_>>())
        });
        let topics = topics.ok_or_else(|| self.failed(BROKEN))?;
        Ok(topics.into_iter().flatten().collect())
    }

    pub(super) async fn ask(
        &mut self,
        what: (i16, i16),
        body: Writer,
    ) -> Result<Vec<u8>, Undelivered> {
        let exchange = tokio::time::timeout(PATIENCE, self.exchange(what, body)).await;
        let answer = exchange.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        answer.map_err(|error| self.failed(&error.to_string()))
    }

    async fn exchange(&mut self, (key, version): (i16, i16), body: Writer) -> io::Result<Vec<u8>> {
        self.number = self.number.wrapping_add(1);
        let mut request = Writer::default();
        request.i16(key);
        request.i16(version);
        request.i32(self.number);
        request.text("heddle");
        request.0.extend_from_slice(&body.0);
        let mut whole = Writer::default();
        whole.bytes(&request.0);
        self.stream.write_all(&whole.0).await?;
        self.stream.flush().await?;
        let length = usize::try_from(self.stream.read_i32().await?).unwrap_or(usize::MAX);
        if !(4..=ANSWER_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(BROKEN));
        }
        let number = self.stream.read_i32().await?;
        let mut answer = vec![0; length - 4];
        self.stream.read_exact(&mut answer).await?;
        match number == self.number {
            true => Ok(answer),
            false => Err(io::Error::other(BROKEN)),
        }
    }

    pub(super) fn broken(&self) -> Undelivered {
        self.failed(BROKEN)
    }

    pub(super) fn failed(&self, why: &str) -> Undelivered {
        later(format!("Kafka at {}: {why}", self.address))
    }
}

const BROKEN: &str = "it does not keep to the protocol";

/// The error of the topic, and who leads its partitions.
fn parse_leaders(read: &mut Reader<'_>) -> Option<(i16, Leaders)> {
    read.skip(4)?;
    let brokers = read.list(|read| {
        let (id, host, port) = (read.i32()?, read.text()?, read.i32()?);
        read.text()?;
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        Some((id, format!("{host}:{port}")))
    })?;
    // The cluster and its controller.
    read.text()?;
    read.skip(4)?;
    let topics = read.list(|read| {
        let number = read.i16()?;
        read.text()?;
        read.skip(1)?;
        let partitions = read.list(|read| {
            read.skip(2)?;
            let (partition, leader) = (read.i32()?, read.i32()?);
            read.list(Reader::i32)?;
            read.list(Reader::i32)?;
            Some((partition, leader))
        })?;
        Some((number, partitions))
    })?;
    let (number, partitions) = topics.into_iter().next()?;
    let leaders = Leaders {
        addresses: brokers.into_iter().collect(),
        leaders: partitions.into_iter().collect(),
    };
    Some((number, leaders))
}
