//! Ends what is not wanted any more: the rest of long replies, and the parts of a statement that has
//! failed elsewhere.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use execute::per_core::Core;
use execute::per_core::handle::Handle;
use mysql_wire::command::Command;

use super::feed::{Event, Feed};
use super::feeds::Feeds;

/// So many receives of each part are thrown away before its server is stopped.
const THROWN_MAX: usize = 4;

/// A server that was stopped has so long to say so.
const STOP_MAX: Duration = Duration::from_secs(10);

/// Brings every part to its end. `late`: they may still be far from it, and are stopped.
pub(crate) async fn end_feeds(core: &Rc<Core>, handle: &Rc<Handle>, feeds: &mut Feeds, late: bool) {
    let patience = if late { 0 } else { THROWN_MAX };
    for _ in 0..patience {
        if throw_away(feeds) {
            return;
        }
        feeds.any().await;
    }
    if throw_away(feeds) {
        return;
    }
    let under_way = feeds.all.iter().filter(|feed| !feed.is_done());
    let on: Vec<(farm::ServerId, u32)> = under_way.map(|feed| feed.on).collect();
    let kills = on.iter().map(|&(server, thread_id)| {
        let (core, handle) = (core.clone(), handle.clone());
        let text = format!("KILL QUERY {thread_id}");
        let kill = async move { core.kill_at_server(&handle, server, &text).await };
        Box::pin(kill) as Pin<Box<dyn Future<Output = ()>>>
    });
    let stop = async {
        all(kills.collect()).await;
        while !throw_away(feeds) {
            feeds.any().await;
        }
    };
    // Who does not stop is closed, for its reply is unread.
    let _ = reactor::timeout(STOP_MAX, stop).await;
    for feed in feeds.all.iter_mut().filter(|feed| on.contains(&feed.on)) {
        if feed.is_done() {
            settle_kill(feed).await;
        }
    }
}

/// Throws away what has come; true when nothing comes any more.
fn throw_away(feeds: &mut Feeds) -> bool {
    let mut over = true;
    for feed in &mut feeds.all {
        loop {
            match feed.step() {
                Event::End => break,
                Event::Wait => {
                    over = false;
                    break;
                }
                Event::Columns | Event::Row => {}
            }
        }
    }
    over
}

/// A KILL QUERY that came when the statement had just ended would hit the next one.
async fn settle_kill(feed: &mut Feed) {
    if let Some(lease) = feed.lease() {
        let _ = lease.connection_mut().run(&[(Command::Query, b"DO 0")]).await;
    }
}

/// Runs all to their ends, at the same time.
pub(crate) async fn all<'f>(mut futures: Vec<Pin<Box<dyn Future<Output = ()> + 'f>>>) {
    poll_fn(|context| {
        futures.retain_mut(|future| future.as_mut().poll(context).is_pending());
        match futures.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}
