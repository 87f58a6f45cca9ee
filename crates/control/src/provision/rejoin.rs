//! What happens with a server that comes back while another one leads its group.
//!
//! It is compared with the primary. Does it hold nothing that the primary lacks, it follows. Does it
//! hold *errant* transactions, these are told, with their GTIDs, and saved to a file; then the server
//! is filled anew by a job (`rejoin_by_clone`), or set faulty with the cure. What cannot be saved is
//! never given up by itself. A server whose replication an operator stopped stays stopped, one that an
//! operator set faulty stays so. What a change of primary stopped, and could not start again, is started.
//!
//! Invariants: a change of primary gets the server at once. Whoever brings it back lets go and begins again later.

use super::Rejoin;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::{Divergence, Link, ThreadError, exchange};
use farm::{Engine, GroupKind, Status};
use meta::private;

use crate::leadership::lead::Lead;
use crate::observe::stance::{Stance, stance};
use crate::provision::jobs::{Aim, State};
use crate::provision::joining::{LOST_OWN, left_by_a_copy};
use catalog::command::CommandError;
use catalog::event::{Event, when};
use catalog::record::ServerRecord;

/// How often servers are looked over.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A server must be astray for so long before anything is done: somebody else may be at it.
const ASTRAY_FOR: Duration = Duration::from_secs(1);

/// After a rejoin that failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The tool that turns saved transactions into text may take so long.
const TOOL_PATIENCE: Duration = Duration::from_secs(60);

/// What became of a server that came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rejoined {
    /// It follows the primary, now or already.
    Follows,
    /// A job fills it anew; it follows when that has ended.
    BeingFilled(String),
    /// It is faulty until an operator has it filled.
    NeedsClone(String),
    /// It is the primary, or stopped by an operator, or broken in a way that needs one.
    LeftAlone(String),
    /// A change of primary has the server, or somebody else brings it back: to be asked for again.
    Later,
}

/// What was found on a server, once all is done there that is done without loss.
enum Found {
    Follows,
    Errant(Divergence),
    /// Only a copy mends it.
    Torn(String),
    Stopped(String),
    Later,
}

impl Rejoin {
    /// Brings a server of a group back that answers again, whatever its record says, as far as that
    /// can be done without loss. Idempotent; filling it anew goes on after this returns.
    ///
    /// # Errors
    /// A server does not answer or refuses a step, or the group has no primary that takes writes.
    pub async fn rejoin_server(&self, lead: &Lead, id: u32) -> Result<Rejoined, CommandError> {
        let _one_at_a_time = self.context.changing.lock().await;
        let record = self.context.member(id)?;
        let primary = self.context.leader_of(&record.group)?;
        if record.status == Status::Primary {
            return Ok(Rejoined::LeftAlone("it is the primary".to_owned()));
        }
        if let Some(job) = self.jobs.fills(&record.address()) {
            return Ok(Rejoined::BeingFilled(job.uuid.clone()));
        }
        // Whom it has to follow is not known while a change of primary has the server. What is recorded of it
        // afterwards is not given up half done.
        let following = self.let_follow(lead, id, &record, &primary);
        let Some(found) = self.links.turns.unless_wanted(id, following).await else {
            return Ok(Rejoined::Later);
        };
        match found? {
            Found::Follows => self.back_in_group(lead, id, record, &primary).await,
            Found::Errant(divergence) => self.give_up_errant(lead, id, record, &divergence).await,
            Found::Torn(why) => self.fill_or_condemn(lead, id, record, &why).await,
            Found::Stopped(why) => Ok(Rejoined::LeftAlone(why)),
            Found::Later => Ok(Rejoined::Later),
        }
    }

    /// Lets a server follow the primary if nothing is lost by that. Each step may be repeated.
    async fn let_follow(
        &self,
        lead: &Lead,
        id: u32,
        record: &ServerRecord,
        primary: &ServerRecord,
    ) -> Result<Found, CommandError> {
        if !self.context.stays_a_replica(id) {
            return Ok(Found::Later);
        }
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self.links.reach(lead, record).await?;
        let mut leader = self.links.reach(lead, primary).await?;
        takes_writes(&mut leader, primary, timeout_ms).await?;
        let seen = engine::probe(&mut link, false, timeout_ms).await?;
        let halted = self.context.state().standing.is_halted(id);
        match stance(&seen, primary, halted) {
            Stance::Follows => return self.follows(id, &mut link).await,
            Stance::Halted => {
                exchange::start(&mut link, timeout_ms).await?;
                return self.follows(id, &mut link).await;
            }
            Stance::Stopped(why) => return Ok(Found::Stopped(why)),
            Stance::Torn(why) => return Ok(Found::Torn(why)),
            Stance::Astray => {}
        }
        if !seen.read_only {
            engine::take_no_writes(&mut link, timeout_ms).await?;
        }
        if let Some(why) = left_by_a_copy(&mut link, &mut leader, timeout_ms).await? {
            return Ok(Found::Torn(why));
        }
        let divergence = engine::divergence(&mut link, &mut leader, timeout_ms).await?;
        if divergence.count > 0 {
            return Ok(Found::Errant(divergence));
        }
        if let Some(why) = beyond_replication(&divergence) {
            return Ok(Found::Torn(why.to_owned()));
        }
        // Not what a crash may have left of its own notes counts, but what it has in its log.
        engine::detach(&mut link, timeout_ms).await?;
        let mended = self.mend_branches(record, [&mut link, &mut leader]);
        if let Err(why) = mended.await? {
            return Ok(Found::Torn(why));
        }
        let login = self.links.replica_login(primary);
        match engine::make_replica(&mut link, &login, timeout_ms).await {
            Ok(()) => {}
            Err(engine::Error::Replication {
                error: Some(error), ..
            }) if needs_a_copy(&error) => {
                engine::detach(&mut link, timeout_ms).await?;
                return Ok(Found::Torn(error.text));
            }
            Err(error) => return Err(error.into()),
        }
        if engine::lost_branches(&mut link, &mut leader, timeout_ms).await? {
            engine::detach(&mut link, timeout_ms).await?;
            let why = "a crash took prepared XA branches from it that its binary log has";
            return Ok(Found::Torn(why.to_owned()));
        }
        let seen = engine::probe(&mut link, false, timeout_ms).await?;
        self.probes.answered(id, seen);
        let detail = format!("{} follows {} again", record.address(), primary.address());
        let event = Event::now("server_rejoined", &record.group, detail);
        self.context
            .happened(event.of(&record.uuid, record.address()));
        self.follows(id, &mut link).await
    }

    /// It follows the primary, and may flush less often where the farm allows that.
    async fn follows(&self, id: u32, link: &mut Link) -> Result<Found, CommandError> {
        let settings = self.context.settings();
        if settings.failover.relaxed_replicas {
            exchange::relax(link, settings.step_timeout_ms).await?;
        }
        self.context.state().standing.goes_on(id);
        Ok(Found::Follows)
    }

    /// Puts right what a crash left of branches on a server; those who may know of some are asked
    /// first. An inner error is why only a copy can.
    pub(crate) async fn mend_branches<const N: usize>(
        &self,
        record: &ServerRecord,
        links: [&mut engine::Link; N],
    ) -> Result<Result<(), String>, engine::Error> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        // The log is read for it: only where there may be any.
        let mut any = self.context.snapshot_now().groups.len() > 1;
        for link in links {
            let prepared = engine::prepared(link, 0, timeout_ms).await?;
            any |= !(prepared.ours.is_empty() && prepared.own.is_empty());
            any |= prepared.others > 0;
        }
        if !any {
            return Ok(Ok(()));
        }
        let address = record.address();
        let login = self.links.login(record);
        match engine::mend_branches(&login, timeout_ms).await {
            Ok(mended) if mended == engine::Mended::default() => Ok(Ok(())),
            Ok(engine::Mended { ended, prepared }) => {
                let detail = format!(
                    "{address} had crashed with XA branches half done: {ended} that its binary log has \
                     the end of were ended, {prepared} were prepared again"
                );
                let event = Event::now("branches_mended", &record.group, detail);
                self.context.happened(event.of(&record.uuid, address));
                Ok(Ok(()))
            }
            Err(error @ (engine::Error::Reply { .. } | engine::Error::Refused { .. })) => {
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(error),
        }
    }

    async fn back_in_group(
        &self,
        lead: &Lead,
        id: u32,
        record: ServerRecord,
        primary: &ServerRecord,
    ) -> Result<Rejoined, CommandError> {
        if record.status == Status::Faulty {
            let group = record.group.clone();
            let mut link = self.links.reach(lead, &record).await?;
            self.links
                .await_acknowledged(lead, &mut link, primary)
                .await?;
            self.provision
                .stand(lead, id, &record, Status::Replica)
                .await?;
            self.links.apply_acks(lead, &group).await?;
        }
        Ok(Rejoined::Follows)
    }

    /// Tells of errant transactions and saves them; only then the server may be filled anew.
    async fn give_up_errant(
        &self,
        lead: &Lead,
        id: u32,
        record: ServerRecord,
        divergence: &Divergence,
    ) -> Result<Rejoined, CommandError> {
        let address = record.address();
        let Divergence { errant, count, .. } = divergence;
        let tell = |kind, detail| {
            let event = Event::now(kind, &record.group, detail);
            self.context
                .happened(event.of(&record.uuid, address.clone()));
        };
        tell(
            "errant_transactions",
            format!("{address} holds {count} transactions that its group has not: {errant}"),
        );
        match self.save_errant(&record, divergence).await {
            Ok(path) => {
                let path = path.display();
                tell(
                    "errant_saved",
                    format!("the {count} transactions {errant} of {address} are saved in {path}"),
                );
                let why = format!("it holds {count} transactions that its group has not: {errant}");
                self.fill_or_condemn(lead, id, record, &why).await
            }
            Err(error) => {
                tell(
                    "errant_unsaved",
                    format!("the transactions {errant} of {address} cannot be saved: {error}"),
                );
                let why = format!("its transactions {errant} cannot be saved: {error}");
                self.condemn(lead, id, record, &why).await
            }
        }
    }

    async fn fill_or_condemn(
        &self,
        lead: &Lead,
        id: u32,
        record: ServerRecord,
        why: &str,
    ) -> Result<Rejoined, CommandError> {
        if !self.context.settings().provision.rejoin_by_clone {
            return self.condemn(lead, id, record, why).await;
        }
        let address = record.address();
        let job = self.provision.start_job(
            Aim::Rebuild { id },
            &record.group,
            address.clone(),
            None,
            None,
        )?;
        let detail = format!("{address} is filled anew (job {}): {why}", job.uuid);
        let event = Event::now("rejoin_by_clone", &record.group, detail);
        self.context.happened(event.of(&record.uuid, address));
        Ok(Rejoined::BeingFilled(job.uuid.clone()))
    }

    async fn condemn(
        &self,
        lead: &Lead,
        id: u32,
        record: ServerRecord,
        why: &str,
    ) -> Result<Rejoined, CommandError> {
        let (group, address) = (record.group.clone(), record.address());
        let detail = format!("{why}; `heddle server clone {group} {address}` fills it anew");
        let event = Event::now("rejoin_failed", &group, format!("{address}: {detail}"));
        self.context.happened(event.of(&record.uuid, address));
        if record.status != Status::Faulty {
            self.provision
                .stand(lead, id, &record, Status::Faulty)
                .await?;
            self.links.apply_acks(lead, &group).await?;
        }
        Ok(Rejoined::NeedsClone(detail))
    }

    /// Writes the errant transactions to a new file; gives the file that a reader should open: text
    /// where the server's own tool is there, else the binary log.
    async fn save_errant(
        &self,
        record: &ServerRecord,
        divergence: &Divergence,
    ) -> Result<PathBuf, CommandError> {
        let dir = self.context.settings().provision.errant_dir.clone();
        let unwritable = |error: std::io::Error| {
            CommandError::Refused(format!("cannot write to {}: {error}", dir.display()))
        };
        private::create_dir(&dir).map_err(unwritable)?;
        let now = Event::now("", "", String::new()).at_ms;
        let name = format!("{}-{}-{}", record.host, record.port, when(now)).replace(':', "");
        let path = dir.join(format!("{name}.binlog"));
        let file = private::create(&path).map_err(unwritable)?;
        let login = self.links.login(record);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let into = (path.as_path(), file);
        let saved = engine::errant::save(&login, record.engine, divergence, into, timeout_ms).await;
        if let Err(error) = saved {
            let _ = std::fs::remove_file(&path);
            return Err(error.into());
        }
        Ok(self.as_text(record.engine, &path).await.unwrap_or(path))
    }

    /// Turns a saved binary log into text beside it with the server's own tool, if that is there.
    async fn as_text(&self, engine: Engine, path: &Path) -> Option<PathBuf> {
        let names: &[&str] = match engine {
            Engine::MariaDb => &["mariadb-binlog", "mysqlbinlog"],
            Engine::MySql => &["mysqlbinlog"],
        };
        let text = path.with_extension("sql");
        let on_path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = self
            .context
            .settings()
            .provision
            .tool_dirs
            .clone()
            .into_iter();
        for dir in dirs.chain(std::env::split_paths(&on_path)) {
            for tool in names.iter().map(|name| dir.join(name)) {
                if tool.is_file() && runs(&tool, path, &text).await {
                    return Some(text);
                }
            }
        }
        None
    }

    /// Brings servers of active groups back that follow nobody, or cannot go on following. Whom it has filled, and
    /// whose job fails, it fills again: such a server is faulty, and nobody else is at it.
    pub(crate) async fn rejoin_when_needed(self: Arc<Self>) {
        let mut astray: BTreeMap<u32, Instant> = BTreeMap::new();
        let mut told: BTreeMap<u32, String> = BTreeMap::new();
        let mut begun: BTreeMap<u32, String> = BTreeMap::new();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let now = Instant::now();
            let Some(lead) = self.context.leadership.lead() else {
                astray.clear();
                continue;
            };
            let mut found: BTreeSet<u32> = self.astray().into_iter().collect();
            found.extend(self.left_unfilled(&mut begun));
            astray.retain(|id, _| found.contains(id));
            told.retain(|id, _| found.contains(id));
            for id in found {
                let since = *astray.entry(id).or_insert(now);
                if now.saturating_duration_since(since) < ASTRAY_FOR {
                    continue;
                }
                match self.rejoin_server(&lead, id).await {
                    Ok(rejoined) => {
                        astray.remove(&id);
                        if let Rejoined::BeingFilled(job) = rejoined {
                            begun.insert(id, job);
                        }
                    }
                    Err(error) => {
                        let error = error.to_string();
                        if told.get(&id) != Some(&error) {
                            self.tell_failed(id, error.clone());
                            told.insert(id, error);
                        }
                        astray.insert(id, now + RETRY_AFTER);
                    }
                }
            }
        }
    }

    fn tell_failed(&self, id: u32, error: String) {
        if let Ok(record) = self.context.member(id) {
            let event = Event::now("rejoin_failed", &record.group, error);
            self.context
                .happened(event.of(&record.uuid, record.address()));
        }
    }

    /// Servers that answer and whose jobs of these have failed; forgets those whose jobs have ended otherwise. What an
    /// operator aborts is left to them.
    fn left_unfilled(&self, begun: &mut BTreeMap<u32, String>) -> Vec<u32> {
        let state = self.context.state();
        let mut unfilled = Vec::new();
        begun.retain(|id, job| {
            let faulty = state.records.servers.get(id);
            let faulty = faulty.is_some_and(|kept| kept.value.status == Status::Faulty);
            let alive = state.seen.get(id).is_some_and(|seen| seen.health.alive);
            match self.jobs.find(job).map(|job| job.state()) {
                Some(State::Running) => true,
                Some(State::Failed(_)) if faulty => {
                    unfilled.extend(alive.then_some(*id));
                    true
                }
                _ => false,
            }
        });
        unfilled
    }

    /// Members of active groups that answer and are astray while their primary takes writes.
    fn astray(&self) -> Vec<u32> {
        let state = self.context.state();
        let leads = |group: &str| {
            let (id, primary) = state.records.primary(group)?;
            let seen = state.seen.get(&id)?;
            (seen.health.alive && !seen.health.read_only).then_some(primary)
        };
        let mut astray = Vec::new();
        for (name, _) in state
            .records
            .groups
            .iter()
            .filter(|(_, kept)| kept.value.active)
        {
            if state.records.kind(name) != GroupKind::Replication {
                continue;
            }
            let Some(primary) = leads(name) else { continue };
            for (id, member) in state.records.members(name) {
                // The router that filled one anew may have ended.
                let counts = match member.status {
                    Status::Replica | Status::Spare => true,
                    Status::Faulty => member.being_filled,
                    Status::Primary => false,
                };
                let seen = state.seen.get(&id).filter(|seen| seen.health.alive);
                let observation = seen.and_then(|seen| seen.observation.as_ref());
                let halted = state.standing.is_halted(id);
                let is_astray = observation.is_some_and(|it| match stance(it, primary, halted) {
                    Stance::Astray | Stance::Torn(_) | Stance::Halted => true,
                    // It may follow already, and nobody has recorded that.
                    Stance::Follows | Stance::Stopped(_) => member.being_filled,
                });
                if counts && is_astray && self.jobs.fills(&member.address()).is_none() {
                    astray.push(id);
                }
            }
        }
        astray
    }
}

/// # Errors
/// The primary is read-only, or does not answer.
async fn takes_writes(
    leader: &mut Link,
    primary: &ServerRecord,
    timeout_ms: u64,
) -> Result<(), CommandError> {
    if !engine::probe(leader, false, timeout_ms).await?.read_only {
        return Ok(());
    }
    let (address, group) = (primary.address(), &primary.group);
    Err(CommandError::Refused(format!(
        "the primary {address} of group {group} takes no writes, so nobody can follow it; see `group health {group}`"
    )))
}

/// Why replication does not bring what a server lacks.
fn beyond_replication(divergence: &Divergence) -> Option<&'static str> {
    if divergence.out_of_reach {
        return Some("what it lacks is no longer in the primary's binary logs");
    }
    divergence.lost_own.then_some(LOST_OWN)
}

/// Only a copy mends what the server's replication stopped with.
fn needs_a_copy(error: &ThreadError) -> bool {
    error.log_is_gone() || error.is_out_of_order()
}

/// Runs the tool on a saved file; false when it failed, and then there is no text.
async fn runs(tool: &Path, saved: &Path, text: &Path) -> bool {
    let Ok(file) = private::create(text) else {
        return false;
    };
    let child = tokio::process::Command::new(tool)
        .args(["--no-defaults", "--verbose"])
        .arg(saved)
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .status();
    let ended = tokio::time::timeout(TOOL_PATIENCE, child).await;
    let worked = matches!(ended, Ok(Ok(status)) if status.success());
    if !worked {
        let _ = std::fs::remove_file(text);
    }
    worked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_in_an_error_is_no_reason_to_copy_a_server() {
        let error = |number, text: &str| ThreadError {
            number,
            text: text.to_owned(),
        };
        let unreachable = "error connecting to master 'repl@10.0.0.7:12365'";
        assert!(!needs_a_copy(&error(2003, unreachable)));
        for number in [1236, 13114, 1950] {
            assert!(needs_a_copy(&error(number, "")));
        }
    }
}
