//! Consumers of streams: each has a copy of the farm, is broken off at any event, and goes on by a token.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::changes::{Lines, ask};
use crate::failover::load::Dice;
use crate::farm::command_at;
use crate::holds_within;

use super::PATIENCE;
use super::copy::Copy;
use super::course::Course;

/// A consumer is broken off behind so many events at most.
const EVENTS_MAX: u64 = 1500;

/// One commit in so many is kept, to go on behind it later.
const KEPT: u64 = 400;

/// So many of them at most.
const KEPT_MAX: usize = 4;

/// One commit in so many is acknowledged by the consumer of a subscription.
const ACKNOWLEDGED: u64 = 60;

/// Where the farm's HTTP door is.
#[derive(Clone, Debug)]
pub struct Access {
    pub http: SocketAddr,
    pub bearer: String,
}

impl Access {
    /// What a command answers.
    ///
    /// # Errors
    /// It fails; the text says what was said.
    pub fn json(&self, words: &[&str]) -> Result<Vec<Value>, String> {
        let output = command_at(self.http, &self.bearer, &[words, &["--json"]].concat());
        match output.status.success() {
            true => serde_json::from_slice(&output.stdout).map_err(|error| error.to_string()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }
}

/// How a consumer remembers how far it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// It never breaks off by itself.
    Steady,
    /// By the token of an event, or of the last commit.
    Token,
    /// The farm remembers it, by the name of a subscription.
    Subscription(String),
}

/// What a consumer knows.
pub struct State {
    pub copy: Copy,
    /// Of the last event.
    pub token: String,
    /// Tokens of commits, and what the copy was then.
    pub kept: Vec<(String, Copy)>,
    /// It has found what cannot be, or a gap, and has ended.
    pub is_broken: bool,
    /// The gap, until somebody has looked whether it is one.
    pub gap: Option<Value>,
}

/// One consumer.
pub struct Consumer {
    pub name: &'static str,
    query: String,
    memory: Memory,
    state: Mutex<State>,
    /// How often it went on, by its own wish or not.
    pub breaks: AtomicU64,
    pub events: AtomicU64,
}

impl Consumer {
    /// With this copy of the farm, behind this token.
    pub fn new(
        name: &'static str,
        query: &str,
        memory: Memory,
        copy: Copy,
        token: &str,
    ) -> Consumer {
        let state = State {
            copy,
            token: token.to_owned(),
            kept: Vec::new(),
            is_broken: false,
            gap: None,
        };
        Consumer {
            name,
            query: query.to_owned(),
            memory,
            state: Mutex::new(state),
            breaks: AtomicU64::new(0),
            events: AtomicU64::new(0),
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Consumes until it is over, or `is_enough`.
    pub fn run(
        &self,
        at: &Access,
        course: &Course,
        mut dice: Dice,
        is_enough: impl Fn(&State) -> bool,
    ) {
        // What the farm may have as acknowledged.
        let mut acknowledged = vec![self.checkpoint()];
        while !course.is_over() && !is_enough(&self.state()) {
            if let Memory::Subscription(name) = &self.memory {
                self.go_back(at, name, &mut acknowledged, course);
            }
            let Some(mut lines) = self.open(at, course) else {
                return;
            };
            let mut left = match self.memory {
                Memory::Steady => u64::MAX,
                _ => 20 + dice.below(EVENTS_MAX),
            };
            let mut safe = None;
            while left > 0 && !course.is_over() && !is_enough(&self.state()) {
                let event = match lines.read() {
                    Ok(Some(event)) => event,
                    Ok(None) => break,
                    Err(error) => {
                        self.judge(&error, course);
                        break;
                    }
                };
                left -= 1;
                self.events.fetch_add(1, Relaxed);
                if !self.take(&event, course) {
                    return;
                }
                if event["event"] != "commit" {
                    continue;
                }
                safe = Some(self.state().token.clone());
                if self.memory == Memory::Steady && dice.below(KEPT) == 0 {
                    self.keep();
                }
                if let Memory::Subscription(name) = &self.memory
                    && dice.below(ACKNOWLEDGED) == 0
                {
                    acknowledged.push(self.checkpoint());
                    // Its answer may be lost with the router: what is acknowledged is asked for before going on.
                    let token = safe.as_deref().unwrap_or_default();
                    if at.json(&["subscription", "ack", name, token]).is_ok() {
                        acknowledged.drain(..acknowledged.len() - 1);
                    }
                }
            }
            drop(lines);
            self.breaks.fetch_add(1, Relaxed);
            self.break_off(safe, &mut dice);
        }
    }

    /// The copy and the token of this moment.
    fn checkpoint(&self) -> (String, Copy) {
        let state = self.state();
        (state.token.clone(), state.copy.clone())
    }

    /// Remembers this moment, in place of an earlier one where there are many.
    fn keep(&self) {
        let mut state = self.state();
        let mut copy = state.copy.clone();
        copy.take_units();
        copy.take_seen();
        let kept = (state.token.clone(), copy);
        if state.kept.len() >= KEPT_MAX {
            state.kept.remove(0);
        }
        state.kept.push(kept);
    }

    /// A consumer that keeps the token with what it has applied goes back to its last commit; one that keeps each event's
    /// token goes on in the middle.
    fn break_off(&self, safe: Option<String>, dice: &mut Dice) {
        let mut state = self.state();
        if let Some(safe) = safe
            && self.memory == Memory::Token
            && dice.below(2) == 0
        {
            state.copy.undo();
            state.token = safe;
        }
    }

    /// Takes up what the farm has as acknowledged.
    fn go_back(
        &self,
        at: &Access,
        name: &str,
        acknowledged: &mut Vec<(String, Copy)>,
        course: &Course,
    ) {
        let mut shown = Err(String::new());
        holds_within(PATIENCE, || {
            shown = at.json(&["subscription", "show", name]);
            shown.is_ok() || course.is_over()
        });
        let token = match &shown {
            Ok(rows) => rows[0]["token"].as_str().unwrap_or_default().to_owned(),
            Err(_) if course.is_over() => return,
            Err(why) => return course.complain(format!("{}: {why}", self.name)),
        };
        let found = acknowledged.iter().rposition(|(it, _)| *it == token);
        let Some(at) = found else {
            let text = format!("{}: nobody acknowledged {token}", self.name);
            return course.complain(text);
        };
        let mut state = self.state();
        state.copy = acknowledged[at].1.clone();
        state.token = token;
        acknowledged.drain(..at);
        acknowledged.truncate(1);
    }

    /// The stream, as soon as a router gives it; `None` when it is over.
    fn open(&self, at: &Access, course: &Course) -> Option<Lines> {
        let query = match &self.memory {
            Memory::Subscription(name) => format!("subscription={name}"),
            _ => format!("from={}&{}", self.state().token, self.query),
        };
        let mut opened = None;
        let mut why = String::new();
        holds_within(PATIENCE, || {
            match ask(at.http, &query, Some(&at.bearer), "") {
                Ok((200, from)) => opened = Some(Lines::new(from)),
                // A router that begins does not know everything yet.
                Ok((status, _)) => why = status.to_string(),
                Err(error) => why = error.to_string(),
            }
            opened.is_some() || course.is_over()
        });
        if opened.is_none() && !course.is_over() {
            course.complain(format!("{}: no stream with {query}: {why}", self.name));
            self.state().is_broken = true;
        }
        opened
    }

    /// Silence is a fault; a connection that breaks is not.
    fn judge(&self, error: &io::Error, course: &Course) {
        let is_fault = [
            io::ErrorKind::WouldBlock,
            io::ErrorKind::TimedOut,
            io::ErrorKind::InvalidData,
        ];
        if is_fault.contains(&error.kind()) {
            course.complain(format!("{}: {error}", self.name));
        }
    }

    /// True when the event can be.
    fn take(&self, event: &Value, course: &Course) -> bool {
        let mut state = self.state();
        if event["event"] == "gap" {
            state.gap = Some(event.clone());
            state.is_broken = true;
            return false;
        }
        if let Err(why) = state.copy.take(event) {
            course.complain(format!("{}: {why}", self.name));
            state.is_broken = true;
            return false;
        }
        if let Some(token) = event["token"].as_str() {
            token.clone_into(&mut state.token);
        }
        true
    }
}

/// A stream's token of this moment.
///
/// # Panics
/// When there is no stream.
pub fn token_now(at: &Access, query: &str) -> String {
    let (status, from) = ask(at.http, query, Some(&at.bearer), "").expect("a stream");
    assert_eq!(status, 200, "{query}");
    let mut lines = Lines::new(from);
    loop {
        let event = lines.read().expect("a line in time").expect("it goes on");
        if let Some(token) = event["token"].as_str() {
            return token.to_owned();
        }
    }
}

/// Begins it on a thread of its own.
pub fn start(
    consumer: &Arc<Consumer>,
    at: &Access,
    course: &Arc<Course>,
    dice: Dice,
) -> std::thread::JoinHandle<()> {
    let (consumer, at, course) = (Arc::clone(consumer), at.clone(), Arc::clone(course));
    std::thread::spawn(move || consumer.run(&at, &course, dice, |_| false))
}
