//! How a follower tells a transaction: its parts one after the other, from memory or as they are read once more.

use std::borrow::Cow;
use std::sync::Arc;

use changes::{Ended, Event, Gtid, Part, Parts, Reached, Told};
use engine::binlog::Reader;
use engine::{Error, Login};
use farm::Position;

use super::{Follower, HEARTBEAT_MS, Trouble};
use crate::change_stream::outlet::Outlet;
use crate::change_stream::source::Primary;

impl Follower {
    pub(super) async fn tell(
        &mut self,
        primary: &Primary,
        ended: &Ended,
        reached: &Reached,
    ) -> Result<(), Trouble> {
        let so_far = self.reached.clone().unwrap_or_else(|| reached.clone());
        // Kept to the end: a transaction's lines stand together.
        let mut outlet = Arc::clone(&self.outlet).lock_owned().await;
        let group = self.source.group.clone();
        let xid = ended.xid.as_ref();
        let told = told_of(&so_far, &ended.gtid);
        let teller = outlet.teller(&group);
        teller.begin(&ended.gtid, ended.time_s, xid, told);
        teller.set_place((&ended.place.0, ended.place.1));
        let inside = |index| inside(&so_far, &ended.gtid, index);
        self.tell_parts(primary, &ended.parts, &inside, &mut outlet)
            .await?;
        match outlet.teller(&group).end() {
            Some(Told { line, .. }) => outlet.tell(&group, &line, reached.clone()).await?,
            None => outlet.reach(&group, reached.clone()),
        }
        Ok(())
    }

    /// Tells what a transaction did.
    pub(super) async fn tell_parts(
        &mut self,
        primary: &Primary,
        parts: &Parts,
        inside: &(dyn Fn(u32) -> Reached + Sync),
        outlet: &mut Outlet,
    ) -> Result<(), Trouble> {
        let mut all = AllParts::of(parts, &primary.login, self.source.timeout_ms()).await?;
        while let Some(part) = all.next().await? {
            self.tell_part(&part, inside, outlet).await?;
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
        let group = &self.source.group;
        let told = outlet.teller(group).part(part, &mut lines);
        for Told { line, index } in lines {
            let reached = inside(index.unwrap_or(0));
            self.reached = Some(reached.clone());
            outlet.tell(group, &line, reached).await?;
        }
        told.map_err(|why| Trouble::Broken("error", why))
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
    /// It was too long to be kept: it is read once more.
    Read {
        reader: Box<Reader>,
        gtid: &'a Gtid,
        is_it: bool,
    },
}

impl<'a> AllParts<'a> {
    /// Read from this server where they were not kept.
    pub(super) async fn of(
        parts: &'a Parts,
        login: &Login,
        timeout_ms: u64,
    ) -> Result<AllParts<'a>, Error> {
        match parts {
            Parts::Kept(parts) => Ok(AllParts::Kept(parts.iter())),
            Parts::Reread { behind, gtid } => AllParts::read(behind, gtid, login, timeout_ms).await,
        }
    }

    pub(super) async fn read(
        behind: &Position,
        gtid: &'a Gtid,
        login: &Login,
        timeout_ms: u64,
    ) -> Result<AllParts<'a>, Error> {
        let reader = Reader::with_sources(login, behind, HEARTBEAT_MS, timeout_ms).await?;
        Ok(AllParts::Read {
            reader: Box::new(reader),
            gtid,
            is_it: false,
        })
    }

    pub(super) async fn next(&mut self) -> Result<Option<Cow<'a, Part>>, Error> {
        let (reader, gtid, is_it) = match self {
            AllParts::Kept(parts) => return Ok(parts.next().map(Cow::Borrowed)),
            AllParts::Read {
                reader,
                gtid,
                is_it,
            } => (reader, gtid, is_it),
        };
        loop {
            let part = match reader.next().await? {
                Event::Begin(begun) => {
                    *is_it = begun == **gtid;
                    continue;
                }
                Event::End(_) if *is_it => return Ok(None),
                Event::Source(text) => Part::Source(text),
                Event::Rows(rows) => Part::Rows(rows),
                Event::Statement(statement) => Part::Statement(statement),
                Event::Block(block) => Part::Block(block),
                Event::End(_) | Event::Alive => continue,
            };
            if *is_it {
                return Ok(Some(Cow::Owned(part)));
            }
        }
    }
}
