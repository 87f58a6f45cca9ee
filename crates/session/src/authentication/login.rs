//! The beginning of a session: the greeting, what the client answers, and the packets of the plugins'
//! conversations. Whether the client is who it says is decided in [`crate::authentication::prove`].

mod steps;

use std::net::SocketAddr;
use std::rc::Rc;

use ::auth::account_places::AccountPlace;
use ::auth::entrance::Refusal;
use backend::Pass;
use mysql_wire::handshake::{self, AuthMore, AuthSwitch};
use mysql_wire::packet;

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::refuse::out_of_memory;
use crate::client::sink::ReplySink;
use crate::client::{Client, ReadError};

/// Who logged in, and how.
pub struct Identity {
    /// What the session may use connections by.
    pub pass: Pass,
    pub database: Option<Vec<u8>>,
    /// The process that the client says it is.
    pub process: Option<Box<[u8]>>,
    pub admin: bool,
    /// The client's place among those of its account; given up before the account changes.
    pub account_place: Option<AccountPlace>,
}

/// The user of a session, from a login or a change of user to the next one.
pub(crate) struct SessionUser {
    pub identity: Identity,
    /// The client's address, as a load balancer gives it where one does.
    pub peer: SocketAddr,
    /// The password has expired and was not changed yet: the held connection's server answers
    /// everything.
    pub sandboxed: bool,
    /// The sql_mode that its logins at servers give it, where it is not the servers' global one.
    pub mode: Option<Box<str>>,
    /// How often COM_CHANGE_USER was refused.
    pub failed_changes: u8,
}

impl SessionUser {
    /// That of a client which has just logged in.
    pub fn new(identity: Identity, peer: SocketAddr) -> SessionUser {
        SessionUser {
            identity,
            peer,
            sandboxed: false,
            mode: None,
            failed_changes: 0,
        }
    }

    /// The account's name.
    pub fn name(&self) -> &Rc<[u8]> {
        &self.identity.pass.profile().user
    }
}

impl Client {
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
            ReadError::Broken(_) => End::Gone,
            ReadError::Refused(error) => self.refuse_and_part(&error).await,
            ReadError::NoMemory(full) => self.refuse_and_part(&out_of_memory(full)).await,
        }
    }

    async fn refuse_and_part(&mut self, error: &farm::ClientError) -> End {
        let end = self.refuse(error, &[]).await;
        self.part().await;
        end
    }

    /// Asks the client for another plugin's proof, and reads it.
    pub async fn switch(&mut self, plugin: &str, salt: &[u8]) -> Result<Vec<u8>, End> {
        let mut out = Vec::with_capacity(64);
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            AuthSwitch { plugin, salt }.encode(payload);
        });
        self.say(out).await?;
        self.next_proof().await
    }

    /// Says a part of a plugin's conversation.
    pub async fn more(&mut self, data: &[u8]) -> Result<(), End> {
        let mut out = Vec::with_capacity(data.len() + 8);
        packet::write_with(&mut out, &mut self.sequence, |payload| AuthMore(data).encode(payload));
        self.say(out).await
    }

    /// The same as MariaDB's plugins say it: without a byte in front.
    pub async fn say_bare(&mut self, data: &[u8]) -> Result<(), End> {
        let mut out = Vec::with_capacity(data.len() + 8);
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            payload.extend_from_slice(data);
        });
        self.say(out).await
    }

    /// The client's part of a plugin's conversation.
    pub async fn next_proof(&mut self) -> Result<Vec<u8>, End> {
        self.read_login(self.sequence).await?;
        Ok(self.request.payload().to_vec())
    }

    /// Waits for the client's next packet of the login.
    pub(crate) async fn read_login(&mut self, sequence: u8) -> Result<(), End> {
        self.owes = true;
        if let Err(read) = self.read(sequence).await {
            return Err(self.refuse_read(read).await);
        }
        self.owes = false;
        Ok(())
    }

    /// Tells the client why it is not let in.
    async fn turn_away(&mut self, refusal: &Refusal) -> End {
        let text = refusal.text();
        match self.error_text(refusal.error, &text).await {
            Ok(()) => End::Refused(*refusal.error),
            Err(end) => end,
        }
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
fn process_of(attributes: &[u8]) -> Option<Box<[u8]>> {
    let mut pairs = handshake::attributes(attributes).map_while(Result::ok);
    let (_, value) = pairs.find(|(name, _)| *name == b"_pid")?;
    Some(value.into())
}
