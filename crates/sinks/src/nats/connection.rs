//! A connection to a NATS server: its text protocol, as far as publishing and asking need it.
//!
//! A server says what it is in clear; TLS begins behind that, in front of anything secret. A sink that wants TLS says
//! nothing to a server that has none.

use std::io;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::ClientConfig;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::login::log_in;
use crate::account::Account;
use crate::link::{Stream, connect, secure};
use crate::undelivered::{Undelivered, later};

/// Longest message that is read, and longest line.
const PAYLOAD_BYTES_MAX: usize = 16 << 20;
const LINE_BYTES_MAX: usize = 64 << 10;

/// What somebody answered.
pub(super) struct Reply {
    /// Nobody listens to the subject.
    pub(super) is_nobody: bool,
    pub(super) payload: Vec<u8>,
}

/// What a server says first.
#[derive(Deserialize)]
struct Info {
    #[serde(default)]
    headers: bool,
    max_payload: usize,
    #[serde(default)]
    tls_required: bool,
    #[serde(default)]
    tls_available: bool,
    /// What a login by a key signs.
    nonce: Option<String>,
}

/// What a server says.
enum Said {
    Info(Info),
    /// An answer, to the question of this number.
    Reply(u64, Reply),
    Ping,
    Pong,
    Error(String),
    Nothing,
}

pub(super) struct Connection {
    address: String,
    stream: Stream,
    /// What came and was not read.
    buffer: Vec<u8>,
    /// What is to be sent.
    out: Vec<u8>,
    inbox: String,
    /// Of the last question.
    number: u64,
    payload_bytes_max: usize,
}

impl Connection {
    /// Connects, and logs in; inside TLS to a server that satisfies `trust`, where there is one.
    pub(super) async fn open(
        address: &str,
        account: &Account,
        trust: Option<&Arc<ClientConfig>>,
    ) -> Result<Connection, Undelivered> {
        let failed = |error: io::Error| later(format!("NATS at {address}: {error}"));
        let stream = connect(address).await.map_err(failed)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let nanos = now.unwrap_or_default().as_nanos();
        let mut connection = Connection {
            address: address.to_owned(),
            stream: Box::new(stream),
            buffer: Vec::new(),
            out: Vec::new(),
            inbox: format!("_INBOX.heddle{:x}x{nanos:x}", std::process::id()),
            number: 0,
            payload_bytes_max: 0,
        };
        let Said::Info(info) = connection.hear().await? else {
            return Err(later(format!("{address} does not speak NATS")));
        };
        if let Some(why) = objection(&info, trust.is_some()) {
            return Err(later(format!("the NATS server at {address} {why}")));
        }
        if let Some(trust) = trust {
            // What came in clear is not what the server inside TLS says.
            connection.buffer.clear();
            connection.stream = secure(connection.stream, address, trust)
                .await
                .map_err(failed)?;
        }
        connection.payload_bytes_max = info.max_payload;
        connection.greet(account, &info).await?;
        Ok(connection)
    }

    async fn greet(&mut self, account: &Account, info: &Info) -> Result<(), Undelivered> {
        let mut options = json!({
            "verbose": false, "pedantic": false, "lang": "rust", "version": env!("CARGO_PKG_VERSION"),
            "name": "heddle", "headers": true, "no_responders": true,
        });
        log_in(account, info.nonce.as_deref(), &mut options)?;
        let hello = format!("CONNECT {options}\r\nSUB {}.* 1\r\nPING\r\n", self.inbox);
        self.out.extend_from_slice(hello.as_bytes());
        self.flush().await?;
        loop {
            match self.hear().await? {
                Said::Pong => return Ok(()),
                Said::Error(why) => return Err(self.failed(&why)),
                _ => {}
            }
        }
    }

    /// A message may have so many bytes without its headers.
    pub(super) fn payload_bytes_max(&self) -> usize {
        self.payload_bytes_max.saturating_sub(1024)
    }

    /// The number that the next message's answer will have.
    pub(super) fn next_reply(&self) -> u64 {
        self.number + 1
    }

    /// Has a message sent with the next flush.
    pub(super) fn publish(&mut self, subject: &str, headers: &str, payload: &[u8]) {
        self.number += 1;
        let reply = format!("{}.{}", self.inbox, self.number);
        let (head, all) = (headers.len(), headers.len() + payload.len());
        let line = format!("HPUB {subject} {reply} {head} {all}\r\n{headers}");
        self.out.extend_from_slice(line.as_bytes());
        self.out.extend_from_slice(payload);
        self.out.extend_from_slice(b"\r\n");
    }

    pub(super) async fn flush(&mut self) -> Result<(), Undelivered> {
        let out = std::mem::take(&mut self.out);
        let sent = match self.stream.write_all(&out).await {
            Ok(()) => self.stream.flush().await,
            Err(error) => Err(error),
        };
        sent.map_err(|error| self.failed(&error.to_string()))
    }

    /// The answers to so many messages, from this number on, in the order of the messages.
    pub(super) async fn replies(
        &mut self,
        first: u64,
        count: usize,
    ) -> Result<Vec<Reply>, Undelivered> {
        let mut replies: Vec<Option<Reply>> = (0..count).map(|_| None).collect();
        let mut missing = count;
        while missing > 0 {
            match self.hear().await? {
                Said::Reply(number, reply) => {
                    let at = number
                        .checked_sub(first)
                        .and_then(|at| usize::try_from(at).ok());
                    if let Some(place) = at.and_then(|at| replies.get_mut(at))
                        && place.replace(reply).is_none()
                    {
                        missing -= 1;
                    }
                }
                Said::Error(why) => return Err(self.failed(&why)),
                Said::Ping => self.pong().await?,
                _ => {}
            }
        }
        Ok(replies.into_iter().flatten().collect())
    }

    /// Asks JetStream something.
    pub(super) async fn ask(&mut self, subject: &str, of: &Value) -> Result<Value, Undelivered> {
        let first = self.next_reply();
        self.publish(subject, "NATS/1.0\r\n\r\n", of.to_string().as_bytes());
        self.flush().await?;
        let replies = self.replies(first, 1).await?;
        match replies.first() {
            Some(reply) if !reply.is_nobody => {
                let answer = serde_json::from_slice(&reply.payload);
                answer.map_err(|error| self.failed(&error.to_string()))
            }
            _ => Err(self.failed("JetStream is not enabled")),
        }
    }

    /// Answers what the server has asked, and sees whether it is there.
    pub(super) async fn attend(&mut self) -> Result<(), Undelivered> {
        self.out.extend_from_slice(b"PING\r\n");
        self.flush().await?;
        loop {
            match self.hear().await? {
                Said::Pong => return Ok(()),
                Said::Ping => self.pong().await?,
                Said::Error(why) => return Err(self.failed(&why)),
                _ => {}
            }
        }
    }

    async fn pong(&mut self) -> Result<(), Undelivered> {
        self.out.extend_from_slice(b"PONG\r\n");
        self.flush().await
    }

    fn failed(&self, why: &str) -> Undelivered {
        later(format!("NATS at {}: {why}", self.address))
    }

    async fn hear(&mut self) -> Result<Said, Undelivered> {
        loop {
            match parse(&self.buffer, &self.inbox) {
                Ok(Some((said, bytes))) => {
                    self.buffer.drain(..bytes);
                    return Ok(said);
                }
                Ok(None) => {}
                Err(why) => return Err(self.failed(why)),
            }
            match self.stream.read_buf(&mut self.buffer).await {
                Ok(0) => return Err(self.failed("it closed the connection")),
                Ok(_) => {}
                Err(error) => return Err(self.failed(&error.to_string())),
            }
        }
    }
}

/// Why a server is not spoken to.
fn objection(info: &Info, is_secure: bool) -> Option<&'static str> {
    match (is_secure, info.tls_required) {
        (false, true) => Some("wants TLS: make the sink with --tls"),
        (true, false) if !info.tls_available => Some("has no TLS, which the sink wants"),
        _ if !info.headers => Some("knows no headers; NATS 2.2 does"),
        _ => None,
    }
}

const BROKEN: &str = "it does not keep to the protocol";

/// The first thing that is said whole, and how many bytes it has.
fn parse(bytes: &[u8], inbox: &str) -> Result<Option<(Said, usize)>, &'static str> {
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else {
        return match bytes.len() > LINE_BYTES_MAX {
            true => Err(BROKEN),
            false => Ok(None),
        };
    };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|_| BROKEN)?;
    let (verb, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let behind = end + 2;
    let said = match &*verb.to_ascii_uppercase() {
        "INFO" => Said::Info(serde_json::from_str(rest).map_err(|_| BROKEN)?),
        "PING" => Said::Ping,
        "PONG" => Said::Pong,
        "+OK" => Said::Nothing,
        "-ERR" => Said::Error(rest.trim_matches(['\'', ' ']).to_owned()),
        "MSG" | "HMSG" => {
            let words: Vec<&str> = rest.split_ascii_whitespace().collect();
            let number = |word: &str| word.parse::<usize>().map_err(|_| BROKEN);
            let (head, all) = match (verb, &words[..]) {
                ("HMSG", [.., head, all]) => (number(head)?, number(all)?),
                ("MSG", [.., all]) => (0, number(all)?),
                _ => return Err(BROKEN),
            };
            if all > PAYLOAD_BYTES_MAX || head > all {
                return Err(BROKEN);
            }
            let Some(whole) = bytes.get(behind..behind + all + 2) else {
                return Ok(None);
            };
            let to = words.first().and_then(|to| to.strip_prefix(inbox));
            let to = to.and_then(|to| to.strip_prefix('.')?.parse().ok());
            let reply = Reply {
                is_nobody: whole[..head].starts_with(b"NATS/1.0 503"),
                payload: whole[head..all].to_vec(),
            };
            let said = to.map_or(Said::Nothing, |to| Said::Reply(to, reply));
            return Ok(Some((said, behind + all + 2)));
        }
        _ => return Err(BROKEN),
    };
    Ok(Some((said, behind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_that_wants_tls_tells_a_server_without_it_nothing() {
        let info = |text: &str| serde_json::from_str::<Info>(text).expect("it is read");
        let plain = info(r#"{"headers":true,"max_payload":1}"#);
        assert_eq!(objection(&plain, false), None);
        assert!(objection(&plain, true).is_some());
        let secure = info(r#"{"headers":true,"max_payload":1,"tls_required":true,"nonce":"x"}"#);
        assert_eq!(objection(&secure, true), None);
        assert!(objection(&secure, false).is_some_and(|it| it.contains("--tls")));
    }

    #[test]
    fn what_a_server_says_is_read_piece_by_piece() {
        let text = b"PING\r\nMSG in.7 1 2\r\n{}\r\nHMSG in.8 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n-ERR 'no'\r\n";
        let mut rest = &text[..];
        let mut all = Vec::new();
        while let Ok(Some((said, bytes))) = parse(rest, "in") {
            for cut in 0..bytes {
                assert!(matches!(parse(&rest[..cut], "in"), Ok(None)), "{cut}");
            }
            all.push(said);
            rest = &rest[bytes..];
        }
        assert!(rest.is_empty());
        assert!(matches!(all[0], Said::Ping));
        assert!(matches!(&all[1], Said::Reply(7, reply) if reply.payload == b"{}"));
        assert!(matches!(&all[2], Said::Reply(8, reply) if reply.is_nobody));
        assert!(matches!(&all[3], Said::Error(why) if why == "no"));
        for wrong in [
            "HTTP/1.1 400\r\n",
            "MSG a\r\n",
            "MSG a 1 99999999999\r\n",
            "HMSG a 1 9 3\r\n",
        ] {
            assert!(parse(wrong.as_bytes(), "in").is_err(), "{wrong}");
        }
    }
}
