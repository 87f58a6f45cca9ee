//! What a rule is about: conditions on a statement and its session, all of which must hold.

use std::cell::OnceCell;
use std::fmt::{self, Display};
use std::net::IpAddr;

use farm::account::like;
use farm::local::address_of;
use regex::Regex;
use sqltext::{Class, Digest, Mode, TableName, leading_comments, normalise, tables};

/// One statement and its session. What only some conditions need is read when one asks.
#[derive(Debug)]
pub struct Question<'a> {
    pub text: &'a [u8],
    pub mode: &'a Mode,
    pub user: &'a [u8],
    /// The session's database.
    pub database: Option<&'a [u8]>,
    pub client: IpAddr,
    pub class: Class,
    pub digest: Option<Digest>,
    /// The text may change data.
    pub writes: bool,
    tables: OnceCell<Vec<TableName<'a>>>,
    normal: OnceCell<String>,
}

impl<'a> Question<'a> {
    /// A question about a text in a session that is in nobody's name and nowhere.
    pub fn new(text: &'a [u8], mode: &'a Mode, client: IpAddr) -> Question<'a> {
        Question {
            text,
            mode,
            user: b"",
            database: None,
            client,
            class: Class::Other,
            digest: None,
            writes: false,
            tables: OnceCell::new(),
            normal: OnceCell::new(),
        }
    }

    fn tables(&self) -> &[TableName<'a>] {
        self.tables.get_or_init(|| tables(self.text, self.mode))
    }

    fn normal(&self) -> &str {
        self.normal.get_or_init(|| {
            let mut normal = String::new();
            normalise(self.text, self.mode, &mut normal);
            normal
        })
    }

    /// One of the text's tables, named with its database, fits one of the patterns.
    fn names_table(&self, patterns: &[String]) -> bool {
        self.tables().iter().any(|table| {
            let database = table.database.as_deref().or(self.database);
            let full = [database.unwrap_or_default(), b".", &table.name].concat();
            patterns.iter().any(|p| like(p.as_bytes(), &full))
        })
    }

    /// The session's database, or one that the text names with a table, fits one of the patterns.
    fn names_database(&self, patterns: &[String]) -> bool {
        let fits = |name: &[u8]| patterns.iter().any(|p| like(p.as_bytes(), name));
        let tables = || self.tables().iter();
        let named = || tables().any(|table| table.database.as_deref().is_some_and(fits));
        self.database.is_some_and(fits) || named()
    }
}

/// Which statements a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Those that surely only read.
    Read,
    /// Those that may change data.
    Write,
}

/// The conditions of one rule. An empty one asks for nothing; several values are alternatives.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    pub users: Vec<String>,
    /// LIKE patterns.
    pub databases: Vec<String>,
    /// LIKE patterns for `database.table`.
    pub tables: Vec<String>,
    pub digests: Vec<Digest>,
    /// Searched in the normal form of the text.
    pub regex: Option<Regex>,
    /// Comments in front of the text, trimmed.
    pub comments: Vec<String>,
    pub clients: Vec<Network>,
    pub side: Option<Side>,
}

impl Conditions {
    /// True when all conditions hold. The cheap ones are asked first.
    pub fn hold(&self, question: &Question<'_>) -> bool {
        let side = match self.side {
            None => true,
            Some(Side::Read) => question.class == Class::Read,
            Some(Side::Write) => question.writes,
        };
        let is_user = |user: &String| user.as_bytes() == question.user;
        let is_comment = |comment: &[u8]| self.comments.iter().any(|c| c.as_bytes() == comment);
        side && among(&self.users, is_user)
            && among(&self.digests, |digest| Some(*digest) == question.digest)
            && among(&self.clients, |network| network.contains(question.client))
            && (self.comments.is_empty() || leading_comments(question.text).any(is_comment))
            && (self.databases.is_empty() || question.names_database(&self.databases))
            && (self.tables.is_empty() || question.names_table(&self.tables))
            && (self.regex.as_ref()).is_none_or(|regex| regex.is_match(question.normal()))
    }
}

/// No alternatives, or one that fits.
fn among<T>(all: &[T], fits: impl FnMut(&T) -> bool) -> bool {
    all.is_empty() || all.iter().any(fits)
}

impl Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |name: &str, values: Vec<String>| {
            if !values.is_empty() {
                parts.push(format!("{name}={}", values.join("|")));
            }
        };
        part("user", self.users.clone());
        part("database", self.databases.clone());
        part("table", self.tables.clone());
        part(
            "digest",
            self.digests.iter().map(Digest::to_string).collect(),
        );
        let regex = self.regex.iter();
        part("regex", regex.map(|r| r.as_str().to_owned()).collect());
        part("comment", self.comments.clone());
        let clients = self.clients.iter();
        part("client", clients.map(Network::to_string).collect());
        let side = self.side.iter();
        part(
            "class",
            side.map(|s| format!("{s:?}").to_lowercase()).collect(),
        );
        f.write_str(&parts.join(" "))
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    /// Reads `10.0.0.0/8`, `2001:db8::/32`, or one address.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most)?,
            None => most,
        };
        Some(Network { address, bits })
    }

    /// True for an address within; one of IPv4 in IPv6's clothes is one of IPv4.
    pub fn contains(&self, client: IpAddr) -> bool {
        let differ =
            |a: u128, b: u128, size: u32| self.bits > 0 && (a ^ b) >> (size - self.bits) != 0;
        match (self.address, address_of(client)) {
            (IpAddr::V4(a), IpAddr::V4(b)) => !differ(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => !differ(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}

impl Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}
