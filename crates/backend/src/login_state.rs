//! What a new connection's server is asked about itself and the session that it has made.

use crate::connection::ConnectionError;

/// What is asked after login: the character sets, whether the server takes writes, whether it gives
/// GTIDs to all of them, how long it waits for a silent client, and what
/// sessions have it report by default.
pub(crate) const MARIADB_LOGIN: &[u8] =
    b"SELECT @@character_set_client, @@character_set_connection, \
    @@character_set_results, @@collation_connection, @@global.read_only, @@global.log_bin, \
    CURRENT_ROLE(), @@session.wait_timeout, @@global.session_track_system_variables, \
    @@global.session_track_schema LIMIT 1";
pub(crate) const MYSQL_LOGIN: &[u8] =
    b"SELECT @@character_set_client, @@character_set_connection, \
    @@character_set_results, @@collation_connection, @@global.read_only, \
    @@global.log_bin AND @@global.gtid_mode = 'ON', CURRENT_ROLE(), @@session.wait_timeout, \
    @@global.session_track_system_variables, @@global.session_track_schema, \
    @@global.session_track_gtids LIMIT 1";

/// A server that was restarted is read-only, and accounts with SUPER could write there all the same:
/// what they write nobody else would have. ER_OPTION_PREVENTS_STATEMENT, as the server says it.
pub(crate) fn read_only_server() -> ConnectionError {
    ConnectionError::Refused {
        number: 1290,
        sqlstate: *b"HY000",
        message: b"The MySQL server is running with the --read-only option so it cannot execute \
                   this statement"
            .to_vec(),
    }
}
