//! Carries out an answer in the dullest way: everything is fetched, then put together.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use planner::merge::{Merge, Next, Row};
use planner::{Answer, Finish, Fragment, Merging, Scratch, Written};
use testkit::client::{Client, Failure, Reply, Rows, Value};

use crate::outcome::Outcome;
use crate::spread::rows_of;

/// What the client would get.
pub fn carry(
    answer: &Answer,
    groups: &mut BTreeMap<Arc<str>, Client>,
    scratch: &mut Client,
) -> Outcome {
    let mut results = Vec::new();
    for fragment in &answer.fragments {
        results.push(fetch(fragment, groups)?);
    }
    match &answer.finish {
        Finish::Merge(merging) => merged(merging, results.remove(0)),
        Finish::Scratch(plan) => {
            let outcome = gathered(plan, results, scratch);
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

fn merged(merging: &Merging, results: Vec<Rows>) -> Outcome {
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
        }
    }
    Ok(vec![Reply::Rows(Rows {
        columns,
        rows,
        status: results[0].status,
        warnings: 0,
    })])
}

fn gathered(plan: &Scratch, results: Vec<Vec<Rows>>, scratch: &mut Client) -> Outcome {
    scratch
        .run("SET @saved = @@sql_mode, sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'");
    for (part, results) in plan.tables.iter().zip(results) {
        scratch.query(&part.create)?;
        let rows = results.iter().flat_map(|it| &it.rows);
        let mut tuples = rows.map(|row| {
            let values = row.iter().zip(&part.columns);
            let values: Vec<String> = values.map(|(value, how)| written(value, how)).collect();
            format!("({})", values.join(", "))
        });
        loop {
            let some: Vec<String> = tuples.by_ref().take(50).collect();
            if some.is_empty() {
                break;
            }
            let text = format!("INSERT INTO {} VALUES {}", part.into, some.join(", "));
            let done = scratch.query(&text)?;
            if let [Reply::Done(done)] = &done[..] {
                assert_eq!(
                    done.warnings,
                    0,
                    "{text}\n{:?}",
                    scratch.rows("SHOW WARNINGS")
                );
            }
        }
    }
    scratch.run("SET sql_mode = @saved, time_zone = DEFAULT");
    scratch.query(&plan.text)
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
