//! A shard that the client has chosen itself: `SET heddle_shard_table`, `heddle_shard_key`,
//! `heddle_global_table`, and the hints `/*heddle shard_table=… shard_key=…*/`.
//!
//! The choice holds for statements on sharded and global tables, and for those that name no table.
//! Writes to global tables go to all groups all the same, and a write that says itself that its row
//! lives elsewhere is refused.
//!
//! Two forms are for client libraries that choose between two statements of their application.
//! `HEDDLE SELECT SHARD 'table' 'key'` and `HEDDLE SELECT GLOBAL 'table'` answer with the numbers of the
//! statement before. `HEDDLE SELECT ?` is prepared once and takes each choice as long data, which has no
//! reply: it costs no trip. What is wrong with such a choice is said by the statements that it is for.

use std::borrow::Cow;
use std::sync::Arc;

use execute::execution::choice::{Chosen, choice_of};
use execute::execution::exec::Shape;
use execute::execution::statement_run::StatementRun;
use execute::variables::session_variables::SessionVariables;
use farm::shard::ShardedTable;
use farm::sharding::{Placed, Placement};
use farm::{ClientError, Group, Sharding, Snapshot, error};
use mysql_wire::statement::LongData;
use planner::place::{Goes, Plan, Spot};
use routing::shard::{Literal, Nowhere, locate, stored};
use sqltext::{Class, Scan};

use super::{Where, group};

/// What long data for `HEDDLE SELECT ?` begins with.
const BEGINS: &[u8] = b"HEDDLE SELECT ";

/// Takes up the choice that the current COM_STMT_SEND_LONG_DATA brings: `HEDDLE SELECT SHARD`, the table
/// and the key, or `HEDDLE SELECT GLOBAL` and the table, with a zero byte between them. `own`: it is for
/// `HEDDLE SELECT ?`, and anything else in it is a mistake. A client may have lost that statement with its
/// session's others, and does not hear of it; its choice is known by how it begins. False: it is long data
/// of another kind.
pub fn take_choice(run: &mut StatementRun, payload: &[u8], own: bool) -> bool {
    let data = LongData::decode(payload.get(1..).unwrap_or_default()).map(|it| it.data);
    let words = data.ok().and_then(|data| data.strip_prefix(BEGINS));
    let words = words.and_then(|rest| std::str::from_utf8(rest).ok());
    if let Some((table, key)) = words.and_then(shard_words) {
        run.choose_shard(table, key);
        return true;
    }
    let read = words.and_then(|words| choice_of(&words.split('\0').collect::<Vec<_>>()));
    let chosen = match read {
        Some(chosen) => chosen,
        None if own => Chosen {
            unread: true,
            ..Chosen::default()
        },
        None => return false,
    };
    run.choose(chosen);
    true
}

/// Table and key of the words that select a shard.
fn shard_words(words: &str) -> Option<(&str, &str)> {
    let (kind, rest) = words.split_once('\0')?;
    let (table, key) = rest.split_once('\0')?;
    (kind.eq_ignore_ascii_case("shard") && !key.contains('\0')).then_some((table, key))
}

/// The place of a statement in a farm without shard maps, where nothing can be chosen.
pub(super) fn without_maps(run: &StatementRun, shape: &Shape) -> Where {
    let chosen = run.chosen.as_deref();
    let about = !matches!(
        shape.class,
        Class::Transaction | Class::Set | Class::Use | Class::Local | Class::Empty
    );
    match chosen.filter(|it| about && (it.unread || it.chooses())) {
        None => Where::Stay,
        Some(chosen) => Where::Refuse(error::SETTING_UNKNOWN, chosen.variable().to_owned()),
    }
}

/// A choice that cannot be followed.
type Wrong = (ClientError, String);

/// Where a planned statement goes, whose own spot is `spot`; `None` where the choice is not about it.
/// `chosen` gives the group that the client has chosen.
pub(super) fn place_chosen(
    plan: &Plan,
    spot: &Spot,
    chosen: impl FnOnce() -> Option<Result<Arc<Group>, Wrong>>,
) -> Option<Where> {
    let about = match &plan.goes {
        Goes::Group(_) | Goes::Refused(_) | Goes::Steps { .. } => false,
        Goes::Global { .. } => !plan.writes,
        Goes::Nowhere | Goes::Key(_) | Goes::Tables(_) | Goes::Insert(_) | Goes::Unread(_) => true,
    };
    if !about {
        return None;
    }
    let chosen = match chosen()? {
        Ok(chosen) => chosen,
        Err((error, detail)) => return Some(Where::Refuse(error, detail)),
    };
    let elsewhere = match spot {
        Spot::Group(own) => *own != chosen.name,
        Spot::Rows(_) => true,
        _ => false,
    };
    if plan.writes && elsewhere {
        let detail = format!(
            "the shard key in the statement says that its rows are not on group {}, which was chosen",
            chosen.name
        );
        return Some(Where::Refuse(error::NOT_OVER_GROUPS, detail));
    }
    if let later @ (Spot::Ids(_) | Spot::Evaluate(_)) = spot {
        return Some(Where::Later(Box::new(later.clone())));
    }
    Some(Where::Group(chosen))
}

fn split_name<'n>(variables: &'n SessionVariables, name: &'n str) -> (Cow<'n, str>, &'n str) {
    match name.split_once('.') {
        Some((database, table)) => (Cow::Borrowed(database), table),
        None => {
            let database = variables.state.database().unwrap_or_default();
            (String::from_utf8_lossy(database), name)
        }
    }
}

fn global_group(
    variables: &SessionVariables,
    name: &str,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Result<Arc<Group>, Wrong> {
    let (database, table) = split_name(variables, name);
    // Also of a table that is named before it is made: it is made there.
    let Some(map) = sharding.named(&database, table).map(Placement::map) else {
        let detail = format!("table {name} is on no shard map");
        return Err((error::NOT_OVER_GROUPS, detail));
    };
    let name = sharding.map(map).map(|it| it.map.global_group.clone());
    found(name.as_deref().unwrap_or_default(), snapshot)
}

fn group_of_key(
    variables: &SessionVariables,
    name: &str,
    key: &str,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Result<Arc<Group>, Wrong> {
    let table = match name {
        "" => sqltext::tables(text, &variables.mode).iter().find_map(|it| {
            let (session, _) = split_name(variables, "");
            let database = it.database.as_deref().map(String::from_utf8_lossy);
            let database = database.as_deref().unwrap_or(&session);
            sharded(sharding, database, &String::from_utf8_lossy(&it.name))
        }),
        _ => {
            let (database, table) = split_name(variables, name);
            sharded(sharding, &database, table)
        }
    };
    let Some(table) = table else {
        let detail = match name {
            "" => "a shard key was chosen, but no sharded table: name it in heddle_shard_table"
                .to_owned(),
            _ => format!("table {name} is not sharded"),
        };
        return Err((error::NOT_OVER_GROUPS, detail));
    };
    let bad = || (error::SHARD_KEY_BAD, table.column.to_string());
    // Keys are compared in UTF-8: of a text in another character set they would be others.
    if !key.is_ascii() && (!variables.is_utf8() || key.contains(char::REPLACEMENT_CHARACTER)) {
        return Err(bad());
    }
    let key_found = stored(Literal::Text(key.as_bytes()), table.key).ok_or_else(bad)?;
    let map = &sharding.map(table.map).ok_or_else(bad)?.map;
    match locate(map, &key_found) {
        Ok(at) => found(&map.shard(at).group, snapshot),
        Err(Nowhere::OutOfRange) => Err((error::SHARD_KEY_OUT_OF_RANGE, key.to_owned())),
        Err(Nowhere::Disabled { shard }) => Err((error::SHARD_DISABLED, shard.to_string())),
    }
}

/// The sharded table of this name, also one that was put on its map before it is made: its name stands for the map.
fn sharded<'s>(sharding: &'s Sharding, database: &str, table: &str) -> Option<&'s ShardedTable> {
    match (sharding.placed(database, table), sharding.expected(database, table)) {
        (Placed::Sharded(table), _) | (_, Some(Placement::Sharded(table))) => Some(table),
        _ => None,
    }
}

/// The group that the session or the statement's hint has chosen.
pub(super) fn chosen_group(
    variables: &SessionVariables,
    run: &StatementRun,
    shape: &Shape,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<Result<Arc<Group>, Wrong>> {
    let hinted;
    let chosen = match (run.chosen.as_deref(), shape.shard_hint) {
        (chosen, true) => {
            hinted = with_hint(chosen.cloned().unwrap_or_default(), variables, text);
            &hinted
        }
        (Some(chosen), false) => chosen,
        (None, false) => return None,
    };
    if chosen.unread {
        let detail = "the shard that its client selected cannot be read: select it again";
        return Some(Err((error::NOT_OVER_GROUPS, detail.to_owned())));
    }
    if !chosen.global_table.is_empty() {
        return Some(global_group(variables, &chosen.global_table, snapshot, sharding));
    }
    let key = chosen.shard_key.as_ref()?;
    Some(group_of_key(variables, &chosen.shard_table, key, text, snapshot, sharding))
}

/// What a session has chosen, and what the hint of its statement chooses in its place.
fn with_hint(mut chosen: Chosen, variables: &SessionVariables, text: &[u8]) -> Chosen {
    let mut scan = Scan::new();
    scan.read(text, &variables.mode);
    let hint = |name: &str| {
        let value = scan.hint.get(text, name)?;
        Some(String::from_utf8_lossy(value).into_owned())
    };
    if let Some(key) = hint("shard_key") {
        chosen.shard_key = Some(key);
        chosen.global_table.clear();
        chosen.unread = false;
    }
    if let Some(table) = hint("shard_table") {
        chosen.shard_table = table;
    }
    match hint("global_table") {
        None => chosen,
        Some(table) => Chosen::global(&table),
    }
}

/// Where a statement goes that is not planned, by choice.
pub(super) fn unplanned_chosen(
    variables: &SessionVariables,
    run: &StatementRun,
    shape: &Shape,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<Where> {
    if !matches!(shape.class, Class::Show | Class::Call | Class::Other) {
        return None;
    }
    match chosen_group(variables, run, shape, text, snapshot, sharding)? {
        Ok(group) => Some(Where::Group(group)),
        Err((error, detail)) => Some(Where::Refuse(error, detail)),
    }
}

fn found(name: &str, snapshot: &Snapshot) -> Result<Arc<Group>, Wrong> {
    match group(name, snapshot) {
        Where::Group(group) => Ok(group),
        _ => Err((error::NO_GROUP, String::new())),
    }
}
