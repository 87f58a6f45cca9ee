//! Answering from the cache, and keeping what may be answered from it.

use farm::ServerId;
use mysql_wire::relay::{Expect, Outcome};
use routing::Level;
use sqltext::Class;

use crate::client::end::End;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::connections::group_connections::GroupConnections;
use crate::consistency::promises::Promises;
use crate::counters::count;
use crate::execution::cache::{ENTRY_BYTES, Entry, Key, REPLY_BYTES_MAX, cache_key};
use crate::execution::exec::{Job, Shape};
use crate::execution::point::vouch;
use crate::execution::statement_run::StatementRun;
use crate::session::Session;

/// Before such a command is run: answers it from the cache, or has its reply recorded. True when
/// it was answered.
pub(crate) async fn answer_from_cache(session: &mut Session, shape: &Shape) -> Result<bool, End> {
    let ttl_s = cache_ttl_s(&session.connections, &session.promises, shape);
    let (ttl_us, now_us) = (u64::from(ttl_s) * 1_000_000, session.core.now_us());
    let found = session.core.statements.cache.get(
        &cache_key(&session.core, &session.user, &session.client, &session.variables),
        ttl_us,
        now_us,
    );
    let Some((reply, outcome)) = found else {
        count(&session.core.counters.cache_misses);
        session.run.recording = Some(Vec::new());
        return Ok(false);
    };
    answer_kept(session, shape, &reply, &outcome).await?;
    Ok(true)
}

/// Answers with a reply that was kept.
pub(crate) async fn answer_kept(
    session: &mut Session,
    shape: &Shape,
    reply: &[u8],
    outcome: &Outcome,
) -> Result<(), End> {
    count(&session.core.counters.cache_hits);
    session.run.number += 1;
    session.connections.current.last_connection = 0;
    session.variables.diagnostics.note(shape, outcome, session.variables.mode.dialect);
    let bytes = reply.len();
    let (sent, _) = session.client.send(reply.to_vec(), 0..bytes).await;
    sent.map_err(|_| End::Gone)
}

/// After a complete reply: keeps it if it may be.
pub(crate) fn keep_reply(session: &mut Session, outcome: &Outcome, server: ServerId) {
    let point = session.run.point.take();
    let Some(reply) = session.run.recording.take() else {
        return;
    };
    let bytes_max = session.core.settings().cache_bytes_max / session.core.shared.counters.len();
    if outcome.error.is_some() || outcome.warnings > 0 || !outcome.has_rows {
        return;
    }
    if let Some(point) = point {
        let entry = entry_of(point.kept_as(), &reply, outcome, 0);
        return vouch::keep_point(&session.core, &session.client, *point, server, &reply, entry);
    }
    let snapshot = session.core.glance();
    let Some(server) = snapshot.server(server) else {
        return;
    };
    // What the primary answered is of the moment when it was asked.
    let complete_us = match server.serves_writes() {
        true => session.promises.began_us,
        false => server.fresh.complete_us(),
    };
    if complete_us == 0 {
        return;
    }
    let key = cache_key(&session.core, &session.user, &session.client, &session.variables);
    let entry = entry_of(&key, &reply, outcome, complete_us);
    session.core.statements.cache.put(key, entry, bytes_max);
}

impl StatementRun {
    /// A part of a reply goes to the client.
    pub fn record(&mut self, part: &[u8]) {
        let Some(recording) = &mut self.recording else {
            return;
        };
        if recording.len() + part.len() > REPLY_BYTES_MAX {
            self.recording = None;
        } else {
            recording.extend_from_slice(part);
        }
    }
}

/// For how long the reply to this statement may be kept, in seconds; 0 for not at all.
fn cache_ttl_s(connections: &GroupConnections, promises: &Promises, shape: &Shape) -> u32 {
    let asked = match shape.cache_ttl_s {
        0 => promises.cache_ttl_s,
        asked => asked,
    };
    let eventual = matches!(promises.level_of(shape), Level::Eventual { .. });
    if eventual && shape.class == Class::Read && connections.current.held.is_none() {
        asked
    } else {
        0
    }
}

/// True for a command whose reply may come from the cache.
pub(crate) fn may_be_cached(
    request: &Request,
    connections: &GroupConnections,
    promises: &Promises,
    shape: &Shape,
    job: Job,
) -> bool {
    let text = job == Job::Frame(Expect::Results) && !request.has_more();
    text && cache_ttl_s(connections, promises, shape) > 0
}

fn entry_of(key: &Key, reply: &[u8], outcome: &Outcome, complete_us: u64) -> Entry {
    Entry {
        bytes: key.text.len() + reply.len() + ENTRY_BYTES,
        reply: reply.into(),
        outcome: outcome.clone(),
        complete_us,
        vouched: None,
    }
}
