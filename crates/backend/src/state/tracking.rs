//! What servers report of a session's changes: everything, for Heddle itself; and for one statement
//! what the client asked for.

use farm::Engine;
use mysql_wire::Malformed;
use mysql_wire::command::Command;
use mysql_wire::reply::{Shown, Tracking};

use crate::connection::{Connection, ConnectionError};

/// Has the server report every change of state and the GTIDs of what the session writes. What clients
/// see of it is decided by what they asked for. MariaDB reports its GTIDs as a variable; on MySQL
/// (`gtids`) they have a setting, which cannot be changed within a transaction.
pub(crate) fn track_all(gtids: bool) -> &'static [u8] {
    if gtids {
        b"SET SESSION session_track_schema = ON, SESSION session_track_system_variables = '*', \
          SESSION session_track_gtids = OWN_GTID"
    } else {
        b"SET SESSION session_track_schema = ON, SESSION session_track_system_variables = '*'"
    }
}

/// As a session has it that asked for nothing.
fn track_default(gtids: bool) -> &'static [u8] {
    if gtids {
        b"SET SESSION session_track_schema = DEFAULT, \
          SESSION session_track_system_variables = DEFAULT, \
          SESSION session_track_gtids = DEFAULT"
    } else {
        b"SET SESSION session_track_schema = DEFAULT, \
          SESSION session_track_system_variables = DEFAULT"
    }
}

impl Connection {
    /// The session changes that a client sees which has not asked for others.
    pub fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Has the server report what a session asked for, for a statement that may look at that. Then
    /// [`Connection::track_all`] must follow, or the session's state would be lost track of.
    pub async fn track_as(
        &mut self,
        asked: Option<&Tracking>,
        in_transaction: bool,
    ) -> Result<(), ConnectionError> {
        let gtids = self.engine() == Engine::MySql && !in_transaction;
        let set = asked.map_or(track_default(gtids).to_vec(), |asked| {
            let mut set = b"SET SESSION session_track_schema = ".to_vec();
            set.extend_from_slice(if asked.schema { b"ON" } else { b"OFF" });
            if gtids {
                set.extend_from_slice(b", SESSION session_track_gtids = ");
                set.extend_from_slice(if asked.gtids { b"OWN_GTID" } else { b"OFF" });
            }
            set.extend_from_slice(b", SESSION session_track_system_variables = '");
            // Names of variables and `*`; what the server accepted has no quote.
            set.extend(asked.variables.iter().filter(|byte| **byte != b'\''));
            set.push(b'\'');
            set
        });
        self.run(&[(Command::Query, &set)]).await.map(drop)
    }

    /// What the session now has the server report, and its database. In a transaction it has asked
    /// for GTIDs when it had before (`gtids`).
    pub async fn ask_tracking(
        &mut self,
        gtids: bool,
        in_transaction: bool,
    ) -> Result<(Shown, Option<Vec<u8>>), ConnectionError> {
        let own = self.engine() == Engine::MySql && !in_transaction;
        let ask: &[u8] = if own {
            b"SELECT DATABASE(), @@session.session_track_system_variables, \
              @@session.session_track_schema, @@session.session_track_gtids"
        } else {
            b"SELECT DATABASE(), @@session.session_track_system_variables, \
              @@session.session_track_schema"
        };
        let values = self.ask(ask).await?;
        let database = values.first().filter(|name| !name.is_empty()).cloned();
        let rest = values.iter().skip(1).map(|value| Ok(Some(&value[..])));
        let mut tracking = tracking_in(rest);
        tracking.gtids |= gtids && !own;
        Ok((Shown::of(tracking), database))
    }

    /// Has the server report every change again.
    pub async fn track_all(&mut self, in_transaction: bool) -> Result<(), ConnectionError> {
        let all = track_all(self.engine() == Engine::MySql && !in_transaction);
        self.run(&[(Command::Query, all)]).await.map(drop)
    }
}

/// The values of the variables that decide what is reported, in the order in which they are asked.
/// MySQL's ALL_GTIDS is served as OWN_GTID: the others are not this session's.
pub(crate) fn tracking_in<'a>(
    mut values: impl Iterator<Item = Result<Option<&'a [u8]>, Malformed>>,
) -> Tracking {
    let mut next = || {
        values
            .next()
            .and_then(Result::ok)
            .flatten()
            .unwrap_or_default()
    };
    Tracking {
        variables: next().into(),
        schema: matches!(next(), b"1" | b"ON"),
        gtids: matches!(next(), b"OWN_GTID" | b"ALL_GTIDS"),
    }
}
