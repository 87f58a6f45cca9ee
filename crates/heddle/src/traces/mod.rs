//! Exports the spans of traced statements to a collector, by OTLP/HTTP as JSON.
//!
//! The cores hand statements over by a bounded queue and never wait; what does not fit is dropped and counted there.
//! Here they are taken in batches and posted by a task of its own, which ends with the router: at the end it posts
//! what is left, for [`FAREWELL`] at most. A batch that the collector does not take for now is tried again a few times,
//! then it is dropped and counted. The log says once that spans are lost, until they arrive again.

mod encode;
mod summary;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use door_http::{Family, Kind, Metrics, Sample};
use serde_json::Value;
use sinks::{Answer, Poster, Undelivered, Url};
use statistics::{TraceQueue, Traced, trace_queue};

use self::encode::{Resource, request};
use crate::failure::Failure;
use crate::router::{blocking, runtime};
use crate::settings::Settings;

/// Statements in one request.
const BATCH_MAX: usize = 256;

/// An empty queue is looked into so often.
const PAUSE: Duration = Duration::from_millis(200);

/// A batch is tried so often.
const TRIES_MAX: u32 = 5;

/// Between the first two tries; it doubles.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// A collector that asks for a longer pause is asked again then.
const RETRY_PAUSE_MAX: Duration = Duration::from_secs(30);

/// What is left at the end has so long.
const FAREWELL: Duration = Duration::from_secs(2);

/// Where the receiver of a collector is, below an address without a path.
const PATH: &str = "/v1/traces";

/// What the kernel calls the machine.
const HOST_NAME: &str = "/proc/sys/kernel/hostname";

/// What became of spans.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    /// The collector did not take them.
    refused: AtomicU64,
    /// They could not be delivered.
    lost: AtomicU64,
}

/// The two ends of the way of traced statements; both empty where nothing is traced.
#[derive(Default)]
pub struct Traces {
    /// Taken by who runs it.
    exporter: Mutex<Option<Exporter>>,
    /// For the cores.
    pub queue: Option<TraceQueue>,
    counts: Option<Arc<Counts>>,
}

/// Where spans go, before anything runs.
struct Exporter {
    url: Url,
    headers: Vec<(String, String)>,
    ca: String,
    resource: Resource,
    queue: Receiver<Traced>,
    counts: Arc<Counts>,
}

/// What `/metrics` shows of an exporter.
struct Exported(Arc<Counts>);

impl Traces {
    /// Those that the settings want. Nothing is connected yet.
    ///
    /// # Errors
    /// The settings cannot be meant so; the text says which, and why.
    pub fn of(settings: &Settings) -> Result<Traces, Failure> {
        if settings.otlp_url.is_empty() {
            return Ok(Traces::default());
        }
        let (queue, traced) = trace_queue();
        let exporter = exporter(settings, traced)?;
        Ok(Traces {
            counts: Some(Arc::clone(&exporter.counts)),
            exporter: Mutex::new(Some(exporter)),
            queue: Some(queue),
        })
    }

    /// What `/metrics` shows of them.
    pub fn metrics(&self) -> Option<Arc<dyn Metrics>> {
        let counts = self.counts.clone()?;
        Some(Arc::new(Exported(counts)))
    }

    /// Exports until `stopped`, on a thread of its own: to write many spans delays nothing of the control plane.
    pub async fn export(&self, stopped: impl Future<Output = ()> + Send + 'static) {
        let exporter = self.exporter.lock().ok().and_then(|mut it| it.take());
        let Some(exporter) = exporter else { return };
        let life = move || runtime().map(|it| it.block_on(exporter.run(stopped)));
        if let Err(failure) | Ok(Err(failure)) = blocking(life).await {
            tracing::error!("spans are not exported: {}", failure.text);
        }
    }
}

fn exporter(settings: &Settings, queue: Receiver<Traced>) -> Result<Exporter, Failure> {
    let mut url = Url::parse(&settings.otlp_url).map_err(|why| {
        Failure::new(format!(
            "otlp_url: {why}; write it as http://HOST:4318/v1/traces"
        ))
    })?;
    if url.path == "/" {
        PATH.clone_into(&mut url.path);
    }
    let host = std::fs::read_to_string(HOST_NAME).unwrap_or_default();
    let host = host.trim().to_owned();
    let instance = match settings.router_name.is_empty() {
        true => format!("{host}:{}", settings.http_listen.port()),
        false => settings.router_name.clone(),
    };
    Ok(Exporter {
        url,
        headers: headers(&settings.otlp_headers)?,
        ca: match &settings.otlp_ca.0 {
            Some(path) => path.display().to_string(),
            None => String::new(),
        },
        resource: Resource {
            service: settings.otlp_service.clone(),
            instance,
            host,
        },
        queue,
        counts: Arc::default(),
    })
}

/// Reads `NAME=VALUE,…`.
fn headers(text: &str) -> Result<Vec<(String, String)>, Failure> {
    let pairs = text.split(',').filter(|pair| !pair.trim().is_empty());
    let read = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        let is_token =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let fits = !name.is_empty()
            && name.bytes().all(is_token)
            && value.bytes().all(|byte| (b' '..0x7F).contains(&byte));
        fits.then(|| (name, value.to_owned()))
    };
    // A header may be a secret: the error does not show it.
    pairs
        .map(|pair| {
            read(pair).ok_or_else(|| Failure::new("otlp_headers: write NAME=VALUE,NAME=VALUE"))
        })
        .collect()
}

/// A request that was not taken.
enum Untaken {
    /// It may be another time, after this pause at the earliest.
    Later(String, Option<Duration>),
    Refused(String),
}

impl Exporter {
    /// Exports until `stopped`, and then what is left.
    async fn run(self, stopped: impl Future<Output = ()>) {
        let trust = match self.url.is_secure {
            true => match sinks::trust(&self.ca) {
                Ok(trust) => Some(trust),
                Err(Undelivered::Later(why, _) | Undelivered::Refused(why)) => {
                    tracing::error!(%why, "no spans are exported; check otlp_ca");
                    return;
                }
            },
            false => None,
        };
        let mut life = Life {
            poster: Poster::new(self.url.clone(), trust),
            seed: RandomState::new().hash_one(0),
            fails: false,
            under_way: 0,
            exporter: self,
        };
        let mut stopped = pin!(stopped);
        tokio::select! {
            () = life.export() => {}
            () = &mut stopped => {}
        }
        // What was under way is given up, and may have arrived all the same.
        life.give_up();
        let farewell = tokio::time::timeout(FAREWELL, life.empty());
        if farewell.await.is_err() {
            life.give_up();
            life.count_rest();
        }
    }
}

/// An exporter at work.
struct Life {
    exporter: Exporter,
    poster: Poster,
    /// Of the names of spans.
    seed: u64,
    /// The last batch did not arrive.
    fails: bool,
    /// So many spans are being delivered.
    under_way: u64,
}

impl Life {
    /// Without end.
    async fn export(&mut self) {
        loop {
            let batch = self.batch();
            if batch.is_empty() {
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            self.deliver(&batch, TRIES_MAX).await;
            self.under_way = 0;
        }
    }

    /// What is in the queue now, each batch tried once.
    async fn empty(&mut self) {
        loop {
            let batch = self.batch();
            if batch.is_empty() {
                return;
            }
            self.deliver(&batch, 1).await;
            self.under_way = 0;
        }
    }

    /// What was under way is lost.
    fn give_up(&mut self) {
        let spans = std::mem::take(&mut self.under_way);
        self.exporter.counts.lost.fetch_add(spans, Relaxed);
    }

    /// What is left is lost.
    fn count_rest(&mut self) {
        let spans = |traced: Traced| 1 + traced.spans.len() as u64;
        let rest: u64 = self.exporter.queue.try_iter().map(spans).sum();
        self.exporter.counts.lost.fetch_add(rest, Relaxed);
    }

    fn batch(&mut self) -> Vec<Traced> {
        self.exporter.queue.try_iter().take(BATCH_MAX).collect()
    }

    async fn deliver(&mut self, batch: &[Traced], tries: u32) {
        let mut seed = self.seed;
        let hasher = RandomState::new();
        let ids = || {
            seed = seed.wrapping_add(1);
            hasher.hash_one(seed).max(1).to_be_bytes()
        };
        let (body, spans) = request(&self.exporter.resource, batch, ids);
        (self.seed, self.under_way) = (seed, spans);
        let counts = Arc::clone(&self.exporter.counts);
        let mut pause = RETRY_PAUSE;
        for left in (0..tries).rev() {
            match self.post(&body).await {
                Ok(refused) => {
                    self.fails = false;
                    counts
                        .sent
                        .fetch_add(spans.saturating_sub(refused), Relaxed);
                    counts.refused.fetch_add(refused.min(spans), Relaxed);
                    return;
                }
                Err(Untaken::Refused(why)) => {
                    counts.refused.fetch_add(spans, Relaxed);
                    return self.warn(&why);
                }
                Err(Untaken::Later(why, after)) if left > 0 => {
                    self.warn(&why);
                    let after = after.unwrap_or(pause).min(RETRY_PAUSE_MAX);
                    tokio::time::sleep(after).await;
                    pause *= 2;
                }
                Err(Untaken::Later(why, _)) => self.warn(&why),
            }
        }
        counts.lost.fetch_add(spans, Relaxed);
    }

    /// Posts a request, and gives how many of its spans the collector did not want.
    async fn post(&mut self, body: &str) -> Result<u64, Untaken> {
        let own = [
            ("content-type", "application/json".to_owned()),
            (
                "user-agent",
                concat!("heddle/", env!("CARGO_PKG_VERSION")).to_owned(),
            ),
        ];
        let headers = &self.exporter.headers;
        let given = headers.iter().map(|(name, value)| (&**name, value.clone()));
        let headers: Vec<_> = own.into_iter().chain(given).collect();
        let posted = self.poster.post(&headers, body.as_bytes().to_vec()).await;
        match posted {
            Ok(answer) => judge(&answer),
            Err(Undelivered::Later(why, _) | Undelivered::Refused(why)) => {
                Err(Untaken::Later(why, None))
            }
        }
    }

    fn warn(&mut self, why: &str) {
        if !std::mem::replace(&mut self.fails, true) {
            tracing::warn!(%why, "spans cannot be exported");
        }
    }
}

/// What an answer means: the numbers that OTLP/HTTP names are worth another try.
fn judge(answer: &Answer) -> Result<u64, Untaken> {
    let text = || format!("the collector answered {}", answer.status);
    match answer.status {
        200..=299 => {
            let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            // A 64-bit number is a text in this encoding; some write it as a number all the same.
            let rejected = &said["partialSuccess"]["rejectedSpans"];
            let number = rejected
                .as_u64()
                .or_else(|| rejected.as_str()?.parse().ok());
            Ok(number.unwrap_or(0))
        }
        429 | 502..=504 => Err(Untaken::Later(text(), answer.retry_after())),
        _ => Err(Untaken::Refused(text())),
    }
}

impl Metrics for Exported {
    fn families(&self) -> Vec<Family> {
        let sample = |result, count: &AtomicU64| {
            Sample::labelled(&[("result", result)], count.load(Relaxed) as f64)
        };
        vec![Family {
            name: "heddle_otlp_spans_total",
            help: "Spans that were to be exported, by what became of them.",
            kind: Kind::Counter,
            samples: vec![
                sample("sent", &self.0.sent),
                sample("refused", &self.0.refused),
                sample("lost", &self.0.lost),
            ],
        }]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_cannot_be_meant_are_refused() {
        let with = |url: &str, headers: &str| {
            let settings = Settings {
                otlp_url: url.to_owned(),
                otlp_headers: headers.to_owned(),
                ..Settings::default()
            };
            let made = Traces::of(&settings)?.exporter.into_inner();
            Ok(made.ok().flatten().map(|it| (it.url.path, it.headers)))
        };
        assert!(with("", "").is_ok_and(|made: Option<_>| made.is_none()));
        let made = with("http://h:4318", "Api-Key = x y ,b=c=d").ok().flatten();
        let headers = [("api-key", "x y"), ("b", "c=d")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(made, Some((PATH.to_owned(), headers.to_vec())));
        let own = with("http://h/otlp", "").ok().flatten();
        assert_eq!(own, Some(("/otlp".to_owned(), Vec::new())));
        for (url, headers) in [("h:4318", ""), ("http://h", "x"), ("http://h", "a b=c")] {
            let refused = with(url, headers)
                .err()
                .map(|failure: Failure| failure.text);
            let text = refused.expect("it is wrong");
            assert!(text.starts_with("otlp_"), "{text}");
        }
    }
}
