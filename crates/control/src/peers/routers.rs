//! The owner that asks the other routers: which way a question travels, and what this router shows them.

use std::sync::Arc;
use std::time::SystemTime;

use channel::Mutual;

use crate::background::Background;
use crate::context::Context;
use crate::leadership::election::Election;
use crate::peers::roster::Peer;
use crate::peers::way::{Way, Ways};
use catalog::Secret;

/// Asks the other routers of the farm.
pub(crate) struct PeerRouters {
    pub(super) context: Arc<Context>,
    pub(super) background: Arc<Background>,
    pub(super) election: Arc<Election>,
    ways: Ways,
}

impl PeerRouters {
    pub(crate) fn new(
        context: &Arc<Context>,
        background: &Arc<Background>,
        election: &Arc<Election>,
    ) -> PeerRouters {
        PeerRouters {
            context: Arc::clone(context),
            background: Arc::clone(background),
            election: Arc::clone(election),
            ways: Ways::default(),
        }
    }

    /// What this router shows its peers, and whom it takes for one.
    ///
    /// # Errors
    /// What the store has for the farm's authority is none; the text says what to do.
    pub(crate) fn mutual(&self) -> Result<Arc<Mutual>, String> {
        let authority = self.context.state().records.authority.clone();
        self.ways.mutual(&authority, SystemTime::now())
    }

    /// What routers of older releases show.
    pub(crate) fn secret(&self) -> Secret {
        self.context.state().records.secret.clone()
    }

    /// How a question to this peer is to travel, or why it is not asked.
    pub(super) fn way_to(&self, peer: &Peer) -> Result<Way, String> {
        if peer.tls {
            return Ok(Way::Tls(Arc::clone(&self.mutual()?.client)));
        }
        if !self.context.settings().peers.peers_in_clear {
            return Err(format!(
                "it runs {}, which speaks to peers in clear only; upgrade it, or set peers_in_clear = on on \
                 the upgraded routers until it is upgraded",
                version(peer)
            ));
        }
        self.warn_of(peer);
        Ok(Way::InClear(self.secret()))
    }

    /// Whether a question in clear that shows the farm's secret is to be answered: it is, where a router lives
    /// that can do no better and the operator said so.
    pub(crate) fn answers_in_clear(&self) -> bool {
        let roster = self.election.roster();
        let mut older = roster.others.iter().filter(|peer| !peer.tls).peekable();
        if self.context.settings().peers.peers_in_clear && older.peek().is_some() {
            older.for_each(|peer| self.warn_of(peer));
            return true;
        }
        if self.ways.is_news("") {
            tracing::warn!(
                "somebody showed the farm's secret over plain HTTP and was refused: a router of an older \
                 release, or who read the secret on its way; upgrade all routers of the farm, and take the \
                 secret as known"
            );
        }
        false
    }

    fn warn_of(&self, peer: &Peer) {
        if self.ways.is_news(&peer.id) {
            let (router, version) = (&peer.name, version(peer));
            tracing::warn!(
                router,
                version,
                "the farm's secret crosses the network in clear, because of this router and peers_in_clear; \
                 upgrade it, then set peers_in_clear = off"
            );
        }
    }
}

fn version(peer: &Peer) -> &str {
    match peer.version.as_str() {
        "" => "an older release",
        version => version,
    }
}
