//! Status flags: what the server says of the session in every OK and EOF packet.

bitflags::bitflags! {
    /// Names are those of the protocol without `SERVER_` and `SERVER_STATUS_`.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Status: u16 {
        /// A transaction is open.
        const IN_TRANS = 1;
        /// `autocommit` is on.
        const AUTOCOMMIT = 2;
        /// Another result follows this one.
        const MORE_RESULTS = 8;
        /// The statement used no good index.
        const NO_GOOD_INDEX = 0x10;
        /// The statement used no index.
        const NO_INDEX = 0x20;
        /// The execution opened a cursor: rows come by COM_STMT_FETCH.
        const CURSOR_EXISTS = 0x40;
        /// The cursor is at its end.
        const LAST_ROW_SENT = 0x80;
        /// A database was dropped.
        const DB_DROPPED = 0x100;
        /// `\` is an ordinary character in strings (sql_mode).
        const NO_BACKSLASH_ESCAPES = 0x200;
        /// A prepared statement was prepared again and has other columns.
        const METADATA_CHANGED = 0x400;
        /// The statement counts as slow.
        const SLOW = 0x800;
        /// This result set holds the OUT parameters of a procedure.
        const PS_OUT_PARAMS = 0x1000;
        /// The open transaction is READ ONLY.
        const IN_TRANS_READONLY = 0x2000;
        /// The OK packet has a block of session changes.
        const SESSION_STATE_CHANGED = 0x4000;
        /// `"` quotes identifiers (sql_mode); only MariaDB reports it.
        const ANSI_QUOTES = 0x8000;

        // Bit 2 is unused; it is kept when a server sets it.
        const _ = !0;
    }
}
