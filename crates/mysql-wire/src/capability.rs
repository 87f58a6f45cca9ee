//! Capabilities: what client and server can do. A connection uses what both have.
//!
//! The low 32 bits are MySQL's and travel in every handshake; the high 32 are MariaDB's extended
//! capabilities, which travel only when the sender leaves [`Capabilities::LONG_PASSWORD`] unset.

bitflags::bitflags! {
    /// Flags of both handshakes. Names are those of the protocol without `CLIENT_`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u64 {
        /// Set by MySQL. A MariaDB server or client leaves it unset (its `CLIENT_MYSQL`) to say
        /// that it sends extended capabilities.
        const LONG_PASSWORD = 1;
        /// Affected rows count the rows found, not those changed.
        const FOUND_ROWS = 1 << 1;
        /// Column flags have 2 bytes.
        const LONG_FLAG = 1 << 2;
        /// The login names a database.
        const CONNECT_WITH_DB = 1 << 3;
        /// `database.table.column` is refused.
        const NO_SCHEMA = 1 << 4;
        /// zlib-compressed packets.
        const COMPRESS = 1 << 5;
        /// Of no effect since 3.22.
        const ODBC = 1 << 6;
        /// The client can send a file for LOAD DATA LOCAL.
        const LOCAL_FILES = 1 << 7;
        /// Spaces are allowed before the `(` of a function.
        const IGNORE_SPACE = 1 << 8;
        /// The protocol since 4.1; nothing older is spoken here.
        const PROTOCOL_41 = 1 << 9;
        /// The session ends after `interactive_timeout`.
        const INTERACTIVE = 1 << 10;
        /// TLS follows the short form of the login.
        const SSL = 1 << 11;
        /// The client wants no SIGPIPE; of no effect on the wire.
        const IGNORE_SIGPIPE = 1 << 12;
        /// OK packets have status flags.
        const TRANSACTIONS = 1 << 13;
        /// Unused since the protocol of 4.1 was final.
        const RESERVED = 1 << 14;
        /// Passwords of 4.1: the response has its length before it.
        const SECURE_CONNECTION = 1 << 15;
        /// Several statements in one COM_QUERY.
        const MULTI_STATEMENTS = 1 << 16;
        /// Several results to one COM_QUERY.
        const MULTI_RESULTS = 1 << 17;
        /// Several results to one COM_STMT_EXECUTE.
        const PS_MULTI_RESULTS = 1 << 18;
        /// The login names an authentication plugin.
        const PLUGIN_AUTH = 1 << 19;
        /// The login has connection attributes.
        const CONNECT_ATTRS = 1 << 20;
        /// The password response has a length-encoded length.
        const PLUGIN_AUTH_LENENC = 1 << 21;
        /// The client can live with an expired password.
        const CAN_HANDLE_EXPIRED_PASSWORDS = 1 << 22;
        /// OK packets report changes of the session's state.
        const SESSION_TRACK = 1 << 23;
        /// Result sets end with an OK packet of header 0xFE, and nothing stands between columns
        /// and rows.
        const DEPRECATE_EOF = 1 << 24;
        /// The client can live without the columns of a result set (MySQL).
        const OPTIONAL_RESULTSET_METADATA = 1 << 25;
        /// zstd-compressed packets (MySQL); the login ends with the level.
        const ZSTD_COMPRESSION = 1 << 26;
        /// COM_QUERY and COM_STMT_EXECUTE carry attributes (MySQL).
        const QUERY_ATTRIBUTES = 1 << 27;
        /// Several authentication methods, one after the other (MySQL).
        const MULTI_FACTOR = 1 << 28;
        /// Reserved for an extension of these flags (MySQL).
        const CAPABILITY_EXTENSION = 1 << 29;
        /// Used by client libraries among themselves; MariaDB's old flag of progress reports.
        const SSL_VERIFY_SERVER_CERT = 1 << 30;
        /// Used by client libraries among themselves.
        const REMEMBER_OPTIONS = 1 << 31;
        /// Progress reports as error packets of number 0xFFFF (MariaDB).
        const MARIADB_PROGRESS = 1 << 32;
        /// Several commands in one packet; withdrawn by MariaDB.
        const MARIADB_COM_MULTI = 1 << 33;
        /// Bulk execution of prepared statements (MariaDB).
        const MARIADB_STMT_BULK = 1 << 34;
        /// Columns carry type names and formats (MariaDB).
        const MARIADB_EXTENDED_METADATA = 1 << 35;
        /// Executions may leave out the columns that did not change (MariaDB).
        const MARIADB_CACHE_METADATA = 1 << 36;
        /// Bulk executions report each row's result (MariaDB).
        const MARIADB_BULK_UNIT_RESULTS = 1 << 37;

        /// All the bits of MariaDB's extension.
        const MARIADB_ALL = 0xFFFF_FFFF_0000_0000;

        // Bits that a newer server adds are kept, so that a greeting can be passed on whole.
        const _ = !0;
    }
}

impl Capabilities {
    /// The half that MySQL knows.
    pub const fn low(self) -> u32 {
        self.bits() as u32
    }

    /// MariaDB's half, as it travels.
    pub const fn extended(self) -> u32 {
        (self.bits() >> 32) as u32
    }

    /// Puts both halves together. `extended` counts only when `low` leaves LONG_PASSWORD unset:
    /// from MySQL these bytes are filler.
    pub const fn from_halves(low: u32, extended: u32) -> Capabilities {
        let extended = if low & 1 == 0 {
            (extended as u64) << 32
        } else {
            0
        };
        Capabilities::from_bits_retain(low as u64 | extended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extended_capabilities_count_only_without_long_password() {
        let mariadb = Capabilities::from_halves(0x200, 4);
        assert_eq!(
            mariadb,
            Capabilities::PROTOCOL_41 | Capabilities::MARIADB_STMT_BULK
        );
        assert_eq!((mariadb.low(), mariadb.extended()), (0x200, 4));
        assert_eq!(Capabilities::from_halves(1, 4), Capabilities::LONG_PASSWORD);
    }

    #[test]
    fn numbers_are_those_of_the_protocol() {
        assert_eq!(Capabilities::PLUGIN_AUTH.bits(), 0x8_0000);
        assert_eq!(Capabilities::SESSION_TRACK.bits(), 0x80_0000);
        assert_eq!(Capabilities::DEPRECATE_EOF.bits(), 0x100_0000);
        assert_eq!(Capabilities::QUERY_ATTRIBUTES.bits(), 0x800_0000);
    }
}
