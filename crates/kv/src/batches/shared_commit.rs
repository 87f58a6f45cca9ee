//! Plain sets of all cores as one batch: a commit costs the servers as much as thirty rows, so cores whose batches are
//! small, and ready at the same time, share one.
//!
//! One core at a time has the turn to carry out a container's changes of one group. A core that comes meanwhile
//! leaves a copy of its batch, and whoever has the turn next takes along what has been left. A core that nobody is
//! before, nor has been lately, carries out its own at once: nothing is copied, and nobody waits. Where a turn takes
//! long, since somebody has locked a row, the others do not wait for it: each carries out its own.
//!
//! Invariants: a core has one batch here at most, so its changes of a key keep their order; a batch that was left is
//! answered once, by its outcomes or by the word that nobody knows them; the turn goes on, whatever becomes of who
//! has it.
//!
//! Must not know: how changes are carried out.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use farm::Container;
use futures_channel::oneshot;
use session::Written;

use crate::batches::linger::{CORES, Linger};
use crate::op::{Op, Outcome};

/// The common lines of a router that are in use.
#[derive(Default)]
pub(crate) struct CommonLines {
    known: Mutex<Vec<Known>>,
}

/// By its container as it is declared, and the name of its group.
type Known = (Arc<Container>, Arc<str>, Weak<CommonLine>);

impl CommonLines {
    /// The line that all cores have for what one of them knows by this name.
    pub fn line(&self, container: &Arc<Container>, group: &Arc<str>) -> Arc<CommonLine> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find_map(|(its, name, line)| {
            let same = name == group && (Arc::ptr_eq(its, container) || its == container);
            line.upgrade().filter(|_| same)
        });
        found.unwrap_or_else(|| {
            known.retain(|(_, _, line)| line.strong_count() > 0);
            let line = Arc::new(CommonLine::default());
            known.push((container.clone(), group.clone(), Arc::downgrade(&line)));
            line
        })
    }
}

/// Where the cores leave their batches for each other.
#[derive(Default)]
pub(crate) struct CommonLine {
    state: Mutex<State>,
}

struct State {
    /// A core has the turn.
    taken: bool,
    /// It has had it for long.
    slow: bool,
    left: VecDeque<Left>,
    /// The cores of the batch before, whose clients may be about to ask again, and how long it took.
    last: Vec<usize>,
    took: Duration,
    linger: Linger,
    /// Of the core that has the turn, while it waits for others.
    waker: Option<Waker>,
}

impl Default for State {
    fn default() -> State {
        State {
            taken: false,
            slow: false,
            left: VecDeque::new(),
            last: Vec::new(),
            took: Duration::ZERO,
            linger: Linger::new(CORES),
            waker: None,
        }
    }
}

impl State {
    /// Cores of the batch before that have not come again, beside this one.
    fn missing(&self, core: usize) -> usize {
        let is_here = |it: usize| it == core || self.left.iter().any(|left| left.core == it);
        self.last.iter().filter(|&&it| !is_here(it)).count()
    }
}

/// A batch that another core is to carry out.
pub(crate) struct Left {
    core: usize,
    pub ops: Vec<Op>,
    bytes: usize,
    tell: oneshot::Sender<News>,
}

/// What becomes of a batch that was left.
pub(crate) enum News {
    /// This core has carried it out: each command's outcome, and what the internal session that did it has written
    /// by now.
    Done(usize, Vec<Outcome>, Vec<Written>),
    /// Nobody has taken it along: it is the turn of who left it.
    Turn(Turn),
}

/// How a core with a batch is received.
pub(crate) enum Entry {
    Turn(Turn),
    /// Dropped without a word when it is not known what became of the batch.
    Wait(oneshot::Receiver<News>),
    /// It carries its batch out by itself, beside who has the turn.
    Alone,
}

impl CommonLine {
    /// A core comes with a batch of so many bytes; `ops` copies it, if it has to be left.
    pub fn enter(
        self: &Arc<CommonLine>,
        core: usize,
        bytes: usize,
        ops: impl FnOnce() -> Vec<Op>,
    ) -> Entry {
        let mut state = self.lock();
        if !state.taken {
            state.taken = true;
            drop(state);
            return Entry::Turn(Turn::new(self, core));
        }
        if state.slow {
            return Entry::Alone;
        }
        let (tell, told) = oneshot::channel();
        state.left.push_back(Left {
            core,
            ops: ops(),
            bytes,
            tell,
        });
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Entry::Wait(told)
    }

    /// A core has waited for so long that it would rather be alone, and so would others. False where its batch has been
    /// taken along, or has the turn: then there is a word to wait for.
    pub fn leave(&self, core: usize) -> bool {
        let mut state = self.lock();
        let before = state.left.len();
        state.left.retain(|left| left.core != core);
        state.slow |= state.taken;
        state.left.len() < before
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn is over.
    fn pass_on(self: &Arc<CommonLine>) {
        let next = {
            let mut state = self.lock();
            (state.waker, state.slow) = (None, false);
            let next = state.left.pop_front();
            state.taken = next.is_some();
            next
        };
        if let Some(next) = next {
            let turn = Turn::new(self, next.core);
            // Where nobody waits for it any more, it is dropped, and goes on.
            let _ = next.tell.send(News::Turn(turn));
        }
    }
}

/// The right to carry out what there is; one core has it. It goes on when it is dropped.
pub(crate) struct Turn {
    line: Arc<CommonLine>,
    core: usize,
}

impl Turn {
    fn new(line: &Arc<CommonLine>, core: usize) -> Turn {
        Turn {
            line: line.clone(),
            core,
        }
    }

    /// Waits for cores whose clients have just been answered, where that is worth it.
    pub async fn gather(&mut self) {
        let (wanted, before, limit) = {
            let mut state = self.line.lock();
            let (missing, here) = (state.missing(self.core), 1 + state.left.len());
            match state.linger.wanted(missing, here) {
                Some(wanted) if missing > 0 => (wanted, here, Linger::longest(state.took)),
                _ => return,
            }
        };
        let all_here = std::future::poll_fn(|context| {
            let mut state = self.line.lock();
            if 1 + state.left.len() >= wanted {
                return Poll::Ready(());
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        });
        reactor::timeout(limit, all_here).await;
        let mut state = self.line.lock();
        state.waker = None;
        let came = 1 + state.left.len() - before;
        state.linger.ended(wanted - before, came);
    }

    /// What others have left and goes with a batch of so many commands and bytes, within these bounds.
    pub fn take(&mut self, mut ops: usize, mut bytes: usize, max: (usize, usize)) -> Vec<Left> {
        let mut state = self.line.lock();
        let mut taken = Vec::new();
        while let Some(left) = state.left.front() {
            (ops, bytes) = (ops + left.ops.len(), bytes + left.bytes);
            if ops > max.0 || bytes > max.1 {
                break;
            }
            taken.extend(state.left.pop_front());
        }
        state.last = taken.iter().map(|left| left.core).collect();
        state.last.push(self.core);
        taken
    }

    /// The batch is carried out: each of the others is told its part of the outcomes.
    pub fn tell(
        self,
        others: Vec<Left>,
        mut outcomes: impl Iterator<Item = Outcome>,
        written: &[Written],
        took: Duration,
    ) {
        self.line.lock().took = took;
        for left in others {
            let its = outcomes.by_ref().take(left.ops.len()).collect();
            // A core that ends does not wait.
            let _ = left.tell.send(News::Done(self.core, its, written.to_vec()));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.line.pass_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Change;

    fn get(key: &str) -> Op {
        Op {
            key: key.as_bytes().into(),
            change: Change::Get,
        }
    }

    fn come(line: &Arc<CommonLine>, core: usize, keys: &[&str]) -> Entry {
        line.enter(core, 10, || keys.iter().copied().map(get).collect())
    }

    fn turn(entry: Entry) -> Turn {
        match entry {
            Entry::Turn(turn) => turn,
            _ => panic!("somebody else has the turn"),
        }
    }

    fn wait(entry: Entry) -> oneshot::Receiver<News> {
        match entry {
            Entry::Wait(told) => told,
            _ => panic!("nobody has the turn"),
        }
    }

    /// The outcomes' numbers; `None` before there is a word.
    fn told(told: &mut oneshot::Receiver<News>) -> Option<Vec<u64>> {
        let number = |outcome| match outcome {
            Outcome::Stored { cas } => cas,
            other => panic!("{other:?}"),
        };
        match told.try_recv().expect("somebody answers")? {
            News::Done(_, outcomes, _) => Some(outcomes.into_iter().map(number).collect()),
            News::Turn(_) => panic!("it is taken along"),
        }
    }

    fn outcomes() -> impl Iterator<Item = Outcome> {
        (0..).map(|cas| Outcome::Stored { cas })
    }

    #[test]
    fn who_has_the_turn_takes_along_what_others_left() {
        let line = Arc::default();
        let mut first = turn(come(&line, 0, &["a"]));
        let mut one = wait(come(&line, 1, &["b", "c"]));
        let mut two = wait(come(&line, 2, &["d"]));
        let others = first.take(1, 10, (4, 100));
        assert_eq!(told(&mut one), None);
        first.tell(others, outcomes().skip(1), &[], Duration::ZERO);
        assert_eq!(told(&mut one), Some(vec![1, 2]));
        assert_eq!(told(&mut two), Some(vec![3]));
        drop(turn(come(&line, 1, &["e"])));
        drop(turn(come(&line, 0, &["f"])));
    }

    #[test]
    fn what_is_too_much_for_one_batch_has_the_next_turn() {
        for max in [(3, 100), (100, 25)] {
            let line = Arc::default();
            let mut first = turn(come(&line, 0, &["a"]));
            let mut one = wait(come(&line, 1, &["b", "c"]));
            let mut two = wait(come(&line, 2, &["d"]));
            let others = first.take(1, 10, max);
            assert_eq!(others.len(), 1);
            first.tell(others, outcomes(), &[], Duration::ZERO);
            assert_eq!(told(&mut one), Some(vec![0, 1]));
            let Ok(Some(News::Turn(mut second))) = two.try_recv() else {
                panic!("it is its turn");
            };
            assert!(second.take(1, 10, max).is_empty());
        }
    }

    #[test]
    fn the_turn_goes_on_whatever_becomes_of_who_has_it() {
        let line = Arc::default();
        let mut first = turn(come(&line, 0, &["a"]));
        let mut one = wait(come(&line, 1, &["b"]));
        let gone = wait(come(&line, 2, &["c"]));
        let mut three = wait(come(&line, 3, &["d"]));
        let others = first.take(1, 10, (2, 100));
        drop(gone);
        drop(first);
        let Ok(Some(News::Turn(_turn))) = three.try_recv() else {
            panic!("it is its turn");
        };
        assert!(
            matches!(one.try_recv(), Ok(None)),
            "who has it may yet answer"
        );
        drop(others);
        assert!(one.try_recv().is_err(), "nobody knows what became of it");
    }

    #[test]
    fn who_was_there_last_is_missing() {
        let line = Arc::default();
        let mut first = turn(come(&line, 0, &["a"]));
        let _one = wait(come(&line, 1, &["b"]));
        assert_eq!(line.lock().missing(0), 0, "nobody has been answered");
        let others = first.take(1, 10, (9, 100));
        first.tell(others, outcomes(), &[], Duration::ZERO);
        let first = turn(come(&line, 0, &["a"]));
        assert_eq!(line.lock().missing(0), 1);
        let _one = wait(come(&line, 1, &["b"]));
        assert_eq!(line.lock().missing(0), 0);
        drop(first);
    }

    #[test]
    fn nobody_waits_for_a_turn_that_takes_long() {
        let line = Arc::default();
        let mut first = turn(come(&line, 0, &["a"]));
        let mut one = wait(come(&line, 1, &["b"]));
        let others = first.take(1, 10, (2, 100));
        let _two = wait(come(&line, 2, &["c"]));
        assert!(!line.leave(1), "it is taken along");
        assert!(line.leave(2));
        assert!(matches!(come(&line, 2, &["d"]), Entry::Alone));
        first.tell(others, outcomes(), &[], Duration::ZERO);
        assert_eq!(told(&mut one), Some(vec![0]));
        drop(turn(come(&line, 2, &["e"])));
        assert!(!line.leave(2));
        let _first = turn(come(&line, 0, &["f"]));
        let _told = wait(come(&line, 1, &["g"]));
    }

    #[test]
    fn a_line_is_known_while_somebody_has_it() {
        let lines = CommonLines::default();
        let container = |table| Arc::new(Container::new("c", "d", table, "k", &["v"]));
        let (group, other): (Arc<str>, Arc<str>) = (Arc::from("g"), Arc::from("h"));
        let line = lines.line(&container("t"), &group);
        assert!(Arc::ptr_eq(&line, &lines.line(&container("t"), &group)));
        assert!(!Arc::ptr_eq(&line, &lines.line(&container("t"), &other)));
        assert!(!Arc::ptr_eq(&line, &lines.line(&container("u"), &group)));
        assert_eq!(lines.known.lock().expect("nobody panicked").len(), 2);
    }
}
