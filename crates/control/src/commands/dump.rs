//! What Fabric's connectors ask for: the farm in numbers.

use farm::Status;

use super::{Arguments, CommandError, Table};
use crate::runtime::Control;

impl Control {
    /// All servers that are not faulty, of the groups that the patterns name.
    pub(super) fn dump_servers(&self, args: &Arguments) -> Result<Table, CommandError> {
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
        let state = self.state();
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

    /// Where connectors reach this farm.
    pub(super) fn dump_fabric_nodes(&self, args: &Arguments) -> Result<Table, CommandError> {
        let protocol = args.get("protocol");
        let mut table = Table::new(&["host", "port"]);
        let asked = |node: &&crate::settings::Node| protocol.is_none_or(|p| node.protocol == p);
        for node in self.settings().nodes.iter().filter(asked) {
            table
                .rows
                .push(vec![node.host.as_str().into(), node.port.into()]);
        }
        Ok(table)
    }
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
