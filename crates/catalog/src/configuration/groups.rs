//! Groups and servers as a document has them: taken from the records, and what to change so that the
//! records say what a document wants.
//!
//! A document never adds or removes a server or a group, and never changes who is the primary: that
//! needs more than a record.

use std::collections::BTreeSet;

use farm::{Mode, Status};
use meta::Transaction;

use super::document::{GroupPart, Groups, ServerPart, Wrong};
use crate::record::{GroupRecord, Records, ServerRecord};

/// What has to be done so that the records are as a document wants them.
#[derive(Debug, Default)]
pub struct Plan {
    pub transaction: Transaction,
    /// What it changes, for people.
    pub changed: Vec<String>,
    /// What the document wants and cannot have, with the line that wants it.
    pub left: Vec<Wrong>,
    /// Groups in which servers changed their standing.
    pub restated: BTreeSet<String>,
}

/// The mode of a server that nobody gave another one.
fn usual(status: Status) -> Mode {
    match status {
        Status::Primary => Mode::ReadWrite,
        _ => Mode::ReadOnly,
    }
}

/// The records as a document has them.
pub fn of(records: &Records) -> Groups {
    let group = |name: &str, group: &GroupRecord| GroupPart {
        line: 0,
        kind: Some(group.kind),
        description: group.description.clone(),
        active: group.active,
        primary: records.primary(name).map(|(_, server)| server.name.clone()),
        servers: records
            .members(name)
            .map(|(_, server)| (server.name.clone(), server_part(server)))
            .collect(),
    };
    let groups = records.groups.iter();
    groups
        .map(|(name, kept)| (name.clone(), group(name, &kept.value)))
        .collect()
}

fn server_part(server: &ServerRecord) -> ServerPart {
    ServerPart {
        line: 0,
        weight: server.weight,
        mode: (server.mode != usual(server.status) && server.status != Status::Faulty)
            .then_some(server.mode),
        spare: server.status == Status::Spare,
        never_primary: server.never_primary,
    }
}

/// What to change. Groups and servers that `wanted` does not name stay as they are.
pub fn plan(records: &Records, wanted: &Groups) -> Plan {
    let mut plan = Plan::default();
    for (name, part) in wanted {
        let Some(kept) = records.groups.get(name) else {
            let what = format!("group {name} is not in the farm; `group create {name}` makes one");
            plan.left.push((part.line, what));
            continue;
        };
        plan.group(records, name, &kept.value, part);
        for (server, wish) in &part.servers {
            let mut members = records.members(name);
            match members.find(|(_, member)| member.name == *server) {
                Some((id, member)) => plan.server(records, id, member, wish),
                None => plan.left.push((
                    wish.line,
                    format!(
                        "group {name} has no server {server}; `group add {name} HOST:PORT \
                         --name={server}` adds one"
                    ),
                )),
            }
        }
    }
    plan
}

/// What a version does not name, so that going back to it leaves it alone; and who leads meanwhile.
pub fn unnamed(records: &Records, then: &Groups, version: u64) -> Vec<String> {
    let mut notes = Vec::new();
    for (name, now) in of(records) {
        let Some(then) = then.get(&name) else {
            notes.push(format!(
                "group {name} is not in version {version}: it stays as it is"
            ));
            continue;
        };
        let new = now.servers.keys();
        for server in new.filter(|server| !then.servers.contains_key(*server)) {
            notes.push(format!(
                "server {server} of group {name} is not in version {version}: it stays as it is"
            ));
        }
        if let (Some(now), Some(then)) = (now.primary, &then.primary)
            && now != *then
        {
            notes.push(format!(
                "{now} stays the primary of group {name}, which was {then} in version {version}; \
                 `group promote {name} {then}` changes it"
            ));
        }
    }
    notes
}

impl Plan {
    fn group(&mut self, records: &Records, name: &str, group: &GroupRecord, part: &GroupPart) {
        if let Some(kind) = part.kind.filter(|kind| *kind != group.kind) {
            let what = format!(
                "group {name} is of the kind {} and stays so, not {}; a group's kind is chosen by \
                 `group create`",
                group.kind.name(),
                kind.name()
            );
            self.left.push((part.line, what));
        }
        let changed = GroupRecord {
            description: part.description.clone(),
            active: part.active,
            ..group.clone()
        };
        if changed == *group {
            return;
        }
        if changed.active != group.active {
            let state = if changed.active { "active" } else { "inactive" };
            self.changed.push(format!("group {name} is {state}"));
        }
        if changed.description != group.description {
            let text = &changed.description;
            self.changed
                .push(format!("group {name} is described as {text:?}"));
        }
        let begun = std::mem::take(&mut self.transaction);
        self.transaction = records.change_group_in(begun, name, &changed);
    }

    fn server(&mut self, records: &Records, id: u32, server: &ServerRecord, wish: &ServerPart) {
        let mut changed = server.clone();
        changed.weight = wish.weight;
        match (wish.never_primary, server.status) {
            (true, Status::Primary) if !server.never_primary => self.leave(
                server,
                wish,
                "promotable = false cannot be while it is the primary; `group promote` first",
            ),
            (never, _) => changed.never_primary = never,
        }
        changed.status = match (wish.spare, server.status) {
            (true, Status::Replica) => Status::Spare,
            (false, Status::Spare) => Status::Replica,
            (true, Status::Primary) => {
                let why = "spare = true cannot be while it is the primary; `group promote` first";
                self.leave(server, wish, why);
                Status::Primary
            }
            (true, Status::Faulty) => {
                let why = "spare = true cannot be while it is FAULTY; `server set_status` brings \
                           it back";
                self.leave(server, wish, why);
                Status::Faulty
            }
            (_, status) => status,
        };
        let mode = wish.mode.unwrap_or(usual(changed.status));
        if changed.status.allows(mode) {
            changed.mode = mode;
        } else if wish.mode.is_some() {
            let standing = changed.status.fabric_name();
            let why = format!("mode = {} does not go with {standing}", mode.name());
            self.leave(server, wish, &why);
        }
        if changed == *server {
            return;
        }
        self.tell(server, &changed);
        let begun = std::mem::take(&mut self.transaction);
        self.transaction = records.change_server(begun, id, &changed);
    }

    fn leave(&mut self, server: &ServerRecord, wish: &ServerPart, why: &str) {
        let what = format!("server {}: {why}", server.name);
        self.left.push((wish.line, what));
    }

    fn tell(&mut self, old: &ServerRecord, new: &ServerRecord) {
        let name = &old.name;
        if old.weight != new.weight {
            let (was, is) = (old.weight, new.weight);
            self.changed
                .push(format!("server {name}: weight {was} becomes {is}"));
        }
        if old.status != new.status {
            let (was, is) = (old.status.fabric_name(), new.status.fabric_name());
            self.changed
                .push(format!("server {name}: {was} becomes {is}"));
            self.restated.insert(old.group.clone());
        }
        if old.mode != new.mode {
            let (was, is) = (old.mode.name(), new.mode.name());
            self.changed
                .push(format!("server {name}: {was} becomes {is}"));
        }
        if old.never_primary != new.never_primary {
            let may = if new.never_primary { "never" } else { "may" };
            self.changed
                .push(format!("server {name}: it {may} become the primary"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::samples::{records, server};

    fn farm() -> Records {
        let mut spare = server("g", 3, Status::Spare);
        spare.weight = 2.0;
        records(
            "g",
            &[
                server("g", 1, Status::Primary),
                server("g", 2, Status::Replica),
                spare,
            ],
        )
    }

    #[test]
    fn what_the_records_say_changes_nothing() {
        let records = farm();
        let groups = of(&records);
        let plan = plan(&records, &groups);
        assert!(plan.changed.is_empty() && plan.left.is_empty(), "{plan:?}");
        assert!(plan.transaction.changes.is_empty());
        assert_eq!(groups["g"].primary.as_deref(), Some("s1"));
        assert!(groups["g"].servers["s3"].spare);
        assert_eq!(groups["g"].servers["s1"].mode, None);
    }

    #[test]
    fn wishes_become_one_transaction() {
        let records = farm();
        let mut wanted = of(&records);
        let group = wanted.get_mut("g").expect("it is there");
        group.active = true;
        group.description = "shop".to_owned();
        group.servers.get_mut("s2").expect("there").spare = true;
        let third = group.servers.get_mut("s3").expect("there");
        (third.spare, third.weight, third.mode) = (false, 1.0, Some(Mode::Offline));
        let plan = plan(&records, &wanted);
        assert_eq!(plan.left, []);
        assert_eq!(
            plan.changed,
            [
                "group g is active",
                "group g is described as \"shop\"",
                "server s2: SECONDARY becomes SPARE",
                "server s3: weight 2 becomes 1",
                "server s3: SPARE becomes SECONDARY",
                "server s3: READ_ONLY becomes OFFLINE",
            ]
        );
        assert_eq!(plan.transaction.changes.len(), 3);
        assert!(plan.restated.contains("g"));
    }

    #[test]
    fn what_a_document_cannot_do_is_said_by_name_and_line() {
        let records = farm();
        let mut wanted = of(&records);
        let group = wanted.get_mut("g").expect("it is there");
        group.kind = Some(farm::GroupKind::Galera);
        group.line = 2;
        let first = group.servers.get_mut("s1").expect("there");
        (first.line, first.spare, first.never_primary) = (4, true, true);
        first.mode = Some(Mode::Offline);
        let gone = ServerPart {
            line: 9,
            ..ServerPart::default()
        };
        group.servers.insert("s9".to_owned(), gone);
        let other = GroupPart {
            line: 12,
            ..GroupPart::default()
        };
        wanted.insert("h".to_owned(), other);
        let plan = plan(&records, &wanted);
        let lines: Vec<usize> = plan.left.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 4, 4, 4, 9, 12], "{:?}", plan.left);
        assert!(plan.left[4].1.contains("no server s9"), "{:?}", plan.left);
        assert!(plan.left[5].1.contains("`group create h`"));
        assert!(plan.changed.is_empty(), "{:?}", plan.changed);
    }

    #[test]
    fn going_back_says_what_it_leaves_alone() {
        let records = farm();
        let mut then = of(&records);
        let group = then.get_mut("g").expect("it is there");
        group.servers.remove("s3");
        group.primary = Some("s2".to_owned());
        let notes = unnamed(&records, &then, 4);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("server s3 of group g is not in version 4"));
        assert!(notes[1].contains("s1 stays the primary of group g"));
        assert_eq!(unnamed(&records, &Groups::new(), 0).len(), 1);
    }
}
