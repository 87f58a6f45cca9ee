//! Where a statement goes by the names in it alone, without a plan.

use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::Shape;
use execute::prepared::statements::PreparedStatements;
use execute::variables::session_variables::SessionVariables;

use crate::place::writes::split;
use crate::place::{self, Names, Where, Writing, in_text, upkeep};
use crate::scatter::{Defining, Part, define};
use farm::{Sharding, Snapshot, error};
use planner::place::{Spot, own_call};
use sqltext::{Class, Facts};

/// Makes of a spot what the session does. `text` is wanted only where it goes to several groups.
pub(crate) fn answer_spot(
    variables: &SessionVariables,
    connections: &GroupConnections,
    spot: Spot,
    text: impl FnOnce() -> Option<Vec<u8>>,
    returns: bool,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    let same = matches!(spot, Spot::Same(_));
    let writing = |parts| {
        Where::Parts(Writing {
            parts,
            insert_id: None,
            returns,
            turns: Vec::new(),
            same,
        })
    };
    match spot {
        Spot::Anywhere => in_database(variables, connections, snapshot, sharding),
        Spot::Group(name) => place::group(&name, snapshot),
        Spot::AnyOf(map) => place::on_any(connections, map, snapshot, sharding),
        Spot::Refused(refusal) => Where::Refuse(refusal.error, refusal.detail),
        Spot::Each(groups) | Spot::Same(groups) => {
            let Some(text) = text() else {
                return place::unwritable();
            };
            let part = |group| Part {
                group,
                text: text.clone(),
            };
            writing(groups.into_iter().map(part).collect())
        }
        Spot::Read(_) => text().map_or_else(place::unwritable, Where::Rows),
        Spot::Rows(parts) => {
            let Some(text) = text() else {
                return place::unwritable();
            };
            let turns = split::turns(&parts);
            match split::rows(&text, &variables.mode, &parts) {
                Some(parts) => match writing(parts) {
                    Where::Parts(writing) => Where::Parts(Writing { turns, ..writing }),
                    other => other,
                },
                None => place::refuse("the rows of this INSERT cannot be taken apart"),
            }
        }
        later @ (Spot::Evaluate(_)
        | Spot::Ids(_)
        | Spot::Moves(_)
        | Spot::Limited(_)
        | Spot::ByKeys
        | Spot::Select) => Where::Later(Box::new(later)),
    }
}

/// A statement that names no table: on the current seat when the session's database is there.
pub(crate) fn in_database(
    variables: &SessionVariables,
    connections: &GroupConnections,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    if connections.current.held.is_some() {
        return Where::Stay;
    }
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let begun = connections.begun.as_deref().filter(|_| database.is_empty());
    if let Some(begun) = begun.and_then(|name| snapshot.group(name)) {
        return Where::Group(begun.clone());
    }
    let here = connections.group(snapshot).map(|group| &group.name);
    if let (Some(here), Some(there)) = (here, sharding.database(&database)) {
        let mut maps = sharding.maps().iter();
        let both = maps.any(|it| it.groups.contains(here) && it.groups.contains(there));
        if both && sharding.has_declared(&database) {
            return Where::Stay;
        }
    }
    place::of_database(&database, snapshot, sharding)
}

/// The same; but what it calls is where its database is.
pub(crate) fn without_tables(
    variables: &SessionVariables,
    connections: &GroupConnections,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    match own_call(text, &variables.mode) {
        Some(call) => place::at_call(variables, &call, snapshot, sharding),
        None => in_database(variables, connections, snapshot, sharding),
    }
}

/// A statement that is not planned: it goes by the first table that it names, which is wrong only
/// where rows of several groups are meant.
pub(crate) fn place_by_names(
    variables: &SessionVariables,
    connections: &GroupConnections,
    prepared: &PreparedStatements,
    text: &[u8],
    shape: &Shape,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    // Statements look for a temporary table where an undeclared one would be.
    let mut temporary = shape.class == Class::Ddl && shape.facts.contains(Facts::TEMPORARY_TABLE);
    match define::defining(variables, connections, text, shape, snapshot, sharding) {
        Defining::Here(definition) => return Where::Define(definition),
        Defining::Refused(why) => return Where::Refuse(error::COMMAND_REFUSED, why),
        Defining::Temporary => temporary = true,
        Defining::Elsewhere => {}
    }
    if let Some(place) = upkeep::upkeep(variables, text, shape, snapshot, sharding) {
        return place;
    }
    let own = matches!(
        shape.class,
        Class::Transaction | Class::Set | Class::Ddl | Class::Local | Class::Empty
    );
    if own && !temporary {
        return match shape.class {
            Class::Set if place::names_shards(variables, text, snapshot, sharding) => {
                place::refuse(
                    "SET reads rows that lie on several groups: SELECT … INTO @variable asks all of them",
                )
            }
            Class::Set => without_tables(variables, connections, text, snapshot, sharding),
            _ => in_database(variables, connections, snapshot, sharding),
        };
    }
    if shape.class == Class::Use {
        return match sqltext::use_database(text, &variables.mode) {
            Some(name) => place::of_database(&String::from_utf8_lossy(&name), snapshot, sharding),
            None => Where::Stay,
        };
    }
    if let Some(found) = in_text::in_text(variables, prepared, shape, text) {
        return Where::InText(Box::new(found));
    }
    let rows_matter = !matches!(shape.class, Class::Show);
    match place::by_names(variables, text, snapshot, sharding) {
        Names::None => without_tables(variables, connections, text, snapshot, sharding),
        Names::Whole(name) => place::group(&name, snapshot),
        Names::Part(name) if !rows_matter => place::group(&name, snapshot),
        Names::Part(_) => place::refuse("a statement of this kind works on one group only"),
    }
}

/// PREPARE: where the tables are defined. The rows are looked for when it is executed.
pub(crate) fn place_prepare(
    variables: &SessionVariables,
    connections: &GroupConnections,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    match place::by_names(variables, text, snapshot, sharding) {
        Names::None => without_tables(variables, connections, text, snapshot, sharding),
        Names::Whole(name) | Names::Part(name) => place::group(&name, snapshot),
    }
}
