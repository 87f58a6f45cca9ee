//! What a client hears when no connection of a server could be had or when a server refused
//! what Heddle did for the client's command.

pub mod no_memory;

use backend::PoolError;
use farm::{ClientError, error};
use memory::Full;

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::{Client, ReadError};
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
    pub async fn refuse_pool(&mut self, error: &PoolError) -> End {
        match self.pool_error(error, &nowhere()).await {
            Ok(()) => End::Refused(error::SERVER_UNREACHABLE),
            Err(end) => end,
        }
    }

    /// Tells the client an error and gives the reason for the end.
    pub async fn refuse(&mut self, error: &farm::ClientError, details: &[&str]) -> End {
        match self.error(error, details).await {
            Ok(()) => End::Refused(*error),
            Err(end) => end,
        }
    }

    /// Turns a failed read into the reason for the end, and tells the client where that helps.
    pub async fn refuse_read(&mut self, read: ReadError) -> End {
        match read {
            ReadError::Closed => End::Quit,
            ReadError::Broken => End::Gone,
            ReadError::Refused(error) => self.refuse_and_part(&error).await,
            ReadError::NoMemory(full) => self.refuse_and_part(&out_of_memory(full)).await,
        }
    }

    async fn refuse_and_part(&mut self, error: &farm::ClientError) -> End {
        let end = self.refuse(error, &[]).await;
        self.part().await;
        end
    }
}

/// The error of a limit that was reached.
pub fn out_of_memory(full: Full) -> ClientError {
    match full {
        Full::Process => error::OUT_OF_MEMORY,
        Full::Account => error::USER_OUT_OF_MEMORY,
    }
}
