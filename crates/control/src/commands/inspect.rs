//! Commands that show something: groups, servers, health, events, sessions, the commands themselves.

use std::sync::Arc;

use farm::{Group, GroupKind, Kill, Killed, Mode, Server, Status, Victim};
use serde_json::Value;

use super::group::{find_group, no_server};
use crate::background::Background;
use crate::context::Context;
use crate::observe::privileges::OwnAccount;
use crate::peers::routers::PeerRouters;
use crate::sessions::SessionInfo;
use catalog::command::{Arguments, CommandError, TABLE, Table};
use catalog::event::when;
use catalog::record::ServerRecord;

/// The commands that show groups, sessions and this router.
pub(crate) struct InspectCommands {
    context: Arc<Context>,
    background: Arc<Background>,
    own_account: Arc<OwnAccount>,
    peers: Arc<PeerRouters>,
}

impl InspectCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        background: &Arc<Background>,
        own_account: &Arc<OwnAccount>,
        peers: &Arc<PeerRouters>,
    ) -> InspectCommands {
        InspectCommands {
            context: Arc::clone(context),
            background: Arc::clone(background),
            own_account: Arc::clone(own_account),
            peers: Arc::clone(peers),
        }
    }
}

impl InspectCommands {
    pub(crate) fn group_lookup_servers(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        let status =
            match args.get("status") {
                None => None,
                Some(text) => Some(Status::parse(text).ok_or_else(|| {
                    args.bad("status", text, "FAULTY, SPARE, SECONDARY or PRIMARY")
                })?),
            };
        let mode = match args.get("mode") {
            None => None,
            Some(text) => Some(Mode::parse(text).ok_or_else(|| {
                args.bad("mode", text, "OFFLINE, READ_ONLY, WRITE_ONLY or READ_WRITE")
            })?),
        };
        let state = self.context.state();
        find_group(&state.records, name)?;
        let only = match args.get("server_id") {
            None => None,
            Some(server) => {
                let found = state
                    .records
                    .find(server)
                    .filter(|(_, kept)| kept.value.group == name);
                Some(found.ok_or_else(|| no_server(server, Some(name)))?.0)
            }
        };
        drop(state);
        Ok(self.servers_of(name, |id, server| {
            only.is_none_or(|only| only == id)
                && status.is_none_or(|status| status == server.status)
                && mode.is_none_or(|mode| mode == server.mode)
        }))
    }

    /// The servers of a group in Fabric's columns.
    pub(crate) fn servers_of(
        &self,
        group: &str,
        asked: impl Fn(u32, &ServerRecord) -> bool,
    ) -> Table {
        let mut table = Table::new(&["server_uuid", "address", "status", "mode", "weight"]);
        let state = self.context.state();
        for (id, server) in state.records.members(group) {
            if asked(id, server) {
                table.rows.push(vec![
                    server.uuid.as_str().into(),
                    server.address().into(),
                    server.status.fabric_name().into(),
                    server.mode.name().into(),
                    server.weight.into(),
                ]);
            }
        }
        table
    }

    /// The servers of all groups, as the tables about the farm have them.
    pub(crate) fn server_list(&self) -> Table {
        let mut table = Table::new(&[
            "server_uuid",
            "address",
            "name",
            "group_id",
            "status",
            "mode",
            "weight",
            "is_alive",
            "read_only",
            "promotable",
            "engine",
            "version",
            "lag_ms",
            "gtid",
            "error",
            "io_error",
            "sql_error",
        ]);
        let snapshot = self.context.snapshot();
        for server in snapshot.groups.iter().flat_map(|group| &group.servers) {
            let record = self.context.record_of(server.id.0);
            table.rows.push(vec![
                (*server.uuid).into(),
                server.address().into(),
                (*server.name).into(),
                (*server.group).into(),
                server.status.fabric_name().into(),
                server.mode.name().into(),
                server.weight.into(),
                server.health.alive.into(),
                server.health.read_only.into(),
                record.is_some_and(|it| !it.never_primary).into(),
                server.engine.name().into(),
                (*server.version).into(),
                lag_ms(server),
                server.health.gtid.as_str().into(),
                server.health.error.as_str().into(),
                server.health.io_error.as_str().into(),
                server.health.sql_error.as_str().into(),
            ]);
        }
        table
    }

    pub(crate) fn group_lookup_groups(&self, args: &Arguments) -> Result<Table, CommandError> {
        let only = args.get("group_id");
        let state = self.context.state();
        if let Some(name) = only {
            find_group(&state.records, name)?;
        }
        let mut table = Table::new(&["group_id", "description", "failure_detector", "master_uuid"]);
        for (name, kept) in &state.records.groups {
            if only.is_some_and(|only| only != name) {
                continue;
            }
            let primary = state.records.primary(name);
            table.rows.push(vec![
                name.as_str().into(),
                kept.value.description.as_str().into(),
                kept.value.active.into(),
                primary.map_or(Value::Null, |(_, server)| server.uuid.as_str().into()),
            ]);
        }
        Ok(table)
    }

    pub(crate) fn group_health(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        find_group(&self.context.state().records, name)?;
        let snapshot = self.context.snapshot();
        Ok(snapshot
            .group(name)
            .map_or_else(Table::default, |group| self.health(group)))
    }

    /// Fabric's columns, then ours. For the primary the columns about replication are false.
    fn health(&self, group: &Group) -> Table {
        let mut table = Table::new(&[
            "uuid",
            "is_alive",
            "status",
            "is_not_running",
            "is_not_configured",
            "io_not_running",
            "sql_not_running",
            "io_error",
            "sql_error",
            "lag_ms",
            "address",
            "read_only",
            "promotable",
            "gtid",
            "error",
            "privileges_missing",
            "version",
        ]);
        for server in &group.servers {
            let [not_running, not_configured, io_not_running, sql_not_running] = match group.kind {
                // It follows nobody, and that is right.
                GroupKind::Media => [false; 4],
                _ => replication(server),
            };
            let record = self.context.record_of(server.id.0);
            table.rows.push(vec![
                (*server.uuid).into(),
                server.health.alive.into(),
                server.status.fabric_name().into(),
                not_running.into(),
                not_configured.into(),
                io_not_running.into(),
                sql_not_running.into(),
                server.health.io_error.as_str().into(),
                server.health.sql_error.as_str().into(),
                lag_ms(server),
                server.address().into(),
                server.health.read_only.into(),
                record.is_some_and(|it| !it.never_primary).into(),
                server.health.gtid.as_str().into(),
                server.health.error.as_str().into(),
                self.own_account.missing(server.id.0).into(),
                (*server.version).into(),
            ]);
        }
        table
    }

    pub(crate) fn group_events(&self, args: &Arguments) -> Result<Table, CommandError> {
        // A group that was destroyed still has events, so any name may be asked for.
        let only = args.get("group_id");
        let mut table = Table::new(&[
            "when",
            "group_id",
            "event",
            "server_uuid",
            "address",
            "detail",
        ]);
        for event in self.context.events() {
            if only.is_some_and(|only| only != event.group) {
                continue;
            }
            table.rows.push(vec![
                event.when().into(),
                event.group.into(),
                event.kind.into(),
                event.server.into(),
                event.address.into(),
                event.detail.into(),
            ]);
        }
        Ok(table)
    }

    /// A row for each step. What is not over has no time yet.
    pub(crate) fn group_failovers(&self, args: &Arguments) -> Table {
        let mut table = Table::new(&[
            "when", "group_id", "cause", "step", "server", "began_ms", "took_ms", "detail",
        ]);
        let ms = |us: u64| Value::from((us / 100) as f64 / 10.0);
        let named = |id: Option<u32>| {
            let record = id.and_then(|id| self.context.record_of(id));
            record.map(|record| record.name).unwrap_or_default()
        };
        for change in self.context.failovers.list(args.get("group_id")) {
            let mut row = |step: &str, server, began_us, took_us: Option<u64>, detail: &str| {
                table.rows.push(vec![
                    when(change.at_ms).into(),
                    change.group.clone().into(),
                    change.cause.into(),
                    step.into(),
                    named(server).into(),
                    ms(began_us),
                    took_us.map_or(Value::Null, ms),
                    detail.into(),
                ]);
            };
            for step in &change.steps {
                row(
                    step.step,
                    step.server,
                    step.began_us,
                    step.took_us,
                    &step.detail,
                );
            }
            if let Some((primary, at_us)) = change.published {
                row("publish", Some(primary), 0, Some(at_us), "clients go on");
            }
        }
        table
    }

    pub(crate) async fn session_list(&self) -> Result<Table, CommandError> {
        self.background
            .in_turn(|sessions| listed(sessions.list()))
            .await
    }

    pub(crate) fn statistics_list(&self, args: &Arguments) -> Table {
        let pattern = args.get("pattern").unwrap_or("%");
        let mut table = Table::new(&["name", "value"]);
        for (name, value) in self.context.sessions.counted() {
            if farm::account::like(pattern.as_bytes(), name.as_bytes()) {
                table.rows.push(vec![name.into(), value.into()]);
            }
        }
        table
    }

    /// The session may be another router's: its id says whose.
    pub(crate) async fn session_kill(&self, args: &Arguments) -> Result<Table, CommandError> {
        let what = "a number from `session list`";
        let id = args.parse::<u32>("session_id", what)?.unwrap_or_default();
        let kill = Kill {
            spares_system: false,
            victim: Victim::Session(id),
            query: args.switch("query")?,
            soft: false,
            only: None,
        };
        let mut killed = self.context.sessions.kill(&kill);
        if killed == Killed::Sessions(0) {
            let elsewhere = self.peers.kill_elsewhere(&kill).await;
            killed = elsewhere.map_err(CommandError::Internal)?;
        }
        if killed == Killed::Sessions(0) {
            return Err(CommandError::Refused(format!(
                "no router has a session {id}; `session list` shows them"
            )));
        }
        super::group::done(Value::Bool(true))
    }

    pub(crate) fn manage_ping(&self) -> Result<Table, CommandError> {
        let mut table = Table::new(&["farm_id", "version", "uptime_s", "epoch"]);
        let snapshot = self.context.snapshot();
        table.rows.push(vec![
            (*snapshot.farm_id).into(),
            self.context.settings().version.as_str().into(),
            self.context.started.elapsed().as_secs().into(),
            snapshot.epoch.into(),
        ]);
        Ok(table)
    }

    pub(crate) fn manage_help(&self, args: &Arguments) -> Result<Table, CommandError> {
        let (group, command) = (args.get("group"), args.get("command"));
        if let (Some(group), Some(command)) = (group, command) {
            catalog::command::find(group, command)?;
        }
        let mut table = Table::new(&["command", "help"]);
        for spec in TABLE {
            let asked = group.is_none_or(|group| group == spec.group)
                && command.is_none_or(|command| command == spec.command);
            if asked {
                table.rows.push(vec![spec.usage().into(), spec.help.into()]);
            }
        }
        Ok(table)
    }
}

/// Sessions as `session list` shows them.
fn listed(sessions: Vec<SessionInfo>) -> Table {
    let mut table = Table::new(&[
        "id",
        "user",
        "client",
        "door",
        "database",
        "command",
        "time_ms",
        "state",
        "server",
        "pins",
        "pinned_ms",
        "digest",
        "tag",
        "trace",
    ]);
    for session in sessions {
        table.rows.push(vec![
            session.id.into(),
            session.user.into(),
            session.client.into(),
            session.door.into(),
            session.database.into(),
            session.command.into(),
            session.time_ms.into(),
            session.state.into(),
            session.server.into(),
            session.pins.into(),
            session.pinned_ms.into(),
            session.digest.into(),
            session.tag.into(),
            session.trace.into(),
        ]);
    }
    table
}

/// Milliseconds behind the primary, by this router's heartbeat; null while they are not known.
fn lag_ms(server: &Server) -> Value {
    let ms = |us: u64| (us as f64 / 100.0).round() / 10.0;
    server.lag_us().map_or(Value::Null, |us| ms(us).into())
}

/// What is wrong with a server's replication: not running at all, not configured, IO, SQL.
fn replication(server: &Server) -> [bool; 4] {
    if server.status == Status::Primary || !server.health.alive {
        return [false; 4];
    }
    match (server.health.io_running, server.health.sql_running) {
        (Some(io), Some(sql)) => [!io && !sql, false, !io, !sql],
        _ => [false, true, false, false],
    }
}
