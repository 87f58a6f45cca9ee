//! The rules and users' defaults in force.

use std::sync::atomic::Ordering::Relaxed;

use farm::Snapshot;
use routing::rules::{Actions, ServerName, UserDefaults};
use serde_json::Value;

use crate::commands::ConfigCommands;
use catalog::command::Table;

impl ConfigCommands {
    /// The rules that name servers which the farm does not have, with those names; empty when there
    /// are none.
    pub fn unknown_in_rules(&self) -> String {
        let rules = self.context.settings().rules.load();
        let snapshot = self.context.snapshot();
        let all = rules.list.iter().filter_map(|rule| {
            let unknown = unknown_servers(&rule.actions, &snapshot);
            (!unknown.is_empty()).then(|| format!("{} ({}): {unknown}", rule.name, rule.place))
        });
        all.collect::<Vec<_>>().join("; ")
    }

    /// What rules and users' defaults are in force.
    pub(crate) fn config_rules(&self) -> Table {
        let mut table = Table::new(&[
            "kind",
            "name",
            "place",
            "conditions",
            "actions",
            "continue",
            "matched",
            "unknown_servers",
        ]);
        let rules = self.context.settings().rules.load();
        let snapshot = self.context.snapshot();
        for rule in &rules.list {
            table.rows.push(vec![
                "rule".into(),
                (*rule.name).into(),
                rule.place.as_str().into(),
                rule.conditions.to_string().into(),
                rule.actions.to_string().into(),
                rule.goes_on.into(),
                rule.matched.load(Relaxed).into(),
                unknown_servers(&rule.actions, &snapshot).into(),
            ]);
        }
        for user in &rules.users {
            let host = user.host.as_deref();
            table.rows.push(vec![
                "user".into(),
                user.user.as_str().into(),
                Value::Null,
                host.map_or(String::new(), |host| format!("host={host}"))
                    .into(),
                defaults(user).into(),
                Value::Null,
                Value::Null,
                Value::Null,
            ]);
        }
        table
    }
}

/// The names in a rule that no server of the farm has now.
fn unknown_servers(actions: &Actions, snapshot: &Snapshot) -> String {
    let known = |name: &ServerName| {
        let mut servers = snapshot.groups.iter().flat_map(|group| &group.servers);
        name.as_str() == ServerName::PRIMARY || servers.any(|server| name.is(server))
    };
    let servers = actions.servers.iter().flat_map(|servers| &servers.0);
    let mirror = actions.mirror.iter().map(|name| &**name);
    let group = |name: &ServerName| snapshot.group(name.as_str()).is_some();
    let unknown = servers
        .filter(|name| !known(name))
        .chain(mirror.filter(|name| !known(name) && !group(name)));
    let names: Vec<&str> = unknown.map(ServerName::as_str).collect();
    names.join(", ")
}

fn defaults(user: &UserDefaults) -> String {
    let level = user
        .level
        .map(|level| format!("consistency={}", level.name()));
    let max_lag_ms = user.max_lag_ms.map(|ms| format!("max_lag_ms={ms}"));
    let switch = |on| if on { "on" } else { "off" };
    let monotonic = user.monotonic.map(|on| format!("monotonic={}", switch(on)));
    let parts: Vec<String> = [level, max_lag_ms, monotonic]
        .into_iter()
        .flatten()
        .collect();
    parts.join(" ")
}
