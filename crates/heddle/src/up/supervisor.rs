//! Keeps the servers running: one that ended, for whatever reason, is started again, and its group
//! made writable again when it was the primary.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control::Control;
use tokio::sync::{mpsc, watch};

use super::ending;
use super::fence::{Guards, Order};
use super::fleet::{self, Identity, Member, Recipe};
use super::place::{Place, replace};
use crate::failure::Failure;
use crate::printing::{complain, say};
use crate::router::blocking;
use crate::settings::Listens;

/// How often a server is looked at whose end the kernel does not tell: a restart takes some times longer.
const LOOK: Duration = Duration::from_millis(50);

/// A server that lived for less than this is started again only after a pause.
const STABLE: Duration = Duration::from_secs(10);

/// Pauses double from the first to the second.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A server that led is not started before another one leads, or so long: to start takes time of the machine from
/// those who take over, and clients wait for them.
const TAKE_OVER: Duration = Duration::from_millis(500);

/// How often it is looked at whether another one leads.
const TAKE_OVER_LOOK: Duration = Duration::from_millis(10);

/// What all guards share.
pub struct Watch {
    pub control: Arc<Control>,
    pub place: Arc<Place>,
    pub recipe: Recipe,
    pub all: Vec<Identity>,
    pub record: Arc<Record>,
    pub guards: Guards,
}

/// `farm.json`, rewritten when a pid changes.
pub struct Record {
    path: PathBuf,
    known: Mutex<Known>,
}

/// Where the doors are.
#[derive(Clone)]
pub struct Addresses {
    pub sql: Listens,
    pub kv: Listens,
    pub http: SocketAddr,
    pub fabric: Option<SocketAddr>,
}

#[derive(Default)]
struct Known {
    /// `None` before the doors are open, and then no file is written.
    addresses: Option<Addresses>,
    pids: BTreeMap<String, u32>,
    /// Port and pid of the scratch server, once it has run.
    scratch: Option<(u16, u32)>,
}

impl Record {
    /// Nothing is written before [`Record::open`].
    pub fn new(place: &Place, members: &[Member]) -> Record {
        let pid = |member: &Member| (member.identity.name.clone(), member.server.pid());
        let pids = members.iter().map(pid).collect();
        let known = Mutex::new(Known {
            addresses: None,
            pids,
            scratch: None,
        });
        Record {
            path: place.dir.join("farm.json"),
            known,
        }
    }

    /// The doors are open.
    pub fn open(&self, addresses: Addresses) {
        self.known().addresses = Some(addresses);
    }

    fn set(&self, name: &str, pid: u32) {
        self.known().pids.insert(name.to_owned(), pid);
    }

    /// The scratch server runs; the file says so when it is written next.
    pub fn scratch(&self, port: u16, pid: u32) {
        self.known().scratch = Some((port, pid));
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The directory cannot be written any more.
    pub fn write(&self, place: &Place, recipe: &Recipe, all: &[Identity]) -> Result<(), Failure> {
        let known = self.known();
        let Some(addresses) = known.addresses.clone() else {
            return Ok(());
        };
        let with_pid = |one: &Identity| Some((one.clone(), *known.pids.get(&one.name)?));
        let servers: Vec<(Identity, u32)> = all.iter().filter_map(with_pid).collect();
        let text = fleet::describe(addresses, &servers, known.scratch, place, &recipe.binary);
        replace(&self.path, &text)
    }

    /// A panic elsewhere does not make the pids wrong.
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guards all servers until `stop` turns true; gives them back running, or ended when they could not
/// be started again.
pub async fn guard_all(
    watch: &Watch,
    members: Vec<Member>,
    stop: watch::Receiver<bool>,
) -> Vec<Member> {
    let guards = members
        .into_iter()
        .map(|member| guard(watch, member, stop.clone()));
    futures_util::future::join_all(guards).await
}

async fn guard(watch: &Watch, mut member: Member, mut stop: watch::Receiver<bool>) -> Member {
    let mut started = Instant::now();
    let mut pause = PAUSE_MIN;
    let port = member.identity.port;
    let mut orders = watch.guards.listen(port);
    // The kernel told of the end of the process that is there now.
    let mut told = false;
    loop {
        let rest = rest(member.server.pid(), &mut told);
        match idle(&mut stop, rest, &mut orders).await {
            Call::End => return member,
            Call::Do(Order::Kill(killed)) => {
                // One that cannot be killed has ended already; what is left is seen below.
                let _ = member.server.kill();
                let _ = killed.send(());
            }
            Call::Do(Order::Exchange(done)) => {
                started = Instant::now();
                let outcome = exchange(watch, &mut member).await;
                // Nobody waits any more for a job that was aborted.
                let _ = done.send(outcome.map_err(|failure| failure.text));
            }
            Call::Look => {}
        }
        if member.server.is_running() {
            continue;
        }
        watch.guards.runs(port, false);
        let name = member.identity.name.clone();
        say(format!(
            "{name} ended (pid {}); starting it again",
            member.server.pid()
        ));
        let lately = started.elapsed() < STABLE;
        pause = if lately {
            (pause * 2).min(PAUSE_MAX)
        } else {
            PAUSE_MIN
        };
        let later = tokio::time::sleep(pause);
        if lately && matches!(idle(&mut stop, later, &mut orders).await, Call::End) {
            return member;
        }
        if let_others_take_over(watch, &member.identity, &mut stop, &mut orders).await {
            return member;
        }
        started = Instant::now();
        if let Err(failure) = restart(watch, &mut member).await {
            complain(&failure.text);
        }
        told = false;
    }
}

/// Ends when it is time to look at a process: when it has ended. Should it be there all the same, it is looked at again and
/// again.
async fn rest(pid: u32, told: &mut bool) {
    match *told {
        true => tokio::time::sleep(LOOK).await,
        false => *told = ending::end_of(pid, LOOK).await,
    }
}

/// Waits until this server does not lead, for [`TAKE_OVER`] at most. True when the farm stops.
async fn let_others_take_over(
    watch: &Watch,
    identity: &Identity,
    stop: &mut watch::Receiver<bool>,
    orders: &mut mpsc::Receiver<Order>,
) -> bool {
    let began = Instant::now();
    while began.elapsed() < TAKE_OVER && may_be_replaced(&watch.control.snapshot(), identity) {
        match idle(stop, tokio::time::sleep(TAKE_OVER_LOOK), orders).await {
            Call::End => return true,
            Call::Do(Order::Kill(killed)) => drop(killed.send(())),
            // Who waits for anything else is told that the server has gone.
            Call::Do(Order::Exchange(_)) | Call::Look => {}
        }
    }
    false
}

/// It leads a group in which others may take its place.
fn may_be_replaced(snapshot: &farm::Snapshot, identity: &Identity) -> bool {
    let group = snapshot.group(&identity.group);
    group
        .filter(|group| group.active && group.servers.len() > 1)
        .is_some_and(|group| {
            let primary = group.primary();
            primary.is_some_and(|server| server.port == identity.port)
        })
}

/// What ends a guard's rest.
enum Call {
    /// The farm stops.
    End,
    /// Something is to be done with the server.
    Do(Order),
    /// Nothing: it is time to look.
    Look,
}

/// Rests for as long as `rest` does.
async fn idle(
    stop: &mut watch::Receiver<bool>,
    rest: impl Future<Output = ()>,
    orders: &mut mpsc::Receiver<Order>,
) -> Call {
    // An error means that the sender is gone, which is the end as well.
    tokio::select! {
        ended = stop.wait_for(|&stopped| stopped) => { let _ = ended; Call::End }
        Some(order) = orders.recv() => Call::Do(order),
        () = rest => Call::Look,
    }
}

/// Starts a server on the files that arrived for it. With these it does not start, it gets its own back.
async fn exchange(watch: &Watch, member: &mut Member) -> Result<(), Failure> {
    let options = member.server.options().clone();
    watch.guards.runs(options.port, false);
    say(format!("{} gets the files of another server", options.name));
    member.server.ask_to_stop();
    let since = Instant::now();
    while member.server.is_running() {
        if since.elapsed() > fleet::STOP_PATIENCE {
            member.server.kill()?;
        }
        tokio::time::sleep(LOOK).await;
    }
    let exchanged = options.clone();
    blocking(move || mysqld::backup::exchange(&exchanged)).await??;
    let Err(failure) = restart(watch, member).await else {
        return Ok(());
    };
    if member.server.is_running() {
        // Its group is not as it should be, which others see to.
        return Ok(());
    }
    blocking(move || mysqld::backup::exchange_back(&options)).await??;
    Err(failure)
}

async fn restart(watch: &Watch, member: &mut Member) -> Result<(), Failure> {
    let identity = member.identity.clone();
    let options = fleet::options(
        &watch.place,
        &identity,
        &watch.all,
        &watch.control.snapshot(),
    );
    let recipe = watch.recipe.clone();
    member.server = blocking(move || fleet::launch(&recipe, options)).await??;
    watch.guards.runs(identity.port, true);
    let pid = member.server.pid();
    watch.record.set(&identity.name, pid);
    watch
        .record
        .write(&watch.place, &watch.recipe, &watch.all)?;
    // Before this a primary is read-only, like every server that starts.
    let restored = watch.control.restore_primary(&identity.group).await;
    restored.map_err(|error| Failure::new(format!("group {}: {error}", identity.group)))?;
    say(format!("{} is up again (pid {pid})", identity.name));
    Ok(())
}
