//! Transactions that are prepared for their client's own manager, in which everything is lost at every
//! point: whoever ends the client's transaction at the coordinator group, all groups end the same way.

mod dice;
mod seats;

use dice::Dice;
use machines::xa::commit::{Action, Commit, Event, Refusal, Reply, Work};
use machines::xa::recovery::{self, Recovery};
use machines::xa::{Seat, Verdict};
use seats::{Data, works};

/// The coordinator group's row lives and dies with the client's transaction there.
struct World {
    work: Vec<Work>,
    data: Vec<Data>,
    linked: Vec<bool>,
    barred: bool,
    router: Option<Commit>,
    asked: Vec<Action>,
    replies: Vec<Reply>,
    recoveries: Vec<(Recovery, Vec<recovery::Action>)>,
    log: Vec<String>,
}

impl World {
    fn new(dice: &mut Dice) -> World {
        let work = works(dice);
        World {
            router: Some(Commit::new(work.clone())),
            data: vec![Data::Working; work.len()],
            linked: vec![true; work.len()],
            work,
            barred: false,
            asked: Vec::new(),
            replies: Vec::new(),
            recoveries: Vec::new(),
            log: Vec::new(),
        }
    }

    fn cut(&mut self, seat: usize) {
        self.linked[seat] = false;
        self.data[seat].cut();
    }

    fn tell(&mut self, event: Event) {
        self.log.push(format!("router hears {event:?}"));
        let Some(router) = &mut self.router else {
            return;
        };
        for action in router.step(event) {
            self.log.push(format!("  router: {action:?}"));
            match action {
                Action::Reply(reply) => self.replies.push(reply),
                Action::Close(seat) => self.cut(usize::from(seat.0)),
                Action::HandOver(seat, verdict) => self.recover(seat, verdict),
                Action::Forget => {}
                other => self.asked.push(other),
            }
        }
    }

    fn recover(&mut self, seat: Seat, verdict: Option<Verdict>) {
        let mut recovery = Recovery::new(verdict);
        let actions = recovery.step(recovery::Event::Found(seat));
        self.recoveries.push((recovery, actions));
    }

    fn carry_out(&mut self, action: &Action, s: usize) -> bool {
        let before = self.data[s];
        let after = match (action, before) {
            (Action::Hold(_), _) if self.barred => return false,
            (Action::Prepare(_) | Action::Hold(_), Data::Working) => Data::Prepared,
            (Action::Commit(_), Data::Prepared) => Data::Committed,
            (Action::Rollback(_), Data::Prepared | Data::Working) => Data::Undone,
            _ => return false,
        };
        self.data[s] = after;
        true
    }

    /// A question reaches its server, is lost on the way, or its answer is.
    fn serve_router(&mut self, dice: &mut Dice) {
        let limit = self.asked.len();
        let action = self.asked.swap_remove(dice.below(limit));
        let (Action::Prepare(seat)
        | Action::Hold(seat)
        | Action::Commit(seat)
        | Action::Rollback(seat)) = action
        else {
            panic!("{action:?} is no question of one that is held");
        };
        let s = usize::from(seat.0);
        let arrives = self.linked[s] && !dice.one_in(8);
        let refused = arrives && dice.one_in(10);
        let done = arrives && !refused && self.carry_out(&action, s);
        if !arrives || dice.one_in(8) {
            self.cut(s);
            return self.tell(Event::Lost(seat));
        }
        let text = String::new();
        let refusal = Refusal { number: 1205, text };
        self.tell(match done {
            true => Event::Done(seat),
            false => Event::Refused(seat, refusal),
        });
    }

    fn serve_recovery(&mut self, at: usize, dice: &mut Dice) {
        let limit = self.recoveries[at].1.len();
        let action = self.recoveries[at].1.swap_remove(dice.below(limit));
        self.log.push(format!("recovery {at}: {action:?}"));
        let event = match action {
            recovery::Action::Look | recovery::Action::Bar if dice.one_in(5) => {
                recovery::Event::Open
            }
            recovery::Action::Look => recovery::Event::Row(match self.data[0] {
                Data::Committed => Some(Verdict::Commit),
                _ => self.barred.then_some(Verdict::Abort),
            }),
            recovery::Action::Bar => match self.data[0] {
                // The row is there, uncommitted.
                Data::Prepared => recovery::Event::Open,
                Data::Committed => recovery::Event::Taken,
                _ if self.barred => recovery::Event::Taken,
                _ => {
                    self.barred = true;
                    recovery::Event::Barred
                }
            },
            recovery::Action::End {
                seat,
                verdict,
                kill,
            } => {
                let s = usize::from(seat.0);
                if kill {
                    self.cut(s);
                }
                let ends = self.data[s] == Data::Prepared && !self.linked[s];
                if ends {
                    self.data[s] = Data::by(verdict);
                }
                match ends && !dice.one_in(4) {
                    true => recovery::Event::Ended(seat),
                    false => recovery::Event::Tried(seat),
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

    /// The router dies, and its connections with it.
    fn abandon(&mut self) {
        self.router = None;
        self.asked.clear();
        (0..self.data.len()).for_each(|seat| self.cut(seat));
    }

    /// The client's manager ends the client's own transaction at the coordinator group.
    fn end_own(&mut self, verdict: Verdict) {
        self.log.push(format!("the manager: {verdict:?}"));
        self.cut(0);
        if self.data[0] == Data::Prepared {
            self.data[0] = Data::by(verdict);
        }
    }

    fn settle(&mut self, dice: &mut Dice) {
        for _ in 0..20_000 {
            let open = (0..self.recoveries.len()).filter(|at| !self.recoveries[*at].1.is_empty());
            let open: Vec<usize> = open.collect();
            match open[..] {
                [] if (1..self.data.len()).all(|seat| self.data[seat] != Data::Prepared) => return,
                [] => {
                    for seat in 1..self.data.len() {
                        if self.data[seat] == Data::Prepared {
                            self.recover(Seat(u16::try_from(seat).expect("few")), None);
                        }
                    }
                }
                _ => self.serve_recovery(open[dice.below(open.len())], dice),
            }
        }
        panic!("it does not come to an end\n{}", self.log.join("\n"));
    }

    fn kept(&self) -> impl Iterator<Item = Data> {
        let seats = self.work.iter().zip(&self.data).enumerate();
        let kept = seats.filter(|(seat, (work, _))| *seat == 0 || work.wrote || work.locked);
        kept.map(|(_, (_, data))| *data)
    }
}

fn play(seed: u64) {
    let mut dice = Dice::new(seed);
    let mut world = World::new(&mut dice);
    let wish = match dice.one_in(3) {
        true => Verdict::Abort,
        false => Verdict::Commit,
    };
    world.tell(Event::Hold);
    let mut told = false;
    while !world.asked.is_empty() {
        if dice.one_in(30) {
            world.abandon();
            break;
        }
        world.serve_router(&mut dice);
        if world.replies == [Reply::Held] && !told {
            told = true;
            assert!(world.kept().all(|data| data == Data::Prepared), "{seed}");
            // The client may be away for long, and others look meanwhile.
            for seat in 1..world.data.len() {
                if dice.one_in(3) {
                    world.recover(Seat(u16::try_from(seat).expect("few")), None);
                    let last = world.recoveries.len() - 1;
                    while !world.recoveries[last].1.is_empty() && !dice.one_in(6) {
                        world.serve_recovery(last, &mut dice);
                    }
                }
            }
            assert!(world.kept().all(|data| data == Data::Prepared), "{seed}");
            if dice.one_in(4) {
                world.abandon();
                break;
            }
            world.tell(match wish {
                Verdict::Commit => Event::Commit,
                Verdict::Abort => Event::Rollback,
            });
        }
    }
    let held = world.replies.first() == Some(&Reply::Held);
    let reply = world.replies.last().cloned();
    // What is not known to the client is ended by its manager; never told that it is held, it rolls back.
    if !matches!(reply, Some(Reply::Committed { .. } | Reply::RolledBack(_))) {
        world.abandon();
        world.end_own(if held { wish } else { Verdict::Abort });
    }
    world.settle(&mut dice);
    let ends: Vec<Data> = world.kept().collect();
    let whole = |wanted| ends.iter().all(|data| *data == wanted);
    let log = world.log.join("\n");
    assert!(
        whole(Data::Committed) || whole(Data::Undone),
        "seed {seed}, torn: {ends:?}\n{log}"
    );
    match (held, wish) {
        (true, Verdict::Commit) => assert!(whole(Data::Committed), "seed {seed}\n{log}"),
        _ => assert!(whole(Data::Undone), "seed {seed}\n{log}"),
    }
}

#[test]
fn all_groups_end_as_the_client_says() {
    let seeds = std::env::var("HEDDLE_SEEDS").ok();
    let seeds = seeds.and_then(|it| it.parse().ok()).unwrap_or(50_000);
    (0..seeds).for_each(play);
}
