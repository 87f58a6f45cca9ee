//! A follower and its group's timelines: what a failover took back is said, and nothing is told behind it.

use super::{Follower, Trouble};
use crate::change_stream::gap::Gap;
use crate::change_stream::source::Primary;
use crate::change_stream::taken_back;

impl Follower {
    /// Checks that the server's timeline has what was told.
    pub(super) async fn enter_timeline(&self, primary: &Primary) -> Result<(), Trouble> {
        let group = &self.source.group;
        let mut outlet = self.outlet.lock().await;
        if let Some(place) = outlet.place(group) {
            let kept = self.source.check(&self.source.farm(), place);
            kept.map_err(|error| Trouble::Undone(taken_back(&error)))?;
            outlet.on_timeline(group, primary.timeline);
        }
        Ok(())
    }

    /// What was told and is there no more.
    pub(super) async fn undone(&self) -> Option<Gap> {
        let outlet = self.outlet.lock().await;
        self.source.lost(outlet.place(&self.source.group)?)
    }
}
