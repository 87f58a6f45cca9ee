//! Carries out what the machine of a transaction asks for: all groups at once, each on the connection
//! that has its part.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use backend::{Lease, Told};
use farm::crossing::{Branch, GlobalId, Verdict};
use futures_channel::oneshot;
use machines::xa::Seat;
use machines::xa::commit::{Action, Commit, Event, Reply, Work};

use super::question::{Question, Said};
use crate::acks::Copies;
use crate::operator::Operator;

/// What one group has of a transaction that ends.
pub(super) struct Side {
    /// Its group's number and name.
    pub group: u32,
    pub name: Arc<str>,
    pub work: Work,
    /// `None` for a plain transaction.
    pub branch: Option<Branch>,
    /// `None` once the connection is gone.
    pub lease: Option<Lease>,
    /// Run behind the last statement, in its trip.
    pub behind: Option<String>,
    /// Its branch is prepared.
    pub prepared: bool,
    /// GTIDs of what it committed.
    pub gtid: Vec<u8>,
}

/// How it ended.
pub(super) struct Ended {
    pub reply: Reply,
    pub sides: Vec<Side>,
}

/// A transaction while it ends.
pub(super) struct Drive {
    pub operator: Arc<dyn Operator>,
    /// `None` where no group has a branch.
    pub id: Option<GlobalId>,
    pub sides: Vec<Side>,
    /// The commit of a plain transaction is looked for so long.
    pub settle_ms: u64,
    /// Knows when what was committed is safe.
    pub copies: Rc<Copies>,
}

/// Recovery stays away as long as this lives.
struct Undertaken {
    operator: Arc<dyn Operator>,
    id: GlobalId,
    verdict: Option<Verdict>,
    left: Vec<(String, Branch)>,
}

impl Undertaken {
    fn new(operator: Arc<dyn Operator>, id: GlobalId) -> Undertaken {
        operator.undertake(id);
        Undertaken {
            operator,
            id,
            verdict: None,
            left: Vec::new(),
        }
    }
}

impl Drop for Undertaken {
    fn drop(&mut self) {
        let left = std::mem::take(&mut self.left);
        self.operator.leave(self.id, self.verdict, left);
    }
}

/// An answer, and the connection that gave it.
struct Answer {
    seat: Seat,
    lease: Option<Lease>,
    event: Event,
    gtid: Vec<u8>,
}

type Asked = Pin<Box<dyn Future<Output = Answer>>>;

impl Drive {
    /// Ends the transaction. Dropped before it is over, it leaves the rest to recovery.
    pub async fn run(mut self, event: Event) -> Ended {
        let mut machine = Commit::new(self.sides.iter().map(|side| side.work));
        let mut undertaken = self
            .id
            .map(|id| Undertaken::new(Arc::clone(&self.operator), id));
        let mut open: Vec<Asked> = Vec::new();
        let mut todo = machine.step(event);
        let mut reply = None;
        loop {
            for action in std::mem::take(&mut todo) {
                match action {
                    Action::Reply(said) => reply = Some(said),
                    Action::Close(seat) => self.side(seat).lease = None,
                    // The sweep of the control plane finds what nobody needs any more.
                    Action::Forget => {}
                    Action::HandOver(seat, verdict) => {
                        let side = self.side(seat);
                        side.lease = None;
                        if let (Some(branch), Some(kept)) = (side.branch, &mut undertaken) {
                            kept.left.push((side.name.to_string(), branch));
                            kept.verdict = kept.verdict.or(verdict);
                        }
                    }
                    Action::Settle(seat) => open.push(self.settle(seat)),
                    Action::Prepare(seat) => self.ask(seat, &action, &mut open),
                    Action::Decide { .. } | Action::Single(_) => {
                        let seat = match action {
                            Action::Single(seat) => seat,
                            _ => Seat::DECIDER,
                        };
                        self.ask(seat, &action, &mut open);
                    }
                    Action::Commit(seat) | Action::Rollback(seat) => {
                        self.ask(seat, &action, &mut open);
                    }
                }
            }
            if let Some(reply) = reply.take() {
                let sides = self.sides;
                return Ended { reply, sides };
            }
            let answer = next(&mut open).await;
            let side = self.side(answer.seat);
            match answer.event {
                // A lost connection is closed.
                Event::Lost(_) => side.lease = None,
                Event::Settled(_) => {}
                _ => side.lease = answer.lease,
            }
            side.prepared |= matches!(answer.event, Event::Done(_));
            if !answer.gtid.is_empty() {
                if !side.gtid.is_empty() {
                    side.gtid.push(b',');
                }
                side.gtid.extend_from_slice(&answer.gtid);
            }
            todo = machine.step(answer.event);
        }
    }

    fn side(&mut self, seat: Seat) -> &mut Side {
        &mut self.sides[usize::from(seat.0)]
    }

    /// Asks the seat's group what this action wants.
    fn ask(&mut self, seat: Seat, action: &Action, open: &mut Vec<Asked>) {
        let id = self.id;
        let groups = self.sides.iter().filter(|side| side.branch.is_some());
        let groups: Vec<u32> = groups
            .filter(|side| side.work.wrote)
            .map(|side| side.group)
            .collect();
        let operator = Arc::clone(&self.operator);
        let copies = Rc::clone(&self.copies);
        let side = self.side(seat);
        let question = match (action, side.branch) {
            (Action::Prepare(_), Some(branch)) => Question::Prepare(branch),
            (Action::Decide { row: true }, _) => Question::Decide(id.map(|id| (id, groups))),
            (Action::Decide { row: false }, _) => Question::Decide(None),
            (Action::Single(_), branch) => Question::Single(branch),
            (Action::Commit(_), Some(branch)) => Question::Commit(branch),
            (_, branch) => Question::Rollback(branch, side.prepared),
        };
        let ends = !matches!(question, Question::Prepare(_));
        let behind = side.behind.take_if(|_| ends);
        let group = side.group;
        let lease = side.lease.take();
        open.push(Box::pin(async move {
            let mut gtid = Vec::new();
            let Some(mut lease) = lease else {
                return lost(seat);
            };
            let mut may_ask = true;
            loop {
                let mut told = Told::default();
                let connection = lease.connection_mut();
                let behind = behind.as_deref().map(str::as_bytes);
                let said = question.ask(connection, behind, &mut told).await;
                gtid.extend_from_slice(&told.gtid);
                let event = match said {
                    Said::Done if copies.have(group, connection, &gtid).await => Event::Done(seat),
                    // Its primary was cut off before anybody else had it.
                    Said::Done | Said::Lost => return lost(seat),
                    Said::NotAllowed if may_ask => {
                        may_ask = false;
                        let allowed = allow(&*operator, group, connection).await;
                        match allowed {
                            Ok(()) => continue,
                            Err(text) => Event::Refused(seat, refusal(text)),
                        }
                    }
                    Said::NotAllowed => {
                        let text = "the account may not decide".to_owned();
                        Event::Refused(seat, refusal(text))
                    }
                    Said::Refused(refusal) => Event::Refused(seat, refusal),
                };
                return Answer {
                    seat,
                    lease: Some(lease),
                    event,
                    gtid,
                };
            }
        }));
    }

    /// Finds out what became of the decision.
    fn settle(&mut self, seat: Seat) -> Asked {
        let (operator, limit_ms) = (Arc::clone(&self.operator), self.settle_ms);
        let row = seat == Seat::DECIDER
            && self
                .sides
                .iter()
                .any(|side| side.branch.is_some() && side.work.wrote);
        let id = self.id.filter(|_| row);
        Box::pin(async move {
            let mut verdict = None;
            if let Some(id) = id {
                let (tell, told) = oneshot::channel();
                let reply = Box::new(move |verdict| {
                    // The session may be gone.
                    let _ = tell.send(verdict);
                });
                operator.settle(id, limit_ms, reply);
                verdict = told.await.ok().flatten();
            }
            Answer {
                seat,
                lease: None,
                event: Event::Settled(verdict),
                gtid: Vec::new(),
            }
        })
    }
}

fn lost(seat: Seat) -> Answer {
    Answer {
        seat,
        lease: None,
        event: Event::Lost(seat),
        gtid: Vec::new(),
    }
}

/// ER_UNKNOWN_ERROR, of Heddle's own.
fn refusal(text: String) -> machines::xa::commit::Refusal {
    machines::xa::commit::Refusal { number: 1105, text }
}

/// Has the account of this connection allowed to decide.
async fn allow(
    operator: &dyn Operator,
    group: u32,
    connection: &mut backend::Connection,
) -> Result<(), String> {
    let asked = connection.ask(b"SELECT CURRENT_USER()").await;
    let account = asked.map_err(|error| error.to_string())?;
    let account = account.first().map(|it| String::from_utf8_lossy(it));
    let account = account.as_deref().and_then(|it| it.rsplit_once('@'));
    let Some((user, host)) = account else {
        return Err("the server does not say whose connection it is".to_owned());
    };
    let (tell, told) = oneshot::channel();
    let reply = Box::new(move |allowed| {
        // The session may be gone.
        let _ = tell.send(allowed);
    });
    operator.let_decide(group, [user.to_owned(), host.to_owned()], reply);
    let gone = || Err("the control plane has ended".to_owned());
    told.await.unwrap_or_else(|_| gone())
}

/// The first answer that comes.
async fn next(open: &mut Vec<Asked>) -> Answer {
    poll_fn(|context| {
        for at in 0..open.len() {
            if let Poll::Ready(answer) = open[at].as_mut().poll(context) {
                drop(open.swap_remove(at));
                return Poll::Ready(answer);
            }
        }
        Poll::Pending
    })
    .await
}

/// All results, in the order in which they come.
pub(super) async fn all<T, F: Future<Output = T> + Unpin>(mut asked: Vec<F>) -> Vec<T> {
    let mut done = Vec::with_capacity(asked.len());
    poll_fn(|context| {
        let mut at = 0;
        while at < asked.len() {
            match Pin::new(&mut asked[at]).poll(context) {
                Poll::Ready(one) => {
                    done.push(one);
                    drop(asked.swap_remove(at));
                }
                Poll::Pending => at += 1,
            }
        }
        match asked.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
    done
}
