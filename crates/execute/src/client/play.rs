//! Requests of Heddle's own in the place of a client's: what the client sent waits meanwhile.

use mysql_wire::series::Series;

use super::Client;
use crate::client::request::Request;
use crate::client::sink::Outlet;
use crate::client::transcript::Transcript;

/// The current command while others are run.
pub struct Interrupted {
    outlet: Outlet,
    request: Request,
    sequence: u8,
}

impl Client {
    /// Puts the current command aside, to run others, whose answers go nowhere.
    pub fn begin_play(&mut self) -> Interrupted {
        self.interrupt(Outlet::Nowhere)
    }

    /// Puts the current command aside, to run this one, whose answer [`Client::end_heard`] gives.
    pub fn begin_heard(&mut self, request: Request) -> Interrupted {
        let interrupted = self.interrupt(Outlet::Kept(Box::default()));
        self.play(request);
        interrupted
    }

    /// Puts the current command aside, to run several in its stead, whose answers become its own. Give
    /// each to [`Client::play_next`], and end by [`Client::end_series`].
    pub fn begin_series(&mut self) -> Interrupted {
        let mut interrupted = self.interrupt(Outlet::Nowhere);
        let series = Box::new(Series::new(self.capabilities));
        let to = std::mem::take(&mut interrupted.outlet);
        self.outlet = Outlet::Merged(series, Box::new(to));
        interrupted
    }

    fn interrupt(&mut self, outlet: Outlet) -> Interrupted {
        Interrupted {
            outlet: std::mem::replace(&mut self.outlet, outlet),
            request: std::mem::take(&mut self.request),
            sequence: self.sequence,
        }
    }

    /// Makes this the current command; `more` come behind it.
    pub fn play_next(&mut self, request: Request, more: bool) {
        self.play(request);
        if let Outlet::Merged(series, _) = &mut self.outlet {
            series.begin(more);
        }
    }

    /// One of them was refused: no other may run.
    pub fn series_failed(&self) -> bool {
        matches!(&self.outlet, Outlet::Merged(series, _) if series.failed())
    }

    pub fn end_series(&mut self, mut interrupted: Interrupted) {
        if let Outlet::Merged(_, to) = std::mem::take(&mut self.outlet) {
            interrupted.outlet = *to;
        }
        self.end_play(interrupted);
    }

    /// Makes this the current command.
    pub fn play(&mut self, request: Request) {
        self.request = request;
        self.sequence = 1;
    }

    /// The command that was parked is the current one again. Gives what the other answered.
    pub fn end_heard(&mut self, interrupted: Interrupted) -> Transcript {
        let outlet = std::mem::take(&mut self.outlet);
        self.end_play(interrupted);
        outlet.into_transcript()
    }

    /// The command that was parked is the current one again.
    pub fn end_play(&mut self, interrupted: Interrupted) {
        self.outlet = interrupted.outlet;
        self.request = interrupted.request;
        self.sequence = interrupted.sequence;
    }
}
