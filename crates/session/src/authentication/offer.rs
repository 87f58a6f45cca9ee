//! What Heddle offers to clients, and what of it server connections must have too.
//!
//! A client is offered what the farm's primary would offer it, as far as Heddle carries it, under the
//! primary's own version and collation: it cannot tell which of the two it speaks to.

use std::rc::Rc;

use backend::Seen;
use execute::connections::target::target;
use execute::per_core::Core;
use farm::{Engine, Snapshot};
use mysql_wire::capability::Capabilities;

/// Between the client and Heddle alone, whatever the servers have.
const TRANSPORT: Capabilities = Capabilities::COMPRESS.union(Capabilities::ZSTD_COMPRESSION);

/// What every server has that Heddle works with; offered while none can be asked.
const ALWAYS: Capabilities = Capabilities::FOUND_ROWS
    .union(TRANSPORT)
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::NO_SCHEMA)
    .union(Capabilities::ODBC)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::RESERVED)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC)
    .union(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF);

/// What Heddle carries where the primary has it.
const CARRIED: Capabilities = ALWAYS
    .union(Capabilities::LONG_PASSWORD)
    .union(Capabilities::OPTIONAL_RESULTSET_METADATA)
    .union(Capabilities::QUERY_ATTRIBUTES)
    .union(Capabilities::REMEMBER_OPTIONS)
    .union(Capabilities::MARIADB_PROGRESS)
    .union(Capabilities::MARIADB_STMT_BULK)
    .union(Capabilities::MARIADB_EXTENDED_METADATA)
    .union(Capabilities::MARIADB_CACHE_METADATA)
    .union(Capabilities::MARIADB_BULK_UNIT_RESULTS);

/// The client's flags that change what a server does or sends, so that its connections have them
/// too. All others are between the client and Heddle, or do nothing until they are used.
pub(crate) const PASSED_ON: Capabilities = Capabilities::FOUND_ROWS
    .union(Capabilities::NO_SCHEMA)
    .union(Capabilities::ODBC)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::OPTIONAL_RESULTSET_METADATA)
    .union(Capabilities::QUERY_ATTRIBUTES)
    .union(Capabilities::MARIADB_PROGRESS)
    .union(Capabilities::MARIADB_EXTENDED_METADATA);

/// What a client reads before it says anything.
pub(crate) struct Welcome {
    pub version: String,
    pub capabilities: Capabilities,
    pub collation: u8,
    pub mariadb: bool,
}

/// What the primary of the home group says, as far as Heddle can say it too.
pub(crate) async fn welcome(core: &Core) -> Welcome {
    let snapshot = core.snapshot();
    let primary = snapshot.home().and_then(|group| group.primary());
    let mariadb = primary.is_none_or(|server| server.engine == Engine::MariaDb);
    let mut seen: Option<Rc<Seen>> = None;
    if let Some(server) = primary
        && let Some(target) = target(&snapshot, server.id, false)
    {
        seen = core.pools.seen(&target).await;
    }
    let version = primary.map_or("10.6.0-MariaDB", |server| &server.version);
    let mut welcome = match seen {
        Some(seen) => Welcome {
            version: seen.version.to_string(),
            capabilities: (seen.capabilities & CARRIED) | TRANSPORT,
            collation: seen.collation,
            mariadb,
        },
        None => Welcome {
            // MariaDB 10 hides its number behind this, for replicas that know none above 5.
            version: match mariadb && version.starts_with("10.") {
                true => format!("5.5.5-{version}"),
                false => version.to_owned(),
            },
            capabilities: ALWAYS,
            // utf8mb4_general_ci, which both engines know.
            collation: 45,
            mariadb,
        },
    };
    let first = Capabilities::LONG_PASSWORD;
    welcome.capabilities.set(first, !mariadb);
    if mixed(&snapshot) {
        // Every server that may answer has to describe columns in the same form.
        welcome.capabilities -= Capabilities::MARIADB_EXTENDED_METADATA;
    }
    welcome
}

/// True when a server of the home group may lack MariaDB's extended metadata, which 10.5.2 has.
fn mixed(snapshot: &Snapshot) -> bool {
    let servers = snapshot.home().map(|group| &group.servers[..]);
    servers.unwrap_or_default().iter().any(|server| {
        let number = execute::variables::reading::version_number(&server.version);
        server.engine != Engine::MariaDb || number < 100_502
    })
}
