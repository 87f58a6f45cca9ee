//! Early writes: plain sets that are acknowledged before their commit, where the operator allows it.
//!
//! A line's early writes wait in front of its other commands, and one INSERT with one commit stores a batch
//! of them: when a command comes that is no early write, when the container's number is reached, when their
//! time is over, or when somebody wants them to be committed. Whatever looks at a key that may have one, on
//! any core, waits for it first ([`Spots`]).
//!
//! Invariants: a write is early only where its table takes it for sure, so that what the table would have
//! refused is refused before its answer; behind a command that is no early write there is none, so that
//! committing them never waits for another core; what was acknowledged and cannot be committed is counted,
//! logged, told as an event and to its client.
//!
//! [`Spots`]: rowcache::Spots

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
use memory::{Purpose, Reservation};
use rowcache::Spot;
use rustc_hash::FxHashMap;
use session::{Core, Message, Own, Visit, count};

use crate::change::{Moment, fresh};
use crate::columns::Alike;
use crate::kv::Kv;
use crate::op::{Change, Expiry, Mode, Op, Outcome};
use crate::store::{CHANGED_BYTES_MAX, CHANGES_MAX, Line, Store, Work, now};
use crate::ticket::{Ticket, Waiting};

/// What a line has of early writes.
#[derive(Default)]
pub(crate) struct Early {
    /// Those that are acknowledged and not committed.
    writes: Cell<usize>,
    /// Those of them that wait: so many stand in front of the line's changes.
    pub queued: Cell<usize>,
    /// When the first of those was acknowledged.
    since: Cell<Option<Instant>>,
    /// Other changes that wait or are carried out.
    pub others: Cell<usize>,
    bytes: Cell<usize>,
    memory: RefCell<Option<Reservation>>,
    spots: RefCell<FxHashMap<Spot, u32>>,
}

impl Early {
    fn at(&self, spot: Option<Spot>) -> u32 {
        match spot {
            Some(spot) => self.spots.borrow().get(&spot).copied().unwrap_or(0),
            None => u32::try_from(self.writes.get()).unwrap_or(u32::MAX),
        }
    }

    /// One more; false when there is no memory for it.
    fn enter(&self, core: &Core, op: &Op, bytes: usize) -> bool {
        let mut memory = self.memory.borrow_mut();
        let budget = core.shared.live.memory();
        let memory = memory.get_or_insert_with(|| Reservation::new(budget, Purpose::Values));
        if !memory.cover_if_free(self.bytes.get() + bytes) {
            return false;
        }
        self.bytes.set(self.bytes.get() + bytes);
        self.writes.set(self.writes.get() + 1);
        self.queued.set(self.queued.get() + 1);
        if self.since.get().is_none() {
            self.since.set(Some(Instant::now()));
        }
        *self
            .spots
            .borrow_mut()
            .entry(Spot::of(&op.key))
            .or_default() += 1;
        true
    }

    /// One less.
    fn leave(&self, op: &Op, bytes: usize) {
        self.writes.set(self.writes.get() - 1);
        self.bytes.set(self.bytes.get() - bytes);
        if let Some(memory) = &mut *self.memory.borrow_mut() {
            memory.shrink(self.bytes.get());
        }
        let (mut spots, spot) = (self.spots.borrow_mut(), Spot::of(&op.key));
        if let Some(left) = spots.get_mut(&spot) {
            *left -= 1;
            if *left == 0 {
                spots.remove(&spot);
            }
        }
    }

    /// So many of those that wait are carried out from now on.
    pub fn take(&self, writes: usize) {
        self.queued.set(self.queued.get() - writes);
        if self.queued.get() == 0 {
            self.since.set(None);
        }
    }
}

impl Drop for Early {
    fn drop(&mut self) {
        if self.writes.get() > 0 {
            let writes = self.writes.get();
            tracing::error!(
                writes,
                "the router ends before it has committed what it acknowledged"
            );
        }
    }
}

/// The early writes of one client: what became of them, and where they are.
#[derive(Default)]
pub struct EarlyOfClient {
    lost: Cell<u64>,
    why: RefCell<String>,
    stores: RefCell<Vec<Weak<Store>>>,
}

impl EarlyOfClient {
    /// How many are lost that it has not heard of, and why; it has heard of them then.
    pub fn take_lost(&self) -> Option<(u64, String)> {
        let lost = self.lost.take();
        (lost > 0).then(|| (lost, self.why.take()))
    }

    /// Waits until all are committed, or lost.
    pub async fn commit(&self) {
        for store in self.stores.take() {
            if let Some(store) = store.upgrade() {
                store.commit_early().await;
            }
        }
    }

    fn enter(&self, store: &Rc<Store>) {
        let mut stores = self.stores.borrow_mut();
        if !stores
            .iter()
            .any(|known| known.as_ptr() == Rc::as_ptr(store))
        {
            stores.push(Rc::downgrade(store));
        }
    }
}

impl Kv {
    /// Waits on each of the cores until it has no early writes any more. For threads that are no cores.
    ///
    /// False when that takes longer than `limit`.
    pub fn commit_all_early(dealer: &reactor::Dealer<Message>, own: &Own, limit: Duration) -> bool {
        let (tell, told) = std::sync::mpsc::channel();
        for core in 0..dealer.cores() {
            let (tell, own) = (tell.clone(), own.clone());
            let visit = Visit::new(move |core| {
                let Some(kv) = Kv::on(&core, &own) else {
                    return;
                };
                reactor::spawn(async move {
                    kv.commit_early(None).await;
                    let _ = tell.send(());
                })
                .detach();
            });
            dealer.send(core, Message::Visit(visit));
        }
        drop(tell);
        let until = Instant::now() + limit;
        for _ in 0..dealer.cores() {
            let left = until.saturating_duration_since(Instant::now());
            match told.recv_timeout(left) {
                Ok(()) => {}
                // The cores that are left have nothing.
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => return true,
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => return false,
            }
        }
        true
    }
}

impl Store {
    /// Like [`Store::submit`] of a command whose answer says no cas: where it may be, it is acknowledged at
    /// once and committed later.
    pub fn submit_early(self: &Rc<Store>, mut op: Op, client: &Rc<EarlyOfClient>) -> Ticket {
        let Some((core, line)) = self.takes_early(&mut op) else {
            return self.submit(op);
        };
        let Some(spots) = self
            .spots
            .as_ref()
            .filter(|_| line.early.enter(&core, &op, op.bytes()))
        else {
            return self.submit(op);
        };
        spots.enter(core.index, Spot::of(&op.key));
        client.enter(self);
        count(&core.counters.kv_acks_before_commit);
        line.enter_changing(&op.key);
        let (waiting, _) = Ticket::new();
        let work = Work::Early(op, client.clone());
        line.changes.borrow_mut().push_back((work, waiting));
        // Who is there already looks when the time has come.
        if !line.writer.runs.get() {
            self.start(&line, false);
        }
        Ticket::done(Outcome::Stored { cas: 0 })
    }

    /// The line of a write that may be acknowledged before its commit. Its expiry is counted from now.
    fn takes_early(&self, op: &mut Op) -> Option<(Rc<Core>, Rc<Line>)> {
        let spots = self.spots.as_ref()?;
        let core = self.core.upgrade()?;
        core.shared.reads.early.commit_within()?;
        let columns = self.columns.borrow().clone()?;
        let sure = columns.sure.as_ref()?;
        let told_apart = match columns.alike {
            Alike::Bytes => true,
            Alike::NoCase => op.key.is_ascii(),
            Alike::Collation => false,
        };
        let snapshot = core.glance();
        let line = self.line(&snapshot, &op.key).ok()?;
        let early = &line.early;
        let many = (self.declared.w_batch_size as usize).min(CHANGES_MAX);
        let spot = Some(Spot::of(&op.key));
        let elsewhere = |index| spots.at(index, spot) > self.own_at(&line, index, &core, spot);
        if !told_apart
            || self.rests.get()
            || early.others.get() > 0
            || early.writes.get() + 1 >= many
            || early.bytes.get() + op.bytes() > CHANGED_BYTES_MAX
            || self.group_of(&line, &snapshot).is_none()
            || (0..spots.cores()).any(elsewhere)
        {
            return None;
        }
        let now_s = now().as_secs();
        let Change::Store {
            mode: Mode::Set,
            value,
            flags,
            expiry,
            cas: None,
        } = &mut op.change
        else {
            return None;
        };
        if let Expiry::After(_) = expiry {
            *expiry = Expiry::At(expiry.stored(now_s));
        }
        // The number of the cas column is given when the row is written, and is not larger.
        let moment = Moment {
            now_s,
            cas: u64::MAX >> 1,
        };
        let row = fresh(value, *flags, *expiry, &columns.layout, moment).ok()?;
        let fits = columns.check_key(&op.key).is_ok() && columns.check_row(&row).is_ok();
        drop(snapshot);
        (fits && sure.takes(&op.key, &row)).then_some((core, line))
    }

    /// How many of a core's early writes at a spot are the line's own.
    fn own_at(&self, line: &Line, index: usize, core: &Core, spot: Option<Spot>) -> u32 {
        match index == core.index {
            true => line.early.at(spot),
            false => 0,
        }
    }

    /// The spots where an early write is in the way of this key; `None` for all.
    fn spot_of(&self, key: &[u8]) -> Option<Spot> {
        let alike = self.columns.borrow().as_ref().map(|columns| columns.alike);
        match alike {
            Some(Alike::Bytes) => Some(Spot::of(key)),
            Some(Alike::NoCase) if key.is_ascii() => Some(Spot::of(key)),
            _ => None,
        }
    }

    /// True when the key may have a write, on whichever core, that is acknowledged and not committed.
    pub(crate) fn may_be_early(&self, key: &[u8]) -> bool {
        let spots = self.spots.as_ref();
        spots.is_some_and(|spots| spots.any(self.spot_of(key)))
    }

    /// The store has early writes.
    pub(crate) fn has_early(&self) -> bool {
        self.lines_all()
            .iter()
            .any(|line| line.early.writes.get() > 0)
    }

    /// Has the early writes committed, and takes no more.
    pub(crate) fn end_early(self: &Rc<Store>) {
        if !self.rests.replace(true) {
            let store = self.clone();
            reactor::spawn(async move { store.commit_early().await }).detach();
        }
    }

    /// Waits until the early writes that there are now are committed, or lost.
    pub(crate) async fn commit_early(self: &Rc<Store>) {
        let mut tickets = Vec::new();
        for line in self.lines_all() {
            if line.early.writes.get() == 0 {
                continue;
            }
            let (waiting, ticket) = Ticket::new();
            let at = line.early.queued.get();
            line.changes
                .borrow_mut()
                .insert(at, (Work::Barrier, waiting));
            self.start(&line, false);
            tickets.push(ticket);
        }
        for ticket in tickets {
            ticket.await;
        }
    }

    /// Before a batch is taken: early writes that stand alone wait until there is a reason to commit them.
    pub(crate) async fn hold_early(&self, line: &Line) {
        let (Some(since), Some(core)) = (line.early.since.get(), self.core.upgrade()) else {
            return;
        };
        let within = core.shared.reads.early.commit_within();
        drop(core);
        let left = within.unwrap_or_default().saturating_sub(since.elapsed());
        let due = || line.changes.borrow().len() > line.early.queued.get();
        if !left.is_zero() && !due() {
            line.writer.wait(left, due).await;
        }
    }

    /// Before other changes are carried out: what they would not see of early writes is committed first.
    pub(crate) async fn await_early(&self, line: &Line, batch: &[(Work, Waiting)]) {
        let (Some(spots), Some(core)) = (&self.spots, self.core.upgrade()) else {
            return;
        };
        let wanted = |work: &Work| match work {
            Work::Op(op) => Some(self.spot_of(&op.key)),
            Work::Flush => Some(None),
            Work::Early(..) | Work::Barrier => None,
        };
        let wanted: Vec<Option<Spot>> = batch.iter().filter_map(|(work, _)| wanted(work)).collect();
        for index in 0..spots.cores() {
            let in_the_way = |spot: &Option<Spot>| {
                spots.at(index, *spot) > self.own_at(line, index, &core, *spot)
            };
            if !wanted.iter().any(in_the_way) {
                continue;
            }
            let (tell, told) = oneshot::channel();
            let (own, name) = (self.own.clone(), self.declared.name.clone());
            let visit = Visit::new(move |core| {
                let Some(kv) = Kv::on(&core, &own) else {
                    return;
                };
                reactor::spawn(async move {
                    kv.commit_early(Some(&name)).await;
                    let _ = tell.send(());
                })
                .detach();
            });
            core.dealer.send(index, Message::Visit(visit));
            // A core that ends has no early writes any more.
            let _ = told.await;
        }
    }

    /// An early write is carried out: `None` when it is committed, else why not.
    pub(crate) fn settle_early(
        &self,
        line: &Line,
        op: &Op,
        client: &EarlyOfClient,
        why: Option<&str>,
    ) {
        line.early.leave(op, op.bytes());
        let Some(core) = self.core.upgrade() else {
            return;
        };
        if let Some(spots) = &self.spots {
            spots.leave(core.index, Spot::of(&op.key));
        }
        if let Some(why) = why {
            count(&core.counters.kv_acks_lost);
            client.lost.set(client.lost.get() + 1);
            why.clone_into(&mut client.why.borrow_mut());
            let container = &self.declared.name;
            core.shared.reads.early.lost(container, 1, why);
            tracing::error!(%container, why, "a write is lost that was acknowledged before its commit");
        }
    }
}

/// Why a plain set is not stored, by what became of it.
pub(crate) fn why_lost(outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Stored { .. } => None,
        Outcome::Refused(refusal) => Some(refusal.text.clone()),
        _ => Some("the table refuses the row".to_owned()),
    }
}
