//! The checker: a copy of the farm that a consumer makes of the stream, and what cannot be true of it.
//!
//! Each row has its version, and the transaction that wrote it with the number of rows that this one wrote. So an event
//! that is lost, doubled or out of order does not fit the copy, and a transaction that is told in parts is seen.
//!
//! Invariants: no I/O, no clock; no event makes it panic.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;

use super::{BEACON, GLOBAL, GROUPS};

/// A row's values as texts, by column.
pub type Row = BTreeMap<String, String>;

/// Where a row is: its group, its table with the database, its key.
pub type Place = (String, String, String);

/// How a stream tells transactions over several groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Each group's part by itself.
    ByGroup,
    /// As one, in one order over all groups.
    InOrder,
    /// The same, to a consumer that has one place for each row, whichever group it moves to.
    AsOne,
}

/// A transaction that has begun.
#[derive(Clone, Debug)]
struct Unit {
    gtid: Value,
    rows: Vec<Value>,
    hasher: DefaultHasher,
}

/// What has been told of a client's transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Rows that it wrote, as each of them says.
    all: u64,
    told: u64,
    groups: BTreeSet<String>,
}

/// What a consumer has.
#[derive(Clone, Debug)]
pub struct Copy {
    told: Told,
    rows: BTreeMap<Place, Row>,
    open: Option<Unit>,
    seen: HashMap<u64, Seen>,
    /// What the transactions were, in their order; taken now and then. How many there were in all.
    units: Vec<u64>,
    count: usize,
    /// The least number in the table of beacons.
    beacon: u64,
}

impl Copy {
    /// Begins with the farm's rows.
    pub fn new(told: Told, farm: &BTreeMap<Place, Row>) -> Copy {
        let rows = match told {
            Told::AsOne => as_one(farm),
            _ => farm.clone(),
        };
        let mut copy = Copy {
            told,
            rows,
            open: None,
            seen: HashMap::new(),
            units: Vec::new(),
            count: 0,
            beacon: 0,
        };
        copy.look_for_beacon();
        copy
    }

    pub fn rows(&self) -> &BTreeMap<Place, Row> {
        &self.rows
    }

    /// How what it has differs from what the farm has; empty when it does not.
    pub fn difference(&self, farm: &BTreeMap<Place, Row>) -> String {
        match self.told {
            Told::AsOne => difference(&self.rows, &as_one(farm)),
            _ => difference(&self.rows, farm),
        }
    }

    /// Up to which beacon everything was told.
    pub fn beacon(&self) -> u64 {
        self.beacon
    }

    /// True within a transaction.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Forgets the transaction that has begun: it comes again.
    pub fn undo(&mut self) {
        self.open = None;
    }

    /// The transactions since they were taken last, each as a number that is the same for all who are told the same;
    /// and how many there were before them.
    pub fn units(&self) -> (usize, &[u64]) {
        (self.count - self.units.len(), &self.units)
    }

    pub fn take_units(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.units)
    }

    /// The clients' transactions since this was asked last; those that were not told whole are named in the second list.
    pub fn take_seen(&mut self) -> (BTreeSet<u64>, Vec<String>) {
        let seen = std::mem::take(&mut self.seen);
        let torn = seen.iter().filter(|(_, it)| it.told != it.all);
        let torn = torn.map(|(tx, it)| format!("transaction {tx} is told in part: {it:?}"));
        let torn = torn.collect();
        (seen.into_keys().collect(), torn)
    }

    /// Takes the next event of the stream.
    ///
    /// # Errors
    /// It cannot be true.
    pub fn take(&mut self, event: &Value) -> Result<(), String> {
        match event["event"].as_str().unwrap_or_default() {
            "begin" if self.open.is_some() => Err(format!("within a transaction: {event}")),
            "begin" => {
                let mut hasher = DefaultHasher::new();
                for part in ["group", "gtid", "groups", "xid"] {
                    event[part].to_string().hash(&mut hasher);
                }
                let gtid = event["gtid"].clone();
                let rows = Vec::new();
                self.open = Some(Unit { gtid, rows, hasher });
                Ok(())
            }
            "row" => {
                let open = self.open.as_mut();
                let open = open.ok_or_else(|| format!("outside of a transaction: {event}"))?;
                for part in [
                    "group", "database", "table", "kind", "key", "before", "after",
                ] {
                    event[part].to_string().hash(&mut open.hasher);
                }
                open.rows.push(event.clone());
                Ok(())
            }
            "commit" => {
                let open = self.open.take();
                let open = open.ok_or_else(|| format!("outside of a transaction: {event}"))?;
                if open.gtid != event["gtid"] {
                    return Err(format!("{} ends as {event}", open.gtid));
                }
                self.end(&open)
            }
            "gap" | "undone" | "error" => Err(event.to_string()),
            _ => Ok(()),
        }
    }

    /// Applies a transaction.
    fn end(&mut self, unit: &Unit) -> Result<(), String> {
        let mut has_beacon = false;
        for event in &unit.rows {
            if self.has_place(event) {
                self.change(event)?;
            }
            has_beacon |= table_of(event) == BEACON;
        }
        self.count(unit)?;
        self.units.push(unit.hasher.finish());
        self.count += 1;
        if has_beacon {
            self.look_for_beacon();
        }
        Ok(())
    }

    /// False for what a consumer with one place for each row passes over: what moves do, and a global table's other copies.
    fn has_place(&self, event: &Value) -> bool {
        let is_copy = table_of(event) == GLOBAL && event["group"] != GROUPS[0];
        self.told != Told::AsOne || !(is_of_move(event) || is_copy)
    }

    /// One row becomes another. What it was has to be what this has.
    fn change(&mut self, event: &Value) -> Result<(), String> {
        let (before, after) = (image(&event["before"]), image(&event["after"]));
        let keys: Vec<&String> = event["key"]
            .as_object()
            .map(|it| it.keys().collect())
            .unwrap_or_default();
        let group = match self.told {
            Told::AsOne => "",
            _ => event["group"].as_str().unwrap_or_default(),
        };
        let table = (group.to_owned(), table_of(event));
        let place = |row: &Row| {
            let values = keys.iter().filter_map(|name| row.get(*name));
            let values: Vec<&str> = values.map(String::as_str).collect();
            (table.0.clone(), table.1.clone(), values.join(","))
        };
        if let Some(before) = before {
            let had = self.rows.remove(&place(&before));
            if had.as_ref() != Some(&before) {
                return Err(format!("there was {had:?} for {event}"));
            }
        }
        if let Some(after) = after
            && let Some(had) = self.rows.insert(place(&after), after)
        {
            return Err(format!("there was {had:?} already for {event}"));
        }
        Ok(())
    }

    /// Counts what clients' transactions wrote.
    fn count(&mut self, unit: &Unit) -> Result<(), String> {
        let mut told: BTreeMap<u64, Seen> = BTreeMap::new();
        for event in unit.rows.iter().filter(|event| !is_of_move(event)) {
            let written = event["after"]["tx"].as_u64();
            if let Some(tx) = written.filter(|tx| *tx > 0) {
                let one = told.entry(tx).or_default();
                one.all = event["after"]["n"].as_u64().unwrap_or_default();
                one.told += 1;
                let group = event["group"].as_str().unwrap_or_default();
                one.groups.insert(group.to_owned());
            }
        }
        for (tx, part) in told {
            let seen = self.seen.entry(tx).or_default();
            let again = !seen.groups.is_disjoint(&part.groups);
            let is_torn = self.told != Told::ByGroup && part.told != part.all;
            seen.all = part.all;
            seen.told += part.told;
            seen.groups.extend(part.groups);
            if again || is_torn || seen.told > seen.all {
                return Err(format!("transaction {tx} is told in pieces: {seen:?}"));
            }
        }
        Ok(())
    }

    fn look_for_beacon(&mut self) {
        let beacons = self
            .rows
            .iter()
            .filter(|((_, table, _), _)| table == BEACON);
        let numbers = beacons.filter_map(|(_, row)| row.get("number")?.parse().ok());
        self.beacon = numbers.min().unwrap_or_default();
    }
}

fn table_of(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    format!("{}.{}", text("database"), text("table"))
}

/// An image's values as texts; `None` where there is none.
fn image(of: &Value) -> Option<Row> {
    let fields = of.as_object()?.iter();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(
        fields
            .map(|(name, value)| (name.clone(), text(value)))
            .collect(),
    )
}

fn is_of_move(event: &Value) -> bool {
    event["move"] == true
}

/// The farm's rows with one place for each of them. No move is under way.
fn as_one(farm: &BTreeMap<Place, Row>) -> BTreeMap<Place, Row> {
    let is_one = |(group, table, _): &Place| table != GLOBAL || group == GROUPS[0];
    let rows = farm.iter().filter(|(place, _)| is_one(place));
    rows.map(|((_, table, key), row)| ((String::new(), table.clone(), key.clone()), row.clone()))
        .collect()
}

/// How two copies of the same differ; empty when they do not.
fn difference(one: &BTreeMap<Place, Row>, other: &BTreeMap<Place, Row>) -> String {
    let places: BTreeSet<&Place> = one.keys().chain(other.keys()).collect();
    let differing = places
        .into_iter()
        .filter(|it| one.get(*it) != other.get(*it));
    let texts = differing.map(|it| format!("{it:?}: {:?}, {:?}", one.get(it), other.get(it)));
    let texts: Vec<String> = texts.collect();
    match texts.len() {
        0..=4 => texts.join("; "),
        count => format!("{count} rows, among them {}", texts[..4].join("; ")),
    }
}
