//! Rows of a table that is to be sent, from the groups into the router, within their bound.

use super::carried::Loading;
use crate::scatter::feed::{Event, Feed};
use crate::scatter::feeds::Feeds;
use crate::scatter::rows::Trouble;

/// Why not all rows have come.
pub(super) enum Short {
    Groups(Trouble),
    /// There are more than were expected, the last of which is taken up, too.
    Bound,
}

/// Takes up the rows of all parts, as they come.
pub(super) async fn collect(feeds: &mut Feeds, loading: &mut Loading) -> Result<(), Short> {
    loop {
        for feed in &mut feeds.all {
            loop {
                match feed.step() {
                    Event::Row => {
                        if !loading.add(feed.row()) {
                            return Err(Short::Bound);
                        }
                    }
                    Event::Columns => {}
                    Event::Wait | Event::End => break,
                }
            }
        }
        if let Some(trouble) = feeds.trouble() {
            return Err(Short::Groups(trouble));
        }
        if feeds.all.iter().all(Feed::is_done) {
            return Ok(());
        }
        feeds.any().await;
    }
}
