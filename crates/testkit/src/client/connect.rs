//! Logging in.

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use channel::Algorithm;
use mysql_wire::auth::{self, ParsecTerms};
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{self, AuthMore, AuthSwitch, Greeting};
use mysql_wire::reply;
use rsa::pkcs8::DecodePublicKey;

use super::stream::Stream;
use super::{Client, Done, Failure, PATIENCE};
use crate::servers::network::connect_from;

/// How to log in. `..Login::default()` gives what a usual client asks for.
#[derive(Clone, Debug)]
pub struct Login<'a> {
    pub user: &'a str,
    pub password: &'a str,
    pub database: Option<&'a str>,
    /// Asked for as they are, except that what the server does not offer is left out. The bits that
    /// follow from the other fields are set by themselves.
    pub capabilities: Capabilities,
    /// utf8mb4_general_ci by default. The first login has room for its lower eight bits only.
    pub collation: u16,
    /// Name and value pairs.
    pub attributes: &'a [(&'a str, &'a str)],
    /// Asks for TLS and insists on it.
    pub tls: Option<Arc<rustls::ClientConfig>>,
    /// Asks for compression and insists on it.
    pub compress: Option<Algorithm>,
    /// The plugin that the first proof is for; the server's own default when there is none.
    pub plugin: Option<&'a str>,
    /// COM_CHANGE_USER brings no proof: the client's plugin first waits for a salt.
    pub waits_for_salt: bool,
    /// The address that the client has; loopback by default.
    pub from: Option<Ipv4Addr>,
    /// What is sent before anything else, as by a load balancer in between.
    pub preface: &'a [u8],
    /// How long each read and each write may take.
    pub patience: Duration,
}

impl Default for Login<'_> {
    fn default() -> Self {
        Login {
            user: "root",
            password: "",
            database: None,
            capabilities: Capabilities::LONG_PASSWORD
                | Capabilities::LONG_FLAG
                | Capabilities::PROTOCOL_41
                | Capabilities::TRANSACTIONS
                | Capabilities::SECURE_CONNECTION
                | Capabilities::MULTI_STATEMENTS
                | Capabilities::MULTI_RESULTS
                | Capabilities::PS_MULTI_RESULTS
                | Capabilities::PLUGIN_AUTH
                | Capabilities::PLUGIN_AUTH_LENENC
                | Capabilities::SESSION_TRACK,
            collation: 45,
            attributes: &[],
            tls: None,
            compress: None,
            plugin: None,
            waits_for_salt: false,
            from: None,
            preface: b"",
            patience: PATIENCE,
        }
    }
}

impl Client {
    /// Opens the TCP connection and reads nothing: for tests of the handshake itself.
    pub fn dial(address: SocketAddr) -> Result<Client, Failure> {
        Client::over(TcpStream::connect_timeout(&address, PATIENCE)?)
    }

    /// The same on a connection that is there.
    pub fn over(stream: TcpStream) -> Result<Client, Failure> {
        stream.set_nodelay(true)?;
        Client::on(stream)
    }

    fn on(stream: TcpStream) -> Result<Client, Failure> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client {
            stream: Stream::new(stream),
            sequence: 0,
            capabilities: Capabilities::empty(),
            version: String::new(),
            connection_id: 0,
            salt: Vec::new(),
            status: mysql_wire::status::Status::empty(),
            files: Default::default(),
            progress: 0,
            known_columns: Vec::new(),
        })
    }

    /// From here on, each read and each write may take so long.
    pub fn set_patience(&mut self, patience: Duration) -> Result<(), Failure> {
        self.stream.tcp.set_read_timeout(Some(patience))?;
        Ok(self.stream.tcp.set_write_timeout(Some(patience))?)
    }

    /// Logs in as `login` says.
    pub fn login(address: SocketAddr, login: &Login<'_>) -> Result<Client, Failure> {
        let client = match login.from {
            None => Client::dial(address)?,
            Some(from) => Client::over(connect_from(from, address)?)?,
        };
        client.log_in(login)
    }

    /// The same by a Unix socket.
    pub fn login_by_socket(path: &Path, login: &Login<'_>) -> Result<Client, Failure> {
        let stream = UnixStream::connect(path)?;
        // The standard library's types differ by their addresses, which nobody asks for here.
        Client::on(TcpStream::from(OwnedFd::from(stream)))?.log_in(login)
    }

    fn log_in(mut self, login: &Login<'_>) -> Result<Client, Failure> {
        let client = &mut self;
        client.set_patience(login.patience)?;
        client.stream.tcp.write_all(login.preface)?;
        let payload = client.read_packet()?;
        if reply::is_err(&payload) {
            return Err(client.server_failure(&payload));
        }
        let greeting = Greeting::decode(&payload)?;
        client.version = greeting.version.to_owned();
        client.connection_id = greeting.connection_id;
        client.salt = greeting.salt.to_vec();
        client.capabilities = agreed(login, greeting.capabilities);
        client.ask_for_layers(login, greeting.capabilities)?;
        let mut block = Vec::new();
        for (name, value) in login.attributes {
            handshake::put_attribute(&mut block, name.as_bytes(), value.as_bytes());
        }
        let with_plugin = client.capabilities.contains(Capabilities::PLUGIN_AUTH);
        let plugin = if with_plugin {
            login.plugin.unwrap_or(greeting.plugin)
        } else {
            auth::NATIVE
        };
        let answer = client.proof(plugin, login.password, &greeting.salt)?;
        let message = handshake::Login {
            capabilities: client.capabilities,
            packet_bytes_max: 1 << 24,
            collation: login.collation as u8,
            user: login.user.as_bytes(),
            auth: &answer,
            database: login.database.map(str::as_bytes),
            plugin: with_plugin.then_some(plugin.as_bytes()),
            attributes: (!block.is_empty()).then_some(&block),
            zstd_level: match login.compress {
                Some(Algorithm::Zstd(level)) => Some(level),
                _ => None,
            },
        };
        let mut payload = Vec::new();
        message.encode(&mut payload);
        client.send_packet(&payload)?;
        client.authenticate(login.password, plugin, &greeting.salt)?;
        if let Some(algorithm) = login.compress {
            client.stream.compress(algorithm);
        }
        Ok(self)
    }

    /// Adds the flags of TLS and compression, and starts the former. What the server does not offer
    /// is a failure.
    fn ask_for_layers(&mut self, login: &Login<'_>, offered: Capabilities) -> Result<(), Failure> {
        let compression = match login.compress {
            Some(Algorithm::Zlib) => Capabilities::COMPRESS,
            Some(Algorithm::Zstd(_)) => Capabilities::ZSTD_COMPRESSION,
            None => Capabilities::empty(),
        };
        let mut layers = compression;
        layers.set(Capabilities::SSL, login.tls.is_some());
        if !offered.contains(layers) {
            let missing = layers - offered;
            return Err(Failure::Protocol(format!("not offered: {missing:?}")));
        }
        self.capabilities |= layers;
        let Some(config) = &login.tls else {
            return Ok(());
        };
        let request = handshake::TlsRequest {
            capabilities: self.capabilities,
            packet_bytes_max: 1 << 24,
            collation: login.collation as u8,
        };
        let mut payload = Vec::new();
        request.encode(&mut payload);
        self.send_packet(&payload)?;
        self.start_tls(config.clone())
    }

    /// COM_CHANGE_USER. With `login.plugin` the proof is made for the salt that the client has, as
    /// most drivers do; without, the server has to ask.
    pub fn change_user(&mut self, login: &Login<'_>) -> Result<Done, Failure> {
        let proof = match login.plugin {
            Some(plugin) if !login.waits_for_salt => {
                self.proof(plugin, login.password, &self.salt)?
            }
            _ => Vec::new(),
        };
        let message = handshake::ChangeUser {
            user: login.user.as_bytes(),
            auth: &proof,
            database: login.database.map(str::as_bytes),
            collation: login.collation,
            plugin: Some(login.plugin.unwrap_or("heddle_ask_again").as_bytes()),
            attributes: None,
        };
        let mut payload = Vec::new();
        message.encode(&mut payload, self.capabilities);
        self.send_command(mysql_wire::command::Command::ChangeUser, &payload)?;
        let salt = self.salt.clone();
        self.authenticate(login.password, login.plugin.unwrap_or(auth::NATIVE), &salt)
    }

    /// What a plugin says first. Inside TLS `sha256_password` needs no key.
    fn proof(&self, plugin: &str, password: &str, salt: &[u8]) -> Result<Vec<u8>, Failure> {
        match plugin == auth::SHA256 && self.tls().is_some() {
            true => scramble(auth::CLEAR, password, salt),
            false => scramble(plugin, password, salt),
        }
    }

    /// Answers the plugin's questions until OK or ERR.
    fn authenticate(&mut self, password: &str, plugin: &str, salt: &[u8]) -> Result<Done, Failure> {
        let (mut plugin, mut salt) = (plugin.to_owned(), salt.to_vec());
        loop {
            let payload = self.read_packet()?;
            if reply::is_err(&payload) {
                return Err(self.server_failure(&payload));
            }
            if reply::is_ok(&payload) {
                return self.done(&payload);
            }
            if plugin == auth::PARSEC
                && let Some(terms) = ParsecTerms::decode(&payload)
            {
                let own = [b'c'; auth::PARSEC_SCRAMBLE_BYTES];
                let answer = terms.answer(password.as_bytes(), &salt, &own);
                self.send_packet(&answer)?;
                continue;
            }
            if AuthMore::is(&payload) {
                match AuthMore::decode(&payload)?.0 {
                    [auth::FAST_OK] => continue,
                    [auth::FULL] => self.send_full_password(password, &salt)?,
                    pem if plugin == auth::SHA256 => self.send_sealed(password, pem, &salt)?,
                    other => return Err(Failure::Protocol(format!("plugin said {other:?}"))),
                }
                continue;
            }
            let switch = AuthSwitch::decode(&payload)?;
            salt = switch.salt.to_vec();
            self.salt = salt.clone();
            plugin = switch.plugin.to_owned();
            let answer = self.proof(&plugin, password, &salt)?;
            self.send_packet(&answer)?;
        }
    }

    /// `caching_sha2_password` on a server that does not have the password in its cache: it goes
    /// under the server's RSA key.
    fn send_full_password(&mut self, password: &str, salt: &[u8]) -> Result<(), Failure> {
        if password.is_empty() {
            return self.send_packet(b"\0");
        }
        if self.tls().is_some() {
            return self.send_packet(&[password.as_bytes(), b"\0"].concat());
        }
        self.send_packet(&[auth::REQUEST_KEY])?;
        let payload = self.read_packet()?;
        self.send_sealed(password, AuthMore::decode(&payload)?.0, salt)
    }

    /// The password under the server's RSA key.
    fn send_sealed(&mut self, password: &str, pem: &[u8], salt: &[u8]) -> Result<(), Failure> {
        let pem = String::from_utf8_lossy(pem);
        let bad = |error: &dyn std::fmt::Display| Failure::Protocol(format!("RSA: {error}"));
        let key = rsa::RsaPublicKey::from_public_key_pem(pem.trim()).map_err(|e| bad(&e))?;
        let mut secret = [password.as_bytes(), b"\0"].concat();
        auth::mask(&mut secret, salt);
        let padding = rsa::Oaep::new::<sha1::Sha1>();
        let sealed = key.encrypt(&mut rsa::rand_core::OsRng, padding, &secret);
        self.send_packet(&sealed.map_err(|e| bad(&e))?)
    }
}

/// What is asked for, as far as the server offers it. LONG_PASSWORD is asked for always: MariaDB
/// does not offer it and uses its absence to tell its own clients.
fn agreed(login: &Login<'_>, offered: Capabilities) -> Capabilities {
    let mut asked = login.capabilities;
    asked.set(Capabilities::CONNECT_WITH_DB, login.database.is_some());
    asked.set(Capabilities::CONNECT_ATTRS, !login.attributes.is_empty());
    asked & (offered | Capabilities::LONG_PASSWORD)
}

fn scramble(plugin: &str, password: &str, salt: &[u8]) -> Result<Vec<u8>, Failure> {
    if password.is_empty() {
        return Ok(Vec::new());
    }
    let password = password.as_bytes();
    let short = || {
        let short = salt.first_chunk();
        short.ok_or_else(|| Failure::Protocol("a salt of another length".to_owned()))
    };
    Ok(match plugin {
        auth::NATIVE => auth::native_scramble(&auth::native_stage1(password), short()?).to_vec(),
        auth::CACHING_SHA2 => auth::sha2_scramble(&auth::sha2_stage1(password), short()?).to_vec(),
        auth::ED25519 => auth::ed25519_sign(password, salt).to_vec(),
        auth::SHA256 => vec![auth::SHA256_REQUEST_KEY],
        auth::CLEAR | auth::DIALOG => [password, b"\0"].concat(),
        // The server first says how the key is drawn.
        auth::PARSEC => Vec::new(),
        other => {
            return Err(Failure::Protocol(format!(
                "plugin {other} is not known here"
            )));
        }
    })
}
