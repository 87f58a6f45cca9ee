//! Noticing fast that a server fails: signs of trouble, and what confirms them.
//!
//! Each server has a connection that waits for its end, and one that asks for a sign of life every
//! `detection_interval_ms`. What a primary answers to clients is a sign of life, too, and spares it the question
//! until it falls silent ([`asking`]). A broken connection, a sign that does not come within
//! `detection_timeout_ms`, what sessions and operators report: each is a doubt, no more. A doubt is
//! confirmed by new connections: nobody listens, or nobody greets in time. Any answer that the server
//! gives meanwhile clears it.
//!
//! Patience is counted in ticks that this thread was given, not in time: when the machine is so
//! loaded that this thread comes late, the servers on it do as well, and every deadline stretches.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::{Error, Greeting, Link, watch};
use farm::{ServerId, Status};
use machines::failover::{Event, Fault};
use tokio::sync::mpsc;

use crate::links::reach::Place;
use crate::observe::Probes;
use crate::observe::asking::{self, Due};
use crate::observe::fault::failed;
use crate::pace;

/// Patience is counted in ticks of this length; one that came late counts as two at most.
const TICK: Duration = Duration::from_millis(5);

/// Pause before a server that does not answer is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// Doubts that may wait for one server; more say nothing new.
const DOUBTS_MAX: usize = 4;

/// What cast doubt on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// An open connection broke.
    Broken,
    /// A new connection was refused.
    Refused,
    /// No sign of life came in time.
    Silent,
    /// Somebody reported it.
    Reported(String),
}

impl Sign {
    /// For people.
    fn text(&self) -> String {
        match self {
            Sign::Broken => "a connection broke".to_owned(),
            Sign::Refused => "a new connection was refused".to_owned(),
            Sign::Silent => "no sign of life came in time".to_owned(),
            Sign::Reported(report) => report.clone(),
        }
    }
}

/// Where the doubts about each server wait until they are examined.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Mutex<HashMap<u32, mpsc::Sender<Sign>>>);

impl Doubts {
    fn all(&self) -> MutexGuard<'_, HashMap<u32, mpsc::Sender<Sign>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who examines the doubts about a server reads here from now on.
    fn begin(&self, id: u32) -> mpsc::Receiver<Sign> {
        let (sender, doubts) = mpsc::channel(DOUBTS_MAX);
        self.all().insert(id, sender);
        doubts
    }

    /// Leaves a sign for who examines the server; never waits.
    fn cast(&self, id: u32, sign: Sign) {
        let mut all = self.all();
        let Some(doubts) = all.get(&id) else { return };
        // A full queue holds doubts enough. A closed one is that of a server which left.
        if let Err(mpsc::error::TrySendError::Closed(_)) = doubts.try_send(sign) {
            all.remove(&id);
        }
    }
}

impl Probes {
    /// Casts doubt on a server; cheap, and may be called for each failing connection.
    pub(crate) fn doubt(&self, id: u32, sign: Sign) {
        let server = ServerId(id);
        let fault = match &sign {
            Sign::Broken => Some(Fault::Reset),
            Sign::Refused => Some(Fault::Refused),
            Sign::Silent => Some(Fault::Silent),
            // Its machine counts reports itself.
            Sign::Reported(_) => None,
        };
        if let Some(fault) = fault {
            self.context.tell_of(id, Event::Failed { server, fault });
        }
        if let Some(seen) = self.context.state().seen.get_mut(&id) {
            seen.doubted = true;
        }
        self.doubts.cast(id, sign);
    }

    pub(crate) fn place(&self, id: u32) -> Option<Place> {
        let state = self.context.state();
        let record = &state.records.servers.get(&id)?.value;
        // A faulty server takes no part, so nobody waits for news of it.
        (record.status != Status::Faulty).then(|| Place::from(record))
    }

    /// Keeps a connection whose end is the server's.
    pub(crate) async fn wait_for_its_end(self: Arc<Self>, id: u32) {
        loop {
            let Some(place) = self.place(id) else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let login = self.links.login(place.clone());
            if let Ok(mut link) =
                Link::open(&login, self.context.settings().observation.probe_timeout_ms).await
            {
                while self.place(id).as_ref() == Some(&place) {
                    match watch::linger(&mut link).await {
                        Ok(()) => self.heard(id),
                        Err(_) => {
                            self.doubt(id, Sign::Broken);
                            break;
                        }
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Asks for signs of life on an open connection.
    pub(crate) async fn ask_for_life(self: Arc<Self>, id: u32) {
        loop {
            let Some(place) = self.place(id) else {
                tokio::time::sleep(AGAIN).await;
                continue;
            };
            let login = self.links.login(place.clone());
            match Link::open(&login, self.context.settings().observation.probe_timeout_ms).await {
                Err(error) => self.doubt(id, sign_of(&error)),
                Ok(mut link) => {
                    self.heard(id);
                    while self.place(id).as_ref() == Some(&place) {
                        if !self.ask_once(id, &mut link).await {
                            break;
                        }
                        self.await_question(id).await;
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Waits until the server is to be asked again.
    async fn await_question(&self, id: u32) {
        let asked_us = self.context.now_us();
        loop {
            let interval_us = self.context.settings().detection.detection_interval_ms * 1000;
            let now_us = self.context.now_us();
            match asking::due(asked_us, self.answered_us(id), now_us, interval_us) {
                Due::Question => return,
                Due::Look { at_us } => pace::until_us(self.context.started, at_us).await,
            }
        }
    }

    /// When the server lived, as clients know; 0 where that spares it no question. Who takes no writes is asked
    /// whether that is so still. Who is doubted has to answer the detector.
    fn answered_us(&self, id: u32) -> u64 {
        let state = self.context.state();
        let (Some(kept), Some(seen)) = (state.records.servers.get(&id), state.seen.get(&id)) else {
            return 0;
        };
        match kept.value.status == Status::Primary && !seen.doubted {
            true => seen.fresh.answered_us(),
            false => 0,
        }
    }

    /// Asks once. Each interval without an answer is a missing sign; a late answer still clears the
    /// doubt. False when there will be none.
    async fn ask_once(&self, id: u32, link: &mut Link) -> bool {
        if let Some(seen) = self.context.state().seen.get_mut(&id) {
            seen.doubted = false;
        }
        let answer = watch::touch(link, self.context.settings().step_timeout_ms);
        tokio::pin!(answer);
        let mut patience_ms = self.context.settings().detection.detection_timeout_ms;
        let outcome = loop {
            match patient(patience_ms, &mut answer).await {
                Some(outcome) => break outcome,
                None => self.doubt(id, Sign::Silent),
            }
            patience_ms = self.context.settings().detection.detection_interval_ms;
        };
        match &outcome {
            Ok(read_only) => {
                self.heard(id);
                if let Some(read_only) = *read_only {
                    let server = ServerId(id);
                    self.context
                        .tell_of(id, Event::Heartbeat { server, read_only });
                }
            }
            Err(_) => self.doubt(id, Sign::Broken),
        }
        outcome.is_ok()
    }

    /// The server gave a sign of life.
    pub(crate) fn heard(&self, id: u32) {
        let now_us = self.context.now_us();
        let mut state = self.context.state();
        let Some(seen) = state.seen.get_mut(&id) else {
            return;
        };
        seen.heard_us = now_us;
        if seen.is_dead() {
            // The probe says how it came back.
            seen.wake.notify_one();
        }
    }

    /// Looks into the doubts that are cast on a server.
    pub(crate) async fn examine_doubts(self: Arc<Self>, id: u32) {
        let mut doubts = self.doubts.begin(id);
        while let Some(sign) = doubts.recv().await {
            if self
                .context
                .state()
                .seen
                .get(&id)
                .is_some_and(|seen| seen.is_dead())
            {
                continue;
            }
            let Some(place) = self.place(id) else {
                continue;
            };
            let since_us = self.context.now_us();
            let Some(found) = self.examine(id, &place, since_us).await else {
                tracing::debug!(server = %place.host, port = place.port, "doubt cleared: {}", sign.text());
                continue;
            };
            self.condemned(id, &format!("{}, and {found}", sign.text()));
        }
    }

    /// Connects anew; the reason to call the server dead, or `None` when it lives.
    async fn examine(&self, id: u32, place: &Place, since_us: u64) -> Option<String> {
        let timeout_ms = self.context.settings().detection.detection_timeout_ms;
        let rounds = self
            .context
            .settings()
            .detection
            .detections
            .saturating_sub(1)
            .max(1);
        let mut found = Greeting::Silent;
        for _ in 0..rounds {
            found = self.greeting(place, timeout_ms).await;
            let lived_us = self
                .context
                .state()
                .seen
                .get(&id)
                .map_or(0, |seen| seen.heard_us.max(seen.fresh.answered_us()));
            if found == Greeting::Given || lived_us > since_us {
                return None;
            }
            if found == Greeting::Refused {
                break;
            }
        }
        Some(match found {
            Greeting::Refused => "nobody listens there".to_owned(),
            _ => format!("a new connection was not greeted within {timeout_ms} ms"),
        })
    }

    /// One greeting, as patiently as the machine's load asks for. A connection that is closed at once
    /// says little: a server that starts or ends does so for a moment.
    pub(crate) async fn greeting(&self, place: &Place, timeout_ms: u64) -> Greeting {
        // The patience below ends it; this is for a thread that is given no ticks at all.
        let limit_ms = timeout_ms * 10;
        let asked = async {
            loop {
                match engine::greeting(&place.host, place.port, limit_ms).await {
                    Greeting::Closed => tokio::time::sleep(TICK).await,
                    other => return other,
                }
            }
        };
        patient(timeout_ms, asked).await.unwrap_or(Greeting::Silent)
    }
}

/// What a connection that could not be opened says. A server that refuses the login lives.
fn sign_of(error: &Error) -> Sign {
    match failed(error.clone()).fault {
        Fault::Refused => Sign::Refused,
        Fault::Silent | Fault::Late => Sign::Silent,
        _ => Sign::Broken,
    }
}

/// Waits for `work` as long as `timeout_ms` of ticks last; `None` when they are over.
async fn patient<T>(timeout_ms: u64, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    let mut left = Duration::from_millis(timeout_ms);
    let mut ticked = Instant::now();
    loop {
        tokio::select! {
            // An answer that is there counts, however late this thread comes to see it.
            biased;
            answer = &mut work => return Some(answer),
            () = tokio::time::sleep(TICK.min(left)) => {}
        }
        left = left.saturating_sub(ticked.elapsed().min(TICK * 2));
        ticked = Instant::now();
        if left.is_zero() {
            return None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn patience_is_counted_in_ticks() {
        assert_eq!(patient(20, async { 7 }).await, Some(7));
        assert_eq!(patient(20, std::future::pending::<()>()).await, None);
    }

    #[test]
    fn doubts_wait_up_to_a_limit_and_end_with_their_reader() {
        let doubts = Doubts::default();
        doubts.cast(1, Sign::Broken);
        let mut examined = doubts.begin(1);
        for _ in 0..=DOUBTS_MAX {
            doubts.cast(1, Sign::Silent);
        }
        doubts.cast(2, Sign::Broken);
        for _ in 0..DOUBTS_MAX {
            assert_eq!(examined.try_recv().ok(), Some(Sign::Silent));
        }
        assert!(examined.try_recv().is_err(), "what came first, and no more");
        drop(examined);
        doubts.cast(1, Sign::Broken);
        assert!(doubts.all().is_empty());
    }
}
