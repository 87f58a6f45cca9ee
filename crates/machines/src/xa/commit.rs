//! Ends a client's transaction over several groups.
//!
//! Each seat has at most one question open, since its connection carries one statement at a time; a
//! question is answered by exactly one of [`Event::Done`], [`Event::Refused`] and [`Event::Lost`].
//! The client is answered once, by [`Action::Reply`]; nothing is asked after it.

use super::{Seat, Verdict};

/// What a group did for the transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// It changed rows.
    pub wrote: bool,
    /// It read with locks that must hold until the decision.
    pub locked: bool,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client wants its work to stay.
    Commit,
    /// The client wants its work prepared; a transaction manager of its own tells later, by one of
    /// the other two, how it ends.
    Hold,
    /// The client wants it undone.
    Rollback,
    /// The seat did what it was asked, and that is as safe as any acknowledged commit.
    Done(Seat),
    /// The seat did not and surely will not; its server's words. An error that leaves room for doubt
    /// is [`Event::Lost`].
    Refused(Seat, Refusal),
    /// The seat's connection broke: what it was asked may have happened or not.
    Lost(Seat),
    /// What became of the decision; answers [`Action::Settle`]. `None` when nobody can say in time.
    Settled(Option<Verdict>),
}

/// An error of a server, for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub number: u16,
    pub text: String,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// XA END, XA PREPARE.
    Prepare(Seat),
    /// The coordinator group's COMMIT; with `row` behind the row that names all branches, in one trip.
    Decide { row: bool },
    /// The row that names all branches, and XA END, XA PREPARE of the client's own transaction at the
    /// coordinator group, in one trip: whoever commits that, decides.
    Hold(Seat),
    /// XA END, XA COMMIT ONE PHASE: it alone wrote, so its commit is the decision.
    Single(Seat),
    /// XA COMMIT of a prepared branch.
    Commit(Seat),
    /// End it without an effect: ROLLBACK at the coordinator group, XA END if need be and XA ROLLBACK elsewhere.
    Rollback(Seat),
    /// Close the connection: its server undoes what is not prepared, and lets others end what is.
    Close(Seat),
    /// Ask the group whose commit decides what became of it, until it says so or it takes too long.
    /// Its server must have nothing of the lost connection left to do; where a row decides, the row
    /// that bars it sees to that.
    Settle(Seat),
    /// The branch may stand prepared on its server, and nobody here can reach it: recovery ends it.
    /// With the verdict when it is known.
    HandOver(Seat, Option<Verdict>),
    /// All branches have ended by the decision, and nobody needs its row any more.
    Forget,
    /// The client's answer.
    Reply(Reply),
}

/// How it ended for the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Decided. Reads of these seats must wait until recovery has ended their branches.
    Committed { unfinished: Vec<Seat> },
    /// All of it is prepared; the machine waits for [`Event::Commit`] or [`Event::Rollback`].
    Held,
    /// Nothing of it stays: on the client's wish, or for this reason.
    RolledBack(Option<Reason>),
    /// Nobody can say yet; recovery will end it one way or the other, whole.
    Unknown,
}

/// Why a transaction was undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// This group's server refused.
    Refused(Seat, Refusal),
    /// This group's connection broke before the decision.
    Lost(Seat),
}

/// How a seat stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stand {
    /// The client's statements run there.
    Active,
    /// A question is open.
    Asked(Question),
    Prepared,
    Ended,
    /// Its connection is gone.
    Gone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Question {
    Prepare,
    Decide,
    Finish,
    Rollback,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Preparing,
    /// The commit of this seat is the decision.
    Deciding(Seat),
    /// The client's own transaction is prepared at the coordinator group.
    Holding,
    /// All is prepared. True once the client knows.
    Held(bool),
    /// The client's manager has told, and its own transaction ends so at the coordinator group.
    Releasing(Verdict),
    Settling(Seat),
    Finishing,
    Undoing(Option<Reason>),
    Over,
}

/// One transaction.
#[derive(Clone, Debug)]
pub struct Commit {
    seats: Vec<(Work, Stand)>,
    phase: Phase,
    /// The decision stands in a row.
    row: bool,
    /// The client's manager will decide.
    holds: bool,
    unfinished: Vec<Seat>,
    out: Vec<Action>,
}

impl Commit {
    /// A transaction whose groups did this work; the coordinator group is the first.
    ///
    /// # Panics
    /// Without a group.
    pub fn new(work: impl IntoIterator<Item = Work>) -> Commit {
        let seats: Vec<(Work, Stand)> = work.into_iter().map(|did| (did, Stand::Active)).collect();
        assert!(!seats.is_empty(), "a transaction has a group");
        Commit {
            seats,
            phase: Phase::Open,
            row: false,
            holds: false,
            unfinished: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Takes note of what happened and says what to do. What comes late, or twice, changes nothing.
    pub fn step(&mut self, event: Event) -> Vec<Action> {
        match event {
            Event::Commit if self.phase == Phase::Open => self.commit(),
            Event::Rollback if self.phase == Phase::Open => self.undo(None),
            Event::Hold if self.phase == Phase::Open => self.hold(),
            Event::Commit if self.phase == Phase::Held(true) => self.release(Verdict::Commit),
            Event::Rollback if self.phase == Phase::Held(true) => self.release(Verdict::Abort),
            Event::Commit | Event::Rollback | Event::Hold => {}
            Event::Done(seat) => self.done(seat),
            Event::Refused(seat, refusal) => self.refused(seat, refusal),
            Event::Lost(seat) => self.lost(seat),
            Event::Settled(verdict) => self.settled(verdict),
        }
        std::mem::take(&mut self.out)
    }

    /// True once the client was answered.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    fn writers(&self) -> Vec<Seat> {
        self.seats_where(|seat, work| seat != Seat::COORDINATOR && work.wrote)
    }

    fn wrote(&self) -> bool {
        self.seats.iter().any(|(work, _)| work.wrote)
    }

    fn seats_where(&self, wanted: impl Fn(Seat, Work) -> bool) -> Vec<Seat> {
        let seats = (0u16..).map(Seat).zip(&self.seats);
        seats
            .filter(|(seat, (work, _))| wanted(*seat, *work))
            .map(|(seat, _)| seat)
            .collect()
    }

    fn stand(&self, seat: Seat) -> Stand {
        self.seats[usize::from(seat.0)].1
    }

    /// Puts the seat into another stand; gives the one before.
    fn set(&mut self, seat: Seat, stand: Stand) -> Stand {
        std::mem::replace(&mut self.seats[usize::from(seat.0)].1, stand)
    }

    fn all(&self) -> Vec<Seat> {
        self.seats_where(|_, _| true)
    }

    fn work(&self, seat: Seat) -> Work {
        self.seats[usize::from(seat.0)].0
    }

    fn ask(&mut self, seat: Seat, question: Question, action: Action) {
        self.set(seat, Stand::Asked(question));
        self.out.push(action);
    }

    fn commit(&mut self) {
        let writers = self.writers();
        match writers[..] {
            [] => self.decide(Seat::COORDINATOR),
            [only] if !self.work(Seat::COORDINATOR).wrote => self.decide(only),
            _ => {
                self.phase = Phase::Preparing;
                for seat in writers {
                    self.ask(seat, Question::Prepare, Action::Prepare(seat));
                }
            }
        }
    }

    /// The client's manager decides, some time: all that must last until then is prepared, the
    /// coordinator group last.
    fn hold(&mut self) {
        self.holds = true;
        self.row = true;
        // Locks of what was only read must last as well, and the coordinator group has the row.
        for (work, _) in &mut self.seats {
            work.wrote |= work.locked;
        }
        self.seats[0].0.wrote = true;
        self.phase = Phase::Preparing;
        for seat in self.writers() {
            self.ask(seat, Question::Prepare, Action::Prepare(seat));
        }
        self.prepared();
    }

    /// It ends as the client's manager says. The coordinator group goes first: its branch of the client's own
    /// name is what others ask for.
    fn release(&mut self, verdict: Verdict) {
        self.phase = Phase::Releasing(verdict);
        let action = match verdict {
            Verdict::Commit => Action::Commit(Seat::COORDINATOR),
            Verdict::Abort => Action::Rollback(Seat::COORDINATOR),
        };
        self.ask(Seat::COORDINATOR, Question::Decide, action);
    }

    /// Nobody knows how the coordinator group stands: all that is prepared stays so until the client's manager
    /// has made it end.
    fn let_be(&mut self) {
        for seat in self.all() {
            match self.stand(seat) {
                Stand::Prepared => self.hand_over(seat, None),
                Stand::Active if seat == Seat::COORDINATOR => self.out.push(Action::Close(seat)),
                Stand::Active => self.ask(seat, Question::Rollback, Action::Rollback(seat)),
                _ => {}
            }
        }
        self.reply(Reply::Unknown);
    }

    /// All that must survive is prepared: this seat's commit decides. Who only read, without locks,
    /// has nothing to wait for.
    fn decide(&mut self, seat: Seat) {
        self.phase = Phase::Deciding(seat);
        for idle in self.seats_where(|other, work| other != seat && !work.wrote && !work.locked) {
            if self.stand(idle) == Stand::Active {
                self.ask(idle, Question::Rollback, Action::Rollback(idle));
            }
        }
        self.row = seat == Seat::COORDINATOR && !self.writers().is_empty();
        let action = match seat {
            Seat::COORDINATOR => Action::Decide { row: self.row },
            other => Action::Single(other),
        };
        self.ask(seat, Question::Decide, action);
    }

    fn done(&mut self, seat: Seat) {
        let Stand::Asked(question) = self.stand(seat) else {
            return;
        };
        let stand = match question {
            Question::Prepare => Stand::Prepared,
            _ => Stand::Ended,
        };
        self.set(seat, stand);
        match (&self.phase, question) {
            (Phase::Preparing, Question::Prepare) => self.prepared(),
            (Phase::Undoing(_), Question::Prepare) => {
                self.ask(seat, Question::Rollback, Action::Rollback(seat));
            }
            (Phase::Deciding(_), Question::Decide) => self.finish(),
            (Phase::Holding, Question::Decide) => {
                self.set(seat, Stand::Prepared);
                self.phase = Phase::Held(false);
                self.conclude();
            }
            (Phase::Releasing(Verdict::Commit), Question::Decide) => self.finish(),
            (Phase::Releasing(Verdict::Abort), Question::Decide) => self.undo(None),
            _ => self.conclude(),
        }
    }

    fn prepared(&mut self) {
        let ready = self
            .writers()
            .into_iter()
            .all(|seat| self.stand(seat) == Stand::Prepared);
        match (ready, self.holds) {
            (true, false) => self.decide(Seat::COORDINATOR),
            (true, true) => {
                self.phase = Phase::Holding;
                for idle in self.seats_where(|_, work| !work.wrote) {
                    if self.stand(idle) == Stand::Active {
                        self.ask(idle, Question::Rollback, Action::Rollback(idle));
                    }
                }
                let coordinator = Seat::COORDINATOR;
                self.ask(coordinator, Question::Decide, Action::Hold(coordinator));
            }
            (false, _) => {}
        }
    }

    fn refused(&mut self, seat: Seat, refusal: Refusal) {
        let Stand::Asked(question) = self.stand(seat) else {
            return;
        };
        self.set(seat, Stand::Active);
        match (&self.phase, question) {
            (_, Question::Finish) => self.hand_over(seat, Some(Verdict::Commit)),
            // It may be prepared still, or somebody else has ended it.
            (Phase::Releasing(_), Question::Decide) => self.let_be(),
            // A connection that cannot be rolled back is closed, and the server does it then; what is
            // prepared stays, and recovery ends it.
            (_, Question::Rollback) => self.gone(seat),
            (Phase::Undoing(_), Question::Prepare) => {
                self.ask(seat, Question::Rollback, Action::Rollback(seat));
            }
            _ => self.undo(Some(Reason::Refused(seat, refusal))),
        }
        self.conclude();
    }

    fn lost(&mut self, seat: Seat) {
        let before = self.set(seat, Stand::Gone);
        match (self.phase.clone(), before) {
            (_, Stand::Ended | Stand::Gone) => {}
            (Phase::Holding | Phase::Releasing(_), Stand::Asked(Question::Decide)) => {
                self.let_be();
            }
            // What is prepared stays so without its connection.
            (Phase::Holding | Phase::Held(_) | Phase::Releasing(_), _) => {}
            // Whatever became of it, nothing was there to be kept, and what it read held until then.
            (Phase::Deciding(_), Stand::Asked(Question::Decide)) if !self.wrote() => self.finish(),
            (Phase::Deciding(decides), Stand::Asked(Question::Decide)) => {
                self.phase = Phase::Settling(decides);
                self.out.push(Action::Settle(decides));
            }
            (Phase::Open | Phase::Preparing, _) => {
                self.left_behind(seat, before, None);
                self.undo(Some(Reason::Lost(seat)));
            }
            // A writer: whatever is decided, somebody else must end it there.
            (Phase::Deciding(_) | Phase::Settling(_), Stand::Prepared) => {}
            // Who read with locks and lost them may have read what does not hold any more, but the
            // decision is on its way; its server undoes a branch that was not prepared.
            (Phase::Deciding(_) | Phase::Settling(_), _) => {}
            (Phase::Finishing, Stand::Asked(Question::Finish)) => {
                self.hand_over(seat, Some(Verdict::Commit));
            }
            (Phase::Undoing(_), _) => self.left_behind(seat, before, Some(Verdict::Abort)),
            (Phase::Finishing | Phase::Over, _) => {}
        }
        self.conclude();
    }

    /// A branch whose connection is gone may be prepared on its server; one that was not asked to
    /// prepare is undone there.
    fn left_behind(&mut self, seat: Seat, before: Stand, verdict: Option<Verdict>) {
        let may_stand = matches!(
            before,
            Stand::Prepared | Stand::Asked(Question::Prepare | Question::Rollback)
        );
        if may_stand && seat != Seat::COORDINATOR && self.work(seat).wrote {
            // Nothing was decided and nothing will be: the coordinator group is rolled back.
            let verdict = verdict.or(Some(Verdict::Abort));
            self.out.push(Action::HandOver(seat, verdict));
        }
    }

    fn gone(&mut self, seat: Seat) {
        self.set(seat, Stand::Gone);
        self.out.push(Action::Close(seat));
        if seat != Seat::COORDINATOR && self.work(seat).wrote {
            self.out.push(Action::HandOver(seat, Some(Verdict::Abort)));
        }
    }

    fn hand_over(&mut self, seat: Seat, verdict: Option<Verdict>) {
        if self.set(seat, Stand::Gone) != Stand::Gone {
            self.out.push(Action::Close(seat));
        }
        self.unfinished.push(seat);
        self.out.push(Action::HandOver(seat, verdict));
    }

    fn settled(&mut self, verdict: Option<Verdict>) {
        let Phase::Settling(decides) = self.phase else {
            return;
        };
        match verdict {
            Some(Verdict::Commit) => self.finish(),
            Some(Verdict::Abort) => self.undo(Some(Reason::Lost(decides))),
            None => {
                for seat in self.all() {
                    match self.stand(seat) {
                        Stand::Prepared => self.hand_over(seat, None),
                        Stand::Gone if seat != decides && self.is_branch(seat) => {
                            self.hand_over(seat, None);
                        }
                        Stand::Active => {
                            self.ask(seat, Question::Rollback, Action::Rollback(seat));
                        }
                        _ => {}
                    }
                }
                self.reply(Reply::Unknown);
            }
        }
    }

    fn is_branch(&self, seat: Seat) -> bool {
        seat != Seat::COORDINATOR && self.work(seat).wrote
    }

    /// It is decided: the branches are committed, and who held locks lets them go.
    fn finish(&mut self) {
        self.phase = Phase::Finishing;
        for seat in self.all() {
            match self.stand(seat) {
                Stand::Prepared => self.ask(seat, Question::Finish, Action::Commit(seat)),
                Stand::Active => self.ask(seat, Question::Rollback, Action::Rollback(seat)),
                Stand::Gone if self.row && self.is_branch(seat) => {
                    self.hand_over(seat, Some(Verdict::Commit));
                }
                _ => {}
            }
        }
        self.conclude();
    }

    /// Nothing is decided: everything is undone. A seat with an open question follows its answer.
    fn undo(&mut self, reason: Option<Reason>) {
        // All others were prepared then; one whose connection broke since may stand.
        let decides = match self.phase {
            Phase::Deciding(decides) | Phase::Settling(decides) => Some(decides),
            Phase::Holding | Phase::Releasing(_) => Some(Seat::COORDINATOR),
            _ => None,
        };
        self.phase = Phase::Undoing(reason);
        for seat in self.all() {
            match self.stand(seat) {
                Stand::Active | Stand::Prepared => {
                    self.ask(seat, Question::Rollback, Action::Rollback(seat));
                }
                Stand::Gone
                    if decides.is_some_and(|decides| decides != seat) && self.is_branch(seat) =>
                {
                    self.out.push(Action::HandOver(seat, Some(Verdict::Abort)));
                }
                _ => {}
            }
        }
        self.conclude();
    }

    /// Answers the client when no question is open.
    fn conclude(&mut self) {
        let asked = |(_, stand): &(Work, Stand)| matches!(stand, Stand::Asked(_));
        if self.seats.iter().any(asked) {
            return;
        }
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Finishing => {
                let unfinished = std::mem::take(&mut self.unfinished);
                if self.row && unfinished.is_empty() {
                    self.out.push(Action::Forget);
                }
                self.reply(Reply::Committed { unfinished });
            }
            Phase::Undoing(reason) => self.reply(Reply::RolledBack(reason)),
            Phase::Held(false) => {
                self.phase = Phase::Held(true);
                self.out.push(Action::Reply(Reply::Held));
            }
            other => self.phase = other,
        }
    }

    fn reply(&mut self, reply: Reply) {
        self.phase = Phase::Over;
        self.out.push(Action::Reply(reply));
    }
}
