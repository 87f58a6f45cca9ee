//! Answers from the published snapshot: who serves a group or a key, and the farm in numbers.
//!
//! Pure: a snapshot and arguments in, rows out. A client of Fabric asks once in each time to live, and a
//! thousand of them must cost the control plane nothing.

use farm::account::like;
use farm::shard::{Bound, Key, ShardKind, ShardMap, ShardedTable};
use farm::sharding::{Placement, Sharding};
use farm::{Group, Mode, Server, Snapshot, Status};
use routing::shard::{Literal, Nowhere, locate, stored};

use crate::answer::Set;
use crate::arguments::Arguments;
use crate::client::Reader;
use crate::table::LookUp;
use crate::value::Value;

/// A server that no probe has reached yet says so; its record is all that is known.
const UNKNOWN: &str = "not probed yet";

/// What look-ups read.
pub struct View<'a> {
    pub snapshot: &'a Snapshot,
    /// Where this door is: protocol, host, port.
    pub nodes: &'a [control::Node],
    /// What clients are told to connect to in place of the servers: a router's host and port.
    pub router: Option<(&'a str, u16)>,
    pub reader: Reader,
}

impl View<'_> {
    /// Answers.
    ///
    /// # Errors
    /// What is asked for is not there; Fabric's texts where it had them.
    pub fn answer(&self, what: LookUp, args: &Arguments) -> Result<Set, String> {
        Ok(match what {
            LookUp::Groups => self.groups(args)?,
            LookUp::GroupServers => self.group_servers(args)?,
            LookUp::ShardServers => self.shard_servers(args)?,
            LookUp::Table => self.table(args)?,
            LookUp::Tables => self.tables(args)?,
            LookUp::Definitions => self.definitions(),
            LookUp::DumpNodes => self.nodes(args),
            LookUp::DumpServers => self.servers(args),
            LookUp::DumpMaps => self.maps(args),
            LookUp::DumpIndex => self.index(args),
            LookUp::DumpTables => self.shard_tables(args),
            LookUp::DumpInformation => self.information(args),
        })
    }

    fn group(&self, name: &str) -> Result<&Group, String> {
        let group = self.snapshot.group(name);
        group
            .map(|group| &**group)
            .ok_or_else(|| format!("GroupError: Group ({name}) does not exist."))
    }

    fn sharding(&self) -> Option<&Sharding> {
        self.snapshot.sharding.as_deref()
    }

    fn groups(&self, args: &Arguments) -> Result<Set, String> {
        let mut set = Set::new(&["group_id", "description", "failure_detector", "master_uuid"]);
        let only = args.get("group_id");
        if let Some(name) = only {
            self.group(name)?;
        }
        for group in &self.snapshot.groups {
            if only.is_some_and(|only| *only != *group.name) {
                continue;
            }
            let primary = group.primary();
            set.rows.push(vec![
                (*group.name).into(),
                group.description.as_str().into(),
                group.active.into(),
                primary.map_or("", |server| &*server.uuid).into(),
            ]);
        }
        Ok(set)
    }

    fn group_servers(&self, args: &Arguments) -> Result<Set, String> {
        let group = self.group(args.text("group_id"))?;
        let bad = |name: &str, given: &str| format!("ServerError: Unknown {name} ({given}).");
        let status = args.get("status").map(|given| {
            let found = Status::parse(given);
            found.ok_or_else(|| bad("server status", given))
        });
        let mode = args.get("mode").map(|given| {
            let found = Mode::parse(given);
            found.ok_or_else(|| bad("server mode", given))
        });
        let (status, mode) = (status.transpose()?, mode.transpose()?);
        let only = args.get("server_id");
        let asked = |server: &Server| {
            let named = |only: &str| {
                *server.uuid == *only || server.address() == only || *server.name == *only
            };
            only.is_none_or(named)
                && status.is_none_or(|status| status == told(server))
                && mode.is_none_or(|mode| mode == server.mode)
        };
        let set = self.servers_of(group, asked);
        match only {
            Some(only) if set.rows.is_empty() && status.is_none() && mode.is_none() => {
                Err(format!("ServerError: Server ({only}) does not exist."))
            }
            _ => Ok(set),
        }
    }

    fn servers_of(&self, group: &Group, asked: impl Fn(&Server) -> bool) -> Set {
        let mut set = Set::new(&["server_uuid", "address", "status", "mode", "weight"]);
        for server in group.servers.iter().filter(|server| asked(server)) {
            let address = match self.router {
                Some((host, port)) => format!("{host}:{port}"),
                None => server.address(),
            };
            set.rows.push(vec![
                (*server.uuid).into(),
                address.into(),
                told(server).fabric_name().into(),
                server.mode.name().into(),
                server.weight.into(),
            ]);
        }
        set
    }

    fn shard_servers(&self, args: &Arguments) -> Result<Set, String> {
        let (name, hint) = (args.text("table_name"), args.text("hint"));
        let group = match hint.to_ascii_uppercase().as_str() {
            "LOCAL" => self.group_of_key(name, args.get("key"))?,
            // 1.5 takes a map's number here, 1.4 a table.
            "GLOBAL" => {
                let map = match self.sharding().and_then(|it| it.map_called(name)) {
                    Some(mapped) => &mapped.map,
                    None => self.map_of(name)?.1,
                };
                map.global_group.to_string()
            }
            _ => return Err(format!("ShardingError: Unknown lookup hint ({hint}).")),
        };
        Ok(self.servers_of(self.group(&group)?, |_| true))
    }

    fn group_of_key(&self, name: &str, key: Option<&str>) -> Result<String, String> {
        let (table, map) = self.map_of(name)?;
        let Some(table) = table else {
            return Ok(map.global_group.to_string());
        };
        let Some(given) = key else {
            return Err(format!(
                "ShardingError: A key of {name} is needed for the hint LOCAL."
            ));
        };
        let key = stored(Literal::Text(given.as_bytes()), table.key);
        let Some(key) = key else {
            let column = &table.column;
            return Err(format!(
                "ShardingError: Key ({given}) is no value of {column}."
            ));
        };
        match locate(map, &key) {
            Ok(at) => Ok(map.shard(at).group.to_string()),
            Err(Nowhere::OutOfRange) => Err(format!(
                "ShardingError: Key ({given}) is in no shard of mapping {}.",
                map.id
            )),
            Err(Nowhere::Disabled { shard }) => Err(format!(
                "ShardingError: Shard ({shard}) is not enabled; `sharding.enable_shard` enables it."
            )),
        }
    }

    /// A declared table, if it is sharded, and its map.
    fn map_of(&self, name: &str) -> Result<(Option<&ShardedTable>, &ShardMap), String> {
        let unknown = || {
            format!(
                "ShardingError: Table ({name}) is on no shard mapping; `sharding.list_tables` lists those that are."
            )
        };
        let plain = name.replace('`', "");
        let (database, table) = plain.split_once('.').ok_or_else(unknown)?;
        let sharding = self.sharding().ok_or_else(unknown)?;
        let (table, id) = match sharding.named(database, table).ok_or_else(unknown)? {
            Placement::Sharded(table) => (Some(table), table.map),
            Placement::Global { map } => (None, *map),
        };
        let mapped = sharding.map(id).ok_or_else(unknown)?;
        Ok((table, &mapped.map))
    }

    fn table(&self, args: &Arguments) -> Result<Set, String> {
        let name = args.text("table_name");
        let (table, map) = self.map_of(name)?;
        let column = table.map_or("", |table| &*table.column);
        let mut set = Set::new(&TABLE_COLUMNS);
        set.rows
            .push(table_row(map, &name.replace('`', ""), column));
        Ok(set)
    }

    fn tables(&self, args: &Arguments) -> Result<Set, String> {
        let kind = args.get("sharding_type").map(|given| {
            let kind = ShardKind::parse(given);
            kind.ok_or_else(|| format!("ShardingError: Invalid sharding type ({given})."))
        });
        let kind = kind.transpose()?;
        let mut set = Set::new(&TABLE_COLUMNS);
        for (database, table, placement) in self.declared() {
            let (id, column) = match placement {
                Placement::Sharded(table) => (table.map, &*table.column),
                Placement::Global { map } => (*map, ""),
            };
            let map = self.sharding().and_then(|it| it.map(id));
            let map = map.filter(|it| kind.is_none_or(|kind| kind == it.map.kind));
            if let Some(mapped) = map {
                let name = format!("{database}.{table}");
                set.rows.push(table_row(&mapped.map, &name, column));
            }
        }
        Ok(set)
    }

    /// The tables that are declared, or will be once they are made, in the order of their names.
    fn declared(&self) -> Vec<(&str, &str, &Placement)> {
        let all = self.sharding().into_iter().flat_map(|it| it.all_named());
        let mut all: Vec<_> = all
            .map(|(database, table, placement)| (&**database, &**table, placement))
            .collect();
        all.sort_by_key(|(database, table, _)| (*database, *table));
        all
    }

    fn definitions(&self) -> Set {
        let mut set = Set::new(&["mapping_id", "type_name", "global_group_id"]);
        let maps = self.sharding().map_or(&[][..], Sharding::maps);
        for mapped in maps {
            let (map, kind) = (&mapped.map, mapped.map.kind.name());
            let global = (*map.global_group).into();
            set.rows.push(vec![map.id.into(), kind.into(), global]);
        }
        set
    }

    fn nodes(&self, args: &Arguments) -> Set {
        let mut set = Set::new(&["host", "port"]);
        let protocol = args.get("protocol");
        for node in self.nodes {
            if protocol.is_none_or(|asked| asked == node.protocol) {
                let port = u32::from(node.port);
                set.rows.push(vec![node.host.as_str().into(), port.into()]);
            }
        }
        set
    }

    fn servers(&self, args: &Arguments) -> Set {
        let columns = [
            "server_uuid",
            "group_id",
            "host",
            "port",
            "mode",
            "status",
            "weight",
        ];
        let mut set = Set::new(&columns);
        for group in &self.snapshot.groups {
            if !matches(args.text("patterns"), &group.name) {
                continue;
            }
            let live = group.servers.iter();
            let live = live.filter(|server| told(server) != Status::Faulty);
            let live = live.map(|server| match self.router {
                Some((host, _)) => (&**server, host),
                None => (&**server, &*server.host),
            });
            let alike = self.router.is_some();
            for (server, host) in self.reader.servers(live.collect(), alike) {
                let (mode, status) = match self.reader.sees_one(alike) {
                    true => (Mode::ReadWrite, Status::Primary),
                    false => (self.reader.mode(server.mode), told(server)),
                };
                set.rows.push(vec![
                    (*server.uuid).into(),
                    (*group.name).into(),
                    host.into(),
                    u32::from(self.router.map_or(server.port, |(_, port)| port)).into(),
                    (mode as u32).into(),
                    (status as u32).into(),
                    server.weight.into(),
                ]);
            }
        }
        set
    }

    /// The maps that the client can use, of those that the patterns name.
    fn shown_maps(&self, patterns: &str) -> impl Iterator<Item = (&ShardMap, &'static str)> {
        let maps = self.sharding().map_or(&[][..], Sharding::maps);
        let maps = maps.iter().map(|mapped| &mapped.map);
        maps.filter(move |map| matches(patterns, &map.id.to_string()))
            .filter_map(|map| Some((map, self.reader.kind(map)?)))
    }

    fn maps(&self, args: &Arguments) -> Set {
        let mut set = Set::new(&["mapping_id", "type_name", "global_group_id"]);
        for (map, kind) in self.shown_maps(args.text("patterns")) {
            let global = (*map.global_group).into();
            set.rows.push(vec![map.id.into(), kind.into(), global]);
        }
        set
    }

    fn index(&self, args: &Arguments) -> Set {
        let mut set = Set::new(&["lower_bound", "mapping_id", "shard_id", "group_id"]);
        for (map, _) in self.shown_maps(args.text("patterns")) {
            for shard in map.shards.iter().filter(|shard| shard.enabled) {
                let bound = shown(&shard.bound).into();
                let group = (*shard.group).into();
                set.rows
                    .push(vec![bound, map.id.into(), shard.id.into(), group]);
            }
        }
        set
    }

    fn shard_tables(&self, args: &Arguments) -> Set {
        let columns = ["schema_name", "table_name", "column_name", "mapping_id"];
        let mut set = Set::new(&columns);
        for (map, _) in self.shown_maps(args.text("patterns")) {
            for (database, name, placement) in self.declared() {
                if let Placement::Sharded(table) = placement
                    && table.map == map.id
                {
                    let column = (*table.column).into();
                    set.rows
                        .push(vec![database.into(), name.into(), column, map.id.into()]);
                }
            }
        }
        set
    }

    fn information(&self, args: &Arguments) -> Set {
        let columns = [
            "schema_name",
            "table_name",
            "column_name",
            "lower_bound",
            "shard_id",
            "type_name",
            "group_id",
            "global_group",
        ];
        let mut set = Set::new(&columns);
        let patterns = args.text("patterns");
        for (database, name, placement) in self.declared() {
            let Placement::Sharded(table) = placement else {
                continue;
            };
            let full = format!("{database}.{name}");
            let mut wanted = parts(patterns).peekable();
            let all = wanted.peek().is_none();
            if !all && !wanted.any(|part| like(part.as_bytes(), full.as_bytes())) {
                continue;
            }
            let mut maps = self.shown_maps("");
            let Some((map, kind)) = maps.find(|(map, _)| map.id == table.map) else {
                continue;
            };
            for shard in map.shards.iter().filter(|shard| shard.enabled) {
                set.rows.push(vec![
                    database.into(),
                    name.into(),
                    (*table.column).into(),
                    shown(&shard.bound).into(),
                    shard.id.into(),
                    kind.into(),
                    (*shard.group).into(),
                    (*map.global_group).into(),
                ]);
            }
        }
        set
    }
}

const TABLE_COLUMNS: [&str; 5] = [
    "mapping_id",
    "type_name",
    "table_name",
    "global_group",
    "column_name",
];

fn table_row(map: &ShardMap, name: &str, column: &str) -> Vec<Value> {
    vec![
        map.id.into(),
        map.kind.name().into(),
        name.into(),
        (*map.global_group).into(),
        column.into(),
    ]
}

/// The status that clients are told. They know no other sign of a dead server than FAULTY; a dead primary
/// keeps its own until there is another one.
fn told(server: &Server) -> Status {
    let is_dead = !server.health.alive && server.health.error != UNKNOWN;
    match server.status {
        Status::Primary => Status::Primary,
        _ if is_dead => Status::Faulty,
        status => status,
    }
}

/// A bound as Fabric shows it.
fn shown(bound: &Bound) -> String {
    match bound {
        Bound::Lower(Key::Int(number)) => number.to_string(),
        Bound::Lower(Key::Bytes(bytes)) => {
            let text = String::from_utf8_lossy(bytes);
            // Connectors read moments without fractions.
            let text = text.strip_suffix(".000000").unwrap_or(&text);
            text.to_owned()
        }
        Bound::Digest(digest) => hex::encode_upper(digest),
        Bound::Keys(_) | Bound::Slots => String::new(),
    }
}

/// Fabric's patterns: a comma list of parts of names; none at all names everything. A part of digits only
/// names exactly that, as an id.
fn matches(patterns: &str, name: &str) -> bool {
    let mut wanted = parts(patterns).peekable();
    let all = wanted.peek().is_none();
    all || wanted.any(|part| match part.bytes().all(|b| b.is_ascii_digit()) {
        true => name == part,
        false => like(format!("%{part}%").as_bytes(), name.as_bytes()),
    })
}

fn parts(patterns: &str) -> impl Iterator<Item = &str> {
    let parts = patterns.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches("", "g1") && matches(" , ", "g1"));
        assert!(matches("shard", "my_shard_1") && matches("x,g", "g1"));
        assert!(!matches("x", "g1"));
        assert!(matches("1", "1") && !matches("1", "10"));
    }

    #[test]
    fn bounds_have_fabrics_form() {
        assert_eq!(shown(&Bound::Lower(Key::Int(-5))), "-5");
        assert_eq!(shown(&Bound::Digest([0xab; 16])), "AB".repeat(16));
        let moment = b"2014-01-01 00:00:00.000000".to_vec();
        let moment = Bound::Lower(Key::Bytes(moment));
        assert_eq!(shown(&moment), "2014-01-01 00:00:00");
    }
}
