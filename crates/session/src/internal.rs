//! A session without a client: statements of Heddle's own engines, served like a client's. A request goes down
//! to it, its reply goes into a buffer, and the answer comes up. Statements are routed by level, placed on shards, held while a primary is exchanged, and writes whose answer was
//! lost are looked for.
//!
//! An internal session that has told of a loss is done: drop it and open another.

mod explain;

use std::rc::Rc;
use std::sync::Arc;

use backend::Profile;
use dist_txn::end;
use execute::client::Client;
use execute::client::end::End;
use execute::client::heard::Heard;
use execute::client::refuse::ServerRefusal;
use execute::client::request::Request;
use execute::client::transcript::Transcript;
use execute::connections::home::{HOME, group_of};
use execute::consistency::promises::keeping;
use execute::door_clients::NOWHERE;
use execute::own_account::Own;
use execute::per_core::Core;
use execute::session::Session;
use execute::session::hold_note::note_hold;
use execute::session::user::Identity;
use farm::token::Promise;
use farm::{Group, Position, ServerId, Snapshot, Token};
use memory::Budget;
use mysql_wire::capability::Capabilities;
use mysql_wire::result::{ColumnKind, Value, ValueKind};
use routing::LastRead;
use rowcache::Feed;

use crate::authentication::vouch::Admitted;
use crate::serve::{ABOVE, answering};

/// What answers to an internal session look like.
const INTERNAL: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::LONG_PASSWORD)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::DEPRECATE_EOF);

/// A parameter of a prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Param<'p> {
    Signed(i64),
    Unsigned(u64),
    /// UTF-8.
    Text(&'p [u8]),
    Bytes(&'p [u8]),
}

impl Param<'_> {
    fn bound(&self) -> (ValueKind, Value<'_>) {
        let (column, value) = match *self {
            Param::Signed(number) => (ColumnKind::LongLong, Value::Int(number)),
            Param::Unsigned(number) => (ColumnKind::LongLong, Value::UInt(number)),
            Param::Text(text) => (ColumnKind::VarString, Value::Bytes(text)),
            Param::Bytes(bytes) => (ColumnKind::Blob, Value::Bytes(bytes)),
        };
        let unsigned = matches!(self, Param::Unsigned(_));
        (ValueKind { column, unsigned }, value)
    }
}

/// The internal session has come to its end: what it ran may or may not have happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost(pub String);

/// A session of the core, used by one task.
pub struct Internal {
    session: Box<Session>,
}

impl Internal {
    /// A session by Heddle's own account, in no database.
    pub fn open(core: &Rc<Core>, own: &Own) -> Internal {
        Internal::of(core, own.profile(), core.shared.live.memory())
    }

    fn of(core: &Rc<Core>, profile: Profile, memory: &Arc<Budget>) -> Internal {
        core.heed_settings();
        let client = Client::nobody(INTERNAL, memory);
        let identity = Identity {
            pass: core.pools.pass(profile),
            database: None,
            process: None,
            program: None,
            admin: false,
            account_place: None,
        };
        let id = core.shared.registry.next_id();
        let session = Session::new(core.clone(), client, identity, NOWHERE, id, ABOVE);
        session.handle.internal_runs.set(Some(false));
        Internal {
            session: Box::new(session),
        }
    }

    /// False when somebody has ended its session.
    pub fn is_good(&self) -> bool {
        !self.session.handle.killed.get()
    }

    /// Runs a statement and gives its answer; one of 64 MB and more is refused.
    ///
    /// Dropped while it waits, what it ran may or may not have happened, and the internal session is done.
    ///
    /// # Errors
    /// The session ended.
    pub async fn ask(&mut self, text: &[u8]) -> Result<Heard, Lost> {
        let answer = self.run(Request::query(text)).await?;
        Ok(answer.heard(INTERNAL))
    }

    /// Prepares a statement: its number on this internal session.
    ///
    /// # Errors
    /// The session ended.
    pub async fn prepare(&mut self, text: &[u8]) -> Result<Result<u32, ServerRefusal>, Lost> {
        let before = self.session.prepared.last_id;
        let answer = self.run(Request::prepare(text)).await?;
        let prepared = &self.session.prepared;
        let id = prepared.last_id;
        if id != before && prepared.statements.contains_key(&id) {
            return Ok(Ok(id));
        }
        match answer.heard(INTERNAL) {
            Heard::Refused(refusal) => Ok(Err(refusal)),
            _ => Err(Lost("a PREPARE was answered oddly".to_owned())),
        }
    }

    /// Runs a prepared statement and gives its answer, whose values are as [`Internal::ask`] has them, but
    /// for types that have several texts: floating-point numbers and columns with ZEROFILL.
    ///
    /// # Errors
    /// The session ended, or a parameter does not fit its kind.
    pub async fn execute(&mut self, id: u32, params: &[Param<'_>]) -> Result<Heard, Lost> {
        let params: Vec<_> = params.iter().map(Param::bound).collect();
        let request = Request::execute(id, &params).map_err(|why| Lost(why.to_string()))?;
        let answer = self.run(request).await?;
        Ok(answer.executed(INTERNAL))
    }

    /// Forgets a prepared statement.
    ///
    /// # Errors
    /// The session ended.
    pub async fn close(&mut self, id: u32) -> Result<(), Lost> {
        self.run(Request::close(id)).await.map(drop)
    }

    /// Runs a request and gives its answer.
    async fn run(&mut self, request: Request) -> Result<Transcript, Lost> {
        let session = &mut *self.session;
        if session.handle.killed.get() {
            return Err(Lost("its session was ended".to_owned()));
        }
        session.handle.idle.active_s.set(session.core.now_s.get());
        session.handle.internal_runs.set(Some(true));
        let idle = session.client.begin_heard(request);
        let mut done = answering(session).await;
        if done.is_ok() && session.transaction.dist_txn.is_some() {
            Box::pin(end::after_command(session)).await;
        }
        note_hold(
            &session.core,
            &session.handle,
            &session.variables,
            &session.connections,
            &session.transaction,
        );
        session.handle.internal_runs.set(Some(false));
        let heard = session.client.end_heard(idle);
        if session.handle.killed.get() && heard.is_empty() && done.is_ok() {
            done = Err(End::Killed);
        }
        match done {
            Ok(()) => Ok(heard),
            Err(end) => Err(Lost(end.name().to_owned())),
        }
    }
}

impl Admitted {
    /// A session by the account of who was admitted.
    pub fn internal(&self, core: &Rc<Core>) -> Internal {
        Internal::of(core, self.profile.clone(), self.memory())
    }
}

/// What an internal session has written to one group.
#[derive(Clone, Debug)]
pub struct Written {
    /// The number of the seat that it has there.
    seat: u32,
    position: Option<Position>,
    /// It may have written more than the position says.
    more: bool,
}

impl Internal {
    /// What it has written so far, for [`Internal::must_see`] of others.
    pub fn written(&self) -> Vec<Written> {
        let session = &self.session;
        let here = (session.connections.current.group, &session.connections.current.seen);
        let others = session.connections.others.iter().map(|seat| (seat.group, &seat.seen));
        let all = std::iter::once(here).chain(others);
        let written = all.map(|(seat, seen)| Written {
            seat,
            position: seen.required.as_deref().cloned(),
            more: seen.unproved || seen.unlogged,
        });
        written.filter(|one| one.position.is_some() || one.more).collect()
    }

    /// Its reads at the level of a session have what others wrote from now on.
    pub fn must_see(&mut self, written: &[Written]) {
        let session = &mut *self.session;
        let snapshot = session.core.snapshot();
        for one in written {
            let here = session.connections.group(&snapshot).cloned();
            if one.seat != session.connections.current.group {
                match group_of(&snapshot, one.seat) {
                    Some(group) => session.connections.switch_to(group, &session.core),
                    None => continue,
                }
            }
            if let Some(position) = &one.position {
                keeping::require(&session.core, &mut session.connections, position);
            }
            session.connections.current.seen.unproved |= one.more;
            if let Some(here) = here {
                session.connections.switch_to(&here, &session.core);
            }
        }
    }
    /// The server that the last read of its present group was answered by, where it is known.
    pub fn served_by(&self) -> Option<ServerId> {
        let session = &self.session;
        match session.promises.counts {
            true => session.connections.current.seen.last_read.map(|read| read.server),
            false => {
                let snapshot = session.core.snapshot();
                let group = session.connections.group(&snapshot)?;
                Some(group.primary()?.id)
            }
        }
    }

    /// Its reads have what the group's primary has now, as if it had read there.
    pub fn has_read_primary(&mut self, group: &Group) {
        let session = &mut *self.session;
        let snapshot = session.core.snapshot();
        let here = session.connections.group(&snapshot).cloned();
        session.connections.switch_to(group, &session.core);
        if let Some(primary) = group.primary() {
            session.connections.current.seen.last_read = Some(LastRead {
                server: primary.id,
                ended_us: session.core.now_us(),
            });
        }
        if let Some(here) = here {
            session.connections.switch_to(&here, &session.core);
        }
    }
}

/// Adds what an internal session has written by now to what was known: of what another internal session wrote to the same group
/// nothing is forgotten.
pub fn join_written(all: &mut Vec<Written>, now: Vec<Written>) {
    for one in now {
        match all.iter_mut().find(|there| there.seat == one.seat) {
            Some(there) => {
                match (&mut there.position, one.position) {
                    (Some(known), Some(position)) => known.join(&position),
                    (known @ None, position) => *known = position,
                    (Some(_), None) => {}
                }
                there.more = one.more;
            }
            None => all.push(one),
        }
    }
}

/// Adds what was written elsewhere to what is to be seen: of neither anything is forgotten.
pub fn merge_written(all: &mut Vec<Written>, others: &[Written]) {
    for one in others {
        match all.iter_mut().find(|there| there.seat == one.seat) {
            Some(there) => {
                match (&mut there.position, &one.position) {
                    (Some(known), Some(position)) => known.join(position),
                    (known @ None, position) => known.clone_from(position),
                    (Some(_), None) => {}
                }
                there.more |= one.more;
            }
            None => all.push(one.clone()),
        }
    }
}

/// A token with which reads elsewhere have all of this; `None` while nobody can say what was written.
pub fn token_of(written: &[Written], snapshot: &Snapshot) -> Option<String> {
    let mut groups = Vec::new();
    for one in written {
        if one.more {
            return None;
        }
        let Some(position) = &one.position else {
            continue;
        };
        let group = group_of(snapshot, one.seat)?;
        groups.push(Promise {
            group: group.name.to_string(),
            timeline: group.timeline(),
            position: position.clone(),
        });
    }
    let farm = snapshot.farm_id.to_string();
    Some(Token { farm, groups }.to_string())
}

impl Written {
    /// True when all of it that is in this group has been read in the group's binlog.
    pub fn is_read(&self, group: &Group, feed: &Feed) -> bool {
        let here = self.seat == group.number || self.seat == HOME;
        let read = |position: &Position| feed.covers(position);
        !here || (!self.more && self.position.as_ref().is_none_or(read))
    }
}
