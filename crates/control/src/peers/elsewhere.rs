//! Commands that are for another router: what only the leader does.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::peers::roster::{Leads, Peer, Roster};
use crate::peers::routers::PeerRouters;
use crate::peers::transport::{Asking, PeerError, Question};
use catalog::command::{Call, CommandError, Table};

/// A command at the leader may take so long; then nobody knows what became of it.
const FORWARDED_MAX: Duration = Duration::from_secs(300);

impl PeerRouters {
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
        self.context.settings().peers.transport.ask(Question {
            peer: peer.clone(),
            way,
            call,
            limit,
        })
    }

    /// Asks all other routers, as below.
    pub(crate) async fn ask_all(&self, call: &Call) -> Vec<(Arc<Peer>, Result<Table, PeerError>)> {
        self.ask_these(self.election.roster().others.clone(), call)
            .await
    }

    /// The names of the routers that live, this one's first.
    pub(crate) fn names(&self) -> Vec<String> {
        let roster = self.election.roster();
        roster.names().into_iter().map(str::to_owned).collect()
    }

    /// Asks these peers at once; each has `peer_timeout_ms`. In the order of their slots.
    pub(crate) async fn ask_these(
        &self,
        peers: Vec<Arc<Peer>>,
        call: &Call,
    ) -> Vec<(Arc<Peer>, Result<Table, PeerError>)> {
        let limit = Duration::from_millis(self.context.settings().peers.peer_timeout_ms);
        let mut asking = JoinSet::new();
        for peer in peers {
            let answer = self.asking(&peer, call.clone(), limit);
            asking.spawn(async move { (peer, answer.await) });
        }
        let mut answers = asking.join_all().await;
        answers.sort_by_key(|(peer, _)| peer.slot);
        answers
    }

    /// Has the leader carry a command out, when that is another router: `None` when it is this one.
    /// A leader that is replaced meanwhile is not waited for.
    pub(crate) async fn have_leader(&self, call: &Call) -> Option<Result<Table, CommandError>> {
        let mut roster = self.election.watch_roster();
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
