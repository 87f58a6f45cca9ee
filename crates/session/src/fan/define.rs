//! Statements that change definitions, on all groups that have these definitions.
//!
//! The first group goes first and alone: what it refuses is done nowhere. Then the others get the same
//! text, all at once; each runs it to its end, whatever becomes of it on the others. When it has gone
//! well, the router reads the tables anew before the client hears of it, so that its next statement
//! finds them as they are.

use std::sync::Arc;

use farm::{Sharding, Snapshot, error};
use mysql_wire::relay::Outcome;
use mysql_wire::reply::OkPacket;
use planner::define::{Around, Declaration, Defines, Then, define};
use sqltext::{Class, Facts};

use super::counts::Counts;
use super::feeds::Feeds;
use super::parts::{Done, Taken};
use super::{Fan, Part, Wanted, Word};
use crate::end::End;
use crate::exec::{Job, Run, Shape};
use crate::refuse::ServerRefusal;
use crate::session::Session;

/// The number of no group.
const NO_GROUP: u32 = u32::MAX;

/// Where a definition is made, and what follows.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    groups: Vec<Arc<str>>,
    text: Vec<u8>,
    then: Then,
}

/// What is to be done with a statement about definitions.
#[derive(Clone, Debug)]
pub(crate) enum Defining {
    Elsewhere,
    Here(Box<Definition>),
    Refused(String),
}

/// What came of a round.
enum Round {
    /// The client has been told of something else.
    Answered,
    Done(Counts),
    /// The first group that failed, of as many, and why.
    Failed(Arc<str>, ServerRefusal),
}

impl Session {
    /// Where a statement goes that may change definitions.
    pub(crate) fn defining(
        &self,
        text: &[u8],
        shape: &Shape,
        snapshot: &Snapshot,
        sharding: &Sharding,
    ) -> Defining {
        let accounts = shape.facts.contains(Facts::ACCOUNTS);
        let defines = shape.class == Class::Ddl || (shape.class == Class::Set && accounts);
        let Some(home) = snapshot.home().filter(|_| defines) else {
            return Defining::Elsewhere;
        };
        let database = String::from_utf8_lossy(self.state.database().unwrap_or_default());
        let around = Around {
            sharding,
            home: &home.name,
            database: &database,
            mode: &self.mode,
        };
        match define(text, accounts, &around) {
            Defines::Elsewhere => Defining::Elsewhere,
            Defines::Refused(why) => Defining::Refused(why),
            Defines::On(groups, then) => Defining::Here(Box::new(Definition {
                groups,
                text: text.to_vec(),
                then,
            })),
        }
    }

    /// Runs it everywhere, to the answer.
    pub(crate) async fn define(
        &mut self,
        definition: &Definition,
        shape: Shape,
        job: Job,
    ) -> Result<(), End> {
        self.recording = None;
        // What is open is committed over all its groups; no server alone may do it.
        if !self.commit_before(NO_GROUP).await? {
            return Ok(());
        }
        let Definition { groups, text, then } = definition;
        let (first, others) = groups.split_at(1.min(groups.len()));
        let mut run = self.new_run(shape, job);
        let mut counts = match self.define_on(first, text, &mut run).await? {
            Round::Answered => return Ok(()),
            Round::Failed(_, refusal) => return self.client.pass_refusal(&refusal).await,
            Round::Done(counts) => counts,
        };
        if !others.is_empty() {
            match self.define_on(others, text, &mut run).await? {
                Round::Answered => return Ok(()),
                Round::Failed(group, refusal) => {
                    self.defined(&shape).await;
                    let why = String::from_utf8_lossy(&refusal.message);
                    let details = [&*first[0], &*group, &*why];
                    let error = &error::DEFINITION_UNFINISHED;
                    return self.client.error(error, &details).await;
                }
                Round::Done(more) => counts.warnings = counts.warnings.max(more.warnings),
            }
        }
        if let Err(why) = self.follow_up(then, first, &mut run).await? {
            return self.client.error(&error::COMMAND_REFUSED, &[&why]).await;
        }
        self.defined(&shape).await;
        let mut ok = OkPacket::new(self.status_now());
        ok.affected_rows = counts.affected_rows;
        ok.warnings = counts.warnings;
        ok.info = &counts.info;
        self.client.ok_with(&ok).await
    }

    /// Runs the text on these groups at the same time.
    async fn define_on(
        &mut self,
        groups: &[Arc<str>],
        text: &[u8],
        run: &mut Run,
    ) -> Result<Round, End> {
        let part = |group: &Arc<str>| Part {
            group: group.clone(),
            text: text.to_vec(),
        };
        let fan = Fan {
            parts: groups.iter().map(part).collect(),
            answer: Wanted::Counts {
                insert_id: None,
                same: true,
            },
            clock: false,
        };
        let mut avoid = Vec::new();
        let mut taken = loop {
            match self.take_parts(&fan, run, &mut avoid).await {
                Ok(taken) => break taken,
                Err((group, stuck)) => {
                    if !self.fan_stuck(run, &mut avoid, &group, stuck).await? {
                        return Ok(Round::Answered);
                    }
                }
            }
        };
        // It commits by itself, before and after.
        let writes = std::mem::replace(&mut run.shape.writes, false);
        let mut feeds = self.start_parts(&fan, &mut taken, run, true);
        run.shape.writes = writes;
        loop {
            for feed in &mut feeds.all {
                let _ = feed.step();
            }
            if feeds.all.iter().all(|feed| feed.is_done()) {
                break;
            }
            feeds.any().await;
        }
        self.end_attempt();
        self.handle.running_elsewhere.borrow_mut().clear();
        self.close_definition(groups, taken, feeds, run).await
    }

    /// Takes note of what the groups said.
    async fn close_definition(
        &mut self,
        groups: &[Arc<str>],
        taken: Vec<Taken>,
        feeds: Feeds,
        run: &Run,
    ) -> Result<Round, End> {
        let mut counts = Counts::default();
        feeds
            .all
            .iter()
            .for_each(|feed| counts.add(&feed.outcome, &feed.info));
        let lost = feeds.all.iter().position(|feed| feed.lost);
        let mut done = Done::of(taken, feeds);
        let failed = done.parts.iter().position(|part| part.refusal.is_some());
        let refusal = failed.and_then(|at| Some((at, done.parts[at].refusal.take()?)));
        let word = Word::Counted(&counts);
        let warnings = self.ask_warnings(&mut done, &word).await;
        self.leave_parts(run, done);
        self.statement += 1;
        let mut outcome = Outcome {
            status: Some(self.status),
            warnings: counts.warnings,
            affected_rows: counts.affected_rows,
            ..Outcome::default()
        };
        outcome.error = refusal.as_ref().map(|(_, refusal)| refusal.number);
        self.diagnostics
            .note(&run.shape, &outcome, self.mode.dialect);
        if warnings.is_some() {
            self.diagnostics.learn(&mut backend::Residue {
                warnings,
                ..backend::Residue::default()
            });
        }
        Ok(match (refusal, lost) {
            (Some((at, refusal)), _) => Round::Failed(groups[at].clone(), refusal),
            (None, Some(at)) => Round::Failed(groups[at].clone(), lost_there(&groups[at])),
            (None, None) => Round::Done(counts),
        })
    }

    /// Declares what was made, forgets what is gone. `Err` inside is for the client.
    async fn follow_up(
        &mut self,
        then: &Then,
        first: &[Arc<str>],
        run: &mut Run,
    ) -> Result<Result<(), String>, End> {
        match then {
            Then::Nothing => {}
            Then::Forget(tables) => {
                for (database, table) in tables {
                    let name = format!("`{database}`.`{table}`");
                    if let Err(why) = self.order(&["remove_table", &name, "true"]).await {
                        return Ok(Err(why));
                    }
                }
            }
            Then::Declare(declaration) => {
                let Declaration {
                    database,
                    table,
                    map,
                    column,
                } = declaration;
                let name = format!("`{database}`.`{table}`");
                let declared = match column {
                    Some(column) => self.order(&["add_table", map, &name, column]).await,
                    None => self.order(&["add_global_table", map, &name]).await,
                };
                if let Err(why) = declared {
                    // The client was promised a table on the map, or none.
                    let drop = format!("DROP TABLE IF EXISTS {name}");
                    return Ok(match self.define_on(first, drop.as_bytes(), run).await? {
                        Round::Answered => Ok(()),
                        Round::Done(_) | Round::Failed(..) => Err(why),
                    });
                }
            }
        }
        Ok(Ok(()))
    }

    /// Has a command of `sharding` carried out on behalf of a definition that the client was allowed.
    async fn order(&self, words: &[&str]) -> Result<(), String> {
        let all = std::iter::once("sharding").chain(words.iter().copied());
        let all: Vec<String> = all.map(str::to_owned).collect();
        let (tell, told) = futures_channel::oneshot::channel();
        let reply: crate::operator::Reply = Box::new(move |outcome| drop(tell.send(outcome)));
        let operator = Arc::clone(&self.core.shared.operator);
        let user = String::from_utf8_lossy(&self.identity.pass.profile().user).into_owned();
        let by = format!("{user}@{}", self.peer.ip().to_canonical());
        operator.submit(all, &by, true, reply);
        match told.await {
            Ok(answer) => answer.map(drop),
            Err(_) => Err("the router is shutting down".to_owned()),
        }
    }

    /// What was changed is read anew.
    async fn defined(&mut self, shape: &Shape) {
        if shape.facts.intersects(Facts::ACCOUNTS | Facts::DATABASE) {
            self.core.shared.defaults.database_changed();
        }
        if shape.facts.contains(Facts::ACCOUNTS) {
            self.core.shared.accounts_changed();
        } else if let Err(why) = self.order(&["refresh"]).await {
            // The next tick reads them.
            tracing::warn!(why, "the tables were not read anew");
        }
    }
}

/// What is said when a connection broke.
fn lost_there(group: &str) -> ServerRefusal {
    let lost = &error::SERVER_LOST;
    ServerRefusal {
        number: lost.number,
        sqlstate: *b"08S01",
        message: lost.text(&[&format!("of group {group}")]).into_bytes(),
    }
}
