//! A client of the change stream: plain HTTP, line by line.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;
use testkit::{Farm, wait_until};

/// For what takes a server's end and a change of primary.
pub const SOON: Duration = Duration::from_secs(60);

/// An answer that goes on.
pub struct Stream {
    from: BufReader<TcpStream>,
    /// What came of the current line.
    line: Vec<u8>,
    /// Bytes of the current chunk that have not come.
    chunk: usize,
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
    let mut stream = TcpStream::connect(farm.http).expect("the door is open");
    stream.set_read_timeout(Some(SOON)).expect("a socket");
    let bearer = bearer.map(|it| format!("Authorization: Bearer {it}\r\n"));
    let request = format!(
        "GET /v1/changes?{query} HTTP/1.1\r\nHost: localhost\r\n{headers}{}\r\n",
        bearer.unwrap_or_default()
    );
    stream.write_all(request.as_bytes()).expect("it is taken");
    let mut from = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).expect("an answer");
        assert!(!line.is_empty(), "the door closed the connection: {head:?}");
        if line == "\r\n" {
            break;
        }
        head.push(line);
    }
    let status = head[0].split(' ').nth(1).and_then(|it| it.parse().ok());
    (status.expect("a status"), from)
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
            from: opened.expect("it was waited for"),
            line: Vec::new(),
            chunk: 0,
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
        loop {
            if self.chunk == 0 {
                let mut size = String::new();
                self.from.read_line(&mut size).expect("a chunk in time");
                if size.is_empty() || size == "0\r\n" {
                    return None;
                }
                self.chunk = usize::from_str_radix(size.trim(), 16).expect("a size");
            }
            let limit = u64::try_from(self.chunk).expect("it fits");
            let mut within = (&mut self.from).take(limit);
            let read = within
                .read_until(b'\n', &mut self.line)
                .expect("bytes in time");
            self.chunk -= read;
            if self.chunk == 0 {
                let mut end = [0; 2];
                self.from.read_exact(&mut end).expect("the end of a chunk");
            }
            if self.line.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                let event: Value = serde_json::from_slice(&line)
                    .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&line)));
                if let Some(token) = event["token"].as_str() {
                    token.clone_into(&mut self.token);
                }
                return Some(event);
            }
        }
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
