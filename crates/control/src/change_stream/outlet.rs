//! Where the lines of a stream's groups come together, each with the token of the moment behind it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use changes::{Place, Reached, Teller, Token, Unread};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::ordering::Ordering;
use super::{ChangesCounts, ChangesWanted};

/// Lines are sent when they are so long together.
const CHUNK_BYTES: usize = 32 << 10;

/// The client has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left;

pub(super) struct Outlet {
    wanted: ChangesWanted,
    tellers: HashMap<String, Teller>,
    order: Option<Arc<Ordering>>,
    token: Token,
    /// Groups that have not begun: a token without them would miss their changes.
    missing: BTreeSet<String>,
    begun: watch::Sender<bool>,
    lines: Vec<u8>,
    sender: mpsc::Sender<Vec<u8>>,
    sent_at: Instant,
    counts: Arc<ChangesCounts>,
}

impl Outlet {
    pub(super) fn new(
        (wanted, token): (ChangesWanted, Token),
        groups: &BTreeSet<String>,
        order: Option<Arc<Ordering>>,
        sender: mpsc::Sender<Vec<u8>>,
        counts: &Arc<ChangesCounts>,
    ) -> Outlet {
        let known = |group: &&String| !token.places.iter().any(|place| place.group == **group);
        let missing: BTreeSet<String> = groups.iter().filter(known).cloned().collect();
        let (begun, _) = watch::channel(missing.is_empty());
        Outlet {
            wanted,
            tellers: HashMap::new(),
            order,
            token,
            missing,
            begun,
            lines: Vec::new(),
            sender,
            sent_at: Instant::now(),
            counts: Arc::clone(counts),
        }
    }

    /// Tells the transactions of a group.
    pub(super) fn teller(&mut self, group: &str) -> &mut Teller {
        let wanted = &self.wanted;
        let teller = self.tellers.entry(group.to_owned()).or_insert_with(|| {
            let mut teller = Teller::new(group, wanted.of.clone());
            teller.tell_as(wanted.types.clone());
            if !wanted.tells(group) {
                teller.hide();
            }
            teller
        });
        teller.set_now(catalog::event::epoch_ms());
        teller
    }

    /// Who waits for the client to leave.
    pub(super) fn left(&self) -> mpsc::Sender<Vec<u8>> {
        self.sender.clone()
    }

    /// True from when all groups have begun.
    pub(super) fn begun(&self) -> watch::Receiver<bool> {
        self.begun.subscribe()
    }

    /// All groups have begun.
    pub(super) fn has_begun(&self) -> bool {
        *self.begun.borrow()
    }

    /// So much of the group's tables is unread from the next line on.
    pub(super) fn leave_unread(&mut self, group: &str, unread: Option<Unread>) {
        if let Some(place) = self.token.places.iter_mut().find(|it| it.group == group) {
            place.unread = unread;
        }
    }

    /// What was told of the group before, by the token.
    pub(super) fn place(&self, group: &str) -> Option<&Place> {
        self.token.places.iter().find(|it| it.group == group)
    }

    /// A group begins here. Its lines follow when all have begun.
    pub(super) async fn begin(&mut self, place: Place) -> Result<(), Left> {
        let group = place.group.clone();
        self.token.places.push(place);
        let was_begun = *self.begun.borrow();
        self.missing.remove(&group);
        if was_begun {
            // The farm has got it since.
            self.say("group", &group, "");
        } else if self.missing.is_empty() {
            self.begun.send_replace(true);
            self.say("heartbeat", "", "");
        }
        self.flush().await
    }

    /// The farm does not have the group any more.
    pub(super) async fn forget(&mut self, group: &str) -> Result<(), Left> {
        self.token.places.retain(|place| place.group != group);
        self.missing.remove(group);
        if self.missing.is_empty() {
            self.begun.send_replace(true);
        }
        self.say("gone", group, "");
        self.flush().await
    }

    /// The group is on this timeline now.
    pub(super) fn on_timeline(&mut self, group: &str, timeline: u32) {
        if let Some(place) = self.token.places.iter_mut().find(|it| it.group == group) {
            place.timeline = timeline;
        }
    }

    /// So much of the group was told, though there was nothing to say of it.
    pub(super) fn reach(&mut self, group: &str, reached: Reached) {
        if let Some(place) = self.token.places.iter_mut().find(|it| it.group == group) {
            place.reached = reached;
        }
    }

    /// Where the group is in the order over all groups.
    pub(super) fn put_in_order(&mut self, group: &str, clock: Option<u64>) {
        if let Some(place) = self.token.places.iter_mut().find(|it| it.group == group) {
            place.clock = clock;
        }
    }

    /// Tells a line with which so much of the group is told.
    pub(super) async fn tell(
        &mut self,
        group: &str,
        line: &str,
        reached: Reached,
    ) -> Result<(), Left> {
        self.reach(group, reached);
        self.add(line);
        match self.lines.len() >= CHUNK_BYTES {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// The last line of the stream: what it cannot tell, and what to do.
    pub(super) async fn break_off(&mut self, event: &str, group: &str, text: &str) {
        self.counts.broken.fetch_add(1, Relaxed);
        self.say(event, group, text);
        // Who has left needs no reason.
        let _ = self.flush().await;
    }

    /// Tells that the stream is there, unless something was told for so long.
    pub(super) async fn beat(&mut self, period: Duration) -> Result<(), Left> {
        if self.sent_at.elapsed() < period / 2 {
            return Ok(());
        }
        let late = self.order.as_ref().map(|order| order.late());
        match late.filter(|late| !late.is_empty()) {
            None => self.say("heartbeat", "", ""),
            Some(late) => {
                let groups = serde_json::Value::from(late);
                self.add(&format!("\"event\":\"heartbeat\",\"waits_for\":{groups}"));
            }
        }
        self.flush().await
    }

    /// Sends what there is; waits while the client is behind.
    pub(super) async fn flush(&mut self) -> Result<(), Left> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let lines = std::mem::take(&mut self.lines);
        let bytes = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.sender.send(lines).await.map_err(|_| Left)?;
        self.counts.bytes.fetch_add(bytes, Relaxed);
        self.sent_at = Instant::now();
        Ok(())
    }

    /// A line of the stream's own.
    fn say(&mut self, event: &str, group: &str, error: &str) {
        let mut line = format!("\"event\":\"{event}\"");
        for (name, text) in [("group", group), ("error", error)] {
            if !text.is_empty() {
                line.push_str(&format!(",\"{name}\":{}", serde_json::Value::from(text)));
            }
        }
        self.add(&line);
    }

    fn add(&mut self, line: &str) {
        let token = match self.missing.is_empty() {
            true => format!("\"{}\"", self.token),
            false => "null".to_owned(),
        };
        self.lines
            .extend_from_slice(format!("{{\"token\":{token},{line}}}\n").as_bytes());
        self.counts.lines.fetch_add(1, Relaxed);
    }
}
