//! Making good what was lost with a connection.

use std::sync::Arc;
use std::time::Duration;

use backend::Connection;
use farm::{Fate, LostWrite, error};
use mysql_wire::relay::Outcome;
use mysql_wire::reply::OkPacket;
use mysql_wire::status::Status;
use sqltext::Verb;

use crate::client::end::End;
use crate::client::sink::ReplySink;
use crate::connections::group_connections::GroupConnections;
use crate::connections::hold::wait::hold;
use crate::connections::hold::{Cause, Turn};
use crate::consistency::promises::Promises;
use crate::consistency::promises::keeping;
use crate::counters::count;
use crate::execution::exec::{Loss, Run, Tried};
use crate::per_core::Core;
use crate::session::{self, Session};
use crate::transaction::loss::end_transaction;
use crate::transaction::outcome::{Known, LOOK_MS, LostOn, Recovered, answer_of};
use crate::transaction::{loss, replay};
use crate::variables::user_variables;

/// Tries to make good what was lost with a connection.
pub(crate) async fn recover(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
    loss: Loss,
) -> Result<Recovered, End> {
    let torn = loss.forwarded && (loss.sent.is_none() || loss.file);
    if torn || session.handle.killed.get() {
        return Ok(Recovered::No);
    }
    if session.connections.current.replay.is_some()
        || session.variables.status.contains(Status::IN_TRANS)
    {
        return Box::pin(replay::recover_transaction(session, run, tried, loss)).await;
    }
    let alone = run.alone && run.pins.is_empty() && run.pipeline.commands.is_empty();
    let own = session.variables.status.contains(Status::AUTOCOMMIT) && !tried.plan.read_only;
    if !alone || !own || !run.shape.writes || loss.forwarded {
        return Ok(Recovered::No);
    }
    if !run.shape.tagged || !session.promises.tags_on {
        let why = "statements of this kind carry no write tag into the binary log";
        return tell_unknown(session, run, tried, loss, why).await;
    }
    recover_write(session, run, tried, loss).await
}

/// The same for a statement that commits itself.
async fn recover_write(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
    loss: Loss,
) -> Result<Recovered, End> {
    let (gtid, rows) = match find_out(
        &session.core,
        &mut session.connections,
        &session.promises,
        run,
        tried,
    )
    .await
    {
        Known::Committed(gtid, rows) => (gtid, rows),
        Known::Lost => return once_more(session, run).await,
        Known::Unknown(why) => return tell_unknown(session, run, tried, loss, &why).await,
    };
    let text = String::from_utf8_lossy(user_variables::text(
        &session.client.request,
        &session.prepared,
        run.job,
    ))
    .to_ascii_lowercase();
    let Some(rows) = rows.filter(|_| !text.contains("returning")) else {
        let why = "the write has happened, but the log does not tell what it returned";
        return tell_unknown(session, run, tried, loss, why).await;
    };
    let (affected, insert_id) = answer_of(run.shape.verb, &text, &rows);
    let info = match run.shape.verb {
        Verb::Update => format!("Rows matched: {affected}  Changed: {affected}  Warnings: 0"),
        _ => String::new(),
    };
    keeping::note_committed(
        &session.core,
        &mut session.connections,
        &session.transaction,
        &mut session.promises,
        &gtid,
    );
    loss::leave_connection(&session.core, &mut session.connections, &mut session.prepared);
    let outcome = Outcome {
        status: Some(session.variables.status),
        affected_rows: affected,
        last_insert_id: insert_id,
        ..Outcome::default()
    };
    session.run.number += 1;
    session.variables.diagnostics.note(&run.shape, &outcome, session.variables.mode.dialect);
    if insert_id != 0 {
        session.variables.insert_id.before = session.variables.insert_id.value;
        session.variables.insert_id.value = insert_id;
        session.variables.insert_id.version += 1;
    }
    let mut ok = OkPacket::new(session::status_now(&session.variables, &session.transaction));
    (ok.affected_rows, ok.last_insert_id) = (affected, insert_id);
    ok.info = info.as_bytes();
    session.client.sequence = 1;
    session.client.answer_ok(&ok).await?;
    Ok(Recovered::Answered)
}

/// What became of what ends a transaction; the same, and `None` where it is to be done again.
/// `sure`: the log tells of it for certain; `plain`: it is a COMMIT and nothing else.
pub(crate) async fn recover_commit(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
    loss: Loss,
    (sure, plain): (bool, bool),
) -> Result<Option<Recovered>, End> {
    match find_out(&session.core, &mut session.connections, &session.promises, run, tried).await {
        Known::Committed(gtid, _) if plain && run.pipeline.commands.is_empty() => {
            keeping::note_committed(
                &session.core,
                &mut session.connections,
                &session.transaction,
                &mut session.promises,
                &gtid,
            );
            end_transaction(
                &session.core,
                &mut session.client,
                &mut session.variables,
                &mut session.connections,
                &mut session.transaction,
                &mut session.prepared,
            )
            .await
            .map(Some)
        }
        Known::Committed(..) => {
            let why = "the transaction was committed, but answers to commands before it are lost";
            tell_unknown(session, run, tried, loss, why).await.map(Some)
        }
        Known::Lost if sure => Ok(None),
        Known::Lost => {
            let why = "some of the transaction's statements carry no write tag into the binary log";
            tell_unknown(session, run, tried, loss, why).await.map(Some)
        }
        Known::Unknown(why) => tell_unknown(session, run, tried, loss, &why).await.map(Some),
    }
}

/// Waits for a primary, to run the command there.
pub(crate) async fn once_more(session: &mut Session, run: &mut Run) -> Result<Recovered, End> {
    if let Some(own) = &mut session.variables.user_variables {
        own.lose_silently();
    }
    Ok(match hold(session, run, Cause::Failure).await? {
        Turn::Again => Recovered::Again,
        Turn::Answered => Recovered::Answered,
        Turn::Over { .. } => Recovered::No,
    })
}

async fn tell_unknown(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
    loss: Loss,
    why: &str,
) -> Result<Recovered, End> {
    count(&session.core.counters.outcomes_unknown);
    let told = Some((error::OUTCOME_UNKNOWN, why.to_owned()));
    session.connections.current.replay = None;
    loss::tell_loss(session, run, &tried.target, loss, told).await?;
    Ok(Recovered::Answered)
}

/// Notes what names the write that a broken connection was asked for.
pub(crate) fn lost_on(
    core: &Core,
    connections: &mut GroupConnections,
    promises: &Promises,
    connection: &Connection,
    run: &Run,
) -> Box<LostOn> {
    replay::note_idle_end(core, connections, connection);
    let reported = connection.reported.text();
    // Without it an earlier write of the connection would pass for the lost one.
    let tagged = promises.tags_on && !connection.is_guarded() && reported.is_some();
    Box::new(LostOn {
        thread_id: connection.thread_id,
        tag: match tagged {
            true => core.write_tags.of(connection),
            false => String::new(),
        },
        after: reported.unwrap_or_default(),
        opened: connection.moments.opened,
        began_us: run.began.map_or(0, |moment| core.at_us(moment)),
    })
}

/// Asks the control plane, which answers when the group has a primary that stays.
async fn find_out(
    core: &Core,
    connections: &mut GroupConnections,
    promises: &Promises,
    run: &mut Run,
    tried: &Tried,
) -> Known {
    let Some(on) = run.lost_on.take() else {
        return Known::Unknown("the connection is not known".to_owned());
    };
    let group = core.glance();
    let group = connections.group(&group).map(|group| group.name.to_string());
    let lost = LostWrite {
        group: group.unwrap_or_default(),
        server: tried.plan.server,
        thread_id: on.thread_id,
        tag: on.tag,
        after: on.after,
        sent_us: on.began_us,
        opened_s: on.opened.elapsed().as_secs(),
    };
    let (tell, told) = futures_channel::oneshot::channel();
    let reply = Box::new(move |fate| drop(tell.send(fate)));
    Arc::clone(&core.shared.operator).resolve(lost, reply);
    let limit = Duration::from_millis(promises.failover_wait_ms + LOOK_MS);
    let fate = match reactor::timeout(limit, told).await {
        Some(Ok(fate)) => fate,
        Some(Err(_)) => Fate::Unknown("the control plane has ended".to_owned()),
        None => Fate::Unknown("nobody could say in time".to_owned()),
    };
    let counters = &core.counters;
    match fate {
        Fate::Committed { gtid, rows } => {
            count(&counters.outcomes_committed);
            Known::Committed(gtid, rows)
        }
        Fate::Lost => {
            count(&counters.outcomes_lost);
            Known::Lost
        }
        Fate::Unknown(why) => Known::Unknown(why),
    }
}
