//! The table of commands: names, arguments, effects and help, in the order of `manage help`.

use farm::Access;

use super::CommandError;
use super::spec::{ArgSpec, CommandSpec, optional, required, switch};
use super::verb::{DoneBy, MapVerb, StreamVerb, Verb};

const GROUP: ArgSpec = required("group_id", "name of the group");
const SERVER: ArgSpec = required("server_id", "the server's UUID, address or name");
const METHOD: ArgSpec = optional(
    "method",
    "how it is filled: clone, backup or copy; default: the fastest that can",
);

const SYNCHRONOUS: ArgSpec = switch(
    "synchronous",
    "false: return at once; the uuid is that of a job",
);
const ROUTER: ArgSpec = optional("router", "only this router: its name");
const LOCAL: ArgSpec = switch("local", "true: only the router that is asked");
const CONNECTOR_VERSION: ArgSpec =
    optional("connector_version", "ignored; Fabric's connectors send one");

const MAP: ArgSpec = required("mapping_id", "the map's number or name");
const MAPS: ArgSpec = optional("patterns", "comma list of maps' numbers");
const SHARD: ArgSpec = required("shard_id", "number from `sharding list_shards`");
const HOLD_MS: ArgSpec = optional(
    "hold_ms",
    "so long clients may wait at the end, at most; default 2000",
);
const CHANGE_ID: ArgSpec = required("change_id", "id from `sharding list_changes`");
const SUBSCRIPTION: ArgSpec = required("name", "the subscription's name");
const SINK: ArgSpec = required("name", "the sink's name");
const OF_TABLES: ArgSpec = optional(
    "tables",
    "comma list: only rows of these, TABLE or DATABASE.TABLE",
);
const OF_DATABASES: ArgSpec = optional("databases", "comma list: only rows of these");
const OF_GROUPS: ArgSpec = optional("groups", "comma list: only these");
const KINDS: ArgSpec = optional(
    "kinds",
    "comma list of insert, update, delete; default: all",
);
const COLUMNS: ArgSpec = optional(
    "columns",
    "comma list: only these columns beside the key; an update of none of them is not told",
);
const SOURCE: ArgSpec = optional(
    "source",
    "only what statements with this source tag changed",
);
const KEY_FROM: ArgSpec = optional("key_from", "only rows whose key begins at this value");
const KEY_TO: ArgSpec = optional("key_to", "only rows whose key ends at this value");
const SNAPSHOT: ArgSpec = switch("snapshot", "true: the rows that are there come first");
const ORDER: ArgSpec = optional("order", "global: one order over all groups; default: none");
const TYPES: ArgSpec = optional(
    "types",
    "debezium: records as Debezium's connector has them",
);
const PREFIX: ArgSpec = optional("prefix", "of Debezium's topics and schemas; default heddle");
const SCHEMA: ArgSpec = switch("schema", "true: Debezium's schemas beside keys and values");
const TOMBSTONES: ArgSpec = switch("tombstones", "true: Debezium's tombstones behind deletes");
const TABLE_NAME: ArgSpec = required("table_name", "DATABASE.TABLE");

macro_rules! commands {
    ($(
        $group:literal $command:literal $verb:ident $(($of_maps:ident))? $({$of_streams:ident})?
        $done_by:ident $access:ident $changes:literal [$($arg:expr),*] $help:literal;
    )*) => {
        /// Every command there is.
        pub static TABLE: &[CommandSpec] = &[$(CommandSpec {
            group: $group, command: $command, args: &[$($arg),*], access: Access::$access,
            changes: $changes, help: $help, done_by: DoneBy::$done_by,
            verb: Verb::$verb $((MapVerb::$of_maps))? $((StreamVerb::$of_streams))?,
        }),*];
    };
}

commands! {
    "group" "create" GroupCreate Leader Admin true
        [GROUP, optional("description", "free text"),
         optional("kind", "replication (the default), galera, or media: servers on read-only storage")]
        "Makes an empty group of servers.";
    "group" "destroy" GroupDestroy Leader Admin true
        [GROUP]
        "Removes a group that has no servers.";
    "group" "description" GroupDescription Leader Admin true
        [GROUP, optional("description", "the new text; none clears it")]
        "Changes a group's description.";
    "group" "add" GroupAdd Leader Admin true
        [GROUP, required("address", "HOST:PORT of the server"),
         optional("timeout", "seconds to wait for the server"),
         switch("update_only", "true: record the server, do not touch it"),
         optional("name", "a short name for people; default: the address"),
         SYNCHRONOUS, METHOD]
        "Adds a server: the first becomes the primary, others replicate from it; an empty one that cannot catch up is filled first.";
    "group" "import_topology" GroupImportTopology Leader Admin true
        [required("address", "HOST:PORT of a server of the setup, where Heddle logs in"),
         optional("group_id", "name of the group; default: the first of g1, g2, … that is free"),
         optional("servers", "comma list of HOST:PORT: the other servers, where Heddle may log in, too"),
         optional("without", "comma list of server_ids: replicas that stay outside"),
         switch("apply", "true: make it a group; else only show what would be done"),
         switch("untried_replication", "true: the replicas' account need not log in from this router's address; the servers' own addresses count"),
         optional("timeout", "seconds to wait for each server")]
        "Shows what a running replication setup is and lacks; with --apply it becomes a group as it is.";
    "group" "remove" GroupRemove Leader Admin true
        [GROUP, SERVER]
        "Takes a replica out of its group and stops its replication.";
    "group" "activate" GroupActivate Leader Admin true
        [GROUP]
        "Lets Heddle act by itself when the group's primary fails.";
    "group" "deactivate" GroupDeactivate Leader Admin true
        [GROUP]
        "Stops Heddle from acting by itself on this group.";
    "group" "promote" GroupPromote Leader Admin true
        [GROUP, optional("server_id", "who takes over: UUID, address or name; default: the best")]
        "Switches over to another primary; clients only wait a moment.";
    "group" "demote" GroupDemote Leader Admin true
        [GROUP]
        "Leaves a group without a primary; writes wait until `group promote`.";
    "group" "health" GroupHealth Asked Monitor false
        [GROUP]
        "Shows who of a group lives and replicates.";
    "group" "events" GroupEvents Asked Monitor false
        [optional("group_id", "only this group's events")]
        "Shows what happened lately, oldest first.";
    "group" "failovers" GroupFailovers Asked Monitor false
        [optional("group_id", "only this group's")]
        "Shows the last changes of primary step by step, with the milliseconds of each.";
    "group" "lookup_servers" GroupLookupServers Asked Monitor false
        [GROUP, optional("server_id", "only this server: UUID, address or name"),
         optional("status", "only this status: FAULTY, SPARE, SECONDARY or PRIMARY"),
         optional("mode", "only this mode: OFFLINE, READ_ONLY, WRITE_ONLY or READ_WRITE")]
        "Lists the servers of a group.";
    "group" "lookup_groups" GroupLookupGroups Asked Monitor false
        [optional("group_id", "only this group")]
        "Lists the groups.";
    "server" "list" ServerList Asked Monitor false
        []
        "Lists the servers of all groups, with what was last seen of them.";
    "server" "set_status" ServerSetStatus Leader Admin true
        [SERVER, required("status", "SPARE, SECONDARY or FAULTY"),
         switch("update_only", "true: change the record only"),
         switch("promotable", "false: it never becomes the primary, whatever happens; true again: it may")]
        "Changes a server's standing in its group, except from or to primary.";
    "server" "set_mode" ServerSetMode Leader Admin true
        [SERVER, required("mode", "OFFLINE, READ_ONLY, WRITE_ONLY or READ_WRITE")]
        "Changes which statements a server gets.";
    "server" "set_weight" ServerSetWeight Leader Admin true
        [SERVER, required("weight", "share of reads, a number above 0; default 1")]
        "Changes a server's share of the reads.";
    "server" "accept_certificate" ServerAcceptCertificate Leader Admin true
        [SERVER, optional("key", "SHA-256 of the public key that the server must show, in hexadecimal digits")]
        "Knows a server by the certificate that it shows now; the reply has the SHA-256 of its key.";
    "server" "lookup_uuid" ServerLookupUuid Asked Admin false
        [required("address", "HOST:PORT of a server of the farm"),
         optional("timeout", "ignored; nobody is waited for")]
        "Shows the UUID of the farm's server at an address.";
    "server" "clone" ServerClone Leader Admin true
        [GROUP, required("destn_address", "HOST:PORT of the server to fill"),
         optional("source_id", "the server to copy: UUID, address or name; default: a replica"),
         optional("timeout", "seconds to wait for the server"),
         switch("force", "true: what the server holds may be lost"),
         SYNCHRONOUS, METHOD]
        "Fills a server with the data of a group; a member of the group follows its primary afterwards.";
    "job" "list" JobList Asked Monitor false
        []
        "Lists what runs beside the commands, and what ended lately.";
    "job" "show" JobShow Asked Monitor false
        [required("job_id", "uuid from `job list`")]
        "Shows how far a job is.";
    "job" "abort" JobAbort Asked Admin true
        [required("job_id", "uuid from `job list`")]
        "Ends a job; the server that it fills is emptied again, what moved goes back.";
    "job" "pause" JobPause Leader Admin true
        [required("job_id", "uuid from `job list`, of a move")]
        "Lets a move stand still; clients are not concerned.";
    "job" "resume" JobResume Leader Admin true
        [required("job_id", "uuid from `job list`, of a move")]
        "Lets a move go on that stands still or failed.";
    "kv" "create" KvCreate Leader Admin true
        [required("name", "what key-value clients call it; `default` is what they have before they name one"),
         optional("table", "its table, as DATABASE.TABLE; needed, like key and values"),
         optional("key", "the column of the key, which alone makes a unique index"),
         optional("values", "comma list of the columns of the value"),
         optional("flags", "the column of memcached's flags"),
         optional("cas", "the column of cas"),
         optional("expire", "the column of the time of expiry, in seconds since 1970"),
         optional("separator", "what is between the columns of a value; default |"),
         switch("escape", "true: the separator may stand in a column, behind a backslash"),
         switch("flush", "true: flush_all deletes the rows"),
         optional("consistency", "eventual, session, client or strong; default: as the setting says"),
         optional("cache_bytes", "how many bytes of its rows a router remembers, per group; default 0"),
         optional("w_batch_size", "up to so many sets share one commit and are acknowledged BEFORE it, where kv_ack_before_commit allows that; default 1"),
         optional("value_bytes_max", "larger values are refused; default 1048576"),
         switch("make", "true: makes the table if it is not there, with all these columns")]
        "Shows a table to key-value clients; a container of that name is replaced.";
    "kv" "drop" KvDrop Leader Admin true
        [required("name", "from `kv list`")]
        "Shows a table to key-value clients no more; its rows stay.";
    "kv" "list" KvList Asked Monitor false
        []
        "Lists the containers.";
    "kv" "cache" KvCache Asked Monitor false
        []
        "Shows what this router remembers of each container's rows, and what became of gets since it began to.";
    "subscription" "create" OfStreams{CreateSubscription} Leader Admin true
        [SUBSCRIPTION, OF_TABLES, OF_DATABASES, OF_GROUPS, SNAPSHOT, ORDER, TYPES, PREFIX, SCHEMA, TOMBSTONES,
         KINDS, COLUMNS, SOURCE, KEY_FROM, KEY_TO]
        "Begins a durable subscription to the change stream, from now on.";
    "subscription" "list" OfStreams{ListSubscriptions} Asked Monitor false
        []
        "Lists the subscriptions, and how far their consumers are behind.";
    "subscription" "show" OfStreams{ShowSubscription} Asked Monitor false
        [SUBSCRIPTION]
        "Shows one subscription, with the token that was acknowledged last.";
    "subscription" "ack" OfStreams{Acknowledge} Leader Admin true
        [SUBSCRIPTION, required("token", "of the last event that the consumer has")]
        "Acknowledges everything up to a token: GET /v1/changes?subscription=NAME goes on behind it.";
    "subscription" "drop" OfStreams{DropSubscription} Leader Admin true
        [SUBSCRIPTION]
        "Forgets a subscription and its position.";
    "sink" "create" OfStreams{CreateSink} Leader Admin true
        [SINK, required("to", "the target: https://HOST/PATH, http://HOST/PATH, file:NAME, nats://HOST/SUBJECT or kafka://HOST/TOPIC"),
         OF_TABLES, OF_DATABASES, OF_GROUPS, SNAPSHOT, ORDER, TYPES, PREFIX, SCHEMA, TOMBSTONES,
         KINDS, COLUMNS, SOURCE, KEY_FROM, KEY_TO,
         optional("target_ca", "file on each router with the certificates that the target is known by; default: those of the Web"),
         switch("tls", "true: a broker is spoken to inside TLS"),
         optional("target_cert", "file on each router with the certificate that a broker is shown"),
         optional("target_key", "file on each router with the key of that certificate"),
         optional("user", "whom a broker knows it as"),
         optional("password_file", "file on each router with the password of that user"),
         optional("mechanism", "of SASL with Kafka: SCRAM-SHA-512, SCRAM-SHA-256 or PLAIN; default: the strongest that the broker offers"),
         optional("token_file", "file on each router with a token of NATS"),
         optional("nkey_file", "file on each router with the seed of a user's NKEY of NATS"),
         optional("credentials_file", "file on each router with a user's JWT and the seed of its NKEY, of NATS"),
         optional("format", "what files are: lines (the default) or parquet"),
         optional("compress", "how files are packed: none (the default for lines) or zstd; Kafka's records: none (the default), gzip or zstd"),
         optional("topics", "of Kafka: one (the default), or table: the name behind the host begins those of tables"),
         optional("rotate_bytes", "a file of this size is closed; default 67108864"),
         optional("rotate_rows", "a file with so many events is closed; default: any number"),
         optional("rotate_s", "a file is closed after so many seconds; default 3600")]
        "Delivers the changes from now on to a target outside the farm; shows the secret that signs a webhook once.";
    "sink" "list" OfStreams{ListSinks} Asked Admin false
        []
        "Lists the sinks: their states, and how far their targets are behind.";
    "sink" "show" OfStreams{ShowSink} Asked Admin false
        [SINK]
        "Shows one sink, with the token up to which its target has everything.";
    "sink" "pause" OfStreams{PauseSink} Leader Admin true
        [SINK]
        "Lets a sink stand still; its position is kept.";
    "sink" "resume" OfStreams{ResumeSink} Leader Admin true
        [SINK]
        "Lets a sink go on that is paused or stuck, and has one try at once that waits.";
    "sink" "letters" OfStreams{ListLetters} Asked Admin false
        [SINK]
        "Lists the dead letters: events that the target refused, with its reason.";
    "sink" "resend" OfStreams{ResendLetters} Leader Admin true
        [SINK]
        "Delivers the dead letters once more, in front of what comes.";
    "sink" "discard" OfStreams{DiscardLetters} Leader Admin true
        [SINK, optional("id", "only this event's; default: all")]
        "Forgets dead letters: their events are never delivered.";
    "sink" "drop" OfStreams{DropSink} Leader Admin true
        [SINK]
        "Forgets a sink, its position and its dead letters; what was delivered stays.";
    "dump" "servers" DumpServers Asked Monitor false
        [CONNECTOR_VERSION, optional("patterns", "comma list of group names or parts of them")]
        "Lists all servers that are not faulty, in numbers, for connectors.";
    "dump" "fabric_nodes" DumpFabricNodes Asked Monitor false
        [optional("protocol", "only this protocol, for example protocol.xmlrpc")]
        "Lists where connectors reach the farm.";
    "dump" "shard_maps" OfMaps(DumpShardMaps) Asked Monitor false
        [CONNECTOR_VERSION, MAPS]
        "Lists the shard maps, for connectors.";
    "dump" "shard_index" OfMaps(DumpShardIndex) Asked Monitor false
        [CONNECTOR_VERSION, MAPS]
        "Lists the enabled shards by their bounds, for connectors.";
    "dump" "shard_tables" OfMaps(DumpShardTables) Asked Monitor false
        [CONNECTOR_VERSION, MAPS]
        "Lists the sharded tables, for connectors.";
    "dump" "sharding_information" OfMaps(DumpShardingInformation) Asked Monitor false
        [CONNECTOR_VERSION, optional("patterns", "comma list of tables, as DATABASE.TABLE")]
        "Shows of sharded tables everything at once, for connectors.";
    "sharding" "create_definition" OfMaps(CreateDefinition) Leader Admin true
        [required("type_name", "SLOTS (the one to take without a reason for another), RANGE, RANGE_INTEGER, RANGE_STRING, RANGE_DATETIME, HASH or LIST"),
         required("group_id", "the map's global group: global and unsharded tables live there"),
         optional("name", "a name for people; commands and CREATE TABLE take it for the number")]
        "Makes a shard map without shards; the result is its number.";
    "sharding" "remove_definition" OfMaps(RemoveDefinition) Leader Admin true
        [MAP]
        "Removes a shard map that has no tables and shards.";
    "sharding" "list_definitions" OfMaps(ListDefinitions) Asked Monitor false
        []
        "Lists the shard maps.";
    "sharding" "add_shard" OfMaps(AddShard) Leader Admin true
        [MAP, required("groupid_lb_list", "GROUP/LOWER_BOUND, … of RANGE kinds; GROUP/KEY|KEY, … of LIST; GROUP, … of HASH and SLOTS"),
         optional("state", "ENABLED or DISABLED (the default, as in Fabric)")]
        "Adds shards to a map; databases, tables and accounts are made on their groups as the global group has them.";
    "sharding" "list_shards" OfMaps(ListShards) Asked Monitor false
        [optional("mapping_id", "only this map: its number or name")]
        "Lists the shards, the disabled ones too.";
    "sharding" "list_sizes" OfMaps(ListSizes) Asked Monitor false
        [optional("mapping_id", "only this map: its number or name")]
        "Shows some how many rows and bytes the shards have, as the groups' primaries think; shards of one map on one group have theirs together.";
    "sharding" "enable_shard" OfMaps(EnableShard) Leader Admin true
        [SHARD]
        "Lets statements use a shard.";
    "sharding" "disable_shard" OfMaps(DisableShard) Leader Admin true
        [SHARD]
        "Refuses all statements that need a shard.";
    "sharding" "remove_shard" OfMaps(RemoveShard) Leader Admin true
        [SHARD]
        "Removes a disabled shard whose group has no rows of the map's sharded tables.";
    "sharding" "add_table" OfMaps(AddTable) Leader Admin true
        [MAP, TABLE_NAME, required("column_name", "the shard key: a column of the table"),
         switch("checked", "true: unique keys without the shard key are unique over all shards, the application sees to it")]
        "Shards a table that exists on the map's global group; refused while rows are on other groups than the map says.";
    "sharding" "add_global_table" OfMaps(AddGlobalTable) Leader Admin true
        [MAP, TABLE_NAME]
        "Keeps a table of the map's global group equal on all groups of the map.";
    "sharding" "remove_table" OfMaps(RemoveTable) Leader Admin true
        [TABLE_NAME, switch("force", "true: even if other groups have rows of it")]
        "Takes a table from its map: it is on the global group only then.";
    "sharding" "lookup_table" OfMaps(LookupTable) Asked Monitor false
        [TABLE_NAME]
        "Shows the map of a table.";
    "sharding" "list_tables" OfMaps(ListTables) Asked Monitor false
        [optional("sharding_type", "only on maps of this kind")]
        "Lists the sharded and global tables.";
    "sharding" "lookup_servers" OfMaps(ShardServers) Asked Monitor false
        [required("table_name", "DATABASE.TABLE; a map with the hint GLOBAL"),
         optional("key", "value of the shard key"),
         optional("hint", "LOCAL (the default): the key's shard; GLOBAL: the map's global group")]
        "Lists the servers that have a key's rows.";
    "sharding" "move_shard" OfMaps(MoveShard) Leader Admin true
        [SHARD, required("group_id", "where it goes"), HOLD_MS, SYNCHRONOUS]
        "Moves a shard with its rows to another group while clients use it; the result is the job's id.";
    "sharding" "split_shard" OfMaps(SplitShard) Leader Admin true
        [SHARD, required("group_id", "where the part goes"),
         optional("split_value", "RANGE and HASH: the lowest key that goes; LIST: KEY|KEY; SLOTS: how many, or FROM-TO|FROM-TO; default of HASH and SLOTS: a half"),
         HOLD_MS, SYNCHRONOUS]
        "Moves a part of a shard with its rows to another group, as a shard of its own; the result is the job's id.";
    "sharding" "merge_shards" OfMaps(MergeShards) Leader Admin true
        [SHARD, required("into_shard_id", "the shard that gets its keys: a neighbour, where the kind of map has bounds"),
         HOLD_MS, SYNCHRONOUS]
        "Moves a shard with its rows into another shard of its map while clients use both; the result is the job's id.";
    "sharding" "prune_shard" OfMaps(PruneShard) Leader Admin true
        [TABLE_NAME]
        "Deletes rows of a table that are on other groups than the map says; the result is their number.";
    "sharding" "assign_database" OfMaps(AssignDatabase) Leader Admin true
        [required("database", "name of the database"),
         optional("group_id", "where its undeclared tables are; default: where they would be without")]
        "Puts a database's tables that are on no map on a group.";
    "sharding" "add_change" OfMaps(AddChange) Leader Admin true
        [required("document", "the statement"), required("groups", "where it has to run: GROUP, …"),
         optional("database", "the database that it runs in"), optional("sql_mode", "its sql_mode"),
         optional("change_id", "of one that was written down before"),
         optional("error", "why it stopped")]
        "Writes down a statement about definitions that is about to run on several groups; sessions do so by themselves.";
    "sharding" "list_changes" OfMaps(ListChanges) Asked Admin false
        []
        "Lists statements about definitions that have not run on all their groups.";
    "sharding" "resume_change" OfMaps(ResumeChange) Leader Admin true
        [CHANGE_ID]
        "Runs such a statement where it is left to run; a group that has it already counts as done.";
    "sharding" "drop_change" OfMaps(DropChange) Leader Admin true
        [CHANGE_ID]
        "Forgets such a statement: somebody has finished it, or undone it, by hand.";
    "sharding" "refresh" OfMaps(RefreshTables) Asked Admin false
        [optional("table_name", "only this one, as DATABASE.TABLE")]
        "Reads the definitions of tables from the servers now: for what was changed without Heddle.";
    "sharding" "verify" OfMaps(VerifyShards) Asked Admin false
        [optional("table_name", "only this one, as DATABASE.TABLE")]
        "Finds rows in the wrong place, and definitions and accounts that differ between the groups of a map.";
    "sharding" "advise" OfMaps(Advise) Asked Admin false
        []
        "Proposes shard keys and global tables by the bytes that they would save, from what was counted of statements; the column command has what to run.";
    "threat" "report_error" ThreatReportError Leader Admin true
        [SERVER, optional("reporter", "who reports it"), optional("error", "what was seen")]
        "Reports an error of a server; enough reports by enough reporters cast doubt on a primary.";
    "threat" "report_failure" ThreatReportFailure Leader Admin true
        [SERVER, optional("reporter", "who reports it"), optional("error", "what was seen")]
        "Reports that a server failed: a primary is replaced unless it proves to live, another is FAULTY.";
    "transaction" "list" TransactionList Asked Monitor false
        []
        "Lists transactions over several groups that have prepared branches, and what they wait for.";
    "transaction" "resolve" TransactionResolve Asked Admin true
        [required("transaction_id", "from `transaction list`"),
         optional("verdict", "commit or rollback: what became of it, when its coordinator group is lost for good"),
         switch("force", "true: the verdict counts, even if some of its branches ended otherwise")]
        "Ends a transaction over several groups now.";
    "session" "list" SessionList Every Monitor false
        [ROUTER, LOCAL]
        "Lists the clients of all routers.";
    "session" "kill" SessionKill Asked Admin true
        [required("session_id", "id from `session list`"),
         switch("query", "true: end only the statement that runs")]
        "Ends a client's session or its statement, on whichever router it is.";
    "statistics" "list" StatisticsList Every Monitor false
        [optional("pattern", "only names like this, with % and _"), ROUTER, LOCAL]
        "Shows what each router has counted since its start (HEDDLE STATUS shows one router's).";
    "digest" "list" DigestList Every Monitor false
        [optional("order", "what comes first: time (the default), mean, calls, errors, rows or last"),
         optional("limit", "so many rows of each router; default 50, 0 for all"),
         optional("since", "only the last minutes, hours or the last day: 15m, 6h, 1d; default: since the start or the last reset"),
         ROUTER, LOCAL]
        "Shows what was counted of statements: a row for each digest, source tag, database, account and group; texts are for admins.";
    "digest" "show" DigestShow Every Admin false
        [required("digest", "from `digest list`; its first digits are enough"),
         switch("plan", "true: also what the servers would do for the example (EXPLAIN, which runs nothing); needs digest_examples"),
         ROUTER, LOCAL]
        "Shows everything that is known of a digest: text, example, errors by number, times.";
    "digest" "reset" DigestReset Every Admin true
        [ROUTER, LOCAL]
        "Begins to count statements anew; the result is how many rows there were.";
    "trace" "dump" TraceDump Asked Admin false
        []
        "Keeps the last steps of the router that is asked in a file on its machine, for `heddle trace show`.";
    "config" "show" ConfigShow Asked Admin false
        [optional("version", "as this version has it; default: as it is now")]
        "Shows the farm's configuration as one document, for `config set`.";
    "config" "diff" ConfigDiff Asked Admin false
        [optional("a", "the older version; default: the one before B"),
         optional("b", "the newer version; default: the latest")]
        "Shows what differs between two versions.";
    "config" "history" ConfigHistory Asked Admin false
        [optional("limit", "so many versions; default: 50")]
        "Lists who changed the configuration when and why, the latest first.";
    "config" "set" ConfigSet Leader Admin true
        [optional("document", "the whole document as TOML; `config show` gives the one that there is"),
         optional("from", "the version that it was made from; default: what the document says"),
         optional("comment", "why, for the history"),
         optional("setting", "NAME=VALUE: changes this setting only"),
         optional("unset", "NAME: takes this setting out of the document"),
         switch("check", "true: only says what would change")]
        "Writes a new version; checked whole, in force at once on all routers.";
    "config" "rollback" ConfigRollback Leader Admin true
        [required("version", "number from `config history`; 0 is the empty document"),
         optional("comment", "why, for the history")]
        "Makes a new version that says what an older one said; servers, groups and primaries stay.";
    "config" "settings" ConfigSettings Asked Admin false
        []
        "Lists the settings in force on this router, and where each comes from.";
    "config" "rules" ConfigRules Asked Admin false
        []
        "Shows the rules and users' defaults in force, and how often each rule matched.";
    "meta" "export" MetaExport Asked Admin true
        []
        "Shows everything that the state store holds of the farm; --json makes the file for `heddle meta import`.";
    "router" "list" RouterList Asked Monitor false
        []
        "Lists the routers of the farm that live, and which of them leads.";
    "router" "rotate_authority" RotateAuthority Leader Admin true
        []
        "Makes another key for the farm's authority, by which routers know each other; they follow at once.";
    "manage" "ping" ManagePing Asked Public false
        []
        "Answers when the router lives.";
    "manage" "doctor" ManageDoctor Asked Admin false
        [optional("of", "only these groups, servers (HOST:PORT) and routers, with commas between; default: all"),
         optional("before_add", "HOST:PORT of a server to be added; a group in `of` is what it is compared with")]
        "Logs in to servers, asks routers, and shows what is wrong with them, what it breaks, and what mends it.";
    "manage" "mend" ManageMend Leader Admin true
        [required("check", "name of the check, from `manage doctor`"), SERVER,
         switch("sure", "also where something has to be agreed to")]
        "Looks again, and runs the statement by which a finding at a server is mended.";
    "manage" "help" ManageHelp Asked Monitor false
        [optional("group", "only commands of this group"),
         optional("command", "only this command")]
        "Lists the commands.";
}

/// The row of this name, or a usage error that says what there is instead.
pub fn find(group: &str, command: &str) -> Result<&'static CommandSpec, CommandError> {
    let named = |spec: &&CommandSpec| spec.group == group && spec.command == command;
    if let Some(spec) = TABLE.iter().find(named) {
        return Ok(spec);
    }
    let mut known: Vec<&str> = TABLE
        .iter()
        .filter(|spec| spec.group == group)
        .map(|spec| spec.command)
        .collect();
    if known.is_empty() {
        known = TABLE.iter().map(|spec| spec.group).collect();
        known.dedup();
        let known = known.join(", ");
        return Err(CommandError::Usage(format!(
            "there is no command group {group:?}; there are: {known}"
        )));
    }
    let known = known.join(", ");
    Err(CommandError::Usage(format!(
        "there is no command `{group} {command}`; `{group}` has: {known}"
    )))
}

impl CommandSpec {
    /// The form of a call, for example `group add GROUP_ID ADDRESS [TIMEOUT]`.
    pub fn usage(&self) -> String {
        let mut usage = format!("{} {}", self.group, self.command);
        for arg in self.args {
            let name = arg.name.to_ascii_uppercase();
            usage.push_str(&if arg.optional {
                format!(" [{name}]")
            } else {
                format!(" {name}")
            });
        }
        usage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_required_arguments_come_first() {
        for (i, spec) in TABLE.iter().enumerate() {
            let twin = TABLE[i + 1..]
                .iter()
                .find(|other| (other.group, other.command) == (spec.group, spec.command));
            assert!(
                twin.is_none(),
                "{} {} stands twice",
                spec.group,
                spec.command
            );
            let first_optional = spec.args.iter().position(|arg| arg.optional);
            let last_required = spec.args.iter().rposition(|arg| !arg.optional);
            if let (Some(first), Some(last)) = (first_optional, last_required) {
                assert!(last < first, "{}", spec.usage());
            }
        }
    }

    #[test]
    fn what_changes_something_is_for_admins_and_the_public_sees_only_signs_of_life() {
        for spec in TABLE {
            let name = format!("{} {}", spec.group, spec.command);
            assert!(!spec.changes || spec.access == Access::Admin, "{name}");
            assert_eq!(
                spec.access == Access::Public,
                name == "manage ping",
                "{name}"
            );
        }
    }

    /// `docs/SECURITY.md` says of each right which commands it is for.
    #[test]
    fn the_documentation_lists_the_commands_of_each_right() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/SECURITY.md");
        let text = std::fs::read_to_string(file).expect("the file is there");
        for access in [Access::Public, Access::Monitor, Access::Admin] {
            let of_right = TABLE.iter().filter(|spec| spec.access == access);
            let mut names: Vec<_> = of_right
                .map(|spec| format!("`{} {}`", spec.group, spec.command))
                .collect();
            names.sort();
            let row = format!("| {} | {} |", access.name(), names.join(", "));
            assert!(text.contains(&row), "write into docs/SECURITY.md:\n{row}");
        }
    }

    #[test]
    fn unknown_commands_name_the_known_ones() {
        let error = find("group", "promtoe")
            .expect_err("no such command")
            .to_string();
        assert!(error.contains("lookup_servers"), "{error}");
        let error = find("grop", "add").expect_err("no such group").to_string();
        assert!(
            error.contains("group, server, job, kv, subscription, sink, dump"),
            "{error}"
        );
    }
}
