//! Why a session ends. Everything else is answered and the session goes on.

use farm::ClientError;

/// The reason for the end of a session; counted and logged, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// COM_QUIT, or a close between two commands.
    Quit,
    /// The client went away in the middle of something.
    Gone,
    /// The client was refused or broke the protocol, and has been told.
    Refused(ClientError),
    /// The server died in the middle of a row that was already half sent: nothing can be said.
    TornResult,
    /// KILL, an idle limit, or the end of the router.
    Killed,
}

impl End {
    /// The label in logs and metrics.
    pub fn name(&self) -> &'static str {
        match self {
            End::Quit => "quit",
            End::Gone => "client_gone",
            End::Refused(error) => error.name,
            End::TornResult => "torn_result",
            End::Killed => "killed",
        }
    }
}
