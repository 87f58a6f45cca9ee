//! Carries out an answer in the dullest way: everything is fetched, then put together.
//!
//! What leaves rows out of a table is tried as a list of values or as the condition that each group
//! tells by itself, by whether there are an even number of values. So are INSERTs and files, by the number
//! of rows.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use planner::merge::{Merge, Next, Row};
use planner::{
    Answer, Division, FIELD_END, Finish, Fragment, Goes, Load, Merging, Part, Passed, ROW_END,
    Scratch, Sending, Written, put_field,
};
use testkit::client::{Client, Failure, Reply, Rows, Value};

use crate::outcome::Outcome;
use crate::spread::rows_of;

/// What the client would get.
pub fn carry(
    answer: &Answer,
    groups: &mut BTreeMap<Arc<str>, Client>,
    scratch: &mut Client,
) -> Outcome {
    let Some(sending) = &answer.sending else {
        return carry_here(answer, groups, scratch);
    };
    let outcome = match send(sending, groups) {
        Ok(()) => carry_here(answer, groups, scratch),
        Err(failure) => Err(failure),
    };
    for client in groups.values_mut() {
        for part in &sending.tables {
            client.run(&part.drop);
        }
    }
    outcome
}

/// Fetches tables and puts them on every group: all rows, or those that are the group's.
fn send(sending: &Sending, groups: &mut BTreeMap<Arc<str>, Client>) -> Result<(), Failure> {
    for (at, (fragment, part)) in sending.fragments.iter().zip(&sending.tables).enumerate() {
        let results = fetch(fragment, groups)?;
        let part = Part {
            load: None,
            ..part.clone()
        };
        for (group, client) in groups.iter_mut() {
            client.query(&part.create)?;
            let own = match &sending.divided[at] {
                None => results.clone(),
                Some(by) => results
                    .iter()
                    .map(|rows| rows_for(rows, by, group))
                    .collect(),
            };
            filling(client, |client| fill(&part, &own, client))?;
        }
    }
    Ok(())
}

/// The rows that are for this group.
fn rows_for(rows: &Rows, by: &Division, group: &Arc<str>) -> Rows {
    let place = by.groups.iter().position(|it| it == group);
    let is_own = |row: &&Vec<Value>| match by.goes(bytes(&row[by.column]).as_deref()) {
        Goes::To(at) => Some(at) == place,
        Goes::Nowhere => false,
        Goes::Unknown => panic!("whose row is {row:?}?"),
    };
    Rows {
        rows: rows.rows.iter().filter(is_own).cloned().collect(),
        ..rows.clone()
    }
}

fn carry_here(
    answer: &Answer,
    groups: &mut BTreeMap<Arc<str>, Client>,
    scratch: &mut Client,
) -> Outcome {
    match &answer.finish {
        Finish::Merge(merging) => match merged(merging, fetch(&answer.fragments[0], groups)?)? {
            Some(replies) => Ok(replies),
            None => {
                let otherwise = answer.otherwise.as_ref().expect("another way");
                carry(otherwise, groups, scratch)
            }
        },
        Finish::Scratch(plan) => {
            let outcome = gathered(answer, plan, groups, scratch);
            for part in &plan.tables {
                scratch.run(&part.drop);
            }
            outcome
        }
    }
}

fn fetch(
    fragment: &Fragment,
    groups: &mut BTreeMap<Arc<str>, Client>,
) -> Result<Vec<Rows>, Failure> {
    let wanted = if fragment.any {
        1
    } else {
        fragment.groups.len()
    };
    let mut found = Vec::new();
    for group in fragment.groups.iter().rev().take(wanted) {
        let client = groups.get_mut(group).expect("a group of the farm");
        found.push(rows_of(client.query(&fragment.text))?);
    }
    Ok(found)
}

fn bytes(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::Bytes(bytes) => Some(bytes.clone()),
        other => panic!("{other:?} in the text protocol"),
    }
}

/// An error of Heddle's own.
pub fn refused(why: &str) -> Failure {
    Failure::Server {
        number: 1,
        sqlstate: "HY000".to_owned(),
        message: why.to_owned(),
    }
}

/// `None` when a list is too long.
fn merged(merging: &Merging, results: Vec<Rows>) -> Result<Option<Vec<Reply>>, Failure> {
    let mut columns = results[0].columns.clone();
    let plan = merging
        .plan(columns.len())
        .expect("as many columns as planned");
    columns.truncate(plan.visible);
    let mut merge = Merge::new(plan, results.len());
    let mut sources: Vec<_> = results.iter().map(|it| it.rows.iter()).collect();
    let mut rows = Vec::new();
    loop {
        match merge.step().map_err(|odd| refused(&odd.0))? {
            Next::Needs(shard) => {
                let row = sources[shard].next();
                let row: Option<Row> = row.map(|row| row.iter().map(bytes).collect());
                merge.take(shard, row).expect("a whole row");
            }
            Next::Row(row) => {
                let value = |value: Option<Vec<u8>>| value.map_or(Value::Null, Value::Bytes);
                rows.push(row.into_iter().map(value).collect());
            }
            Next::End => break,
            Next::TooLong => return Ok(None),
        }
    }
    Ok(Some(vec![Reply::Rows(Rows {
        columns,
        rows,
        status: results[0].status,
        warnings: 0,
    })]))
}

fn gathered(
    answer: &Answer,
    plan: &Scratch,
    groups: &mut BTreeMap<Arc<str>, Client>,
    scratch: &mut Client,
) -> Outcome {
    filling(scratch, |scratch| fill_all(answer, plan, groups, scratch))?;
    scratch.query(&plan.text)
}

/// Values are stored as they are meanwhile.
fn filling(
    client: &mut Client,
    fill: impl FnOnce(&mut Client) -> Result<(), Failure>,
) -> Result<(), Failure> {
    client.run(
        "SET @saved = @@sql_mode, sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', \
              time_zone = '+00:00'",
    );
    let filled = fill(client);
    client.run("SET sql_mode = @saved, time_zone = DEFAULT");
    filled
}

fn fill_all(
    answer: &Answer,
    plan: &Scratch,
    groups: &mut BTreeMap<Arc<str>, Client>,
    scratch: &mut Client,
) -> Result<(), Failure> {
    let mut filled = Vec::new();
    for &at in &plan.order {
        scratch.query(&plan.tables[at].create)?;
        if let Some(conditions) = conditions(plan, at, &filled, scratch) {
            let fragment = Fragment {
                text: plan.reduced[at].text(&answer.fragments[at].text, &conditions),
                ..answer.fragments[at].clone()
            };
            let results = fetch(&fragment, groups)?;
            fill(&plan.tables[at], &results, scratch)?;
        }
        filled.push(at);
    }
    Ok(())
}

/// What leaves rows out of a table; `None` when no row is left.
fn conditions(
    plan: &Scratch,
    at: usize,
    filled: &[usize],
    scratch: &mut Client,
) -> Option<Vec<String>> {
    let mut conditions = Vec::new();
    for one in &plan.reduced[at].by {
        if !filled.contains(&one.by) {
            conditions.extend(one.there.clone());
            continue;
        }
        let (column, table) = (&one.from, &plan.tables[one.by].name);
        let value = match one.passed {
            Passed::Text(_) => format!("HEX(CAST({column} AS BINARY))"),
            _ => column.clone(),
        };
        let rows = scratch.rows(&format!(
            "SELECT DISTINCT {value} FROM {table} WHERE {column} IS NOT NULL"
        ));
        let written = rows.iter().map(|row| {
            let value = row[0].as_deref().expect("none is NULL");
            match &one.passed {
                Passed::Number => value.to_owned(),
                Passed::Date => format!("'{value}'"),
                Passed::Text(charset) => format!("_{charset} x'{value}'"),
            }
        });
        let list: Vec<String> = written.collect();
        match &one.there {
            _ if list.is_empty() => return None,
            Some(there) if list.len().is_multiple_of(2) => conditions.push(there.clone()),
            _ => conditions.push(format!("{} IN ({})", one.to, list.join(", "))),
        }
    }
    Some(conditions)
}

fn fill(part: &Part, results: &[Rows], scratch: &mut Client) -> Result<(), Failure> {
    let rows = results.iter().flat_map(|it| &it.rows);
    if let Some(load) = part
        .load
        .as_ref()
        .filter(|_| !rows.clone().count().is_multiple_of(2))
    {
        return read_file(part, load, rows.map(|row| &row[..]), scratch);
    }
    let mut tuples = rows.map(|row| {
        let values = row.iter().zip(&part.columns);
        let values: Vec<String> = values.map(|(value, how)| written(value, how)).collect();
        format!("({})", values.join(", "))
    });
    loop {
        let some: Vec<String> = tuples.by_ref().take(50).collect();
        if some.is_empty() {
            return Ok(());
        }
        let text = format!("INSERT INTO {} VALUES {}", part.into, some.join(", "));
        let done = scratch.query(&text)?;
        if let [Reply::Done(done)] = &done[..] {
            let warnings = scratch.rows("SHOW WARNINGS");
            assert_eq!(done.warnings, 0, "{text}\n{warnings:?}");
        }
    }
}

/// The rows as a file, which the server must store as it is.
fn read_file<'r>(
    part: &Part,
    load: &Load,
    rows: impl Iterator<Item = &'r [Value]>,
    scratch: &mut Client,
) -> Result<(), Failure> {
    let (mut file, mut sent) = (Vec::new(), 0);
    for row in rows {
        for (at, (value, how)) in row.iter().zip(&part.columns).enumerate() {
            if at > 0 {
                file.push(FIELD_END);
            }
            put_field(&mut file, how, bytes(value).as_deref());
        }
        file.push(ROW_END);
        sent += 1;
    }
    let shown = String::from_utf8_lossy(&file).into_owned();
    scratch.files.push_back(vec![file]);
    let done = scratch.query(&load.text)?;
    if let [Reply::Done(done)] = &done[..] {
        let warnings = scratch.rows("SHOW WARNINGS");
        let stored = (done.affected_rows, done.warnings);
        assert_eq!(stored, (sent, 0), "{}\n{shown}\n{warnings:?}", load.text);
    }
    if let Some(forget) = &load.forget {
        scratch.run(forget);
    }
    Ok(())
}

fn written(value: &Value, how: &Written) -> String {
    let Some(bytes) = bytes(value) else {
        return "NULL".to_owned();
    };
    let text = || String::from_utf8_lossy(&bytes).into_owned();
    let hex = || {
        let mut text = String::from("x'");
        for byte in &bytes {
            let _ = write!(text, "{byte:02x}");
        }
        text + "'"
    };
    match how {
        Written::Plain => text(),
        Written::Quoted | Written::Hex => hex(),
        Written::Text(charset) => format!("_{charset} {}", hex()),
        Written::Seconds if bytes.iter().all(|byte| matches!(byte, b'0' | b'.')) => {
            "'0000-00-00 00:00:00'".to_owned()
        }
        Written::Seconds => format!("FROM_UNIXTIME({})", text()),
    }
}
