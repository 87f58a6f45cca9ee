//! Counts statements by digest, with what they took: around the run of each, and within a pipeline between two.
//!
//! Nothing is measured while an operator has switched digests off. What a statement of Heddle's own does for a
//! client's statement counts as the client's.

mod traced;

use std::sync::Arc;
use std::time::Instant;

use farm::ServerId;
use farm::local::{host_of, is_local};
use sqltext::{Class, Digest, may_hold_secret};
use statistics::{Call, Door, Kind, Name, Slow, TEXT_BYTES_MAX};

use crate::counters::count;
use crate::execution::exec::{Job, Shape};
use crate::execution::profile::Step;
use crate::execution::statement_run::Measured;
use crate::per_core::Core;
use crate::prepared::bound;
use crate::recorded;
use crate::session::Session;
use crate::variables::user_variables;

/// Of a longer text nobody looks whether it may be shown.
const EXAMPLE_OF_MAX: usize = 64 << 10;

/// The command is a statement that is to be counted; to be told [`end`] when it is over.
#[inline]
pub fn begin(session: &mut Session, shape: &Shape, job: Job) {
    let measured = recognise(session, shape, job);
    if measured.trace.is_some() && session.run.profile.begun {
        // It waits in a pipeline at the server of the one in front.
        session.run.profile.trace();
    }
    session.run.measured = Some(measured);
}

/// The command is none that is counted. One that prepares a statement has a span where that is traced: then this is
/// true, and [`end`] is to be told.
pub fn begin_uncounted(session: &mut Session, shape: &Shape, job: Job) -> bool {
    if !matches!(job, Job::Prepare(_)) || session.core.digests.measured().traces.is_none() {
        return false;
    }
    let measured = recognise(session, shape, job);
    let is_traced = measured.trace.is_some();
    session.run.measured = is_traced.then_some(measured);
    is_traced
}

/// What is known of the command at its beginning.
#[inline]
fn recognise(session: &mut Session, shape: &Shape, job: Job) -> Measured {
    let (core, client, variables) = (&session.core, &mut session.client, &session.variables);
    client.refused = 0;
    let digest =
        user_variables::digest(core, &client.request, variables, &session.prepared, shape, job);
    let mut asked = session.handle.asked.borrow_mut();
    asked.digest = digest;
    asked.origin.read(user_variables::text(&client.request, &session.prepared, job));
    let trace = traced::begin(session, job, &mut asked.origin);
    asked.origin.or_of(session.user.identity.program.as_deref());
    Measured {
        began: reactor::turn(),
        trace,
        commands: Vec::new(),
        job,
        kind: kind(shape.class),
        hash: shape.hash,
        digest,
        state: session.variables.state.clone(),
    }
}

/// The statement that was begun last is over, however it ended.
pub fn end(session: &mut Session) {
    let Some(measured) = session.run.measured.take() else {
        return;
    };
    record(session, &measured, 0);
}

/// A statement of a pipeline is over whose reply has `pending` bytes that are still to be sent.
pub(crate) fn end_in_pipeline(session: &mut Session, pending: usize) {
    let pending = pending as u64;
    session.run.profile.lap(Step::Serve);
    if let Some(measured) = session.run.measured.take() {
        record(session, &measured, pending);
    }
    let follower = session.run.profile.follower(pending);
    session.run.next(&session.handle.asked.borrow());
    session.run.profile = follower;
}

fn kind(class: Class) -> Kind {
    match class {
        Class::Read => Kind::Read,
        Class::Write => Kind::Write,
        Class::Ddl => Kind::Ddl,
        Class::Transaction => Kind::Transaction,
        Class::Call => Kind::Call,
        Class::Set
        | Class::Use
        | Class::Show
        | Class::Lock
        | Class::Local
        | Class::Other
        | Class::Empty => Kind::Other,
    }
}

fn record(session: &mut Session, measured: &Measured, pending: u64) {
    let call = call(session, measured, pending);
    if !measured.prepares() {
        recorded::finished(session.handle.id, call.error, call.rows_sent);
    }
    let door = match session.handle.internal_runs.get() {
        Some(_) => Door::Keys,
        None => Door::Sql,
    };
    if measured.trace.is_some() {
        traced::end(session, measured, &call, door);
    }
    if measured.prepares() {
        return;
    }
    let core = &session.core;
    let snapshot = core.glance();
    let profile = &session.run.profile;
    let group = profile.group(&snapshot);
    let Some(digest) = measured.digest else {
        return core.digests.count(measured.kind, door, group, &call);
    };
    {
        let asked = session.handle.asked.borrow();
        let name = Name {
            digest,
            user: session.user.name(),
            database: measured.state.database().unwrap_or_default(),
            group,
            tag: &asked.origin.tag,
        };
        let example = || example(session, measured.job).map(Arc::from);
        core.digests.note(&name, measured.hash, (measured.kind, door), &call, example);
    }
    if core.digests.is_slow(call.total_us()) {
        let server = profile.planned(&snapshot).filter(|_| profile.is_whole());
        let server = server.map(|server| server.id);
        tell_slow(session, (measured, digest), (call, door), group, server);
    }
}

/// What there is to count.
fn call(session: &mut Session, measured: &Measured, pending: u64) -> Call {
    let micros = |time: std::time::Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let refused = Some(session.client.refused).filter(|number| *number != 0);
    let profile = &mut session.run.profile;
    let mut call = Call::default();
    let mut ended = None;
    if profile.begun {
        if !profile.is_whole() {
            // The commit over several groups, and the rows that were put together.
            profile.lap(Step::Serve);
        }
        profile.end_clock();
        call.error = profile.error;
        call.rows_sent = profile.rows;
        call.rows_changed = profile.affected_rows;
        call.bytes = profile.bytes(pending);
        (call.rows_read, call.bytes_read) = match profile.is_whole() {
            true => (call.rows_sent, call.bytes),
            false => profile.moved,
        };
        ended = profile.times();
    }
    call.error = call.error.or(refused);
    let at = match ended {
        Some((waiting, served, at)) => {
            (call.waiting_us, call.server_us) = (micros(waiting), micros(served));
            at
        }
        // No server was asked, or nobody took the time.
        None => {
            let now = Instant::now();
            let took_us = micros(now.saturating_duration_since(measured.began));
            match measured.kind {
                // Heddle itself ends transactions over several groups.
                Kind::Transaction => call.server_us = took_us,
                _ => call.waiting_us = took_us,
            }
            now
        }
    };
    call.at_ms = session.core.digests.at_ms(at);
    call
}

/// The text of the current command as it came, where it may be shown.
fn example(session: &Session, job: Job) -> Option<String> {
    if !session.core.digests.shows_examples() {
        return None;
    }
    let text = user_variables::text(&session.client.request, &session.prepared, job);
    if text.len() > EXAMPLE_OF_MAX || may_hold_secret(text) {
        return None;
    }
    // Of an execution with the values that it came with.
    let bound = match job {
        Job::Execute(_) => bound::text_of(&session.context(), job),
        _ => None,
    };
    let text = bound.as_deref().unwrap_or(text);
    let beginning = &text[..text.len().min(TEXT_BYTES_MAX)];
    Some(String::from_utf8_lossy(beginning).into_owned())
}

#[cold]
fn tell_slow(
    session: &Session,
    (measured, digest): (&Measured, Digest),
    (call, door): (Call, Door),
    group: &str,
    server: Option<ServerId>,
) {
    let core: &Core = &session.core;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let asked = session.handle.asked.borrow();
    let example = example(session, measured.job);
    let address = server.and_then(|id| core.glance().server(id).map(|server| server.address()));
    let slow = Slow {
        call,
        kind: measured.kind,
        door,
        session: session.handle.id,
        user: text(session.user.name()),
        client: match door {
            Door::Sql if is_local(session.handle.peer.ip()) => host_of(session.handle.peer.ip()),
            Door::Sql => session.handle.peer.to_string(),
            Door::Keys => String::new(),
        },
        database: text(measured.state.database().unwrap_or_default()),
        group: group.to_owned(),
        server: address.unwrap_or_default(),
        digest,
        text: example.unwrap_or_else(|| core.digests.text(measured.hash).to_string()),
        tag: asked.origin.tag.clone(),
        trace: asked.origin.trace.clone(),
        retries: session.run.profile.retries(),
    };
    let queue = core.digests.measured().slow.as_ref();
    count(match queue.is_some_and(|queue| queue.offer(slow)) {
        true => &core.counters.slow_statements,
        false => &core.counters.slow_statements_dropped,
    });
}
