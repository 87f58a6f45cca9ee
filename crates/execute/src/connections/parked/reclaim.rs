//! Parking a connection, asking it when somebody else needs it, and taking it up again.

use std::rc::Rc;

use backend::{Key, Lease, Questions, Residue, SessionState};
use farm::ServerId;
use futures_channel::oneshot;
use mysql_wire::status::Status;

use crate::connections::group_connections::{GroupConnections, Held};
use crate::connections::parked::{Asked, FIRM_S, Kept, PARKED_S_MAX, Parked, too_large};
use crate::connections::pin::Pins;
use crate::counters::count;
use crate::execution::exec::Shape;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::recorded;
use crate::variables::session_variables::SessionVariables;

/// Puts a connection aside for its session.
pub(crate) fn park_kept(core: &Rc<Core>, handle: &Rc<Handle>, kept: Kept) {
    let server = kept.lease.connection().server;
    let firm = kept.firm;
    *handle.kept.parked.borrow_mut() = Parked::Kept(Box::new(kept));
    if !firm && core.pools.wanted(server) && handle.at_servers.killing.get() == 0 {
        ask_parked(handle);
        return;
    }
    if !handle.kept.in_line.replace(true) {
        core.waits.line.0.borrow_mut().push_back(handle.clone());
    }
}

/// Frees one connection of this server that a session has parked, if there is any.
pub(crate) fn reclaim(core: &Rc<Core>, server: ServerId) {
    let mut line = core.waits.line.0.borrow_mut();
    let mut at = 0;
    while let Some(handle) = line.get(at) {
        let fit = match &*handle.kept.parked.borrow() {
            Parked::Kept(kept) => {
                let young = kept.firm && kept.since_s + FIRM_S >= core.now_s.get();
                let here = kept.lease.connection().server == server;
                Some(here && !young && handle.at_servers.killing.get() == 0)
            }
            _ => None,
        };
        match fit {
            Some(false) => at += 1,
            _ => {
                let Some(handle) = line.remove(at) else { break };
                handle.kept.in_line.set(false);
                if fit.is_some() {
                    drop(line);
                    ask_parked(&handle);
                    return;
                }
            }
        }
    }
}

/// Starts to ask the connection that a session has parked, and gives it back.
pub(crate) fn ask_parked(handle: &Rc<Handle>) {
    let mut parked = handle.kept.parked.borrow_mut();
    let mut kept = match std::mem::take(&mut *parked) {
        Parked::Kept(kept) => kept,
        other => {
            *parked = other;
            return;
        }
    };
    let (tell, told) = oneshot::channel();
    *parked = Parked::Asked(told);
    // A task, even with no question: whoever waits for the connection may be the one who calls.
    reactor::spawn(async move {
        let residue = if kept.questions.is_empty() {
            Some(Residue::default())
        } else {
            Asked::ask(&mut kept.lease, &kept.questions).await
        };
        let large = residue.as_ref().is_some_and(too_large);
        let lease = match &residue {
            Some(_) if !large => {
                kept.lease.release();
                None
            }
            Some(_) => Some(kept.lease),
            None => None,
        };
        drop(tell.send(Asked { residue, lease }));
    })
    .detach();
}

/// Once a second: forgets in line who has nothing aside any more.
pub(crate) fn tidy_line(core: &Core) {
    core.waits.line.0.borrow_mut().retain(|handle| {
        let kept = matches!(&*handle.kept.parked.borrow(), Parked::Kept(_));
        handle.kept.in_line.set(kept);
        kept
    });
}

/// Once a second: what has been aside for long goes back; what somebody waits for, too.
pub(crate) fn tick_parked(core: &Rc<Core>, handle: &Rc<Handle>, now_s: u64) {
    let due = match &*handle.kept.parked.borrow() {
        Parked::Kept(kept) => {
            let age_s = now_s - kept.since_s;
            let wanted = core.pools.wanted(kept.lease.connection().server);
            age_s > PARKED_S_MAX || (age_s > FIRM_S && wanted)
        }
        _ => false,
    };
    if due && handle.at_servers.killing.get() == 0 {
        ask_parked(handle);
    }
}

/// Takes up what the connection said that was parked. Waits for it, if need be.
pub(crate) async fn hear_parked(
    core: &Core,
    handle: &Handle,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
) {
    if !handle.kept.parked.borrow().is_asked() {
        return;
    }
    let Parked::Asked(told) = handle.kept.parked.take() else {
        return;
    };
    let gone = Asked {
        residue: None,
        lease: None,
    };
    hear(core, variables, connections, told.await.unwrap_or(gone));
}

fn hear(
    core: &Core,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    asked: Asked,
) {
    match asked.residue {
        Some(mut residue) => {
            variables.diagnostics.learn(&mut residue);
            if let Some(own) = &mut variables.user_variables {
                own.learn(residue);
            }
        }
        None => {
            if let Some(own) = &mut variables.user_variables {
                own.lose_silently();
            }
        }
    }
    if let Some(lease) = asked.lease {
        let pins = Pins::USER_VARIABLE;
        pins.count_new(Pins::empty(), &core.counters);
        connections.current.held = Some(Held { lease, pins });
    }
}

/// The connection that was parked, if it is one of this pool and in the session's state;
/// otherwise it is given back, or held.
pub(crate) async fn take_up(
    core: &Core,
    handle: &Handle,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    kept: Kept,
    key: Key,
) -> Option<Lease> {
    let Kept {
        mut lease,
        since_s,
        mut questions,
        ..
    } = kept;
    let connection = lease.connection_mut();
    let fresh = since_s + FIRM_S >= core.now_s.get();
    let alive = fresh || connection.is_quiet();
    let same = SessionState::same(connection.state(), &variables.state);
    if alive && same && lease.key() == key {
        return Some(lease);
    }
    // The next statement takes the place of the one whose warnings they are.
    (questions.warnings, questions.found_rows) = (false, false);
    let residue = match questions.is_empty() {
        true => Some(Residue::default()),
        false => Asked::ask(&mut lease, &questions).await,
    };
    let large = residue.as_ref().is_some_and(too_large);
    let broken = residue.is_none() || !alive;
    let mut asked = Asked {
        residue,
        lease: None,
    };
    if large {
        // It cannot be left behind: the session is held there.
        asked.lease = Some(lease);
    } else if !broken {
        give_back(handle, lease);
    }
    hear(core, variables, connections, asked);
    None
}

/// Values of variables may stand on a connection that is no other's.
pub fn unfetched(variables: &SessionVariables) -> bool {
    let own = variables.user_variables.as_ref();
    own.is_some_and(|own| !own.unfetched().is_empty())
}

/// Gives a connection back to the pool; closes it where a KILL for this session may still hit
/// whoever uses it next.
pub fn give_back(handle: &Handle, lease: Lease) {
    if handle.at_servers.killing.get() == 0 {
        recorded::given_back(handle.id, lease.connection());
        lease.release();
    }
}

/// Keeps the connection until somebody needs it more.
pub(crate) fn park(
    core: &Rc<Core>,
    handle: &Rc<Handle>,
    variables: &SessionVariables,
    lease: Lease,
    shape: &Shape,
) {
    count(&core.counters.holds_diagnostics);
    let own = variables.user_variables.as_ref();
    let kept = Kept {
        lease,
        since_s: core.now_s.get(),
        questions: Questions {
            warnings: variables.diagnostics.unasked(),
            found_rows: variables.diagnostics.counted(shape),
            variables: own.map_or_else(Default::default, |own| own.unfetched().clone()),
        },
        firm: variables.gets_diagnostics,
    };
    park_kept(core, handle, kept);
}

/// Keeps a connection as it was kept before a command that never ran.
pub fn give_back_after_error(
    core: &Rc<Core>,
    handle: &Rc<Handle>,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    lease: Lease,
    pins: Pins,
) {
    let may_be_open = variables.status.contains(Status::IN_TRANS)
        || !variables.status.contains(Status::AUTOCOMMIT);
    if may_be_open || !pins.is_empty() {
        connections.current.held = Some(Held { lease, pins });
    } else if unfetched(variables) {
        park(core, handle, variables, lease, &Shape::command());
    } else {
        give_back(handle, lease);
    }
}
