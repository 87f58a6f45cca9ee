//! The farm's logical clock: raises its number in every group when a stream in one order needs that.
//!
//! Invariant: a number is written nowhere before every group has the number in front of it. Several routers may raise the clock
//! at the same time: each of them keeps to that, and a number that is there already is not written again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use engine::{Link, Login};
use farm::{GroupKind, ServerId};
use machines::order::Wish;
use tokio::sync::{Mutex, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::context::Context;
use crate::links::Links;

/// Numbers do not follow each other faster: each costs every group a commit.
const EVERY: Duration = Duration::from_millis(10);

/// After a group could not be asked.
const PAUSE: Duration = Duration::from_millis(50);

/// What one router knows of the clock.
pub(super) struct Clock {
    context: Arc<Context>,
    links: Arc<Links>,
    wanted: watch::Sender<u64>,
    /// Every group has this number.
    reached: watch::Sender<u64>,
    is_driven: AtomicBool,
    groups: Mutex<HashMap<String, GroupClock>>,
}

/// One group's clock.
struct GroupClock {
    server: ServerId,
    timeline: u32,
    link: Option<Link>,
    /// It has this number at least, or a greater one.
    number: Option<u64>,
}

impl Clock {
    pub(super) fn new(context: &Arc<Context>, links: &Arc<Links>) -> Clock {
        Clock {
            context: Arc::clone(context),
            links: Arc::clone(links),
            wanted: watch::Sender::new(0),
            reached: watch::Sender::new(0),
            is_driven: AtomicBool::new(false),
            groups: Mutex::default(),
        }
    }

    /// Every group has this number, as far as this router knows.
    pub(super) fn reached(&self) -> u64 {
        *self.reached.borrow()
    }

    /// Has the clock raised so far. Comes back at once.
    pub(super) fn want(self: &Arc<Self>, wish: Wish) {
        let reached = self.reached();
        let number = match wish {
            Wish::Next => reached + 1,
            Wish::AtLeast(number) => number,
        };
        if number <= reached {
            return;
        }
        self.wanted.send_if_modified(|wanted| {
            let is_more = *wanted < number;
            *wanted = number.max(*wanted);
            is_more
        });
        if !self.is_driven.swap(true, SeqCst) {
            let clock = Arc::clone(self);
            tokio::spawn(async move { clock.drive().await });
        }
    }

    /// Raises the clock as far as it is wanted.
    async fn drive(self: Arc<Self>) {
        while self.is_behind() {
            // However this ends, as with the thread that runs it, the next wish begins anew.
            let driven = Driven(&self.is_driven);
            while self.is_behind() {
                let begun = Instant::now();
                match self.raise().await {
                    Some(reached) => drop(self.reached.send_replace(reached)),
                    None => tokio::time::sleep(PAUSE).await,
                }
                tokio::time::sleep_until(begun + EVERY).await;
            }
            drop(driven);
            // Whoever wished in between saw it driven.
            if !self.is_behind() || self.is_driven.swap(true, SeqCst) {
                return;
            }
        }
    }

    fn is_behind(&self) -> bool {
        self.reached() < *self.wanted.borrow()
    }

    /// Raises it by one, or where it is behind; gives the number that every group has. `None` when a group could not be
    /// asked.
    async fn raise(&self) -> Option<u64> {
        let mut groups = self.groups.lock().await;
        self.look(&mut groups)?;
        // Whose number is not known is asked.
        self.write(&mut groups, |it| it.number.is_none(), 0).await;
        let numbers: Option<Vec<u64>> = groups.values().map(|it| it.number).collect();
        let numbers = numbers?;
        let (least, most) = (numbers.iter().min()?, numbers.iter().max()?);
        let number = if least < most { *most } else { least + 1 };
        let is_behind = |it: &GroupClock| it.number.is_none_or(|has| has < number);
        self.write(&mut groups, is_behind, number).await;
        let numbers: Option<Vec<u64>> = groups.values().map(|it| it.number).collect();
        numbers?.into_iter().min()
    }

    /// Takes over which servers lead; `None` while a group has no primary.
    fn look(&self, groups: &mut HashMap<String, GroupClock>) -> Option<()> {
        let snapshot = self.context.snapshot_now();
        let all = snapshot.groups.iter();
        let all = all.filter(|group| group.kind == GroupKind::Replication);
        let mut known = std::mem::take(groups);
        for group in all {
            let primary = group.primary().filter(|_| !group.paused)?;
            let (server, timeline) = (primary.id, group.timeline());
            let is_same = |it: &GroupClock| it.server == server && it.timeline == timeline;
            let clock = known.remove(&*group.name).filter(is_same);
            let clock = clock.unwrap_or(GroupClock {
                server,
                timeline,
                link: None,
                number: None,
            });
            groups.insert(group.name.to_string(), clock);
        }
        Some(())
    }

    /// Raises the clocks of these groups at the same time. One that fails is not known afterwards.
    async fn write(
        &self,
        groups: &mut HashMap<String, GroupClock>,
        is_meant: impl Fn(&GroupClock) -> bool,
        number: u64,
    ) {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let snapshot = self.context.snapshot_now();
        let mut writing = JoinSet::new();
        for (name, clock) in groups.iter_mut().filter(|it| is_meant(it.1)) {
            clock.number = None;
            let primary = snapshot.group(name).and_then(|group| group.primary());
            let Some(primary) = primary.filter(|it| it.id == clock.server) else {
                continue;
            };
            let (link, login) = (clock.link.take(), self.links.login(&**primary));
            let name = name.clone();
            writing.spawn(async move {
                let written = write(link, login, number, timeout_ms).await;
                (name, written)
            });
        }
        while let Some(written) = writing.join_next().await {
            if let Ok((name, Ok((link, number)))) = written
                && let Some(clock) = groups.get_mut(&name)
            {
                (clock.link, clock.number) = (Some(link), number);
            }
        }
    }
}

/// Says that nobody drives the clock any more.
struct Driven<'a>(&'a AtomicBool);

impl Drop for Driven<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

async fn write(
    link: Option<Link>,
    login: Login,
    number: u64,
    timeout_ms: u64,
) -> Result<(Link, Option<u64>), engine::Error> {
    let mut link = match link {
        Some(link) => link,
        None => Link::open(&login, timeout_ms).await?,
    };
    let number = engine::clock::raise(&mut link, number, timeout_ms).await;
    let number = number.inspect_err(|error| {
        tracing::debug!(server = link.address(), %error, "the logical clock was not raised");
    })?;
    Ok((link, number))
}
