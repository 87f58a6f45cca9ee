//! The router that the applier reads: the change stream line by line, and what groups the farm has.

use std::time::Duration;

use catalog::Call;
use changes::replication::Transport;
use door_http::client::Streaming;
use serde_json::{Value, json};

use super::flags::Apply;
use super::{Ended, later};
use crate::cli::ask;

/// A stream says at least every five seconds that it is there.
const SILENCE: Duration = Duration::from_secs(30);

/// A question to a router takes no longer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Of an answer that refuses the stream.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// The lines of a stream.
pub(super) struct Lines {
    stream: Streaming,
    /// What came and was not given; lines up to `begin` were.
    buffer: Vec<u8>,
    begin: usize,
}

impl Lines {
    /// Asks this router for everything behind a token.
    pub(super) async fn open(
        flags: &Apply,
        http: &str,
        token: Option<&str>,
    ) -> Result<Lines, Ended> {
        let mut query = Vec::new();
        let mut add = |name: &str, value: &str| query.push(format!("{name}={}", escaped(value)));
        for (name, values) in [
            ("group", &flags.group),
            ("database", &flags.database),
            ("table", &flags.table),
        ] {
            values.iter().for_each(|value| add(name, value));
        }
        if let Some(token) = token {
            add("from", token);
        }
        if flags.snapshot {
            add("snapshot", "true");
        }
        if let Some(order) = &flags.order {
            add("order", order);
        }
        let (place, trust) = ask::place(http, flags.ca.as_deref(), &flags.data).map_err(fatal)?;
        let path = format!("/v1/changes?{}", query.join("&"));
        let headers = headers(flags)?;
        let asked = tokio::time::timeout(PATIENCE, place.stream(&path, &headers, trust)).await;
        let stream = asked
            .map_err(|_| later(format!("the router at {http} does not answer")))?
            .map_err(|error| later(format!("the router at {http}: {error}")))?;
        let mut lines = Lines {
            stream,
            buffer: Vec::new(),
            begin: 0,
        };
        match lines.stream.status {
            200 => Ok(lines),
            status => Err(lines.refusal(http, status).await),
        }
    }

    async fn refusal(&mut self, http: &str, status: u16) -> Ended {
        while self.buffer.len() < REFUSAL_BYTES_MAX {
            match self.stream.next().await {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                _ => break,
            }
        }
        let answer: Value = serde_json::from_slice(&self.buffer).unwrap_or_default();
        let word = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        let text = format!(
            "the router at {http} answered {status}: {}; {}",
            word("error"),
            word("cure")
        );
        match status {
            503 => Ended::Later(text),
            _ => Ended::Fatal(text),
        }
    }
}

impl Transport for Lines {
    type Error = Ended;

    async fn next(&mut self) -> Result<Option<Vec<u8>>, Ended> {
        let mut scanned = self.begin;
        loop {
            let fresh = &self.buffer[scanned..];
            if let Some(end) = fresh.iter().position(|&byte| byte == b'\n') {
                let line = self.buffer[self.begin..scanned + end].to_vec();
                self.begin = scanned + end + 1;
                return Ok(Some(line));
            }
            self.buffer.drain(..self.begin);
            self.begin = 0;
            scanned = self.buffer.len();
            match tokio::time::timeout(SILENCE, self.stream.next()).await {
                Ok(Ok(Some(bytes))) => self.buffer.extend_from_slice(&bytes),
                Ok(Ok(None)) => return Err(later("the router ended the stream")),
                Ok(Err(error)) => return Err(later(format!("the stream broke: {error}"))),
                Err(_) => return Err(later("the router says nothing")),
            }
        }
    }
}

/// How many groups' changes come.
pub(super) async fn groups(flags: &Apply, http: &str) -> Result<usize, Ended> {
    if !flags.group.is_empty() {
        return Ok(flags.group.len());
    }
    let (_, rows) = ask_router(flags, http, &Call::new("group", "lookup_groups", &[])).await?;
    // What cannot be read is no reason to take tables for those of one group.
    Ok(rows.as_array().map_or(usize::MAX, Vec::len))
}

/// The status and the JSON that a router answers a command with.
pub(super) async fn ask_router(
    flags: &Apply,
    http: &str,
    call: &Call,
) -> Result<(u16, Value), Ended> {
    let (place, trust) = ask::place(http, flags.ca.as_deref(), &flags.data).map_err(fatal)?;
    let path = format!("/v1/{}/{}", call.group, call.command);
    let body = json!({"args": call.args, "options": call.options}).to_string();
    let headers = headers(flags)?;
    let asked = place.post(&path, &headers, body.into_bytes(), trust);
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    let answer = asked.map_err(|_| later(format!("the router at {http} does not answer")))?;
    let (status, body) = answer.map_err(|error| later(format!("the router at {http}: {error}")))?;
    Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
}

fn headers(flags: &Apply) -> Result<Vec<(&'static str, String)>, Ended> {
    let token = ask::token(&flags.data).map_err(fatal)?;
    let bearer = token.map(|token| ("authorization", format!("Bearer {token}")));
    Ok(bearer.into_iter().collect())
}

fn fatal(failure: crate::failure::Failure) -> Ended {
    Ended::Fatal(failure.text)
}

/// A value as it stands in a query.
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(byte.into()),
            byte => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped() {
        assert_eq!(escaped("a-b_c.1"), "a-b_c.1");
        assert_eq!(escaped("\u{f6} &"), "%C3%B6%20%26");
    }
}
