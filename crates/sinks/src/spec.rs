//! What a sink is told about its target, and what of it can be right.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::account::Account;
use crate::http::Url;

/// A file is full at this size, unless told otherwise.
const ROTATE_BYTES: u64 = 64 << 20;

/// A file is closed after this time, unless told otherwise.
const ROTATE_S: u64 = 3600;

/// Where brokers listen, unless told otherwise.
const NATS_PORT: u16 = 4222;
const KAFKA_PORT: u16 = 9092;

/// Longest name of a directory, a subject or a topic.
const NAME_BYTES_MAX: usize = 200;

/// The target, and how it is spoken to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    /// As [`Place`] reads it.
    pub to: String,
    /// Signs what webhooks are sent.
    pub secret: String,
    /// A file on each router with the certificates that the target is known by; empty for those of the Web.
    pub ca: String,
    /// With what a broker is logged in to.
    pub account: Account,
    /// Brokers are spoken to inside TLS.
    pub tls: bool,
    /// Files on each router with the certificate that a broker is shown, and its key; empty where it wants none.
    pub certificate: String,
    pub key: String,
    /// What files are.
    pub format: Format,
    /// How files, and the records of Kafka, are packed.
    pub compress: Compression,
    /// The topics of Kafka.
    pub topics: Topics,
    /// A file with so many bytes is closed.
    pub rotate_bytes: u64,
    /// A file with so many events is closed; 0 for any number.
    pub rotate_rows: u64,
    /// A file is closed so long after it was begun.
    pub rotate_s: u64,
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            to: String::new(),
            secret: String::new(),
            ca: String::new(),
            account: Account::default(),
            tls: false,
            certificate: String::new(),
            key: String::new(),
            format: Format::Lines,
            compress: Compression::None,
            topics: Topics::One,
            rotate_bytes: ROTATE_BYTES,
            rotate_rows: 0,
            rotate_s: ROTATE_S,
        }
    }
}

/// What files are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// One JSON object on each line.
    #[default]
    Lines,
    Parquet,
}

impl FromStr for Format {
    type Err = ();

    fn from_str(text: &str) -> Result<Format, ()> {
        match text {
            "lines" => Ok(Format::Lines),
            "parquet" => Ok(Format::Parquet),
            _ => Err(()),
        }
    }
}

/// How a file, or a batch of records, is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    #[default]
    None,
    /// Records alone.
    Gzip,
    Zstd,
}

impl FromStr for Compression {
    type Err = ();

    fn from_str(text: &str) -> Result<Compression, ()> {
        match text {
            "none" => Ok(Compression::None),
            "gzip" => Ok(Compression::Gzip),
            "zstd" => Ok(Compression::Zstd),
            _ => Err(()),
        }
    }
}

/// Which topics of Kafka events go to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Topics {
    /// All to one.
    #[default]
    One,
    /// Those of a table to its own.
    Table,
}

impl FromStr for Topics {
    type Err = ();

    fn from_str(text: &str) -> Result<Topics, ()> {
        match text {
            "one" => Ok(Topics::One),
            "table" => Ok(Topics::Table),
            _ => Err(()),
        }
    }
}

/// Where a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// `http://HOST[:PORT]/PATH` or `https://…`.
    Webhook(Url),
    /// `file:NAME`: a directory of this name below the one that all files are in.
    Files(String),
    /// `nats://HOST[:PORT][,…]/SUBJECT`.
    Nats(Brokers),
    /// `kafka://HOST[:PORT][,…]/TOPIC`.
    Kafka(Brokers),
}

/// Brokers of one kind, and what they are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brokers {
    /// Each as `HOST:PORT`; one is enough.
    pub addresses: Vec<String>,
    /// The first pieces of the subjects, or the topic; with a topic for each table what they all begin with.
    pub name: String,
}

/// What a target may be, for people.
const FORMS: &str = "https://HOST/PATH, http://HOST/PATH, file:NAME, nats://HOST/SUBJECT or \
                     kafka://HOST/TOPIC";

impl Spec {
    /// Where the target is.
    ///
    /// # Errors
    /// It is not said in a form that is known.
    pub fn place(&self) -> Result<Place, String> {
        let wrong = |why: &str| format!("{:?} is no target: {why}; a target is {FORMS}", self.to);
        match self.to.split_once(':') {
            Some(("file", name)) if is_name(name) => Ok(Place::Files(name.to_owned())),
            Some(("file", _)) => Err(wrong("letters, digits, _, - and . make a NAME")),
            Some(("http" | "https", _)) => {
                let url = Url::parse(&self.to).map_err(|why| wrong(&why))?;
                Ok(Place::Webhook(url))
            }
            Some(("nats", rest)) => {
                let brokers = brokers(rest, NATS_PORT).map_err(wrong)?;
                Ok(Place::Nats(brokers))
            }
            Some(("kafka", rest)) => {
                let brokers = brokers(rest, KAFKA_PORT).map_err(wrong)?;
                Ok(Place::Kafka(brokers))
            }
            _ => Err(wrong("nothing is known that begins like this")),
        }
    }
}

/// Reads `//HOST[:PORT][,…]/NAME`.
fn brokers(text: &str, port: u16) -> Result<Brokers, &'static str> {
    let rest = text.strip_prefix("//").ok_or("// is missing")?;
    let (hosts, name) = rest
        .split_once('/')
        .ok_or("what stands behind the host is missing")?;
    if hosts.contains('@') {
        return Err("a user and a password do not belong into it");
    }
    if !is_name(name) || name.ends_with('.') || name.contains("..") {
        return Err("letters, digits, _, - and . make what stands behind the host");
    }
    let address = |host: &str| match host.rsplit_once(':') {
        Some((name, digits)) if !digits.ends_with(']') => {
            let is_right = !name.is_empty() && digits.parse::<u16>().is_ok();
            is_right.then(|| host.to_owned())
        }
        _ => (!host.is_empty()).then(|| format!("{host}:{port}")),
    };
    let addresses: Option<Vec<String>> = hosts.split(',').map(address).collect();
    Ok(Brokers {
        addresses: addresses.ok_or("a host is missing, or a port is no number")?,
        name: name.to_owned(),
    })
}

/// True for a name that is one piece of a path, and nothing hidden.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let is_short = (1..=NAME_BYTES_MAX).contains(&name.len());
    is_short && name.bytes().all(is_plain) && !name.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(to: &str) -> Result<Place, String> {
        let spec = Spec {
            to: to.to_owned(),
            ..Spec::default()
        };
        spec.place()
    }

    #[test]
    fn targets_are_read() {
        assert_eq!(place("file:a-b.1"), Ok(Place::Files("a-b.1".to_owned())));
        assert!(matches!(place("https://h/p?q=1"), Ok(Place::Webhook(_))));
        for wrong in [
            "file:",
            "file:..",
            "file:a/b",
            "ftp://x",
            "x",
            "http://",
            "https://u:p@h/",
        ] {
            let why = place(wrong).expect_err(wrong);
            assert!(why.contains("a target is"), "{why}");
        }
    }
}
