//! The definitions of databases on servers that should have the same ones: what differs, and making
//! what is missing. Events count for nothing: they run on one group only.

use std::collections::BTreeSet;

use enginesql::quoted;
use sqltext::ticked;

use crate::accounts::needed::Feature;
use crate::accounts::own_privileges::demand;
use crate::copy::{self, Program, Schema};
use crate::error::Error;
use crate::link::Link;

/// ER_BAD_DB_ERROR
const BAD_DATABASE: u16 = 1049;

/// What a server has of some databases.
pub struct Definitions {
    schemas: Vec<Schema>,
}

/// What is looked at.
pub enum Extent {
    /// These databases, with all that is in them.
    Databases(BTreeSet<String>),
    /// A table, by its database and name, with its triggers.
    Table(String, String),
}

/// How a definition of one server is not the other's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `table shop.orders`.
    pub what: String,
    pub kind: Drift,
}

/// The kinds of differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drift {
    Missing,
    Different,
    /// It should not be there.
    Surplus,
}

/// The names of a server's databases, without the systems' and Heddle's.
pub async fn databases(link: &mut Link, timeout_ms: u64) -> Result<Vec<String>, Error> {
    let mut names = copy::schemas(link, timeout_ms).await?;
    names.retain(|name| name != "heddle");
    Ok(names)
}

/// What was read of a database; `None` when somebody dropped it behind the list of databases.
fn still_there<T>(read: Result<T, Error>) -> Result<Option<T>, Error> {
    match read {
        Err(error) if error.number() == Some(BAD_DATABASE) => Ok(None),
        read => read.map(Some),
    }
}

impl Drift {
    /// For people.
    pub fn name(self) -> &'static str {
        match self {
            Drift::Missing => "missing",
            Drift::Different => "different",
            Drift::Surplus => "surplus",
        }
    }
}

impl Definitions {
    /// Reads them; what is not there is left out.
    pub async fn read(
        link: &mut Link,
        extent: &Extent,
        timeout_ms: u64,
    ) -> Result<Definitions, Error> {
        // Programs come as they were written, in whatever character set.
        let as_stored = "SET NAMES utf8mb4, character_set_results=NULL";
        link.run("show definitions", as_stored, timeout_ms).await?;
        demand(link, Feature::Shards, "show definitions", timeout_ms).await?;
        let mut there = copy::schemas(link, timeout_ms).await?;
        there.retain(|name| match extent {
            Extent::Databases(databases) => databases.contains(name),
            Extent::Table(database, _) => database == name,
        });
        let table = match extent {
            Extent::Databases(_) => None,
            Extent::Table(_, table) => Some(table.as_str()),
        };
        let mut schemas = Vec::new();
        for name in there {
            let schema = copy::schema(link, name, table, timeout_ms).await;
            schemas.extend(still_there(schema)?);
        }
        Ok(Definitions { schemas })
    }

    /// The databases of a server without what is in them.
    pub async fn bare(link: &mut Link, timeout_ms: u64) -> Result<Definitions, Error> {
        let mut schemas = Vec::new();
        for name in databases(link, timeout_ms).await? {
            let schema = copy::bare_schema(link, name, timeout_ms).await;
            schemas.extend(still_there(schema)?);
        }
        Ok(Definitions { schemas })
    }

    /// The databases of these that are not among the names.
    pub fn missing(&self, names: &[String]) -> Vec<Difference> {
        let missing = self.schemas.iter();
        let missing = missing.filter(|schema| !names.contains(&schema.name));
        let told = missing.map(|schema| Difference {
            what: format!("database {}", schema.name),
            kind: Drift::Missing,
        });
        told.collect()
    }

    /// What `there` has not as these.
    pub fn differences(&self, there: &Definitions) -> Vec<Difference> {
        let mut all = Vec::new();
        for schema in &self.schemas {
            let name = &schema.name;
            let Some(other) = there.schema(name) else {
                all.push(Difference {
                    what: format!("database {name}"),
                    kind: Drift::Missing,
                });
                continue;
            };
            if schema.create != other.create {
                all.push(Difference {
                    what: format!("database {name}"),
                    kind: Drift::Different,
                });
            }
            let tables = |schema: &Schema| {
                let tables = schema.tables.iter();
                tables
                    .map(|table| (table.name.clone(), table.comparable()))
                    .collect::<Vec<_>>()
            };
            compare("table", name, &tables(schema), &tables(other), &mut all);
            for (kind, programs) in KINDS {
                let listed = |schema: &Schema| -> Vec<_> {
                    let programs = programs(schema).iter();
                    programs
                        .map(|it| (it.name.clone(), it.create.clone()))
                        .collect()
                };
                compare(kind, name, &listed(schema), &listed(other), &mut all);
            }
        }
        all
    }

    /// Makes on a server what it lacks; what it has otherwise stays as it is.
    ///
    /// # Errors
    /// Whatever the server refuses, with its name. What was made stays; it can be repeated.
    pub async fn make_missing(
        &self,
        link: &mut Link,
        there: &Definitions,
        timeout_ms: u64,
    ) -> Result<(), Error> {
        const OPERATION: &str = "make definitions";
        let settings = "SET SESSION foreign_key_checks=0, unique_checks=0, \
                        sql_mode='NO_AUTO_VALUE_ON_ZERO'; SET NAMES utf8mb4";
        link.run(OPERATION, settings, timeout_ms).await?;
        for schema in &self.schemas {
            let other = there.schema(&schema.name);
            if other.is_none() {
                copy::run_bytes(link, &schema.create).await?;
            }
            let enter = format!("USE {}", ticked(&schema.name));
            link.run(OPERATION, &enter, timeout_ms).await?;
            for table in &schema.tables {
                if !other.is_some_and(|it| it.tables.iter().any(|t| t.name == table.name)) {
                    copy::run_bytes(link, &table.definition()).await?;
                }
            }
        }
        self.make_programs(link, there, timeout_ms).await?;
        let settings = "SET SESSION foreign_key_checks=1, unique_checks=1, sql_mode=''";
        link.run(OPERATION, settings, timeout_ms).await
    }

    /// Sequences, routines, views of views in the order that works, triggers.
    async fn make_programs(
        &self,
        link: &mut Link,
        there: &Definitions,
        timeout_ms: u64,
    ) -> Result<(), Error> {
        for (_, programs) in KINDS {
            let mut waiting: Vec<(&Schema, &Program)> = Vec::new();
            for schema in &self.schemas {
                let other = there.schema(&schema.name).map(programs);
                let has =
                    |name: &str| other.is_some_and(|all| all.iter().any(|it| it.name == name));
                let missing = programs(schema).iter().filter(|it| !has(&it.name));
                waiting.extend(missing.map(|it| (schema, it)));
            }
            while !waiting.is_empty() {
                let before = waiting.len();
                let mut later = Vec::new();
                let mut last = None;
                for (schema, program) in waiting {
                    match copy::make(link, schema, program, timeout_ms).await {
                        Ok(()) => {}
                        // What it is made of may follow.
                        Err(error) if error.number().is_some() => {
                            last = Some(error);
                            later.push((schema, program));
                        }
                        Err(error) => return Err(error),
                    }
                }
                if let Some(error) = last.filter(|_| later.len() == before) {
                    return Err(error);
                }
                waiting = later;
            }
        }
        Ok(())
    }

    fn schema(&self, name: &str) -> Option<&Schema> {
        self.schemas.iter().find(|schema| schema.name == name)
    }
}

/// What a server says of a definition that it has already, or of which nothing is left to take away:
/// database, table, column, key, routine, trigger, account, foreign key.
const DONE_ALREADY: [u16; 15] = [
    1007, 1008, 1050, 1051, 1054, 1060, 1061, 1091, 1304, 1305, 1359, 1360, 1396, 1826, 4092,
];

/// Runs a statement that may have run there before.
///
/// # Errors
/// What the server refuses, unless it says that it is done.
pub async fn run_again(
    link: &mut Link,
    database: &str,
    sql_mode: &str,
    text: &str,
    timeout_ms: u64,
) -> Result<(), Error> {
    const OPERATION: &str = "change a definition";
    link.run(OPERATION, "SET NAMES utf8mb4", timeout_ms).await?;
    if !database.is_empty() {
        let enter = format!("USE {}", ticked(database));
        link.run(OPERATION, &enter, timeout_ms).await?;
    }
    // Quoted as an empty mode has it, which is the link's before.
    let mode = format!("SET SESSION sql_mode={}", quoted(sql_mode));
    link.run(OPERATION, &mode, timeout_ms).await?;
    match link.run(OPERATION, text, timeout_ms).await {
        Err(error) if error.number().is_some_and(|it| DONE_ALREADY.contains(&it)) => Ok(()),
        other => other,
    }
}

/// A kind of programs, and where a schema has them.
type Kind = (&'static str, fn(&Schema) -> &[Program]);

/// In the order in which they can be made.
const KINDS: [Kind; 4] = [
    ("sequence", |schema| &schema.sequences),
    ("routine", |schema| &schema.routines),
    ("view", |schema| &schema.views),
    ("trigger", |schema| &schema.triggers),
];

fn compare(
    kind: &str,
    database: &str,
    here: &[(String, Vec<u8>)],
    there: &[(String, Vec<u8>)],
    all: &mut Vec<Difference>,
) {
    let mut differs = |name: &str, kind_of: Drift| {
        all.push(Difference {
            what: format!("{kind} {database}.{name}"),
            kind: kind_of,
        });
    };
    for (name, create) in here {
        match there.iter().find(|(other, _)| other == name) {
            None => differs(name, Drift::Missing),
            Some((_, other)) if other != create => differs(name, Drift::Different),
            Some(_) => {}
        }
    }
    for (name, _) in there {
        if !here.iter().any(|(other, _)| other == name) {
            differs(name, Drift::Surplus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_dropped_meanwhile_is_not_there() {
        let refused = |number| -> Result<(), Error> {
            Err(Error::Refused {
                operation: "show its definitions",
                server: "s1".to_owned(),
                number,
                message: String::new(),
                cure: String::new(),
            })
        };
        assert!(matches!(still_there(Ok(())), Ok(Some(()))));
        assert!(matches!(still_there(refused(BAD_DATABASE)), Ok(None)));
        assert!(still_there(refused(1044)).is_err());
    }
}
