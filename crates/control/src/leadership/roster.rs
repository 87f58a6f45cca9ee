//! Which routers live and who leads, for who asks peers and is asked by them.

use std::sync::Arc;

use tokio::sync::watch;

use super::Election;
use crate::peers::Roster;

impl Election {
    /// Who of the farm's routers live, as this one knows.
    pub(crate) fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.roster.borrow())
    }

    /// The same for whoever waits for a change of it.
    pub(crate) fn watch_roster(&self) -> watch::Receiver<Arc<Roster>> {
        self.roster.subscribe()
    }

    /// Takes over who lives and who leads.
    pub(crate) fn set_roster(&self, roster: Roster) {
        self.commander.set_alone(roster.others.is_empty());
        self.context.sessions.placed(roster.own.slot);
        self.dist_txns.place(roster.own.slot);
        self.roster.send_if_modified(|known| {
            let news = **known != roster;
            if news {
                *known = Arc::new(roster);
            }
            news
        });
    }
}
