//! Decisions that somebody else makes: a rule's hook, asked over HTTP while the statement waits.
//!
//! One request, one connection, HTTP/1.0, so that an answer is never cut in pieces. A hook that does
//! not answer in time, or says what is no decision, has decided nothing: the rule's fallback holds.

pub(crate) mod ask;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farm::Snapshot;
use reactor::Sock;
use routing::Level;
use routing::rules::{Actions, Hook, Rules, ServerName, Servers};
use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::consistency::defaults::{UNBOUNDED_MS, bound_us};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 65_536;

/// Decisions that one core remembers; beyond this many it forgets all.
const REMEMBERED_MAX: usize = 10_000;

/// What a hook has decided; nothing of it leaves all as it would be without rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    servers: Option<Arc<Servers>>,
    level: Option<Level>,
    refuse: Option<Arc<str>>,
}

impl Verdict {
    /// Puts what was decided in the place of what the rule says. True when servers were chosen.
    pub fn overrule(&self, actions: &mut Actions) -> bool {
        if self.servers.is_some() {
            actions.servers.clone_from(&self.servers);
        }
        if self.level.is_some() {
            actions.level = self.level;
        }
        if self.refuse.is_some() {
            actions.refuse.clone_from(&self.refuse);
        }
        self.servers.is_some()
    }
}

/// For whom a decision holds.
#[derive(PartialEq, Eq, Hash)]
struct Asked {
    /// The hook's place in memory, which the rules keep.
    hook: usize,
    shape: u128,
    user: Rc<[u8]>,
    database: Option<Box<[u8]>>,
    in_transaction: bool,
}

/// The decisions of one core's hooks, for as long as they hold.
#[derive(Default)]
pub struct Decisions {
    known: RefCell<Known>,
}

#[derive(Default)]
struct Known {
    /// By which rules they were made.
    rules: Arc<Rules>,
    verdicts: FxHashMap<Asked, (Instant, Verdict)>,
}

impl Decisions {
    fn find(&self, rules: &Arc<Rules>, asked: &Asked, hook: &Hook) -> Option<Verdict> {
        let known = self.known.borrow();
        let (at, verdict) = known.verdicts.get(asked)?;
        let holds = at.elapsed() < Duration::from_millis(hook.cache_ms);
        (holds && Arc::ptr_eq(&known.rules, rules)).then(|| verdict.clone())
    }

    fn keep(&self, rules: &Arc<Rules>, asked: Asked, verdict: Verdict) {
        let mut known = self.known.borrow_mut();
        if !Arc::ptr_eq(&known.rules, rules) || known.verdicts.len() >= REMEMBERED_MAX {
            known.verdicts.clear();
            known.rules = rules.clone();
        }
        known.verdicts.insert(asked, (Instant::now(), verdict));
    }
}

/// Asks the hook; the answer's body.
async fn exchange(hook: &Hook, question: String) -> Result<Vec<u8>, String> {
    let broken = |error: std::io::Error| format!("{}: {error}", hook.url);
    let sock = Sock::connect(&hook.host, hook.port).await.map_err(broken)?;
    let Hook {
        host, port, path, ..
    } = hook;
    let host = match host.contains(':') {
        true => format!("[{host}]"),
        false => host.clone(),
    };
    let request = format!(
        "POST {path} HTTP/1.0\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{question}",
        question.len()
    );
    let bytes = request.len();
    let sent = sock.send(request.into_bytes(), 0..bytes).await.0;
    sent.map_err(broken)?;
    let mut answer = Vec::with_capacity(1024);
    loop {
        if let Some(body) = whole_body(&answer)? {
            return Ok(body.to_vec());
        }
        if answer.len() >= ANSWER_BYTES_MAX {
            return Err(format!("the answer is longer than {ANSWER_BYTES_MAX} bytes"));
        }
        if answer.len() == answer.capacity() {
            answer.reserve(answer.len());
        }
        let (received, filled) = sock.recv(answer).await;
        answer = filled;
        if received.map_err(broken)? == 0 {
            let (_, body) = parts(&answer).ok_or("the answer is cut off")?;
            return Ok(body.to_vec());
        }
    }
}

/// Head and body of an answer, once its head is there.
fn parts(answer: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    Some((&answer[..end], &answer[end + 4..]))
}

/// The body, once all of it has come; an answer that does not tell its length ends with its
/// connection. The error is what is wrong with the head.
fn whole_body(answer: &[u8]) -> Result<Option<&[u8]>, String> {
    let Some((head, body)) = parts(answer) else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.") || status.split(' ').nth(1) != Some("200") {
        let status: String = status.chars().take(64).collect();
        return Err(format!("the answer is {status:?}"));
    }
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let named = name.eq_ignore_ascii_case("content-length");
        named.then(|| value.trim().parse::<usize>().ok())?
    });
    let whole = length.filter(|length| body.len() >= *length);
    Ok(whole.map(|length| &body[..length]))
}

/// Reads a decision. The error is why it is none.
fn read_verdict(body: &[u8], farm: &Snapshot) -> Result<Verdict, String> {
    let wrong = |what: &str| format!("the answer's {what}");
    let answer: Value =
        serde_json::from_slice(body).map_err(|error| format!("the answer is no JSON: {error}"))?;
    let fields = answer.as_object().ok_or("the answer is no JSON object")?;
    let mut verdict = Verdict::default();
    let mut max_lag_ms = None;
    for (name, value) in fields {
        match (name.as_str(), value) {
            (_, Value::Null) => {}
            ("server", Value::String(server)) => {
                verdict.servers = Some(servers(&[server], farm)?);
            }
            ("servers", Value::Array(all)) => {
                let all: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
                verdict.servers = Some(servers(&all.ok_or_else(|| wrong("servers"))?, farm)?);
            }
            ("level", Value::String(level)) => {
                let level = Level::named(level.as_bytes());
                verdict.level = Some(level.ok_or_else(|| wrong("level"))?);
            }
            ("max_lag_ms", value) => {
                let bound = value.as_u64().filter(|ms| *ms <= UNBOUNDED_MS);
                max_lag_ms = Some(bound.ok_or_else(|| wrong("max_lag_ms"))?);
            }
            ("refuse", Value::String(text)) => verdict.refuse = Some(text.as_str().into()),
            (name, _) => return Err(wrong(&format!("field {name:?}"))),
        }
    }
    match (&mut verdict.level, max_lag_ms) {
        (_, None) => {}
        (Some(Level::Eventual { max_lag_us }), Some(max_lag_ms)) => {
            *max_lag_us = bound_us(max_lag_ms);
        }
        _ => return Err(wrong("max_lag_ms without the level eventual")),
    }
    Ok(verdict)
}

/// Servers of the farm, by their names.
fn servers(names: &[&str], farm: &Snapshot) -> Result<Arc<Servers>, String> {
    let known: Vec<_> = farm.groups.iter().flat_map(|group| &group.servers).collect();
    let mut all = Vec::with_capacity(names.len());
    for name in names {
        let server = ServerName::new(name);
        if !known.iter().any(|known| server.is(known)) {
            return Err(format!("the answer names server {name:?}, which is unknown"));
        }
        all.push(server);
    }
    if all.is_empty() {
        return Err("the answer names no server".to_owned());
    }
    Ok(Arc::new(Servers(all)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(body: &str) -> Result<Verdict, String> {
        read_verdict(body.as_bytes(), &Snapshot::empty("f", Instant::now()))
    }

    #[test]
    fn decisions_are_read() {
        assert_eq!(verdict("{}"), Ok(Verdict::default()));
        let level = |level| Verdict {
            level: Some(level),
            ..Verdict::default()
        };
        assert_eq!(verdict(r#"{"level": "strong"}"#), Ok(level(Level::Strong)));
        assert_eq!(
            verdict(r#"{"level": "eventual", "max_lag_ms": 5, "server": null}"#),
            Ok(level(Level::Eventual {
                max_lag_us: Some(5000)
            }))
        );
        let refused = verdict(r#"{"refuse": "not now"}"#).expect("a decision");
        assert_eq!(refused.refuse.as_deref(), Some("not now"));
    }

    #[test]
    fn nonsense_decides_nothing() {
        for (body, why) in [
            ("", "no JSON"),
            ("[]", "no JSON object"),
            (r#"{"servers": []}"#, "no server"),
            (r#"{"servers": ["a"]}"#, "unknown"),
            (r#"{"server": 3}"#, "field \"server\""),
            (r#"{"level": "best"}"#, "level"),
            (r#"{"max_lag_ms": 5}"#, "max_lag_ms"),
            (r#"{"lvl": "strong"}"#, "field \"lvl\""),
        ] {
            let reason = verdict(body).expect_err(body);
            assert!(reason.contains(why), "{body}: {reason}");
        }
    }

    #[test]
    fn answers_end_where_their_heads_say() {
        let body = |answer: &str| {
            whole_body(answer.as_bytes())
                .map(|body| body.map(|b| String::from_utf8_lossy(b).into_owned()))
        };
        assert_eq!(body("HTTP/1.1 200 OK\r\nContent-Le"), Ok(None));
        let head = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n";
        assert_eq!(body(&format!("{head}{{")), Ok(None));
        assert_eq!(body(&format!("{head}{{}}x")), Ok(Some("{}".to_owned())));
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\n{}"), Ok(None));
        assert!(body("HTTP/1.1 500 Oh\r\n\r\n").is_err());
        assert!(body("SSH-2.0-x\r\n\r\n\r\n").is_err());
    }
}
