//! The checks: one row each, and the run over all of them.

mod rows;

use crate::checks::At;
use crate::facts::{FarmFacts, GroupFacts, RouterFacts};
use crate::finding::{Finding, Fix, Found, Scope, Severity};

pub use rows::TABLE;

/// How a check looks at a farm.
#[derive(Clone, Copy)]
pub(crate) enum Look {
    /// At each server that was read.
    Server(fn(&At<'_>) -> Option<Found>),
    /// The same for servers that replicate from each other, not by Galera.
    Follower(fn(&At<'_>) -> Option<Found>),
    /// At the servers of a group beside each other. A finding names the server that is at fault.
    Members(fn(&FarmFacts, &GroupFacts) -> Vec<Found>),
    /// At each group.
    Group(fn(&FarmFacts, &GroupFacts) -> Vec<Found>),
    /// At each router.
    Router(fn(&FarmFacts, &RouterFacts) -> Vec<Found>),
}

/// One check.
#[derive(Clone, Copy)]
pub struct Check {
    /// Stable: monitoring goes by it.
    pub name: &'static str,
    /// What a finding has that says nothing else.
    pub severity: Severity,
    pub(crate) look: Look,
    /// What `heddle doctor --fix` does about it.
    pub fix: Fix,
    pub breaks: &'static str,
    /// What mends it, in general; a finding may say it of its own server.
    pub cure: &'static str,
}

impl Check {
    pub fn scope(&self) -> Scope {
        match self.look {
            Look::Server(_) | Look::Follower(_) | Look::Members(_) => Scope::Server,
            Look::Group(_) => Scope::Group,
            Look::Router(_) => Scope::Router,
        }
    }

    fn finding(&self, found: Found, of: &str, group: &str) -> Finding {
        // Where there is no statement, nothing can be run.
        let fix = match (self.fix, found.statement.is_empty()) {
            (Fix::Safe | Fix::Asks(_), true) => Fix::Refused("no statement mends this one"),
            (fix, _) => fix,
        };
        Finding {
            check: self.name,
            severity: found.severity.unwrap_or(self.severity),
            scope: self.scope(),
            of: found.server.unwrap_or_else(|| of.to_owned()),
            group: group.to_owned(),
            evidence: found.evidence,
            breaks: found.breaks.unwrap_or_else(|| self.breaks.to_owned()),
            cure: found.cure.unwrap_or_else(|| self.cure.to_owned()),
            fix,
            statement: match fix {
                Fix::Refused(_) => String::new(),
                Fix::Safe | Fix::Asks(_) => found.statement,
            },
        }
    }
}

/// What is wrong with a farm: the gravest first, then in the order of the table.
pub fn findings(farm: &FarmFacts) -> Vec<Finding> {
    let mut all: Vec<Finding> = TABLE.iter().flat_map(|it| of_check(it, farm)).collect();
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

fn of_check(check: &Check, farm: &FarmFacts) -> Vec<Finding> {
    let mut all = Vec::new();
    match check.look {
        Look::Server(look) => {
            for group in &farm.groups {
                all.extend(of_servers(check, look, farm, group));
            }
        }
        Look::Follower(look) => {
            for group in farm.groups.iter().filter(|it| !it.galera) {
                all.extend(of_servers(check, look, farm, group));
            }
        }
        Look::Members(look) => {
            for group in &farm.groups {
                let found = look(farm, group).into_iter();
                all.extend(found.map(|it| check.finding(it, &group.name, &group.name)));
            }
        }
        Look::Group(look) => {
            // Servers that are in no group yet make none.
            for group in farm.groups.iter().filter(|it| !it.name.is_empty()) {
                let found = look(farm, group).into_iter();
                all.extend(found.map(|it| check.finding(it, &group.name, &group.name)));
            }
        }
        Look::Router(look) => {
            for router in &farm.routers {
                let found = look(farm, router).into_iter();
                all.extend(found.map(|it| check.finding(it, &router.name, "")));
            }
        }
    }
    all
}

fn of_servers(
    check: &Check,
    look: fn(&At<'_>) -> Option<Found>,
    farm: &FarmFacts,
    group: &GroupFacts,
) -> Vec<Finding> {
    let each = group.read().filter_map(|server| {
        let found = look(&At {
            farm,
            group,
            server,
        })?;
        Some(check.finding(found, &server.address, &group.name))
    });
    each.collect()
}
