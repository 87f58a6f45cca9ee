//! A client of the change stream: plain HTTP, line by line.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use testkit::changes::{self, Lines};
use testkit::{Farm, wait_until};

/// For what takes a server's end and a change of primary.
pub const SOON: Duration = Duration::from_secs(60);

/// An answer that goes on.
pub struct Stream {
    lines: Lines,
    pub token: String,
}

/// A request and the head of its answer: the status, and the connection.
pub fn ask(farm: &Farm, query: &str, bearer: Option<&str>) -> (u16, BufReader<TcpStream>) {
    ask_with(farm, query, bearer, "")
}

/// The same with more headers, each with its end.
pub fn ask_with(
    farm: &Farm,
    query: &str,
    bearer: Option<&str>,
    headers: &str,
) -> (u16, BufReader<TcpStream>) {
    changes::ask(farm.http, query, bearer, headers).expect("an answer")
}

pub fn admin(farm: &Farm) -> String {
    let token = std::fs::read_to_string(farm.dir().join("token"));
    token.expect("`up` writes it").trim().to_owned()
}

impl Stream {
    /// A stream with this query, when there is a place for it.
    pub fn open(farm: &Farm, query: &str) -> Stream {
        let bearer = admin(farm);
        let mut opened = None;
        wait_until(SOON, "a place for a stream", || {
            let (status, from) = ask(farm, query, Some(&bearer));
            assert!(matches!(status, 200 | 503), "{status} {query}");
            opened = (status == 200).then_some(from);
            opened.is_some()
        });
        Stream {
            lines: Lines::new(opened.expect("it was waited for")),
            token: String::new(),
        }
    }

    /// A stream from here on: its first line has come.
    pub fn now(farm: &Farm, query: &str) -> Stream {
        let mut stream = Stream::open(farm, query);
        let mut last = Value::Null;
        while stream.token.is_empty() {
            last = stream
                .next()
                .unwrap_or_else(|| panic!("it does not begin: {last}"));
        }
        stream
    }

    /// One that goes on behind a token.
    pub fn behind(farm: &Farm, token: &str, query: &str) -> Stream {
        Stream::open(farm, &format!("from={token}&{query}"))
    }

    /// The next line; `None` at the end of the stream.
    pub fn next(&mut self) -> Option<Value> {
        let event = self.lines.read().expect("a line in time")?;
        if let Some(token) = event["token"].as_str() {
            token.clone_into(&mut self.token);
        }
        Some(event)
    }

    /// The next line of a router that may be dead; `None` when no whole line comes any more.
    pub fn try_next(&mut self) -> Option<Value> {
        let event = self.lines.read().ok()??;
        if let Some(token) = event["token"].as_str() {
            token.clone_into(&mut self.token);
        }
        Some(event)
    }

    /// All events but heartbeats, up to the commit of the transaction in which this is true.
    pub fn until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let (mut events, mut seen) = (Vec::new(), false);
        loop {
            let event = self
                .next()
                .unwrap_or_else(|| panic!("it ended: {events:#?}"));
            assert!(
                !["gap", "undone", "error"].contains(&event["event"].as_str().expect("a name")),
                "{event}"
            );
            seen |= is_last(&event);
            let is_end = event["event"] == "commit";
            if event["event"] != "heartbeat" {
                events.push(event);
            }
            if seen && is_end {
                return events;
            }
        }
    }

    /// The same up to the insert into the table `d.last` of this number.
    pub fn until_last(&mut self, number: i64) -> Vec<Value> {
        self.until(|event| event["table"] == "last" && event["after"]["a"] == number)
    }
}

/// The rows among events.
pub fn rows(events: &[Value]) -> Vec<&Value> {
    events
        .iter()
        .filter(|event| event["event"] == "row")
        .collect()
}

/// What `/metrics` says.
pub fn metrics(farm: &Farm) -> String {
    let mut stream = TcpStream::connect(farm.http).expect("the door is open");
    let request = format!(
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
        admin(farm)
    );
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The value of a metric without labels.
pub fn metric(farm: &Farm, name: &str) -> f64 {
    let answer = metrics(farm);
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{name} ")));
    let value = line.and_then(|it| it.parse().ok());
    value.unwrap_or_else(|| panic!("no {name} in {answer}"))
}
