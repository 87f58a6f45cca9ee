//! One group's part of a stream: its primary's binlog, read from where the client was, told when it is safe.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use changes::{Ended, Place, Reached, Transactions, UnknownBranch, Unread, Wanted};
use engine::binlog::{Reader, Shown, is_gap, shown, vantage};
use engine::chunk::Made;
use engine::{Error, Link, Login};
use farm::Position;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::gap::{Gap, gap};
use super::ordering::Ordering;
use super::outlet::{Left, Outlet};
use super::queue::{PATIENCE, Queues, Seat, Seated, held_while};
use super::reading::Reading;
use super::shared::{Listener, SharedReadings};
use super::source::{Primary, Source};
use super::{ChangesCounts, Reads};
use elsewhere::Elsewhere;
use sharing::{SETTLED, Sharing};
use snapshot::done;
pub(super) use waiting::Waiting;

mod elsewhere;
mod in_order;
mod sharing;
mod snapshot;
mod telling;
mod timeline;
mod waiting;

/// Longer transactions are not kept while they wait for their replica: they are read once more.
const TRANSACTION_BYTES_MAX: usize = 8 << 20;

/// The server says so often that it is there.
pub(super) const HEARTBEAT_MS: u64 = 1000;

/// How often it is looked whether the server still leads, and what replicas have.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Between two questions what the server shows, while few transactions wait for the answer, and while more do. The log
/// has a transaction a moment before the server shows it, so the first answer nearly always comes too early.
const ASK_SOON: Duration = Duration::from_millis(1);
const ASK: Duration = Duration::from_millis(5);
const FEW: usize = 2;

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
    /// Others want the seat: it is read on from here when it can be had again.
    Given,
    /// Not to be told by any server; what it is, and the event's name.
    Broken(&'static str, String),
    /// A failover took back what was told.
    Undone(String),
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
    elsewhere: Elsewhere,
    wanted: Wanted,
    /// The rows that are there are read first, where no token says what was.
    wants_snapshot: bool,
    /// While something is unread.
    reading: Option<Reading>,
    /// How tables are made, until it was told.
    made: Vec<Made>,
    readings: Arc<SharedReadings>,
    queues: Arc<Queues>,
    sharing: Sharing,
    counts: Arc<ChangesCounts>,
}

/// What reads a server for one stream alone.
struct Alone {
    reader: Reader,
    /// Asks what the primary shows.
    _asker: JoinSet<()>,
    _counted: Reads,
    seat: Seat,
}

impl Seated for Alone {
    fn seat(&self) -> &Seat {
        &self.seat
    }
}

impl Follower {
    pub(super) fn new(
        source: Source,
        (wanted, wants_snapshot): (Wanted, bool),
        outlet: Arc<Mutex<Outlet>>,
        order: Option<Arc<Ordering>>,
        (readings, counts): (&Arc<SharedReadings>, &Arc<ChangesCounts>),
    ) -> Follower {
        let queues = readings.queues(&source.group);
        Follower {
            source,
            outlet,
            order,
            is_replayed: false,
            is_placed: false,
            reached: None,
            start: None,
            gaps: 0,
            elsewhere: Elsewhere::default(),
            wanted,
            wants_snapshot,
            reading: None,
            made: Vec::new(),
            readings: Arc::clone(readings),
            queues,
            sharing: Sharing::default(),
            counts: Arc::clone(counts),
        }
    }

    /// Takes up what the token says of the group.
    async fn take_up(&mut self, group: &str) {
        let place = self.outlet.lock().await.place(group).cloned();
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
            order.take_notes(group, self.reading.is_some());
        }
    }

    /// True when a server may have what the one that was read lacks: the same one, at first, or another one of the group.
    fn asks_again(&mut self, primary: &Primary) -> bool {
        self.gaps += 1;
        self.gaps == 1 || self.elsewhere.choose(&self.source, primary)
    }

    /// Until the client leaves, or something cannot be told.
    pub(super) async fn follow(mut self) -> Final {
        let group = self.source.group.clone();
        self.take_up(&group).await;
        loop {
            let Some(primary) = self.source.primary().await else {
                let told = self.outlet.lock().await.forget(&group).await;
                return match told {
                    Ok(()) => Final::GroupGone(group),
                    Err(Left) => Final::ClientLeft,
                };
            };
            let read = match self.come_to_share(&primary).await {
                Ok(listener) => {
                    self.elsewhere.leave();
                    match listener {
                        Some(listener) => self.read_shared(&primary, listener).await,
                        None => continue,
                    }
                }
                Err(trouble) => Err(trouble),
            };
            let Err(trouble) = read else { continue };
            let mut missing = None;
            let (event, text) = match trouble {
                Trouble::Left => return Final::ClientLeft,
                Trouble::Given => continue,
                Trouble::Server(error) => {
                    tracing::debug!(%group, "the change stream reads on later: {error}");
                    self.elsewhere.leave();
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Trouble::Gap(error) if self.asks_again(&primary) => {
                    tracing::debug!(%group, "the change stream asks once more: {error}");
                    tokio::time::sleep(GAP_PAUSE).await;
                    continue;
                }
                Trouble::Gap(error) => {
                    missing = self.missing(&primary).await;
                    ("gap", of_gap(&error, missing.as_ref()))
                }
                Trouble::Broken(event, text) => (event, text),
                Trouble::Undone(text) => {
                    missing = self.undone().await;
                    ("undone", text)
                }
            };
            self.outlet
                .lock()
                .await
                .break_off(event, &group, &text, missing.as_ref())
                .await;
            return Final::Told;
        }
    }

    /// What no server has of what comes next.
    async fn missing(&self, primary: &Primary) -> Option<Gap> {
        let reached = self.reached.as_ref()?;
        let from = reached.from.as_ref().unwrap_or(&reached.told);
        gap(from, &self.source.begins(primary).await)
    }

    /// Reads the primary until another one leads, a shared reading has what comes, or others want the seat.
    async fn read(&mut self, primary: &Primary, seat: Seat) -> Result<Option<Listener>, Trouble> {
        let counted = Reads::new(&self.counts);
        let mut link = self.enter(primary).await?;
        self.forget_others(primary);
        let (from, until, mut transactions) = self.prepare(&mut link).await?;
        let reader = self.open(primary, &from).await?;
        let begins_until = Instant::now() + BRANCHES_PATIENCE;
        let (want, wanted) = watch::channel(0);
        let (asker, mut told) = self.ask_primary(link, wanted);
        let mut held = Some(Alone {
            reader,
            _asker: asker,
            _counted: counted,
            seat,
        });
        let mut look = super::interval(LOOK);
        let mut waiting = Waiting::default();
        let since = Instant::now();
        while let Some(Alone { reader, seat, .. }) = &mut held {
            let is_sure = reader.position().covers(&until);
            let begins = is_sure && transactions.has_begun();
            self.end_replay(reader.position());
            tokio::select! {
                event = reader.next(), if waiting.has_room() => {
                    let event = event?;
                    self.gaps = 0;
                    self.elsewhere.found();
                    let place = reader.place();
                    let ended =
                        transactions.take(event, reader.position(), place, reader.logged());
                    if ended.is_err() && !is_sure {
                        return Err(Trouble::Server(lost(&primary.login, ENDED_EARLY)));
                    }
                    if let Some(ended) = ended?.and_then(|it| self.not_told(it)) {
                        waiting.add(ended);
                    }
                }
                changed = told.changed() => {
                    // The link is gone; the reader's end says why.
                    changed.map_err(|_| Trouble::Server(lost(&primary.login, ENDED)))?;
                    let shown = told.borrow_and_update().clone().filter(|_| is_sure);
                    self.release(primary, shown.as_deref(), &mut waiting, &mut held).await?;
                    self.go_on(primary, begins && waiting.is_empty()).await?;
                }
                done = done(&mut self.reading) => self.take_read(primary, done).await?,
                _ = look.tick() => {
                    if !self.source.is_led_by(primary) || self.has_stayed(since, seat) {
                        return Ok(None);
                    }
                    let is_wanted = seat.is_wanted();
                    self.go_on(primary, begins && waiting.is_empty()).await?;
                    // What waits is in the shared reading, too.
                    let is_settled = since.elapsed() > SETTLED && waiting.is_empty();
                    if let Some(it) = self.join(primary, is_wanted || is_settled) {
                        return Ok(Some(it));
                    }
                    if self.reached.is_none() && Instant::now() > begins_until {
                        return Err(Trouble::Broken("error", OLDER_BRANCHES.to_owned()));
                    }
                }
            }
            if !waiting.is_empty() {
                want.send_replace(waiting.len());
            }
        }
        Ok(None)
    }

    /// Begins to read behind this position.
    async fn open(&mut self, primary: &Primary, from: &Position) -> Result<Reader, Trouble> {
        let log = self.elsewhere.login(primary);
        let reader = Reader::with_sources(log, from, HEARTBEAT_MS, self.source.timeout_ms());
        let reader = reader.await?;
        self.look_at_tables(primary).await?;
        self.start = Some(Reached {
            told: from.clone(),
            from: None,
            open: None,
        });
        if let Some(reading) = &mut self.reading {
            reading.read_from(&primary.login);
        }
        Ok(reader)
    }

    /// Asks the primary what it shows, whenever transactions wait to know, until the first of both is dropped.
    fn ask_primary(
        &self,
        link: Link,
        wanted: watch::Receiver<usize>,
    ) -> (JoinSet<()>, watch::Receiver<Option<Arc<Shown>>>) {
        let (tell, told) = watch::channel(None);
        let (timeout_ms, as_position) = (self.source.timeout_ms(), self.elsewhere.is_chosen());
        let mut asker = JoinSet::new();
        asker.spawn(ask(link, timeout_ms, as_position, wanted, tell));
        (asker, told)
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

    /// Begins the stream when nothing is in the way of that, and goes on with its snapshot.
    async fn go_on(&mut self, primary: &Primary, begins: bool) -> Result<(), Trouble> {
        if begins {
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

    /// Tells the waiting transactions that are safe. While the client is slow, this gives up the seat for others, and
    /// later reads once more whatever it cannot keep.
    async fn release(
        &mut self,
        primary: &Primary,
        shown: Option<&Shown>,
        waiting: &mut Waiting,
        held: &mut Option<Alone>,
    ) -> Result<(), Trouble> {
        if let Some(shown) = shown.filter(|_| self.source.is_led_by(primary)) {
            while let Some(ended) = waiting.next_shown(shown, &self.source) {
                let taking = self.take(primary, &ended);
                held_while(taking, held, PATIENCE, || waiting.shrink()).await?;
            }
            let outlet = Arc::clone(&self.outlet);
            let flushing = async { outlet.lock().await.flush().await };
            held_while(flushing, held, PATIENCE, || waiting.shrink()).await?;
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

/// The text of a `gap` for a consumer, with its cure.
fn of_gap(error: &Error, missing: Option<&Gap>) -> String {
    let which = match missing {
        Some(gap) => format!("the changes {gap}"),
        None => "the changes behind the token".to_owned(),
    };
    format!(
        "{error}; {which} are not there any more: read the tables anew (a subscription: drop it, and create it with \
         --snapshot; a stream: begin without a token), and let the servers keep their binlogs for longer \
         (subscription_binlogs_h, or their binlog_expire_logs_seconds)"
    )
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

/// Asks a server what it shows, when transactions wait to know: `wanted` says how many. As a position, where another
/// server's binlog is read.
pub(super) async fn ask(
    mut link: Link,
    timeout_ms: u64,
    as_position: bool,
    mut wanted: watch::Receiver<usize>,
    tell: watch::Sender<Option<Arc<Shown>>>,
) {
    loop {
        if wanted.changed().await.is_err() {
            return;
        }
        let pause = match *wanted.borrow_and_update() <= FEW {
            true => ASK_SOON,
            false => ASK,
        };
        let shown = match as_position {
            true => vantage(&mut link, timeout_ms)
                .await
                .map(|(position, _)| Shown::Executed(position)),
            false => shown(&mut link, timeout_ms).await,
        };
        let Ok(shown) = shown else {
            return;
        };
        if tell.send(Some(Arc::new(shown))).is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}
