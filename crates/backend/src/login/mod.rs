//! Logging in to a server as the client's own account.
//!
//! Heddle proves the same identity that the client proved to it. For `mysql_native_password` the
//! proof needs only SHA1(password), which a client's own proof reveals to whoever knows the server's
//! hash; every other plugin needs the password itself. An account may have several ways to log in
//! (MariaDB), which the server asks for one after the other: to one that Heddle cannot go it answers
//! with nothing, so that the server goes on to the next.
//!
//! Source: MySQL internals, «Connection Phase»; «Caching SHA-2 Pluggable Authentication».

pub(crate) mod account;
pub(crate) mod introduction;
pub(crate) mod login_state;
pub(crate) mod pass;
pub(crate) mod seen;
pub(crate) mod terms;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use channel::{Algorithm, Channel, Packing, ServerName, ServerTls, Side, Trust};
use farm::ServerKey;
use mysql_wire::Malformed;
use mysql_wire::auth::{self, ParsecTerms};
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{self, AuthMore, AuthSwitch, Greeting, Login, NextFactor, TlsRequest};
use mysql_wire::packet::{self, HEADER_BYTES, Header};
use mysql_wire::reply::{self, ErrPacket};
use reactor::Sock;
use rsa::pkcs8::DecodePublicKey;
use rsa::rand_core::RngCore;
use zeroize::Zeroizing;

use crate::connection::target::Target;
use crate::connection::{Connection, ConnectionError};
use crate::login::pass::{Credential, Profile};
use crate::login::seen::Seen;
use crate::login::terms::{Terms, key_to_meet, may_have_password};

/// What Heddle always asks of a server. The rest comes from the client's own flags.
const WANTED: Capabilities = Capabilities::LONG_FLAG
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF)
    // Of effect on nobody who does not use it.
    .union(Capabilities::MARIADB_STMT_BULK)
    .union(Capabilities::MARIADB_BULK_UNIT_RESULTS);

/// Flags by which column definitions have another form. A server that lacks one cannot serve a
/// client that was offered it.
const REQUIRED: Capabilities = Capabilities::MARIADB_EXTENDED_METADATA;

/// The largest packet that Heddle says it takes; servers do not act on it.
const PACKET_BYTES_MAX: u32 = 1 << 30;

/// A login under way: the socket, and the sequence number of the next packet.
struct Exchange {
    sock: Channel,
    buffer: Vec<u8>,
    sequence: u8,
    /// The server's salt for the plugin that speaks.
    salt: Vec<u8>,
    /// A plugin that the server asked for and Heddle has nothing to answer with.
    unmet: Option<String>,
    /// The server may have a password, and not only a proof of it.
    trusted: bool,
}

/// Connects and logs in. The connection has the database but no other state yet.
pub(crate) async fn open(
    terms: &Terms,
    target: &Target,
    profile: &Profile,
    database: Option<&[u8]>,
) -> Result<Connection, ConnectionError> {
    let opened = open_as_preferred(terms, target, profile, database).await;
    opened.map_err(|error| introduction::explained(error, target, profile))
}

async fn open_as_preferred(
    terms: &Terms,
    target: &Target,
    profile: &Profile,
    database: Option<&[u8]>,
) -> Result<Connection, ConnectionError> {
    match open_with(terms, terms.trust.mode, target, profile, database).await {
        // Like MySQL's clients, Heddle goes on without TLS where TLS is only preferred. A server that is
        // known by its key has TLS; one without TLS is an impostor.
        Err(ConnectionError::Tls { .. })
            if terms.trust.mode == ServerTls::Preferred && target.key.is_none() =>
        {
            open_with(terms, ServerTls::Disabled, target, profile, database).await
        }
        opened => opened,
    }
}

async fn open_with(
    terms: &Terms,
    mode: ServerTls,
    target: &Target,
    profile: &Profile,
    database: Option<&[u8]>,
) -> Result<Connection, ConnectionError> {
    let mut exchange = Exchange::connect(target).await?;
    introduction::send(&mut exchange.sock, terms, profile).await?;
    let payload = exchange.greeting().await?;
    introduce_oneself(exchange, &payload, terms, mode, target, profile, database).await
}

/// A Unix socket of a server, and how it is known to be the server's.
pub(crate) struct Door<'a> {
    pub path: &'a Path,
    /// By the process that listens there, by what it says of itself, and by the connection's id.
    pub is_right: &'a dyn Fn(i32, &Seen, u32) -> bool,
}

/// Logs in by the server's Unix socket. Who is not the server there is told nothing.
pub(crate) async fn open_by_socket(
    terms: &Terms,
    door: &Door<'_>,
    target: &Target,
    profile: &Profile,
    database: Option<&[u8]>,
) -> Result<Connection, ConnectionError> {
    let broken = |source| ConnectionError::Broken {
        operation: "connecting",
        source,
    };
    let sock = Sock::connect_local(door.path).map_err(broken)?;
    let listens = sock.peer_credentials().map_err(broken)?;
    let mut exchange = Exchange::over(sock);
    let payload = exchange.greeting().await?;
    let greeting = Greeting::decode(&payload).map_err(protocol)?;
    if !(door.is_right)(
        listens.process,
        &Seen::of(&greeting),
        greeting.connection_id,
    ) {
        return Err(broken(io::Error::other("another server has the socket")));
    }
    let mode = ServerTls::Disabled;
    introduce_oneself(exchange, &payload, terms, mode, target, profile, database).await
}

/// Where a connection's server is; behind a Unix socket it is on this machine.
fn server_at(sock: &Channel) -> Option<SocketAddr> {
    match sock.is_local() {
        true => Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        false => sock.peer().ok(),
    }
}

/// Everything from the server's greeting on.
async fn introduce_oneself(
    mut exchange: Exchange,
    payload: &[u8],
    terms: &Terms,
    mode: ServerTls,
    target: &Target,
    profile: &Profile,
    database: Option<&[u8]>,
) -> Result<Connection, ConnectionError> {
    let greeting = Greeting::decode(payload).map_err(protocol)?;
    fits(&greeting, profile)?;
    // MariaDB does not have the first bit: to leave it unset, too, is to have the extended bits.
    let first = Capabilities::LONG_PASSWORD;
    let mut capabilities = (WANTED | profile.flags | first) & greeting.capabilities;
    capabilities.set(Capabilities::CONNECT_WITH_DB, database.is_some());
    let server = server_at(&exchange.sock);
    capabilities |= terms.layers(mode, server, greeting.capabilities)?;
    let server = server.map(|address| address.ip());
    let key = key_to_meet(&terms.trust, server, target.key, capabilities)?;
    if capabilities.contains(Capabilities::SSL) {
        exchange
            .start_tls(terms, target, key, capabilities, profile.collation)
            .await?;
    }
    exchange.trusted = may_have_password(mode, server, exchange.sock.is_secure(), key.is_some());
    let compression = terms.compression(capabilities);
    let plugin = match greeting.plugin {
        auth::CACHING_SHA2 => auth::CACHING_SHA2,
        _ => auth::NATIVE,
    };
    exchange.salt = greeting.salt.to_vec();
    let first = exchange.prove(plugin, profile)?;
    let attributes = attributes();
    let seen = Seen::of(&greeting);
    let login = Login {
        capabilities,
        packet_bytes_max: PACKET_BYTES_MAX,
        collation: profile.collation,
        user: &profile.user,
        auth: &first,
        database,
        plugin: Some(plugin.as_bytes()),
        attributes: greeting
            .capabilities
            .contains(Capabilities::CONNECT_ATTRS)
            .then_some(&attributes),
        zstd_level: match compression {
            Some(Algorithm::Zstd(level)) => Some(level),
            _ => None,
        },
    };
    exchange.write(|out| login.encode(out)).await?;
    finish(&mut exchange, profile, plugin).await?;
    if let Some(algorithm) = compression {
        let packing = Packing::new(algorithm, Side::Client);
        exchange.sock.compress(packing);
    }
    let thread_id = greeting.connection_id;
    Ok(Connection::new(
        target.server,
        exchange.sock,
        thread_id,
        capabilities,
        database,
        seen,
    ))
}

/// Refuses a server that lacks what every client needs, or what these were offered.
fn fits(greeting: &Greeting<'_>, profile: &Profile) -> Result<(), ConnectionError> {
    if !greeting
        .capabilities
        .contains(Capabilities::DEPRECATE_EOF | Capabilities::SESSION_TRACK)
    {
        return Err(protocol(Malformed {
            what: "a server older than MySQL 5.7.5 or MariaDB 10.2",
        }));
    }
    if !greeting.capabilities.contains(profile.flags & REQUIRED) {
        return Err(protocol(Malformed {
            what: "a server without the extended metadata that its clients were offered",
        }));
    }
    Ok(())
}

/// What the server shows of a connection to its administrators. It is Heddle's own: a connection
/// serves many clients.
fn attributes() -> Vec<u8> {
    let mut block = Vec::with_capacity(128);
    let pid = std::process::id().to_string();
    let own = [
        ("_client_name", "heddle"),
        ("_client_version", env!("CARGO_PKG_VERSION")),
        ("_os", std::env::consts::OS),
        ("_platform", std::env::consts::ARCH),
        ("_pid", &pid),
        ("program_name", "heddle"),
    ];
    for (name, value) in own {
        handshake::put_attribute(&mut block, name.as_bytes(), value.as_bytes());
    }
    block
}

/// Reads a server's greeting and goes away again.
pub(crate) async fn look(target: &Target) -> Result<Seen, ConnectionError> {
    let mut exchange = Exchange::connect(target).await?;
    let payload = exchange.greeting().await?;
    Greeting::decode(&payload)
        .map(|greeting| Seen::of(&greeting))
        .map_err(protocol)
}

/// Answers what the server asks until it says OK or refuses.
async fn finish(
    exchange: &mut Exchange,
    profile: &Profile,
    plugin: &str,
) -> Result<(), ConnectionError> {
    let mut plugin = plugin.to_owned();
    loop {
        let payload = exchange.read().await?;
        if let Err(refused) = refuse_error(&payload, Capabilities::PROTOCOL_41) {
            let unmet = exchange.unmet.take();
            return Err(match unmet {
                Some(plugin) if sends_password(&plugin) => ConnectionError::Untrusted { plugin },
                Some(plugin) => ConnectionError::Credential { plugin },
                None => refused,
            });
        }
        if reply::is_ok(&payload) {
            return Ok(());
        }
        if AuthSwitch::is(&payload) {
            let switch = AuthSwitch::decode(&payload).map_err(protocol)?;
            plugin = switch.plugin.to_owned();
            exchange.salt = switch.salt.to_vec();
            let proof = exchange.prove(&plugin, profile)?;
            exchange.write(|out| out.extend_from_slice(&proof)).await?;
            continue;
        }
        if NextFactor::is(&payload) {
            let plugin = NextFactor::plugin(&payload);
            return Err(ConnectionError::Credential { plugin });
        }
        // MariaDB's plugins say the same without a byte in front.
        let more = AuthMore::decode(&payload).map_or(&payload[..], |more| more.0);
        match (&*plugin, more.first()) {
            (auth::CACHING_SHA2, Some(&auth::FAST_OK)) => {}
            (auth::CACHING_SHA2, Some(&auth::FULL)) => full(exchange, profile).await?,
            // The answer to SHA256_REQUEST_KEY.
            (auth::SHA256, Some(b'-')) if exchange.trusted => seal(exchange, profile, more).await?,
            (auth::PARSEC, Some(_)) => sign(exchange, profile, more).await?,
            _ => {
                return Err(protocol(Malformed {
                    what: "a step of the login",
                }));
            }
        }
    }
}

/// The full exchange of caching_sha2_password: the password inside TLS, else under the server's RSA
/// key.
async fn full(exchange: &mut Exchange, profile: &Profile) -> Result<(), ConnectionError> {
    if !exchange.trusted {
        let plugin = auth::CACHING_SHA2.to_owned();
        return Err(ConnectionError::Untrusted { plugin });
    }
    if exchange.sock.is_secure() {
        let mut clear = password(profile)?;
        clear.push(0);
        return exchange.write(|out| out.extend_from_slice(&clear)).await;
    }
    exchange.write(|out| out.push(auth::REQUEST_KEY)).await?;
    let payload = exchange.read().await?;
    refuse_error(&payload, Capabilities::PROTOCOL_41)?;
    let pem = AuthMore::decode(&payload).map_err(protocol)?.0;
    seal(exchange, profile, pem).await
}

/// Plugins by which the server gets the password itself.
fn sends_password(plugin: &str) -> bool {
    matches!(plugin, auth::SHA256 | auth::CLEAR | auth::DIALOG)
}

/// Sends the password under the server's RSA key. Only to a server that is trusted: the key is that of
/// whoever answers.
async fn seal(
    exchange: &mut Exchange,
    profile: &Profile,
    pem: &[u8],
) -> Result<(), ConnectionError> {
    let unfit = |what| protocol(Malformed { what });
    let pem = std::str::from_utf8(pem).map_err(|_| unfit("the server's RSA key"))?;
    let key = rsa::RsaPublicKey::from_public_key_pem(pem.trim())
        .map_err(|_| unfit("the server's RSA key"))?;
    let mut secret = password(profile)?;
    secret.push(0);
    auth::mask(&mut secret, &exchange.salt);
    let padding = rsa::Oaep::new::<sha1::Sha1>();
    let sealed = key
        .encrypt(&mut rsa::rand_core::OsRng, padding, &secret)
        .map_err(|_| unfit("a password that fits the server's RSA key"))?;
    exchange.write(|out| out.extend_from_slice(&sealed)).await
}

/// The client's half of `parsec`: the server has said how the key is drawn from the password.
async fn sign(
    exchange: &mut Exchange,
    profile: &Profile,
    said: &[u8],
) -> Result<(), ConnectionError> {
    let what = "how to draw a key for parsec";
    let terms = ParsecTerms::decode(said).ok_or_else(|| protocol(Malformed { what }))?;
    let mut own = [0; auth::PARSEC_SCRAMBLE_BYTES];
    rsa::rand_core::OsRng.fill_bytes(&mut own);
    let answer = terms.answer(&password(profile)?, &exchange.salt, &own);
    exchange.write(|out| out.extend_from_slice(&answer)).await
}

/// A copy of the profile's password, with room for a NUL.
fn password(profile: &Profile) -> Result<Zeroizing<Vec<u8>>, ConnectionError> {
    let copy = |bytes: &[u8]| {
        let mut copy = Zeroizing::new(Vec::with_capacity(bytes.len() + 1));
        copy.extend_from_slice(bytes);
        copy
    };
    match &profile.credential {
        Credential::Password(secret) => secret.with(copy).ok_or_else(|| {
            let user = String::from_utf8_lossy(&profile.user);
            let message = format!(
                "Access denied for user '{user}': its password was changed after this session \
                 logged in; log in again"
            );
            ConnectionError::Refused {
                number: 1045,
                sqlstate: *b"28000",
                message: message.into_bytes(),
            }
        }),
        Credential::Empty | Credential::NativeStage1(_) => Ok(copy(b"")),
    }
}

impl Exchange {
    async fn connect(target: &Target) -> Result<Exchange, ConnectionError> {
        let operation = "connecting";
        let sock = Sock::connect(&target.host, target.port)
            .await
            .map_err(|source| ConnectionError::Broken { operation, source })?;
        Ok(Exchange::over(sock))
    }

    fn over(sock: Sock) -> Exchange {
        Exchange {
            sock: Channel::new(sock),
            buffer: Vec::with_capacity(1024),
            sequence: 0,
            salt: Vec::new(),
            unmet: None,
            trusted: false,
        }
    }

    /// The server's first packet. An error packet means that it accepts no connection.
    async fn greeting(&mut self) -> Result<Vec<u8>, ConnectionError> {
        let payload = self.read().await?;
        refuse_error(&payload, Capabilities::empty())?;
        Ok(payload)
    }

    /// Asks for TLS and goes on in it.
    async fn start_tls(
        &mut self,
        terms: &Terms,
        target: &Target,
        key: Option<ServerKey>,
        capabilities: Capabilities,
        collation: u8,
    ) -> Result<(), ConnectionError> {
        let tls = |source| ConnectionError::Tls { source };
        let name = ServerName::try_from(target.host.to_string());
        let name = name.map_err(|error| tls(io::Error::other(error)))?;
        if !self.buffer.is_empty() {
            let what = "bytes behind the greeting";
            return Err(protocol(Malformed { what }));
        }
        let request = TlsRequest {
            capabilities,
            packet_bytes_max: PACKET_BYTES_MAX,
            collation,
        };
        self.write(|out| request.encode(out)).await?;
        let config = match key {
            None => terms.trust.config.clone(),
            Some(key) => Trust::pinned(key).map_err(|error| tls(io::Error::other(error)))?,
        };
        self.sock.connect_tls(config, name).await.map_err(tls)
    }

    /// What a plugin wants to see first.
    fn prove(&mut self, plugin: &str, profile: &Profile) -> Result<Vec<u8>, ConnectionError> {
        let stage1 = match &profile.credential {
            // What the clients' plugins send for an empty password.
            Credential::Empty => {
                let nul = matches!(plugin, auth::SHA256 | auth::CLEAR | auth::DIALOG);
                return Ok(vec![0; usize::from(nul)]);
            }
            Credential::NativeStage1(stage1) => Some(**stage1),
            Credential::Password(_) => None,
        };
        let salt = self.salt.first_chunk();
        let proof = match (plugin, stage1, salt) {
            (auth::NATIVE, Some(stage1), Some(salt)) => {
                auth::native_scramble(&stage1, salt).to_vec()
            }
            (auth::NATIVE, None, Some(salt)) => {
                let stage1 = auth::native_stage1(&password(profile)?);
                auth::native_scramble(&stage1, salt).to_vec()
            }
            (auth::CACHING_SHA2, None, Some(salt)) => {
                let stage1 = auth::sha2_stage1(&password(profile)?);
                auth::sha2_scramble(&stage1, salt).to_vec()
            }
            // A guess from the greeting: the server will switch to the account's own plugin.
            (auth::CACHING_SHA2, Some(_), _) => vec![0; 32],
            (auth::ED25519, None, _) => {
                auth::ed25519_sign(&password(profile)?, &self.salt).to_vec()
            }
            // It first waits for the server to say more.
            (auth::PARSEC, None, _) => Vec::new(),
            (auth::SHA256, None, _) if self.trusted && !self.sock.is_secure() => {
                vec![auth::SHA256_REQUEST_KEY]
            }
            (plugin, None, _)
                if sends_password(plugin) && self.trusted && self.sock.is_secure() =>
            {
                let mut clear = password(profile)?.to_vec();
                clear.push(0);
                clear
            }
            _ => {
                self.unmet.get_or_insert_with(|| plugin.to_owned());
                Vec::new()
            }
        };
        Ok(proof)
    }

    /// The payload of the next packet. Login packets are small; a larger one is not MySQL.
    async fn read(&mut self) -> Result<Vec<u8>, ConnectionError> {
        loop {
            if let Some(header) = Header::parse(&self.buffer) {
                let end = HEADER_BYTES + header.payload_bytes;
                if header.payload_bytes > LOGIN_BYTES_MAX {
                    return Err(protocol(Malformed {
                        what: "a login packet",
                    }));
                }
                if self.buffer.len() >= end {
                    self.sequence = header.sequence.wrapping_add(1);
                    let payload = self.buffer[HEADER_BYTES..end].to_vec();
                    self.buffer.drain(..end);
                    return Ok(payload);
                }
                self.buffer.reserve(end - self.buffer.len());
            }
            self.buffer.reserve(512);
            let (received, buffer) = self.sock.recv(std::mem::take(&mut self.buffer)).await;
            self.buffer = buffer;
            let operation = "logging in";
            match received {
                Ok(0) => {
                    let source = std::io::ErrorKind::UnexpectedEof.into();
                    return Err(ConnectionError::Broken { operation, source });
                }
                Ok(_) => {}
                Err(source) => return Err(ConnectionError::Broken { operation, source }),
            }
        }
    }

    async fn write(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), ConnectionError> {
        let mut out = Vec::with_capacity(512);
        packet::write_with(&mut out, &mut self.sequence, encode);
        let bytes = out.len();
        let (sent, _) = self.sock.send(out, 0..bytes).await;
        sent.map_err(|source| ConnectionError::Broken {
            operation: "logging in",
            source,
        })
    }
}

/// A greeting, a key or an OK: far above what any server sends while a client logs in.
const LOGIN_BYTES_MAX: usize = 65_536;

fn protocol(source: Malformed) -> ConnectionError {
    ConnectionError::Protocol {
        operation: "logging in",
        source,
    }
}

fn refuse_error(payload: &[u8], capabilities: Capabilities) -> Result<(), ConnectionError> {
    if !reply::is_err(payload) {
        return Ok(());
    }
    let error = ErrPacket::decode(payload, capabilities).map_err(protocol)?;
    Err(ConnectionError::Refused {
        number: error.number,
        sqlstate: error.sqlstate,
        message: error.message.to_vec(),
    })
}
