//! The statement that runs, or ran last: what rules want of it, what is kept of its reply, what became
//! of it.
//!
//! Must not know: connections and transactions; they outlive a statement.

pub mod clock;

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Instant;

use backend::{Connection, SessionState};
use sqltext::Digest;
use statistics::{Kind, TraceContext};

use crate::execution::choice::Chosen;
use crate::execution::exec::{Job, Shape};
use crate::execution::point::Point;
use crate::execution::profile::commands::OwnCommand;
use crate::execution::profile::server_counters::Before;
use crate::execution::profile::{Detail, Profile};
use crate::execution::ruled::Ruled;
use crate::per_core::handle::{Asked, Handle};
use crate::session::context::StatementContext;

/// So many profiles are there for `HEDDLE PROFILE FOR n`, the last statement's among them.
pub const PROFILES_MAX: usize = 100;

/// What is known of the statement under way.
#[derive(Default)]
pub struct StatementRun {
    /// Its number in this session; names the statement whose diagnostics a connection still has.
    pub number: u64,
    /// Its reply, where it may be kept in the cache.
    pub recording: Option<Vec<u8>>,
    /// The row that it is of, where the row cache may vouch for it.
    pub point: Option<Box<Point>>,
    /// What rules want of it.
    pub ruled: Option<Box<Ruled>>,
    /// The shard that the client has chosen, for this and the next ones.
    pub chosen: Option<Box<Chosen>>,
    /// What became of the last one.
    pub profile: Profile,
    /// The profiles before it, the newest behind, from the first question for one on.
    pub profiles: Option<Box<PastProfiles>>,
    /// What it is counted as.
    pub measured: Option<Measured>,
    /// How much the session wants to know of each.
    pub detail: Detail,
    /// What its server had counted before, until that is compared.
    pub before: Option<Box<Before>>,
    /// Whether a command that came behind it goes to the same group; without it none is sent before its turn.
    pub stays: Option<Stays>,
}

/// What became of statements and what they were, the newest behind.
#[derive(Default)]
pub struct PastProfiles(pub VecDeque<(Profile, Asked)>);

/// Says of a command where it would go: to the current group, without a question.
pub type Stays = fn(&StatementContext<'_>, &Handle, &StatementRun, &Shape, Job) -> bool;

/// What is known of a statement that is counted, from its beginning.
pub struct Measured {
    pub began: Instant,
    /// Which span it is, where it is traced.
    pub trace: Option<Box<TraceContext>>,
    /// What Heddle itself sent to servers for it, where it is traced.
    pub commands: Vec<OwnCommand>,
    pub job: Job,
    pub kind: Kind,
    /// The shape's own number; see [`sqltext::Scan::shape`].
    pub hash: u128,
    /// `None` for a text that is too long.
    pub digest: Option<Digest>,
    /// In which it began: it may choose another database.
    pub state: Rc<SessionState>,
}

impl Measured {
    /// It is prepared, and not executed: that is traced, and not counted.
    pub(crate) fn prepares(&self) -> bool {
        matches!(self.job, Job::Prepare(_))
    }
}

impl StatementRun {
    /// Spans are wanted of what it does.
    #[inline]
    pub fn is_traced(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.trace.is_some())
    }

    /// Heddle itself has sent these commands for it.
    pub fn note_commands(&mut self, commands: impl IntoIterator<Item = OwnCommand>) {
        if let Some(measured) = self.measured.as_mut().filter(|it| it.trace.is_some()) {
            measured.commands.extend(commands);
        }
    }

    /// The next statement begins, whether it will go to a server or not; `asked` is still about the one before.
    #[inline]
    pub fn next(&mut self, asked: &Asked) {
        self.before = None;
        if std::mem::take(&mut self.profile.begun)
            && let Some(PastProfiles(profiles)) = self.profiles.as_deref_mut()
        {
            if profiles.len() >= PROFILES_MAX {
                profiles.pop_front();
            }
            profiles.push_back((self.profile.clone(), asked.clone()));
        }
    }

    /// The session wants to know so much from the next statement on.
    pub fn profile_by(&mut self, detail: Detail) {
        self.detail = detail;
        match detail {
            Detail::Off => self.profile.time_no_steps(),
            Detail::Steps | Detail::Server => {
                self.profile.time_steps();
                self.profiles.get_or_insert_default();
            }
        }
    }

    /// It goes to a server.
    pub(crate) fn begin_profile(&mut self) {
        let measured = self.measured.as_ref();
        self.profile.begin(measured.map(|measured| measured.began));
        if self.is_traced() {
            self.profile.trace();
        }
    }

    /// The client has a say in where this statement goes.
    pub fn has_chosen(&self, shape: &Shape) -> bool {
        shape.shard_hint || self.chosen.is_some()
    }

    /// The choice for the next statements; an empty one is none.
    pub fn choose(&mut self, chosen: Chosen) {
        self.chosen = (!chosen.is_empty()).then(|| Box::new(chosen));
    }

    /// The same for a shard. A client that selects one before each statement names the same table again and
    /// again: what the choice before it took of memory is used once more.
    pub fn choose_shard(&mut self, table: &str, key: &str) {
        let chosen = self.chosen.get_or_insert_default();
        chosen.global_table.clear();
        chosen.unread = false;
        table.clone_into(&mut chosen.shard_table);
        key.clone_into(chosen.shard_key.get_or_insert_default());
    }
}

/// True when the connection's last statement was this session's last statement.
pub(crate) fn still_knows(handle: &Handle, run: &StatementRun, connection: &Connection) -> bool {
    let owner = connection.owner;
    owner.session == handle.id && owner.statement == run.number
}
