//! How a follower tells a transaction: its parts one after the other, from memory or as they are read once more.

use std::borrow::Cow;
use std::sync::Arc;

use changes::{Ended, Event, Gtid, Part, Parts, Reached, Told};
use engine::binlog::Reader;
use engine::{Error, Login};
use farm::Position;
use tokio::sync::OwnedMutexGuard;

use super::{Follower, HEARTBEAT_MS, LOOK, Trouble};
use crate::change_stream::outlet::{Left, Outlet};
use crate::change_stream::queue::{PATIENCE, Queue, Seat, Seated, held_while};
use crate::change_stream::source::Primary;

impl Follower {
    pub(super) async fn tell(
        &mut self,
        primary: &Primary,
        ended: &Ended,
        reached: &Reached,
    ) -> Result<(), Trouble> {
        let so_far = self.reached.clone().unwrap_or_else(|| reached.clone());
        let mut all = self.all_parts(primary, &ended.parts).await?;
        // Kept to the end: a transaction's lines stand together.
        let mut outlet = self.outlet_between_transactions().await;
        let group = self.source.group.clone();
        let xid = ended.xid.as_ref();
        let told = told_of(&so_far, &ended.gtid);
        let teller = outlet.teller(&group);
        teller.begin(&ended.gtid, ended.logged, xid, told);
        teller.set_place((&ended.place.0, ended.place.1));
        let inside = |index| inside(&so_far, &ended.gtid, index);
        self.tell_parts(&mut all, &inside, &mut outlet).await?;
        match outlet.teller(&group).end() {
            Some(Told { line, .. }) => outlet.tell(&group, &line, reached.clone()).await?,
            None => outlet.reach(&group, reached.clone()),
        }
        Ok(())
    }

    /// The outlet, when no other group's transaction has been told in part.
    async fn outlet_between_transactions(&self) -> OwnedMutexGuard<Outlet> {
        loop {
            let outlet = Arc::clone(&self.outlet).lock_owned().await;
            let other = outlet.told_in_part();
            if other.is_none_or(|other| other == self.source.group) {
                return outlet;
            }
            drop(outlet);
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The parts of a transaction. To read them once more may take a while, so this does not hold the outlet.
    pub(super) async fn all_parts<'a>(
        &self,
        primary: &Primary,
        parts: &'a Parts,
    ) -> Result<AllParts<'a>, Error> {
        let from = (self.elsewhere.login(primary), &self.queues.again);
        AllParts::of(parts, from, self.source.timeout_ms()).await
    }

    /// Tells what a transaction did.
    pub(super) async fn tell_parts(
        &mut self,
        all: &mut AllParts<'_>,
        inside: &(dyn Fn(u32) -> Reached + Sync),
        outlet: &mut Outlet,
    ) -> Result<(), Trouble> {
        while let Some(part) = all.next().await? {
            all.hold(self.tell_part(&part, inside, outlet)).await?;
        }
        Ok(())
    }

    async fn tell_part(
        &mut self,
        part: &Part,
        inside: &(dyn Fn(u32) -> Reached + Sync),
        outlet: &mut Outlet,
    ) -> Result<(), Trouble> {
        if let Some(reading) = &mut self.reading {
            let is_more = reading.note(part);
            if is_more.map_err(|why| Trouble::Broken("error", why))? {
                outlet.leave_unread(&self.source.group, Some(reading.unread().clone()));
            }
        }
        let mut lines = Vec::new();
        let told = outlet.teller(&self.source.group).part(part, &mut lines);
        self.tell_lines(lines, inside, outlet).await?;
        told.map_err(|why| Trouble::Broken("error", why))
    }

    /// Tells lines of one transaction.
    pub(super) async fn tell_lines(
        &mut self,
        lines: Vec<Told>,
        inside: &(dyn Fn(u32) -> Reached + Sync),
        outlet: &mut Outlet,
    ) -> Result<(), Left> {
        let group = &self.source.group;
        let mut last = None;
        for Told { line, index } in lines {
            let count = index.unwrap_or(0);
            match last.replace(count) {
                None => outlet.tell(group, &line, inside(count)).await?,
                Some(_) => outlet.tell_next(group, &line, count).await?,
            }
        }
        if let Some(count) = last {
            self.reached = Some(inside(count));
        }
        Ok(())
    }
}

/// So many changes of this transaction were told.
pub(super) fn told_of(so_far: &Reached, gtid: &Gtid) -> Option<u32> {
    let open = so_far.open.as_ref().filter(|(open, _)| open == gtid);
    open.map(|(_, count)| *count)
}

/// Within this transaction, behind so many changes.
pub(super) fn inside(so_far: &Reached, gtid: &Gtid, index: u32) -> Reached {
    Reached {
        open: Some((gtid.clone(), index)),
        ..so_far.clone()
    }
}

/// The parts of a transaction, wherever they can be had.
pub(super) enum AllParts<'a> {
    Kept(std::slice::Iter<'a, Part>),
    /// It was too long to be kept: it is read once more. Until others want the seat.
    Read(Option<Box<Again<'a>>>),
}

/// What reads a transaction once more.
pub(super) struct Again<'a> {
    reader: Reader,
    gtid: &'a Gtid,
    is_it: bool,
    seat: Seat,
}

impl Seated for Box<Again<'_>> {
    fn seat(&self) -> &Seat {
        &self.seat
    }
}

impl<'a> AllParts<'a> {
    /// Read from this server where they were not kept.
    pub(super) async fn of(
        parts: &'a Parts,
        from: (&Login, &Queue),
        timeout_ms: u64,
    ) -> Result<AllParts<'a>, Error> {
        match parts {
            Parts::Kept(parts) => Ok(AllParts::Kept(parts.iter())),
            Parts::Reread { behind, gtid } => AllParts::read(behind, gtid, from, timeout_ms).await,
        }
    }

    pub(super) async fn read(
        behind: &Position,
        gtid: &'a Gtid,
        (login, queue): (&Login, &Queue),
        timeout_ms: u64,
    ) -> Result<AllParts<'a>, Error> {
        let seat = queue.seat().await;
        let reader = Reader::with_sources(login, behind, HEARTBEAT_MS, timeout_ms).await?;
        Ok(AllParts::Read(Some(Box::new(Again {
            reader,
            gtid,
            is_it: false,
            seat,
        }))))
    }

    /// Tells a part, and gives the seat up when the client is slow to take it and others want it: then there is no
    /// next part.
    pub(super) async fn hold(
        &mut self,
        telling: impl Future<Output = Result<(), Trouble>>,
    ) -> Result<(), Trouble> {
        match self {
            AllParts::Kept(_) => telling.await,
            AllParts::Read(again) => held_while(telling, again, PATIENCE, || {}).await,
        }
    }

    pub(super) async fn next(&mut self) -> Result<Option<Cow<'a, Part>>, Trouble> {
        let again = match self {
            AllParts::Kept(parts) => return Ok(parts.next().map(Cow::Borrowed)),
            AllParts::Read(again) => again,
        };
        match again {
            Some(again) => Ok(again.next().await?.map(Cow::Owned)),
            None => Err(Trouble::Given),
        }
    }
}

impl Again<'_> {
    async fn next(&mut self) -> Result<Option<Part>, Error> {
        loop {
            let part = match self.reader.next().await? {
                Event::Begin(begun) => {
                    self.is_it = begun == *self.gtid;
                    continue;
                }
                Event::End(_) if self.is_it => return Ok(None),
                Event::Source(text) => Part::Source(text),
                Event::Rows(rows) => Part::Rows(rows),
                Event::Statement(statement) => Part::Statement(statement),
                Event::Block(block) => Part::Block(block),
                Event::End(_) | Event::Alive => continue,
            };
            if self.is_it {
                return Ok(Some(part));
            }
        }
    }
}
