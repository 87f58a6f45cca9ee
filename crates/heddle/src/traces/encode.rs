//! Traced statements as the JSON of OTLP/HTTP: one request with the spans of many.
//!
//! Names of attributes are those of OpenTelemetry's semantic conventions for databases; Heddle's own begin with
//! `heddle.`. Source: opentelemetry-proto 1.x, «JSON Protobuf Encoding»: ids are hexadecimal, 64-bit numbers are texts.
//!
//! Invariant: no literal of a statement is in it, since the normal form has none.

use serde_json::{Value, json};
use statistics::{Door, Failed, Peer, Span, Stage, Traced};

use super::summary::{operation, summary};

/// Kinds of spans.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;

/// Of a status: it failed.
const FAILED: u8 = 2;

/// The operation of a statement that is prepared, and not executed.
const PREPARE: &str = "PREPARE";

/// Flags of a span: whether its parent is of another process is known (256), and it is (512).
const PARENT_KNOWN: u32 = 0x100;
const PARENT_REMOTE: u32 = 0x200;

/// Whose spans they are.
#[derive(Clone, Debug)]
pub struct Resource {
    pub service: String,
    /// Names the router among the farm's.
    pub instance: String,
    pub host: String,
}

impl Resource {
    fn attributes(&self) -> Value {
        let mut attributes = Attributes::default();
        attributes.text("service.name", &self.service);
        attributes.text("service.version", env!("CARGO_PKG_VERSION"));
        attributes.text("service.instance.id", &self.instance);
        attributes.text("host.name", &self.host);
        Value::Array(attributes.0)
    }
}

/// The body of a request with these statements, and how many spans it has. `ids` gives names of spans.
pub fn request(
    resource: &Resource,
    batch: &[Traced],
    mut ids: impl FnMut() -> [u8; 8],
) -> (String, u64) {
    let mut spans = Vec::new();
    for traced in batch {
        put(&mut spans, traced, &mut ids);
    }
    let count = spans.len() as u64;
    let scope = json!({"name": "heddle", "version": env!("CARGO_PKG_VERSION")});
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": resource.attributes()},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    (body.to_string(), count)
}

/// The attributes of one span.
#[derive(Default)]
struct Attributes(Vec<Value>);

impl Attributes {
    /// One that is not empty.
    fn text(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            let value = json!({"stringValue": value});
            self.0.push(json!({"key": key, "value": value}));
        }
    }

    fn number(&mut self, key: &str, value: u64) {
        let value = json!({"intValue": value.to_string()});
        self.0.push(json!({"key": key, "value": value}));
    }

    fn error(&mut self, failed: Failed) {
        match failed {
            Failed::Error(number) => {
                let number = number.to_string();
                self.text("db.response.status_code", &number);
                self.text("error.type", &number);
            }
            Failed::Retried(why) => self.text("error.type", why),
        }
    }

    fn peer(&mut self, peer: &Peer) {
        self.text("db.system.name", peer.engine);
        self.text("server.address", &peer.host);
        if peer.port != 0 {
            self.number("server.port", u64::from(peer.port));
        }
        self.text("heddle.group", &peer.group);
    }
}

/// The spans of one statement.
fn put(spans: &mut Vec<Value>, traced: &Traced, ids: &mut impl FnMut() -> [u8; 8]) {
    let trace = hex::encode(traced.context.trace);
    let own = hex::encode(traced.context.span);
    let summary = match summary(&traced.text) {
        empty if empty.is_empty() => traced.kind.name().to_owned(),
        summary => summary,
    };
    let summary = match traced.prepares {
        true => format!("{PREPARE} {summary}"),
        false => summary,
    };
    let names: Vec<String> = traced.spans.iter().map(|_| hex::encode(ids())).collect();
    spans.push(statement(traced, &trace, &own, &summary));
    for (span, name) in traced.spans.iter().zip(&names) {
        let parent = span.within.and_then(|at| names.get(at)).unwrap_or(&own);
        spans.push(part(traced, span, &summary, [&trace, name, parent]));
    }
}

fn statement(traced: &Traced, trace: &str, own: &str, summary: &str) -> Value {
    let mut attributes = Attributes::default();
    let engine = traced.spans.iter().filter_map(|span| span.peer.as_ref());
    let engine = engine.map(|peer| peer.engine).find(|it| !it.is_empty());
    // The conventions want it in every case.
    attributes.text("db.system.name", engine.unwrap_or("other_sql"));
    attributes.text("db.namespace", &traced.database);
    attributes.text("db.query.summary", summary);
    attributes.text("db.query.text", &traced.text);
    match traced.prepares {
        true => attributes.text("db.operation.name", PREPARE),
        false => attributes.text("db.operation.name", &operation(&traced.text)),
    }
    if traced.call.error.is_none() {
        attributes.number("db.response.returned_rows", traced.call.rows_sent);
    }
    if let Some(number) = traced.call.error {
        attributes.error(Failed::Error(number));
    }
    if let Some(client) = traced.client {
        attributes.text("client.address", &client.ip().to_canonical().to_string());
        attributes.number("client.port", u64::from(client.port()));
    }
    attributes.text("heddle.user", &traced.user);
    attributes.text("heddle.group", &traced.group);
    attributes.text("heddle.source_tag", &traced.tag);
    let digest = traced.digest.map(|digest| digest.to_string());
    attributes.text("heddle.digest", &digest.unwrap_or_default());
    if traced.door == Door::Keys {
        attributes.text("heddle.door", traced.door.name());
    }
    attributes.number("heddle.session", u64::from(traced.session));
    attributes.number("heddle.rows_changed", traced.call.rows_changed);
    attributes.number("heddle.bytes", traced.call.bytes);
    attributes.number("heddle.retries", u64::from(traced.retries));
    let remote = match traced.context.parent {
        Some(_) => PARENT_KNOWN | PARENT_REMOTE,
        None => PARENT_KNOWN,
    };
    let mut span = json!({
        "traceId": trace,
        "spanId": own,
        "flags": 1 | remote,
        "name": summary,
        "kind": SERVER,
        "startTimeUnixNano": traced.began_ns.to_string(),
        "endTimeUnixNano": traced.ended_ns.to_string(),
        "attributes": attributes.0,
    });
    if let Some(parent) = traced.context.parent {
        span["parentSpanId"] = hex::encode(parent).into();
    }
    if traced.call.error.is_some() {
        span["status"] = json!({"code": FAILED});
    }
    span
}

fn part(traced: &Traced, span: &Span, summary: &str, [trace, own, parent]: [&str; 3]) -> Value {
    let (name, kind) = match span.stage {
        Stage::Connection => ("connection", INTERNAL),
        Stage::Position => ("wait for position", INTERNAL),
        Stage::Primary => ("wait for primary", INTERNAL),
        Stage::Groups => ("groups", INTERNAL),
        Stage::End => ("end", INTERNAL),
        Stage::Server => (summary, CLIENT),
        Stage::Command(command) => (command, CLIENT),
    };
    let mut attributes = Attributes::default();
    if let Some(peer) = &span.peer {
        attributes.peer(peer);
    }
    match span.stage {
        Stage::Server => {
            attributes.text("db.namespace", &traced.database);
            attributes.text("db.query.summary", summary);
        }
        Stage::Command(command) => attributes.text("db.operation.name", command),
        _ => {}
    }
    if let Some(rows) = span.rows {
        attributes.number("db.response.returned_rows", rows);
    }
    if let Some(failed) = span.failed {
        attributes.error(failed);
    }
    let mut told = json!({
        "traceId": trace,
        "spanId": own,
        "parentSpanId": parent,
        "flags": 1 | PARENT_KNOWN,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": span.began_ns.to_string(),
        "endTimeUnixNano": span.ended_ns.to_string(),
        "attributes": attributes.0,
    });
    if span.failed.is_some() {
        told["status"] = json!({"code": FAILED});
    }
    told
}

#[cfg(test)]
pub(super) mod tests {
    use statistics::{Call, Kind, TraceContext};

    use super::*;

    /// A statement on two groups of which one failed.
    pub fn traced() -> Traced {
        let server = |within, port, failed| Span {
            stage: Stage::Server,
            began_ns: 1_000_000_000_000_000_100,
            ended_ns: 1_000_000_000_000_000_200,
            within: Some(within),
            peer: Some(Peer {
                engine: "mariadb",
                group: "g1".to_owned(),
                host: "db1".to_owned(),
                port,
            }),
            failed,
            rows: Some(3),
        };
        let groups = Span {
            stage: Stage::Groups,
            within: None,
            peer: None,
            rows: None,
            ..server(0, 0, Some(Failed::Error(1054)))
        };
        Traced {
            context: TraceContext {
                trace: [0xAB; 16],
                span: [0xCD; 8],
                parent: Some([0xEF; 8]),
            },
            call: Call {
                error: Some(1054),
                ..Call::default()
            },
            kind: Kind::Read,
            door: Door::Sql,
            session: 23,
            user: "app".to_owned(),
            client: Some(([127, 0, 0, 1], 4711).into()),
            database: "shop".to_owned(),
            prepares: false,
            group: "*".to_owned(),
            digest: Some(sqltext::Digest::of_normal("SELECT a FROM t")),
            text: "SELECT a FROM t WHERE b = ?".to_owned(),
            tag: "app:web".to_owned(),
            retries: 0,
            began_ns: 1_000_000_000_000_000_000,
            ended_ns: 1_000_000_000_000_000_300,
            spans: vec![
                groups,
                server(0, 3306, None),
                server(0, 3307, Some(Failed::Error(1054))),
            ],
        }
    }

    fn resource() -> Resource {
        Resource {
            service: "heddle".to_owned(),
            instance: "r1".to_owned(),
            host: "h1".to_owned(),
        }
    }

    fn attribute(span: &Value, key: &str) -> Value {
        let all = span["attributes"].as_array().expect("a list");
        let found = all.iter().find(|it| it["key"] == key);
        found.map_or(Value::Null, |it| it["value"].clone())
    }

    #[test]
    fn a_statement_is_a_span_and_what_it_did_are_spans_below() {
        let mut last = 0;
        let ids = || {
            last += 1;
            [last; 8]
        };
        let (body, count) = request(&resource(), &[traced()], ids);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let of = &body["resourceSpans"][0];
        let spans = of["scopeSpans"][0]["spans"].as_array().expect("a list");
        assert_eq!((count, spans.len()), (4, 4));
        assert_eq!(
            attribute(&of["resource"], "service.instance.id"),
            json!({"stringValue": "r1"})
        );
        let root = &spans[0];
        assert_eq!(root["traceId"], "ab".repeat(16));
        assert_eq!(root["parentSpanId"], "ef".repeat(8));
        assert_eq!(
            (&root["name"], &root["kind"]),
            (&json!("SELECT t"), &json!(2))
        );
        assert_eq!(root["startTimeUnixNano"], "1000000000000000000");
        assert_eq!(root["status"], json!({"code": 2}));
        assert_eq!(
            attribute(root, "db.system.name"),
            json!({"stringValue": "mariadb"})
        );
        assert_eq!(
            attribute(root, "db.response.status_code"),
            json!({"stringValue": "1054"})
        );
        assert_eq!(attribute(root, "heddle.session"), json!({"intValue": "23"}));
        let parents = spans[1..].iter().map(|span| span["parentSpanId"].as_str());
        let parents: Vec<_> = parents.flatten().map(str::to_owned).collect();
        assert_eq!(parents, ["cd".repeat(8), "01".repeat(8), "01".repeat(8)]);
        assert_eq!(
            attribute(&spans[2], "server.port"),
            json!({"intValue": "3306"})
        );
        assert_eq!(
            (&spans[2]["kind"], &spans[2]["status"]),
            (&json!(3), &Value::Null)
        );
        assert_eq!(
            attribute(&spans[3], "error.type"),
            json!({"stringValue": "1054"})
        );
    }

    #[test]
    fn what_is_prepared_and_what_heddle_sends_itself_have_names() {
        let commit = Span {
            stage: Stage::Command("XA COMMIT"),
            within: None,
            failed: Some(Failed::Retried("connection_lost")),
            ..traced().spans[1].clone()
        };
        let prepared = Traced {
            prepares: true,
            spans: vec![commit],
            ..traced()
        };
        let (body, _) = request(&resource(), &[prepared], || [1; 8]);
        let body: Value = serde_json::from_str(&body).expect("JSON");
        let spans = &body["resourceSpans"][0]["scopeSpans"][0]["spans"];
        assert_eq!(spans[0]["name"], "PREPARE SELECT t");
        let operation = |span: &Value| attribute(span, "db.operation.name");
        assert_eq!(operation(&spans[0]), json!({"stringValue": "PREPARE"}));
        assert_eq!(
            (&spans[1]["name"], &spans[1]["kind"]),
            (&json!("XA COMMIT"), &json!(3))
        );
        assert_eq!(operation(&spans[1]), json!({"stringValue": "XA COMMIT"}));
        assert_eq!(spans[1]["parentSpanId"], spans[0]["spanId"]);
    }
}
