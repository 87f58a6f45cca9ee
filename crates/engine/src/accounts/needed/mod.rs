//! The privileges that Heddle's own account needs on the servers: the one table of them.
//!
//! Job: which privileges each feature needs, on what, in which releases, and why; the GRANT statements
//! that give them; which of them an account lacks.
//!
//! Invariants: `docs/PRIVILEGES.md`, the statements and the checks are made of the same rows. A feature
//! that is essential is needed by every farm.
//!
//! Must not know: how an account's privileges are read from a server ([`crate::accounts::own_privileges`]).

mod held;
mod rows;

use std::fmt;

use enginesql::Version;
use farm::Engine;

pub use held::Held;
use rows::{COMMON, MARIADB, MYSQL};

/// What Heddle does by its own account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Feature {
    Probes,
    Contents,
    Failover,
    Clients,
    Binlogs,
    Transactions,
    OwnTables,
    Clone,
    Shards,
    Containers,
    RelaxedReplicas,
}

/// On what a privilege is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// `*.*`
    Everything,
    /// Heddle's own database.
    Own,
    /// The databases whose tables the feature touches; `*.*` has them all.
    Data,
}

/// A privilege that a feature needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    pub feature: Feature,
    pub scope: Scope,
    /// As the engine's GRANT has it.
    pub privilege: &'static str,
    /// What Heddle does by it.
    pub purpose: &'static str,
    /// The first release that has it, as [`Version::number`].
    pub since: u32,
    /// The first release that has another one in its place.
    pub before: u32,
}

/// What an account lacks for a feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    pub feature: Feature,
    pub scope: Scope,
    pub privileges: Vec<&'static str>,
}

impl Feature {
    /// All features, the essential ones first.
    pub const ALL: [Feature; 11] = [
        Feature::Probes,
        Feature::Contents,
        Feature::Failover,
        Feature::Clients,
        Feature::Binlogs,
        Feature::Transactions,
        Feature::OwnTables,
        Feature::Clone,
        Feature::Shards,
        Feature::Containers,
        Feature::RelaxedReplicas,
    ];

    /// Its name on the command line; the essential ones go by one name.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Clone => "clone",
            Feature::Shards => "shards",
            Feature::Containers => "kv",
            Feature::RelaxedReplicas => "relaxed_replicas",
            _ => ESSENTIAL,
        }
    }

    /// What it is, for people.
    pub fn text(self) -> &'static str {
        match self {
            Feature::Probes => "watching servers",
            Feature::Contents => "knowing accounts, tables and foreign keys",
            Feature::Failover => "changing primaries and replicas",
            Feature::Clients => "listing and ending connections",
            Feature::Binlogs => "reading binary logs",
            Feature::Transactions => "ending transactions that a router or a crash left",
            Feature::OwnTables => "the database heddle",
            Feature::Clone => "filling servers (`server clone`, `group add`, rejoin_by_clone)",
            Feature::Shards => "shard maps: definitions, moves, global tables",
            Feature::Containers => "containers of the KV door",
            Feature::RelaxedReplicas => "replicas that flush less often (relaxed_replicas)",
        }
    }

    /// A farm refuses a server on which it is not possible.
    pub fn is_essential(self) -> bool {
        self.name() == ESSENTIAL
    }
}

/// The name of all essential features together.
pub const ESSENTIAL: &str = "essential";

impl Scope {
    /// As GRANT has it.
    pub fn target(self) -> &'static str {
        match self {
            Scope::Everything | Scope::Data => "*.*",
            Scope::Own => "`heddle`.*",
        }
    }
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (privileges, target) = (self.privileges.join(", "), self.scope.target());
        let target = target.replace('`', "");
        write!(f, "{privileges} ON {target} (for {})", self.feature.text())
    }
}

/// All rows of an engine, one feature after the other.
pub fn rows(engine: Engine) -> Vec<&'static Need> {
    let own = match engine {
        Engine::MariaDb => MARIADB,
        Engine::MySql => MYSQL,
    };
    let mut all: Vec<&Need> = COMMON.iter().chain(own).collect();
    all.sort_by_key(|need| need.feature);
    all
}

/// What these features need on servers of this version.
pub fn needs(version: &Version, features: &[Feature]) -> Vec<&'static Need> {
    let all = rows(version.engine).into_iter();
    let here = all.filter(|need| (need.since..need.before).contains(&version.number));
    here.filter(|need| features.contains(&need.feature))
        .collect()
}

/// The privileges that these features need and that the account lacks.
pub fn lacks(version: &Version, features: &[Feature], held: &Held) -> Vec<Lack> {
    let mut all: Vec<Lack> = Vec::new();
    for need in needs(version, features) {
        if held.has(need, version) {
            continue;
        }
        let same = |lack: &&mut Lack| (lack.feature, lack.scope) == (need.feature, need.scope);
        match all.iter_mut().find(same) {
            Some(lack) => lack.privileges.push(need.privilege),
            None => all.push(Lack {
                feature: need.feature,
                scope: need.scope,
                privileges: vec![need.privilege],
            }),
        }
    }
    all
}

/// What is lacking, in one line.
pub fn described(lacks: &[Lack]) -> String {
    let all: Vec<String> = lacks.iter().map(Lack::to_string).collect();
    all.join("; ")
}

/// The statements that give what is lacking; `account` is as GRANT has it.
pub fn cure(lacks: &[Lack], account: &str) -> String {
    let needed = lacks.iter().flat_map(|lack| {
        let privileges = lack.privileges.iter();
        privileges.map(|&privilege| (lack.scope, privilege))
    });
    statements(needed, account).join("; ")
}

/// The GRANT statements for these features, one for each target.
pub fn grants(version: &Version, features: &[Feature], account: &str) -> Vec<String> {
    let needed = needs(version, features).into_iter();
    statements(needed.map(|need| (need.scope, need.privilege)), account)
}

/// The statement for the account with which replicas connect to their primary.
pub fn replication_grant(account: &str) -> String {
    format!("GRANT REPLICATION SLAVE ON *.* TO {account}")
}

fn statements(
    needed: impl Iterator<Item = (Scope, &'static str)> + Clone,
    account: &str,
) -> Vec<String> {
    let mut all = Vec::new();
    for target in [Scope::Everything.target(), Scope::Own.target()] {
        let mut names: Vec<&str> = Vec::new();
        for (_, name) in needed.clone().filter(|(scope, _)| scope.target() == target) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let handed_on = names.contains(&GRANT_OPTION);
        names.retain(|name| *name != GRANT_OPTION);
        if names.is_empty() && !handed_on {
            continue;
        }
        let privileges = match names.is_empty() {
            true => "USAGE".to_owned(),
            false => names.join(", "),
        };
        let option = if handed_on { " WITH GRANT OPTION" } else { "" };
        all.push(format!(
            "GRANT {privileges} ON {target} TO {account}{option}"
        ));
    }
    all
}

/// Is said at the end of a statement instead of among its privileges.
const GRANT_OPTION: &str = "GRANT OPTION";

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).expect("a version")
    }

    fn essential() -> Vec<Feature> {
        let all = Feature::ALL.into_iter();
        all.filter(|feature| feature.is_essential()).collect()
    }

    #[test]
    fn releases_get_the_privileges_that_they_have() {
        let named = |text: &str, features: &[Feature], privilege: &str| {
            let needs = needs(&version(text), features);
            needs.iter().any(|need| need.privilege == privilege)
        };
        let all = Feature::ALL;
        assert!(!named("8.0.12", &all, "SYSTEM_USER") && named("8.0.45", &all, "SYSTEM_USER"));
        assert!(named("8.0.45", &all, "SET_USER_ID") && !named("8.4.6", &all, "SET_USER_ID"));
        assert!(named("8.4.6", &all, "SET_ANY_DEFINER"));
        assert!(!named("10.5.8-MariaDB", &essential(), "SLAVE MONITOR"));
        assert!(named("10.5.9-MariaDB", &essential(), "SLAVE MONITOR"));
        for release in ["8.0.45", "8.4.6", "10.11.6-MariaDB", "11.4.5-MariaDB"] {
            assert!(!named(release, &essential(), "SUPER"), "{release}");
            assert!(!named(release, &essential(), "DELETE HISTORY"), "{release}");
        }
    }

    #[test]
    fn each_target_has_one_statement() {
        let grants = grants(&version("8.0.12"), &essential(), "'h'@'%'");
        assert_eq!(grants.len(), 2, "{grants:?}");
        assert!(grants[0].starts_with("GRANT ") && grants[0].ends_with(" ON *.* TO 'h'@'%'"));
        assert!(grants[1].ends_with(" ON `heddle`.* TO 'h'@'%' WITH GRANT OPTION"));
        assert_eq!(grants[0].matches("RELOAD").count(), 1, "{}", grants[0]);
    }

    #[test]
    fn what_is_granted_is_held_and_what_is_not_is_named() {
        for release in [
            "8.0.12",
            "8.0.45",
            "8.4.6",
            "10.5.8-MariaDB",
            "11.4.5-MariaDB",
        ] {
            let version = version(release);
            let lines = grants(&version, &Feature::ALL, "`h`@`%`");
            let held = Held::read(lines.iter().map(String::as_str));
            assert_eq!(lacks(&version, &Feature::ALL, &held), [], "{release}");
            let nothing = Held::read(["GRANT USAGE ON *.* TO `h`@`%`"].into_iter());
            let lacking = lacks(&version, &essential(), &nothing);
            assert_eq!(
                cure(&lacking, "`h`@`%`"),
                grants(&version, &essential(), "`h`@`%`").join("; ")
            );
        }
        let version = version("8.0.45");
        let mut lines = grants(&version, &essential(), "`h`@`%`");
        lines[0] = lines[0].replace("PROCESS, ", "");
        let held = Held::read(lines.iter().map(String::as_str));
        let lacking = lacks(&version, &essential(), &held);
        assert_eq!(
            described(&lacking),
            "PROCESS ON *.* (for listing and ending connections)"
        );
        assert_eq!(cure(&lacking, "'h'@'%'"), "GRANT PROCESS ON *.* TO 'h'@'%'");
    }
}
