//! What Fabric's connectors ask for: the farm in numbers.

use std::sync::Arc;

use farm::Status;

use crate::context::Context;
use catalog::command::{Arguments, CommandError, Table};
use catalog::record::Declared;

/// The commands that show the farm as MySQL Fabric did.
pub(crate) struct DumpCommands {
    context: Arc<Context>,
}

impl DumpCommands {
    pub(crate) fn new(context: &Arc<Context>) -> DumpCommands {
        DumpCommands {
            context: Arc::clone(context),
        }
    }
}

impl DumpCommands {
    /// All servers that are not faulty, of the groups that the patterns name.
    pub(crate) fn dump_servers(&self, args: &Arguments) -> Result<Table, CommandError> {
        let patterns = args.get("patterns").unwrap_or_default();
        let mut table = Table::new(&[
            "server_uuid",
            "group_id",
            "host",
            "port",
            "mode",
            "status",
            "weight",
        ]);
        let state = self.context.state();
        for name in state
            .records
            .groups
            .keys()
            .filter(|name| matches(patterns, name))
        {
            for (_, server) in state.records.members(name) {
                if server.status == Status::Faulty {
                    continue;
                }
                table.rows.push(vec![
                    server.uuid.as_str().into(),
                    name.as_str().into(),
                    server.host.as_str().into(),
                    server.port.into(),
                    (server.mode as u8).into(),
                    (server.status as u8).into(),
                    server.weight.into(),
                ]);
            }
        }
        Ok(table)
    }

    /// The maps whose numbers the patterns name.
    pub(crate) fn dump_shard_maps(&self, args: &Arguments) -> Table {
        let patterns = args.get("patterns").unwrap_or_default();
        let mut table = Table::new(&["mapping_id", "type_name", "global_group_id"]);
        for (id, map) in &self.context.state().records.declared.maps {
            if matches(patterns, &id.to_string()) {
                let (kind, group) = (map.kind.name(), map.global_group.as_str());
                table
                    .rows
                    .push(vec![(*id).into(), kind.into(), group.into()]);
            }
        }
        table
    }

    /// The enabled shards of maps whose numbers the patterns name, in the order of their bounds.
    pub(crate) fn dump_shard_index(&self, args: &Arguments) -> Table {
        let patterns = args.get("patterns").unwrap_or_default();
        let columns = ["lower_bound", "mapping_id", "shard_id", "group_id"];
        let mut table = Table::new(&columns);
        let declared = &self.context.state().records.declared;
        for id in declared.maps.keys() {
            if !matches(patterns, &id.to_string()) {
                continue;
            }
            for shard in ordered(declared, *id) {
                let record = &declared.shards[&shard];
                if record.enabled {
                    table.rows.push(vec![
                        record.shown_bound().into(),
                        (*id).into(),
                        shard.into(),
                        record.group.as_str().into(),
                    ]);
                }
            }
        }
        table
    }

    /// The sharded tables of maps whose numbers the patterns name.
    pub(crate) fn dump_shard_tables(&self, args: &Arguments) -> Table {
        let patterns = args.get("patterns").unwrap_or_default();
        let columns = ["schema_name", "table_name", "column_name", "mapping_id"];
        let mut table = Table::new(&columns);
        for record in self.context.state().records.declared.named() {
            let Some(key) = &record.key else { continue };
            if matches(patterns, &record.map.to_string()) {
                table.rows.push(vec![
                    record.database.as_str().into(),
                    record.table.as_str().into(),
                    key.column.as_str().into(),
                    record.map.into(),
                ]);
            }
        }
        table
    }

    /// Everything about the sharded tables that the patterns name whole, as `database.table`.
    pub(crate) fn dump_sharding_information(&self, args: &Arguments) -> Table {
        let patterns = args.get("patterns").unwrap_or_default();
        let mut wanted = patterns.split(',').map(str::trim).peekable();
        let all = wanted.peek().is_none_or(|first| first.is_empty());
        let wanted: Vec<&str> = wanted.collect();
        let mut table = Table::new(&[
            "schema_name",
            "table_name",
            "column_name",
            "lower_bound",
            "shard_id",
            "type_name",
            "group_id",
            "global_group",
        ]);
        let declared = &self.context.state().records.declared;
        for record in declared.named() {
            let (Some(key), Some(map)) = (&record.key, declared.maps.get(&record.map)) else {
                continue;
            };
            if !all && !wanted.contains(&record.full_name().as_str()) {
                continue;
            }
            for id in ordered(declared, record.map) {
                let shard = &declared.shards[&id];
                if shard.enabled {
                    table.rows.push(vec![
                        record.database.as_str().into(),
                        record.table.as_str().into(),
                        key.column.as_str().into(),
                        shard.shown_bound().into(),
                        id.into(),
                        map.kind.name().into(),
                        shard.group.as_str().into(),
                        map.global_group.as_str().into(),
                    ]);
                }
            }
        }
        table
    }

    /// Where connectors reach this farm.
    pub(crate) fn dump_fabric_nodes(&self, args: &Arguments) -> Result<Table, CommandError> {
        let protocol = args.get("protocol");
        let mut table = Table::new(&["host", "port"]);
        let asked = |node: &&crate::settings::Node| protocol.is_none_or(|p| node.protocol == p);
        for node in self.context.settings().nodes.iter().filter(asked) {
            table
                .rows
                .push(vec![node.host.as_str().into(), node.port.into()]);
        }
        Ok(table)
    }
}

/// The shards of a map in its order.
fn ordered(declared: &Declared, map: u32) -> Vec<u32> {
    let map = declared.map(map);
    let shards = map.iter().flat_map(|map| &map.shards);
    shards.map(|shard| shard.id).collect()
}

/// Fabric's patterns: a comma list of parts of names; none at all names everything. A part of digits
/// only names exactly that, as an id.
fn matches(patterns: &str, name: &str) -> bool {
    let mut patterns = patterns
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .peekable();
    if patterns.peek().is_none() {
        return true;
    }
    patterns.any(|part| {
        if part.bytes().all(|b| b.is_ascii_digit()) {
            name == part
        } else {
            name.contains(part)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        assert!(matches("", "g1") && matches(" , ", "g1"));
        assert!(matches("shard", "my_shard_1") && matches("x,g", "g1"));
        assert!(!matches("x", "g1"));
        assert!(matches("1", "1") && !matches("1", "10"));
    }
}
