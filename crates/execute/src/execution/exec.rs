//! A command under way: what the tokenizer said of it, what is to be sent, how an attempt ended.
//!
//! Must not know: the client, and what is done with a command ([`crate::execution::servers`]).

pub(crate) mod spare_replies;
pub mod text_shape;

use std::collections::VecDeque;
use std::time::Instant;

use backend::{Global, TOO_MANY_STATEMENTS, Target};
use mysql_wire::relay::{Expect, Outcome};
use recorder::Retry;
use routing::{Level, Plan};
use sqltext::{Class, Facts, MsHint, Verb};

use crate::client::refuse::ServerRefusal;
use crate::connections::hold::Hold;
use crate::connections::pin::Pins;
use crate::consistency::read_terms::Transient;
use crate::transaction::outcome::LostOn;
use crate::transaction::resume::{Resume, Sent};
use crate::variables::changes::Changes;

/// What the tokenizer said of a text, or what stands for it where there is none.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub class: Class,
    pub verb: Verb,
    pub facts: Facts,
    pub hint: Option<MsHint>,
    /// The shape's own number in this process; 0 for what is no text. See [`sqltext::Scan::shape`].
    pub hash: u128,
    /// What else tells texts of the same shape apart; see [`sqltext::Scan::folds`].
    pub folds: u64,
    /// The number of the scan that read the text; its literals are there until the next one.
    pub scan: u64,
    /// It changes rows, and may be marked for the log.
    pub tagged: bool,
    /// The text may read or assign what the client has its server report.
    pub tracking: bool,
    /// The text may change data; the session's reads must have that from then on.
    pub writes: bool,
    /// The level that a hint asks for.
    pub level: Option<Level>,
    /// A hint allows an answer from the cache that is so old; 0 is none.
    pub cache_ttl_s: u32,
    /// A hint cannot be followed.
    pub bad_hint: bool,
    /// A hint names a shard.
    pub shard_hint: bool,
}

impl Shape {
    /// A command that is no text: it goes to the primary and changes nothing.
    pub fn command() -> Shape {
        Shape {
            class: Class::Show,
            verb: Verb::Other,
            facts: Facts::empty(),
            hint: None,
            hash: 0,
            folds: 0,
            scan: 0,
            tagged: false,
            tracking: false,
            writes: false,
            level: None,
            cache_ttl_s: 0,
            bad_hint: false,
            shard_hint: false,
        }
    }

    /// A query that nobody can be sure of may still go to a replica, or to all servers, when its author says so:
    /// what it might write is refused there, and what ties it to its connection keeps it away.
    pub fn heed_hint(&mut self) {
        let all = self.hint == Some(MsHint::All);
        let asked = all || matches!(self.hint, Some(MsHint::Slave | MsHint::Eventual));
        let query = matches!(
            self.verb,
            Verb::Select | Verb::Values | Verb::Table | Verb::Show | Verb::Describe | Verb::Explain
        );
        let mut harmless = Facts::SYSTEM_VARIABLE | Facts::SERVER_SCHEMA | Facts::CONNECTION_ID;
        // A global variable is the server's own, and here each server tells it.
        harmless.set(Facts::GLOBAL_SETTING, all);
        if asked && query && self.facts.difference(harmless).is_empty() {
            (self.class, self.writes) = (Class::Read, false);
        }
    }

    /// The reply may have more than one result.
    pub(crate) fn has_several_results(&self) -> bool {
        self.class == Class::Call || self.facts.intersects(Facts::MULTIPLE | Facts::COMPOUND)
    }

    /// Asks for what only the connection of the statement before knows.
    pub(crate) fn asks_back(&self) -> bool {
        self.facts.intersects(Facts::FOUND_ROWS | Facts::ROW_COUNT | Facts::WARNINGS)
            && !self.facts.contains(Facts::MULTIPLE)
    }
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Job {
    /// The client's command as it is.
    Frame(Expect),
    /// COM_STMT_PREPARE for the client's statement of this id.
    Prepare(u32),
    /// COM_STMT_EXECUTE of the client's statement of this id.
    Execute(u32),
}

/// A command under way.
pub struct Run {
    pub shape: Shape,
    pub job: Job,
    /// The session kept no connection when it began.
    pub alone: bool,
    /// What ties the session to the connection.
    pub pins: Pins,
    /// The client has the beginning of its reply from an attempt before.
    pub resume: Option<Resume>,
    /// When it came; `None` for a read outside transactions.
    pub(crate) began: Option<Instant>,
    /// The connection that it was lost with last.
    pub(crate) lost_on: Option<Box<LostOn>>,
    /// How long it has waited for a primary.
    pub hold: Option<Box<Hold>>,
    /// The commands behind it that were sent with it and are not answered yet.
    pub(crate) pipeline: Pipeline,
    /// What global variables were that it may set.
    pub globals: Vec<Global>,
    /// The server had no room for a statement, or did not know it, once already.
    pub again: bool,
    /// Errors that pass by themselves: the statement may be repeated so often.
    pub transient: Transient,
    /// It has not run; see [`Ran::Recalls`].
    pub(crate) recalls: bool,
}

/// What became of a command that was to run on the current group.
#[must_use]
pub enum Ran {
    /// Its client has its answer.
    Answered,
    /// It has not run: it asks for what the connection of the statement before knew, which is gone.
    Recalls(Shape),
}

/// The commands that were sent behind the current one, in order.
#[derive(Default)]
pub(crate) struct Pipeline {
    pub commands: VecDeque<PipelinedCommand>,
    /// Length of their frames.
    pub bytes: usize,
}

/// One command that waits for its reply.
pub(crate) struct PipelinedCommand {
    pub shape: Shape,
    pub job: Job,
}

/// Where a command was tried.
pub struct Tried {
    pub plan: Plan,
    pub target: Target,
    /// A read that may still go elsewhere.
    pub free: bool,
}

/// What a READ ONLY session or a read-only server says to a write: nothing has been done.
/// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE.
const WRITE_REFUSED: [u16; 3] = [1792, 1290, 1836];

/// What an EXECUTE hears whose statement is to be prepared anew: ER_UNKNOWN_STMT_HANDLER,
/// ER_NEED_REPREPARE.
const STATEMENT_GONE: [u16; 2] = [1243, 1615];

impl Run {
    /// How the attempt ended when this error says nothing about the command itself: it is to run
    /// elsewhere, or again after the statement was prepared anew or others were closed for it.
    pub fn refusal(&self, outcome: &Outcome, read_only: bool) -> Option<Answer> {
        let number = outcome.error?;
        let first = !self.again && self.pipeline.commands.is_empty();
        match self.job {
            Job::Prepare(_) if first && number == TOO_MANY_STATEMENTS => Some(Answer::Again),
            Job::Execute(_) if first && STATEMENT_GONE.contains(&number) => Some(Answer::Again),
            _ if first && self.transient.allows(number) => Some(Answer::Transient),
            _ => {
                let guarded = read_only && self.shape.class == Class::Read;
                let refused = guarded && WRITE_REFUSED.contains(&number);
                refused.then_some(Answer::WritesOnReplica)
            }
        }
    }
}

/// A complete reply. Boxed in the answer, which every step of a statement would make room for.
#[derive(Default)]
pub struct Done {
    pub outcome: Outcome,
    pub changes: Changes,
}

impl Done {
    /// Says nothing any more.
    fn empty(&mut self) {
        self.outcome = Outcome::default();
        self.changes.empty();
    }
}

/// How an attempt ended.
pub enum Answer {
    /// The client has the whole reply.
    Done(Box<Done>),
    /// A replica refused to write; the client has seen nothing.
    WritesOnReplica,
    /// The server refused for a reason that passes; the client has seen nothing.
    Transient,
    /// Nothing was done, and the statement must be prepared anew; the client has seen nothing.
    Again,
    /// A transaction that was done again has taken the AUTO_INCREMENT value that the server gave this statement;
    /// nothing was done, and the client has seen nothing.
    Collided,
    /// The primary takes no writes any more; nothing was done, and the client has seen nothing.
    ReadOnly(ServerRefusal),
    /// The reply does not begin as the one of which the client has the beginning.
    Differs,
    /// The server's connection broke.
    Lost(Loss),
    /// Re-preparing was refused: this is the answer to the client's EXECUTE.
    Refused(ServerRefusal),
}

impl Answer {
    /// The connection broke before the reply began.
    pub const LOST: Answer = Answer::Lost(Loss {
        unsent: false,
        forwarded: false,
        file: false,
        sequence: Some(1),
        sent: None,
    });

    /// For the flight recorder: why the command is to run again, where a server says so.
    pub(crate) fn retry(&self) -> Option<Retry> {
        match self {
            Answer::WritesOnReplica => Some(Retry::WritesOnReplica),
            Answer::Transient | Answer::Collided => Some(Retry::Transient),
            Answer::Again => Some(Retry::PrepareAnew),
            Answer::ReadOnly(_) => Some(Retry::ReadOnly),
            Answer::Done(_) | Answer::Differs | Answer::Lost(_) | Answer::Refused(_) => None,
        }
    }

    /// For traces: why the attempt was not the last one.
    pub fn name(&self) -> &'static str {
        match self {
            Answer::Done(_) => "answered",
            Answer::WritesOnReplica => "writes_on_replica",
            Answer::Transient => "transient_error",
            Answer::Collided => "insert_id_taken",
            Answer::Again => "prepare_anew",
            Answer::ReadOnly(_) => "primary_is_read_only",
            Answer::Differs => "result_differs",
            Answer::Lost(_) => "connection_lost",
            Answer::Refused(_) => "prepare_refused",
        }
    }

    /// It broke before the server could have the whole command.
    pub(crate) const UNSENT: Answer = Answer::Lost(Loss {
        unsent: true,
        forwarded: false,
        file: false,
        sequence: Some(1),
        sent: None,
    });
}

/// What the client had seen when its server's connection broke.
#[derive(Clone, Copy, Debug)]
pub struct Loss {
    /// The server cannot have run it.
    pub unsent: bool,
    /// A part of the reply.
    pub forwarded: bool,
    /// That part was the request for a file; the client has sent it, and will not send it again.
    pub file: bool,
    /// The number of the next packet; None in the middle of one.
    pub sequence: Option<u8>,
    /// What that part is, where the reply may be gone on with.
    pub sent: Option<Sent>,
}

impl Loss {
    /// In the middle of a reply of which the client has this.
    pub fn within(sequence: Option<u8>, sent: Option<Sent>) -> Loss {
        Loss {
            unsent: false,
            forwarded: true,
            file: false,
            sequence,
            sent,
        }
    }
}
