//! The prepared statements of a connection at its server: prepared, kept within bounds, closed.

use std::borrow::Cow;

use mysql_wire::Malformed;
use mysql_wire::command::Command;
use mysql_wire::packet;

use crate::connection::{Connection, ConnectionError};
use crate::prepared::{Known, Prepared};

/// ER_MAX_PREPARED_STMT_COUNT_REACHED.
pub const TOO_MANY_STATEMENTS: u16 = 1461;

impl Connection {
    /// The statement with this text, if the connection has it prepared.
    pub fn known(&mut self, prepared: &Prepared) -> Option<&mut Known> {
        self.statements.find(prepared)
    }

    /// Notes whether an open cursor or long data belongs to a statement: then it is not closed to
    /// make room for another.
    pub fn tie(&mut self, prepared: &Prepared, tied: bool) {
        if let Some(known) = self.statements.find(prepared) {
            known.tied = tied;
        }
    }

    /// Prepares a statement whose client has prepared it elsewhere. `Refused` is the server's answer
    /// to the text; the connection stays sound. `tag` is a comment that stands in front of the text.
    pub async fn prepare(
        &mut self,
        prepared: &Prepared,
        tag: &str,
    ) -> Result<u32, ConnectionError> {
        let bytes = match tag {
            "" => Cow::Borrowed(prepared.text.bytes()),
            tag => Cow::Owned([tag.as_bytes(), prepared.text.bytes()].concat()),
        };
        let text = [(Command::StmtPrepare, &*bytes)];
        let outcome = match self.run(&text).await {
            Err(ConnectionError::Refused { number, .. })
                if number == TOO_MANY_STATEMENTS && self.statements.close_free() =>
            {
                self.send_closes(true).await?;
                self.run(&text).await?
            }
            other => other?,
        };
        let server_id = outcome.prepared.map(|reply| reply.statement_id).ok_or({
            ConnectionError::Protocol {
                operation: "preparing a statement",
                source: Malformed {
                    what: "a reply without a statement",
                },
            }
        })?;
        self.remember(prepared.clone(), server_id).await?;
        Ok(server_id)
    }

    /// The definitions of the columns that a text's rows would have; the text does not run. None where
    /// the server does not tell all of them.
    ///
    /// # Errors
    /// `Refused` is the server's answer to the text; the connection stays sound.
    pub async fn describe(&mut self, text: &[u8]) -> Result<Vec<Box<[u8]>>, ConnectionError> {
        let mut packets = Vec::new();
        let commands = [(Command::StmtPrepare, text)];
        let outcome = self.run_rows(&commands, &mut packets).await?;
        let Some(reply) = outcome.prepared else {
            return Ok(Vec::new());
        };
        self.statements.close(reply.statement_id);
        self.send_closes(false).await?;
        let columns = usize::from(reply.columns);
        let before = 1 + usize::from(reply.params);
        let told = packet::payloads(&packets).skip(before).take(columns);
        let told: Vec<Box<[u8]>> = told.map(Into::into).collect();
        Ok(if told.len() == columns {
            told
        } else {
            Vec::new()
        })
    }

    /// Remembers a statement that the server has just prepared, and closes what it displaces.
    pub async fn remember(
        &mut self,
        prepared: Prepared,
        server_id: u32,
    ) -> Result<(), ConnectionError> {
        self.statements
            .insert(prepared, server_id, self.statements_max);
        self.send_closes(false).await
    }

    /// Forgets a statement and closes it at the server, at once.
    pub async fn forget(&mut self, prepared: &Prepared) -> Result<(), ConnectionError> {
        match self.statements.remove(prepared) {
            Some(id) => {
                self.statements.close(id);
                self.send_closes(true).await
            }
            None => Ok(()),
        }
    }

    /// Closes all statements that are not tied, for a server that has too many. False when there
    /// was none.
    pub async fn close_free_statements(&mut self) -> Result<bool, ConnectionError> {
        let any = self.statements.close_free();
        self.send_closes(true).await?;
        Ok(any)
    }

    /// COM_STMT_CLOSE has no reply, and a few of them together cost as much as one.
    async fn send_closes(&mut self, all: bool) -> Result<(), ConnectionError> {
        let ids = self.statements.take_closing(all);
        if ids.is_empty() {
            return Ok(());
        }
        let mut request = Vec::with_capacity(ids.len() * 9);
        for id in ids {
            packet::write_with(&mut request, &mut 0, |out| {
                out.push(Command::StmtClose as u8);
                out.extend_from_slice(&id.to_le_bytes());
            });
        }
        let bytes = request.len();
        let (sent, _) = self.send(request, 0..bytes).await;
        sent.map_err(|source| ConnectionError::Broken {
            operation: "closing statements",
            source,
        })
    }
}
