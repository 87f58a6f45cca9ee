//! What two sides answered to one statement, and whether that is the same.

use std::fmt::Write as _;

use testkit::client::{Column, Done, Failure, Reply, Rows, Value};

use crate::corpus::{Order, Step};

/// Rows of a difference that are shown.
const ROWS_SHOWN: usize = 6;

/// UNSIGNED belongs to a number's type.
const UNSIGNED: u16 = 32;

/// Blobs, VARCHAR, CHAR: the types of columns that hold texts.
const TEXTS: std::ops::RangeInclusive<u8> = 249..=254;

/// TINY, SHORT, LONG, LONGLONG, INT24.
const INTEGERS: [u8; 5] = [1, 2, 3, 8, 9];

/// Digits that floating point sums have in common, whatever the order they were summed in.
const DIGITS: usize = 9;

/// What a client got.
pub type Outcome = Result<Vec<Reply>, Failure>;

/// How much of the answers must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// As usual, but for the width of integers: of expressions it depends on the server's plan.
    Loose,
    /// Rows, their order, columns' names, types and decimals; numbers of rows changed; errors' numbers.
    Usual,
    /// Also lengths and all flags of columns, messages of errors, warnings of reads.
    All,
}

/// What differs in words, or `None`.
pub fn difference(step: &Step, care: Care, here: &Outcome, there: &Outcome) -> Option<String> {
    match (here, there) {
        (Ok(here), Ok(there)) => {
            if here.len() != there.len() {
                return Some(format!("{} results, then {}", here.len(), there.len()));
            }
            let mut pairs = here.iter().zip(there);
            pairs.find_map(|(here, there)| reply(step, care, here, there))
        }
        (Err(here), Err(there)) if same_failure(care, here, there) => None,
        _ => Some(format!(
            "one server: {}\nfarm:       {}",
            told(here),
            told(there)
        )),
    }
}

fn same_failure(care: Care, here: &Failure, there: &Failure) -> bool {
    match (here, there) {
        (
            Failure::Server {
                number,
                sqlstate,
                message,
            },
            Failure::Server {
                number: other_number,
                sqlstate: other_state,
                message: other_message,
            },
        ) => {
            let alike = number == other_number && sqlstate == other_state;
            alike && (care != Care::All || message == other_message)
        }
        _ => false,
    }
}

fn reply(step: &Step, care: Care, here: &Reply, there: &Reply) -> Option<String> {
    match (here, there) {
        (Reply::Done(here), Reply::Done(there)) => done(here, there),
        (Reply::Rows(here), Reply::Rows(there)) => {
            columns(care, &here.columns, &there.columns).or_else(|| rows(step, care, here, there))
        }
        _ => Some(format!("one server: {here:?}\nfarm:       {there:?}")),
    }
}

fn done(here: &Done, there: &Done) -> Option<String> {
    let told = |done: &Done| {
        format!(
            "{} rows, id {}, {} warnings, {:?}, transaction {}",
            done.affected_rows,
            done.last_insert_id,
            done.warnings,
            done.info,
            done.status.contains(mysql_wire::status::Status::IN_TRANS)
        )
    };
    let (here, there) = (told(here), told(there));
    (here != there).then(|| format!("one server: {here}\nfarm:       {there}"))
}

fn columns(care: Care, here: &[Column], there: &[Column]) -> Option<String> {
    let told = |columns: &[Column]| {
        let mut text = String::new();
        for column in columns {
            let flags = match care {
                Care::All => column.flags,
                _ if TEXTS.contains(&column.kind) => 0,
                _ => column.flags & UNSIGNED,
            };
            let kind = match column.kind {
                kind if care == Care::Loose && INTEGERS.contains(&kind) => INTEGERS[0],
                kind => kind,
            };
            // Of texts a server says at times that they have none, at times that it does not know.
            let decimals = match TEXTS.contains(&column.kind) {
                true => 0,
                false => column.decimals,
            };
            let _ = write!(
                text,
                "{} type {kind} decimals {decimals} collation {} flags {flags}",
                column.name, column.collation
            );
            if care == Care::All {
                let _ = write!(text, " length {} of {}", column.length, column.table);
            }
            text.push_str("; ");
        }
        text
    };
    let (here, there) = (told(here), told(there));
    (here != there)
        .then(|| format!("columns of one server: {here}\ncolumns of the farm:   {there}"))
}

fn rows(step: &Step, care: Care, here: &Rows, there: &Rows) -> Option<String> {
    let (mut one, mut farm) = (comparable(step, here), comparable(step, there));
    if let Order::By(columns) = &step.order {
        let by = |rows: &[Vec<String>]| -> Vec<Vec<String>> {
            let of = |row: &Vec<String>| columns.iter().map(|&at| row[at].clone()).collect();
            rows.iter().map(of).collect()
        };
        if by(&one) != by(&farm) {
            return Some(shown("in another order", &one, &farm));
        }
    }
    if step.order != Order::Total {
        one.sort();
        farm.sort();
    }
    if one != farm {
        return Some(shown("rows", &one, &farm));
    }
    let warnings = (here.warnings, there.warnings);
    (care == Care::All && warnings.0 != warnings.1)
        .then(|| format!("{} warnings, then {}", warnings.0, warnings.1))
}

/// The rows as text, without what is the server's to choose.
fn comparable(step: &Step, rows: &Rows) -> Vec<Vec<String>> {
    let value = |(at, value): (usize, &Value)| {
        if step.free.contains(&at) {
            return "(free)".to_owned();
        }
        let text = match value {
            Value::Null => return "NULL".to_owned(),
            Value::Bytes(bytes) => bytes.escape_ascii().to_string(),
            other => format!("{other:?}"),
        };
        let number = match value {
            Value::Double(number) => Some(*number),
            _ => text.parse::<f64>().ok(),
        };
        match number {
            Some(number) if step.about.contains(&at) => format!("{number:.DIGITS$e}"),
            _ => text,
        }
    };
    let row = |row: &Vec<Value>| row.iter().enumerate().map(value).collect();
    rows.rows.iter().map(row).collect()
}

fn shown(what: &str, one: &[Vec<String>], farm: &[Vec<String>]) -> String {
    let mut text = format!(
        "{what}: {} on one server, {} on the farm",
        one.len(),
        farm.len()
    );
    let first = one.iter().zip(farm).take_while(|(a, b)| a == b).count();
    for at in first..(first + ROWS_SHOWN).min(one.len().max(farm.len())) {
        let line = |rows: &[Vec<String>]| match rows.get(at) {
            Some(row) => row.join(" | "),
            None => "(none)".to_owned(),
        };
        let (one, farm) = (line(one), line(farm));
        if one != farm {
            let _ = write!(text, "\n  row {at} one:  {one}\n  row {at} farm: {farm}");
        }
    }
    text
}

/// An outcome in a line or a few.
pub fn told(outcome: &Outcome) -> String {
    match outcome {
        Err(failure) => failure.to_string(),
        Ok(replies) => {
            let one = |reply: &Reply| match reply {
                Reply::Done(done) => format!("OK, {} rows", done.affected_rows),
                Reply::Rows(rows) => format!("{} rows", rows.rows.len()),
            };
            replies.iter().map(one).collect::<Vec<_>>().join("; ")
        }
    }
}
