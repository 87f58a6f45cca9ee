//! Which groups a statement is for, in a farm with sharded tables.
//!
//! The shape of a text is read once per core ([`plans`]); from then on a statement costs a look-up
//! by its digest and the comparison of one value. A farm without shard maps and assigned databases
//! is not asked at all.

mod bound;
mod chosen;
mod explain;
mod ids;
mod inner;
mod later;
mod many;
mod plans;
mod run;
mod split;

use std::sync::Arc;

use farm::{ClientError, Group, Sharding, Snapshot, error};
use mysql_wire::command::Command;
use mysql_wire::relay::Expect;
use planner::place::{Asked, Goes, Literals, Plan, Spot, Statement, Tables, Values};
use planner::{Catalog, Kind};
use sqltext::{Class, Facts, Slot, Verb};

use crate::exec::{Job, Shape};
use crate::fan::Part;
use crate::fan::{Defining, Definition};
use crate::session::Session;
use bound::Bound;
pub(crate) use chosen::Chosen;
pub(crate) use explain::Explained;
pub(crate) use ids::Blocks;
pub(crate) use plans::Plans;

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
    /// Something must be asked or allocated first: see [`Session::place_later`].
    Later(Box<Spot>),
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
    /// The groups change copies of the same rows.
    pub same: bool,
}

impl Session {
    /// Where the command that is about to run goes. Without sharding in the farm, nowhere else.
    #[inline]
    pub(crate) fn place(&mut self, shape: &Shape, job: Job) -> Where {
        let snapshot = self.core.shared.published.load();
        match &snapshot.sharding {
            None => Where::Stay,
            Some(sharding) => self.place_among(shape, job, &snapshot, sharding),
        }
    }

    fn place_among(
        &self,
        shape: &Shape,
        job: Job,
        snapshot: &Snapshot,
        sharding: &Sharding,
    ) -> Where {
        let joined;
        let text = match job {
            Job::Execute(id) => self.statement_text(id),
            Job::Prepare(_) => match &self.preparing {
                Some((key, _)) => key.text.bytes(),
                None => return Where::Stay,
            },
            Job::Frame(Expect::Results) if self.is_command(Command::Query) => {
                match self.client.is_split() {
                    true => {
                        joined = mysql_wire::packet::joined(self.client.frame());
                        &joined[1..]
                    }
                    false => &self.client.payload()[1..],
                }
            }
            Job::Frame(_) if self.is_command(Command::InitDb) => {
                let name = String::from_utf8_lossy(&self.client.payload()[1..]);
                return of_database(&name, snapshot, sharding);
            }
            Job::Frame(_) => return self.in_database(snapshot, sharding),
        };
        if let Job::Prepare(_) = job {
            return self.place_prepare(text, snapshot, sharding);
        }
        if shape.facts.contains(Facts::MULTIPLE) {
            return self.place_several(text, snapshot, sharding);
        }
        if !is_planned(shape) {
            if self.has_chosen(shape)
                && let Some(place) = self.unplanned_chosen(shape, text, snapshot, sharding)
            {
                return place;
            }
            return self.place_by_names(text, shape, snapshot, sharding);
        }
        let Some(plan) = self.plan(text, shape, snapshot, sharding) else {
            return Where::Stay;
        };
        let spot = match job {
            Job::Execute(_) if self.is_command(Command::StmtBulkExecute) => spot_of_bulk(&plan),
            Job::Execute(id) => match self.bound(id, text) {
                Some(bound) => self.spot(&plan, text, &bound, sharding),
                None => return Where::Stay,
            },
            _ => self.spot_of_text(&plan, shape, text, sharding),
        };
        if self.has_chosen(shape)
            && let Some(place) = self.place_chosen(&plan, &spot, shape, text, snapshot, sharding)
        {
            return place;
        }
        let written = || self.written_out(text, job);
        self.answer_spot(spot, written, plan.returns(), snapshot, sharding)
    }

    fn spot_of_text(&self, plan: &Plan, shape: &Shape, text: &[u8], sharding: &Sharding) -> Spot {
        let scan = self.core.scan.borrow();
        let read;
        let spans = match scan.number == shape.scan && !self.client.is_split() {
            true => &scan.literals[..],
            false => {
                let slots = sqltext::slots(text, &self.mode).into_iter();
                read = slots.map(|slot: Slot| slot.span).collect::<Vec<_>>();
                &read[..]
            }
        };
        let literals = Literals {
            text,
            spans,
            mode: &self.mode,
            utf8: self.is_utf8(),
        };
        self.spot(plan, text, &literals, sharding)
    }

    fn is_command(&self, command: Command) -> bool {
        let byte = self.client.payload().first().copied();
        byte.is_some_and(|byte| Command::try_from(byte).is_ok_and(|it| it == command))
    }

    /// The client's texts are in UTF-8.
    fn is_utf8(&self) -> bool {
        let charset = self.state.variable("character_set_client");
        charset.is_none_or(|name| name.starts_with(b"utf8"))
    }

    /// The text of a command, with parameters written out; `None` where they are not here.
    fn text_of(&self, job: Job) -> Option<Vec<u8>> {
        match job {
            Job::Execute(id) => self.written_out(self.statement_text(id), job),
            _ if self.client.is_split() => {
                Some(mysql_wire::packet::joined(self.client.frame()).split_off(1))
            }
            _ => Some(self.client.payload()[1..].to_vec()),
        }
    }

    fn spot(&self, plan: &Plan, text: &[u8], values: &dyn Values, sharding: &Sharding) -> Spot {
        let statement = Statement {
            text,
            mode: &self.mode,
            values,
            zero_is_value: self.keeps_zeros(),
        };
        plan.spot(&statement, sharding)
    }

    /// A zero in an AUTO_INCREMENT column is stored as it is.
    fn keeps_zeros(&self) -> bool {
        let mode = self.state.variable("sql_mode").unwrap_or_default();
        let wanted = b"NO_AUTO_VALUE_ON_ZERO";
        mode.windows(wanted.len()).any(|it| it == wanted)
    }

    /// Makes of a spot what the session does. `text` is wanted only where it goes to several groups.
    fn answer_spot(
        &self,
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
                same,
            })
        };
        match spot {
            Spot::Anywhere => self.in_database(snapshot, sharding),
            Spot::Group(name) => group(&name, snapshot),
            Spot::AnyOf(map) => self.on_any(map, snapshot, sharding),
            Spot::Refused(refusal) => Where::Refuse(refusal.error, refusal.detail),
            Spot::Each(groups) | Spot::Same(groups) => {
                let Some(text) = text() else {
                    return unwritable();
                };
                let part = |group| Part {
                    group,
                    text: text.clone(),
                };
                writing(groups.into_iter().map(part).collect())
            }
            Spot::Read(_) => text().map_or_else(unwritable, Where::Rows),
            Spot::Rows(parts) => {
                let Some(text) = text() else {
                    return unwritable();
                };
                match split::rows(&text, &self.mode, &parts) {
                    Some(parts) => writing(parts),
                    None => refuse("the rows of this INSERT cannot be taken apart"),
                }
            }
            later @ (Spot::Evaluate(_)
            | Spot::Ids(_)
            | Spot::Moves(_)
            | Spot::Limited(_)
            | Spot::Select) => Where::Later(Box::new(later)),
        }
    }

    /// A read of global tables, which stays where the session is if it can.
    fn on_any(&self, map: u32, snapshot: &Snapshot, sharding: &Sharding) -> Where {
        let Some(mapped) = sharding.map(map) else {
            return Where::Stay;
        };
        let here = self.group(snapshot).map(|group| &group.name);
        match here.is_some_and(|here| mapped.groups.contains(here)) {
            true => Where::Stay,
            false => group(&mapped.map.global_group, snapshot),
        }
    }

    /// A statement that names no table: on the current seat when the session's database is there.
    fn in_database(&self, snapshot: &Snapshot, sharding: &Sharding) -> Where {
        if self.held.is_some() {
            return Where::Stay;
        }
        let database = String::from_utf8_lossy(self.state.database().unwrap_or_default());
        let here = self.group(snapshot).map(|group| &group.name);
        if let (Some(here), Some(there)) = (here, sharding.database(&database)) {
            let mut maps = sharding.maps().iter();
            let both = maps.any(|it| it.groups.contains(here) && it.groups.contains(there));
            if both && sharding.has_declared(&database) {
                return Where::Stay;
            }
        }
        of_database(&database, snapshot, sharding)
    }

    /// A statement that is not planned: it goes by the first table that it names, which is wrong only
    /// where rows of several groups are meant.
    fn place_by_names(
        &self,
        text: &[u8],
        shape: &Shape,
        snapshot: &Snapshot,
        sharding: &Sharding,
    ) -> Where {
        match self.defining(text, shape, snapshot, sharding) {
            Defining::Here(definition) => return Where::Define(definition),
            Defining::Refused(why) => return Where::Refuse(error::COMMAND_REFUSED, why),
            Defining::Elsewhere => {}
        }
        let own = matches!(
            shape.class,
            Class::Transaction | Class::Set | Class::Ddl | Class::Local | Class::Empty
        );
        // Statements look for a temporary table where an undeclared one would be.
        let temporary = shape.class == Class::Ddl && shape.facts.contains(Facts::TEMPORARY_TABLE);
        if own && !temporary {
            return self.in_database(snapshot, sharding);
        }
        if shape.class == Class::Use {
            return match sqltext::use_database(text, &self.mode) {
                Some(name) => of_database(&String::from_utf8_lossy(&name), snapshot, sharding),
                None => Where::Stay,
            };
        }
        if matches!(shape.verb, Verb::Prepare | Verb::ExecuteImmediate) {
            return self.place_text_prepare(text, snapshot, sharding);
        }
        let rows_matter = !matches!(shape.class, Class::Show);
        match self.by_names(text, snapshot, sharding) {
            Names::None => self.in_database(snapshot, sharding),
            Names::Whole(name) => group(&name, snapshot),
            Names::Part(name) if !rows_matter => group(&name, snapshot),
            Names::Part(_) => refuse("a statement of this kind works on one group only"),
        }
    }

    /// PREPARE … FROM: the statement inside runs on one connection.
    fn place_text_prepare(&self, text: &[u8], snapshot: &Snapshot, sharding: &Sharding) -> Where {
        let slots = sqltext::slots(text, &self.mode);
        let database = String::from_utf8_lossy(self.state.database().unwrap_or_default());
        let why = "a statement that is prepared by PREPARE in SQL works on tables of one group only: prepare it by the protocol";
        let Some(slot) = slots.first() else {
            return match sharding.has_declared(&database) {
                true => refuse(why),
                false => self.in_database(snapshot, sharding),
            };
        };
        let inner = sqltext::unquote(slot.span.of(text), &self.mode);
        match self.by_names(&inner, snapshot, sharding) {
            Names::None => self.in_database(snapshot, sharding),
            Names::Whole(name) => group(&name, snapshot),
            Names::Part(_) => refuse(why),
        }
    }

    fn by_names(&self, text: &[u8], snapshot: &Snapshot, sharding: &Sharding) -> Names {
        let Some(home) = snapshot.home() else {
            return Names::None;
        };
        let tables = Tables {
            sharding,
            home: &home.name,
        };
        let session = String::from_utf8_lossy(self.state.database().unwrap_or_default());
        let mut found = Names::None;
        for name in sqltext::tables(text, &self.mode) {
            let database = name.database.as_deref().map(String::from_utf8_lossy);
            let database = database.as_deref().unwrap_or(&session);
            let global = |map: u32| {
                let mapped = sharding.map(map);
                mapped.map_or(home.name.clone(), |mapped| mapped.map.global_group.clone())
            };
            let (group, whole) = match tables.table(database, &String::from_utf8_lossy(&name.name))
            {
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

    /// PREPARE: where the tables are defined. The rows are looked for when it is executed.
    fn place_prepare(&self, text: &[u8], snapshot: &Snapshot, sharding: &Sharding) -> Where {
        match self.by_names(text, snapshot, sharding) {
            Names::None => self.in_database(snapshot, sharding),
            Names::Whole(name) | Names::Part(name) => group(&name, snapshot),
        }
    }

    /// Several statements in one text, which one server has to run.
    fn place_several(&self, text: &[u8], snapshot: &Snapshot, sharding: &Sharding) -> Where {
        let mut all: Option<Arc<Group>> = None;
        for span in sqltext::statements(text, &self.mode) {
            let one = span.of(text);
            let shape = self.core.shape(one, &self.mode);
            let place = match is_planned(&shape) {
                true => {
                    let plan = self.make_plan(one, &shape, snapshot, sharding);
                    let slots = sqltext::slots(one, &self.mode);
                    let spans: Vec<_> = slots.iter().map(|slot| slot.span).collect();
                    let literals = Literals {
                        text: one,
                        spans: &spans,
                        mode: &self.mode,
                        utf8: self.is_utf8(),
                    };
                    match plan.map(|plan| self.spot(&plan, one, &literals, sharding)) {
                        Some(Spot::Group(name)) => group(&name, snapshot),
                        Some(Spot::Anywhere | Spot::AnyOf(_)) | None => Where::Stay,
                        Some(Spot::Refused(refusal)) => {
                            Where::Refuse(refusal.error, refusal.detail)
                        }
                        Some(_) => refuse(
                            "a text of several statements must be for one group: send them one by one",
                        ),
                    }
                }
                false => self.place_by_names(one, &shape, snapshot, sharding),
            };
            match (place, &all) {
                (Where::Group(group), None) => all = Some(group),
                (Where::Group(group), Some(first)) if group.name != first.name => {
                    return refuse(
                        "the statements of this text are for several groups: send them one by one",
                    );
                }
                (refused @ Where::Refuse(..), _) => return refused,
                _ => {}
            }
        }
        all.map_or(Where::Stay, Where::Group)
    }

    /// The plan of a text's shape.
    fn plan(
        &self,
        text: &[u8],
        shape: &Shape,
        snapshot: &Snapshot,
        sharding: &Sharding,
    ) -> Option<std::rc::Rc<Plan>> {
        let database = self.state.database().unwrap_or_default();
        let key = self
            .core
            .plans
            .key(shape.digest, shape.folds, database, &self.mode);
        if let Some(plan) = self.core.plans.get(&key, sharding) {
            return Some(plan);
        }
        let plan = self.make_plan(text, shape, snapshot, sharding)?;
        Some(self.core.plans.put(key, plan))
    }

    fn make_plan(
        &self,
        text: &[u8],
        shape: &Shape,
        snapshot: &Snapshot,
        sharding: &Sharding,
    ) -> Option<Plan> {
        let database = String::from_utf8_lossy(self.state.database().unwrap_or_default());
        let asked = Asked {
            sharding,
            home: &snapshot.home()?.name,
            database: &database,
            mode: &self.mode,
            writes: shape.class == Class::Write,
            locks: shape.facts.contains(Facts::LOCKING_READ),
        };
        let plan = planner::place::plan(text, &asked);
        if let Goes::Unread(unread) = &plan.goes {
            tracing::debug!(reason = %unread.reason, "a statement on sharded tables is not read");
        }
        Some(plan)
    }

    /// The values of an EXECUTE; `None` when it is malformed, which the server says better.
    fn bound<'a>(&'a self, id: u32, text: &'a [u8]) -> Option<Bound<'a>> {
        let statement = self.statements.get(&id)?;
        let named = self.has_attributes();
        let execute = bound::execute(self.client.payload(), statement.params, named)?;
        Bound::new(execute, statement, text, &self.mode, self.is_utf8())
    }

    /// The text of a statement with its parameters written out as literals.
    fn written_out(&self, text: &[u8], job: Job) -> Option<Vec<u8>> {
        match job {
            Job::Execute(id) => self.bound(id, text)?.written_out(),
            _ => Some(text.to_vec()),
        }
    }
}

/// What tables' names tell of a statement's place.
enum Names {
    None,
    /// All are on this group.
    Whole(Arc<str>),
    /// This group has some, or a part of their rows.
    Part(Arc<str>),
}

/// Many rows in one execution, whose keys are not looked at.
fn spot_of_bulk(plan: &Plan) -> Spot {
    let why = "many rows in one execution work on tables of one group only: execute row by row";
    match &plan.goes {
        Goes::Group(name) => Spot::Group(name.clone()),
        Goes::Nowhere => Spot::Anywhere,
        _ => Spot::Refused(routing::Refusal {
            error: error::NOT_OVER_GROUPS,
            detail: why.to_owned(),
        }),
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
