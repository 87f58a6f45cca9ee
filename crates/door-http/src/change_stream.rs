//! `GET /v1/changes`: the change stream as one answer that does not end, a line of JSON for each event, or
//! server-sent events for who accepts them.
//!
//! What runs for the streams runs on a thread of its own, so that a stream of many rows delays no request.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use catalog::CommandError;
use changes::Wanted;
use changes::debezium::Types;
use control::{ChangesCounts, ChangesWanted, Lag, SinkCounts, Sinks, Subscriptions};
use hyper::body::{Body as Answer, Frame};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::task::JoinSet;

use crate::answer::Refusal;
use crate::metrics::{Family, Kind, Sample};
use crate::server::{Shared, Wish};

mod events;
mod packing;

use packing::Packer;

/// What has to run for a stream.
type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where streams run, and how many may.
#[derive(Clone)]
pub(crate) struct Streams {
    run: mpsc::UnboundedSender<Serving>,
    places: Arc<Semaphore>,
    max: usize,
    /// Whether the door takes requests. When it does not any more streams end at once: an answer without an end
    /// would keep it from closing.
    door: watch::Receiver<Wish>,
}

impl Streams {
    /// At most so many; with the future that a thread has to carry out, which ends when the last `Streams` is
    /// dropped.
    pub(crate) fn new(
        max: usize,
        door: watch::Receiver<Wish>,
    ) -> (Streams, impl Future<Output = ()> + Send + 'static) {
        let (run, mut wanted) = mpsc::unbounded_channel::<Serving>();
        let streams = Streams {
            run,
            places: Arc::new(Semaphore::new(max)),
            max,
            door,
        };
        let living = async move {
            let mut running = JoinSet::new();
            loop {
                tokio::select! {
                    serving = wanted.recv() => match serving {
                        Some(serving) => drop(running.spawn(serving)),
                        None => break,
                    },
                    Some(_) = running.join_next() => {}
                }
            }
            running.shutdown().await;
        };
        (streams, living)
    }
}

pub(crate) async fn get(
    State(shared): State<Shared>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let form = events::form(&headers);
    match open(
        &shared,
        query.as_deref().unwrap_or_default(),
        &headers,
        form,
    )
    .await
    {
        Ok(mut lines) => {
            let mut response = HeaderMap::new();
            let kind = HeaderValue::from_static(form.content_type());
            response.insert(header::CONTENT_TYPE, kind);
            lines.packer = packing::wanted(&headers).and_then(Packer::new);
            if lines.packer.is_some() {
                let zstd = HeaderValue::from_static("zstd");
                response.insert(header::CONTENT_ENCODING, zstd);
            }
            (response, Body::new(lines)).into_response()
        }
        Err(refusal) => refusal.into_response(),
    }
}

async fn open(
    shared: &Shared,
    query: &str,
    headers: &HeaderMap,
    form: events::Form,
) -> Result<Lines, Refusal> {
    let (mut wanted, subscription) = wanted(query).map_err(CommandError::Usage)?;
    if let Some(token) = events::last_id(headers) {
        wanted.from = Some(token);
    }
    if let Some(name) = subscription {
        wanted = shared.control.subscriptions().wanted(&name, wanted).await?;
    }
    let streams = &shared.streams;
    let place = Arc::clone(&streams.places).try_acquire_owned();
    let place = place.map_err(|_| {
        let error = format!(
            "{} change streams are open, as many as there may be",
            streams.max
        );
        let cure = "end one, or raise change_streams_max";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, &error, cure)
    })?;
    let opened = shared.control.change_stream().open(wanted)?;
    let gone = || {
        let error = "the router is shutting down";
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, "try another one")
    };
    streams.run.send(opened.serving).map_err(|_| gone())?;
    let mut door = streams.door.clone();
    Ok(Lines {
        lines: opened.lines,
        form,
        packer: None,
        // An error means that the door is gone: the end as well.
        over: Box::pin(async move { drop(door.wait_for(|wish| *wish != Wish::Serve).await) }),
        _place: place,
    })
}

/// The answer's body. Dropped, as when the client leaves, it ends the stream.
struct Lines {
    lines: mpsc::Receiver<Vec<u8>>,
    form: events::Form,
    packer: Option<Packer>,
    over: Pin<Box<dyn Future<Output = ()> + Send>>,
    _place: OwnedSemaphorePermit,
}

impl Answer for Lines {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.over.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let lines = self.lines.poll_recv(context);
        let form = self.form;
        let packer = &mut self.packer;
        lines.map(|lines| {
            let events = form.write(lines?);
            let bytes = match packer {
                // What cannot be packed ends the answer.
                Some(packer) => packer.pack(&events)?,
                None => events,
            };
            Some(Ok(Frame::data(bytes.into())))
        })
    }
}

/// The query's words, and the subscription that it names: `from=TOKEN`, `snapshot=true`, `order=global`, `types=debezium` with what
/// belongs to it, `subscription=NAME`, and `group=`, `database=`, `table=`, each as often as wanted.
fn wanted(query: &str) -> Result<(ChangesWanted, Option<String>), String> {
    let (mut wanted, mut subscription) = (ChangesWanted::default(), None);
    let mut of = Wanted::default();
    let (mut types, mut prefix) = (None, None);
    let (mut schema, mut tombstones) = (false, false);
    let switch = |name: &str, value: String| {
        let value = value.parse::<bool>();
        value.map_err(|_| format!("{name} is true or false"))
    };
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let value = plain(value).ok_or_else(|| format!("{name} in the query is no UTF-8"))?;
        match name {
            "from" => wanted.from = Some(value),
            "group" => wanted.groups.push(value),
            "database" => of.databases.push(value),
            "table" => of.tables.push(value),
            "column" => of.columns.push(value),
            "source" => of.sources.push(value),
            "key_from" => of.keys.from = Some(value),
            "key_to" => of.keys.to = Some(value),
            "kind" => {
                let kind = changes::Kind::named(&value);
                of.kinds
                    .push(kind.ok_or("kind is insert, update or delete")?);
            }
            "subscription" => subscription = Some(value),
            "snapshot" => wanted.snapshot = switch(name, value)?,
            "types" => types = Some(value),
            "prefix" => prefix = Some(value),
            "schema" => schema = switch(name, value)?,
            "tombstones" => tombstones = switch(name, value)?,
            "order" if value == "global" => wanted.in_order = true,
            "order" => return Err("order is global, or left out".to_owned()),
            other => {
                return Err(format!(
                    "{other} in the query: there are from, snapshot, order, types, prefix, schema, tombstones, subscription, group, \
                     database, table, kind, column, source, key_from and key_to"
                ));
            }
        }
    }
    wanted.of = of;
    wanted.types = Types::named(types.as_deref(), prefix.as_deref(), schema, tombstones)?;
    if let Some(why) = wanted.of.objection(&wanted.types) {
        return Err(why.to_owned());
    }
    Ok((wanted, subscription))
}

/// A value of a query as it was before it was written there.
fn plain(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                u8::try_from(digit()? << 4 | digit()?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// How far each subscription and each sink is behind.
pub(crate) fn lags(subscriptions: &Subscriptions) -> Vec<Family> {
    let lags = subscriptions.lags();
    let family = |name,
                  help,
                  (label, lags): (&'static str, &BTreeMap<String, Lag>),
                  value: fn(&Lag) -> Option<u64>| {
        let samples = lags.iter().filter_map(|(name, lag)| {
            let value = crate::condition::float(value(lag)?);
            Some(Sample::labelled(&[(label, name)], value))
        });
        Family {
            name,
            help,
            kind: Kind::Gauge,
            samples: samples.collect(),
        }
    };
    let subscriptions = ("subscription", &lags.subscriptions);
    let sinks = ("sink", &lags.sinks);
    vec![
        family(
            "heddle_subscription_lag_ms",
            "Age of the oldest change that a subscription's consumer may not have acknowledged.",
            subscriptions,
            |lag| Some(lag.ms),
        ),
        family(
            "heddle_subscription_lag_bytes",
            "Bytes of binlogs that were written since the position that was acknowledged.",
            subscriptions,
            |lag| Some(lag.bytes),
        ),
        family(
            "heddle_subscription_expiry_percent",
            "A subscription's lag in percent of what the servers keep of their binlogs.",
            subscriptions,
            |lag| lag.expiry_percent,
        ),
        family(
            "heddle_subscription_gap",
            "1 where the servers have purged what a subscription's consumer did not acknowledge.",
            subscriptions,
            |lag| Some(u64::from(lag.gap.is_some())),
        ),
        family(
            "heddle_sink_lag_ms",
            "Age of the oldest change that a sink's target may not have.",
            sinks,
            |lag| Some(lag.ms),
        ),
        family(
            "heddle_sink_lag_bytes",
            "Bytes of binlogs that were written since the position that a sink's target has.",
            sinks,
            |lag| Some(lag.bytes),
        ),
        family(
            "heddle_sink_expiry_percent",
            "A sink's lag in percent of what the servers keep of their binlogs.",
            sinks,
            |lag| lag.expiry_percent,
        ),
        family(
            "heddle_sink_gap",
            "1 where the servers have purged what a sink's target does not have.",
            sinks,
            |lag| Some(u64::from(lag.gap.is_some())),
        ),
    ]
}

/// What this router delivered of each sink.
pub(crate) fn sinks(sinks: &Sinks) -> Vec<Family> {
    let counts = sinks.counts();
    let family = |name, help, value: fn(&SinkCounts) -> &AtomicU64| {
        let samples = counts.iter().map(|(name, counts)| {
            let value = value(counts).load(Relaxed);
            Sample::labelled(&[("sink", name)], crate::condition::float(value))
        });
        Family {
            name,
            help,
            kind: Kind::Counter,
            samples: samples.collect(),
        }
    };
    vec![
        family(
            "heddle_sink_events_total",
            "Events that a sink's target has taken from this router.",
            |counts| &counts.events,
        ),
        family(
            "heddle_sink_bytes_total",
            "Bytes that a sink's target has taken from this router.",
            |counts| &counts.bytes,
        ),
        family(
            "heddle_sink_batches_total",
            "Batches that a sink's target has taken from this router.",
            |counts| &counts.batches,
        ),
        family(
            "heddle_sink_failures_total",
            "Tries of this router to deliver to a sink's target that failed.",
            |counts| &counts.failures,
        ),
        family(
            "heddle_sink_refused_total",
            "Events that a sink's target refused, so that they became dead letters.",
            |counts| &counts.refused,
        ),
    ]
}

/// What all streams did.
pub(crate) fn families(counts: &ChangesCounts) -> Vec<Family> {
    let family = |name, help, kind, count: u64| Family {
        name,
        help,
        kind,
        samples: vec![Sample::plain(crate::condition::float(count))],
    };
    vec![
        family(
            "heddle_change_streams",
            "Change streams that are open.",
            Kind::Gauge,
            counts.streams.load(Relaxed),
        ),
        family(
            "heddle_change_stream_readings",
            "Readings of binlogs for change streams: one of each group for all that have caught up, one for each other.",
            Kind::Gauge,
            counts.readings.load(Relaxed),
        ),
        family(
            "heddle_change_stream_lines_total",
            "Lines of change streams.",
            Kind::Counter,
            counts.lines.load(Relaxed),
        ),
        family(
            "heddle_change_stream_bytes_total",
            "Bytes of change streams that clients took.",
            Kind::Counter,
            counts.bytes.load(Relaxed),
        ),
        family(
            "heddle_change_streams_broken_total",
            "Change streams that ended because something could not be told.",
            Kind::Counter,
            counts.broken.load(Relaxed),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_say_what_is_wanted() {
        let (read, subscription) =
            wanted("from=abc&table=d.t&database=a%2Bb&table=%C3%B6&group=g1").expect("right");
        assert_eq!(read.from.as_deref(), Some("abc"));
        assert_eq!(read.groups, ["g1"]);
        assert_eq!(read.of.databases, ["a+b"]);
        assert_eq!(read.of.tables, ["d.t", "ö"]);
        assert_eq!(subscription, None);
        assert_eq!(wanted(""), Ok((ChangesWanted::default(), None)));
        assert!(wanted("snapshot=true").is_ok_and(|(it, _)| it.snapshot));
        assert!(wanted("order=global").is_ok_and(|(it, _)| it.in_order));
        let named = wanted("subscription=a").expect("right");
        assert_eq!(named.1.as_deref(), Some("a"));
        for wrong in [
            "x=1",
            "table=%FF",
            "table=%G0",
            "table=%4",
            "snapshot",
            "order=any",
            "types=avro",
            "schema=true",
            "types=debezium&prefix=-",
        ] {
            assert!(wanted(wrong).is_err(), "{wrong}");
        }
    }
}
