//! Which groups a statement is for, in a farm with sharded tables.
//!
//! The shape of a text is read once per core ([`execute::per_core::plans`]); from then on a statement costs a look-up
//! by its digest and the comparison of one value. A farm without shard maps and assigned databases
//! is not asked at all.

pub mod chosen;
pub(crate) mod discard;
pub mod explain;
pub(crate) mod in_text;
pub(crate) mod inner;
pub(crate) mod into;
pub(crate) mod later;
pub(crate) mod load;
pub mod moving;
pub(crate) mod names;
pub(crate) mod of_session;
pub(crate) mod of_several;
pub(crate) mod own;
pub(crate) mod planned;
pub(crate) mod recalled;
pub mod run;
pub(crate) mod several;
pub(crate) mod undescribed;
pub(crate) mod upkeep;
pub(crate) mod writes;

use std::sync::Arc;

use execute::client::request::Request;
use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::{Job, Shape};
use execute::execution::statement_run::StatementRun;
use execute::per_core::Core;
use execute::prepared::bound::{bound, written_out};
use execute::session::context::StatementContext;
use execute::variables::session_variables::SessionVariables;
use farm::{ClientError, Group, Sharding, Snapshot, error};
use mysql_wire::command::Command;
use mysql_wire::relay::Expect;
use planner::load::LoadPlan;
use planner::place::{
    Asked, Goes, Literals, OwnCall, Plan, Spot, Statement, Tables, Values, Whose, misplaced,
};
use planner::{Catalog, Kind};
use sqltext::{Class, Facts, Slot, Verb};

use crate::place::writes::ids;
use crate::scatter::{Definition, Part};
pub use explain::words::Asking;
pub(crate) use in_text::InText;

/// Statements are read on the cores.
const _: () = assert!(reactor::STACK_BYTES >= planner::STACK_BYTES);

/// Where a statement goes.
#[derive(Debug)]
pub(crate) enum Where {
    /// To the current seat.
    Stay,
    Group(Arc<Group>),
    /// To all groups that have such definitions.
    Define(Box<Definition>),
    /// To several groups, each of which gets a text of its own; the numbers of their OKs are added up.
    Parts(Writing),
    /// A query over several groups: its text, with parameters written out.
    Rows(Vec<u8>),
    /// LOAD DATA, whose rows go to several groups.
    Load(Box<LoadPlan>),
    /// The same text on several groups, outside transactions; their rows are the answer.
    Upkeep(Vec<Part>),
    /// Something must be asked or allocated first: see [`later::place_later`].
    Later(Box<Spot>),
    /// A text of several statements, which run one after the other, each where its tables are.
    Several,
    /// A statement about one that is prepared in SQL.
    InText(Box<InText>),
    /// Many rows of a prepared statement at once.
    Bulk(u32),
    /// It is told how a statement over several groups would be carried out, or is.
    Explain(Box<Asking>),
    /// Nobody knows yet, since columns of tables of this database are not known: see [`undescribed`].
    Undescribed(String),
    Refuse(ClientError, String),
}

/// A write on several groups.
#[derive(Debug)]
pub(crate) struct Writing {
    pub parts: Vec<Part>,
    /// The first id that was given to its rows.
    pub insert_id: Option<u64>,
    /// It answers with rows: RETURNING.
    pub returns: bool,
    /// Of an INSERT of rows: the part that each of them went to.
    pub turns: Vec<usize>,
    /// The groups change copies of the same rows.
    pub same: bool,
}

/// Where the command that is about to run goes. Without sharding in the farm, nowhere else.
#[inline]
pub(crate) fn place(
    context: &StatementContext<'_>,
    run: &StatementRun,
    shape: &Shape,
    job: Job,
) -> Where {
    let snapshot = context.core.glance();
    match &snapshot.sharding {
        None if run.chosen.is_some() => chosen::without_maps(run, shape),
        None => Where::Stay,
        Some(sharding) => place_among(context, run, shape, job, &snapshot, sharding),
    }
}

fn place_among(
    context: &StatementContext<'_>,
    run: &StatementRun,
    shape: &Shape,
    job: Job,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    let joined;
    let text = match job {
        Job::Execute(id) => context.prepared.statement_text(id),
        Job::Prepare(_) => match &context.prepared.preparing {
            Some((key, _)) => key.text.bytes(),
            None => return Where::Stay,
        },
        Job::Frame(Expect::Results) if is_command(&context.client.request, Command::Query) => {
            match context.client.request.is_split() {
                true => {
                    joined = mysql_wire::packet::joined(context.client.request.frame());
                    &joined[1..]
                }
                false => &context.client.request.payload()[1..],
            }
        }
        Job::Frame(_) if is_command(&context.client.request, Command::InitDb) => {
            let name = String::from_utf8_lossy(&context.client.request.payload()[1..]);
            return of_database(&name, snapshot, sharding);
        }
        Job::Frame(_) => {
            return names::in_database(context.variables, context.connections, snapshot, sharding);
        }
    };
    if sharding.has_undescribed()
        && let Some(database) = undescribed::named(context.variables, shape, text, sharding)
    {
        return Where::Undescribed(database);
    }
    if let Job::Prepare(_) = job {
        return names::place_prepare(
            context.variables,
            context.connections,
            text,
            snapshot,
            sharding,
        );
    }
    if shape.facts.contains(Facts::MULTIPLE) {
        return of_several::place_several(context, text, job, snapshot, sharding);
    }
    match is_planned(shape) {
        true => place_planned(context, run, shape, text, job, snapshot, sharding),
        false => place_unplanned(context, run, shape, text, job, snapshot, sharding),
    }
}

/// The place of a statement by its plan, since its keys may tell one group from all others.
fn place_planned(
    context: &StatementContext<'_>,
    run: &StatementRun,
    shape: &Shape,
    text: &[u8],
    job: Job,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    let Some(plan) = plan(context.core, context.variables, text, shape, snapshot, sharding) else {
        return Where::Stay;
    };
    let spot = match job {
        Job::Execute(id) if is_command(&context.client.request, Command::StmtBulkExecute) => {
            match place_of_bulk(&plan, snapshot) {
                Some(place) => return place,
                None => return Where::Bulk(id),
            }
        }
        Job::Execute(id) => match bound(context, id, text) {
            Some(bound) => spot(context.core, context.variables, &plan, text, &bound, sharding),
            None => return Where::Stay,
        },
        _ => spot_of_text(
            context.core,
            &context.client.request,
            context.variables,
            &plan,
            shape,
            text,
            sharding,
        ),
    };
    let chosen = || chosen::chosen_group(context.variables, run, shape, text, snapshot, sharding);
    if run.has_chosen(shape)
        && let Some(place) = chosen::place_chosen(&plan, &spot, chosen)
    {
        return place;
    }
    let written = || written_out(context, text, job);
    names::answer_spot(
        context.variables,
        context.connections,
        spot,
        written,
        plan.returns(),
        snapshot,
        sharding,
    )
}

/// The place of a statement without a plan: only its names and its kind tell where it goes.
fn place_unplanned(
    context: &StatementContext<'_>,
    run: &StatementRun,
    shape: &Shape,
    text: &[u8],
    job: Job,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    if run.has_chosen(shape)
        && let Some(place) =
            chosen::unplanned_chosen(context.variables, run, shape, text, snapshot, sharding)
    {
        return place;
    }
    if let Some(place) =
        explain::place_explained(context, run, shape, text, job, snapshot, sharding)
    {
        return place;
    }
    match load::place_load(context.variables, shape, text, job, snapshot, sharding) {
        Some(place) => place,
        None => names::place_by_names(
            context.variables,
            context.connections,
            context.prepared,
            text,
            shape,
            snapshot,
            sharding,
        ),
    }
}

fn spot_of_text(
    core: &Core,
    request: &Request,
    variables: &SessionVariables,
    plan: &Plan,
    shape: &Shape,
    text: &[u8],
    sharding: &Sharding,
) -> Spot {
    let scan = core.statements.scan.borrow();
    let read;
    // CONNECTION_ID() was replaced in the text behind the scan.
    let scanned = scan.number == shape.scan && !shape.facts.contains(Facts::CONNECTION_ID);
    let spans = match scanned && !request.is_split() {
        true => &scan.literals[..],
        false => {
            let slots = sqltext::slots(text, &variables.mode).into_iter();
            read = slots.map(|slot: Slot| slot.span).collect::<Vec<_>>();
            &read[..]
        }
    };
    let literals = Literals {
        text,
        spans,
        mode: &variables.mode,
        utf8: variables.is_utf8(),
    };
    spot(core, variables, plan, text, &literals, sharding)
}

/// Where a statement goes that is about to run: the ids that it brings are made known first.
fn spot(
    core: &Core,
    variables: &SessionVariables,
    plan: &Plan,
    text: &[u8],
    values: &dyn Values,
    sharding: &Sharding,
) -> Spot {
    let statement = statement_of(variables, text, values);
    let spot = plan.spot(&statement, sharding);
    debug_assert_eq!(strayed(core, variables, &statement, &spot, sharding), None, "{spot:?}");
    match ids::unheard_id(core, plan, &spot, &statement) {
        Some(_) => Spot::Ids(0),
        None => spot,
    }
}

fn statement_of<'a>(
    variables: &'a SessionVariables,
    text: &'a [u8],
    values: &'a dyn Values,
) -> Statement<'a> {
    Statement {
        text,
        mode: &variables.mode,
        values,
        zero_is_value: of_session::keeps_zeros(variables),
    }
}

/// Where a routine or a sequence is.
fn at_call(
    variables: &SessionVariables,
    call: &OwnCall,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    let session = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let database = call.database.as_deref().unwrap_or(&session);
    of_database(database, snapshot, sharding)
}

/// It names tables of which no group has all rows.
fn names_shards(
    variables: &SessionVariables,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> bool {
    let session = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    snapshot.home().is_some_and(|home| {
        let home = &home.name;
        Tables { sharding, home }.names_shards(text, &session, &variables.mode)
    })
}

fn by_names(
    variables: &SessionVariables,
    text: &[u8],
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Names {
    let Some(home) = snapshot.home() else {
        return Names::None;
    };
    let tables = Tables {
        sharding,
        home: &home.name,
    };
    let session = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let mut found = Names::None;
    for name in sqltext::tables(text, &variables.mode) {
        let database = name.database.as_deref().map(String::from_utf8_lossy);
        let database = database.as_deref().unwrap_or(&session);
        let global = |map: u32| {
            let mapped = sharding.map(map);
            mapped.map_or(home.name.clone(), |mapped| mapped.map.global_group.clone())
        };
        let (group, whole) = match tables.table(database, &String::from_utf8_lossy(&name.name)) {
            Kind::Single { group } => (group.clone(), true),
            Kind::Global { map } => (global(map), false),
            Kind::Sharded(table) => (global(table.map), false),
            Kind::Opaque => {
                let group = sharding.database(database).unwrap_or(&home.name);
                (group.clone(), false)
            }
        };
        found = match found {
            Names::None if whole => Names::Whole(group),
            Names::None => Names::Part(group),
            Names::Whole(first) if whole && first == group => Names::Whole(first),
            Names::Whole(first) | Names::Part(first) => Names::Part(first),
        };
    }
    found
}

fn make_plan(
    variables: &SessionVariables,
    text: &[u8],
    shape: &Shape,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<Plan> {
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let asked = Asked {
        sharding,
        home: &snapshot.home()?.name,
        database: &database,
        mode: &variables.mode,
        writes: shape.class == Class::Write,
        locks: shape.facts.contains(Facts::LOCKING_READ),
    };
    let plan = planner::place::plan(text, &asked);
    if let Goes::Unread(unread) = &plan.goes {
        tracing::debug!(reason = %unread.reason, "a statement on sharded tables is not read");
    }
    Some(plan)
}

/// A read of global tables, which stays where the session is if it can.
fn on_any(
    connections: &GroupConnections,
    map: u32,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Where {
    let Some(mapped) = sharding.map(map) else {
        return Where::Stay;
    };
    let here = connections.group(snapshot).map(|group| &group.name);
    match here.is_some_and(|here| mapped.groups.contains(here)) {
        true => Where::Stay,
        false => group(&mapped.map.global_group, snapshot),
    }
}

fn is_command(request: &Request, command: Command) -> bool {
    let byte = request.payload().first().copied();
    byte.is_some_and(|byte| Command::try_from(byte).is_ok_and(|it| it == command))
}

/// What of a statement that goes to one group lies on others, too, by a second opinion.
fn strayed(
    core: &Core,
    variables: &SessionVariables,
    statement: &Statement<'_>,
    spot: &Spot,
    sharding: &Sharding,
) -> Option<String> {
    let Spot::Group(group) = spot else {
        return None;
    };
    let snapshot = core.glance();
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let whose = Whose {
        sharding,
        home: &snapshot.home()?.name,
        database: &database,
    };
    misplaced(statement, whose, group)
}

/// The plan of a text's shape.
fn plan(
    core: &Core,
    variables: &SessionVariables,
    text: &[u8],
    shape: &Shape,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<std::rc::Rc<Plan>> {
    let database = variables.state.database().unwrap_or_default();
    let key = core.statements.plans.key(shape.hash, shape.folds, database, &variables.mode);
    if let Some(plan) = core.statements.plans.get(&key, sharding) {
        return Some(plan);
    }
    let plan = make_plan(variables, text, shape, snapshot, sharding)?;
    Some(core.statements.plans.put(key, plan))
}

/// What tables' names tell of a statement's place.
enum Names {
    None,
    /// All are on this group.
    Whole(Arc<str>),
    /// This group has some, or a part of their rows.
    Part(Arc<str>),
}

/// Where many rows in one execution go when their keys do not matter.
fn place_of_bulk(plan: &Plan, snapshot: &Snapshot) -> Option<Where> {
    match &plan.goes {
        Goes::Group(name) => Some(group(name, snapshot)),
        Goes::Nowhere => Some(Where::Stay),
        _ => None,
    }
}

/// Statements whose tables and keys are looked for.
fn is_planned(shape: &Shape) -> bool {
    matches!(
        shape.verb,
        Verb::Select
            | Verb::Values
            | Verb::Table
            | Verb::Insert
            | Verb::Replace
            | Verb::Update
            | Verb::Delete
            | Verb::Do
            | Verb::SetStatement
    )
}

fn group(name: &str, snapshot: &Snapshot) -> Where {
    match snapshot.group(name) {
        Some(group) => Where::Group(group.clone()),
        None => Where::Refuse(error::NO_GROUP, String::new()),
    }
}

/// The group that has a database's tables without a shard key.
fn of_database(database: &str, snapshot: &Snapshot, sharding: &Sharding) -> Where {
    match sharding.database(database) {
        Some(name) => group(name, snapshot),
        None => match snapshot.home() {
            Some(home) => Where::Group(home.clone()),
            None => Where::Stay,
        },
    }
}

fn refuse(reason: &str) -> Where {
    Where::Refuse(error::NOT_OVER_GROUPS, reason.to_owned())
}

fn unwritable() -> Where {
    refuse("parameters that came as long data cannot be sent to several groups")
}
