//! Commands about who leads a group, and reports of servers that fail.

use std::sync::Arc;

use farm::{GroupKind, ServerId, Status};
use machines::failover::{Event, Order};
use serde_json::Value;

use super::group::{done, find_group, no_server};
use crate::context::Context;
use crate::context::drivers::Told;
use crate::failover::FailoverDrivers;
use crate::leadership::lead::Lead;
use crate::links::Links;
use crate::observe::Probes;
use crate::observe::detect::Sign;
use crate::observe::privileges::OwnAccount;
use catalog::command::{Arguments, CommandError, Table};
use catalog::record::{Records, ServerRecord};

/// Longest description of an error in a report.
const REPORT_CHARS_MAX: usize = 200;

/// The commands that change the primary of a group.
pub(crate) struct ThreatCommands {
    context: Arc<Context>,
    links: Arc<Links>,
    own_account: Arc<OwnAccount>,
    probes: Arc<Probes>,
    failover: Arc<FailoverDrivers>,
}

impl ThreatCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        own_account: &Arc<OwnAccount>,
        probes: &Arc<Probes>,
        failover: &Arc<FailoverDrivers>,
    ) -> ThreatCommands {
        ThreatCommands {
            context: Arc::clone(context),
            links: Arc::clone(links),
            own_account: Arc::clone(own_account),
            probes: Arc::clone(probes),
            failover: Arc::clone(failover),
        }
    }
}

impl ThreatCommands {
    /// A switch-over: no client sees an error, and nothing changes where it is refused.
    pub(crate) async fn group_promote(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        let to = {
            let records = &self.context.state().records;
            replicates(records, name)?;
            let only_one = records.members(name).count() < 2;
            match args.get("server_id") {
                _ if only_one => {
                    return Err(CommandError::Refused(format!(
                        "group {name} has no other server that could take over; add one with \
                         `group add {name} HOST:PORT`"
                    )));
                }
                None => None,
                Some(server) => {
                    let found = records.find(server);
                    let found = found.filter(|(_, kept)| kept.value.group == name);
                    let (id, _) = found.ok_or_else(|| no_server(server, Some(name)))?;
                    Some(ServerId(id))
                }
            }
        };
        self.own_account.may_change_primary(name)?;
        let text = self.failover.order(name, Order::Promote { to }).await?;
        done(Value::String(text))
    }

    /// Leaves a group without a primary: what needs one waits until `group promote`.
    pub(crate) async fn group_demote(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        replicates(&self.context.state().records, name)?;
        self.own_account.may_change_primary(name)?;
        let text = self.failover.order(name, Order::Demote).await?;
        done(Value::String(text))
    }

    /// One of many reports: enough of them cast doubt on a primary, each makes a replica be looked at.
    pub(crate) fn threat_report_error(&self, args: &Arguments) -> Result<Table, CommandError> {
        let (id, record) = self.threatened(args)?;
        let by = reporter(args);
        let server = ServerId(id);
        if record.status == Status::Primary {
            let sure = false;
            let event = Event::Reported { server, by, sure };
            self.context.drivers.tell(&record.group, Told::Event(event));
        } else {
            self.probes.doubt(id, Sign::Reported(report(args)));
        }
        done(Value::Bool(true))
    }

    /// Somebody is sure: a primary is replaced unless it greets a new connection, another server is
    /// faulty from now on.
    pub(crate) async fn threat_report_failure(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (id, record) = self.threatened(args)?;
        let what = report(args);
        let event = catalog::Event::now("failure_reported", &record.group, what);
        self.context
            .happened(event.of(&record.uuid, record.address()));
        if record.status == Status::Primary {
            let active = {
                let state = self.context.state();
                find_group(&state.records, &record.group)?.value.active
            };
            if !active {
                return Err(CommandError::Refused(format!(
                    "{} is the primary of group {}, which Heddle does not fail over; `group activate \
                     {}` lets it, `group promote {}` switches over",
                    record.address(),
                    record.group,
                    record.group,
                    record.group
                )));
            }
            let (server, by, sure) = (ServerId(id), reporter(args), true);
            let event = Event::Reported { server, by, sure };
            self.context.drivers.tell(&record.group, Told::Event(event));
        } else if record.status != Status::Faulty {
            // One that has become the primary meanwhile is looked at again.
            let faulty = |server: &mut ServerRecord| match server.status {
                Status::Primary => Err(CommandError::Stale),
                _ => {
                    *server = server.with_status(Status::Faulty);
                    Ok(())
                }
            };
            self.context.edit_server(lead, id, faulty).await?;
            self.links.apply_acks(lead, &record.group).await?;
        }
        done(Value::Bool(true))
    }

    fn threatened(&self, args: &Arguments) -> Result<(u32, ServerRecord), CommandError> {
        let given = args.text("server_id");
        let state = self.context.state();
        let (id, kept) = state
            .records
            .find(given)
            .ok_or_else(|| no_server(given, None))?;
        Ok((id, kept.value.clone()))
    }
}

fn reporter(args: &Arguments) -> String {
    args.get("reporter").unwrap_or("somebody").to_owned()
}

/// «REPORTER says: ERROR».
fn report(args: &Arguments) -> String {
    let error = args.get("error").unwrap_or("it fails");
    let error: String = error.chars().take(REPORT_CHARS_MAX).collect();
    format!("{} reports: {error}", reporter(args))
}

/// The group must be there, and of the kind that has one primary.
fn replicates(records: &Records, name: &str) -> Result<(), CommandError> {
    find_group(records, name)?;
    if records.kind(name) == GroupKind::Media {
        return Err(CommandError::Refused(format!(
            "group {name} is on read-only storage: nothing can be written, so none is promoted"
        )));
    }
    if records.kind(name) == GroupKind::Galera {
        return Err(CommandError::Refused(format!(
            "group {name} is a Galera cluster: every node takes writes, so none is promoted"
        )));
    }
    Ok(())
}
