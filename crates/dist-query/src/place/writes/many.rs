//! Writes that one statement per group cannot do: INSERT … SELECT, UPDATE and DELETE with a LIMIT, and
//! UPDATE of the shard key.
//!
//! Their rows are read first, with locks where they are to be changed, and then written by their
//! keys, all in the client's transaction or in one of their own: all or none of it happens.

use dist_txn::{COMMIT, ROLLBACK};
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::heard::{Heard, Sheet};
use execute::client::refuse::ServerRefusal;
use execute::client::sink::ReplySink;
use execute::execution::exec::Job;
use execute::per_core::Core;
use execute::prepared::bound;
use execute::session::{self, Session, is_free};
use execute::variables::session_variables::SessionVariables;
use farm::sharding::TableSchema;
use farm::{ClientError, error};
use planner::orders_by_place;
use planner::place::Spot;
use sqltext::{Change, Mode, Span, ticked};

use super::bulk::Bulk;
use crate::place::inner;
use crate::place::writes::{bulk, by_keys};

/// A statement of several steps within a transaction is undone to here when one of them fails. The
/// statements of its steps have a savepoint of their own on each server, with another name.
const SAVEPOINT: &[u8] = b"SAVEPOINT `heddle.steps`";
const UNDO: &[u8] = b"ROLLBACK TO SAVEPOINT `heddle.steps`";
const RELEASE: &[u8] = b"RELEASE SAVEPOINT `heddle.steps`";

/// Rows in one statement, and its bytes.
pub(in crate::place) const BATCH_ROWS: usize = 500;
pub(in crate::place) const BATCH_BYTES: usize = 512 * 1024;

/// What came of all of it.
#[derive(Default)]
pub(in crate::place) struct Tally {
    pub affected_rows: u64,
    /// The first id that was given.
    insert_id: u64,
    matched: u64,
    pub records: u64,
    duplicates: u64,
    warnings: u16,
    /// The last OK's.
    pub info: Vec<u8>,
}

/// Why it ends.
pub(in crate::place) enum Stop {
    End(End),
    Server(ServerRefusal),
    Refused(&'static str),
    /// With what the error's text says of it.
    Told(ClientError, String),
}

impl From<End> for Stop {
    fn from(end: End) -> Stop {
        Stop::End(end)
    }
}

pub(in crate::place) type Step<T> = Result<T, Stop>;

impl Tally {
    /// What an INSERT of many rows says of itself.
    pub fn insert_info(&self) -> String {
        format!(
            "Records: {}  Duplicates: {}  Warnings: {}",
            self.records, self.duplicates, self.warnings
        )
    }

    /// What an UPDATE says of itself.
    pub fn update_info(&self) -> String {
        format!(
            "Rows matched: {}  Changed: {}  Warnings: {}",
            self.matched, self.affected_rows, self.warnings
        )
    }
}

/// What is done in several steps.
#[derive(Clone, Copy)]
pub(in crate::place) enum Work<'a> {
    Spot(&'a Spot, &'a [u8]),
    Bulk(&'a Bulk),
}

/// Carries such a write out and answers the client.
pub(in crate::place) async fn write_rows(
    session: &mut Session,
    spot: &Spot,
    job: Job,
) -> Result<(), End> {
    let Some(text) = bound::text_of(&session.context(), job) else {
        let why = "the statement's parameters cannot be written out";
        return session.client.error(&error::NOT_OVER_GROUPS, &[why]).await;
    };
    in_steps(session, Work::Spot(spot, &text)).await
}

/// Does all of it in the client's transaction or in one of its own, or nothing, and answers the
/// client.
pub(in crate::place) async fn in_steps(session: &mut Session, work: Work<'_>) -> Result<(), End> {
    let alone = is_free(session.variables.status);
    match steps(session, work, alone).await {
        Ok((tally, info)) => {
            let mut ok = mysql_wire::reply::OkPacket::new(session::status_now(
                &session.variables,
                &session.transaction,
            ));
            ok.affected_rows = tally.affected_rows;
            ok.last_insert_id = tally.insert_id;
            ok.warnings = tally.warnings;
            ok.info = info.as_bytes();
            session.client.answer_ok(&ok).await
        }
        Err(Stop::End(end)) => Err(end),
        Err(stop) => {
            let undo = if alone { ROLLBACK.as_bytes() } else { UNDO };
            inner::inner(session, undo).await?;
            match stop {
                Stop::Server(refusal) => session.client.pass_refusal(&refusal).await,
                Stop::Refused(why) => session.client.error(&error::NOT_OVER_GROUPS, &[why]).await,
                Stop::Told(error, detail) => session.client.error(&error, &[&detail]).await,
                Stop::End(end) => Err(end),
            }
        }
    }
}

async fn steps(session: &mut Session, work: Work<'_>, alone: bool) -> Step<(Tally, String)> {
    let begin: &[u8] = if alone {
        b"START TRANSACTION"
    } else {
        SAVEPOINT
    };
    run_inner(session, begin).await?;
    let mut tally = Tally::default();
    let info = match work {
        Work::Bulk(bulk) => bulk::write_bulk(session, bulk, &mut tally).await?,
        Work::Spot(spot, text) => write_spot(session, spot, text, &mut tally).await?,
    };
    let end = if alone { COMMIT.as_bytes() } else { RELEASE };
    run_inner(session, end).await?;
    Ok((tally, info))
}

/// Gives what the OK says.
async fn write_spot(
    session: &mut Session,
    spot: &Spot,
    text: &[u8],
    tally: &mut Tally,
) -> Step<String> {
    let delete = match spot {
        Spot::Select => {
            return Ok(match insert_selected(session, text, tally).await? {
                true => String::from_utf8_lossy(&tally.info).into_owned(),
                false => tally.insert_info(),
            });
        }
        Spot::ByKeys => by_keys::change_by_rows(session, text, tally).await?,
        Spot::Limited(_) => change_limited(session, text, tally).await?,
        _ => {
            move_rows(session, text, tally).await?;
            false
        }
    };
    Ok(match delete {
        true => String::new(),
        false => tally.update_info(),
    })
}

/// A statement whose counts do not matter.
async fn run_inner(session: &mut Session, text: &[u8]) -> Step<()> {
    write_inner(session, text, &mut Tally::default()).await
}

/// A write, whose counts are added.
pub(in crate::place) async fn write_inner(
    session: &mut Session,
    text: &[u8],
    tally: &mut Tally,
) -> Step<()> {
    match inner::inner(session, text).await? {
        Heard::Ok {
            affected_rows,
            insert_id,
            info,
            warnings,
        } => {
            if tally.insert_id == 0 {
                tally.insert_id = insert_id;
            }
            tally.affected_rows += affected_rows;
            tally.warnings = tally.warnings.saturating_add(warnings);
            tally.duplicates += number_behind(&info, "Duplicates: ").unwrap_or(0);
            tally.matched += number_behind(&info, "Rows matched: ").unwrap_or(affected_rows);
            tally.info = info;
            Ok(())
        }
        Heard::Rows(_) => Err(Stop::Refused("rows came where none were expected")),
        Heard::Refused(refusal) => Err(Stop::Server(refusal)),
    }
}

pub(in crate::place) async fn rows_inner(session: &mut Session, text: &[u8]) -> Step<Sheet> {
    match inner::inner(session, text).await? {
        Heard::Rows(sheet) => Ok(sheet),
        Heard::Ok { .. } => Err(Stop::Refused("no rows came where some were expected")),
        Heard::Refused(refusal) => Err(Stop::Server(refusal)),
    }
}

/// The rows of the query first, then they are inserted as if they were written out. True for an
/// INSERT of rows with queries among their values.
async fn insert_selected(session: &mut Session, text: &[u8], tally: &mut Tally) -> Step<bool> {
    let mode = session.variables.mode;
    let insert =
        sqltext::insert(text, &mode).ok_or(Stop::Refused("the INSERT is not understood"))?;
    let sqltext::Source::Query(at) = insert.source else {
        by_keys::insert_computed(session, text, &insert, tally).await?;
        return Ok(true);
    };
    if insert.returns {
        return Err(Stop::Refused("INSERT … SELECT … RETURNING over several groups is not known"));
    }
    let query = Span {
        start: at,
        end: insert.tail,
    };
    let sheet = rows_inner(session, query.of(text)).await?;
    let mut head = text[..at as usize].to_vec();
    head.extend_from_slice(b" VALUES ");
    let tail = &text[insert.tail as usize..];
    let tail = tail.strip_suffix(b";").unwrap_or(tail);
    let all: Vec<usize> = (0..sheet.names.len()).collect();
    tally.records = sheet.rows.len() as u64;
    insert_rows(session, &head, tail, &sheet, &all, tally).await?;
    Ok(false)
}

async fn insert_rows(
    session: &mut Session,
    head: &[u8],
    tail: &[u8],
    sheet: &Sheet,
    columns: &[usize],
    tally: &mut Tally,
) -> Step<()> {
    let mut rows = sheet.rows.iter().peekable();
    while rows.peek().is_some() {
        let mut text = head.to_vec();
        let mut count = 0;
        while count < BATCH_ROWS && text.len() < BATCH_BYTES {
            let Some(row) = rows.next() else { break };
            if count > 0 {
                text.extend_from_slice(b", ");
            }
            text.push(b'(');
            text.extend(written(&session.variables, sheet, row, columns)?);
            text.push(b')');
            count += 1;
        }
        text.push(b' ');
        text.extend_from_slice(tail);
        let before = (tally.affected_rows, tally.duplicates);
        write_inner(session, &text, tally).await?;
        if count == 1 && tally.duplicates == before.1 {
            // One row has no info: two changes are one row that was there.
            tally.duplicates += (tally.affected_rows - before.0).saturating_sub(1);
        }
    }
    Ok(())
}

/// UPDATE and DELETE … LIMIT: the keys of the rows first, in the statement's order. True for a
/// DELETE.
async fn change_limited(session: &mut Session, text: &[u8], tally: &mut Tally) -> Step<bool> {
    let mode = session.variables.mode;
    let change = sqltext::change(text, &mode).ok_or(Stop::Refused(
        "a LIMIT over several groups works in plain statements on one table only",
    ))?;
    let order = change.order.map(|span| String::from_utf8_lossy(span.of(text)));
    if order.is_some_and(|order| orders_by_place(&order, &mode)) {
        return Err(Stop::Refused(
            "it is ordered by a number, which is no column of a statement that changes rows",
        ));
    }
    let schema = changed_table(&session.core, &session.variables, text, &change)?;
    let keys: Vec<String> =
        schema.primary.iter().map(|at| ticked(&schema.columns[usize::from(*at)].name)).collect();
    let mut query = format!("SELECT {} FROM ", keys.join(", ")).into_bytes();
    clauses(text, &change, &mut query);
    let sheet = rows_inner(session, &query).await?;
    let mut head = match change.delete {
        true => b"DELETE FROM ".to_vec(),
        false => b"UPDATE ".to_vec(),
    };
    head.extend_from_slice(change.table.of(text));
    if let (Some((first, _)), Some((_, last))) = (change.set.first(), change.set.last()) {
        head.extend_from_slice(b" SET ");
        head.extend_from_slice(&text[first.start as usize..last.end as usize]);
    }
    change_by_keys(session, &head, &keys, &sheet, tally).await?;
    Ok(change.delete)
}

/// Runs `head` for the rows with these keys: the first columns of the sheet.
async fn change_by_keys(
    session: &mut Session,
    head: &[u8],
    keys: &[String],
    sheet: &Sheet,
    tally: &mut Tally,
) -> Step<()> {
    let columns: Vec<usize> = (0..keys.len()).collect();
    for rows in sheet.rows.chunks(BATCH_ROWS) {
        let mut text = head.to_vec();
        text.extend_from_slice(format!(" WHERE ({}) IN (", keys.join(", ")).as_bytes());
        for (at, row) in rows.iter().enumerate() {
            let open = if at > 0 { ", (" } else { "(" };
            text.extend_from_slice(open.as_bytes());
            text.extend(written(&session.variables, sheet, row, &columns)?);
            text.push(b')');
        }
        text.push(b')');
        write_inner(session, &text, tally).await?;
    }
    Ok(())
}

/// UPDATE of the shard key: each row leaves its shard and comes to that of its new key.
async fn move_rows(session: &mut Session, text: &[u8], tally: &mut Tally) -> Step<()> {
    let mode = session.variables.mode;
    let change = sqltext::change(text, &mode)
        .ok_or(Stop::Refused("a shard key is changed by plain statements on one table only"))?;
    let schema = changed_table(&session.core, &session.variables, text, &change)?;
    if reads_what_is_set(text, &change, &mode) {
        return Err(Stop::Refused(
            "a value of it reads a column that is set in front of it: set the shard key in a \
             statement of its own",
        ));
    }
    refuse_referenced(session, text, &change).await?;
    let name = |span: &Span| {
        let name = sqltext::unquote(span.of(text), &mode);
        String::from_utf8_lossy(&name).into_owned()
    };
    let set: Vec<(String, &[u8])> =
        change.set.iter().map(|(column, value)| (name(column), value.of(text))).collect();
    let keys: Vec<String> =
        schema.primary.iter().map(|at| ticked(&schema.columns[usize::from(*at)].name)).collect();
    let stored: Vec<&str> = schema
        .columns
        .iter()
        .filter(|column| !column.generated)
        .map(|column| &*column.name)
        .collect();
    let mut query = format!("SELECT {}", keys.join(", ")).into_bytes();
    for column in &stored {
        query.extend_from_slice(b", ");
        // Of a column that is set twice the last value counts.
        let same = |set: &str| set.to_lowercase() == column.to_lowercase();
        match set.iter().rfind(|(set, _)| same(set)) {
            // An alias of its own: two columns of one name cannot be gathered.
            Some((_, value)) => query.extend_from_slice(&[b"(", *value, b")"].concat()),
            None => query.extend_from_slice(ticked(column).as_bytes()),
        }
        query.extend_from_slice(format!(" AS `to {column}`").as_bytes());
    }
    query.extend_from_slice(b" FROM ");
    clauses(text, &change, &mut query);
    let sheet = rows_inner(session, &query).await?;
    let table = match change.database {
        Some(database) => &text[database.start as usize..change.name.end as usize],
        None => change.name.of(text),
    };
    let mut unseen = Tally::default();
    let head = [b"DELETE FROM ", table].concat();
    change_by_keys(session, &head, &keys, &sheet, &mut unseen).await?;
    let names: Vec<String> = stored.iter().map(|column| ticked(column)).collect();
    let mut head = [b"INSERT INTO ", table].concat();
    head.extend_from_slice(format!(" ({}) VALUES ", names.join(", ")).as_bytes());
    let columns: Vec<usize> = (keys.len()..keys.len() + stored.len()).collect();
    insert_rows(session, &head, b"", &sheet, &columns, tally).await?;
    tally.matched = sheet.rows.len() as u64;
    Ok(())
}

/// Rows that others refer to cannot leave for a moment: what refers to them might go with them.
async fn refuse_referenced(session: &mut Session, text: &[u8], change: &Change) -> Step<()> {
    let of = |span: &Span| {
        let name = sqltext::unquote(span.of(text), &session.variables.mode);
        String::from_utf8_lossy(&name).replace('\\', "\\\\").replace('\'', "''")
    };
    let database = match &change.database {
        Some(database) => format!("'{}'", of(database)),
        None => "DATABASE()".to_owned(),
    };
    let query = format!(
        "SELECT COUNT(*) FROM information_schema.KEY_COLUMN_USAGE \
         WHERE REFERENCED_TABLE_SCHEMA = {database} AND REFERENCED_TABLE_NAME = '{}'",
        of(&change.name)
    );
    let sheet = rows_inner(session, query.as_bytes()).await?;
    let none = sheet.rows.first().and_then(|row| row.first()?.clone()) == Some(b"0".to_vec());
    match none {
        true => Ok(()),
        false => {
            Err(Stop::Refused("the shard key of rows that FOREIGN KEYs refer to cannot be changed"))
        }
    }
}

pub(in crate::place) fn written(
    variables: &SessionVariables,
    sheet: &Sheet,
    row: &[Option<Vec<u8>>],
    columns: &[usize],
) -> Step<Vec<u8>> {
    sheet.literals(row, columns, &variables.mode).ok_or(Stop::Refused(
        "text in this character set cannot be written out: use SET NAMES utf8mb4",
    ))
}

/// The table of a change, with its schema.
fn changed_table(
    core: &Core,
    variables: &SessionVariables,
    text: &[u8],
    change: &Change,
) -> Step<std::sync::Arc<TableSchema>> {
    let name = |span: &Span| {
        let name = sqltext::unquote(span.of(text), &variables.mode);
        String::from_utf8_lossy(&name).into_owned()
    };
    let session = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let database = change.database.as_ref().map(name);
    let database = database.as_deref().unwrap_or(&session);
    let snapshot = core.snapshot();
    let schema = snapshot
        .sharding
        .as_ref()
        .and_then(|sharding| sharding.schema(database, &name(&change.name)).cloned());
    if schema.as_ref().is_some_and(|schema| schema.view) {
        return Err(Stop::Refused("it changes a view: change its table"));
    }
    schema.filter(|schema| !schema.primary.is_empty()).ok_or(Stop::Refused(
        "the table's primary key is not known, by which its rows would be changed",
    ))
}

/// Appends the table and the clauses that choose its rows, and locks them.
fn clauses(text: &[u8], change: &Change, out: &mut Vec<u8>) {
    out.extend_from_slice(change.table.of(text));
    if let Some(filter) = change.filter {
        out.extend_from_slice(b" WHERE ");
        out.extend_from_slice(filter.of(text));
    }
    for clause in [change.order, change.limit].into_iter().flatten() {
        out.push(b' ');
        out.extend_from_slice(clause.of(text));
    }
    out.extend_from_slice(b" FOR UPDATE");
}

/// The number behind a word of an OK's info.
fn number_behind(info: &[u8], word: &str) -> Option<u64> {
    let info = std::str::from_utf8(info).ok()?;
    let (_, rest) = info.split_once(word)?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// A value names a column that the statement sets in front of it: one server would give it what that was
/// set to, while the rows that move are computed from what they had.
fn reads_what_is_set(text: &[u8], change: &Change, mode: &Mode) -> bool {
    let name = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
    let pieces = sqltext::pieces(text, mode).unwrap_or_default();
    let mut before: Vec<String> = Vec::new();
    change.set.iter().any(|(column, value)| {
        let within = |at: &Span| value.start <= at.start && at.end <= value.end;
        let mut named = (pieces.iter().filter(|piece| within(&piece.span)))
            .filter_map(|piece| piece.name(text, mode));
        let reads = named.any(|it| before.contains(&name(&it)));
        before.push(name(&sqltext::unquote(column.of(text), mode)));
        reads
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::Dialect;

    #[test]
    fn values_see_what_was_set_in_front_of_them() {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        for (text, expected) in [
            ("UPDATE t SET k = k + 1, a = 3 WHERE k = 7", false),
            ("UPDATE t SET a = a + 1, k = b WHERE a = 7", false),
            ("UPDATE t SET a = a + 1, k = a", true),
            ("UPDATE t SET `É` = 1, k = t.é + 1", true),
        ] {
            let change = sqltext::change(text.as_bytes(), &mode).expect("an UPDATE");
            let reads = reads_what_is_set(text.as_bytes(), &change, &mode);
            assert_eq!(reads, expected, "{text}");
        }
    }
}
