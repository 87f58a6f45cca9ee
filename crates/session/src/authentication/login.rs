//! The beginning of a session: the greeting, what the client answers, and the packets of the plugins'
//! conversations. Whether the client is who it says is decided in [`crate::authentication::prove`].

pub(crate) mod steps;

use ::auth::entrance::Refusal;
use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use mysql_wire::handshake::{self, AuthMore, AuthSwitch};
use mysql_wire::packet;

/// Asks the client for another plugin's proof, and reads it.
pub async fn switch(client: &mut Client, plugin: &str, salt: &[u8]) -> Result<Vec<u8>, End> {
    // It has not heard yet that an earlier proof was right, which counts no more.
    client.fast_ok = false;
    let mut out = Vec::with_capacity(64);
    packet::write_with(&mut out, &mut client.sequence, |payload| {
        AuthSwitch { plugin, salt }.encode(payload);
    });
    client.say(out).await?;
    next_proof(client).await
}

/// Says a part of a plugin's conversation.
pub async fn more(client: &mut Client, data: &[u8]) -> Result<(), End> {
    client.fast_ok = false;
    let mut out = Vec::with_capacity(data.len() + 8);
    packet::write_with(&mut out, &mut client.sequence, |payload| AuthMore(data).encode(payload));
    client.say(out).await
}

/// The same as MariaDB's plugins say it: without a byte in front.
pub async fn say_bare(client: &mut Client, data: &[u8]) -> Result<(), End> {
    let mut out = Vec::with_capacity(data.len() + 8);
    packet::write_with(&mut out, &mut client.sequence, |payload| {
        payload.extend_from_slice(data);
    });
    client.say(out).await
}

/// The client's part of a plugin's conversation.
pub async fn next_proof(client: &mut Client) -> Result<Vec<u8>, End> {
    read_login(client, client.sequence).await?;
    Ok(client.request.payload().to_vec())
}

/// Waits for the client's next packet of the login.
pub(crate) async fn read_login(client: &mut Client, sequence: u8) -> Result<(), End> {
    client.owes = true;
    if let Err(read) = client.read(sequence).await {
        return Err(client.refuse_read(read).await);
    }
    client.owes = false;
    Ok(())
}

/// Tells the client why it is not let in.
async fn turn_away(client: &mut Client, refusal: &Refusal) -> End {
    let text = refusal.text();
    match client.error_text(refusal.error, &text).await {
        Ok(()) => End::Refused(*refusal.error),
        Err(end) => end,
    }
}

/// The character set of a collation in which nobody can write statements: servers refuse logins that ask for
/// one. The numbers are those of MySQL and MariaDB.
pub(crate) fn no_client_has(collation: u16) -> Option<&'static str> {
    match collation {
        35 | 90 | 128..=151 | 159 => Some("ucs2"),
        54 | 55 | 101..=124 => Some("utf16"),
        56 | 62 => Some("utf16le"),
        60 | 61 | 160..=183 => Some("utf32"),
        _ => None,
    }
}

/// The process that connection attributes name.
const PROCESS: &[u8] = b"_pid";

/// The program that they name.
const PROGRAM: &[u8] = b"program_name";

/// The value of a connection attribute.
fn attribute<'a>(attributes: Option<&'a [u8]>, wanted: &[u8]) -> Option<&'a [u8]> {
    let mut pairs = handshake::attributes(attributes?).map_while(Result::ok);
    let (_, value) = pairs.find(|(name, _)| *name == wanted)?;
    Some(value)
}
