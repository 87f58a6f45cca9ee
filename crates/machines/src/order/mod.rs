//! One order over the transactions of several groups, made of the groups' own logs alone.
//!
//! A transaction's place is decided by what its group's log had before it: the *logical clock*, a number that routers
//! raise in every group, and write nowhere before every group has the number in front of it. So what comes
//! before something in time has at most the next number, whichever group it is in. The order is by number,
//! then by the group's name, then by the group's log. It has two exceptions, which keep the changes of each row in their
//! order: a *decided* transaction waits until its branches are prepared in the logs of their groups, and the log of a
//! branch's group stands still at the branch's end until the transaction was told. What something waits for
//! has at most the next number. So the order of what has a number depends on nothing in front of the number before it, and
//! a reader makes the order silently for one number before it tells.
//!
//! Invariants: which logs arrive first changes nothing; a reader that begins, or goes on, tells the same order from
//! there; a group's transactions keep the order of its log, but for branches, which are told where their transaction is.
//!
//! Must not know: what transactions did, where logs are read, what numbers stand for in time.

use std::collections::{BTreeMap, BTreeSet};

pub mod script;

/// What a group's log has next. `X` names a transaction over several groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<X> {
    /// The logical clock has this number from here on.
    Tick(u64),
    /// Nothing that anybody is told.
    Silent,
    /// A transaction of this group alone.
    Whole,
    /// A branch is prepared.
    Prepared(X),
    /// A transaction is decided, and has branches in these groups.
    Decided(X, BTreeSet<String>),
    /// A branch is committed, as the log of this group has decided.
    Ended(X, String),
    /// A branch is rolled back.
    RolledBack(X),
}

/// What becomes of what a group's log has next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It is passed over.
    Pass,
    /// It is told, with the branches of these groups.
    Tell(BTreeSet<String>),
    /// It cannot be told: the log of this group lacks its branch.
    Torn(String),
}

/// The number of the logical clock that has to be in every log before anything more can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The next one, whatever it is.
    Next,
    AtLeast(u64),
}

/// Where one group's log is.
#[derive(Clone, Debug)]
struct Log<X> {
    /// `None` until the first tick has come.
    clock: Option<u64>,
    next: Option<Next<X>>,
    /// Branches that are prepared and have not ended.
    prepared: BTreeSet<X>,
    /// Those that ended before the order was merged.
    ended: BTreeSet<X>,
    /// What was told before has been read once more.
    is_ready: bool,
    /// The farm has got the group while the order went on: it is told from this number on, when that is known.
    joins_at: Option<u64>,
    is_joining: bool,
}

impl<X> Log<X> {
    fn new(is_ready: bool) -> Log<X> {
        Log {
            clock: None,
            next: None,
            prepared: BTreeSet::new(),
            ended: BTreeSet::new(),
            is_ready,
            joins_at: None,
            is_joining: false,
        }
    }

    fn has(&self, number: u64) -> bool {
        self.clock.is_some_and(|clock| clock >= number)
    }
}

/// A decided transaction whose place is behind.
#[derive(Clone, Debug)]
struct Behind {
    by: String,
    /// The number that it has at most; `None` while its group's first tick has not come.
    clock: Option<u64>,
    /// Groups whose branches have not ended.
    left: BTreeSet<String>,
    /// It is in front of what is read, so that nobody who goes on finds it again.
    is_early: bool,
}

/// The order as one reader makes it.
#[derive(Clone, Debug)]
pub struct Order<X> {
    logs: BTreeMap<String, Log<X>>,
    /// Every log has reached the number with which the order begins.
    is_merging: bool,
    /// And every log has reached the next one.
    is_telling: bool,
    /// That number.
    tells_at: u64,
    /// The order cannot begin with this number.
    too_early: u64,
    behind: BTreeMap<X, Behind>,
}

impl<X: Clone + Ord> Order<X> {
    /// An order that begins with a number to come.
    pub fn begin<'a>(groups: impl IntoIterator<Item = &'a str>) -> Order<X> {
        let logs = groups.into_iter();
        Order {
            logs: logs
                .map(|group| (group.to_owned(), Log::new(true)))
                .collect(),
            is_merging: false,
            is_telling: false,
            tells_at: 0,
            too_early: 0,
            behind: BTreeMap::new(),
        }
    }

    /// An order that goes on: by group the number that its log had. What was told has to be
    /// [replayed](Order::replay) in front of everything.
    pub fn resume(places: impl IntoIterator<Item = (String, u64)>) -> Order<X> {
        let log = |(group, clock)| {
            let log = Log {
                clock: Some(clock),
                ..Log::new(false)
            };
            (group, log)
        };
        Order {
            logs: places.into_iter().map(log).collect(),
            is_merging: true,
            is_telling: true,
            tells_at: 0,
            too_early: 0,
            behind: BTreeMap::new(),
        }
    }

    /// The farm has got a group. It is told from a number on that is nowhere yet.
    pub fn join(&mut self, group: &str) {
        let is_joining = self.is_merging;
        let log = || Log {
            is_joining,
            ..Log::new(true)
        };
        self.logs.entry(group.to_owned()).or_insert_with(log);
    }

    /// The farm does not have the group any more.
    pub fn leave(&mut self, group: &str) {
        self.logs.remove(group);
        self.behind.retain(|_, it| {
            it.left.remove(group);
            !it.left.is_empty()
        });
        self.align();
    }

    /// The group's number, where it is told; `None` while the order cannot go on behind a token.
    pub fn place(&self, group: &str) -> Option<u64> {
        let log = self.logs.get(group)?;
        log.clock.filter(|_| self.is_telling && !log.is_joining)
    }

    /// Takes note of what was told, or comes before the beginning.
    pub fn replay(&mut self, group: &str, told: Next<X>) {
        match told {
            Next::Tick(_) | Next::Silent | Next::Whole => {}
            other => self.take_note(group, other),
        }
    }

    /// A transaction that the group decided in front of what is read, perhaps; its branches may end later. To be said in
    /// front of everything else. The order begins when all of these have ended.
    pub fn early(&mut self, group: &str, id: X, groups: BTreeSet<String>) {
        self.put_behind(group, id, groups, true);
    }

    /// All of the group that was told has been replayed.
    pub fn ready(&mut self, group: &str) {
        if let Some(log) = self.logs.get_mut(group) {
            log.is_ready = true;
        }
        if self.logs.values().all(|log| log.is_ready) {
            let groups: Vec<String> = self.logs.keys().cloned().collect();
            groups.iter().for_each(|group| self.forget(group));
        }
    }

    /// The group's log has this next.
    pub fn arrive(&mut self, group: &str, next: Next<X>) {
        if let Some(log) = self.logs.get_mut(group) {
            log.next = Some(next);
        }
    }

    /// The log is read once more: what it had next will come again.
    pub fn withdraw(&mut self, group: &str) {
        if let Some(log) = self.logs.get_mut(group) {
            log.next = None;
        }
    }

    /// What becomes of what the group's log has next; `None` while that has to wait.
    pub fn turn(&self, group: &str) -> Option<Turn> {
        let log = self.logs.get(group)?;
        let next = log.next.as_ref()?;
        if !self.is_merging {
            return self.is_before_beginning(log).then_some(Turn::Pass);
        }
        if !log.is_ready {
            return None;
        }
        if log.clock.is_none() || log.is_joining || is_free(next) {
            return Some(Turn::Pass);
        }
        if self.first()? != group || self.awaited(group).next().is_some() {
            return None;
        }
        Some(match next {
            _ if !self.is_telling => Turn::Pass,
            Next::Whole => Turn::Tell(BTreeSet::new()),
            Next::Decided(id, groups) => self.told_with(id, groups),
            _ => Turn::Pass,
        })
    }

    /// It was passed over, or told.
    pub fn pass(&mut self, group: &str) {
        let Some(next) = self.logs.get_mut(group).and_then(|log| log.next.take()) else {
            return;
        };
        self.take_note(group, next);
        self.align();
    }

    /// What routers have to do so that more can be told.
    pub fn wish(&self) -> Option<Wish> {
        let unknown = |log: &Log<X>| log.clock.is_none();
        if !self.is_telling || self.logs.values().any(unknown) {
            return Some(Wish::Next);
        }
        if let Some(first) = self.first() {
            let waits = self.awaited(first).next().is_some();
            let clock = self.logs.get(first).and_then(|log| log.clock);
            return clock.filter(|_| waits).map(|it| Wish::AtLeast(it + 1));
        }
        // What each of them waits for has the next number at most.
        let held = self.logs.values().filter(|log| log.next.is_some());
        let clocks = held.filter_map(|log| log.clock);
        clocks.max().map(|clock| Wish::AtLeast(clock + 2))
    }

    /// The groups whose logs are waited for.
    pub fn waits_for(&self) -> Vec<&str> {
        let late = |(_, log): &(&String, &Log<X>)| {
            !log.is_ready || (log.clock.is_none() && !self.is_merging)
        };
        let unknown: Vec<&str> = self.logs.iter().filter(late).map(|it| &**it.0).collect();
        if !unknown.is_empty() {
            return unknown;
        }
        match self.first() {
            Some(first) => self.awaited(first).collect(),
            None => Vec::new(),
        }
    }

    /// A decided transaction is behind, and some of its branches have not ended.
    pub fn is_behind(&self, id: &X) -> bool {
        self.behind.contains_key(id)
    }

    /// The branch is prepared in the log of this group, and has not ended there.
    pub fn is_prepared(&self, group: &str, id: &X) -> bool {
        let log = self.logs.get(group);
        log.is_some_and(|log| log.prepared.contains(id))
    }

    /// A log that has not reached the number with which the order begins.
    fn is_before_beginning(&self, log: &Log<X>) -> bool {
        let clocks = self.logs.values().map(|log| log.clock);
        match (log.clock, clocks.collect::<Option<Vec<u64>>>()) {
            (None, _) => true,
            (Some(clock), Some(all)) => {
                clock <= self.too_early || all.iter().any(|&other| other > clock)
            }
            (Some(_), None) => false,
        }
    }

    fn has_early(&self) -> bool {
        self.behind.values().any(|it| it.is_early)
    }

    /// Begins the order when every log has the same number, and to tell when every log has the next one.
    fn align(&mut self) {
        if self.is_merging && !self.is_telling {
            let number = self.tells_at;
            self.is_telling = self.logs.values().all(|it| it.is_joining || it.has(number));
        }
        if self.is_merging {
            return;
        }
        let clocks: Option<BTreeSet<u64>> = self.logs.values().map(|log| log.clock).collect();
        let Some(clocks) = clocks.filter(|it| it.len() == 1) else {
            return;
        };
        let number = clocks.first().copied().unwrap_or(0);
        if number <= self.too_early || self.has_early() {
            // Not with this number any more: what comes behind it is passed over in any order.
            self.too_early = number;
            return;
        }
        self.is_merging = true;
        // What has the number itself may wait for what is in front of it elsewhere.
        self.tells_at = number + 1;
    }

    /// The group whose log has what comes first of everything that waits for nothing but its place.
    fn first(&self) -> Option<&str> {
        let heads = self.logs.iter().filter_map(|(group, log)| {
            let next = log.next.as_ref().filter(|next| !is_free(next))?;
            self.is_ready(log, next).then_some((log.clock?, &**group))
        });
        heads.min().map(|(_, group)| group)
    }

    /// Groups whose logs may have something in front of what this one has.
    fn awaited<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a str> + 'a {
        let own = self.logs.get(group).and_then(|log| log.clock);
        let others = self.logs.iter().filter(move |(name, log)| {
            let has_none = log.next.as_ref().is_none_or(is_free);
            let may_be_before = !log.is_joining && (log.clock, &***name) < (own, group);
            !log.is_ready || (has_none && may_be_before)
        });
        others.map(|(name, _)| &**name)
    }

    /// It waits for no other log's transaction.
    fn is_ready(&self, log: &Log<X>, next: &Next<X>) -> bool {
        let Some(clock) = log.clock else {
            return true;
        };
        // A log that is so far cannot have it any more.
        let is_far = |group: &str| match self.logs.get(group) {
            Some(log) => log.is_joining || log.clock.is_none_or(|it| it >= clock + 2),
            None => true,
        };
        let has_ended = |group: &str, id: &X| {
            let log = self.logs.get(group);
            log.is_some_and(|log| log.ended.contains(id))
        };
        match next {
            Next::Decided(id, groups) => groups
                .iter()
                .all(|group| self.is_prepared(group, id) || is_far(group) || has_ended(group, id)),
            Next::Ended(id, by) => self.behind.contains_key(id) || is_far(by),
            _ => true,
        }
    }

    /// The branches with which a decided transaction is told.
    fn told_with(&self, id: &X, groups: &BTreeSet<String>) -> Turn {
        let mut with = BTreeSet::new();
        for group in groups {
            // What is before a group's beginning is not told.
            let log = self.logs.get(group);
            if log.is_none_or(|log| log.is_joining || log.clock.is_none()) {
                continue;
            }
            if !self.is_prepared(group, id) {
                return Turn::Torn(group.clone());
            }
            with.insert(group.clone());
        }
        Turn::Tell(with)
    }

    fn take_note(&mut self, group: &str, of: Next<X>) {
        let most = self.logs.values().filter_map(|log| log.clock).max();
        let Some(log) = self.logs.get_mut(group) else {
            return;
        };
        match of {
            Next::Silent | Next::Whole => {}
            Next::Tick(clock) => {
                let early = self.behind.values_mut();
                let early = early.filter(|it| it.by == group && it.clock.is_none());
                early.for_each(|it| it.clock = Some(clock));
                log.clock = log.clock.max(Some(clock));
                if log.is_joining {
                    let number = most.unwrap_or(0).max(clock) + 2;
                    let joins_at = *log.joins_at.get_or_insert(number);
                    log.is_joining = clock < joins_at;
                }
                // What has the number before may not wait for it any more.
                if self.is_merging && log.has(self.tells_at + 1) {
                    log.ended.clear();
                }
                self.forget(group);
            }
            Next::Prepared(id) => drop(log.prepared.insert(id)),
            Next::RolledBack(id) => drop(log.prepared.remove(&id)),
            Next::Ended(id, _) => {
                log.prepared.remove(&id);
                if !self.is_merging {
                    log.ended.insert(id.clone());
                }
                if let Some(it) = self.behind.get_mut(&id) {
                    it.left.remove(group);
                    if it.left.is_empty() {
                        self.behind.remove(&id);
                    }
                }
            }
            Next::Decided(id, groups) => self.put_behind(group, id, groups, false),
        }
    }

    fn put_behind(&mut self, group: &str, id: X, groups: BTreeSet<String>, is_early: bool) {
        let is_known = |group: &String| self.logs.contains_key(group);
        let behind = Behind {
            by: group.to_owned(),
            clock: self.logs.get(group).and_then(|log| log.clock),
            left: groups.into_iter().filter(is_known).collect(),
            is_early,
        };
        if !behind.left.is_empty() {
            self.behind.insert(id, behind);
        }
    }

    /// Forgets branches that the group's log cannot have any more.
    fn forget(&mut self, group: &str) {
        let Some(log) = self.logs.get(group) else {
            return;
        };
        let clock = log.clock.unwrap_or(0);
        self.behind.retain(|id, it| {
            let is_far = it.clock.is_some_and(|of| clock >= of + 2);
            if is_far && !log.prepared.contains(id) {
                it.left.remove(group);
            }
            !it.left.is_empty()
        });
    }
}

/// Nothing's place depends on it.
fn is_free<X>(next: &Next<X>) -> bool {
    matches!(next, Next::Tick(_) | Next::Silent | Next::RolledBack(_))
}
