//! Filling servers: the steps of a job that copies a group's data.
//!
//! Order: the destination is looked at, and refused when it holds what nobody may lose, or cannot
//! follow afterwards; a source is chosen, a replica before the primary; the data are copied; only then
//! the destination gets a place in its group. A copy that fails or is aborted leaves the destination
//! empty and out of the group, and the source as it was.

use super::Provision;
use std::sync::Arc;

use engine::copy::{self, Contents};
use engine::{Link, Login, Observation, Version, exchange, requirements};
use farm::{GroupKind, Mode, Position, Status};

use crate::context::records::no_group;
use crate::context::seen::Seen;
use crate::leadership::lead::Lead;
use crate::provision::admission::Admitted;
use crate::provision::jobs::{Aim, Job, State};
use catalog::Method;
use catalog::command::CommandError;
use catalog::event::Event;
use catalog::record::ServerRecord;

/// A replica that lags by more is not copied: its primary is, or another one that an operator names.
const CATCH_UP_MS: u64 = 5000;

/// What `server clone` was told.
pub(crate) struct CloneOrder {
    pub(crate) group: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The server to copy, by UUID, address or name; any of the group without it.
    pub(crate) source: Option<String>,
    /// What the destination holds may be lost.
    pub(crate) force: bool,
    /// The fastest that can be used without it.
    pub(crate) method: Option<Method>,
    pub(crate) timeout_ms: u64,
}

impl Provision {
    /// Checks an order and makes the job of it. Nothing has been changed when it is refused.
    pub(crate) async fn order_clone(&self, order: &CloneOrder) -> Result<Arc<Job>, CommandError> {
        let refuse = |why: String| Err(CommandError::Refused(why));
        let address = format!("{}:{}", order.host, order.port);
        let records = self.context.state().records.clone();
        if !records.groups.contains_key(&order.group) {
            return refuse(no_group(&order.group));
        }
        if records.kind(&order.group) != GroupKind::Replication {
            return refuse(format!(
                "the servers of group {} fill each other by themselves when they join their cluster",
                order.group
            ));
        }
        let wanted = match &order.source {
            None => None,
            Some(source) => match records.find(source) {
                Some((_, kept)) if kept.value.group == order.group => Some(kept.value.clone()),
                _ => {
                    return refuse(format!(
                        "group {} has no server {source}; `group lookup_servers {}` lists them",
                        order.group, order.group
                    ));
                }
            },
        };
        if wanted
            .as_ref()
            .is_some_and(|source| source.address() == address)
        {
            return refuse(format!("server {address} cannot be copied into itself"));
        }
        let member = records
            .find(&address)
            .map(|(id, kept)| (id, kept.value.clone()));
        let aim = match &member {
            None => Aim::Copy {
                host: order.host.clone(),
                port: order.port,
            },
            Some((id, member)) => {
                may_be_rebuilt(member, &order.group)?;
                if !order.force && self.is_following(*id) {
                    return refuse(format!(
                        "server {address} follows its primary and need not be filled anew; to do it \
                         nevertheless: `server clone {} {address} --force=true`",
                        order.group
                    ));
                }
                Aim::Rebuild { id: *id }
            }
        };
        let login = self.links.login_asked(&order.host, order.port);
        let mut link = Link::open(&login, order.timeout_ms).await?;
        self.fits(&mut link, &order.group, order.timeout_ms).await?;
        if member.is_none() && !order.force {
            nothing_to_lose(&mut link, order).await?;
        }
        self.source_of(&order.group, &address, wanted.as_ref())?;
        self.start_job(aim, &order.group, address, wanted, order.method)
    }

    /// What keeps a server from following the group's primary, whatever its data.
    async fn fits(
        &self,
        link: &mut Link,
        group: &str,
        timeout_ms: u64,
    ) -> Result<(), CommandError> {
        let address = link.address().to_owned();
        let refuse = |why: String| {
            Err(CommandError::Refused(format!(
                "server {address} cannot be filled from group {group}: {why}"
            )))
        };
        let version = link.version().clone();
        if let Some(objection) = version.objection() {
            return refuse(objection);
        }
        let oldest = self.oldest_allowed(group);
        if let Some(theirs) = oldest
            && (theirs.engine != version.engine || theirs.release() > version.release())
        {
            return refuse(format!(
                "it runs {} {version}, the group {} {theirs}; upgrade it to that version or a newer one",
                version.engine.name(),
                theirs.engine.name()
            ));
        }
        let missing = requirements::missing(link, timeout_ms).await?;
        let mut essential = missing.iter().filter(|it| it.requirement.essential);
        if let Some(first) = essential.next() {
            let more: String = essential.map(|it| format!("; {}", it.cure())).collect();
            let reason = first.requirement.reason;
            return refuse(format!("{}{more} ({reason})", first.cure()));
        }
        let seen = engine::probe(link, false, timeout_ms).await?;
        let twin = self.member_with_id(group, &address, &seen);
        if let Some(twin) = twin {
            return refuse(format!(
                "it has server_id {}, as {twin} has (is it the same server?); give it a server_id of \
                 its own in its configuration and restart it",
                seen.server_id
            ));
        }
        Ok(())
    }

    /// The version of the group's primary: a replica must not be older.
    fn oldest_allowed(&self, group: &str) -> Option<Version> {
        let state = self.context.state();
        let (_, primary) = state.records.primary(group)?;
        Version::parse(&primary.version)
    }

    /// It answers and both of its replication threads run.
    fn is_following(&self, id: u32) -> bool {
        let state = self.context.state();
        let seen = state.seen.get(&id);
        seen.is_some_and(|seen| seen.health.alive && seen.replicates())
    }

    fn member_with_id(&self, group: &str, address: &str, seen: &Observation) -> Option<String> {
        let state = self.context.state();
        let mut members = state.records.members(group);
        let twin = members.find(|(id, member)| {
            let other = state
                .seen
                .get(id)
                .and_then(|seen| seen.observation.as_ref());
            member.address() != address
                && other.is_some_and(|other| other.server_id == seen.server_id)
        });
        twin.map(|(_, member)| member.address())
    }

    /// Whom to copy: the server that was named, else a replica that follows, else the primary.
    fn source_of(
        &self,
        group: &str,
        destination: &str,
        wanted: Option<&ServerRecord>,
    ) -> Result<ServerRecord, CommandError> {
        let state = self.context.state();
        let alive = |id: u32| state.seen.get(&id).is_some_and(|seen| seen.health.alive);
        let follows = |id: u32| state.seen.get(&id).is_some_and(Seen::replicates);
        let mut usable: Vec<(u32, &ServerRecord)> = state
            .records
            .members(group)
            .filter(|(id, server)| alive(*id) && server.address() != destination)
            .filter(|(id, server)| match server.status {
                Status::Primary => true,
                Status::Replica | Status::Spare => follows(*id),
                Status::Faulty => false,
            })
            .collect();
        // A spare serves nobody, so it is the first to be asked.
        usable.sort_by_key(|(id, server)| (server.status as u8, *id));
        let chosen = match wanted {
            Some(wanted) => usable.iter().find(|(_, server)| server.uuid == wanted.uuid),
            None => usable.first(),
        };
        chosen.map(|(_, server)| (*server).clone()).ok_or_else(|| {
            CommandError::Refused(match wanted {
                Some(wanted) => format!(
                    "server {} does not answer or does not replicate, so it cannot be copied; choose \
                     another source",
                    wanted.address()
                ),
                None => format!(
                    "group {group} has no server that could be copied; see `group health {group}`"
                ),
            })
        })
    }

    /// As [`Control::source_of`], but nobody who holds transactions that the group has not: the copy would
    /// hold them, too. Nor one that lacks something that the destination itself wrote: a server that replicates
    /// passes over what bears its own `server_id`, and would lack it for ever.
    pub(crate) async fn sound_source(&self, job: &Job) -> Result<ServerRecord, CommandError> {
        let wanted = job.wanted_source.as_ref();
        let source = self.source_of(&job.group, &job.destination, wanted)?;
        if source.status == Status::Primary {
            return Ok(source);
        }
        let primary = self.context.leader_of(&job.group)?;
        let lead = &self.context.leadership.must_lead()?;
        let (mut link, mut leader) = (
            self.links.reach(lead, &source).await?,
            self.links.reach(lead, &primary).await?,
        );
        let timeout_ms = self.context.settings().step_timeout_ms;
        let errant = engine::divergence(&mut link, &mut leader, timeout_ms).await?;
        let why = if errant.count > 0 {
            format!(
                "holds transactions that its group has not: {}",
                errant.errant
            )
        } else if !self.has_all_of(&mut link, &mut leader).await? {
            "is far behind its primary".to_owned()
        } else {
            return Ok(source);
        };
        if wanted.is_some() {
            return Err(CommandError::Refused(format!(
                "server {} {why}; choose another source",
                source.address()
            )));
        }
        self.source_of(&job.group, &job.destination, Some(&primary))
    }

    /// Whether a replica has applied, before long, all that its primary has now. A destination writes nothing that
    /// the group gets, so this holds all that it ever wrote.
    async fn has_all_of(&self, link: &mut Link, leader: &mut Link) -> Result<bool, engine::Error> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let all = exchange::look(leader, timeout_ms).await?.executed;
        match exchange::apply(link, &all, CATCH_UP_MS.min(timeout_ms)).await {
            Ok(()) => Ok(true),
            Err(engine::Error::Timeout { .. } | engine::Error::Replication { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Runs a job to its end.
    pub(crate) async fn carry_out(self: Arc<Self>, job: Arc<Job>) {
        let begin = format!(
            "filling {} with the data of group {}",
            job.destination, job.group
        );
        self.context
            .happened(self.of_job(&job, "clone_started", begin));
        let outcome = tokio::select! {
            outcome = self.work(&job) => outcome.map_err(Some),
            () = job.aborted() => Err(None),
        };
        let (kind, detail, state) = match outcome {
            Ok(uuid) => ("clone_done", holds(&job), State::Done(uuid)),
            Err(error) => {
                let left = self.clean_up(&job).await;
                if !job.ends_with_router() {
                    self.is_given_up(&job).await;
                }
                match error {
                    Some(error) => {
                        let error = with_leftovers(error, left);
                        ("clone_failed", error.to_string(), State::Failed(error))
                    }
                    None => {
                        let left = left.map_or(String::new(), |left| format!("; {left}"));
                        let detail = format!("filling {} was aborted{left}", job.destination);
                        ("clone_aborted", detail, State::Aborted)
                    }
                }
            }
        };
        job.progress.enter(detail.clone());
        self.context.happened(self.of_job(&job, kind, detail));
        job.end(state);
    }

    async fn work(&self, job: &Job) -> Result<String, CommandError> {
        if let Aim::Rebuild { id } = job.aim {
            self.set_aside(id).await?;
        }
        let position = self.fill(job).await?;
        match &job.aim {
            Aim::Copy { .. } => Ok(position.to_string()),
            Aim::Join(newcomer) => {
                job.progress.enter("joins the group");
                let _one_at_a_time = self.context.changing.lock().await;
                let lead = &self.context.leadership.must_lead()?;
                match self.admit(lead, newcomer).await? {
                    Admitted::Member(uuid) => Ok(uuid),
                    Admitted::NeedsCopy(why) => Err(CommandError::Refused(why)),
                }
            }
            Aim::Rebuild { id } => {
                job.progress.enter("follows the primary");
                let _one_at_a_time = self.context.changing.lock().await;
                self.follow_after_copy(*id, &position).await
            }
        }
    }

    /// A server that is copied anew takes no part meanwhile.
    async fn set_aside(&self, id: u32) -> Result<(), CommandError> {
        let _one_at_a_time = self.context.changing.lock().await;
        let record = self.context.member(id)?;
        if record.status == Status::Faulty {
            return Ok(());
        }
        may_be_rebuilt(&record, &record.group.clone())?;
        let group = record.group.clone();
        let lead = &self.context.leadership.must_lead()?;
        let edit = |server: &mut ServerRecord| {
            if server.status != record.status {
                return Err(CommandError::Stale);
            }
            *server = server.with_status(Status::Faulty);
            server.being_filled = true;
            Ok(())
        };
        self.context.edit_server(lead, id, edit).await?;
        self.links.apply_acks(lead, &group).await
    }

    /// Nobody goes on with a job that failed or was aborted, unless somebody orders it anew.
    async fn is_given_up(&self, job: &Job) {
        if let (Aim::Rebuild { id }, Some(lead)) = (&job.aim, self.context.leadership.lead()) {
            let edit = |server: &mut ServerRecord| {
                server.being_filled = false;
                Ok(())
            };
            // A server that has left needs nothing.
            let _ = self.context.edit_server(&lead, *id, edit).await;
        }
    }

    async fn follow_after_copy(
        &self,
        id: u32,
        position: &Position,
    ) -> Result<String, CommandError> {
        let record = self.context.member(id)?;
        let primary = self.context.leader_of(&record.group)?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        let lead = &self.context.leadership.must_lead()?;
        let mut link = self.links.reach(lead, &record).await?;
        engine::make_replica(&mut link, &self.links.replica_login(&primary), timeout_ms).await?;
        self.links
            .await_acknowledged(lead, &mut link, &primary)
            .await?;
        let seen = engine::probe(&mut link, false, timeout_ms).await?;
        self.probes.answered(id, seen);
        let (uuid, group, address) = (record.uuid.clone(), record.group.clone(), record.address());
        self.stand(lead, id, &record, Status::Replica).await?;
        self.links.apply_acks(lead, &group).await?;
        let detail = format!("{address} was filled anew at {position} and follows its primary");
        self.context
            .happened(Event::now("server_rebuilt", &group, detail).of(&uuid, address));
        Ok(uuid)
    }

    /// Records a member's new standing, unless it is no longer the one of `record`; a member that does
    /// not lead is read-only or offline.
    pub(crate) async fn stand(
        &self,
        lead: &Lead,
        id: u32,
        record: &ServerRecord,
        status: Status,
    ) -> Result<(), CommandError> {
        let edit = |server: &mut ServerRecord| {
            if server.status != record.status {
                return Err(CommandError::Refused(format!(
                    "{} became {} meanwhile",
                    server.address(),
                    server.status.fabric_name()
                )));
            }
            server.status = status;
            server.being_filled = false;
            if !status.allows(server.mode) {
                server.mode = Mode::ReadOnly;
            }
            Ok(())
        };
        self.context.edit_server(lead, id, edit).await
    }

    pub(crate) fn destination_login(&self, job: &Job) -> Result<Login, CommandError> {
        Ok(match &job.aim {
            Aim::Copy { host, port } => self.links.login_asked(host, *port),
            Aim::Join(newcomer) => self.links.login_asked(&newcomer.host, newcomer.port),
            Aim::Rebuild { id } => {
                let record = self.context.member(*id)?;
                self.links.login(&record)
            }
        })
    }

    /// Empties the destination of a copy that was begun. What could not be done is said.
    async fn clean_up(&self, job: &Job) -> Option<String> {
        let login = self.destination_login(job).ok()?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        let begun = async {
            self.end_clone(job, &login).await?;
            let mut link = Link::open(&login, timeout_ms).await?;
            Ok::<_, engine::Error>(copy::contents(&mut link, timeout_ms).await?.unfinished)
        };
        let wiped = match begun.await {
            Ok(false) => return None,
            Ok(true) => copy::wipe(&login, timeout_ms).await,
            Err(error) => Err(error),
        };
        let error = wiped.err()?;
        Some(format!(
            "{} could not be emptied ({error}); the next copy into it will do so",
            job.destination
        ))
    }

    pub(crate) fn of_job(&self, job: &Job, kind: &'static str, detail: String) -> Event {
        let uuid = {
            let state = self.context.state();
            let found = state.records.find(&job.destination);
            found.map(|(_, kept)| kept.value.uuid.clone())
        };
        let event = Event::now(kind, &job.group, format!("{detail} (job {})", job.uuid));
        event.of(&uuid.unwrap_or_default(), job.destination.clone())
    }
}

/// What a job has done, for people.
fn holds(job: &Job) -> String {
    let [rows, bytes, tables, _] = job.counts();
    let what = match job.method() {
        None | Some(Method::Copy) => format!("{tables} tables, {rows} rows, "),
        Some(_) => String::new(),
    };
    let by = job.method().unwrap_or(Method::Copy).words();
    let rate = job.progress.bytes_per_s().unwrap_or(0) / 1_000_000;
    let (to, from) = (&job.destination, job.source());
    let logs = match job.has_logs() {
        true => ", with its binary logs",
        false => "",
    };
    format!("{to} holds a copy of {from}: {what}{bytes} bytes by {by}, {rate} MB/s{logs}")
}

fn with_leftovers(error: CommandError, left: Option<String>) -> CommandError {
    let Some(left) = left else { return error };
    match error {
        CommandError::Internal(text) => CommandError::Internal(format!("{text}; {left}")),
        other => CommandError::Refused(format!("{other}; {left}")),
    }
}

/// A primary is never filled.
fn may_be_rebuilt(member: &ServerRecord, group: &str) -> Result<(), CommandError> {
    let address = member.address();
    let why = if member.group != group {
        format!(
            "server {address} is in group {}; `group remove {} {address}` first",
            member.group, member.group
        )
    } else if member.status == Status::Primary {
        format!(
            "server {address} is the primary of group {group}: others are filled from it, never it"
        )
    } else {
        return Ok(());
    };
    Err(CommandError::Refused(why))
}

async fn nothing_to_lose(link: &mut Link, order: &CloneOrder) -> Result<(), CommandError> {
    let Contents {
        objects,
        unfinished,
    } = copy::contents(link, order.timeout_ms).await?;
    if objects == 0 || unfinished {
        return Ok(());
    }
    Err(CommandError::Refused(format!(
        "server {} holds {objects} tables, views or routines that would be lost; drop them, or say \
         `server clone {} {} --force=true`",
        link.address(),
        order.group,
        link.address()
    )))
}
