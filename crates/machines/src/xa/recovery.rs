//! Ends the branches of a transaction whose router is gone, or does not know.
//!
//! Any router may run it, several at once, and again: every step is idempotent, and the coordinator group's row
//! is the only judge. Judging a router dead that lives only undoes its transaction; it never tears it,
//! because the row that says so takes the place of the decision.
//!
//! - A row says commit, or abort: the branches follow it.
//! - No row: one that says abort is inserted under the same primary key, by a plain INSERT. While the
//!   coordinator group's transaction is open with its row in it, that INSERT waits, and nothing is known. Once
//!   the abort row is acknowledged as any commit is, the transaction can never be decided.
//! - XAER_NOTA for a branch says nothing: it is refused too while the branch's own connection lives.
//!   A branch has ended when the server does not list it any more.

use std::collections::BTreeMap;

use super::{Seat, Verdict};

/// Pause before something is tried again; it doubles up to the longest.
pub const PAUSE_US: u64 = 100_000;
/// See [`PAUSE_US`].
pub const PAUSE_MAX_US: u64 = 5_000_000;

/// After so many tries in vain a human is told; it goes on nevertheless.
pub const TRIES_TOLD: u32 = 10;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A branch stands on this seat's primary, or may.
    Found(Seat),
    /// What the coordinator group's row says; answers [`Action::Look`]. `None`: there is no row.
    Row(Option<Verdict>),
    /// The abort row is as safe as an acknowledged commit; answers [`Action::Bar`].
    Barred,
    /// Somebody else's row is there (1062); answers [`Action::Bar`].
    Taken,
    /// Nobody knows: no answer, no primary, a lock that did not become free (1205). Answers
    /// [`Action::Look`] and [`Action::Bar`].
    Open,
    /// The server says that it has ended the branch now; answers [`Action::End`].
    Ended(Seat),
    /// The server does not know the branch (1397), refused, or did not answer; answers
    /// [`Action::End`].
    Tried(Seat),
    /// Whether the seat's primary lists the branch; answers [`Action::List`]. `None`: no answer.
    Listed(Seat, Option<bool>),
    /// The moment of [`Action::Wake`] has come.
    Tick,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Read the coordinator group's row, on the primary of now.
    Look,
    /// Insert the abort row at the coordinator group.
    Bar,
    /// End the branch by this verdict. `kill`: its connection may live; end that first.
    End {
        seat: Seat,
        verdict: Verdict,
        kill: bool,
    },
    /// XA RECOVER on the seat's primary: is the branch still there?
    List(Seat),
    /// Send [`Event::Tick`] after so long.
    Wake { after_us: u64 },
    /// It does not come to an end; a human should look.
    Tell,
    /// All branches that were found have ended.
    Over { verdict: Verdict },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Branch {
    Found,
    Ending,
    Listing,
    /// It is listed still, or nobody answered.
    Waits,
    Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judge {
    Unasked,
    Looking,
    Barring,
    Waits,
    Says(Verdict),
}

/// One transaction in doubt.
#[derive(Clone, Debug)]
pub struct Recovery {
    judge: Judge,
    branches: BTreeMap<Seat, Branch>,
    tries: u32,
    /// A tick is on its way.
    waking: bool,
    over: bool,
    out: Vec<Action>,
}

impl Recovery {
    /// A transaction of which nothing is known, or this verdict.
    pub fn new(verdict: Option<Verdict>) -> Recovery {
        Recovery {
            judge: verdict.map_or(Judge::Unasked, Judge::Says),
            branches: BTreeMap::new(),
            tries: 0,
            waking: false,
            over: false,
            out: Vec::new(),
        }
    }

    /// Takes note of what happened and says what to do.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Found(seat) => self.found(seat),
            Event::Row(Some(verdict)) if self.judge == Judge::Looking => self.judged(verdict),
            Event::Row(None) if self.judge == Judge::Looking => {
                self.judge = Judge::Barring;
                self.out.push(Action::Bar);
            }
            Event::Barred if self.judge == Judge::Barring => self.judged(Verdict::Abort),
            Event::Taken if self.judge == Judge::Barring => self.look(),
            Event::Open if matches!(self.judge, Judge::Looking | Judge::Barring) => {
                self.judge = Judge::Waits;
                self.again();
            }
            Event::Ended(seat) if self.branch(seat) == Some(Branch::Ending) => {
                self.branches.insert(seat, Branch::Ended);
                self.conclude();
            }
            Event::Tried(seat) if self.branch(seat) == Some(Branch::Ending) => {
                self.branches.insert(seat, Branch::Listing);
                self.out.push(Action::List(seat));
            }
            Event::Listed(seat, Some(false)) if self.branch(seat) == Some(Branch::Listing) => {
                self.branches.insert(seat, Branch::Ended);
                self.conclude();
            }
            Event::Listed(seat, _) if self.branch(seat) == Some(Branch::Listing) => {
                self.branches.insert(seat, Branch::Waits);
                self.again();
            }
            Event::Tick => self.tick(),
            _ => {}
        }
        std::mem::take(&mut self.out)
    }

    /// What the transaction came to, once that is known.
    pub fn verdict(&self) -> Option<Verdict> {
        match self.judge {
            Judge::Says(verdict) => Some(verdict),
            _ => None,
        }
    }

    fn branch(&self, seat: Seat) -> Option<Branch> {
        self.branches.get(&seat).copied()
    }

    fn found(&mut self, seat: Seat) {
        // One that is being ended is found again and again.
        if !matches!(self.branch(seat), None | Some(Branch::Ended)) {
            return;
        }
        self.branches.insert(seat, Branch::Found);
        self.over = false;
        match self.judge {
            Judge::Unasked => self.look(),
            Judge::Says(verdict) => self.end(verdict),
            _ => {}
        }
    }

    fn look(&mut self) {
        self.judge = Judge::Looking;
        self.out.push(Action::Look);
    }

    fn judged(&mut self, verdict: Verdict) {
        self.judge = Judge::Says(verdict);
        self.tries = 0;
        self.end(verdict);
    }

    /// A branch that was tried and is there still may have a connection that lives.
    fn end(&mut self, verdict: Verdict) {
        for (&seat, branch) in &mut self.branches {
            let kill = match branch {
                Branch::Found => false,
                Branch::Waits => true,
                _ => continue,
            };
            *branch = Branch::Ending;
            self.out.push(Action::End {
                seat,
                verdict,
                kill,
            });
        }
    }

    /// One tick serves all that wait.
    fn again(&mut self) {
        if std::mem::replace(&mut self.waking, true) {
            return;
        }
        self.tries = self.tries.saturating_add(1);
        if self.tries == TRIES_TOLD {
            self.out.push(Action::Tell);
        }
        let doublings = self.tries.saturating_sub(1).min(16);
        let after_us = (PAUSE_US << doublings).min(PAUSE_MAX_US);
        self.out.push(Action::Wake { after_us });
    }

    fn tick(&mut self) {
        self.waking = false;
        match self.judge {
            Judge::Waits => self.look(),
            Judge::Says(verdict) => self.end(verdict),
            _ => {}
        }
    }

    fn conclude(&mut self) {
        let ended = self.branches.values().all(|it| *it == Branch::Ended);
        if let Judge::Says(verdict) = self.judge
            && ended
            && !self.over
        {
            self.over = true;
            self.out.push(Action::Over { verdict });
        }
    }
}
