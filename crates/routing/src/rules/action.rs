//! What a rule does with the statements that it is about.

use std::fmt::{self, Display};
use std::sync::Arc;

use farm::{Server, Status};
use regex::bytes::Regex;

use crate::Level;

/// What is to be done; `None` leaves it as it would be without rules.
#[derive(Clone, Debug, Default)]
pub struct Actions {
    /// Reads go to these only, and to the primary where none of them can serve.
    pub servers: Option<Arc<Servers>>,
    /// The level of reads, where the statement itself asks for none.
    pub level: Option<Level>,
    pub rewrite: Option<Arc<Rewrite>>,
    /// The statement's own limit; 0 for none.
    pub timeout_ms: Option<u64>,
    /// Where a copy of the statement runs too.
    pub mirror: Option<Arc<ServerName>>,
    /// The statement waits so long before it runs.
    pub delay_ms: Option<u64>,
    /// The statement is refused with this text.
    pub refuse: Option<Arc<str>>,
    /// Who is asked for servers and level.
    pub hook: Option<Arc<Hook>>,
}

impl Actions {
    /// Takes over what another rule adds; what is decided already stays.
    pub(super) fn complete(&mut self, other: &Actions) {
        fn fill<T: Clone>(mine: &mut Option<T>, other: &Option<T>) {
            if mine.is_none() {
                mine.clone_from(other);
            }
        }
        fill(&mut self.servers, &other.servers);
        fill(&mut self.level, &other.level);
        fill(&mut self.rewrite, &other.rewrite);
        fill(&mut self.timeout_ms, &other.timeout_ms);
        fill(&mut self.mirror, &other.mirror);
        fill(&mut self.delay_ms, &other.delay_ms);
        fill(&mut self.refuse, &other.refuse);
        fill(&mut self.hook, &other.hook);
    }
}

impl Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<String>| {
            parts.extend(value.map(|value| format!("{name}={value}")));
        };
        part("servers", self.servers.as_ref().map(|s| s.to_string()));
        part("level", self.level.map(|level| level.name().to_owned()));
        let bound = match self.level {
            Some(Level::Eventual { max_lag_us }) => max_lag_us,
            _ => None,
        };
        part("max_lag_ms", bound.map(|us| (us / 1000).to_string()));
        let rewrite = self.rewrite.as_ref();
        part("rewrite", rewrite.map(|r| r.find.as_str().to_owned()));
        part("rewrite_to", rewrite.map(|r| r.to.clone()));
        part("timeout_ms", self.timeout_ms.map(|ms| ms.to_string()));
        part("mirror", self.mirror.as_ref().map(|name| name.to_string()));
        part("delay_ms", self.delay_ms.map(|ms| ms.to_string()));
        part("refuse", self.refuse.as_ref().map(|text| text.to_string()));
        part("hook", self.hook.as_ref().map(|hook| hook.url.clone()));
        f.write_str(&parts.join(" "))
    }
}

/// A server as an operator names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName {
    name: String,
    /// Where the name is an address.
    address: Option<(String, u16)>,
}

impl ServerName {
    /// The primary of the group, whoever that is.
    pub const PRIMARY: &str = "primary";

    /// A name, a UUID, `HOST:PORT`, or [`ServerName::PRIMARY`].
    pub fn new(name: &str) -> ServerName {
        let address = name.rsplit_once(':').and_then(|(host, port)| {
            let host = host.trim_start_matches('[').trim_end_matches(']');
            Some((host.to_owned(), port.parse().ok()?))
        });
        let name = name.to_owned();
        ServerName { name, address }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.name
    }

    /// True for the server that is meant.
    pub fn is(&self, server: &Server) -> bool {
        let address = |(host, port): &(String, u16)| *host == *server.host && *port == server.port;
        *self.name == *server.name
            || *self.name == *server.uuid
            || (self.name == ServerName::PRIMARY && server.status == Status::Primary)
            || self.address.as_ref().is_some_and(address)
    }
}

impl Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Some servers of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Servers(pub Vec<ServerName>);

impl Servers {
    /// True for a server that is one of them.
    pub fn contain(&self, server: &Server) -> bool {
        self.0.iter().any(|name| name.is(server))
    }
}

impl Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(ServerName::as_str).collect();
        f.write_str(&names.join("|"))
    }
}

/// A change of the text.
#[derive(Clone, Debug)]
pub struct Rewrite {
    pub find: Regex,
    /// `$1` stands for what the first group found.
    pub to: String,
}

impl Rewrite {
    /// The text with every match replaced; `None` when there is no match, or when it would become
    /// longer than `bytes_max`, which the error says.
    pub fn apply(&self, text: &[u8], bytes_max: usize) -> Result<Option<Vec<u8>>, TooLong> {
        let mut out = Vec::new();
        let mut done = 0;
        for found in self.find.captures_iter(text) {
            let Some(whole) = found.get(0) else { continue };
            out.extend_from_slice(&text[done..whole.start()]);
            found.expand(self.to.as_bytes(), &mut out);
            done = whole.end();
            if out.len() > bytes_max {
                return Err(TooLong);
            }
        }
        if done == 0 && out.is_empty() && !self.find.is_match(text) {
            return Ok(None);
        }
        out.extend_from_slice(&text[done..]);
        if out.len() > bytes_max {
            return Err(TooLong);
        }
        Ok(Some(out))
    }
}

/// A rewritten text that no packet may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

/// What holds when a hook gives no decision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The statement goes where it would go without the hook.
    #[default]
    Route,
    /// A read goes to the primary.
    Primary,
    Refuse,
}

/// A decision that somebody else makes, asked over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    pub url: String,
    /// Without brackets.
    pub host: String,
    pub port: u16,
    /// With the query, from the first `/` on.
    pub path: String,
    pub timeout_ms: u64,
    pub fallback: Fallback,
    /// Decisions hold so long for all statements of one digest; 0 asks every time.
    pub cache_ms: u64,
    /// It is told the text; else the digest only.
    pub sends_text: bool,
}

impl Hook {
    /// Takes `http://HOST[:PORT][/PATH]` apart into host, port and path.
    pub fn address(url: &str) -> Option<(String, u16, String)> {
        let rest = url.strip_prefix("http://")?;
        let at = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let path = match path {
            "" => "/".to_owned(),
            query if query.starts_with('?') => format!("/{query}"),
            path => path.to_owned(),
        };
        let bracketed = authority.strip_prefix('[').and_then(|a| a.split_once(']'));
        let (host, port) = match bracketed {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':')?)),
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = port.map_or(Some(80), |port| port.parse().ok())?;
        let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let right = !host.is_empty() && !host.contains(['@', ':']) || bracketed.is_some();
        (right && plain(host) && plain(&path)).then(|| (host.to_owned(), port, path))
    }
}
