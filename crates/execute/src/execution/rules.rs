//! Rules in force: what an operator wants done with a statement.
//!
//! The decision is `routing::rules`'s; here it is asked for. The front carries it out (`query::by_rules`).

use std::net::IpAddr;
use std::rc::Rc;

use backend::Text;
use farm::dist_txn::Atomic;
use farm::{ClientError, error};
use mysql_wire::packet;
use routing::Refusal;
use routing::rules::{Actions, Decision, Question, Rewrite, Rules, TooLong};
use sqltext::Facts;

use crate::client::request::Request;
use crate::consistency::defaults::Consistency;
use crate::counters::count;
use crate::execution::exec::{Job, Shape, text_shape};
use crate::execution::ruled::Ruled;
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::session::context::StatementContext;
use crate::session::user::SessionUser;
use crate::variables::session_variables::SessionVariables;

/// Holds the text of a PREPARE against the rules: what it becomes, and the client's own text
/// where that is another. The error is the client's answer.
pub fn prepare_by_rules(
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
pub fn decision(
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
    pub fn prefer(&mut self, actions: &Actions, shape: &mut Shape) {
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
pub fn rewrite_query(
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
    *shape = text_shape::query_shape(core, request, variables);
    if shape.facts.contains(Facts::CONNECTION_ID) {
        text_shape::identify(core, handle, request, variables, shape);
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
pub fn foresee(
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

/// What new sessions of this user are promised.
pub(crate) fn consistency_of(core: &Core, user: &[u8], client: IpAddr) -> Consistency {
    let mut defaults = core.settings().consistency;
    let rules = core.shared.rules.load();
    if let Some(own) = rules.defaults(user, client) {
        defaults.level = own.level.unwrap_or(defaults.level);
        defaults.max_lag_ms = own.max_lag_ms.unwrap_or(defaults.max_lag_ms);
        defaults.monotonic = own.monotonic.unwrap_or(defaults.monotonic);
    }
    defaults
}

/// What the transactions of this user over several groups are, where it is not the farm's default.
pub(crate) fn atomic_of(core: &Core, user: &[u8], client: IpAddr) -> Option<Atomic> {
    let rules = core.shared.rules.load();
    rules.defaults(user, client).and_then(|own| own.atomic)
}

/// The group in which sessions of this user begin; `None` for the home group.
pub fn group_of(core: &Core, user: &[u8], client: IpAddr) -> Option<String> {
    let rules = core.shared.rules.load();
    rules.defaults(user, client).and_then(|own| own.group.clone())
}

/// Whether the writes of this user are marked.
pub(crate) fn marks_of(core: &Core, user: &[u8], client: IpAddr) -> bool {
    let rules = core.shared.rules.load();
    let own = rules.defaults(user, client).and_then(|own| own.marks);
    own.unwrap_or(core.settings().marks)
}
