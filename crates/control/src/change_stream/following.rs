//! One group's part of a stream: its primary's binlog, read from where the client was, told when it is safe.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use changes::{Ended, Place, Reached, Transactions, UnknownBranch, Unread, Wanted};
use engine::binlog::{Reader, Shown, is_gap, shown, vantage};
use engine::chunk::Made;
use engine::{Error, Link, Login};
use farm::Position;
use tokio::sync::{Mutex, Notify, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::ordering::Ordering;
use super::outlet::{Left, Outlet};
use super::reading::Reading;
use super::shared::{Listener, SharedReadings};
use super::source::{Primary, Source};
use super::{ChangesCounts, Reads};
use sharing::Joining;
use snapshot::done;

mod in_order;
mod sharing;
mod snapshot;
mod telling;

/// Longer transactions are not kept while they wait for their replica: they are read once more.
const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// Of the transactions that wait. Beyond it nothing is read.
const WAITING_BYTES_MAX: usize = 32 << 20;
const WAITING_MAX: usize = 10_000;

/// The server says so often that it is there.
pub(super) const HEARTBEAT_MS: u64 = 1000;

/// How often it is looked whether the server still leads, and what replicas have.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Between two questions what the server shows.
const ASK: Duration = Duration::from_millis(5);

/// After a failure.
const PAUSE: Duration = Duration::from_millis(100);

/// A server that says that it has not got a position is asked once more after this time.
const GAP_PAUSE: Duration = Duration::from_millis(500);

/// So long a new stream waits for branches to end that were prepared before it.
const BRANCHES_PATIENCE: Duration = Duration::from_secs(10);

/// How a group's part of a stream ended.
pub(super) enum Final {
    /// The client was told why.
    Told,
    ClientLeft,
    GroupGone(String),
}

/// Why a server is not read on.
enum Trouble {
    /// Another one leads, or it cannot be asked: the next one is read from the same place.
    Server(Error),
    Gap(Error),
    /// Not to be told by any server; what it is, and the event's name.
    Broken(&'static str, String),
    Left,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        match &error {
            gap if is_gap(gap) => Trouble::Gap(error),
            // What cannot be read today cannot be read tomorrow.
            Error::Reply { .. } => Trouble::Broken("error", error.to_string()),
            _ => Trouble::Server(error),
        }
    }
}

impl From<Left> for Trouble {
    fn from(_: Left) -> Trouble {
        Trouble::Left
    }
}

impl From<UnknownBranch> for Trouble {
    fn from(unknown: UnknownBranch) -> Trouble {
        Trouble::Broken("gap", unknown.to_string())
    }
}

/// Follows one group for one stream.
pub(super) struct Follower {
    source: Source,
    outlet: Arc<Mutex<Outlet>>,
    /// Of a stream in one order over all groups.
    order: Option<Arc<Ordering>>,
    /// What was told before this stream has been read once more.
    is_replayed: bool,
    /// The outlet has the group's place.
    is_placed: bool,
    /// `None` until the stream has begun here.
    reached: Option<Reached>,
    /// Where it can begin: behind the last transaction that comes before.
    start: Option<Reached>,
    gaps: u32,
    wanted: Wanted,
    /// The rows that are there are read first, where no token says what was.
    wants_snapshot: bool,
    /// While something is unread.
    reading: Option<Reading>,
    /// How tables are made, until it was told.
    made: Vec<Made>,
    readings: Arc<SharedReadings>,
    counts: Arc<ChangesCounts>,
}

impl Follower {
    pub(super) fn new(
        source: Source,
        (wanted, wants_snapshot): (Wanted, bool),
        outlet: Arc<Mutex<Outlet>>,
        order: Option<Arc<Ordering>>,
        (readings, counts): (&Arc<SharedReadings>, &Arc<ChangesCounts>),
    ) -> Follower {
        Follower {
            source,
            outlet,
            order,
            is_replayed: false,
            is_placed: false,
            reached: None,
            start: None,
            gaps: 0,
            wanted,
            wants_snapshot,
            reading: None,
            made: Vec::new(),
            readings: Arc::clone(readings),
            counts: Arc::clone(counts),
        }
    }

    /// Until the client leaves, or something cannot be told.
    pub(super) async fn follow(mut self) -> Final {
        let group = self.source.group.clone();
        let place = self.outlet.lock().await.place(&group).cloned();
        let unread = match &place {
            Some(place) => place.unread.clone(),
            None => self.wants_snapshot.then(Unread::default),
        };
        let timeout_ms = self.source.timeout_ms();
        self.reading = unread.map(|it| Reading::new(it, self.wanted.clone(), timeout_ms));
        self.reached = place.map(|place| place.reached);
        self.is_placed = self.reached.is_some();
        self.is_replayed = !self.is_placed;
        if let Some(order) = &self.order {
            order.take_notes(&group, self.reading.is_some());
        }
        loop {
            let Some(primary) = self.source.primary().await else {
                let told = self.outlet.lock().await.forget(&group).await;
                return match told {
                    Ok(()) => Final::GroupGone(group),
                    Err(Left) => Final::ClientLeft,
                };
            };
            let read = match self.read(&primary).await {
                Ok(Some(listener)) => self.read_shared(&primary, listener).await,
                Ok(None) => continue,
                Err(trouble) => Err(trouble),
            };
            let Err(trouble) = read else { continue };
            let (event, text) = match trouble {
                Trouble::Left => return Final::ClientLeft,
                Trouble::Server(error) => {
                    tracing::debug!(%group, "the change stream reads on later: {error}");
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Trouble::Gap(error) if self.gaps == 0 => {
                    tracing::debug!(%group, "the change stream asks once more: {error}");
                    self.gaps += 1;
                    tokio::time::sleep(GAP_PAUSE).await;
                    continue;
                }
                Trouble::Gap(error) => (
                    "gap",
                    format!(
                        "{error}; the changes behind the token are not there any more: read the tables \
                         anew, begin without a token, and let the servers keep their binlogs for longer \
                         (binlog_expire_logs_seconds)"
                    ),
                ),
                Trouble::Broken(event, text) => (event, text),
            };
            self.outlet
                .lock()
                .await
                .break_off(event, &group, &text)
                .await;
            return Final::Told;
        }
    }

    /// Reads the primary until another one leads, or a shared reading has what comes.
    async fn read(&mut self, primary: &Primary) -> Result<Option<Listener>, Trouble> {
        let _counted = Reads::new(&self.counts);
        let timeout_ms = self.source.timeout_ms();
        let mut link = self.enter(primary).await?;
        let (from, until, mut transactions) = self.prepare(&mut link).await?;
        let mut reader =
            Reader::with_sources(&primary.login, &from, HEARTBEAT_MS, timeout_ms).await?;
        self.look_at_tables(primary).await?;
        let begins_until = Instant::now() + BRANCHES_PATIENCE;
        self.start = Some(Reached {
            told: from,
            from: None,
            open: None,
        });
        if let Some(reading) = &mut self.reading {
            reading.read_from(&primary.login);
        }
        let wanted = Arc::new(Notify::new());
        let (tell, mut told) = watch::channel(None);
        let mut asker = JoinSet::new();
        asker.spawn(ask(link, timeout_ms, Arc::clone(&wanted), tell));
        let mut look = super::interval(LOOK);
        let mut waiting = Waiting::default();
        let mut joining = Joining::new();
        loop {
            let is_sure = reader.position().covers(&until);
            let begins = is_sure && transactions.has_begun();
            self.end_replay(reader.position());
            tokio::select! {
                event = reader.next(), if waiting.has_room() => {
                    let event = event?;
                    self.gaps = 0;
                    let place = reader.place();
                    let ended =
                        transactions.take(event, reader.position(), place, reader.time_s());
                    if ended.is_err() && !is_sure {
                        return Err(Trouble::Server(lost(&primary.login, ENDED_EARLY)));
                    }
                    if let Some(ended) = ended?.and_then(|it| self.not_told(it)) {
                        waiting.add(ended);
                        wanted.notify_one();
                    }
                }
                changed = told.changed() => {
                    if changed.is_err() {
                        // The link is gone; the reader's end says why.
                        return Err(Trouble::Server(lost(&primary.login, ENDED)));
                    }
                    let shown = told.borrow_and_update().clone().filter(|_| is_sure);
                    self.go_on(primary, shown.as_deref(), begins, &mut waiting).await?;
                }
                done = done(&mut self.reading) => self.take_read(primary, done).await?,
                _ = look.tick() => {
                    if !self.source.is_led_by(primary) {
                        return Ok(None);
                    }
                    self.go_on(primary, None, begins, &mut waiting).await?;
                    if let Some(listener) = self.join(&mut joining, primary, &waiting) {
                        return Ok(Some(listener));
                    }
                    if self.reached.is_none() && Instant::now() > begins_until {
                        return Err(Trouble::Broken("error", OLDER_BRANCHES.to_owned()));
                    }
                }
            }
            if !waiting.is_empty() {
                wanted.notify_one();
            }
        }
    }

    /// Where the reading begins, and what gathers it.
    async fn prepare(
        &mut self,
        link: &mut Link,
    ) -> Result<(Position, Position, Transactions), Error> {
        let timeout_ms = self.source.timeout_ms();
        self.know_decided(link).await?;
        let (from, until, transactions) =
            beginning(link, timeout_ms, self.reached.as_ref()).await?;
        self.know_decided(link).await?;
        let transactions = match self.order {
            Some(_) => transactions.with_told(),
            None => transactions,
        };
        Ok((from, until, transactions))
    }

    /// Tells what may be told; begins the stream when nothing is in the way of that.
    async fn go_on(
        &mut self,
        primary: &Primary,
        shown: Option<&Shown>,
        begins: bool,
        waiting: &mut Waiting,
    ) -> Result<(), Trouble> {
        self.release(primary, shown, waiting).await?;
        if begins && waiting.is_empty() {
            self.begin(primary).await?;
        }
        self.read_on().await
    }

    /// A link to a server whose timeline has what was told, and which logs what columns are called from now on.
    async fn enter(&self, primary: &Primary) -> Result<Link, Trouble> {
        self.enter_timeline(primary).await?;
        let timeout_ms = self.source.timeout_ms();
        let mut link = Link::open(&primary.login, timeout_ms).await?;
        let named = engine::keep_columns(&mut link, timeout_ms).await;
        named.map_err(of_columns)?;
        Ok(link)
    }

    /// Checks that the server's timeline has what was told.
    async fn enter_timeline(&self, primary: &Primary) -> Result<(), Trouble> {
        let group = &self.source.group;
        let mut outlet = self.outlet.lock().await;
        if let Some(place) = outlet.place(group) {
            let kept = self.source.check(&self.source.farm(), place);
            kept.map_err(|error| {
                let text = format!(
                    "what was told up to this token was taken back: {error}; read the tables anew, and \
                     begin without a token"
                );
                Trouble::Broken("undone", text)
            })?;
            outlet.on_timeline(group, primary.timeline);
        }
        Ok(())
    }

    /// The stream begins, if it has not.
    async fn begin(&mut self, primary: &Primary) -> Result<(), Left> {
        if let Some(order) = self.order.clone() {
            if self.reached.is_none() {
                self.reached = self.start.take();
            }
            return self.begin_in_order(&order, primary).await;
        }
        let Some(reached) = self.start.take().filter(|_| self.reached.is_none()) else {
            return Ok(());
        };
        self.reached = Some(reached.clone());
        self.is_placed = true;
        let place = Place {
            group: self.source.group.clone(),
            timeline: primary.timeline,
            reached,
            unread: self.reading.as_ref().map(|it| it.unread().clone()),
            clock: None,
        };
        self.outlet.lock().await.begin(place).await
    }

    /// Tells what is safe of what waits.
    async fn release(
        &mut self,
        primary: &Primary,
        shown: Option<&Shown>,
        waiting: &mut Waiting,
    ) -> Result<(), Trouble> {
        if let Some(shown) = shown.filter(|_| self.source.is_led_by(primary)) {
            while let Some(ended) = waiting.next_shown(shown, &self.source) {
                self.take(primary, &ended).await?;
            }
            self.outlet.lock().await.flush().await?;
        }
        Ok(())
    }

    /// A transaction that may be told.
    async fn take(&mut self, primary: &Primary, ended: &Ended) -> Result<(), Trouble> {
        let reached = Reached {
            told: ended.position.clone(),
            from: ended.from.clone(),
            open: None,
        };
        if !ended.counts {
            if let Some(order) = &self.order {
                self.replay_early(order, ended);
            }
            self.start = Some(reached);
            return Ok(());
        }
        if let Some(order) = self.order.clone() {
            return self.take_in_order(&order, primary, ended).await;
        }
        // All branches that were prepared before the stream have ended.
        self.begin(primary).await?;
        self.wait_for_all().await;
        self.tell_tables().await?;
        self.tell(primary, ended, &reached).await?;
        self.reached = Some(reached);
        Ok(())
    }

    /// Waits until every group of the stream has begun.
    async fn wait_for_all(&self) {
        let mut begun = self.outlet.lock().await.begun();
        // The outlet lives as long as this.
        let _ = begun.wait_for(|begun| *begun).await;
    }
}

const OLDER_BRANCHES: &str = "branches of XA transactions were prepared before the stream began, and have not ended \
     since; see `transaction list` and XA RECOVER, and begin again";

/// Where a reading begins, the position behind which it knows every prepared branch, and what gathers it.
pub(super) async fn beginning(
    link: &mut Link,
    timeout_ms: u64,
    reached: Option<&Reached>,
) -> Result<(Position, Position, Transactions), Error> {
    let (from, until, told, older) = match reached {
        Some(reached) => {
            let from = reached.from.as_ref().unwrap_or(&reached.told);
            let told = reached.told.clone();
            (from.clone(), from.clone(), told, HashSet::new())
        }
        None => {
            let (from, _) = vantage(link, timeout_ms).await?;
            let older = engine::prepared_names(link, timeout_ms).await?;
            // A branch may have ended before it was asked for them.
            let (until, _) = vantage(link, timeout_ms).await?;
            (from.clone(), until, from, older.into_iter().collect())
        }
    };
    let transactions = Transactions::new(told, older, TRANSACTION_BYTES_MAX);
    Ok((from, until, transactions))
}

/// Transactions that have been read and may not be told yet.
#[derive(Default)]
pub(super) struct Waiting {
    all: VecDeque<Ended>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn add(&mut self, ended: Ended) {
        self.bytes += ended.bytes();
        self.all.push_back(ended);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// More may be read.
    pub(super) fn has_room(&self) -> bool {
        self.bytes < WAITING_BYTES_MAX && self.all.len() < WAITING_MAX
    }

    /// The first one, if the server shows it and it is as safe as an acknowledged commit.
    pub(super) fn next_shown(&mut self, shown: &Shown, source: &Source) -> Option<Ended> {
        self.all.front().filter(|ended| {
            let place = (ended.place.0.as_str(), ended.place.1);
            shown.has(&ended.gtid, place) && source.is_acknowledged(&ended.gtid)
        })?;
        let ended = self.all.pop_front()?;
        self.bytes -= ended.bytes();
        Some(ended)
    }
}

/// Why a reading is over.
const ENDED: &str = "the server ended the connection";
const ENDED_EARLY: &str = "a branch ended while the stream began";

fn lost(login: &Login, reason: &str) -> Error {
    Error::Lost {
        operation: "ask what of its binlog it shows",
        server: format!("{}:{}", login.host, login.port),
        reason: reason.to_owned(),
    }
}

/// A server that refuses to log what columns are called is told of with the privilege that is missing.
fn of_columns(error: Error) -> Trouble {
    match error {
        Error::Refused { .. } => Trouble::Broken(
            "error",
            format!(
                "{error}; set binlog_row_metadata=FULL in the configuration of every server of the group, \
                 or grant Heddle's account BINLOG ADMIN (MySQL: SYSTEM_VARIABLES_ADMIN)"
            ),
        ),
        other => other.into(),
    }
}

/// Asks a server what it shows, when somebody wants to know.
pub(super) async fn ask(
    mut link: Link,
    timeout_ms: u64,
    wanted: Arc<Notify>,
    tell: watch::Sender<Option<Arc<Shown>>>,
) {
    loop {
        wanted.notified().await;
        let Ok(shown) = shown(&mut link, timeout_ms).await else {
            return;
        };
        if tell.send(Some(Arc::new(shown))).is_err() {
            return;
        }
        tokio::time::sleep(ASK).await;
    }
}
