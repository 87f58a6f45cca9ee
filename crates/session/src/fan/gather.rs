//! A SELECT over rows that are fetched first: the rows of each table go from the groups into temporary
//! tables of a scratch server, a piece at a time, and the statement runs there.
//!
//! The scratch server is the primary of the home group, on a connection of its own: what is there
//! ends with it. Rows are fetched on the session's own connections, so that a transaction sees what
//! it wrote.

use std::sync::Arc;

use backend::{ConnectionError, Lease, PoolError};
use farm::{ServerId, error};
use mysql_wire::command::Command;
use mysql_wire::relay::Outcome;
use planner::{Answer, Finish, Fragment, Merging, Scratch};

use super::feed::{Event, Feed, Order};
use super::feeds::Feeds;
use super::load::Loader;
use super::parts::{Done, TEXT};
use super::rows::Trouble;
use super::sheet::{Form, Sheet};
use super::{Fan, Part, Wanted, Word};
use crate::end::End;
use crate::exec::{Job, Run, Shape};
use crate::refuse::ServerRefusal;
use crate::session::Session;
use crate::target::target;

/// What the session has set, so that it can be set again when the rows are there.
const KEEP: &[u8] = b"SET @heddle_mode = @@sql_mode, @heddle_zone = @@time_zone, \
    @heddle_client = @@character_set_client, @heddle_results = @@character_set_results, \
    @heddle_collation = @@collation_connection";
const RESTORE: &[u8] = b"SET sql_mode = @heddle_mode, time_zone = @heddle_zone, \
    character_set_client = @heddle_client, character_set_results = @heddle_results, \
    collation_connection = @heddle_collation";
/// Values are taken as they are.
const PLAIN: &[u8] = b"SET sql_mode = 'NO_AUTO_VALUE_ON_ZERO', time_zone = '+00:00'";
const LETTERS: &[u8] = b"SET NAMES utf8mb4";
const BYTES: &[u8] = b"SET NAMES binary";

/// Why rows are not where they should be.
enum Stop {
    /// Of the groups.
    Groups(Trouble),
    /// Of the scratch server.
    Scratch(ConnectionError),
    /// Too many: the setting, and what it allows.
    Bound(&'static str, u64),
}

/// What became of a step.
enum Step {
    Done,
    /// From the beginning again.
    Again,
    /// The client has its answer.
    Answered,
}

/// Rows and bytes so far.
#[derive(Default)]
struct Fetched {
    rows: u64,
    bytes: u64,
}

impl Session {
    /// Runs a SELECT that is gathered, to its answer.
    pub(crate) async fn gather(
        &mut self,
        answer: &Answer,
        shape: Shape,
        job: Job,
    ) -> Result<(), End> {
        let Finish::Scratch(scratch) = &answer.finish else {
            return Ok(());
        };
        self.recording = None;
        let mut run = self.new_run(shape, job);
        let mut avoid = Vec::new();
        loop {
            let mut lease = match self.scratch(scratch, &run).await {
                Ok(lease) => lease,
                Err(why) => return self.tell_scratch(why).await,
            };
            let step = self.fetch_all(answer, scratch, &mut lease, &mut run, &mut avoid);
            match Box::pin(step).await? {
                Step::Again => {}
                Step::Answered => return Ok(()),
                Step::Done => {
                    return Box::pin(self.finish_gather(scratch, lease, &run)).await;
                }
            }
        }
    }

    /// A connection of the scratch server with empty tables, ready for rows.
    async fn scratch(&mut self, scratch: &Scratch, run: &Run) -> Result<Lease, PoolError> {
        let snapshot = self.core.snapshot();
        let primary = snapshot.home().and_then(|home| home.primary().cloned());
        let found = primary.and_then(|primary| target(&snapshot, primary.id, false));
        let found = found.ok_or(PoolError::Connection(ConnectionError::Timeout {
            operation: "looking for a scratch server",
        }))?;
        let key = self
            .core
            .pools
            .key(found.server, false, &self.identity.pass);
        let taken = self.core.pools.take(&found, key, &self.state, 0);
        let mut lease = Box::pin(taken).await?;
        self.bring_values(lease.connection_mut(), &run.shape, TEXT)
            .await?;
        self.bring_lasting(lease.connection_mut()).await?;
        let mut commands: Vec<(Command, &[u8])> = vec![
            (Command::Query, KEEP),
            (Command::Query, PLAIN),
            (Command::Query, LETTERS),
        ];
        for part in &scratch.tables {
            commands.push((Command::Query, part.drop.as_bytes()));
            commands.push((Command::Query, part.create.as_bytes()));
        }
        commands.push((Command::Query, BYTES));
        lease.connection_mut().run(&commands).await?;
        Ok(lease)
    }

    /// Fills all tables.
    async fn fetch_all(
        &mut self,
        answer: &Answer,
        scratch: &Scratch,
        lease: &mut Lease,
        run: &mut Run,
        avoid: &mut Vec<ServerId>,
    ) -> Result<Step, End> {
        let mut fetched = Fetched::default();
        for (fragment, part) in answer.fragments.iter().zip(&scratch.tables) {
            let fan = pulled(fragment);
            if fan.parts.is_empty() {
                continue;
            }
            let loader = Loader::new(part);
            let step = self.fill(&fan, loader, lease, &mut fetched, run, avoid);
            match Box::pin(step).await? {
                Step::Done => {}
                other => return Ok(other),
            }
        }
        Ok(Step::Done)
    }

    /// Fills one table.
    async fn fill(
        &mut self,
        fan: &Fan,
        loader: Loader<'_>,
        lease: &mut Lease,
        fetched: &mut Fetched,
        run: &mut Run,
        avoid: &mut Vec<ServerId>,
    ) -> Result<Step, End> {
        let mut across = None;
        if run.shape.writes || self.crossing.is_some() || !self.is_free() {
            let (shape, job) = (run.shape, run.job);
            across = match Box::pin(self.begin_fan(fan, &shape, job)).await? {
                Some(across) => Some(across),
                None => return Ok(Step::Answered),
            };
        }
        let mut taken = match self.take_parts(fan, run, avoid).await {
            Ok(taken) => taken,
            Err((group, stuck)) => {
                self.drop_across(across).await;
                return Ok(match self.fan_stuck(run, avoid, &group, stuck).await? {
                    true => Step::Again,
                    false => Step::Answered,
                });
            }
        };
        let mut feeds = self.start_parts(fan, &mut taken, run, false);
        let stop = pour(
            &mut feeds,
            loader,
            lease,
            fetched,
            self.core.settings().gathering,
        )
        .await;
        self.end_feeds(&mut feeds, stop.is_err()).await;
        self.end_attempt();
        self.handle.running_elsewhere.borrow_mut().clear();
        let mut done = Done::of(taken, feeds);
        match stop {
            Ok(()) => {
                self.commit_parts(&mut done, across).await;
                self.leave_parts(run, done);
                Ok(Step::Done)
            }
            Err(Stop::Groups(trouble)) => {
                self.undo_parts(&mut done, run, across).await;
                let sheet = Sheet::new(Form::Text, self.client.capabilities);
                let word = Word::Trouble(trouble);
                Ok(match self.close_fan(run, avoid, done, sheet, word).await? {
                    true => Step::Again,
                    false => Step::Answered,
                })
            }
            Err(other) => {
                self.undo_parts(&mut done, run, across).await;
                self.leave_parts(run, done);
                self.tell_stop(other).await?;
                Ok(Step::Answered)
            }
        }
    }

    /// Rows could not be put into their table.
    async fn tell_stop(&mut self, stop: Stop) -> Result<(), End> {
        match stop {
            Stop::Bound(name, most) => {
                let most = most.to_string();
                let details = [name, &*most];
                self.client.error(&error::GATHER_TOO_LARGE, &details).await
            }
            Stop::Scratch(why) => self.tell_scratch(why.into()).await,
            Stop::Groups(_) => Ok(()),
        }
    }

    /// Runs the statement over the tables.
    async fn finish_gather(
        &mut self,
        scratch: &Scratch,
        mut lease: Lease,
        run: &Run,
    ) -> Result<(), End> {
        let restored = lease
            .connection_mut()
            .run(&[(Command::Query, RESTORE)])
            .await;
        if let Err(why) = restored {
            return self.tell_scratch(why.into()).await;
        }
        self.begin_attempt(lease.connection(), run);
        let order = Order {
            text: scratch.text.clone().into_bytes(),
            after: scratch
                .tables
                .iter()
                .filter(|part| !part.is_temporary)
                .map(|part| part.drop.clone().into_bytes())
                .collect(),
            ..Order::default()
        };
        let feed = Feed::start(lease, &order, self.core.take_buffer());
        let mut feeds = Feeds {
            all: vec![feed],
            clocked: false,
        };
        let form = match run.job {
            Job::Execute(_) => Form::Binary,
            Job::Frame(_) | Job::Prepare(_) => Form::Text,
        };
        let mut sheet = Sheet::new(form, self.client.capabilities);
        let trouble = self
            .fan_rows(&mut feeds, &Merging::default(), &mut sheet)
            .await?
            .err();
        self.end_feeds(&mut feeds, trouble.is_some()).await;
        self.end_attempt();
        let Some(mut feed) = feeds.all.pop() else {
            return Ok(());
        };
        let refusal = feed.refusal.take();
        let mut outcome = Outcome {
            status: Some(self.status),
            warnings: feed.outcome.warnings,
            has_rows: trouble.is_none(),
            rows: sheet.rows,
            ..Outcome::default()
        };
        outcome.error = refusal.as_ref().map(|it| it.number);
        // The connection's tables and variables end with it.
        let (_, buffer) = feed.finish();
        self.core.give_buffer(buffer);
        self.statement += 1;
        self.diagnostics
            .note(&run.shape, &outcome, self.mode.dialect);
        self.tell_gathered(sheet, outcome.warnings, trouble, refusal)
            .await
    }

    /// Ends the client's result.
    async fn tell_gathered(
        &mut self,
        mut sheet: Sheet,
        warnings: u16,
        trouble: Option<Trouble>,
        refusal: Option<ServerRefusal>,
    ) -> Result<(), End> {
        match trouble {
            None => {
                sheet.end(self.status_now(), warnings);
                self.flush(&mut sheet).await
            }
            Some(trouble) => {
                self.flush(&mut sheet).await?;
                self.client.sequence = sheet.sequence;
                match (trouble, refusal) {
                    (_, Some(refusal)) => self.client.pass_refusal(&refusal).await,
                    (Trouble::Odd(why), None) => {
                        self.client.error(&error::PARTS_DIFFER, &[&why]).await
                    }
                    _ => {
                        let details = ["of the scratch tables"];
                        self.client.error(&error::SERVER_LOST, &details).await
                    }
                }
            }
        }
    }

    /// The scratch server does not do its part.
    async fn tell_scratch(&mut self, why: PoolError) -> Result<(), End> {
        match why {
            PoolError::Connection(ConnectionError::Refused {
                number,
                sqlstate,
                message,
            }) => {
                let refusal = ServerRefusal {
                    number,
                    sqlstate,
                    message,
                };
                self.client.pass_refusal(&refusal).await
            }
            PoolError::Connection(other) => {
                let why = other.to_string();
                self.client.error(&error::GATHER_FAILED, &[&why]).await
            }
            PoolError::WaitTimeout { .. } => {
                let why = "no connection came free";
                self.client.error(&error::GATHER_FAILED, &[why]).await
            }
        }
    }
}

/// A fragment, as it is sent to its groups.
fn pulled(fragment: &Fragment) -> Fan {
    let groups: &[Arc<str>] = match fragment.any {
        true => &fragment.groups[..1.min(fragment.groups.len())],
        false => &fragment.groups[..],
    };
    let parts = groups.iter().map(|group| Part {
        group: group.clone(),
        text: fragment.text.clone().into_bytes(),
    });
    Fan {
        parts: parts.collect(),
        answer: Wanted::Rows(Merging::default()),
        clock: false,
    }
}

/// Puts the rows of all parts into the table, as they come.
async fn pour(
    feeds: &mut Feeds,
    mut loader: Loader<'_>,
    lease: &mut Lease,
    fetched: &mut Fetched,
    bounds: crate::settings::Gathering,
) -> Result<(), Stop> {
    let (rows, bytes) = (fetched.rows, fetched.bytes);
    loop {
        for at in 0..feeds.all.len() {
            loop {
                let feed = &mut feeds.all[at];
                match feed.step() {
                    Event::Row => {
                        let full = loader.add(feed.row());
                        let full = full.map_err(|odd| Stop::Groups(odd.into()))?;
                        (fetched.rows, fetched.bytes) = (rows + loader.rows, bytes + loader.bytes);
                        bounds
                            .allow(fetched.rows, fetched.bytes)
                            .map_err(|(name, most)| Stop::Bound(name, most))?;
                        if full {
                            feeds.nudge().await;
                            store(&mut loader, lease).await?;
                        }
                    }
                    Event::Columns => {}
                    Event::Wait | Event::End => break,
                }
            }
        }
        if let Some(trouble) = feeds.trouble() {
            return Err(Stop::Groups(trouble));
        }
        if feeds.all.iter().all(Feed::is_done) {
            break;
        }
        feeds.any().await;
    }
    match loader.is_empty() {
        true => Ok(()),
        false => store(&mut loader, lease).await,
    }
}

async fn store(loader: &mut Loader<'_>, lease: &mut Lease) -> Result<(), Stop> {
    let stored = lease
        .connection_mut()
        .run(&[(Command::Query, loader.text())])
        .await;
    stored.map_err(Stop::Scratch)?;
    loader.clear();
    Ok(())
}
