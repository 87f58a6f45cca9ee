//! Keeping what this router knows of the leadership true, and telling others of it.
//!
//! What the state store says of routers comes in here, whoever reads it; the failover drivers and everybody who goes
//! by the roster hear of each change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use meta::Update;
use tokio::sync::watch;

use super::Role;
use super::presence::{PREFIXES, RouterRecord};
use crate::context::Context;
use crate::context::drivers::Told;
use crate::peers::roster::{Leads, Peer, Roster};
use catalog::event::Event;

/// Hears of each roster before anybody else sees it; must not block.
pub(crate) type RosterListener = Box<dyn Fn(&Roster) + Send + Sync>;

/// A router of the farm, for people and doors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Router {
    pub slot: u8,
    /// Of its process.
    pub id: String,
    pub name: String,
    pub http: String,
    pub sql: String,
    pub version: String,
    /// Milliseconds since 1970.
    pub started_ms: u64,
    pub leads: bool,
    /// Since when it leads.
    pub leads_since_ms: Option<u64>,
    /// It is this one.
    pub own: bool,
}

/// How the store is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contact {
    /// For how long the store has not answered; `None` for a router that is alone, or while it does.
    pub silent_for: Option<Duration>,
    /// So long that the router should say that it is not ready.
    pub refuses: bool,
}

/// Keeps this router registered among the others, and campaigns for the leadership.
pub(crate) struct Election {
    pub(super) context: Arc<Context>,
    listener: RosterListener,
    roster: watch::Sender<Arc<Roster>>,
}

impl Election {
    pub(crate) fn new(context: &Arc<Context>, listener: RosterListener) -> Election {
        Election {
            context: Arc::clone(context),
            listener,
            roster: watch::Sender::default(),
        }
    }
}

impl Election {
    /// All routers that live, by slot. One that is alone is in slot 0.
    pub fn routers(&self) -> Vec<Router> {
        let leadership = &self.context.leadership;
        let settings = self.context.settings();
        let inner = leadership.inner();
        let leader = inner.presence.leader.as_ref();
        let of = |slot: u8, record: &RouterRecord| {
            let leader = leader.filter(|leader| leader.value.id == record.id);
            Router {
                slot,
                id: record.id.clone(),
                name: record.name.clone(),
                http: record.http.clone(),
                sql: record.sql.clone(),
                version: record.version.clone(),
                started_ms: record.started_ms,
                leads: leader.is_some() || leadership.alone,
                leads_since_ms: leader.map(|leader| leader.value.since_ms),
                own: record.id == leadership.id,
            }
        };
        if leadership.alone {
            let record = self.own_record(&settings);
            return vec![of(0, &record)];
        }
        let routers = inner.presence.routers.iter();
        routers.map(|(slot, kept)| of(*slot, &kept.value)).collect()
    }

    /// How long the store has been silent, and whether that is too long.
    pub fn contact(&self) -> Contact {
        if self.context.leadership.alone {
            return Contact::default();
        }
        let settings = self.context.settings();
        let Some(membership) = &settings.membership else {
            return Contact::default();
        };
        let silent_for = self.context.leadership.inner().answered.elapsed();
        let limit = Duration::from_millis(membership.store_silence_ms);
        let silent = silent_for >= limit;
        Contact {
            silent_for: silent.then_some(silent_for),
            refuses: silent && membership.refuses_without_store,
        }
    }

    /// Reads who is there, all at once; gives the revision from which a watch misses nothing.
    pub(crate) async fn read_presence(&self) -> Result<u64, meta::Error> {
        let mut oldest = u64::MAX;
        for prefix in PREFIXES {
            let listing = self.context.store().scan(prefix).await?;
            oldest = oldest.min(listing.revision);
            let mut inner = self.context.leadership.inner();
            inner
                .presence
                .read(prefix, &listing.entries, listing.revision);
        }
        self.presence_changed();
        Ok(oldest)
    }

    /// Takes over what an update says of the routers; false when it says nothing of them.
    pub(crate) fn take_presence(&self, update: &Update) -> bool {
        let touched = self.context.leadership.inner().presence.update(update);
        if touched {
            self.presence_changed();
        }
        touched
    }

    /// Something may have changed about who is there, who leads, or who votes.
    pub(crate) fn presence_changed(&self) {
        self.update_role();
        self.context.leadership.changed.notify_waiters();
        self.context.drivers.tell_all(|| Told::Leadership);
    }

    /// Takes note of what this router is now, and tells what happened since the last time.
    pub(super) fn update_role(&self) {
        let leadership = &self.context.leadership;
        if leadership.alone {
            return;
        }
        let (role, shown, before) = {
            let mut inner = leadership.inner();
            inner.note_expired_routers(&leadership.id);
            let shown = inner.shown();
            let before = std::mem::replace(&mut inner.shown, shown.clone());
            (inner.role(&leadership.id, Instant::now()), shown, before)
        };
        let was = leadership.role.send_replace(role.clone());
        if was.leads != role.leads {
            let (leads, number) = (role.leads.is_some(), role.leads.or(was.leads).unwrap_or(0));
            recorder::note(0, recorder::Step::Leadership { leads, number });
        }
        self.set_roster(self.roster_of(&role));
        let mut texts = shown.since(&before);
        if let (Some(number), None) = (was.leads, role.leads)
            && before.leader == shown.leader
        {
            let text = format!("this router leads no more: its lease {number} may have run out");
            texts.push(("leader_changed", text));
        }
        for (kind, text) in texts {
            self.context.happened(Event::now(kind, "", text));
        }
    }
}

impl Election {
    /// Who of the farm's routers live, as this one knows.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.roster.borrow())
    }

    /// The same for whoever waits for a change of it.
    pub(crate) fn watch_roster(&self) -> watch::Receiver<Arc<Roster>> {
        self.roster.subscribe()
    }

    /// Takes over who lives and who leads.
    pub(crate) fn set_roster(&self, roster: Roster) {
        (self.listener)(&roster);
        self.roster.send_if_modified(|known| {
            let news = **known != roster;
            if news {
                *known = Arc::new(roster);
            }
            news
        });
    }

    /// What this router is, for who asks peers and is asked by them.
    fn roster_of(&self, role: &Role) -> Roster {
        let peer = |slot: u8, record: &RouterRecord| Peer {
            slot,
            id: record.id.clone(),
            name: record.name.clone(),
            http: record.http.clone(),
            version: record.version.clone(),
            tls: record.tls,
        };
        let own = peer(role.slot, &self.own_record(&self.context.settings()));
        let inner = self.context.leadership.inner();
        let leader = inner.presence.leader.as_ref();
        let leads = match (role.leads, leader) {
            (Some(_), _) => Leads::Here,
            (None, Some(leader)) if leader.value.id != own.id => Leads::Slot(leader.value.slot),
            _ => Leads::Nobody,
        };
        let routers = inner.presence.routers.iter();
        // One that was relieved by this process and still has clients cannot be asked: its address is
        // this one's.
        let others =
            routers.filter(|(_, kept)| kept.value.id != own.id && kept.value.http != own.http);
        let others = others.map(|(slot, kept)| Arc::new(peer(*slot, &kept.value)));
        let others = others.collect();
        Roster { own, others, leads }
    }
}
