//! A farm whose tables are sharded, as a side that a corpus is played to.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use faults::Plant;
use testkit::farm::Member;
use testkit::{Farm, Release};

use crate::corpus::{Corpus, Place, Table};
use crate::dice::Dice;
use crate::side::{Contents, Side, contents_of, empty_on, sort};

/// The farm of a number of groups, one server each.
pub struct Sharded {
    pub farm: Farm,
    members: Vec<Member>,
    /// Where bounds fall is up to this.
    dice: Dice,
    /// A map of the kind SLOTS becomes one of another kind in half of the seeds.
    seed: u64,
}

impl Sharded {
    /// `None` where the servers cannot be had.
    pub fn start(release: Release, groups: usize, seed: u64) -> Option<Sharded> {
        let groups = groups.to_string();
        let mut flags = vec!["--groups", &*groups, "--replicas", "0"];
        let misjudges = seed % 2 == 1;
        // In half of the seeds sizes are wrong, and what is sent is soon too much.
        if misjudges {
            flags.extend(["--set", "broadcast_bytes_max=2000"]);
        }
        flags.extend(release.xa_flags());
        let farm = Farm::start_on(release, &flags)?;
        if misjudges {
            let plant = farm.faults().join(Plant::MisjudgesSizes.name());
            std::fs::write(plant, "").expect("a directory of faults");
        }
        let mut members = farm.members();
        members.sort_by(|a, b| a.group.cmp(&b.group));
        Some(Sharded {
            farm,
            members,
            dice: Dice::new(seed),
            seed,
        })
    }

    fn command(&self, words: &[&str]) {
        let output = self.farm.command(&[&["sharding"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "sharding {words:?}: {said}");
    }

    fn groups(&self) -> Vec<String> {
        let groups = self.members.iter().map(|member| member.group.clone());
        groups.collect()
    }

    /// Makes the map with a shard on each group.
    fn define(&mut self, map: &str) {
        let groups = self.groups();
        let kind = kind_of(map, self.seed);
        self.command(&["create_definition", kind, &groups[0], map]);
        let bounds = bounds(map, kind, groups.len(), &mut self.dice);
        let shards: Vec<String> = groups
            .iter()
            .zip(bounds)
            .map(|(group, bound)| group.clone() + &bound)
            .collect();
        self.command(&["add_shard", map, &shards.join(", "), "ENABLED"]);
    }
}

/// The kind of a map: the names are those of the schemas.
fn kind_of(map: &str, seed: u64) -> &'static str {
    match map {
        "pages" => "HASH",
        "goods" => "RANGE_STRING",
        "tpcc" if seed.is_multiple_of(2) => "RANGE_INTEGER",
        "tpcc" => "LIST",
        "shop" if seed % 3 == 2 => "RANGE_INTEGER",
        "shop" if seed % 3 == 1 => "HASH",
        _ => "SLOTS",
    }
}

/// What stands behind each group's name in `add_shard`.
fn bounds(map: &str, kind: &str, shards: usize, dice: &mut Dice) -> Vec<String> {
    match kind {
        "RANGE_STRING" => {
            let mut starts = ["B-15", "C", "C-19", "Z", "a", "b-12", "x"];
            dice.shuffle(&mut starts);
            let mut chosen = starts[..shards - 1].to_vec();
            chosen.push("");
            chosen.sort_unstable();
            chosen.iter().map(|bound| format!("/{bound}")).collect()
        }
        "RANGE_INTEGER" => {
            let most = if map == "tpcc" { 4 } else { 60 };
            let mut starts: Vec<i64> = (2..=most).collect();
            dice.shuffle(&mut starts);
            starts.truncate(shards - 1);
            starts.push(i64::from(i32::MIN));
            starts.sort_unstable();
            starts.iter().map(|bound| format!("/{bound}")).collect()
        }
        "LIST" => {
            let mut keys: Vec<String> = (1..=4).map(|key: i32| key.to_string()).collect();
            dice.shuffle(&mut keys);
            let of = |at: usize| -> Vec<String> {
                keys.iter().skip(at).step_by(shards).cloned().collect()
            };
            (0..shards)
                .map(|at| format!("/{}", of(at).join("|")))
                .collect()
        }
        _ => vec![String::new(); shards],
    }
}

impl Side for Sharded {
    fn build(&mut self, corpus: &Corpus) {
        let name = &corpus.name;
        let mut client = self.farm.client();
        client.run(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
        client.use_database(name).expect("it is there");
        for table in &corpus.tables {
            client.run(&table.create);
        }
        let mut maps: BTreeMap<&str, ()> = BTreeMap::new();
        for table in &corpus.tables {
            if let Place::Sharded { map, .. } | Place::Global(map) = &table.place
                && maps.insert(map, ()).is_none()
            {
                self.define(map);
            }
        }
        for table in &corpus.tables {
            let full = format!("{name}.{}", table.name);
            match &table.place {
                Place::Sharded { map, key } => self.command(&["add_table", map, &full, key]),
                Place::Global(map) => self.command(&["add_global_table", map, &full]),
                Place::Single => {}
            }
        }
    }

    fn empty(&mut self, corpus: &Corpus) {
        for member in &self.members {
            let home = member.group == self.members[0].group;
            let has = |table: &&Table| home || table.place != Place::Single;
            let tables = corpus.tables.iter().filter(has).cloned().collect();
            let here = Corpus {
                name: corpus.name.clone(),
                tables,
                files: Vec::new(),
            };
            empty_on(&mut member.client(), &here);
        }
    }

    fn address(&self) -> SocketAddr {
        self.farm.sql
    }

    fn contents(&mut self, database: &str, table: &Table) -> Result<Contents, String> {
        let of = |member: &Member| contents_of(&mut member.client(), database, table);
        match table.place {
            Place::Single => of(&self.members[0]),
            Place::Global(_) => {
                let first = of(&self.members[0])?;
                for member in &self.members[1..] {
                    if of(member)? != first {
                        let (one, other) = (&self.members[0].group, &member.group);
                        let name = &table.name;
                        return Err(format!("table {name} is not equal on {one} and {other}"));
                    }
                }
                Ok(first)
            }
            Place::Sharded { .. } => {
                let mut all = Contents::new();
                for member in &self.members {
                    all.extend(of(member)?);
                }
                sort(&mut all);
                Ok(all)
            }
        }
    }

    /// What `sharding verify` finds, row by row.
    fn verify(&mut self) -> Vec<String> {
        let rows = self.farm.json(&["sharding", "verify"]);
        rows.iter().map(ToString::to_string).collect()
    }
}
