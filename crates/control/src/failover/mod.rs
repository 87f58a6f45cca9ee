//! Drives the failover machine of each group: tells it what happens, does what it asks.
//!
//! One task per group owns its machine. What the machine asks for runs beside it, each question in a
//! task of its own with its time limit; the answers come back as events. Nothing here decides who
//! leads: that is [`machines::failover`].

mod kept;
mod order;
mod recorded;
mod rejoin;
mod several;
mod steps;
mod timed;
mod views;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use farm::{GroupKind, Position, ServerId, Status};
use machines::failover::{
    Acks, Action, Answer, Ask, AskId, Event, Failed, Failover, Fault, Member, Policy, Record,
    RouterId,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinSet};

use crate::background::Background;
use crate::context::Context;
use crate::context::State;
use crate::context::acks;
use crate::context::drivers::{Outcome, Told};
use crate::context::supervision::caught;
use crate::links::Links;
use crate::observe::Probes;
use crate::provision::Rejoin;
use catalog::event;

pub(crate) use kept::record_key;

/// So often a driver looks whether its group is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Losses are compared over so long: short enough that a machine that fails every now and then is
/// still replaced fast.
const FLAP_WINDOW_US: u64 = 5_000_000;

/// The task that drives one group's machine.
struct Driver {
    failover: Arc<FailoverDrivers>,
    group: String,
    machine: Failover,
    wake_us: Option<u64>,
    running: JoinSet<Event>,
    orders: BTreeMap<u64, oneshot::Sender<Outcome>>,
    next_order: u64,
    /// Why the primary is being exchanged.
    cause: Option<&'static str>,
    rejoining: BTreeMap<u32, AbortHandle>,
    rejoins: JoinSet<()>,
    views: views::Views,
    others: several::Others,
}

/// Drives the failover machines of the groups.
pub(crate) struct FailoverDrivers {
    context: Arc<Context>,
    links: Arc<Links>,
    background: Arc<Background>,
    probes: Arc<Probes>,
    rejoin: Arc<Rejoin>,
}

impl FailoverDrivers {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        background: &Arc<Background>,
        probes: &Arc<Probes>,
        rejoin: &Arc<Rejoin>,
    ) -> FailoverDrivers {
        FailoverDrivers {
            context: Arc::clone(context),
            links: Arc::clone(links),
            background: Arc::clone(background),
            probes: Arc::clone(probes),
            rejoin: Arc::clone(rejoin),
        }
    }
}

impl FailoverDrivers {
    /// Drives the machine of one group for as long as the farm has it.
    pub(crate) async fn drive(self: Arc<Self>, group: String) {
        let inbox = self.context.drivers.begin(&group);
        let active = self.is_active(&group);
        let policy = self.policy(&group);
        let driver = Driver {
            machine: match self.context.leadership.is_alone() {
                true => Failover::new(policy, active),
                false => Failover::among_peers(policy, active),
            },
            others: several::Others::new(&self, &group),
            failover: Arc::clone(&self),
            group: group.clone(),
            wake_us: None,
            running: JoinSet::new(),
            orders: BTreeMap::new(),
            next_order: 1,
            cause: None,
            rejoining: BTreeMap::new(),
            rejoins: JoinSet::new(),
            views: views::Views::default(),
        };
        driver.run(inbox).await;
        self.context.drivers.end(&group);
    }

    fn is_active(&self, group: &str) -> bool {
        let state = self.context.state();
        let kept = state.records.groups.get(group);
        kept.is_some_and(|kept| kept.value.active)
    }

    /// The machine's members, as the records have them.
    fn members_of(&self, group: &str) -> Vec<Member> {
        let state = self.context.state();
        let members = state.records.members(group).map(|(id, record)| Member {
            weight: record.weight,
            never: record.never_primary,
            release: record.release(),
            ..Member::new(ServerId(id), &record.address(), record.status)
        });
        members.collect()
    }

    fn policy(&self, group: &str) -> Policy {
        let settings = self.context.settings();
        let us = |ms: u64| ms.saturating_mul(1000);
        let limit = |ms: u64| (ms > 0).then(|| us(ms));
        Policy {
            detections: settings.detection.detections,
            // A router that is short of CPU stretches it; see `detect`.
            confirm_within_us: us(settings.detection.detection_timeout_ms) * 4,
            hear_within_us: us(settings.observation.probe_timeout_ms),
            step_within_us: us(settings.step_timeout_ms),
            drain_within_us: us(settings.step_timeout_ms),
            pause_within_us: us(settings.failover.switchover_drain_ms + settings.step_timeout_ms),
            failover_interval_us: us(settings.failover.failover_interval_ms),
            flap_window_us: FLAP_WINDOW_US,
            write_silence_max_us: limit(settings.failover.write_timeout_ms),
            acks: acks_of(
                &self.context.state(),
                group,
                settings.failover.last_replica_wait_ms,
            ),
            fence: settings.failover.fences,
            lossy_promotion_after_us: limit(settings.failover.lossy_promotion_after_ms),
            notifications: settings.failover.notifications,
            notification_clients: settings.failover.notification_clients,
            notification_interval_us: us(settings.failover.notification_interval_ms),
            ..Policy::default()
        }
    }
}

/// Who makes clients wait until a commit is on two servers.
fn acks_of(state: &State, group: &str, last_replica_wait_ms: u64) -> Acks {
    let Some(wait_ms) = acks::wait_ms(&state.records, group, last_replica_wait_ms) else {
        return Acks::Nobody;
    };
    let forever = wait_ms == engine::replication::ACK_WAIT_FOREVER_MS;
    match acks::shown(&state.records, &state.seen, group, last_replica_wait_ms) {
        // With the last replica the router goes on after a while, as servers do.
        farm::Acks::Router { .. } if forever => Acks::Router,
        _ => Acks::Servers { forever },
    }
}

impl Driver {
    async fn run(mut self, mut inbox: mpsc::Receiver<Told>) {
        self.members_changed();
        if self.failover.context.leadership.is_alone() {
            self.resume().await;
        } else {
            self.look_at_leadership();
            if self.others.leads().is_none() {
                self.read_as_follower().await;
            }
        }
        loop {
            let now_us = self.failover.context.now_us();
            let wait = self.wake_us.map_or(LOOK_EVERY, |at_us| {
                Duration::from_micros(at_us.saturating_sub(now_us)).min(LOOK_EVERY)
            });
            tokio::select! {
                told = inbox.recv() => match told {
                    Some(told) => self.take(told),
                    None => return,
                },
                Some(done) = self.running.join_next() => {
                    if let Ok(event) = done {
                        self.tell_acknowledged();
                        self.tell(event);
                    }
                }
                Some(_) = self.rejoins.join_next() => {}
                (number, record) = self.others.read() => self.take_up(number, record),
                () = tokio::time::sleep(wait) => {
                    let kind = self.failover.context.state().records.kind(&self.group);
                    let there = self.failover.context.state().records.groups.contains_key(&self.group);
                    if !there || kind != GroupKind::Replication {
                        return;
                    }
                    if self.wake_us.is_some_and(|at_us| self.failover.context.now_us() >= at_us) {
                        self.wake_us = None;
                        self.tell(Event::Tick);
                    }
                }
            }
        }
    }

    /// What was under way when the only router ended.
    async fn resume(&mut self) {
        match self.failover.recorded_step(&self.group).await {
            Ok(record) => {
                if let Some(record) = &record {
                    self.rejoin_lost(record);
                }
                self.tell(Event::Resume(record));
            }
            Err(error) => {
                let event = event::Event::now("store_unreadable", &self.group, error.to_string());
                self.failover.context.happened(event);
            }
        }
    }

    fn take(&mut self, told: Told) {
        match told {
            Told::Event(event) => {
                self.watch_replicas(&event);
                self.watch_writers(&event);
                self.tell(event);
            }
            Told::Members => self.members_changed(),
            Told::Leadership => self.look_at_leadership(),
            Told::Recorded(value) => self.recorded(&value),
            // Dropped, the waiter is told to ask again.
            Told::Order(..) if self.others.is_retired() => {}
            Told::Order(what, waiter) => {
                let order = self.next_order;
                self.next_order += 1;
                self.orders.insert(order, waiter);
                self.tell(Event::Order { order, what });
            }
        }
    }

    /// One that takes writes while another one leads is fenced and brought back: it led when it was
    /// lost, or somebody opened it.
    fn watch_writers(&mut self, event: &Event) {
        if let Event::Heartbeat {
            server,
            read_only: false,
        } = event
            && self.machine.is_active()
            && !self.machine.is_changing()
            && self.machine.primary().is_some_and(|it| it != *server)
            && self.failover.context.leadership.lead().is_some()
        {
            self.rejoin(*server);
        }
    }

    /// What sessions told their clients so far, before a step's answer is judged: one of them may
    /// have heard of its commit just before it was cut off.
    fn tell_acknowledged(&mut self) {
        if !self.machine.is_changing() {
            return;
        }
        let of_all: Vec<Position> = {
            let state = self.failover.context.state();
            let members = state.records.members(&self.group);
            let fresh = members.filter_map(|(id, _)| Some(&state.seen.get(&id)?.fresh));
            fresh.filter_map(|fresh| fresh.acknowledged()).collect()
        };
        for position in of_all {
            self.tell(Event::Acknowledged {
                router: RouterId::OWN,
                position,
                cut: 0,
            });
        }
    }

    /// Servers that were lost in a change which an earlier router carried out.
    fn rejoin_lost(&mut self, record: &Record) {
        for server in &record.lost {
            let record = self.failover.context.record_of(server.0);
            if record.is_some_and(|record| record.status == Status::Faulty) {
                self.rejoin(*server);
            }
        }
    }

    fn members_changed(&mut self) {
        let members = self.failover.members_of(&self.group);
        self.machine.set_policy(self.failover.policy(&self.group));
        self.tell(Event::Members(members));
        let active = self.failover.is_active(&self.group);
        if active != self.machine.is_active() {
            let order = match active {
                true => machines::failover::Order::Activate,
                false => machines::failover::Order::Deactivate,
            };
            // Somebody changed the record from elsewhere; nobody waits for the outcome.
            self.next_order += 1;
            self.tell(Event::Order {
                order: self.next_order - 1,
                what: order,
            });
        }
    }

    fn tell(&mut self, event: Event) {
        if self.others.is_retired() {
            return;
        }
        let group = recorded::group(&self.failover.context.state().records, &self.group);
        recorded::heard(group, &event);
        self.time_answer(&event);
        let actions = self.machine.step(self.failover.context.now_us(), event);
        let before = std::mem::replace(&mut self.cause, self.machine.cause());
        let over = |action: &Action| matches!(action, Action::Publish { .. });
        match (before, actions.iter().any(over)) {
            (Some(cause), true) => self.failover.context.tally.count_failover(cause),
            (Some(_), false) if self.cause.is_none() => {
                self.failover.context.failovers.forget(&self.group);
            }
            _ => {}
        }
        for action in actions {
            recorded::wanted(group, &action);
            self.time_action(&action, before);
            self.act(action);
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Ask {
                ask,
                what,
                within_us,
            } => self.ask(ask, what, within_us),
            Action::Publish { primary, fork } => {
                self.failover
                    .publish_primary(&self.group, primary, fork.as_ref());
            }
            Action::Rejoin { server } => self.rejoin(server),
            Action::Tell { kind, server, text } => {
                let event = event::Event::now(kind.name(), &self.group, text);
                let event = match server.and_then(|it| self.failover.context.identity_of(it.0)) {
                    Some((uuid, address)) => event.of(&uuid, address),
                    None => event,
                };
                self.failover.context.happened(event);
            }
            Action::Reply { order, result } => {
                if let Some(waiter) = self.orders.remove(&order) {
                    // Whoever asked may have gone.
                    let _ = waiter.send(result);
                }
            }
            Action::Vote { lost } => self.others.vote(lost),
            Action::Wake { at_us } => self.wake_us = Some(at_us),
        }
    }

    fn ask(&mut self, ask: AskId, what: Ask, within_us: u64) {
        let failover = Arc::clone(&self.failover);
        let group = self.group.clone();
        let number = self.others.leads();
        let context = &self.failover.context;
        match what {
            // Sessions must not be told later than what follows.
            Ask::Cut { server } => context.begin_cut(&self.group, server.0),
            Ask::Lead { server } => context.winners.name(&self.group, server.0),
            // Who was named before may receive more than it had.
            Ask::Halt { .. } => context.winners.forget(&self.group),
            _ => {}
        }
        self.running.spawn(async move {
            let limit = Duration::from_micros(within_us);
            let work = failover.do_step(&group, what, number);
            let answer = match tokio::time::timeout(limit, caught(work)).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(text)) => {
                    failover.context.tell_panic("failover step", &group, &text);
                    Err(Failed {
                        fault: Fault::Said,
                        text: format!("the router panicked: {text}"),
                    })
                }
                Err(_) => Err(Failed {
                    fault: Fault::Late,
                    text: format!("it took longer than {} ms", limit.as_millis()),
                }),
            };
            Event::Done { ask, answer }
        });
    }
}

/// A step that has nothing to say.
fn done() -> Result<Answer, Failed> {
    Ok(Answer::Done)
}
