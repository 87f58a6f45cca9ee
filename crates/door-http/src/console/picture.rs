//! The farm as the console draws it: one JSON value, small enough to be compared every second.
//!
//! Everything that comes and goes is an object by name, so that a patch names it. Nothing is null ([`super::patch`]).
//! It holds what the monitor right shows: no statement, no rule, no account.

use catalog::Event;
use control::{Control, Router};
use farm::{Group, Server, Snapshot};
use serde_json::{Map, Value, json};

use super::severity;

/// The latest events are shown, so many.
const EVENTS_SHOWN: usize = 200;

/// What the picture is made of.
pub(super) struct Seen {
    pub(super) snapshot: Snapshot,
    pub(super) routers: Vec<Router>,
    pub(super) events: Vec<Event>,
    /// Transactions over several groups with prepared branches.
    pub(super) in_doubt: usize,
    /// For how long statements waited in the last change of primary, in microseconds.
    pub(super) last_pause_us: u64,
    /// For so many seconds the state store has not answered; 0 while it does.
    pub(super) store_silent_s: u64,
    /// Whether the SQL door takes clients.
    pub(super) sql_serves: bool,
}

impl Seen {
    /// The farm as this router knows it now.
    pub(super) fn of(control: &Control, sql_serves: bool) -> Seen {
        let counters = control.counters();
        Seen {
            snapshot: control.snapshot(),
            routers: control.routers(),
            events: control.events(),
            in_doubt: counters.in_doubt,
            last_pause_us: counters.last_pause_us,
            store_silent_s: control.contact().silent_for.map_or(0, |it| it.as_secs()),
            sql_serves,
        }
    }

    /// The picture.
    pub(super) fn json(&self) -> Map<String, Value> {
        let mut groups = Map::new();
        let mut servers = Map::new();
        for group in &self.snapshot.groups {
            groups.insert(group.name.to_string(), of_group(group));
            for server in &group.servers {
                servers.insert(server.uuid.to_string(), of_server(server));
            }
        }
        let routers = self.routers.iter().map(of_router).collect();
        let farm = json!({
            "id": *self.snapshot.farm_id,
            "version": env!("CARGO_PKG_VERSION"),
            "in_doubt": self.in_doubt,
            "last_pause_ms": self.last_pause_us as f64 / 1000.0,
            "store_silent_s": self.store_silent_s,
            "sql_serves": self.sql_serves,
        });
        let parts = [
            ("farm", farm),
            ("groups", Value::Object(groups)),
            ("servers", Value::Object(servers)),
            ("routers", Value::Object(routers)),
            ("events", Value::Object(of_events(&self.events))),
        ];
        parts
            .map(|(name, part)| (name.to_owned(), part))
            .into_iter()
            .collect()
    }
}

fn of_group(group: &Group) -> Value {
    let (severity, why) = severity::of_group(group);
    json!({
        "severity": severity.name(),
        "why": why,
        "kind": group.kind.name(),
        "description": group.description,
        "active": group.active,
        "writable": group.primary().is_some_and(|it| it.serves_writes()) && !group.paused,
        "primary": group.primary().map_or("", |it| &*it.uuid),
        "timeline": group.timeline(),
    })
}

fn of_server(server: &Server) -> Value {
    let (severity, state) = severity::of_server(server);
    let mut json = json!({
        "group": *server.group,
        "name": *server.name,
        "address": server.address(),
        "status": server.status,
        "mode": server.mode,
        "weight": server.weight,
        "engine": server.engine.name(),
        "version": *server.version,
        "severity": severity.name(),
        "state": state,
    });
    // A primary that is gone has no lag, though it was behind nobody.
    if let Some(lag_us) = server.lag_us().filter(|_| server.health.alive) {
        json["lag_ms"] = two_digits(lag_us as f64 / 1000.0).into();
    }
    json
}

/// A lag as people compare it. Digits behind the second would be news every second.
fn two_digits(ms: f64) -> f64 {
    if ms < 10.0 {
        return (ms * 10.0).round() / 10.0;
    }
    let scale = 10f64.powf(ms.log10().floor() - 1.0);
    (ms / scale).round() * scale
}

fn of_router(router: &Router) -> (String, Value) {
    // One that is alone has no name.
    let name = match router.name.as_str() {
        "" => "router",
        name => name,
    };
    let json = json!({
        "http": router.http,
        "sql": router.sql,
        "version": router.version,
        "started_ms": router.started_ms,
        "leads": router.leads,
        "own": router.own,
    });
    (name.to_owned(), json)
}

/// By their times; of one millisecond, in their order.
fn of_events(events: &[Event]) -> Map<String, Value> {
    let mut all = Map::new();
    let (mut last_ms, mut of_last) = (0, 0);
    for event in &events[events.len().saturating_sub(EVENTS_SHOWN)..] {
        of_last = match event.at_ms == last_ms {
            true => of_last + 1,
            false => 0,
        };
        last_ms = event.at_ms;
        let json = json!({
            "at_ms": event.at_ms,
            "kind": event.kind,
            "group": event.group,
            "address": event.address,
            "detail": event.detail,
        });
        all.insert(format!("{last_ms}-{of_last}"), json);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use super::super::severity::tests::{group, server};
    use super::*;
    use farm::Status;

    fn seen() -> Seen {
        let late = server(2, Status::Replica);
        late.fresh.set_lag_us(Some(1_234));
        let servers = vec![server(1, Status::Primary), late, server(3, Status::Replica)];
        Seen {
            snapshot: Snapshot {
                groups: vec![Arc::new(group(servers))],
                ..Snapshot::empty("f", Instant::now())
            },
            routers: Vec::new(),
            events: Vec::new(),
            in_doubt: 0,
            last_pause_us: 71_500,
            store_silent_s: 0,
            sql_serves: true,
        }
    }

    fn has_null(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Object(map) => map.values().any(has_null),
            Value::Array(list) => list.iter().any(has_null),
            _ => false,
        }
    }

    #[test]
    fn everything_has_its_name_and_nothing_is_null() {
        let picture = Value::Object(seen().json());
        assert!(!has_null(&picture), "{picture}");
        assert_eq!(picture["groups"]["g1"]["severity"], "well");
        assert_eq!(picture["groups"]["g1"]["writable"], true);
        assert_eq!(picture["groups"]["g1"]["primary"], "uuid-1");
        let replica = &picture["servers"]["uuid-2"];
        assert_eq!(replica["lag_ms"], 1.2);
        assert_eq!(replica["status"], "replica");
        assert_eq!(replica["mode"], "read_only");
        assert_eq!(picture["servers"]["uuid-3"].get("lag_ms"), None, "unknown");
        assert_eq!(picture["farm"]["last_pause_ms"], 71.5);
    }

    #[test]
    fn a_lag_has_two_digits() {
        for (ms, shown) in [(0.04, 0.0), (0.26, 0.3), (1.234, 1.2), (987.0, 990.0)] {
            assert!((two_digits(ms) - shown).abs() < 1e-9, "{ms}");
        }
    }

    #[test]
    fn events_of_one_moment_are_told_apart_and_old_ones_go() {
        let event = |at_ms, detail: &str| Event {
            at_ms,
            ..Event::now("server_died", "g1", detail.to_owned())
        };
        let events = [event(5, "a"), event(5, "b"), event(6, "c")];
        let all = of_events(&events);
        let details: Vec<_> = ["5-0", "5-1", "6-0"].map(|key| &all[key]["detail"]).into();
        assert_eq!(details, ["a", "b", "c"]);
        let many: Vec<Event> = (0..1000).map(|at| event(at, "")).collect();
        let all = of_events(&many);
        assert_eq!(all.len(), EVENTS_SHOWN);
        assert!(all.contains_key("999-0") && !all.contains_key("799-0"));
    }
}
