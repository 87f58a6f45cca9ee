//! Commands that show what was counted of statements, by digest.

use std::cmp::Reverse;

use farm::Access;
use serde_json::Value;
use statistics::{Histogram, Row};

use crate::background::Background;
use crate::sessions::Sessions;
use catalog::command::{Arguments, CommandError, Table};
use catalog::event::{epoch_ms, when};

/// Rows that are shown unless somebody wants another number.
const LIMIT: usize = 50;

/// Of so many rows the plan is shown at once: each may wait for a server.
const PLANS_MAX: usize = 4;

/// Minutes are kept for a day.
const SINCE_MINUTES_MAX: u64 = 24 * 60;

/// What `digest list` and `digest show` have in common.
const COLUMNS: [&str; 23] = [
    "digest",
    "text",
    "tag",
    "database",
    "user",
    "group",
    "calls",
    "errors",
    "rows_sent",
    "rows_changed",
    "bytes",
    "first_seen",
    "last_seen",
    "time_ms_sum",
    "time_ms_p50",
    "time_ms_p99",
    "time_ms_max",
    "wait_ms_sum",
    "wait_ms_p99",
    "server_ms_p50",
    "server_ms_p99",
    "rows_read",
    "bytes_read",
];

/// The command whose rows have the columns.
pub(crate) const LIST: (&str, &str) = ("digest", "list");

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Time,
    Mean,
    Calls,
    Errors,
    Rows,
    Last,
}

impl Order {
    const NAMES: &str = "time, mean, calls, errors, rows or last";

    fn of(args: &Arguments) -> Result<Order, CommandError> {
        Ok(match args.get("order") {
            None | Some("time") => Order::Time,
            Some("mean") => Order::Mean,
            Some("calls") => Order::Calls,
            Some("errors") => Order::Errors,
            Some("rows") => Order::Rows,
            Some("last") => Order::Last,
            Some(other) => return Err(args.bad("order", other, Order::NAMES)),
        })
    }

    fn key(self, row: &Row) -> u64 {
        let counts = &row.counts;
        match self {
            Order::Time => counts.total_us,
            Order::Mean => counts.total_us / counts.calls.max(1),
            Order::Calls => counts.calls,
            Order::Errors => counts.failed(),
            Order::Rows => counts.rows_sent + counts.rows_changed,
            Order::Last => counts.last_ms,
        }
    }
}

/// `digest list`.
pub(super) async fn list(background: &Background, args: &Arguments) -> Result<Table, CommandError> {
    let order = Order::of(args)?;
    let limit = args.parse::<usize>("limit", "a number of rows, 0 for all")?;
    let limit = match limit.unwrap_or(LIMIT) {
        0 => usize::MAX,
        limit => limit,
    };
    let since_ms = since(args)?;
    let texts = args.access() == Access::Admin;
    background
        .in_turn(move |sessions| {
            let mut rows = sessions.digests(since_ms);
            rows.sort_by_cached_key(|row| Reverse(order.key(row)));
            rows.truncate(limit);
            let mut table = Table::new(&COLUMNS);
            table.rows = rows.iter().map(|row| cells(row, texts)).collect();
            table
        })
        .await
}

/// From when on is asked for, in milliseconds since 1970.
fn since(args: &Arguments) -> Result<Option<u64>, CommandError> {
    let Some(text) = args.get("since") else {
        return Ok(None);
    };
    let split = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let minutes = match unit {
        "m" => Some(1),
        "h" => Some(60),
        "d" => Some(24 * 60),
        _ => None,
    };
    let minutes = minutes.and_then(|unit| number.parse::<u64>().ok()?.checked_mul(unit));
    let minutes = minutes.filter(|minutes| (1..=SINCE_MINUTES_MAX).contains(minutes));
    let minutes = minutes.ok_or_else(|| args.bad("since", text, "15m, 6h or 1d, for example"))?;
    Ok(Some(epoch_ms().saturating_sub(minutes * 60_000)))
}

/// `digest show`.
pub(super) async fn show(background: &Background, args: &Arguments) -> Result<Table, CommandError> {
    let wanted = args.text("digest").to_ascii_lowercase();
    if !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let what = "hexadecimal digits from `digest list`";
        return Err(args.bad("digest", &wanted, what));
    }
    let with_plan = args.switch("plan")?;
    let look = move |sessions: &dyn Sessions| {
        let columns = ["example", "errors_by_number", "times", "waits", "served"];
        let mut table = Table::new(&COLUMNS);
        table.columns.extend(columns.map(Into::into));
        table.columns.extend(with_plan.then(|| "plan".into()));
        let mut left = PLANS_MAX;
        for row in sessions.digests(None) {
            if !row.digest.to_string().starts_with(&wanted) {
                continue;
            }
            let counts = &row.counts;
            let mut shown = cells(&row, true);
            shown.extend([
                row.example.as_deref().into(),
                by_number(&row).into(),
                spread(&counts.times).into(),
                spread(&counts.waits).into(),
                spread(&counts.served).into(),
            ]);
            shown.extend(with_plan.then(|| plan(sessions, &row, &mut left).into()));
            table.rows.push(shown);
        }
        table
    };
    match with_plan {
        // To wait for a server holds up nobody else's list.
        true => background.aside(look).await,
        false => background.in_turn(look).await,
    }
}

/// The plan of a row's example, or why there is none.
fn plan(sessions: &dyn Sessions, row: &Row, left: &mut usize) -> String {
    if *left == 0 {
        return format!("not asked for: so many as {PLANS_MAX} rows are explained at once");
    }
    *left -= 1;
    match sessions.plan(row) {
        Ok(lines) => lines.join("\n"),
        Err(why) => format!("not known: {why}"),
    }
}

/// `digest reset`.
pub(super) async fn reset(background: &Background) -> Result<Table, CommandError> {
    background
        .in_turn(|sessions| {
            let mut table = Table::new(&["rows"]);
            table.rows.push(vec![sessions.reset_digests().into()]);
            table
        })
        .await
}

/// A row in [`COLUMNS`].
fn cells(row: &Row, texts: bool) -> Vec<Value> {
    let lossy = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes));
    let counts = &row.counts;
    let ms = |us: u64| Value::from(rounded(us as f64 / 1000.0));
    let at = |times: &Histogram, part: f64| {
        let us = times.quantile_us(part);
        us.map_or(Value::Null, |us| {
            rounded(us.min(counts.most_us as f64) / 1000.0).into()
        })
    };
    vec![
        row.digest.to_string().into(),
        texts.then_some(&*row.text).into(),
        (*row.tag).into(),
        lossy(&row.database),
        lossy(&row.user),
        (*row.group).into(),
        counts.calls.into(),
        counts.failed().into(),
        counts.rows_sent.into(),
        counts.rows_changed.into(),
        counts.bytes.into(),
        when(counts.first_ms).into(),
        when(counts.last_ms).into(),
        ms(counts.total_us),
        at(&counts.times, 0.5),
        at(&counts.times, 0.99),
        ms(counts.most_us),
        ms(counts.waiting_us),
        at(&counts.waits, 0.99),
        at(&counts.served, 0.5),
        at(&counts.served, 0.99),
        counts.rows_read.into(),
        counts.bytes_read.into(),
    ]
}

/// To a microsecond.
fn rounded(ms: f64) -> f64 {
    (ms * 1000.0).round() / 1000.0
}

/// `1062:3, 1213:1`.
fn by_number(row: &Row) -> String {
    let known = row.counts.errors.iter();
    let mut all: Vec<String> = known
        .map(|(number, count)| format!("{number}:{count}"))
        .collect();
    if row.counts.other_errors > 0 {
        all.push(format!("other:{}", row.counts.other_errors));
    }
    all.join(", ")
}

/// `96us:5, 128us:2`: how many took less than so long, and not less than the one before.
fn spread(times: &Histogram) -> String {
    let all: Vec<String> = times
        .filled()
        .map(|(us, count)| format!("{us}us:{count}"))
        .collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::{Call, Counts};

    fn row() -> Row {
        let mut counts = Counts::default();
        for (server_us, error) in [(100, None), (3000, Some(1062)), (3000, Some(1062))] {
            counts.add(&Call {
                error,
                server_us,
                waiting_us: 50,
                at_ms: 1_770_000_000_000,
                ..Call::default()
            });
        }
        Row {
            digest: sqltext::Digest::of_normal("SELECT ?"),
            database: b"d\xff"[..].into(),
            user: b"u"[..].into(),
            group: "g1".into(),
            tag: "main.php".into(),
            text: "SELECT ?".into(),
            example: None,
            counts,
        }
    }

    #[test]
    fn texts_are_for_admins() {
        let row = row();
        let text = |texts: bool| cells(&row, texts)[1].clone();
        assert_eq!(
            (text(true), text(false)),
            (Value::from("SELECT ?"), Value::Null)
        );
        assert_eq!(cells(&row, true).len(), COLUMNS.len());
        assert_eq!(cells(&row, true)[3], "d\u{fffd}");
    }

    #[test]
    fn times_are_in_milliseconds_and_no_quantile_is_above_the_longest() {
        let row = row();
        let cells = cells(&row, false);
        let at = |name: &str| {
            let place = COLUMNS.iter().position(|column| *column == name);
            cells[place.expect("a column")].clone()
        };
        assert_eq!(at("time_ms_sum"), 6.25);
        assert_eq!(at("time_ms_max"), 3.05);
        assert_eq!(at("wait_ms_sum"), 0.15);
        assert_eq!(at("time_ms_p99"), 3.05);
        assert_eq!(at("errors"), 2);
        assert_eq!(at("first_seen"), "2026-02-02T02:40:00.000Z");
        assert_eq!(by_number(&row), "1062:2");
        assert_eq!(spread(&row.counts.served), "128us:1, 3072us:2");
    }
}
