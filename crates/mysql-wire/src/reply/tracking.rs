//! Which of the session changes that a server reports a client is to see.
//!
//! A router asks the servers for every change, whatever its client asked for; what the client asked
//! for decides what it hears.

use std::rc::Rc;

use super::SessionChange;

/// What `session_track_system_variables`, `session_track_schema` and (MySQL) `session_track_gtids`
/// of a session are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracking {
    /// Names with commas between them, or `*`.
    pub variables: Box<[u8]>,
    /// Changes of the default database.
    pub schema: bool,
    /// The GTIDs of the session's own transactions.
    pub gtids: bool,
}

/// The variables that servers report when nobody asked for more.
const USUAL: &[&[u8]] = &[
    b"autocommit",
    b"character_set_client",
    b"character_set_connection",
    b"character_set_results",
    b"time_zone",
];

impl Tracking {
    /// True for a change that a client with these settings hears of. Changes of other kinds have
    /// settings of their own, which the server heeds.
    pub fn shows(&self, change: &SessionChange<'_>) -> bool {
        match change {
            SessionChange::Variable { name, .. } => {
                let mut names = self.names();
                names.any(|listed| listed == b"*" || listed.eq_ignore_ascii_case(name))
            }
            SessionChange::Schema(_) => self.schema,
            SessionChange::Gtids(_) => self.gtids,
            _ => true,
        }
    }

    fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.variables
            .split(|byte| *byte == b',')
            .map(<[u8]>::trim_ascii)
    }
}

/// What a reply shows of the changes in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// What servers report by default.
    #[default]
    Usual,
    /// All that is there: the server was told what the client asked for.
    All,
    /// What these settings ask for.
    Asked(Rc<Tracking>),
}

impl Shown {
    /// What a session with these settings sees.
    pub fn of(tracking: Tracking) -> Shown {
        let known = |name: &[u8]| USUAL.iter().any(|usual| usual.eq_ignore_ascii_case(name));
        let usual = tracking.schema
            && !tracking.gtids
            && tracking.names().count() == USUAL.len()
            && tracking.names().all(known);
        if usual {
            Shown::Usual
        } else {
            Shown::Asked(Rc::new(tracking))
        }
    }

    /// True for a change that goes to the client.
    pub fn shows(&self, change: &SessionChange<'_>) -> bool {
        match (self, change) {
            (Shown::Asked(tracking), _) => tracking.shows(change),
            (Shown::Usual, SessionChange::Variable { name, .. }) => USUAL.contains(name),
            (Shown::Usual, SessionChange::Gtids(_)) => false,
            (Shown::Usual | Shown::All, _) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracking(variables: &[u8], schema: bool) -> Tracking {
        Tracking {
            variables: variables.into(),
            schema,
            gtids: false,
        }
    }

    fn variable(name: &[u8]) -> SessionChange<'_> {
        SessionChange::Variable { name, value: b"1" }
    }

    #[test]
    fn a_session_hears_what_it_asked_for() {
        let some = tracking(b"sql_mode, Time_Zone", false);
        assert!(some.shows(&variable(b"sql_mode")) && some.shows(&variable(b"time_zone")));
        assert!(!some.shows(&variable(b"autocommit")));
        assert!(!some.shows(&SessionChange::Schema(b"a")));
        let gtids = SessionChange::Gtids(b"a:1");
        assert!(!some.shows(&gtids) && !Shown::Usual.shows(&gtids));
        let asked = Tracking {
            gtids: true,
            ..some
        };
        assert!(asked.shows(&gtids) && Shown::of(asked).shows(&gtids));
        assert!(tracking(b"*", true).shows(&variable(b"anything")));
        assert!(!tracking(b"", true).shows(&variable(b"autocommit")));
        assert!(tracking(b"", true).shows(&SessionChange::Schema(b"a")));
    }

    #[test]
    fn the_default_is_known_in_any_order() {
        let list = b"time_zone,autocommit,character_set_client,character_set_results,\
                     character_set_connection";
        assert_eq!(Shown::of(tracking(list, true)), Shown::Usual);
        assert_ne!(Shown::of(tracking(list, false)), Shown::Usual);
        assert_ne!(Shown::of(tracking(b"time_zone", true)), Shown::Usual);
        assert!(Shown::Usual.shows(&variable(b"autocommit")));
        assert!(!Shown::Usual.shows(&variable(b"sql_mode")));
        assert!(Shown::All.shows(&variable(b"sql_mode")));
    }
}
