//! Transactions over several groups in which everything is lost at every point: whatever happens, all
//! groups end the same way, the client's answer is true, and nothing stays prepared.

mod dice;
mod seats;

use std::collections::BTreeMap;

use dice::Dice;
use machines::xa::commit::{self, Commit, Refusal, Reply, Work};
use machines::xa::recovery::{self, Recovery};
use machines::xa::{Seat, Verdict};
use seats::{Data, works};

/// The servers of one transaction, and who works on it.
struct World {
    work: Vec<Work>,
    data: Vec<Data>,
    /// The connection of the seat lives.
    linked: Vec<bool>,
    row: Option<Verdict>,
    router: Option<Commit>,
    asked: Vec<commit::Action>,
    /// What is on its way to a server although the router gave its connection up.
    late: Vec<(commit::Action, usize)>,
    reply: Option<Reply>,
    recoveries: Vec<(Recovery, Vec<recovery::Action>)>,
    /// The seats that the router gave to recovery, with what it said of them.
    given: BTreeMap<usize, Option<Verdict>>,
    planted: Option<Planted>,
    log: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Planted {
    /// A recovery that finds no row rolls back without barring.
    NoBar,
    /// The router decides when the first branch is prepared.
    DecidesEarly,
    /// An abort row is removed while the coordinator group's connection lives.
    ForgetsAbort,
    /// A decision is removed before all its branches have ended.
    ForgetsCommit,
}

impl World {
    fn new(dice: &mut Dice, planted: Option<Planted>) -> World {
        let work = works(dice);
        World {
            router: Some(Commit::new(work.clone())),
            data: vec![Data::Working; work.len()],
            linked: vec![true; work.len()],
            work,
            row: None,
            asked: Vec::new(),
            late: Vec::new(),
            reply: None,
            recoveries: Vec::new(),
            given: BTreeMap::new(),
            planted,
            log: Vec::new(),
        }
    }

    fn tell(&mut self, event: commit::Event) {
        self.log.push(format!("router hears {event:?}"));
        let Some(router) = &mut self.router else {
            return;
        };
        for action in router.step(event) {
            self.log.push(format!("  router: {action:?}"));
            match action {
                commit::Action::Reply(reply) => {
                    assert!(self.reply.is_none(), "answered twice");
                    self.reply = Some(reply);
                }
                commit::Action::Close(seat) => self.cut(usize::from(seat.0)),
                commit::Action::HandOver(seat, verdict) => {
                    self.given.insert(usize::from(seat.0), verdict);
                    self.recover(seat, verdict);
                }
                commit::Action::Forget => {
                    let mut branches = self.work.iter().zip(&self.data).skip(1);
                    let ends =
                        |(work, data): (&Work, &Data)| !work.wrote || *data == Data::Committed;
                    assert!(branches.all(ends), "forgotten too early");
                    self.row = None;
                }
                other => self.asked.push(other),
            }
        }
    }

    fn recover(&mut self, seat: Seat, verdict: Option<Verdict>) {
        let mut recovery = Recovery::new(verdict);
        let actions = recovery.step(recovery::Event::Found(seat));
        self.recoveries.push((recovery, actions));
    }

    /// The server closes a seat's connection: what is not prepared is undone.
    fn cut(&mut self, seat: usize) {
        self.linked[seat] = false;
        self.data[seat].cut();
    }

    /// The router's question reaches the server, is lost on the way, or its answer is.
    fn serve_router(&mut self, dice: &mut Dice) {
        let at = dice.below(self.asked.len());
        let action = self.asked.swap_remove(at);
        if let commit::Action::Settle(seat) = action {
            if seat != Seat::COORDINATOR || !self.needs_row() {
                self.cut(usize::from(seat.0));
            }
            let verdict = match (seat, self.data[usize::from(seat.0)]) {
                _ if dice.one_in(4) => None,
                // For one group it is read off its log.
                (seat, data) if seat != Seat::COORDINATOR || !self.needs_row() => {
                    Some(match data {
                        Data::Committed => Verdict::Commit,
                        _ => Verdict::Abort,
                    })
                }
                _ => Some(*self.row.get_or_insert(Verdict::Abort)),
            };
            return self.tell(commit::Event::Settled(verdict));
        }
        let seat = match action {
            commit::Action::Prepare(seat)
            | commit::Action::Single(seat)
            | commit::Action::Commit(seat)
            | commit::Action::Rollback(seat) => seat,
            _ => Seat::COORDINATOR,
        };
        let s = usize::from(seat.0);
        let arrives = self.linked[s] && !dice.one_in(8);
        let refused = arrives && dice.one_in(8);
        let before = (self.data[s], self.row);
        if arrives && !refused {
            self.carry_out(&action, s);
        }
        let answered = self.linked[s] && arrives && !dice.one_in(8);
        if !answered && arrives && dice.one_in(3) {
            // The group fails over, to a server that never heard of it.
            self.fail_over(s, before);
            return self.tell(commit::Event::Lost(seat));
        }
        if !answered {
            // What was sent may still be carried out after the router gave it up; the server
            // notices the end of the connection later than that.
            match self.linked[s] && !arrives && dice.one_in(2) {
                true => self.late.push((action, s)),
                false => self.cut(s),
            }
            return self.tell(commit::Event::Lost(seat));
        }
        self.tell(match refused {
            true => commit::Event::Refused(
                seat,
                Refusal {
                    number: 1205,
                    text: String::new(),
                },
            ),
            false => commit::Event::Done(seat),
        });
    }

    /// What a group's primary did last goes with it: it had been acknowledged to nobody. What is
    /// prepared stays so, and nothing of a connection to the old one arrives any more.
    fn fail_over(&mut self, s: usize, before: (Data, Option<Verdict>)) {
        self.log.push(format!("group {s} fails over"));
        self.data[s] = before.0;
        if s == 0 {
            self.row = before.1;
        }
        self.late.retain(|(_, seat)| *seat != s);
        self.cut(s);
    }

    fn needs_row(&self) -> bool {
        self.work.iter().skip(1).any(|work| work.wrote)
    }

    fn carry_out(&mut self, action: &commit::Action, s: usize) {
        match action {
            commit::Action::Prepare(_) => self.data[s] = Data::Prepared,
            commit::Action::Decide { row } => {
                if *row && self.row.is_some() {
                    // Barred: the row's key is taken, the COMMIT behind it is not run.
                    self.data[s] = Data::Undone;
                    self.linked[s] = false;
                    return;
                }
                if *row {
                    self.row = Some(Verdict::Commit);
                }
                self.data[s] = Data::Committed;
            }
            commit::Action::Single(_) | commit::Action::Commit(_) => self.data[s] = Data::Committed,
            commit::Action::Rollback(_) => self.data[s] = Data::Undone,
            _ => {}
        }
    }

    fn serve_recovery(&mut self, at: usize, dice: &mut Dice) {
        let which = dice.below(self.recoveries[at].1.len());
        let action = self.recoveries[at].1.swap_remove(which);
        self.log.push(format!("recovery {at}: {action:?}"));
        let event = match action {
            recovery::Action::Look if dice.one_in(5) => recovery::Event::Open,
            recovery::Action::Look => recovery::Event::Row(self.row),
            recovery::Action::Bar if self.planted == Some(Planted::NoBar) => {
                recovery::Event::Barred
            }
            recovery::Action::Bar if dice.one_in(5) => recovery::Event::Open,
            recovery::Action::Bar if self.row.is_some() => recovery::Event::Taken,
            recovery::Action::Bar => {
                self.row = Some(Verdict::Abort);
                // The acknowledgement may be lost, and the row with it.
                match dice.below(8) {
                    0 => recovery::Event::Open,
                    1 => {
                        self.fail_over(0, (self.data[0], None));
                        recovery::Event::Open
                    }
                    _ => recovery::Event::Barred,
                }
            }
            recovery::Action::End {
                seat,
                verdict,
                kill,
            } => {
                let s = usize::from(seat.0);
                if kill && !dice.one_in(4) {
                    self.cut(s);
                }
                let ends = self.data[s] == Data::Prepared && !self.linked[s] && !dice.one_in(4);
                if ends {
                    self.data[s] = Data::by(verdict);
                }
                // The answer may be lost, and the end of the branch with it.
                match (ends, dice.below(8)) {
                    (true, 0) => {
                        self.fail_over(s, (Data::Prepared, self.row));
                        recovery::Event::Tried(seat)
                    }
                    (false, _) | (true, 1) => recovery::Event::Tried(seat),
                    (true, _) => recovery::Event::Ended(seat),
                }
            }
            recovery::Action::List(seat) => {
                let there = self.data[usize::from(seat.0)] == Data::Prepared;
                recovery::Event::Listed(seat, (!dice.one_in(5)).then_some(there))
            }
            recovery::Action::Wake { .. } => recovery::Event::Tick,
            recovery::Action::Tell | recovery::Action::Over { .. } => return,
        };
        let (recovery, actions) = &mut self.recoveries[at];
        actions.extend(recovery.step(event));
    }

    /// The router died: what it asked is on its way or not, and its connections end.
    fn abandon(&mut self, dice: &mut Dice) {
        for action in std::mem::take(&mut self.asked) {
            let s = match action {
                commit::Action::Settle(_) => continue,
                commit::Action::Prepare(seat)
                | commit::Action::Single(seat)
                | commit::Action::Commit(seat)
                | commit::Action::Rollback(seat) => usize::from(seat.0),
                _ => 0,
            };
            if self.linked[s] && dice.one_in(2) {
                self.late.push((action, s));
            }
        }
        for seat in 0..self.data.len() {
            if !self.late.iter().any(|(_, s)| *s == seat) {
                self.cut(seat);
            }
        }
    }

    /// A connection breaks on which nothing was asked, and the router notices.
    fn break_idle(&mut self, dice: &mut Dice) {
        let s = dice.below(self.data.len());
        let busy = |action: &commit::Action| match action {
            commit::Action::Prepare(seat)
            | commit::Action::Single(seat)
            | commit::Action::Commit(seat)
            | commit::Action::Settle(seat)
            | commit::Action::Rollback(seat) => usize::from(seat.0) == s,
            _ => s == 0,
        };
        if self.linked[s] && !self.asked.iter().any(busy) {
            self.cut(s);
            self.tell(commit::Event::Lost(Seat(u16::try_from(s).expect("few"))));
        }
    }

    fn arrive_late(&mut self, dice: &mut Dice) {
        let (action, s) = self.late.swap_remove(dice.below(self.late.len()));
        self.log.push(format!("late: {action:?}"));
        if self.linked[s] {
            self.carry_out(&action, s);
            self.cut(s);
        }
    }

    /// Any router removes a row that nobody needs any more.
    fn sweep(&mut self) {
        let ended = |(work, data): (&Work, &Data)| !work.wrote || matches!(data, Data::Committed);
        // A router that lost the answer to its COMMIT asks the row.
        let asks = self.router.is_some() && self.reply.is_none();
        let needed = match self.row {
            Some(Verdict::Commit) if asks => true,
            Some(Verdict::Commit) => {
                !self.work.iter().zip(&self.data).skip(1).all(ended)
                    && self.planted != Some(Planted::ForgetsCommit)
            }
            Some(Verdict::Abort) => self.linked[0] && self.planted != Some(Planted::ForgetsAbort),
            None => true,
        };
        if !needed {
            self.log.push(format!("{:?} is removed", self.row));
            self.row = None;
        }
    }

    /// Any router's slow tick: what XA RECOVER lists is found.
    fn tick(&mut self) {
        for seat in 1..self.data.len() {
            if self.data[seat] == Data::Prepared {
                self.recover(Seat(u16::try_from(seat).expect("few")), None);
            }
        }
    }

    /// A router that has answered its client leaves nothing prepared that it did not give to
    /// recovery, and names no branch unfinished that is none.
    fn verify_given(&self) {
        let Some(reply) = &self.reply else { return };
        if self.router.is_none() || !self.asked.is_empty() {
            return;
        }
        for (seat, data) in self.data.iter().enumerate() {
            assert!(
                *data != Data::Prepared || self.given.contains_key(&seat),
                "seat {seat} was left prepared\n{}",
                self.log.join("\n")
            );
        }
        if let Reply::Committed { unfinished } = reply {
            let told: Vec<usize> = unfinished.iter().map(|seat| seat.0.into()).collect();
            let commits = |verdict: &Option<Verdict>| *verdict == Some(Verdict::Commit);
            assert!(self.given.values().all(commits), "{}", self.log.join("\n"));
            let given = self.given.keys().copied();
            assert_eq!(told.len(), given.len(), "{}", self.log.join("\n"));
        }
    }

    fn verify(&self) {
        let writers: Vec<Data> = (0..self.data.len())
            .filter(|&seat| self.work[seat].wrote)
            .map(|seat| self.data[seat])
            .collect();
        let all = |wanted: Data| writers.iter().all(|data| *data == wanted);
        let committed = all(Data::Committed);
        let undone = all(Data::Undone);
        assert!(
            committed || undone,
            "torn: {:?}\n{}",
            self.data,
            self.log.join("\n")
        );
        match &self.reply {
            Some(Reply::Committed { .. }) => assert!(committed, "{}", self.log.join("\n")),
            Some(Reply::RolledBack(_)) => {
                assert!(undone, "{}", self.log.join("\n"));
            }
            Some(Reply::Unknown | Reply::Held) | None => {}
        }
    }
}

fn play(seed: u64, planted: Option<Planted>) {
    let mut dice = Dice::new(seed);
    let mut world = World::new(&mut dice, planted);
    let first = match dice.one_in(6) {
        true => commit::Event::Rollback,
        false => commit::Event::Commit,
    };
    world.tell(first);
    if planted == Some(Planted::DecidesEarly) {
        let early = world
            .asked
            .iter()
            .any(|it| matches!(it, commit::Action::Prepare(_)));
        if early {
            world.asked.push(commit::Action::Decide { row: true });
        }
    }
    let mut ticks = 0;
    for _ in 0..10_000 {
        if world.router.is_some() && dice.one_in(60) {
            // kill -9 of the router: its connections break, and what it asked may be on its way.
            world.router = None;
            world.abandon(&mut dice);
        }
        if !world.late.is_empty() && dice.one_in(10) {
            world.arrive_late(&mut dice);
        }
        if world.router.is_some() && dice.one_in(25) {
            world.break_idle(&mut dice);
        }
        world.verify_given();
        if dice.one_in(20) {
            world.tick();
        }
        if dice.one_in(10) {
            world.sweep();
        }
        let busy: Vec<usize> = (0..world.recoveries.len())
            .filter(|&at| !world.recoveries[at].1.is_empty())
            .collect();
        if !world.asked.is_empty() && (busy.is_empty() || dice.one_in(2)) {
            world.serve_router(&mut dice);
        } else if !busy.is_empty() {
            world.serve_recovery(busy[dice.below(busy.len())], &mut dice);
        } else {
            if !world.late.is_empty() {
                world.arrive_late(&mut dice);
                continue;
            }
            if !world.data.contains(&Data::Prepared) {
                break;
            }
            ticks += 1;
            assert!(
                ticks < 1000,
                "it never ends: {:?}\n{}",
                world.data,
                world.log.join("\n")
            );
            world.tick();
        }
    }
    world.verify();
}

#[test]
fn whatever_dies_it_is_all_or_nothing() {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => default,
    };
    let (from, count) = (
        number("HEDDLE_SEED_FROM", 0),
        number("HEDDLE_SEEDS", 100_000),
    );
    for seed in from..from + count {
        let caught = std::panic::catch_unwind(|| play(seed, None));
        assert!(caught.is_ok(), "seed {seed}");
    }
}

fn is_found(planted: Planted) {
    std::panic::set_hook(Box::new(|_| {}));
    let found =
        (0..20_000).any(|seed| std::panic::catch_unwind(|| play(seed, Some(planted))).is_err());
    let _ = std::panic::take_hook();
    assert!(found, "{planted:?} was not found");
}

#[test]
fn a_recovery_without_the_abort_row_is_found() {
    is_found(Planted::NoBar);
}

#[test]
fn a_decision_before_all_are_prepared_is_found() {
    is_found(Planted::DecidesEarly);
}

#[test]
fn an_abort_row_that_is_removed_too_early_is_found() {
    is_found(Planted::ForgetsAbort);
}

#[test]
fn a_decision_that_is_removed_too_early_is_found() {
    is_found(Planted::ForgetsCommit);
}

/// Rows by which a seat's questions can be counted.
#[test]
fn one_group_needs_no_row_and_one_writer_no_prepare() {
    let wrote = Work {
        wrote: true,
        locked: false,
    };
    let read = Work::default();
    let plain = Commit::new([wrote]).step(commit::Event::Commit);
    assert_eq!(plain, [commit::Action::Decide { row: false }]);
    let single = Commit::new([read, wrote]).step(commit::Event::Commit);
    let seats: BTreeMap<_, _> = single.iter().enumerate().collect();
    assert_eq!(seats[&0], &commit::Action::Rollback(Seat::COORDINATOR));
    assert_eq!(seats[&1], &commit::Action::Single(Seat(1)));
    // One that only read has nothing to lose with its COMMIT.
    let mut idle = Commit::new([read, read]);
    idle.step(commit::Event::Commit);
    idle.step(commit::Event::Done(Seat(1)));
    let unfinished = Vec::new();
    let committed = commit::Action::Reply(Reply::Committed { unfinished });
    assert_eq!(
        idle.step(commit::Event::Lost(Seat::COORDINATOR)),
        [committed]
    );
    let both = Commit::new([wrote, wrote]).step(commit::Event::Commit);
    assert_eq!(both, [commit::Action::Prepare(Seat(1))]);
}
