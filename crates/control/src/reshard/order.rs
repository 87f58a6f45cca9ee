//! Orders of moves: what is checked before one is written down.

use farm::GroupKind;
use machines::reshard::Phase;

use super::condition::{of_merge, of_move, of_split};
use crate::context::records::no_group;
use crate::leadership::lead::Lead;
use crate::reshard::Resharding;
use crate::sharding::named::find_shard;
use catalog::command::{Arguments, CommandError};
use catalog::event::epoch_ms;
use catalog::identity;
use catalog::record::{Declared, MOVE, MoveRecord, Records, ShardRecord, json};

/// Moves that have ended and are still shown.
const ENDED_MAX: usize = 50;

/// So long clients wait at a cut where nobody says otherwise.
const HOLD_MS: u64 = 2000;

/// What is to be moved.
pub(crate) enum Wanted<'a> {
    Whole,
    /// A part of the shard, from this key on where it says one.
    Part(Option<&'a str>),
    /// All of it, into another shard of the map.
    Into(u32),
}

impl Resharding {
    /// Checks an order and writes the move down; gives its job's id. Nothing is changed when it is
    /// refused.
    pub(crate) async fn order_move(
        &self,
        lead: &Lead,
        args: &Arguments,
        wanted: Wanted<'_>,
    ) -> Result<String, CommandError> {
        let _one_at_a_time = self.context.changing.lock().await;
        let records = self.context.state().records.clone();
        let declared = &records.declared;
        let (id, shard) = find_shard(declared, args)?;
        let to = match wanted {
            Wanted::Into(other) => group_of(declared, (id, shard), other)?,
            _ => args.text("group_id"),
        };
        may_move(&records, (id, shard), to).map_err(CommandError::Refused)?;
        self.no_move(shard.map)?;
        let mut change = declared.change();
        let (kind, next) = match wanted {
            Wanted::Whole => ("move", of_move(declared, id, to)),
            Wanted::Part(value) => {
                let new = change.next_shard();
                ("split", of_split(declared, id, new, to, value))
            }
            Wanted::Into(other) => ("merge", of_merge(declared, id, other)),
        };
        let next = next.map_err(CommandError::Refused)?;
        let record = MoveRecord {
            kind: kind.to_owned(),
            map: shard.map,
            shard: id,
            from: shard.group.clone(),
            to: to.to_owned(),
            phase: Phase::Prepare.name().to_owned(),
            puts: next.puts,
            removes: next.removes,
            tables: next.tables,
            fresh: next.fresh,
            keeps: next.keeps,
            hold_ms: hold_ms(args)?,
            started_ms: epoch_ms(),
            ..MoveRecord::default()
        };
        let job = identity::uuid().map_err(|error| CommandError::Internal(error.to_string()))?;
        let key = format!("{MOVE}{job}");
        let mut transaction = change.finish().when_absent(&key).put(&key, &json(&record));
        let ended = records
            .moves
            .iter()
            .filter(|(_, it)| it.value.phase().is_over());
        let mut ended: Vec<(u64, &String)> =
            ended.map(|(job, it)| (it.value.started_ms, job)).collect();
        ended.sort_unstable();
        for (_, job) in ended.iter().rev().skip(ENDED_MAX) {
            transaction = transaction.delete(&format!("{MOVE}{job}"));
        }
        self.context
            .commit_as(lead, &args.author(), transaction)
            .await?;
        Ok(job)
    }
}

/// The group of the shard that another one becomes a part of.
fn group_of<'a>(
    declared: &'a Declared,
    (id, shard): (u32, &ShardRecord),
    other: u32,
) -> Result<&'a str, CommandError> {
    let refused = |why: String| Err(CommandError::Refused(why));
    let Some(found) = declared.shards.get(&other) else {
        return refused(format!(
            "there is no shard {other}; `sharding list_shards` lists them"
        ));
    };
    if id == other {
        return refused(format!("shard {id} cannot become a part of itself"));
    }
    if found.map == shard.map && !found.enabled {
        return refused(format!(
            "shard {other} is disabled; `sharding enable_shard {other}` first: its group gets rows that \
             clients use"
        ));
    }
    Ok(&found.group)
}

/// Why this shard cannot go to this group.
fn may_move(records: &Records, shard: (u32, &ShardRecord), to: &str) -> Result<(), String> {
    let (id, shard) = shard;
    for group in [to, &*shard.group] {
        if !records.groups.contains_key(group) {
            return Err(no_group(group));
        }
        if records.kind(group) == GroupKind::Media {
            return Err(format!("group {group} is on read-only storage"));
        }
        if records.kind(group) == GroupKind::Galera {
            return Err(format!(
                "group {group} is a Galera cluster, whose binary log cannot be followed; move its rows by \
                 a dump"
            ));
        }
        if records.primary(group).is_none() {
            return Err(format!(
                "group {group} has no primary; `group health {group}` says what it lacks"
            ));
        }
    }
    if to == shard.group {
        return Err(format!("shard {id} is on group {to} already"));
    }
    if !shard.enabled {
        return Err(format!(
            "shard {id} is disabled; `sharding enable_shard {id}` first: its rows move while clients use \
             them"
        ));
    }
    if records.declared.tables_of(shard.map).next().is_none() {
        return Err(format!(
            "map {} has no tables: there is nothing to move",
            shard.map
        ));
    }
    Ok(())
}

fn hold_ms(args: &Arguments) -> Result<u64, CommandError> {
    let Some(given) = args.get("hold_ms") else {
        return Ok(HOLD_MS);
    };
    let read = given.parse().ok().filter(|ms| (50..=60_000).contains(ms));
    read.ok_or_else(|| args.bad("hold_ms", given, "milliseconds from 50 to 60000"))
}
