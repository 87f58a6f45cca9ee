//! `docs/PRIVILEGES.md` is the table of privileges, written out. `HEDDLE_WRITE_DOCS=1` rewrites it.

use std::fmt::Write;

use engine::Version;
use engine::needed::{self, ESSENTIAL, Feature, Need, Scope};
use farm::Engine;

const HEAD: &str = "# Privileges of Heddle's own accounts

Heddle logs in to every server by one account of its own, `admin_user` ([SETTINGS.md](SETTINGS.md)): for probes, commands,
changes of primaries and the statements of the KV door. It needs no SUPER and no ALL PRIVILEGES. `heddle grants VERSION`
prints the statements for servers of a release; without `--for` it prints those of each feature:

```sh
heddle grants 10.11.6-MariaDB --account heddle@10.0.0.% --for clone
```

`VERSION` is what `SELECT VERSION()` says. Make the account on each server before you add it, with a password:
`CREATE USER 'heddle'@'10.0.0.%' IDENTIFIED BY '…'`. Servers that a clone has filled have the accounts of the group.

The account with which replicas connect to their primary, `replication_user`, needs REPLICATION SLAVE and nothing else. On
MariaDB since 10.5 and on MySQL since 8.0 both accounts may be one.

## What happens without

- `group add` refuses a server on which the account lacks a privilege that every farm needs. The text names each privilege and
  the GRANT that gives it. Nothing on the server was changed.
- Heddle looks at the account of each server again when it connects anew, and every minute. What is missing for a feature that
  the farm uses is told by the event `privileges_missing` and in the column `privileges_missing` of `group health`; the
  event `privileges_complete` follows the GRANT. There is nothing to restart.
- `heddle doctor` ([DOCTOR.md](DOCTOR.md)) logs in to all servers and lists what is missing (check `privileges`): `error` for what
  every farm needs, `warning` for a feature in use, `info` for one that is not. `heddle doctor --before-add HOST:PORT` looks at a
  server that is not in the farm yet.
- A switch-over is refused while the account lacks what every farm needs on a server of the group. A failover waits and tries
  again; the event `failover_step_failed` names the privilege.
- A server that refuses probes (SLAVE MONITOR, REPLICATION CLIENT) counts as one that does not answer; the event `server_died` names
  the privilege, and the server is back after the GRANT.
- A clone, a move and a look at definitions begin only when their privileges are complete. Servers do not refuse to show
  triggers, events or foreign keys to an account that may not see them: they leave them out.

";

const TAIL: &str = "
## What the privileges do not cover

- **Triggers and functions on servers with a binary log.** Both engines take them from accounts with SUPER alone (error 1419)
  unless `log_bin_trust_function_creators` is on. A clone switches it on at the server that is filled, and off again. Where
  shard maps have triggers or functions, set it in the configuration of the primaries.
- **Events, on MariaDB.** A server that is filled with events while its `event_scheduler` is ON has that stopped for the moment,
  which needs SUPER there. Leave the scheduler OFF on servers that join, or grant SUPER for the time of the clone.
- **Accounts that a group of a shard map lacks.** They are made by GRANT statements, and a server lets an account give only what
  it has itself WITH GRANT OPTION. Grant that besides, or make clients' accounts on all groups yourself.
- **MySQL's encryption.** Where `table_encryption_privilege_check` is on, tables whose encryption is not their database's
  default need TABLE_ENCRYPTION_ADMIN in a clone and in shard maps.
- **SYSTEM_USER** (MySQL since 8.0.16) is needed because KILL spares accounts that have it, as `root` does: a session of root's would
  keep a primary from being changed.
- **Who follows a server**, which `group import_topology` asks, needs REPLICATION MASTER ADMIN (MariaDB) or REPLICATION SLAVE (MySQL).
  Without it the import is refused, with the GRANT.
- **PROXY headers** (`proxy_protocol_servers`) need no privilege: the servers' `proxy_protocol_networks` decides.
- **Clients.** What an account may do through Heddle is decided by its own privileges ([SECURITY.md](SECURITY.md)); none of these
  here are lent to it, but for the rows of containers ([KV.md](KV.md)).

Narrower grants: privileges on «data» may be given on the databases of the shard maps, or of the containers' tables, in place of
`*.*`. SELECT and SHOW VIEW are needed on everything, since what a server would lose must be seen before it is filled, and a
foreign key that changes remembered rows before they are remembered.

Galera groups are not checked: their servers need what stands under «watching servers», «knowing accounts, tables and foreign
keys» and «listing and ending connections», and the database heddle.
";

fn release(number: u32) -> String {
    format!(
        "{}.{}.{}",
        number / 10_000,
        number / 100 % 100,
        number % 100
    )
}

/// In which releases a row holds, where that is not all.
fn span(need: &Need) -> String {
    match (need.since, need.before) {
        (0, u32::MAX) => String::new(),
        (0, before) => format!(" (before {})", release(before)),
        (since, u32::MAX) => format!(" (since {})", release(since)),
        (since, before) => format!(" (since {}, before {})", release(since), release(before)),
    }
}

/// The privileges of a feature, those that are for the same in one row.
fn table(page: &mut String, engine: Engine, feature: Feature) {
    let mut rows: Vec<(Vec<String>, &Need)> = Vec::new();
    for need in needed::rows(engine)
        .into_iter()
        .filter(|it| it.feature == feature)
    {
        let name = format!("{}{}", need.privilege, span(need));
        let same = |(_, other): &&mut (Vec<String>, &Need)| {
            (other.scope, other.purpose) == (need.scope, need.purpose)
        };
        match rows.iter_mut().find(same) {
            Some((names, _)) => names.push(name),
            None => rows.push((vec![name], need)),
        }
    }
    for (names, need) in rows {
        let on = match need.scope {
            Scope::Everything => "`*.*`",
            Scope::Own => "`heddle.*`",
            Scope::Data => "data",
        };
        let (names, purpose) = (names.join(", "), need.purpose);
        writeln!(page, "| {names} | {on} | {purpose} |").expect("a string takes any text");
    }
}

/// One feature; nothing where it needs nothing.
fn section(page: &mut String, engine: Engine, feature: Feature) {
    let mut rows = needed::rows(engine).into_iter();
    if !rows.any(|it| it.feature == feature) {
        return;
    }
    let mut text = feature.text().to_owned();
    text[..1].make_ascii_uppercase();
    if !feature.is_essential() {
        text += &format!(" (`--for {}`)", feature.name());
    }
    write!(
        page,
        "{text}:\n\n| privilege | on | what is done by it |\n| --- | --- | --- |\n"
    )
    .expect("a string takes any text");
    table(page, engine, feature);
    page.push('\n');
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (engine, name) in [(Engine::MariaDb, "MariaDB"), (Engine::MySql, "MySQL")] {
        for (essential, title) in [
            (
                true,
                format!("{name}: what every farm needs (`--for {ESSENTIAL}`)"),
            ),
            (false, format!("{name}: what features need besides")),
        ] {
            writeln!(page, "## {title}\n").expect("a string takes any text");
            for feature in Feature::ALL {
                if feature.is_essential() == essential {
                    section(&mut page, engine, feature);
                }
            }
        }
    }
    page.push_str(
        "## The statements\n\nWhat every farm needs, for the account `heddle@%`:\n\n```sql\n",
    );
    for text in ["10.11.6-MariaDB", "8.4.6"] {
        let version = Version::parse(text).expect("a version");
        let essential: Vec<Feature> = Feature::ALL
            .into_iter()
            .filter(|it| it.is_essential())
            .collect();
        writeln!(page, "-- {text}").expect("a string takes any text");
        for statement in needed::grants(&version, &essential, "'heddle'@'%'") {
            writeln!(page, "{statement};").expect("a string takes any text");
        }
    }
    page.push_str("```\n");
    page + TAIL
}

#[test]
fn the_page_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/PRIVILEGES.md");
    if std::env::var_os("HEDDLE_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).expect("docs/ can be written");
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page(),
        "docs/PRIVILEGES.md is old: HEDDLE_WRITE_DOCS=1 cargo test --workspace --test privileges_doc"
    );
}
