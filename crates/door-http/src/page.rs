//! One page for people: the farm as it is, made anew every two seconds, nothing loaded from
//! elsewhere, no script.

use std::fmt::Write;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use catalog::Event;
use farm::{Group, Server, Snapshot, Status};

use crate::server::Shared;

/// Events shown, the newest first.
const EVENTS_SHOWN: usize = 20;

/// Nothing on the page needs more than its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";

const HEAD: &str = "<!doctype html>\n<html lang=en><head><meta charset=utf-8>\
<meta http-equiv=refresh content=2><meta name=viewport content='width=device-width'>\
<title>Heddle</title><style>\
body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222}\
table{border-collapse:collapse;width:100%}\
td,th{text-align:left;padding:.25em .8em .25em 0;border-bottom:1px solid #ddd;vertical-align:top}\
.good{color:#070}.bad{color:#b00;font-weight:600}.dim{color:#777}code{font-size:90%}\
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}td,th{border-color:#333}\
.good{color:#6c6}.bad{color:#f66}}\
</style></head><body>\n";

/// GET /
pub(crate) async fn show(State(shared): State<Shared>) -> Response {
    let html = render(&shared.control.snapshot(), &shared.control.events());
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
    ];
    (headers, html).into_response()
}

fn render(snapshot: &Snapshot, events: &[Event]) -> String {
    let mut html = String::from(HEAD);
    let mut put = |text: std::fmt::Arguments<'_>| {
        html.write_fmt(text)
            .expect("writing to a String cannot fail");
    };
    let farm = escaped(&snapshot.farm_id);
    let epoch = snapshot.epoch;
    put(format_args!(
        "<h1>Heddle</h1><p class=dim>farm {farm}, published {epoch} times</p>\n"
    ));
    if snapshot.groups.is_empty() {
        put(format_args!(
            "<p>The farm has no group yet. <code>heddle group create NAME</code>, then \
             <code>heddle group add NAME HOST:PORT</code>.</p>\n"
        ));
    }
    for group in &snapshot.groups {
        put(format_args!("{}", section(group)));
    }
    put(format_args!("<h2>What happened lately</h2>\n"));
    if events.is_empty() {
        put(format_args!(
            "<p class=dim>Nothing since this router was started.</p>\n"
        ));
    } else {
        put(format_args!("<table>\n"));
        for event in events.iter().rev().take(EVENTS_SHOWN) {
            put(format_args!(
                "<tr><td class=dim>{}<td>{}<td>{}<td>{}\n",
                event.when(),
                escaped(&event.group),
                escaped(event.kind),
                escaped(&event.detail)
            ));
        }
        put(format_args!("</table>\n"));
    }
    put(format_args!(
        "<p class=dim><a href=/v1/farm>JSON</a> · <a href=/metrics>metrics</a> · \
         <a href=/v1/manage/help>commands</a></p></body></html>\n"
    ));
    html
}

fn section(group: &Group) -> String {
    let name = escaped(&group.name);
    let takes = group.primary().is_some_and(|p| p.serves_writes());
    let (class, word) = if takes {
        ("good", "takes writes")
    } else {
        ("bad", "takes no writes")
    };
    let mut html = format!(
        "<h2>Group {name} <small class={class}>{word}</small></h2>\n<p class=dim>{}</p>\n<table>\
         <tr><th>server<th>role<th>mode<th>weight<th>state<th>lag<th>position<th>version\n",
        escaped(&group.description)
    );
    for server in &group.servers {
        let (class, state) = state(server);
        html.push_str(&format!(
            "<tr><td>{} <span class=dim>{}</span><td>{}<td>{}<td>{}<td class={class}>{}\
             <td>{}<td><code>{}</code><td>{}\n",
            escaped(&server.name),
            escaped(&server.address()),
            role(server.status),
            server.mode.name().to_ascii_lowercase(),
            server.weight,
            escaped(&state),
            lag(server),
            escaped(&server.health.gtid),
            escaped(&server.version)
        ));
    }
    html.push_str("</table>\n");
    html
}

fn lag(server: &Server) -> String {
    let ms = |us: u64| format!("{:.1} ms", us as f64 / 1000.0);
    server.lag_us().map_or("unknown".to_owned(), ms)
}

fn role(status: Status) -> &'static str {
    match status {
        Status::Faulty => "faulty",
        Status::Spare => "spare",
        Status::Replica => "replica",
        Status::Primary => "primary",
    }
}

/// How a server fares, in words, and whether that is good.
fn state(server: &Server) -> (&'static str, String) {
    let health = &server.health;
    if !health.alive {
        return ("bad", health.error.clone());
    }
    if server.status == Status::Primary {
        return if health.read_only {
            ("bad", "alive, but read-only".to_owned())
        } else {
            ("good", "alive".to_owned())
        };
    }
    match (health.io_running, health.sql_running) {
        (Some(true), Some(true)) => ("good", "replicates".to_owned()),
        (None, _) | (_, None) => ("bad", "alive, but follows nobody".to_owned()),
        _ => {
            let why = format!("{} {}", health.io_error, health.sql_error);
            (
                "bad",
                format!("alive, but does not replicate {why}")
                    .trim()
                    .to_owned(),
            )
        }
    }
}

fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
    html
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn an_empty_farm_says_what_to_do() {
        let html = render(&Snapshot::empty("f", Instant::now()), &[]);
        assert!(html.contains("heddle group create NAME"));
        assert!(
            !html.contains("<script") && !html.contains("http://"),
            "nothing from elsewhere"
        );
    }

    #[test]
    fn texts_of_operators_are_not_markup() {
        let group = Group {
            name: "g".into(),
            number: 0,
            description: "<script>alert('x')</script>".to_owned(),
            kind: Default::default(),
            active: false,
            paused: false,
            forks: Vec::new(),
            acks: Default::default(),
            servers: Vec::new(),
        };
        let html = section(&group);
        assert!(html.contains("&lt;script&gt;alert(&#39;x&#39;)"), "{html}");
        assert!(html.contains("takes no writes"));
    }
}
