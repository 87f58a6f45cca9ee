//! What the session's account may do, as the primary says it, and other questions of Heddle's own
//! that are asked in the session's name.

use backend::{ConnectionError, PoolError, Table};

use crate::end::End;
use crate::exec::{Job, Shape};
use crate::seat::HOME;
use crate::session::Session;
use crate::target::nowhere;

/// A right by any of these names, on everything.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Right {
    /// To see the sessions of others.
    See,
    /// To end the sessions of others.
    Kill,
    /// Ending a server.
    Shutdown,
}

impl Right {
    fn names(self) -> &'static [&'static str] {
        match self {
            Right::See => &["ALL PRIVILEGES", "PROCESS"],
            Right::Kill => &[
                "ALL PRIVILEGES",
                "SUPER",
                "CONNECTION ADMIN",
                "CONNECTION_ADMIN",
            ],
            Right::Shutdown => &["ALL PRIVILEGES", "SHUTDOWN"],
        }
    }

    /// The row of SHOW GRANTS gives it.
    fn is_in(self, grant: &str) -> bool {
        let Some((rights, _)) = grant.split_once(" ON *.* TO ") else {
            return false;
        };
        let rights = rights.strip_prefix("GRANT ").unwrap_or(rights).split(',');
        rights.into_iter().any(|right| {
            let given = |name: &&str| right.trim().eq_ignore_ascii_case(name);
            self.names().iter().any(given)
        })
    }
}

impl Session {
    /// True when the account, or a role that is active, has the right. Who cannot be asked about
    /// has none.
    pub(crate) async fn has_right(&mut self, right: Right) -> bool {
        if self.identity.admin {
            return true;
        }
        let grants = self.ask_table(b"SHOW GRANTS").await.unwrap_or_default();
        grants.rows.iter().flatten().flatten().any(|grant| {
            let grant = String::from_utf8_lossy(grant);
            right.is_in(&grant)
        })
    }

    /// Asks in the session's name: on the connection that it keeps, else on one to the primary.
    pub(crate) async fn ask_table(&mut self, query: &[u8]) -> Result<Table, PoolError> {
        if let Some(held) = &mut self.held {
            let connection = held.lease.connection_mut();
            // It has the diagnostics of another statement now.
            connection.owner.statement = 0;
            return Ok(connection.table(query).await?);
        }
        let taking = self
            .core
            .take_from_primary(HOME, &self.identity.pass, &self.state, false);
        Ok(taking.await?.ask(query).await?)
    }

    /// The value of the first column of a query over the session's variables, which stand in the
    /// current text too. `None`: the client has been told why there is none.
    pub(crate) async fn evaluate(
        &mut self,
        shape: &Shape,
        job: Job,
        query: &[u8],
    ) -> Result<Option<Vec<u8>>, End> {
        let (plan, target) = match self.route(shape, &[]) {
            Ok(route) => route,
            Err(refusal) => {
                let told = self.client.error(&refusal.error, &[&refusal.detail]).await;
                return told.map(|()| None);
            }
        };
        let (mut lease, pins) = match self.checkout(&plan, &target, shape).await {
            Ok(taken) => taken,
            Err(error) => {
                let told = self.client.pool_error(&error, &target).await;
                return told.map(|()| None);
            }
        };
        let connection = lease.connection_mut();
        connection.owner.statement = 0;
        let mut moved = Ok(());
        if self.variables_differ(connection, shape) {
            moved = self.move_variables(connection, shape, job).await;
        }
        let asked = match moved {
            Ok(()) => connection.ask(query).await,
            Err(error) => Err(error),
        };
        if matches!(&asked, Ok(_) | Err(ConnectionError::Refused { .. })) {
            self.give_back_after_error(lease, pins);
        }
        match asked {
            Ok(values) => Ok(Some(values.into_iter().next().unwrap_or_default())),
            Err(error) => {
                let told = self.client.pool_error(&error.into(), &nowhere()).await;
                told.map(|()| None)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_read_from_grants() {
        let process = "GRANT SELECT, PROCESS ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD 'x'";
        assert!(Right::See.is_in(process) && !Right::Kill.is_in(process));
        let admin = "GRANT CONNECTION ADMIN ON *.* TO `a`@`%`";
        assert!(Right::Kill.is_in(admin) && !Right::See.is_in(admin));
        assert!(Right::Kill.is_in("GRANT BACKUP_ADMIN,CONNECTION_ADMIN ON *.* TO `a`@`%`"));
        assert!(Right::See.is_in("GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION"));
        let one = "GRANT ALL PRIVILEGES ON `d`.* TO `a`@`%`";
        assert!(!Right::See.is_in(one) && !Right::Kill.is_in(one));
    }
}
