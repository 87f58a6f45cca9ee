//! What a core does once a second about clients that stand still, and about statements that run for too long.

use std::rc::Rc;
use std::time::Duration;

use crate::client::stall::Wait;
use crate::counters::count;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::per_core::message::How;
use crate::settings::Settings;

/// Once a second, for one session: ends it when its client stands still. Its server connection
/// closes with it, for the reply on it is unread.
pub(crate) fn end_stalled(core: &Core, handle: &Handle) {
    let Settings {
        client_read_timeout_s,
        client_write_timeout_s,
        ..
    } = core.settings();
    let progress = &handle.progress;
    match progress.overdue(client_read_timeout_s, client_write_timeout_s) {
        Wait::Nothing => {}
        // It may hear why.
        Wait::Receive => {
            count(&core.counters.clients_stopped_sending);
            progress.over.set(true);
            handle.end_receive();
        }
        Wait::Send => {
            count(&core.counters.clients_stopped_reading);
            progress.over.set(true);
            handle.end();
        }
    }
}

/// Once a second: ends reads, and waits for user locks, whose clients are gone. Statements that
/// change data run to their end, as on a server.
pub(crate) fn end_abandoned(core: &Rc<Core>) {
    let abandoned: Vec<u32> = {
        let handles = core.handles.borrow();
        let idle = handles.values().filter(|handle| {
            let harmless = handle.at_servers.running.get().is_some()
                && handle.at_servers.ends_with_client.get();
            // Who waits for a primary has done nothing yet.
            harmless || handle.waiting.get() != 0
        });
        let gone = idle.filter(|handle| handle.client_is_gone());
        gone.map(|handle| handle.id).collect()
    };
    for id in abandoned {
        count(&core.counters.statements_abandoned);
        core.kill(id, How::CONNECTION);
    }
}

/// The limit for one statement, if there is one.
pub fn statement_limit(core: &Core) -> Option<Duration> {
    let limit_ms = core.settings().statement_timeout_ms;
    (limit_ms > 0).then(|| Duration::from_millis(limit_ms))
}

/// Ends the statements that have been running for `limit`, by KILL QUERY at their servers: what
/// the client hears is the server's own word.
pub fn end_late_statements(core: &Rc<Core>, limit: Duration) {
    let late: Vec<u32> = {
        let handles = core.handles.borrow();
        let late = handles.values().filter(|h| h.at_servers.started.take_late(limit));
        late.map(|handle| handle.id).collect()
    };
    for id in late {
        end_late(core, id);
    }
}

/// Ends a session's statement, whose time is over.
pub(crate) fn end_late(core: &Rc<Core>, id: u32) {
    count(&core.counters.statements_timed_out);
    core.kill(id, How::QUERY);
}
