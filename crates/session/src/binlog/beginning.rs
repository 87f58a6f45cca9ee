//! What a reader of the binlog has set up by user variables, as replicas do before they ask for the stream.
//!
//! Nobody acknowledges for the servers of a group but its own replicas, so a reader that wants to is declined as
//! by a server that has semi-sync switched off: it gets the stream that it expects, and is never asked.

use backend::{Connection, ConnectionError};
use mysql_wire::command::Command;

/// A MariaDB reader's position; whether a reader acknowledges, by the names of both engines.
const ASKED: &[u8] = b"SELECT @slave_connect_state, @rpl_semi_sync_slave, @rpl_semi_sync_replica";

const DECLINE: &[u8] = b"SET @rpl_semi_sync_slave = NULL, @rpl_semi_sync_replica = NULL";

/// What the variables say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    /// The reader has named GTIDs behind which it begins.
    pub has_position: bool,
    pub semi_sync: bool,
}

/// Reads them where the stream will come from, and has the server take the reader for no replica of its own.
///
/// # Errors
/// The server cannot be asked.
pub(super) async fn asked(connection: &mut Connection) -> Result<Asked, ConnectionError> {
    let table = connection.table(ASKED).await?;
    let asked = table.rows.first().map(|row| read(row)).unwrap_or_default();
    if asked.semi_sync {
        connection.run(&[(Command::Query, DECLINE)]).await?;
    }
    Ok(asked)
}

fn read(row: &[Option<Vec<u8>>]) -> Asked {
    let wants = |cell: &Option<Vec<u8>>| cell.as_deref().is_some_and(|cell| cell != b"0");
    Asked {
        has_position: row.first().is_some_and(Option::is_some),
        semi_sync: row.iter().skip(1).any(wants),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_position_is_one() {
        let row = |cells: [Option<&str>; 3]| {
            read(&cells.map(|cell| cell.map(|text| text.as_bytes().to_vec())))
        };
        assert_eq!(row([None, None, None]), Asked::default());
        assert!(row([Some(""), None, None]).has_position);
        assert!(!row([None, Some("0"), None]).semi_sync);
        assert!(row([None, Some("1"), None]).semi_sync && row([None, None, Some("1")]).semi_sync);
    }
}
