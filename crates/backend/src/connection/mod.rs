//! One authenticated connection to one server.
//!
//! Job: send a command, read its reply, and keep what the server reported of the session; be ended from
//! outside ([`cut`]).
//!
//! Invariants: a connection on which a reply was not read to its end is never used again.
//!
//! Must not know: who waits for a connection ([`crate::pool`]), what a session wants next.

pub(crate) mod cut;
mod error;
mod moments;
mod reported;
pub(crate) mod table;
pub(crate) mod target;
mod upload;

use std::io;
use std::ops::Range;
use std::rc::Rc;

use channel::{Channel, Duplex};
use farm::{Engine, ServerId};
use mysql_wire::Malformed;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet;
use mysql_wire::query::NO_ATTRIBUTES;
use mysql_wire::relay::{Expect, Outcome, Relay};
use mysql_wire::reply::{ErrPacket, SessionChange, Shown};
use mysql_wire::result::TextRow;
use mysql_wire::status::Status;

pub use error::ConnectionError;
pub use moments::Moments;
pub use reported::Reported;
pub use upload::Upload;

use crate::connection::cut::Entry;
use crate::login::pass::Pass;
use crate::login::seen::Seen;
use crate::prepared::Statements;
use crate::state::SessionState;
use crate::state::defaults;
use crate::state::residue::Placed;
use crate::state::servers_own::ServersOwn;

/// Receive room for replies to Heddle's own commands.
const OWN_REPLY_BYTES: usize = 4096;

/// Who used a connection last; what only the last user may rely on (diagnostics, LAST_INSERT_ID).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The session whose statement ran last, and that statement's number in its session.
    pub session: u32,
    pub statement: u64,
    /// The session whose statement last left warnings or an error here; 0 for none. MariaDB keeps
    /// them over statements without tables.
    pub warned: u32,
    /// The session that the connection's LAST_INSERT_ID() belongs to, and which of the values that
    /// the function had in that session it is.
    pub insert_id_session: u32,
    pub insert_id_version: u64,
    /// False after an OK reported an id on a connection that had another session's before: the id
    /// may be one that the client chose, and then LAST_INSERT_ID() is still the other's.
    pub insert_id_sure: bool,
}

/// A connection that is logged in. At most one command is under way.
pub struct Connection {
    /// Unique on this core; never reused.
    pub id: u64,
    pub server: ServerId,
    /// The server's term when the connection was opened.
    pub term: u32,
    /// Its entry among the open ones of the core.
    pub(crate) entry: Option<Entry>,
    /// The server's own id of the connection, for KILL.
    pub thread_id: u32,
    pub capabilities: Capabilities,
    pub owner: Owner,
    /// What it has seen of the changes to what a login takes over.
    pub(crate) defaults: defaults::Seen,
    /// As whom it is logged in; none for a connection outside the pools.
    pub(crate) pass: Option<Pass>,
    /// The pass's edition at its login.
    pub(crate) edition: u32,
    pub(crate) state: Rc<SessionState>,
    pub(crate) login: Rc<SessionState>,
    pub(crate) sock: Channel,
    pub(crate) idle_since_s: u64,
    /// The server will not wait for long.
    pub(crate) impatient: bool,
    /// How long the server waits for a client that logs in now and sets nothing; 0 when unknown.
    pub login_timeout_s: u64,
    /// How long the server lets a transaction of this login be idle; 0 for ever.
    pub(crate) login_idle_s: [u64; 3],
    /// Heddle made the session READ ONLY, and it stays so.
    pub(crate) guarded: bool,
    /// Its reads wait for what the cluster has committed.
    pub(crate) causal: bool,
    /// Its login set more than a reset of the connection does: `init_connect`, or what its account has.
    pub(crate) login_sets_more: bool,
    /// Nobody may use the connection once its lease ends.
    condemned: bool,
    pub(crate) seen: Seen,
    pub(crate) servers_own: Rc<ServersOwn>,
    pub(crate) shown: Shown,
    /// The GTIDs under which the server committed what this connection changed.
    pub reported: Reported,
    pub moments: Moments,
    /// Every change of data that the server makes here is in its binlog, and it says under which
    /// GTID.
    pub tells_gtids: bool,
    pub(crate) statements: Statements,
    /// The user variables that are set here; `None` when none are known to be.
    pub variables: Option<Box<Placed>>,
    /// Statements that it may keep prepared.
    pub(crate) statements_max: usize,
}

impl Connection {
    pub(crate) fn new(
        server: ServerId,
        sock: Channel,
        thread_id: u32,
        capabilities: Capabilities,
        database: Option<&[u8]>,
        seen: Seen,
    ) -> Connection {
        let state = Rc::new(SessionState::new(database));
        Connection {
            id: 0,
            server,
            term: 0,
            entry: None,
            thread_id,
            capabilities,
            owner: Owner::default(),
            defaults: defaults::Seen::default(),
            pass: None,
            edition: 0,
            login: state.clone(),
            state,
            sock,
            idle_since_s: 0,
            impatient: false,
            login_timeout_s: 0,
            login_idle_s: [0; 3],
            guarded: false,
            causal: false,
            login_sets_more: false,
            condemned: false,
            seen,
            servers_own: Rc::default(),
            shown: Shown::Usual,
            reported: Reported::default(),
            moments: Moments::new(),
            tells_gtids: false,
            statements: Statements::default(),
            variables: None,
            statements_max: 1,
        }
    }

    /// What software the server runs.
    pub fn engine(&self) -> Engine {
        self.seen.engine
    }

    /// The state that the server last reported.
    pub fn state(&self) -> &Rc<SessionState> {
        &self.state
    }

    /// The value of one of the variables that decide what text means; `None` for others that have
    /// not been changed.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        self.state
            .variable(name)
            .or_else(|| self.login.variable(name))
    }

    /// False for a connection that has broken, or has said something unasked, while nobody used it.
    pub fn is_quiet(&mut self) -> bool {
        self.sock.is_quiet()
    }

    /// Has the connection closed when its lease ends: a command was sent in part only.
    pub fn condemn(&mut self) {
        self.condemned = true;
    }

    /// True once Heddle has ended it, because it cut itself off from the server.
    pub fn is_cut(&self) -> bool {
        self.entry.as_ref().is_some_and(Entry::is_cut)
    }

    /// True where Heddle made the session READ ONLY.
    pub fn is_guarded(&self) -> bool {
        self.guarded
    }

    pub(crate) fn is_condemned(&self) -> bool {
        self.condemned
    }

    /// Sends bytes that are whole packets. The buffer comes back.
    pub async fn send(
        &mut self,
        buffer: Vec<u8>,
        range: Range<usize>,
    ) -> (io::Result<()>, Vec<u8>) {
        self.moments.sent();
        self.sock.send(buffer, range).await
    }

    /// Receives behind what the buffer holds; end of stream is an error here.
    pub async fn recv(&mut self, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let (received, buffer) = self.sock.recv(buffer).await;
        let received = match received {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        };
        (received, buffer)
    }

    /// Both directions at the same time, for a stream that has no end.
    pub fn duplex(&mut self) -> Duplex<'_> {
        self.sock.duplex()
    }

    /// Sends commands of Heddle's own in one write and reads all their replies. Stops at the first
    /// that the server refuses; the replies behind it are read all the same, so the connection
    /// stays usable.
    pub async fn run(&mut self, commands: &[(Command, &[u8])]) -> Result<Outcome, ConnectionError> {
        let mut rows = Vec::new();
        self.run_rows(commands, &mut rows).await
    }

    /// Like [`Connection::run`]; also tells what was committed, even where an error came behind it.
    pub async fn run_telling(
        &mut self,
        commands: &[(Command, &[u8])],
        told: &mut Told,
    ) -> Result<Outcome, ConnectionError> {
        let mut packets = Vec::new();
        self.run_noting(commands, &mut packets, told).await
    }

    /// Like [`Connection::run`], and keeps the raw packets of all replies.
    pub(crate) async fn run_rows(
        &mut self,
        commands: &[(Command, &[u8])],
        packets: &mut Vec<u8>,
    ) -> Result<Outcome, ConnectionError> {
        let mut told = Told::default();
        self.run_noting(commands, packets, &mut told).await
    }

    pub(crate) async fn run_noting(
        &mut self,
        commands: &[(Command, &[u8])],
        packets: &mut Vec<u8>,
        told: &mut Told,
    ) -> Result<Outcome, ConnectionError> {
        let engine = self.engine();
        let attributes = self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let request = request_of(commands, attributes);
        let broken = |operation| move |source| ConnectionError::Broken { operation, source };
        let bytes = request.len();
        let (sent, _) = self.send(request, 0..bytes).await;
        sent.map_err(broken("sending a command"))?;
        let mut buffer = Vec::with_capacity(OWN_REPLY_BYTES);
        let mut refused = None;
        let mut last = Outcome::default();
        for (command, _) in commands {
            let expect = match command {
                Command::StmtPrepare => Expect::Prepare { client_id: 0 },
                Command::Query => Expect::Results,
                Command::SetOption => Expect::Rows,
                _ => Expect::Single,
            };
            let own = self.capabilities | Capabilities::DEPRECATE_EOF;
            let mut relay = Relay::new(expect, own, own, Status::AUTOCOMMIT);
            told.variables.clear();
            loop {
                let mut note = |change: SessionChange<'_>| {
                    if let SessionChange::Variable { name, .. } = change {
                        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                        told.variables.push(name);
                    }
                    if let Some(gtid) = gtid_in(&change) {
                        told.note(gtid);
                        // What the log has of it before that is no answer to what comes next.
                        self.reported.note(engine, gtid);
                    }
                };
                let progress = relay.advance(&mut buffer, 0, &mut note).map_err(|source| {
                    ConnectionError::Protocol {
                        operation: "reading a reply",
                        source,
                    }
                })?;
                let start = packets.len();
                packets.extend(buffer.drain(..progress.forward));
                if progress.done {
                    if relay.outcome().error.is_some() && refused.is_none() {
                        told.before_error = packet::payloads(packets).count().saturating_sub(1);
                        refused = Some(last_error(&packets[start..], own));
                    }
                    last = relay.outcome().clone();
                    break;
                }
                buffer.reserve(
                    progress
                        .need
                        .saturating_sub(buffer.len())
                        .max(OWN_REPLY_BYTES),
                );
                let (received, filled) = self.recv(buffer).await;
                buffer = filled;
                received.map_err(broken("reading a reply"))?;
            }
        }
        match refused {
            Some(error) => Err(error),
            None => Ok(last),
        }
    }

    /// The values of the only row that a SELECT of Heddle's own gives; NULL is empty. It has no LIMIT:
    /// one is put behind it, or the session's `sql_select_limit` would hold for it.
    pub async fn ask(&mut self, query: &[u8]) -> Result<Vec<Vec<u8>>, ConnectionError> {
        let mut packets = Vec::new();
        let query = [query, b" LIMIT 1"].concat();
        self.run_rows(&[(Command::Query, &query)], &mut packets)
            .await?;
        let row = last_row(&packets).unwrap_or_default();
        TextRow::new(row)
            .map(|value| Ok(value?.unwrap_or_default().to_vec()))
            .collect::<Result<_, Malformed>>()
            .map_err(|source| ConnectionError::Protocol {
                operation: "reading values",
                source,
            })
    }

    /// The rows of a SELECT of Heddle's own that bounds them itself; NULL is empty.
    pub async fn ask_all(&mut self, query: &[u8]) -> Result<Vec<Vec<Vec<u8>>>, ConnectionError> {
        let mut packets = Vec::new();
        let outcome = self
            .run_rows(&[(Command::Query, query)], &mut packets)
            .await?;
        let rows = usize::try_from(outcome.rows).unwrap_or(usize::MAX);
        // The last packet ends them.
        let all: Vec<&[u8]> = packet::payloads(&packets).collect();
        let end = all.len().saturating_sub(1);
        let rows = all[end.saturating_sub(rows)..end].iter();
        let row = |row: &&[u8]| {
            let values = TextRow::new(row).map(|it| Ok(it?.unwrap_or_default().to_vec()));
            values.collect::<Result<Vec<_>, Malformed>>()
        };
        let read: Result<_, Malformed> = rows.map(row).collect();
        read.map_err(|source| ConnectionError::Protocol {
            operation: "reading values",
            source,
        })
    }

    /// Brings the connection into `wanted`, or as near as its server lets it. `Refused` leaves it sound
    /// when only the database was refused, and so does `Variables`; the caller closes it in every other
    /// case.
    pub async fn become_state(&mut self, wanted: &Rc<SessionState>) -> Result<(), ConnectionError> {
        if SessionState::same(&self.state, wanted) {
            return Ok(());
        }
        let wanted = &self.possible(wanted);
        // What the session may do decides whether it may enter its database.
        self.become_role(wanted).await?;
        if let Some(database) = wanted.database()
            && self.state.database() != Some(database)
        {
            self.run(&[(Command::InitDb, database)]).await?;
            self.state = Rc::new(self.state.with_database(Some(database)));
        }
        self.become_variables(wanted).await
    }
}

/// The packets of these commands; `attributes`: the server reads query attributes.
fn request_of(commands: &[(Command, &[u8])], attributes: bool) -> Vec<u8> {
    let mut request = Vec::new();
    for (command, body) in commands {
        let mut sequence = 0;
        packet::write_with(&mut request, &mut sequence, |out| {
            out.push(*command as u8);
            if attributes && *command == Command::Query {
                out.extend_from_slice(&NO_ATTRIBUTES);
            }
            out.extend_from_slice(body);
        });
    }
    request
}

/// What replies to Heddle's own commands said beside their last outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// The GTIDs of what was committed, in the engine's notation.
    pub gtid: Vec<u8>,
    /// So many packets came before the first error.
    pub before_error: usize,
    /// The variables that the last reply reported.
    pub variables: Vec<String>,
}

impl Told {
    fn note(&mut self, gtid: &[u8]) {
        if !self.gtid.is_empty() {
            self.gtid.push(b',');
        }
        self.gtid.extend_from_slice(gtid);
    }
}

/// What was committed, in the engine's notation.
fn gtid_in<'a>(change: &SessionChange<'a>) -> Option<&'a [u8]> {
    match *change {
        SessionChange::Gtids(gtid) => Some(gtid),
        SessionChange::Variable {
            name: b"last_gtid",
            value,
        } => Some(value),
        _ => None,
    }
}

/// True for the errors with which a server ends a connection, whatever was asked:
/// ER_SERVER_SHUTDOWN, ER_CONNECTION_KILLED.
pub fn ends_connection(number: u16) -> bool {
    matches!(number, 1053 | 1927)
}

/// The error packet that ends these packets.
fn last_error(packets: &[u8], capabilities: Capabilities) -> ConnectionError {
    let payload = packet::payloads(packets).last().unwrap_or_default();
    match ErrPacket::decode(payload, capabilities) {
        Ok(error) if ends_connection(error.number) => ConnectionError::Broken {
            operation: "waiting for a reply",
            source: io::Error::other(String::from_utf8_lossy(error.message)),
        },
        Ok(error) => ConnectionError::Refused {
            number: error.number,
            sqlstate: error.sqlstate,
            message: error.message.to_vec(),
        },
        Err(source) => ConnectionError::Protocol {
            operation: "reading an error",
            source,
        },
    }
}

/// The payload of the last row: the packet before the one that ends the result.
pub(crate) fn last_row(packets: &[u8]) -> Option<&[u8]> {
    let all: Vec<&[u8]> = packet::payloads(packets).collect();
    all.len().checked_sub(2).map(|at| all[at])
}
