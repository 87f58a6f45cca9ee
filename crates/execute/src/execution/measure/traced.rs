//! Statements whose spans are exported: which, and what is told of each.
//!
//! Must not know: who exports them, and how.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use farm::Snapshot;
use farm::local::is_local;
use mysql_wire::query::text_attributes;
use mysql_wire::result::Value;
use mysql_wire::statement::Execute;
use sqltext::Origin;
use statistics::{Call, Door, Exemplar, Peer, Span, TraceContext, Traced};

use crate::counters::count;
use crate::execution::exec::{Job, text_shape};
use crate::execution::profile::commands;
use crate::execution::profile::laps::Lap;
use crate::execution::statement_run::Measured;
use crate::session::Session;

/// The span of the statement that begins, by what the comments of its text and its attributes say; `None` where it is
/// not traced.
#[inline]
pub(crate) fn begin(session: &Session, job: Job, origin: &mut Origin) -> Option<Box<TraceContext>> {
    if text_shape::has_attributes(&session.client) {
        match job {
            Job::Frame(_) => {
                let attributes = session.client.request.attributes();
                origin.take_attributes(text_attributes(attributes));
            }
            Job::Execute(id) => origin.take_attributes(bound(session, id).unwrap_or_default()),
            _ => {}
        }
    }
    session.core.digests.trace(&origin.trace)
}

/// The attributes of an execution that are texts.
fn bound(session: &Session, id: u32) -> Option<Vec<(&[u8], &[u8])>> {
    let statement = session.prepared.statements.get(&id)?;
    let body = session.client.request.payload().get(1..)?;
    let execute = Execute::decode(body, statement.params, true).ok()?;
    if execute.params <= statement.params {
        return None;
    }
    let typed = Execute {
        types: match execute.new_params_bound {
            true => execute.types,
            false => &statement.types,
        },
        ..execute
    };
    let params = typed.param_kinds().ok()?;
    let kinds: Vec<_> = params.iter().map(|param| param.kind).collect();
    let values = typed.decode_params(&kinds, |_| false).ok()?;
    let own = usize::from(statement.params);
    let pairs = params.into_iter().zip(values).skip(own);
    let texts = pairs.filter_map(|(param, value)| match value {
        Value::Bytes(text) => Some((param.name, text)),
        _ => None,
    });
    Some(texts.collect())
}

/// The traced statement is over: what there is to tell goes to the exporter.
#[cold]
pub(crate) fn end(session: &mut Session, measured: &Measured, call: &Call, door: Door) {
    let (Some(context), Some(queue)) =
        (measured.trace.as_deref(), session.core.digests.measured().traces.as_ref())
    else {
        return;
    };
    let laps = session.run.profile.take_laps();
    let mut laps = laps.map(|laps| laps.end(call.error, call.rows_read)).unwrap_or_default();
    commands::place(&measured.commands, &mut laps);
    let now = Now(Instant::now(), SystemTime::now());
    let snapshot = session.core.glance();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let asked = session.handle.asked.borrow();
    let client = Some(session.handle.peer).filter(|peer| !is_local(peer.ip()));
    let traced = Traced {
        context: *context,
        call: *call,
        kind: measured.kind,
        door,
        session: session.handle.id,
        user: text(session.user.name()),
        client: client.filter(|_| door == Door::Sql),
        database: text(measured.state.database().unwrap_or_default()),
        prepares: measured.prepares(),
        group: session.run.profile.group(&snapshot).to_owned(),
        digest: measured.digest,
        text: match measured.digest {
            Some(_) => session.core.digests.text(measured.hash).to_string(),
            None => String::new(),
        },
        tag: asked.origin.tag.clone(),
        retries: session.run.profile.retries(),
        began_ns: now.ns(measured.began),
        ended_ns: now.ns(now.0),
        spans: laps.into_iter().map(|lap| span(&now, &snapshot, measured.began, lap)).collect(),
    };
    if !traced.prepares {
        let exemplar = Exemplar {
            trace: context.trace,
            us: call.total_us(),
            at_ms: call.at_ms,
        };
        let of = (traced.kind, door, &*traced.group);
        session.core.digests.measured().exemplars.keep(of, exemplar);
    }
    count(match queue.offer(traced) {
        true => &session.core.counters.statements_traced,
        false => &session.core.counters.statements_traced_dropped,
    });
}

/// A part of a statement that began then; in a pipeline its server is at work before.
fn span(now: &Now, snapshot: &Snapshot, began: Instant, lap: Lap) -> Span {
    let peer = |id| {
        let Some(server) = snapshot.server(id) else {
            // A scratch server, or one that is gone.
            return Peer::default();
        };
        Peer {
            engine: server.engine.name(),
            group: server.group.to_string(),
            host: server.host.to_string(),
            port: server.port,
        }
    };
    Span {
        stage: lap.stage,
        began_ns: now.ns(lap.began.max(began)),
        ended_ns: now.ns(lap.ended.max(began)),
        within: lap.within,
        peer: lap.server.map(peer),
        failed: lap.failed,
        rows: lap.rows,
    }
}

/// The same moment by both clocks. It is taken anew for each statement: the two drift apart.
struct Now(Instant, SystemTime);

impl Now {
    /// A moment of before in nanoseconds since 1970.
    fn ns(&self, at: Instant) -> u64 {
        let since = self.1.duration_since(UNIX_EPOCH).unwrap_or_default();
        let ago = self.0.saturating_duration_since(at);
        u64::try_from(since.saturating_sub(ago).as_nanos()).unwrap_or(0)
    }
}
