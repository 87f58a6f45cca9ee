//! Where a reply goes: to the client, into a buffer, through what makes one reply of several, or nowhere.
//!
//! Who answers takes a [`ReplySink`] and does not know which of them it is. What Heddle itself answers comes
//! here as a value: packets are made of it for a client only, and a buffer keeps it as it is.

pub mod buffer;

use std::io;
use std::ops::Range;

use memory::Reservation;
use mysql_wire::reply::{ErrPacket, OkPacket};
use mysql_wire::series::Series;
use mysql_wire::status::Status;

use crate::client::end::End;
use crate::client::transcript::Transcript;

/// The values of a row, `None` for NULL.
pub type Row = Vec<Option<Vec<u8>>>;

/// Takes one reply after the other, in order.
// A session stays on its core: nobody needs these futures to be `Send`.
#[allow(async_fn_in_trait)]
pub trait ReplySink {
    /// Takes whole packets, or pieces of one, of a reply that servers give. The buffer comes back.
    async fn send(&mut self, buffer: Vec<u8>, range: Range<usize>) -> (io::Result<()>, Vec<u8>);

    /// Takes whole packets.
    async fn say(&mut self, out: Vec<u8>) -> Result<(), End> {
        let all = 0..out.len();
        let (sent, _) = self.send(out, all).await;
        sent.map_err(|_| End::Gone)
    }

    /// Takes an OK of Heddle's own.
    async fn answer_ok(&mut self, ok: &OkPacket<'_>) -> Result<(), End>;

    /// Takes an error, of Heddle's own or as a server gave it on the client's behalf. Behind a part of a
    /// reply it is the end of that.
    async fn answer_error(&mut self, refusal: &ErrPacket<'_>) -> Result<(), End>;

    /// Takes rows of Heddle's own, of text; there is at least one column.
    async fn answer_rows(
        &mut self,
        columns: &[&str],
        rows: &[Row],
        status: Status,
    ) -> Result<(), End>;
}

/// Where the replies to the current command go.
#[derive(Default)]
pub(super) enum Outlet {
    #[default]
    Client,
    /// Commands of before are run once more.
    Nowhere,
    /// Whoever runs a statement of Heddle's own wants it. Boxed: each client has an outlet, and few have this one.
    Kept(Box<Transcript>),
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
    pub fn pass(&mut self, part: &[u8], budget: &Reservation) -> Option<Vec<u8>> {
        match self {
            Outlet::Client => Some(part.to_vec()),
            Outlet::Nowhere => None,
            Outlet::Kept(transcript) => {
                transcript.add(part, budget);
                None
            }
            Outlet::Merged(series, to) => {
                let passed = series.pass(part);
                match to.is_client() {
                    true => Some(passed),
                    false => to.pass(&passed, budget),
                }
            }
        }
    }

    /// True when the OK needs no packet: it is kept, or nobody wants it.
    pub fn keeps_ok(&mut self, ok: &OkPacket<'_>) -> bool {
        match self {
            Outlet::Client | Outlet::Merged(..) => false,
            Outlet::Nowhere => true,
            Outlet::Kept(transcript) => transcript.keep_ok(ok),
        }
    }

    /// The same for an error.
    pub fn keeps_error(&mut self, refusal: &ErrPacket<'_>) -> bool {
        match self {
            Outlet::Client | Outlet::Merged(..) => false,
            Outlet::Nowhere => true,
            Outlet::Kept(transcript) => transcript.keep_error(refusal),
        }
    }

    /// The same for rows; `budget` as with [`Outlet::pass`].
    pub fn keeps_rows(&mut self, columns: &[&str], rows: &[Row], budget: &Reservation) -> bool {
        match self {
            Outlet::Client | Outlet::Merged(..) => false,
            Outlet::Nowhere => true,
            Outlet::Kept(transcript) => transcript.keep_rows(columns, rows, budget),
        }
    }

    /// What was kept.
    pub fn into_transcript(self) -> Transcript {
        match self {
            Outlet::Kept(transcript) => *transcript,
            _ => Transcript::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use memory::{Budget, Purpose};
    use mysql_wire::packet;

    use super::buffer::CAPABILITIES;
    use super::*;
    use crate::client::heard::Heard;

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
        assert_eq!(Outlet::Nowhere.pass(&reply, &budget), None);
        let mut kept = Outlet::Kept(Box::default());
        assert_eq!(kept.pass(&reply, &budget), None);
        assert!(matches!(kept.into_transcript().heard(CAPABILITIES), Heard::Ok { .. }));
    }

    #[test]
    fn an_answer_of_our_own_becomes_packets_for_a_client_only() {
        let ok = &OkPacket::new(Status::AUTOCOMMIT);
        let refusal = &ErrPacket::new(1105, b"no");
        for mut outlet in [Outlet::Client, merged(Outlet::Kept(Box::default()))] {
            assert!(!outlet.keeps_ok(ok));
            assert!(!outlet.keeps_error(refusal));
            assert!(!outlet.keeps_rows(&["a"], &[], &budget()));
        }
        assert!(Outlet::Nowhere.keeps_ok(ok));
        assert!(Outlet::Nowhere.keeps_error(refusal));
        assert!(Outlet::Nowhere.keeps_rows(&["a"], &[], &budget()));
        let mut kept = Outlet::Kept(Box::default());
        assert!(kept.keeps_error(refusal));
        let Heard::Refused(heard) = kept.into_transcript().heard(CAPABILITIES) else {
            panic!("an error was said");
        };
        assert_eq!((heard.number, &*heard.message), (1105, &b"no"[..]));
    }

    #[test]
    fn a_series_in_the_place_of_one_statement_of_a_series_is_a_part_of_it() {
        let (budget, reply) = (budget(), ok(1, Status::AUTOCOMMIT));
        let more = |sequence| ok(sequence, Status::AUTOCOMMIT | Status::MORE_RESULTS);
        let mut outer = merged(Outlet::Client);
        begin(&mut outer, true);
        assert_eq!(outer.pass(&reply, &budget), Some(more(1)));
        begin(&mut outer, true);
        let mut inner = merged(outer);
        begin(&mut inner, false);
        assert_eq!(inner.pass(&reply, &budget), Some(more(2)));
        let Outlet::Merged(_, mut outer) = inner else {
            panic!("it was made so");
        };
        begin(&mut outer, false);
        let last = ok(3, Status::AUTOCOMMIT);
        assert_eq!(outer.pass(&reply, &budget), Some(last));
    }

    #[test]
    fn a_series_of_a_statement_that_is_heard_is_heard() {
        let (budget, reply) = (budget(), ok(1, Status::AUTOCOMMIT));
        let mut outlet = merged(Outlet::Kept(Box::default()));
        begin(&mut outlet, false);
        assert_eq!(outlet.pass(&reply, &budget), None);
        let Outlet::Merged(_, to) = outlet else {
            panic!("it was made so");
        };
        assert!(matches!(to.into_transcript().heard(CAPABILITIES), Heard::Ok { .. }));
    }
}
