//! Events and actions as lines that an operator reads: for logs, for the golden scenarios, and for
//! what the simulator prints of a history that went wrong. Events can be read back.
//!
//! A line is a moment in milliseconds and an event; below it stand, after an arrow, the actions that
//! the machine answered with. Questions are answered by their own words: `halt a: applied 0-1-8,
//! received 0-1-9`.

mod council;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use farm::{Engine, Position, ServerId, Status};

use super::{Action, Answer, Ask, AskId, Event, Failed, Fault, Heard, Member, Order, Record, Step};

/// The names of servers and the open questions of one conversation with a machine.
#[derive(Clone, Debug, Default)]
pub struct Script {
    names: BTreeMap<ServerId, Arc<str>>,
    asks: BTreeMap<AskId, String>,
}

const FAULTS: [(Fault, &str); 6] = [
    (Fault::Refused, "refused"),
    (Fault::Reset, "reset"),
    (Fault::Silent, "silent"),
    (Fault::WriteSilent, "write silent"),
    (Fault::Late, "late"),
    (Fault::Said, "said"),
];

const STATUSES: [(Status, &str); 4] = [
    (Status::Faulty, "faulty"),
    (Status::Spare, "spare"),
    (Status::Replica, "replica"),
    (Status::Primary, "primary"),
];

/// Milliseconds, as they stand at the beginning of a line.
pub fn moment(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// Reads what [`moment`] wrote.
pub fn parse_moment(text: &str) -> Option<u64> {
    let (ms, us) = text.split_once('.').unwrap_or((text, "0"));
    let us: u64 = format!("{us:0<3}").get(..3)?.parse().ok()?;
    ms.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(us)
}

fn position(position: &Position) -> String {
    match position.to_string() {
        text if text.is_empty() => "nothing".to_owned(),
        text => text,
    }
}

fn parse_position(text: &str) -> Result<Position, String> {
    let engine = match text.contains(':') {
        true => Engine::MySql,
        false => Engine::MariaDb,
    };
    let text = if text == "nothing" { "" } else { text };
    Position::parse(engine, text).ok_or_else(|| format!("«{text}» is no position"))
}

impl Script {
    /// The event as a line.
    pub fn event(&mut self, event: &Event) -> String {
        match event {
            Event::Members(members) => self.members(members),
            Event::Acknowledged { .. }
            | Event::Leadership { .. }
            | Event::Vote { .. }
            | Event::Executed { .. }
            | Event::Disconnected { .. } => self.council(event),
            Event::Heartbeat { server, read_only } => {
                let suffix = if *read_only { ", read-only" } else { "" };
                format!("{} answers{suffix}", self.name(*server))
            }
            Event::Wrote { server } => format!("{} takes a write", self.name(*server)),
            Event::Failed { server, fault } => {
                format!("{} fails: {}", self.name(*server), word(&FAULTS, *fault))
            }
            Event::View { replica, heard_us } => {
                format!(
                    "{} heard its primary at {}",
                    self.name(*replica),
                    moment(*heard_us)
                )
            }
            Event::Reported { server, by, sure } => {
                let how = if *sure { "surely reported" } else { "reported" };
                format!("{} {how} by {by}", self.name(*server))
            }
            Event::Order { order, what } => format!("order {order}: {}", self.order(what)),
            Event::Resume(None) => "resume nothing".to_owned(),
            Event::Resume(Some(record)) => format!("resume {}", self.record(record)),
            Event::Stalled { us } => format!("stalled {}", moment(*us)),
            Event::Tick => "tick".to_owned(),
            Event::Done { ask, answer } => {
                let what = self.asks.remove(ask);
                let what = what.unwrap_or_else(|| format!("question {}", ask.0));
                format!("{what}: {}", self.answer(answer))
            }
        }
    }

    /// The action as a line, without its arrow.
    pub fn action(&mut self, action: &Action) -> String {
        match action {
            Action::Ask {
                ask,
                what,
                within_us,
            } => {
                let text = self.ask(what);
                self.asks.insert(*ask, text.clone());
                match what {
                    Ask::Cut { .. } | Ask::Record(_) => text,
                    _ => format!("{text} within {} ms", within_us / 1000),
                }
            }
            Action::Publish { primary, fork } => {
                let name = primary.map_or("nobody".into(), |primary| self.name(primary));
                match fork {
                    Some(fork) => format!("publish {name}, a new timeline from {}", position(fork)),
                    None => format!("publish {name}"),
                }
            }
            Action::Rejoin { server } => format!("rejoin {}", self.name(*server)),
            Action::Tell { kind, text, .. } => format!("tell {}: {text}", kind.name()),
            Action::Vote { lost } => format!("vote: {}", self.lost(lost)),
            Action::Reply { order, result } => match result {
                Ok(text) => format!("reply {order}: {text}"),
                Err(text) => format!("reply {order}: refused: {text}"),
            },
            Action::Wake { at_us } => format!("wake at {}", moment(*at_us)),
        }
    }

    /// Reads an event from its line.
    pub fn parse(&mut self, line: &str) -> Result<Event, String> {
        if line == "tick" {
            return Ok(Event::Tick);
        }
        if let Some(rest) = line.strip_prefix("members: ") {
            return self.parse_members(rest);
        }
        if let Some(event) = self.parse_council(line) {
            return event;
        }
        if let Some(rest) = line.strip_prefix("stalled ") {
            let us = parse_moment(rest).ok_or("no duration")?;
            return Ok(Event::Stalled { us });
        }
        if let Some(rest) = line.strip_prefix("resume ") {
            return Ok(Event::Resume(match rest {
                "nothing" => None,
                rest => Some(self.parse_record(rest)?),
            }));
        }
        if let Some(rest) = line.strip_prefix("order ") {
            return self.parse_order(rest);
        }
        let open = self.asks.iter().find_map(|(ask, what)| {
            let rest = line.strip_prefix(what.as_str())?.strip_prefix(": ")?;
            Some((*ask, rest))
        });
        if let Some((ask, rest)) = open {
            let answer = parse_answer(rest)?;
            self.asks.remove(&ask);
            return Ok(Event::Done { ask, answer });
        }
        self.parse_observation(line)
    }

    fn parse_observation(&self, line: &str) -> Result<Event, String> {
        let unknown = || {
            let open: Vec<&str> = self.asks.values().map(String::as_str).collect();
            format!("«{line}» is no event; open questions: {}", open.join(", "))
        };
        let (name, rest) = line.split_once(' ').ok_or_else(unknown)?;
        let server = self.find(name).map_err(|_| unknown())?;
        let sure = rest.strip_prefix("surely reported by ");
        if let Some(by) = sure.or_else(|| rest.strip_prefix("reported by ")) {
            return Ok(Event::Reported {
                server,
                by: by.to_owned(),
                sure: sure.is_some(),
            });
        }
        if let Some(at) = rest.strip_prefix("heard its primary at ") {
            let heard_us = parse_moment(at).ok_or_else(unknown)?;
            let replica = server;
            return Ok(Event::View { replica, heard_us });
        }
        if let Some(fault) = rest.strip_prefix("fails: ") {
            let fault = named(&FAULTS, fault).ok_or_else(unknown)?;
            return Ok(Event::Failed { server, fault });
        }
        match rest {
            "answers" => Ok(Event::Heartbeat {
                server,
                read_only: false,
            }),
            "answers, read-only" => Ok(Event::Heartbeat {
                server,
                read_only: true,
            }),
            "takes a write" => Ok(Event::Wrote { server }),
            _ => Err(unknown()),
        }
    }

    fn name(&self, server: ServerId) -> Arc<str> {
        match self.names.get(&server) {
            Some(name) => name.clone(),
            None => format!("#{}", server.0).into(),
        }
    }

    fn find(&self, name: &str) -> Result<ServerId, String> {
        let mut names = self.names.iter();
        let found = names.find(|(_, known)| ***known == *name);
        found
            .map(|(id, _)| *id)
            .ok_or_else(|| format!("no server is named «{name}»"))
    }

    fn members(&mut self, members: &[Member]) -> String {
        let mut line = "members:".to_owned();
        for (at, member) in members.iter().enumerate() {
            self.names.insert(member.id, member.name.clone());
            let comma = if at == 0 { "" } else { "," };
            let status = word(&STATUSES, member.status);
            let _ = write!(line, "{comma} {} {status}", member.name);
            if member.weight != 1.0 {
                let _ = write!(line, " weight {}", member.weight);
            }
            if member.near {
                line.push_str(" near");
            }
            if member.never {
                line.push_str(" never");
            }
            if member.release != 0 {
                let _ = write!(line, " release {}", member.release);
            }
        }
        line
    }

    /// Servers get their numbers in the order in which they are first named.
    fn parse_members(&mut self, text: &str) -> Result<Event, String> {
        let mut members = Vec::new();
        for part in text.split(", ") {
            let mut words = part.split(' ');
            let name = words.next().unwrap_or_default();
            let status = words.next().and_then(|word| named(&STATUSES, word));
            let status = status.ok_or_else(|| format!("«{part}» has no status"))?;
            let id = self.find(name).unwrap_or_else(|_| {
                let last = self.names.keys().next_back().map_or(0, |id| id.0);
                ServerId(last + 1)
            });
            self.names.insert(id, name.into());
            let mut member = Member::new(id, name, status);
            while let Some(word) = words.next() {
                match word {
                    "near" => member.near = true,
                    "never" => member.never = true,
                    "release" => {
                        let release = words.next().and_then(|word| word.parse().ok());
                        member.release = release.ok_or("a release is a number")?;
                    }
                    "weight" => {
                        let weight = words.next().and_then(|word| word.parse().ok());
                        member.weight = weight.ok_or("a weight is a number")?;
                    }
                    _ => return Err(format!("«{word}» says nothing of a server")),
                }
            }
            members.push(member);
        }
        Ok(Event::Members(members))
    }

    fn order(&self, what: &Order) -> String {
        match what {
            Order::Promote { to: Some(to) } => format!("promote {}", self.name(*to)),
            Order::Promote { to: None } => "promote".to_owned(),
            Order::Demote => "demote".to_owned(),
            Order::Activate => "activate".to_owned(),
            Order::Deactivate => "deactivate".to_owned(),
        }
    }

    fn parse_order(&self, text: &str) -> Result<Event, String> {
        let (order, what) = text.split_once(": ").ok_or("an order has a number")?;
        let order = order.parse().map_err(|_| "an order has a number")?;
        let what = match what {
            "promote" => Order::Promote { to: None },
            "demote" => Order::Demote,
            "activate" => Order::Activate,
            "deactivate" => Order::Deactivate,
            other => match other.strip_prefix("promote ") {
                Some(name) => Order::Promote {
                    to: Some(self.find(name)?),
                },
                None => return Err(format!("«{other}» is no order")),
            },
        };
        Ok(Event::Order { order, what })
    }

    fn ask(&self, what: &Ask) -> String {
        let name = what.server().map(|server| self.name(server));
        let name = name.unwrap_or_default();
        match what {
            Ask::Confirm { .. } => format!("confirm {name}"),
            Ask::Cut { .. } => format!("cut {name}"),
            Ask::Fence { .. } => format!("fence {name}"),
            Ask::Halt { .. } => format!("halt {name}"),
            Ask::Look { .. } => format!("look at {name}"),
            Ask::Reach { position: at, .. } => format!("let {name} reach {}", position(at)),
            Ask::Lead { .. } => format!("let {name} lead"),
            Ask::Open { .. } => format!("open {name}"),
            Ask::Point { primary, .. } => format!("point {name} at {}", self.name(*primary)),
            Ask::Follow { primary, .. } => format!("let {name} follow {}", self.name(*primary)),
            Ask::Pause { .. } => format!("pause {name}"),
            Ask::Close { .. } => format!("close {name}"),
            Ask::Record(record) => format!("record {}", self.record(record)),
        }
    }

    fn record(&self, record: &Record) -> String {
        let name = |server: &Option<ServerId>| match server {
            Some(server) => self.name(*server),
            None => "nobody".into(),
        };
        let step = match &record.step {
            Step::Clearing { old } => format!("clearing {}", name(old)),
            Step::Turning { old, winner } => {
                format!("turning {} to {}", name(old), self.name(*winner))
            }
            Step::Switching { from } => format!("switching {}", self.name(*from)),
            Step::Over { primary } => format!("over {}", name(primary)),
        };
        let mut text = format!("{} {step}", record.number);
        if let Some(fork) = &record.fork {
            let _ = write!(text, " since {}", position(fork));
        }
        for (word, servers) in [
            ("without", &record.lost),
            ("unproved", &record.unproved),
            ("forgetful", &record.forgetful),
        ] {
            for server in servers {
                let _ = write!(text, " {word} {}", self.name(*server));
            }
        }
        text
    }

    fn parse_record(&self, text: &str) -> Result<Record, String> {
        let mut words: Vec<&str> = text.split(' ').collect();
        let (mut fork, mut lost) = (None, Vec::new());
        let (mut unproved, mut forgetful) = (Vec::new(), Vec::new());
        while let [
            ..,
            word @ ("since" | "without" | "unproved" | "forgetful"),
            value,
        ] = words[..]
        {
            match word {
                "since" => fork = Some(parse_position(value)?),
                "without" => lost.insert(0, self.find(value)?),
                "unproved" => unproved.insert(0, self.find(value)?),
                _ => forgetful.insert(0, self.find(value)?),
            }
            words.truncate(words.len() - 2);
        }
        let find = |name: &str| match name {
            "nobody" => Ok(None),
            name => self.find(name).map(Some),
        };
        let (number, step) = match words.as_slice() {
            [number, "clearing", old] => (number, Step::Clearing { old: find(old)? }),
            [number, "turning", old, "to", winner] => {
                let (old, winner) = (find(old)?, self.find(winner)?);
                (number, Step::Turning { old, winner })
            }
            [number, "switching", from] => {
                let from = self.find(from)?;
                (number, Step::Switching { from })
            }
            [number, "over", primary] => {
                let primary = find(primary)?;
                (number, Step::Over { primary })
            }
            _ => return Err(format!("«{text}» is no record")),
        };
        Ok(Record {
            number: number.parse().map_err(|_| "a record has a number")?,
            fork,
            lost,
            unproved,
            forgetful,
            step,
        })
    }

    fn answer(&self, answer: &Result<Answer, Failed>) -> String {
        match answer {
            Ok(Answer::Done) => "done".to_owned(),
            Ok(Answer::Heard(heard)) => {
                let mut text = format!(
                    "applied {}, received {}",
                    position(&heard.executed),
                    position(&heard.received)
                );
                if let Some(up_us) = heard.up_us {
                    let _ = write!(text, ", up {}", moment(up_us));
                }
                for (says, words) in [
                    (!heard.read_only, ", writable"),
                    (!heard.applies, ", applier stopped"),
                    (heard.frozen, ", read-only medium"),
                ] {
                    if says {
                        text.push_str(words);
                    }
                }
                text
            }
            Err(failed) => format!("failed, {}: {}", word(&FAULTS, failed.fault), failed.text),
        }
    }
}

fn parse_answer(text: &str) -> Result<Result<Answer, Failed>, String> {
    if text == "done" {
        return Ok(Ok(Answer::Done));
    }
    if let Some(failed) = text.strip_prefix("failed, ") {
        let (fault, text) = failed.split_once(": ").unwrap_or((failed, failed));
        let fault = named(&FAULTS, fault).ok_or_else(|| format!("«{fault}» is no fault"))?;
        let text = text.to_owned();
        return Ok(Err(Failed { fault, text }));
    }
    let mut heard = Heard {
        executed: Position::empty(Engine::MariaDb),
        received: Position::empty(Engine::MariaDb),
        read_only: true,
        applies: true,
        up_us: None,
        frozen: false,
    };
    for part in text.split(", ") {
        match part {
            "writable" => heard.read_only = false,
            "applier stopped" => heard.applies = false,
            "read-only medium" => heard.frozen = true,
            part => match part.split_once(' ') {
                Some(("applied", at)) => heard.executed = parse_position(at)?,
                Some(("received", at)) => heard.received = parse_position(at)?,
                Some(("up", for_so_long)) => heard.up_us = parse_moment(for_so_long),
                _ => return Err(format!("«{part}» is no answer")),
            },
        }
    }
    Ok(Ok(Answer::Heard(heard)))
}

fn word<T: Copy + PartialEq>(words: &[(T, &'static str)], of: T) -> &'static str {
    let found = words.iter().find(|(value, _)| *value == of);
    found.map_or("", |(_, word)| word)
}

fn named<T: Copy>(words: &[(T, &'static str)], name: &str) -> Option<T> {
    let found = words.iter().find(|(_, word)| *word == name);
    found.map(|(value, _)| *value)
}
