//! Who may log in: the servers' own accounts, matched against the client's own address.
//!
//! Source of the matching rules: MySQL 8.0 Reference Manual, «Access Control, Stage 1»; MariaDB
//! Knowledge Base, `CREATE USER`, «Host Name Component». The most specific host wins, then a named
//! user before the anonymous one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::tls::TlsDemand;

/// How an account proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthPlugin {
    /// `mysql_native_password`; SHA1(SHA1(password)), or `None` for an empty password.
    Native(Option<[u8; 20]>),
    /// `caching_sha2_password`; the server's `authentication_string`, empty for an empty password.
    CachingSha2(Arc<[u8]>),
    /// `sha256_password`; the same.
    Sha256(Arc<[u8]>),
    /// MariaDB's `ed25519`; the account's public key.
    Ed25519([u8; 32]),
    /// A plugin that Heddle cannot speak for a client; its name goes into the refusal.
    Unsupported(Arc<str>),
}

/// One row of the servers' user table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Empty for the anonymous account.
    pub user: Arc<str>,
    /// Host pattern as in the user table: `%` and `_` wildcards, `net/mask`, or a name.
    pub host: Arc<str>,
    /// The ways to log in, in the server's order. MariaDB's accounts may have several.
    pub ways: Vec<AuthPlugin>,
    pub locked: bool,
    /// The password has expired.
    pub expired: bool,
    /// What its client's connection must have.
    pub tls: TlsDemand,
    /// MAX_USER_CONNECTIONS of the account; 0 for no limit of its own.
    pub connections_max: u32,
    /// True when the account may use the commands that change the farm (SUPER, or all privileges).
    pub admin: bool,
    /// Stands for what a login is given by the account: its global privileges and its roles. Equal
    /// while these are.
    pub privileges: u64,
}

/// All accounts, ordered so that the first match is the one that the server would choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    ordered: Vec<Account>,
    /// Places in `ordered`, ascending, by name.
    by_user: HashMap<Arc<str>, Vec<usize>>,
    /// Stands for the privileges on databases, which take effect when one is selected. Equal while
    /// these are.
    pub databases: u64,
}

impl Accounts {
    /// Orders the accounts as the servers do: most specific host first, named users before the
    /// anonymous one.
    pub fn new(mut accounts: Vec<Account>) -> Accounts {
        accounts.sort_by_cached_key(|account| {
            (
                specificity(&account.host),
                account.user.is_empty(),
                account.host.clone(),
            )
        });
        let mut by_user: HashMap<Arc<str>, Vec<usize>> = HashMap::new();
        for (place, account) in accounts.iter().enumerate() {
            by_user.entry(account.user.clone()).or_default().push(place);
        }
        Accounts {
            ordered: accounts,
            by_user,
            databases: 0,
        }
    }

    /// The accounts of exactly this name, most specific host first.
    fn named(&self, user: &str) -> impl Iterator<Item = usize> {
        self.by_user.get(user).into_iter().flatten().copied()
    }

    /// The account that a client of this name and address logs in as.
    pub fn find(&self, user: &str, client: IpAddr) -> Option<&Account> {
        let first = |user| {
            let mut places = self.named(user);
            places.find(|&place| host_matches(&self.ordered[place].host, client))
        };
        let (named, anonymous) = (first(user), first(""));
        let place = named.into_iter().chain(anonymous).min()?;
        Some(&self.ordered[place])
    }

    /// The account of exactly this name and host pattern.
    pub fn exactly(&self, user: &str, host: &str) -> Option<&Account> {
        let mut named = self.named(user).map(|place| &self.ordered[place]);
        named.find(|account| &*account.host == host)
    }

    /// All of them, the most specific host first.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.ordered.iter()
    }

    /// How many accounts there are.
    pub fn len(&self) -> usize {
        self.ordered.len()
    }

    /// True when no account is known, for example before the first server answered.
    pub fn is_empty(&self) -> bool {
        self.ordered.is_empty()
    }
}

/// Lower is more specific: literals, then patterns by the place of their first wildcard (later is
/// more specific), then `%` alone and the empty host.
fn specificity(host: &str) -> usize {
    if host.is_empty() || host == "%" {
        return usize::MAX;
    }
    if host.contains('/') {
        return usize::MAX / 4;
    }
    match host.find(['%', '_']) {
        None => 0,
        Some(at) => usize::MAX / 2 - at,
    }
}

/// True when the pattern of a user table admits this address. Names other than `localhost` are not
/// resolved: an account that names a host must name its address to be reached through Heddle.
pub fn host_matches(pattern: &str, client: IpAddr) -> bool {
    let client = client.to_canonical();
    if pattern.is_empty() || pattern == "%" {
        return true;
    }
    if pattern.eq_ignore_ascii_case("localhost") {
        return client.is_loopback();
    }
    if let Some((net, mask)) = pattern.split_once('/') {
        return net_matches(net, mask, client);
    }
    like(pattern.as_bytes(), client.to_string().as_bytes())
}

fn net_matches(net: &str, mask: &str, client: IpAddr) -> bool {
    let (Ok(net), IpAddr::V4(client)) = (net.parse::<std::net::Ipv4Addr>(), client) else {
        return false;
    };
    let mask = match mask.parse::<u32>() {
        Ok(bits) if bits <= 32 => u32::MAX.checked_shl(32 - bits).unwrap_or(0),
        _ => match mask.parse::<std::net::Ipv4Addr>() {
            Ok(mask) => u32::from(mask),
            Err(_) => return false,
        },
    };
    u32::from(client) & mask == u32::from(net)
}

/// SQL LIKE over bytes, without escapes: what both servers use for host patterns. Backtracks only to
/// the last `%`, so it is O(pattern × text) at worst.
pub fn like(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match pattern.get(p) {
            Some(b'%') => {
                retry = Some((p + 1, t));
                p += 1;
            }
            Some(&c) if c == b'_' || c.eq_ignore_ascii_case(&text[t]) => {
                p += 1;
                t += 1;
            }
            _ => match retry {
                Some((after, at)) => {
                    retry = Some((after, at + 1));
                    p = after;
                    t = at + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'%')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(user: &str, host: &str) -> Account {
        Account {
            user: user.into(),
            host: host.into(),
            ways: vec![AuthPlugin::Native(None)],
            locked: false,
            expired: false,
            tls: TlsDemand::None,
            connections_max: 0,
            admin: false,
            privileges: 0,
        }
    }

    fn found(accounts: &Accounts, user: &str, ip: &str) -> Option<String> {
        let ip = ip.parse().expect("an address");
        accounts
            .find(user, ip)
            .map(|a| format!("{}@{}", a.user, a.host))
    }

    #[test]
    fn most_specific_host_wins_before_user() {
        let accounts = Accounts::new(vec![
            account("app", "%"),
            account("app", "10.0.%"),
            account("app", "10.0.0.7"),
            account("", "localhost"),
        ]);
        assert_eq!(
            found(&accounts, "app", "10.0.0.7").as_deref(),
            Some("app@10.0.0.7")
        );
        assert_eq!(
            found(&accounts, "app", "10.0.9.7").as_deref(),
            Some("app@10.0.%")
        );
        assert_eq!(
            found(&accounts, "app", "192.168.1.1").as_deref(),
            Some("app@%")
        );
        // The classic trap of both servers: the anonymous account on localhost hides app@%.
        assert_eq!(
            found(&accounts, "app", "127.0.0.1").as_deref(),
            Some("@localhost")
        );
        assert_eq!(found(&accounts, "other", "10.0.0.7"), None);
    }

    #[test]
    fn host_patterns() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(host_matches("localhost", ip("::1")));
        assert!(host_matches("127.0.0.1", ip("::ffff:127.0.0.1")));
        assert!(host_matches("10.1.0.0/255.255.0.0", ip("10.1.2.3")));
        assert!(!host_matches("10.1.0.0/255.255.0.0", ip("10.2.2.3")));
        assert!(host_matches("10.1.2.0/24", ip("10.1.2.3")));
        assert!(host_matches("10._.2.%", ip("10.1.2.33")));
        assert!(!host_matches("10._.2.%", ip("10.11.2.33")));
        assert!(!host_matches("db.example.com", ip("10.1.2.3")));
    }
}
