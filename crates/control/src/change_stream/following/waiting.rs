//! Transactions that have been read, until they may be told.

use std::collections::VecDeque;

use changes::Ended;
use engine::binlog::Shown;

use crate::change_stream::source::Source;

/// Of the transactions that wait. Beyond it nothing is read.
const BYTES_MAX: usize = 32 << 20;
const COUNT_MAX: usize = 10_000;

/// Of those of a stream that has given up its reading.
const LEFT_BYTES: usize = 256 << 10;

/// Transactions that have been read and may not be told yet.
#[derive(Default)]
pub(in crate::change_stream) struct Waiting {
    all: VecDeque<Ended>,
    bytes: usize,
}

impl Waiting {
    pub(in crate::change_stream) fn add(&mut self, ended: Ended) {
        self.bytes += ended.bytes();
        self.all.push_back(ended);
    }

    pub(in crate::change_stream) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(in crate::change_stream) fn len(&self) -> usize {
        self.all.len()
    }

    /// More may be read.
    pub(in crate::change_stream) fn has_room(&self) -> bool {
        self.bytes < BYTES_MAX && self.all.len() < COUNT_MAX
    }

    /// Keeps the first ones alone: the others are read once more.
    pub(super) fn shrink(&mut self) {
        while self.bytes > LEFT_BYTES
            && let Some(last) = self.all.pop_back()
        {
            self.bytes -= last.bytes();
        }
    }

    /// The first one, if the server shows it and it is as safe as an acknowledged commit.
    pub(in crate::change_stream) fn next_shown(
        &mut self,
        shown: &Shown,
        source: &Source,
    ) -> Option<Ended> {
        self.all.front().filter(|ended| {
            let place = (ended.place.0.as_str(), ended.place.1);
            shown.has(&ended.gtid, place) && source.is_acknowledged(&ended.gtid)
        })?;
        let ended = self.all.pop_front()?;
        self.bytes -= ended.bytes();
        Some(ended)
    }
}
