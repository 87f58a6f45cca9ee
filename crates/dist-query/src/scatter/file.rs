//! LOAD DATA LOCAL over several groups: each group's server runs the statement, asks for the file, and
//! gets the rows that belong there.
//!
//! The file is read from the client as it comes, and each group's rows wait for their server apart
//! ([`Sinks`]); so memory is bounded by what may wait and the longest row. A client cannot be told anything
//! before it has sent its whole file: what comes behind a trouble is read and thrown away.

mod sinks;

use backend::Lease;
use dist_txn::Across;
use dist_txn::own::drop_across;
use execute::client::Client;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::pin::Pins;
use execute::consistency::reads;
use execute::execution::exec::{Job, Run, Shape};
use execute::execution::pipe::make_room;
use execute::per_core::Core;
use execute::per_core::handle::{Handle, Hold};
use execute::session::Session;
use farm::{ClientError, ServerId, error};
use mysql_wire::local_file::FileWalk;
use mysql_wire::packet::{self, HEADER_BYTES};
use mysql_wire::reply::LOCAL_FILE;
use planner::load::{Cutter, LoadPlan, Next};

use self::sinks::Sinks;
use super::counts::Counts;
use super::feed::Feed;
use super::feeds::Feeds;
use super::parts::{Done, Taken};
use super::result_writer::{Form, ResultWriter};
use super::rows::Trouble;
use super::{Part, Scatter, Wanted, Word};
use crate::place::writes::ids;
use crate::scatter::parts;
use crate::scatter::{self, stop};

/// Ids that are taken at once.
const IDS: u64 = 1000;

/// Once a file has filled this many buffers it is a long one, and comes in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// What is not to be loaded: the error and its detail.
type Unfit = (ClientError, String);

/// The client's file while it is read.
struct Source {
    walk: FileWalk,
    buffer: Vec<u8>,
    pieces: usize,
    done: bool,
}

/// Runs the client's LOAD DATA LOCAL to its answer.
pub(crate) async fn load_file(
    session: &mut Session,
    plan: &LoadPlan,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    session.run.recording = None;
    let part = |group: &std::sync::Arc<str>| Part {
        group: group.clone(),
        text: plan.text.clone(),
    };
    let scatter = Scatter {
        parts: plan.groups.iter().map(part).collect(),
        answer: Wanted::Counts {
            insert_id: None,
            same: plan.same,
        },
        clock: true,
        carried: None,
    };
    let mut run = reads::new_run(session, shape, job);
    let mut avoid = Vec::new();
    loop {
        let Some(across) = Box::pin(scatter::begin_scatter(session, &scatter, &shape, job)).await?
        else {
            return Ok(());
        };
        let loading = try_load(session, plan, &scatter, &mut run, &mut avoid, across);
        if !Box::pin(loading).await? {
            return Ok(());
        }
        session.run.profile.once_more();
    }
}

/// Tries once. True when it is to be tried again; else the client has been answered.
async fn try_load(
    session: &mut Session,
    plan: &LoadPlan,
    scatter: &Scatter,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    across: Across,
) -> Result<bool, End> {
    let mut taken = match parts::take_parts(session, scatter, run, avoid).await {
        Ok(taken) => taken,
        Err((group, stuck)) => {
            drop_across(session, Some(across)).await;
            return scatter::scatter_stuck(session, run, avoid, &group, stuck).await;
        }
    };
    let charset = file_charset(plan, &mut taken).await;
    let mut feeds = parts::start_parts(session, scatter, &mut taken, run, !across.is_own());
    let mut result_writer = ResultWriter::new(Form::Text, session.client.capabilities);
    let unfit = pour_file(
        &session.core,
        &session.handle,
        &mut session.client,
        plan,
        &charset,
        &mut feeds,
        &mut result_writer,
    )
    .await?;
    let mut counts = Counts::default();
    let counted = feeds.count(&mut counts, plan.same).await;
    let trouble = match (counted, unfit) {
        (Err(trouble), _) => Some(trouble),
        (Ok(()), Some((error, why))) => Some(Trouble::Unfit(error, why)),
        (Ok(()), None) => None,
    };
    stop::end_feeds(&session.core, &session.handle, &mut feeds, false).await;
    scatter::end_scatter(&session.handle, &mut session.run);
    let mut done = Done::of(taken, feeds, &mut session.run.profile);
    done.ask_warnings(&scatter.parts, plan.same, trouble.as_ref()).await;
    counts.say_once(done.repeated);
    done.end_clock().await;
    let trouble = match trouble {
        None => parts::commit_parts(session, &mut done, Some(across)).await,
        Some(trouble) => {
            parts::undo_parts(session, &mut done, run, Some(across)).await;
            Some(trouble)
        }
    };
    let word = match trouble {
        Some(trouble) => Word::Trouble(trouble),
        None => Word::Counted(&counts),
    };
    scatter::close_scatter(session, run, avoid, done, result_writer, word).await
}

/// Has all servers ask for the file, and gives it to them. Gives what was wrong with it.
async fn pour_file(
    core: &Core,
    handle: &Handle,
    client: &mut Client,
    plan: &LoadPlan,
    charset: &str,
    feeds: &mut Feeds,
    result_writer: &mut ResultWriter,
) -> Result<Option<Unfit>, End> {
    loop {
        // Each must have gone as far as it can before any is waited for.
        for feed in &mut feeds.all {
            feed.step();
        }
        if feeds.all.iter().all(Feed::is_done) {
            break;
        }
        feeds.any().await;
    }
    let asked = feeds.all.iter().all(|feed| feed.wants_file && !feed.failed());
    let mut unfit = None;
    let mut cutter = match Cutter::new(plan, charset) {
        Ok(cutter) => cutter,
        Err(refusal) => {
            unfit = Some((refusal.error, refusal.detail));
            None
        }
    };
    let mut sinks = Sinks::of(feeds);
    if asked && unfit.is_none() {
        unfit =
            pass_rows(core, handle, client, plan, &mut cutter, &mut sinks, result_writer).await?;
    }
    // Whoever refused the statement, or its row, is undone; nobody waits for a file any more.
    sinks.end(feeds).await;
    Ok(unfit)
}

/// Reads the client's file and hands it out, up to its end.
async fn pass_rows(
    core: &Core,
    handle: &Handle,
    client: &mut Client,
    plan: &LoadPlan,
    cutter: &mut Option<Cutter<'_>>,
    sinks: &mut Sinks,
    result_writer: &mut ResultWriter,
) -> Result<Option<Unfit>, End> {
    ask_for_file(handle, client, &plan.file, sinks).await?;
    // It sends its file once only.
    result_writer.begun = true;
    let mut walk = FileWalk::new(client.sequence, 0);
    if client.is_compressed() {
        walk = walk.in_any_order();
    }
    let mut source = Source {
        walk,
        buffer: core.take_buffer(),
        pieces: 0,
        done: false,
    };
    client.request.take_rest(&mut source.buffer);
    let mut unfit = None;
    let mut whole = Vec::new();
    while !source.done {
        let came = match (&mut *cutter, &unfit) {
            (Some(cutter), None) => {
                let came = read_file(client, &mut source, cutter.room()).await?;
                if source.done {
                    cutter.end();
                }
                unfit = hand_out(core, plan, cutter, sinks).await;
                if source.done && unfit.is_none() {
                    unfit = note_chosen(core, plan, cutter).await;
                }
                came
            }
            (_, nothing) => {
                whole.clear();
                let came = read_file(client, &mut source, &mut whole).await?;
                for rows in sinks.each().filter(|_| nothing.is_none()) {
                    rows.extend_from_slice(&whole);
                }
                came
            }
        };
        sinks.send_full().await;
        if !source.done && !came {
            let receiving = receive_file(core, handle, client, &mut source);
            sinks.beside(receiving).await?;
        }
    }
    client.request.give_rest(&source.buffer);
    source.buffer.clear();
    core.give_buffer(source.buffer);
    client.sequence = source.walk.next_sequence();
    result_writer.sequence = client.sequence;
    Ok(unfit)
}

/// Asks the client for its file.
async fn ask_for_file(
    handle: &Handle,
    client: &mut Client,
    name: &[u8],
    sinks: &Sinks,
) -> Result<(), End> {
    let mut request = Vec::with_capacity(name.len() + HEADER_BYTES + 1);
    packet::write_with(&mut request, &mut client.sequence, |out| {
        out.push(LOCAL_FILE);
        out.extend_from_slice(name);
    });
    let range = 0..request.len();
    let (sent, _) = client.send(request, range).await;
    sent.map_err(|_| End::Gone)?;
    // The end of the router waits for a statement under way.
    let first = sinks.first().map(Lease::connection);
    handle.kept.holds.set(first.map(|connection| Hold {
        server: connection.server,
        thread_id: connection.thread_id,
        pins: Pins::empty(),
        transaction: false,
    }));
    Ok(())
}

/// Takes what has come of the file. True when there was anything.
async fn read_file(
    client: &mut Client,
    source: &mut Source,
    to: &mut Vec<u8>,
) -> Result<bool, End> {
    let Ok(piece) = source.walk.read(&mut source.buffer, to) else {
        client.sequence = source.walk.next_sequence();
        return Err(client.refuse(&error::PACKETS_OUT_OF_ORDER, &[]).await);
    };
    source.buffer.drain(..piece.forward);
    source.done = piece.done;
    Ok(piece.forward > 0)
}

async fn receive_file(
    core: &Core,
    handle: &Handle,
    client: &mut Client,
    source: &mut Source,
) -> Result<(), End> {
    source.pieces += 1;
    let long = source.pieces > SMALL_BUFFERS_MAX;
    make_room(&mut source.buffer, 0, long);
    handle.idle.active_s.set(core.now_s.get());
    handle.idle.waits_for_client.set(true);
    let buffer = std::mem::take(&mut source.buffer);
    let (received, filled) = client.receive(buffer).await;
    handle.idle.waits_for_client.set(false);
    source.buffer = filled;
    match received {
        Ok(1..) => Ok(()),
        _ => Err(End::Gone),
    }
}

/// Gives the rows that are whole to their groups. Gives what is wrong with one.
async fn hand_out(
    core: &Core,
    plan: &LoadPlan,
    cutter: &mut Cutter<'_>,
    sinks: &mut Sinks,
) -> Option<Unfit> {
    loop {
        match cutter.step() {
            Ok(Next::Row(Some(group))) => {
                if let Some(rows) = sinks.rows(group) {
                    cutter.write(rows);
                }
            }
            Ok(Next::Row(None)) => {
                for rows in sinks.each() {
                    cutter.write(rows);
                }
            }
            Ok(Next::Ids) => match more_ids(core, plan).await {
                Ok(ids) => cutter.ids = ids,
                Err(unfit) => return Some(unfit),
            },
            Ok(Next::More | Next::End) => return None,
            Err(refusal) => return Some((refusal.error, refusal.detail)),
        }
    }
}

/// The ids that rows brought along are not given out again.
async fn note_chosen(core: &Core, plan: &LoadPlan, cutter: &Cutter<'_>) -> Option<Unfit> {
    let of = plan.ids.as_ref().filter(|_| cutter.chosen > 0)?;
    ids::hear_ids(core, of, cutter.chosen).await.err()
}

async fn more_ids(core: &Core, plan: &LoadPlan) -> Result<std::ops::Range<u64>, Unfit> {
    let Some(of) = &plan.ids else {
        return Err((error::IDS_UNAVAILABLE, String::new()));
    };
    let first = ids::ids_of(core, of, IDS).await?;
    Ok(first..first + IDS)
}

/// The file's character set, which must be known where it is cut.
async fn file_charset(plan: &LoadPlan, taken: &mut [Taken]) -> String {
    if let Some(charset) = &plan.charset {
        return charset.clone();
    }
    let unknown = String::new();
    let lease = taken.first_mut().and_then(|taken| taken.lease.as_mut());
    let Some(lease) = lease.filter(|_| plan.cuts()) else {
        return unknown;
    };
    let asked = lease.connection_mut().table(b"SELECT @@character_set_database");
    let table = asked.await.unwrap_or_default();
    let value = table.rows.into_iter().flatten().flatten().next();
    value.map_or(unknown, |value| String::from_utf8_lossy(&value).into_owned())
}
