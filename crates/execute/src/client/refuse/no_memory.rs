//! The answer to a command that there was no memory for.

use memory::Full;
use mysql_wire::command::Command;

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::refuse::out_of_memory;
use crate::prepared::statements::{self, PreparedStatements};

/// Answers a command that there was no memory for. The client's transaction stays as it is.
pub async fn refuse_command(
    client: &mut Client,
    prepared: &mut PreparedStatements,
    full: Full,
) -> Result<(), End> {
    let command = client.request.payload().first().copied();
    if command != Some(Command::StmtSendLongData as u8) {
        return client.error(&out_of_memory(full), &[]).await;
    }
    // It has no reply: the EXECUTE says it.
    let id = statements::named_statement(&client.request, prepared);
    if let Some(statement) = prepared.statements.get_mut(&id) {
        statement.starved = Some(full);
    }
    Ok(())
}
