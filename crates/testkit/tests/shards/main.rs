//! Statements on sharded tables give what one server gives.
//!
//! The corpus of `test/shards` is played to one server and to a farm: rows, their order where the
//! statement gives one, names, types and decimals of columns, numbers of changed rows, errors, and
//! what the tables hold afterwards must be equal. `test/shards/README.md` says how to add to it.

mod contradicts;
mod corpus;
mod data;
mod dice;
mod invent;
mod outcome;
mod play;
mod sharded;
mod side;

use std::path::Path;

use farm::Engine;
use testkit::Release;

use play::{Choice, Findings};
use sharded::Sharded;
use side::{Plain, Side};

/// Below this share of statements that succeed, the corpus would test errors only.
const SUCCEED_PERCENT_MIN: usize = 85;

/// Statements that each seed makes up.
const INVENTIONS: usize = 300;

/// The engine of a side, by what its servers say.
fn engine_of(side: &dyn Side) -> Engine {
    let version = side.client("mysql").version;
    match version.contains("MariaDB") {
        true => Engine::MariaDb,
        false => Engine::MySql,
    }
}

fn folders() -> Vec<corpus::Corpus> {
    corpus::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/shards"))
}

/// A number from the environment.
fn asked(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}={text}"))
    })
}

/// Plays the corpus, and then what seeds make up.
fn agree(one: &mut dyn Side, other: &mut dyn Side, every: usize) {
    let choice = Choice::from_environment(every);
    let mut findings = Findings::default();
    for corpus in folders() {
        let invents = choice.invents() && corpus.name == "shop";
        if !choice.has_folder(&corpus) && !invents {
            continue;
        }
        one.build(&corpus);
        other.build(&corpus);
        play::play(&corpus, &choice, one, other, &mut findings);
        if invents {
            play::make_views(&corpus, one, other, &mut findings);
        }
        let first = asked("HEDDLE_SHARDS_SEED", 1);
        for seed in first..first + asked("HEDDLE_SHARDS_SEEDS", 1) * u64::from(invents) {
            play::play_inventions(&corpus, seed, 0..INVENTIONS, one, other, &mut findings);
        }
    }
    judge(&findings, &choice);
}

fn judge(findings: &Findings, choice: &Choice) {
    let (differ, all) = (findings.differences.len(), findings.statements);
    let writes = findings.writes;
    play::tell(&format!(
        "{all} statements, {writes} of them writes, {} refused, {differ} differences; in {} the one server contradicts itself\n",
        findings.refused, findings.contradicted
    ));
    assert!(differ == 0, "{differ} differences in {all} statements");
    if choice.only.is_none() {
        let succeeded = findings.succeeded * 100 / all;
        assert!(succeeded >= SUCCEED_PERCENT_MIN, "{succeeded} % succeed");
    }
}

/// Nothing that is compared depends on the order in which a server finds rows: two servers that got the
/// same rows in different orders agree on everything.
fn leaves_nothing_open(release: Release) {
    if let (Some(mut one), Some(mut other)) = (Plain::start(release), Plain::start(release)) {
        agree(&mut one, &mut other, 1);
    }
}

/// A farm of so many groups, with a shard of every map on each, says what one server says.
fn sharded(release: Release, groups: usize, every: usize) {
    let seed = asked("HEDDLE_SHARDS_SEED", 1);
    let farm = Sharded::start(release, groups, seed);
    if let (Some(mut one), Some(mut farm)) = (Plain::start(release), farm) {
        agree(&mut one, &mut farm, every);
    }
}

#[test]
fn the_corpus_leaves_nothing_open_on_mariadb() {
    leaves_nothing_open(Release::Installed);
}

#[test]
fn the_corpus_leaves_nothing_open_on_mysql() {
    leaves_nothing_open(Release::MySql80);
}

/// Every so many reads of the corpus are in each run of the tests.
const SAMPLED: usize = 9;

/// A part of the corpus, for every run of the tests: all writes of the shop and some reads.
#[test]
fn a_sample_on_two_shards_on_mariadb() {
    sharded(Release::Installed, 2, SAMPLED);
}

#[test]
#[ignore = "long: make test-shards"]
fn one_shard_on_mariadb() {
    sharded(Release::Installed, 1, 1);
}

#[test]
#[ignore = "long: make test-shards"]
fn two_shards_on_mariadb() {
    sharded(Release::Installed, 2, 1);
}

#[test]
#[ignore = "long: make test-shards"]
fn four_shards_on_mariadb() {
    sharded(Release::Installed, 4, 1);
}

#[test]
#[ignore = "long: make test-shards"]
fn two_shards_on_mysql() {
    sharded(Release::MySql80, 2, 1);
}

#[test]
#[ignore = "long: make test-shards"]
fn four_shards_on_mysql() {
    sharded(Release::MySql80, 4, 1);
}

#[test]
#[ignore = "long: make test-shards"]
fn two_shards_on_a_newer_mysql() {
    sharded(Release::MySqlNewer, 2, 1);
}
