//! The machine, driven by hand: a primary dies, and the answers to every question are given as
//! healthy servers would give them.

use std::collections::BTreeMap;

use farm::{Engine, Position, ServerId, Status};
use machines::failover::{
    Action, Answer, Ask, Event, Failed, Failover, Fault, Heard, Member, Order, Policy,
};

const P: ServerId = ServerId(1);
const A: ServerId = ServerId(2);
const B: ServerId = ServerId(3);

fn at(sequence: u64) -> Position {
    Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
}

fn group() -> Failover {
    let mut machine = Failover::new(Policy::default(), true);
    let members = vec![
        Member::new(P, "p", Status::Primary),
        Member::new(A, "a", Status::Replica),
        Member::new(B, "b", Status::Replica),
    ];
    assert_eq!(machine.step(0, Event::Members(members)), []);
    machine
}

/// Servers that do as they are told.
struct World {
    now_us: u64,
    received: BTreeMap<ServerId, u64>,
    dead: Option<ServerId>,
    /// Every step that was taken, in order.
    steps: Vec<String>,
}

impl World {
    fn answer(&self, what: &Ask) -> Result<Answer, Failed> {
        let server = what.server();
        if server.is_some() && server == self.dead && !matches!(what, Ask::Cut { .. }) {
            return Err(Failed {
                fault: Fault::Refused,
                text: "connection refused".to_owned(),
            });
        }
        match what {
            Ask::Halt { server } | Ask::Look { server } | Ask::Close { server } => {
                Ok(Answer::Heard(Heard {
                    executed: at(5),
                    received: at(self.received[server]),
                    read_only: true,
                    applies: true,
                    frozen: false,
                }))
            }
            _ => Ok(Answer::Done),
        }
    }

    fn run(&mut self, machine: &mut Failover, event: Event) {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            self.now_us += 1000;
            let mut answers = Vec::new();
            for action in machine.step(self.now_us, event) {
                match action {
                    Action::Ask { ask, what, .. } => {
                        self.steps.push(format!("{what:?}"));
                        let answer = self.answer(&what);
                        answers.push(Event::Done { ask, answer });
                    }
                    other => self.steps.push(format!("{other:?}")),
                }
            }
            answers.reverse();
            events.extend(answers);
        }
    }

    fn at(&self, step: &str) -> usize {
        let found = self.steps.iter().position(|s| s.starts_with(step));
        found.unwrap_or_else(|| panic!("{step} in {:#?}", self.steps))
    }
}

fn world() -> World {
    World {
        now_us: 0,
        received: [(P, 5), (A, 7), (B, 9)].into(),
        dead: None,
        steps: Vec::new(),
    }
}

#[test]
fn a_crash_makes_the_one_that_received_most_the_primary() {
    let (mut machine, mut world) = (group(), world());
    world.dead = Some(P);
    let reset = Event::Failed {
        server: P,
        fault: Fault::Reset,
    };
    world.run(&mut machine, reset);
    assert_eq!(machine.primary(), Some(B));
    let order = [
        "Confirm",
        "Record(Record { number: 1",
        "Fence",
        "Halt",
        "Drain { server: ServerId(3)",
        "Lead",
        "Open",
        "Publish",
    ];
    let order: Vec<usize> = order.iter().map(|step| world.at(step)).collect();
    assert!(order.is_sorted(), "{:#?}", world.steps);
    assert!(world.at("Follow { server: ServerId(2)") > world.at("Drain"));
}

#[test]
fn a_switch_over_closes_the_old_one_first() {
    let (mut machine, mut world) = (group(), world());
    let what = Order::Promote { to: Some(A) };
    world.run(&mut machine, Event::Order { order: 1, what });
    assert_eq!(machine.primary(), Some(A));
    let order = ["Pause", "Close", "Lead", "Open", "Publish"];
    let order: Vec<usize> = order.iter().map(|step| world.at(step)).collect();
    assert!(order.is_sorted(), "{:#?}", world.steps);
}
