//! The connections of a statement on several groups: where they come from, and what becomes of them.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use backend::{Lease, Questions, Warnings};
use dist_txn::Across;
use dist_txn::own::end_across;
use execute::connections::group_connections::{GroupConnections, Held};
use execute::connections::parked::reclaim;
use execute::connections::pin::Pins;
use execute::consistency::promises::keeping;
use execute::consistency::required_waits::ask;
use execute::consistency::{client_level, reads};
use execute::counters::{count, statistics};
use execute::execution::exec::{Job, Run, Shape, Tried};
use execute::execution::profile::{Profile, Step};
use execute::execution::{attempt, route, servers_tried, without};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::prepared::statements::PreparedStatements;
use execute::session::{Session, is_free};
use execute::transaction::lock_waits;
use execute::variables::changes::Changes;
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use farm::ServerId;
use mysql_wire::command::Command;
use mysql_wire::relay::{Expect, Outcome};
use mysql_wire::status::Status;

use super::feed::{Feed, Order};
use super::feeds::Feeds;
use super::rows::Trouble;
use super::stop::all;
use super::warnings::together;
use super::{Part, Scatter, Stuck};
use std::rc::Rc;

/// Its name is Heddle's own: a statement inside a transaction is undone to here.
const SAVEPOINT: &[u8] = b"SAVEPOINT `heddle.statement`";
/// MySQL forgets warnings by it: behind a write it waits until they have been asked for.
const NO_CLOCK: &[u8] = b"SET timestamp=DEFAULT";
const UNDO: &[u8] = b"ROLLBACK TO SAVEPOINT `heddle.statement`";

/// Parts are texts, whatever the client's command is.
pub(super) const TEXT: Job = Job::Frame(Expect::Results);

/// A part's connection, and how it was chosen.
pub(super) struct Taken {
    group: Arc<str>,
    /// Its text is prepared there under this id.
    prepared: Option<u32>,
    pub lease: Option<Lease>,
    pins: Pins,
    tried: Tried,
}

/// What is left of a part when its reply is over.
pub(super) struct Over {
    group: Arc<str>,
    lease: Option<Lease>,
    pins: Pins,
    tried: Tried,
    pub outcome: Outcome,
    changes: Changes,
    pub refusal: Option<execute::client::refuse::ServerRefusal>,
    buffer: Vec<u8>,
}

/// What is left of all parts, in their order.
pub(super) struct Done {
    pub parts: Vec<Over>,
    /// Their warnings, once they were asked.
    pub told: Option<Warnings>,
    /// So many of what they counted is one warning that several have.
    pub repeated: u16,
    /// The first part's warnings are all.
    same: bool,
    /// Their connections have the statement's time still.
    clocked: bool,
    /// The transaction was the statement's own, and is rolled back on all groups.
    pub undone: bool,
}

impl Done {
    /// Of connections that are still there it is noted what they did.
    pub fn of(taken: Vec<Taken>, feeds: Feeds, profile: &mut Profile) -> Done {
        let clocked = feeds.clocked;
        let parts = taken.into_iter().zip(feeds.all).map(|(taken, mut feed)| {
            let outcome = std::mem::take(&mut feed.outcome);
            let changes = std::mem::take(&mut feed.changes);
            let refusal = feed.refusal.take();
            let row_bytes = feed.row_bytes;
            let ended = feed.ended;
            profile.served(feed.on.0, ended, &outcome, feed.lost);
            let (lease, buffer) = feed.finish();
            if let Some(lease) = &lease {
                profile.part_done(&taken.group, lease.connection(), &outcome, row_bytes);
            }
            Over {
                group: taken.group,
                lease,
                pins: taken.pins,
                tried: taken.tried,
                outcome,
                changes,
                refusal,
                buffer,
            }
        });
        Done {
            parts: parts.collect(),
            told: None,
            repeated: 0,
            same: false,
            clocked,
            undone: false,
        }
    }

    /// Warnings of all parts, once they were asked.
    pub fn warnings(&self) -> u16 {
        let each = self.counted().iter().map(|part| part.outcome.warnings);
        let all = each.fold(0, u16::saturating_add);
        all.saturating_sub(self.repeated)
    }

    /// The parts whose warnings are the statement's.
    fn counted(&self) -> &[Over] {
        let counted = if self.same { 1 } else { self.parts.len() };
        &self.parts[..counted.min(self.parts.len())]
    }

    /// Asks for the warnings of all parts, or for those of the part that failed. `same`: they did the
    /// same to copies of the same rows, so the first one's are all.
    pub async fn ask_warnings(&mut self, texts: &[Part], same: bool, trouble: Option<&Trouble>) {
        let failed = match trouble {
            None => None,
            Some(Trouble::Refused(at)) => Some(*at),
            Some(_) => return,
        };
        self.same = same;
        let questions = Questions {
            warnings: true,
            ..Questions::default()
        };
        let (mut columns, mut said) = (None, Vec::new());
        for (at, part) in self.parts.iter_mut().enumerate() {
            let asked = match failed {
                Some(failed) => failed == at,
                None => part.outcome.warnings > 0 && (at == 0 || !same),
            };
            let mut rows = Vec::new();
            if let Some(lease) = part.lease.as_mut().filter(|_| asked)
                && let Ok(residue) = lease.connection_mut().residue(&questions).await
                && let Some(warnings) = residue.warnings
            {
                rows = warnings.rows;
                columns = columns.or(Some(warnings.columns));
            }
            let text = texts.get(at).map_or(&[][..], |part| &part.text);
            said.push((text, rows));
        }
        let all = together(&said);
        self.repeated = all.repeated;
        self.told = columns.map(|columns| Warnings {
            columns,
            rows: all.rows,
        });
    }

    /// The connections have the servers' own time again.
    pub async fn end_clock(&mut self) {
        if std::mem::take(&mut self.clocked) {
            self.run(NO_CLOCK, |_| true).await;
        }
    }

    /// The connections have the tables no more that they were given.
    pub async fn drop_carried(&mut self, scatter: &Scatter) {
        if let Some(carried) = &scatter.carried {
            self.run(&carried.drops(), |_| true).await;
        }
    }

    /// The number of the error by which a part was refused.
    pub fn refusal_of(&self, trouble: &Trouble) -> Option<u16> {
        let Trouble::Refused(at) = trouble else {
            return None;
        };
        self.parts[*at].refusal.as_ref().map(|refusal| refusal.number)
    }

    /// Where a part was tried.
    pub fn tried(&self, at: usize) -> Tried {
        let tried = &self.parts[at].tried;
        Tried {
            plan: tried.plan,
            target: tried.target.clone(),
            free: tried.free,
        }
    }

    /// Runs a statement of Heddle's own on these connections at the same time. Gives the places of
    /// those that refused it or broke; theirs are closed.
    async fn run(&mut self, text: &[u8], on: impl Fn(&Over) -> bool) -> Vec<usize> {
        let places: Vec<usize> = (0..self.parts.len())
            .filter(|&at| self.parts[at].lease.is_some() && on(&self.parts[at]))
            .collect();
        let mut runs: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
        for part in self.parts.iter_mut().filter(|part| on(part)) {
            let slot = &mut part.lease;
            runs.push(Box::pin(async move {
                if let Some(lease) = slot
                    && lease.connection_mut().run(&[(Command::Query, text)]).await.is_err()
                {
                    *slot = None;
                }
            }));
        }
        all(runs).await;
        let gone = |at: &usize| self.parts[*at].lease.is_none();
        places.into_iter().filter(gone).collect()
    }
}

/// Connections for all parts. They are taken in the order of the groups' names, so that statements
/// which wait for connections do not wait for each other; and given back when one cannot be had.
pub(super) async fn take_parts(
    session: &mut Session,
    scatter: &Scatter,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Vec<Taken>, (Arc<str>, Stuck)> {
    let mut order: Vec<usize> = (0..scatter.parts.len()).collect();
    order.sort_by(|&a, &b| scatter.parts[a].group.cmp(&scatter.parts[b].group));
    let mut taken: Vec<Option<Taken>> = scatter.parts.iter().map(|_| None).collect();
    warm_parts(session, scatter, &run.shape, avoid).await;
    run.alone = true;
    for at in order {
        match take_part(session, &scatter.parts[at], run, avoid).await {
            Ok(part) => taken[at] = Some(part),
            Err(stuck) => {
                for part in taken.into_iter().flatten() {
                    untake(
                        &session.core,
                        &session.handle,
                        &session.variables,
                        &mut session.connections,
                        part,
                    );
                }
                let group = scatter.parts[at].group.clone();
                // The wait is for this one's group.
                sit_at(&session.core, &mut session.connections, &group);
                return Err((group, stuck));
            }
        }
    }
    Ok(taken.into_iter().flatten().collect())
}

/// Has connections made at the same time where several parts would have to wait for theirs.
async fn warm_parts(session: &mut Session, scatter: &Scatter, shape: &Shape, avoid: &[ServerId]) {
    let mut cold = Vec::new();
    for part in scatter.parts.iter().filter(|_| scatter.parts.len() > 1) {
        if !sit_at(&session.core, &mut session.connections, &part.group)
            || session.connections.current.held.is_some()
        {
            continue;
        }
        let Ok((plan, target)) = route::route(session, shape, None, avoid) else {
            continue;
        };
        let pools = &session.core.pools;
        let key = pools.key(plan.server, plan.read_only, &session.user.identity.pass);
        if !pools.is_warm(key, &session.variables.state) {
            cold.push((target, key));
        }
    }
    if cold.len() < 2 {
        return;
    }
    let warming = cold.into_iter().map(|(target, key)| {
        let (pools, state) = (session.core.pools.clone(), session.variables.state.clone());
        let one = async move { pools.warm(&target, key, &state).await };
        Box::pin(one) as Pin<Box<dyn Future<Output = ()>>>
    });
    let warming = warming.collect();
    Box::pin(all(warming)).await;
}

async fn take_part(
    session: &mut Session,
    part: &Part,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<Taken, Stuck> {
    if !sit_at(&session.core, &mut session.connections, &part.group) {
        return Err(Stuck::NoGroup);
    }
    let shape = run.shape;
    let (plan, target) = route::route(session, &shape, None, avoid).map_err(Stuck::Refused)?;
    session.run.profile.chosen_for_part(plan, session.promises.level_of(&shape));
    let free = reads::may_move(&session.core, &session.connections, &shape)
        && !avoid.contains(&plan.server);
    run.alone &= session.connections.current.held.is_none();
    if let Some(log) = &mut session.connections.current.replay {
        log.refuse("a statement of it ran on several groups");
    }
    let checkout = Box::pin(servers_tried::checkout(session, &plan, &target, &shape));
    let (mut lease, pins) = match checkout.await {
        Ok(taken) => taken,
        Err(error)
            if without::does_without(
                &session.core,
                &session.handle,
                &session.user,
                &mut session.variables,
                &error,
            ) =>
        {
            return Err(Stuck::Again);
        }
        Err(error) => return Err(Stuck::Failed(Tried { plan, target, free }, error)),
    };
    run.pins |= pins;
    let tried = Tried { plan, target, free };
    if plan.wait
        && !Box::pin(ask::await_required(
            (&session.core, tried.target.session),
            &session.connections,
            &session.promises,
            &mut lease,
        ))
        .await
    {
        avoid.push(plan.server);
        reclaim::give_back(&session.handle, lease);
        return Err(Stuck::Again);
    }
    let ready = user_variables::bring_values(
        &session.handle,
        &session.client.request,
        &mut session.variables,
        &session.prepared,
        lease.connection_mut(),
        &shape,
        TEXT,
    )
    .await;
    if let Err(error) = ready {
        return Err(Stuck::Failed(tried, error.into()));
    }
    Ok(Taken {
        group: part.group.clone(),
        prepared: None,
        lease: Some(lease),
        pins,
        tried,
    })
}

/// Sends all parts. `marked`: within the client's transaction, where it may have to be undone alone.
pub(super) fn start_parts(
    session: &mut Session,
    scatter: &Scatter,
    taken: &mut [Taken],
    run: &Run,
    marked: bool,
) -> Feeds {
    let mut all = Vec::with_capacity(taken.len());
    let own_clock = session.variables.has_own_clock();
    let clock = (scatter.clock && !own_clock).then(set_timestamp).flatten();
    session.run.profile.lap(Step::Connect);
    for (part, taken) in scatter.parts.iter().zip(taken) {
        let Some(lease) = taken.lease.take() else {
            continue;
        };
        if all.is_empty() {
            attempt::begin_attempt(session, lease.connection(), run);
        }
        count(&session.core.counters.statements);
        let mut order = Order {
            text: part.text.clone(),
            prepared: taken.prepared,
            ..Order::default()
        };
        if let Some(carried) = &scatter.carried {
            order.before.clone_from(&carried.creates);
            order.exact = carried.inserts(&part.group);
        }
        if let Some(clock) = &clock {
            order.before.push(clock.clone());
            if !run.shape.writes {
                order.after.push(NO_CLOCK.to_vec());
            }
        }
        if run.shape.writes && marked {
            order.before.push(SAVEPOINT.to_vec());
        }
        all.push(Feed::start(lease, &order, session.core.take_buffer()));
    }
    let elsewhere = all.iter().skip(1).map(|feed| feed.on).collect();
    session.handle.at_servers.running_elsewhere.replace(elsewhere);
    let clocked = clock.is_some() && run.shape.writes;
    Feeds { all, clocked }
}

/// The statement went well everywhere: a transaction of its own is committed.
pub(super) async fn commit_parts(
    session: &mut Session,
    done: &mut Done,
    across: Option<Across>,
) -> Option<Trouble> {
    let across = across.filter(Across::is_own)?;
    seat_parts(&session.core, &mut session.connections, done);
    let outcome = end_across(session, across, true).await;
    let (error, why) = outcome.error()?;
    Some(Trouble::Uncommitted(error, why))
}

/// Undoes what a statement did that failed somewhere.
pub(super) async fn undo_parts(
    session: &mut Session,
    done: &mut Done,
    run: &Run,
    across: Option<Across>,
) {
    for part in &mut done.parts {
        let number = part.refusal.as_ref().map(|refusal| refusal.number);
        if let Some(refusal) = lock_waits::waited_for(&session.core, &session.transaction, number) {
            part.refusal = Some(refusal);
        }
    }
    match across {
        Some(across) if across.is_own() => {
            seat_parts(&session.core, &mut session.connections, done);
            let ended = end_across(session, across, false).await;
            done.undone = ended.error().is_none();
        }
        _ if run.shape.writes => {
            done.run(UNDO, |part| part.refusal.is_none()).await;
        }
        _ => {}
    }
}

/// Takes note of what each part said, and keeps its connection or gives it back.
pub(super) fn leave_parts(session: &mut Session, run: &Run, done: Done) {
    let open = !is_free(session.variables.status);
    for part in done.parts {
        session.core.give_buffer(part.buffer);
        sit_at(&session.core, &mut session.connections, &part.group);
        let Some(mut lease) = part.lease else {
            continue;
        };
        let connection = lease.connection_mut();
        statistics::note_served(
            &session.core,
            &session.variables,
            &session.connections,
            &session.run,
            &run.shape,
            connection.server,
            connection.is_guarded(),
        );
        connection.owner.session = session.handle.id;
        connection.owner.statement = 0;
        let failed = part.outcome.error.is_some();
        let mut changes = part.changes;
        let doubt =
            keeping::note_promises(session, connection, &run.shape, &mut changes, failed, open);
        statistics::note_gtid(&session.core, &run.shape, changes.gtid.is_some(), doubt, open);
        if changes.gtid.is_some() {
            let position = changes.position(connection.engine());
            // Its client has not heard of it yet.
            client_level::tell_client(
                &session.core,
                &session.connections,
                &session.transaction,
                position,
            );
            connection.reported.add(position);
        }
        session.connections.current.last_server = Some(connection.server);
        session.connections.current.last_connection = connection.id;
        let status = part.outcome.status.unwrap_or(session.variables.status);
        if status.contains(Status::IN_TRANS) && open {
            session.variables.status |= Status::IN_TRANS;
        }
        match open || !part.pins.is_empty() {
            true => {
                let pins = part.pins;
                session.connections.current.held = Some(Held { lease, pins });
            }
            false => reclaim::give_back(&session.handle, lease),
        }
    }
}

/// Prepares the texts of rows with numbers that text rows would cut, on all servers at the same
/// time. One that cannot be prepared runs as text, and its server says what is wrong.
pub(super) async fn prepare_parts(
    prepared: &PreparedStatements,
    scatter: &Scatter,
    taken: &mut [Taken],
    job: Job,
) {
    if !prepared.wants_digits(job) {
        return;
    }
    let mut runs: Vec<Pin<Box<dyn Future<Output = ()> + '_>>> = Vec::new();
    for (part, taken) in scatter.parts.iter().zip(taken) {
        runs.push(Box::pin(async move {
            if let Some(lease) = &mut taken.lease {
                taken.prepared = prepare_on(lease, &part.text).await;
            }
        }));
    }
    all(runs).await;
}

/// Sits at the group of that name; false when there is none.
fn sit_at(core: &Core, connections: &mut GroupConnections, name: &str) -> bool {
    let snapshot = core.snapshot();
    let group = snapshot.group(name);
    if let Some(group) = group {
        connections.switch_to(group, core);
    }
    group.is_some()
}

/// Gives back what a part that did not run had taken.
fn untake(
    core: &Rc<Core>,
    handle: &Rc<Handle>,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    part: Taken,
) {
    sit_at(core, connections, &part.group);
    if let Some(lease) = part.lease {
        reclaim::give_back_after_error(core, handle, variables, connections, lease, part.pins);
    }
}

/// The connections go back to their seats.
fn seat_parts(core: &Core, connections: &mut GroupConnections, done: &mut Done) {
    for part in &mut done.parts {
        sit_at(core, connections, &part.group);
        if let Some(lease) = part.lease.take() {
            let pins = part.pins;
            connections.current.held = Some(Held { lease, pins });
        }
    }
}

/// Prepares a text; `None` where the server does not.
pub(super) async fn prepare_on(lease: &mut Lease, text: &[u8]) -> Option<u32> {
    let commands = [(Command::StmtPrepare, text)];
    let outcome = lease.connection_mut().run(&commands).await.ok()?;
    outcome.prepared.map(|reply| reply.statement_id)
}

/// The time of a statement, the same for all servers.
fn set_timestamp() -> Option<Vec<u8>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    let text = format!("SET timestamp={}.{:06}", now.as_secs(), now.subsec_micros());
    Some(text.into_bytes())
}
