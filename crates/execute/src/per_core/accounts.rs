//! Keeping what the router knows of the accounts in step with what its own clients do to them. The
//! control plane reads the accounts every second; these are the two moments that must not wait so
//! long: after a client changed an account, and before a client is refused.

use std::sync::Arc;

use auth::changes;
use farm::Accounts;
use mysql_wire::command::Command;
use sqltext::{Facts, Verb};

use crate::client::request::Request;
use crate::execution::exec::Shape;
use crate::per_core::{Core, Shared};
use crate::session::user::SessionUser;

impl Shared {
    /// A client's statement may have changed an account: reads the accounts anew.
    pub fn accounts_changed(&self) {
        self.changes.tell(|done| self.operator.read_accounts(done));
    }

    /// The accounts with everything that clients of this router did to them.
    pub async fn accounts_as_told(&self) -> Arc<Accounts> {
        match self.changes.are_shown() {
            true => self.accounts(),
            false => self.accounts_anew().await,
        }
    }

    /// The accounts as a server has them now; the last known ones when none answers.
    pub async fn accounts_anew(&self) -> Arc<Accounts> {
        changes::anew(|done| self.operator.read_accounts(done)).await;
        self.accounts()
    }

    fn accounts(&self) -> Arc<Accounts> {
        self.published.load().accounts.clone()
    }
}

/// After a statement: takes note of what it may have changed of accounts, and of databases.
pub(crate) fn note_accounts(
    core: &Core,
    user: &mut SessionUser,
    request: &Request,
    shape: &Shape,
    failed: bool,
) {
    if shape.facts.intersects(Facts::ACCOUNTS | Facts::DATABASE) {
        core.shared.defaults.database_changed();
    }
    if shape.facts.contains(Facts::ACCOUNTS) {
        core.shared.accounts_changed();
        if !failed {
            unlock_accounts(core, user, request, shape.verb, None);
        }
        user.sandboxed &= failed;
    }
}

/// A statement that may change accounts has been done, the client's own where no text is given. Accounts
/// that wrong passwords locked count anew: all of them after FLUSH PRIVILEGES, those that an
/// administrator names after another statement. What others do to their own accounts unlocks nothing.
pub fn unlock_accounts(
    core: &Core,
    user: &SessionUser,
    request: &Request,
    verb: Verb,
    text: Option<&[u8]>,
) {
    let own = || match request.payload().split_first() {
        Some((&command, text)) if command == Command::Query as u8 => Some(text),
        _ => None,
    };
    let (locks, admin) = (&core.shared.locks, user.identity.admin);
    match text.or_else(own) {
        Some(text) if verb == Verb::Flush && names_privileges(text) => locks.unlock_all(),
        Some(text) if admin => locks.unlock_named(text),
        // A prepared statement, whose text is elsewhere.
        None if admin => locks.unlock_all(),
        _ => {}
    }
}

/// Of a FLUSH: it is one of PRIVILEGES, or of several things.
fn names_privileges(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_uppercase();
    text.contains("PRIVILEGES")
}
