//! INSERT and REPLACE: the shard of each row.

use std::sync::Arc;

use farm::error;
use farm::shard::{Key, ShardMap, ShardedTable};
use farm::sharding::TableSchema;
use farm::{ClientError, Sharding};
use routing::Refusal;
use routing::shard::{Nowhere, locate, stored};
use sqltext::{Insert, Mode, Row, Slot, Source, Span};

use super::make::{Maker, not_over_groups};
use super::values::{Named, Value};
use super::{Goes, Spot, Statement, every, refusal, refused};
use crate::catalog::{Catalog, Kind};

/// What is known of an INSERT's shape.
#[derive(Clone, Debug)]
pub struct InsertPlan {
    into: Into,
    /// Of the column that gives ids, when it has to be filled here.
    pub auto: Option<Auto>,
    pub database: String,
    pub table: String,
    /// It has RETURNING.
    pub returns: bool,
    /// The one row's key, where it is one value and the statement has one row, whose id is given.
    single: Option<Single>,
    query: bool,
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

/// What a key's column can hold. A server that is not strict cuts other values to fit, behind the
/// router's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fits {
    Any,
    Integers(i128, i128),
    /// So many characters, or bytes.
    Length(usize),
}

impl Fits {
    /// By the column's full type: `int(10) unsigned`, `varchar(20)`.
    fn of(full_type: &str) -> Fits {
        let full_type = full_type.to_ascii_lowercase();
        let name = full_type.split(['(', ' ']).next().unwrap_or_default();
        let bits = match name {
            "tinyint" => 8,
            "smallint" => 16,
            "mediumint" => 24,
            "int" => 32,
            "bigint" => 64,
            "char" | "varchar" | "binary" | "varbinary" => {
                let length = full_type
                    .split(['(', ')'])
                    .nth(1)
                    .and_then(|it| it.parse().ok());
                return length.map_or(Fits::Any, Fits::Length);
            }
            _ => return Fits::Any,
        };
        match full_type.contains("unsigned") {
            true => Fits::Integers(0, (1i128 << bits) - 1),
            false => Fits::Integers(-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        }
    }

    fn holds(self, key: &Key) -> bool {
        match (self, key) {
            (Fits::Integers(low, high), Key::Int(number)) => (low..=high).contains(number),
            (Fits::Length(most), Key::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => text.chars().count() <= most,
                Err(_) => bytes.len() <= most,
            },
            _ => true,
        }
    }
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
}

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
        let kind = maker.tables.table(database, &table);
        let (global, sharded) = match kind {
            Kind::Global { map } => (Some(map), None),
            Kind::Sharded(sharded) => (None, Some(sharded)),
            Kind::Single { .. } | Kind::Opaque => return None,
        };
        let names = columns(text, insert, mode, schema.map(|it| &**it));
        let at = |column: &str| place_of(names.as_deref()?, column);
        let query = matches!(insert.source, Source::Query(_));
        let auto = schema
            .and_then(|schema| schema.auto_increment())
            .map(|column| Auto {
                column: column.name.clone(),
                at: at(&column.name).unwrap_or(At::Absent),
            });
        let into = match (sharded, global) {
            (Some(sharded), _) => {
                let Some(key) = at(&sharded.column) else {
                    return Some(not_over_groups(
                        "the columns of the table are not known: name them in the INSERT",
                    ));
                };
                if let Some(refusal) = moves(text, insert, sharded, mode) {
                    return Some(Goes::Refused(refusal));
                }
                let table = sharded.clone();
                let column = schema.and_then(|it| Some(&it.columns[it.column(&table.column)?]));
                let fits = column.map_or(Fits::Any, |column| Fits::of(&column.full_type));
                Into::Sharded { table, key, fits }
            }
            (None, map) => Into::Global { map: map? },
        };
        let single = match (&into, &insert.source) {
            (Into::Sharded { key, .. }, _) => single(insert, *key, auto.as_ref(), maker),
            _ => None,
        };
        Some(Goes::Insert(Box::new(InsertPlan {
            into,
            auto,
            database: database.to_owned(),
            table,
            returns: insert.returns,
            single,
            query,
        })))
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
        let mut edits: Vec<(u32, u32, String)> = Vec::new();
        let mut id = first;
        let rows = Rows::of(&insert);
        match (&insert.source, auto.at) {
            (Source::Set(_), At::Absent) => {
                let set = format!(", `{}` = {id}", quoted(&auto.column));
                edits.push((insert.tail, insert.tail, set));
            }
            (Source::Rows { rows, .. }, At::Absent) => {
                let named = insert.columns.is_some();
                let none = insert.columns.as_ref().is_none_or(Vec::is_empty);
                let comma = if none { "" } else { ", " };
                let column = format!("{comma}`{}`", quoted(&auto.column));
                let column = if named {
                    column
                } else {
                    format!(" ({column})")
                };
                edits.push((insert.columns_at.end, insert.columns_at.end, column));
                for row in rows {
                    let comma = if row.first == row.last { "" } else { ", " };
                    let at = row.whole.end - 1;
                    edits.push((at, at, format!("{comma}{id}")));
                    id += 1;
                }
            }
            (_, At::Place(at)) => {
                for row in rows.iter() {
                    if self.wants_id(row, statement, &slots) {
                        let span = row.get(at as usize)?;
                        edits.push((span.start, span.end, id.to_string()));
                        id += 1;
                    }
                }
            }
            (Source::Query(_), At::Absent) => return None,
        }
        Some(edited(statement.text, &edits))
    }

    pub(super) fn spot(&self, statement: &Statement<'_>, sharding: &Sharding) -> Spot {
        if let Some(spot) = self.spot_of_single(statement, sharding) {
            return spot;
        }
        if self.query {
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
            Written::Expression => {
                unknown.push(*span);
                continue;
            }
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
    }
}

/// The key of a row that is stored with this value.
fn key(value: &Value<'_>, table: &ShardedTable, fits: Fits) -> Result<Key, Refusal> {
    let refuse = |error: ClientError| refusal(error, &*table.column);
    if *value == Value::Null {
        return Err(refuse(error::SHARD_KEY_NULL));
    }
    stored(value.literal(), table.key)
        .filter(|key| fits.holds(key))
        .ok_or_else(|| refuse(error::SHARD_KEY_BAD))
}

fn homeless(nowhere: Nowhere, value: &Value<'_>) -> Refusal {
    match nowhere {
        Nowhere::Disabled { shard } => refusal(error::SHARD_DISABLED, shard.to_string()),
        Nowhere::OutOfRange => {
            let shown = match value {
                Value::Null => "NULL".into(),
                Value::Number(number) => number.clone(),
                Value::Text(bytes) => String::from_utf8_lossy(bytes),
            };
            refusal(error::SHARD_KEY_OUT_OF_RANGE, shown)
        }
    }
}

/// The names of the columns that each row has, in order; `None` when they are not known.
fn columns(
    text: &[u8],
    insert: &Insert,
    mode: &Mode,
    schema: Option<&TableSchema>,
) -> Option<Vec<String>> {
    let name =
        |span: &Span| String::from_utf8_lossy(&sqltext::unquote(span.of(text), mode)).into_owned();
    match (&insert.columns, &insert.source) {
        (_, Source::Set(set)) => Some(set.iter().map(|(column, _)| name(column)).collect()),
        (Some(columns), _) if !columns.is_empty() => Some(columns.iter().map(name).collect()),
        // `()` and VALUES () name none.
        (Some(_), _) if is_empty(insert) => Some(Vec::new()),
        _ if is_empty(insert) => Some(Vec::new()),
        _ => {
            let shown = schema?.columns.iter().filter(|column| !column.invisible);
            Some(shown.map(|column| column.name.to_string()).collect())
        }
    }
}

fn is_empty(insert: &Insert) -> bool {
    matches!(&insert.source, Source::Rows { values, .. } if values.is_empty())
}

fn place_of(names: &[String], column: &str) -> Option<At> {
    let place = names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(column));
    Some(match place {
        Some(place) => At::Place(u32::try_from(place).ok()?),
        None => At::Absent,
    })
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
    let same = written == column || written == format!("values({column})");
    (!same).then(|| {
        let reason = "ON DUPLICATE KEY UPDATE cannot change the shard key of the row that is there";
        refusal(error::SHARD_KEY_MOVES, reason)
    })
}

fn quoted(name: &str) -> String {
    name.replace('`', "``")
}

/// A text with other bytes in some places, which come in order.
pub fn edited(text: &[u8], edits: &[(u32, u32, String)]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 16 * edits.len());
    let mut from = 0;
    for (start, end, new) in edits {
        out.extend_from_slice(&text[from..*start as usize]);
        out.extend_from_slice(new.as_bytes());
        from = *end as usize;
    }
    out.extend_from_slice(&text[from..]);
    out
}
