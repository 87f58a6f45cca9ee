//! Who a session's client is: what it logged in by, and what became of that since.
//!
//! Must not know: how a client proves who it is.

use std::net::SocketAddr;
use std::rc::Rc;

use auth::account_places::AccountPlace;
use backend::Pass;

/// Who logged in, and how.
pub struct Identity {
    /// What the session may use connections by.
    pub pass: Pass,
    pub database: Option<Vec<u8>>,
    /// The process that the client says it is.
    pub process: Option<Box<[u8]>>,
    /// The source tag of its statements that say nothing themselves, by the program that the client says it is.
    pub program: Option<Box<str>>,
    pub admin: bool,
    /// The client's place among those of its account; given up before the account changes.
    pub account_place: Option<AccountPlace>,
}

/// The user of a session, from a login or a change of user to the next one.
pub struct SessionUser {
    pub identity: Identity,
    /// The client's address, as a load balancer gives it where one does.
    pub peer: SocketAddr,
    /// The password has expired and was not changed yet: the held connection's server answers
    /// everything.
    pub sandboxed: bool,
    /// The sql_mode that its logins at servers give it, where it is not the servers' global one.
    pub mode: Option<Box<str>>,
    /// How often COM_CHANGE_USER was refused.
    pub failed_changes: u8,
}

impl SessionUser {
    /// That of a client which has just logged in.
    pub fn new(identity: Identity, peer: SocketAddr) -> SessionUser {
        SessionUser {
            identity,
            peer,
            sandboxed: false,
            mode: None,
            failed_changes: 0,
        }
    }

    /// The account's name.
    pub fn name(&self) -> &Rc<[u8]> {
        &self.identity.pass.profile().user
    }
}
