//! One SQL client's life on one core: login, commands, transactions, pins, prepared statements.
//!
//! Job: keep what a client may believe about its connection (variables, transaction, statement ids,
//! last insert id) true while its statements run on whatever server connection serves them.
//!
//! Invariants: one session is one task with one loop; it holds a server connection only for a
//! statement, a transaction, a pin, or the diagnostics of its last statement; a connection is given
//! back only with its reply read to the end; nothing that may have had an effect is sent twice.
//!
//! Must not know: how a socket gets here, what a probe is, where state is stored; the other doors.

mod accounts;
mod acks;
mod answer;
mod aside;
mod assigned;
mod attempt;
mod berths;
mod binlog;
mod cache;
mod changes;
mod client;
mod client_level;
mod clients;
mod command;
mod consistency;
mod counters;
mod crossing;
mod cursor;
mod defaults;
mod diagnostics;
mod digests;
mod end;
mod entrance;
mod exec;
mod expired;
mod fan;
mod floor_waits;
mod hedge;
mod hold;
mod hook;
mod hosts;
mod insert_id;
mod kill;

mod lane;
mod lasting;
mod listing;
mod local;
mod local_file;
mod locks;
mod login;
mod loss;
mod marks;
mod mirror;
mod offer;
mod operator;
mod outcome;
mod own_variables;
mod peers;
mod per_core;
mod pin;
mod place;
mod point;
mod prepared;
mod prepared_bytes;
mod processlist;
mod profile;
mod prove;
mod query;
mod reading;
mod reads;
mod refuse;
mod registry;
mod renew;
mod replay;
mod resume;
mod reveal;
mod rights;
mod route;
mod rsa_key;
mod rules;
mod scratch;
mod seat;

mod secrets;
mod session;
mod settings;
mod settle;
mod shown;
mod stall;
mod statistics;
mod stint;
mod target;
mod ties;
mod tokens;
mod tracking;
mod train;
mod transcript;
mod transport;
mod variables;
mod verifiers;
mod view;
mod visitors;
mod vouch;

use std::fmt;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

pub use crate::clients::Clients;
pub use crate::consistency::{Consistency, UNBOUNDED_MS};
pub use crate::counters::Counters;
pub use crate::crossing::{
    Allowed, CrossTerms, GatePassed, GatesHeld, Keeper, LetGo, OwnEnded, OwnFound, Pass, Sealed,
    Settled, Verified,
};
pub use crate::entrance::{Entrance, Places, Refusal};
pub use crate::kill::How;
pub use crate::lane::{Lane, Lost, Own, Param, Written, join_written, token_of};
pub use crate::locks::Locks;
pub use crate::operator::{Answer, Fault, Ids, Operator, Reply, TakenIds};
pub use crate::peers::{Elsewhere, NoPeers, Peers};
pub use crate::per_core::{Core, Shared};
pub use crate::place::{Heard, Sheet};
pub use crate::reads::{Failover, Reads, Stickiness, Transient};
pub use crate::refuse::ServerRefusal;
pub use crate::registry::{Entry, Registry};
pub use crate::rsa_key::RsaKey;
pub use crate::scratch::{Scratch, ScratchServer};
pub use crate::secrets::{BackendCredential, Secrets};
pub use crate::session::serve;
pub use crate::settings::{Gathering, InForce, Live, LoginLimits, Settings};
pub use crate::transport::{ClientTls, Transport};
pub use crate::verifiers::{VerifierQueue, Verifiers};
pub use crate::view::{Door, Lister, SessionView};
pub use crate::visitors::Stay;
pub use crate::vouch::{Admitted, Denied, PlainLogin, Standing};
pub use backend::{Limits, Secret, Terms};
pub use mysql_wire::command::Command;
pub use routing::{Level, Near, Preferences, Slowness, Strategy};

/// What other threads tell a core.
#[derive(Debug)]
pub enum Message {
    /// An accepted client.
    Accept(TcpStream, SocketAddr, Places),
    /// Another door has work for the core.
    Visit(Visit),
    /// KILL for a session of this core.
    Kill { id: u32, how: How },
    /// Somebody wants to see the core's sessions.
    List(Lister),
    /// The snapshot has a new primary, a paused group, or a server whose connections are to be cut; or
    /// other settings are in force.
    Turned,
    /// Somebody wants to know how many sessions work by a snapshot of tables from before this epoch.
    Stints(u64, std::sync::mpsc::Sender<usize>),
    /// Somebody wants to know that the core lives.
    Answer(std::sync::mpsc::Sender<()>),
    /// End idle sessions now and the others after their statement.
    Drain,
    /// End the core, with whatever it still holds.
    Stop,
}

/// Work of another door, done on a core.
pub struct Visit(Box<dyn FnOnce(Rc<Core>) + Send>);

impl Visit {
    /// To be done by the core that gets it; it may spawn tasks and must not block.
    pub fn new(work: impl FnOnce(Rc<Core>) + Send + 'static) -> Visit {
        Visit(Box::new(work))
    }

    /// Does it.
    pub fn pay(self, core: Rc<Core>) {
        (self.0)(core);
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visit")
    }
}
