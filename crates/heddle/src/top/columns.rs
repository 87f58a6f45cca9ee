//! The tables of `heddle top`: which column shows which field of a row, and how.

use std::cmp::Ordering;

use serde_json::Value;

/// How a field is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    Text,
    /// The first digits of a digest.
    Short,
    Count,
    Ms,
    Bytes,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub title: &'static str,
    pub field: &'static str,
    /// In characters; 0 takes what is left.
    pub width: u16,
    pub show: Show,
}

const fn column(title: &'static str, field: &'static str, width: u16, show: Show) -> Column {
    Column {
        title,
        field,
        width,
        show,
    }
}

/// Groups, the worst first.
pub const GROUPS: &[Column] = &[
    column("group", "name", 10, Show::Text),
    column("state", "state", 20, Show::Text),
    column("primary", "primary", 12, Show::Text),
    column("servers", "servers", 8, Show::Text),
    column("lag", "lag_ms", 9, Show::Ms),
    column("why", "why", 0, Show::Text),
];

pub const SERVERS: &[Column] = &[
    column("group", "group", 8, Show::Text),
    column("server", "name", 10, Show::Text),
    column("address", "address", 21, Show::Text),
    column("status", "status", 8, Show::Text),
    column("lag", "lag_ms", 9, Show::Ms),
    column("version", "version", 15, Show::Text),
    column("state", "state", 0, Show::Text),
];

pub const DIGESTS: &[Column] = &[
    column("digest", "digest", 10, Show::Short),
    column("calls", "calls", 7, Show::Count),
    column("errors", "errors", 6, Show::Count),
    column("time", "time_ms_sum", 8, Show::Ms),
    column("p50", "time_ms_p50", 8, Show::Ms),
    column("p99", "time_ms_p99", 8, Show::Ms),
    column("longest", "time_ms_max", 8, Show::Ms),
    column("bytes", "bytes", 8, Show::Bytes),
    column("tag", "tag", 12, Show::Text),
    column("text", "text", 0, Show::Text),
];

pub const SESSIONS: &[Column] = &[
    column("id", "id", 8, Show::Text),
    column("user", "user", 10, Show::Text),
    column("client", "client", 21, Show::Text),
    column("database", "database", 10, Show::Text),
    column("command", "command", 8, Show::Text),
    column("for", "time_ms", 8, Show::Ms),
    column("server", "server", 21, Show::Text),
    column("kept for", "pins", 14, Show::Text),
    column("state", "state", 0, Show::Text),
];

pub const SHARDS: &[Column] = &[
    column("map", "mapping_id", 5, Show::Text),
    column("shard", "shard_id", 6, Show::Text),
    column("group", "group_id", 12, Show::Text),
    column("state", "state", 10, Show::Text),
    column("bound", "lower_bound", 0, Show::Text),
];

pub const EVENTS: &[Column] = &[
    column("when", "when", 24, Show::Text),
    column("event", "kind", 20, Show::Text),
    column("group", "group", 8, Show::Text),
    column("server", "address", 21, Show::Text),
    column("what", "detail", 0, Show::Text),
];

impl Column {
    /// Numbers stand at the right.
    pub fn is_number(&self) -> bool {
        matches!(self.show, Show::Count | Show::Ms | Show::Bytes)
    }

    /// The field as a text of one line, without characters that move a cursor or change a colour: statements and names
    /// come from anybody.
    pub fn text(&self, row: &Value) -> String {
        let value = &row[self.field];
        let number = value.as_f64();
        match (self.show, number) {
            (_, None) if value.is_null() => "-".to_owned(),
            (Show::Count, Some(number)) => count(number),
            (Show::Ms, Some(ms)) => duration(ms),
            (Show::Bytes, Some(bytes)) => in_bytes(bytes),
            (Show::Short, _) => plain(value).chars().take(10).collect(),
            _ => plain(value),
        }
    }

    /// The order of two rows by this column.
    pub fn compare(&self, a: &Value, b: &Value) -> Ordering {
        let (a, b) = (&a[self.field], &b[self.field]);
        match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (Some(_), None) => Ordering::Greater,
            (None, Some(_)) => Ordering::Less,
            (None, None) => plain(a).cmp(&plain(b)),
        }
    }
}

/// A value as printable characters.
pub fn plain(value: &Value) -> String {
    let text = match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let printable = |c: char| match c.is_control() || is_invisible(c) {
        true => ' ',
        false => c,
    };
    text.chars().map(printable).collect()
}

/// Marks that turn the direction of a text around, or have no width.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// 12345 is `12.3k`.
pub fn count(number: f64) -> String {
    match number.abs() {
        large if large >= 1e9 => format!("{:.1}G", number / 1e9),
        large if large >= 1e6 => format!("{:.1}M", number / 1e6),
        large if large >= 1e4 => format!("{:.1}k", number / 1e3),
        _ if number.fract() == 0.0 => format!("{number}"),
        _ => format!("{number:.1}"),
    }
}

/// Milliseconds as the unit that says most.
pub fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 10.0 => format!("{ms:.2}ms"),
        ms if ms < 1_000.0 => format!("{ms:.0}ms"),
        ms if ms < 60_000.0 => format!("{:.1}s", ms / 1e3),
        ms if ms < 3_600_000.0 => format!("{:.1}min", ms / 6e4),
        ms => format!("{:.1}h", ms / 3.6e6),
    }
}

fn in_bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e9 => format!("{:.1}GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1}MB", bytes / 1e6),
        bytes if bytes >= 1e3 => format!("{:.1}kB", bytes / 1e3),
        bytes => format!("{bytes}B"),
    }
}
