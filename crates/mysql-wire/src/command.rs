//! Commands: the first byte of every payload that a client sends after its login.

/// All command bytes of MySQL 8 and MariaDB 11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Command {
    Sleep = 0x00,
    Quit = 0x01,
    InitDb = 0x02,
    Query = 0x03,
    FieldList = 0x04,
    CreateDb = 0x05,
    DropDb = 0x06,
    Refresh = 0x07,
    Shutdown = 0x08,
    Statistics = 0x09,
    ProcessInfo = 0x0A,
    Connect = 0x0B,
    ProcessKill = 0x0C,
    Debug = 0x0D,
    Ping = 0x0E,
    Time = 0x0F,
    DelayedInsert = 0x10,
    ChangeUser = 0x11,
    BinlogDump = 0x12,
    TableDump = 0x13,
    ConnectOut = 0x14,
    RegisterSlave = 0x15,
    StmtPrepare = 0x16,
    StmtExecute = 0x17,
    StmtSendLongData = 0x18,
    StmtClose = 0x19,
    StmtReset = 0x1A,
    SetOption = 0x1B,
    StmtFetch = 0x1C,
    Daemon = 0x1D,
    BinlogDumpGtid = 0x1E,
    ResetConnection = 0x1F,
    /// MySQL 8.
    Clone = 0x20,
    /// MySQL 8.
    SubscribeGroupReplicationStream = 0x21,
    /// MariaDB: one statement, many rows of parameters.
    StmtBulkExecute = 0xFA,
    /// MariaDB, never on the wire.
    SlaveWorker = 0xFB,
    /// MariaDB, never on the wire.
    SlaveIo = 0xFC,
    /// MariaDB, never on the wire.
    SlaveSql = 0xFD,
    /// MariaDB; withdrawn.
    Multi = 0xFE,
}

/// A byte that is no command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown command byte {0:#04x}")]
pub struct UnknownCommand(pub u8);

/// Every command, in the order of its byte.
pub const ALL: [Command; 39] = {
    use Command::*;
    [
        Sleep,
        Quit,
        InitDb,
        Query,
        FieldList,
        CreateDb,
        DropDb,
        Refresh,
        Shutdown,
        Statistics,
        ProcessInfo,
        Connect,
        ProcessKill,
        Debug,
        Ping,
        Time,
        DelayedInsert,
        ChangeUser,
        BinlogDump,
        TableDump,
        ConnectOut,
        RegisterSlave,
        StmtPrepare,
        StmtExecute,
        StmtSendLongData,
        StmtClose,
        StmtReset,
        SetOption,
        StmtFetch,
        Daemon,
        BinlogDumpGtid,
        ResetConnection,
        Clone,
        SubscribeGroupReplicationStream,
        StmtBulkExecute,
        SlaveWorker,
        SlaveIo,
        SlaveSql,
        Multi,
    ]
};

impl TryFrom<u8> for Command {
    type Error = UnknownCommand;

    fn try_from(byte: u8) -> Result<Command, UnknownCommand> {
        // The bytes up to 0x21 have no gap, so the table is its own index for all common ones.
        match ALL.get(usize::from(byte)) {
            Some(command) if *command as u8 == byte => Ok(*command),
            _ => {
                let found = ALL.iter().find(|command| **command as u8 == byte);
                found.copied().ok_or(UnknownCommand(byte))
            }
        }
    }
}

impl Command {
    /// The name that servers and manuals use.
    pub const fn name(self) -> &'static str {
        match self {
            Command::Sleep => "COM_SLEEP",
            Command::Quit => "COM_QUIT",
            Command::InitDb => "COM_INIT_DB",
            Command::Query => "COM_QUERY",
            Command::FieldList => "COM_FIELD_LIST",
            Command::CreateDb => "COM_CREATE_DB",
            Command::DropDb => "COM_DROP_DB",
            Command::Refresh => "COM_REFRESH",
            Command::Shutdown => "COM_SHUTDOWN",
            Command::Statistics => "COM_STATISTICS",
            Command::ProcessInfo => "COM_PROCESS_INFO",
            Command::Connect => "COM_CONNECT",
            Command::ProcessKill => "COM_PROCESS_KILL",
            Command::Debug => "COM_DEBUG",
            Command::Ping => "COM_PING",
            Command::Time => "COM_TIME",
            Command::DelayedInsert => "COM_DELAYED_INSERT",
            Command::ChangeUser => "COM_CHANGE_USER",
            Command::BinlogDump => "COM_BINLOG_DUMP",
            Command::TableDump => "COM_TABLE_DUMP",
            Command::ConnectOut => "COM_CONNECT_OUT",
            Command::RegisterSlave => "COM_REGISTER_SLAVE",
            Command::StmtPrepare => "COM_STMT_PREPARE",
            Command::StmtExecute => "COM_STMT_EXECUTE",
            Command::StmtSendLongData => "COM_STMT_SEND_LONG_DATA",
            Command::StmtClose => "COM_STMT_CLOSE",
            Command::StmtReset => "COM_STMT_RESET",
            Command::SetOption => "COM_SET_OPTION",
            Command::StmtFetch => "COM_STMT_FETCH",
            Command::Daemon => "COM_DAEMON",
            Command::BinlogDumpGtid => "COM_BINLOG_DUMP_GTID",
            Command::ResetConnection => "COM_RESET_CONNECTION",
            Command::Clone => "COM_CLONE",
            Command::SubscribeGroupReplicationStream => "COM_SUBSCRIBE_GROUP_REPLICATION_STREAM",
            Command::StmtBulkExecute => "COM_STMT_BULK_EXECUTE",
            Command::SlaveWorker => "COM_SLAVE_WORKER",
            Command::SlaveIo => "COM_SLAVE_IO",
            Command::SlaveSql => "COM_SLAVE_SQL",
            Command::Multi => "COM_MULTI",
        }
    }

    /// Whether the server sends nothing back.
    pub const fn is_silent(self) -> bool {
        matches!(
            self,
            Command::Quit | Command::StmtClose | Command::StmtSendLongData
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_its_command_or_unknown() {
        let mut known = 0;
        for byte in 0..=255 {
            match Command::try_from(byte) {
                Ok(command) => {
                    assert_eq!(command as u8, byte);
                    assert!(command.name().starts_with("COM_"));
                    known += 1;
                }
                Err(error) => assert_eq!(error, UnknownCommand(byte)),
            }
        }
        assert_eq!(known, ALL.len());
        assert_eq!(Command::try_from(0x17), Ok(Command::StmtExecute));
        assert_eq!(Command::try_from(0x22), Err(UnknownCommand(0x22)));
    }
}
