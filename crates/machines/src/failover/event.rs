//! What the machine is told and what it wants done.
//!
//! Questions ([`Ask`]) are answered by [`Event::Done`] with their number, exactly once each and
//! within their time; a step whose time is over must not take effect afterwards (its connection is
//! closed). Everything else is carried out at once, in the order given.

use farm::{Position, ServerId};

use super::policy::{Heard, Member};

/// The number of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AskId(pub u64);

/// One life of one router: a router that is started anew is another one, also in the same slot (the
/// store revision at which it registered tells them apart).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouterId(pub u64);

impl RouterId {
    /// The router whose machine this is.
    pub const OWN: RouterId = RouterId(0);
}

/// How a server failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Nothing listens at its address.
    Refused,
    /// An open connection broke.
    Reset,
    /// No answer within the time.
    Silent,
    /// It answered reads, but a write did not end.
    WriteSilent,
    /// It answers, but the step did not end within its time.
    Late,
    /// It answered with an error: it lives, and the step was not done.
    Said,
}

/// A question that came to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    pub fault: Fault,
    /// For people.
    pub text: String,
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The group's servers, whenever one of them changed and once at the start. The primary is
    /// taken from here only while no change of primary is under way.
    Members(Vec<Member>),
    /// Covers every commit that a client of this router was told of so far. Of [`RouterId::OWN`]: said
    /// whenever it grew, and always before the answer to [`Ask::Cut`]; alone, a router that does not
    /// know (it has just started, or others acknowledge too) does not say it. Of a peer: what it
    /// stored after it had cut the primary off because of the record with the number `cut`, over all
    /// servers of the group; a position of nothing when no client of it was told anything.
    Acknowledged {
        router: RouterId,
        position: Position,
        cut: u64,
    },
    /// Whether this router leads, under which fencing number, and who else is there. Said by a router
    /// of several, at once when anything of it changes; every router that came must be in one of them.
    /// With a new number `leads` begins a leadership: nothing is done before [`Event::Resume`] has
    /// followed. Where it ends, every question is void: what is under way for one is given up.
    Leadership {
        leads: bool,
        number: u64,
        /// The other routers whose lease holds.
        peers: Vec<RouterId>,
        /// Routers whose lease is over though nobody knows that their process is gone: they may
        /// still serve, so nobody knows what their clients are told. Neither resigned ones, nor
        /// those whose door refused a connection since.
        expired_routers: Vec<RouterId>,
    },
    /// Which primary a peer holds for lost.
    Vote {
        router: RouterId,
        lost: Option<ServerId>,
    },
    /// What the primary had executed when it was asked, after this moment of the router's clock. Wanted
    /// while [`Failover::wants_executed`](super::Failover::wants_executed) says so.
    Executed {
        server: ServerId,
        position: Position,
        asked_us: u64,
    },
    /// This replica receives nothing from the primary of now: its connection is broken, or it was
    /// silent for longer than a living primary is. Asked of the replicas while there is doubt about
    /// the primary, by this router or a peer's vote.
    Disconnected { replica: ServerId },
    /// A server answered a read.
    Heartbeat { server: ServerId, read_only: bool },
    /// The primary took a write.
    Wrote { server: ServerId },
    /// A server failed: a heartbeat, a watched connection, or a session's statement.
    Failed { server: ServerId, fault: Fault },
    /// The moment at which a replica last received something from the primary of now, heartbeats
    /// included. Said for each replica now and then, and often while the primary does not answer.
    View { replica: ServerId, heard_us: u64 },
    /// Somebody outside says that a server fails. A `sure` report counts by itself, the others by
    /// their number.
    Reported {
        server: ServerId,
        by: String,
        sure: bool,
    },
    /// An operator's wish; it is answered by [`Action::Reply`] with its number.
    Order { order: u64, what: Order },
    /// The answer to a question.
    Done {
        ask: AskId,
        answer: Result<Answer, Failed>,
    },
    /// What the state store had recorded when this router started, or when its leadership began.
    /// After the `Members` of the same reading.
    Resume(Option<Record>),
    /// The router itself stood still for so long: what looked like silence was its own.
    Stalled { us: u64 },
    /// The moment of a [`Action::Wake`] has come.
    Tick,
}

/// What operators may want.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Switch over to this server, or to the best one.
    Promote { to: Option<ServerId> },
    /// Leave the group without a primary: its statements wait.
    Demote,
    /// Watch the group and fail over.
    Activate,
    /// Only serve it.
    Deactivate,
}

/// What a question brought.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Done,
    Heard(Heard),
}

/// A question, or a step that takes time. All steps are idempotent.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// Does it greet a fresh connection?
    Confirm { server: ServerId },
    /// Publish the server as not alive under its next term, and answer when every core has taken
    /// note: from then on no session of this router acknowledges anything from it, and what needs it
    /// waits. The peers do the same when they see the record, and say so by [`Event::Acknowledged`].
    Cut { server: ServerId },
    /// Whatever keeps it from taking another write: the hook, read-only, its connections killed.
    /// `Done` says it surely takes none.
    Fence { server: ServerId },
    /// Stop receiving (its applier goes on) and say what it has: `Heard`. One that follows nobody
    /// only says it.
    Halt { server: ServerId },
    /// Say what it has, changing nothing: `Heard`.
    Look { server: ServerId },
    /// Wait until this is applied; a stopped receiver is left stopped. It is a failure when it never
    /// comes, because what was received was thrown away.
    Reach {
        server: ServerId,
        position: Position,
    },
    /// Follow nobody and wait for acknowledgements from now on, still read-only. It must be drained.
    Lead { server: ServerId },
    /// Take writes.
    Open { server: ServerId },
    /// Of a replica that has applied all that it received: replicate from nobody, and be pointed at this primary.
    /// [`Ask::Follow`] does the rest, and all of it where this was not done; so nobody waits for the answer.
    Point { server: ServerId, primary: ServerId },
    /// Replicate from this primary, read-only.
    Follow { server: ServerId, primary: ServerId },
    /// Hold new statements that need the primary, and answer when none is in flight there.
    Pause { server: ServerId },
    /// Be read-only, also for accounts with SUPER, and say what it has: `Heard`.
    Close { server: ServerId },
    /// Store it; the step follows the answer. One with a smaller number than what is stored came too
    /// late and is not stored.
    Record(Record),
}

impl Ask {
    /// The server that is asked; `None` for the router's own steps.
    pub fn server(&self) -> Option<ServerId> {
        match *self {
            Ask::Confirm { server }
            | Ask::Cut { server }
            | Ask::Fence { server }
            | Ask::Halt { server }
            | Ask::Look { server }
            | Ask::Reach { server, .. }
            | Ask::Lead { server }
            | Ask::Open { server }
            | Ask::Point { server, .. }
            | Ask::Follow { server, .. }
            | Ask::Pause { server }
            | Ask::Close { server } => Some(server),
            Ask::Record(_) => None,
        }
    }
}

/// What a restarted router must know of a change of primary.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Grows with every change.
    pub number: u64,
    /// What the primary of now had when it took over; whoever follows it must have that too.
    pub fork: Option<Position>,
    /// Servers that were not heard when another one took over: faulty in the store from the record
    /// [`Step::Over`] on, until they were brought back.
    pub lost: Vec<ServerId>,
    /// Replicas that could not be pointed at the primary: nobody knows whether what they hold is of
    /// its history, until one of them receives from it.
    pub unproved: Vec<ServerId>,
    /// Replicas that were restarted while the primary was lost, or just before: what they hold does
    /// not prove that nothing else was acknowledged. Only with [`Step::Clearing`].
    pub forgetful: Vec<ServerId>,
    pub step: Step,
}

/// The step that may have been begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This primary is being fenced and its replicas stopped; nobody else was opened.
    Clearing { old: Option<ServerId> },
    /// This server may have taken writes already; `fork` of the record is what it began with.
    Turning {
        old: Option<ServerId>,
        winner: ServerId,
    },
    /// An operator's switch-over: this primary may be paused and read-only.
    Switching { from: ServerId },
    /// The change is over. The servers' new standing is stored in the same transaction.
    Over { primary: Option<ServerId> },
}

/// What to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask, and answer with [`Event::Done`].
    Ask {
        ask: AskId,
        what: Ask,
        within_us: u64,
    },
    /// Let the world know the primary: what waited goes on. `fork` is there when another primary was
    /// lost: a new timeline begins with it. Without a primary statements go on waiting.
    Publish {
        primary: Option<ServerId>,
        fork: Option<Position>,
    },
    /// Bring this server back into the group as a replica of the primary, when it answers: what it
    /// holds beyond the primary must be found, saved and cut first. A faulty one must be a replica
    /// again in the store, and in [`Event::Members`], before it follows: from then on it acknowledges.
    /// Said again when the primary changes meanwhile.
    Rejoin { server: ServerId },
    /// For the log, the events and the hooks.
    Tell {
        kind: Kind,
        server: Option<ServerId>,
        text: String,
    },
    /// What the other routers are to know of this one's opinion. Only among several.
    Vote { lost: Option<ServerId> },
    /// The outcome of an order.
    Reply {
        order: u64,
        result: Result<String, String>,
    },
    /// Send [`Event::Tick`] at this moment. A later wish replaces an earlier one.
    Wake { at_us: u64 },
}

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The primary failed once; it is asked again.
    Suspected,
    /// It answers after all.
    Cleared,
    /// The primary is lost.
    Lost,
    /// The primary cannot be reached from here, but replicas receive from it.
    Unreachable,
    /// No server can take over safely; the group waits.
    Waiting,
    /// Acknowledged commits may be lost, by the operator's setting.
    Lossy,
    /// A server took over.
    Promoted,
    /// The old primary takes the writes again.
    Restored,
    /// A primary was demoted on order.
    Demoted,
    /// A step failed and another way is tried.
    StepFailed,
    /// A replica could not be pointed at the new primary.
    ReplicaLost,
}

impl Kind {
    /// The name in `group events` and of hooks.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Suspected => "primary_suspected",
            Kind::Cleared => "primary_cleared",
            Kind::Lost => "primary_lost",
            Kind::Unreachable => "primary_unreachable",
            Kind::Waiting => "failover_waits",
            Kind::Lossy => "failover_lossy",
            Kind::Promoted => "server_promoted",
            Kind::Restored => "primary_restored",
            Kind::Demoted => "server_demoted",
            Kind::StepFailed => "failover_step_failed",
            Kind::ReplicaLost => "replica_lost",
        }
    }
}
