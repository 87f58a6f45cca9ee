//! Rows that were fetched to be sent, for a gather that is done instead: no server is asked for them twice.
//!
//! Invariants: rows are handed over where the gather would fetch the same ones by the same text. A fetch that is under way
//! goes on where it is.

use backend::Connection;
use execute::execution::exec::Run;
use execute::session::Session;
use planner::{Answer, Finish, Merging, Part, Sending};

use super::carried::Loading;
use crate::scatter::feeds::Feeds;
use crate::scatter::filling::Filling;
use crate::scatter::parts::{self, Done, Taken};
use crate::scatter::pour::{Fetched, Stop};
use crate::scatter::result_writer::Described;
use crate::scatter::{Scatter, Wanted, end_scatter, stop};

/// What a gather may take up.
#[derive(Default)]
pub(crate) struct Begun {
    tables: Vec<Table>,
    /// The columns of the client's text, where a group has told them.
    pub described: Option<Described>,
}

/// The rows of one fragment of the gather.
pub(crate) struct Table {
    at: usize,
    pub rows: Loading,
    /// More are on their way.
    pub open: Option<Box<Open>>,
}

/// A fetch that is under way.
pub(crate) struct Open {
    pub scatter: Scatter,
    pub(in crate::scatter) taken: Vec<Taken>,
    pub feeds: Feeds,
}

impl Begun {
    /// Takes up the rows of a table that was to be sent, all that there are, or those that have come so far. Gives back
    /// what is under way for nothing.
    pub fn add(
        &mut self,
        sending: &Sending,
        at: usize,
        rows: Loading,
        open: Option<Box<Open>>,
    ) -> Option<Box<Open>> {
        match place(sending, at) {
            Some(place) => {
                let table = Table {
                    at: place,
                    rows,
                    open,
                };
                self.tables.push(table);
                None
            }
            None => open,
        }
    }

    /// Nothing of the gather is there.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The gather's order, behind what is there: first what is under way.
    pub fn order(&self, order: &[usize]) -> Vec<usize> {
        let (open, whole): (Vec<&Table>, Vec<&Table>) =
            self.tables.iter().partition(|it| it.open.is_some());
        let begun: Vec<usize> = open.into_iter().chain(whole).map(|it| it.at).collect();
        let rest = order.iter().copied().filter(|at| !begun.contains(at));
        begun.iter().copied().chain(rest).collect()
    }

    /// The rows of this fragment of the gather.
    pub fn take(&mut self, at: usize) -> Option<Table> {
        let found = self.tables.iter().position(|it| it.at == at)?;
        Some(self.tables.swap_remove(found))
    }

    /// Ends what is under way. True where something was.
    pub async fn give_up(self, session: &mut Session, run: &Run) -> bool {
        let mut any = false;
        for open in self.tables.into_iter().filter_map(|it| it.open) {
            open.give_up(session, run).await;
            any = true;
        }
        any
    }
}

impl Open {
    /// Ends the fetch; its rows are not wanted.
    pub async fn give_up(mut self: Box<Self>, session: &mut Session, run: &Run) {
        stop::end_feeds(&session.core, &session.handle, &mut self.feeds, true).await;
        end_scatter(&session.handle, &mut session.run);
        let done = Done::of(self.taken, self.feeds, &mut session.run.profile);
        parts::leave_parts(session, run, done);
    }

    /// A fetch that is over.
    pub fn over() -> Open {
        Open {
            scatter: Scatter {
                parts: Vec::new(),
                answer: Wanted::Rows(Merging::default()),
                clock: false,
                carried: None,
            },
            taken: Vec::new(),
            feeds: Feeds {
                all: Vec::new(),
                clocked: false,
            },
        }
    }
}

/// Which fragment of the gather fetches the same rows as this one of those that are sent.
fn place(sending: &Sending, at: usize) -> Option<usize> {
    let place = *sending.places.get(at)?;
    let instead: &Answer = &sending.instead;
    let Finish::Scratch(scratch) = &instead.finish else {
        return None;
    };
    let (own, its) = (&sending.fragments[at], instead.fragments.get(place)?);
    let (table, part): (&Part, &Part) = (&sending.tables[at], scratch.tables.get(place)?);
    let reduced = scratch.reduced.get(place)?;
    let same = reduced.alone(its) == *own && table.columns == part.columns;
    same.then_some(place)
}

/// Puts rows into a scratch table that have come already. They count once all of them are there.
pub(in crate::scatter) async fn pour_begun(
    rows: &Loading,
    filling: &mut Filling<'_>,
    scratch: &mut Connection,
    fetched: &Fetched,
) -> Result<(), Stop> {
    for row in rows.rows() {
        let full = filling.loader.add(row).map_err(|odd| Stop::Groups(odd.into()))?;
        let (rows, bytes) = (filling.loader.rows, filling.loader.bytes);
        let allowed = fetched.bounds.allow(fetched.rows + rows, fetched.bytes + bytes);
        allowed.map_err(|(name, most)| Stop::Bound(name, most))?;
        if full {
            filling.store(scratch).await?;
        }
    }
    Ok(())
}
