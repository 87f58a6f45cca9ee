//! What a client has its server report of its session: `session_track_system_variables`,
//! `session_track_schema`, and on MySQL `session_track_gtids`.
//!
//! Heddle has every server connection report everything, for itself. What the client asked for stays
//! with its session and decides what it hears. Only a statement that could see the difference, or
//! changes it, runs under the client's own settings.

use backend::{Connection, ConnectionError};
use mysql_wire::reply::Shown;
use mysql_wire::status::Status;
use sqltext::{Class, Facts};

use crate::execution::exec::Shape;
use crate::variables::assigned;
use crate::variables::changes::Changes;
use crate::variables::session_variables::SessionVariables;

/// What their names begin with.
const NAMES: &[u8] = b"session_track_";

/// True for a text that may read or assign the variables.
pub(crate) fn mentions_tracking(text: &[u8], class: Class, facts: Facts) -> bool {
    let lists = class == Class::Show || facts.contains(Facts::SERVER_SCHEMA);
    let names = class == Class::Set
        || facts.intersects(Facts::SYSTEM_VARIABLE | Facts::MULTIPLE | Facts::COMPOUND);
    ((lists || names) && find(text, NAMES).is_some())
        || (lists && find(text, b"variables").is_some_and(|at| may_list(&text[at..])))
}

/// True unless the list of variables is narrowed to others by a LIKE.
fn may_list(rest: &[u8]) -> bool {
    let rest = rest[b"variables".len()..].trim_ascii();
    let Some((_, pattern)) =
        rest.split_at_checked(4).filter(|(word, _)| word.eq_ignore_ascii_case(b"like"))
    else {
        return true;
    };
    let pattern = pattern.trim_ascii();
    let Some((quote @ (b'\'' | b'"'), pattern)) = pattern.split_first() else {
        return true;
    };
    let plain = pattern.iter().position(|byte| byte == quote || *byte == b'\\');
    let pattern = &pattern[..plain.unwrap_or(pattern.len())];
    let names = backend::TRACKING.map(str::as_bytes);
    names.iter().any(|name| farm::account::like(&pattern.to_ascii_lowercase(), name))
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part.eq_ignore_ascii_case(word))
}

impl SessionVariables {
    /// After it: takes note of what it changed, and has everything reported again.
    pub(crate) async fn take_tracking_back(
        &mut self,
        connection: &mut Connection,
        shape: &Shape,
        changes: &mut Changes,
    ) -> Result<(), ConnectionError> {
        if assigned::may_assign(shape) {
            let gtids = matches!(&self.tracking, Some(Shown::Asked(asked)) if asked.gtids);
            let asking = connection.ask_tracking(gtids, self.in_transaction());
            let (shown, database) = asking.await?;
            self.tracking = (shown != *connection.shown()).then_some(shown);
            let state = changes.state.as_ref().unwrap_or(connection.state());
            if state.database() != database.as_deref() {
                changes.state = Some(state.with_database(database.as_deref()));
            }
        }
        connection.track_all(self.in_transaction()).await
    }
}

impl SessionVariables {
    /// Which of the changes in the reply to this statement the client sees.
    pub fn shown(&self, connection: &Connection, shape: &Shape) -> Shown {
        match &self.tracking {
            _ if shape.tracking => Shown::All,
            Some(tracking) => tracking.clone(),
            None => connection.shown().clone(),
        }
    }

    /// Before a statement that mentions the variables: they have the client's own values.
    pub async fn lend_tracking(&self, connection: &mut Connection) -> Result<(), ConnectionError> {
        let asked = match &self.tracking {
            Some(Shown::Asked(tracking)) => Some(&**tracking),
            _ => None,
        };
        connection.track_as(asked, self.in_transaction()).await
    }

    /// As the last reply said.
    fn in_transaction(&self) -> bool {
        self.status.contains(Status::IN_TRANS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_could_see_the_settings_are_known() {
        let asks = Facts::SYSTEM_VARIABLE;
        let mentions = mentions_tracking;
        assert!(mentions(b"SELECT @@Session_Track_Schema", Class::Other, asks));
        assert!(mentions(b"SELECT @@session_track_gtids", Class::Other, asks));
        assert!(!mentions(b"SELECT session_track_schema FROM t", Class::Read, Facts::empty()));
        assert!(mentions(b"SET session_track_schema=0", Class::Set, Facts::empty()));
        let show = |text: &str| mentions(text.as_bytes(), Class::Show, Facts::empty());
        assert!(show("SHOW VARIABLES") && show("SHOW SESSION variables LIKE 'session%'"));
        assert!(show("SHOW VARIABLES WHERE variable_name LIKE 'a' OR 1"));
        assert!(!show("SHOW VARIABLES LIKE 'sql_mode'") && !show("SHOW TABLES"));
    }
}
