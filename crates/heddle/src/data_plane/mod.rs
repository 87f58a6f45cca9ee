//! Joins the SQL door to the control plane: commands from sessions, sessions for commands, counters
//! for metrics. Each side knows only the trait that it declares itself.

mod cores;
mod digests;
mod in_force;
mod metrics;
mod minutes;
mod plan;
pub mod slow_log;
pub mod spare_memory;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use catalog::event::epoch_ms;
use catalog::{Call, CommandError, Table};
use control::peers::PeerSessions;
use control::{Commander, SessionInfo, Sessions, Suspicion, WantedIds};
use door_http::{Kind, Metrics, Rows, Told, Wanted};
use door_sql::Killer;
use farm::dist_txn::{Branch, GlobalId, Place, Verdict};
use farm::local::{LOCAL, is_local};
use farm::{Access, Fate, Kill, Killed, LostWrite, Permits, ServerId, Xid};
use reactor::Dealer;
use routing::rules::Rulebook;
use serde_json::Value;
use session::{
    Allowed, Answer, BarrierPassed, BarriersHeld, Command, Door, Elsewhere, Fault, Ids, Keeper,
    Live, Message, Operator, OwnEnded, OwnFound, Peers, Reply, Sealed, SessionView, Settled,
    Shared, TakenIds, Transport,
};

pub use self::in_force::{count, in_force};
use crate::doors::Doors;
use crate::doors::rows::RowsOnCores;
use crate::flight::{self, FlightRecorder};
use crate::settings::{BackendCredential, Settings};

/// What digests are kept in.
const MINUTE: std::time::Duration = std::time::Duration::from_secs(60);

/// A core answers between two events.
const CORES_ANSWER: std::time::Duration = std::time::Duration::from_millis(200);

/// The SQL door's options, but for what the settings do not say. There is no scratch server, no slow log and nobody who
/// exports traces yet.
pub fn options(
    settings: &Settings,
    listeners: Vec<reactor::Listener>,
    published: Arc<farm::Published>,
    transport: Arc<Transport>,
    rules: Arc<Rulebook>,
    live: Arc<Live>,
    control: &control::Control,
) -> door_sql::Options {
    let monitors = settings.monitor_users.clone();
    let threads = match settings.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => count(threads),
    };
    door_sql::Options {
        listeners,
        threads,
        io: settings.io.0,
        live,
        transport,
        published,
        reads: Arc::clone(control.reads()),
        rules,
        operator: Arc::new(Commands(control.commander(), monitors)),
        peers: Arc::new(Others(control.commander())),
        scratch: Arc::default(),
        backend_credentials: credentials(settings),
        slow_log: None,
        traces: None,
    }
}

fn credentials(settings: &Settings) -> Vec<session::BackendCredential> {
    let all = settings.backend_credentials.iter();
    all.map(credential).collect()
}

fn credential(given: &BackendCredential) -> session::BackendCredential {
    session::BackendCredential {
        user: given.user.clone(),
        host: given.host.clone(),
        password: session::Secret::new(given.password.as_bytes()),
        server_user: given.server_user.clone(),
    }
}

/// Carries `HEDDLE …` statements to the command table.
struct Commands(Commander, Vec<String>);

impl Keeper for Commands {
    fn name(&self, farm: u64, coordinator: u32, at: Place) -> GlobalId {
        self.0.dist_txns().name(farm, coordinator, at)
    }

    fn seal(&self, id: GlobalId) -> Sealed {
        self.0.dist_txns().seal(id)
    }

    fn undertake(&self, id: GlobalId) {
        self.0.dist_txns().undertake(id);
    }

    fn leave(&self, id: GlobalId, verdict: Option<Verdict>, branches: Vec<(String, Branch)>) {
        self.0.dist_txns().leave(id, verdict, branches);
    }

    fn is_in_doubt(&self, id: &GlobalId, group: &str) -> bool {
        self.0.dist_txns().is_in_doubt(id, group)
    }

    fn settle(&self, id: GlobalId, limit_ms: u64, reply: Settled) {
        self.0.settle(id, limit_ms, reply);
    }

    fn let_decide(&self, group: u32, account: [String; 2], reply: Allowed) {
        self.0.let_decide(group, account, reply);
    }

    fn hold(&self, limit_ms: u64, reply: BarriersHeld) {
        self.0.dist_txns().hold(limit_ms, reply);
    }

    fn find_own(&self, xid: Xid, reply: OwnFound) {
        self.0.find_own(xid, reply);
    }

    fn pass_barrier(&self, group: u32, of: u32, reply: BarrierPassed) {
        self.0.pass_barrier(group, of, reply);
    }

    fn end_own(&self, xid: Xid, verdict: Verdict, limit_ms: u64, reply: OwnEnded) {
        self.0.end_own(xid, verdict, limit_ms, reply);
    }
}

impl Operator for Commands {
    fn needs(&self, words: &[String]) -> Access {
        let spec = Call::parse(words).and_then(|call| call.spec());
        // What is no command is told so to everybody.
        spec.map_or(Access::Public, |spec| spec.access)
    }

    fn monitors(&self, user: &str) -> bool {
        self.1.iter().any(|name| name == user)
    }

    fn submit(&self, words: Vec<String>, by: &str, access: Access, reply: Reply) {
        let call = match Call::parse(&words) {
            Ok(call) => call.by(by).with(access),
            Err(wrong) => return reply(Err(wrong.to_string())),
        };
        self.0
            .submit(call, Box::new(|answer| reply(answered(answer))));
    }

    fn read_accounts(&self, done: Box<dyn FnOnce() + Send>) {
        self.0.read_accounts(done);
    }

    fn suspect(&self, server: ServerId, fault: Fault) {
        let how = match fault {
            Fault::Refused => Suspicion::Refused,
            Fault::Reset => Suspicion::Broken,
        };
        self.0.suspect(server, how);
    }

    fn take_ids(&self, wanted: Ids, reply: TakenIds) {
        let wanted = WantedIds {
            database: wanted.database,
            table: wanted.table,
            column: wanted.column,
            least: wanted.least,
            only_known: wanted.only_known,
            count: wanted.count,
        };
        self.0.take_ids(wanted, reply);
    }

    fn resolve(&self, lost: LostWrite, reply: Box<dyn FnOnce(Fate) + Send>) {
        self.0.resolve(lost, reply);
    }
}

/// Carries questions of sessions to the farm's other routers.
struct Others(Commander);

impl Peers for Others {
    fn is_alone(&self) -> bool {
        self.0.is_alone()
    }

    fn sessions(&self, reply: Box<dyn FnOnce(Vec<Elsewhere>) + Send>) {
        let take = |of_peers: Vec<PeerSessions>| {
            let told = of_peers.into_iter().map(|it| Elsewhere {
                router: it.peer.name.clone(),
                id: u32::from(it.peer.slot) << 24,
                sessions: it.sessions.map(|all| all.into_iter().map(view).collect()),
            });
            reply(told.collect());
        };
        self.0.sessions_elsewhere(Box::new(take));
    }

    fn kill(&self, kill: Kill, reply: Box<dyn FnOnce(Result<Killed, String>) + Send>) {
        self.0.kill_elsewhere(kill, reply);
    }

    fn permits(&self) -> Option<&Arc<Permits>> {
        self.0.permits()
    }

    fn permit(&self, account: String, limit: u32, reply: Box<dyn FnOnce(bool) + Send>) {
        self.0.permit(account, limit, reply);
    }
}

/// Another router's session, as far as lists of processes show it.
fn view(session: SessionInfo) -> SessionView {
    // One that came by a Unix socket, as it calls itself.
    SessionView {
        id: session.id,
        user: session.user.into_bytes(),
        peer: session.client.parse().unwrap_or(LOCAL),
        door: Door::named(&session.door),
        database: (!session.database.is_empty()).then(|| session.database.into_bytes()),
        command: (session.command != SessionInfo::SLEEP).then_some(Command::Query.name()),
        time_s: session.time_ms / 1000,
        digest: session.digest.parse().ok(),
        tag: session.tag,
        trace: session.trace,
        running: session
            .running
            .map(|(server, thread)| (ServerId(server), thread)),
        held: None,
        reasons: Vec::new(),
        held_for_work: session.pinned_for_work,
        held_s: 0,
    }
}

fn answered(answer: Result<Table, CommandError>) -> Result<Answer, String> {
    let table = answer.map_err(|error| error.to_string())?;
    let cell = |value: Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    };
    Ok(Answer {
        columns: table
            .columns
            .into_iter()
            .map(|name| name.into_owned())
            .collect(),
        rows: table
            .rows
            .into_iter()
            .map(|row| row.into_iter().map(cell).collect())
            .collect(),
    })
}

/// The open SQL door as others see it; empty before it opens.
#[derive(Default)]
pub struct DataPlane {
    open: OnceLock<Open>,
    /// The router's, as it was told last.
    slot: AtomicU8,
    /// What was counted by digest in each minute of the last day.
    history: Mutex<digests::Kept>,
    /// How late the cores have answered.
    delays: cores::Delays,
    /// Empty where nothing is recorded.
    flight: OnceLock<Arc<FlightRecorder>>,
}

struct Open {
    shared: Arc<Shared>,
    rules: Arc<Rulebook>,
    killer: Killer,
    kv: Option<door_kv::Counter>,
    rows: RowsOnCores,
    dealer: Dealer<Message>,
    own: session::Own,
    /// Metric names, made once: a door opens once in a process.
    names: Vec<(&'static str, Kind)>,
}

/// What the HTTP door shows of it, and of what goes out of it: what is counted, and rows of containers.
pub fn shown(
    of: &Arc<DataPlane>,
    more: Option<Arc<dyn Metrics>>,
) -> (Vec<Arc<dyn Metrics>>, Arc<dyn Rows>) {
    let own = Arc::clone(of) as Arc<dyn Metrics>;
    let metrics = [own].into_iter().chain(more).collect();
    (metrics, Arc::clone(of) as _)
}

impl DataPlane {
    /// Begins to record what the control plane does, on whose thread this is, and later the cores. What is counted by
    /// digest outlives the process in the same directory.
    pub fn record(&self, settings: &Settings, state: &Path) {
        digests::locked(&self.history).outlive(state);
        if let Some(flight) = flight::start(settings, state) {
            let _ = self.flight.set(flight);
        }
    }

    /// What keeps the last steps, if anything does.
    pub fn flight(&self) -> Option<&Arc<FlightRecorder>> {
        self.flight.get()
    }

    /// Nothing is recorded any more, and what was is not taken for a crash's.
    pub fn end_flight(&self) {
        if let Some(flight) = self.flight.get() {
            flight.end();
        }
    }

    /// True when every core answers within `limit`, or none runs yet. Blocks.
    pub fn cores_answer(&self, limit: std::time::Duration) -> bool {
        let open = self.open.get();
        open.is_none_or(|open| open.killer.cores_answer(limit))
    }

    /// Counters of one core, for what is counted on no core; `None` before the door is open.
    pub fn counters(&self) -> Option<&session::Counters> {
        let open = self.open.get()?;
        open.shared.counters.first().map(|counters| &**counters)
    }

    /// Keeps what was counted by digest since the call before. Waits for the cores.
    pub fn keep_minute(&self) {
        if let Some(open) = self.open.get() {
            let bytes_max = open.shared.live.load().counting.bytes_max;
            digests::keep(&open.dealer, &self.history, epoch_ms(), bytes_max);
        }
    }

    /// The door is open.
    pub fn set(&self, doors: &Doors, rules: &Arc<Rulebook>, own: session::Own) {
        let door = &doors.sql;
        let shared = door.shared();
        let kv = doors.kv.as_ref().map(door_kv::Door::counter);
        let sums = counted(&shared, kv.as_ref());
        let names = sums
            .iter()
            .map(|(name, ..)| metrics::metric(name))
            .collect();
        let _ = self.open.set(Open {
            shared,
            rules: Arc::clone(rules),
            killer: door.killer(),
            kv,
            rows: RowsOnCores::new(door.dealer(), own.clone()),
            dealer: door.dealer(),
            own,
            names,
        });
        // Told before the door opened, or while it did.
        self.placed(self.slot.load(Ordering::SeqCst));
    }
}

/// Looks after the data plane while it serves: keeps what was counted in each minute, and asks its cores whether they are
/// there.
pub async fn attend(data_plane: Arc<DataPlane>) {
    tokio::join!(keep_minutes(&data_plane), cores::ask_cores(&data_plane));
}

async fn keep_minutes(data_plane: &Arc<DataPlane>) {
    loop {
        tokio::time::sleep(MINUTE).await;
        let data_plane = Arc::clone(data_plane);
        // It waits for the cores. Should it panic, the minute is lost.
        let _ = tokio::task::spawn_blocking(move || data_plane.keep_minute()).await;
    }
}

/// What all doors count: names, what they are, numbers.
fn counted(
    shared: &Shared,
    kv: Option<&door_kv::Counter>,
) -> Vec<(&'static str, &'static str, u64)> {
    let mut all = shared.counters_sum();
    all.extend(kv.map(door_kv::Counter::counted).unwrap_or_default());
    all
}

impl Rows for DataPlane {
    fn ask(&self, wanted: Wanted) -> Pin<Box<dyn Future<Output = Told> + Send>> {
        match self.open.get() {
            Some(open) => open.rows.ask(wanted),
            None => Box::pin(std::future::ready(Told::Refused {
                by_client: false,
                why: "the router begins".to_owned(),
            })),
        }
    }
}

impl Sessions for DataPlane {
    fn list(&self) -> Vec<SessionInfo> {
        let Some(open) = self.open.get() else {
            return Vec::new();
        };
        let snapshot = open.shared.published.load_full();
        let views = open.killer.sessions().into_iter();
        views.map(|view| info(&snapshot, view)).collect()
    }

    fn kill(&self, kill: &Kill) -> Killed {
        let open = self.open.get();
        open.map_or(Killed::Sessions(0), |open| open.killer.kill(kill))
    }

    fn counted(&self) -> Vec<(&'static str, u64)> {
        let open = self.open.get();
        let sums = open.map(|open| counted(&open.shared, open.kv.as_ref()));
        let sums = sums.unwrap_or_default().into_iter();
        sums.map(|(name, _, value)| (name, value)).collect()
    }

    fn digests(&self, since_ms: Option<u64>) -> Vec<statistics::Row> {
        let Some(open) = self.open.get() else {
            return Vec::new();
        };
        match since_ms {
            None => digests::all(&open.dealer),
            Some(from_ms) => {
                // The minute that is not over counts, too.
                self.keep_minute();
                digests::since(&self.history, from_ms)
            }
        }
    }

    fn plan(&self, row: &statistics::Row) -> Result<Vec<String>, String> {
        match self.open.get() {
            Some(open) => plan::of(&open.dealer, &open.own, row),
            None => Err("the router begins".to_owned()),
        }
    }

    fn reset_digests(&self) -> usize {
        digests::locked(&self.history).clear();
        let open = self.open.get();
        open.map_or(0, |open| digests::reset(&open.dealer))
    }

    fn dump_trace(&self) -> Result<(String, u64), String> {
        let Some(flight) = self.flight.get() else {
            return Err(
                "nothing is recorded: flight_recorder is 0, or the log says why".to_owned(),
            );
        };
        let dump = flight.dump("command").map_err(|error| error.to_string())?;
        Ok((dump.path.display().to_string(), dump.bytes))
    }

    fn placed(&self, slot: u8) {
        self.slot.store(slot, Ordering::SeqCst);
        if let Some(open) = self.open.get() {
            open.killer.place(slot);
        }
    }

    fn units_of_work_before(&self, epoch: u64) -> Option<usize> {
        let Some(open) = self.open.get() else {
            // Nobody has been let in.
            return Some(0);
        };
        open.killer.units_of_work_before(epoch, CORES_ANSWER)
    }

    fn turned(&self) {
        if let Some(open) = self.open.get() {
            open.killer.turned();
        }
    }
}

/// A session as `session list` shows it.
fn info(snapshot: &farm::Snapshot, view: SessionView) -> SessionInfo {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let place = view.running.or(view.held);
    let server = place.and_then(|(server, _)| snapshot.server(server));
    let state = match (view.command, view.running) {
        (None, _) if view.reasons.is_empty() => "idle",
        (None, _) => "idle, keeps a server connection",
        (Some(_), Some(_)) => "running",
        // Statements of the key-value door run on sessions of Heddle's own.
        (Some(_), None) if view.door == Door::Keys => "running",
        (Some(_), None) => "waiting for a server connection",
    };
    SessionInfo {
        id: view.id,
        client: match view.door {
            Door::Own => String::new(),
            _ if is_local(view.peer.ip()) => view.host(),
            _ => view.peer.to_string(),
        },
        door: view.door.name().to_owned(),
        user: text(view.user),
        database: text(view.database.unwrap_or_default()),
        command: view.command.unwrap_or(SessionInfo::SLEEP).to_owned(),
        time_ms: view.time_s * 1000,
        state: state.to_owned(),
        server: server.map_or_else(String::new, |server| {
            format!("{}:{}", server.host, server.port)
        }),
        pins: view.reasons.join(", "),
        pinned_for_work: view.held_for_work,
        pinned_ms: view.held_s * 1000,
        digest: view
            .digest
            .map_or_else(String::new, |digest| digest.to_string()),
        tag: view.tag,
        trace: view.trace,
        running: view.running.map(|(server, thread)| (server.0, thread)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commands_table_becomes_rows_of_text() {
        let table = Table {
            columns: vec!["a".into(), "b".into(), "c".into()],
            rows: vec![vec![Value::Null, "text".into(), 1.5.into()]],
        };
        let answer = answered(Ok(table)).expect("a table");
        assert_eq!(answer.columns, ["a", "b", "c"]);
        assert_eq!(
            answer.rows,
            [[None, Some("text".to_owned()), Some("1.5".to_owned())]]
        );
    }
}
