//! What an account may do, from what SHOW GRANTS says of it. Its active roles are among that, on both
//! engines.

use std::collections::BTreeSet;

use enginesql::Version;
use farm::Engine;
use farm::account::like;

use super::{GRANT_OPTION, Need, Scope};

const ALL: &str = "ALL PRIVILEGES";

/// Heddle's own database.
const OWN: &str = "heddle";

/// Databases of the servers themselves.
const SYSTEM: [&str; 4] = ["mysql", "information_schema", "performance_schema", "sys"];

/// The privileges of an account on everything and on databases; those on less do not count here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    everything: BTreeSet<String>,
    /// By the database's pattern.
    databases: Vec<(String, BTreeSet<String>)>,
    /// MySQL's partial revokes, by the database's name.
    revoked: Vec<(String, BTreeSet<String>)>,
}

impl Held {
    /// Reads the rows of SHOW GRANTS.
    pub fn read<'a>(lines: impl Iterator<Item = &'a str>) -> Held {
        let mut held = Held::default();
        for line in lines {
            let (line, given) = match (line.strip_prefix("GRANT "), line.strip_prefix("REVOKE ")) {
                (Some(rest), _) => (rest, true),
                (None, Some(rest)) => (rest, false),
                (None, None) => continue,
            };
            // A role has no target.
            let Some((names, rest)) = split(line, " ON ") else {
                continue;
            };
            let to = if given { " TO " } else { " FROM " };
            let Some((target, rest)) = split(rest, to) else {
                continue;
            };
            let mut privileges = named(names);
            if rest.ends_with(" WITH GRANT OPTION") {
                privileges.insert(GRANT_OPTION.to_owned());
            }
            match (database(target), given) {
                (Some(Of::Everything), true) => held.everything.extend(privileges),
                (Some(Of::Database(name)), true) => held.databases.push((name, privileges)),
                (Some(Of::Database(name)), false) => held.revoked.push((name, privileges)),
                _ => {}
            }
        }
        held
    }

    /// Whether the account has what is needed.
    pub fn has(&self, need: &Need, version: &Version) -> bool {
        let wanted = need.privilege;
        let everywhere = self.has_everywhere(wanted, version);
        let holds = |all: &BTreeSet<String>| {
            all.contains(wanted) || (wanted != GRANT_OPTION && all.contains(ALL))
        };
        match need.scope {
            Scope::Everything => everywhere && !self.revokes(wanted, |_| true),
            Scope::Own => {
                let of_own = |(pattern, all): &&(String, BTreeSet<String>)| {
                    like(pattern.as_bytes(), OWN.as_bytes()) && holds(all)
                };
                let by_database = self.databases.iter().any(|it| of_own(&it));
                by_database || (everywhere && !self.revokes(wanted, |name| name == OWN))
            }
            Scope::Data => {
                let of_users = |pattern: &str| pattern != OWN && !SYSTEM.contains(&pattern);
                let mut databases = self.databases.iter();
                everywhere || databases.any(|(pattern, all)| of_users(pattern) && holds(all))
            }
        }
    }

    fn has_everywhere(&self, wanted: &str, version: &Version) -> bool {
        let all = &self.everything;
        all.contains(wanted)
            || (wanted != GRANT_OPTION && all.contains(ALL))
            || (all.contains("SUPER") && super_has(wanted, version))
    }

    /// Whether a partial revoke takes it from one of these databases.
    fn revokes(&self, wanted: &str, of: impl Fn(&str) -> bool) -> bool {
        let mut revoked = self.revoked.iter();
        revoked.any(|(name, all)| of(name) && all.contains(wanted))
    }
}

/// Whether SUPER stands for the privilege. MariaDB took READ_ONLY ADMIN out of it in 10.11, and the rest in
/// 11.0; of MySQL's dynamic privileges it has those that were made out of it.
fn super_has(wanted: &str, version: &Version) -> bool {
    match (version.engine, version.number) {
        (Engine::MariaDb, 110_000..) => false,
        (Engine::MariaDb, number) => match wanted {
            "READ_ONLY ADMIN" => number < 101_100,
            "SLAVE MONITOR"
            | "REPLICATION MASTER ADMIN"
            | "REPLICATION SLAVE ADMIN"
            | "BINLOG ADMIN"
            | "BINLOG REPLAY"
            | "CONNECTION ADMIN"
            | "SET USER" => true,
            _ => false,
        },
        (Engine::MySql, _) => matches!(
            wanted,
            "SYSTEM_VARIABLES_ADMIN"
                | "REPLICATION_SLAVE_ADMIN"
                | "CONNECTION_ADMIN"
                | "SET_USER_ID"
                | "SET_ANY_DEFINER"
                | "ALLOW_NONEXISTENT_DEFINER"
        ),
    }
}

enum Of {
    Everything,
    Database(String),
}

/// What a target names, if it is no less than a database. An escaped `_` stays so, for patterns.
fn database(target: &str) -> Option<Of> {
    if target == "*.*" {
        return Some(Of::Everything);
    }
    let name = target.strip_suffix(".*")?;
    let quoted = name.strip_prefix('`').and_then(|it| it.strip_suffix('`'));
    let name = quoted.map_or_else(|| name.to_owned(), |name| name.replace("``", "`"));
    Some(Of::Database(name))
}

/// The privileges of a list; those on columns do not count.
fn named(list: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut depth = 0_usize;
    let parts = list.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    for part in parts.map(str::trim).filter(|part| !part.contains('(')) {
        all.insert(part.to_owned());
    }
    all
}

/// The text before and behind the first of these words that stands outside of quotes.
fn split<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let mut quoted = false;
    for (at, c) in text.char_indices() {
        if c == '`' {
            quoted = !quoted;
        }
        if !quoted && text[at..].starts_with(word) {
            return Some((&text[..at], &text[at + word.len()..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounts::needed::Feature;

    fn need(scope: Scope, privilege: &'static str) -> Need {
        Need {
            feature: Feature::Clone,
            scope,
            privilege,
            purpose: "",
            since: 0,
            before: u32::MAX,
        }
    }

    #[test]
    fn grants_of_both_engines_are_read() {
        let version = Version::parse("8.0.45").expect("a version");
        let held = Held::read(
            [
                "GRANT SELECT, RELOAD, SUPER ON *.* TO `h`@`%`",
                "GRANT XA_RECOVER_ADMIN,SYSTEM_USER ON *.* TO `h`@`%`",
                "GRANT ALL PRIVILEGES ON `heddle`.* TO `h`@`%` WITH GRANT OPTION",
                "GRANT INSERT (a, b), UPDATE ON `shop`.* TO `h`@`%`",
                "GRANT DELETE ON `odd ON ``name`.* TO `h`@`%`",
                "GRANT DROP ON `shop`.`t` TO `h`@`%`",
                "GRANT EXECUTE ON PROCEDURE `x`.`p` TO `h`@`%`",
                "GRANT `role`@`%` TO `h`@`%`",
                "GRANT PROXY ON ``@`` TO `h`@`%` WITH GRANT OPTION",
                "SET DEFAULT ROLE `role` FOR `h`@`%`",
                "REVOKE SELECT ON `mysql`.* FROM `h`@`%`",
            ]
            .into_iter(),
        );
        let has = |scope, privilege| held.has(&need(scope, privilege), &version);
        assert!(has(Scope::Everything, "RELOAD") && has(Scope::Everything, "SYSTEM_USER"));
        assert!(!has(Scope::Everything, "SELECT"), "not in mysql");
        assert!(has(Scope::Everything, "CONNECTION_ADMIN"), "by SUPER");
        assert!(!has(Scope::Everything, "PROCESS"));
        assert!(has(Scope::Own, "CREATE ROUTINE") && has(Scope::Own, GRANT_OPTION));
        assert!(has(Scope::Data, "UPDATE") && has(Scope::Data, "DELETE"));
        assert!(!has(Scope::Data, "INSERT") && !has(Scope::Data, "DROP"));
        assert!(!has(Scope::Data, "EXECUTE"));
    }

    #[test]
    fn all_privileges_are_all_but_handing_them_on() {
        let version = Version::parse("11.4.5-MariaDB").expect("a version");
        let held = Held::read(
            ["GRANT ALL PRIVILEGES ON *.* TO `h`@`%` IDENTIFIED BY PASSWORD '*0'"].into_iter(),
        );
        let has = |scope, privilege| held.has(&need(scope, privilege), &version);
        assert!(has(Scope::Everything, "READ_ONLY ADMIN") && has(Scope::Own, "DROP"));
        assert!(!has(Scope::Own, GRANT_OPTION));
    }

    #[test]
    fn super_has_less_in_later_releases() {
        let held = Held::read(["GRANT SUPER ON *.* TO `h`@`%`"].into_iter());
        let has = |release: &str, privilege| {
            let version = Version::parse(release).expect("a version");
            held.has(&need(Scope::Everything, privilege), &version)
        };
        assert!(has("10.6.1-MariaDB", "READ_ONLY ADMIN"));
        assert!(!has("10.11.6-MariaDB", "READ_ONLY ADMIN"));
        assert!(has("10.11.6-MariaDB", "CONNECTION ADMIN"));
        assert!(!has("11.4.5-MariaDB", "CONNECTION ADMIN"));
        assert!(!has("10.6.1-MariaDB", "BINLOG MONITOR"));
    }
}
