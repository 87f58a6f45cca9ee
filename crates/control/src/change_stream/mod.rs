//! The change stream: every change of the farm's groups as lines of JSON, for whoever asks over HTTP.
//!
//! Job: one reading of each group's binlog for all streams that have caught up, and few for those that have not; what a
//! stream shows is as safe as an acknowledged commit; after a failover it goes on at the new primary.
//!
//! Invariants: a line is sent when the primary shows its transaction (with semi-sync that is after a
//! replica has it), and the server is still the primary after it said so; every line has the token of the moment behind it. What cannot be told ends the stream with a line
//! that says so. A stream that is not read stops reading.
//!
//! Must not know: HTTP, what binlog events look like.

mod clock;
mod following;
mod gap;
mod ordering;
mod outlet;
mod queue;
mod reading;
mod shared;
mod source;

use std::collections::{BTreeSet, HashMap};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use catalog::command::CommandError;
use changes::debezium::Types;
use changes::{Token, Wanted};
use farm::{GroupKind, Snapshot, TokenError};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use crate::context::Context;
use crate::links::Links;
use clock::Clock;
use following::{Final, Follower};
pub use gap::Gap;
pub(crate) use gap::gap;
use ordering::Ordering;
use outlet::Outlet;
use shared::SharedReadings;
pub(crate) use source::Source;

/// Chunks of lines that wait for the client. Each stream of a client that does not read keeps them.
const CHUNKS_MAX: usize = 2;

/// A stream that has nothing to say says so.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How often it is looked for new groups.
const LOOK: Duration = Duration::from_secs(1);

/// How often servers are told to log the names of columns: one that has restarted has forgotten it.
const TELL_SERVERS: Duration = Duration::from_secs(10);

/// What a stream is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangesWanted {
    /// Where to go on; without a token the stream begins now.
    pub from: Option<String>,
    /// Only these groups; all without any.
    pub groups: Vec<String>,
    pub of: Wanted,
    /// The rows that are there first, of groups that the token does not know.
    pub snapshot: bool,
    /// One order over all groups.
    pub in_order: bool,
    /// The form of rows and values.
    pub types: Types,
}

impl ChangesWanted {
    /// Whether anything of the group is told. In one order over all groups the others are read, too.
    fn tells(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|it| it == group)
    }
}

/// A stream that begins.
pub struct ChangesOpened {
    /// Whole lines, some at a time. After a line that says what cannot be told there are no more.
    pub lines: mpsc::Receiver<Vec<u8>>,
    /// What has to run for it. It ends when nobody takes the lines any more.
    pub serving: Pin<Box<dyn Future<Output = ()> + Send>>,
}

/// What was counted since the start.
#[derive(Debug, Default)]
pub struct ChangesCounts {
    /// Streams that are open.
    pub streams: AtomicU64,
    /// Readings of binlogs for them.
    pub readings: AtomicU64,
    pub lines: AtomicU64,
    pub bytes: AtomicU64,
    /// Streams that ended because something could not be told.
    pub broken: AtomicU64,
}

/// Opens streams.
pub struct ChangeStreams {
    context: Arc<Context>,
    links: Arc<Links>,
    counts: Arc<ChangesCounts>,
    readings: Arc<SharedReadings>,
    clock: Arc<Clock>,
    /// When the servers of a group were told last what to log.
    told: std::sync::Mutex<HashMap<String, Instant>>,
}

impl ChangeStreams {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> ChangeStreams {
        ChangeStreams {
            context: Arc::clone(context),
            links: Arc::clone(links),
            counts: Arc::default(),
            readings: Arc::default(),
            clock: Arc::new(Clock::new(context, links)),
            told: std::sync::Mutex::default(),
        }
    }

    /// What all streams did.
    pub fn counts(&self) -> &ChangesCounts {
        &self.counts
    }

    /// A stream. With a token it reads of a snapshot what the token leaves unread.
    ///
    /// # Errors
    /// The token is none of this farm's, or says what was lost since; a group is not there or is a Galera
    /// cluster.
    pub fn open(self: &Arc<Self>, wanted: ChangesWanted) -> Result<ChangesOpened, CommandError> {
        let snapshot = self.context.snapshot_now();
        let mut groups = groups(&wanted.groups, &snapshot)?;
        if wanted.in_order {
            groups = all_groups(&snapshot)?;
        }
        let token = match &wanted.from {
            Some(text) => Token::parse(text, &snapshot).map_err(|error| refused(&error))?,
            None => Token {
                farm: snapshot.farm_id.to_string(),
                places: Vec::new(),
            },
        };
        if !token.places.is_empty() && token.is_in_order() != wanted.in_order {
            return Err(CommandError::Usage(of_other_order(wanted.in_order)));
        }
        let (sender, lines) = mpsc::channel(CHUNKS_MAX);
        let order = wanted
            .in_order
            .then(|| Arc::new(Ordering::new(&token, &groups, &self.clock)));
        let parts = (wanted.clone(), token);
        let outlet = Outlet::new(parts, &groups, order.clone(), sender, &self.counts);
        let serving = Box::pin(Arc::clone(self).serve(wanted, groups, order, outlet));
        Ok(ChangesOpened { lines, serving })
    }

    /// One stream's life.
    async fn serve(
        self: Arc<Self>,
        wanted: ChangesWanted,
        groups: BTreeSet<String>,
        order: Option<Arc<Ordering>>,
        outlet: Outlet,
    ) {
        self.counts.streams.fetch_add(1, Relaxed);
        let _open = Counted(Arc::clone(&self.counts));
        let left = outlet.left();
        let outlet = Arc::new(Mutex::new(outlet));
        let mut followers = JoinSet::new();
        let mut followed = BTreeSet::new();
        let mut look = interval(LOOK);
        let mut beat = interval(HEARTBEAT);
        let mut tell = interval(TELL_SERVERS);
        let follow = |group: &String| {
            let reads = wanted.snapshot && wanted.tells(group);
            Follower::new(
                self.source(group),
                (wanted.of.clone(), reads),
                Arc::clone(&outlet),
                order.clone(),
                (&self.readings, &self.counts),
            )
            .follow()
        };
        for group in &groups {
            followers.spawn(follow(group));
            followed.insert(group.clone());
        }
        loop {
            tokio::select! {
                () = left.closed() => break,
                Some(ended) = followers.join_next() => match ended {
                    // The farm does not have the group any more.
                    Ok(Final::GroupGone(group)) => {
                        followed.remove(&group);
                        if let Some(order) = &order {
                            order.leave(&group);
                        }
                    }
                    Ok(Final::Told | Final::ClientLeft) => break,
                    Err(error) => {
                        tracing::error!("a change stream panicked: {error}; please report it");
                        break;
                    }
                },
                _ = look.tick() => {
                    for group in self.joining(&wanted, order.as_deref(), &mut followed) {
                        followers.spawn(follow(&group));
                    }
                }
                _ = beat.tick() => {
                    if outlet.lock().await.beat(HEARTBEAT).await.is_err() {
                        break;
                    }
                }
                _ = tell.tick() => {
                    for group in followed.iter().filter(|group| self.is_due(group)) {
                        let source = self.source(group);
                        tokio::spawn(async move { source.tell_servers().await });
                    }
                }
            }
        }
        followers.shutdown().await;
    }

    /// The groups that the farm has got, and that the stream is about, too.
    fn joining(
        &self,
        wanted: &ChangesWanted,
        order: Option<&Ordering>,
        followed: &mut BTreeSet<String>,
    ) -> Vec<String> {
        if !wanted.groups.is_empty() && !wanted.in_order {
            return Vec::new();
        }
        let mut joining = self.replicating();
        joining.retain(|group| followed.insert(group.clone()));
        if let Some(order) = order {
            joining.iter().for_each(|group| order.join(group));
        }
        joining
    }

    /// Whether a group's servers are to be told now what to log: not for each stream of many.
    fn is_due(&self, group: &str) -> bool {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let is_due = told
            .get(group)
            .is_none_or(|at| now.duration_since(*at) >= TELL_SERVERS / 2);
        if is_due {
            told.insert(group.to_owned(), now);
        }
        is_due
    }

    pub(crate) fn source(&self, group: &str) -> Source {
        Source::new(&self.context, &self.links, group)
    }

    /// The groups that have binlogs in one order.
    fn replicating(&self) -> Vec<String> {
        let snapshot = self.context.snapshot_now();
        let groups = snapshot.groups.iter();
        let groups = groups.filter(|group| group.kind == GroupKind::Replication);
        groups.map(|group| group.name.to_string()).collect()
    }
}

/// Counts a stream while it is open.
struct Counted(Arc<ChangesCounts>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.streams.fetch_sub(1, Relaxed);
    }
}

/// Counts a reading while it goes on.
struct Reads(Arc<ChangesCounts>);

impl Reads {
    fn new(counts: &Arc<ChangesCounts>) -> Reads {
        counts.readings.fetch_add(1, Relaxed);
        Reads(Arc::clone(counts))
    }
}

impl Drop for Reads {
    fn drop(&mut self) {
        self.0.readings.fetch_sub(1, Relaxed);
    }
}

/// Ticks that come late do not come at once.
fn interval(period: Duration) -> tokio::time::Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The groups that are meant.
fn groups(named: &[String], snapshot: &Snapshot) -> Result<BTreeSet<String>, CommandError> {
    for name in named {
        if snapshot.group(name).is_none() {
            let why = format!("there is no group {name:?}; see `group lookup_groups`");
            return Err(CommandError::Usage(why));
        }
    }
    let all = snapshot.groups.iter();
    let meant = all.filter(|group| named.is_empty() || named.iter().any(|it| **it == *group.name));
    let meant: Vec<_> = meant.collect();
    if let Some(galera) = meant.iter().find(|group| group.kind == GroupKind::Galera) {
        let why = format!(
            "group {} is a Galera cluster, whose nodes' binlogs are not the same; name other groups by \
             group=NAME",
            galera.name
        );
        return Err(CommandError::Refused(why));
    }
    match meant.is_empty() {
        true => Err(CommandError::Refused(
            "the farm has no group; see `group create`".to_owned(),
        )),
        false => Ok(meant.iter().map(|group| group.name.to_string()).collect()),
    }
}

/// All groups, for one order over them.
fn all_groups(snapshot: &Snapshot) -> Result<BTreeSet<String>, CommandError> {
    if let Some(galera) = snapshot
        .groups
        .iter()
        .find(|it| it.kind == GroupKind::Galera)
    {
        let why = format!(
            "there is no order over all groups, since group {} is a Galera cluster, whose nodes' binlogs are not the \
             same; leave order=global out, and name the other groups by group=NAME",
            galera.name
        );
        return Err(CommandError::Refused(why));
    }
    let all = snapshot.groups.iter();
    let all = all.filter(|group| group.kind == GroupKind::Replication);
    Ok(all.map(|group| group.name.to_string()).collect())
}

fn of_other_order(in_order: bool) -> String {
    match in_order {
        true => "from: the token is of a stream without order=global; begin one with it anew, without a token",
        false => "from: the token is of a stream with order=global; add that",
    }
    .to_owned()
}

fn refused(error: &TokenError) -> CommandError {
    match error {
        TokenError::Lost { .. } => CommandError::Refused(taken_back(error)),
        _ => CommandError::Usage(format!("from: {error}")),
    }
}

/// The text for a consumer that was told what is lost, with its cure.
pub(crate) fn taken_back(lost: &TokenError) -> String {
    format!(
        "what was told up to this token was taken back: {lost}; read the tables anew (a sink: drop it, and create it \
         with --snapshot; a subscription: the same, or acknowledge the token of a stream that begins now; a stream: \
         begin without a token)"
    )
}
