//! The rows of the table of tables.

use super::{FarmColumn, FarmKind, FarmTable};

macro_rules! tables {
    ($($name:literal $about:literal [$($word:literal)+] $with:expr, $owner:expr; {
        $($column:literal $from:literal $kind:ident $says:literal;)*
    })*) => {
        /// Every table there is, in the order of `SHOW TABLES`.
        pub const TABLES: &[FarmTable] = &[$(FarmTable {
            name: $name, about: $about, command: &[$($word),+], with: $with, owner: $owner,
            columns: &[$(FarmColumn {
                name: $column, from: $from, kind: FarmKind::$kind, about: $says,
            }),*],
        }),*];
    };
}

tables! {
    "caches" "What this router remembers of a container's rows."
        ["kv" "cache"] None, None; {
        "name" "name" Text "the container";
        "group_id" "group" Text "the group";
        "state" "state" Text "whether it answers";
        "rows_now" "rows" Whole "rows that are remembered";
        "bytes" "bytes" Whole "bytes that they take";
        "hits" "hits" Whole "gets that it answered";
        "misses" "misses" Whole "gets that it did not";
        "filled" "filled" Whole "rows that came in";
        "refused" "refused" Whole "rows that might have been old";
        "voided" "voided" Whole "rows that a change took out";
        "evicted" "evicted" Whole "rows that went for newer ones";
        "emptied" "emptied" Whole "times that it was emptied";
    }
    "commands" "A command of the command table."
        ["manage" "help"] None, None; {
        "command" "command" Long "how it is called";
        "help" "help" Long "what it does";
    }
    "containers" "A container of the key-value door."
        ["kv" "list"] None, None; {
        "name" "name" Text "its name";
        "table_name" "table" Text "its table";
        "key_column" "key" Text "the column of the key";
        "value_columns" "values" Text "the columns of the value";
        "consistency" "consistency" Text "the level of its reads";
        "cache_bytes" "cache_bytes" Whole "bytes that a router may remember of it";
        "origin" "origin" Text "who declared it";
    }
    "digests" "What was counted of a statement without its literals; texts are for admins."
        ["digest" "list" "--limit=0"] None, None; {
        "digest" "digest" Text "names the text without its literals";
        "text" "text" Long "that text, its first 1024 bytes";
        "tag" "tag" Text "where the statement comes from";
        "db" "database" Text "the current database";
        "user" "user" Text "the account's name";
        "group_id" "group" Text "where it ran; `*` for several groups";
        "calls" "calls" Whole "how often it ran";
        "errors" "errors" Whole "those whose client was told an error";
        "rows_sent" "rows_sent" Whole "rows to clients";
        "rows_changed" "rows_changed" Whole "rows that servers say were changed";
        "bytes" "bytes" Whole "bytes to clients";
        "rows_read" "rows_read" Whole "rows that servers sent to the router";
        "bytes_read" "bytes_read" Whole "bytes of these rows";
        "first_seen" "first_seen" Time "when it was counted first";
        "last_seen" "last_seen" Time "when it was counted last";
        "time_ms_sum" "time_ms_sum" Number "the whole time, all calls together";
        "time_ms_p50" "time_ms_p50" Number "the median";
        "time_ms_p99" "time_ms_p99" Number "the 99th percentile";
        "time_ms_max" "time_ms_max" Number "the longest";
        "wait_ms_sum" "wait_ms_sum" Number "the time before it was sent to a server";
        "wait_ms_p99" "wait_ms_p99" Number "of that the 99th percentile";
        "server_ms_p50" "server_ms_p50" Number "the rest, the median";
        "server_ms_p99" "server_ms_p99" Number "of that the 99th percentile";
        "router" "router" Text "the router that counted";
    }
    "events" "What happened lately."
        ["group" "events"] None, None; {
        "time" "when" Time "when it happened";
        "group_id" "group_id" Text "the group";
        "event" "event" Text "what happened, in a word";
        "server_uuid" "server_uuid" Text "the server";
        "address" "address" Text "its address";
        "detail" "detail" Long "what happened, in a sentence";
    }
    "findings" "What `heddle doctor` finds now: it looks at everything anew, which takes seconds."
        ["manage" "doctor"] None, None; {
        "check_name" "check" Text "the check";
        "severity" "severity" Text "error, warning or info";
        "server" "server" Text "a server's address, or the name of a group or router";
        "evidence" "evidence" Long "what was read";
        "breaks" "breaks" Long "what it breaks";
        "cure" "cure" Long "what mends it";
        "scope" "scope" Text "server, group or router";
        "group_id" "group" Text "the group";
        "fix" "fix" Text "safe, asks or refused";
        "why_not" "why_not" Long "why it is not mended";
        "statement" "statement" Long "the statement that mends it";
    }
    "groups" "A group of servers."
        ["group" "lookup_groups"] None, None; {
        "group_id" "group_id" Text "its name";
        "description" "description" Text "what an operator wrote of it";
        "failure_detector" "failure_detector" Flag "Heddle acts by itself when its primary fails";
        "primary_uuid" "master_uuid" Text "the primary's UUID; NULL while there is none";
    }
    "jobs" "A job that runs, or ended lately."
        ["job" "list"] None, None; {
        "uuid" "uuid" Text "its id, which `job show` takes";
        "kind" "kind" Text "what it does";
        "group_id" "group_id" Text "the group";
        "address" "address" Text "the server that it fills";
        "source" "source" Text "where the rows come from";
        "state" "state" Text "whether it runs";
        "step" "step" Long "what it does now";
        "tables_done" "tables_done" Whole "tables that are done";
        "tables_all" "tables" Whole "of so many";
        "rows_done" "rows" Whole "rows so far";
        "bytes" "bytes" Whole "bytes so far";
        "started" "started" Time "when it began";
        "ended" "ended" Time "when it ended";
        "method" "method" Text "how the rows are copied";
        "bytes_total" "bytes_total" Whole "bytes that there are";
        "bytes_per_s" "bytes_per_s" Whole "bytes per second";
    }
    "lag" "A server whose distance from its primary is known."
        ["server" "list"] Some("lag_ms"), None; {
        "address" "address" Text "`HOST:PORT`";
        "group_id" "group_id" Text "its group";
        "status" "status" Text "PRIMARY, SECONDARY, SPARE or FAULTY";
        "is_alive" "is_alive" Flag "it answered its last probes";
        "lag_ms" "lag_ms" Number "milliseconds behind its primary; NULL while nobody knows";
    }
    "pins" "A session that keeps a connection to a server, and why."
        ["session" "list"] Some("pins"), Some("user"); {
        "id" "id" Whole "what `CONNECTION_ID()` says, and KILL takes";
        "user" "user" Text "the account's name";
        "server" "server" Text "the server that runs its statement, or whose connection it keeps";
        "pins" "pins" Text "why it keeps a connection";
        "pinned_ms" "pinned_ms" Whole "for how long it has kept it";
        "router" "router" Text "the router that serves it";
    }
    "routers" "A router that lives."
        ["router" "list"] None, None; {
        "name" "name" Text "its name";
        "slot" "slot" Whole "its number, 1 to 255; 0 for one that is alone";
        "leads" "leads" Flag "it acts for the farm now";
        "leads_since" "since" Time "since when";
        "http" "http" Text "its HTTP door";
        "sql_door" "sql" Text "its SQL door";
        "version" "version" Text "its release";
        "started" "started" Time "when it began";
        "this" "this" Flag "it is the one that answers";
    }
    "rules" "A rule, or what an account gets by default."
        ["config" "rules"] None, None; {
        "kind" "kind" Text "what it is";
        "name" "name" Text "its name";
        "place" "place" Text "its turn";
        "conditions" "conditions" Long "which statements it is about";
        "actions" "actions" Long "what becomes of them";
        "goes_on" "continue" Flag "later rules are asked, too";
        "matched" "matched" Whole "statements so far";
        "unknown_servers" "unknown_servers" Long "servers that it names and nobody knows";
    }
    "servers" "A server of the farm."
        ["server" "list"] None, None; {
        "server_uuid" "server_uuid" Text "the server's UUID";
        "address" "address" Text "`HOST:PORT`";
        "name" "name" Text "its name for people";
        "group_id" "group_id" Text "its group";
        "status" "status" Text "PRIMARY, SECONDARY, SPARE or FAULTY";
        "mode" "mode" Text "READ_WRITE, READ_ONLY, WRITE_ONLY or OFFLINE";
        "weight" "weight" Number "its share of the reads";
        "is_alive" "is_alive" Flag "it answered its last probes";
        "read_only" "read_only" Flag "its `@@read_only`, as last seen";
        "promotable" "promotable" Flag "it may become the primary";
        "engine" "engine" Text "mariadb or mysql";
        "version" "version" Text "its `@@version`";
        "lag_ms" "lag_ms" Number "milliseconds behind its primary; NULL while nobody knows";
        "gtid" "gtid" Long "what it has executed, as last seen";
        "error" "error" Long "why it does not answer";
        "io_error" "io_error" Long "the last error of the thread that receives";
        "sql_error" "sql_error" Long "the last error of the thread that applies";
    }
    "sessions" "A client of any router. Whoever lacks the right sees the sessions of his own account."
        ["session" "list"] None, Some("user"); {
        "id" "id" Whole "what `CONNECTION_ID()` says, and KILL takes";
        "user" "user" Text "the account's name";
        "client" "client" Text "the client's address";
        "door" "door" Text "sql, kv or own";
        "db" "database" Text "its current database";
        "command" "command" Text "what runs; Sleep while it waits for its client";
        "time_ms" "time_ms" Whole "for how long";
        "state" "state" Text "what it waits for";
        "server" "server" Text "the server that runs its statement, or whose connection it keeps";
        "pins" "pins" Text "why it keeps a connection";
        "pinned_ms" "pinned_ms" Whole "for how long it has kept it";
        "digest" "digest" Text "of the statement that runs";
        "tag" "tag" Text "where that comes from";
        "trace" "trace" Text "the trace that it belongs to";
        "router" "router" Text "the router that serves it";
    }
    "settings" "A setting in force on this router."
        ["config" "settings"] None, None; {
        "name" "name" Text "its name";
        "value" "value" Long "what holds";
        "source" "from" Text "who says so";
        "default_value" "default" Long "what holds otherwise";
        "scope" "scope" Text "for whom, and when a change counts";
    }
    "shard_maps" "A shard map."
        ["sharding" "list_definitions"] None, None; {
        "mapping_id" "mapping_id" Whole "its number";
        "name" "name" Text "its name for people";
        "type_name" "type_name" Text "its kind";
        "global_group_id" "global_group_id" Text "its global group";
    }
    "sharded_tables" "A sharded or global table."
        ["sharding" "list_tables"] None, None; {
        "table_name" "table_name" Text "`DATABASE.TABLE`";
        "mapping_id" "mapping_id" Whole "its shard map";
        "type_name" "type_name" Text "the map's kind";
        "global_group" "global_group" Text "the map's global group";
        "column_name" "column_name" Text "the shard key; empty for a global table";
    }
    "shards" "A shard, disabled ones too."
        ["sharding" "list_shards"] None, None; {
        "shard_id" "shard_id" Whole "its number";
        "mapping_id" "mapping_id" Whole "its shard map";
        "group_id" "group_id" Text "where its rows are";
        "state" "state" Text "ENABLED or DISABLED";
        "lower_bound" "lower_bound" Long "the lowest key, the keys or the slots that it has";
    }
    "shard_sizes" "Some how many rows and bytes a shard has."
        ["sharding" "list_sizes"] None, None; {
        "shard_id" "shard_id" Whole "its number";
        "mapping_id" "mapping_id" Whole "its shard map";
        "group_id" "group_id" Text "where its rows are";
        "shards_there" "shards_there" Whole "shards of the map on this group, which have the rest together";
        "table_count" "tables" Whole "sharded tables of the map";
        "row_count" "rows" Whole "their rows, as the primary thinks";
        "bytes" "bytes" Whole "their bytes with indexes";
        "age_s" "age_s" Whole "seconds since the primary said so";
    }
    "statistics" "A number that a router counts (STATISTICS.md)."
        ["statistics" "list"] None, None; {
        "name" "name" Text "what is counted";
        "value" "value" Whole "since the router's start";
        "router" "router" Text "the router that counted";
    }
    "subscriptions" "A durable subscription to the change stream."
        ["subscription" "list"] None, None; {
        "name" "name" Text "its name";
        "group_ids" "groups" Text "only these groups";
        "databases_only" "databases" Text "only these databases";
        "tables_only" "tables" Text "only these tables";
        "snapshot" "snapshot" Flag "the rows that were there came first";
        "created" "created" Time "when it was made";
        "acknowledged" "acknowledged" Time "when its consumer acknowledged last";
        "lag_ms" "lag_ms" Number "milliseconds that the consumer is behind";
        "lag_bytes" "lag_bytes" Whole "bytes that it is behind";
        "expiry_percent" "expiry_percent" Whole "how much that is of what the servers keep of their binlogs; NULL where they keep all";
        "gap" "gap" Text "what the servers have purged of what it did not acknowledge; NULL where it is all there";
    }
    "transactions" "A transaction over several groups that has prepared branches."
        ["transaction" "list"] None, None; {
        "transaction_id" "transaction_id" Text "its id";
        "state" "state" Text "how far it is";
        "verdict" "verdict" Text "commit or rollback; empty while it is open";
        "coordinator_group" "decider" Text "the group whose commit decides";
        "branches" "branches" Long "the groups with a prepared branch";
        "since" "since" Time "since when it is known";
        "waits_for" "waits_for" Long "what it waits for";
    }
    "versions" "A version of the farm's configuration."
        ["config" "history"] None, None; {
        "version" "version" Whole "its number";
        "time" "when" Time "when it was written";
        "author" "by" Text "who wrote it";
        "comment" "comment" Long "why";
        "state" "state" Text "whether it is in force";
    }
}
