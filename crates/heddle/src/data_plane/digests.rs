//! Asks the cores for their digests, a slice of rows at a time, so that no core is held up for long; and keeps what
//! was counted in each minute of the last day, in memory and in files ([`minutes`](super::minutes)).

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use reactor::Dealer;
use session::{Message, Visit};
use statistics::{Digests, History, Past, Row};

use super::minutes::Minutes;

/// So many rows a core copies at once: some 50 us.
const SLICE: usize = 256;

/// A core answers between two events.
const ANSWER: Duration = Duration::from_secs(1);

/// The rows of all cores, added up.
pub(super) fn all(dealer: &Dealer<Message>) -> Vec<Row> {
    statistics::joined(told(dealer, Digests::rows))
}

/// The minutes of the last day.
#[derive(Default)]
pub(super) struct Kept {
    history: History,
    /// `None` where no file is to outlive the process.
    files: Option<Minutes>,
    /// What stood in the files is in the history.
    is_read: bool,
}

impl Kept {
    /// Keeps minutes in this state directory, too. What stands there is read when somebody wants it first, so that the
    /// start does not wait for it.
    pub fn outlive(&mut self, state: &Path) {
        self.files = Some(Minutes::of(state));
    }

    fn keep(&mut self, now_ms: u64, rows: Vec<Past>, bytes_max: usize) {
        if let Some(files) = &mut self.files {
            if !std::mem::replace(&mut self.is_read, true) {
                self.history = files.read(now_ms, bytes_max);
            }
            files.write(now_ms, &rows, bytes_max);
        }
        self.history.keep(now_ms, rows, bytes_max);
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.history.clear();
        if let Some(files) = &mut self.files {
            files.clear();
        }
    }
}

/// Keeps what was counted since the call before; `now_ms` since 1970.
pub(super) fn keep(dealer: &Dealer<Message>, kept: &Mutex<Kept>, now_ms: u64, max: usize) {
    let minute = told(dealer, Digests::take_minute);
    locked(kept).keep(now_ms, minute, max);
}

/// What was counted in the minutes that ended at this time or later.
pub(super) fn since(kept: &Mutex<Kept>, from_ms: u64) -> Vec<Row> {
    locked(kept).history.since(from_ms)
}

/// A panic while it is locked loses a minute at most.
pub(super) fn locked(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A question to one core about so many places from one on: what they hold, and where it goes on.
type Question<T> = fn(&Digests, usize, usize) -> (Vec<T>, Option<usize>);

/// What every core answers to a question. Waits for the cores; what one does not
/// tell within a second is missing, and the log says so.
fn told<T: Send + 'static>(dealer: &Dealer<Message>, ask: Question<T>) -> Vec<T> {
    let mut all = Vec::new();
    for core in 0..dealer.cores() {
        let mut from = Some(0);
        while let Some(at) = from {
            let (tell, told) = mpsc::channel();
            let visit = Visit::new(move |core| drop(tell.send(ask(&core.digests, at, SLICE))));
            dealer.send(core, Message::Visit(visit));
            let Ok((some, next)) = told.recv_timeout(ANSWER) else {
                tracing::warn!(core, "a core did not tell its digests in time");
                break;
            };
            all.extend(some);
            from = next;
        }
    }
    all
}

/// Has the cores begin anew, and gives how many rows they had. Their tables are taken apart here.
pub(super) fn reset(dealer: &Dealer<Message>) -> usize {
    let (tell, told) = mpsc::channel();
    for core in 0..dealer.cores() {
        let tell = tell.clone();
        let visit = Visit::new(move |core| drop(tell.send(core.digests.reset())));
        dealer.send(core, Message::Visit(visit));
    }
    drop(tell);
    let mut rows = 0;
    while let Ok(table) = told.recv_timeout(ANSWER) {
        rows += table.sizes().0;
    }
    rows
}
