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

/// TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB.
const BLOBS: [u8; 4] = [249, 250, 251, 252];

/// TIMESTAMP, DATE, TIME, DATETIME.
const DATES: [u8; 4] = [7, 10, 11, 12];

/// The collation of what is no text.
const BINARY: u16 = 63;

/// Digits that floating point sums have in common, whatever the order they were summed in.
const DIGITS: usize = 9;

/// A value that its column's type cannot be made of.
const BAD_VALUE: u16 = 1366;

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
            // MariaDB and MySQL have other states for it; Heddle has one.
            let open = *number == BAD_VALUE;
            let alike = number == other_number && (sqlstate == other_state || open);
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
            info(done),
            done.status.contains(mysql_wire::status::Status::IN_TRANS)
        )
    };
    let (here, there) = (told(here), told(there));
    (here != there).then(|| format!("one server: {here}\nfarm:       {there}"))
}

/// Of an UPDATE that can change no row, by its condition or its LIMIT, a server may say nothing.
fn info(done: &Done) -> &str {
    match &*done.info {
        "Rows matched: 0  Changed: 0  Warnings: 0" => "",
        info => info,
    }
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
                // How long a text may be depends on the plan, too.
                kind if care == Care::Loose && BLOBS.contains(&kind) => BLOBS[0],
                kind => kind,
            };
            // Of texts a server says at times that they have none, at times that it does not know.
            let decimals = match TEXTS.contains(&column.kind) {
                true => 0,
                false => column.decimals,
            };
            // MySQL says of a date from a temporary table that it has the connection's character set.
            let collation = match care == Care::Loose && DATES.contains(&column.kind) {
                true => BINARY,
                false => column.collation,
            };
            let _ = write!(
                text,
                "{} type {kind} decimals {decimals} collation {collation} flags {flags}",
                column.name
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
    if !are_alike(step, &one, &farm) {
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

/// The same, but for the last digit of floating point numbers: it may be rounded either way.
fn are_alike(step: &Step, one: &[Vec<String>], farm: &[Vec<String>]) -> bool {
    let near = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= a.abs() * 2e-9,
        _ => false,
    };
    let cells = |a: &Vec<String>, b: &Vec<String>| {
        let mut cells = a.iter().zip(b).enumerate();
        a.len() == b.len()
            && cells.all(|(at, (a, b))| a == b || (step.about.contains(&at) && near(a, b)))
    };
    one.len() == farm.len() && one.iter().zip(farm).all(|(a, b)| cells(a, b))
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
