//! What an operator may decide about failover, and what the machine knows of the servers.

use std::sync::Arc;

use farm::{Position, ServerId, Status};

/// Who makes a client wait until its commit is on more than one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// The primary itself (semi-sync, AFTER_SYNC). Only when it waits `forever` does a primary
    /// without replicas acknowledge nothing, which makes stopping them a fence.
    Servers { forever: bool },
    /// The router: it holds the answer back until a replica has the GTID.
    Router,
    /// Nobody: what a replica has not received is lost with the primary.
    Nobody,
}

/// The settings of one group. All times are microseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Heartbeats in a row that must stay without an answer before silence is believed (Fabric's name).
    pub detections: u32,
    /// For a fresh connection's greeting: the second signal.
    pub confirm_within_us: u64,
    /// For a replica to stop receiving and to say what it has.
    pub hear_within_us: u64,
    /// For every other step on a server.
    pub step_within_us: u64,
    /// For a candidate to apply what it received, before another one with as much is tried.
    pub drain_within_us: u64,
    /// A replica that catches up within so long is near enough for a switch-over to pause clients.
    pub catch_up_us: u64,
    /// For transactions in flight to end before a switch-over.
    pub pause_within_us: u64,
    /// Between two attempts while no server can safely be chosen.
    pub retry_us: u64,
    /// A primary is not replaced for the same cause as its predecessor sooner than so long after it
    /// took over (Fabric's name). Another cause is acted on.
    pub failover_interval_us: u64,
    /// Losses that are longer ago than this are forgotten when servers are compared.
    pub flap_window_us: u64,
    /// So many losses of one server for one cause within the window, and the others go before it.
    pub flaps_max: u32,
    /// While replicas still receive from a primary that the router cannot reach, it is not replaced
    /// for so long. `None`: never; 0: what replicas see does not count.
    pub veto_max_us: Option<u64>,
    /// A replica that received something so long after the first missed heartbeat shows a living primary.
    pub view_margin_us: u64,
    /// For so long a replica that lost its primary speaks against it without being asked again.
    pub view_lasts_us: u64,
    /// Writes that hang so long condemn a primary that still answers reads. `None`: never.
    pub write_silence_max_us: Option<u64>,
    /// A replica that was restarted has received again what it had lost after so long.
    pub settle_us: u64,
    pub acks: Acks,
    /// There is a hook (power, network, a supervisor) that can stop a server for sure.
    pub fence: bool,
    /// Every client comes through this router, so cutting it off is as good as a fence.
    pub cut_is_fence: bool,
    /// After so long without a safe candidate the best one is promoted and the loss is told loudly.
    pub lossy_promotion_after_us: Option<u64>,
    /// Reports of errors that make a server suspect: so many, by so many different reporters, within
    /// the interval (Fabric's names).
    pub notifications: u32,
    pub notification_clients: u32,
    pub notification_interval_us: u64,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            detections: 3,
            confirm_within_us: 100_000,
            hear_within_us: 300_000,
            step_within_us: 5_000_000,
            drain_within_us: 2_000_000,
            catch_up_us: 30_000,
            pause_within_us: 2_000_000,
            retry_us: 250_000,
            failover_interval_us: 0,
            flap_window_us: 60_000_000,
            flaps_max: 2,
            veto_max_us: Some(1_000_000),
            view_margin_us: 0,
            view_lasts_us: 1_000_000,
            write_silence_max_us: Some(5_000_000),
            settle_us: 2_000_000,
            acks: Acks::Servers { forever: true },
            fence: false,
            cut_is_fence: false,
            lossy_promotion_after_us: None,
            notifications: 300,
            notification_clients: 50,
            notification_interval_us: 60_000_000,
        }
    }
}

/// One server of the group, as the state store has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub id: ServerId,
    /// How people know it; stands in every text.
    pub name: Arc<str>,
    pub status: Status,
    /// Of two servers that hold as much, the heavier one goes first.
    pub weight: f64,
    /// It is in the router's own place: goes before a distant one of the same weight.
    pub near: bool,
    /// An operator marked it: never the primary, whatever happens.
    pub never: bool,
    /// Its software's release; a greater one is newer. Servers replicate from an older one, or from the same.
    pub release: u32,
}

impl Member {
    /// A replica that nothing is said of.
    pub fn new(id: ServerId, name: &str, status: Status) -> Member {
        Member {
            id,
            name: name.into(),
            status,
            weight: 1.0,
            near: false,
            never: false,
            release: 0,
        }
    }

    /// True for servers that take part: they replicate, or take the writes.
    pub(crate) fn counts(&self) -> bool {
        self.status != Status::Faulty
    }
}

/// What a server said of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Heard {
    /// What it has applied or written itself.
    pub executed: Position,
    /// What its relay log holds besides; empty on a server that follows nobody.
    pub received: Position,
    pub read_only: bool,
    /// Its applier runs, so that what it received will be applied.
    pub applies: bool,
    /// How long its process has been up; `None` when it does not say. A replica loses what it had
    /// received but not applied when it is restarted.
    pub up_us: Option<u64>,
    /// Its data cannot be changed at all (a read-only medium).
    pub frozen: bool,
}

impl Heard {
    /// Everything that it could serve after a drain.
    pub fn holds(&self) -> Position {
        let mut holds = self.executed.clone();
        holds.join(&self.received);
        holds
    }

    /// Nothing that it received waits to be applied.
    pub(crate) fn drained(&self) -> bool {
        self.executed.covers(&self.received)
    }
}
