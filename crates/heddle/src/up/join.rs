//! From running servers to a farm: what the state store does not know yet is added by the same
//! commands that an operator would use; what it knows is made writable again.

use std::time::{Duration, Instant};

use catalog::Call;
use control::Control;
use farm::container::DEFAULT;
use farm::{Published, Snapshot};

use super::fleet::Identity;
use crate::failure::Failure;
use crate::printing::say;

/// The author of these commands in the history of the configuration.
const BY: &str = "heddle up";

/// For probes and accounts to arrive after the last command.
const SERVES_PATIENCE: Duration = Duration::from_secs(30);

/// Makes groups and adds servers that are missing, and restores the primary of groups that exist.
///
/// # Errors
/// Those of the commands, with the name of the server or group.
pub async fn join(control: &Control, all: &[Identity]) -> Result<(), Failure> {
    let mut groups: Vec<&str> = all.iter().map(|identity| identity.group.as_str()).collect();
    groups.dedup();
    for group in groups {
        let snapshot = control.snapshot();
        if snapshot.group(group).is_none() {
            execute(control, Call::new("group", "create", &[group]).by(BY)).await?;
        } else if snapshot
            .group(group)
            .is_some_and(|group| group.primary().is_some())
        {
            control.restore_primary(group).await?;
        }
        for identity in all.iter().filter(|identity| identity.group == group) {
            if !knows(&snapshot, identity) {
                add(control, identity).await?;
            }
        }
        // Whoever deactivated a group finds it so again.
        if snapshot.group(group).is_none() {
            execute(control, Call::new("group", "activate", &[group]).by(BY)).await?;
        }
        say(format!(
            "group {group}: {}",
            describe(&control.snapshot(), group)
        ));
    }
    Ok(())
}

async fn add(control: &Control, identity: &Identity) -> Result<(), Failure> {
    let address = format!("127.0.0.1:{}", identity.port);
    let mut call = Call::new("group", "add", &[&identity.group, &address]).by(BY);
    call.options
        .insert("name".to_owned(), identity.name.clone());
    execute(control, call).await
}

async fn execute(control: &Control, call: Call) -> Result<(), Failure> {
    let words = [&[call.group.clone(), call.command.clone()][..], &call.args]
        .concat()
        .join(" ");
    match control.execute(call).await {
        Ok(_) => Ok(()),
        Err(error) => Err(Failure::new(format!("{words}: {error}"))),
    }
}

/// The container that key-value clients have before they name one, on a table of its own. A
/// farm that has containers keeps those that it has.
///
/// # Errors
/// The table cannot be made.
pub async fn make_container(control: &Control) -> Result<(), Failure> {
    if !control.snapshot().containers.is_empty() {
        return Ok(());
    }
    let mut call = Call::new("kv", "create", &[DEFAULT]).by(BY);
    let options = [
        ("table", "heddle.kv"),
        ("key", "k"),
        ("values", "v"),
        ("flags", "flags"),
        ("cas", "cas"),
        ("expire", "expire"),
        ("flush", "true"),
        ("make", "true"),
    ];
    for (name, value) in options {
        call.options.insert(name.to_owned(), value.to_owned());
    }
    execute(control, call).await
}

fn knows(snapshot: &Snapshot, identity: &Identity) -> bool {
    let group = snapshot.group(&identity.group);
    group.is_some_and(|group| {
        group
            .servers
            .iter()
            .any(|server| server.port == identity.port)
    })
}

/// «primary g1-1, replicas g1-2 g1-3».
fn describe(snapshot: &Snapshot, group: &str) -> String {
    let Some(group) = snapshot.group(group) else {
        return "gone".to_owned();
    };
    let primary = group.primary();
    let name = primary.map_or("none".to_owned(), |server| server.name.to_string());
    let others = group
        .servers
        .iter()
        .filter(|s| primary.is_none_or(|p| p.id != s.id));
    let others: Vec<&str> = others.map(|server| &*server.name).collect();
    if others.is_empty() {
        return format!("primary {name}");
    }
    format!("primary {name}, replicas {}", others.join(" "))
}

/// Waits until every group takes writes, every server answers its probes, and somebody can log in.
///
/// # Errors
/// After 30 s, with what the probes say.
pub async fn serves(published: &Published) -> Result<(), Failure> {
    let begin = Instant::now();
    loop {
        let snapshot = published.load();
        let mut servers = snapshot.groups.iter().flat_map(|group| &group.servers);
        let all_alive = servers.all(|server| server.health.alive);
        if snapshot.writable() && all_alive && !snapshot.accounts.is_empty() {
            return Ok(());
        }
        if begin.elapsed() > SERVES_PATIENCE {
            return Err(Failure::new(obstacle(&snapshot)));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What keeps the farm from serving, in one line.
fn obstacle(snapshot: &Snapshot) -> String {
    let servers = snapshot.groups.iter().flat_map(|group| &group.servers);
    let dead = servers.filter(|server| !server.health.alive);
    let dead: Vec<String> = dead
        .map(|server| format!("{}: {}", server.name, server.health.error))
        .collect();
    if !dead.is_empty() {
        return format!("servers do not answer: {}", dead.join("; "));
    }
    if !snapshot.writable() {
        return "a group has no primary that takes writes; look at DIR/servers/*/error.log"
            .to_owned();
    }
    "the servers' accounts could not be read; check admin_user and admin_password".to_owned()
}
