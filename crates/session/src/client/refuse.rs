//! What a client hears when no connection of a server could be had or when a server refused
//! what Heddle did for the client's command.

pub(crate) mod no_memory;

use backend::PoolError;
use farm::{ClientError, error};
use memory::Full;

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::connections::target::nowhere;

/// A server's error as it is passed on.
pub struct ServerRefusal {
    pub number: u16,
    pub sqlstate: [u8; 5],
    pub message: Vec<u8>,
}

impl ServerRefusal {
    /// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, as MySQL words it.
    pub(crate) fn in_read_only_transaction() -> ServerRefusal {
        ServerRefusal {
            number: 1792,
            sqlstate: *b"25006",
            message: b"Cannot execute statement in a READ ONLY transaction.".to_vec(),
        }
    }
}

impl Client {
    /// Ends a login for which no connection could be had.
    pub(crate) async fn refuse_pool(&mut self, error: &PoolError) -> End {
        match self.pool_error(error, &nowhere()).await {
            Ok(()) => End::Refused(error::SERVER_UNREACHABLE),
            Err(end) => end,
        }
    }
}

/// The error of a limit that was reached.
pub(crate) fn out_of_memory(full: Full) -> ClientError {
    match full {
        Full::Process => error::OUT_OF_MEMORY,
        Full::Account => error::USER_OUT_OF_MEMORY,
    }
}
