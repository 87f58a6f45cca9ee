//! What Heddle's own account may do on the servers: looked at when a server is added and while it is
//! watched, told with the statements that mend it, and written down for who makes the account.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::needed::{self, ESSENTIAL, Feature};
use engine::own_privileges::{Lacking, lacking};
use engine::{Link, Version};
use farm::GroupKind;

use crate::context::Context;
use catalog::command::CommandError;
use catalog::event::Event;
use catalog::record::ServerRecord;

/// Time between two looks at a server, and while something is missing there.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// What was found at a server last.
#[derive(Debug)]
struct Found {
    at: Instant,
    /// The id of the link that was looked at: another one may have other privileges.
    link: u64,
    /// What is missing, for people; empty when nothing is.
    missing: String,
    /// The part of it that every farm needs.
    essential: String,
}

/// What is known of the account on each server.
#[derive(Debug, Default)]
struct Privileges(Mutex<BTreeMap<u32, Found>>);

impl Privileges {
    fn missing(&self, id: u32) -> String {
        self.of(id, |found| &found.missing)
    }

    fn essential(&self, id: u32) -> String {
        self.of(id, |found| &found.essential)
    }

    fn of(&self, id: u32, text: impl Fn(&Found) -> &String) -> String {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(&id)
            .map_or_else(String::new, |found| text(found).clone())
    }

    fn is_due(&self, id: u32, link: u64) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&id).is_none_or(|found| {
            let pause = match found.missing.is_empty() {
                true => LOOK_EVERY,
                false => LOOK_AGAIN,
            };
            found.link != link || found.at.elapsed() >= pause
        })
    }

    /// Takes over what is missing now; gives what was before, if that was something else.
    fn note(&self, id: u32, link: u64, missing: &str, essential: &str) -> Option<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Found {
            at: Instant::now(),
            link,
            missing: missing.to_owned(),
            essential: essential.to_owned(),
        };
        let before = known.insert(id, found);
        let before = before.map_or_else(String::new, |before| before.missing);
        (before != missing).then_some(before)
    }

    /// Forgets the servers that are no more.
    fn retain(&self, is_there: impl Fn(u32) -> bool) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|&id, _| is_there(id));
    }
}

/// Watches what Heddle's own account may do on the servers.
pub(crate) struct OwnAccount {
    context: Arc<Context>,
    privileges: Privileges,
}

impl OwnAccount {
    pub(crate) fn new(context: &Arc<Context>) -> OwnAccount {
        OwnAccount {
            context: Arc::clone(context),
            privileges: Privileges::default(),
        }
    }
}

impl OwnAccount {
    /// What the account lacks on a server, for people; empty when nothing is, or nobody has looked yet.
    pub(crate) fn missing(&self, server: u32) -> String {
        self.privileges.missing(server)
    }

    /// Only these servers are left in the farm.
    pub(crate) fn forget_all_but(&self, servers: &[u32]) {
        self.privileges.retain(|id| servers.contains(&id));
    }

    /// Refuses a server on which Heddle's account may not do what every farm needs.
    pub(crate) async fn account_suffices(
        &self,
        link: &mut Link,
        timeout_ms: u64,
    ) -> Result<(), CommandError> {
        let found = lacking(link, &essential(), timeout_ms).await?;
        if found.is_empty() {
            return Ok(());
        }
        Err(CommandError::Refused(format!(
            "server {} cannot join: {}",
            link.address(),
            told(&found)
        )))
    }

    /// Looks, now and then, what the account of a probe's link may do, and tells what is missing. The link is
    /// given up when that has changed: servers give what is granted on everything to later connections only.
    pub(crate) async fn look_at_privileges(
        &self,
        id: u32,
        record: &ServerRecord,
        link: &mut Option<Link>,
    ) {
        if self.context.state().records.kind(&record.group) != GroupKind::Replication {
            return;
        }
        let Some(open) = link
            .as_mut()
            .filter(|it| self.privileges.is_due(id, it.id()))
        else {
            return;
        };
        let (number, timeout_ms) = (
            open.id(),
            self.context.settings().observation.probe_timeout_ms,
        );
        let Ok(found) = lacking(open, &self.features_used(), timeout_ms).await else {
            *link = None;
            return;
        };
        let (missing, needed) = (told(&found), told(&found.essential()));
        let Some(before) = self.privileges.note(id, number, &missing, &needed) else {
            return;
        };
        let address = record.address();
        let (kind, detail) = match missing.is_empty() {
            true => (
                "privileges_complete",
                format!("on {address} Heddle's account has the privileges that were missing"),
            ),
            false => ("privileges_missing", format!("on {address} {missing}")),
        };
        if !before.is_empty() {
            *link = None;
        }
        self.context
            .happened(Event::now(kind, &record.group, detail).of(&record.uuid, address));
    }

    /// Refuses to change a primary where a server of its group could not be told to: the change would be taken
    /// back in the middle.
    pub(crate) fn may_change_primary(&self, group: &str) -> Result<(), CommandError> {
        let members: Vec<(u32, String)> = {
            let state = self.context.state();
            let alive = |id: u32| state.seen.get(&id).is_some_and(|seen| seen.health.alive);
            let members = state.records.members(group);
            let members = members.filter(|(id, _)| alive(*id));
            members.map(|(id, server)| (id, server.address())).collect()
        };
        for (id, address) in members {
            let missing = self.privileges.essential(id);
            if !missing.is_empty() {
                return Err(CommandError::Refused(format!(
                    "the primary of group {group} cannot be changed: on {address} {missing}"
                )));
            }
        }
        Ok(())
    }

    /// What every farm does, and what this one does besides.
    pub(crate) fn features_used(&self) -> Vec<Feature> {
        let (snapshot, settings) = (self.context.snapshot(), self.context.settings());
        let mut features = essential();
        if settings.provision.rejoin_by_clone {
            features.push(Feature::Clone);
        }
        if snapshot.sharding.is_some() {
            features.push(Feature::Shards);
        }
        if !snapshot.containers.is_empty() {
            features.push(Feature::Containers);
        }
        if settings.failover.relaxed_replicas {
            features.push(Feature::RelaxedReplicas);
        }
        features
    }
}

/// What is lacking and its cure; empty when nothing is.
fn told(found: &Lacking) -> String {
    match found.is_empty() {
        true => String::new(),
        false => format!("{}; run there: {}", found.text(), found.cure()),
    }
}

/// The features without which no farm can be.
pub(crate) fn essential() -> Vec<Feature> {
    let all = Feature::ALL.into_iter();
    all.filter(|feature| feature.is_essential()).collect()
}

/// The GRANT statements for an account on servers of a release: those that every farm needs, then those of
/// each feature by its name. `features` are names; all of them where there is none.
///
/// # Errors
/// What is wrong with the release or with a name.
pub fn grants(
    release: &str,
    features: &[&str],
    account: &str,
) -> Result<Vec<(String, Vec<String>)>, String> {
    let version = Version::parse(release).filter(|version| version.objection().is_none());
    let Some(version) = version else {
        return Err(format!(
            "{release:?} is no release of MariaDB 10.5 or MySQL 8.0 or newer; write what SELECT VERSION() \
             says, for example 10.11.6-MariaDB or 8.0.45"
        ));
    };
    let optional: Vec<Feature> = Feature::ALL
        .into_iter()
        .filter(|feature| !feature.is_essential())
        .collect();
    let names: Vec<&str> = optional.iter().map(|feature| feature.name()).collect();
    if let Some(odd) = features
        .iter()
        .find(|name| !names.contains(name) && **name != ESSENTIAL)
    {
        return Err(format!(
            "there is no feature {odd:?}; there are: {ESSENTIAL}, {}",
            names.join(", ")
        ));
    }
    let mut all = vec![(
        "what every farm needs".to_owned(),
        needed::grants(&version, &essential(), account),
    )];
    for feature in optional {
        let statements = needed::grants(&version, &[feature], account);
        let wanted = features.is_empty() || features.contains(&feature.name());
        if wanted && !statements.is_empty() {
            let title = format!("{}: {}", feature.name(), feature.text());
            all.push((title, statements));
        }
    }
    Ok(all)
}

/// The statement for the account with which replicas connect to their primary.
pub fn replication_grant(account: &str) -> String {
    needed::replication_grant(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_told_once() {
        let privileges = Privileges::default();
        assert!(privileges.is_due(1, 7));
        assert_eq!(privileges.note(1, 7, "", ""), None, "nothing is missing");
        assert!(!privileges.is_due(1, 7) && privileges.is_due(1, 8));
        assert_eq!(privileges.note(1, 8, "x", "y"), Some(String::new()));
        assert_eq!(privileges.note(1, 8, "x", "y"), None);
        assert_eq!(privileges.missing(1), "x");
        assert_eq!(privileges.essential(1), "y");
        assert_eq!(privileges.note(1, 9, "", ""), Some("x".to_owned()));
        privileges.retain(|_| false);
        assert!(privileges.is_due(1, 9));
    }

    #[test]
    fn statements_come_by_feature() {
        let all = grants("8.0.45", &[], "'h'@'%'").expect("a release");
        let titles: Vec<&str> = all.iter().map(|(title, _)| title.as_str()).collect();
        assert_eq!(titles[0], "what every farm needs");
        assert!(titles[1].starts_with("clone: ") && titles[3].starts_with("kv: "));
        assert_eq!(titles.len(), 4, "MySQL needs nothing for relaxed replicas");
        let few = grants("10.11.6-MariaDB", &["kv"], "'h'@'%'").expect("a release");
        assert_eq!(few.len(), 2);
        assert!(
            grants("10.11.6-MariaDB", &["x"], "h").is_err_and(|it| it.contains("relaxed_replicas"))
        );
        assert!(grants("5.7.44", &[], "h").is_err_and(|it| it.contains("SELECT VERSION()")));
    }
}
