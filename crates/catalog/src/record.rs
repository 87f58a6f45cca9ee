//! The farm as the state store keeps it: keys, values, and what differs between two readings.
//!
//! Keys: `/farm/id`; `/config/current`, the number of the configuration's version; `/farm/authority`, by which its routers know each other; `/farm/secret`, by which older releases of them do; `/group/NAME`; `/server/ID` (ten digits, so that keys sort by id); `/container/NAME`;
//! `/counter/server` and `/counter/group`, the last ids given away. Values are JSON; fields may be added, never renamed.

use std::collections::BTreeMap;
use std::sync::Arc;

use enginesql::Version;
use farm::{Container, Containers, Engine, GroupKind, Mode, Status};
use meta::{Store, Transaction};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::event::Event;
use crate::identity::Fresh;
use crate::secret::Secret;
use crate::server_key;

mod declared;
mod moves;

pub use declared::{
    CHANGE, ChangeRecord, DEFINED, Declared, KeyRecord, MapRecord, SHARDING, ShardRecord,
    TableRecord,
};
pub use moves::{MOVE, MoveRecord, Moves, PartRecord};

const FARM: &str = "/farm/";
pub const FARM_ID: &str = "/farm/id";
const FARM_SECRET: &str = "/farm/secret";
pub const FARM_AUTHORITY: &str = "/farm/authority";
pub const GROUP: &str = "/group/";
pub const SERVER: &str = "/server/";
pub const CONTAINER: &str = "/container/";
const COUNTERS: &str = "/counter/";
const COUNTER: &str = "/counter/server";
pub const CONFIGURATION: &str = "/config/current";

/// The parts of a reading are read again so often until no change fell between them.
const READINGS_MAX: usize = 5;
const GROUP_COUNTER: &str = "/counter/group";

/// A group without its servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    #[serde(default)]
    pub kind: GroupKind,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub active: bool,
    /// What the new primary had at the end of each timeline, the oldest first.
    #[serde(default)]
    pub forks: Vec<String>,
    /// Names the group in ids of transactions, for ever. 0 in a record that is older than these.
    #[serde(default)]
    pub number: u32,
}

/// A server without what probes know of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerRecord {
    pub uuid: String,
    pub name: String,
    pub group: String,
    pub host: String,
    pub port: u16,
    pub status: Status,
    pub mode: Mode,
    pub weight: f64,
    pub engine: Engine,
    pub version: String,
    /// An operator marked it: never the primary, whatever happens.
    #[serde(default)]
    pub never_primary: bool,
    /// A router is filling this faulty server anew. The router that leads next goes on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub being_filled: bool,
    /// SHA-256 of its certificate's public key, in hexadecimal digits: how it is known where certificates are not verified.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<String>,
}

impl ServerRecord {
    /// `host:port`.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// See [`Version::release`]; 0 for one that says nothing of it.
    pub fn release(&self) -> u32 {
        Version::parse(&self.version).map_or(0, |version| version.release())
    }

    /// The record in another standing, in the mode that goes with it.
    pub fn with_status(&self, status: Status) -> ServerRecord {
        let mode = match status {
            Status::Primary if self.status == Status::Primary => self.mode,
            Status::Primary => Mode::ReadWrite,
            _ if self.mode == Mode::Offline => Mode::Offline,
            _ => Mode::ReadOnly,
        };
        ServerRecord {
            status,
            mode,
            being_filled: self.being_filled && status == Status::Faulty,
            ..self.clone()
        }
    }

    /// The record after a change of its group's primary, which made this server the primary or another one.
    pub fn after_change_of_primary(&self, leads: bool) -> ServerRecord {
        self.with_status(match self.status {
            _ if leads => Status::Primary,
            Status::Primary => Status::Replica,
            other => other,
        })
    }

    /// The key that it is known by. One that cannot be read is nobody's.
    pub fn key(&self) -> Option<farm::ServerKey> {
        let text = self.certificate.as_deref()?;
        Some(server_key::parse(text).unwrap_or_default())
    }
}

/// The authority that signs the certificates of the farm's routers.
#[derive(Serialize, Deserialize)]
struct AuthorityRecord {
    /// Its private key, as PEM.
    key: String,
}

/// A value with the revision that wrote it, for the comparison of the next change.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept<T> {
    pub value: T,
    pub revision: u64,
}

/// All keys, read at one revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Records {
    pub farm_id: String,
    pub secret: Secret,
    /// The authority's private key.
    pub authority: Secret,
    pub groups: BTreeMap<String, Kept<GroupRecord>>,
    pub servers: BTreeMap<u32, Kept<ServerRecord>>,
    counter: Option<Kept<u32>>,
    /// The version of the configuration that counts.
    pub configuration: Option<Kept<u64>>,
    group_counter: Option<Kept<u32>>,
    pub declared: Declared,
    /// By their ids.
    pub changes: BTreeMap<String, ChangeRecord>,
    pub moves: Moves,
    /// What key-value clients see.
    pub containers: Arc<Containers>,
    pub revision: u64,
}

impl Records {
    /// Reads everything; a store that lacks the farm's id, its secret or its authority is given these.
    pub async fn load(store: &dyn Store, fresh: &Fresh) -> Result<Records, Error> {
        let records = Records::read(store).await?;
        let authority = authority_record(&fresh.authority);
        let wanted = [
            (FARM_ID, records.farm_id.is_empty(), json(&fresh.id)),
            (
                FARM_SECRET,
                records.secret.reveal().is_empty(),
                json(&fresh.secret.reveal()),
            ),
            (
                FARM_AUTHORITY,
                records.authority.reveal().is_empty(),
                authority,
            ),
        ];
        let mut missing = wanted.iter().filter(|(_, lacks, _)| *lacks).peekable();
        if missing.peek().is_none() {
            return records.numbered(store).await;
        }
        for (key, _, value) in missing {
            let made = Transaction::new().when_absent(key).put(key, value);
            // Stale means that another router was faster; what it made counts.
            store.commit(made).await?;
        }
        Records::read(store).await?.numbered(store).await
    }

    /// Gives numbers to groups that have none.
    async fn numbered(self, store: &dyn Store) -> Result<Records, Error> {
        let nameless = |(name, kept): (&String, &Kept<GroupRecord>)| {
            (kept.value.number == 0).then(|| name.clone())
        };
        let names: Vec<String> = self.groups.iter().filter_map(nameless).collect();
        if names.is_empty() {
            return Ok(self);
        }
        let (mut number, mut transaction) = self.next_number();
        for name in names {
            let group = GroupRecord {
                number,
                ..self.groups[&name].value.clone()
            };
            transaction = self.change_group_in(transaction, &name, &group);
            number += 1;
        }
        // Stale means that another router was faster.
        let last = transaction.put(GROUP_COUNTER, &json(&(number - 1)));
        store.commit(last).await?;
        Records::read(store).await
    }

    /// The number that the next group gets, and the beginning of a change that gives it.
    fn next_number(&self) -> (u32, Transaction) {
        let counter = self.group_counter.as_ref();
        let given = self.groups.values().map(|kept| kept.value.number);
        let last = given.chain(counter.map(|kept| kept.value)).max();
        let transaction = match counter {
            None => Transaction::new().when_absent(GROUP_COUNTER),
            Some(kept) => Transaction::new().when_revision(GROUP_COUNTER, kept.revision),
        };
        (last.unwrap_or(0) + 1, transaction)
    }

    /// Reads everything but the history of the configuration, which may be long and is not needed here.
    pub async fn read(store: &dyn Store) -> Result<Records, Error> {
        let mut records = Records::default();
        for _ in 0..READINGS_MAX {
            let (
                farm,
                counter,
                configuration,
                groups,
                servers,
                sharding,
                changes,
                moves,
                containers,
            ) = tokio::join!(
                store.scan(FARM),
                store.scan(COUNTERS),
                store.scan(CONFIGURATION),
                store.scan(GROUP),
                store.scan(SERVER),
                store.scan(SHARDING),
                store.scan(CHANGE),
                store.scan(MOVE),
                store.scan(CONTAINER),
            );
            let listings = [
                farm?,
                counter?,
                configuration?,
                groups?,
                servers?,
                sharding?,
                changes?,
                moves?,
                containers?,
            ];
            let revisions = listings.iter().map(|listing| listing.revision);
            let (oldest, newest) = (revisions.clone().min(), revisions.max());
            records = Records {
                // What is newer than the oldest part is told by a watch, and read again.
                revision: oldest.unwrap_or_default(),
                ..Records::default()
            };
            for entry in listings.into_iter().flat_map(|listing| listing.entries) {
                records.take(&entry)?;
            }
            if oldest == newest {
                break;
            }
        }
        Ok(records)
    }

    /// True for the keys that these records are made of.
    pub fn includes(key: &str) -> bool {
        [
            FARM,
            COUNTERS,
            CONFIGURATION,
            GROUP,
            SERVER,
            SHARDING,
            CHANGE,
            MOVE,
            CONTAINER,
        ]
        .iter()
        .any(|prefix| key.starts_with(prefix))
    }

    /// Takes one key over.
    pub fn take(&mut self, entry: &meta::Entry) -> Result<(), Error> {
        let key = entry.key.as_str();
        if key == FARM_ID {
            self.farm_id = parse(entry)?;
        } else if key == FARM_SECRET {
            self.secret = Secret::new(&parse::<String>(entry)?);
        } else if key == FARM_AUTHORITY {
            self.authority = Secret::new(&parse::<AuthorityRecord>(entry)?.key);
        } else if key == COUNTER {
            self.counter = Some(kept(entry)?);
        } else if key == GROUP_COUNTER {
            self.group_counter = Some(kept(entry)?);
        } else if key == CONFIGURATION {
            self.configuration = Some(kept(entry)?);
        } else if let Some(name) = key.strip_prefix(GROUP) {
            self.groups.insert(name.to_owned(), kept(entry)?);
        } else if let Some(id) = key.strip_prefix(SERVER) {
            let id = id.parse().map_err(|_| Error::Record {
                key: key.to_owned(),
                reason: "its key does not end in a number".to_owned(),
            })?;
            self.servers.insert(id, kept(entry)?);
        } else if key.starts_with(SHARDING) {
            self.declared.take(entry)?;
        } else if let Some(id) = key.strip_prefix(CHANGE) {
            self.changes.insert(id.to_owned(), parse(entry)?);
        } else if let Some(id) = key.strip_prefix(MOVE) {
            self.moves.insert(id.to_owned(), kept(entry)?);
        } else if key.starts_with(CONTAINER) {
            let container: Container = parse(entry)?;
            let others = self.containers.iter().map(|one| (**one).clone());
            self.containers = Arc::new(Containers::new(others.chain([container])));
        }
        Ok(())
    }

    /// How a group's servers keep their data equal.
    pub fn kind(&self, group: &str) -> GroupKind {
        self.groups
            .get(group)
            .map_or(GroupKind::Replication, |kept| kept.value.kind)
    }

    /// The servers of a group, by id.
    pub fn members<'a>(
        &'a self,
        group: &'a str,
    ) -> impl Iterator<Item = (u32, &'a ServerRecord)> + Clone + 'a {
        self.servers
            .iter()
            .map(|(&id, kept)| (id, &kept.value))
            .filter(move |(_, server)| server.group == group)
    }

    /// The server that takes a group's writes.
    pub fn primary(&self, group: &str) -> Option<(u32, &ServerRecord)> {
        self.servers
            .iter()
            .map(|(&id, kept)| (id, &kept.value))
            .find(|(_, server)| server.group == group && server.status == Status::Primary)
    }

    /// The server of this UUID, address or name.
    pub fn find(&self, server: &str) -> Option<(u32, &Kept<ServerRecord>)> {
        let named = |kept: &&Kept<ServerRecord>| {
            let record = &kept.value;
            record.uuid.eq_ignore_ascii_case(server)
                || record.address() == server
                || record.name == server
        };
        self.servers
            .iter()
            .find(|(_, kept)| named(kept))
            .map(|(&id, kept)| (id, kept))
    }

    /// Makes a group, under a number of its own.
    pub fn create_group(&self, name: &str, group: &GroupRecord) -> Transaction {
        let key = format!("{GROUP}{name}");
        let (number, transaction) = self.next_number();
        let group = GroupRecord {
            number,
            ..group.clone()
        };
        transaction
            .when_absent(&key)
            .put(&key, &json(&group))
            .put(GROUP_COUNTER, &json(&number))
    }

    /// Replaces a group's record.
    pub fn change_group(&self, name: &str, group: &GroupRecord) -> Transaction {
        self.unless_group_changed(Transaction::new(), name)
            .put(&format!("{GROUP}{name}"), &json(group))
    }

    /// Replaces a group's record as a part of a larger change.
    pub fn change_group_in(
        &self,
        transaction: Transaction,
        name: &str,
        group: &GroupRecord,
    ) -> Transaction {
        self.unless_group_changed(transaction, name)
            .put(&format!("{GROUP}{name}"), &json(group))
    }

    /// Removes a group.
    pub fn remove_group(&self, name: &str) -> Transaction {
        self.unless_group_changed(Transaction::new(), name)
            .delete(&format!("{GROUP}{name}"))
    }

    /// Adds a server under a new id, unless its group changed since. The group's key is written too,
    /// so that a router that removes the group at the same time is refused.
    pub fn add_server(&self, server: &ServerRecord) -> (u32, Transaction) {
        let group = self
            .groups
            .get(&server.group)
            .map(|kept| kept.value.clone());
        let guarded = self
            .unless_group_changed(Transaction::new(), &server.group)
            .put(
                &format!("{GROUP}{}", server.group),
                &json(&group.unwrap_or_default()),
            );
        self.add_servers(guarded, std::slice::from_ref(server))
    }

    /// Adds servers as a part of a change that sees to their group. Gives the first one's id; the others' follow it.
    pub fn add_servers(
        &self,
        transaction: Transaction,
        servers: &[ServerRecord],
    ) -> (u32, Transaction) {
        let last = self.counter.as_ref().map_or(0, |counter| counter.value);
        let mut transaction = match &self.counter {
            None => transaction.when_absent(COUNTER),
            Some(counter) => transaction.when_revision(COUNTER, counter.revision),
        };
        let mut id = last;
        for server in servers {
            id += 1;
            transaction = transaction.put(&server_key(id), &json(server));
        }
        (last + 1, transaction.put(COUNTER, &json(&id)))
    }

    /// Replaces a server's record; several can go into one transaction.
    pub fn change_server(
        &self,
        transaction: Transaction,
        id: u32,
        server: &ServerRecord,
    ) -> Transaction {
        let key = server_key(id);
        let revision = self.servers.get(&id).map_or(0, |kept| kept.revision);
        transaction
            .when_revision(&key, revision)
            .put(&key, &json(server))
    }

    /// Removes a server.
    pub fn remove_server(&self, id: u32) -> Transaction {
        let key = server_key(id);
        let revision = self.servers.get(&id).map_or(0, |kept| kept.revision);
        Transaction::new()
            .when_revision(&key, revision)
            .delete(&key)
    }

    fn unless_group_changed(&self, transaction: Transaction, name: &str) -> Transaction {
        let revision = self.groups.get(name).map_or(0, |kept| kept.revision);
        transaction.when_revision(&format!("{GROUP}{name}"), revision)
    }

    /// What happened between an older reading and this one.
    pub fn events_since(&self, old: &Records) -> Vec<Event> {
        let mut events = Vec::new();
        for name in self
            .groups
            .keys()
            .filter(|&name| !old.groups.contains_key(name))
        {
            events.push(Event::now(
                "group_created",
                name,
                format!("group {name} was created"),
            ));
        }
        for (id, kept) in &self.servers {
            server_events(
                old.servers.get(id).map(|kept| &kept.value),
                &kept.value,
                &mut events,
            );
        }
        for (_, kept) in old
            .servers
            .iter()
            .filter(|(id, _)| !self.servers.contains_key(id))
        {
            let server = &kept.value;
            let detail = format!("{} left group {}", server.address(), server.group);
            let event = Event::now("server_removed", &server.group, detail);
            events.push(event.of(&server.uuid, server.address()));
        }
        for name in old
            .groups
            .keys()
            .filter(|&name| !self.groups.contains_key(name))
        {
            events.push(Event::now(
                "group_destroyed",
                name,
                format!("group {name} was removed"),
            ));
        }
        events
    }
}

fn server_events(old: Option<&ServerRecord>, new: &ServerRecord, events: &mut Vec<Event>) {
    let address = new.address();
    let mut push = |kind, detail| {
        events.push(Event::now(kind, &new.group, detail).of(&new.uuid, address.clone()));
    };
    let became_primary =
        new.status == Status::Primary && old.is_none_or(|old| old.status != Status::Primary);
    if old.is_none() {
        push(
            "server_added",
            format!("{} joined group {}", new.address(), new.group),
        );
    }
    if became_primary {
        push(
            "primary_changed",
            format!("{} takes the writes", new.address()),
        );
    }
    let Some(old) = old else { return };
    if old.status != new.status && !became_primary {
        let (was, is) = (old.status.fabric_name(), new.status.fabric_name());
        push("status_changed", format!("{was} became {is}"));
    }
    if old.mode != new.mode && !became_primary {
        push(
            "mode_changed",
            format!("{} became {}", old.mode.name(), new.mode.name()),
        );
    }
    if old.version != new.version {
        push(
            "version_changed",
            format!("{} became {}", old.version, new.version),
        );
    }
    if old.uuid != new.uuid {
        push("uuid_changed", format!("{} became {}", old.uuid, new.uuid));
    }
}

fn server_key(id: u32) -> String {
    format!("{SERVER}{id:010}")
}

/// What the store has of an authority.
pub fn authority_record(key: &Secret) -> String {
    let key = key.reveal().to_owned();
    json(&AuthorityRecord { key })
}

pub fn json<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("records hold nothing that JSON cannot say")
}

fn kept<T: DeserializeOwned>(entry: &meta::Entry) -> Result<Kept<T>, Error> {
    Ok(Kept {
        value: parse(entry)?,
        revision: entry.revision,
    })
}

fn parse<T: DeserializeOwned>(entry: &meta::Entry) -> Result<T, Error> {
    serde_json::from_str(&entry.value).map_err(|error| Error::Record {
        key: entry.key.clone(),
        reason: error.to_string(),
    })
}

pub mod samples;
#[cfg(test)]
mod tests;
