//! NATS JetStream: one message for each event, which the server takes once.
//!
//! `Nats-Msg-Id` is the event's id, so that a stream drops what comes twice within its `duplicate_window`. Messages of a
//! batch are sent together, each on condition that the one before it is the stream's last (`Nats-Expected-Last-Msg-Id`):
//! what fails in the middle cannot be overtaken. Where others write into the stream, too, that does not hold, and the
//! rest goes one by one.

mod connection;
mod login;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::link::trust_of;
use crate::message::Message;
use crate::spec::{Brokers, Spec};
use crate::undelivered::{Undelivered, later};
use connection::{Connection, Reply};

/// For a batch, and for a question.
const PATIENCE: Duration = Duration::from_secs(20);

/// JetStream's numbers of errors.
const WRONG_LAST_ID: u64 = 10070;
const TOO_LONG: u64 = 10054;

/// Publishes below one subject.
pub struct Nats {
    at: Brokers,
    spec: Spec,
    connection: Option<Connection>,
}

/// What JetStream says to a message.
#[derive(Deserialize)]
struct Ack {
    error: Option<AckError>,
}

#[derive(Deserialize)]
struct AckError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

/// Why a message was not taken.
enum Failed {
    /// The one before it is not the last one.
    NotBehind,
    Undelivered(Undelivered),
}

impl Nats {
    pub(crate) fn new(at: Brokers, spec: &Spec) -> Nats {
        Nats {
            at,
            spec: spec.clone(),
            connection: None,
        }
    }

    /// The token of the last message below the subject, where a stream still has it.
    pub(crate) async fn reached(&mut self) -> Result<Option<String>, Undelivered> {
        let asking = async {
            let mut connection = self.connect().await?;
            let filter = json!({ "subject": format!("{}.>", self.at.name) });
            let names = connection.ask("$JS.API.STREAM.NAMES", &filter).await?;
            let Some(stream) = names["streams"][0].as_str() else {
                let why = format!("no stream of JetStream takes {}.>", self.at.name);
                return Err(later(why));
            };
            let last = json!({ "last_by_subj": format!("{}.>", self.at.name) });
            let subject = format!("$JS.API.STREAM.MSG.GET.{stream}");
            let found = connection.ask(&subject, &last).await?;
            let data = found["message"]["data"].as_str();
            let line = data.and_then(|data| BASE64.decode(data).ok());
            let line: Option<Value> = line.and_then(|line| serde_json::from_slice(&line).ok());
            let token = line.and_then(|line| line["token"].as_str().map(str::to_owned));
            Ok((connection, token))
        };
        let (connection, token) = in_time(asking).await?;
        self.connection = Some(connection);
        Ok(token)
    }

    pub(crate) async fn deliver(&mut self, batch: &[Message]) -> Result<usize, Undelivered> {
        let kept = self.connection.take();
        let delivering = async {
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect().await?,
            };
            match batch {
                // The server asks whether anybody is there.
                [] => connection.attend().await?,
                batch => self.publish(&mut connection, batch).await?,
            }
            Ok(connection)
        };
        self.connection = Some(in_time(delivering).await?);
        Ok(batch.iter().map(|it| it.line.len()).sum())
    }

    async fn publish(
        &self,
        connection: &mut Connection,
        batch: &[Message],
    ) -> Result<(), Undelivered> {
        let bytes_max = connection.payload_bytes_max();
        if let Some(long) = batch.iter().find(|it| it.line.len() > bytes_max) {
            return Err(Undelivered::Refused(format!(
                "the event has {} bytes, and the server takes {bytes_max} (max_payload)",
                long.line.len()
            )));
        }
        let mut before = None;
        let first = connection.next_reply();
        for message in batch {
            let subject = subject(&self.at.name, message);
            connection.publish(&subject, &headers(&message.id, before), &message.line);
            before = Some(&*message.id);
        }
        connection.flush().await?;
        let replies = connection.replies(first, batch.len()).await?;
        let failed = replies.iter().map(judge).position(|it| it.is_err());
        let Some(at) = failed else {
            return Ok(());
        };
        match judge(&replies[at]) {
            Err(Failed::Undelivered(why)) if at == 0 => return Err(why),
            // What came before is taken, so it is not refused with this one.
            Err(Failed::Undelivered(Undelivered::Later(why, pause))) => {
                return Err(Undelivered::Later(why, pause));
            }
            _ => {}
        }
        for message in &batch[at..] {
            let first = connection.next_reply();
            let subject = subject(&self.at.name, message);
            connection.publish(&subject, &headers(&message.id, None), &message.line);
            connection.flush().await?;
            let replies = connection.replies(first, 1).await?;
            for reply in &replies {
                judge(reply).map_err(|failed| match failed {
                    Failed::Undelivered(why) => why,
                    Failed::NotBehind => later("the stream does not take events one by one"),
                })?;
            }
        }
        Ok(())
    }

    async fn connect(&self) -> Result<Connection, Undelivered> {
        let trust = trust_of(&self.spec)?;
        let mut why = later("there is no address");
        for address in &self.at.addresses {
            match Connection::open(address, &self.spec.account, trust.as_ref()).await {
                Ok(connection) => return Ok(connection),
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

async fn in_time<T>(work: impl Future<Output = Result<T, Undelivered>>) -> Result<T, Undelivered> {
    let done = tokio::time::timeout(PATIENCE, work).await;
    let seconds = PATIENCE.as_secs();
    done.unwrap_or_else(|_| Err(later(format!("NATS did not answer in {seconds} s"))))
}

fn headers(id: &str, before: Option<&str>) -> String {
    let mut text = format!("NATS/1.0\r\nNats-Msg-Id: {id}\r\n");
    if let Some(before) = before {
        text.push_str(&format!("Nats-Expected-Last-Msg-Id: {before}\r\n"));
    }
    text + "\r\n"
}

/// `PREFIX.GROUP.DATABASE.TABLE` for what is about a table, `PREFIX.GROUP` for the rest.
fn subject(prefix: &str, message: &Message) -> String {
    let mut subject = format!("{prefix}.{}", piece(&message.group));
    if let Some((database, table)) = &message.table {
        subject.push_str(&format!(".{}.{}", piece(database), piece(table)));
    }
    subject
}

/// A name as one piece of a subject: what means something there is written as in URLs.
fn piece(name: &str) -> String {
    let mut piece = String::new();
    for byte in name.bytes() {
        match byte {
            b'.' | b'*' | b'>' | b'%' | 0..=0x20 | 0x7F => piece.push_str(&format!("%{byte:02X}")),
            _ if byte.is_ascii() => piece.push(byte.into()),
            _ => piece.push_str(&format!("%{byte:02X}")),
        }
    }
    piece
}

fn judge(reply: &Reply) -> Result<(), Failed> {
    let failed = |why| Err(Failed::Undelivered(why));
    if reply.is_nobody {
        return failed(later(
            "no stream of JetStream takes the subject; make one with `subjects` PREFIX.>",
        ));
    }
    let ack: Result<Ack, _> = serde_json::from_slice(&reply.payload);
    match ack {
        Ok(Ack { error: None }) => Ok(()),
        Ok(Ack { error: Some(error) }) if error.err_code == WRONG_LAST_ID => Err(Failed::NotBehind),
        Ok(Ack { error: Some(error) }) => {
            let text = format!("JetStream: {} ({})", error.description, error.err_code);
            match error.err_code {
                TOO_LONG => failed(Undelivered::Refused(text)),
                _ => failed(later(text)),
            }
        }
        Err(error) => failed(later(format!("JetStream's answer: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_name_the_table() {
        let mut message = Message {
            group: "g1".to_owned(),
            ..Message::default()
        };
        assert_eq!(subject("farm", &message), "farm.g1");
        message.table = Some(("a.b".to_owned(), "t \u{f6}".to_owned()));
        assert_eq!(subject("farm", &message), "farm.g1.a%2Eb.t%20%C3%B6");
    }

    #[test]
    fn answers_are_judged() {
        let judge = |payload: &str| {
            judge(&Reply {
                is_nobody: false,
                payload: payload.as_bytes().to_vec(),
            })
        };
        assert!(judge(r#"{"stream":"s","seq":1,"duplicate":true}"#).is_ok());
        let wrong =
            r#"{"error":{"code":400,"err_code":10070,"description":"wrong last msg ID: x"}}"#;
        assert!(matches!(judge(wrong), Err(Failed::NotBehind)));
        let long = r#"{"error":{"code":400,"err_code":10054,"description":"too long"}}"#;
        let refused = judge(long);
        assert!(matches!(
            refused,
            Err(Failed::Undelivered(Undelivered::Refused(_)))
        ));
        assert!(matches!(
            judge("x"),
            Err(Failed::Undelivered(Undelivered::Later(..)))
        ));
    }
}
