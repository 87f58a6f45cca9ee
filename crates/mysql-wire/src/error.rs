//! Error numbers of MySQL and MariaDB that a router makes or has to know, and their SQLSTATEs.
//! Names are those of the servers without `ER_` and `CR_`.

/// The SQLSTATE of an error that has none of its own.
pub const SQLSTATE_GENERAL: &str = "HY000";

macro_rules! numbers {
    ($($(#[doc = $text:literal])* $name:ident = $number:literal $state:literal;)*) => {
        $($(#[doc = $text])* pub const $name: u16 = $number;)*

        /// The rows of [`sqlstate_of`] that have an SQLSTATE of their own.
        const STATES: &[(u16, &str)] = &[$(($number, $state)),*];
    };
}

// Sorted by number.
numbers! {
    /// The server is out of memory.
    OUT_OF_MEMORY = 1037 "HY001";
    /// No connection is free.
    CON_COUNT_ERROR = 1040 "08004";
    /// The client's name could not be found.
    BAD_HOST = 1042 "08S01";
    /// The login was not understood.
    HANDSHAKE = 1043 "08S01";
    /// The user may not use the database.
    DBACCESS_DENIED = 1044 "42000";
    /// Wrong user or password.
    ACCESS_DENIED = 1045 "28000";
    /// No database was chosen.
    NO_DB = 1046 "3D000";
    /// Unknown command byte, or a wrong payload to one.
    UNKNOWN_COM = 1047 "08S01";
    /// A column must not be NULL.
    BAD_NULL = 1048 "23000";
    /// There is no such database.
    BAD_DB = 1049 "42000";
    /// The table exists.
    TABLE_EXISTS = 1050 "42S01";
    /// There is no such table to drop.
    BAD_TABLE = 1051 "42S02";
    /// The server shuts down.
    SERVER_SHUTDOWN = 1053 "08S01";
    /// There is no such column.
    BAD_FIELD = 1054 "42S22";
    /// A unique key is there already.
    DUP_ENTRY = 1062 "23000";
    /// The text is not SQL.
    PARSE_ERROR = 1064 "42000";
    /// The text is empty.
    EMPTY_QUERY = 1065 "42000";
    /// There is no such session to kill.
    NO_SUCH_THREAD = 1094 "HY000";
    /// The session may not be killed by this user.
    KILL_DENIED = 1095 "HY000";
    /// Without an SQLSTATE: whatever has no number of its own.
    UNKNOWN_ERROR = 1105 "HY000";
    /// The client's address is not allowed.
    HOST_NOT_PRIVILEGED = 1130 "HY000";
    /// The user lacks a privilege for the table.
    TABLEACCESS_DENIED = 1142 "42000";
    /// There is no such table.
    NO_SUCH_TABLE = 1146 "42S02";
    /// The statement is not for this server.
    NOT_ALLOWED_COMMAND = 1148 "42000";
    /// The connection broke in the middle of a statement.
    ABORTING_CONNECTION = 1152 "08S01";
    /// A payload over `max_allowed_packet`.
    NET_PACKET_TOO_LARGE = 1153 "08S01";
    /// A packet with a wrong sequence number.
    NET_PACKETS_OUT_OF_ORDER = 1156 "08S01";
    /// A packet that ended too early.
    NET_READ_ERROR = 1158 "08S01";
    /// A packet that did not come in time.
    NET_READ_INTERRUPTED = 1159 "08S01";
    /// A packet that could not be sent.
    NET_ERROR_ON_WRITE = 1160 "08S01";
    /// A packet that could not be sent in time.
    NET_WRITE_INTERRUPTED = 1161 "08S01";
    /// The statement is not allowed inside a transaction.
    CANT_DO_THIS_DURING_A_TRANSACTION = 1179 "25000";
    /// The session was killed between statements.
    NEW_ABORTING_CONNECTION = 1184 "08S01";
    /// There is no such variable.
    UNKNOWN_SYSTEM_VARIABLE = 1193 "HY000";
    /// The user has too many connections.
    TOO_MANY_USER_CONNECTIONS = 1203 "42000";
    /// A lock was not had in time; the statement was rolled back.
    LOCK_WAIT_TIMEOUT = 1205 "HY000";
    /// A wrong argument.
    WRONG_ARGUMENTS = 1210 "HY000";
    /// The transaction was rolled back to break a deadlock.
    LOCK_DEADLOCK = 1213 "40001";
    /// The user lacks a global privilege.
    SPECIFIC_ACCESS_DENIED = 1227 "42000";
    /// A variable does not take this value.
    WRONG_VALUE_FOR_VAR = 1231 "42000";
    /// The variable has no value for a session.
    WRONG_TYPE_FOR_VAR = 1232 "42000";
    /// The server does not do this (yet).
    NOT_SUPPORTED_YET = 1235 "42000";
    /// The variable can only be read.
    INCORRECT_GLOBAL_LOCAL_VAR = 1238 "HY000";
    /// There is no such prepared statement.
    UNKNOWN_STMT_HANDLER = 1243 "HY000";
    /// The server does not know the plugin.
    NOT_SUPPORTED_AUTH_MODE = 1251 "08004";
    /// `--read-only`, `--super-read-only` or the like forbids the statement.
    OPTION_PREVENTS_STATEMENT = 1290 "HY000";
    /// The statement cannot be prepared.
    UNSUPPORTED_PS = 1295 "HY000";
    /// A text could not be read in its character set.
    INVALID_CHARACTER_STRING = 1300 "HY000";
    /// The statement was stopped by KILL QUERY.
    QUERY_INTERRUPTED = 1317 "70100";
    /// The user has more statements than `max_prepared_stmt_count` allows.
    MAX_PREPARED_STMT_COUNT_REACHED = 1461 "42000";
    /// The plugin is not loaded.
    PLUGIN_IS_NOT_LOADED = 1524 "HY000";
    /// The transaction is READ ONLY.
    CANT_EXECUTE_IN_READ_ONLY_TRANSACTION = 1792 "25006";
    /// The user's password is old.
    MUST_CHANGE_PASSWORD = 1820 "HY000";
    /// A payload that is not what it should be.
    MALFORMED_PACKET = 1835 "HY000";
    /// The server is shutting down its sessions (MariaDB).
    CONNECTION_KILLED = 1927 "70100";
    /// The statement ran longer than `max_statement_time` (MariaDB).
    STATEMENT_TIMEOUT = 1969 "70100";
    /// A client library's own: the server went away.
    SERVER_GONE = 2006 "HY000";
    /// A client library's own: the connection broke during a statement.
    SERVER_LOST = 2013 "HY000";
    /// The statement ran longer than `max_execution_time` (MySQL).
    QUERY_TIMEOUT = 3024 "HY000";
    /// The server is closed for all but administrators (MySQL).
    SERVER_OFFLINE_MODE = 3032 "HY000";
    /// The account is locked (MySQL).
    ACCOUNT_HAS_BEEN_LOCKED = 3118 "HY000";
    /// The account is locked (MariaDB).
    ACCOUNT_IS_LOCKED = 4151 "HY000";
}

/// The five characters that the servers send with an error number, as far as it is listed here.
pub fn sqlstate_of(number: u16) -> &'static str {
    let row = STATES.iter().find(|(listed, _)| *listed == number);
    row.map_or(SQLSTATE_GENERAL, |(_, state)| state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sqlstates_are_those_of_the_servers() {
        assert_eq!(sqlstate_of(ACCESS_DENIED), "28000");
        assert_eq!(sqlstate_of(LOCK_DEADLOCK), "40001");
        assert_eq!(sqlstate_of(CANT_EXECUTE_IN_READ_ONLY_TRANSACTION), "25006");
        assert_eq!(sqlstate_of(65_000), SQLSTATE_GENERAL);
    }

    #[test]
    fn every_number_is_listed_once_with_five_characters() {
        for (at, (number, state)) in STATES.iter().enumerate() {
            assert_eq!(state.len(), 5, "{number}");
            assert!(
                STATES[at + 1..].iter().all(|(other, _)| other != number),
                "{number}"
            );
        }
    }
}
