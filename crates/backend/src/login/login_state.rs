//! What a login has made of the session, and how a connection is made so again.
//!
//! A reset of the connection is no login: it takes the server's own character sets instead of those of
//! the handshake, leaves the role as it is, keeps the database without its default character set, and
//! runs no `init_connect`. What of that cannot be set again ends the connection.

use std::io;
use std::rc::Rc;

use farm::Engine;
use mysql_wire::command::Command;
use mysql_wire::reply::Shown;
use mysql_wire::result::TextRow;

use crate::connection::{Connection, ConnectionError, Owner, Told, last_row};
use crate::prepared::Statements;
use crate::state::role::{ROLE, spelled};
use crate::state::tracking::{track_all, tracking_in};
use crate::state::{Assignment, NAMES, READ_ONLY, SessionState, Tracked, classify};

/// What is asked after login: the character sets, whether the server takes writes, whether it gives
/// GTIDs to all of them, the role, how long it waits for a silent client, whether the session may have
/// other variables than the server's global ones, how long its transactions may be idle (as
/// [`IDLE_TRANSACTIONS`] names it), and what sessions have it report by default.
const MARIADB_LOGIN: &[u8] = b"SELECT @@character_set_client, @@character_set_connection, \
    @@character_set_results, @@collation_connection, @@global.read_only, @@global.log_bin, \
    CURRENT_ROLE(), @@session.wait_timeout, @@global.init_connect <> '' \
    OR @@session.wait_timeout <> @@global.wait_timeout \
    OR @@session.max_statement_time <> @@global.max_statement_time, \
    @@session.idle_transaction_timeout, @@session.idle_write_transaction_timeout, \
    @@session.idle_readonly_transaction_timeout, \
    @@global.session_track_system_variables, @@global.session_track_schema LIMIT 1";
const MYSQL_LOGIN: &[u8] = b"SELECT @@character_set_client, @@character_set_connection, \
    @@character_set_results, @@collation_connection, @@global.read_only, \
    @@global.log_bin AND @@global.gtid_mode = 'ON', CURRENT_ROLE(), @@session.wait_timeout, \
    @@global.init_connect <> '' OR @@session.wait_timeout <> @@global.wait_timeout, 0, 0, 0, \
    @@global.session_track_system_variables, @@global.session_track_schema, \
    @@global.session_track_gtids LIMIT 1";

/// The session variables that are not as the server's global ones are.
const MARIADB_OWN: &[u8] = b"SELECT LOWER(VARIABLE_NAME), SESSION_VALUE \
    FROM information_schema.SYSTEM_VARIABLES \
    WHERE VARIABLE_SCOPE = 'SESSION' AND HEX(SESSION_VALUE) <> HEX(GLOBAL_VALUE) LIMIT 10000";
const MYSQL_OWN: &[u8] = b"SELECT VARIABLE_NAME, s.VARIABLE_VALUE \
    FROM performance_schema.session_variables s \
    JOIN performance_schema.global_variables g USING (VARIABLE_NAME) \
    WHERE HEX(s.VARIABLE_VALUE) <> HEX(g.VARIABLE_VALUE) LIMIT 10000";

/// A server that was restarted is read-only, and accounts with SUPER could write there all the same:
/// what they write nobody else would have. ER_OPTION_PREVENTS_STATEMENT, as the server says it.
fn read_only_server() -> ConnectionError {
    ConnectionError::Refused {
        number: 1290,
        sqlstate: *b"HY000",
        message: b"The MySQL server is running with the --read-only option so it cannot execute \
                   this statement"
            .to_vec(),
    }
}

/// By these MariaDB ends the connection of a transaction that is idle for so many seconds.
const IDLE_TRANSACTIONS: [&str; 3] = [
    "idle_transaction_timeout",
    "idle_write_transaction_timeout",
    "idle_readonly_transaction_timeout",
];

/// Two clocks that measure the same seconds may differ by so much.
const SLACK_MS: u64 = 200;

fn seconds(value: Option<&[u8]>) -> u64 {
    let text = value.and_then(|value| str::from_utf8(value).ok());
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

impl Connection {
    /// True when the server may have ended this connection because its transaction was idle for so
    /// long. Which of the limits holds depends on what the transaction did: the shortest one counts.
    pub fn ends_transaction_idle_for(&self, idle_ms: u64) -> bool {
        let limits = IDLE_TRANSACTIONS.iter().zip(self.login_idle_s);
        let limits = limits.map(|(name, login_s)| match self.state.variable(name) {
            None => login_s,
            value => seconds(value),
        });
        limits
            .filter(|limit_s| *limit_s > 0)
            .any(|limit_s| idle_ms + SLACK_MS >= limit_s * 1000)
    }

    /// After login: asks the server to report every change of state, makes the session READ ONLY
    /// where it must be, and learns the character sets that the handshake chose and the role. This
    /// takes one trip, a second one where the login set more, and one more where this core has not asked the
    /// server about its variables yet.
    pub(crate) async fn prepare_session(
        &mut self,
        read_only: bool,
        causal: bool,
    ) -> Result<(), ConnectionError> {
        let ask: &[u8] = match self.engine() {
            Engine::MariaDb => MARIADB_LOGIN,
            Engine::MySql => MYSQL_LOGIN,
        };
        let guard: &[u8] = b"SET SESSION TRANSACTION READ ONLY";
        let mut commands = vec![(Command::Query, track_all(self.engine() == Engine::MySql))];
        if read_only {
            commands.push((Command::Query, guard));
        }
        if causal {
            commands.push((Command::Query, b"SET SESSION wsrep_sync_wait=1"));
        }
        commands.push((Command::Query, ask));
        let (mut packets, mut told) = (Vec::new(), Told::default());
        self.run_noting(&commands, &mut packets, &mut told).await?;
        // The last command assigns nothing.
        let by_themselves = told
            .variables
            .iter()
            .filter(|name| classify(name) == Tracked::State);
        by_themselves.for_each(|name| self.servers_own.note(name));
        (self.guarded, self.causal) = (read_only, causal);
        let mut login = SessionState::new(None);
        let mut sets_more = false;
        if let Some(row) = last_row(&packets) {
            let said = |at: usize| TextRow::new(row).nth(at).and_then(Result::ok).flatten();
            let behind = |at: usize| said(NAMES.len() + at);
            if !read_only && !matches!(behind(0), Some(b"0" | b"OFF")) {
                return Err(read_only_server());
            }
            self.tells_gtids = matches!(behind(1), Some(b"1" | b"ON"));
            self.login_timeout_s = seconds(behind(3));
            self.login_idle_s = [5, 6, 7].map(|at| seconds(behind(at)));
            self.impatient = self.needs_haste(None);
            sets_more = behind(4) == Some(b"1");
            for (name, value) in NAMES.iter().zip(TextRow::new(row)) {
                let value = value.map_err(|source| ConnectionError::Protocol {
                    operation: "reading the login state",
                    source,
                })?;
                login = login.with_variable(name, value.unwrap_or_default());
            }
            let role = spelled(self.engine(), behind(2).unwrap_or_default());
            login = login.with_variable(ROLE, &role);
            self.shown = Shown::of(tracking_in(TextRow::new(row).skip(NAMES.len() + 8)));
        }
        self.learn_variables().await?;
        self.login_sets_more = false;
        if sets_more {
            for (name, value) in self.ask_own_variables().await? {
                login = login.with_variable(&name, &value);
                self.login_sets_more = true;
            }
        }
        self.login = Rc::new(login);
        Ok(())
    }

    /// What the login has set beside what it says itself: a DEFAULT would not bring it back.
    async fn ask_own_variables(&mut self) -> Result<Vec<(String, Vec<u8>)>, ConnectionError> {
        let ask = match self.engine() {
            Engine::MariaDb => MARIADB_OWN,
            Engine::MySql => MYSQL_OWN,
        };
        let (guarded, causal) = (self.guarded, self.causal);
        let heddles_own = |name: &str| {
            (guarded && READ_ONLY.contains(&name)) || (causal && name == "wsrep_sync_wait")
        };
        let of_database = |name: &str| name.ends_with("_database");
        let mut own = Vec::new();
        for row in self.ask_all(ask).await? {
            let mut row = row.into_iter();
            let (Some(name), Some(value)) = (row.next(), row.next()) else {
                continue;
            };
            let name = String::from_utf8_lossy(&name).into_owned();
            let moves = classify(&name) == Tracked::State;
            if moves && !NAMES.contains(&&*name) && !of_database(&name) && !heddles_own(&name) {
                own.push((name, value));
            }
        }
        Ok(own)
    }

    /// Makes the connection as it was after its login, whatever sessions have done on it: their
    /// transaction is rolled back, and their locks, temporary tables, variables and statements are
    /// gone. On an error it must be closed.
    pub async fn renew(&mut self) -> Result<(), ConnectionError> {
        if self.login_sets_more {
            return Err(ConnectionError::Broken {
                operation: "resetting a connection",
                source: io::Error::other("its login set more than a reset does"),
            });
        }
        let charsets = SessionState::new(None).assignments(&self.login, &self.login, |_| false);
        let charsets = Assignment::statement(&charsets);
        let mut commands: Vec<(Command, &[u8])> = vec![(Command::ResetConnection, b"")];
        if let Some(charsets) = &charsets {
            commands.push((Command::Query, charsets));
        }
        // A routine may have set a role unseen.
        let role = self.set_role(&SessionState::new(None));
        if let Some(role) = &role {
            commands.push((Command::Query, role));
        }
        self.run(&commands).await?;
        self.prepare_session(self.guarded, self.causal).await?;
        self.set_state(Rc::new(SessionState::new(self.state.database())));
        self.statements = Statements::default();
        self.variables = None;
        self.owner = Owner::default();
        self.select_again().await
    }

    /// The state that COM_RESET_CONNECTION leaves on MySQL: everything as after login, but the
    /// character sets are the server's own, whatever the login asked for.
    pub async fn ask_reset_state(
        &mut self,
        database: Option<&[u8]>,
    ) -> Result<SessionState, ConnectionError> {
        let query = "SELECT @@global.character_set_client, @@global.character_set_connection, \
                     @@global.character_set_results, @@global.collation_connection";
        let values = self.ask(query.as_bytes()).await?;
        let mut state = SessionState::new(database);
        for (name, value) in NAMES.iter().zip(&values) {
            if self.login.variable(name) != Some(&**value) {
                state = state.with_variable(name, value);
            }
        }
        Ok(state)
    }
}
