//! Asking a hook on behalf of a session.

use std::sync::Arc;
use std::time::Duration;

use farm::Snapshot;
use farm::local::address_of;
use mysql_wire::status::Status;
use routing::Level;
use routing::rules::{Fallback, Hook, Rules};
use serde_json::{Value, json};

use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::execution::hook::{Asked, Verdict, exchange, read_verdict};
use crate::per_core::handle::Handle;
use crate::session::context::StatementContext;
use crate::variables::user_variables;

impl StatementContext<'_> {
    /// What the hook decides of the statement, or what holds without it. The error is why the
    /// statement is refused.
    pub async fn ask_hook(
        &self,
        handle: &Handle,
        rules: &Arc<Rules>,
        hook: &Arc<Hook>,
        shape: &Shape,
        job: Job,
    ) -> Result<Verdict, String> {
        let asked = Asked {
            hook: Arc::as_ptr(hook) as usize,
            shape: shape.hash,
            user: self.user.name().clone(),
            database: self.variables.state.database().map(Into::into),
            in_transaction: self.variables.status.contains(Status::IN_TRANS),
        };
        let decisions = &self.core.statements.decisions;
        if hook.cache_ms > 0
            && let Some(verdict) = decisions.find(rules, &asked, hook)
        {
            count(&self.core.counters.hooks_remembered);
            return Ok(verdict);
        }
        count(&self.core.counters.hooks_asked);
        let snapshot = self.core.snapshot();
        let question = hook_question(self, hook, shape, job, &snapshot).to_string();
        let limit = Duration::from_millis(hook.timeout_ms);
        let answer = reactor::timeout(limit, exchange(hook, question)).await;
        let verdict = match answer {
            None => Err(format!("no answer in {} ms", hook.timeout_ms)),
            Some(answer) => answer.and_then(|body| read_verdict(&body, &snapshot)),
        };
        match verdict {
            Ok(verdict) => {
                if hook.cache_ms > 0 {
                    decisions.keep(rules, asked, verdict.clone());
                }
                Ok(verdict)
            }
            Err(reason) => {
                count(&self.core.counters.hooks_failed);
                tracing::debug!(session = handle.id, hook = hook.url, %reason, "no decision");
                match hook.fallback {
                    Fallback::Route => Ok(Verdict::default()),
                    Fallback::Primary => Ok(Verdict {
                        level: Some(Level::Strong),
                        ..Verdict::default()
                    }),
                    Fallback::Refuse => Err(reason),
                }
            }
        }
    }
}

/// What a hook is told.
fn hook_question(
    context: &StatementContext<'_>,
    hook: &Hook,
    shape: &Shape,
    job: Job,
    farm: &Snapshot,
) -> Value {
    let lossy = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let servers = context.connections.group(farm).map_or(&[][..], |group| &group.servers);
    let candidates = servers.iter().filter(|server| server.serves_reads());
    let candidates = candidates.map(|server| {
        json!({
            "name": &*server.name,
            "address": server.address(),
            "role": if server.status == farm::Status::Primary { "primary" } else { "replica" },
            "weight": server.weight,
            "lag_ms": server.lag_us().map(|us| us / 1000),
        })
    });
    let last = context.connections.current.last_server.and_then(|id| farm.server(id));
    let text = hook
        .sends_text
        .then(|| lossy(user_variables::text(&context.client.request, context.prepared, job)));
    json!({
        "user": lossy(context.user.name()),
        "client": address_of(context.user.peer.ip()).to_string(),
        "database": context.variables.state.database().map(lossy),
        "text": text,
        "digest": user_variables::digest(context.core, &context.client.request, context.variables, context.prepared, shape, job).map(|digest| digest.to_string()),
        "class": format!("{:?}", shape.class).to_lowercase(),
        "servers": candidates.collect::<Vec<_>>(),
        "last_used": last.map(|server| &*server.name),
        "in_transaction": context.variables.status.contains(Status::IN_TRANS),
    })
}
