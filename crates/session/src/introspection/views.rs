//! Looks at the sessions of a core, and asks the other cores for theirs.
//!
//! A session leaves notes in its [`Handle`] as it goes; they are read here only when somebody asks,
//! and other cores ask by a message. Seconds are those of the core's tick.

use execute::connections::parked::Parked;
use execute::connections::pin::Pins;
use execute::per_core::Core;
use execute::per_core::handle::{Asked, Handle};
use execute::per_core::message::Message;
use execute::per_core::view::{Door, Lister, SessionView};
use mysql_wire::command::Command;

/// The sessions of this core, and the clients of other doors.
pub fn views(core: &Core) -> Vec<SessionView> {
    let handles = core.handles.borrow();
    let sessions = handles.values().map(|handle| view(core, handle));
    let mut views: Vec<SessionView> = sessions.collect();
    core.door_clients.view(core.now_s.get(), &mut views);
    views
}

fn view(core: &Core, handle: &Handle) -> SessionView {
    // A statement that waits for its client's file runs all the same.
    let waits = match handle.internal_runs.get() {
        Some(runs) => !runs,
        None => handle.idle.waits_for_client.get(),
    };
    let busy = !waits || handle.at_servers.running.get().is_some();
    let command = Command::try_from(handle.command.get()).unwrap_or(Command::Query);
    let now_s = core.now_s.get();
    let held = handle.kept.holds.get();
    let mut reasons = held.map_or_else(Vec::new, |hold| hold.pins.reasons());
    if held.is_some_and(|hold| hold.transaction) {
        reasons.push("transaction");
    }
    let mut held_s = now_s.saturating_sub(handle.kept.held_since_s.get());
    if let Parked::Kept(kept) = &*handle.kept.parked.borrow() {
        reasons.push("diagnostics");
        held_s = now_s.saturating_sub(kept.since_s);
    }
    let asked = match busy {
        true => handle.asked.borrow().clone(),
        false => Asked::default(),
    };
    SessionView {
        id: handle.id,
        user: handle.user.borrow().to_vec(),
        peer: handle.peer,
        door: match handle.internal_runs.get() {
            Some(_) => Door::Own,
            None => Door::Sql,
        },
        database: handle.state.borrow().database().map(<[u8]>::to_vec),
        command: busy.then(|| command.name()),
        time_s: now_s.saturating_sub(handle.idle.active_s.get()),
        digest: asked.digest,
        tag: asked.origin.tag,
        trace: asked.origin.trace,
        running: handle.at_servers.running.get(),
        held: held.map(|hold| (hold.server, hold.thread_id)),
        held_for_work: held
            .is_some_and(|hold| hold.transaction || hold.pins.intersects(Pins::WORK)),
        held_s: if reasons.is_empty() { 0 } else { held_s },
        reasons,
    }
}

/// The sessions of all cores, ordered by id.
pub(crate) async fn all_views(core: &Core) -> Vec<SessionView> {
    let mut all = views(core);
    for other in (0..core.shared.counters.len()).filter(|other| *other != core.index) {
        let (tell, told) = futures_channel::oneshot::channel();
        let lister = Lister::new(move |sessions| drop(tell.send(sessions)));
        if core.dealer.send(other, Message::List(lister)) {
            // A core that ends has no sessions worth a word.
            all.extend(told.await.unwrap_or_default());
        }
    }
    all.sort_by_key(|view| view.id);
    all
}
