//! LOAD DATA into tables on several groups: which server gets which rows of the file.
//!
//! Rows go on as they came, byte by byte; only an id is put in where an AUTO_INCREMENT column wants
//! one. Lines that are to be skipped go to every server, each of which skips them. What is not surely
//! placed as the servers would store it is refused.

mod file;
mod rows;

use std::sync::Arc;

use farm::shard::ShardedTable;
use farm::sharding::{Mapped, Placed, TableSchema};
use farm::{Sharding, error};
use routing::Refusal;
use sqltext::{Load, Mode, edited, ticked};

use self::file::Format;
pub use self::rows::{Cutter, Next};
use crate::catalog::Catalog;
use crate::place::{Fits, Tables, reads_others, refusal};

/// What a plan depends on besides the text.
#[derive(Clone, Copy, Debug)]
pub struct Loading<'a> {
    pub sharding: &'a Sharding,
    /// The farm's first group.
    pub home: &'a Arc<str>,
    /// The session's; empty when it has none.
    pub database: &'a str,
    pub mode: &'a Mode,
    /// A zero in an AUTO_INCREMENT column is no wish for an id (NO_AUTO_VALUE_ON_ZERO).
    pub zero_is_value: bool,
    /// Values that a column cannot hold are errors.
    pub strict: bool,
}

/// A LOAD DATA LOCAL for several groups.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// Those that get a part of the file.
    pub groups: Vec<Arc<str>>,
    /// What each of them is sent.
    pub text: Vec<u8>,
    /// The name of the client's file, in the client's character set.
    pub file: Vec<u8>,
    /// The file's character set; `None` for that of the session's database.
    pub charset: Option<String>,
    /// All groups get all rows.
    pub same: bool,
    /// Where ids for its rows come from, if they want any.
    pub ids: Option<IdsOf>,
    /// `None`: the file goes to all groups as it is.
    cut: Option<Cut>,
}

/// A table's AUTO_INCREMENT column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdsOf {
    pub database: String,
    pub table: String,
    pub column: String,
}

/// How the file is cut, and what rows go by.
#[derive(Clone, Debug)]
struct Cut {
    format: Format,
    /// Lines in front of the rows.
    skip: u64,
    /// Values of a whole row.
    count: usize,
    key: Option<KeyAt>,
    id: Option<IdAt>,
}

/// Where a row has its shard key.
#[derive(Clone, Debug)]
struct KeyAt {
    place: usize,
    table: ShardedTable,
    fits: Fits,
    map: Arc<Mapped>,
}

/// Where a row has its id.
#[derive(Clone, Copy, Debug)]
struct IdAt {
    /// `None`: it is put in front of the first value.
    place: Option<usize>,
    zero_is_value: bool,
    /// What is no number is refused by the server.
    strict: bool,
}

impl LoadPlan {
    /// The file must be cut into rows.
    pub fn cuts(&self) -> bool {
        self.cut.is_some()
    }
}

/// The plan of a LOAD DATA; `None` for one into a table of one group, and for other texts.
///
/// # Errors
/// Why it cannot run over several groups.
pub fn load(text: &[u8], asked: &Loading<'_>) -> Result<Option<LoadPlan>, Refusal> {
    let Some(load) = sqltext::load(text, asked.mode) else {
        return Ok(None);
    };
    let maker = Maker { text, load, asked };
    maker.plan()
}

fn no(reason: impl Into<String>) -> Refusal {
    refusal(error::NOT_OVER_GROUPS, reason)
}

struct Maker<'a> {
    text: &'a [u8],
    load: Load,
    asked: &'a Loading<'a>,
}

impl Maker<'_> {
    fn name(&self, span: &sqltext::Span) -> String {
        let name = sqltext::unquote(span.of(self.text), self.asked.mode);
        String::from_utf8_lossy(&name).into_owned()
    }

    /// The map of a table on several groups, and how it is sharded if it is.
    fn placed(
        &self,
        database: &str,
        table: &str,
    ) -> Result<Option<(u32, Option<&ShardedTable>)>, Refusal> {
        let Loading { sharding, home, .. } = *self.asked;
        let tables = Tables { sharding, home };
        if tables.is_view(database, table) {
            return Ok(None);
        }
        let (map, sharded) = match sharding.placed(database, table) {
            Placed::Sharded(sharded) => (sharded.map, Some(sharded)),
            Placed::Global(map) => (map, None),
            Placed::Group(_) | Placed::Home => return Ok(None),
        };
        if !self.load.local {
            return Err(no(
                "LOAD DATA reads a file of one server, and the table is on several groups: use LOAD DATA LOCAL",
            ));
        }
        let Loading { database, mode, .. } = *self.asked;
        match reads_others(self.text, map, &tables, database, mode) {
            true => Err(no(
                "SET reads rows that other groups may have: SELECT them first",
            )),
            false => Ok(Some((map, sharded))),
        }
    }

    fn plan(&self) -> Result<Option<LoadPlan>, Refusal> {
        let sharding = self.asked.sharding;
        let database = self.load.database.as_ref().map(|it| self.name(it));
        let database = database.as_deref().unwrap_or(self.asked.database);
        let table = self.name(&self.load.table);
        let Some((map, sharded)) = self.placed(database, &table)? else {
            return Ok(None);
        };
        let Some(mapped) = sharding.map(map) else {
            return Ok(None);
        };
        let schema = sharding.schema(database, &table);
        let schema = schema.ok_or_else(|| no("the columns of the table are not known yet"))?;
        let targets = self.targets(schema);
        let key = match sharded {
            Some(sharded) => Some(self.key(sharded, schema, &targets, mapped)?),
            None => self.refuse_uneven().map(|()| None)?,
        };
        let auto = schema.auto_increment().map(|column| &*column.name);
        let id = auto.map(|column| self.id(column, &targets)).transpose()?;
        let id = id.flatten();
        let mut plan = LoadPlan {
            groups: groups(mapped, sharded.is_some()),
            text: self.text.to_vec(),
            file: sqltext::unquote(self.load.file.of(self.text), self.asked.mode).into_owned(),
            charset: self.load.charset.as_ref().map(|it| self.name(it)),
            same: sharded.is_none(),
            ids: None,
            cut: None,
        };
        if key.is_none() && id.is_none() {
            return Ok(Some(plan));
        }
        if let (Some(_), Some(column)) = (id, auto) {
            plan.ids = Some(IdsOf {
                database: database.to_owned(),
                table: table.clone(),
                column: column.to_owned(),
            });
        }
        let format = Format::of(&self.load, self.asked.mode)
            .map_err(|what| no(format!("a file with {what} cannot be cut by shard")))?;
        if id.is_some() && !format.holds_numbers() {
            return Err(no("a file whose separators are digits cannot be given ids"));
        }
        if let (Some(IdAt { place: None, .. }), Some(column)) = (id, auto) {
            plan.text = self.with_column(column, schema);
        }
        plan.cut = Some(Cut {
            format,
            skip: self.load.skip,
            count: targets.len(),
            key,
            id,
        });
        Ok(Some(plan))
    }

    /// What the values of a row are for: columns, and variables with their `@`.
    fn targets(&self, schema: &TableSchema) -> Vec<String> {
        match &self.load.columns {
            Some(columns) => {
                let name = |target: &sqltext::Target| match target.variable {
                    true => self.variable(target.name.of(self.text)),
                    false => self.name(&target.name),
                };
                columns.iter().map(name).collect()
            }
            None => shown(schema).map(str::to_owned).collect(),
        }
    }

    /// A variable's name behind `@`, without quotes.
    fn variable(&self, written: &[u8]) -> String {
        let name = sqltext::unquote(written.get(1..).unwrap_or_default(), self.asked.mode);
        format!("@{}", String::from_utf8_lossy(&name))
    }

    fn set(&self, column: &str) -> Option<&[u8]> {
        let same = |name: &sqltext::Span| self.name(name).eq_ignore_ascii_case(column);
        let mut set = self.load.set.iter().rev();
        let (_, value) = set.find(|(name, _)| same(name))?;
        Some(value.of(self.text))
    }

    fn key(
        &self,
        table: &ShardedTable,
        schema: &TableSchema,
        targets: &[String],
        map: &Arc<Mapped>,
    ) -> Result<KeyAt, Refusal> {
        let place = |name: &str| targets.iter().rposition(|it| it.eq_ignore_ascii_case(name));
        let place = match self.set(&table.column) {
            Some(value) if value.starts_with(b"@") && !value.starts_with(b"@@") => {
                place(&self.variable(value))
            }
            Some(_) => None,
            None if place(&table.column).is_none() => {
                return Err(refusal(error::SHARD_KEY_MISSING, &*table.column));
            }
            None => place(&table.column),
        };
        let place = place.ok_or_else(|| {
            no(format!(
                "the shard key {} is computed by SET: give it a field of the file as it is",
                table.column
            ))
        })?;
        let column = schema.column(&table.column);
        let fits = column.map_or(Fits::Any, |at| Fits::of(&schema.columns[at].full_type));
        Ok(KeyAt {
            place,
            table: table.clone(),
            fits,
            map: Arc::clone(map),
        })
    }

    /// Where rows want ids; `None` when SET says what the column gets.
    fn id(&self, column: &str, targets: &[String]) -> Result<Option<IdAt>, Refusal> {
        if let Some(value) = self.set(column) {
            let null = value.eq_ignore_ascii_case(b"NULL") || value == b"0";
            return match null {
                true => Err(no(format!("leave {column} out of SET: it gets an id"))),
                false => Ok(None),
            };
        }
        Ok(Some(IdAt {
            place: targets
                .iter()
                .rposition(|it| it.eq_ignore_ascii_case(column)),
            zero_is_value: self.asked.zero_is_value,
            // A client's file is loaded as by INSERT IGNORE, unless rows are replaced.
            strict: self.asked.strict && self.load.replace,
        }))
    }

    /// The text with the column in front of the others.
    fn with_column(&self, column: &str, schema: &TableSchema) -> Vec<u8> {
        let at = self.load.columns_at;
        let new = match self.load.columns {
            Some(_) => format!("{}, ", ticked(column)),
            None => {
                let all: Vec<String> = shown(schema).map(ticked).collect();
                format!(" ({}, {}) ", ticked(column), all.join(", "))
            }
        };
        edited(self.text, vec![((at as usize, at as usize), new)])
    }

    /// What SET computes would have to be the same on all groups.
    fn refuse_uneven(&self) -> Result<(), Refusal> {
        const UNEVEN: [&str; 6] = [
            "rand(",
            "uuid",
            "random_bytes",
            "sys_guid",
            "connection_id",
            "select",
        ];
        for (_, value) in &self.load.set {
            let value = String::from_utf8_lossy(value.of(self.text)).to_lowercase();
            let value: String = value.split_whitespace().collect();
            if UNEVEN.iter().any(|it| value.contains(it)) {
                return Err(no(
                    "what SET computes here would not be the same on all groups of a global table",
                ));
            }
        }
        Ok(())
    }
}

/// The columns that a LOAD DATA without a list fills.
fn shown(schema: &TableSchema) -> impl Iterator<Item = &str> {
    let columns = schema.columns.iter().filter(|column| !column.invisible);
    columns.map(|column| &*column.name)
}

/// The groups that can have rows: those of enabled shards, or all of a global table's.
fn groups(mapped: &Mapped, sharded: bool) -> Vec<Arc<str>> {
    if !sharded {
        return mapped.groups.clone();
    }
    let mut groups = Vec::new();
    for shard in mapped.map.shards.iter().filter(|shard| shard.enabled) {
        if !groups.contains(&shard.group) {
            groups.push(shard.group.clone());
        }
    }
    groups
}

#[cfg(test)]
mod tests;
