//! The table of settings: one row makes the struct's field, the key in `heddle.toml`, the name that
//! `--set` takes, the line in `--help` and the row of `docs/SETTINGS.md`.

#[cfg(test)]
mod assigned;
mod credential;
mod document;
mod farm;
mod file;
mod listen;
mod names;
mod passwords;
mod row;
mod rules;
mod shown;
mod value;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use routing::rules::Rules;

pub use credential::BackendCredential;
pub use farm::{assign, read as read_document, show};
pub use file::{read, read_rules};
pub use listen::{FileMode, Listens, OptionalListens};
pub use row::{Applies, Given, Setting};
pub use rules::names_are_unique;
pub use shown::{is_secret, shown};
pub use value::{
    Atomic, Balance, ClientScope, CompressServers, Consistency, ErrorNumbers, EtcdPrefix, EtcdUrls,
    FabricAddresses, FabricOpen, FabricReplies, Io, LogFormat, LogLevel, NearServers, Networks,
    OptionalAddress, OptionalPath, ProxyServers, ReadFailover, Switch, TlsClients, TlsServers,
    TrxStickiness, WithoutStore,
};

use names::{find, unknown};
use value::{Raw, Value};

macro_rules! settings {
    ($(
        $name:ident: $type:ty = $default:literal $unit:literal $([$min:literal, $max:literal])?
        $applies:ident $text:literal;
    )*) => {
        /// The values of all settings.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(#[doc = $text] pub $name: $type,)*
            /// The `[[backend_credential]]` tables of the file.
            pub backend_credentials: Vec<BackendCredential>,
            /// The `[[rule]]` and `[[user]]` tables of the file.
            pub rules: Rules,
            /// The file itself, if there is one.
            pub config_file: Option<PathBuf>,
            /// What is not as by default, by name.
            pub given: BTreeMap<&'static str, Given>,
        }

        /// Every setting there is, in the order of the documentation.
        pub const TABLE: &[Setting] = &[$(Setting {
            name: stringify!($name),
            kind: <$type as Value>::KIND,
            unit: $unit,
            default: $default,
            bounds: settings!(@bounds $($min, $max)?),
            applies: Applies::$applies,
            text: $text,
        }),*];

        impl Default for Settings {
            fn default() -> Settings {
                Settings {
                    $($name: <$type as Value>::parse(&Raw::Word($default))
                        .expect("a test reads every default of the table"),)*
                    backend_credentials: Vec::new(),
                    rules: Rules::default(),
                    config_file: None,
                    given: BTreeMap::new(),
                }
            }
        }

        impl Settings {
            /// Sets one value; the error says what is wrong with it, without the setting's name.
            fn put(&mut self, setting: &Setting, raw: &Raw<'_>) -> Result<(), String> {
                value::within(setting.bounds, raw)?;
                match setting.name {
                    $(stringify!($name) => self.$name = Value::parse(raw)?,)*
                    other => unreachable!("{other} is a row of the table"),
                }
                Ok(())
            }
        }
    };
    (@bounds) => { None };
    (@bounds $min:literal, $max:literal) => { Some(($min, $max)) };
}

settings! {
    sql_listen: Listens = "127.0.0.1:6306" "" Restart
        "Where MySQL clients connect: HOST:PORT, the path of a Unix socket, or both with a comma between them (docs/DEPLOYING.md).";
    kv_listen: OptionalListens = "" "" Restart
        "The same for memcached clients (docs/KV.md); nothing listens without it.";
    socket_permissions: FileMode = "0777" "" Restart
        "Permissions of the Unix sockets' files. As with mysqld, everybody on the machine may connect by default, and has to log in.";
    kv_auth: Switch = "on" "" Restart
        "memcached clients must log in with the name and password of an account of the servers: their first command is a set whose value is `user password`.";
    kv_sticky: Switch = "on" "" Restart
        "A container that is named in front of a key (@@NAME.KEY) counts for what the client asks for next, too, as in MySQL's plugin.";
    kv_delimiter: String = "." "" Restart
        "What stands between the name of a container and a key.";
    kv_value_bytes_max: u64 = "1048576" "bytes" [1, 1073741824] Restart
        "The largest value that memcached clients may send; containers may allow less.";
    kv_ack_before_commit: Switch = "off" "" Live
        "on: plain sets of containers whose w_batch_size is above 1 are acknowledged BEFORE their commit, as MySQL's plugin did. What was acknowledged and is not committed is lost when this router or its server ends (docs/KV.md).";
    kv_commit_within_ms: u64 = "100" "ms" [1, 60000] Live
        "So long after its acknowledgement such a write is committed at the latest.";
    http_listen: SocketAddr = "127.0.0.1:6080" "" Restart
        "Where the console, metrics and commands are.";
    http_hosts: Vec<String> = "" "" Restart
        "Host names, besides localhost and IP addresses, by which the HTTP door may be called.";
    http_tls: TlsClients = "preferred" "" Restart
        "TLS over HTTP, by the certificate that SQL clients are shown: preferred takes it on http_listen beside plain HTTP; required refuses plain HTTP that comes from another machine (426), but for health; off never offers it.";
    http_connections_max: u64 = "512" "connections" [8, 65536] Restart
        "HTTP connections at once. A further one takes the place of that which has waited longest for its client; where all are at work it is answered with 503.";
    http_address_connections_max: u64 = "64" "connections" [1, 65536] Restart
        "The same of one address.";
    http_header_timeout_s: u64 = "10" "s" [1, 3600] Restart
        "An HTTP client whose request has begun, or that has just connected, must have sent the whole head by then.";
    http_body_timeout_s: u64 = "30" "s" [1, 3600] Restart
        "The body of an HTTP request must be there so long after its head.";
    http_idle_timeout_s: u64 = "60" "s" [1, 86400] Restart
        "An HTTP connection without another request is closed so long after the last answer.";
    http_write_timeout_s: u64 = "30" "s" [1, 3600] Restart
        "An HTTP client that takes nothing of its answer for so long is closed.";
    http_body_bytes_max: u64 = "1048576" "bytes" [1024, 1073741824] Restart
        "Longest body of an HTTP request.";
    change_streams_max: u64 = "8" "streams" [0, 65536] Restart
        "Change streams at once (docs/CHANGES.md). With 0 there are none.";
    fabric_listen: OptionalAddress = "" "" Restart
        "Where clients of MySQL Fabric ask by XML-RPC (docs/FABRIC.md); nothing listens without it.";
    fabric_mysql_listen: OptionalAddress = "" "" Restart
        "Where they ask by CALLs of MySQL's protocol; nothing listens without it.";
    fabric_user: String = "" "" Restart
        "Who must log in there by HTTP Digest, with the admin right; without a name nobody has to, and fabric_open says what everybody may do.";
    fabric_password: String = "" "" Restart
        "Its password.";
    fabric_password_file: OptionalPath = "" "" Restart
        "A file with the password instead; systemd's credential fabric_password is read where neither is set.";
    fabric_open: FabricOpen = "public" "" Restart
        "What everybody may do there while fabric_user is empty: public (signs of life), monitor (look-ups too), admin (everything).";
    fabric_addresses: FabricAddresses = "servers" "" Restart
        "Where Fabric's connectors are told to connect: servers (each server's own address, as Fabric does) or routers (fabric_router in place of each).";
    fabric_router: String = "" "" Restart
        "HOST:PORT of the SQL door that connectors are told with fabric_addresses = routers; without it, sql_listen.";
    fabric_nodes: Vec<String> = "" "" Restart
        "HOST:PORT of the farm's Fabric doors, for dump.fabric_nodes; without any, fabric_listen.";
    fabric_ttl_s: u64 = "1" "s" [1, 86400] Restart
        "For so long Fabric's connectors go by what they were answered.";
    fabric_replies: FabricReplies = "auto" "" Restart
        "Form of answers: auto (as each client shows itself), or always that of Fabric 1.4.0, 1.4.2 or 1.5.";
    fabric_connections_max: u64 = "4096" "connections" [8, 65536] Restart
        "Connections of Fabric's clients at once; the deadlines of the HTTP door hold for them.";
    metrics_public: Switch = "off" "" Restart
        "Whether everybody may see the console's overview, charts and events, and the metrics; otherwise they need the token in DIR/monitor-token or DIR/token (docs/SECURITY.md).";
    monitor_users: Vec<String> = "" "" Restart
        "Names of accounts that may use the commands which show the farm, besides those with the PROCESS privilege.";
    state_dir: PathBuf = "heddle-state" "" Restart
        "Directory of the farm's state and of the HTTP token.";
    etcd: EtcdUrls = "" "" Restart
        "Client URLs of an etcd cluster's members, for a farm of several routers (docs/STORE.md): the farm's state is kept there. Without it this router is the farm's only one, and the state is a file in state_dir.";
    etcd_prefix: EtcdPrefix = "/heddle" "" Restart
        "What the farm's keys in etcd begin with; every farm needs its own.";
    etcd_user: String = "" "" Restart
        "Account in etcd that may read and write all keys that begin with etcd_prefix; none where etcd has no accounts.";
    etcd_password: String = "" "" Restart
        "Its password.";
    etcd_password_file: OptionalPath = "" "" Restart
        "A file with the password instead; systemd's credential etcd_password is read where neither is set.";
    etcd_ca: OptionalPath = "" "" Restart
        "PEM file with the authority of the certificates of etcd's members; needed for https:// URLs.";
    etcd_certificate: OptionalPath = "" "" Restart
        "PEM file with the certificate that etcd is shown, where it asks for one.";
    etcd_key: OptionalPath = "" "" Restart
        "PEM file with that certificate's private key.";
    router_name: String = "" "" Restart
        "This router's name among those of its farm; without one, its address in peer_url.";
    peer_url: String = "" "" Restart
        "Where the farm's other routers reach this one's HTTP door, as http://HOST:PORT; without it, http_listen. Routers speak TLS there whatever it says.";
    peer_timeout_ms: u64 = "1000" "ms" [10, 60000] Restart
        "In views over all routers of the farm each has so long to answer; who has not stands there by name.";
    peers_in_clear: Switch = "off" "" Restart
        "Speak plain HTTP with routers of releases that know no TLS between routers, while they are upgraded: the farm's secret crosses the network in clear then.";
    router_lease_ms: u64 = "2000" "ms" [1000, 60000] Restart
        "A router that etcd has not heard for so long is gone, and leads no more. etcd counts in seconds and grants no less than one and a half of its election timeouts.";
    store_silence_ms: u64 = "10000" "ms" [1000, 86400000] Restart
        "After so long without etcd the router says so in /readyz.";
    without_store: WithoutStore = "serve" "" Restart
        "What a router does then: serve goes on with what it knows and stays ready; refuse is no longer ready, so that load balancers send clients elsewhere.";
    tls_clients: TlsClients = "preferred" "" Restart
        "Whether clients use TLS: preferred offers it, required refuses those without (3159), off never offers it.";
    tls_certificate: OptionalPath = "" "" Restart
        "PEM file with the router's certificate and those between it and its authority; read anew when it changes. Without one the router makes its own, in state_dir.";
    tls_key: OptionalPath = "" "" Restart
        "PEM file with the certificate's private key.";
    tls_client_ca: OptionalPath = "" "" Restart
        "PEM file with the authorities of clients' certificates, for accounts that REQUIRE X509; clients without a certificate stay welcome.";
    proxy_protocol_networks: Networks = "" "" Restart
        "Networks of load balancers that may say by the PROXY protocol (version 1 or 2) where their clients are, at all doors (docs/SECURITY.md): 10.0.0.0/24, 2001:db8::/32, or addresses. Who sends a header from elsewhere is refused (1130).";
    tls_servers: TlsServers = "preferred" "" Restart
        "TLS with servers: disabled; preferred where a server offers it and is not on this machine; required; verify_ca wants a certificate signed by tls_servers_ca; verify_identity also the server's name in it.";
    tls_servers_ca: OptionalPath = "" "" Restart
        "PEM file with the authorities of the servers' certificates.";
    proxy_protocol_servers: ProxyServers = "off" "" Restart
        "Server connections begin with a PROXY header (v2, or v1) that says where the client is, so that servers find its account by its own address; MariaDB servers must name the router in proxy_protocol_networks, MySQL has none. Such connections are shared only among an account's clients of one address (docs/ACCOUNTS.md).";
    server_sockets: Switch = "off" "" Restart
        "Server connections for clients go by a server's Unix socket where the server is on this machine and its socket is proved to be its own (docs/DEPLOYING.md); heddle up sets on. Leave it off where fence_command or a firewall has to cut the router off from a server of its own machine.";
    compress_servers: CompressServers = "off" "" Restart
        "Compression between router and servers that can do it: for slow networks, at the cost of CPU on both.";
    threads: u64 = "0" "threads" [0, 1024] Restart
        "Threads that carry clients; 0 takes one per processor core.";
    io: Io = "auto" "" Restart
        "How the kernel moves bytes; auto takes io_uring where the kernel has it, else epoll.";
    clients_max: u64 = "10000" "connections" [1, 1000000] Live
        "Clients at once; more get error 1040.";
    user_connections_max: u64 = "0" "connections" [0, 1000000] Live
        "Clients of one account at once, where the account has no MAX_USER_CONNECTIONS of its own; more get error 1203. 0 is no limit.";
    pool_connections_max: u64 = "64" "connections" [1, 100000] Live
        "Connections to one server, over all threads; keep it below the server's max_connections.";
    pool_idle_s: u64 = "60" "s" [1, 86400] Live
        "A server connection unused for so long is closed.";
    pool_wait_ms: u64 = "10000" "ms" [1, 3600000] Live
        "A statement waits so long for a free server connection, then gets error 1040.";
    pool_connect_ms: u64 = "5000" "ms" [10, 3600000] Live
        "Opening a server connection, login included, may take so long.";
    handshake_timeout_s: u64 = "10" "s" [1, 3600] Live
        "A client that has not logged in by then is closed.";
    logins_max: u64 = "2000" "connections" [1, 1000000] Live
        "Clients at once that have not logged in yet; more get error 1040. They count in clients_max, too.";
    login_failures: u64 = "100" "logins" [0, 4294967295] Live
        "After so many logins in a row that failed, an address has to wait before it may try again (error 1129): 1 s, then twice as long with each failure, up to 60 s. A login that succeeds ends the count; loopback never waits; 0 lets nobody wait, those who do included.";
    login_queue_max: u64 = "1000" "passwords" [1, 1000000] Live
        "So many passwords wait to be verified (a SHA-crypt hash, a password under the router's RSA key), which threads of their own do; more logins get error 1040.";
    idle_timeout_s: u64 = "28800" "s" [1, 31536000] Live
        "A client that sent nothing for so long is closed.";
    client_read_timeout_s: u64 = "30" "s" [1, 31536000] Live
        "A client that stops for so long in the middle of a packet is closed, as by net_read_timeout.";
    client_write_timeout_s: u64 = "60" "s" [1, 31536000] Live
        "A client that takes nothing of its result for so long is closed, as by net_write_timeout.";
    statement_timeout_ms: u64 = "0" "ms" [0, 2592000000] Live
        "A statement that runs for so long is ended by KILL QUERY; 0 for no limit. COMMIT and ROLLBACK have none.";
    memory_bytes_max: u64 = "0" "bytes" [0, 1125899906842624] Live
        "What all clients together may make the router keep in memory (docs/SECURITY.md): beyond it new work is refused with error 1041 and nothing is ended. 0 for half of what the machine, or the router's control group, has.";
    user_memory_bytes_max: u64 = "0" "bytes" [0, 1125899906842624] Live
        "What the clients of one account may make the router keep in memory, within memory_bytes_max: beyond it their new work is refused with error 1041. 0 for no limit of its own.";
    packet_bytes_max: u64 = "67108864" "bytes" [1024, 1073741824] Live
        "Longest packet from a client, like the servers' max_allowed_packet.";
    server_statements_max: u64 = "12800" "statements" [1, 1048576] Live
        "Prepared statements kept at one server, over all its connections; keep it below the server's max_prepared_stmt_count.";
    statements_max: u64 = "16382" "statements" [1, 1048576] Live
        "Prepared statements that one client may hold at once.";
    statements_bytes_max: u64 = "134217728" "bytes" [1024, 1099511627776] Live
        "What they may take together: their texts, the types of their parameters, and some 300 bytes for each.";
    probe_interval_ms: u64 = "500" "ms" [10, 3600000] Live
        "Time between two probes of one server.";
    probe_timeout_ms: u64 = "1000" "ms" [10, 3600000] Live
        "A probe without an answer by then has failed.";
    probe_failures: u64 = "2" "probes" [1, 1000] Live
        "So many failed probes in a row make a server dead; one answer makes it alive again.";
    detections: u64 = "3" "signs" [1, 1000] Live
        "So many signs of life in a row must be missing before silence is believed; then a new connection must go without a greeting, too.";
    detection_interval_ms: u64 = "30" "ms" [5, 3600000] Live
        "Time between two signs of life that each server is asked for. A primary that answers clients is asked half of it after it has fallen silent, and five times a second in any case.";
    detection_timeout_ms: u64 = "100" "ms" [10, 3600000] Live
        "A sign of life or a greeting that does not come within so long is missing. It stretches while the router itself gets too little CPU.";
    write_timeout_ms: u64 = "5000" "ms" [0, 3600000] Live
        "A primary that takes no write for so long though it can be read (a full disk) has failed; 0 for never. A commit that waits for a replica or a lock does not count.";
    crossing_interval_ms: u64 = "1000" "ms" [10, 3600000] Live
        "Time between two looks at what the groups' primaries have prepared of transactions over several groups (docs/TRANSACTIONS.md).";
    crossing_grace_ms: u64 = "2000" "ms" [0, 3600000] Live
        "A prepared part of another router's transaction is left to that router for so long; then anybody ends it.";
    decisions_kept_ms: u64 = "600000" "ms" [1000, 86400000] Live
        "A decision of another router's transaction is kept for so long, so that it can ask; from the decision on, by the server's clock.";
    cross_lock_wait_ms: u64 = "2000" "ms" [0, 3600000] Live
        "Once a transaction has touched a second group, a lock that it waits for longer ends it with error 1213: no server sees a deadlock over several. Rounded up to seconds; 0 leaves it to innodb_lock_wait_timeout.";
    atomic: Atomic = "xa" "" Live
        "What a transaction that touches a second group is: xa (all or nothing), single (refused), best-effort (the groups commit one after the other, and a crash between them leaves a part).";
    allow_unsafe_xa: Switch = "off" "" Live
        "on: servers take part in transactions over several groups whose XA does not survive every crash, and can stop their replicas (MySQL before 8.0.30).";
    snapshot_reads: Switch = "off" "" Live
        "on: a SELECT over several groups outside a transaction sees all of them at one moment, each transaction over several groups whole or not at all; it is served by primaries, and costs a few trips more (docs/TRANSACTIONS.md).";
    gather_rows_max: u64 = "10000000" "rows" [1, 1000000000000] Live
        "A SELECT over several groups that no group can answer by itself fetches so many rows at most.";
    gather_bytes_max: u64 = "4294967296" "bytes" [1024, 1000000000000000] Live
        "The same in bytes.";
    gather_time_max_ms: u64 = "600000" "ms" [0, 2592000000] Live
        "It may take so long; 0 for no limit.";
    broadcast_bytes_max: u64 = "4194304" "bytes" [0, 67108864] Live
        "So many bytes of rows, of all tables of a statement together, are sent to each group where the groups can answer the statement then and surely fewer move than by fetching all tables (docs/SHARDING.md). With 0 none is sent.";
    scratch: String = "" "" Restart
        "HOST:PORT of a server of the farm's own release that holds nothing: SELECTs over several groups that no group can answer run there, in temporary tables of its database heddle. Without one the primary of the group that has the session's database stands in, where the client's account must be allowed to make temporary tables in heddle. heddle up starts one by itself.";
    scratch_user: String = "heddle_scratch" "" Restart
        "Account at scratch with SELECT, INSERT, CREATE, DROP and CREATE TEMPORARY TABLES on heddle.*, and no more.";
    scratch_password: String = "" "" Restart
        "Its password.";
    scratch_password_file: OptionalPath = "" "" Restart
        "A file with the password instead; systemd's credential scratch_password is read where neither is set.";
    failover_interval_ms: u64 = "0" "ms" [0, 86400000] Live
        "Least time between two failovers of a group for the same cause.";
    lossy_promotion_after_ms: u64 = "0" "ms" [0, 604800000] Live
        "So long after its primary was lost a group goes on with a server that may lack acknowledged commits; 0 for never.";
    notifications: u64 = "300" "reports" [1, 1000000] Live
        "So many reports (threat report_error) by notification_clients reporters within notification_interval_ms cast doubt on a server.";
    notification_clients: u64 = "50" "reporters" [1, 1000000] Live
        "See notifications.";
    notification_interval_ms: u64 = "60000" "ms" [10, 86400000] Live
        "See notifications.";
    switchover_drain_ms: u64 = "50" "ms" [0, 3600000] Live
        "A switch-over (group promote) lets open transactions end for so long, then ends them; sessions repeat them on the new primary.";
    relaxed_replicas: Switch = "off" "" Restart
        "on: replicas write to disk once in a second instead of at each commit (sync_binlog=0, innodb_flush_log_at_trx_commit=2), so that they are never behind; a replica that is promoted is made strict first. heddle up has it on. A replica whose machine crashes may have to be cloned anew.";
    fence_command: String = "" "" Restart
        "Program for /bin/sh that cuts a server off surely (power, network, process) and then exits with 0; it is told HEDDLE_SERVER, HEDDLE_UUID, HEDDLE_ADDRESS and HEDDLE_GROUP.";
    fence_timeout_ms: u64 = "5000" "ms" [10, 3600000] Restart
        "A fence_command that runs for longer has failed.";
    event_command: String = "" "" Restart
        "Program for /bin/sh that is run for each event, one at a time; it is told HEDDLE_EVENT, HEDDLE_WHEN, HEDDLE_GROUP, HEDDLE_SERVER, HEDDLE_ADDRESS and HEDDLE_DETAIL.";
    consistency: Consistency = "client" "" Live
        "The level of reads where nobody asks for another: eventual, session (what the session wrote is there), client (what any connection of its client was told is written), strong (the primary).";
    client_scope: ClientScope = "address" "" Live
        "Which connections are one client's at the level client: those of one account from one address (address), of one process of it where its driver sends the attribute _pid (process), of one account (account), or all (everybody). For connections that log in from now on.";
    client_exchange_ms: u64 = "50" "ms" [1, 60000] Live
        "Routers of one farm tell each other so often what their clients were told is written.";
    max_lag_ms: u64 = "10000" "ms" [0, 4294967295] Live
        "Eventual reads go to replicas that are behind by no more; the greatest value is no bound.";
    marks: Switch = "on" "" Live
        "Statements that change rows carry a comment into the binary log, by which it is found out after a failover whether a write has happened whose answer was lost (docs/OUTCOMES.md); [[user]] tables may choose otherwise.";
    replay_bytes_max: u64 = "1048576" "bytes" [0, 1073741824] Live
        "Of an open transaction so much is kept to do it again, should its server be lost; a longer one ends with error 1213, and 0 keeps nothing.";
    monotonic: Switch = "on" "" Live
        "Reads of one session never go back in time; off lets every read choose its server anew.";
    session_wait_ms: u64 = "20" "ms" [0, 60000] Live
        "A read waits so long for a replica that lacks what its session wrote, then goes to the primary.";
    balance: Balance = "round_robin" "" Live
        "How reads are spread over replicas that would do: round_robin, random, least_connections, fastest (latest answers), sticky (a session stays). Weights count in all.";
    near: NearServers = "" "" Live
        "Servers that reads prefer while they would do: networks (10.1.0.0/16), addresses, host names, server names.";
    slow_replica_ms: u64 = "500" "ms" [0, 3600000] Live
        "A replica whose answers take longer on average, and slow_replica_factor times as long as the fastest one's, gets no reads for a second, then for two, up to 30; 0 never puts one out.";
    slow_replica_factor: u64 = "10" "times" [2, 1000000] Live
        "See slow_replica_ms.";
    failover_wait_ms: u64 = "10000" "ms" [0, 3600000] Live
        "While a group has no primary, statements that need one and logins wait so long for it before they get the error; 0 does not wait. A session may choose: SET heddle_failover_wait_ms.";
    failover_waiters_max: u64 = "0" "statements" [0, 1000000] Live
        "So many statements and logins wait for a primary at once; further statements get error 1041. What belongs to an open transaction waits in every case; 0 for no bound but clients_max.";
    hedge_ms: u64 = "0" "ms" [0, 60000] Live
        "A read whose replica has not begun to answer after so long is sent to another one too, and the first answer counts; 0 never does that.";
    read_failover: ReadFailover = "loop_before_master" "" Live
        "Where a read goes whose replica cannot be reached: loop_before_master (the other replicas, then the primary), master (the primary), disabled (the client gets the error).";
    trx_stickiness: TrxStickiness = "on" "" Live
        "on: START TRANSACTION READ ONLY may run on a replica; master: every transaction runs on the primary.";
    master_on_write: Switch = "off" "" Live
        "After its first write everything of a session goes to the primary.";
    transient_errors: ErrorNumbers = "" "" Live
        "Numbers of server errors that pass by themselves, up to eight, for example 1297: outside transactions the statement is repeated.";
    transient_error_tries: u64 = "1" "times" [0, 65535] Live
        "How often a statement is repeated after such an error.";
    transient_error_pause_us: u64 = "100" "us" [0, 30000000] Live
        "Pause before each repetition.";
    result_cache_bytes: u64 = "16777216" "bytes" [0, 1099511627776] Live
        "Replies kept for eventual reads that allow it (heddle_cache_ttl_s), over all threads; 0 keeps none.";
    heartbeat_interval_ms: u64 = "500" "ms" [10, 3600000] Live
        "Time between two heartbeats in a group with replicas, by which lag is measured: one small row in heddle.heartbeat.";
    position_interval_ms: u64 = "50" "ms" [10, 60000] Live
        "Time between two looks at the servers' positions while sessions could use newer ones. Nothing is written for it.";
    accounts_interval_ms: u64 = "1000" "ms" [10, 3600000] Live
        "Time between two readings of the accounts from the servers.";
    last_replica_wait_ms: u64 = "4294967295" "ms" [1, 4294967295] Live
        "In a group with one replica, a commit waits so long for it, then goes on without; the default waits for ever.";
    rejoin_by_clone: Switch = "off" "" Live
        "A server that comes back with transactions that its group has not is filled anew from a replica, by itself, once these are saved; off, it is set FAULTY.";
    clone_mib_per_s_max: u64 = "0" "MiB/s" [0, 1048576] Live
        "How fast the clone plugin or mariadb-backup may fill a server (docs/REJOIN.md), so that the one that is copied goes on serving; 0 for no limit. A copy over SQL has none.";
    errant_dir: OptionalPath = "" "" Restart
        "Directory for transactions that are given up so, as binary logs and text; without it, `errant` in state_dir.";
    binlog_tool_dir: OptionalPath = "" "" Restart
        "Where mariadb-binlog or mysqlbinlog, which make text of them, are looked for before PATH.";
    sink_files_dir: OptionalPath = "" "" Restart
        "Below it are the directories of sinks that write files (docs/SINKS.md); without it, `sinks` in state_dir.";
    subscription_binlogs_h: u64 = "0" "hours" [0, 2376] Live
        "For so long servers keep their binlogs at least while the farm has subscriptions or sinks (docs/CHANGES.md): Heddle raises an expiry that is shorter, and lowers none. With 0 the servers' own is left alone.";
    rules_file: OptionalPath = "" "" Restart
        "TOML file of [[rule]] and [[user]] tables (docs/RULES.md), behind those of heddle.toml. Both files are read anew when they change.";
    doctor_interval_s: u64 = "3600" "s" [0, 604800] Live
        "The router that leads looks so often for what is wrong with servers, groups and routers, and tells changes by events (docs/DOCTOR.md); 0 for never.";
    step_timeout_ms: u64 = "10000" "ms" [100, 3600000] Live
        "Limit for one step of a command on one server.";
    drain_s: u64 = "10" "s" [0, 3600] Restart
        "At the end, clients have so long to finish their transactions.";
    drain_ready_ms: u64 = "0" "ms" [0, 600000] Restart
        "At the end, /readyz answers 503 for so long before no more clients are taken: time for a load balancer to notice.";
    handover_s: u64 = "3600" "s" [0, 604800] Restart
        "When another process has taken over (docs/DEPLOYING.md), clients that stay connected are served here for so long, then as at the end.";
    remember_passwords: Switch = "on" "" Live
        "Passwords of accounts with caching_sha2_password or sha256_password stay in memory while they are used; off, such an account needs a backend credential.";
    admin_user: String = "root" "" Restart
        "Heddle's own account on every server, for probes, commands and containers; docs/PRIVILEGES.md lists the privileges that it needs.";
    admin_password: String = "" "" Restart
        "Its password.";
    admin_password_file: OptionalPath = "" "" Restart
        "A file with the password instead; systemd's credential admin_password is read where neither is set.";
    replication_user: String = "heddle_replication" "" Restart
        "Account with which replicas connect to their primary.";
    replication_password: String = "" "" Restart
        "Its password.";
    replication_password_file: OptionalPath = "" "" Restart
        "A file with the password instead; systemd's credential replication_password is read where neither is set.";
    digests: Switch = "on" "" Live
        "Statements are timed, and counted by digest (docs/STATISTICS.md): for digest list, the slow log, and the histograms in /metrics.";
    digest_bytes_max: u64 = "16777216" "bytes" [65536, 1099511627776] Live
        "What the rows of digests may take, over all threads: the least recently used go for newer ones. Their minutes of the last day may take as much again.";
    digest_examples: Switch = "off" "" Live
        "on: digest show and the slow log have texts with their literals, but for texts that may carry passwords.";
    slow_log: OptionalPath = "" "" Restart
        "File into which slow statements are written, a line of JSON each; none without it.";
    slow_log_ms: u64 = "1000" "ms" [0, 86400000] Live
        "A statement that takes so long is slow, its waits included; 0 for none.";
    slow_log_sample: u64 = "1" "statements" [1, 1000000] Live
        "One of so many slow statements is written.";
    slow_log_digest_lines: u64 = "0" "lines" [0, 1000000] Restart
        "So many statements of one digest are written in a minute; 0 for all.";
    slow_log_bytes_max: u64 = "104857600" "bytes" [4096, 1099511627776] Restart
        "A slow log that has become so long gets the name FILE.1, the older ones FILE.2 and so on.";
    slow_log_files: u64 = "5" "files" [1, 1000] Restart
        "So many of them are kept, the one that is written to included.";
    otlp_url: String = "" "" Restart
        "URL of a collector to which the spans of traced statements are posted by OTLP/HTTP as JSON (docs/OPENTELEMETRY.md), such as http://127.0.0.1:4318/v1/traces; without it nothing is traced.";
    otlp_headers: String = "" "" Restart
        "Headers of each such request, NAME=VALUE with commas between them, as the collector wants them.";
    otlp_headers_file: OptionalPath = "" "" Restart
        "A file with the headers instead; systemd's credential otlp_headers is read where neither is set.";
    otlp_ca: OptionalPath = "" "" Restart
        "PEM file of the authorities that the certificate of an https collector must come from; without it, those of the Web.";
    otlp_service: String = "heddle" "" Restart
        "What the spans call the service that they come from (service.name).";
    otlp_sample: u64 = "100" "statements" [0, 1000000] Live
        "Of statements whose client says nothing of a trace, one of so many is traced; 0 for none. Where it says something (traceparent), its word counts.";
    flight_recorder: u64 = "50000" "steps" [0, 10000000] Restart
        "So many of its last steps each core keeps in memory that outlives the process (docs/TRACES.md), 32 bytes each; 0 for none.";
    farm_tables: Switch = "on" "" Live
        "The SQL door has tables about the farm in the database heddle (docs/FARM_TABLES.md); off, all names in it are the servers'.";
    core_dumps: Switch = "on" "" Restart
        "Whether the process may leave a core dump, and debuggers of its user may look into it; off, its secrets stay inside (PR_SET_DUMPABLE).";
    log_level: LogLevel = "info" "" Restart
        "Least severity that is logged: error, warn, info, debug, trace.";
    log_format: LogFormat = "text" "" Restart
        "Form of the log on stderr: text, or json (one object per line).";
}

impl Settings {
    /// Sets one value, and remembers who gave it.
    fn give(&mut self, setting: &Setting, raw: &Raw<'_>, from: String) -> Result<(), String> {
        self.put(setting, raw)?;
        let value = raw.to_string();
        self.given.insert(setting.name, Given { value, from });
        Ok(())
    }

    /// Sets what a way of starting has different from the defaults.
    ///
    /// # Panics
    /// When there is no such setting or it cannot have the value.
    pub fn preset(&mut self, name: &str, value: &str, from: &str) {
        let setting = find(name).expect("a row of the table");
        let given = self.give(setting, &Raw::Word(value), from.to_owned());
        given.expect("a value that the setting can have");
    }

    /// Where the scratch server is, where there is one.
    ///
    /// # Errors
    /// What is wrong with the setting, by its name.
    pub fn scratch_server(&self) -> Result<Option<session::ScratchServer>, String> {
        if self.scratch.is_empty() {
            return Ok(None);
        }
        let parts = self.scratch.rsplit_once(':');
        let place = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let Some((host, port)) = place.filter(|(host, _)| !host.is_empty()) else {
            let given = &self.scratch;
            return Err(format!(
                "scratch = {given}: write HOST:PORT of the scratch server"
            ));
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Ok(Some(session::ScratchServer {
            host: host.into(),
            port,
            user: self.scratch_user.clone(),
            password: self.scratch_password.clone(),
        }))
    }

    /// Gives again what was not given by a file: its settings were read anew.
    pub fn keep_flags_of(&mut self, old: &Settings) {
        for (name, given) in &old.given {
            if given.from.starts_with("--") {
                self.preset(name, &given.value, &given.from);
            }
        }
    }

    /// Applies `NAME=VALUE`, the form of `--set`. The error names the setting.
    pub fn assign(&mut self, assignment: &str) -> Result<(), String> {
        let (name, word) = assignment
            .split_once('=')
            .ok_or_else(|| format!("--set {assignment}: write NAME=VALUE"))?;
        let setting = find(name).ok_or_else(|| format!("--set: {}", unknown(name)))?;
        self.give(setting, &Raw::Word(word), FLAG.to_owned())
            .map_err(|wrong| format!("--set {name}: {wrong}"))
    }
}

/// Who gave what the command line gave.
const FLAG: &str = "--set";

/// The table as the end of `--help`.
pub fn help() -> String {
    document::help()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_within_its_bounds() {
        let mut settings = Settings::default();
        for setting in TABLE {
            let result = settings.put(setting, &Raw::Word(setting.default));
            assert_eq!(result, Ok(()), "{}", setting.name);
        }
    }

    #[test]
    fn quantities_carry_their_unit_in_the_name() {
        for setting in TABLE {
            if ["ms", "s", "bytes"].contains(&setting.unit) {
                let name = setting.name.strip_suffix("_max").unwrap_or(setting.name);
                assert!(
                    name.ends_with(&format!("_{}", setting.unit)),
                    "{}",
                    setting.name
                );
            }
        }
    }

    #[test]
    fn set_takes_words_and_names_what_is_wrong() {
        let mut settings = Settings::default();
        settings.assign("threads=4").expect("a number");
        assert_eq!(settings.threads, 4);
        let error = |settings: &mut Settings, text| settings.assign(text).expect_err("wrong");
        assert!(error(&mut settings, "threads=four").contains("--set threads: "));
        assert!(error(&mut settings, "threads=2000").contains("0 to 1024"));
        assert!(error(&mut settings, "treads=1").contains("did you mean `threads`?"));
        assert!(error(&mut settings, "threads").contains("NAME=VALUE"));
    }
}
