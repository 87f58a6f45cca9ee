//! The types that settings have, and how each reads a value from a file or a word.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use routing::rules::Network;

/// A value as it was written.
#[derive(Clone, Debug)]
pub enum Raw<'a> {
    /// On the command line everything is a word.
    Word(&'a str),
    /// In a file text, numbers and lists differ.
    Text(&'a str),
    Number(i64),
    List(Vec<&'a str>),
}

/// As it was written, for people.
impl fmt::Display for Raw<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Raw::Word(text) | Raw::Text(text) => f.write_str(text),
            Raw::Number(number) => write!(f, "{number}"),
            Raw::List(items) => f.write_str(&items.join(",")),
        }
    }
}

/// A type that a setting can have.
pub trait Value: Sized {
    /// What values look like, for people.
    const KIND: &'static str;
    /// The error says what is wrong, without the setting's name.
    fn parse(raw: &Raw<'_>) -> Result<Self, String>;
}

/// Checks a number against the bounds of its row; other values have none.
pub fn within(bounds: Option<(u64, u64)>, raw: &Raw<'_>) -> Result<(), String> {
    let Some((min, max)) = bounds else {
        return Ok(());
    };
    let number = match raw {
        Raw::Number(number) => u64::try_from(*number).ok(),
        Raw::Word(word) => Some(word.parse().map_err(|_| not_a_number(word))?),
        _ => return Ok(()), // The type itself refuses these.
    };
    if number.is_some_and(|number| (min..=max).contains(&number)) {
        return Ok(());
    }
    Err(format!("must be {min} to {max}"))
}

fn not_a_number(word: &str) -> String {
    format!("{word:?} is not a whole number")
}

/// The text of a value that is one; `kind` is for the message.
fn text<'a>(raw: &Raw<'a>, kind: &str) -> Result<&'a str, String> {
    match raw {
        Raw::Word(text) | Raw::Text(text) => Ok(text),
        Raw::Number(number) => Err(format!("{number} is a number; write {kind} in quotes")),
        Raw::List(_) => Err(format!("is a list; write {kind} in quotes")),
    }
}

/// Reads one of a few words.
fn choice<T: Copy>(raw: &Raw<'_>, choices: &[(&str, T)]) -> Result<T, String> {
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let word = text(raw, "the word")?;
    let found = choices.iter().find(|(name, _)| *name == word);
    found
        .map(|(_, value)| *value)
        .ok_or_else(|| format!("{word:?} is none of {}", names.join(", ")))
}

impl Value for u64 {
    const KIND: &'static str = "number";

    fn parse(raw: &Raw<'_>) -> Result<u64, String> {
        match raw {
            Raw::Number(number) => {
                u64::try_from(*number).map_err(|_| "must not be negative".to_owned())
            }
            Raw::Word(word) => word.parse().map_err(|_| not_a_number(word)),
            Raw::Text(text) => Err(format!("{text:?} is text; write a number without quotes")),
            Raw::List(_) => Err("is a list; write a number".to_owned()),
        }
    }
}

impl Value for String {
    const KIND: &'static str = "text";

    fn parse(raw: &Raw<'_>) -> Result<String, String> {
        text(raw, "text").map(str::to_owned)
    }
}

impl Value for PathBuf {
    const KIND: &'static str = "path";

    fn parse(raw: &Raw<'_>) -> Result<PathBuf, String> {
        match text(raw, "a path")? {
            "" => Err("is empty; write a path".to_owned()),
            path => Ok(PathBuf::from(path)),
        }
    }
}

/// A path that may be left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionalPath(pub Option<PathBuf>);

impl Value for OptionalPath {
    const KIND: &'static str = "path or nothing";

    fn parse(raw: &Raw<'_>) -> Result<OptionalPath, String> {
        let path = text(raw, "a path")?;
        Ok(OptionalPath(
            (!path.is_empty()).then(|| PathBuf::from(path)),
        ))
    }
}

impl Value for Vec<String> {
    const KIND: &'static str = "list of texts";

    fn parse(raw: &Raw<'_>) -> Result<Vec<String>, String> {
        match raw {
            Raw::List(items) => Ok(items.iter().map(|&item| item.to_owned()).collect()),
            Raw::Word("") => Ok(Vec::new()),
            Raw::Word(word) => Ok(word.split(',').map(|item| item.trim().to_owned()).collect()),
            _ => Err("is not a list; write [\"one\", \"two\"]".to_owned()),
        }
    }
}

impl Value for SocketAddr {
    const KIND: &'static str = "address:port";

    fn parse(raw: &Raw<'_>) -> Result<SocketAddr, String> {
        let word = text(raw, "an address")?;
        let wrong = || format!("{word:?} is no address; write for example 127.0.0.1:6306");
        word.to_socket_addrs()
            .map_err(|_| wrong())?
            .next()
            .ok_or_else(wrong)
    }
}

/// An address that may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalAddress(pub Option<SocketAddr>);

impl Value for OptionalAddress {
    const KIND: &'static str = "address:port or nothing";

    fn parse(raw: &Raw<'_>) -> Result<OptionalAddress, String> {
        match text(raw, "an address")? {
            "" => Ok(OptionalAddress(None)),
            _ => SocketAddr::parse(raw).map(|address| OptionalAddress(Some(address))),
        }
    }
}

/// Networks, each by its address and bits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(pub Vec<Network>);

impl Value for Networks {
    const KIND: &'static str = "list of networks";

    fn parse(raw: &Raw<'_>) -> Result<Networks, String> {
        let network = |text: &String| {
            Network::parse(text).ok_or_else(|| {
                format!("{text:?} is no network; write for example 10.0.0.0/24 or 10.0.0.7")
            })
        };
        let names = Vec::<String>::parse(raw)?;
        names
            .iter()
            .map(network)
            .collect::<Result<_, _>>()
            .map(Networks)
    }
}

/// Whether servers are told where clients are, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyServers(pub Option<proxy_wire::Version>);

impl Value for ProxyServers {
    const KIND: &'static str = "off, v1 or v2";

    fn parse(raw: &Raw<'_>) -> Result<ProxyServers, String> {
        use proxy_wire::Version;
        let words = [
            ("off", None),
            ("v1", Some(Version::Text)),
            ("v2", Some(Version::Binary)),
            ("on", Some(Version::Binary)),
        ];
        choice(raw, &words).map(ProxyServers)
    }
}

/// The data plane's way to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Io(pub reactor::Io);

impl Value for Io {
    const KIND: &'static str = "auto, io_uring or epoll";

    fn parse(raw: &Raw<'_>) -> Result<Io, String> {
        let word = text(raw, "the word")?;
        let io = reactor::Io::parse(word);
        io.map(Io)
            .ok_or_else(|| format!("{word:?} is none of {}", Io::KIND.replace(" or", ",")))
    }
}

/// Whether clients use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsClients(pub session::ClientTls);

impl Value for TlsClients {
    const KIND: &'static str = "required, preferred or off";

    fn parse(raw: &Raw<'_>) -> Result<TlsClients, String> {
        use session::ClientTls;
        let words = [
            ("required", ClientTls::Required),
            ("preferred", ClientTls::Preferred),
            ("off", ClientTls::Off),
        ];
        choice(raw, &words).map(TlsClients)
    }
}

/// Whether connections to servers use TLS, and what it must prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsServers(pub channel::ServerTls);

impl Value for TlsServers {
    const KIND: &'static str = "disabled, preferred, required, verify_ca or verify_identity";

    fn parse(raw: &Raw<'_>) -> Result<TlsServers, String> {
        use channel::ServerTls;
        let words = [
            ("disabled", ServerTls::Disabled),
            ("preferred", ServerTls::Preferred),
            ("required", ServerTls::Required),
            ("verify_ca", ServerTls::VerifyCa),
            ("verify_identity", ServerTls::VerifyIdentity),
        ];
        choice(raw, &words).map(TlsServers)
    }
}

/// What connections to servers are compressed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressServers(pub Option<channel::Algorithm>);

/// zstd's own default, and that of MySQL's clients.
const ZSTD_LEVEL: u8 = 3;

impl Value for CompressServers {
    const KIND: &'static str = "off, zlib or zstd";

    fn parse(raw: &Raw<'_>) -> Result<CompressServers, String> {
        use channel::Algorithm;
        let words = [
            ("off", None),
            ("zlib", Some(Algorithm::Zlib)),
            ("zstd", Some(Algorithm::Zstd(ZSTD_LEVEL))),
        ];
        choice(raw, &words).map(CompressServers)
    }
}

/// What reads are promised where nobody asks for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consistency(pub session::Level);

impl Value for Consistency {
    const KIND: &'static str = "eventual, session, client or strong";

    fn parse(raw: &Raw<'_>) -> Result<Consistency, String> {
        use session::Level;
        let words = [
            ("eventual", Level::Eventual { max_lag_us: None }),
            ("session", Level::Session),
            ("client", Level::Client),
            ("strong", Level::Strong),
        ];
        choice(raw, &words).map(Consistency)
    }
}

/// Which connections are one client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientScope(pub farm::ClientScope);

impl Value for ClientScope {
    const KIND: &'static str = "address, process, account or everybody";

    fn parse(raw: &Raw<'_>) -> Result<ClientScope, String> {
        choice(raw, &farm::ClientScope::NAMED).map(ClientScope)
    }
}

/// What a transaction over several groups is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic(pub farm::dist_txn::Atomic);

impl Value for Atomic {
    const KIND: &'static str = "xa, single or best-effort";

    fn parse(raw: &Raw<'_>) -> Result<Atomic, String> {
        let words = farm::dist_txn::Atomic::ALL.map(|way| (way.name(), way));
        choice(raw, &words).map(Atomic)
    }
}

/// How reads are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance(pub session::Strategy);

impl Value for Balance {
    const KIND: &'static str = "round_robin, random, least_connections, fastest or sticky";

    fn parse(raw: &Raw<'_>) -> Result<Balance, String> {
        use session::Strategy;
        let words = [
            ("round_robin", Strategy::RoundRobin),
            ("random", Strategy::Random),
            ("least_connections", Strategy::LeastConnections),
            ("fastest", Strategy::Fastest),
            ("sticky", Strategy::Sticky),
        ];
        choice(raw, &words).map(Balance)
    }
}

/// Servers that reads prefer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearServers(pub Vec<session::Near>);

impl Value for NearServers {
    const KIND: &'static str = "list of networks, addresses or names";

    fn parse(raw: &Raw<'_>) -> Result<NearServers, String> {
        let items = <Vec<String> as Value>::parse(raw)?;
        let near = items.iter().map(|item| session::Near::parse(item));
        near.collect::<Result<_, _>>().map(NearServers)
    }
}

/// Where a read goes whose server cannot be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFailover(pub session::Failover);

impl Value for ReadFailover {
    const KIND: &'static str = "loop_before_master, master or disabled";

    fn parse(raw: &Raw<'_>) -> Result<ReadFailover, String> {
        use session::Failover;
        let words = [
            ("loop_before_master", Failover::LoopBeforeMaster),
            ("master", Failover::Master),
            ("disabled", Failover::Disabled),
        ];
        choice(raw, &words).map(ReadFailover)
    }
}

/// What callers of the Fabric door may do who have not logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricOpen(pub farm::Access);

impl Value for FabricOpen {
    const KIND: &'static str = "public, monitor or admin";

    fn parse(raw: &Raw<'_>) -> Result<FabricOpen, String> {
        use farm::Access;
        let all = [Access::Public, Access::Monitor, Access::Admin];
        choice(raw, &all.map(|access| (access.name(), access))).map(FabricOpen)
    }
}

/// Where Fabric's connectors are told to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FabricAddresses {
    Servers,
    Routers,
}

impl Value for FabricAddresses {
    const KIND: &'static str = "servers or routers";

    fn parse(raw: &Raw<'_>) -> Result<FabricAddresses, String> {
        let (servers, routers) = (FabricAddresses::Servers, FabricAddresses::Routers);
        choice(raw, &[("servers", servers), ("routers", routers)])
    }
}

/// Which form answers to Fabric's clients have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricReplies(pub door_fabric::Replies);

impl Value for FabricReplies {
    const KIND: &'static str = "auto, 1.4.0, 1.4.2 or 1.5";

    fn parse(raw: &Raw<'_>) -> Result<FabricReplies, String> {
        use door_fabric::{Form, Replies};
        let words = [
            ("auto", Replies::Auto),
            ("1.4.0", Replies::Always(Form::Flat)),
            ("1.4.2", Replies::Always(Form::Named)),
            ("1.5", Replies::Always(Form::Packet)),
        ];
        choice(raw, &words).map(FabricReplies)
    }
}

/// Which transactions a replica may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrxStickiness(pub session::Stickiness);

impl Value for TrxStickiness {
    const KIND: &'static str = "on or master";

    fn parse(raw: &Raw<'_>) -> Result<TrxStickiness, String> {
        use session::Stickiness;
        let words = [("on", Stickiness::On), ("master", Stickiness::Master)];
        choice(raw, &words).map(TrxStickiness)
    }
}

/// Numbers of server errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorNumbers(pub [u16; 8]);

impl Value for ErrorNumbers {
    const KIND: &'static str = "list of error numbers";

    fn parse(raw: &Raw<'_>) -> Result<ErrorNumbers, String> {
        let items = <Vec<String> as Value>::parse(raw)?;
        let mut errors = ErrorNumbers([0; 8]);
        if items.len() > errors.0.len() {
            return Err(format!("has more than {} numbers", errors.0.len()));
        }
        for (place, item) in errors.0.iter_mut().zip(&items) {
            *place = item
                .parse()
                .ok()
                .filter(|number| (1..=9999).contains(number))
                .ok_or_else(|| format!("'{item}' is no error number from 1 to 9999"))?;
        }
        Ok(errors)
    }
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

impl Value for Switch {
    const KIND: &'static str = "on or off";

    fn parse(raw: &Raw<'_>) -> Result<Switch, String> {
        choice(raw, &[("on", Switch(true)), ("off", Switch(false))])
    }
}

/// Members of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdUrls(pub Vec<String>);

impl Value for EtcdUrls {
    const KIND: &'static str = "list of URLs";

    fn parse(raw: &Raw<'_>) -> Result<EtcdUrls, String> {
        let urls = <Vec<String> as Value>::parse(raw)?;
        let urls: Vec<String> = urls
            .iter()
            .map(|url| url.trim_end_matches('/').to_owned())
            .collect();
        for url in &urls {
            let place = url.strip_prefix("http://");
            let place = place.or_else(|| url.strip_prefix("https://"));
            let host_and_port = place.and_then(|place| place.rsplit_once(':'));
            let is_right = host_and_port.is_some_and(|(host, port)| {
                let host_is_right = !host.is_empty() && !host.contains(['/', '@', ' ']);
                host_is_right && port.parse::<u16>().is_ok_and(|port| port > 0)
            });
            if !is_right {
                return Err(format!(
                    "{url:?} is no URL of a member; write for example http://10.0.0.1:2379"
                ));
            }
        }
        let with_tls = urls.iter().filter(|url| url.starts_with("https://"));
        let with_tls = with_tls.count();
        if with_tls != 0 && with_tls != urls.len() {
            return Err("mixes http:// and https://".to_owned());
        }
        Ok(EtcdUrls(urls))
    }
}

/// What the farm's keys begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdPrefix(pub String);

impl Value for EtcdPrefix {
    const KIND: &'static str = "path";

    fn parse(raw: &Raw<'_>) -> Result<EtcdPrefix, String> {
        let prefix = text(raw, "a path")?;
        if prefix.len() < 2 || !prefix.starts_with('/') || prefix.ends_with('/') {
            return Err(format!(
                "{prefix:?} must begin with / and not end with it, for example /heddle"
            ));
        }
        Ok(EtcdPrefix(prefix.to_owned()))
    }
}

/// What a router that is cut off from etcd says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutStore {
    Serve,
    Refuse,
}

impl Value for WithoutStore {
    const KIND: &'static str = "serve or refuse";

    fn parse(raw: &Raw<'_>) -> Result<WithoutStore, String> {
        let words = [
            ("serve", WithoutStore::Serve),
            ("refuse", WithoutStore::Refuse),
        ];
        choice(raw, &words)
    }
}

/// Least severity that is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLevel(pub tracing::Level);

impl Value for LogLevel {
    const KIND: &'static str = "word";

    fn parse(raw: &Raw<'_>) -> Result<LogLevel, String> {
        use tracing::Level;
        let levels = [
            ("error", Level::ERROR),
            ("warn", Level::WARN),
            ("info", Level::INFO),
            ("debug", Level::DEBUG),
            ("trace", Level::TRACE),
        ];
        choice(raw, &levels).map(LogLevel)
    }
}

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

impl Value for LogFormat {
    const KIND: &'static str = "text or json";

    fn parse(raw: &Raw<'_>) -> Result<LogFormat, String> {
        choice(raw, &[("text", LogFormat::Text), ("json", LogFormat::Json)])
    }
}
