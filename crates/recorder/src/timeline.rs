//! Showing: the steps of all rings in order, narrowed to what is asked for.

use crate::field::Value;
use crate::format::{CONTROL, Entry, Trace};
use crate::notes::Notes;

/// Which steps are asked for. What is `None` does not matter.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    pub session: Option<u32>,
    /// Steps about a server of this group, or about the group.
    pub group: Option<String>,
    /// Steps about the server at this address.
    pub server: Option<String>,
    /// Only steps of this name.
    pub step: Option<String>,
    /// The last so many of those that are left.
    pub last: Option<usize>,
}

/// One step, with names in place of numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// In microseconds since 1970.
    pub at_us: u64,
    /// `None` is the control plane.
    pub core: Option<u32>,
    pub process: u32,
    /// `None` for what is of no session.
    pub session: Option<u32>,
    pub step: String,
    /// Names and texts.
    pub values: Vec<(&'static str, String)>,
}

/// What several files of one router tell together.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    entries: Vec<Entry>,
    pub notes: Notes,
    /// Records that are not what was written.
    pub torn: usize,
    /// Something is missing.
    pub is_cut: bool,
}

impl Timeline {
    /// Adds what a file holds.
    pub fn add(&mut self, trace: Trace) {
        self.notes.join(trace.notes);
        self.is_cut |= trace.is_cut;
        for ring in trace.rings {
            self.torn += ring.torn;
            self.entries.extend(ring.entries);
        }
        self.entries
            .sort_by_key(|entry| (entry.at_us, entry.process, entry.core, entry.number));
    }

    /// The steps that are asked for, the oldest first.
    pub fn lines(&self, filter: &Filter) -> Vec<Line> {
        let wanted = self
            .entries
            .iter()
            .filter(|entry| self.is_wanted(entry, filter));
        let mut lines: Vec<Line> = wanted.map(|entry| self.line(entry)).collect();
        if let Some(last) = filter.last {
            lines.drain(..lines.len().saturating_sub(last));
        }
        lines
    }

    fn is_wanted(&self, entry: &Entry, filter: &Filter) -> bool {
        let name = |entry: &Entry| entry.step.map(|step| step.name());
        if filter
            .session
            .is_some_and(|session| session != entry.session)
            || filter
                .step
                .as_deref()
                .is_some_and(|step| Some(step) != name(entry))
        {
            return false;
        }
        let (group, server) = (filter.group.as_deref(), filter.server.as_deref());
        if group.is_none() && server.is_none() {
            return true;
        }
        let values = entry.step.map(|step| step.values()).unwrap_or_default();
        let is_about = |value: &Value| match value {
            Value::Server(number) => self.notes.servers.get(number).is_some_and(|(address, of)| {
                group.is_none_or(|group| group == of)
                    && server.is_none_or(|server| server == address)
            }),
            Value::Group(number) => {
                let name = self.notes.groups.get(number).map(String::as_str);
                server.is_none() && group.is_some() && name == group
            }
            _ => false,
        };
        values.iter().any(|(_, value)| is_about(value))
    }

    fn line(&self, entry: &Entry) -> Line {
        let values = entry.step.map(|step| step.values()).unwrap_or_default();
        let shown = values
            .into_iter()
            .map(|(name, value)| (name, self.shown(value)));
        Line {
            at_us: entry.at_us,
            core: Some(entry.core).filter(|&core| core != CONTROL),
            process: entry.process,
            session: Some(entry.session).filter(|&session| session != 0),
            step: match entry.step {
                Some(step) => step.name().to_owned(),
                None => format!("unknown_step_{}", entry.kind),
            },
            values: shown.filter(|(_, text)| !text.is_empty()).collect(),
        }
    }

    fn shown(&self, value: Value) -> String {
        match value {
            Value::Number(number) => number.to_string(),
            Value::Word(word) => word.to_owned(),
            Value::Digest(0) => String::new(),
            Value::Digest(half) => format!("{half:016x}"),
            Value::Flag(flag) => flag.to_string(),
            Value::Server(0) => String::new(),
            Value::Server(number) => match self.notes.servers.get(&number) {
                Some((address, _)) => address.clone(),
                None => format!("#{number}"),
            },
            // Without a number it is the home group.
            Value::Group(0) => String::new(),
            Value::Group(number) => match self.notes.groups.get(&number) {
                Some(name) => name.clone(),
                None => format!("#{number}"),
            },
        }
    }
}

impl Line {
    /// As a line for people; `when` is its moment.
    pub fn text(&self, when: &str) -> String {
        let core = self
            .core
            .map_or_else(|| "control".to_owned(), |core| format!("core-{core}"));
        let session = self
            .session
            .map_or_else(|| "-".to_owned(), |session| session.to_string());
        let mut text = format!("{when}  {core:<8} {session:>10}  {}", self.step);
        for (name, value) in &self.values {
            text += &format!(" {name}={value}");
        }
        text
    }
}
