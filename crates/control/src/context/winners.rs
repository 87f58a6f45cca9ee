//! Who is about to lead each group: the winners of changes of primary that are not over.
//!
//! Whoever has something to do on the next primary begins while it is being prepared. A winner has applied everything
//! that it received of the primary before. It may still fail; then somebody is named anew, who may be the same server
//! and hold more by then.
//!
//! Must not know: how a winner is chosen, and what is done with its name.

use std::collections::HashMap;

use tokio::sync::watch;

/// A server as it was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Winner {
    pub(crate) id: u32,
    /// No two namings of a group have the same.
    naming: u64,
}

/// What is known of one group.
#[derive(Debug, Default)]
struct Of {
    /// How often somebody was named.
    namings: u64,
    now: Option<Winner>,
}

/// The winners, by group.
#[derive(Debug)]
pub(crate) struct Winners(watch::Sender<HashMap<String, Of>>);

impl Default for Winners {
    fn default() -> Winners {
        Winners(watch::Sender::new(HashMap::new()))
    }
}

impl Winners {
    /// This server has applied all that it received, and is being prepared to lead the group.
    pub(crate) fn name(&self, group: &str, id: u32) {
        self.0.send_modify(|all| {
            let of = all.entry(group.to_owned()).or_default();
            of.namings += 1;
            let naming = of.namings;
            of.now = Some(Winner { id, naming });
        });
    }

    /// Nobody is about to lead the group: its primary was published, or who was named failed.
    pub(crate) fn forget(&self, group: &str) {
        self.0.send_if_modified(|all| {
            let of = all.get_mut(group);
            of.is_some_and(|of| of.now.take().is_some())
        });
    }

    /// Who is about to lead the group.
    pub(crate) fn of(&self, group: &str) -> Option<Winner> {
        self.0.borrow().get(group)?.now
    }

    /// True while nobody was named for the group since.
    pub(crate) fn is_last(&self, group: &str, winner: Winner) -> bool {
        let all = self.0.borrow();
        all.get(group).is_some_and(|of| of.namings == winner.naming)
    }

    /// Wakes whoever waits for a winner or for its publication.
    pub(crate) fn watch(&self) -> Watching {
        let mut turns = self.0.subscribe();
        turns.borrow_and_update();
        Watching(turns)
    }
}

/// Hears of the next naming, and of the next end of one.
pub(crate) struct Watching(watch::Receiver<HashMap<String, Of>>);

impl Watching {
    pub(crate) async fn turned(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_waits_hears_of_a_winner_and_of_its_publication() {
        let winners = Winners::default();
        let mut watching = winners.watch();
        winners.name("g", 2);
        watching.turned().await;
        assert_eq!(winners.of("g").map(|it| it.id), Some(2));
        assert_eq!(winners.of("h"), None);
        winners.forget("g");
        watching.turned().await;
        assert_eq!(winners.of("g"), None);
    }

    #[test]
    fn who_is_named_again_is_another_winner() {
        let winners = Winners::default();
        winners.name("g", 2);
        let first = winners.of("g").expect("named");
        winners.forget("g");
        assert!(winners.is_last("g", first), "it was published");
        winners.name("g", 2);
        assert!(!winners.is_last("g", first));
        assert_ne!(winners.of("g"), Some(first));
    }
}
