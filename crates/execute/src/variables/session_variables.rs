//! What a client has set, and what its statements have left, that is no connection's: session
//! variables, character sets, flags, user variables, insert ids, diagnostics.
//!
//! Invariant: what stands here is what the client may believe; a connection that lacks it gets it before
//! a statement runs there. Must not know: connections, groups, what a transaction is.

use std::rc::Rc;

use backend::SessionState;
use mysql_wire::reply::Shown;
use mysql_wire::status::Status;
use sqltext::Mode;

use crate::variables::diagnostics::Diagnostics;
use crate::variables::values::Variables;

/// What LAST_INSERT_ID() is.
#[derive(Debug, Default)]
pub struct InsertId {
    pub value: u64,
    /// What it was before the last OK that reported an id.
    pub before: u64,
    /// How often it has changed, by which connections with an older value are known.
    pub version: u64,
}

/// The variables of one session.
pub struct SessionVariables {
    /// What a connection must be told to be this session's.
    pub state: Rc<SessionState>,
    /// Which changes of its state the client asked to hear of; None as at login.
    pub tracking: Option<Shown>,
    /// How the client's text is to be read: follows sql_mode and character set.
    pub mode: Mode,
    /// The flags of the last OK or EOF.
    pub status: Status,
    /// Texts that set what only they can bring to another group's connection.
    pub lasting: Vec<Box<[u8]>>,
    /// What was set for the next transaction only, on the connection that has the pin.
    pub next_transaction: Vec<Box<[u8]>>,
    /// The user variables, once there are any.
    pub user_variables: Option<Box<Variables>>,
    /// The edition of the global variables that it has.
    pub defaults: u64,
    pub insert_id: InsertId,
    /// The client uses GET DIAGNOSTICS: connections are kept for it from then on.
    pub gets_diagnostics: bool,
    pub diagnostics: Diagnostics,
}

impl SessionVariables {
    /// Those of a session that has set nothing yet.
    pub fn new(state: Rc<SessionState>, mode: Mode, defaults: u64) -> SessionVariables {
        SessionVariables {
            state,
            tracking: None,
            mode,
            status: Status::AUTOCOMMIT,
            lasting: Vec::new(),
            next_transaction: Vec::new(),
            user_variables: None,
            defaults,
            insert_id: InsertId::default(),
            gets_diagnostics: false,
            diagnostics: Diagnostics::default(),
        }
    }

    /// The client's texts are in UTF-8.
    pub fn is_utf8(&self) -> bool {
        let charset = self.state.variable("character_set_client");
        charset.is_none_or(|name| name.starts_with(b"utf8"))
    }
}

/// For tests: those of a session that has set nothing, with servers of this kind.
pub fn fresh(dialect: sqltext::Dialect) -> SessionVariables {
    let state = Rc::new(SessionState::new(None));
    SessionVariables::new(state, Mode::new(dialect, 101_100), 0)
}
