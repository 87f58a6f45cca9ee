//! Session state as a value: what a connection has, what a session wants, and the way between.
//!
//! Both engines report every change of a session variable and of the current database in their OK
//! packets (session tracking). So state is a map from names to values as the server said them; a
//! name that is absent has the value it had after login. Going from one state to another is a
//! COM_INIT_DB and one SET statement.

pub(crate) mod defaults;
pub(crate) mod residue;
pub(crate) mod role;
pub(crate) mod servers_own;
pub(crate) mod tracking;

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::FxBuildHasher;

use crate::connection::Connection;
use crate::state::role::ROLE;

/// The state of one session or of one connection. Shared and immutable: a change makes a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionState {
    database: Option<Rc<[u8]>>,
    /// Lower-case names, values as the server reported them.
    variables: BTreeMap<Rc<str>, Rc<[u8]>>,
    /// Of the two fields above; equal states have equal hashes.
    hash: u64,
}

/// How a session variable that the server reports is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracked {
    /// Part of the state: it can be set on another connection.
    State,
    /// Says something about a statement, not about the session.
    Ignored,
    /// Belongs to one connection: the session stays there.
    Pins,
}

/// How a session variable is treated by its name alone: what it does is said here, for no server tells
/// it. [`Connection::classify`](crate::Connection::classify) knows besides what the connection's server
/// says of its variables.
pub fn classify(name: &str) -> Tracked {
    match name {
        // Heddle reads and moves these itself.
        "last_gtid" | "last_insert_id" | "identity" => Tracked::Ignored,
        // MariaDB 11 reports it when another switch is set, which shares its storage.
        "skip_replication" => Tracked::Ignored,
        // Heddle's own on every connection; what the client asked for its session keeps.
        name if TRACKING.contains(&name) => Tracked::Ignored,
        // What was recorded stays on the connection.
        "profiling" => Tracked::Pins,
        // What is written so has no GTID. MariaDB passes it for a setting with a global value.
        "sql_log_bin" => Tracked::Pins,
        // MariaDB's settings of a replica's source that pass for the session's.
        "sql_slave_skip_counter" | "max_relay_log_size" => Tracked::Pins,
        _ => Tracked::State,
    }
}

/// The variables by which a server is told what changes to report.
pub const TRACKING: [&str; 3] = [
    "session_track_system_variables",
    "session_track_schema",
    "session_track_gtids",
];

/// Whether transactions are READ ONLY by default. On a connection that Heddle itself made READ ONLY
/// this is never touched.
pub(crate) const READ_ONLY: [&str; 2] = ["transaction_read_only", "tx_read_only"];

/// The variables that decide how a text is parsed: a prepared statement keeps them from its PREPARE.
const PARSING: [&str; 4] = [
    "character_set_client",
    "character_set_connection",
    "collation_connection",
    "sql_mode",
];

/// What SET NAMES sets, and what a login does.
pub(crate) const NAMES: [&str; 4] = [
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
];

/// Where the connection's state is the same as this one, both become one value: to compare them again costs nothing.
/// Of two values every caller keeps the one at the lower address, so in time a core has only one.
#[inline]
pub fn share_state(connection: &mut Connection, state: &mut Rc<SessionState>) {
    let own = &mut connection.state;
    if Rc::ptr_eq(own, state) || !SessionState::same(own, state) {
        return;
    }
    match Rc::as_ptr(own) < Rc::as_ptr(state) {
        true => *state = Rc::clone(own),
        false => *own = Rc::clone(state),
    }
}

impl SessionState {
    /// The state after login with this default database.
    pub fn new(database: Option<&[u8]>) -> SessionState {
        SessionState {
            database: database.map(Rc::from),
            variables: BTreeMap::new(),
            hash: 0,
        }
        .hashed()
    }

    /// The current database, if one is selected.
    pub fn database(&self) -> Option<&[u8]> {
        self.database.as_deref()
    }

    /// The value of a variable that was changed since login.
    pub fn variable(&self, name: &str) -> Option<&[u8]> {
        self.variables.get(name).map(|value| &**value)
    }

    /// The same state with another database; `None` when the database was dropped.
    pub fn with_database(&self, database: Option<&[u8]>) -> SessionState {
        let mut state = self.clone();
        state.database = database.map(Rc::from);
        state.hashed()
    }

    /// The same state with a variable changed.
    pub fn with_variable(&self, name: &str, value: &[u8]) -> SessionState {
        let mut state = self.clone();
        state.variables.insert(name.into(), value.into());
        state.hashed()
    }

    /// The same state with these variables as after login.
    pub fn without_variables(&self, names: &[Arc<str>]) -> SessionState {
        let mut state = self.clone();
        for name in names {
            state.variables.remove(&**name);
        }
        state.hashed()
    }

    /// The part of the state that decides what a text means: the database and how it is parsed.
    pub fn parsing(&self) -> SessionState {
        SessionState::new(self.database()).parsing_as(self)
    }

    /// The same state, but texts mean what they mean in `other`. Transactions are not touched by
    /// the way from one to the other, which a change of `autocommit` would commit.
    pub fn parsing_as(&self, other: &SessionState) -> SessionState {
        let mut state = self.clone();
        state.database = other.database.clone();
        state
            .variables
            .retain(|name, _| !PARSING.contains(&&**name));
        for name in PARSING {
            if let Some((name, value)) = other.variables.get_key_value(name) {
                state.variables.insert(name.clone(), value.clone());
            }
        }
        state.hashed()
    }

    /// A number that equal states share: the first check, before the maps are compared.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    fn hashed(mut self) -> SessionState {
        self.hash = FxBuildHasher.hash_one(Hashed(&self.database, &self.variables));
        self
    }

    /// True for the same state; one pointer comparison in the common case.
    pub fn same(a: &Rc<SessionState>, b: &Rc<SessionState>) -> bool {
        Rc::ptr_eq(a, b) || (a.hash == b.hash && a == b)
    }

    /// True when a connection in state `self` can be brought to `wanted`: nothing on either engine
    /// unselects a database.
    pub fn can_become(&self, wanted: &SessionState) -> bool {
        wanted.database.is_some() || self.database.is_none()
    }

    /// How many things differ; used to choose the connection that needs the least.
    pub fn distance(&self, wanted: &SessionState) -> usize {
        let changed = wanted
            .variables
            .iter()
            .filter(|(name, value)| self.variables.get(*name) != Some(*value))
            .count();
        let extra = self
            .variables
            .keys()
            .filter(|n| !wanted.variables.contains_key(*n))
            .count();
        changed + extra + usize::from(self.database != wanted.database)
    }

    /// The assignments that take a connection from `self` to `wanted`; none when the variables agree
    /// already. `login` holds the values after login of the variables that have no useful DEFAULT (the
    /// character sets come from the handshake). What is `left` stays as it is.
    pub(crate) fn assignments(
        &self,
        wanted: &SessionState,
        login: &SessionState,
        left: impl Fn(&str) -> bool,
    ) -> Vec<Assignment> {
        let mut items: Vec<(&str, Option<&[u8]>)> = Vec::new();
        for (name, value) in &wanted.variables {
            if self.variables.get(name) != Some(value) {
                items.push((name, Some(value)));
            }
        }
        for name in self.variables.keys() {
            if !wanted.variables.contains_key(name) {
                items.push((name, login.variable(name)));
            }
        }
        items.retain(|(name, _)| *name != ROLE);
        let named = |wanted: &str| items.iter().any(|(name, _)| *name == wanted);
        let names = NAMES
            .iter()
            .any(|name| named(name))
            .then(|| wanted.names(login))
            .flatten();
        if names.is_some() {
            items.retain(|(name, _)| !NAMES.contains(name));
        } else if named("character_set_connection") && !named("collation_connection") {
            // Setting the character set resets the collation: both are set.
            let name = "collation_connection";
            match wanted.variable(name) {
                Some(value) => items.push((name, Some(value))),
                None if wanted.variable("character_set_connection").is_none() => {
                    items.extend(login.variable(name).map(|value| (name, Some(value))));
                }
                None => {}
            }
        }
        items.retain(|(name, _)| !left(name));
        // Setting the character set of the connection resets its collation, so the collation is last.
        items.sort_by_key(|(name, _)| *name == "collation_connection");
        let names = names.map(|[charset, collation]| Assignment::names(charset, collation));
        let one = |(name, value): (&str, Option<&[u8]>)| Assignment::one(name, value);
        names
            .into_iter()
            .chain(items.into_iter().map(one))
            .collect()
    }

    /// The same state, but these variables are as in `other`.
    pub(crate) fn taking(&self, other: &SessionState, names: &[Arc<str>]) -> SessionState {
        let mut state = self.clone();
        for name in names {
            match other.variables.get_key_value(&**name) {
                Some((name, value)) => drop(state.variables.insert(name.clone(), value.clone())),
                None => drop(state.variables.remove(&**name)),
            }
        }
        state.hashed()
    }

    /// True when one of its variables is such.
    pub(crate) fn any(&self, test: impl Fn(&str) -> bool) -> bool {
        self.variables.keys().any(|name| test(name))
    }

    /// Character set and collation, where the three character sets are one: as after a login or SET
    /// NAMES. These two also choose the collation that column definitions name for results, which no
    /// variable shows; setting the character sets one by one gives it the set's default.
    fn names<'a>(&'a self, login: &'a SessionState) -> Option<[&'a [u8]; 2]> {
        let [client, connection, results, collation] =
            NAMES.map(|name| self.variable(name).or_else(|| login.variable(name)));
        let one = client.is_some() && client == connection && connection == results;
        Some([client.filter(|name| one && !name.is_empty())?, collation?])
    }
}

/// A part of a SET statement that may also stand alone.
pub(crate) struct Assignment {
    /// The variables that it sets.
    pub names: Vec<Arc<str>>,
    text: Vec<u8>,
    /// To an empty text.
    empty: bool,
}

impl Assignment {
    fn names(charset: &[u8], collation: &[u8]) -> Assignment {
        let mut text = b"NAMES ".to_vec();
        put_value(&mut text, charset);
        text.extend_from_slice(b" COLLATE ");
        put_value(&mut text, collation);
        Assignment {
            names: NAMES.map(Arc::from).to_vec(),
            text,
            empty: false,
        }
    }

    /// None is what a login takes over. MySQL makes the wrong thing of DEFAULT where a switch is kept the
    /// other way round (it turns `foreign_key_checks` and `unique_checks` off), so the global value is
    /// named.
    pub fn one(name: &str, value: Option<&[u8]>) -> Assignment {
        let mut text = format!("SESSION {name} = ").into_bytes();
        match value {
            Some(value) => put_value(&mut text, value),
            None => text.extend_from_slice(format!("@@GLOBAL.{name}").as_bytes()),
        }
        Assignment {
            names: vec![name.into()],
            text,
            empty: value.is_some_and(<[u8]>::is_empty),
        }
    }

    /// The same of a variable that is NULL: servers report NULL and an empty text alike.
    pub fn to_null(&self) -> Option<Assignment> {
        let name = self.names.first().filter(|_| self.empty)?;
        Some(Assignment {
            names: self.names.clone(),
            text: format!("SESSION {name} = NULL").into_bytes(),
            empty: false,
        })
    }

    /// The SET statement of all of these; `None` where there are none.
    pub fn statement(all: &[Assignment]) -> Option<Vec<u8>> {
        let texts: Vec<&[u8]> = all.iter().map(|one| &one.text[..]).collect();
        (!all.is_empty()).then(|| [b"SET ", &texts.join(&b", "[..])[..]].concat())
    }
}

struct Hashed<'a>(&'a Option<Rc<[u8]>>, &'a BTreeMap<Rc<str>, Rc<[u8]>>);

impl Hash for Hashed<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
        self.1.hash(state);
    }
}

/// Writes a value so that SET takes it: numbers bare (both engines refuse them quoted), everything
/// else as a string. A string with a backslash or with letters beyond ASCII is written as its bytes: what
/// quoted it would be depends on `sql_mode` and on the character set, which the same SET may change.
fn put_value(text: &mut Vec<u8>, value: &[u8]) {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    let number = !digits.is_empty()
        && digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')
        && digits.iter().filter(|b| **b == b'.').count() <= 1
        && digits[0] != b'.';
    if number {
        text.extend_from_slice(value);
        return;
    }
    if value
        .iter()
        .any(|&byte| byte == b'\\' || !matches!(byte, b' '..=b'~'))
    {
        text.extend_from_slice(b"X'");
        let digit = |four: u8| char::from_digit(u32::from(four), 16).map_or(b'0', |it| it as u8);
        text.extend(
            value
                .iter()
                .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]),
        );
        text.push(b'\'');
        return;
    }
    text.push(b'\'');
    for &byte in value {
        // Doubling is right in every sql_mode.
        if byte == b'\'' {
            text.push(b'\'');
        }
        text.push(byte);
    }
    text.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(from: &SessionState, to: &SessionState, login: &SessionState) -> Option<String> {
        let all = from.assignments(to, login, |_| false);
        Assignment::statement(&all).map(|text| String::from_utf8(text).expect("UTF-8"))
    }

    #[test]
    fn equal_states_need_nothing_and_differences_one_statement() {
        let login = SessionState::new(None).with_variable("character_set_client", b"utf8mb4");
        let fresh = SessionState::new(Some(b"shop"));
        assert_eq!(text(&fresh, &fresh, &login), None);
        let null = fresh.with_variable("innodb_tmpdir", b"");
        assert_eq!(
            text(&fresh, &null, &login).as_deref(),
            Some("SET SESSION innodb_tmpdir = ''")
        );
        let other = Assignment::one("innodb_tmpdir", Some(b"")).to_null();
        let other = other.and_then(|it| Assignment::statement(&[it]));
        assert_eq!(
            other.as_deref(),
            Some(&b"SET SESSION innodb_tmpdir = NULL"[..])
        );
        assert!(Assignment::one("innodb_tmpdir", None).to_null().is_none());
        let odd = fresh.with_variable("innodb_tmpdir", "/t/a\\b'ü".as_bytes());
        assert_eq!(
            text(&fresh, &odd, &login).as_deref(),
            Some("SET SESSION innodb_tmpdir = X'2f742f615c6227c3bc'")
        );
        let wanted = fresh
            .with_variable("sql_mode", b"ANSI_QUOTES")
            .with_variable("max_join_size", b"100")
            .with_variable("character_set_results", b"");
        assert_eq!(
            text(&fresh, &wanted, &login).as_deref(),
            Some(
                "SET SESSION character_set_results = '', SESSION max_join_size = 100, \
                 SESSION sql_mode = 'ANSI_QUOTES'"
            )
        );
    }

    #[test]
    fn what_the_session_does_not_have_goes_back_to_its_login_value() {
        let login = SessionState::new(None).with_variable("character_set_client", b"utf8mb4");
        let fresh = SessionState::new(None);
        let used = fresh
            .with_variable("character_set_client", b"latin1")
            .with_variable("time_zone", b"+02:00");
        assert_eq!(
            text(&used, &fresh, &login).as_deref(),
            Some(
                "SET SESSION character_set_client = 'utf8mb4', SESSION time_zone = @@GLOBAL.time_zone"
            )
        );
        assert_eq!(used.distance(&fresh), 2);
    }

    #[test]
    fn one_character_set_for_all_is_set_by_its_names() {
        let values = |charset: &'static str, collation: &'static str| {
            let mut state = SessionState::new(None);
            for name in &NAMES[..3] {
                state = state.with_variable(name, charset.as_bytes());
            }
            state.with_variable("collation_connection", collation.as_bytes())
        };
        let login = values("utf8mb4", "utf8mb4_general_ci");
        let fresh = SessionState::new(None);
        let other = values("utf8mb4", "utf8mb4_bin").with_variable("sql_mode", b"");
        assert_eq!(
            text(&fresh, &other, &login).as_deref(),
            Some("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin', SESSION sql_mode = ''")
        );
        assert_eq!(
            text(&other, &fresh, &login).as_deref(),
            Some(
                "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci', SESSION sql_mode = @@GLOBAL.sql_mode"
            )
        );
        let raw = fresh.with_variable("character_set_results", b"");
        assert_eq!(
            text(&fresh, &raw, &login).as_deref(),
            Some("SET SESSION character_set_results = ''")
        );
    }

    #[test]
    fn a_database_cannot_be_unselected() {
        let with = SessionState::new(Some(b"a"));
        let without = SessionState::new(None);
        assert!(!with.can_become(&without));
        assert!(without.can_become(&with));
        assert!(with.can_become(&SessionState::new(Some(b"b"))));
    }

    #[test]
    fn a_guarded_connection_stays_read_only() {
        let login = SessionState::new(None);
        let wanted = login.with_variable("tx_read_only", b"OFF");
        let guarded = |name: &str| READ_ONLY.contains(&name);
        assert!(login.assignments(&wanted, &login, guarded).is_empty());
        assert_eq!(login.assignments(&wanted, &login, |_| false).len(), 1);
        assert!(wanted.assignments(&login, &login, guarded).is_empty());
    }

    #[test]
    fn parsing_in_another_state_leaves_transactions_alone() {
        let prepared = SessionState::new(Some(b"a")).with_variable("sql_mode", b"ANSI_QUOTES");
        let now = SessionState::new(Some(b"b"))
            .with_variable("autocommit", b"OFF")
            .with_variable("character_set_client", b"latin1");
        let there = now.parsing_as(&prepared);
        let login = SessionState::new(None).with_variable("character_set_client", b"utf8mb4");
        assert_eq!(
            text(&now, &there, &login).as_deref(),
            Some("SET SESSION sql_mode = 'ANSI_QUOTES', SESSION character_set_client = 'utf8mb4'")
        );
        assert_eq!(there.database(), Some(&b"a"[..]));
        assert_eq!(there.parsing(), prepared.parsing());
        assert_eq!(
            now.with_variable("autocommit", b"ON").parsing(),
            now.parsing()
        );
    }

    #[test]
    fn hashes_follow_content_not_history() {
        let a = SessionState::new(None)
            .with_variable("a", b"1")
            .with_variable("b", b"2");
        let b = SessionState::new(None)
            .with_variable("b", b"2")
            .with_variable("a", b"1");
        assert_eq!(a.hash(), b.hash());
        assert!(SessionState::same(&Rc::new(a), &Rc::new(b)));
    }
}
