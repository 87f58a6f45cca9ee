//! `information_schema.PROCESSLIST` and its kin in queries: what SHOW PROCESSLIST lists, as a table; and
//! the tables of status and variables, where they tell of the client's own connection.
//!
//! A query of constant rows takes the table's place in the statement, so that the server still filters,
//! joins and sorts it. `performance_schema.threads` has more than clients: there only the row of the
//! statement's own connection is shown as the client's. Prepared statements are read anew each time that
//! they are executed.

use std::fmt::Write;

use backend::{ConnectionError, PoolError, Table};
use farm::error;
use farm::local::host_of;
use mysql_wire::packet;
use mysql_wire::result::{ColumnKind, ValueKind};
use mysql_wire::statement::PARAMETERS_COUNTED;
use sqltext::{Facts, Listing};

use crate::authentication::login::SessionUser;
use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::connections::group_connections::GroupConnections;
use crate::connections::target::nowhere;
use crate::execution::exec::{Job, Shape};
use crate::introspection::processlist::{self, Row, row};
use crate::introspection::rights;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::query::by_rules;
use crate::session::Session;
use crate::variables::session_variables::SessionVariables;
use crate::variables::{shown, user_variables};

/// More sessions than fit into so much text are not listed within a statement.
const TEXT_BYTES_MAX: usize = 8 << 20;

/// Where EXECUTE has its flags.
const FLAGS_AT: usize = 5;

/// A longer text column is written as a LONGTEXT.
const CHARACTERS_MAX: usize = 1024;

/// A column of a listing.
pub(crate) struct Column {
    pub name: String,
    /// As in CREATE TABLE.
    pub kind: String,
    pub collation: Option<String>,
    pub nullable: bool,
}

/// What has become of a text.
enum Listed {
    AsItWas,
    Text(Vec<u8>),
    /// The client has been told why it cannot be run.
    Told,
}

impl Session {
    /// Puts the clients of the farm into the current text of a COM_QUERY where it lists connections.
    /// False: the client has been told why that is not possible.
    #[cold]
    pub(crate) async fn list_in_query(&mut self, shape: &mut Shape) -> Result<bool, End> {
        if self.client.request.is_split() {
            return Ok(true);
        }
        let text = packet::joined(self.client.request.frame()).split_off(1);
        match self.with_clients(&text, shape).await? {
            Listed::AsItWas => Ok(true),
            Listed::Told => Ok(false),
            Listed::Text(listed) => {
                user_variables::leave_text(&self.core, &self.variables, shape, &text);
                self.client.request.replace_text(&listed);
                Ok(true)
            }
        }
    }

    /// Runs the current EXECUTE with the clients of the farm in its statement. `None`: it lists none.
    #[cold]
    pub(crate) async fn list_in_execute(
        &mut self,
        id: u32,
        mut shape: Shape,
    ) -> Option<Result<(), End>> {
        let text = self.prepared.statement_text(id).to_vec();
        let listed = match self.with_clients(&text, &shape).await {
            Ok(Listed::Text(listed)) => self.core.text(&listed),
            Ok(Listed::AsItWas) => return None,
            Ok(Listed::Told) => return Some(Ok(())),
            Err(end) => return Some(Err(end)),
        };
        user_variables::leave_text(&self.core, &self.variables, &mut shape, &text);
        // A cursor would be fetched from under the other text.
        let flags = self.client.request.payload().get(FLAGS_AT).copied().unwrap_or(0);
        self.client.request.patch(FLAGS_AT, &[flags & PARAMETERS_COUNTED]);
        let own = self.prepared.exchange_text(id, listed);
        let done = Box::pin(by_rules::run_command(self, shape, Job::Execute(id))).await;
        if let Some(own) = own {
            self.prepared.exchange_text(id, own);
        }
        Some(done)
    }

    async fn with_clients(&mut self, text: &[u8], shape: &Shape) -> Result<Listed, End> {
        let database = self.variables.state.database().map(<[u8]>::to_vec);
        let database = database.as_deref();
        let listings = sqltext::listings(text, &self.variables.mode, database);
        if listings.iter().any(|listing| listing.is_status())
            && !self.hold_for_status(shape).await?
        {
            return Ok(Listed::Told);
        }
        let mut queries = Vec::new();
        for listing in listings {
            match query_for(
                (&self.core, &self.handle),
                &self.user,
                &self.client,
                &self.variables,
                &mut self.connections,
                listing,
                text,
            )
            .await
            {
                Ok(Some(query)) => queries.push((listing, query)),
                Ok(None) => return Ok(Listed::AsItWas),
                Err(error) => {
                    self.client.pool_error(&error, &nowhere()).await?;
                    return Ok(Listed::Told);
                }
            }
        }
        let query = |wanted: Listing| {
            let found = queries.iter().find(|(listing, _)| *listing == wanted);
            found.map_or_else(String::new, |(_, query)| query.clone())
        };
        let id = self.handle.id;
        match sqltext::with_listings(text, &self.variables.mode, database, id, query) {
            None => Ok(Listed::AsItWas),
            Some(text) if text.len() > TEXT_BYTES_MAX => {
                self.client.error(&error::LISTING_TOO_LARGE, &[]).await?;
                Ok(Listed::Told)
            }
            Some(text) => Ok(Listed::Text(text)),
        }
    }
}

/// The query that stands for a listing; `None` where the server has no such table.
async fn query_for(
    (core, handle): (&Core, &Handle),
    user: &SessionUser,
    client: &Client,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    listing: Listing,
    text: &[u8],
) -> Result<Option<String>, PoolError> {
    let asked = format!("SHOW FULL COLUMNS FROM {}", listing.name());
    let columns =
        match rights::ask_table(core, user, variables, connections, asked.as_bytes()).await {
            Ok(table) => columns(&table),
            Err(PoolError::Connection(ConnectionError::Refused { .. })) => return Ok(None),
            Err(error) => return Err(error),
        };
    if columns.is_empty() {
        return Ok(None);
    }
    if !listing.lists_processes() && listing != Listing::Threads {
        return Ok(Some(shown::own_values_of(client, listing)));
    }
    if listing == Listing::Threads {
        let host = host_of(user.peer.ip());
        return Ok(Some(own_thread(&columns, handle.id, &host)));
    }
    let names: Vec<(String, ValueKind)> = columns.iter().map(Column::as_shown).collect();
    let seen = processlist::seen(core, user, variables, connections).await;
    let all = format!("SELECT * FROM {}", listing.name());
    let said = processlist::said(core, user, &seen.views, all.as_bytes()).await;
    let mut rows: Vec<Row> = Vec::new();
    for view in &seen.views {
        let known = view.running.and_then(|place| said.get(&place));
        let asks = (view.id == handle.id).then_some(text);
        rows.push(row(view, &names, known, asks));
    }
    rows.extend(seen.silent.iter().map(|silent| silent.row(&names)));
    Ok(Some(constant(listing, &columns, &rows)))
}

/// The current text may name a table that lists connections.
#[inline]
pub(crate) fn may_list(variables: &SessionVariables, shape: &Shape) -> bool {
    let inside = || {
        let database = variables.state.database();
        database.is_some_and(|name| name.eq_ignore_ascii_case(b"information_schema"))
    };
    shape.facts.contains(Facts::SERVER_SCHEMA) || inside()
}

/// What SHOW FULL COLUMNS says.
fn columns(table: &Table) -> Vec<Column> {
    let read = |row: &Row| -> Option<Column> {
        let cell = |at: usize| {
            let cell = row.get(at)?.as_deref()?;
            Some(String::from_utf8_lossy(cell).into_owned())
        };
        Some(Column {
            name: cell(0)?,
            kind: cell(1)?.to_ascii_lowercase(),
            collation: cell(2),
            nullable: cell(3)? == "YES",
        })
    };
    table.rows.iter().filter_map(read).collect()
}

impl Column {
    fn is_number(&self) -> bool {
        ["int", "dec", "double", "float"].iter().any(|part| self.kind.contains(part))
    }

    /// The longest value, in characters.
    fn characters(&self) -> Option<usize> {
        let length = self.kind.strip_prefix("varchar(")?.split_once(')')?.0;
        length.parse().ok().filter(|length| *length <= CHARACTERS_MAX)
    }

    /// Name and kind as the lists of SHOW have them.
    fn as_shown(&self) -> (String, ValueKind) {
        let column = match self.is_number() {
            true => ColumnKind::LongLong,
            false => ColumnKind::VarString,
        };
        let unsigned = false;
        (self.name.to_ascii_lowercase(), ValueKind { column, unsigned })
    }

    /// What JSON_TABLE makes of the column's values.
    fn read_as(&self) -> &str {
        match self.is_number() || self.characters().is_some() {
            true => &self.kind,
            false => "LONGTEXT",
        }
    }

    /// The value of column `at` of JSON_TABLE, of the type that the table itself has.
    fn value(&self, at: usize) -> String {
        let value = match self.nullable {
            true => format!("j.c{at}"),
            // Every row has a number, and a literal would make another kind of most kinds.
            false if self.is_number() && !self.kind.starts_with("bigint") => format!("j.c{at}"),
            false if self.is_number() => format!("IFNULL(j.c{at}, 0)"),
            false => format!("IFNULL(j.c{at}, '')"),
        };
        match self.collation.as_deref().filter(|name| *name != "NULL") {
            Some(collation) => {
                let charset = collation.split('_').next().unwrap_or(collation);
                format!("CONVERT({value} USING {charset}) COLLATE {collation}")
            }
            None if self.is_number() => value,
            None => format!("CAST({value} AS BINARY)"),
        }
    }
}

/// A query with these rows, whose columns are those of the server's table.
fn constant(listing: Listing, columns: &[Column], rows: &[Row]) -> String {
    let names: Vec<String> = columns.iter().map(|c| sqltext::ticked(&c.name)).collect();
    format!(
        "(SELECT {} FROM {} WHERE FALSE UNION ALL {})",
        names.join(", "),
        listing.name(),
        rows_alone(columns, rows)
    )
}

/// A query with these rows, whose columns have these names.
pub(crate) fn rows_alone(columns: &[Column], rows: &[Row]) -> String {
    let value = |(at, column): (usize, &Column)| {
        format!("{} AS {}", column.value(at), sqltext::ticked(&column.name))
    };
    let kind =
        |(at, column): (usize, &Column)| format!("c{at} {} PATH '$.c{at}'", column.read_as());
    let values: Vec<String> = columns.iter().enumerate().map(value).collect();
    let kinds: Vec<String> = columns.iter().enumerate().map(kind).collect();
    let hex = hex::encode(json(columns, rows));
    format!(
        "SELECT {} FROM JSON_TABLE(CONVERT(0x{hex} USING utf8mb4), '$[*]' COLUMNS ({})) j",
        values.join(", "),
        kinds.join(", ")
    )
}

/// The rows as an array of objects. NULL is absent: MySQL 8.0.12 takes a JSON null for a text.
fn json(columns: &[Column], rows: &[Row]) -> String {
    let mut out = "[".to_owned();
    for (at, row) in rows.iter().enumerate() {
        out.push_str(if at > 0 { ",{" } else { "{" });
        let cells = columns.iter().zip(row).enumerate();
        let known = cells.filter_map(|(at, (column, cell))| Some((at, column, cell.as_deref()?)));
        for (nth, (at, column, cell)) in known.enumerate() {
            let comma = if nth > 0 { "," } else { "" };
            let _ = write!(out, "{comma}\"c{at}\":");
            put_json(&mut out, cell, column.characters());
        }
        out.push('}');
    }
    out.push(']');
    out
}

fn put_json(out: &mut String, value: &[u8], characters_max: Option<usize>) {
    let text = String::from_utf8_lossy(value);
    out.push('"');
    for character in text.chars().take(characters_max.unwrap_or(usize::MAX)) {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// The server's threads, of which the one that runs the statement has the client's id and address.
fn own_thread(columns: &[Column], id: u32, host: &str) -> String {
    let column = |column: &Column| {
        let name = sqltext::ticked(&column.name);
        let own = match column.name.to_ascii_uppercase().as_str() {
            "PROCESSLIST_ID" => id.to_string(),
            "PROCESSLIST_HOST" => format!("'{host}'"),
            _ => return name,
        };
        format!("IF(PROCESSLIST_ID = CONNECTION_ID(), {own}, {name}) AS {name}")
    };
    let columns: Vec<String> = columns.iter().map(column).collect();
    // A connection of the server that has the client's id by chance is not the client.
    format!(
        "(SELECT {} FROM {} WHERE PROCESSLIST_ID = CONNECTION_ID() OR NOT PROCESSLIST_ID <=> {id})",
        columns.join(", "),
        Listing::Threads.name()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_json_that_keeps_them() {
        let text = |kind: &str| Column {
            name: "c".to_owned(),
            kind: kind.to_owned(),
            collation: None,
            nullable: true,
        };
        let columns = [text("bigint(4)"), text("varchar(4)"), text("longtext")];
        let rows = [
            vec![Some(b"5".to_vec()), Some("äöüßx".into()), None],
            vec![None, None, Some(b"a\"b\\\n\xff".to_vec())],
        ];
        assert_eq!(
            json(&columns, &rows),
            "[{\"c0\":\"5\",\"c1\":\"äöüß\"},{\"c2\":\"a\\\"b\\\\\\u000a\u{fffd}\"}]"
        );
    }
}
