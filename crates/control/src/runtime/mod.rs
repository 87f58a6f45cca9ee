//! The control plane itself: its state, its loops, its shutdown.
//!
//! Tasks, all owned by [`Control::run`]: one probe loop per server, one pulse per group with a
//! follower per replica, one reader of the binlog of each group of which rows are remembered, the accounts loop, the store's watch, the restorer, the rejoiner,
//! the recovery of transactions over groups with a task for each, one task per job, and one short task per command that runs.
//!
//! Lock order: `changing` (held over a whole command that changes the farm), then `state`, then
//! `events`. `state` and `events` are never held over an await.

mod attending;
mod follower;
mod parts;

use std::future::Future;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use channel::Mutual;
use farm::{Published, Snapshot};
use meta::Store;
use rowcache::ReadState;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::change_stream::ChangeStreams;
use crate::commander::{Commander, Queues, Request};
use crate::commands::dispatch::Commands;
use crate::context::Context;
use crate::context::supervision::{Queue, caught};
use crate::diagnosis::Premises;
use crate::leadership::Leadership;
use crate::leadership::election::{Contact, Router};
use crate::peers::roster::Roster;
use crate::provision::jobs::{Job, Jobs, State as JobState};
use crate::runtime::attending::{OfGroups, OfServers};
use crate::runtime::parts::Parts;
use crate::sessions::Sessions;
use crate::settings::Settings;
use crate::sinks::Sinks;
use crate::subscriptions::Subscriptions;
use crate::txn_recovery::DistTxns;
use catalog::Error;
use catalog::Secret;
use catalog::command::{Call, CommandError, Table};
use catalog::event::Event;
use catalog::identity;
use catalog::record::Records;

/// Counters since the start, for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Events by kind.
    pub events: Vec<(&'static str, u64)>,
    pub commands: u64,
    pub commands_failed: u64,
    pub probes: u64,
    pub probes_failed: u64,
    /// Changes of primary by cause.
    pub failovers: Vec<(&'static str, u64)>,
    /// How long clients waited in the last one, in microseconds.
    pub last_pause_us: u64,
    /// Transactions over several groups that were ended for a router: committed, and rolled back.
    pub recovered: [u64; 2],
    /// Those with prepared branches at the last look, whoever ends them.
    pub in_doubt: usize,
    /// Decisions of nobody that were removed.
    pub foreign_decisions: u64,
}

/// The control plane of one router.
pub struct Control {
    context: Arc<Context>,
    parts: Parts,
    change_stream: Arc<ChangeStreams>,
    subscriptions: Arc<Subscriptions>,
    sinks: Arc<Sinks>,
    commands: Arc<Commands>,
    commander: Commander,
    jobs: Arc<Jobs>,
    /// Taken by `run`.
    queues: Mutex<Option<Queues>>,
}

impl Control {
    /// Reads the farm from the store (making its id in an empty store) and publishes it.
    pub async fn open(
        store: Arc<dyn Store>,
        published: Arc<Published>,
        sessions: Arc<dyn Sessions>,
        settings: Settings,
    ) -> Result<Arc<Control>, Error> {
        let records = Records::load(&*store, &identity::fresh()?).await?;
        let (commander, queues) = Commander::new(settings.membership.is_some());
        let dist_txns = commander.dist_txns();
        dist_txns.keep_key(records.secret.reveal(), &records.farm_id);
        let alone = settings.membership.is_none();
        let leadership = Leadership::new(identity::uuid()?, alone);
        let context = Context::new(store, published, sessions, settings, records, leadership);
        let context = Arc::new(context);
        context.state().lay_out_tables();
        // Who cannot follow the configuration must not be taken for a router of the farm.
        context.begin_with_version().await?;
        let jobs = Arc::new(Jobs::new());
        let parts = Parts::new(&context, &commander, &jobs);
        let change_stream = Arc::new(ChangeStreams::new(&context, &parts.links));
        let subscriptions = Subscriptions::new(&context, &parts.links, &change_stream);
        let subscriptions = Arc::new(subscriptions);
        parts.doctor.know_subscriptions(&subscriptions);
        let sinks = Arc::new(Sinks::new(&context, &subscriptions));
        let commands = parts.commands(&context, &commander, &jobs, &sinks);
        let commands = Arc::new(commands);
        parts.election.join_the_others().await?;
        context.publish();
        Ok(Arc::new(Control {
            context,
            parts,
            change_stream,
            subscriptions,
            sinks,
            commands,
            commander,
            jobs,
            queues: Mutex::new(Some(queues)),
        }))
    }

    /// Runs all loops and serves the commanders until `shutdown` is ready. Commands that run then are
    /// finished, those that wait are refused; when it returns, every task of the control plane has
    /// ended.
    ///
    /// # Panics
    /// When called a second time.
    pub async fn run(self: Arc<Self>, shutdown: impl Future<Output = ()>) {
        let queues = lock(&self.queues).take();
        let Queues {
            mut calls,
            askers,
            lost,
            mut suspects,
        } = queues.expect("the control plane is run once");
        let mut jobs_waiting = self.jobs.waiting().expect("the control plane is run once");
        let mut loops = JoinSet::new();
        let mut jobs = JoinSet::new();
        let mut commands = JoinSet::new();
        let mut of_servers = OfServers::new();
        let mut of_groups = OfGroups::new();
        self.start_loops(&mut loops);
        let askers: Queue<_> = Arc::new(tokio::sync::Mutex::new(askers));
        let accounts = Arc::clone(&self.parts.accounts);
        let begin = move || Arc::clone(&accounts).refresh_accounts(Arc::clone(&askers));
        loops.spawn(Arc::clone(&self.context).keep_running(
            "refresh_accounts",
            String::new(),
            begin,
        ));
        let lost: Queue<_> = Arc::new(tokio::sync::Mutex::new(lost));
        let lost_writes = Arc::clone(&self.parts.lost_writes);
        let begin = move || Arc::clone(&lost_writes).settle_lost(Arc::clone(&lost));
        loops.spawn(Arc::clone(&self.context).keep_running("settle_lost", String::new(), begin));
        tokio::pin!(shutdown);
        loop {
            self.watch_servers(&mut loops, &mut of_servers);
            self.watch_groups(&mut loops, &mut of_groups);
            tokio::select! {
                () = &mut shutdown => break,
                () = self.context.servers_changed.notified() => {}
                Some(request) = calls.recv() => {
                    commands.spawn(Arc::clone(&self).serve_once(request));
                }
                Some(job) = jobs_waiting.recv() => {
                    jobs.spawn(Arc::clone(&self).carry_out_once(job));
                }
                Some(_) = jobs.join_next() => {}
                Some((server, sign)) = suspects.recv() => self.parts.probes.doubt(server.0, sign),
                // Ended commands are taken out as they end; a probe's end is noticed above.
                Some(_) = commands.join_next() => {}
            }
        }
        calls.close();
        loops.shutdown().await;
        self.parts.election.say_farewell().await;
        self.end_jobs(jobs, jobs_waiting).await;
        while commands.join_next().await.is_some() {}
        while let Some(request) = calls.recv().await {
            request.refuse("the router is shutting down; try another one");
        }
    }

    /// Who asked for anything else hears that nobody answers.
    pub(crate) async fn serve_once(self: Arc<Self>, request: Request) {
        if let Err(text) = caught(Arc::clone(&self).serve(request)).await {
            self.context.tell_panic("request", "", &text);
        }
    }

    /// A job that panics has failed.
    pub(crate) async fn carry_out_once(self: Arc<Self>, job: Arc<Job>) {
        if let Err(text) =
            caught(Arc::clone(&self.parts.provision).carry_out(Arc::clone(&job))).await
        {
            self.context.tell_panic("job", &job.group, &text);
            let error = CommandError::Internal(format!("the job panicked: {text}"));
            job.end(JobState::Failed(error));
        }
    }

    pub(crate) async fn serve(self: Arc<Self>, request: Request) {
        match request {
            Request::Command(call, reply) => reply(self.commands.execute_once(call).await),
            Request::Read(call, reply) => self.commands.read_for(call, reply).await,
            Request::Sessions(reply) => reply(self.parts.peers.sessions_elsewhere().await),
            Request::Kill(kill, reply) => reply(self.parts.peers.kill_elsewhere(&kill).await),
            Request::Permit(account, limit, reply) => {
                reply(self.parts.permits.permit(&account, limit).await)
            }
            Request::DistTxn(asked) => self.parts.txn_recovery.answer_session(asked).await,
            Request::Ids(wanted, reply) => reply(self.parts.sequences.take_ids(&wanted).await),
        }
    }

    /// Aborts what runs, so that the commands that wait for it end.
    async fn end_jobs(
        &self,
        mut running: JoinSet<()>,
        mut waiting: mpsc::UnboundedReceiver<Arc<Job>>,
    ) {
        waiting.close();
        while let Some(job) = waiting.recv().await {
            job.end(JobState::Aborted);
        }
        for job in self.jobs.list() {
            job.end_with_router();
        }
        while running.join_next().await.is_some() {}
    }

    /// A handle for other threads.
    pub fn commander(&self) -> Commander {
        self.commander.clone()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> Counters {
        let (tally, dist_txns) = (&self.context.tally, self.commander.dist_txns());
        Counters {
            events: self.context.event_counts(),
            commands: tally.commands.load(Relaxed),
            commands_failed: tally.commands_failed.load(Relaxed),
            probes: tally.probes.load(Relaxed),
            probes_failed: tally.probes_failed.load(Relaxed),
            failovers: tally.failovers(),
            last_pause_us: tally.last_pause_us.load(Relaxed),
            recovered: dist_txns.ended(),
            in_doubt: dist_txns.shown().len(),
            foreign_decisions: dist_txns.foreign(),
        }
    }

    /// The farm with the newest GTID positions, which alone do not make a new snapshot.
    pub fn snapshot(&self) -> Snapshot {
        self.context.snapshot()
    }

    /// What reads ask for beside the snapshot: for the data plane, and to show.
    pub fn reads(&self) -> &Arc<ReadState> {
        &self.context.reads
    }

    /// The change stream, for whoever asks for one; what runs for a stream runs on a thread of theirs.
    pub fn change_stream(&self) -> &Arc<ChangeStreams> {
        &self.change_stream
    }

    /// Durable subscriptions to the change stream.
    pub fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.subscriptions
    }

    /// Sinks of the change stream, for a thread that runs them.
    pub fn sinks(&self) -> &Arc<Sinks> {
        &self.sinks
    }

    /// The last events, oldest first.
    pub fn events(&self) -> Vec<Event> {
        self.context.events()
    }

    /// Carries one command out. Commands that change the farm wait for each other.
    pub async fn execute(&self, call: Call) -> Result<Table, CommandError> {
        self.commands.execute(call).await
    }

    /// All routers that live, by slot. One that is alone is in slot 0.
    pub fn routers(&self) -> Vec<Router> {
        self.parts.election.routers()
    }

    /// How long the store has been silent, and whether that is too long.
    pub fn contact(&self) -> Contact {
        self.parts.election.contact()
    }

    /// Gives the leadership up and does not want it again: for a router that is about to end.
    pub async fn resign(&self) -> Result<(), CommandError> {
        self.parts.election.resign().await
    }

    /// Leaves to another process of this machine all that is more than serving the clients that this
    /// one has. Also for a router that is alone, whose store then is the other one's.
    pub async fn retire(&self) -> Result<(), CommandError> {
        self.parts.election.retire().await
    }

    /// Takes back what [`Control::retire`] gave away: the other process has ended.
    pub fn resume(&self) {
        self.parts.election.resume();
    }

    /// Puts this router's own settings in force anew, which have changed, under the document.
    ///
    /// # Errors
    /// The document does not go with them; everything stays as it was.
    pub fn reconfigure(&self) -> Result<(), String> {
        self.context.reconfigure()
    }

    /// Who of the farm's routers live, as this one knows.
    pub fn roster(&self) -> Arc<Roster> {
        self.parts.election.roster()
    }

    /// The same for whoever waits for a change of it.
    pub fn watch_roster(&self) -> watch::Receiver<Arc<Roster>> {
        self.parts.election.watch_roster()
    }

    /// Takes over who lives and who leads.
    pub fn set_roster(&self, roster: Roster) {
        self.parts.election.set_roster(roster);
    }

    /// By what routers know each other; an error says why there is nothing.
    pub fn mutual(&self) -> Result<Arc<Mutual>, String> {
        self.parts.peers.mutual()
    }

    /// The farm's secret.
    pub fn secret(&self) -> Secret {
        self.parts.peers.secret()
    }

    /// Whether routers that know no TLS may ask this one.
    pub fn answers_in_clear(&self) -> bool {
        self.parts.peers.answers_in_clear()
    }

    /// Makes a group's primary take writes again after all of its servers were away; gives what was done.
    ///
    /// # Errors
    /// No server of the group may lead it, or one of them cannot be asked.
    pub async fn restore_primary(&self, group: &str) -> Result<String, CommandError> {
        self.parts.rejoin.restore_primary(group).await
    }

    /// Whom `manage doctor` asks about this router and its machine.
    pub fn know(&self, premises: Arc<dyn Premises>) {
        self.parts.doctor.know(premises);
    }

    /// What rules name and the farm does not have, for people; empty when there is nothing.
    pub fn unknown_in_rules(&self) -> String {
        self.commands.config.unknown_in_rules()
    }

    /// Transactions over several groups, for sessions.
    pub fn dist_txns(&self) -> &DistTxns {
        self.commander.dist_txns()
    }

    /// Probes every server now instead of at its next turn.
    pub fn probe_now(&self) {
        self.context.probe_now();
    }

    /// Remembers what happened to the router's own configuration.
    pub fn note(&self, kind: &'static str, detail: String) {
        self.context.happened(Event::now(kind, "", detail));
    }
}

/// Takes a lock whose data stays whole even if a holder panicked: each step leaves it valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
