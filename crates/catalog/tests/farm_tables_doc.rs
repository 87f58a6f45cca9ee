//! `docs/FARM_TABLES.md` has each table about the farm as its definition has it. `HEDDLE_WRITE_DOCS=1` rewrites it.

use std::fmt::Write;

use catalog::command::{Call, DoneBy};
use farm::tables::{FarmTable, TABLES};

const HEAD: &str = "# Tables about the farm

For those who ask about the farm in SQL: by a client, in Grafana, in a script. The SQL door has a database `heddle` with a table for
servers, sessions, digests, events and the rest. It answers any SELECT: WHERE, JOIN, ORDER BY, GROUP BY, functions, also
together with your own tables.

```sql
SELECT group_id, address, lag_ms FROM heddle.servers WHERE status = 'SECONDARY' ORDER BY lag_ms DESC;
SELECT g.group_id, COUNT(s.address) FROM heddle.groups g LEFT JOIN heddle.servers s ON s.group_id = g.group_id AND s.is_alive GROUP BY 1;
SELECT db, user, SUM(calls), SUM(time_ms_sum) FROM heddle.digests GROUP BY db, user ORDER BY 4 DESC LIMIT 10;
SELECT time, event, detail FROM heddle.events WHERE time > UTC_TIMESTAMP() - INTERVAL 1 HOUR;
```

`SHOW TABLES FROM heddle`, `SHOW DATABASES`, `DESCRIBE heddle.servers`, `SHOW COLUMNS`, `SHOW CREATE TABLE` and prepared statements work.
`information_schema.TABLES` and `COLUMNS` have the tables in a statement that names `'heddle'`, as Grafana's MySQL source asks.

A statement gets the rows of its tables as they are at that moment. It runs on a server of the farm as any SELECT does, so its
functions and collations are those of your servers. All times are UTC. Each column may be NULL. A table only shows: INSERT, UPDATE,
DELETE, LOCK TABLES and the like are refused (1036). Views, routines and PREPARE in SQL cannot use the tables.
The servers need JSON_TABLE: MySQL 8.0, or MariaDB 10.6 and newer.

## When no server is left

While no server of the home group serves reads, Heddle answers SHOW, DESCRIBE and the simplest SELECTs itself:
`SELECT * | columns | COUNT(*) FROM heddle.TABLE [WHERE column = value AND …] [ORDER BY columns] [LIMIT n]`. Conditions compare a
column with a number or text by `=`, `<>`, `<`, `<=`, `>`, `>=`, LIKE, IS NULL or IS NOT NULL. Any other SELECT gets an error that says so. Heddle looks up
an account's rights at the primary: without one, use an account of `monitor_users`, or one with all privileges.

## Rights

A table needs the right of its command ([SECURITY.md](SECURITY.md#rights)). An account without it sees its own sessions and
pins only, and gets an error (1227) from all other tables. `digests.text` is NULL for all but admins. `SHOW TABLES FROM heddle` lists the tables
for accounts with the monitor right. Reading a table needs no privilege on the servers.

## The database on the servers

Heddle keeps tables of its own (`mark`, `heartbeat`, …) in a database of the same name on the servers. These stay readable under their names.
`USE heddle` chooses that database, so it has to be there, and the account needs a privilege on it, such as `GRANT SHOW VIEW ON heddle.* TO …`.
Then `SELECT * FROM servers` works, too. A table of your own in that database that has the name of one below is hidden; `farm_tables = off`
gives all names back to the servers.

A dump of all databases through Heddle meets the tables. Leave the database out (`--ignore-database=heddle`, or a list of databases), or dump from a server.

## The tables

";

fn page() -> String {
    let mut page = HEAD.to_owned();
    let _ = writeln!(
        page,
        "| table | a row is | right | command |\n| --- | --- | --- | --- |"
    );
    for table in TABLES {
        let spec = call(table).spec().expect("a command of the table");
        let (name, about) = (table.name, table.about.trim_end_matches('.'));
        let (right, command) = (spec.access.name(), table.command.join(" "));
        let _ = writeln!(
            page,
            "| [`{name}`](#heddle{name}) | {about} | {right} | `{command}` |"
        );
    }
    for table in TABLES {
        let _ = writeln!(
            page,
            "\n### `heddle.{}`\n\n| column | type | what it says |\n| --- | --- | --- |",
            table.name
        );
        for column in table.columns {
            let (name, kind, about) = (column.name, column.kind.sql(), column.about);
            let _ = writeln!(page, "| `{name}` | {kind} | {about} |");
        }
    }
    page
}

fn call(table: &FarmTable) -> Call {
    Call::parse(table.command).expect("a command of two words")
}

#[test]
fn the_page_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/FARM_TABLES.md");
    if std::env::var_os("HEDDLE_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).expect("docs/ can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/FARM_TABLES.md is old: HEDDLE_WRITE_DOCS=1 cargo test --workspace --test farm_tables_doc"
    );
}

#[test]
fn a_table_has_the_rows_of_a_command_that_changes_nothing() {
    for table in TABLES {
        let call = call(table);
        assert!(!call.changes(), "{}", table.name);
        let spec = call.spec().expect("a command of the table");
        // What every router answers says whose a row is.
        let is_of_all = matches!(spec.done_by, DoneBy::Every);
        let tells = table.columns.iter().any(|column| column.from == "router");
        assert_eq!(is_of_all, tells, "{}", table.name);
    }
}
