//! What became of the connections that a core's pools opened, told apart as mysqlnd_ms counts them.

use crate::connection::target::Target;

/// How often something worked, and how often not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub success: u64,
    pub failure: u64,
}

/// Connections to servers that take writes, and to servers that only serve reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByRole {
    pub primary: Tally,
    pub replica: Tally,
}

/// Since the start. A connection that a pool had already is not among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Openings {
    /// Opened because a statement needed one.
    pub on_demand: ByRole,
    /// Opened while a client logged in, before it had sent a statement.
    pub at_login: ByRole,
}

impl Openings {
    /// Takes note of one attempt.
    pub(crate) fn note(&mut self, target: &Target, succeeded: bool) {
        let roles = match target.at_login {
            true => &mut self.at_login,
            false => &mut self.on_demand,
        };
        let tally = match target.read_only {
            true => &mut roles.replica,
            false => &mut roles.primary,
        };
        *match succeeded {
            true => &mut tally.success,
            false => &mut tally.failure,
        } += 1;
    }

    /// Connections opened, all kinds together.
    pub fn opened(&self) -> u64 {
        let roles = [&self.on_demand, &self.at_login];
        let opened = roles.map(|role| role.primary.success + role.replica.success);
        opened.iter().sum()
    }
}
