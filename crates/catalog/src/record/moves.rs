//! Moves of parts of shard maps, as the state store keeps them: `/move/JOB`.

use machines::reshard::Phase;
use serde::{Deserialize, Serialize};

use super::{Kept, ShardRecord};

pub const MOVE: &str = "/move/";

/// A part of a map that changes its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MoveRecord {
    /// `move`, `split` or `merge`.
    pub kind: String,
    pub map: u32,
    pub shard: u32,
    pub from: String,
    pub to: String,
    /// A name of [`Phase`].
    pub phase: String,
    /// What the map becomes: shards as they will be, and those that end.
    pub puts: Vec<(u32, ShardRecord)>,
    pub removes: Vec<u32>,
    /// Whose rows move, the global tables first.
    pub tables: Vec<PartRecord>,
    /// The target has no other part of the map: nobody looks there before the map is flipped.
    pub fresh: bool,
    /// The source keeps another part of the map.
    pub keeps: bool,
    /// Something of the part may be at the target.
    pub began: bool,
    pub paused: bool,
    pub aborted: bool,
    /// It stands still until somebody mends this.
    pub stuck: bool,
    /// Why the last try did not go well.
    pub error: String,
    /// From here on the source's binary log is of interest.
    pub position: String,
    /// The table that is copied, and the last key of it that was.
    pub table: usize,
    pub behind: Vec<String>,
    pub rows: u64,
    pub bytes: u64,
    /// So long clients may wait at the cut.
    pub hold_ms: u64,
    /// How long they did wait.
    pub held_ms: Option<u64>,
    pub started_ms: u64,
    pub ended_ms: Option<u64>,
}

/// A table, and true for its rows that move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRecord {
    pub database: String,
    pub table: String,
    pub only: String,
    pub global: bool,
}

impl MoveRecord {
    /// A record of a version that has other phases stands still where it is.
    pub fn phase(&self) -> Phase {
        Phase::parse(&self.phase).unwrap_or(Phase::Aborted)
    }

    /// Statements for the groups that it is about wait.
    pub fn holds(&self) -> bool {
        self.phase() == Phase::Cut
    }

    /// The group that has rows of the map's tables which are not its shard's.
    pub fn mixed(&self) -> Option<&str> {
        match self.phase() {
            Phase::Done | Phase::Aborted => None,
            Phase::Prune => self.keeps.then_some(&self.from),
            _ => (!self.fresh).then_some(&self.to),
        }
    }

    /// How it stands, for people.
    pub fn state(&self) -> &'static str {
        match self.phase() {
            Phase::Done => "done",
            Phase::Aborted => "aborted",
            _ if self.stuck => "failed",
            _ if self.paused => "paused",
            _ => "running",
        }
    }

    /// What it does now, for people.
    pub fn step(&self) -> String {
        let phase = match self.phase() {
            Phase::Copy => match self.tables.get(self.table) {
                Some(table) => format!("copy {}.{}", table.database, table.table),
                None => "copy".to_owned(),
            },
            phase => phase.name().to_owned(),
        };
        match self.error.is_empty() || self.phase().is_over() {
            true => phase,
            false => format!("{phase}: {}", self.error),
        }
    }
}

/// Moves by the ids of their jobs.
pub type Moves = std::collections::BTreeMap<String, Kept<MoveRecord>>;
