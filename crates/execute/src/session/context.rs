//! What a statement is understood by, before it is known where it goes.
//!
//! Nothing here changes while somebody looks at it: whoever takes a context only decides.

use std::rc::Rc;

use crate::client::Client;
use crate::connections::group_connections::GroupConnections;
use crate::per_core::Core;
use crate::prepared::statements::PreparedStatements;
use crate::session::user::SessionUser;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

/// The parts of a session that say what its statement means.
#[derive(Clone, Copy)]
pub struct StatementContext<'s> {
    pub core: &'s Rc<Core>,
    pub user: &'s SessionUser,
    /// With the statement.
    pub client: &'s Client,
    pub variables: &'s SessionVariables,
    pub connections: &'s GroupConnections,
    pub transaction: &'s Transaction,
    pub prepared: &'s PreparedStatements,
}
