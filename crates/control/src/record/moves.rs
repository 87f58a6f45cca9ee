//! Moves of parts of shard maps, as the state store keeps them: `/move/JOB`.

use machines::reshard::Phase;
use serde::{Deserialize, Serialize};

use super::{Kept, ShardRecord};

pub(crate) const MOVE: &str = "/move/";

/// A part of a map that changes its group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MoveRecord {
    /// `move`, `split` or `merge`.
    pub(crate) kind: String,
    pub(crate) map: u32,
    pub(crate) shard: u32,
    pub(crate) from: String,
    pub(crate) to: String,
    /// A name of [`Phase`].
    pub(crate) phase: String,
    /// What the map becomes: shards as they will be, and those that end.
    pub(crate) puts: Vec<(u32, ShardRecord)>,
    pub(crate) removes: Vec<u32>,
    /// Whose rows move, the global tables first.
    pub(crate) tables: Vec<PartRecord>,
    /// The target has no other part of the map: nobody looks there before the map is flipped.
    pub(crate) fresh: bool,
    /// The source keeps another part of the map.
    pub(crate) keeps: bool,
    /// Something of the part may be at the target.
    pub(crate) began: bool,
    pub(crate) paused: bool,
    pub(crate) aborted: bool,
    /// It stands still until somebody mends this.
    pub(crate) stuck: bool,
    /// Why the last try did not go well.
    pub(crate) error: String,
    /// From here on the source's binary log is of interest.
    pub(crate) position: String,
    /// The table that is copied, and the last key of it that was.
    pub(crate) table: usize,
    pub(crate) behind: Vec<String>,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
    /// So long clients may wait at the cut.
    pub(crate) hold_ms: u64,
    /// How long they did wait.
    pub(crate) held_ms: Option<u64>,
    pub(crate) started_ms: u64,
    pub(crate) ended_ms: Option<u64>,
}

/// A table, and true for its rows that move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartRecord {
    pub(crate) database: String,
    pub(crate) table: String,
    pub(crate) only: String,
    pub(crate) global: bool,
}

impl MoveRecord {
    /// A record of a version that has other phases stands still where it is.
    pub(crate) fn phase(&self) -> Phase {
        Phase::parse(&self.phase).unwrap_or(Phase::Aborted)
    }

    /// Statements for the groups that it is about wait.
    pub(crate) fn holds(&self) -> bool {
        self.phase() == Phase::Cut
    }

    /// The group that has rows of the map's tables which are not its shard's.
    pub(crate) fn mixed(&self) -> Option<&str> {
        match self.phase() {
            Phase::Done | Phase::Aborted => None,
            Phase::Prune => self.keeps.then_some(&self.from),
            _ => (!self.fresh).then_some(&self.to),
        }
    }

    /// How it stands, for people.
    pub(crate) fn state(&self) -> &'static str {
        match self.phase() {
            Phase::Done => "done",
            Phase::Aborted => "aborted",
            _ if self.stuck => "failed",
            _ if self.paused => "paused",
            _ => "running",
        }
    }

    /// What it does now, for people.
    pub(crate) fn step(&self) -> String {
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
pub(crate) type Moves = std::collections::BTreeMap<String, Kept<MoveRecord>>;
