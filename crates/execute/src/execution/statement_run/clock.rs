//! The time that a statement may take: by the settings, or by a rule.

use std::rc::Rc;
use std::time::{Duration, Instant};

use sqltext::Class;

use crate::client::stall::watch;
use crate::execution::exec::Shape;
use crate::execution::profile::Step;
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::per_core::handle::Handle;

/// A statement begins whose time is limited. The end of a transaction has no limit: interrupted,
/// nobody could tell how it ended.
pub fn start_clock(core: &Rc<Core>, handle: &Rc<Handle>, run: &mut StatementRun, shape: &Shape) {
    if start_own_clock(core, handle, run, shape) {
        return;
    }
    let limited = core.settings().statement_timeout_ms > 0 && shape.class != Class::Transaction;
    handle.at_servers.started.set(limited.then(Instant::now));
}

/// It is over.
pub fn end_attempt(handle: &Handle, run: &mut StatementRun) {
    run.profile.lap(Step::Serve);
    handle.at_servers.running.set(None);
    handle.at_servers.started.set(None);
    handle.at_servers.in_pipeline.set(false);
}

/// A statement begins whose time a rule limits, or sets free. False when no rule does.
pub(crate) fn start_own_clock(
    core: &Rc<Core>,
    handle: &Rc<Handle>,
    run: &mut StatementRun,
    shape: &Shape,
) -> bool {
    let (core, handle) = (core.clone(), handle.clone());
    let Some(ruled) = &mut run.ruled else {
        return false;
    };
    let Some(timeout_ms) = ruled.timeout_ms else {
        return false;
    };
    let limited = timeout_ms > 0 && shape.class != Class::Transaction;
    ruled.timer = limited.then(|| {
        reactor::spawn(async move {
            reactor::sleep(Duration::from_millis(timeout_ms)).await;
            if handle.at_servers.running.get().is_some() {
                watch::end_late(&core, handle.id);
            }
        })
    });
    true
}
