//! Carries out what the machine of a transaction asks for: all groups at once, each on the connection
//! that has its part.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use backend::{Lease, Told};
use execute::consistency::acks::wait::Copies;
use execute::execution::profile::commands::OwnCommand;
use execute::per_core::keeper::Pass;
use execute::per_core::operator::Operator;
use execute::transaction::distributed::Part;
use farm::Xid;
use farm::dist_txn::{Branch, GlobalId, Place, Verdict};
use faults::Point;
use futures_channel::oneshot;
use machines::xa::Seat;
use machines::xa::commit::{Action, Commit, Event, Reply, Work};
use statistics::Failed;

use super::question::{Name, Question, Said};

/// What one group has of a transaction that ends.
pub(super) struct Side {
    /// Its group's number and name.
    pub group: u32,
    pub name: Arc<str>,
    pub work: Work,
    /// `None` for a plain transaction, and for the client's own.
    pub branch: Option<Branch>,
    /// The name of its XA transaction on its server.
    pub xid: Option<Name>,
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
    pub machine: Commit,
    /// What was sent for it, as a trace tells it.
    pub commands: Vec<OwnCommand>,
}

impl Side {
    /// What stays in the transaction, and its connection.
    pub fn into_part(self) -> (Part, Option<Lease>) {
        let part = Part {
            group: self.group,
            name: self.name,
            work: self.work,
            branch: self.branch,
            hurried: self.behind.is_some(),
        };
        (part, self.lease)
    }
}

/// A transaction while it ends.
pub(super) struct Drive {
    pub operator: Arc<dyn Operator>,
    /// `None` where no group has a branch.
    pub id: Option<GlobalId>,
    pub sides: Vec<Side>,
    /// The row of a commit that is the decision by itself, at its own group.
    pub alone: Option<GlobalId>,
    /// The client's own name of it.
    pub own: Option<Xid>,
    /// Of one that is prepared already.
    pub machine: Option<Commit>,
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
    command: Option<OwnCommand>,
}

type Asked = Pin<Box<dyn Future<Output = Answer>>>;

impl Drive {
    /// Ends the transaction. Dropped before it is over, it leaves the rest to recovery.
    pub async fn run(mut self, event: Event) -> Ended {
        let fresh = || Commit::new(self.sides.iter().map(|side| side.work));
        let mut machine = self.machine.take().unwrap_or_else(fresh);
        let mut undertaken = self.id.map(|id| Undertaken::new(Arc::clone(&self.operator), id));
        let mut alone = None;
        let mut commands = Vec::new();
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
                    Action::Prepare(seat)
                    | Action::Hold(seat)
                    | Action::Commit(seat)
                    | Action::Rollback(seat) => self.ask(seat, &action, &mut open),
                    Action::Decide { row: true } => self.ask(Seat::COORDINATOR, &action, &mut open),
                    Action::Decide { row: false } => {
                        alone = self.decide_alone(Seat::COORDINATOR, &action, &mut open);
                    }
                    Action::Single(seat) => alone = self.decide_alone(seat, &action, &mut open),
                }
            }
            if let Some(reply) = reply.take() {
                Point::Answer.pass();
                drop(alone);
                let sides = self.sides;
                return Ended {
                    reply,
                    sides,
                    machine,
                    commands,
                };
            }
            let answer = next(&mut open).await;
            commands.extend(answer.command);
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

    /// The row of this seat's commit, where it decides by itself over what others read.
    fn alone_at(&mut self, seat: Seat) -> Option<GlobalId> {
        let id = self.id?.of_heddle();
        let side = self.side(seat);
        let connection = side.lease.as_ref().filter(|_| side.work.wrote)?.connection();
        Some(GlobalId {
            coordinator: side.group,
            at: Place {
                server: connection.server,
                connection: connection.thread_id.into(),
            },
            ..id
        })
    }

    /// Asks for a commit that is the decision by itself. Its row stays as long as what comes back.
    fn decide_alone(
        &mut self,
        seat: Seat,
        action: &Action,
        open: &mut Vec<Asked>,
    ) -> Option<Undertaken> {
        self.alone = self.alone_at(seat);
        self.ask(seat, action, open);
        let operator = &self.operator;
        self.alone.map(|id| Undertaken::new(Arc::clone(operator), id))
    }

    /// What this action asks of the seat's group.
    fn question(&self, seat: Seat, action: &Action) -> Question {
        let id = self.id;
        // What only read with locks is prepared as well where the client decides.
        let holds = matches!(action, Action::Hold(_));
        let stays = |side: &&Side| side.work.wrote || (holds && side.work.locked);
        let branches = self.sides.iter().filter(|side| side.branch.is_some());
        let groups = branches.filter(stays).map(|side| side.group);
        let side = &self.sides[usize::from(seat.0)];
        match (action, side.xid.clone(), id) {
            (Action::Prepare(_), Some(xid), _) => Question::Prepare(xid),
            (Action::Hold(_), Some(xid), _) => Question::Hold {
                row: id.zip(self.own.as_ref()).map(|(id, own)| {
                    enginesql::decision::hold(&self.operator.seal(id), groups, own)
                }),
                xid,
            },
            (Action::Decide { row: true }, own, Some(id)) => Question::Decide {
                id: self.operator.seal(id),
                groups: groups.collect(),
                own,
            },
            // What it read of other groups must not be newer than a snapshot that sees it.
            (Action::Decide { .. } | Action::Single(_), branch, _) => Question::Single {
                branch,
                row: self.alone.map(|id| self.operator.seal(id)),
            },
            (Action::Commit(_), Some(xid), _) => Question::Commit(xid),
            (_, branch, _) => Question::Rollback(branch, side.prepared),
        }
    }

    /// Asks the seat's group what this action wants.
    fn ask(&mut self, seat: Seat, action: &Action, open: &mut Vec<Asked>) {
        let question = self.question(seat, action);
        // The decision of the client's own; what is prepared can pass no commit barrier itself.
        let passes = match (&question, seat) {
            (Question::Commit(_), Seat::COORDINATOR) => self.id,
            _ => None,
        };
        let operator = Arc::clone(&self.operator);
        let copies = Rc::clone(&self.copies);
        let ends = !matches!(question, Question::Prepare(_) | Question::Hold { .. });
        let side = self.side(seat);
        let behind = side.behind.take_if(|_| ends);
        let group = side.group;
        let lease = side.lease.take();
        open.push(Box::pin(async move {
            let Some(mut lease) = lease else {
                return lost(seat, None);
            };
            let mut command = OwnCommand {
                name: question.name(),
                server: lease.connection().server,
                began: Instant::now(),
                ended: Instant::now(),
                failed: None,
            };
            let pass = match passes {
                Some(id) => pass(&*operator, group, id.sequence).await,
                None => Ok(None),
            };
            let mut gtid = Vec::new();
            let event = match pass {
                Err(why) => Event::Refused(seat, refusal(why)),
                // Held until the answer is there.
                Ok(_pass) => {
                    let (connection, behind) = (lease.connection_mut(), behind.as_deref());
                    let put = Put {
                        seat,
                        group,
                        operator: &*operator,
                        copies: &copies,
                    };
                    put.put(&question, connection, behind, &mut gtid).await
                }
            };
            command.ended = Instant::now();
            command.failed = match &event {
                Event::Lost(_) => Some(Failed::Retried("connection_lost")),
                Event::Refused(_, refusal) => Some(Failed::Error(refusal.number)),
                _ => None,
            };
            match event {
                Event::Lost(seat) => lost(seat, Some(command)),
                event => Answer {
                    seat,
                    lease: Some(lease),
                    event,
                    gtid,
                    command: Some(command),
                },
            }
        }));
    }

    /// Finds out what became of the decision.
    fn settle(&mut self, seat: Seat) -> Asked {
        let (operator, limit_ms) = (Arc::clone(&self.operator), self.settle_ms);
        let row = seat == Seat::COORDINATOR
            && self.sides.iter().any(|side| side.branch.is_some() && side.work.wrote);
        let id = match row {
            true => self.id,
            false => self.alone,
        };
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
                command: None,
            }
        })
    }
}

/// Where a question is put.
struct Put<'a> {
    seat: Seat,
    group: u32,
    operator: &'a dyn Operator,
    copies: &'a Copies,
}

impl Put<'_> {
    /// Puts it, and once more when the account had to be allowed to decide. `behind` is run in the same
    /// trip.
    async fn put(
        &self,
        question: &Question,
        connection: &mut backend::Connection,
        behind: Option<&str>,
        gtid: &mut Vec<u8>,
    ) -> Event {
        let (seat, group) = (self.seat, self.group);
        let mut may_ask = true;
        loop {
            let mut told = Told::default();
            let said = question.ask(connection, behind.map(str::as_bytes), &mut told);
            let said = said.await;
            gtid.extend_from_slice(&told.gtid);
            return match said {
                Said::Done if self.copies.have(group, connection, gtid).await => Event::Done(seat),
                // Its primary was cut off before anybody else had it.
                Said::Done | Said::Lost => Event::Lost(seat),
                Said::NotAllowed if may_ask => {
                    may_ask = false;
                    match allow(self.operator, group, connection).await {
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
        }
    }
}

fn lost(seat: Seat, command: Option<OwnCommand>) -> Answer {
    Answer {
        seat,
        lease: None,
        event: Event::Lost(seat),
        gtid: Vec::new(),
        command,
    }
}

/// ER_UNKNOWN_ERROR, of Heddle's own.
fn refusal(text: String) -> machines::xa::commit::Refusal {
    machines::xa::commit::Refusal { number: 1105, text }
}

/// Passes the commit barrier of a group; it stays so until what comes back is dropped.
async fn pass(operator: &dyn Operator, group: u32, of: u32) -> Result<Option<Pass>, String> {
    let (tell, told) = oneshot::channel();
    let reply = Box::new(move |passed| {
        // The session may be gone.
        let _ = tell.send(passed);
    });
    operator.pass_barrier(group, of, reply);
    let gone = || Err("the control plane has ended".to_owned());
    told.await.unwrap_or_else(|_| gone()).map(Some)
}

/// Has the account of this connection allowed to decide.
pub(super) async fn allow(
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
