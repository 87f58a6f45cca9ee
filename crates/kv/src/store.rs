//! A container on one core: what waits for it, and the tasks that carry it out.
//!
//! Gets and changes have an internal session each and per group of servers. While an internal session is busy what comes waits,
//! and is its next batch: without load a command goes out at once, under load batches grow.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use farm::sharding::Placed;
use farm::{Container, Snapshot};
use routing::shard::{Literal, compared, locate};
use rowcache::{ClientWrites, Spots};
use rustc_hash::FxHashMap;
use session::{Core, Internal, Lost, Own, Written};
use sqltext::KeyedMap;

use crate::batches::linger::{COMMITS, READS};
use crate::batches::shared_commit::{CommonLine, CommonLines};
use crate::batches::side::{Last, Side};
use crate::change::seen;
use crate::columns::Columns;
use crate::early::{Early, EarlyOfClient};
use crate::op::{Change, Op, Outcome, Refusal};
use crate::reading::{Prepared, Reader, Rows, run};
use crate::recall::Recall;
use crate::ticket::{Ticket, Waiting};

/// Commands of one batch.
const GETS_MAX: usize = 256;
pub(crate) const CHANGES_MAX: usize = 256;
/// Bytes of the values of one batch: a statement must fit the servers' `max_allowed_packet`.
pub(crate) const CHANGED_BYTES_MAX: usize = 4 << 20;
const READ_BYTES_MAX: usize = 16 << 20;

/// So that text means the same whatever the servers' defaults are.
const SETTINGS: [&str; 2] = [
    "SET SESSION sql_mode='STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION,NO_AUTO_VALUE_ON_ZERO'",
    // A locked read of a key that is not there must not lock its neighbours.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
];

/// A container on one core.
pub struct Store {
    pub(crate) core: Weak<Core>,
    pub(crate) own: Own,
    pub(crate) declared: Arc<Container>,
    pub(crate) columns: RefCell<Option<Rc<Columns>>>,
    /// By the name of the group that has the keys.
    lines: RefCell<FxHashMap<Arc<str>, Rc<Line>>>,
    /// Where one statement may need several groups, or there is only one.
    anywhere: Rc<Line>,
    /// Where cores share batches.
    common: Option<Arc<CommonLines>>,
    /// What its changes have written, by the core that carried them out; all of it, and how often that grew.
    pub(crate) written_by: RefCell<FxHashMap<usize, Vec<Written>>>,
    pub(crate) written: RefCell<Vec<Written>>,
    pub(crate) writings: Cell<u64>,
    /// What all clients of the door wrote.
    pub(crate) writes: Arc<ClientWrites>,
    last_cas: Cell<u64>,
    /// How large values have been of late.
    item_bytes: Cell<usize>,
    /// How often it was to be emptied: what was said last counts.
    pub(crate) flushes: Cell<u64>,
    /// Where the cores' early writes are; `None` while the container has never had any.
    pub(crate) spots: Option<Arc<Spots>>,
    /// It takes no more early writes, since it is declared anew.
    pub(crate) rests: Cell<bool>,
}

/// What waits for one group.
pub(crate) struct Line {
    /// Its name; empty where there may be several.
    pub(crate) group: Arc<str>,
    pub(crate) recall: Recall,
    /// Where all cores' changes meet; `None` where there are no others.
    pub(crate) common: Option<Arc<CommonLine>>,
    gets: RefCell<VecDeque<(Op, Waiting)>>,
    pub(crate) changes: RefCell<VecDeque<(Work, Waiting)>>,
    /// Keys of changes that are not done, and how many there are of each.
    pub(crate) changing: RefCell<KeyedMap<Box<[u8]>, usize>>,
    reader: Side,
    pub(crate) writer: Side,
    pub(crate) early: Early,
    /// Of reads that must have what a token promises.
    pub(crate) promised: Side,
}

/// An internal session, and which writings its reads have.
pub(crate) struct Open {
    pub(crate) internal: Internal,
    sees: u64,
    pub(crate) prepared: Prepared,
}

pub(crate) enum Work {
    Op(Op),
    Flush,
    /// A plain set that this client has had acknowledged.
    Early(Op, Rc<EarlyOfClient>),
    /// Is done when everything before it is.
    Barrier,
}

impl Work {
    /// The command on one key that it is, if it is one.
    pub(crate) fn op(&self) -> Option<&Op> {
        match self {
            Work::Op(op) | Work::Early(op, _) => Some(op),
            Work::Flush | Work::Barrier => None,
        }
    }
}

impl Line {
    fn new(group: Arc<str>, declared: &Arc<Container>, common: Option<&CommonLines>) -> Rc<Line> {
        Rc::new(Line {
            common: common.map(|lines| lines.line(declared, &group)),
            group,
            recall: Recall::default(),
            gets: RefCell::default(),
            changes: RefCell::default(),
            changing: RefCell::default(),
            reader: Side::new(READS),
            writer: Side::new(COMMITS),
            early: Early::default(),
            promised: Side::new(READS),
        })
    }

    /// A change of the key is under way, or waits.
    pub(crate) fn is_changing(&self, key: &[u8]) -> bool {
        self.changing.borrow().contains_key(key)
    }

    /// One more change of the key.
    pub(crate) fn enter_changing(&self, key: &[u8]) {
        *self.changing.borrow_mut().entry(key.into()).or_default() += 1;
    }

    /// One less.
    pub(crate) fn leave_changing(&self, key: &[u8]) {
        let mut changing = self.changing.borrow_mut();
        if let Some(left) = changing.get_mut(key) {
            *left -= 1;
            if *left == 0 {
                changing.remove(key);
            }
        }
    }

    /// What the next batch has: commands up to a bound, early writes by themselves, or one flush.
    pub(crate) fn take_changes(&self) -> Vec<(Work, Waiting)> {
        let mut changes = self.changes.borrow_mut();
        let early = matches!(changes.front(), Some((Work::Early(..), _)));
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some((work, _)) = changes.front() {
            bytes += match work {
                Work::Flush | Work::Barrier if batch.is_empty() => {
                    batch.extend(changes.pop_front());
                    break;
                }
                Work::Op(op) if !early => op.bytes(),
                Work::Early(op, _) if early => op.bytes(),
                _ => break,
            };
            let full = batch.len() == CHANGES_MAX || bytes > CHANGED_BYTES_MAX;
            if full && !batch.is_empty() {
                break;
            }
            batch.extend(changes.pop_front());
        }
        if early {
            self.early.take(batch.len());
        }
        batch
    }
}

impl Store {
    pub(crate) fn new(core: &Rc<Core>, own: &Own, declared: Arc<Container>) -> Rc<Store> {
        let reads = &core.shared.reads;
        let cores = core.shared.counters.len();
        let spots = reads
            .early
            .spots(&declared.name, cores, declared.w_batch_size > 1);
        // A core that is the only one has nobody to share with.
        let common = reads.guest::<CommonLines>().filter(|_| cores > 1);
        Rc::new(Store {
            core: Rc::downgrade(core),
            spots,
            rests: Cell::new(false),
            own: own.clone(),
            anywhere: Line::new(Arc::from(""), &declared, common.as_deref()),
            common,
            declared,
            columns: RefCell::default(),
            lines: RefCell::default(),
            written_by: RefCell::default(),
            written: RefCell::default(),
            writings: Cell::new(0),
            writes: session::own_writes(core, own),
            last_cas: Cell::new(0),
            item_bytes: Cell::new(0),
            flushes: Cell::new(0),
        })
    }

    /// The container as it was declared.
    pub fn declared(&self) -> &Arc<Container> {
        &self.declared
    }

    /// How large values have been of late, for how many may be asked for at a time.
    pub fn item_bytes(&self) -> usize {
        self.item_bytes.get()
    }

    fn note_item(&self, bytes: usize) {
        let faded = self.item_bytes.get() - self.item_bytes.get() / 16;
        self.item_bytes.set(faded.max(bytes));
    }

    /// Has a command carried out. Commands on one key take effect in the order in which they are
    /// submitted here.
    pub fn submit(self: &Rc<Store>, op: Op) -> Ticket {
        if op.change == Change::Get
            && let Some(recalled) = self.recall(&op.key)
        {
            return Ticket::done(Outcome::Hit(recalled.item()));
        }
        self.submit_to_servers(op)
    }

    /// The same by the servers, whatever the row cache has.
    pub fn submit_to_servers(self: &Rc<Store>, op: Op) -> Ticket {
        let Some(core) = self.core.upgrade() else {
            let why = Refusal::server("the router ends");
            return Ticket::done(Outcome::Refused(why));
        };
        let line = match self.line(&core.glance(), &op.key) {
            Ok(line) => line,
            Err(why) => return Ticket::done(Outcome::Refused(why)),
        };
        if let Change::Store { value, .. } = op.change.plain() {
            self.note_item(value.len());
        }
        let (waiting, ticket) = Ticket::new();
        let reads =
            op.change.is_read() && !line.is_changing(&op.key) && !self.may_be_early(&op.key);
        if reads {
            line.gets.borrow_mut().push_back((op, waiting));
            self.start(&line, true);
        } else {
            line.enter_changing(&op.key);
            line.early.others.set(line.early.others.get() + 1);
            line.changes.borrow_mut().push_back((Work::Op(op), waiting));
            self.start(&line, false);
        }
        ticket
    }

    /// Deletes all rows, where the container allows it.
    pub fn flush(self: &Rc<Store>) -> Ticket {
        if !self.declared.flush {
            let name = &self.declared.name;
            let text = format!("flush_all is not allowed: container {name} is without flush");
            return Ticket::done(Outcome::Refused(Refusal::client(text)));
        }
        self.flushes.set(self.flushes.get() + 1);
        let (waiting, ticket) = Ticket::new();
        let line = self.anywhere.clone();
        line.early.others.set(line.early.others.get() + 1);
        line.changes.borrow_mut().push_back((Work::Flush, waiting));
        self.start(&line, false);
        ticket
    }

    /// The line of a key's group.
    pub(crate) fn line(&self, snapshot: &Snapshot, key: &[u8]) -> Result<Rc<Line>, Refusal> {
        let Some(sharding) = &snapshot.sharding else {
            return Ok(self.anywhere.clone());
        };
        let container = &self.declared;
        let Placed::Sharded(table) = sharding.placed(&container.database, &container.table) else {
            return Ok(self.anywhere.clone());
        };
        let map = sharding.map(table.map);
        if !table.column.eq_ignore_ascii_case(&container.key) {
            return Ok(self.anywhere.clone());
        }
        let key = compared(Literal::Text(key), table.key);
        let Some((mapped, key)) = map.zip(key) else {
            return Ok(self.anywhere.clone());
        };
        match locate(&mapped.map, &key) {
            Ok(at) => Ok(self.line_of(&mapped.map.shard(at).group)),
            Err(nowhere) => Err(Refusal::server(format!(
                "{nowhere:?}: the key has no shard"
            ))),
        }
    }

    fn line_of(&self, group: &Arc<str>) -> Rc<Line> {
        let mut lines = self.lines.borrow_mut();
        let line = lines.entry(group.clone());
        let made = || Line::new(group.clone(), &self.declared, self.common.as_deref());
        line.or_insert_with(made).clone()
    }

    /// All lines that there are.
    pub(crate) fn lines_all(&self) -> Vec<Rc<Line>> {
        let lines = self.lines.borrow();
        lines.values().chain([&self.anywhere]).cloned().collect()
    }

    pub(crate) fn start(self: &Rc<Store>, line: &Rc<Line>, reads: bool) {
        let (side, waiting) = match reads {
            true => (&line.reader, line.gets.borrow().len()),
            false => (&line.writer, line.changes.borrow().len()),
        };
        if side.runs.replace(true) {
            return side.heed(waiting);
        }
        let (store, line) = (self.clone(), line.clone());
        reactor::spawn(async move {
            match reads {
                true => store.read_all(&line).await,
                false => store.change_all(&line).await,
            }
        })
        .detach();
    }

    /// Carries out gets until none waits.
    async fn read_all(&self, line: &Line) {
        let mut last = Last::default();
        loop {
            line.reader.gather(last, || line.gets.borrow().len()).await;
            let batch: Vec<(Op, Waiting)> = {
                let mut gets = line.gets.borrow_mut();
                let fitting = READ_BYTES_MAX / self.item_bytes().max(1);
                let some = gets.len().min(GETS_MAX).min(fitting.max(1));
                gets.drain(..some).collect()
            };
            if batch.is_empty() {
                line.reader.runs.set(false);
                return;
            }
            let began = Instant::now();
            let mut keys: Vec<&[u8]> = batch.iter().map(|(op, _)| &*op.key).collect();
            keys.sort_unstable();
            keys.dedup();
            let each_once = keys.len() == batch.len();
            let columns_and_rows = self.read_batch(line, keys).await;
            last = Last {
                answered: batch.len(),
                took: began.elapsed(),
            };
            let now_s = now().as_secs();
            match columns_and_rows {
                Ok((columns, mut rows)) => {
                    rows.values().for_each(|row| self.note_item(row.bytes()));
                    for (op, waiting) in batch {
                        let row = match each_once {
                            true => rows.remove(&op.key),
                            false => rows.get(&op.key).cloned(),
                        };
                        waiting.answer(seen(&op.change, row, &columns.layout, now_s));
                    }
                }
                Err(why) => {
                    for (_, waiting) in batch {
                        waiting.answer(Outcome::Refused(why.clone()));
                    }
                }
            }
        }
    }

    async fn read_batch(
        &self,
        line: &Line,
        mut keys: Vec<&[u8]>,
    ) -> Result<(Rc<Columns>, Rows), Refusal> {
        let mut open = self.open(&line.reader).await?;
        let columns = self.columns(&mut open.internal).await?;
        if open.sees != self.writings.get() {
            open.sees = self.writings.get();
            open.internal.must_see(&self.written.borrow());
        }
        keys.retain(|key| columns.check_key(key).is_ok());
        if keys.is_empty() {
            line.reader.internal.replace(Some(open));
            return Ok((columns, Default::default()));
        }
        let filling = self.filling(line, Some(&mut open.internal));
        let mut reader = Reader {
            internal: &mut open.internal,
            prepared: &mut open.prepared,
            columns: &columns,
            filling: filling.as_ref(),
        };
        match reader.read(&keys).await {
            Ok(rows) => {
                line.reader.internal.replace(Some(open));
                self.heed(rows.is_err());
                Ok((columns, rows?))
            }
            Err(lost) => Err(told(&lost)),
        }
    }

    /// After a refusal the table is looked at anew: it may have other columns.
    pub(crate) fn heed(&self, refused: bool) {
        if refused {
            self.columns.take();
        }
    }

    pub(crate) async fn columns(&self, internal: &mut Internal) -> Result<Rc<Columns>, Refusal> {
        if let Some(columns) = &*self.columns.borrow() {
            return Ok(columns.clone());
        }
        let found = Columns::find(internal, &self.declared).await;
        let columns = Rc::new(found.map_err(|lost| told(&lost))??);
        self.columns.replace(Some(columns.clone()));
        Ok(columns)
    }

    /// The side's internal session, or a new one.
    pub(crate) async fn open(&self, side: &Side) -> Result<Open, Refusal> {
        if let Some(open) = side.internal.take().filter(|open| open.internal.is_good()) {
            return Ok(open);
        }
        let core = self.core.upgrade();
        let core = core.ok_or_else(|| Refusal::server("the router ends"))?;
        let mut internal = Internal::open(&core, &self.own);
        let level = self.declared.consistency.as_ref();
        let level = level.map(|level| format!("SET heddle_consistency='{level}'"));
        let all = SETTINGS.iter().copied().chain(level.as_deref());
        for text in all {
            let done = run(&mut internal, text.as_bytes()).await;
            if let Err(refused) = done.map_err(|lost| told(&lost))? {
                return Err(refused.for_client());
            }
        }
        Ok(Open {
            internal,
            sees: 0,
            prepared: Prepared::default(),
        })
    }

    /// Larger than all before, and another one than on other cores and routers.
    pub(crate) fn next_cas(&self) -> u64 {
        let core = self.core.upgrade().map_or(0, |core| core.index as u64);
        let micros = u64::try_from(now().as_micros()).unwrap_or(u64::MAX >> 8);
        let cas = (micros << 8 | (core & 0xFF)) & (u64::MAX >> 1);
        let cas = cas.max(self.last_cas.get() + 1);
        self.last_cas.set(cas);
        cas
    }
}

pub(crate) fn told(lost: &Lost) -> Refusal {
    let why = &lost.0;
    Refusal::server(format!(
        "the session of the container ended ({why}); the command may or may not have been carried out"
    ))
}

/// Since 1970.
pub(crate) fn now() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}
