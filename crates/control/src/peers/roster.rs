//! Which routers of the farm live, and which of them leads.

use std::sync::Arc;

/// One router as the others know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// Its number while it lives: 1 to 255, or 0 for one that is alone for ever.
    pub slot: u8,
    /// Told anew by each process, so that two lives in one slot differ.
    pub id: String,
    /// For people; unique among the living.
    pub name: String,
    /// `host:port` of its HTTP door.
    pub http: String,
    pub version: String,
    /// It speaks TLS to peers. Releases before that did not say so.
    pub tls: bool,
}

/// Who leads the farm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leads {
    /// This router.
    #[default]
    Here,
    /// The peer in this slot.
    Slot(u8),
    /// Nobody that this router knows of.
    Nobody,
}

/// This router and the others that live. Without a store that others share, a router is alone in slot
/// 0 and leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    pub own: Peer,
    /// By slot.
    pub others: Vec<Arc<Peer>>,
    pub leads: Leads,
}

impl Roster {
    /// The peer that leads; `None` when this router does or nobody.
    pub fn leader(&self) -> Option<&Arc<Peer>> {
        match self.leads {
            Leads::Slot(slot) => self.in_slot(slot),
            Leads::Here | Leads::Nobody => None,
        }
    }

    /// The peer in this slot.
    pub fn in_slot(&self, slot: u8) -> Option<&Arc<Peer>> {
        self.others.iter().find(|peer| peer.slot == slot)
    }

    /// The names of all, this router's first.
    pub fn names(&self) -> Vec<&str> {
        let others = self.others.iter().map(|peer| peer.name.as_str());
        std::iter::once(self.own.name.as_str())
            .chain(others)
            .collect()
    }
}
