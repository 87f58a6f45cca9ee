//! How the data get into a server: by MySQL's clone plugin, by a backup of files, or by a copy over SQL.
//!
//! Order: the fastest method that can is tried; when it fails it is tried once more, perhaps from
//! another source; then the copy over SQL, which needs nothing but connections. Who names a method gets
//! that one or an error. What was chosen, and why nothing faster, is said in one event per job.
//!
//! Invariant: after a failure the destination is empty or as it was, and the next attempt takes it so.

use std::time::{Duration, Instant};

use catalog::Method;
use engine::clone_plugin::{self, Ended, Look, Order};
use engine::copy;
use engine::{Link, Login};
use farm::{Engine, Position};

use crate::provision::Provision;
use crate::provision::backup::{BackupOrder, Filled};
use crate::provision::jobs::Job;
use catalog::command::CommandError;
use catalog::identity;
use catalog::record::ServerRecord;

/// How often a fast method is tried before the copy over SQL is.
const FAST_TRIES: u32 = 2;

/// Pause before the next attempt: by then the probes know who died.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Servers that died in an attempt are waited for so long before the next one.
const BACK_WITHIN: Duration = Duration::from_secs(60);

/// Pause between two looks at a server that restarts.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A server that is gone for so long is probably not started again by anybody.
const GONE_FOR: Duration = Duration::from_secs(20);

/// A process whose clone has ended answers for so long at most before it ends, too.
const ENDS_WITHIN: Duration = Duration::from_secs(60);

/// Who is copied, and into whom.
struct Ends {
    source: ServerRecord,
    from: Login,
    to: Login,
}

/// The method for the next attempt, and why it is no faster one.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    method: Method,
    why_not_faster: Option<String>,
}

/// Chooses, given what speaks against the engine's fast method.
fn choose(
    wanted: Option<Method>,
    engine: Engine,
    objection: Option<String>,
    failures: u32,
) -> Result<Choice, String> {
    let fast = Method::fast(engine);
    let choice = |method, why_not_faster| {
        Ok(Choice {
            method,
            why_not_faster,
        })
    };
    match wanted {
        Some(Method::Copy) => choice(Method::Copy, None),
        Some(method) if method != fast => Err(format!(
            "{} is for the other engine; leave the method out, or choose {} or copy",
            method.words(),
            fast.name()
        )),
        Some(method) => match objection {
            None => choice(method, None),
            Some(why) => Err(format!("{} cannot be used: {why}", method.words())),
        },
        None if failures >= FAST_TRIES => {
            let why = format!("{} failed {failures} times", fast.words());
            choice(Method::Copy, Some(why))
        }
        None => match objection {
            None => choice(fast, None),
            Some(why) => choice(Method::Copy, Some(why)),
        },
    }
}

impl Provision {
    /// Fills a job's destination; gives the position that it has then.
    pub(crate) async fn fill(&self, job: &Job) -> Result<Position, CommandError> {
        let mut failures = 0;
        let mut told = None;
        loop {
            let ends = self.ends(job, failures).await?;
            job.copies_from(ends.source.address());
            let objection = match job.wanted_method {
                Some(Method::Copy) => None,
                wanted => self.objection(&ends, wanted).await?,
            };
            let choice = choose(job.wanted_method, ends.source.engine, objection, failures);
            let Choice {
                method,
                why_not_faster,
            } = choice.map_err(|why| {
                CommandError::Refused(format!(
                    "server {} cannot be filled so: {why}",
                    job.destination
                ))
            })?;
            job.fills_by(method);
            if told != Some(method) {
                told = Some(method);
                let why =
                    why_not_faster.map_or(String::new(), |why| format!("; not faster: {why}"));
                let (to, from) = (&job.destination, ends.source.address());
                let detail = format!("{to} is filled from {from} by {}{why}", method.words());
                self.context
                    .happened(self.of_job(job, "clone_method", detail));
            }
            let outcome = match method {
                Method::Clone => self.by_clone(job, &ends).await,
                Method::Backup => self.by_backup(job, &ends).await,
                Method::Copy => {
                    let timeout_ms = self.context.settings().step_timeout_ms;
                    let copied = copy::copy(&ends.from, &ends.to, &job.progress, timeout_ms).await;
                    return Ok(copied?);
                }
            };
            let error = match outcome {
                Ok(position) => return Ok(position),
                Err(error) => error,
            };
            failures += 1;
            if failures >= FAST_TRIES && job.wanted_method.is_some() {
                return Err(error);
            }
            let (to, what) = (&job.destination, method.words());
            let detail = format!("filling {to} by {what} failed and is tried again: {error}");
            job.progress.enter(detail.clone());
            self.context
                .happened(self.of_job(job, "clone_repeated", detail));
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    /// Both ends of the next attempt. Behind a failure they are waited for: who died may be on its way back.
    async fn ends(&self, job: &Job, failures: u32) -> Result<Ends, CommandError> {
        let since = Instant::now();
        loop {
            match self.ends_now(job).await {
                Err(_) if failures > 0 && since.elapsed() < BACK_WITHIN => {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                other => return other,
            }
        }
    }

    async fn ends_now(&self, job: &Job) -> Result<Ends, CommandError> {
        let source = self.sound_source(job).await?;
        let ends = Ends {
            from: self.links.login(&source),
            to: self.destination_login(job)?,
            source,
        };
        for login in [&ends.from, &ends.to] {
            Link::open(login, self.context.settings().step_timeout_ms).await?;
        }
        Ok(ends)
    }

    /// What speaks against the engine's fast method, before anything is changed.
    async fn objection(
        &self,
        ends: &Ends,
        wanted: Option<Method>,
    ) -> Result<Option<String>, CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        match ends.source.engine {
            Engine::MariaDb => {
                let (from, to) = (address(&ends.from), address(&ends.to));
                Ok(self
                    .context
                    .settings()
                    .provision
                    .backup
                    .objection(&from, &to))
            }
            Engine::MySql => {
                let mut donor = Link::open(&ends.from, timeout_ms).await?;
                let mut recipient = Link::open(&ends.to, timeout_ms).await?;
                let ours = clone_plugin::look(&mut donor, timeout_ms).await?;
                let theirs = clone_plugin::look(&mut recipient, timeout_ms).await?;
                if let Some(why) = clone_plugin::objection(&ours, &theirs, &ends.from.tls) {
                    return Ok(Some(why));
                }
                // Behind a clone the server ends, and stays down where nobody starts it: who knows that
                // somebody does names the method.
                let to = address(&ends.to);
                if wanted.is_none() && !self.context.settings().provision.backup.restarts(&to) {
                    return Ok(Some(format!(
                        "{to} ends behind its clone, and it is not known that somebody starts it again; \
                         --method=clone takes the clone plugin"
                    )));
                }
                for link in [&mut donor, &mut recipient] {
                    if let Err(error) = clone_plugin::install(link, timeout_ms).await {
                        return Ok(Some(error.to_string()));
                    }
                }
                Ok(None)
            }
        }
    }

    async fn by_clone(&self, job: &Job, ends: &Ends) -> Result<Position, CommandError> {
        let settings = self.context.settings();
        let timeout_ms = settings.step_timeout_ms;
        let password = identity::uuid();
        let password = password.map_err(|error| CommandError::Internal(error.to_string()))?;
        let order = Order {
            donor: ends.from.clone(),
            recipient: ends.to.clone(),
            account: clone_account(job),
            // Password policies want all kinds of characters.
            password: format!("Aa1!{password}"),
            mib_per_s_max: settings.provision.clone_mib_per_s_max,
        };
        let outcome = async {
            let ended = clone_plugin::run(&order, &job.progress, timeout_ms).await?;
            job.progress.end_bytes();
            self.wait_filled(job, &order, ended).await?;
            job.progress.complete_bytes();
            Ok(clone_plugin::settle(&order, timeout_ms).await?)
        }
        .await;
        self.release_donor(&order.donor, job).await;
        outcome
    }

    /// Waits until the recipient is back with the donor's data. Nobody may start it for hours; the job
    /// can be aborted.
    async fn wait_filled(
        &self,
        job: &Job,
        order: &Order,
        ended: Ended,
    ) -> Result<(), CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let to = &job.destination;
        let step = match ended {
            Ended::Restarts => format!("waits until {to} has restarted"),
            Ended::MustBeStarted => {
                format!(
                    "waits until {to} is started: its clone is done and it has ended (error 3707)"
                )
            }
        };
        job.progress.enter(step);
        let since = Instant::now();
        let mut told = false;
        loop {
            match clone_plugin::look_again(order, timeout_ms).await {
                Ok(Look::Filled) => return Ok(()),
                Ok(Look::Empty) => {
                    return Err(CommandError::Refused(format!(
                        "server {to} died while it cloned {}, and holds no data now",
                        job.source()
                    )));
                }
                Ok(Look::NotYet) if since.elapsed() > ENDS_WITHIN => {
                    return Err(CommandError::Refused(format!(
                        "server {to} neither restarts after its clone nor has the data; see its error log"
                    )));
                }
                Ok(Look::NotYet) => {}
                Err(_) if !told && since.elapsed() > GONE_FOR => {
                    told = true;
                    let detail = format!(
                        "{to} ended behind its clone and nobody has started it again: MySQL restarts \
                         by itself only under a supervisor; start it, and the job goes on"
                    );
                    job.progress.enter(detail.clone());
                    self.context
                        .happened(self.of_job(job, "clone_waits", detail));
                }
                Err(_) => {}
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn by_backup(&self, job: &Job, ends: &Ends) -> Result<Position, CommandError> {
        let settings = self.context.settings();
        let order = BackupOrder {
            donor: address(&ends.from),
            recipient: address(&ends.to),
            mib_per_s_max: settings.provision.clone_mib_per_s_max,
            progress: job.progress.clone(),
        };
        let timeout_ms = settings.step_timeout_ms;
        let filled = settings.provision.backup.fill(order).await;
        let filled = filled.map_err(CommandError::Refused)?;
        job.progress.enter("sets the position");
        let Filled { gtids, has_logs } = &filled;
        let (position, has_logs) =
            copy::take_position(&ends.to, gtids, *has_logs, timeout_ms).await?;
        job.gets_logs(has_logs);
        Ok(position)
    }

    /// Ends what an aborted or failed job left running on servers.
    pub(crate) async fn end_clone(&self, job: &Job, to: &Login) -> Result<(), engine::Error> {
        let source = {
            let state = self.context.state();
            let found = state.records.find(&job.source());
            found.map(|(_, kept)| kept.value.clone())
        };
        if let (Some(source), Some(Method::Clone)) = (source, job.method()) {
            self.release_donor(&self.links.login(&source), job).await;
        }
        let timeout_ms = self.context.settings().step_timeout_ms;
        let thread = job
            .progress
            .thread
            .load(std::sync::atomic::Ordering::Relaxed);
        if thread != 0 {
            clone_plugin::give_up(to, thread, timeout_ms).await?;
        }
        Ok(())
    }

    /// Takes a job's account from its donor. One that is down has it when it is back; the account
    /// expires, and nobody knows its password.
    async fn release_donor(&self, donor: &Login, job: &Job) {
        let account = clone_account(job);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let released = clone_plugin::release_donor(donor, &account, timeout_ms).await;
        if let Err(error) = released {
            tracing::warn!(account, "the account of a clone stays: {error}");
        }
    }
}

fn address(login: &Login) -> String {
    format!("{}:{}", login.host, login.port)
}

/// A job's own account at its donor.
fn clone_account(job: &Job) -> String {
    let short = job.uuid.get(..8).unwrap_or(&job.uuid);
    format!("{}{short}", clone_plugin::ACCOUNT_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(wanted: Option<Method>, engine: Engine, objection: Option<&str>) -> String {
        match choose(wanted, engine, objection.map(str::to_owned), 0) {
            Ok(choice) => {
                let why = choice.why_not_faster.unwrap_or_default();
                format!("{} {why}", choice.method.name())
            }
            Err(why) => format!("refused: {why}"),
        }
    }

    #[test]
    fn the_fastest_method_that_can() {
        use Method::{Backup, Clone, Copy};
        let why = Some("no plugin");
        assert_eq!(chosen(None, Engine::MySql, None), "clone ");
        assert_eq!(chosen(None, Engine::MariaDb, None), "backup ");
        assert_eq!(chosen(None, Engine::MySql, why), "copy no plugin");
        assert_eq!(chosen(Some(Copy), Engine::MySql, None), "copy ");
        assert_eq!(chosen(Some(Clone), Engine::MySql, None), "clone ");
        let refused = chosen(Some(Clone), Engine::MySql, why);
        assert_eq!(
            refused,
            "refused: the clone plugin cannot be used: no plugin"
        );
        let other = chosen(Some(Backup), Engine::MySql, None);
        assert!(other.contains("for the other engine"), "{other}");
    }

    #[test]
    fn what_fails_twice_is_copied() {
        let after = |failures| {
            let choice = choose(None, Engine::MySql, None, failures).expect("a method");
            (choice.method, choice.why_not_faster)
        };
        assert_eq!(after(1), (Method::Clone, None));
        let why = "the clone plugin failed 2 times".to_owned();
        assert_eq!(after(2), (Method::Copy, Some(why)));
    }

    #[test]
    fn names() {
        for method in [Method::Clone, Method::Backup, Method::Copy] {
            assert_eq!(Method::parse(method.name()), Some(method));
            assert!(Method::NAMES.contains(method.name()));
        }
        assert_eq!(Method::parse("rsync"), None);
    }
}
