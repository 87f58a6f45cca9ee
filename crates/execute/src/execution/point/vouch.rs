//! Answering a point SELECT by a row that the row cache vouches for.

use farm::container::KeyForm;
use farm::{Group, ServerId};
use mysql_wire::command::Command;
use mysql_wire::statement::Execute;
use routing::{LastRead, Level};
use rowcache::Space;
use sqltext::{Class, PointKey};

use crate::client::Client;
use crate::client::end::End;
use crate::connections::group_connections::GroupConnections;
use crate::consistency::client_level;
use crate::consistency::defaults::bound_us;
use crate::consistency::promises::Promises;
use crate::counters::count;
use crate::execution::cache;
use crate::execution::cache::{Entry, Key, recall};
use crate::execution::exec::{Job, Shape, text_shape};
use crate::execution::point::{Asked, BOUND_US, Point, Vouched, bound_value, written_key};
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::prepared::statements::PreparedStatements;
use crate::session::context::StatementContext;
use crate::session::user::SessionUser;
use crate::session::{Session, is_free};
use crate::variables::session_variables::SessionVariables;

/// Before a text or an EXECUTE is run: answers it if it can be, or has its reply kept. True when it
/// was answered.
pub(crate) async fn answer_by_row(
    session: &mut Session,
    shape: &Shape,
    job: Job,
) -> Result<bool, End> {
    session.run.point = None;
    client_level::heed_client(
        &session.core,
        &mut session.connections,
        &mut session.transaction,
        &session.promises,
        shape,
    );
    let snapshot = session.core.shared.published.load_full();
    let Some(group) = session.connections.group(&snapshot) else {
        return Ok(false);
    };
    let Some(asked) = point_of(&session.context(), &session.run, shape, job, group) else {
        return Ok(false);
    };
    if may_recall(
        &session.core,
        &session.connections,
        &session.promises,
        shape,
        group,
        &asked.space,
    ) && let Some((reply, outcome)) = session.core.statements.cache.vouched(&asked.kept_as)
    {
        if let Some(primary) = group.primary() {
            let (server, ended_us) = (primary.id, session.core.now_us());
            session.connections.current.seen.last_read = Some(LastRead { server, ended_us });
            session.promises.recalled_us = ended_us;
        }
        recall::answer_kept(session, shape, &reply, &outcome).await?;
        return Ok(true);
    }
    count(&session.core.counters.cache_misses);
    if let Some(lease) = asked.space.begin() {
        session.run.recording = Some(Vec::new());
        session.run.point = Some(Box::new(Point {
            space: asked.space,
            key: asked.key,
            form: asked.form,
            lease,
            kept_as: asked.kept_as,
            binary: matches!(job, Job::Execute(_)),
        }));
    }
    Ok(false)
}

/// The space and the key of a point SELECT.
fn point_of(
    context: &StatementContext<'_>,
    run: &StatementRun,
    shape: &Shape,
    job: Job,
    group: &Group,
) -> Option<Asked> {
    let plain = shape.hint.is_none() && !shape.shard_hint && run.ruled.is_none();
    let alone = context.connections.current.held.is_none()
        && context.transaction.dist_txn.is_none()
        && is_free(context.variables.status);
    let alone = alone && plain;
    if shape.class != Class::Read
        || !alone
        || context.client.request.is_split()
        || context.client.request.has_more()
    {
        return None;
    }
    let rows = &context.core.shared.reads.rows;
    if rows.version() == 0 {
        return None;
    }
    let text = match job {
        Job::Execute(id) => context.prepared.statement_text(id),
        _ => &context.client.request.payload()[1..],
    };
    let point = sqltext::point(text, &context.variables.mode)?;
    let database = point.database.as_deref().or_else(|| context.variables.state.database())?;
    let spaces = rows.spaces();
    let space = spaces.iter().find(|space| {
        let container = &space.container;
        *space.group == *group.name
            && container.table.as_bytes() == point.table
            && container.database.as_bytes() == database
            && container.key.as_bytes().eq_ignore_ascii_case(&point.column)
            && space.form().is_some()
    })?;
    let form = space.form()?;
    let (key, kept_as) = match (job, &point.key) {
        (Job::Execute(id), PointKey::Mark) => bound_key(
            context.core,
            context.client,
            context.user,
            context.variables,
            context.prepared,
            id,
            form,
        )?,
        (Job::Execute(_), _) | (_, PointKey::Mark) => return None,
        (_, key) => (
            written_key(key, form)?,
            cache::cache_key(context.core, context.user, context.client, context.variables),
        ),
    };
    Some(Asked {
        space: space.clone(),
        key,
        form,
        kept_as,
    })
}

/// The key of an EXECUTE with one parameter, and where its reply is kept.
fn bound_key(
    core: &Core,
    client: &Client,
    user: &SessionUser,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    id: u32,
    form: KeyForm,
) -> Option<(Box<[u8]>, Key)> {
    let statement = prepared.statements.get(&id)?;
    let (command, body) = client.request.payload().split_first()?;
    let as_prepared = backend::SessionState::same(&statement.state, &variables.state);
    let tied = statement.long_data || statement.cursor || statement.asked.is_some();
    if *command != Command::StmtExecute as u8 || tied || !as_prepared || statement.params != 1 {
        return None;
    }
    let execute = Execute::decode(body, 1, text_shape::has_attributes(client)).ok()?;
    let typed = Execute {
        types: match execute.new_params_bound {
            true => execute.types,
            false => &statement.types,
        },
        ..execute
    };
    let params = typed.param_kinds().ok()?;
    let [param] = params.as_slice() else {
        return None;
    };
    if !param.name.is_empty() || typed.flags != 0 {
        return None;
    }
    let values = typed.decode_params(&[param.kind], |_| false).ok()?;
    let key = bound_value(values.first()?, form)?;
    // No text begins like that.
    let mut name = vec![Command::StmtExecute as u8];
    name.extend_from_slice(typed.types);
    name.extend_from_slice(typed.values);
    name.push(0);
    name.extend_from_slice(statement.key.text.bytes());
    Some((key, cache::cache_key_of(core, user, client, variables, &name)))
}

/// The session may be answered with what has been read of the group's binlog.
fn may_recall(
    core: &Core,
    connections: &GroupConnections,
    promises: &Promises,
    shape: &Shape,
    group: &Group,
    space: &Space,
) -> bool {
    let bound = match promises.level_of(shape) {
        Level::Strong => return false,
        Level::Session | Level::Client => BOUND_US,
        Level::Eventual { max_lag_us: None } => {
            bound_us(promises.max_lag_ms).map_or(BOUND_US, |us| us.min(BOUND_US))
        }
        Level::Eventual {
            max_lag_us: Some(us),
        } => us.min(BOUND_US),
    };
    let Some(primary) = group.primary().filter(|_| !group.paused) else {
        return false;
    };
    let (feed, promises) = (&space.feed, promises);
    let seen = &connections.current.seen;
    // What was read elsewhere may be newer than what has been read of the binlog.
    let read =
        seen.last_read.filter(|read| promises.monotonic && read.ended_us != promises.recalled_us);
    let to_primary = core.settings().reads.master_on_write && promises.wrote();
    if to_primary || seen.unproved || seen.unlogged {
        return false;
    }
    feed.answers(primary.id, core.now_us(), bound)
        && seen.required.as_deref().is_none_or(|required| feed.covers(required))
        && read.is_none_or(|read| feed.has_read_until(read.ended_us))
}

/// After a complete reply that is worth keeping: keeps it if the row cache vouches for it.
pub(crate) fn keep_point(
    core: &Core,
    client: &Client,
    point: Point,
    server: ServerId,
    reply: &[u8],
    mut entry: Entry,
) {
    let now_us = core.now_us();
    let Some(key) = point.key_of(reply, client.capabilities) else {
        return;
    };
    let Some(voucher) = point.space.vouch(&point.lease, server, &key, now_us) else {
        return;
    };
    let vouched = Vouched {
        space: point.space,
        key,
        voucher,
    };
    let bytes_max = core.settings().cache_bytes_max / core.shared.counters.len();
    entry.vouched = Some(vouched);
    core.statements.cache.put_vouched(point.kept_as, entry, bytes_max);
}
