//! The role that is active on a connection: part of the state, under a name that no variable has.
//!
//! Servers report no change of it, and a reset of the connection leaves it as it is. So it is asked
//! for at login and after a SET ROLE, and set with a SET ROLE of its own.

use farm::Engine;

use crate::connection::{Connection, ConnectionError};
use crate::state::SessionState;
use mysql_wire::command::Command;

/// The name under which the state has what follows SET ROLE.
pub const ROLE: &str = "current role";

/// No role is active.
pub const NO_ROLE: &[u8] = b"NONE";

/// What follows SET ROLE so that CURRENT_ROLE() gives this; empty stands for NULL.
pub(crate) fn spelled(engine: Engine, current: &[u8]) -> Vec<u8> {
    match (engine, current) {
        (_, b"") => NO_ROLE.to_vec(),
        // A list of names in quotes, or NONE.
        (Engine::MySql, list) => list.to_vec(),
        (Engine::MariaDb, name) => {
            let mut quoted = b"`".to_vec();
            for &byte in name {
                if byte == b'`' {
                    quoted.push(byte);
                }
                quoted.push(byte);
            }
            quoted.push(b'`');
            quoted
        }
    }
}

impl Connection {
    /// After a SET ROLE: what it has made of the state. `None` when the current database cannot be
    /// entered with the new role: then the session could not go on anywhere else.
    pub async fn ask_role(
        &mut self,
        state: &SessionState,
    ) -> Result<Option<SessionState>, ConnectionError> {
        let said = self.ask(b"SELECT CURRENT_ROLE()").await?;
        let current = said.first().map_or(&b""[..], |value| value);
        let role = spelled(self.engine(), current);
        if let Some(database) = state.database() {
            match self.run(&[(Command::InitDb, database)]).await {
                Ok(_) => {}
                Err(ConnectionError::Refused { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(state.with_variable(ROLE, &role)))
    }

    /// Makes the role that of `wanted`; the login's where that says nothing.
    pub(crate) async fn become_role(
        &mut self,
        wanted: &SessionState,
    ) -> Result<(), ConnectionError> {
        let (now, role) = (self.state.variable(ROLE), wanted.variable(ROLE));
        if now == role {
            return Ok(());
        }
        let Some(text) = self.set_role(wanted) else {
            return Ok(());
        };
        self.run(&[(Command::Query, &text)]).await?;
        let state = match wanted.variable(ROLE) {
            Some(role) => self.state.with_variable(ROLE, role),
            None => self.state.without_variables(&[ROLE.into()]),
        };
        self.set_state(state.into());
        Ok(())
    }

    /// The SET ROLE for this state.
    pub(crate) fn set_role(&self, wanted: &SessionState) -> Option<Vec<u8>> {
        let role = wanted
            .variable(ROLE)
            .or_else(|| self.login.variable(ROLE))?;
        Some([b"SET ROLE ", role].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_spelled_as_their_servers_read_them() {
        assert_eq!(spelled(Engine::MariaDb, b""), b"NONE");
        assert_eq!(spelled(Engine::MariaDb, b"a`b"), b"`a``b`");
        assert_eq!(spelled(Engine::MySql, b"NONE"), b"NONE");
        assert_eq!(
            spelled(Engine::MySql, b"`a`@`%`,`b`@`%`"),
            b"`a`@`%`,`b`@`%`"
        );
    }
}
