//! What happened lately: a ring of the last events.

use std::collections::{BTreeMap, VecDeque};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;
use time::{OffsetDateTime, PrimitiveDateTime};

/// Events kept; older ones are forgotten.
const EVENTS_MAX: usize = 1000;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    /// Milliseconds since 1970, UTC.
    pub at_ms: u64,
    /// A fixed word, for example `server_died`.
    pub kind: &'static str,
    pub group: String,
    /// UUID, empty for an event of a whole group.
    pub server: String,
    pub address: String,
    /// For people.
    pub detail: String,
}

impl Event {
    /// An event of now.
    pub fn now(kind: &'static str, group: &str, detail: String) -> Event {
        Event {
            at_ms: epoch_ms(),
            kind,
            group: group.to_owned(),
            server: String::new(),
            address: String::new(),
            detail,
        }
    }

    /// The same event, of one server.
    pub fn of(mut self, uuid: &str, address: String) -> Event {
        self.server = uuid.to_owned();
        self.address = address;
        self
    }

    /// The time as `2026-02-01T12:30:00.123Z`.
    pub fn when(&self) -> String {
        when(self.at_ms)
    }
}

/// Milliseconds since 1970, UTC.
pub fn epoch_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since_1970.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// A time in milliseconds since 1970 as `2026-02-01T12:30:00.123Z`.
pub fn when(at_ms: u64) -> String {
    let latest = PrimitiveDateTime::MAX.assume_utc();
    let at = i64::try_from(at_ms / 1000).ok();
    let at = at.and_then(|at| OffsetDateTime::from_unix_timestamp(at).ok());
    let at = at.unwrap_or(latest);
    let (year, month, day) = at.to_calendar_date();
    let (hours, minutes, seconds) = at.to_hms();
    let (month, ms) = (u8::from(month), at_ms % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
}

/// Hears of every event, on the control thread; must not block.
pub trait Listener: Send + Sync + std::fmt::Debug {
    fn happened(&self, event: &Event);
}

/// The last events and how many of each kind there were.
#[derive(Debug, Default)]
pub struct Ring {
    events: VecDeque<Event>,
    counts: BTreeMap<&'static str, u64>,
}

impl Ring {
    /// Keeps an event and logs it.
    pub fn push(&mut self, event: Event) {
        let Event {
            kind,
            group,
            address,
            detail,
            ..
        } = &event;
        match *kind {
            // Acknowledged commits are in danger; a change that somebody wanted is not in force.
            "acks_unavailable"
            | "account_mistaken"
            | "config_refused"
            | "rules_refused"
            | "rules_name_nobody"
            | "errant_transactions"
            | "errant_unsaved"
            | "clone_failed"
            | "consumer_gap"
            | "consumer_near_gap"
            | "doctor_found"
            | "transaction_stuck"
            | "transactions_unlisted"
            | "foreign_decisions"
            | "gate_freed"
            | "kv_option_refused"
            | "privileges_missing"
            | "rejoin_failed"
            | "replica_older" => {
                tracing::warn!(event = kind, group, server = address, "{detail}");
            }
            _ => tracing::info!(event = kind, group, server = address, "{detail}"),
        }
        *self.counts.entry(event.kind).or_default() += 1;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }

    /// The events, oldest first.
    pub fn list(&self) -> Vec<Event> {
        self.events.iter().cloned().collect()
    }

    /// How many of each kind since the start.
    pub fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counts
            .iter()
            .map(|(&kind, &count)| (kind, count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        let at = |at_ms| {
            Event {
                at_ms,
                ..Event::now("x", "", String::new())
            }
            .when()
        };
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_782_399_999), "2000-02-28T23:59:59.999Z");
        assert_eq!(at(951_782_400_000), "2000-02-29T00:00:00.000Z");
        assert_eq!(at(1_767_225_600_000), "2026-01-01T00:00:00.000Z");
    }

    #[test]
    fn the_ring_forgets_the_oldest_but_counts_all() {
        let mut ring = Ring::default();
        for i in 0..EVENTS_MAX + 5 {
            ring.push(Event::now("server_died", "g", i.to_string()));
        }
        let events = ring.list();
        assert_eq!(events.len(), EVENTS_MAX);
        assert_eq!(events[0].detail, "5");
        assert_eq!(ring.counts(), [("server_died", EVENTS_MAX as u64 + 5)]);
    }
}
