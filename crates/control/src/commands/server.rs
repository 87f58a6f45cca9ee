//! Commands that change one server.

use std::sync::Arc;

use farm::{Mode, Status};
use serde_json::Value;

use super::group::{done, no_server};
use crate::context::Context;
use crate::leadership::lead::Lead;
use crate::links::Links;
use crate::provision::Provision;
use crate::provision::admission::parse_address;
use crate::provision::cloning::CloneOrder;
use catalog::command::{Arguments, CommandError, Table};
use catalog::configuration::WEIGHT_MAX;
use catalog::event::Event;
use catalog::record::ServerRecord;

/// The commands that change servers.
pub(crate) struct ServerCommands {
    context: Arc<Context>,
    links: Arc<Links>,
    provision: Arc<Provision>,
}

impl ServerCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        provision: &Arc<Provision>,
    ) -> ServerCommands {
        ServerCommands {
            context: Arc::clone(context),
            links: Arc::clone(links),
            provision: Arc::clone(provision),
        }
    }
}

impl ServerCommands {
    /// Changes a server's standing where that needs no promotion. Setting what is already set
    /// changes nothing.
    pub(crate) async fn server_set_status(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (id, mut server) = self.named_server(args)?;
        let given = args.text("status");
        let status = Status::parse(given)
            .ok_or_else(|| args.bad("status", given, "SPARE, SECONDARY or FAULTY"))?;
        let update_only = args.switch("update_only")?;
        if args.get("promotable").is_some() {
            let never = !args.switch("promotable")?;
            if never && server.status == Status::Primary {
                return Err(CommandError::Refused(format!(
                    "{} is the primary of group {}; `group promote {}` first",
                    server.address(),
                    server.group,
                    server.group
                )));
            }
            if never != server.never_primary {
                server.never_primary = never;
                if status == server.status {
                    let edit = |now: &mut ServerRecord| {
                        stays(now, status, |now| now.never_primary = never)
                    };
                    self.context
                        .edit_server_as(lead, &args.author(), id, edit)
                        .await?;
                }
            }
        }
        if status == server.status {
            return done(Value::Bool(true));
        }
        check_transition(&server, status)?;
        if server.status == Status::Faulty && !update_only {
            self.follow_group(lead, &server).await?;
        }
        let group = server.group.clone();
        let edit = |now: &mut ServerRecord| {
            stays(now, server.status, |now| {
                now.status = status;
                now.being_filled = false;
                now.never_primary = server.never_primary;
                // Fabric's rule: a server that replicates is read-only or offline.
                if !status.allows(now.mode) {
                    now.mode = Mode::ReadOnly;
                }
            })
        };
        self.context
            .edit_server_as(lead, &args.author(), id, edit)
            .await?;
        self.links.apply_acks(lead, &group).await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn server_set_mode(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (id, server) = self.named_server(args)?;
        let given = args.text("mode");
        let what = "OFFLINE, READ_ONLY, WRITE_ONLY or READ_WRITE";
        let mode = Mode::parse(given).ok_or_else(|| args.bad("mode", given, what))?;
        if !server.status.allows(mode) {
            let all = [
                Mode::Offline,
                Mode::ReadOnly,
                Mode::WriteOnly,
                Mode::ReadWrite,
            ];
            let allowed: Vec<&str> = all
                .into_iter()
                .filter(|&mode| server.status.allows(mode))
                .map(Mode::name)
                .collect();
            let allowed = if allowed.is_empty() {
                "no mode".to_owned()
            } else {
                allowed.join(" or ")
            };
            return Err(CommandError::Refused(format!(
                "server {} is {} and can only be {allowed}; `server set_status` changes what it is",
                server.address(),
                server.status.fabric_name(),
            )));
        }
        let edit = |now: &mut ServerRecord| stays(now, server.status, |now| now.mode = mode);
        self.context
            .edit_server_as(lead, &args.author(), id, edit)
            .await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn server_set_weight(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (id, _) = self.named_server(args)?;
        let what = "a number above 0 and at most 1000000";
        let weight = args.parse::<f64>("weight", what)?.unwrap_or_default();
        if !(weight > 0.0 && weight <= WEIGHT_MAX) {
            return Err(args.bad("weight", args.text("weight"), what));
        }
        let edit = |now: &mut ServerRecord| {
            now.weight = weight;
            Ok(())
        };
        self.context
            .edit_server_as(lead, &args.author(), id, edit)
            .await?;
        done(Value::Bool(true))
    }

    /// Looks at who answers at the server's address, without a login.
    pub(crate) async fn accept_certificate(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (id, server) = self.named_server(args)?;
        let what = "64 hexadecimal digits";
        let wanted = match args.get("key") {
            None => None,
            Some(text) => {
                Some(catalog::server_key::parse(text).ok_or_else(|| args.bad("key", text, what))?)
            }
        };
        let address = server.address();
        let timeout_ms = self.context.settings().step_timeout_ms;
        let shown = engine::key_at(&self.links.login(&server), timeout_ms).await?;
        let Some(key) = shown else {
            return Err(CommandError::Refused(format!(
                "server {address} shows no certificate that can be read: it has no TLS, or TLS with it fails"
            )));
        };
        if wanted.is_some_and(|wanted| wanted != key) {
            return Err(CommandError::Refused(format!(
                "server {address} shows another key: {}",
                catalog::server_key::text(&key)
            )));
        }
        let text = catalog::server_key::text(&key);
        if server.certificate.as_deref() != Some(&*text) {
            let detail = format!("{address} is known by the key {text}, as an operator says");
            let event = Event::now("certificate_accepted", &server.group, detail);
            let event = event.of(&server.uuid, address.clone());
            let edit = |now: &mut ServerRecord| {
                now.certificate = Some(text.clone());
                Ok(())
            };
            self.context
                .edit_server_as(lead, &args.author(), id, edit)
                .await?;
            self.context.happened(event);
        }
        let mut table = Table::new(&["address", "key"]);
        table.rows.push(vec![address.into(), text.into()]);
        Ok(table)
    }

    /// Asks no server: the account that logs in at the farm's servers has all privileges, and must not be
    /// shown to a stranger.
    pub(crate) fn server_lookup_uuid(&self, args: &Arguments) -> Result<Table, CommandError> {
        let (host, port) = parse_address(args.text("address"))?;
        let known = {
            let state = self.context.state();
            let found = state.records.find(&format!("{host}:{port}"));
            found.map(|(_, kept)| kept.value.uuid.clone())
        };
        let Some(uuid) = known else {
            return Err(CommandError::Refused(format!(
                "{host}:{port} is no server of the farm, and Heddle logs in at no others; `group add` \
                 makes it one"
            )));
        };
        let mut table = Table::new(&["uuid"]);
        table.rows.push(vec![uuid.into()]);
        Ok(table)
    }

    /// Fills a server with a group's data. Fabric's order of arguments.
    pub(crate) async fn server_clone(&self, args: &Arguments) -> Result<Table, CommandError> {
        let (host, port) = parse_address(args.text("destn_address"))?;
        let order = CloneOrder {
            group: args.text("group_id").to_owned(),
            host,
            port,
            source: args.get("source_id").map(str::to_owned),
            force: args.switch("force")?,
            method: args.method()?,
            timeout_ms: args.timeout_ms(self.context.settings().step_timeout_ms)?,
        };
        let waits = args.get("synchronous").is_none() || args.switch("synchronous")?;
        let job = self.provision.order_clone(&order).await?;
        if !waits {
            return Ok(Table::begun(job.uuid.clone()));
        }
        let result = job.outcome().await?;
        Ok(Table::procedure(job.uuid.clone(), result.into()))
    }

    /// Lets a server that was out of the group follow the primary again.
    async fn follow_group(&self, lead: &Lead, server: &ServerRecord) -> Result<(), CommandError> {
        let primary = {
            let state = self.context.state();
            state
                .records
                .primary(&server.group)
                .map(|(_, primary)| primary.clone())
        };
        let Some(primary) = primary else {
            return Err(CommandError::Refused(format!(
                "group {} has no primary that server {} could follow",
                server.group,
                server.address()
            )));
        };
        let mut link = self.links.reach(lead, server).await?;
        self.provision.follow_again(lead, &mut link, &primary).await
    }

    fn named_server(&self, args: &Arguments) -> Result<(u32, ServerRecord), CommandError> {
        let given = args.text("server_id");
        let state = self.context.state();
        let found = state
            .records
            .find(given)
            .map(|(id, kept)| (id, kept.value.clone()));
        found.ok_or_else(|| no_server(given, None))
    }
}

/// Makes a change whose checks went by a server's status, if this is still its status.
fn stays(
    now: &mut ServerRecord,
    status: Status,
    change: impl Fn(&mut ServerRecord),
) -> Result<(), CommandError> {
    if now.status != status {
        return Err(CommandError::Stale);
    }
    change(now);
    Ok(())
}

/// Fabric's transitions, without those that make or end a primary.
fn check_transition(server: &ServerRecord, to: Status) -> Result<(), CommandError> {
    use Status::{Faulty, Primary, Replica, Spare};
    let address = server.address();
    let refused = |why: String| Err(CommandError::Refused(why));
    match (server.status, to) {
        (Spare, Replica | Faulty) | (Replica, Spare | Faulty) | (Faulty, Spare) => Ok(()),
        (Faulty, _) => refused(format!(
            "server {address} is FAULTY and must become SPARE first: `server set_status {address} \
             SPARE` checks it and lets it follow the primary"
        )),
        (_, Primary) => refused(format!(
            "server {address} cannot be made the primary by set_status; a group's first server is its \
             primary; choose SPARE, SECONDARY or FAULTY"
        )),
        (Primary, _) => refused(format!(
            "server {address} is the primary of group {}; its status changes only when another one \
             becomes the primary",
            server.group
        )),
        (same, _) => refused(format!(
            "server {address} is {} already",
            same.fabric_name()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catalog::record::samples::server;

    #[test]
    fn transitions() {
        use Status::{Faulty, Primary, Replica, Spare};
        let check = |from, to| {
            check_transition(&server("g", 1, from), to).map_err(|error| error.to_string())
        };
        for (from, to) in [
            (Spare, Replica),
            (Replica, Spare),
            (Replica, Faulty),
            (Faulty, Spare),
        ] {
            assert_eq!(check(from, to), Ok(()));
        }
        assert!(
            check(Faulty, Replica)
                .expect_err("first SPARE")
                .contains("must become SPARE")
        );
        assert!(
            check(Replica, Primary)
                .expect_err("promotion")
                .contains("set_status")
        );
        assert!(
            check(Primary, Faulty)
                .expect_err("primary")
                .contains("primary of group g")
        );
    }
}
