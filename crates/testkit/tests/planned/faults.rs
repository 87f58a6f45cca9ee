//! Faults of a planner are found: answers that lost a filter, or that a planner makes which takes a table
//! for placed otherwise than it is, differ from one server's.
//!
//! A fault is planted into what the planner is told or into what it says, never into the planner.

use farm::shard::ShardedTable;
use farm::sharding::{Placement, Sharding};
use planner::merge::Aggregate;
use planner::{Answer, Finish};
use sqltext::{Mode, clauses};
use testkit::Release;

use crate::corpus::{self, Corpus, Place};
use crate::is_plain_read;
use crate::outcome::{Care, difference};
use crate::spread::Spread;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The first fragment asks for all rows.
    LostFilter,
    /// A table that lies by a key of its own is taken for colocated with the customers' tables.
    NotColocated,
    /// A table of which each group has a part is taken for one that is everywhere.
    NotGlobal,
    /// Parts of groups are not added up.
    LostSum,
    /// The merge keeps groups that HAVING leaves out.
    LostHaving,
    /// Values of another column leave rows out.
    WrongKeys,
}

const FAULTS: [Fault; 6] = [
    Fault::LostFilter,
    Fault::NotColocated,
    Fault::NotGlobal,
    Fault::LostSum,
    Fault::LostHaving,
    Fault::WrongKeys,
];

impl Fault {
    /// What the planner is told.
    fn sharding(self, spread: &Spread, corpus: &Corpus) -> Sharding {
        let mut sharding = spread.sharding().clone();
        let of = |table: &str| {
            let mut declared = spread.sharding().declared();
            let found = declared.find(|(_, name, _)| ***name == *table);
            match found.map(|(_, _, placement)| placement.clone()) {
                Some(Placement::Sharded(table)) => table,
                _ => panic!("{table} is sharded"),
            }
        };
        let database = &corpus.name;
        match self {
            Fault::NotColocated => {
                let visits = ShardedTable {
                    table: "visits".into(),
                    ..of("customers")
                };
                sharding.declare(database, "visits", Placement::Sharded(visits));
            }
            Fault::NotGlobal => {
                let map = of("customers").map;
                sharding.declare(database, "stock", Placement::Global { map });
            }
            _ => {}
        }
        sharding
    }

    /// What the planner says.
    fn plant(self, answer: &mut Answer, mode: &Mode) {
        match (self, &mut answer.finish) {
            (Fault::LostFilter, finish) => {
                let text = &mut answer.fragments[0].text;
                let filter = clauses(text.as_bytes(), mode).and_then(|it| it.filter);
                let Some(filter) = filter else { return };
                text.replace_range(filter.start as usize..filter.end as usize, "TRUE");
                if let Finish::Scratch(scratch) = finish {
                    scratch.reduced[0].at = text.len();
                }
            }
            (Fault::LostSum, Finish::Merge(merging)) => {
                for aggregate in &mut merging.aggregates {
                    if *aggregate == Aggregate::Sum {
                        *aggregate = Aggregate::First;
                    }
                }
            }
            (Fault::LostHaving, Finish::Merge(merging)) => merging.having.clear(),
            (Fault::WrongKeys, Finish::Scratch(scratch)) => {
                let all = scratch.reduced.iter_mut().flat_map(|it| &mut it.by);
                all.for_each(|one| one.to = "-1".to_owned());
            }
            _ => {}
        }
    }

    /// The first read that tells of it. Reads that are not answered well without it tell nothing.
    fn found(self, spread: &mut Spread, corpus: &Corpus) -> Option<String> {
        let (honest, planted) = (spread.sharding().clone(), self.sharding(spread, corpus));
        for file in &corpus.files {
            for step in file.steps.iter().filter(|step| is_plain_read(step)) {
                if step.on.is_some_and(|on| on != spread.engine()) {
                    continue;
                }
                let Ok(answer) = spread.answered(&step.text, &honest) else {
                    continue;
                };
                let Ok(mut other) = spread.answered(&step.text, &planted) else {
                    continue;
                };
                self.plant(&mut other, spread.mode());
                if answer == other {
                    continue;
                }
                let here = spread.one.query(&step.text);
                let well = spread.carry(&answer);
                if difference(step, Care::Usual, &here, &well).is_some() {
                    continue;
                }
                let there = spread.carry(&other);
                if difference(step, Care::Usual, &here, &there).is_some() {
                    return Some(format!("{}/{}.sql:{}", corpus.name, file.name, step.line));
                }
            }
        }
        None
    }
}

#[test]
fn planted_faults_are_found() {
    let Some(mut spread) = Spread::start(Release::Installed, 2) else {
        return;
    };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/shards");
    let corpora = corpus::read_all(&folder);
    let shop = corpora.iter().find(|it| it.name == "shop");
    let shop = shop.expect("the corpus has the shop");
    let apart = |table: &&corpus::Table| matches!(&table.place, Place::Sharded { map, .. } if map != "shop");
    let apart: Vec<&str> = shop
        .tables
        .iter()
        .filter(apart)
        .map(|it| &*it.name)
        .collect();
    assert!(
        apart.contains(&"visits") && apart.contains(&"stock"),
        "{apart:?}"
    );
    spread.fill(shop);
    for fault in FAULTS {
        let found = fault.found(&mut spread, shop);
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
