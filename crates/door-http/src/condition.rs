//! How the farm is: health, readiness, metrics, the snapshot.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::{Contact, Counters, Router};
use farm::{Server, Snapshot};
use rowcache::{RowCache, Space};
use serde_json::{Value, json};

use crate::change_stream;
use crate::metrics::{Family, Kind, Sample, write, write_open};
use crate::server::Shared;

/// The process lives and answers.
pub(crate) async fn healthz() -> &'static str {
    "ok\n"
}

/// 200 when clients can be served: the SQL door takes them and every group takes writes; a warning
/// when the store that several routers share does not answer, or 503 where that is wanted.
pub(crate) async fn readyz(State(shared): State<Shared>) -> Response {
    let mut reasons = reasons(&shared.control.snapshot(), shared.sql_serves.load(Relaxed));
    let contact = shared.control.contact();
    let silence = contact.silent_for.map(store_silence);
    let mut warnings = Vec::new();
    match contact.refuses {
        true => reasons.extend(silence),
        false => warnings.extend(silence),
    }
    let ready = reasons.is_empty();
    let status = if ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let mut answer = json!({ "ready": ready, "reasons": reasons });
    if !warnings.is_empty() {
        answer["warnings"] = warnings.into();
    }
    (status, Json(answer)).into_response()
}

/// What a router does that does not reach the others' store.
fn store_silence(silent_for: Duration) -> String {
    format!(
        "the state store has not answered for {} s: this router serves what it knows, and neither \
         leads nor learns of a new primary; see whether etcd has a majority of its members and can be \
         reached from here",
        silent_for.as_secs()
    )
}

/// Why the farm is not ready, each with where to look.
fn reasons(snapshot: &Snapshot, sql_serves: bool) -> Vec<String> {
    let mut reasons = Vec::new();
    if !sql_serves {
        reasons.push("the SQL door does not take clients".to_owned());
    }
    if snapshot.groups.is_empty() {
        reasons.push("the farm has no group; see `heddle group create`".to_owned());
    }
    for group in &snapshot.groups {
        let name = &group.name;
        match group.primary() {
            None => reasons.push(format!(
                "group {name} has no primary; see `heddle group add`"
            )),
            Some(primary) if !primary.health.alive => reasons.push(format!(
                "the primary {} of group {name} is not alive: {}",
                primary.address(),
                primary.health.error
            )),
            Some(primary) if primary.health.read_only => reasons.push(format!(
                "the primary {} of group {name} is read-only",
                primary.address()
            )),
            Some(_) => {}
        }
    }
    reasons
}

/// The whole snapshot, with the newest GTID positions.
pub(crate) async fn snapshot(State(shared): State<Shared>) -> Json<Value> {
    Json(json(&shared.control.snapshot()))
}

/// The snapshot as serde writes it, each server with its `address` and `lag_us` besides.
fn json(snapshot: &Snapshot) -> Value {
    let mut json = serde_json::to_value(snapshot).unwrap_or_default();
    for (g, group) in snapshot.groups.iter().enumerate() {
        for (s, server) in group.servers.iter().enumerate() {
            let server_json = &mut json["groups"][g]["servers"][s];
            server_json["address"] = server.address().into();
            server_json["lag_us"] = server.lag_us().into();
        }
    }
    json
}

/// The type of what Prometheus asks for first, and how others begin it.
const OPEN_METRICS: &str = "application/openmetrics-text";

/// Everything that was counted, in Prometheus' text form; with exemplars for who asks for OpenMetrics.
pub(crate) async fn metrics(State(shared): State<Shared>, headers: HeaderMap) -> Response {
    let counters = shared.control.counters();
    let snapshot = shared.control.snapshot();
    let mut families = of_control(&snapshot, &counters);
    families.extend(of_dist_txns(&counters));
    families.extend(of_remembered(&shared.control.reads().rows));
    families.extend(of_routers(
        &shared.control.routers(),
        shared.control.contact(),
    ));
    families.extend(change_stream::families(
        shared.control.change_stream().counts(),
    ));
    families.extend(shared.live.families());
    families.extend(change_stream::lags(shared.control.subscriptions()));
    families.extend(change_stream::sinks(shared.control.sinks()));
    families.extend(shared.counted.families());
    families.extend(shared.guests.iter().flat_map(|it| it.families_of_guest()));
    for source in shared.metrics.iter() {
        families.extend(source.families());
    }
    let accepted = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
    let (kind, text) = match accepted.is_some_and(|it| it.contains(OPEN_METRICS)) {
        true => (
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            write_open(&families),
        ),
        false => ("text/plain; version=0.0.4; charset=utf-8", write(&families)),
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// What the control plane counts itself.
fn of_control(snapshot: &Snapshot, counters: &Counters) -> Vec<Family> {
    let gauge = |name, help, samples| family(name, help, Kind::Gauge, samples);
    let counter = |name, help, samples| family(name, help, Kind::Counter, samples);
    let plain = |value| vec![Sample::plain(float(value))];
    let events = counters
        .events
        .iter()
        .map(|&(kind, count)| Sample::labelled(&[("kind", kind)], float(count)));
    let failovers = counters
        .failovers
        .iter()
        .map(|&(cause, count)| Sample::labelled(&[("cause", cause)], float(count)));
    vec![
        counter(
            "heddle_failovers_total",
            "Changes of primary, by cause.",
            failovers.collect(),
        ),
        gauge(
            "heddle_failover_pause_seconds",
            "How long statements waited in the last change of primary.",
            vec![Sample::plain(counters.last_pause_us as f64 / 1e6)],
        ),
        gauge(
            "heddle_server_up",
            "1 while the server answers its probes.",
            servers_up(snapshot),
        ),
        gauge(
            "heddle_server_lag_seconds",
            "How far the server is behind its primary, by this router's heartbeat; absent while unknown.",
            servers_lag(snapshot),
        ),
        gauge(
            "heddle_group_writable",
            "1 while the group's primary takes writes.",
            groups_writable(snapshot),
        ),
        gauge(
            "heddle_farm_epoch",
            "How often the farm was published.",
            plain(snapshot.epoch),
        ),
        counter(
            "heddle_events_total",
            "What happened, by kind.",
            events.collect(),
        ),
        counter(
            "heddle_commands_total",
            "Commands called.",
            plain(counters.commands),
        ),
        counter(
            "heddle_commands_failed_total",
            "Commands that ended with an error.",
            plain(counters.commands_failed),
        ),
        counter(
            "heddle_probes_total",
            "Probes of servers.",
            plain(counters.probes),
        ),
        counter(
            "heddle_probes_failed_total",
            "Probes without an answer.",
            plain(counters.probes_failed),
        ),
    ]
}

/// Who shares the farm with this router.
fn of_routers(routers: &[Router], contact: Contact) -> Vec<Family> {
    let leads = routers.iter().any(|router| router.own && router.leads);
    let silent = contact
        .silent_for
        .map_or(0.0, |silence| silence.as_secs_f64());
    let gauge = |name, help, value| family(name, help, Kind::Gauge, vec![Sample::plain(value)]);
    vec![
        gauge(
            "heddle_router_leads",
            "1 while this router leads the farm; a farm without one for long fails nothing over.",
            float(leads.into()),
        ),
        gauge(
            "heddle_routers",
            "Routers of the farm that live, as this one knows.",
            float(routers.len() as u64),
        ),
        gauge(
            "heddle_store_silent_seconds",
            "For how long the store that routers share has not answered, beyond store_silence_ms; 0 while it does.",
            silent,
        ),
    ]
}

/// Transactions over several groups.
fn of_dist_txns(counters: &Counters) -> Vec<Family> {
    let verdicts = counters.recovered.iter().zip(["committed", "rolled_back"]);
    let recovered = verdicts.map(|(&count, it)| Sample::labelled(&[("verdict", it)], float(count)));
    let in_doubt = u64::try_from(counters.in_doubt).unwrap_or(u64::MAX);
    vec![
        family(
            "heddle_xa_recovered_total",
            "Transactions over several groups that were ended for a router that did not, by what became of them.",
            Kind::Counter,
            recovered.collect(),
        ),
        family(
            "heddle_foreign_decisions_total",
            "Decisions that no transaction of this farm made, and that were removed.",
            Kind::Counter,
            vec![Sample::plain(float(counters.foreign_decisions))],
        ),
        family(
            "heddle_xa_in_doubt",
            "Transactions over several groups with prepared branches at the last look.",
            Kind::Gauge,
            vec![Sample::plain(float(in_doubt))],
        ),
    ]
}

/// The row cache, by container and group.
fn of_remembered(rows: &RowCache) -> Vec<Family> {
    let spaces = rows.spaces();
    let samples = |of: &dyn Fn(&Space) -> Vec<(&'static str, u64)>| {
        let mut all = Vec::new();
        for space in spaces.iter() {
            let names = [
                ("container", space.container.name.as_str()),
                ("group", space.group.as_str()),
            ];
            all.extend(of(space).into_iter().map(|(outcome, count)| {
                let labels = [names[0], names[1], ("outcome", outcome)];
                let shown = if outcome.is_empty() { 2 } else { 3 };
                Sample::labelled(&labels[..shown], float(count))
            }));
        }
        all
    };
    let gets = |space: &Space| {
        let counts = &space.counts;
        let hits = ("hit", counts.hits.load(Relaxed));
        vec![hits, ("miss", counts.misses.load(Relaxed))]
    };
    let bytes = |space: &Space| vec![("", u64::try_from(space.size().1).unwrap_or(u64::MAX))];
    vec![
        family(
            "heddle_kv_cache_gets_total",
            "Gets that the row cache was asked for, by whether it knew the row.",
            Kind::Counter,
            samples(&gets),
        ),
        family(
            "heddle_kv_cache_bytes",
            "What the row cache takes.",
            Kind::Gauge,
            samples(&bytes),
        ),
    ]
}

fn servers_up(snapshot: &Snapshot) -> Vec<Sample> {
    let servers = snapshot.groups.iter().flat_map(|group| &group.servers);
    servers
        .map(|server| of_server(server, float(server.health.alive.into())))
        .collect()
}

fn servers_lag(snapshot: &Snapshot) -> Vec<Sample> {
    let servers = snapshot.groups.iter().flat_map(|group| &group.servers);
    let known = servers.filter_map(|server| Some((server, server.lag_us()?)));
    known
        .map(|(server, lag_us)| of_server(server, float(lag_us) / 1e6))
        .collect()
}

fn of_server(server: &Server, value: f64) -> Sample {
    let labels = [
        ("server", &*server.address()),
        ("group", &*server.group),
        ("role", &*server.status.fabric_name().to_ascii_lowercase()),
    ];
    Sample::labelled(&labels, value)
}

fn groups_writable(snapshot: &Snapshot) -> Vec<Sample> {
    let writable = snapshot.groups.iter().map(|group| {
        let takes = group
            .primary()
            .is_some_and(|primary| primary.serves_writes());
        Sample::labelled(&[("group", &*group.name)], float(takes.into()))
    });
    writable.collect()
}

fn family(name: &'static str, help: &'static str, kind: Kind, samples: Vec<Sample>) -> Family {
    Family {
        name,
        help,
        kind,
        samples,
    }
}

/// Prometheus' values are floats; counters above 2^53 lose their last digits.
#[expect(
    clippy::cast_precision_loss,
    reason = "the loss is below what anybody reads off a counter"
)]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Instant;

    use farm::{Engine, Group, Health, Mode, Server, ServerId, Status};

    use super::*;

    fn snapshot(alive: bool, read_only: bool) -> Snapshot {
        let server = Server {
            id: ServerId(1),
            uuid: "u".into(),
            name: "s".into(),
            group: "g".into(),
            host: "127.0.0.1".into(),
            port: 3307,
            status: Status::Primary,
            mode: Mode::ReadWrite,
            weight: 1.0,
            engine: Engine::MariaDb,
            version: "10.11.6-MariaDB".into(),
            health: Health {
                alive,
                read_only,
                ..Health::unknown()
            },
            term: 0,
            key: None,
            fresh: Default::default(),
        };
        let group = Group {
            name: "g".into(),
            number: 0,
            description: String::new(),
            kind: Default::default(),
            active: true,
            paused: false,
            forks: Vec::new(),
            acks: Default::default(),
            servers: vec![Arc::new(server)],
        };
        Snapshot {
            groups: vec![Arc::new(group)],
            ..Snapshot::empty("f", Instant::now())
        }
    }

    #[test]
    fn readiness_says_what_is_missing() {
        assert_eq!(reasons(&snapshot(true, false), true), Vec::<String>::new());
        assert_eq!(reasons(&snapshot(true, false), false).len(), 1);
        assert!(reasons(&snapshot(false, true), true)[0].contains("is not alive: not probed yet"));
        assert!(reasons(&snapshot(true, true), true)[0].contains("is read-only"));
        assert!(reasons(&Snapshot::empty("f", Instant::now()), true)[0].contains("no group"));
    }

    #[test]
    fn routers_are_counted() {
        let router = |own, leads| Router {
            slot: 1,
            id: "i".to_owned(),
            name: "r".to_owned(),
            http: String::new(),
            sql: String::new(),
            version: String::new(),
            started_ms: 0,
            leads,
            leads_since_ms: None,
            own,
        };
        let contact = Contact {
            silent_for: Some(Duration::from_millis(12_500)),
            refuses: false,
        };
        let text = write(&of_routers(
            &[router(true, false), router(false, true)],
            contact,
        ));
        for line in [
            "heddle_router_leads 0",
            "heddle_routers 2",
            "heddle_store_silent_seconds 12.5",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
        let text = store_silence(Duration::from_millis(12_500));
        assert!(text.contains("for 12 s") && text.contains("etcd"), "{text}");
    }

    #[test]
    fn the_snapshot_shows_addresses() {
        let json = json(&snapshot(true, false));
        let server = &json["groups"][0]["servers"][0];
        assert_eq!(server["address"], "127.0.0.1:3307");
        assert_eq!(
            (&server["status"], &server["mode"]),
            (&json!("primary"), &json!("read_write"))
        );
        assert_eq!(
            json.get("accounts"),
            None,
            "password hashes are nobody's business"
        );
    }

    #[test]
    fn families_of_the_control_plane() {
        let counters = Counters {
            events: vec![("server_died", 2)],
            ..Counters::default()
        };
        let text = write(&of_control(&snapshot(true, false), &counters));
        let up = r#"heddle_server_up{server="127.0.0.1:3307",group="g",role="primary"} 1"#;
        assert!(text.contains(up), "{text}");
        assert!(
            text.contains("heddle_events_total{kind=\"server_died\"} 2\n"),
            "{text}"
        );
        assert!(text.contains("# TYPE heddle_farm_epoch gauge\n"), "{text}");
    }
}
