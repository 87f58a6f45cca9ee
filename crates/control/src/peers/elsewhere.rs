//! Commands that are for another router: what only the leader does.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{Asking, Leads, Peer, PeerError, Question, Roster};
use crate::commands::{Call, CommandError, Table};
use crate::runtime::Control;

/// A command at the leader may take so long; then nobody knows what became of it.
const FORWARDED_MAX: Duration = Duration::from_secs(300);

impl Control {
    /// Who of the farm's routers live, as this one knows.
    pub fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.roster.borrow())
    }

    /// The same for whoever waits for a change of it.
    pub fn watch_roster(&self) -> watch::Receiver<Arc<Roster>> {
        self.roster.subscribe()
    }

    /// Takes over who lives and who leads.
    pub fn set_roster(&self, roster: Roster) {
        self.commander().set_alone(roster.others.is_empty());
        self.sessions.placed(roster.own.slot);
        self.crossings.place(roster.own.slot);
        self.roster.send_if_modified(|known| {
            let news = **known != roster;
            if news {
                *known = Arc::new(roster);
            }
            news
        });
    }

    /// Asks one peer.
    pub(crate) fn asking(
        &self,
        peer: &Peer,
        call: Call,
        limit: Duration,
    ) -> Asking<Result<Table, PeerError>> {
        let way = match self.way_to(peer) {
            Ok(way) => way,
            Err(why) => return Box::pin(std::future::ready(Err(PeerError::Unreached(why)))),
        };
        self.settings().peers.ask(Question {
            peer: peer.clone(),
            way,
            call,
            limit,
        })
    }

    /// Has the leader carry a command out, when that is another router: `None` when it is this one.
    /// A leader that is replaced meanwhile is not waited for.
    pub(crate) async fn have_leader(&self, call: &Call) -> Option<Result<Table, CommandError>> {
        let mut roster = self.watch_roster();
        let leader = {
            let known = roster.borrow_and_update();
            match (known.leads, known.leader()) {
                (Leads::Here, _) => return None,
                (_, Some(leader)) if !call.from_peer => Arc::clone(leader),
                _ => return Some(Err(nobody_leads(call))),
            }
        };
        let moved = async {
            let still = |known: &Arc<Roster>| known.leader().is_some_and(|now| now.id == leader.id);
            // An error means that the control plane ends, which cuts its commands by itself.
            let _ = roster.wait_for(|known| !still(known)).await;
        };
        let answer = tokio::select! {
            answer = self.asking(&leader, call.clone(), FORWARDED_MAX) => answer,
            () = moved => Err(PeerError::Silent("it does not lead any more".to_owned())),
        };
        let (name, verb) = (&leader.name, format!("{} {}", call.group, call.command));
        Some(answer.map_err(|error| match error {
            PeerError::Command(error) => error,
            PeerError::Silent(_) => CommandError::Internal(format!(
                "router {name} leads the farm, but {error}; `{verb}` may have been done: look \
                 (`group health`, `group events`) before you repeat it"
            )),
            _ => CommandError::Internal(format!(
                "router {name} leads the farm, but {error}; nothing was done, repeat `{verb}` when \
                 another router leads"
            )),
        }))
    }
}

fn nobody_leads(call: &Call) -> CommandError {
    let why = if call.from_peer {
        "this router leads the farm no more"
    } else {
        "no router leads the farm now"
    };
    CommandError::Refused(format!(
        "{why}, and `{} {}` is the leader's; repeat it in a few seconds, or see why the routers do \
         not reach their store",
        call.group, call.command
    ))
}
