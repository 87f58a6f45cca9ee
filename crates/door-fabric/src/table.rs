//! Fabric's commands: their names, arguments and columns, and what of Heddle carries each of them out.
//!
//! Heddle's own table ([`catalog::command`]) says which right a command needs, and checks its arguments;
//! this one says how Fabric 1.5 and 1.6 called it. An argument that Heddle's command does not have may be
//! given with its default only.

use catalog::command::{CommandSpec, TABLE as HEDDLES};
use farm::Access;

/// An argument of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    pub name: &'static str,
    /// What it is where it is left out; `None` where it must be given.
    pub default: Option<&'static str>,
    /// Its name in Heddle's command.
    pub heddles: &'static str,
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub group: &'static str,
    pub name: &'static str,
    pub params: &'static [Param],
    pub work: Work,
}

/// What carries a command out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Heddle's command of these names. The answer is that of one of Fabric's procedures; the last word is the
    /// action that its steps name.
    Procedure(&'static str, &'static str, &'static str),
    /// Heddle's command of these names, and those of its columns that Fabric has.
    Rows(&'static str, &'static str, &'static [&'static str]),
    /// The published snapshot, without a word to the control plane.
    LookUp(LookUp),
    /// This door.
    Own(Own),
    /// What a Fabric has that knows no cloud: no rows of these columns.
    Nothing(&'static [&'static str]),
    /// Nobody: the text says what to do instead.
    Nobody(&'static str),
}

/// Answers from the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    Groups,
    GroupServers,
    ShardServers,
    Table,
    Tables,
    Definitions,
    DumpNodes,
    DumpServers,
    DumpMaps,
    DumpIndex,
    DumpTables,
    DumpInformation,
}

/// Answers of the door itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    Ping,
    Node,
    Group,
    Procedure,
    Wait,
    Methods,
}

const fn needed(name: &'static str) -> Param {
    Param {
        name,
        default: None,
        heddles: name,
    }
}

const fn known_as(name: &'static str, heddles: &'static str) -> Param {
    Param {
        name,
        default: Some(""),
        heddles,
    }
}

const fn given(name: &'static str, default: &'static str) -> Param {
    Param {
        name,
        default: Some(default),
        heddles: name,
    }
}

/// An argument whose default is None.
const fn optional(name: &'static str) -> Param {
    given(name, "")
}

/// An argument whose default is False.
const fn flag(name: &'static str) -> Param {
    given(name, "false")
}

/// Every procedure has it behind its other arguments.
pub const SYNCHRONOUS: Param = given("synchronous", "true");

const GROUP: Param = needed("group_id");
const SERVER: Param = needed("server_id");
const UPDATE_ONLY: Param = flag("update_only");
const MAP: Param = needed("shard_mapping_id");
const SHARD: Param = needed("shard_id");
const TABLE_NAME: Param = needed("table_name");
const VERSION: Param = optional("connector_version");
const PATTERNS: Param = optional("patterns");

const CLOUD: &str = "ProviderError: no provider is registered. Heddle makes no machines: start a server, and \
                     have `group add` take it";

const fn map() -> Param {
    Param {
        heddles: "mapping_id",
        ..MAP
    }
}

macro_rules! commands {
    ($($group:literal $name:literal [$($param:expr),*] $work:expr;)*) => {
        /// All of them, in the order of `system.listMethods`.
        pub static TABLE: &[Command] = &[$(Command {
            group: $group, name: $name, params: &[$($param),*], work: $work,
        }),*];
    };
}

use Work::{LookUp as Look, Nobody, Nothing, Own as Door, Procedure, Rows};

commands! {
    "dump" "fabric_nodes" [optional("protocol")] Look(LookUp::DumpNodes);
    "dump" "servers" [VERSION, PATTERNS] Look(LookUp::DumpServers);
    "dump" "shard_index" [VERSION, PATTERNS] Look(LookUp::DumpIndex);
    "dump" "shard_maps" [VERSION, PATTERNS] Look(LookUp::DumpMaps);
    "dump" "shard_tables" [VERSION, PATTERNS] Look(LookUp::DumpTables);
    "dump" "sharding_information" [VERSION, PATTERNS] Look(LookUp::DumpInformation);
    "event" "trigger" [needed("event"), optional("locks"), optional("args"), optional("kwargs")]
        Nobody("EventError: Heddle has no events that can be triggered from outside; `threat.report_failure` and \
                `group.promote` have a primary replaced");
    "event" "wait_for_procedures" [needed("proc_uuids")] Door(Own::Wait);
    "group" "activate" [GROUP] Procedure("group", "activate", "_activate_group");
    "group" "add" [GROUP, needed("address"), optional("timeout"), UPDATE_ONLY]
        Procedure("group", "add", "_add_server");
    "group" "create" [GROUP, optional("description")] Procedure("group", "create", "_create_group");
    "group" "deactivate" [GROUP] Procedure("group", "deactivate", "_deactivate_group");
    "group" "demote" [GROUP, UPDATE_ONLY] Procedure("group", "demote", "_block_write_demote");
    "group" "description" [GROUP, optional("description")]
        Procedure("group", "description", "_update_group_description");
    "group" "destroy" [GROUP] Procedure("group", "destroy", "_destroy_group");
    "group" "health" [GROUP, optional("timeout")]
        Rows("group", "health", &["uuid", "is_alive", "status", "is_not_running", "is_not_configured",
                                  "io_not_running", "sql_not_running", "io_error", "sql_error"]);
    "group" "import_topology" [needed("address"), optional("group_id"), optional("servers"), optional("without"),
                               flag("apply"), flag("untried_replication")]
        Rows("group", "import_topology", &["server", "kind", "finding", "cure"]);
    "group" "lookup_groups" [optional("group_id")] Look(LookUp::Groups);
    "group" "lookup_servers" [GROUP, optional("server_id"), optional("status"), optional("mode")]
        Look(LookUp::GroupServers);
    "group" "promote" [GROUP, known_as("slave_id", "server_id"), UPDATE_ONLY]
        Procedure("group", "promote", "_change_to_candidate");
    "group" "remove" [GROUP, SERVER] Procedure("group", "remove", "_remove_server");
    "machine" "list" [needed("provider_id"), optional("generic_filters"), optional("meta_filters"), optional("skip_store")]
        Nobody(CLOUD);
    "manage" "logging_level" [needed("module"), needed("level")]
        Nobody("Error: Heddle's log has one level: set log_level in its settings");
    "manage" "ping" [] Door(Own::Ping);
    "manage" "stop" []
        Nobody("Error: clients of this router do not stop it: end its process, for example by `systemctl stop heddle`");
    "provider" "list" [optional("provider_id")]
        Nothing(&["provider_id", "type", "username", "url", "tenant", "default_image", "default_flavor"]);
    "provider" "lookup" [optional("provider_id")]
        Nothing(&["provider_id", "type", "username", "url", "tenant", "default_image", "default_flavor"]);
    "provider" "register" [needed("provider_id"), needed("username"), needed("password"), needed("url"),
                           optional("tenant"), optional("provider_type"), optional("image"), optional("flavor")]
        Nobody(CLOUD);
    "provider" "unregister" [needed("provider_id")] Nobody(CLOUD);
    "server" "clone" [GROUP, needed("destn_address"), optional("source_id"), optional("timeout")]
        Procedure("server", "clone", "_backup_server");
    "server" "create" [needed("provider_id"), optional("image"), optional("flavor"), optional("number_machines")]
        Nobody(CLOUD);
    "server" "destroy" [needed("provider_id"), needed("machine_uuid"), optional("force"), optional("skip_store")]
        Nobody(CLOUD);
    "server" "list" [needed("provider_id"), optional("generic_filters"), optional("meta_filters"), optional("skip_store")]
        Nobody(CLOUD);
    "server" "lookup_uuid" [needed("address"), optional("timeout")] Rows("server", "lookup_uuid", &["uuid"]);
    "server" "set_mode" [SERVER, needed("mode"), UPDATE_ONLY]
        Procedure("server", "set_mode", "_set_server_mode");
    "server" "set_status" [SERVER, needed("status"), UPDATE_ONLY]
        Procedure("server", "set_status", "_set_server_status");
    "server" "set_weight" [SERVER, needed("weight"), UPDATE_ONLY]
        Procedure("server", "set_weight", "_set_server_weight");
    "sharding" "add_shard" [map(), needed("groupid_lb_list"), given("state", "DISABLED"), UPDATE_ONLY]
        Procedure("sharding", "add_shard", "_add_shard");
    "sharding" "add_table" [map(), TABLE_NAME, needed("column_name"), flag("range_check"), UPDATE_ONLY]
        Procedure("sharding", "add_table", "_add_shard_mapping");
    "sharding" "create_definition" [needed("type_name"), GROUP]
        Procedure("sharding", "create_definition", "_define_shard_mapping");
    "sharding" "disable_shard" [SHARD] Procedure("sharding", "disable_shard", "_disable_shard");
    "sharding" "enable_shard" [SHARD] Procedure("sharding", "enable_shard", "_enable_shard");
    "sharding" "list_definitions" [] Look(LookUp::Definitions);
    "sharding" "list_tables" [optional("sharding_type")] Look(LookUp::Tables);
    "sharding" "lookup_servers" [TABLE_NAME, optional("key"), given("hint", "LOCAL")]
        Look(LookUp::ShardServers);
    "sharding" "lookup_table" [TABLE_NAME] Look(LookUp::Table);
    "sharding" "move_shard" [SHARD, GROUP, UPDATE_ONLY]
        Procedure("sharding", "move_shard", "_setup_resharding_switch");
    "sharding" "prune_shard" [TABLE_NAME] Procedure("sharding", "prune_shard", "_prune_shard_tables");
    "sharding" "remove_definition" [map()]
        Procedure("sharding", "remove_definition", "_remove_shard_mapping_defn");
    "sharding" "remove_shard" [SHARD, UPDATE_ONLY] Procedure("sharding", "remove_shard", "_remove_shard");
    "sharding" "remove_table" [TABLE_NAME, UPDATE_ONLY]
        Procedure("sharding", "remove_table", "_remove_shard_mapping");
    "sharding" "split_shard" [SHARD, GROUP, optional("split_value"), UPDATE_ONLY]
        Procedure("sharding", "split_shard", "_setup_resharding_switch");
    "snapshot" "create" [needed("provider_id"), needed("machine_uuid"), optional("wait_spawning")] Nobody(CLOUD);
    "snapshot" "destroy" [needed("provider_id"), needed("machine_uuid")] Nobody(CLOUD);
    "statistics" "group" [optional("group_id")] Door(Own::Group);
    "statistics" "node" [] Door(Own::Node);
    "statistics" "procedure" [optional("procedure_name")] Door(Own::Procedure);
    "system" "listMethods" [] Door(Own::Methods);
    "threat" "report_error" [SERVER, given("reporter", "unknown"), given("error", "unknown"), UPDATE_ONLY]
        Procedure("threat", "report_error", "_report_error");
    "threat" "report_failure" [SERVER, given("reporter", "unknown"), given("error", "unknown"), UPDATE_ONLY]
        Procedure("threat", "report_failure", "_report_failure");
}

/// The command of this name, `group.command`. Releases before 1.4.2 had other names for some.
pub fn find(method: &str) -> Option<&'static Command> {
    let method = OLDER
        .iter()
        .find(|(old, _)| *old == method)
        .map_or(method, |(_, new)| new);
    let (group, name) = method.split_once('.')?;
    let mut all = TABLE.iter();
    all.find(|command| (command.group, command.name) == (group, name))
}

/// Names of 1.4.0 and 1.4.1.
const OLDER: [(&str, &str); 14] = [
    ("store.dump_servers", "dump.servers"),
    ("store.dump_shard_tables", "dump.shard_tables"),
    ("store.dump_shard_maps", "dump.shard_maps"),
    ("store.dump_shard_index", "dump.shard_index"),
    ("store.lookup_fabrics", "dump.fabric_nodes"),
    ("manage.lookup_fabrics", "dump.fabric_nodes"),
    ("group.check_group_availability", "group.health"),
    ("sharding.define", "sharding.create_definition"),
    ("sharding.add_mapping", "sharding.add_table"),
    ("sharding.remove_mapping", "sharding.remove_table"),
    ("sharding.lookup_mapping", "sharding.lookup_table"),
    ("sharding.list_mappings", "sharding.list_tables"),
    ("sharding.move", "sharding.move_shard"),
    ("sharding.split", "sharding.split_shard"),
];

impl Command {
    /// `group.command`.
    pub fn method(&self) -> String {
        format!("{}.{}", self.group, self.name)
    }

    /// True for what changes something and has steps.
    pub fn is_procedure(&self) -> bool {
        matches!(self.work, Work::Procedure(..))
    }

    /// All arguments, a procedure's last one too.
    pub fn all_params(&self) -> impl Iterator<Item = Param> {
        let last = self.is_procedure().then_some(SYNCHRONOUS);
        self.params.iter().copied().chain(last)
    }

    /// Heddle's command that carries it out, or that shows the same.
    pub fn spec(&self) -> Option<&'static CommandSpec> {
        let (group, name) = match self.work {
            Work::Procedure(group, name, _) | Work::Rows(group, name, _) => (group, name),
            _ => (self.group, self.name),
        };
        let mut all = HEDDLES.iter();
        all.find(|spec| (spec.group, spec.command) == (group, name))
    }

    /// The right that a caller needs: that of Heddle's command.
    pub fn access(&self) -> Access {
        match (self.spec(), self.work) {
            (Some(spec), _) => spec.access,
            (None, Work::Own(Own::Ping | Own::Methods)) => Access::Public,
            (None, Work::LookUp(_) | Work::Own(_) | Work::Nothing(_)) => Access::Monitor,
            (None, _) => Access::Admin,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_unique_and_carried_out_by_what_there_is() {
        for (at, command) in TABLE.iter().enumerate() {
            let method = command.method();
            let twin = TABLE[at + 1..].iter().any(|it| it.method() == method);
            assert!(!twin, "{method} stands twice");
            let spec = command.spec();
            match command.work {
                Work::Procedure(..) | Work::Rows(..) => {
                    let spec = spec.expect(&method);
                    // It changes something only when told to, and answers rows in both cases.
                    let shows = command.name == "import_topology";
                    assert_eq!(spec.changes && !shows, command.is_procedure(), "{method}");
                    let needed = command.params.iter().filter(|it| it.default.is_none());
                    for param in needed {
                        let known = spec.args.iter().any(|arg| arg.name == param.heddles);
                        assert!(known, "{method}: {}", param.name);
                    }
                }
                Work::LookUp(_) => assert!(spec.is_some(), "{method}"),
                _ => {}
            }
            let first_optional = command.params.iter().position(|it| it.default.is_some());
            let last_needed = command.params.iter().rposition(|it| it.default.is_none());
            if let (Some(first), Some(last)) = (first_optional, last_needed) {
                assert!(last < first, "{method}");
            }
        }
    }

    #[test]
    fn rights_are_those_of_heddles_commands() {
        let of = |method: &str| find(method).expect(method).access();
        assert_eq!(of("manage.ping"), Access::Public);
        assert_eq!(of("system.listMethods"), Access::Public);
        assert_eq!(of("dump.servers"), Access::Monitor);
        assert_eq!(of("statistics.node"), Access::Monitor);
        assert_eq!(of("threat.report_failure"), Access::Admin);
        assert_eq!(of("manage.stop"), Access::Admin);
        assert!(find("_some_nonexisting_method").is_none());
    }

    #[test]
    fn older_names_are_known() {
        for (old, new) in OLDER {
            let found = find(old).expect(old);
            assert_eq!(found.method(), new);
        }
    }
}
