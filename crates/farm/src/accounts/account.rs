//! Who may log in: the servers' own accounts, matched against the client's own address.
//!
//! Source of the matching rules: MySQL 8.0 Reference Manual, «Access Control, Stage 1»; MariaDB
//! Knowledge Base, `CREATE USER`, «Host Name Component». The most specific host wins, then a named
//! user before the anonymous one.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use crate::accounts::local::is_local;
use crate::accounts::tls::TlsDemand;

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
    /// MariaDB's `parsec`: how a key is drawn from the password, and the account's public key.
    Parsec {
        doublings: u8,
        salt: [u8; 18],
        public: [u8; 32],
    },
    /// A plugin that has somebody else judge the password itself, such as PAM or LDAP.
    Clear {
        plugin: Arc<str>,
        /// The server asks for it by MariaDB's `dialog`, else by `mysql_clear_password`.
        dialog: bool,
    },
    /// Several proofs at one login; the plugins behind the first one's.
    Factors(Arc<str>),
    /// `unix_socket` or `auth_socket`: whom the operating system knows as this user.
    Socket {
        plugin: Arc<str>,
        /// The user of the operating system; empty for the one of the account's own name.
        os_user: Arc<str>,
    },
    /// A plugin that Heddle cannot speak for a client; its name goes into the refusal.
    Unsupported(Arc<str>),
}

/// After how many wrong passwords in a row an account is locked: MySQL's FAILED_LOGIN_ATTEMPTS and
/// PASSWORD_LOCK_TIME, MariaDB's `max_password_errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PasswordLocking {
    /// At least 1.
    pub failures_max: u32,
    /// For so many days; `None` until somebody unlocks it.
    pub days: Option<u32>,
}

/// One row of the servers' user table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Empty for the anonymous account.
    pub user: Arc<str>,
    /// Host pattern as in the user table: `%` and `_` wildcards, `net/mask`, or a name.
    pub host: Arc<str>,
    /// The ways to log in, in the server's order. MariaDB's accounts may have several, and MySQL's two
    /// passwords.
    pub ways: Vec<AuthPlugin>,
    pub locked: bool,
    /// The password has expired.
    pub expired: bool,
    /// What its client's connection must have.
    pub tls: TlsDemand,
    /// MAX_USER_CONNECTIONS of the account; 0 for no limit of its own.
    pub connections_max: u32,
    /// `None` where wrong passwords do not lock it.
    pub locking: Option<PasswordLocking>,
    /// True when the account may use the commands that change the farm (SUPER, or all privileges).
    pub admin: bool,
    /// Stands for what a login is given by the account: its global privileges and its roles. Equal
    /// while these are.
    pub privileges: u64,
    /// Stands for all that is granted to the account: global privileges, those on databases, tables,
    /// columns and routines, and roles. Accounts with equal ones may do the same.
    pub rights: u64,
}

/// What somebody may do on everything, as far as Heddle itself asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalRights {
    /// PROCESS: to see the sessions of others.
    pub see: bool,
    /// SUPER or CONNECTION_ADMIN: to end them.
    pub kill: bool,
    /// SHUTDOWN.
    pub shutdown: bool,
    /// MySQL's SYSTEM_USER: its sessions are ended by others who have it only.
    pub system: bool,
}

impl GlobalRights {
    /// Both.
    pub fn and(self, other: GlobalRights) -> GlobalRights {
        GlobalRights {
            see: self.see || other.see,
            kill: self.kill || other.kill,
            shutdown: self.shutdown || other.shutdown,
            system: self.system || other.system,
        }
    }
}

/// All accounts, ordered so that the first match is the one that the server would choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    ordered: Vec<Account>,
    /// Places in `ordered`, ascending, by name.
    by_user: HashMap<Arc<str>, Vec<usize>>,
    /// Stands for the privileges on databases, tables, columns and routines, which take effect for those
    /// who are logged in, too. Equal while these are.
    pub databases: u64,
    /// Of accounts by themselves, and of roles with the roles that they have, by user and host.
    pub global_rights: HashMap<(String, String), GlobalRights>,
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
            global_rights: HashMap::new(),
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

    /// The accounts by which a server may take a login of this name from anywhere, where not all of them may
    /// do what `account` may: those that may, `account` among them.
    pub fn alike(&self, user: &str, account: &Account) -> Option<Vec<&Account>> {
        let named = self.named(user);
        let anonymous = self.named("").filter(|_| !user.is_empty());
        let all: Vec<&Account> = named.chain(anonymous).map(|at| &self.ordered[at]).collect();
        let count = all.len();
        let same = |one: &&Account| one.rights == account.rights || std::ptr::eq(*one, account);
        let alike: Vec<&Account> = all.into_iter().filter(same).collect();
        (alike.len() < count).then_some(alike)
    }

    /// Accounts whose clients a server takes for those of another one, since it sees the router at `seen`
    /// and not them: each with that other one. What they may do differs.
    pub fn mistaken(&self, seen: IpAddr) -> Vec<(&Account, &Account)> {
        let mut pairs = Vec::new();
        for account in self.ordered.iter().filter(|one| !one.user.is_empty()) {
            let Some(taken) = self.find(&account.user, seen) else {
                continue;
            };
            if !std::ptr::eq(taken, account) && taken.rights != account.rights {
                pairs.push((account, taken));
            }
        }
        pairs
    }

    /// Whether a client of this name and address has MySQL's SYSTEM_USER by its account itself.
    pub fn is_system(&self, user: &str, client: IpAddr) -> bool {
        let account = self.find(user, client);
        let name = account.map(|account| (account.user.to_string(), account.host.to_string()));
        let rights = name.and_then(|name| self.global_rights.get(&name));
        rights.is_some_and(|rights| rights.system)
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
    if is_local(client) {
        return !pattern.contains('/') && like(pattern.as_bytes(), b"localhost");
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
            locking: None,
            admin: false,
            privileges: 0,
            rights: 0,
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
    fn accounts_that_are_taken_for_each_other() {
        let with = |user, host, rights| Account {
            rights,
            ..account(user, host)
        };
        let accounts = Accounts::new(vec![
            with("app", "10.0.%", 1),
            with("app", "10.0.0.9", 2),
            with("app", "10.0.0.8", 1),
            with("one", "%", 3),
            with("two", "10.%", 4),
            with("two", "10.0.0.9", 4),
        ]);
        let find = |user, host| accounts.exactly(user, host).expect("an account");
        let alike = |user, host| {
            let alike = accounts.alike(user, find(user, host))?;
            Some(alike.iter().map(|one| &*one.host).collect::<Vec<_>>())
        };
        assert_eq!(alike("app", "10.0.%"), Some(vec!["10.0.0.8", "10.0.%"]));
        assert_eq!(alike("app", "10.0.0.9"), Some(vec!["10.0.0.9"]));
        assert_eq!([alike("one", "%"), alike("two", "10.%")], [None, None]);
        let seen = |ip: &str| {
            let pairs = accounts.mistaken(ip.parse().expect("an address"));
            let name = |one: &Account| format!("{}@{}", one.user, one.host);
            let pairs = pairs.iter().map(|(one, other)| (name(one), name(other)));
            pairs.collect::<Vec<_>>()
        };
        let pair = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        let router = [
            pair("app@10.0.0.8", "app@10.0.0.9"),
            pair("app@10.0.%", "app@10.0.0.9"),
        ];
        assert_eq!(seen("10.0.0.9"), router);
        assert_eq!(seen("10.0.0.8"), [pair("app@10.0.0.9", "app@10.0.0.8")]);
        assert_eq!(seen("192.0.2.1"), []);
    }

    #[test]
    fn host_patterns() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert!(host_matches("localhost", ip("::1")));
        let by_socket = crate::local::LOCAL.ip();
        let fits = |pattern| host_matches(pattern, by_socket);
        assert!(fits("localhost") && fits("LocalHost") && fits("local%") && fits("%") && fits(""));
        assert!(!fits("127.0.0.1") && !fits("127.%") && !fits("0.0.0.0") && !fits("0.0.0.0/0"));
        assert!(host_matches("127.0.0.1", ip("::ffff:127.0.0.1")));
        assert!(host_matches("10.1.0.0/255.255.0.0", ip("10.1.2.3")));
        assert!(!host_matches("10.1.0.0/255.255.0.0", ip("10.2.2.3")));
        assert!(host_matches("10.1.2.0/24", ip("10.1.2.3")));
        assert!(host_matches("10._.2.%", ip("10.1.2.33")));
        assert!(!host_matches("10._.2.%", ip("10.11.2.33")));
        assert!(!host_matches("db.example.com", ip("10.1.2.3")));
    }
}
