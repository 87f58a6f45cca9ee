//! Statements that run on a second server too: their answers are thrown away, and no client waits.
//!
//! Each core has a queue of copies, and a few tasks that send them. When the queue is full, copies
//! are dropped and counted. A copy runs on a connection of its session's account, which is reset
//! before anybody else uses it.

pub(crate) mod copies;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use backend::{Pass, Prepared, SessionState};
use routing::rules::ServerName;

/// Copies that may wait on one core.
const WAITING_MAX: usize = 1024;

/// Copies that one core runs at one time: so many connections they take at most.
const RUNNING_MAX: usize = 4;

/// A copy that takes longer is given up.
const COPY_MAX: Duration = Duration::from_secs(10);

/// One core's copies.
#[derive(Default)]
pub(crate) struct Mirrors {
    waiting: RefCell<VecDeque<Copy>>,
    running: Cell<usize>,
}

/// One statement for a second server.
struct Copy {
    to: ServerName,
    pass: Pass,
    state: Rc<SessionState>,
    what: What,
}

enum What {
    /// COM_QUERY of this text.
    Text(Vec<u8>),
    /// COM_STMT_EXECUTE of this statement, with whatever id.
    Execute(Prepared, Vec<u8>),
}
