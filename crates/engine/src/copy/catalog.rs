//! What there is to copy: the definitions of everything, and the accounts.

use enginesql::quoted;
use farm::Engine;
use mysql_async::Row;
use sqltext::ticked;

use super::{UNFINISHED, rows};
use crate::error::Error;
use crate::link::{Link, bytes_at, text, text_at};

/// All definitions of a server.
pub(super) struct Catalog {
    pub(super) schemas: Vec<Schema>,
    pub(super) grants: Vec<Grants>,
}

/// One database.
#[derive(PartialEq)]
pub(crate) struct Schema {
    pub(crate) name: String,
    pub(crate) create: Vec<u8>,
    pub(crate) sequences: Vec<Program>,
    pub(crate) tables: Vec<Table>,
    pub(crate) routines: Vec<Program>,
    pub(crate) views: Vec<Program>,
    pub(crate) triggers: Vec<Program>,
    pub(crate) events: Vec<Program>,
}

/// One table, and how its rows are read.
pub(crate) struct Table {
    pub(super) schema: String,
    pub(crate) name: String,
    pub(super) create: Vec<u8>,
    /// The snapshot holds its rows.
    pub(super) transactional: bool,
    /// Its rows are its own, not another table's or server's.
    pub(super) has_rows: bool,
    pub(super) columns: Vec<Column>,
    /// MariaDB's tables that keep their history.
    pub(super) versioned: bool,
    /// A condition on the rows; empty for all.
    pub(super) only: &'static str,
}

/// One column that is written.
#[derive(PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) form: Form,
}

impl Column {
    /// How it is read, so that nothing of its value is lost.
    pub(crate) fn read(&self) -> String {
        match self.form {
            // Its text has six digits; that of a double is exact.
            Form::Float => format!("{}*1e0", ticked(&self.name)),
            _ => ticked(&self.name),
        }
    }
}

/// How a value is read and written again without a change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    /// Numbers, times and the like: ASCII text.
    Plain,
    /// FLOAT, whose text is rounded; read as a double.
    Float,
    /// Bytes as they are stored, whatever the character set.
    Bytes,
    /// MySQL's JSON, which takes no bytes.
    Json,
}

/// A definition with the session settings that belong to it.
#[derive(PartialEq)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) create: Vec<u8>,
    /// `SET SESSION …`, empty for none.
    pub(crate) session: String,
    /// The collation that the database had, where it counts.
    pub(crate) collation: String,
    /// What follows, for example a sequence's value; empty for nothing.
    pub(crate) after: String,
}

/// One of the tables of accounts, with its rows as statements.
#[derive(PartialEq)]
pub(super) struct Grants {
    pub(super) table: &'static str,
    pub(super) only: &'static str,
    pub(super) inserts: Vec<Vec<u8>>,
}

impl PartialEq for Table {
    /// Counters of AUTO_INCREMENT go on while rows are written.
    fn eq(&self, other: &Table) -> bool {
        self.name == other.name
            && self.columns == other.columns
            && self.comparable() == other.comparable()
    }
}

impl Table {
    /// How it is made, without the counter of its AUTO_INCREMENT.
    pub(crate) fn definition(&self) -> Vec<u8> {
        without_counter(&self.create)
    }

    /// The same in one spelling of several, for comparing only.
    pub(crate) fn comparable(&self) -> Vec<u8> {
        without_charsets(&without_counter(&self.create))
    }
}

impl Catalog {
    pub(super) fn equals(&self, other: &Catalog) -> bool {
        self.schemas == other.schemas && self.grants == other.grants
    }

    /// The tables without transactions first: a lock is held for them.
    pub(super) fn tables_in_order(&self) -> Vec<&Table> {
        let mut all: Vec<&Table> = self.schemas.iter().flat_map(|s| &s.tables).collect();
        all.sort_by_key(|table| table.transactional);
        all
    }
}

/// Databases that every server has of its own.
const SYSTEM: &str = "('mysql','information_schema','performance_schema','sys','ndbinfo')";

/// Accounts of the servers themselves.
const INTERNAL: &str = "User NOT IN ('mariadb.sys','mysql.sys','mysql.session','mysql.infoschema')";

const GRANTS_MARIADB: &[(&str, &str)] = &[
    ("global_priv", INTERNAL),
    ("db", INTERNAL),
    ("tables_priv", INTERNAL),
    ("columns_priv", INTERNAL),
    ("procs_priv", INTERNAL),
    ("proxies_priv", INTERNAL),
    ("roles_mapping", ""),
    ("servers", ""),
];

const GRANTS_MYSQL: &[(&str, &str)] = &[
    ("user", INTERNAL),
    ("db", INTERNAL),
    ("tables_priv", INTERNAL),
    ("columns_priv", INTERNAL),
    ("procs_priv", INTERNAL),
    ("proxies_priv", INTERNAL),
    (
        "global_grants",
        "USER NOT IN ('mysql.sys','mysql.session','mysql.infoschema')",
    ),
    ("role_edges", ""),
    ("default_roles", ""),
    ("password_history", ""),
    ("servers", ""),
];

/// Names of the databases to copy, in order.
pub(crate) async fn schemas(link: &mut Link, timeout_ms: u64) -> Result<Vec<String>, Error> {
    let sql = format!(
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN {SYSTEM} \
         AND SCHEMA_NAME<>'{UNFINISHED}' ORDER BY SCHEMA_NAME"
    );
    names(link, &sql, timeout_ms).await
}

pub(super) async fn read(link: &mut Link, timeout_ms: u64) -> Result<Catalog, Error> {
    let mut all = Vec::new();
    for name in schemas(link, timeout_ms).await? {
        all.push(schema(link, name, None, timeout_ms).await?);
    }
    let tables = match link.version().engine {
        Engine::MariaDb => GRANTS_MARIADB,
        Engine::MySql => GRANTS_MYSQL,
    };
    let mut grants = Vec::new();
    for &(table, only) in tables {
        let columns = columns(link, "mysql", table, false, timeout_ms).await?;
        let source = Table {
            schema: "mysql".to_owned(),
            name: table.to_owned(),
            create: Vec::new(),
            transactional: true,
            has_rows: true,
            columns,
            versioned: false,
            only,
        };
        let inserts = rows::statements(link, &source).await?;
        grants.push(Grants {
            table,
            only,
            inserts,
        });
    }
    Ok(Catalog {
        schemas: all,
        grants,
    })
}

/// A database without what is in it.
pub(crate) async fn bare_schema(
    link: &mut Link,
    name: String,
    timeout_ms: u64,
) -> Result<Schema, Error> {
    let (create, _) = shown(link, "DATABASE", &ticked(&name), timeout_ms).await?;
    Ok(Schema {
        create,
        sequences: Vec::new(),
        tables: Vec::new(),
        routines: Vec::new(),
        views: Vec::new(),
        triggers: Vec::new(),
        events: Vec::new(),
        name,
    })
}

/// A database with everything that is in it, or with one of its tables and what belongs to that.
pub(crate) async fn schema(
    link: &mut Link,
    name: String,
    table: Option<&str>,
    timeout_ms: u64,
) -> Result<Schema, Error> {
    let mut schema = bare_schema(link, name, timeout_ms).await?;
    members(link, &mut schema, table, timeout_ms).await?;
    triggers(link, &mut schema, table, timeout_ms).await?;
    if table.is_none() {
        routines_and_events(link, &mut schema, timeout_ms).await?;
    }
    Ok(schema)
}

async fn triggers(
    link: &mut Link,
    schema: &mut Schema,
    table: Option<&str>,
    timeout_ms: u64,
) -> Result<(), Error> {
    let literal = quoted(&schema.name);
    let only = named("EVENT_OBJECT_TABLE", table);
    let sql = format!(
        "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA={literal}{only} \
         ORDER BY EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER"
    );
    for trigger in names(link, &sql, timeout_ms).await? {
        let program = program(link, "TRIGGER", &schema.name, trigger, timeout_ms).await?;
        schema.triggers.push(program);
    }
    Ok(())
}

async fn routines_and_events(
    link: &mut Link,
    schema: &mut Schema,
    timeout_ms: u64,
) -> Result<(), Error> {
    let literal = quoted(&schema.name);
    let sql = format!(
        "SELECT ROUTINE_TYPE, ROUTINE_NAME FROM information_schema.ROUTINES \
         WHERE ROUTINE_SCHEMA={literal} ORDER BY ROUTINE_TYPE, ROUTINE_NAME"
    );
    for row in link.rows("list routines", &sql, timeout_ms).await? {
        let (kind, routine) = pair(&row);
        let program = program(link, &kind, &schema.name, routine, timeout_ms).await?;
        schema.routines.push(program);
    }
    let sql = format!(
        "SELECT STATUS, EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA={literal} \
         ORDER BY EVENT_NAME"
    );
    for row in link.rows("list events", &sql, timeout_ms).await? {
        let (status, event) = pair(&row);
        let mut program = program(link, "EVENT", &schema.name, event, timeout_ms).await?;
        if status == "ENABLED" {
            let name = ticked(&program.name);
            program.after = format!("ALTER EVENT {name} DISABLE ON SLAVE");
        }
        schema.events.push(program);
    }
    Ok(())
}

/// The condition that a column names this; empty for all.
fn named(column: &str, name: Option<&str>) -> String {
    name.map_or_else(String::new, |name| {
        format!(" AND {column}={}", quoted(name))
    })
}

/// Tables, sequences and views, or the one that is named.
async fn members(
    link: &mut Link,
    schema: &mut Schema,
    only: Option<&str>,
    timeout_ms: u64,
) -> Result<(), Error> {
    let sql = format!(
        "SELECT t.TABLE_TYPE, t.TABLE_NAME, t.ENGINE, e.TRANSACTIONS FROM information_schema.TABLES t \
         LEFT JOIN information_schema.ENGINES e ON e.ENGINE=t.ENGINE \
         WHERE t.TABLE_SCHEMA={}{} ORDER BY t.TABLE_NAME",
        quoted(&schema.name),
        named("t.TABLE_NAME", only)
    );
    for row in link.rows("list tables", &sql, timeout_ms).await? {
        let (kind, name) = pair(&row);
        let engine = text_at(&row, 2).unwrap_or_default();
        let full = format!("{}.{}", ticked(&schema.name), ticked(&name));
        match kind.as_str() {
            "VIEW" => {
                let view = program(link, "VIEW", &schema.name, name, timeout_ms).await?;
                schema.views.push(view);
            }
            "SEQUENCE" => {
                let (create, _) = shown(link, "SEQUENCE", &full, timeout_ms).await?;
                let sql = format!("SELECT next_not_cached_value FROM {full}");
                let next = link.cell("read a sequence", &sql, timeout_ms).await?;
                let next = next.unwrap_or_default();
                schema.sequences.push(Program {
                    create,
                    session: String::new(),
                    collation: String::new(),
                    after: format!("DO SETVAL({}, {next}, 0)", ticked(&name)),
                    name,
                });
            }
            _ => {
                let (create, _) = shown(link, "TABLE", &full, timeout_ms).await?;
                let versioned = kind == "SYSTEM VERSIONED";
                let columns = columns(link, &schema.name, &name, versioned, timeout_ms).await?;
                schema.tables.push(Table {
                    schema: schema.name.clone(),
                    create,
                    transactional: text_at(&row, 3).is_some_and(|yes| yes == "YES"),
                    has_rows: !elsewhere(&engine),
                    columns,
                    versioned,
                    only: "",
                    name,
                });
            }
        }
    }
    Ok(())
}

/// Engines whose tables show what is kept in another table or on another server.
fn elsewhere(engine: &str) -> bool {
    let names = [
        "MRG_MYISAM",
        "FEDERATED",
        "SPIDER",
        "CONNECT",
        "BLACKHOLE",
        "S3",
        "OQGRAPH",
    ];
    names.iter().any(|name| name.eq_ignore_ascii_case(engine))
}

/// The columns that are written: all but those that the server computes.
pub(crate) async fn columns(
    link: &mut Link,
    schema: &str,
    table: &str,
    versioned: bool,
    timeout_ms: u64,
) -> Result<Vec<Column>, Error> {
    let sql = format!(
        "SELECT COLUMN_NAME, DATA_TYPE, EXTRA, GENERATION_EXPRESSION FROM \
         information_schema.COLUMNS WHERE TABLE_SCHEMA={} AND TABLE_NAME={} \
         ORDER BY ORDINAL_POSITION",
        quoted(schema),
        quoted(table)
    );
    let engine = link.version().engine;
    let mut columns = Vec::new();
    let mut periods = 0;
    for row in link.rows("list columns", &sql, timeout_ms).await? {
        let cell = |index| text_at(&row, index).unwrap_or_default();
        let extra = cell(2).to_ascii_uppercase();
        let period = cell(3).to_ascii_uppercase().starts_with("ROW ");
        periods += usize::from(period);
        let computed = ["VIRTUAL GENERATED", "STORED GENERATED", "PERSISTENT"]
            .iter()
            .any(|word| extra.contains(word));
        if !computed || (versioned && period) {
            columns.push(Column {
                name: cell(0),
                form: form(engine, &cell(1)),
            });
        }
    }
    if versioned && periods == 0 {
        for name in ["row_start", "row_end"] {
            columns.push(Column {
                name: name.to_owned(),
                form: Form::Plain,
            });
        }
    }
    Ok(columns)
}

fn form(engine: Engine, data_type: &str) -> Form {
    match data_type.to_ascii_lowercase().as_str() {
        "float" => Form::Float,
        "json" if engine == Engine::MySql => Form::Json,
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "double" | "date"
        | "time" | "datetime" | "timestamp" | "year" | "uuid" | "inet4" | "inet6" => Form::Plain,
        _ => Form::Bytes,
    }
}

async fn program(
    link: &mut Link,
    kind: &str,
    schema: &str,
    name: String,
    timeout_ms: u64,
) -> Result<Program, Error> {
    let full = format!("{}.{}", ticked(schema), ticked(&name));
    let (create, row) = shown(link, kind, &full, timeout_ms).await?;
    let settings = [
        ("sql_mode", "sql_mode"),
        ("character_set_client", "character_set_client"),
        ("collation_connection", "collation_connection"),
        ("time_zone", "time_zone"),
    ];
    let mut session: Vec<String> = Vec::new();
    for (column, variable) in settings {
        if let Some(value) = text(&row, column) {
            session.push(format!("SESSION {variable}={}", quoted(&value)));
        }
    }
    Ok(Program {
        name,
        create,
        session: format!("SET {}", session.join(", ")),
        collation: text(&row, "Database Collation").unwrap_or_default(),
        after: String::new(),
    })
}

/// What SHOW CREATE says, as bytes in the character set in which it was written, and the whole row.
async fn shown(
    link: &mut Link,
    kind: &str,
    name: &str,
    timeout_ms: u64,
) -> Result<(Vec<u8>, Row), Error> {
    let sql = format!("SHOW CREATE {kind} {name}");
    let rows = link.rows("show a definition", &sql, timeout_ms).await?;
    let create = rows.first().and_then(|row| {
        let wanted =
            |column: &str| column.starts_with("Create ") || column == "SQL Original Statement";
        let columns = row.columns_ref();
        let index = columns
            .iter()
            .position(|column| wanted(&column.name_str()))?;
        bytes_at(row, index)
    });
    match (create, rows.into_iter().next()) {
        (Some(create), Some(row)) => Ok((create, row)),
        _ => Err(Error::Reply {
            operation: "show a definition",
            server: link.address().to_owned(),
            what: format!("{sql} shows nothing; the account may lack a privilege"),
        }),
    }
}

pub(super) async fn names(
    link: &mut Link,
    sql: &str,
    timeout_ms: u64,
) -> Result<Vec<String>, Error> {
    let rows = link.rows("list names", sql, timeout_ms).await?;
    Ok(rows.iter().filter_map(|row| text_at(row, 0)).collect())
}

fn pair(row: &Row) -> (String, String) {
    let cell = |index| text_at(row, index).unwrap_or_default();
    (cell(0), cell(1))
}

/// A table's definition without ` AUTO_INCREMENT=7`.
fn without_counter(create: &[u8]) -> Vec<u8> {
    const WORD: &[u8] = b" AUTO_INCREMENT=";
    let found = create.windows(WORD.len()).rposition(|part| part == WORD);
    let Some(at) = found else {
        return create.to_vec();
    };
    let digits = create[at + WORD.len()..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    [&create[..at], &create[at + WORD.len() + digits..]].concat()
}

/// A table's definition without the character sets that a collation behind them tells as well: MySQL
/// shows them of a column that was made with both, and what it showed before names the collation only.
fn without_charsets(create: &[u8]) -> Vec<u8> {
    const WORDS: &[u8] = b" CHARACTER SET ";
    const NEXT: &[u8] = b" COLLATE ";
    let mut bare = Vec::with_capacity(create.len());
    let mut at = 0;
    while at < create.len() {
        let rest = &create[at..];
        if rest.starts_with(WORDS) {
            let name = rest[WORDS.len()..].iter();
            let name = name.take_while(|byte| byte.is_ascii_alphanumeric()).count();
            if rest[WORDS.len() + name..].starts_with(NEXT) {
                at += WORDS.len() + name;
                continue;
            }
        }
        bare.push(create[at]);
        at += 1;
    }
    bare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_do_not_count() {
        let create = b"CREATE TABLE `t` (a int) ENGINE=InnoDB AUTO_INCREMENT=17 COMMENT='x'";
        let bare = b"CREATE TABLE `t` (a int) ENGINE=InnoDB COMMENT='x'";
        assert_eq!(without_counter(create), bare);
        assert_eq!(without_counter(bare), bare);
    }

    #[test]
    fn a_collation_tells_its_character_set() {
        let long =
            b"`a` char(2) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, `b` text CHARACTER SET latin1";
        let short = b"`a` char(2) COLLATE utf8mb4_bin, `b` text CHARACTER SET latin1";
        assert_eq!(without_charsets(long), short);
        assert_eq!(without_charsets(short), short);
    }
}
