//! Runs the client's command as the rules in force want it.
//!
//! In a transaction or a pin nothing moves, whatever a rule says of servers and levels; to refuse, to wait and
//! to limit holds there too.

use std::sync::Arc;
use std::time::Duration;

use dist_query::place::run;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::counters::count;
use execute::execution::exec::{Job, Shape};
use execute::execution::measure;
use execute::execution::rules::{decision, rewrite_query};
use execute::recorded;
use execute::session::{self, Session};
use farm::error;
use mysql_wire::relay::Expect;
use mysql_wire::status::Status;
use reactor::rarely;
use routing::rules::{Decision, Rules};

/// Runs the client's command to its answer, as the rules in force want it.
pub(crate) async fn run_command(session: &mut Session, shape: Shape, job: Job) -> Result<(), End> {
    let governed = matches!(job, Job::Frame(Expect::Results) | Job::Execute(_));
    session.run.next(&session.handle.asked.borrow());
    let measured = session.core.digests.is_on()
        && match governed {
            true => {
                measure::begin(session, &shape, job);
                true
            }
            false => measure::begin_uncounted(session, &shape, job),
        };
    let digest = measured.then(|| session.handle.asked.borrow().digest).flatten();
    recorded::statement(session.handle.id, session.handle.command.get(), digest);
    let done = match session.core.shared.rules.is_empty() || !governed || shape.bad_hint {
        true => run::run_free(session, shape, job).await,
        false => rarely(run_ruled(session, shape, job)).await,
    };
    if measured {
        measure::end(session);
    }
    done
}

async fn run_ruled(session: &mut Session, shape: Shape, job: Job) -> Result<(), End> {
    let rules = session.core.shared.rules.load();
    let Some(decision) = decision(&session.context(), &rules, &shape, job) else {
        return run::run_free(session, shape, job).await;
    };
    rules.count(&decision);
    count(&session.core.counters.statements_ruled);
    let done = obey(session, &rules, decision, shape, job).await;
    session.run.ruled = None;
    done
}

/// Does what the rules want around the run of the statement, and runs it.
async fn obey(
    session: &mut Session,
    rules: &Arc<Rules>,
    decision: Decision,
    mut shape: Shape,
    job: Job,
) -> Result<(), End> {
    let mut actions = decision.actions.clone();
    let mut by_hook = false;
    if let Some(delay_ms) = actions.delay_ms.filter(|_| actions.refuse.is_none()) {
        reactor::sleep(Duration::from_millis(delay_ms)).await;
        if session.handle.killed.get() {
            return Err(session::last_word(&session.core, &mut session.client).await);
        }
    }
    if let Some(hook) = actions.hook.take().filter(|_| actions.refuse.is_none()) {
        let verdict = session.context().ask_hook(&session.handle, rules, &hook, &shape, job).await;
        match verdict {
            Ok(verdict) => by_hook = verdict.overrule(&mut actions),
            Err(reason) => {
                let name = rules.names(&decision);
                let details = [name.as_str(), &reason];
                return session.client.error(&error::HOOK_UNDECIDED, &details).await;
            }
        }
    }
    if let Some(text) = &actions.refuse {
        count(&session.core.counters.statements_refused);
        let details = [&**text];
        return session.client.error(&error::STATEMENT_REFUSED, &details).await;
    }
    if let (Some(rewrite), Job::Frame(_)) = (&actions.rewrite, job)
        && let Err(error) = rewrite_query(
            &session.core,
            &session.handle,
            &mut session.client.request,
            &session.variables,
            rewrite,
            &mut shape,
        )
    {
        return session.client.error(&error, &[]).await;
    }
    if let Some(to) = &actions.mirror
        && session.connections.current.held.is_none()
        && !session.variables.status.contains(Status::IN_TRANS)
        && session.variables.status.contains(Status::AUTOCOMMIT)
    {
        session.context().mirror(to, &shape, job);
    }
    session.run.prefer(&actions, &mut shape);
    if let Some(ruled) = &mut session.run.ruled {
        ruled.by_hook = by_hook;
    }
    run::run_free(session, shape, job).await
}
