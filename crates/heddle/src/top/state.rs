//! What `heddle top` shows and asks, decided from keys and answers. No clock, no terminal, no network.
//!
//! Invariants: nothing is ended without a question that was answered with `y`; while it is paused no answer changes what
//! is shown; the row that is chosen stays chosen when rows come and go, as long as it is there.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::columns::{self, Column};

/// What can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    Overview,
    Groups,
    Digests,
    Sessions,
    Shards,
    Events,
}

impl View {
    pub const ALL: [View; 6] = [
        View::Overview,
        View::Groups,
        View::Digests,
        View::Sessions,
        View::Shards,
        View::Events,
    ];

    pub fn name(self) -> &'static str {
        match self {
            View::Overview => "overview",
            View::Groups => "groups",
            View::Digests => "digests",
            View::Sessions => "sessions",
            View::Shards => "shards",
            View::Events => "events",
        }
    }

    pub fn columns(self) -> &'static [Column] {
        match self {
            View::Overview => columns::GROUPS,
            View::Groups => columns::SERVERS,
            View::Digests => columns::DIGESTS,
            View::Sessions => columns::SESSIONS,
            View::Shards => columns::SHARDS,
            View::Events => columns::EVENTS,
        }
    }

    /// The command whose rows it shows; none where the picture has them.
    pub fn command(self) -> Option<(&'static str, &'static str)> {
        match self {
            View::Digests => Some(("digest", "list")),
            View::Sessions => Some(("session", "list")),
            View::Shards => Some(("sharding", "list_shards")),
            View::Overview | View::Groups | View::Events => None,
        }
    }

    /// Which column rows are sorted by at first, and whether the greatest comes first.
    fn order(self) -> (usize, bool) {
        match self {
            // As they come: the worst first, the latest first.
            View::Overview | View::Events => (usize::MAX, false),
            View::Groups => (0, false),
            View::Digests => (3, true),
            View::Sessions => (5, true),
            View::Shards => (0, false),
        }
    }
}

/// A key, as far as it means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Left,
    Right,
    Enter,
    Esc,
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// What comes in.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    Key(Key),
    /// Of `GET /v1/live`.
    Picture(Result<Value, String>),
    /// Of the view's command.
    Rows(View, Result<Vec<Value>, String>),
    /// What became of a session that was to be ended.
    Killed(Result<String, String>),
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    Quit,
    /// The rows of this view from now on, if it has a command.
    Ask(View),
    Kill {
        id: u64,
        query: bool,
    },
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub id: u64,
    pub query: bool,
    pub who: String,
}

/// Everything that is shown.
#[derive(Debug)]
pub struct Top {
    pub view: View,
    pub picture: Value,
    pub access: String,
    rows: BTreeMap<View, Vec<Value>>,
    orders: BTreeMap<View, (usize, bool)>,
    pub filter: String,
    /// A filter is being typed.
    pub types: bool,
    pub paused: bool,
    pub helps: bool,
    pub question: Option<Question>,
    /// The last word about what was done or went wrong.
    pub note: String,
    /// Why the router does not answer; empty while it does.
    pub silence: String,
    pub chosen: usize,
    /// Rows that fit, as the screen said last.
    pub page: usize,
}

impl Top {
    pub fn new() -> Top {
        Top {
            view: View::Overview,
            picture: Value::Null,
            access: String::new(),
            rows: BTreeMap::new(),
            orders: BTreeMap::new(),
            filter: String::new(),
            types: false,
            paused: false,
            helps: false,
            question: None,
            note: String::new(),
            silence: String::new(),
            chosen: 0,
            page: 10,
        }
    }

    /// Takes what came, and says what is to be done.
    pub fn step(&mut self, input: Input) -> Option<Wish> {
        match input {
            Input::Key(key) => return self.key(key),
            Input::Picture(_) | Input::Rows(..) if self.paused => {}
            Input::Picture(Ok(answer)) => {
                self.silence.clear();
                self.access = columns::plain(&answer["access"]);
                let picture = answer["picture"].clone();
                self.keeping(|top| top.picture = picture);
            }
            Input::Picture(Err(why)) => self.silence = why,
            Input::Rows(view, Ok(rows)) => {
                if view == self.view {
                    self.note.clear();
                }
                self.keeping(|top| drop(top.rows.insert(view, rows)));
            }
            Input::Rows(view, Err(why)) if view == self.view => self.note = why,
            Input::Rows(..) => {}
            Input::Killed(Ok(what)) => {
                self.note = what;
                return Some(Wish::Ask(View::Sessions));
            }
            Input::Killed(Err(why)) => self.note = why,
        }
        None
    }

    /// Changes something, and keeps the chosen row where that is.
    fn keeping(&mut self, change: impl FnOnce(&mut Top)) {
        let name = |row: &Value| row_name(row);
        let before = self.shown().get(self.chosen).map(name);
        change(self);
        let shown = self.shown();
        let last = shown.len().saturating_sub(1);
        let place = before.and_then(|before| shown.iter().position(|row| name(row) == before));
        self.chosen = place.unwrap_or(self.chosen).min(last);
    }

    fn key(&mut self, key: Key) -> Option<Wish> {
        if key == Key::Interrupt {
            return Some(Wish::Quit);
        }
        if let Some(question) = self.question.take() {
            return self.answer(question, key);
        }
        if self.types {
            self.typed(key);
            return None;
        }
        if self.helps {
            self.helps = false;
            return None;
        }
        match key {
            Key::Char('q') => return Some(Wish::Quit),
            Key::Char('?') | Key::Char('h') => self.helps = true,
            Key::Char('/') => self.types = true,
            Key::Char('p') | Key::Char(' ') => self.paused = !self.paused,
            Key::Char('r') => self.turn(),
            Key::Char('<') | Key::Left => self.sort(-1),
            Key::Char('>') | Key::Right => self.sort(1),
            Key::Char('k') => self.ask_to_kill(false),
            Key::Char('c') => self.ask_to_kill(true),
            Key::Char(digit) if digit.is_ascii_digit() => {
                let place = (digit as usize).wrapping_sub('1' as usize);
                return View::ALL.get(place).and_then(|view| self.go(*view));
            }
            Key::Esc => self.filter.clear(),
            Key::Up => self.chosen = self.chosen.saturating_sub(1),
            Key::Down => self.move_down(1),
            Key::PageUp => self.chosen = self.chosen.saturating_sub(self.page),
            Key::PageDown => self.move_down(self.page),
            Key::Home => self.chosen = 0,
            Key::End => self.move_down(usize::MAX),
            _ => {}
        }
        None
    }

    fn go(&mut self, view: View) -> Option<Wish> {
        if view == self.view {
            return None;
        }
        self.view = view;
        self.chosen = 0;
        self.filter.clear();
        self.note.clear();
        Some(Wish::Ask(view))
    }

    fn typed(&mut self, key: Key) {
        match key {
            Key::Char(c) => self.filter.push(c),
            Key::Backspace => drop(self.filter.pop()),
            Key::Enter => self.types = false,
            Key::Esc => {
                self.filter.clear();
                self.types = false;
            }
            _ => {}
        }
        self.chosen = 0;
    }

    fn move_down(&mut self, rows: usize) {
        let last = self.shown().len().saturating_sub(1);
        self.chosen = self.chosen.saturating_add(rows).min(last);
    }

    /// By which column rows are sorted, and whether the greatest comes first.
    pub fn order(&self) -> (usize, bool) {
        let chosen = self.orders.get(&self.view).copied();
        chosen.unwrap_or_else(|| self.view.order())
    }

    fn turn(&mut self) {
        let (column, descending) = self.order();
        self.orders.insert(self.view, (column, !descending));
    }

    /// Sorts by the column beside.
    fn sort(&mut self, by: isize) {
        let columns = self.view.columns();
        let next = match self.order().0 {
            usize::MAX => 0,
            column => {
                let next = column as isize + by;
                next.rem_euclid(columns.len() as isize) as usize
            }
        };
        self.orders
            .insert(self.view, (next, columns[next].is_number()));
    }

    fn ask_to_kill(&mut self, query: bool) {
        if self.view != View::Sessions {
            self.note = "only sessions can be ended: press 4".to_owned();
            return;
        }
        let shown = self.shown();
        let Some(row) = shown.get(self.chosen) else {
            return;
        };
        let Some(id) = row["id"].as_u64() else {
            self.note = "this row is no session".to_owned();
            return;
        };
        let who = format!(
            "{} from {}, {}",
            columns::plain(&row["user"]),
            columns::plain(&row["client"]),
            columns::plain(&row["command"])
        );
        self.question = Some(Question { id, query, who });
    }

    fn answer(&mut self, question: Question, key: Key) -> Option<Wish> {
        if !matches!(key, Key::Char('y') | Key::Char('Y')) {
            self.note = "nothing was ended".to_owned();
            return None;
        }
        let Question { id, query, .. } = question;
        Some(Wish::Kill { id, query })
    }

    /// The rows of the view, filtered and sorted.
    pub fn shown(&self) -> Vec<Value> {
        let mut rows = match self.view {
            View::Overview => groups(&self.picture),
            View::Groups => servers(&self.picture),
            View::Events => events(&self.picture),
            view => self.rows.get(&view).cloned().unwrap_or_default(),
        };
        let columns = self.view.columns();
        if !self.filter.is_empty() {
            let wanted = self.filter.to_lowercase();
            let has = |row: &Value, column: &Column| {
                columns::plain(&row[column.field])
                    .to_lowercase()
                    .contains(&wanted)
            };
            rows.retain(|row| columns.iter().any(|column| has(row, column)));
        }
        let (column, descending) = self.order();
        match columns.get(column) {
            Some(column) => {
                rows.sort_by(|a, b| match descending {
                    true => column.compare(b, a),
                    false => column.compare(a, b),
                });
            }
            None if descending => rows.reverse(),
            None => {}
        }
        rows
    }
}

/// What tells a row from others.
fn row_name(row: &Value) -> String {
    let fields = [
        "name", "address", "id", "digest", "tag", "user", "group", "shard_id", "router", "key",
    ];
    let all = fields.map(|field| columns::plain(&row[field]));
    all.join("\n")
}

fn entries<'a>(picture: &'a Value, part: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    picture[part].as_object().into_iter().flatten()
}

/// What is worst comes first.
fn rank(severity: &Value) -> u8 {
    match severity.as_str() {
        Some("down") => 0,
        Some("hurt") => 1,
        _ => 2,
    }
}

/// The groups of a picture as rows, the worst first.
pub fn groups(picture: &Value) -> Vec<Value> {
    let mut rows: Vec<Value> = entries(picture, "groups")
        .map(|(name, group)| {
            let own = entries(picture, "servers").filter(|(_, server)| server["group"] == **name);
            let own: Vec<(&String, &Value)> = own.collect();
            let well = own
                .iter()
                .filter(|(_, it)| it["severity"] == "well")
                .count();
            let late = own.iter().filter_map(|(_, it)| it["lag_ms"].as_f64());
            let primary = own.iter().find(|(uuid, _)| group["primary"] == ***uuid);
            let why = group["why"]
                .as_array()
                .into_iter()
                .flatten()
                .map(columns::plain);
            let state = match group["severity"].as_str() {
                Some("down") => "■ takes no writes",
                Some("hurt") => "▲ takes writes, hurt",
                _ => "● takes writes",
            };
            json!({
                "name": name,
                "severity": group["severity"],
                "state": state,
                "primary": primary.map_or(Value::Null, |(_, it)| it["name"].clone()),
                "servers": format!("{well}/{}", own.len()),
                "lag_ms": late.reduce(f64::max),
                "why": why.collect::<Vec<_>>().join("; "),
            })
        })
        .collect();
    rows.sort_by_key(|row| rank(&row["severity"]));
    rows
}

fn servers(picture: &Value) -> Vec<Value> {
    entries(picture, "servers")
        .map(|(_, server)| server.clone())
        .collect()
}

/// The latest first.
fn events(picture: &Value) -> Vec<Value> {
    let mut rows: Vec<(u64, Value)> = entries(picture, "events")
        .map(|(key, event)| {
            let mut row = event.clone();
            let at_ms = event["at_ms"].as_u64().unwrap_or_default();
            row["key"] = key.as_str().into();
            row["when"] = catalog::event::when(at_ms).into();
            (at_ms, row)
        })
        .collect();
    rows.sort_by_key(|(at_ms, _)| std::cmp::Reverse(*at_ms));
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The last sample of what the router serves; null while there is none.
pub fn traffic(picture: &Value) -> Value {
    samples(picture)
        .pop()
        .map_or(Value::Null, |(_, sample)| sample)
}

/// All samples, the oldest first.
pub fn samples(picture: &Value) -> Vec<(u64, Value)> {
    let all = entries(picture, "traffic");
    let all = all.filter_map(|(at, sample)| Some((at.parse().ok()?, sample.clone())));
    let mut all: Vec<(u64, Value)> = all.collect();
    all.sort_by_key(|(at, _)| *at);
    all
}

/// The worst of the farm, in one line; and how bad it is.
pub fn verdict(picture: &Value) -> (&'static str, String) {
    let rows = groups(picture);
    let named = |severity: &str| {
        let of = rows.iter().filter(|row| row["severity"] == severity);
        of.map(|row| columns::plain(&row["name"]))
            .collect::<Vec<_>>()
    };
    let (down, hurt) = (named("down"), named("hurt"));
    let silent = picture["farm"]["store_silent_s"]
        .as_u64()
        .unwrap_or_default();
    if silent > 0 {
        return (
            "down",
            format!("the state store has not answered for {silent} s"),
        );
    }
    match (rows.len(), down.len(), hurt.len()) {
        (0, ..) => ("hurt", "the farm has no group yet".to_owned()),
        (1, 0, 0) => {
            let name = columns::plain(&rows[0]["name"]);
            (
                "well",
                format!("group {name} takes writes, all its servers are well"),
            )
        }
        (_, 0, 0) => (
            "well",
            format!(
                "all {} groups take writes, all servers are well",
                rows.len()
            ),
        ),
        (_, 0, _) => (
            "hurt",
            format!("all groups take writes; hurt: {}", hurt.join(", ")),
        ),
        (_, _, 0) => ("down", format!("no writes: {}", down.join(", "))),
        _ => (
            "down",
            format!("no writes: {}; hurt: {}", down.join(", "), hurt.join(", ")),
        ),
    }
}
