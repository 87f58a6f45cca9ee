//! Where the lines of a stream's groups come together, each with the token of the moment behind it.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use changes::{Counting, Place, Reached, Teller, Token, Unread};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::gap::Gap;
use super::ordering::Ordering;
use super::{ChangesCounts, ChangesWanted};

/// Lines are sent when they are so long together.
const CHUNK_BYTES: usize = 16 << 10;

/// The client has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left;

pub(super) struct Outlet {
    wanted: ChangesWanted,
    tellers: HashMap<String, Teller>,
    order: Option<Arc<Ordering>>,
    token: Token,
    /// The token within the transaction of a group, while nothing else of it changes.
    counting: Option<(String, Counting)>,
    /// Groups of which something is told.
    followed: BTreeSet<String>,
    /// Groups that have not begun: a token without them would miss their changes.
    missing: BTreeSet<String>,
    begun: watch::Sender<bool>,
    lines: String,
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
            counting: None,
            followed: groups.clone(),
            missing,
            begun,
            lines: String::new(),
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

    /// The group's part of the token, to be changed.
    fn place_mut(&mut self, group: &str) -> Option<&mut Place> {
        self.counting = None;
        let mut places = self.token.places.iter_mut();
        places.find(|it| it.group == group)
    }

    /// So much of the group's tables is unread from the next line on.
    pub(super) fn leave_unread(&mut self, group: &str, unread: Option<Unread>) {
        if let Some(place) = self.place_mut(group) {
            place.unread = unread;
        }
    }

    /// What was told of the group before, by the token.
    pub(super) fn place(&self, group: &str) -> Option<&Place> {
        self.token.places.iter().find(|it| it.group == group)
    }

    /// The group whose transaction has been told in part, as by a token that says so: its rest comes before any other
    /// transaction.
    pub(super) fn told_in_part(&self) -> Option<&str> {
        let mut open = self
            .token
            .places
            .iter()
            .filter(|it| it.reached.open.is_some());
        let found = open.find(|it| self.followed.contains(&it.group));
        found.map(|it| &*it.group)
    }

    /// A group begins here. Its lines follow when all have begun.
    pub(super) async fn begin(&mut self, place: Place) -> Result<(), Left> {
        let group = place.group.clone();
        self.followed.insert(group.clone());
        self.token.places.push(place);
        self.counting = None;
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
        self.followed.remove(group);
        self.token.places.retain(|place| place.group != group);
        self.counting = None;
        self.missing.remove(group);
        if self.missing.is_empty() {
            self.begun.send_replace(true);
        }
        self.say("gone", group, "");
        self.flush().await
    }

    /// The group is on this timeline now.
    pub(super) fn on_timeline(&mut self, group: &str, timeline: u32) {
        if let Some(place) = self.place_mut(group) {
            place.timeline = timeline;
        }
    }

    /// So much of the group was told, though there was nothing to say of it.
    pub(super) fn reach(&mut self, group: &str, reached: Reached) {
        if let Some(place) = self.place_mut(group) {
            place.reached = reached;
        }
    }

    /// Where the group is in the order over all groups.
    pub(super) fn put_in_order(&mut self, group: &str, clock: Option<u64>) {
        if let Some(place) = self.place_mut(group) {
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
        self.flush_full().await
    }

    /// Tells the next line of the group's transaction that is open, with which so many of its changes are told.
    pub(super) async fn tell_next(
        &mut self,
        group: &str,
        line: &str,
        count: u32,
    ) -> Result<(), Left> {
        if self.counting.as_ref().is_none_or(|(of, _)| of != group) {
            let counting = self.token.counting(group);
            self.counting = counting.map(|it| (group.to_owned(), it));
        }
        let mut places = self.token.places.iter_mut();
        let place = places.find(|it| it.group == group);
        if let Some((_, open)) = place.and_then(|it| it.reached.open.as_mut()) {
            *open = count;
        }
        if let Some((_, counting)) = &mut self.counting {
            counting.set(count);
        }
        self.add(line);
        self.flush_full().await
    }

    async fn flush_full(&mut self) -> Result<(), Left> {
        match self.lines.len() >= CHUNK_BYTES {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// The last line of the stream: what it cannot tell, and what to do. Of a gap, and of what was taken back, between which
    /// positions it is, where that is known.
    pub(super) async fn break_off(
        &mut self,
        event: &str,
        group: &str,
        text: &str,
        gap: Option<&Gap>,
    ) {
        self.counts.broken.fetch_add(1, Relaxed);
        let mut line = said(event, group, text);
        if let Some(gap) = gap {
            let between = serde_json::json!({
                "from": gap.from.to_string(),
                "to": gap.to.to_string(),
            });
            let name = match event {
                "undone" => "taken_back",
                _ => "missing",
            };
            line.push_str(&format!(",\"{name}\":{between}"));
        }
        self.add(&line);
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
        let lines = std::mem::take(&mut self.lines).into_bytes();
        let bytes = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        self.sender.send(lines).await.map_err(|_| Left)?;
        self.counts.bytes.fetch_add(bytes, Relaxed);
        self.sent_at = Instant::now();
        Ok(())
    }

    /// A line of the stream's own.
    fn say(&mut self, event: &str, group: &str, error: &str) {
        self.add(&said(event, group, error));
    }

    fn add(&mut self, line: &str) {
        let lines = &mut self.lines;
        lines.push_str("{\"token\":");
        match (self.missing.is_empty(), &mut self.counting) {
            (false, _) => lines.push_str("null"),
            (true, Some((_, counting))) => {
                lines.push('"');
                counting.put(lines);
                lines.push('"');
            }
            // Writing to a String never fails.
            (true, None) => drop(write!(lines, "\"{}\"", self.token)),
        }
        lines.push(',');
        lines.push_str(line);
        lines.push_str("}\n");
        self.counts.lines.fetch_add(1, Relaxed);
    }
}

/// A line of the stream's own, without its token.
fn said(event: &str, group: &str, error: &str) -> String {
    let mut line = format!("\"event\":\"{event}\"");
    for (name, text) in [("group", group), ("error", error)] {
        if !text.is_empty() {
            line.push_str(&format!(",\"{name}\":{}", serde_json::Value::from(text)));
        }
    }
    line
}
