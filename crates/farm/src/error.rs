//! Every error of Heddle's own that a client can see, as one table.
//!
//! Errors of the servers pass through as they are; what stands here is what the router itself says.
//! `docs/ERRORS.md` is made from this table (a test compares them).

/// One row: what a client is told. Use the constants of this module; a door turns it into bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientError {
    /// A stable name for logs, metrics and docs.
    pub name: &'static str,
    /// MySQL error number.
    pub number: u16,
    /// Five characters.
    pub sqlstate: &'static str,
    /// The text; `{}` stands for details that the place of the error supplies.
    pub message: &'static str,
    /// True when the same statement may be sent again without harm.
    pub retryable: bool,
    /// What the reader can do about it.
    pub cure: &'static str,
}

macro_rules! errors {
    ($($name:ident $number:literal $state:literal $retry:literal $message:literal $cure:literal;)*) => {
        $(
            #[doc = $message]
            pub const $name: ClientError = ClientError {
                name: stringify!($name), number: $number, sqlstate: $state,
                message: $message, retryable: $retry, cure: $cure,
            };
        )*
        /// The table, in the order of its source.
        pub const ALL: &[ClientError] = &[$($name),*];
    };
}

errors! {
    ACCESS_DENIED 1045 "28000" false "Access denied for user {}"
        "Check user, password and the host pattern of the account on the servers.";
    ACCOUNT_LOCKED 4151 "HY000" false "Access denied, this account is locked"
        "ALTER USER … ACCOUNT UNLOCK on the primary.";
    ACCOUNT_LOCKED_MYSQL 3118 "HY000" false "Access denied for user {}. Account is locked."
        "ALTER USER … ACCOUNT UNLOCK on the primary.";
    ACCOUNT_BLOCKED 4150 "HY000" false "User is blocked because of too many credential errors; unblock with 'ALTER USER / FLUSH PRIVILEGES'"
        "As many wrong passwords came in a row as max_password_errors allows: ALTER USER or FLUSH PRIVILEGES through the router that refuses it.";
    ACCOUNT_BLOCKED_MYSQL 3955 "HY000" false "Access denied for user {}. Account is blocked for {} day(s) ({} day(s) remaining) due to {} consecutive failed logins."
        "As many wrong passwords came in a row as FAILED_LOGIN_ATTEMPTS of the account allows: wait, or ALTER USER … ACCOUNT UNLOCK through the router that refuses it.";
    PASSWORD_EXPIRED 1862 "HY000" false "Your password has expired. To log in you must change it using a client that supports expired passwords."
        "ALTER USER … IDENTIFIED BY … as another account: this one has a server_user of its own.";
    AUTH_PLUGIN_UNSUPPORTED 1524 "HY000" false "Heddle cannot log in to the servers for this account: its plugin {} does not give it what it needs; it needs a [[backend_credential]]"
        "Give the account a [[backend_credential]] in Heddle's configuration, or use mysql_native_password, or caching_sha2_password with remember_passwords = on.";
    SEVERAL_FACTORS 1524 "HY000" false "Heddle cannot log in to the servers for this account: it wants another factor ({}) besides the first; it needs a [[backend_credential]] with a server_user"
        "Give the account a [[backend_credential]] whose server_user has one factor only, or use an account with one factor (ALTER USER … DROP 2 FACTOR).";
    PASSWORD_NEEDS_TLS 3159 "HY000" false "The account's plugin {} asks for the password itself, which Heddle takes inside TLS only"
        "Connect with TLS, or give the account a [[backend_credential]].";
    CHARSET_UNFIT 1231 "42000" false "Variable 'character_set_client' can't be set to the value of '{}'"
        "Have the client use a character set that statements can be written in, such as utf8mb4.";
    OLD_AUTHENTICATION 1251 "08004" false "Client does not support authentication protocol requested by server; consider upgrading MySQL client"
        "Use a client that can switch its authentication plugin (any since MySQL 5.5).";
    USER_LIMIT_REACHED 1226 "42000" false "User '{}' has exceeded the '{}' resource (current value: {})"
        "Close connections of this account, or ALTER USER … WITH MAX_USER_CONNECTIONS.";
    TOO_MANY_USER_CONNECTIONS 1203 "42000" false "User {} already has more than 'max_user_connections' active connections"
        "Close connections of this account, or raise user_connections_max.";
    TOO_MANY_CONNECTIONS 1040 "08004" true "Too many connections"
        "Raise clients_max, or close connections that are not used.";
    TOO_MANY_LOGINS 1040 "08004" true "Too many connections: too many clients are logging in"
        "Try again; see who connects and does not log in, or raise logins_max.";
    HOST_BLOCKED 1129 "HY000" true "Host '{}' is blocked because {} logins in a row have failed; correct what logs in there, and try again in {} s"
        "Correct the user or the password of the program there. The wait ends by itself; login_failures = 0 ends all of them at once.";
    LOGIN_QUEUE_FULL 1040 "08004" true "Too many connections: too many passwords wait to be verified"
        "Try again; see who logs in so often (connections should be kept), or raise login_queue_max.";
    POOL_WAIT_TIMEOUT 1040 "08004" true "Too many connections: no server connection became free in {} ms"
        "Raise pool_connections_max, or look for sessions that hold connections (HEDDLE STATUS).";
    HANDSHAKE_BAD 1043 "08S01" false "Bad handshake"
        "Use a client that speaks protocol version 4.1 (any since MySQL 5.0).";
    PROXY_HEADER_REFUSED 1130 "HY000" false "Proxy header is not accepted from {}"
        "Name the load balancer's network in proxy_protocol_networks, or have the balancer send no header.";
    PROXY_HEADER_BAD 1043 "08S01" false "Bad handshake: {}"
        "See what the load balancer sends: version 1 or 2 of the PROXY protocol, for a stream.";
    PACKETS_OUT_OF_ORDER 1156 "08S01" false "Got packets out of order"
        "The client broke the protocol; connect again.";
    SERVER_TAKES_NO_PROXY 1130 "HY000" false "Heddle: server {} does not take the PROXY header that says where this client is: {}"
        "Name the router's address in the server's proxy_protocol_networks (MariaDB), or set proxy_protocol_servers to off; MySQL has no PROXY protocol.";
    ACCOUNT_MISTAKEN 1045 "28000" false "Access denied for user '{}': Heddle: the servers take the router for a client of {}, whose privileges are not those of {}"
        "Set proxy_protocol_servers and the servers' proxy_protocol_networks (MariaDB), so that servers see the clients' own addresses; or give both accounts the same privileges, or drop one.";
    NET_READ_ERROR 1158 "08S01" false "Got an error reading communication packets"
        "The client went away in the middle of a packet.";
    NET_READ_INTERRUPTED 1159 "08S01" false "Got timeout reading communication packets"
        "The client was silent for longer than handshake_timeout_s or idle_timeout_s.";
    IDLE_TOO_LONG 4031 "HY000" false "The client was disconnected by the server because of inactivity. See wait_timeout and interactive_timeout for configuring this behavior."
        "Connect again; raise the session's wait_timeout, or idle_timeout_s.";
    NET_UNCOMPRESS_ERROR 1157 "08S01" false "Couldn't uncompress communication packet"
        "The client broke the protocol; connect again, or without compression.";
    SECURE_TRANSPORT_REQUIRED 3159 "HY000" false "Connections using insecure transport are prohibited while --require_secure_transport=ON."
        "Connect with TLS, or set tls_clients to preferred.";
    PACKET_TOO_LARGE 1153 "08S01" false "Got a packet bigger than 'max_allowed_packet' bytes"
        "Raise packet_bytes_max, and max_allowed_packet on the servers.";
    OUT_OF_MEMORY 1041 "HY000" true "Heddle: out of memory: what is kept for clients has reached memory_bytes_max"
        "Raise memory_bytes_max, or end clients that have sent large packets in part (HEDDLE STATUS LIKE 'memory%').";
    USER_OUT_OF_MEMORY 1041 "HY000" true "Heddle: out of memory: what is kept for clients of this account has reached user_memory_bytes_max"
        "Raise user_memory_bytes_max, or have the account's clients send smaller packets and keep fewer prepared statements.";
    UNKNOWN_COMMAND 1047 "08S01" false "Unknown command"
        "Heddle does not carry this command; the servers know it neither, or only among themselves.";
    SHUTDOWN_DENIED 1227 "42000" false "Access denied; you need (at least one of) the SHUTDOWN privilege(s) for this operation"
        "GRANT SHUTDOWN ON *.*; through Heddle SHUTDOWN is refused all the same.";
    SHUTDOWN_REFUSED 1105 "HY000" false "Heddle: SHUTDOWN is refused here, where nobody can say which server of the farm is meant: connect to that server itself, after `heddle server set_mode SERVER OFFLINE`"
        "Take the server out (`heddle server set_mode SERVER OFFLINE`, or promote another one), then shut it down by its own address.";
    STATEMENT_WITHOUT_CURSOR 1421 "HY000" false "The statement ({}) has no open cursor{}"
        "Ask for a cursor when the statement is executed; DDL, COM_STMT_RESET and its last row close it.";
    WRONG_ARGUMENTS 1210 "HY000" false "Incorrect arguments to {}"
        "Long data was sent for a parameter that the statement does not have.";
    MALFORMED_PACKET 1835 "HY000" false "Malformed communication packet: {}"
        "The client broke the protocol.";
    UNKNOWN_STATEMENT 1243 "HY000" false "Unknown prepared statement handler ({}) given to {}"
        "Prepare the statement on this connection first.";
    NO_PRIMARY 1290 "HY000" true "Heddle: group {} has no primary that takes writes"
        "See `heddle group health`; start or promote a server.";
    TOO_MANY_WAIT 1041 "HY000" true "Heddle: no primary takes writes, and failover_waiters_max statements wait for one already"
        "Try again when the group has a primary (`heddle group health`), or raise failover_waiters_max.";
    NO_SERVER 1105 "HY000" true "Heddle: no server of group {} is alive"
        "See `heddle group health`; start a server.";
    NO_GROUP 1105 "HY000" false "Heddle: the farm has no group yet"
        "heddle group create NAME, then heddle group add NAME ADDRESS.";
    NOT_PREPARABLE 1295 "HY000" false "This command is not supported in the prepared statement protocol yet"
        "Send statements about variables of Heddle's own as text.";
    BULK_NOT_AGREED 1295 "HY000" false "This command is not supported in the prepared statement protocol yet"
        "The client must take up MariaDB's bulk operations when it logs in.";
    TOO_MANY_STATEMENTS 1461 "42000" false "Can't create more than max_prepared_stmt_count statements"
        "Close prepared statements, or raise statements_max.";
    STATEMENTS_TOO_LARGE 1461 "42000" false "Heddle: the prepared statements of this client would take more than statements_bytes_max"
        "Close prepared statements, or raise statements_bytes_max.";
    SERVER_LOST 1158 "08S01" false "Lost connection to server {} during query"
        "The server died or closed the connection; its statement may or may not have run.";
    BINLOG_BY_POSITION 1236 "HY000" false "Heddle: a reader that follows group {} has to go by GTID, since a place in a file is another one on each server: MASTER_USE_GTID = slave_pos (MySQL: SOURCE_AUTO_POSITION = 1)"
        "Let the replica go by GTID; let a program begin at a GTID (mariadb-binlog --start-position=GTID), or read to the end of the log only.";
    BINLOG_OF_NO_GROUP 1236 "HY000" false "Heddle: the user's sessions begin in group {}, which the farm does not have"
        "Correct `group` in the [[user]] table of this account, or create the group.";
    SERVER_LOST_IN_RESULT 1158 "08S01" true "Lost connection to server {} while it sent a result"
        "Run the read again.";
    OUTCOME_UNKNOWN 1105 "HY000" false "Heddle: outcome unknown: the server was lost, and whether the write has happened cannot be told: {}"
        "See docs/OUTCOMES.md; look whether it has happened before it is done again.";
    TRANSACTION_DIFFERS 1213 "40001" true "Heddle: the transaction was lost with its server, and {}"
        "Run the transaction again from its beginning; nothing of it has happened.";
    DIST_TXN_UNDONE 1213 "40001" true "Heddle: the transaction over several groups was rolled back: {}"
        "Run the transaction again from its beginning; nothing of it has happened.";
    DIST_TXN_LOCK_WAIT 1213 "40001" true "Heddle: the transaction over several groups was rolled back: it waited for a lock for longer than cross_lock_wait_ms"
        "Run the transaction again from its beginning; nothing of it has happened.";
    SAVEPOINT_UNKNOWN 1305 "42000" false "SAVEPOINT {} does not exist"
        "Set it in the transaction that goes back to it.";
    DIST_TXN_REFUSED 1105 "HY000" false "Heddle: this statement cannot run in a transaction over several groups: {}"
        "The text says why; the transaction is still open.";
    XA_STATE 1399 "XAE07" false "XAER_RMFAIL: The command cannot be executed when global transaction is in the  {} state"
        "XA END, then XA PREPARE and XA COMMIT, or XA ROLLBACK, in this order.";
    XA_UNKNOWN 1397 "XAE04" false "XAER_NOTA: Unknown XID"
        "XA RECOVER lists those that are prepared; one whose session lives is ended by that session.";
    XA_INVALID 1398 "XAE05" false "XAER_INVAL: Invalid arguments (or unsupported command)"
        "Servers know neither JOIN nor SUSPEND; ONE PHASE is for what is not prepared.";
    XA_RESERVED 1398 "XAE05" false "XAER_INVAL: Heddle: this formatID is that of Heddle's own branches"
        "Use another formatID.";
    XA_OUTSIDE 1400 "XAE09" false "XAER_OUTSIDE: Some work is done outside global transaction"
        "COMMIT or ROLLBACK what is open first.";
    XA_TAKEN 1440 "XAE08" false "XAER_DUPID: The XID already exists"
        "Use another XID; XA RECOVER lists those that are prepared.";
    XA_UNDONE 1402 "XA100" true "XA_RBROLLBACK: Heddle: the transaction was rolled back: {}"
        "Run the transaction again from its beginning; nothing of it has happened.";
    XA_PENDING 1399 "XAE07" true "XAER_RMFAIL: Heddle: it cannot be done now: {}"
        "Send XA COMMIT or XA ROLLBACK again, on any session; XA RECOVER lists it while it is prepared.";
    SNAPSHOT_FAILED 1105 "HY000" true "Heddle: no snapshot over the groups could be opened: {}"
        "Begin again. The text says what stood in its way; see `heddle group health` and `heddle transaction list`.";
    SESSION_LOST_PIN 1105 "HY000" false "Heddle: the server connection that held this session's {} was lost"
        "Create it again; the session itself goes on.";
    DEFINITION_UNFINISHED 1105 "HY000" false "Heddle: the definition was changed on group {}, but group {} refused it: {} (change {})"
        "Mend the reason, then `heddle sharding resume_change`; or undo it on the groups that have it, then `heddle sharding drop_change`. `heddle sharding list_changes` and `verify` show what is left.";
    SERVER_UNREACHABLE 1429 "HY000" true "Can't connect to server {}"
        "See `heddle group health`.";
    PARTS_DIFFER 1105 "HY000" false "Heddle: what the groups answered does not fit together: {}"
        "See whether a table is the same on all groups: `heddle sharding verify`.";
    UNKNOWN_THREAD 1094 "HY000" false "Unknown thread id: {}"
        "SHOW PROCESSLIST lists the ids.";
    NOT_YOUR_THREAD 1095 "HY000" false "You are not owner of thread {}"
        "Only the same user or an administrator may kill a connection.";
    QUERY_KILLED 1317 "70100" true "Query execution was interrupted"
        "Somebody used KILL QUERY.";
    CONNECTION_KILLED 1927 "70100" false "Connection was killed"
        "Somebody used KILL; connect again.";
    SHUTTING_DOWN 1053 "08S01" true "Server shutdown in progress"
        "Connect again; another router or the restarted one answers.";
    ROUTER_SILENT 1105 "HY000" true "Heddle: not all routers of the farm could be asked: {}"
        "What the others were asked is done; see to the router that is named, or wait until the farm knows that it is gone, and repeat the statement.";
    COMMAND_REFUSED 1105 "HY000" false "Heddle: {}"
        "The text says what to change.";
    ADMIN_REQUIRED 1227 "42000" false "Access denied; you need the SUPER privilege for this operation"
        "Use an account with all privileges for commands that change the farm.";
    SERVER_UNTRUSTED 3159 "HY000" false "Heddle: the server asks for the account's password ({}), and nothing proves who the server is"
        "Set tls_servers to verify_identity or verify_ca with tls_servers_ca, or tell the farm the server's certificate with server accept_certificate (MySQL); required gives passwords to any server inside TLS.";
    MONITOR_REQUIRED 1227 "42000" false "Access denied; you need the PROCESS privilege for this operation"
        "Use an account with PROCESS for commands that show the farm, or name the account in monitor_users.";
    STATEMENT_REFUSED 1148 "42000" false "{}"
        "A rule of the router refuses the statement, with the operator's text; see `heddle config rules`.";
    HOOK_UNDECIDED 1105 "HY000" true "Heddle: rule {} waits for a decision that nobody made: {}"
        "See to the program behind the rule's hook, or give the rule another hook_fallback.";
    HINT_INVALID 1231 "42000" false "Heddle: {}"
        "See the hints in the README; a comment before the first word that begins with 'heddle' is one.";
    ALL_SERVERS_REFUSED 1235 "42000" false "Heddle: /*ms=all*/ {}"
        "Leave the hint away, or do what the text says; see docs/ROUTING.md.";
    ALL_SERVERS_MISSING 1105 "HY000" true "Heddle: /*ms=all*/ asks every server, and nobody reaches {}"
        "See `heddle group health`; start the server, or take it out by `heddle server set_status SERVER FAULTY`.";
    SETTING_INVALID 1231 "42000" false "Variable '{}' can't be set to the value of '{}'{}"
        "The text says which values there are.";
    SETTING_UNKNOWN 1193 "HY000" false "Unknown system variable '{}'"
        "Variables of Heddle's own: heddle_consistency, heddle_max_lag_ms, heddle_monotonic, heddle_cache_ttl_s, heddle_row_cache, heddle_failover_wait_ms, heddle_atomic, heddle_token.";
    SETTING_SESSION_ONLY 1228 "HY000" false "Variable '{}' is a SESSION variable and can't be used with SET GLOBAL"
        "Defaults of the farm and of users are settings of the router.";
    SETTINGS_MIXED 1105 "HY000" false "Heddle: its own variables are set by statements of their own, with values that are written out"
        "Split the SET: one for heddle_… variables, one for the others.";
    TOKEN_REFUSED 1231 "42000" false "Heddle: heddle_token is refused: {}"
        "Take the token anew from the session that it came from.";
    TOKEN_UNKNOWN 1105 "HY000" true "Heddle: this session has no token now: what it has written or read cannot be told"
        "Servers without a binlog tell no GTIDs; else try again when the primary answers.";
    SHARD_KEY_NULL 1048 "23000" false "Heddle: {} is a shard key and cannot be NULL"
        "Give the row a key; a row without one has no shard.";
    SHARD_KEY_MISSING 1364 "HY000" false "Heddle: no value is given to the shard key {}"
        "Name the shard key's column in the INSERT and write its value out.";
    SHARD_KEY_BAD 1366 "HY000" false "Heddle: a value that cannot be stored as it is was given to the shard key {}"
        "Write the key as a value of its column's type: what a server would round, cut or convert has no sure shard.";
    SHARD_KEY_TOO_LARGE 1264 "22003" false "Heddle: out of range value for the shard key {}"
        "Write a number that the column's type holds; a server that is not strict would store another one.";
    SHARD_KEY_TOO_LONG 1406 "22001" false "Heddle: data too long for the shard key {}"
        "Write a text that the column holds; a server that is not strict would cut it.";
    SHARD_KEY_OUT_OF_RANGE 1526 "HY000" false "Heddle: no shard has the key {}"
        "Add a shard for it (heddle sharding add_shard), or correct the key.";
    SHARD_DISABLED 1105 "HY000" false "Heddle: shard {} is disabled, and the statement needs it"
        "heddle sharding enable_shard SHARD.";
    SHARD_MOVING 1205 "HY000" true "Heddle: a part of shard map {} is on its way from group {} to group {} (job {}), and the statement waited for it for longer than failover_wait_ms"
        "Try again; `heddle job show JOB` says what the move waits for, and `heddle job abort JOB` ends it.";
    TABLES_UNDESCRIBED 1205 "HY000" true "Heddle: this router does not know yet what columns tables of database {} have, and the statement waited to know for longer than failover_wait_ms"
        "Try again; a router asks the primary of the group that has the database's tables without a shard key: `heddle group health`.";
    SHARD_KEY_MOVES 1235 "42000" false "Heddle: {}"
        "UPDATE the shard key of rows named by their key, or DELETE and INSERT them in one transaction.";
    IDS_UNAVAILABLE 1105 "HY000" true "Heddle: no id for this row can be had now: {}"
        "Try again when the group that has the tables without a shard key has a primary, or write the id out.";
    NOT_OVER_GROUPS 1235 "42000" false "Heddle: {}"
        "Give the statement a condition on the shard key that leaves one shard, or divide it; HEDDLE EXPLAIN tells what it needs.";
    GATHER_TOO_LARGE 1105 "HY000" false "Heddle: the SELECT needs more of the groups' rows in one place than {} = {} allows"
        "Give it a condition, or raise the setting; HEDDLE EXPLAIN tells what it fetches.";
    GATHER_TOO_LONG 1105 "HY000" false "Heddle: the SELECT needs rows of several groups in one place and takes longer than gather_time_max_ms = {} allows"
        "Give it a condition, or raise the setting; HEDDLE EXPLAIN tells what it fetches.";
    GATHER_DENIED 1142 "42000" false "Heddle: this account may not make temporary tables on the server that stands in for the scratch server: {}"
        "Give Heddle a scratch server (setting scratch), or GRANT SELECT, INSERT, CREATE, DROP, CREATE TEMPORARY TABLES ON heddle.* to the account.";
    GATHER_FAILED 1105 "HY000" true "Heddle: the rows of several groups cannot be put together now: {}"
        "They are put together on the scratch server, or on a primary in its place: `heddle group health`.";
    KILL_TAKES_NO_TABLES 1970 "42000" false "KILL does not support subqueries or stored functions"
        "Ask for the id first.";
    LISTING_TOO_LARGE 1105 "HY000" false "Heddle: the farm has more sessions than a table of them in a query can have"
        "SHOW PROCESSLIST and `heddle session list` have them all.";
    FARM_TABLE_READ_ONLY 1036 "HY000" false "Heddle: heddle.{} is a table about the farm and can only be read"
        "Commands change the farm (docs/FARM_TABLES.md); farm_tables = off gives the name to the servers.";
    FARM_TABLE_TOO_LARGE 1105 "HY000" false "Heddle: heddle.{} has more rows than a statement can carry to a server"
        "The command that docs/FARM_TABLES.md names for the table gives them all; digest list takes a limit.";
    FARM_TABLES_ALONE 1105 "HY000" true "Heddle: no server of the farm can run this query, and without one it is too much: {}"
        "Ask for columns of one table, with WHERE column = value AND …, ORDER BY and LIMIT, or ask the command that docs/FARM_TABLES.md names for the table.";
    DIAGNOSTICS_GONE 1105 "HY000" false "Heddle: {} of the last statement is no longer known; its server connection has served others since"
        "Ask in the next statement after the one it is about.";
}

impl ClientError {
    /// The message with its `{}` replaced in order by `details`.
    pub fn text(&self, details: &[&str]) -> String {
        let mut details = details.iter();
        let mut text = String::with_capacity(self.message.len() + 32);
        let mut parts = self.message.split("{}");
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            text.push_str(details.next().copied().unwrap_or("?"));
            text.push_str(part);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_states_have_five_characters() {
        for (i, error) in ALL.iter().enumerate() {
            assert_eq!(error.sqlstate.len(), 5, "{}", error.name);
            assert!(
                ALL[i + 1..].iter().all(|other| other.name != error.name),
                "{}",
                error.name
            );
        }
    }

    /// MariaDB's C library shows an error packet with such a number as 2027, a malformed packet.
    #[test]
    fn no_number_is_one_of_the_client_libraries_own() {
        let of_libraries = ALL
            .iter()
            .find(|error| (2000..3000).contains(&error.number));
        assert_eq!(of_libraries.map(|error| error.name), None);
    }

    #[test]
    fn details_fill_the_gaps_in_order() {
        assert_eq!(
            UNKNOWN_STATEMENT.text(&["7", "mysqld_stmt_execute"]),
            "Unknown prepared statement handler (7) given to mysqld_stmt_execute"
        );
    }
}
