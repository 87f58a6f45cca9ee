//! Rows on their way from the groups into a scratch table, within their bounds.

use std::time::Duration;

use backend::{Connection, ConnectionError, Lease};
use execute::per_core::Core;
use execute::settings::Gathering;
use mysql_wire::capability::Capabilities;
use planner::Volume;

use super::feed::{Event, Feed};
use super::feeds::Feeds;
use super::filling::Filling;
use super::filling::seen::Seen;
use super::result_writer::Described;
use super::rows::Trouble;

/// The number of the error.
const DUPLICATE: u16 = 1062;

/// Why rows are not where they should be.
pub(super) enum Stop {
    /// Of the groups.
    Groups(Trouble),
    /// Of the scratch server.
    Scratch(ConnectionError),
    /// The scratch server has not stored a file as it was sent.
    Inexact,
    /// Too many: the setting, and what it allows.
    Bound(&'static str, u64),
    /// It takes too long.
    Late,
}

impl Stop {
    /// A row's values in a unique key of the table are there already.
    pub(super) fn is_duplicate(&self) -> bool {
        matches!(
            self,
            Stop::Scratch(ConnectionError::Refused {
                number: DUPLICATE,
                ..
            })
        )
    }
}

/// Rows and bytes so far, what bounds them, and how the client's text is described.
pub(super) struct Fetched {
    pub rows: u64,
    pub bytes: u64,
    pub bounds: Gathering,
    /// By the core's clock; `None` without a bound.
    pub deadline_us: Option<u64>,
    /// The client's text, until a group has described it.
    pub text: Option<Vec<u8>>,
    pub described: Described,
    /// Values of the fragment that came last.
    pub seen: Vec<Seen>,
    /// What each fragment gave, where that is worth knowing, and the statement itself.
    pub volumes: Vec<Volume>,
    pub result: Option<Volume>,
}

impl Fetched {
    /// Nothing yet. `text`: the client's, which is still to be described.
    pub(super) fn new(
        bounds: Gathering,
        deadline_us: Option<u64>,
        text: Option<Vec<u8>>,
    ) -> Fetched {
        Fetched {
            rows: 0,
            bytes: 0,
            bounds,
            deadline_us,
            text,
            described: Described::default(),
            seen: Vec::new(),
            volumes: Vec::new(),
            result: None,
        }
    }

    /// Asks a group how the client's text is described. One that lacks a table of it does not say.
    pub(super) async fn describe(&mut self, lease: Option<&mut Lease>) {
        let Some(text) = &self.text else {
            return;
        };
        if let Some(described) = described_by(lease, text).await {
            self.take_up(described);
        }
    }

    /// The client's text has been described.
    pub(super) fn take_up(&mut self, described: Described) {
        self.described = described;
        self.text = None;
    }

    /// What is left of the time.
    pub(super) fn left(&self, core: &Core) -> Option<Duration> {
        let left_us = self.deadline_us?.saturating_sub(core.now_us());
        Some(Duration::from_micros(left_us))
    }
}

/// How a group describes a text; `None` where it does not.
pub(super) async fn described_by(lease: Option<&mut Lease>, text: &[u8]) -> Option<Described> {
    let connection = lease?.connection_mut();
    let columns = connection.describe(text).await.ok()?;
    Some(Described {
        columns,
        from: connection.capabilities | Capabilities::DEPRECATE_EOF,
    })
}

/// Puts the rows of all parts into the table, as they come.
pub(super) async fn pour(
    core: &Core,
    feeds: &mut Feeds,
    filling: &mut Filling<'_>,
    scratch: &mut Connection,
    fetched: &mut Fetched,
) -> Result<(), Stop> {
    let (rows, bytes) = (fetched.rows, fetched.bytes);
    loop {
        for at in 0..feeds.all.len() {
            loop {
                let feed = &mut feeds.all[at];
                match feed.step() {
                    Event::Row => {
                        let full = filling.loader.add(feed.row());
                        let full = full.map_err(|odd| Stop::Groups(odd.into()))?;
                        fetched.rows = rows + filling.loader.rows;
                        fetched.bytes = bytes + filling.loader.bytes;
                        fetched
                            .bounds
                            .allow(fetched.rows, fetched.bytes)
                            .map_err(|(name, most)| Stop::Bound(name, most))?;
                        if full {
                            feeds.nudge().await;
                            filling.store(scratch).await?;
                        }
                    }
                    Event::Columns => {}
                    Event::Wait | Event::End => break,
                }
            }
        }
        if let Some(trouble) = feeds.trouble() {
            return Err(Stop::Groups(trouble));
        }
        if feeds.all.iter().all(Feed::is_done) {
            // Also where all rows had come before.
            fetched.rows = rows + filling.loader.rows;
            fetched.bytes = bytes + filling.loader.bytes;
            return filling.finish(scratch).await;
        }
        match fetched.left(core) {
            None => feeds.any().await,
            Some(left) => {
                let more = reactor::timeout(left, feeds.any()).await;
                more.filter(|()| !left.is_zero()).ok_or(Stop::Late)?;
            }
        }
    }
}
