//! Rules in force: what an operator wants done with a statement, done around its run.
//!
//! The decision is `routing::rules`'s; here it is asked for and carried out. In a transaction or a
//! pin nothing moves, whatever a rule says of servers and levels; to refuse, to wait and to limit
//! holds there too.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::Text;
use farm::dist_txn::Atomic;
use farm::{ClientError, error};
use mysql_wire::packet;
use mysql_wire::relay::Expect;
use mysql_wire::status::Status;
use routing::Refusal;
use routing::rules::{Actions, Decision, Question, Rewrite, Rules, TooLong};
use sqltext::{Class, Facts};

use crate::authentication::login::SessionUser;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::request::Request;
use crate::consistency::defaults::Consistency;
use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::execution::measure;
use crate::execution::ruled::Ruled;
use crate::execution::statement_run::StatementRun;
use crate::introspection::recorded;
use crate::per_core::{Core, Handle};
use crate::query;
use crate::session::context::StatementContext;
use crate::session::{self, Session};
use crate::variables::session_variables::SessionVariables;

impl Session {
    /// Runs the client's command to its answer, as the rules in force want it.
    pub(crate) async fn run_command(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        let governed = matches!(job, Job::Frame(Expect::Results) | Job::Execute(_));
        self.run.next(&self.handle.asked.borrow());
        let measured = governed && self.core.digests.is_on();
        if measured {
            measure::begin(self, &shape, job);
        }
        let digest = measured.then(|| self.handle.asked.borrow().digest).flatten();
        recorded::statement(self.handle.id, self.handle.command.get(), digest);
        let done = match self.core.shared.rules.is_empty() || !governed || shape.bad_hint {
            true => self.run_free(shape, job).await,
            false => Box::pin(self.run_ruled(shape, job)).await,
        };
        if measured {
            measure::end(self);
        }
        done
    }

    async fn run_ruled(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        let rules = self.core.shared.rules.load();
        let Some(decision) = decision(&self.context(), &rules, &shape, job) else {
            return self.run_free(shape, job).await;
        };
        rules.count(&decision);
        count(&self.core.counters.statements_ruled);
        let done = self.obey(&rules, decision, shape, job).await;
        self.run.ruled = None;
        done
    }

    /// Does what the rules want around the run of the statement, and runs it.
    async fn obey(
        &mut self,
        rules: &Arc<Rules>,
        decision: Decision,
        mut shape: Shape,
        job: Job,
    ) -> Result<(), End> {
        let mut actions = decision.actions.clone();
        let mut by_hook = false;
        if let Some(delay_ms) = actions.delay_ms.filter(|_| actions.refuse.is_none()) {
            reactor::sleep(Duration::from_millis(delay_ms)).await;
            if self.handle.killed.get() {
                return Err(session::last_word(&self.core, &mut self.client).await);
            }
        }
        if let Some(hook) = actions.hook.take().filter(|_| actions.refuse.is_none()) {
            let verdict = self.context().ask_hook(&self.handle, rules, &hook, &shape, job).await;
            match verdict {
                Ok(verdict) => by_hook = verdict.overrule(&mut actions),
                Err(reason) => {
                    let name = rules.names(&decision);
                    let details = [name.as_str(), &reason];
                    return self.client.error(&error::HOOK_UNDECIDED, &details).await;
                }
            }
        }
        if let Some(text) = &actions.refuse {
            count(&self.core.counters.statements_refused);
            let details = [&**text];
            return self.client.error(&error::STATEMENT_REFUSED, &details).await;
        }
        if let (Some(rewrite), Job::Frame(_)) = (&actions.rewrite, job)
            && let Err(error) = rewrite_query(
                &self.core,
                &self.handle,
                &mut self.client.request,
                &self.variables,
                rewrite,
                &mut shape,
            )
        {
            return self.client.error(&error, &[]).await;
        }
        if let Some(to) = &actions.mirror
            && self.connections.current.held.is_none()
            && !self.variables.status.contains(Status::IN_TRANS)
            && self.variables.status.contains(Status::AUTOCOMMIT)
        {
            self.context().mirror(to, &shape, job);
        }
        self.run.prefer(&actions, &mut shape);
        if let Some(ruled) = &mut self.run.ruled {
            ruled.by_hook = by_hook;
        }
        self.run_free(shape, job).await
    }
}

/// Holds the text of a PREPARE against the rules: what it becomes, and the client's own text
/// where that is another. The error is the client's answer.
pub(crate) fn prepare_by_rules(
    core: &Core,
    user: &SessionUser,
    request: &mut Request,
    variables: &SessionVariables,
    run: &mut StatementRun,
    text: Rc<Text>,
    shape: &mut Shape,
) -> Result<(Rc<Text>, Option<Rc<Text>>), Refusal> {
    let rules = core.shared.rules.load();
    let Some(decision) = decide(core, user, variables, &rules, text.bytes(), shape) else {
        return Ok((text, None));
    };
    if let Some(refusal) = &decision.actions.refuse {
        rules.count(&decision);
        count(&core.counters.statements_refused);
        return Err(Refusal {
            error: error::STATEMENT_REFUSED,
            detail: refusal.to_string(),
        });
    }
    let rewritten = match &decision.actions.rewrite {
        Some(rewrite) => rewritten(core, rewrite, text.bytes()),
        None => Ok(None),
    };
    let rewritten = rewritten.map_err(|error| Refusal {
        error,
        detail: String::new(),
    })?;
    let result = match rewritten {
        None => (text, None),
        Some(new) => {
            request.replace_text(&new);
            *shape = core.shape(&new, &variables.mode);
            (core.text(&new), Some(text))
        }
    };
    run.prefer(&decision.actions, shape);
    Ok(result)
}

/// True when a rule is about the command, which therefore must be looked at alone.
pub(crate) fn is_ruled(context: &StatementContext<'_>, shape: &Shape, job: Job) -> bool {
    let rules = &context.core.shared.rules;
    !rules.is_empty() && decision(context, &rules.load(), shape, job).is_some()
}

/// What the rules want done with the command; `None` where none of them is about it.
fn decision(
    context: &StatementContext<'_>,
    rules: &Rules,
    shape: &Shape,
    job: Job,
) -> Option<Decision> {
    let joined;
    let asked = match job {
        Job::Execute(id) => context.prepared.statements.get(&id)?.asked.as_ref(),
        _ => None,
    };
    if let Some(text) = asked {
        // A rule has changed its text; rules are about the client's own.
        let shape = context.core.shape(text.bytes(), &context.variables.mode);
        return decide(context.core, context.user, context.variables, rules, text.bytes(), &shape);
    }
    let text = match job {
        Job::Execute(id) => context.prepared.statement_text(id),
        _ if context.client.request.is_split() => {
            joined = packet::joined(context.client.request.frame());
            &joined[1..]
        }
        _ => &context.client.request.payload()[1..],
    };
    decide(context.core, context.user, context.variables, rules, text, shape)
}

impl StatementRun {
    /// Servers, level and limit of the statement that is to run.
    fn prefer(&mut self, actions: &Actions, shape: &mut Shape) {
        if shape.level.is_none() {
            shape.level = actions.level;
        }
        self.ruled = Some(Box::new(Ruled {
            servers: actions.servers.clone(),
            by_hook: false,
            timeout_ms: actions.timeout_ms,
            timer: None,
        }));
    }
}

/// What the rules want done with a text of this session.
pub(crate) fn decide(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    rules: &Rules,
    text: &[u8],
    shape: &Shape,
) -> Option<Decision> {
    let mut question = Question::new(text, &variables.mode, user.peer.ip());
    question.user = user.name();
    question.database = variables.state.database();
    question.class = shape.class;
    question.digest = Some(core.digests.of(shape.hash, text, &variables.mode));
    question.writes = shape.writes;
    rules.decide(&question)
}

/// Puts the rewritten text in the place of the current COM_QUERY's.
fn rewrite_query(
    core: &Core,
    handle: &Handle,
    request: &mut Request,
    variables: &SessionVariables,
    rewrite: &Rewrite,
    shape: &mut Shape,
) -> Result<(), ClientError> {
    let text = packet::joined(request.frame());
    let Some(text) = rewritten(core, rewrite, &text[1..])? else {
        return Ok(());
    };
    request.replace_text(&text);
    *shape = query::query_shape(core, request, variables);
    if shape.facts.contains(Facts::CONNECTION_ID) {
        query::identify(core, handle, request, variables, shape);
    }
    Ok(())
}

fn rewritten(core: &Core, rewrite: &Rewrite, text: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
    let bytes_max = core.settings().packet_bytes_max;
    let text = rewrite.apply(text, bytes_max);
    let text = text.map_err(|TooLong| error::PACKET_TOO_LARGE)?;
    if text.is_some() {
        count(&core.counters.statements_rewritten);
    }
    Ok(text)
}

/// Prepares the plan of a text as the rules would have it, without asking hooks: their names and
/// what they would do.
pub(crate) fn foresee(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    run: &mut StatementRun,
    text: &[u8],
    shape: &mut Shape,
) -> Option<(String, String)> {
    if core.shared.rules.is_empty() {
        return None;
    }
    let rules = core.shared.rules.load();
    let decision = decide(core, user, variables, &rules, text, shape)?;
    run.prefer(&decision.actions, shape);
    Some((rules.names(&decision), decision.actions.to_string()))
}

/// A statement begins whose time a rule limits, or sets free. False when no rule does.
pub(crate) fn start_own_clock(
    core: &Rc<Core>,
    handle: &Rc<Handle>,
    run: &mut StatementRun,
    shape: &Shape,
) -> bool {
    let (core, handle) = (core.clone(), handle.clone());
    let Some(ruled) = &mut run.ruled else {
        return false;
    };
    let Some(timeout_ms) = ruled.timeout_ms else {
        return false;
    };
    let limited = timeout_ms > 0 && shape.class != Class::Transaction;
    ruled.timer = limited.then(|| {
        reactor::spawn(async move {
            reactor::sleep(Duration::from_millis(timeout_ms)).await;
            if handle.running.get().is_some() {
                core.end_late(handle.id);
            }
        })
    });
    true
}

impl Core {
    /// What new sessions of this user are promised.
    pub(crate) fn consistency_of(&self, user: &[u8], client: IpAddr) -> Consistency {
        let mut defaults = self.settings().consistency;
        let rules = self.shared.rules.load();
        if let Some(own) = rules.defaults(user, client) {
            defaults.level = own.level.unwrap_or(defaults.level);
            defaults.max_lag_ms = own.max_lag_ms.unwrap_or(defaults.max_lag_ms);
            defaults.monotonic = own.monotonic.unwrap_or(defaults.monotonic);
        }
        defaults
    }

    /// What the transactions of this user over several groups are, where it is not the farm's default.
    pub(crate) fn atomic_of(&self, user: &[u8], client: IpAddr) -> Option<Atomic> {
        let rules = self.shared.rules.load();
        rules.defaults(user, client).and_then(|own| own.atomic)
    }

    /// Whether the writes of this user are marked.
    pub(crate) fn marks_of(&self, user: &[u8], client: IpAddr) -> bool {
        let rules = self.shared.rules.load();
        let own = rules.defaults(user, client).and_then(|own| own.marks);
        own.unwrap_or(self.settings().marks)
    }
}
