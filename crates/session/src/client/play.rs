//! Commands that the router gives itself in the place of its client: what the client sent waits meanwhile.

use super::Client;
use crate::client::transcript::Transcript;
use mysql_wire::series::Series;
use std::ops::Range;

/// The current command while others are run once more.
pub(crate) struct Interrupted {
    muted: bool,
    heard: Option<Transcript>,
    inbox: Vec<u8>,
    attributes: Vec<u8>,
    place: Range<usize>,
    sequence: u8,
}

impl Client {
    /// Puts the current command aside, to run others, whose answers are not sent.
    pub(crate) fn begin_play(&mut self) -> Interrupted {
        let muted = std::mem::replace(&mut self.muted, true);
        Interrupted {
            muted,
            heard: self.heard.take(),
            place: self.place(),
            inbox: std::mem::take(&mut self.inbox),
            attributes: std::mem::take(&mut self.attributes),
            sequence: self.sequence,
        }
    }

    /// Puts the current command aside, to run several in its stead, whose answers become its own. Give
    /// each to [`Client::play_next`], and end by [`Client::end_series`].
    pub(crate) fn begin_series(&mut self) -> Interrupted {
        let interrupted = self.begin_play();
        self.muted = interrupted.muted;
        self.series = Some(Box::new(Series::new(self.capabilities)));
        interrupted
    }

    /// Makes this the current command; `more` come behind it.
    pub(crate) fn play_next(&mut self, frame: &[u8], more: bool) {
        self.play(frame);
        if let Some(series) = &mut self.series {
            series.begin(more);
        }
    }

    /// One of them was refused: no other may run.
    pub(crate) fn series_failed(&self) -> bool {
        self.series.as_ref().is_some_and(|series| series.failed())
    }

    pub(crate) fn end_series(&mut self, interrupted: Interrupted) {
        self.series = None;
        self.end_play(interrupted);
    }

    /// Keeps the answers of the commands that are played from now on, or no more; gives what was kept.
    pub(crate) fn hear(&mut self, heard: Option<Transcript>) -> Option<Transcript> {
        std::mem::replace(&mut self.heard, heard)
    }

    /// Makes this the current command.
    pub(crate) fn play(&mut self, frame: &[u8]) {
        self.play_owned(frame.to_vec());
    }

    /// The same without a copy.
    pub(crate) fn play_owned(&mut self, frame: Vec<u8>) {
        let all = 0..frame.len();
        self.inbox = frame;
        self.go_back(all);
    }

    /// The command that was put aside is the current one again.
    pub(crate) fn end_play(&mut self, interrupted: Interrupted) {
        self.muted = interrupted.muted;
        self.heard = interrupted.heard;
        self.inbox = interrupted.inbox;
        self.attributes = interrupted.attributes;
        self.go_back(interrupted.place);
        self.sequence = interrupted.sequence;
    }
}
