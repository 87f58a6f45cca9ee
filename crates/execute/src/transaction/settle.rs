//! After a reply: what the session now knows, and where its connection goes.

use std::rc::Rc;

use backend::{Connection, Lease};
use farm::ServerId;
use mysql_wire::relay::Outcome;
use mysql_wire::status::Status;
use reactor::rarely;
use sqltext::{Class, Facts, Verb};

use crate::client::end::End;
use crate::connections::group_connections::{GroupConnections, Held};
use crate::connections::parked::reclaim;
use crate::connections::parked::reclaim::{give_back, park};
use crate::connections::pin::Pins;
use crate::consistency::promises::keeping;
use crate::counters::{count, statistics};
use crate::execution::cache::recall;
use crate::execution::exec::{Done, Run, Shape};
use crate::execution::profile::server_counters::Before;
use crate::execution::statement_run::StatementRun;
use crate::per_core::handle::Handle;
use crate::per_core::{Core, accounts};
use crate::recorded;
use crate::session::context::StatementContext;
use crate::session::{self, Session};
use crate::variables::changes::Changes;
use crate::variables::diagnostics::answers;
use crate::variables::session_variables::SessionVariables;
use crate::variables::{defaults, insert_id};

/// Takes note of a complete reply and keeps or gives back the connection.
pub(crate) fn settle(
    session: &mut Session,
    mut lease: Lease,
    shape: &Shape,
    pins: Pins,
    done: &mut Done,
) -> Result<(), End> {
    let Done { outcome, changes } = done;
    let pins = learn(session, lease.connection_mut(), shape, pins, outcome, changes);
    place(session, lease, shape, pins, outcome.error.is_some())
}

/// After a complete reply of its own connection: takes note of what others may use.
pub(crate) fn note_answer(
    session: &mut Session,
    connection: &Connection,
    run: &Run,
    outcome: &Outcome,
    changes: &Changes,
) {
    note_route(session, connection, run, outcome, changes);
    session.connections.meet(connection);
    recall::keep_reply(session, outcome, connection.server);
    defaults::note_globals(&session.core, run, outcome, connection.server);
}

/// After a complete reply: counts where it came from, and remembers what was refused late.
pub(crate) fn note_route(
    session: &mut Session,
    connection: &Connection,
    run: &Run,
    outcome: &Outcome,
    changes: &Changes,
) {
    let replica = connection.is_guarded();
    statistics::note_served(
        &session.core,
        &session.variables,
        &session.connections,
        &session.run,
        &run.shape,
        connection.server,
        replica,
    );
    session.run.profile.done(connection, outcome);
    if replica {
        count(&session.core.counters.reads_to_replicas);
    }
    if changes.writes {
        session.core.learn_writer(run.shape.hash);
    }
}

/// Takes note of what matters to others than the session.
fn note_reply(session: &mut Session, connection: &mut Connection, outcome: &Outcome) {
    recorded::answered(session.handle.id, connection, outcome);
    note_life(&session.core, connection, outcome);
    note_owner(&session.handle, &mut session.run, connection, outcome);
}

/// A server that does what it is asked lives, and need not be asked whether it does. One that refuses is asked why soon: it
/// may have become read-only.
#[inline]
fn note_life(core: &Core, connection: &mut Connection, outcome: &Outcome) {
    if outcome.error.is_none()
        && let Some(ago_us) = connection.moments.sign_of_life()
    {
        tell_life(core, connection.server, ago_us);
    }
}

/// The server lived so many microseconds ago.
#[cold]
fn tell_life(core: &Core, server: ServerId, ago_us: u64) {
    if let Some(server) = core.glance().server(server) {
        server.fresh.answered(core.now_us().saturating_sub(ago_us));
    }
}

/// Takes note of a complete reply. Returns what ties the session to the connection now.
pub(crate) fn learn(
    session: &mut Session,
    connection: &mut Connection,
    shape: &Shape,
    pins: Pins,
    outcome: &Outcome,
    changes: &mut Changes,
) -> Pins {
    note_reply(session, connection, outcome);
    if outlives_reset(shape.verb) {
        connection.condemn();
    }
    if outcome.last_insert_id != 0 {
        insert_id::note_insert_id(
            &session.handle,
            &mut session.variables,
            connection,
            outcome.last_insert_id,
        );
    }
    let failed = outcome.error.is_some();
    let in_transaction = session.variables.status.contains(Status::IN_TRANS);
    let doubt = keeping::note_promises(session, connection, shape, changes, failed, in_transaction);
    statistics::note_gtid(&session.core, shape, changes.gtid.is_some(), doubt, in_transaction);
    if let Some((gtid, position)) = changes.committed(connection.engine()) {
        recorded::committed(session.handle.id, gtid, position);
        connection.reported.add(position);
    }
    note_connection(&session.handle, &mut session.connections, connection);
    if let Some(state) = changes.state.take() {
        let state = Rc::new(state);
        connection.set_state(state.clone());
        session::set_state(
            &session.core,
            &session.handle,
            &session.user,
            &mut session.variables,
            state,
        );
    }
    if let Some(status) = outcome.status {
        statistics::note_autocommit(&session.core, &session.variables, status);
        session.variables.status = status;
    }
    accounts::note_accounts(
        &session.core,
        &mut session.user,
        &session.client.request,
        shape,
        failed,
    );
    session.transaction.note_failure(outcome.error);
    session.variables.gets_diagnostics |= matches!(shape.verb, Verb::GetDiagnostics);
    answers::note_diagnostics(&session.client.request, &mut session.variables, shape, outcome);
    if let Some(mut residue) = changes.residue.take() {
        session.variables.diagnostics.learn(&mut residue);
    }
    let ended = changes.ended;
    let mut new = Pins::empty();
    new.set(Pins::VARIABLE, changes.pins);
    new.set(Pins::USER_VARIABLE, changes.pins_user_variables);
    new.set(Pins::NEXT_TRANSACTION, changes.one_shot);
    let after = pins_after(&session.context(), shape, pins, outcome, new, ended);
    if (pins - after).contains(Pins::NEXT_TRANSACTION) {
        session.variables.next_transaction.clear();
    }
    after
}

/// Notes on the connection whose statement it ran last.
fn note_owner(
    handle: &Handle,
    run: &mut StatementRun,
    connection: &mut Connection,
    outcome: &Outcome,
) {
    // To prepare a statement is not to run it: the diagnostics before it stay, wherever they are.
    if outcome.prepared.is_none() || outcome.error.is_some() {
        run.number += 1;
        connection.owner.session = handle.id;
        connection.owner.statement = run.number;
    }
    if outcome.error.is_some() || outcome.warnings > 0 {
        connection.owner.warned = handle.id;
    }
}

/// Notes which connection ran the last statement.
fn note_connection(handle: &Handle, connections: &mut GroupConnections, connection: &Connection) {
    connections.current.last_server = Some(connection.server);
    connections.current.last_connection = connection.id;
    handle.idle.login_timeout_s.set(connection.login_timeout_s);
}

/// After the complete reply of one statement on its connection: takes note of it, of what its server counted where
/// the session wants that, and keeps or gives back the connection.
pub(crate) async fn settle_run(
    session: &mut Session,
    lease: Lease,
    run: &Run,
    mut done: Box<Done>,
) -> Result<(), End> {
    let settled = match session.run.before.take() {
        None => settle(session, lease, &run.shape, run.pins, &mut done),
        Some(before) => rarely(settle_counted(session, lease, run, &mut done, &before)).await,
    };
    session.core.statements.replies.give(done);
    settled
}

async fn settle_counted(
    session: &mut Session,
    mut lease: Lease,
    run: &Run,
    done: &mut Done,
    before: &Before,
) -> Result<(), End> {
    let Done { outcome, changes } = done;
    let connection = lease.connection_mut();
    let pins = learn(session, connection, &run.shape, run.pins, outcome, changes);
    // What somebody may still ask for stays as it is.
    if outcome.error.is_none() && !leaves(&session.variables, &run.shape) {
        session.run.profile.counters = before.added(connection).await.map(Rc::new);
        // From now on only the session knows what the statement left.
        connection.owner.statement = 0;
    }
    place(session, lease, &run.shape, pins, outcome.error.is_some())
}

/// Keeps a connection behind a complete reply of which everything is noted, or gives it back.
fn place(
    session: &mut Session,
    lease: Lease,
    shape: &Shape,
    pins: Pins,
    failed: bool,
) -> Result<(), End> {
    if !failed && completion(&session.variables, shape.verb).1 {
        // The server closes the connection now, and so does Heddle.
        return Err(End::Quit);
    }
    match goes(&session.variables, shape, pins, failed) {
        Goes::Nowhere => session.connections.current.held = Some(Held { lease, pins }),
        Goes::Aside => park(&session.core, &session.handle, &session.variables, lease, shape),
        Goes::Back => give_back(&session.handle, lease),
    }
    Ok(())
}

/// Keeps a connection as it was kept before a command that never ran.
pub(crate) fn keep_after_error(session: &mut Session, lease: Lease, pins: Pins) {
    let (core, handle, own) = (&session.core, &session.handle, &session.variables);
    reclaim::give_back_after_error(core, handle, own, &mut session.connections, lease, pins);
}

/// Where a connection goes behind a complete reply.
#[derive(Debug, PartialEq, Eq)]
enum Goes {
    /// It stays, for a transaction or a pin.
    Nowhere,
    /// Somebody may ask for what the statement left there.
    Aside,
    /// Into the pool.
    Back,
}

fn goes(variables: &SessionVariables, shape: &Shape, pins: Pins, failed: bool) -> Goes {
    // An error says nothing of the transaction: it may be open still, or since just now.
    let in_transaction = variables.status.contains(Status::IN_TRANS)
        || (failed && !variables.status.contains(Status::AUTOCOMMIT));
    if in_transaction || !pins.is_empty() {
        return Goes::Nowhere;
    }
    match leaves(variables, shape) {
        true => Goes::Aside,
        false => Goes::Back,
    }
}

/// The statement left something on its connection that only the connection knows.
fn leaves(variables: &SessionVariables, shape: &Shape) -> bool {
    variables.diagnostics.unasked()
        || variables.gets_diagnostics
        || variables.diagnostics.counted(shape)
        || reclaim::unfetched(variables)
}

fn pins_after(
    context: &StatementContext<'_>,
    shape: &Shape,
    before: Pins,
    outcome: &Outcome,
    new: Pins,
    ended: Pins,
) -> Pins {
    let done = outcome.error.is_none();
    let mut made = Pins::of(shape.class, shape.verb, shape.facts);
    if !done && !shape.facts.contains(Facts::MULTIPLE) {
        made -= Pins::MADE_WHOLE;
    }
    let mut pins = (before | new | made) - ended;
    if done && matches!(shape.verb, Verb::UnlockTables | Verb::UnlockInstance) {
        pins -= Pins::LOCK_TABLES;
    }
    let ended = !context.variables.status.contains(Status::IN_TRANS) && shape.class != Class::Set;
    if before.contains(Pins::NEXT_TRANSACTION) && ended && done {
        pins -= Pins::NEXT_TRANSACTION;
    }
    pins.set(Pins::STATEMENT, context.prepared.has_ties());
    pins.count_new(before, &context.core.counters);
    pins
}

/// What follows the end of a transaction by this statement: another one, the end of the session. Both
/// may be left to the session's completion type.
pub fn completion(variables: &SessionVariables, verb: Verb) -> (bool, bool) {
    let (Verb::Commit { chain, release } | Verb::Rollback { chain, release }) = verb else {
        return (false, false);
    };
    let set = variables.state.variable("completion_type");
    let is = |word: &[u8], digit: &[u8]| set.is_some_and(|it| it == word || it == digit);
    (chain.unwrap_or_else(|| is(b"CHAIN", b"1")), release.unwrap_or_else(|| is(b"RELEASE", b"2")))
}

/// What such a statement leaves, a reset of the connection may not end.
fn outlives_reset(verb: Verb) -> bool {
    matches!(verb, Verb::SetResourceGroup | Verb::Backup | Verb::LockInstance | Verb::Xa)
}

#[cfg(test)]
mod tests {
    use sqltext::Dialect;

    use super::*;
    use crate::variables::session_variables::fresh;

    fn fate(status: Status, pins: Pins, failed: bool) -> Goes {
        let mut variables = fresh(Dialect::MariaDb);
        variables.status = status;
        goes(&variables, &Shape::command(), pins, failed)
    }

    #[test]
    fn a_transaction_or_a_pin_keeps_the_connection() {
        let (free, none) = (Status::AUTOCOMMIT, Pins::empty());
        assert_eq!(fate(free, none, false), Goes::Back);
        assert_eq!(fate(free | Status::IN_TRANS, none, false), Goes::Nowhere);
        assert_eq!(fate(free, Pins::LOCK_TABLES, false), Goes::Nowhere);
    }

    #[test]
    fn without_autocommit_an_error_may_have_begun_a_transaction() {
        let none = Pins::empty();
        assert_eq!(fate(Status::AUTOCOMMIT, none, true), Goes::Back);
        assert_eq!(fate(Status::empty(), none, true), Goes::Nowhere);
        assert_eq!(fate(Status::empty(), none, false), Goes::Back);
    }

    #[test]
    fn what_somebody_may_ask_for_is_put_aside() {
        let mut variables = fresh(Dialect::MariaDb);
        let warned = Outcome {
            warnings: 1,
            ..Outcome::default()
        };
        variables.diagnostics.note(&Shape::command(), &warned, Dialect::MariaDb);
        assert_eq!(goes(&variables, &Shape::command(), Pins::empty(), false), Goes::Aside);
        let mut variables = fresh(Dialect::MariaDb);
        variables.gets_diagnostics = true;
        assert_eq!(goes(&variables, &Shape::command(), Pins::empty(), false), Goes::Aside);
    }
}
