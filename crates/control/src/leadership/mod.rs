//! Who of the farm's routers leads: the leadership that one of them holds at a time.
//!
//! Each router registers in a *slot* with a lease of the store. Whoever writes `/leader` first, with
//! its own lease, leads; the revision of that key is the *fencing number* of the leadership, and every
//! write of the leader to the store carries it. A router counts the validity of its lease by its own
//! clock from before the request that extended it, so it stops acting before the store lets another
//! one lead; what it had begun before that, servers refuse (see [`engine::term`]).
//!
//! A router without others (its store is a file of its own) holds the leadership for ever, and nothing of
//! this costs it anything.
//!
//! [`Leadership`] is what a router knows of all this. Whoever acts for the farm asks it for the right to do so, a
//! [`lead::Lead`]. It knows nothing of the farm. [`election::Election`] keeps it true.

pub(crate) mod election;
pub(crate) mod lead;
mod life;
pub(crate) mod presence;
mod tenure;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use meta::{Lease, LeaseId};
use tokio::sync::{Notify, watch};

use catalog::event::epoch_ms;
use presence::{CutRecord, Presence, RouterRecord, Seat};

/// What this router is to the farm.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Role {
    /// 0 for a router that is alone or not registered yet.
    pub(crate) slot: u8,
    /// The fencing number, while it leads; 0 for one that is alone.
    pub(crate) leads: Option<u64>,
    /// The other routers that live: slot, and what tells lives in it apart.
    pub(crate) peers: Vec<(u8, u64)>,
    /// Routers whose lease is over though nobody saw that their process is gone: they may still serve.
    pub(crate) expired_routers: Vec<u64>,
}

/// What one router knows of the leadership.
pub(crate) struct Leadership {
    /// Of this process.
    id: String,
    alone: bool,
    /// Another process has taken over what this router does beyond serving the clients that it has.
    retired: AtomicBool,
    started_ms: u64,
    inner: Mutex<Inner>,
    role: watch::Sender<Role>,
    /// The presence changed, or the seat.
    changed: Notify,
}

struct Inner {
    presence: Presence,
    seat: Option<Seat>,
    lease: Option<Arc<dyn Lease>>,
    /// The leadership that this router won last, and the lease that it ends with.
    elected: Option<(u64, LeaseId)>,
    /// Until when the lease is surely alive.
    valid_until: Option<Instant>,
    /// When the store answered last.
    answered: Instant,
    /// It is about to end and does not want to lead any more.
    resigned: bool,
    /// What was told of it.
    shown: Shown,
    /// Who left without being seen to be gone, by what registered it.
    expired_routers: BTreeMap<u64, RouterRecord>,
    /// Who was there when it was looked at last.
    present: BTreeMap<u64, RouterRecord>,
    /// Who was seen to be gone, though the store may still say otherwise.
    gone: BTreeSet<u64>,
}

impl Leadership {
    /// Of a router that is alone, or one that has others.
    pub(crate) fn new(id: String, alone: bool) -> Leadership {
        let role = Role {
            leads: alone.then_some(0),
            ..Role::default()
        };
        Leadership {
            id,
            alone,
            retired: AtomicBool::new(false),
            started_ms: epoch_ms(),
            inner: Mutex::new(Inner {
                presence: Presence::default(),
                seat: None,
                lease: None,
                elected: None,
                valid_until: None,
                answered: Instant::now(),
                resigned: false,
                shown: Shown::default(),
                expired_routers: BTreeMap::new(),
                present: BTreeMap::new(),
                gone: BTreeSet::new(),
            }),
            role: watch::Sender::new(role),
            changed: Notify::new(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// It only follows what is recorded: it has others, or its successor acts.
    pub(crate) fn follows(&self) -> bool {
        !self.alone || self.is_retired()
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Relaxed)
    }

    /// Told of every change.
    pub(crate) fn watch_role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// The fencing number of the leadership that this router, which has others, surely holds now.
    fn number_held(&self) -> Option<u64> {
        self.inner().leads(&self.id, Instant::now())
    }

    /// For so long the lease surely lives.
    pub(crate) fn lease_remains(&self) -> Duration {
        let until = self.inner().valid_until;
        until.map_or(Duration::ZERO, |until| {
            until.saturating_duration_since(Instant::now())
        })
    }

    /// What this router is to the farm.
    pub(crate) fn role(&self) -> Role {
        self.role.borrow().clone()
    }

    /// What the others vote about a group.
    pub(crate) fn votes(&self, group: &str) -> BTreeMap<u8, u32> {
        let inner = self.inner();
        let own = inner.seat.map_or(0, |seat| seat.slot);
        inner.presence.votes(group, own)
    }

    /// What a router did about a group's change of primary.
    pub(crate) fn cut_of(&self, group: &str, slot: u8) -> Option<CutRecord> {
        self.inner().presence.cut(group, slot).cloned()
    }

    /// This router's slot and lease, while it has them.
    pub(crate) fn seat(&self) -> Option<(u8, meta::LeaseId)> {
        let seat = self.inner().seat;
        seat.map(|seat| (seat.slot, seat.lease))
    }
}

impl Inner {
    /// The number of the leadership, while this router surely has it.
    fn leads(&self, id: &str, now: Instant) -> Option<u64> {
        let leader = self.presence.leader.as_ref()?;
        let valid = self.valid_until.is_some_and(|until| now < until);
        // Under an earlier lease it may have ended, and nobody has told us yet.
        let lease = self.seat.map(|seat| seat.lease)?;
        let won = self.elected == Some((leader.revision, lease));
        (valid && won && leader.value.id == id && !self.resigned).then_some(leader.revision)
    }

    fn role(&self, id: &str, now: Instant) -> Role {
        let own = self.seat.map_or(0, |seat| seat.slot);
        let slots = self.presence.routers.iter();
        let others = slots.filter(|(_, kept)| kept.value.id != id);
        Role {
            slot: own,
            leads: self.leads(id, now),
            peers: others.map(|(slot, kept)| (*slot, kept.revision)).collect(),
            expired_routers: self.expired_routers.keys().copied().collect(),
        }
    }
}

/// What was told of the farm's routers: names by slot and process, and who leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Shown {
    routers: BTreeMap<(u8, String), String>,
    leader: Option<(u64, String)>,
}

impl Shown {
    /// What happened since then.
    fn since(&self, before: &Shown) -> Vec<(&'static str, String)> {
        let mut texts = Vec::new();
        let news = |here: &Shown, there: &Shown| -> Vec<(u8, String)> {
            let missing = here
                .routers
                .iter()
                .filter(|(key, _)| !there.routers.contains_key(*key));
            missing
                .map(|((slot, _), name)| (*slot, name.clone()))
                .collect()
        };
        for (slot, name) in news(before, self) {
            texts.push(("router_left", format!("router {name} left slot {slot}")));
        }
        for (slot, name) in news(self, before) {
            texts.push(("router_joined", format!("router {name} took slot {slot}")));
        }
        match &self.leader {
            now if *now == before.leader => {}
            Some((number, name)) => {
                let text = format!("router {name} leads the farm (fencing number {number})");
                texts.push(("leader_changed", text));
            }
            None => texts.push(("leader_changed", "no router leads the farm".to_owned())),
        }
        texts
    }
}

impl Inner {
    /// Who was there a moment ago and is not any more may still serve, until it is seen to be gone or
    /// its address is another one's.
    fn note_expired_routers(&mut self, own: &str) {
        let routers = &self.presence.routers;
        let now: BTreeMap<u64, RouterRecord> = routers
            .values()
            .filter(|kept| kept.value.id != own)
            .map(|kept| (kept.revision, kept.value.clone()))
            .collect();
        let before = std::mem::replace(&mut self.present, now);
        let present = &self.present;
        let gone = &mut self.gone;
        let left = before
            .into_iter()
            .filter(|(at, _)| !present.contains_key(at));
        self.expired_routers
            .extend(left.filter(|(at, _)| !gone.remove(at)));
        let here = |expired_router: &RouterRecord| {
            let mut present = present.values();
            present
                .any(|router| router.id == expired_router.id || router.http == expired_router.http)
        };
        self.expired_routers
            .retain(|_, expired_router| !here(expired_router));
    }

    fn shown(&self) -> Shown {
        let routers = self.presence.routers.iter();
        let named = routers.map(|(slot, kept)| {
            let record = &kept.value;
            ((*slot, record.id.clone()), record.name.clone())
        });
        let routers: BTreeMap<(u8, String), String> = named.collect();
        let leader = self.presence.leader.as_ref().map(|leader| {
            let at = (leader.value.slot, leader.value.id.clone());
            let name = routers.get(&at).cloned();
            (
                leader.revision,
                name.unwrap_or_else(|| format!("in slot {}", at.0)),
            )
        });
        Shown { routers, leader }
    }
}
