//! One client of the MySQL door: its login, then its statements one after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use farm::Access;
use mysql_wire::auth::{NATIVE, SALT_BYTES, native_stage1, native_stage2, native_verify};
use mysql_wire::capability::Capabilities;
use mysql_wire::charset::UTF8MB4;
use mysql_wire::error::{ACCESS_DENIED, UNKNOWN_COM};
use mysql_wire::handshake::{AuthSwitch, Greeting, Login};
use mysql_wire::packet::{self, HEADER_BYTES, Header};
use mysql_wire::status::Status;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::result::{failure, put_answer, put_error, put_ok, put_set};
use super::statement::{Statement, read};
use crate::answer::{Failure, Set};
use crate::client::Reader;
use crate::door::{Caller, Door, command, random};
use crate::table::TABLE;

/// What clients of Fabric's own door are greeted with.
const VERSION: &str = "1.5.6-fabric";

/// A longer packet ends the connection.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// A login must be done by then.
const LOGIN: Duration = Duration::from_secs(10);
/// Without a statement for so long the connection is closed, as by Fabric.
const IDLE: Duration = Duration::from_secs(300);
/// A client that takes nothing of an answer for so long is closed.
const WRITE: Duration = Duration::from_secs(30);

const COM_QUIT: u8 = 1;
const COM_INIT_DB: u8 = 2;
const COM_QUERY: u8 = 3;
const COM_PING: u8 = 14;
const COM_RESET: u8 = 31;

/// One client.
pub struct Conversation {
    door: Arc<Door>,
    stream: TcpStream,
    caps: Capabilities,
    caller: Caller,
    json: bool,
}

impl Conversation {
    /// Serves a client until it leaves, is too slow, or breaks the protocol; between two statements also
    /// until `over`.
    ///
    /// # Errors
    /// The client's: nobody is to be told.
    pub async fn hold(
        door: Arc<Door>,
        stream: TcpStream,
        number: u32,
        over: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let caller = Caller {
            access: door.options.open,
            reader: Reader::Other,
            by: "fabric".to_owned(),
        };
        let mut client = Conversation {
            door,
            stream,
            caps: Capabilities::empty(),
            caller,
            json: false,
        };
        let welcome = timeout(LOGIN, client.log_in(number)).await;
        if !welcome.unwrap_or(Ok(false))? {
            return Ok(());
        }
        tokio::pin!(over);
        loop {
            let received = tokio::select! {
                received = timeout(IDLE, client.receive()) => received,
                () = &mut over => return Ok(()),
            };
            let Ok(received) = received else {
                return Ok(());
            };
            let (payload, _) = received?;
            let Some(answer) = client.answer(&payload).await else {
                return Ok(());
            };
            client.send(&answer).await?;
        }
    }

    /// Greets the client, and lets it in if it knows the password; true when it may stay.
    async fn log_in(&mut self, number: u32) -> io::Result<bool> {
        let salt = salt()?;
        let offered = Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::LONG_PASSWORD
            | Capabilities::CONNECT_WITH_DB
            | Capabilities::MULTI_STATEMENTS
            | Capabilities::MULTI_RESULTS
            | Capabilities::TRANSACTIONS;
        let greeting = Greeting {
            version: VERSION,
            connection_id: number,
            salt,
            capabilities: offered,
            collation: u8::try_from(UTF8MB4).unwrap_or_default(),
            status: Status::AUTOCOMMIT,
            plugin: NATIVE,
        };
        let (mut out, mut sequence) = (Vec::new(), 0);
        packet::write_with(&mut out, &mut sequence, |out| greeting.encode(out));
        self.send(&out).await?;
        let (payload, mut sequence) = self.receive().await?;
        let login = Login::decode(&payload).map_err(io::Error::other)?;
        self.caps = login.capabilities & offered;
        let (user, mut proof) = (login.user.to_vec(), login.auth.to_vec());
        if login
            .plugin
            .is_some_and(|plugin| plugin != NATIVE.as_bytes())
        {
            let switch = AuthSwitch {
                plugin: NATIVE,
                salt: &salt,
            };
            let mut out = Vec::new();
            packet::write_with(&mut out, &mut sequence, |out| switch.encode(out));
            self.send(&out).await?;
            (proof, sequence) = self.receive().await?;
        }
        let mut out = Vec::new();
        let welcome = self.admit(&user, &proof, &salt);
        if welcome {
            put_ok(&mut out, &mut sequence, self.caps);
        } else {
            let text = "Access denied; log in as fabric_user of this router's settings";
            put_error(&mut out, &mut sequence, ACCESS_DENIED, text, self.caps);
            tracing::warn!(
                "a client of the Fabric door shows a wrong name or password; give it fabric_user and \
                 fabric_password of this router's settings"
            );
        }
        self.send(&out).await?;
        Ok(welcome)
    }

    /// Whether the client may stay; who knows the password may everything.
    fn admit(&mut self, user: &[u8], proof: &[u8], salt: &[u8; SALT_BYTES]) -> bool {
        let Some((name, password)) = &self.door.options.user else {
            return true;
        };
        let stored = native_stage2(&native_stage1(password.as_bytes()));
        let knows = native_verify(proof, salt, &stored).is_some() && user == name.as_bytes();
        if knows {
            self.caller.access = Access::Admin;
        }
        knows
    }

    /// The packets that answer a command; `None` when the client leaves.
    async fn answer(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let (command, rest) = payload.split_first()?;
        let (mut out, mut sequence) = (Vec::new(), 1);
        match *command {
            COM_QUIT => return None,
            COM_PING | COM_INIT_DB | COM_RESET => put_ok(&mut out, &mut sequence, self.caps),
            COM_QUERY => self.query(&String::from_utf8_lossy(rest), &mut out).await,
            _ => {
                let text = "Fabric's door takes COM_QUERY, COM_PING and COM_QUIT only";
                put_error(&mut out, &mut sequence, UNKNOWN_COM, text, self.caps);
            }
        }
        Some(out)
    }

    async fn query(&mut self, text: &str, out: &mut Vec<u8>) {
        let mut sequence = 1;
        let said = match read(text).map_err(Failure::Failed) {
            Ok(Statement::Call { method, params }) => match command(&method) {
                Ok(command) => self.door.call(command, &params, &self.caller).await,
                Err(unknown) => Err(unknown),
            },
            Ok(Statement::Format { json }) => {
                self.json = json;
                return put_ok(out, &mut sequence, self.caps);
            }
            Ok(Statement::Routines) => {
                return put_set(
                    out,
                    &mut sequence,
                    &routines(),
                    Status::AUTOCOMMIT,
                    self.caps,
                );
            }
            Ok(Statement::Help(method)) => match help(&method) {
                Some(set) => {
                    return put_set(out, &mut sequence, &set, Status::AUTOCOMMIT, self.caps);
                }
                None => Err(Failure::Unknown(method)),
            },
            Ok(Statement::Other) => return put_ok(out, &mut sequence, self.caps),
            Err(failure) => Err(failure),
        };
        match said {
            Ok(answer) => put_answer(out, &self.door.head(), &answer, self.json, self.caps),
            Err(why) => {
                let (number, text) = failure(&why);
                put_error(out, &mut sequence, number, &text, self.caps);
            }
        }
    }

    /// A packet, and the number of the one that answers it. May not be dropped half-way.
    async fn receive(&mut self) -> io::Result<(Vec<u8>, u8)> {
        let mut head = [0; HEADER_BYTES];
        self.stream.read_exact(&mut head).await?;
        let header = Header::parse(&head).ok_or(io::ErrorKind::InvalidData)?;
        if header.payload_bytes > PACKET_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut payload = vec![0; header.payload_bytes];
        self.stream.read_exact(&mut payload).await?;
        Ok((payload, header.sequence.wrapping_add(1)))
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let sent = timeout(WRITE, self.stream.write_all(bytes)).await;
        sent.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Random bytes, none of which is NUL or `$`.
fn salt() -> io::Result<[u8; SALT_BYTES]> {
    let (first, second) = (random()?, random()?);
    let mut salt = [0; SALT_BYTES];
    for (byte, random) in salt.iter_mut().zip(first.iter().chain(&second)) {
        *byte = b'A' + random % 26 + if random & 0x80 == 0 { 0 } else { 32 };
    }
    Ok(salt)
}

/// All commands, in the columns that Fabric has.
fn routines() -> Set {
    let mut set = Set::new(&["ROUTINE_SCHEMA", "ROUTINE_NAME", "ROUTINE_TYPE"]);
    for command in TABLE {
        let (group, name) = (command.group.into(), command.name.into());
        set.rows.push(vec![group, name, "PROCEDURE".into()]);
    }
    set
}

/// How a command is called.
fn help(method: &str) -> Option<Set> {
    let command = command(method).ok()?;
    let params = command.all_params().map(|param| match param.default {
        None => param.name.to_owned(),
        Some("") => format!("{}=NULL", param.name),
        Some(default) => format!("{}={default}", param.name),
    });
    let params = params.collect::<Vec<_>>().join(", ");
    let mut set = Set::new(&["Procedure", "Create Procedure"]);
    let text = format!("CALL {}({params})", command.method());
    set.rows.push(vec![command.method().into(), text.into()]);
    Some(set)
}
