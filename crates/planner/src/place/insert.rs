//! INSERT and REPLACE: the shard of each row.

use std::sync::Arc;

use farm::error;
use farm::shard::{Key, KeyType, ShardMap, ShardedTable};
use farm::sharding::TableSchema;
use farm::{ClientError, Sharding};
use routing::Refusal;
use routing::shard::{Nowhere, locate, stored};
use sqltext::{Edit, Insert, Mode, Row, Slot, Source, Span, edited, ticked};

use super::computed::computed;
use super::fits::Fits;
use super::given::{columns, place_of, unnamed};
use super::make::{Maker, not_over_groups};
use super::others::{has_query, reads_others};
use super::values::{Named, Value};
use super::varying::{differs, varying};
use super::{Goes, Spot, Statement, every, refusal, refused};
use crate::catalog::{Catalog, Kind};
use crate::views::behind::base_of;

/// What is known of an INSERT's shape.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    into: Into,
    /// Of the column that gives ids, when it has to be filled here.
    pub auto: Option<Auto>,
    pub database: String,
    pub table: String,
    /// `database.table`.
    pub name: String,
    /// It has RETURNING.
    pub returns: bool,
    /// The one row's key, where it is one value and the statement has one row, whose id is given.
    single: Option<Single>,
    query: bool,
    /// Queries stand among its values, of rows that its groups may not have.
    inner: bool,
    /// Into a table of all groups, with a function that would give each another value.
    varies: Option<String>,
    /// The columns that its values are of, where it has values and names no columns: in quotes.
    unnamed: Vec<String>,
}

/// The values that decide over the only row of a statement.
#[derive(Clone, Copy, Debug)]
struct Single {
    key: Named,
    /// It has this id, if the value is one.
    id: Option<Named>,
}

#[derive(Clone, Debug)]
enum Into {
    Global {
        map: u32,
    },
    Sharded {
        table: ShardedTable,
        key: At,
        fits: Fits,
    },
}

/// Where a row has the value of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Among the values of the row.
    Place(u32),
    /// The statement does not name the column.
    Absent,
}

/// The AUTO_INCREMENT column of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Auto {
    pub column: Arc<str>,
    pub at: At,
    fits: Fits,
}

/// Above this no id is passed on: sums of it stay within 64 bits.
const ID_MAX: u64 = 1 << 62;

impl InsertPlan {
    /// The plan of an INSERT; `None` for one into a table of one group, which goes by its tables.
    pub(super) fn make(text: &[u8], insert: &Insert, maker: &Maker<'_>) -> Option<Goes> {
        let mode = maker.asked.mode;
        let name = |span: &Span| {
            String::from_utf8_lossy(&sqltext::unquote(span.of(text), mode)).into_owned()
        };
        let database = insert.database.as_ref().map(name);
        let database = database.as_deref().unwrap_or(maker.asked.database);
        let table = name(&insert.table);
        let schema = maker.asked.sharding.schema(database, &table);
        if maker.tables.is_view(database, &table)
            && let Some(why) = fixed(database, &table, insert, maker)
        {
            return Some(into_view(database, &table, why));
        }
        let (global, sharded) = match maker.tables.table(database, &table) {
            Kind::Global { map } => (Some(map), None),
            Kind::Sharded(sharded) => (None, Some(sharded)),
            Kind::Single { .. } | Kind::Opaque => return None,
        };
        let names = columns(text, insert, mode, schema.map(|it| &**it));
        let at = |column: &str| place_of(names.as_deref()?, column);
        let query = matches!(insert.source, Source::Query(_));
        let map = global.or(sharded.map(|table| table.map))?;
        let session = maker.asked.database;
        let inner = !query && reads_others(text, map, &maker.tables, session, mode);
        if inner && has_query(&text[insert.tail as usize..], mode) {
            return Some(not_over_groups(
                "ON DUPLICATE KEY UPDATE reads rows that other groups may have: SELECT them first",
            ));
        }
        if inner && maker.tables.is_view(database, &table) {
            let why = "that rows of queries are not put into";
            return Some(into_view(database, &table, why));
        }
        let auto = auto(schema.map(|it| &**it), &at);
        let into = match sharded {
            Some(sharded) => match spread_into(text, insert, (sharded, at(&sharded.column)), maker)
            {
                Ok(into) => into,
                Err(refused) => return Some(refused),
            },
            None => Into::Global { map },
        };
        let varies = match &into {
            Into::Global { .. } if !query => varying(text, mode),
            _ => None,
        };
        if let (Into::Global { .. }, Some(schema)) = (&into, schema)
            && let Some(refusal) = varying_default(schema, names.as_deref(), mode)
        {
            return Some(Goes::Refused(refusal));
        }
        let single = match (&into, &insert.source) {
            (Into::Sharded { key, .. }, _) => single(insert, *key, auto.as_ref(), maker),
            _ => None,
        };
        Some(Goes::Insert(Box::new(InsertPlan {
            into,
            auto,
            database: database.to_owned(),
            name: format!("{database}.{table}"),
            table,
            returns: insert.returns,
            single: single.filter(|_| !inner),
            query,
            inner,
            varies,
            unnamed: unnamed(insert, names.as_deref()),
        })))
    }

    /// The greatest id that a statement gives its rows itself, if the column can hold it.
    pub fn chosen_id(&self, statement: &Statement<'_>) -> Option<u64> {
        let auto = self.auto.as_ref()?;
        let id = |value: Value<'_>| match stored(value.literal(), KeyType::Integer)? {
            key if auto.fits.holds(&key) => match key {
                Key::Int(id) => u64::try_from(id).ok().filter(|id| (1..ID_MAX).contains(id)),
                _ => None,
            },
            _ => None,
        };
        if let Some(single) = &self.single {
            return id(single.id?.of(statement.values)?);
        }
        let At::Place(at) = auto.at else { return None };
        if self.query {
            return None;
        }
        let insert = sqltext::insert(statement.text, statement.mode)?;
        let slots = sqltext::slots(statement.text, statement.mode);
        let of = |row: &[Span]| match literal(*row.get(at as usize)?, statement, &slots) {
            Written::Value(value) => id(value),
            Written::Default | Written::Expression => None,
        };
        Rows::of(&insert).iter().filter_map(of).max()
    }

    /// True for a row that has to be given an id.
    fn wants_id(&self, row: &[Span], statement: &Statement<'_>, slots: &[Slot]) -> bool {
        let Some(auto) = &self.auto else { return false };
        let At::Place(at) = auto.at else { return true };
        // A row of another length the server refuses.
        let Some(span) = row.get(at as usize) else {
            return false;
        };
        match literal(*span, statement, slots) {
            Written::Value(value) => gives_id(&value, statement),
            Written::Default => true,
            Written::Expression => false,
        }
    }

    /// The shard of the only row, where its values say all.
    fn spot_of_single(&self, statement: &Statement<'_>, sharding: &Sharding) -> Option<Spot> {
        let (Some(single), Into::Sharded { table, fits, .. }) = (&self.single, &self.into) else {
            return None;
        };
        let mapped = sharding.map(table.map)?;
        if let Some(id) = single.id
            && id
                .of(statement.values)
                .is_none_or(|id| gives_id(&id, statement))
        {
            return None;
        }
        let value = single.key.of(statement.values)?;
        let found = key(&value, table, *fits).map(|key| locate(&mapped.map, &key));
        Some(match found {
            Ok(Ok(at)) => Spot::Group(mapped.map.shard(at).group.clone()),
            Ok(Err(nowhere)) => Spot::Refused(homeless(nowhere, &value)),
            Err(refusal) => Spot::Refused(refusal),
        })
    }

    /// The text with ids from `first` on in the rows that want one; `None` for a text of another
    /// shape.
    pub fn with_ids(&self, statement: &Statement<'_>, first: u64) -> Option<Vec<u8>> {
        let insert = sqltext::insert(statement.text, statement.mode)?;
        let auto = self.auto.as_ref()?;
        let slots = sqltext::slots(statement.text, statement.mode);
        // What is put in, for which bytes.
        let mut edits: Vec<Edit> = Vec::new();
        let place = |start: u32, end: u32| (start as usize, end as usize);
        let mut id = first;
        let rows = Rows::of(&insert);
        match (&insert.source, auto.at) {
            (Source::Set(_), At::Absent) => {
                let set = format!(", {} = {id}", ticked(&auto.column));
                edits.push((place(insert.tail, insert.tail), set));
            }
            (Source::Rows { rows, .. }, At::Absent) => {
                // An invisible column has to be named, and all others with it.
                let named = insert.columns.as_ref().is_some_and(|it| !it.is_empty());
                let mut list = self.unnamed.clone();
                list.push(ticked(&auto.column));
                let list = list.join(", ");
                let column = match (named, &insert.columns) {
                    (true, _) => format!(", {list}"),
                    (false, Some(_)) => list,
                    (false, None) => format!(" ({list})"),
                };
                let at = insert.columns_at.end;
                edits.push((place(at, at), column));
                for row in rows {
                    let comma = if row.first == row.last { "" } else { ", " };
                    let at = row.whole.end - 1;
                    edits.push((place(at, at), format!("{comma}{id}")));
                    id += 1;
                }
            }
            (_, At::Place(at)) => {
                for row in rows.iter() {
                    if self.wants_id(row, statement, &slots) {
                        let span = row.get(at as usize)?;
                        edits.push((place(span.start, span.end), id.to_string()));
                        id += 1;
                    }
                }
            }
            (Source::Query(_), At::Absent) => return None,
        }
        Some(edited(statement.text, edits))
    }

    pub(super) fn spot(&self, statement: &Statement<'_>, sharding: &Sharding) -> Spot {
        if let Some(spot) = self.spot_of_single(statement, sharding) {
            return spot;
        }
        if self.query || self.inner {
            return Spot::Select;
        }
        let Some(insert) = sqltext::insert(statement.text, statement.mode) else {
            return refused(error::NOT_OVER_GROUPS, "the INSERT is not understood");
        };
        let rows = Rows::of(&insert);
        let slots = sqltext::slots(statement.text, statement.mode);
        let wants = |row: &&[Span]| self.wants_id(row, statement, &slots);
        let ids = rows.iter().filter(wants).count();
        if ids > 0 {
            return Spot::Ids(u32::try_from(ids).unwrap_or(u32::MAX));
        }
        if let Some(call) = &self.varies {
            let varies = |span: &&Span| varying(span.of(statement.text), statement.mode).is_some();
            let spans: Vec<Span> = rows.iter().flatten().filter(varies).copied().collect();
            return match spans.is_empty() {
                true => refused(error::NOT_OVER_GROUPS, differs(call)),
                false => Spot::Evaluate(spans),
            };
        }
        match &self.into {
            Into::Global { map } => match sharding.map(*map) {
                Some(mapped) => every(mapped),
                None => Spot::Anywhere,
            },
            Into::Sharded { table, key, fits } => match sharding.map(table.map) {
                Some(mapped) => spread(&rows, (*key, *fits), table, &mapped.map, statement, &slots),
                None => Spot::Anywhere,
            },
        }
    }
}

fn into_view(database: &str, view: &str, why: &str) -> Goes {
    not_over_groups(&format!(
        "{database}.{view} is a view {why}: INSERT into its table"
    ))
}

/// Why rows cannot be put into a view; `None` where each group can do it for its rows.
fn fixed(database: &str, view: &str, insert: &Insert, maker: &Maker<'_>) -> Option<&'static str> {
    let sharding = maker.asked.sharding;
    let Some((of, base)) = base_of(sharding, database, view) else {
        return Some("of sharded or global tables that is not made of one sharded table's rows");
    };
    let shown = match maker.tables.table(database, view) {
        Kind::Sharded(sharded) => !sharded.column.is_empty(),
        // Its map has one group.
        Kind::Single { .. } => true,
        Kind::Global { .. } | Kind::Opaque => false,
    };
    let table = sharding.schema(&of, &base);
    let ids = table.is_none_or(|it| it.auto_increment().is_some());
    let values = !matches!(insert.source, Source::Query(_));
    match (shown, ids, values) {
        (false, ..) => Some("that does not show its shard key"),
        (_, true, _) => Some("of a table whose ids Heddle gives"),
        (.., false) => Some("that rows of queries are not put into"),
        _ => None,
    }
}

/// Into a sharded table, whose rows have their keys at this place.
fn spread_into(
    text: &[u8],
    insert: &Insert,
    (sharded, key): (&ShardedTable, Option<At>),
    maker: &Maker<'_>,
) -> Result<Into, Goes> {
    let Some(key) = key else {
        return Err(not_over_groups(
            "the columns of the table are not known: name them in the INSERT",
        ));
    };
    if let Some(refusal) = moves(text, insert, sharded, maker.asked.mode) {
        return Err(Goes::Refused(refusal));
    }
    let table = sharded.clone();
    let sharding = maker.asked.sharding;
    let schema = sharding.schema(&table.database, &table.table);
    let column = schema.and_then(|it| Some(&it.columns[it.column(&table.column)?]));
    let fits = column.map_or(Fits::Any, |column| Fits::of(&column.full_type));
    Ok(Into::Sharded { table, key, fits })
}

/// The column that gives ids.
fn auto(schema: Option<&TableSchema>, at: &impl Fn(&str) -> Option<At>) -> Option<Auto> {
    let column = schema?.auto_increment()?;
    Some(Auto {
        column: column.name.clone(),
        fits: Fits::of(&column.full_type),
        at: at(&column.name).unwrap_or(At::Absent),
    })
}

/// The values of each row.
struct Rows<'a> {
    insert: &'a Insert,
    /// Of SET, which has one row.
    set: Vec<Span>,
}

impl<'a> Rows<'a> {
    fn of(insert: &'a Insert) -> Rows<'a> {
        let set = match &insert.source {
            Source::Set(set) => set.iter().map(|(_, value)| *value).collect(),
            _ => Vec::new(),
        };
        Rows { insert, set }
    }

    fn iter(&self) -> impl Iterator<Item = &[Span]> {
        let (rows, values): (&[Row], &[Span]) = match &self.insert.source {
            Source::Rows { rows, values } => (rows, values),
            _ => (&[], &[]),
        };
        let set = matches!(self.insert.source, Source::Set(_)).then_some(&self.set[..]);
        let listed = rows
            .iter()
            .map(move |row| &values[row.first as usize..row.last as usize]);
        set.into_iter().chain(listed)
    }
}

/// Puts each row where its key belongs.
fn spread(
    rows: &Rows<'_>,
    (at, fits): (At, Fits),
    table: &ShardedTable,
    map: &ShardMap,
    statement: &Statement<'_>,
    slots: &[Slot],
) -> Spot {
    let mut parts: Vec<(Arc<str>, Vec<u32>)> = Vec::new();
    let mut unknown = Vec::new();
    for (number, row) in (0u32..).zip(rows.iter()) {
        let span = match at {
            At::Absent => return refused(error::SHARD_KEY_MISSING, &*table.column),
            At::Place(at) => row.get(at as usize),
        };
        // A row of another length the server refuses.
        let Some(span) = span else {
            return refused(error::SHARD_KEY_MISSING, &*table.column);
        };
        let value = match literal(*span, statement, slots) {
            Written::Value(value) => value,
            Written::Default => return refused(error::SHARD_KEY_MISSING, &*table.column),
            Written::Expression => match computed(*span, statement, slots) {
                Some(value) => value,
                None => {
                    unknown.push(*span);
                    continue;
                }
            },
        };
        let shard = match key(&value, table, fits).map(|key| locate(map, &key)) {
            Ok(Ok(at)) => map.shard(at),
            Ok(Err(nowhere)) => return Spot::Refused(homeless(nowhere, &value)),
            Err(refusal) => return Spot::Refused(refusal),
        };
        match parts.iter_mut().find(|(group, _)| *group == shard.group) {
            Some((_, numbers)) => numbers.push(number),
            None => parts.push((shard.group.clone(), vec![number])),
        }
    }
    match parts.len() {
        _ if !unknown.is_empty() => Spot::Evaluate(unknown),
        1 => Spot::Group(parts.remove(0).0),
        _ => Spot::Rows(parts),
    }
}

/// How a value of a row is written.
enum Written<'a> {
    Value(Value<'a>),
    Default,
    /// A server must compute it.
    Expression,
}

fn literal<'a>(span: Span, statement: &Statement<'a>, slots: &[Slot]) -> Written<'a> {
    let text = span.of(statement.text);
    if text.eq_ignore_ascii_case(b"NULL") {
        return Written::Value(Value::Null);
    }
    if text.eq_ignore_ascii_case(b"DEFAULT") {
        return Written::Default;
    }
    let place = slots.binary_search_by_key(&span.start, |slot| slot.span.start);
    let value = place.ok().and_then(|place| {
        let whole = slots[place].span == span;
        whole
            .then(|| statement.values.value(place as u32))
            .flatten()
    });
    value.map_or(Written::Expression, Written::Value)
}

/// True for a value in whose stead an AUTO_INCREMENT column takes an id.
fn gives_id(value: &Value<'_>, statement: &Statement<'_>) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number == "0" && !statement.zero_is_value,
        Value::Text(text) => **text == *b"0" && !statement.zero_is_value,
        Value::Binary(_) | Value::Hex(_) => false,
    }
}

/// The key of a row that is stored with this value.
fn key(value: &Value<'_>, table: &ShardedTable, fits: Fits) -> Result<Key, Refusal> {
    let refuse = |error: ClientError| refusal(error, &*table.column);
    if *value == Value::Null {
        return Err(refuse(error::SHARD_KEY_NULL));
    }
    match stored(value.literal(), table.key) {
        Some(key) if fits.holds(&key) => Ok(key),
        Some(Key::Int(_)) => Err(refuse(error::SHARD_KEY_TOO_LARGE)),
        Some(Key::Bytes(_)) => Err(refuse(error::SHARD_KEY_TOO_LONG)),
        None => Err(refuse(error::SHARD_KEY_BAD)),
    }
}

fn homeless(nowhere: Nowhere, value: &Value<'_>) -> Refusal {
    match nowhere {
        Nowhere::Disabled { shard } => refusal(error::SHARD_DISABLED, shard.to_string()),
        Nowhere::OutOfRange => {
            let shown = match value {
                Value::Null => "NULL".into(),
                Value::Number(number) => number.clone(),
                Value::Text(bytes) | Value::Binary(bytes) | Value::Hex(bytes) => {
                    String::from_utf8_lossy(bytes)
                }
            };
            refusal(error::SHARD_KEY_OUT_OF_RANGE, shown)
        }
    }
}

/// A column of a table of all groups that is not given, and that each would fill with another value.
fn varying_default(schema: &TableSchema, names: Option<&[String]>, mode: &Mode) -> Option<Refusal> {
    let names = names?;
    let given = |column: &str| names.iter().any(|name| name.eq_ignore_ascii_case(column));
    let column = schema.columns.iter().find(|column| {
        let default = column.default.as_deref().unwrap_or_default();
        varying(default.as_bytes(), mode).is_some() && !given(&column.name)
    })?;
    let reason = format!(
        "the default of {} would give each group another value: give it one in the INSERT",
        column.name
    );
    Some(refusal(error::NOT_OVER_GROUPS, reason))
}

/// What decides over the only row, when its key and its id are one value each.
fn single(insert: &Insert, key: At, auto: Option<&Auto>, maker: &Maker<'_>) -> Option<Single> {
    let rows = Rows::of(insert);
    let mut all = rows.iter();
    let (only, None) = (all.next()?, all.next()) else {
        return None;
    };
    let value = |at: At| {
        let At::Place(at) = at else { return None };
        let span = only.get(at as usize)?;
        let named = maker.named(span.start, false)?;
        let slot = &maker.slots[named.place as usize];
        (slot.span == *span).then_some(named)
    };
    let key = value(key)?;
    let id = match auto {
        None => None,
        Some(auto) => Some(value(auto.at)?),
    };
    Some(Single { key, id })
}

/// ON DUPLICATE KEY UPDATE that sets the shard key to something else than it has.
fn moves(text: &[u8], insert: &Insert, table: &ShardedTable, mode: &Mode) -> Option<Refusal> {
    let is_key = |span: &Span| {
        sqltext::unquote(span.of(text), mode).eq_ignore_ascii_case(table.column.as_bytes())
    };
    let mut set = insert.updates.iter().filter(|(name, _)| is_key(name));
    let (name, value) = set.next()?;
    let written: Vec<u8> = value
        .of(text)
        .iter()
        .copied()
        .filter(|byte| !byte.is_ascii_whitespace() && *byte != b'`')
        .collect();
    let column = String::from_utf8_lossy(name.of(text)).replace('`', "");
    let written = String::from_utf8_lossy(&written).to_lowercase();
    let column = column.to_lowercase();
    // What fails where it would be another one changes none, either.
    let or_fails = format!("if({column}=values({column}),{column},(select1unionselect2))");
    let same = written == column || written == format!("values({column})") || written == or_fails;
    (!same).then(|| {
        let reason = "ON DUPLICATE KEY UPDATE cannot change the shard key of the row that is there";
        refusal(error::SHARD_KEY_MOVES, reason)
    })
}
