//! Where the packets of a reply go: to the client, into a buffer, through what makes one reply of several, or
//! nowhere.
//!
//! Who writes a reply takes a [`ReplySink`] and does not know which of them it is.

use std::io;
use std::ops::Range;

use memory::Reservation;
use mysql_wire::capability::Capabilities;
use mysql_wire::series::Series;

use crate::client::end::End;
use crate::client::transcript::Transcript;

/// Takes the packets of one reply after the other, in order.
pub(crate) trait ReplySink {
    /// Takes whole packets, or pieces of one. The buffer comes back.
    async fn send(&mut self, buffer: Vec<u8>, range: Range<usize>) -> (io::Result<()>, Vec<u8>);

    /// Takes whole packets.
    async fn say(&mut self, out: Vec<u8>) -> Result<(), End> {
        let all = 0..out.len();
        let (sent, _) = self.send(out, all).await;
        sent.map_err(|_| End::Gone)
    }
}

/// Where the replies to the current command go.
#[derive(Default)]
pub(super) enum Outlet {
    #[default]
    Client,
    /// Commands of before are run once more.
    Nowhere,
    /// Whoever runs a statement of Heddle's own wants it.
    Kept(Transcript),
    /// The replies to several commands become that to one, which goes there.
    Merged(Box<Series>, Box<Outlet>),
}

impl Outlet {
    /// The packets are sent as they are.
    pub fn is_client(&self) -> bool {
        matches!(self, Outlet::Client)
    }

    /// What is for the client after this part of a reply; `None` where nothing ever is. `budget` is any
    /// reservation of the budget that what is kept is taken from.
    pub fn pass(
        &mut self,
        part: &[u8],
        budget: &Reservation,
        capabilities: Capabilities,
    ) -> Option<Vec<u8>> {
        match self {
            Outlet::Client => Some(part.to_vec()),
            Outlet::Nowhere => None,
            Outlet::Kept(transcript) => {
                transcript.add(part, budget, capabilities);
                None
            }
            Outlet::Merged(series, to) => {
                let passed = series.pass(part);
                match to.is_client() {
                    true => Some(passed),
                    false => to.pass(&passed, budget, capabilities),
                }
            }
        }
    }

    /// What was kept.
    pub fn into_transcript(self) -> Transcript {
        match self {
            Outlet::Kept(transcript) => transcript,
            _ => Transcript::default(),
        }
    }
}

/// A buffer takes all there is.
#[cfg(test)]
impl ReplySink for Vec<u8> {
    async fn send(&mut self, buffer: Vec<u8>, range: Range<usize>) -> (io::Result<()>, Vec<u8>) {
        self.extend_from_slice(&buffer[range]);
        (Ok(()), buffer)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory::{Budget, Purpose};
    use mysql_wire::packet;
    use mysql_wire::reply::OkPacket;
    use mysql_wire::status::Status;

    use super::*;

    const CAPABILITIES: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF);

    fn budget() -> Reservation {
        Reservation::new(&Arc::new(Budget::new(1 << 20)), Purpose::Packets)
    }

    /// The answer to one command.
    fn ok(sequence: u8, status: Status) -> Vec<u8> {
        let mut out = Vec::new();
        packet::write_with(&mut out, &mut sequence.clone(), |payload| {
            OkPacket::new(status).encode(payload, CAPABILITIES);
        });
        out
    }

    fn merged(to: Outlet) -> Outlet {
        Outlet::Merged(Box::new(Series::new(CAPABILITIES)), Box::new(to))
    }

    fn begin(outlet: &mut Outlet, more: bool) {
        if let Outlet::Merged(series, _) = outlet {
            series.begin(more);
        }
    }

    #[test]
    fn what_is_kept_or_goes_nowhere_is_not_for_the_client() {
        let (budget, reply) = (budget(), ok(1, Status::AUTOCOMMIT));
        assert_eq!(Outlet::Nowhere.pass(&reply, &budget, CAPABILITIES), None);
        let mut kept = Outlet::Kept(Transcript::default());
        assert_eq!(kept.pass(&reply, &budget, CAPABILITIES), None);
        assert_eq!(kept.pass(&reply, &budget, CAPABILITIES), None);
        assert_eq!(kept.into_transcript().bytes(), [&*reply, &*reply].concat());
    }

    #[test]
    fn a_series_in_the_place_of_one_statement_of_a_series_is_a_part_of_it() {
        let (budget, reply) = (budget(), ok(1, Status::AUTOCOMMIT));
        let more = |sequence| ok(sequence, Status::AUTOCOMMIT | Status::MORE_RESULTS);
        let mut outer = merged(Outlet::Client);
        begin(&mut outer, true);
        assert_eq!(outer.pass(&reply, &budget, CAPABILITIES), Some(more(1)));
        begin(&mut outer, true);
        let mut inner = merged(outer);
        begin(&mut inner, false);
        assert_eq!(inner.pass(&reply, &budget, CAPABILITIES), Some(more(2)));
        let Outlet::Merged(_, mut outer) = inner else {
            panic!("it was made so");
        };
        begin(&mut outer, false);
        let last = ok(3, Status::AUTOCOMMIT);
        assert_eq!(outer.pass(&reply, &budget, CAPABILITIES), Some(last));
    }

    #[test]
    fn a_series_of_a_statement_that_is_heard_is_heard() {
        let (budget, reply) = (budget(), ok(1, Status::AUTOCOMMIT));
        let mut outlet = merged(Outlet::Kept(Transcript::default()));
        begin(&mut outlet, false);
        assert_eq!(outlet.pass(&reply, &budget, CAPABILITIES), None);
        let Outlet::Merged(_, to) = outlet else {
            panic!("it was made so");
        };
        assert_eq!(to.into_transcript().bytes(), reply);
    }
}
