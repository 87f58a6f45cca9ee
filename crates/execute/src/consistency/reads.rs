//! What a command begins with, and where a read goes whose server fails.

use std::time::{Duration, Instant};

use farm::{ServerId, Snapshot, Status as Role};
use mysql_wire::status::Status;
use routing::{Level, Need, Plan};
use sqltext::{Class, Verb};

use crate::connections::group_connections::GroupConnections;
use crate::connections::pin::Pins;
use crate::consistency::read_terms::{Failover, Stickiness, Transient};
use crate::counters::count;
use crate::execution::exec::{Job, Pipeline, Run, Shape};
use crate::per_core::Core;
use crate::session::Session;

/// A command before its first attempt. What fails in a transaction is not repeated: the server
/// may have rolled back more than the statement.
pub fn new_run(session: &mut Session, mut shape: Shape, job: Job) -> Run {
    session.run.begin_profile();
    session.client.note_pipeline();
    let (core, variables) = (&session.core, &session.variables);
    if is_known_writer(core, &shape) {
        (shape.class, shape.writes) = (Class::Other, true);
    }
    let alone = variables.status.contains(Status::AUTOCOMMIT)
        && !variables.status.contains(Status::IN_TRANS);
    let settings = core.settings().reads.transient;
    let began = session.run.measured.as_ref().map(|measured| measured.began);
    Run {
        shape,
        job,
        alone: true,
        pins: Pins::empty(),
        resume: None,
        began: match shape.class == Class::Read && alone {
            true => None,
            false => Some(began.unwrap_or_else(Instant::now)),
        },
        lost_on: None,
        hold: None,
        pipeline: Pipeline::default(),
        globals: Vec::new(),
        again: false,
        transient: if alone {
            settings
        } else {
            Transient::default()
        },
        recalls: false,
    }
}

/// True for a read that nothing holds and that may go elsewhere when its server fails.
pub fn may_move(core: &Core, connections: &GroupConnections, shape: &Shape) -> bool {
    connections.current.held.is_none() && shape.class == Class::Read && reads_move(core)
}

/// A read whose server fails may go to another one.
pub(crate) fn reads_move(core: &Core) -> bool {
    core.settings().reads.failover != Failover::Disabled
}

/// True for the begin of a transaction that a replica may have.
pub(crate) fn begins_reading(core: &Core, shape: &Shape) -> bool {
    let begins = matches!(
        shape.verb,
        Verb::Begin {
            read_only: true,
            ..
        }
    );
    begins && core.settings().reads.stickiness == Stickiness::On
}

/// A server failed this read: it goes elsewhere.
pub(crate) fn pass_over(
    core: &Core,
    connections: &GroupConnections,
    server: ServerId,
    avoid: &mut Vec<ServerId>,
) {
    avoid.push(server);
    let now_us = core.now_us();
    core.balance.borrow_mut().failed(server, now_us);
    if core.settings().reads.failover == Failover::Master {
        let snapshot = core.glance();
        let group = connections.group(&snapshot).into_iter();
        let servers = group.flat_map(|group| &group.servers);
        let replicas = servers.filter(|server| server.status != Role::Primary);
        avoid.extend(replicas.map(|server| server.id));
    }
}

/// Waits before a statement is repeated.
pub(crate) async fn pause_before_retry(core: &Core, run: &mut Run) {
    run.transient.tries = run.transient.tries.saturating_sub(1);
    count(&core.counters.transient_error_retries);
    let pause = Duration::from_micros(run.transient.pause_us);
    if !pause.is_zero() {
        reactor::sleep(pause).await;
    }
}

/// Tells the control plane what this read would have liked to know.
pub(crate) fn want_positions(snapshot: &Snapshot, need: &Need<'_>, plan: &Plan) {
    if plan.narrowed {
        snapshot.interest.in_positions(need.now_us);
    }
    if let Level::Eventual {
        max_lag_us: Some(bound_us),
    } = need.level
    {
        snapshot.interest.in_bound(bound_us, need.now_us);
    }
}

pub(crate) fn is_known_writer(core: &Core, shape: &Shape) -> bool {
    shape.class == Class::Read && {
        let writers = core.statements.writers.borrow();
        !writers.is_empty() && writers.contains(&shape.hash)
    }
}
