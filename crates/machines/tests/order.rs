//! One order over several groups: scenarios, and readers of logs that were made by chance.
//!
//! The scenarios are in `testdata/order`: a line to the order, and below it what came of it. They are written anew like
//! those of the failover (`HEDDLE_WRITE_GOLDEN=1`).

mod dice;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use dice::Dice;
use machines::order::script::play;
use machines::order::{Next, Order, Turn, Wish};

#[test]
fn scenarios() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/order");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the scenarios") {
        let path = entry.expect("a file").path();
        let text = std::fs::read_to_string(&path).expect("a scenario");
        let (mut order, mut played) = (None, String::new());
        for line in text.lines().filter(|line| !line.starts_with("    ->")) {
            played.push_str(&format!("{line}\n"));
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let said = play(&mut order, line).unwrap_or_else(|why| panic!("{path:?}: {why}"));
            said.iter()
                .for_each(|it| played.push_str(&format!("    -> {it}\n")));
        }
        if played != text && std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &played).expect("it can be written");
        } else if played != text {
            wrong.push(format!("{}: now\n{played}", path.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A row of a group, and how often it had been changed.
type Change = (String, usize, u32);

/// One entry of a log.
#[derive(Clone, Debug)]
struct Entry {
    next: Next<u32>,
    /// What the transaction or the branch changed.
    changes: Vec<Change>,
}

/// Rows of a group.
const ROWS: usize = 3;

#[derive(Default)]
struct Group {
    log: Vec<Entry>,
    clock: u64,
    versions: [u32; ROWS],
    locked: BTreeMap<u32, usize>,
}

/// A transaction over groups that has not ended everywhere.
struct Open {
    id: u32,
    coordinator: String,
    waiting: BTreeSet<String>,
    prepared: BTreeSet<String>,
    is_decided: bool,
    left: BTreeSet<String>,
}

/// Groups whose logs grow as servers and routers would have them grow.
struct World {
    groups: BTreeMap<String, Group>,
    round: u64,
    open: Vec<Open>,
    given: u32,
}

impl World {
    fn made(dice: &mut Dice) -> World {
        let names = ["a", "b", "c", "d"];
        let count = 2 + dice.below(3);
        let groups = names[..count]
            .iter()
            .map(|it| ((*it).to_owned(), Group::default()));
        let mut world = World {
            groups: groups.collect(),
            round: 1,
            open: Vec::new(),
            given: 0,
        };
        for _ in 0..250 {
            world.step(dice);
        }
        while !world.open.is_empty() {
            world.go_on(0, dice);
        }
        for _ in 0..3 {
            while !world.tick(dice) {}
        }
        world
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.below(10) {
            0 | 1 => drop(self.tick(dice)),
            2..=4 => {
                let group = self.any(dice);
                if let Some(changes) = self.change(&group, dice) {
                    self.add(&group, Next::Whole, changes);
                }
            }
            5 => {
                let group = self.any(dice);
                self.add(&group, Next::Silent, Vec::new());
            }
            6 if self.open.len() < 4 => self.cross(dice),
            _ if !self.open.is_empty() => {
                let at = dice.below(self.open.len());
                self.go_on(at, dice);
            }
            _ => {}
        }
    }

    fn any(&self, dice: &mut Dice) -> String {
        let at = dice.below(self.groups.len());
        self.groups.keys().nth(at).expect("a group").clone()
    }

    fn add(&mut self, group: &str, next: Next<u32>, changes: Vec<Change>) {
        let group = self.groups.get_mut(group).expect("a group");
        group.log.push(Entry { next, changes });
    }

    /// Raises the number in one group that lacks it; true when all have it.
    fn tick(&mut self, dice: &mut Dice) -> bool {
        let round = self.round;
        let lack = self.groups.iter().filter(|(_, it)| it.clock < round);
        let lack: Vec<String> = lack.map(|(name, _)| name.clone()).collect();
        let group = lack[dice.below(lack.len())].clone();
        self.add(&group, Next::Tick(round), Vec::new());
        self.groups.get_mut(&group).expect("a group").clock = round;
        let is_whole = lack.len() == 1;
        self.round += u64::from(is_whole);
        is_whole
    }

    /// A change of a row that nobody has locked.
    fn change(&mut self, name: &str, dice: &mut Dice) -> Option<Vec<Change>> {
        let group = self.groups.get_mut(name).expect("a group");
        let row = dice.below(ROWS);
        if group.locked.values().any(|it| *it == row) {
            return None;
        }
        group.versions[row] += 1;
        Some(vec![(name.to_owned(), row, group.versions[row])])
    }

    fn cross(&mut self, dice: &mut Dice) {
        let coordinator = self.any(dice);
        let others = self.groups.keys().filter(|it| **it != coordinator);
        let mut waiting: BTreeSet<String> = others.cloned().collect();
        while waiting.len() > 1 && dice.one_in(2) {
            let drop = waiting.iter().nth(dice.below(waiting.len())).cloned();
            waiting.remove(&drop.expect("one"));
        }
        self.given += 1;
        self.open.push(Open {
            id: self.given,
            coordinator,
            waiting,
            prepared: BTreeSet::new(),
            is_decided: false,
            left: BTreeSet::new(),
        });
    }

    fn go_on(&mut self, at: usize, dice: &mut Dice) {
        let mut open = self.open.swap_remove(at);
        let id = open.id;
        if let Some(group) = open.waiting.first().cloned() {
            if let Some(changes) = self.change(&group, dice) {
                let row = changes[0].1;
                self.groups
                    .get_mut(&group)
                    .expect("a group")
                    .locked
                    .insert(id, row);
                self.add(&group, Next::Prepared(id), changes);
                open.waiting.remove(&group);
                open.prepared.insert(group);
            } else {
                // Somebody else has the row: it is given up, so that nobody waits for ever.
                for group in &open.prepared {
                    self.add(group, Next::RolledBack(id), Vec::new());
                    self.undo(group, id);
                }
                return;
            }
        } else if !open.is_decided {
            let changes = self.change(&open.coordinator, dice).unwrap_or_default();
            let decided = Next::Decided(id, open.prepared.clone());
            self.add(&open.coordinator.clone(), decided, changes);
            open.is_decided = true;
            open.left = open.prepared.clone();
        } else {
            let which = dice.below(open.left.len());
            let group = open.left.iter().nth(which).expect("one").clone();
            open.left.remove(&group);
            self.add(
                &group,
                Next::Ended(id, open.coordinator.clone()),
                Vec::new(),
            );
            self.groups
                .get_mut(&group)
                .expect("a group")
                .locked
                .remove(&id);
        }
        if !open.is_decided || !open.left.is_empty() {
            self.open.push(open);
        }
    }

    fn undo(&mut self, group: &str, id: u32) {
        let group = self.groups.get_mut(group).expect("a group");
        if let Some(row) = group.locked.remove(&id) {
            group.versions[row] -= 1;
        }
    }

    fn changes_of(&self, group: &str, id: u32) -> Vec<Change> {
        let log = &self.groups[group].log;
        let branch = log.iter().find(|it| it.next == Next::Prepared(id));
        branch.expect("it is prepared").changes.clone()
    }
}

/// What was told: the group and the place in its log, the number, and the changes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    group: String,
    at: usize,
    clock: u64,
    changes: Vec<Change>,
}

/// A reader, and how far it is in each log.
#[derive(Clone)]
struct Reader {
    order: Order<u32>,
    at: BTreeMap<String, usize>,
    has_next: BTreeSet<String>,
}

impl Reader {
    /// Begins in the middle of each log; what is prepared there has to have ended first.
    fn begin(world: &World, dice: &mut Dice) -> Reader {
        let mut order = Order::begin(world.groups.keys().map(String::as_str));
        let mut at = BTreeMap::new();
        for (name, group) in &world.groups {
            let from = dice.below(group.log.len() / 3 + 1);
            let mut older = BTreeSet::new();
            for entry in &group.log[..from] {
                prepared(&mut older, &entry.next);
                if let Next::Decided(id, groups) = &entry.next {
                    order.early(name, *id, groups.clone());
                }
            }
            let mut begin = from;
            while !older.is_empty() {
                let next = &group.log[begin].next;
                if let Next::Ended(id, _) | Next::RolledBack(id) = next {
                    older.remove(id);
                }
                order.replay(name, next.clone());
                begin += 1;
            }
            at.insert(name.clone(), begin);
        }
        Reader {
            order,
            at,
            has_next: BTreeSet::new(),
        }
    }

    /// Goes on where another one was.
    fn resume(world: &World, of: &Reader, dice: &mut Dice) -> Reader {
        let places = of.at.keys().map(|group| {
            let clock = of.order.place(group).expect("it has begun");
            (group.clone(), clock)
        });
        let mut order = Order::resume(places.collect::<Vec<_>>());
        for (name, &end) in &of.at {
            let log = &world.groups[name].log[..end];
            let is_needed = |entry: &Entry| match &entry.next {
                Next::Prepared(id) => of.order.is_prepared(name, id),
                Next::Decided(id, _) => of.order.is_behind(id),
                _ => false,
            };
            let needed = log.iter().position(is_needed).unwrap_or(end);
            let from = needed - dice.below(needed + 1).min(5);
            for entry in &log[from..] {
                order.replay(name, entry.next.clone());
            }
            order.ready(name);
        }
        Reader {
            order,
            at: of.at.clone(),
            has_next: BTreeSet::new(),
        }
    }

    fn has_begun(&self) -> bool {
        self.at.keys().all(|it| self.order.place(it).is_some())
    }

    /// Something arrives, or is passed over, or told; `None` when nothing can happen any more.
    fn step(&mut self, world: &World, dice: &mut Dice) -> Option<Option<Told>> {
        let groups: Vec<String> = self.at.keys().cloned().collect();
        let first = dice.below(groups.len());
        for at in 0..groups.len() {
            let group = &groups[(first + at) % groups.len()];
            let place = self.at[group];
            if self.has_next.contains(group) {
                let Some(turn) = self.order.turn(group) else {
                    continue;
                };
                return Some(self.pass(world, group, place, turn));
            }
            if let Some(entry) = world.groups[group].log.get(place) {
                self.order.arrive(group, entry.next.clone());
                self.has_next.insert(group.clone());
                if dice.one_in(8) {
                    self.order.withdraw(group);
                    self.has_next.remove(group);
                }
                return Some(None);
            }
        }
        None
    }

    fn pass(&mut self, world: &World, group: &str, at: usize, turn: Turn) -> Option<Told> {
        let entry = &world.groups[group].log[at];
        let clock = self.order.place(group).unwrap_or(0);
        let told = match turn {
            Turn::Pass => None,
            Turn::Torn(of) => panic!("{of} lacks the branch of {entry:?} of {group}"),
            Turn::Tell(with) => {
                let mut changes = entry.changes.clone();
                if let Next::Decided(id, groups) = &entry.next {
                    assert_eq!(with, *groups);
                    changes.extend(with.iter().flat_map(|it| world.changes_of(it, *id)));
                }
                Some(Told {
                    group: group.to_owned(),
                    at,
                    clock,
                    changes,
                })
            }
        };
        self.order.pass(group);
        self.has_next.remove(group);
        *self.at.get_mut(group).expect("a group") += 1;
        told
    }

    fn run(&mut self, world: &World, dice: &mut Dice) -> Vec<Told> {
        let mut told = Vec::new();
        while let Some(step) = self.step(world, dice) {
            told.extend(step);
        }
        told
    }
}

fn prepared(open: &mut BTreeSet<u32>, next: &Next<u32>) {
    match next {
        Next::Prepared(id) => drop(open.insert(*id)),
        Next::Ended(id, _) | Next::RolledBack(id) => drop(open.remove(id)),
        _ => {}
    }
}

/// The changes of each row come in their order, and none is missing in between.
fn check_rows(told: &[Told]) {
    let mut last: BTreeMap<(String, usize), u32> = BTreeMap::new();
    for (group, row, version) in told.iter().flat_map(|it| &it.changes) {
        let before = last.insert((group.clone(), *row), *version);
        assert!(
            before.is_none_or(|before| before + 1 == *version),
            "{group} {row}: {version} behind {before:?}"
        );
    }
}

fn play_seed(seed: u64) {
    let mut dice = Dice::new(seed);
    let world = World::made(&mut dice);
    let mut one = Reader::begin(&world, &mut dice);
    let mut states = Vec::new();
    let mut told = Vec::new();
    while let Some(step) = one.step(&world, &mut dice) {
        told.extend(step);
        if one.has_begun() && dice.one_in(12) {
            states.push((told.len(), one.clone()));
        }
    }
    check_rows(&told);
    let since = told.first().map_or(0, |it| it.clock + 1);
    let mut all = told.clone();
    for _ in 0..4 {
        let mut other = Reader::begin(&world, &mut dice);
        let also = other.run(&world, &mut dice);
        assert!(other.has_begun(), "seed {seed}");
        // Each is the end of the other.
        let (short, long) = if also.len() < all.len() {
            (also, all)
        } else {
            (all, also)
        };
        assert_eq!(
            short,
            long[long.len() - short.len()..],
            "another reader, seed {seed}"
        );
        all = short;
    }
    for (count, state) in states {
        let mut again = Reader::resume(&world, &state, &mut dice);
        let rest = again.run(&world, &mut dice);
        assert!(rest == told[count..], "goes on behind {count}, seed {seed}");
    }
    // Everything that has the numbers between is told.
    let mut whole = 0;
    for group in world.groups.values() {
        let mut clock = 0;
        for entry in &group.log {
            if let Next::Tick(number) = entry.next {
                clock = number;
            }
            let is_told = matches!(entry.next, Next::Whole | Next::Decided(..));
            whole += usize::from(is_told && clock >= since && clock + 2 < world.round);
        }
    }
    let between = |it: &&Told| it.clock >= since && it.clock + 2 < world.round;
    assert_eq!(told.iter().filter(between).count(), whole, "seed {seed}");
    assert!(!matches!(one.order.wish(), Some(Wish::Next)));
}

/// Worlds in one run of the tests.
const SEEDS: u64 = 300;

#[test]
fn every_reader_tells_one_order() {
    let seeds = std::env::var("HEDDLE_SEEDS").ok();
    let seeds = seeds.and_then(|it| it.parse().ok()).unwrap_or(SEEDS);
    (0..seeds).for_each(play_seed);
}
