//! What a reply said about the session's state: what servers report of variables, the database and what
//! was written, gathered while the reply is relayed. What becomes of it is decided when the reply is over.

use backend::{Connection, Residue, SessionState, TRACKING, Tracked};
use farm::{Engine, Position};
use mysql_wire::reply::SessionChange;

use crate::connections::pin::Pins;

/// Room for GTIDs that is kept for the next reply.
const ROOM_BYTES_MAX: usize = 256;

/// What a reply said about the session's state.
#[derive(Default)]
pub struct Changes {
    pub state: Option<SessionState>,
    /// A variable changed that cannot be moved.
    pub pins: bool,
    /// A user variable was named that cannot be moved.
    pub(crate) pins_user_variables: bool,
    /// Pins that have nothing to hold any more.
    pub ended: Pins,
    /// The variables that the reply named, in lower case.
    pub told: Vec<String>,
    /// What the server reports was changed by a text that did not look like it.
    pub tracking: bool,
    /// The GTIDs of what was written, in the engine's notation.
    pub gtid: Option<Vec<u8>>,
    /// The same as a position, once somebody has asked for it and it could be read.
    read: Option<Position>,
    /// Where the next GTIDs go: what a reply before has left of its room.
    room: Vec<u8>,
    /// So many bytes of them are of what the client may hear of.
    pub held: usize,
    /// Something was set for the next transaction only.
    pub(crate) one_shot: bool,
    /// A replica refused the statement after part of its reply had been sent on.
    pub writes: bool,
    /// The warnings of a PREPARE.
    pub residue: Option<Box<Residue>>,
}

impl Changes {
    /// Takes note of one change that the server reports on this connection.
    pub fn note(&mut self, connection: &Connection, change: SessionChange<'_>) {
        let current = connection.state();
        match change {
            SessionChange::Schema(name) => {
                let database = (!name.is_empty()).then_some(name);
                self.state = Some(self.state.as_ref().unwrap_or(current).with_database(database));
            }
            SessionChange::Gtids(gtids) => self.note_gtid(gtids),
            SessionChange::Variable {
                name: b"last_gtid",
                value,
            } => self.note_gtid(value),
            SessionChange::Variable { name, value } => {
                let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                match connection.classify(&name) {
                    Tracked::State => {
                        let state = self.state.as_ref().unwrap_or(current);
                        self.state = Some(state.with_variable(&name, value));
                    }
                    Tracked::Pins => self.pins = true,
                    Tracked::Ignored => self.tracking |= TRACKING.contains(&&*name),
                }
                self.told.push(name);
            }
            _ => {}
        }
    }

    /// Something was committed that the client may not hear of yet.
    pub(crate) fn is_news(&self) -> bool {
        self.gtid.as_ref().is_some_and(|gtid| gtid.len() > self.held)
    }

    /// What was committed; `None` where nothing was, or nobody can read what it is. Read once for all who ask.
    pub fn position(&mut self, engine: Engine) -> Option<&Position> {
        if self.read.is_none() {
            self.read = Position::read(engine, self.gtid.as_deref()?);
        }
        self.read.as_ref()
    }

    /// The same, as the server has said it and as a position.
    pub(crate) fn committed(&mut self, engine: Engine) -> Option<(&[u8], Option<&Position>)> {
        self.position(engine);
        Some((self.gtid.as_deref()?, self.read.as_ref()))
    }

    /// Says nothing any more, and keeps its room.
    pub(crate) fn empty(&mut self) {
        let room = self.gtid.take().unwrap_or_else(|| std::mem::take(&mut self.room));
        *self = Changes::default();
        if room.capacity() <= ROOM_BYTES_MAX {
            self.room = room;
            self.room.clear();
        }
    }

    /// What one reply of several has written.
    fn note_gtid(&mut self, gtid: &[u8]) {
        self.read = None;
        let all = self.gtid.get_or_insert_with(|| std::mem::take(&mut self.room));
        if !all.is_empty() {
            all.push(b',');
        }
        all.extend_from_slice(gtid);
    }
}
