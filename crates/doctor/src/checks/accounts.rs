//! The accounts of servers: those that a server lacks, that hide others, or that Heddle cannot log in for.

use std::collections::BTreeMap;

use crate::checks::At;
use crate::facts::{AccountFacts, FarmFacts, GroupFacts, Names, ServerFacts};
use crate::finding::{Found, Severity};

/// Accounts of servers' own.
const SYSTEM: [&str; 4] = [
    "mysql.sys",
    "mysql.session",
    "mysql.infoschema",
    "mariadb.sys",
];

/// Names that a finding lists.
const NAMED_MAX: usize = 5;

fn accounts(server: &ServerFacts) -> impl Iterator<Item = &AccountFacts> {
    let all = server.accounts.iter().flatten();
    all.filter(|it| !SYSTEM.contains(&it.user.as_str()))
}

fn named(names: &[String]) -> String {
    let listed = Names {
        first: names.iter().take(NAMED_MAX).cloned().collect(),
        count: names.len() as u64,
    };
    listed.text()
}

fn told(names: &[String], what: &str) -> Option<Found> {
    (!names.is_empty()).then(|| Found::new(format!("{}{what}", named(names))))
}

pub(crate) fn anonymous(at: &At<'_>) -> Option<Found> {
    let odd = accounts(at.server).filter(|it| it.user.is_empty());
    let names: Vec<String> = odd.map(AccountFacts::name).collect();
    let drops: Vec<String> = names.iter().map(|it| format!("DROP USER {it}")).collect();
    told(&names, "").map(|found| found.cure(drops.join("; ")))
}

/// An account for a host goes before the one for all hosts, with another password.
pub(crate) fn shadowed(at: &At<'_>) -> Option<Found> {
    let everywhere: BTreeMap<&str, u64> = accounts(at.server)
        .filter(|it| it.host == "%" && !it.user.is_empty())
        .map(|it| (it.user.as_str(), it.proof))
        .collect();
    let hides = |it: &&AccountFacts| {
        let other = everywhere.get(it.user.as_str());
        it.host != "%" && other.is_some_and(|proof| *proof != it.proof)
    };
    let names: Vec<String> = accounts(at.server)
        .filter(hides)
        .map(AccountFacts::name)
        .collect();
    told(
        &names,
        ": the account for '%' has another password or plugin",
    )
}

pub(crate) fn missing(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let mut known: BTreeMap<(&str, &str), &ServerFacts> = BTreeMap::new();
    for server in group.read() {
        for account in accounts(server) {
            known
                .entry((&account.user, &account.host))
                .or_insert(server);
        }
    }
    let lacking = group.read().filter(|it| it.accounts.is_some());
    let found = lacking.filter_map(|server| {
        let has =
            |user: &str, host: &str| accounts(server).any(|it| it.user == user && it.host == host);
        let names: Vec<String> = known
            .iter()
            .filter(|((user, host), _)| !has(user, host))
            .map(|((user, host), other)| format!("'{user}'@'{host}' (of {})", other.address))
            .collect();
        told(&names, "").map(|found| found.at(&server.address))
    });
    found.collect()
}

pub(crate) fn differs(_: &FarmFacts, group: &GroupFacts) -> Vec<Found> {
    let Some(model) = group.primary().or_else(|| group.read().next()) else {
        return Vec::new();
    };
    let others = group.read().filter_map(|server| {
        let is_other = |own: &&AccountFacts| {
            let same = |it: &&AccountFacts| it.user == own.user && it.host == own.host;
            accounts(model)
                .find(same)
                .is_some_and(|it| it.proof != own.proof)
        };
        let names: Vec<String> = accounts(server)
            .filter(is_other)
            .map(AccountFacts::name)
            .collect();
        let what = format!(": another password or plugin than on {}", model.address);
        told(&names, &what).map(|found| found.at(&server.address))
    });
    others.collect()
}

pub(crate) fn needs_credential(at: &At<'_>) -> Option<Found> {
    let odd = accounts(at.server).filter(|it| it.needs_credential && !it.locked);
    let names: Vec<String> = odd
        .map(|it| format!("{} ({})", it.name(), it.plugin))
        .collect();
    told(&names, "").filter(|_| decides(at))
}

pub(crate) fn expired(at: &At<'_>) -> Option<Found> {
    let odd = accounts(at.server).filter(|it| it.expired && !it.locked);
    let names: Vec<String> = odd.map(AccountFacts::name).collect();
    told(&names, "").filter(|_| decides(at))
}

/// What replicas have too is told once.
pub(crate) fn decides(at: &At<'_>) -> bool {
    at.server.is_primary() || at.server.status.is_none()
}

pub(crate) fn replication_account(at: &At<'_>) -> Option<Found> {
    if at.group.media {
        return None;
    }
    let user = at.farm.settings.get("replication_user")?;
    let all = at.server.accounts.as_ref()?;
    let own: Vec<&AccountFacts> = all.iter().filter(|it| it.user == *user).collect();
    let evidence = if own.is_empty() {
        format!("there is no account {user}")
    } else if own.iter().all(|it| it.locked) {
        format!("the account {user} is locked")
    } else {
        return None;
    };
    let cure = format!(
        "CREATE USER '{user}'@'%' IDENTIFIED BY '…'; GRANT REPLICATION SLAVE ON *.* TO '{user}'@'%'"
    );
    Some(Found::new(evidence).cure(cure))
}

pub(crate) fn own_password(at: &At<'_>) -> Option<Found> {
    let password = at.farm.settings.get("admin_password")?;
    let user = at.farm.settings.get("admin_user")?;
    if !password.is_empty() {
        return None;
    }
    let severity = match at.server.near {
        true => Severity::Info,
        false => Severity::Error,
    };
    Some(Found::new(format!("the account {user} has no password")).grave(severity))
}
