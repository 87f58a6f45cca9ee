//! Events gathered to transactions whose changes count, with the places at which a reading goes on.
//!
//! What a prepared branch did counts when the branch is committed, by another transaction and perhaps much
//! later. Its changes are kept until then, so a reading that goes on in between has to begin in front of the
//! oldest prepared branch: each transaction that ended says where that is.
//!
//! A transaction of more than a given number of bytes is not kept. It ends with the place from which it is to be read once more.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use farm::Position;

use crate::event::{Block, End, Event, Logged, Statement, Xid};
use crate::gtid::Gtid;
use crate::own::Own;
use crate::rows::Rows;

/// What a part takes besides its bytes.
const PART_BYTES: usize = 64;

/// Prepared branches are kept up to this multiple of what one transaction may take.
const PREPARED_FACTOR: usize = 4;

/// What a transaction did, in its order.
#[derive(Clone, Debug)]
pub enum Part {
    /// The client's own text of the rows that follow.
    Source(Vec<u8>),
    Rows(Rows),
    Statement(Statement),
    Block(Block),
}

impl Part {
    fn bytes(&self) -> usize {
        PART_BYTES
            + match self {
                Part::Source(text) => text.len(),
                Part::Rows(rows) => rows.bytes(),
                Part::Statement(statement) => statement.text.len(),
                Part::Block(block) => block.data.len(),
            }
    }
}

/// Where what a transaction did can be had.
#[derive(Clone, Debug)]
pub enum Parts {
    Kept(Arc<Vec<Part>>),
    /// In the binlog: the transaction of this name, behind this position.
    Reread {
        behind: Position,
        gtid: Gtid,
    },
}

impl Parts {
    /// What they take in memory.
    pub fn bytes(&self) -> usize {
        match self {
            Parts::Kept(parts) => parts.iter().map(Part::bytes).sum(),
            Parts::Reread { .. } => 0,
        }
    }

    fn none() -> Parts {
        Parts::Kept(Arc::default())
    }
}

/// What became of a branch with a transaction.
#[derive(Clone, Debug)]
pub enum BranchStep {
    /// With what it did.
    Prepared(Xid, Parts),
    RolledBack(Xid),
}

/// A transaction that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    pub gtid: Gtid,
    pub logged: Logged,
    /// Of the branch that it committed.
    pub xid: Option<Xid>,
    /// It comes behind the beginning; see [`Transactions::new`].
    pub counts: bool,
    /// It has been told before; see [`Transactions::with_told`].
    pub was_told: bool,
    /// What it did in Heddle's own tables.
    pub own: Own,
    /// It prepared a branch, or rolled one back.
    pub branch: Option<BranchStep>,
    /// Empty for a branch that was prepared or rolled back.
    pub parts: Parts,
    /// All transactions up to this one.
    pub position: Position,
    /// Where a reading begins that goes on behind this one, if that is before `position`.
    pub from: Option<Position>,
    /// The file in which it ended, and where.
    pub place: (String, u64),
}

impl Ended {
    /// What it takes in memory.
    pub fn bytes(&self) -> usize {
        let of_branch = match &self.branch {
            Some(BranchStep::Prepared(_, parts)) => parts.bytes(),
            _ => 0,
        };
        self.parts.bytes() + of_branch
    }
}

/// What cannot be told of a binlog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a branch is committed that was prepared before the reading began: what it did is not known; begin \
     anew, without a token"
)]
pub struct UnknownBranch;

/// A transaction that has begun.
struct Open {
    gtid: Gtid,
    logged: Logged,
    /// All transactions before it.
    before: Position,
    gathered: Gathered,
}

/// Parts, while they are few enough.
#[derive(Default)]
struct Gathered {
    parts: Vec<Part>,
    bytes: usize,
    is_too_long: bool,
    own: Own,
}

/// A prepared branch.
struct Branch {
    before: Position,
    parts: Parts,
    /// Of `parts`.
    bytes: usize,
    own: Own,
}

/// Gathers the transactions of one binlog.
pub struct Transactions {
    /// Everything in it has been told before.
    told: Position,
    open: Option<Open>,
    prepared: HashMap<Xid, Branch>,
    /// Branches that were prepared before the reading began, without being read.
    older: HashSet<Xid>,
    bytes_max: usize,
    gives_told: bool,
}

impl Transactions {
    /// For a reading that tells what is not in `told`. `older` are branches that were prepared before it
    /// begins; until they have ended nothing is told. Of a transaction up to `bytes_max` are kept.
    pub fn new(told: Position, older: HashSet<Xid>, bytes_max: usize) -> Transactions {
        Transactions {
            told,
            open: None,
            prepared: HashMap::new(),
            older,
            bytes_max,
            gives_told: false,
        }
    }

    /// Gives what has been told before, too.
    #[must_use]
    pub fn with_told(mut self) -> Transactions {
        self.gives_told = true;
        self
    }

    /// Nothing that was prepared before the reading can come to be told any more.
    pub fn has_begun(&self) -> bool {
        self.older.is_empty()
    }

    /// Takes an event; `position` is what had been read before it, `place` where it ends, `logged` what the log says of its transaction.
    /// Gives the transaction that ends with it, unless it has been told before.
    ///
    /// # Errors
    /// It commits a branch of which nothing was read.
    pub fn take(
        &mut self,
        event: Event,
        position: &Position,
        place: (&str, u64),
        logged: Logged,
    ) -> Result<Option<Ended>, UnknownBranch> {
        if let Some(open) = &mut self.open {
            open.logged.connection = open.logged.connection.or(logged.connection);
        }
        let part = match event {
            Event::Begin(gtid) => {
                self.open = Some(Open {
                    gtid,
                    logged,
                    before: position.clone(),
                    gathered: Gathered::default(),
                });
                return Ok(None);
            }
            Event::End(end) => return self.end(end, place),
            Event::Alive => return Ok(None),
            Event::Source(text) => Part::Source(text),
            Event::Rows(rows) => Part::Rows(rows),
            Event::Statement(statement) => Part::Statement(statement),
            Event::Block(block) => Part::Block(block),
        };
        if let Some(open) = &mut self.open {
            open.gathered.add(part, self.bytes_max);
        }
        Ok(None)
    }

    fn end(&mut self, end: End, place: (&str, u64)) -> Result<Option<Ended>, UnknownBranch> {
        let Some(open) = self.open.take() else {
            return Ok(None);
        };
        let mut position = open.before.clone();
        open.gtid.add_to(&mut position);
        let (gtid, logged) = (open.gtid.clone(), open.logged);
        let was_told = gtid.is_in(&self.told);
        let began = self.has_begun();
        let mut own = open.gathered.own.clone();
        let mut step = None;
        let (parts, xid) = match end {
            End::Commit | End::RolledBack => (open.into_parts(), None),
            End::Prepared(xid) => {
                let parts = self.prepare(xid.clone(), open);
                step = Some(BranchStep::Prepared(xid, parts));
                (Parts::none(), None)
            }
            End::BranchRolledBack(xid) => {
                self.prepared.remove(&xid);
                self.older.remove(&xid);
                step = Some(BranchStep::RolledBack(xid));
                (Parts::none(), None)
            }
            End::BranchCommitted(xid) => match self.prepared.remove(&xid) {
                Some(branch) => {
                    own = branch.own;
                    (branch.parts, Some(xid))
                }
                None if self.older.remove(&xid) || was_told => (open.into_parts(), Some(xid)),
                None => return Err(UnknownBranch),
            },
        };
        if was_told && !self.gives_told {
            return Ok(None);
        }
        Ok(Some(Ended {
            gtid,
            logged,
            xid,
            // What ended while an older branch was prepared is before the beginning, and so is that branch.
            counts: began,
            was_told,
            own,
            branch: step,
            parts: match began {
                true => parts,
                false => Parts::none(),
            },
            from: self.oldest(&position),
            position,
            place: (place.0.to_owned(), place.1),
        }))
    }

    /// Keeps what a branch did; gives it, too.
    fn prepare(&mut self, xid: Xid, mut open: Open) -> Parts {
        let kept: usize = self.prepared.values().map(|it| it.bytes).sum();
        if kept + open.gathered.bytes > self.bytes_max.saturating_mul(PREPARED_FACTOR) {
            open.gathered.give_up();
        }
        // It is prepared anew, or its preparation is read now.
        self.older.remove(&xid);
        let branch = Branch {
            before: open.before.clone(),
            bytes: open.gathered.bytes,
            own: open.gathered.own.clone(),
            parts: open.into_parts(),
        };
        let parts = branch.parts.clone();
        self.prepared.insert(xid, branch);
        parts
    }

    /// Where a reading begins that finds every prepared branch.
    fn oldest(&self, position: &Position) -> Option<Position> {
        let mut before = self.prepared.values().map(|branch| &branch.before);
        let first = before.next()?.meet(position);
        Some(before.fold(first, |oldest, next| oldest.meet(next)))
    }
}

impl Gathered {
    fn add(&mut self, part: Part, bytes_max: usize) {
        self.own.note(&part);
        if self.is_too_long {
            return;
        }
        self.bytes += part.bytes();
        match self.bytes > bytes_max {
            true => self.give_up(),
            false => self.parts.push(part),
        }
    }

    fn give_up(&mut self) {
        *self = Gathered {
            is_too_long: true,
            own: std::mem::take(&mut self.own),
            ..Gathered::default()
        };
    }

    fn into_parts(self, behind: Position, gtid: Gtid) -> Parts {
        match self.is_too_long {
            true => Parts::Reread { behind, gtid },
            false => Parts::Kept(Arc::new(self.parts)),
        }
    }
}

impl Open {
    fn into_parts(self) -> Parts {
        self.gathered.into_parts(self.before, self.gtid)
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    fn gtid(sequence: u64) -> Gtid {
        Gtid::MariaDb {
            domain: 0,
            server_id: 1,
            sequence,
        }
    }

    fn at(sequence: u64) -> Position {
        let text = match sequence {
            0 => String::new(),
            sequence => format!("0-1-{sequence}"),
        };
        Position::parse(Engine::MariaDb, &text).expect("a position")
    }

    fn xid(name: &[u8]) -> Xid {
        Xid {
            format: 1,
            transaction: name.to_vec(),
            branch: Vec::new(),
        }
    }

    /// A transaction with one statement.
    fn run(all: &mut Transactions, sequence: u64, text: &str, end: End) -> Option<Ended> {
        let before = at(sequence - 1);
        let statement = Statement {
            database: "d".to_owned(),
            text: text.as_bytes().to_vec(),
            ..Statement::default()
        };
        let mut last = None;
        for event in [
            Event::Begin(gtid(sequence)),
            Event::Statement(statement),
            Event::End(end),
        ] {
            last = all
                .take(event, &before, ("b.1", sequence), 7.into())
                .expect("known");
        }
        last
    }

    /// What it did, where it ends, and where to begin behind it.
    fn shown(ended: Option<Ended>) -> String {
        let Some(ended) = ended else {
            return "-".to_owned();
        };
        let did = match ended.parts {
            Parts::Kept(parts) => parts
                .iter()
                .map(|part| match part {
                    Part::Statement(it) => String::from_utf8_lossy(&it.text).into_owned(),
                    other => format!("{other:?}"),
                })
                .collect::<String>(),
            Parts::Reread { behind, gtid } => format!("{gtid} behind {behind}"),
        };
        let from = ended.from.map_or("-".to_owned(), |from| from.to_string());
        format!("{did}|{}|{from}", ended.position)
    }

    #[test]
    fn what_a_branch_did_is_told_when_it_is_committed() {
        let mut all = Transactions::new(at(1), HashSet::new(), 1000);
        assert_eq!(
            shown(run(&mut all, 1, "a", End::Commit)),
            "-",
            "it was told"
        );
        assert_eq!(
            shown(run(&mut all, 2, "b", End::Prepared(xid(b"x")))),
            "|0-1-2|0-1-1"
        );
        assert_eq!(shown(run(&mut all, 3, "c", End::Commit)), "c|0-1-3|0-1-1");
        assert_eq!(
            shown(run(&mut all, 4, "d", End::Prepared(xid(b"y")))),
            "|0-1-4|0-1-1"
        );
        let committed = run(&mut all, 5, "", End::BranchCommitted(xid(b"x")));
        assert_eq!(
            committed.as_ref().and_then(|it| it.xid.clone()),
            Some(xid(b"x"))
        );
        assert_eq!(shown(committed), "b|0-1-5|0-1-3");
        assert_eq!(
            shown(run(&mut all, 6, "", End::BranchRolledBack(xid(b"y")))),
            "|0-1-6|-"
        );
    }

    #[test]
    fn what_a_branch_did_is_there_when_it_is_prepared() {
        let mut all = Transactions::new(at(2), HashSet::new(), 1000).with_told();
        let told = run(&mut all, 1, "a", End::Prepared(xid(b"x"))).expect("told before");
        assert!(told.was_told && matches!(told.branch, Some(BranchStep::Prepared(..))));
        run(&mut all, 2, "b", End::Commit);
        let prepared = run(&mut all, 3, "c", End::Prepared(xid(b"y"))).expect("it has ended");
        assert!(prepared.bytes() > 0 && prepared.parts.bytes() == 0);
        let Some(BranchStep::Prepared(name, parts)) = prepared.branch else {
            panic!("{prepared:?}");
        };
        assert_eq!(
            (name, parts.bytes()),
            (xid(b"y"), prepared.parts.bytes() + PART_BYTES + 1)
        );
        let undone = run(&mut all, 4, "", End::BranchRolledBack(xid(b"y"))).expect("it has ended");
        assert!(matches!(undone.branch, Some(BranchStep::RolledBack(..))));
        let committed =
            run(&mut all, 5, "", End::BranchCommitted(xid(b"x"))).expect("it has ended");
        assert!(!committed.was_told && committed.own.has_others);
    }

    #[test]
    fn a_reading_that_goes_on_finds_the_branch() {
        // The token of transaction 3 above: told up to it, read from 1.
        let mut all = Transactions::new(at(3), HashSet::new(), 1000);
        assert_eq!(shown(run(&mut all, 2, "b", End::Prepared(xid(b"x")))), "-");
        assert_eq!(shown(run(&mut all, 3, "c", End::Commit)), "-");
        let committed = run(&mut all, 5, "", End::BranchCommitted(xid(b"x")));
        assert_eq!(shown(committed), "b|0-1-5|-");
    }

    #[test]
    fn what_is_too_long_is_read_once_more() {
        let mut all = Transactions::new(at(0), HashSet::new(), 100);
        let long = "x".repeat(101);
        assert_eq!(
            shown(run(&mut all, 1, &long, End::Commit)),
            "0-1-1 behind |0-1-1|-"
        );
        assert_eq!(
            shown(run(&mut all, 2, &long, End::Prepared(xid(b"x")))),
            "|0-1-2|0-1-1"
        );
        let committed = run(&mut all, 3, "", End::BranchCommitted(xid(b"x")));
        assert_eq!(shown(committed), "0-1-2 behind 0-1-1|0-1-3|-");
    }

    #[test]
    fn nothing_is_told_while_an_older_branch_may_be_committed() {
        let older = HashSet::from([xid(b"x"), xid(b"y")]);
        let mut all = Transactions::new(at(0), older, 1000);
        assert_eq!(shown(run(&mut all, 1, "a", End::Commit)), "|0-1-1|-");
        run(&mut all, 2, "b", End::Prepared(xid(b"y")));
        assert!(!all.has_begun());
        assert_eq!(
            shown(run(&mut all, 3, "", End::BranchCommitted(xid(b"x")))),
            "|0-1-3|0-1-1"
        );
        assert!(all.has_begun());
        let known = run(&mut all, 4, "", End::BranchCommitted(xid(b"y")));
        assert_eq!(shown(known), "b|0-1-4|-");
        let begun = all.take(Event::Begin(gtid(5)), &at(4), ("b.1", 5), 7.into());
        assert!(begun.is_ok_and(|it| it.is_none()));
        let end = Event::End(End::BranchCommitted(xid(b"z")));
        assert!(
            all.take(end, &at(4), ("b.1", 5), 7.into()).is_err(),
            "nobody knows what it did"
        );
    }
}
