//! What a text does to, or wants from, the connection that runs it.

use crate::classify::Head;
use crate::lexer::keyword::Kw;
use crate::lexer::token::{Kind, Past, Token};

bitflags::bitflags! {
    /// Facts about a text, over all its statements. A fact may be set without need (a host name
    /// taken for a variable in a rare place), but is never missing for what the text itself says;
    /// what routines and views do inside is not known here.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Facts: u64 {
        /// `@name` is read or set.
        const USER_VARIABLE = 1;
        /// `@@name` is read or set.
        const SYSTEM_VARIABLE = 1 << 1;
        /// FOR UPDATE, FOR SHARE, LOCK IN SHARE MODE.
        const LOCKING_READ = 1 << 2;
        /// A query with INTO: a file, variables.
        const INTO = 1 << 3;
        /// GET_LOCK and its kin, the locking service's functions.
        const USER_LOCK = 1 << 4;
        /// LAST_INSERT_ID(), `@@last_insert_id`, `@@identity`, or a SET of them.
        const LAST_INSERT_ID = 1 << 5;
        /// SQL_CALC_FOUND_ROWS: the next FOUND_ROWS() belongs to this connection.
        const FOUND_ROWS_SET = 1 << 6;
        const FOUND_ROWS = 1 << 7;
        const ROW_COUNT = 1 << 8;
        /// Asks for the diagnostics of the statement before: SHOW WARNINGS, SHOW ERRORS,
        /// GET DIAGNOSTICS, `@@warning_count`, `@@error_count`.
        const WARNINGS = 1 << 9;
        /// Makes or drops temporary tables (or sequences).
        const TEMPORARY_TABLE = 1 << 10;
        /// PREPARE, EXECUTE, DEALLOCATE in SQL.
        const TEXT_PREPARE = 1 << 11;
        const HANDLER = 1 << 12;
        const XA = 1 << 13;
        /// LOCK TABLES, FLUSH TABLES … WITH READ LOCK or FOR EXPORT, LOCK INSTANCE, BACKUP STAGE:
        /// locks that live until they are given back or the connection ends.
        const LOCK_TABLES = 1 << 14;
        /// NEXTVAL, NEXT VALUE FOR, SETVAL.
        const WRITES_SEQUENCE = 1 << 15;
        /// LASTVAL, PREVIOUS VALUE FOR: what this connection drew before.
        const LAST_SEQUENCE_VALUE = 1 << 16;
        /// A function whose meaning is that of one server: MASTER_POS_WAIT, LOAD_FILE, ….
        const UNSURE_FUNCTION = 1 << 17;
        /// CONNECTION_ID(), `@@pseudo_thread_id` or `@@socket`.
        const CONNECTION_ID = 1 << 18;
        /// Ends an open transaction with a commit.
        const IMPLICIT_COMMIT = 1 << 19;
        /// A `heddle_…` variable is read or set.
        const HEDDLE_SETTING = 1 << 20;
        /// More than one statement.
        const MULTIPLE = 1 << 21;
        /// A compound statement or routine body: the semicolons inside end nothing, and the rest of
        /// the text counts as one statement.
        const COMPOUND = 1 << 22;
        /// LOAD DATA LOCAL: the server will ask the client for a file.
        const LOCAL_INFILE = 1 << 23;
        /// Reads information_schema, performance_schema, mysql or sys by name: every server has its
        /// own.
        const SERVER_SCHEMA = 1 << 24;
        /// PROCEDURE in a query (PROCEDURE ANALYSE).
        const PROCEDURE_CLAUSE = 1 << 25;
        /// SET GLOBAL, SET PERSIST, or a global variable by `@@global.`.
        const GLOBAL_SETTING = 1 << 26;
        /// The servers may read the text in another way, or refuse it: a quote or comment that
        /// never ends, bytes of an unknown charset.
        const AMBIGUOUS = 1 << 27;
        /// May change an account or what it may do: CREATE, ALTER, DROP and RENAME of users and
        /// roles, GRANT, REVOKE, SET PASSWORD, SET DEFAULT ROLE, FLUSH.
        const ACCOUNTS = 1 << 28;
        /// CREATE, ALTER or DROP of a database.
        const DATABASE = 1 << 29;
        const KILL = 1 << 30;
        /// SHUTDOWN, RESTART.
        const SHUTDOWN = 1 << 31;
        /// SET ROLE.
        const ROLE = 1 << 32;
        /// Names something in the database `heddle`, where tables about the farm are.
        const FARM_TABLE = 1 << 33;
    }
}

impl Facts {
    /// With any of these a query is no [`crate::Class::Read`].
    pub const FORBID_READ: Facts = Facts::USER_VARIABLE
        .union(Facts::SYSTEM_VARIABLE)
        .union(Facts::LOCKING_READ)
        .union(Facts::INTO)
        .union(Facts::USER_LOCK)
        .union(Facts::LAST_INSERT_ID)
        .union(Facts::FOUND_ROWS_SET)
        .union(Facts::FOUND_ROWS)
        .union(Facts::ROW_COUNT)
        .union(Facts::WARNINGS)
        .union(Facts::WRITES_SEQUENCE)
        .union(Facts::LAST_SEQUENCE_VALUE)
        .union(Facts::UNSURE_FUNCTION)
        .union(Facts::CONNECTION_ID)
        .union(Facts::COMPOUND)
        .union(Facts::SERVER_SCHEMA)
        .union(Facts::PROCEDURE_CLAUSE)
        .union(Facts::AMBIGUOUS);
}

/// What the tokens of one statement say, one after the other.
#[derive(Clone, Copy)]
pub(crate) struct Watcher {
    pub facts: Facts,
    /// `@@scope` and a dot went by: the variable's name stands apart and comes next.
    names: bool,
}

impl Watcher {
    pub fn new() -> Watcher {
        Watcher {
            facts: Facts::empty(),
            names: false,
        }
    }

    /// `head` tells where a statement names accounts: there `@host` behind a name is no variable.
    #[inline(always)]
    pub fn see(&mut self, token: &Token, past: &Past, text: &[u8], head: &Head) {
        match token.kind {
            Kind::Word | Kind::Quoted if self.names => self.name(token.bytes(text)),
            Kind::Word if token.kw.is_watched() => self.word(token.kw, past, head),
            Kind::Open if past.kind == Kind::Word && past.kw.is_function() => {
                self.facts |= function(past.kw);
            }
            // In quotes too: the servers look up their functions by name however it is written.
            Kind::Open if past.kind == Kind::Quoted => {
                self.facts |= function(past.quoted_word(text));
            }
            Kind::UserVariable => self.user_variable(past.touches(token), past, head),
            Kind::SystemVariable => self.facts |= system_variable(token.bytes(text)),
            Kind::Dot if past.kind == Kind::SystemVariable => self.names = true,
            Kind::Dot if past.kind == Kind::Quoted => self.facts |= schema(past.quoted_word(text)),
            Kind::Dot if past.kw == Kw::HEDDLE => self.facts |= Facts::FARM_TABLE,
            _ => {}
        }
    }

    #[cold]
    fn name(&mut self, bytes: &[u8]) {
        self.names = false;
        self.facts |= setting(trim_name(bytes));
    }

    #[cold]
    fn user_variable(&mut self, glued: bool, past: &Past, head: &Head) {
        let host = glued
            && head.names_accounts()
            && matches!(past.kind, Kind::Literal | Kind::Quoted | Kind::Word)
            && !past.kw.is_reserved();
        if !host {
            self.facts |= Facts::USER_VARIABLE;
        }
    }

    #[cold]
    fn word(&mut self, kw: Kw, past: &Past, head: &Head) {
        let last = past.kw;
        let fact = match kw {
            // SET STATEMENT … FOR UPDATE t is an update.
            Kw::UPDATE if last == Kw::FOR && head.count() == 1 => Facts::empty(),
            Kw::UPDATE | Kw::SHARE if last == Kw::FOR => Facts::LOCKING_READ,
            Kw::SHARE if last == Kw::IN && past.before == Kw::LOCK => Facts::LOCKING_READ,
            Kw::INTO => Facts::INTO,
            Kw::SQL_CALC_FOUND_ROWS => Facts::FOUND_ROWS_SET,
            Kw::PROCEDURE => Facts::PROCEDURE_CLAUSE,
            Kw::FOR if last == Kw::VALUE && past.before == Kw::NEXT => Facts::WRITES_SEQUENCE,
            Kw::FOR if last == Kw::VALUE && past.before == Kw::PREVIOUS => {
                Facts::LAST_SEQUENCE_VALUE
            }
            Kw::NEXTVAL if past.kind == Kind::Dot => Facts::WRITES_SEQUENCE,
            Kw::CURRVAL if past.kind == Kind::Dot => Facts::LAST_SEQUENCE_VALUE,
            Kw::TEMPORARY if matches!(last, Kw::CREATE | Kw::DROP | Kw::REPLACE) => {
                Facts::TEMPORARY_TABLE
            }
            Kw::LOCK if last == Kw::READ && past.before == Kw::WITH => Facts::LOCK_TABLES,
            Kw::EXPORT if last == Kw::FOR => Facts::LOCK_TABLES,
            kw if kw.is_server_schema() => Facts::SERVER_SCHEMA,
            _ => Facts::empty(),
        };
        self.facts |= fact;
    }
}

/// What a database's name says that stands in quotes.
fn schema(kw: Kw) -> Facts {
    match kw {
        Kw::HEDDLE => Facts::FARM_TABLE,
        kw if kw.is_server_schema() => Facts::SERVER_SCHEMA,
        _ => Facts::empty(),
    }
}

/// What a call of `kw` says; nothing for a word that is no watched function.
fn function(kw: Kw) -> Facts {
    match kw {
        Kw::GET_LOCK
        | Kw::RELEASE_LOCK
        | Kw::RELEASE_ALL_LOCKS
        | Kw::IS_FREE_LOCK
        | Kw::IS_USED_LOCK
        | Kw::SERVICE_GET_READ_LOCKS
        | Kw::SERVICE_GET_WRITE_LOCKS
        | Kw::SERVICE_RELEASE_LOCKS => Facts::USER_LOCK,
        Kw::LAST_INSERT_ID => Facts::LAST_INSERT_ID,
        Kw::FOUND_ROWS => Facts::FOUND_ROWS,
        Kw::ROW_COUNT => Facts::ROW_COUNT,
        Kw::CONNECTION_ID => Facts::CONNECTION_ID,
        Kw::NEXTVAL | Kw::SETVAL => Facts::WRITES_SEQUENCE,
        Kw::LASTVAL => Facts::LAST_SEQUENCE_VALUE,
        Kw::LOAD_FILE
        | Kw::MASTER_GTID_WAIT
        | Kw::MASTER_POS_WAIT
        | Kw::SOURCE_POS_WAIT
        | Kw::WAIT_FOR_EXECUTED_GTID_SET
        | Kw::WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS => Facts::UNSURE_FUNCTION,
        _ => Facts::empty(),
    }
}

/// What naming `@@…` says. `bytes` is the whole token.
#[cold]
fn system_variable(bytes: &[u8]) -> Facts {
    let mut facts = Facts::SYSTEM_VARIABLE;
    let mut name: &[u8] = b"";
    for part in bytes[2..].split(|byte| *byte == b'.') {
        name = trim_name(part);
        if [&b"global"[..], b"persist", b"persist_only"]
            .iter()
            .any(|s| name.eq_ignore_ascii_case(s))
        {
            facts |= Facts::GLOBAL_SETTING;
        }
    }
    let of_router = [&b"pseudo_thread_id"[..], b"socket"];
    if of_router.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        facts |= Facts::CONNECTION_ID;
    }
    facts | setting(name)
}

fn trim_name(part: &[u8]) -> &[u8] {
    let part = part.trim_ascii();
    match part {
        [b'`', inner @ .., b'`'] => inner,
        _ => part,
    }
}

/// What it says that the variable `name` is read or set.
pub(crate) fn setting(name: &[u8]) -> Facts {
    match Kw::find(name) {
        Kw::LAST_INSERT_ID | Kw::IDENTITY => Facts::LAST_INSERT_ID,
        Kw::WARNING_COUNT | Kw::ERROR_COUNT => Facts::WARNINGS,
        _ if is_heddle(name) => Facts::HEDDLE_SETTING,
        _ => Facts::empty(),
    }
}

/// True for the variables that the router keeps itself.
pub(crate) fn is_heddle(name: &[u8]) -> bool {
    name.get(..7)
        .is_some_and(|head| head.eq_ignore_ascii_case(b"heddle_"))
}
