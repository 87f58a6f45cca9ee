//! `GET /v1/live`: the live picture of the farm, as server-sent events or once as JSON.
//!
//! Invariants: one picture is made a second, however many listen, and none while nobody does: then only what the charts
//! show is looked at every [`IDLE_PERIOD`], so that they begin with the last minutes; a listener is never waited for: one who takes nothing while [`QUEUE`] events come is told so and left; there are [`LISTENERS_MAX`] at most.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use catalog::event::epoch_ms;
use control::Control;
use farm::Access;
use serde_json::Value;
use tokio::sync::{Notify, Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::frames::{Listening, Reason, Told};
use super::patch::patch;
use super::picture::Seen;
use super::traffic::{Sums, Traffic};
use crate::answer::Refusal;
use crate::metrics::{Family, Kind, Metrics, Sample};
use crate::server::{Shared, Wish};

/// Where it is asked for.
pub(crate) const PATH: &str = "/v1/live";

/// Consoles at once.
const LISTENERS_MAX: usize = 32;

/// Events that may wait for one listener.
const QUEUE: usize = 8;

/// From one picture to the next.
const PERIOD: Duration = Duration::from_secs(1);

/// From one look at what is counted to the next, while nobody listens: the charts connect what is closer than 5 s.
const IDLE_PERIOD: Duration = Duration::from_secs(3);

/// Who asks for the picture once will soon ask again: so long it is made without a listener.
const LINGER: Duration = Duration::from_secs(5);

const TOO_SLOW: &str =
    "this listener took nothing while eight events came; connect again for the whole picture";

/// What the picture is made from.
pub(crate) struct Sources {
    pub(crate) control: Arc<Control>,
    pub(crate) metrics: Arc<[Arc<dyn Metrics>]>,
    pub(crate) sql_serves: Arc<AtomicBool>,
}

impl Sources {
    /// What was counted until now.
    fn sums(&self) -> Sums {
        let families = self.metrics.iter().flat_map(|it| it.families());
        Sums::of(&families.collect::<Vec<Family>>(), epoch_ms())
    }
}

/// Those who listen.
#[derive(Clone)]
pub(crate) struct Live(Arc<Listeners>);

struct Listeners {
    new: Mutex<Vec<Listener>>,
    news: Notify,
    places: Arc<Semaphore>,
    door: watch::Receiver<Wish>,
    dropped: AtomicU64,
}

struct Listener {
    told: mpsc::Sender<Told>,
    reason: Reason,
}

impl Live {
    /// Nobody listens yet; with `door` says whether the door takes requests.
    pub(crate) fn new(door: watch::Receiver<Wish>) -> Live {
        Live(Arc::new(Listeners {
            new: Mutex::default(),
            news: Notify::new(),
            places: Arc::new(Semaphore::new(LISTENERS_MAX)),
            door,
            dropped: AtomicU64::new(0),
        }))
    }

    /// One more listener, who is sent the whole picture first.
    fn listen(&self, access: Access) -> Result<Listening, Refusal> {
        let place = Arc::clone(&self.0.places).try_acquire_owned();
        let place = place.map_err(|_| {
            let error = format!("{LISTENERS_MAX} consoles look at this router, as many as may");
            let cure = "close one, or look at another router";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, &error, cure)
        })?;
        let (told, taken) = mpsc::channel(QUEUE);
        let reason = Reason::new(OnceLock::new());
        let listener = Listener {
            told,
            reason: Arc::clone(&reason),
        };
        self.new_ones().push(listener);
        self.0.news.notify_one();
        let mut door = self.0.door.clone();
        // An error means that the door is gone: the end as well.
        let over = async move { drop(door.wait_for(|wish| *wish != Wish::Serve).await) };
        Ok(Listening::new(access, taken, reason, Box::pin(over), place))
    }

    fn new_ones(&self) -> std::sync::MutexGuard<'_, Vec<Listener>> {
        self.0.new.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes pictures while somebody listens, until the door ends.
    pub(crate) async fn run(self, sources: Sources) {
        let mut door = self.0.door.clone();
        let showing = async {
            let mut show = Show::default();
            loop {
                let came = tokio::time::timeout(IDLE_PERIOD, self.0.news.notified());
                match came.await {
                    Ok(()) => self.show(&sources, &mut show).await,
                    Err(_) => show.traffic.add(sources.sums()),
                }
            }
        };
        tokio::select! {
            () = showing => {}
            // An error means that the door is gone: the end as well.
            _ = door.wait_for(|wish| *wish == Wish::End) => {}
        }
    }

    /// From the first listener to the last.
    async fn show(&self, sources: &Sources, show: &mut Show) {
        let mut next = Instant::now();
        let mut needed_until = next + LINGER;
        loop {
            let dropped = show.tell(sources);
            self.0.dropped.fetch_add(dropped, Relaxed);
            show.greet(std::mem::take(&mut *self.new_ones()));
            if !show.listeners.is_empty() {
                needed_until = Instant::now() + LINGER;
            } else if Instant::now() >= needed_until {
                return;
            }
            // A clock that stood still is not made up for.
            next = (next + PERIOD).max(Instant::now());
            while tokio::time::timeout_at(next, self.0.news.notified())
                .await
                .is_ok()
            {
                show.greet(std::mem::take(&mut *self.new_ones()));
                needed_until = Instant::now() + LINGER;
            }
        }
    }

    /// What `/metrics` has of it.
    pub(crate) fn families(&self) -> Vec<Family> {
        let listening = LISTENERS_MAX - self.0.places.available_permits();
        let family = |name, help, kind, value: f64| Family {
            name,
            help,
            kind,
            samples: vec![Sample::plain(value)],
        };
        vec![
            family(
                "heddle_console_listeners",
                "Consoles that are sent the live picture.",
                Kind::Gauge,
                listening as f64,
            ),
            family(
                "heddle_console_listeners_dropped_total",
                "Consoles that were left because they did not take what they were sent.",
                Kind::Counter,
                self.0.dropped.load(Relaxed) as f64,
            ),
        ]
    }
}

/// The last picture, and who was sent it.
#[derive(Default)]
struct Show {
    picture: Value,
    traffic: Traffic,
    listeners: Vec<Listener>,
}

impl Show {
    /// Makes the next picture and sends what differs. Gives how many were too slow for it.
    fn tell(&mut self, sources: &Sources) -> u64 {
        self.traffic.add(sources.sums());
        let mut picture = Seen::of(&sources.control, sources.sql_serves.load(Relaxed)).json();
        picture.insert("traffic".to_owned(), self.traffic.json().into());
        let before = std::mem::replace(&mut self.picture, Value::Object(picture));
        if self.listeners.is_empty() {
            return 0;
        }
        let difference = patch(&before, &self.picture);
        difference.map_or(0, |difference| self.send("patch", &difference))
    }

    fn send(&mut self, event: &'static str, json: &Value) -> u64 {
        let json: Arc<str> = json.to_string().into();
        let mut slow = 0;
        self.listeners.retain(|listener| {
            let json = Arc::clone(&json);
            match listener.told.try_send(Told { event, json }) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Closed(_)) => false,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    // It is said behind the events that wait.
                    let _ = listener.reason.set(TOO_SLOW);
                    slow += 1;
                    false
                }
            }
        });
        slow
    }

    /// New ones are sent the whole of the last picture.
    fn greet(&mut self, new: Vec<Listener>) {
        if new.is_empty() {
            return;
        }
        let json: Arc<str> = self.picture.to_string().into();
        for listener in new {
            let told = Told {
                event: "state",
                json: Arc::clone(&json),
            };
            // One that has gone already needs nothing; the queue of a new one has room.
            if listener.told.try_send(told).is_ok() {
                self.listeners.push(listener);
            }
        }
    }
}

pub(crate) async fn get(
    State(shared): State<Shared>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
) -> Response {
    let listening = match shared.live.listen(access) {
        Ok(listening) => listening,
        Err(refusal) => return refusal.into_response(),
    };
    let wanted = headers.get(header::ACCEPT);
    let wanted = wanted.and_then(|accept| accept.to_str().ok());
    if wanted.is_some_and(|accept| accept.contains("text/event-stream")) {
        let kind = [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")];
        return (kind, Body::new(listening)).into_response();
    }
    match listening.first().await {
        Some(picture) => {
            let kind = [(header::CONTENT_TYPE, "application/json")];
            let access = access.name();
            let answer = format!("{{\"access\":\"{access}\",\"picture\":{picture}}}");
            (kind, answer).into_response()
        }
        None => {
            let error = "the router is shutting down";
            Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, "try another one").into_response()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listener() -> (Listener, mpsc::Receiver<Told>) {
        let (told, taken) = mpsc::channel(QUEUE);
        let reason = Reason::default();
        (Listener { told, reason }, taken)
    }

    #[test]
    fn a_slow_listener_is_left_with_a_reason_and_others_go_on() {
        let mut show = Show::default();
        let (slow, mut of_slow) = listener();
        let (quick, mut of_quick) = listener();
        let reason = Arc::clone(&slow.reason);
        show.greet(vec![slow, quick]);
        assert_eq!(of_quick.try_recv().map(|told| told.event), Ok("state"));
        for number in 1..QUEUE {
            assert_eq!(show.send("patch", &json!(number)), 0);
            assert_eq!(of_quick.try_recv().map(|told| told.event), Ok("patch"));
        }
        assert_eq!(show.send("patch", &json!("one too many")), 1);
        assert_eq!(show.listeners.len(), 1);
        assert_eq!(reason.get(), Some(&TOO_SLOW));
        assert_eq!(
            of_quick.try_recv().map(|told| told.json),
            Ok("\"one too many\"".into())
        );
        let waiting = std::iter::from_fn(|| of_slow.try_recv().ok()).count();
        assert_eq!(waiting, QUEUE);
        drop(of_quick);
        assert_eq!(
            show.send("patch", &json!(0)),
            0,
            "one that left is not slow"
        );
        assert!(show.listeners.is_empty());
    }

    #[tokio::test]
    async fn there_are_so_many_listeners_and_no_more() {
        let (wish, wished) = watch::channel(Wish::Serve);
        let live = Live::new(wished);
        let all: Vec<_> = (0..LISTENERS_MAX)
            .map(|_| live.listen(Access::Monitor).expect("a place"))
            .collect();
        let refusal = live.listen(Access::Admin).err().expect("no place");
        assert_eq!(refusal.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(live.families()[0].samples[0].value, LISTENERS_MAX as f64);
        drop(all);
        let last = live.listen(Access::Admin).expect("a place again");
        wish.send_replace(Wish::End);
        assert_eq!(last.first().await, None, "the door ended");
    }
}
