//! `heddle up`: a farm of this machine's own servers behind one router.
//!
//! Order of the start: what can fail without a trace comes first (program, addresses, directory);
//! then the servers, all at once; then the farm's state; then the doors. The end is the reverse, so
//! that nobody is served by a farm whose servers are going away.

mod backup;
mod ending;
mod fence;
mod fleet;
mod join;
mod place;
mod scratch;
mod supervisor;

use std::net::SocketAddr;
use std::sync::Arc;

use farm::Engine;
use mysqld::Binary;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::cli;
use crate::doors::listeners::{Listeners, addresses_are_free};
use crate::failure::Failure;
use crate::host::logging;
use crate::host::signals::Signals;
use crate::printing::say;
use crate::router::{Means, Router, blocking, runtime};
use crate::settings::{OptionalAddress, OptionalListens, OptionalPath, Settings};
use crate::store::state_dir;

use backup::Backups;
use fence::Guards;
use fleet::{Identity, Member, Recipe};
use place::Place;
use supervisor::{Addresses, Record, Watch};

pub use place::Tokens;

/// What a farm of this machine has different from the defaults.
const PRESETS: [(&str, &str); 8] = [
    // All doors are on loopback.
    ("kv_auth", "off"),
    ("fabric_open", "admin"),
    ("metrics_public", "on"),
    // In a group of two, a commit waits so long for the only replica.
    ("last_replica_wait_ms", "1000"),
    // The servers listen on loopback only, and their root has no password.
    ("replication_user", "root"),
    ("rejoin_by_clone", "on"),
    ("relaxed_replicas", "on"),
    // They are its own processes.
    ("server_sockets", "on"),
];

/// Runs the farm until a signal ends it.
///
/// # Errors
/// Whatever keeps it from starting; nothing is left behind then.
pub fn run(flags: cli::Up) -> Result<(), Failure> {
    let settings = settings(&flags)?;
    logging::start(&settings);
    runtime()?.block_on(farm(flags, settings))
}

fn settings(flags: &cli::Up) -> Result<Settings, Failure> {
    let mut settings = Settings {
        sql_listen: flags.sql.clone(),
        http_listen: flags.http,
        kv_listen: OptionalListens(flags.kv.clone()),
        fabric_listen: OptionalAddress(Some(flags.fabric)),
        errant_dir: OptionalPath(Some(flags.data.join("errant"))),
        sink_files_dir: OptionalPath(Some(flags.data.join("sinks"))),
        ..Settings::default()
    };
    for (name, value) in PRESETS {
        settings.preset(name, value, "heddle up");
    }
    // As Fabric had it: CALLs at the port behind that of XML-RPC.
    if let (1.., Some(port)) = (flags.fabric.port(), flags.fabric.port().checked_add(1)) {
        let calls = SocketAddr::new(flags.fabric.ip(), port).to_string();
        settings.preset("fabric_mysql_listen", &calls, "heddle up");
    }
    flags.common.apply(&mut settings).map_err(Failure::usage)?;
    if !settings.etcd.0.is_empty() {
        return Err(Failure::usage(
            "heddle up is a farm of one router and keeps its state in --data; for several routers \
             and etcd use heddle serve",
        ));
    }
    Ok(settings)
}

async fn farm(flags: cli::Up, mut settings: Settings) -> Result<(), Failure> {
    let mut signals = Signals::install(true)?;
    let engine = if flags.engine == "mysql" {
        Engine::MySql
    } else {
        Engine::MariaDb
    };
    let binary = Binary::find(engine, flags.mysqld.as_deref())?;
    if settings.binlog_tool_dir.0.is_none() {
        settings.binlog_tool_dir = OptionalPath(Some(binary.base().join("bin")));
    }
    let place = Arc::new(Place::open(&flags.data)?);
    state_dir::mend(&settings.errant_dir.0.clone().unwrap_or_default())?;
    addresses_are_free(&settings, &Listeners::default()).await?;
    let all = fleet::plan(&place, engine, flags.groups, flags.replicas)?;
    warn_of_lost_commits(&binary, &all);
    let recipe = recipe(binary, &place).await?;
    let tokens = Tokens::of(&place.dir)?;
    let guards = Guards::default();
    let mut backups = Backups::new(&guards, &place, &all, &recipe.binary);
    backups.user.clone_from(&settings.admin_user);
    backups.password.clone_from(&settings.admin_password);
    let means = Means {
        fence: Arc::new(guards.clone()),
        backup: Arc::new(backups),
    };
    let listeners = Listeners::default();
    let router = Router::open(settings, &place.state(), tokens, Some(means), listeners).await?;
    let members = start(&recipe, &place, &all, &router).await?;

    let record = Arc::new(Record::new(&place, &members));
    let scratch = scratch_plan(&router, &flags, &place, &recipe, &record, &all)?;
    let watch = Watch {
        control: Arc::clone(&router.control),
        place,
        recipe,
        all,
        record,
        guards,
    };
    let (stop, stopped) = watch::channel(false);
    let life = async {
        let outcome = live(&router, &watch, &mut signals).await;
        // The guards may have gone already, if this is reached after a panic of theirs.
        let _ = stop.send(true);
        outcome
    };
    let mut beside = JoinSet::new();
    if let Some(plan) = scratch {
        beside.spawn(scratch::guard(plan, stopped.clone()));
    }
    let scratch = async { while beside.join_next().await.is_some() {} };
    let servers = supervisor::guard_all(&watch, members, stopped.clone());
    let all = async { tokio::join!(life, servers, scratch) };
    router.http.serve(true);
    let (outcome, members, ()) = router.run_with(all).await;

    blocking(move || fleet::stop(members)).await?;
    if outcome.is_ok() {
        say("stopped");
    }
    outcome
}

/// What the scratch server is started by; `None` where none is wanted, or another is named.
fn scratch_plan(
    router: &Router,
    flags: &cli::Up,
    place: &Arc<Place>,
    recipe: &Recipe,
    record: &Arc<Record>,
    all: &[Identity],
) -> Result<Option<scratch::Plan>, Failure> {
    if flags.no_scratch || router.scratch.server().is_some() {
        return Ok(None);
    }
    Ok(Some(scratch::Plan {
        published: Arc::clone(&router.published),
        cell: Arc::clone(&router.scratch),
        place: Arc::clone(place),
        recipe: recipe.clone(),
        record: Arc::clone(record),
        all: all.to_vec(),
        port: fleet::another_port(all)?,
    }))
}

/// Says it where nobody can miss it: this farm is weaker than others.
fn warn_of_lost_commits(binary: &Binary, all: &[Identity]) {
    let mut groups = all.iter().map(|identity| &identity.group);
    let first = groups.next();
    let has_replicas = groups.any(|group| Some(group) == first);
    if has_replicas && !binary.has_semi_sync() {
        say(format!(
            "WARNING: {} {} has no semi-sync plugin, so replicas follow asynchronously: commits that \
             were acknowledged may be lost with their primary",
            binary.engine.name(),
            binary.version
        ));
    }
}

/// The farm's time between running servers and the end.
async fn live(router: &Router, watch: &Watch, signals: &mut Signals) -> Result<(), Failure> {
    let prepared = async {
        join::join(&router.control, &watch.all).await?;
        join::serves(&router.published).await?;
        join::make_container(&router.control).await
    };
    tokio::select! {
        outcome = prepared => outcome?,
        () = signals.end() => return Ok(()),
    }
    let doors = router.open_doors()?;
    watch.record.open(Addresses {
        sql: doors.sql_places(),
        kv: doors.kv_places(),
        http: router.http.address(),
        fabric: router.http.guest_address(),
    });
    watch
        .record
        .write(&watch.place, &watch.recipe, &watch.all)?;
    watch.place.keep();
    say(doors.ready(router.http.address()));
    signals.end().await;
    say("stopping: clients may finish their transactions");
    router.drain(doors, signals).await
}

/// Finds or makes the data directory that new servers get a copy of.
async fn recipe(binary: Binary, place: &Place) -> Result<Recipe, Failure> {
    let cache = mysqld::cache_dir(&place.dir);
    if !mysqld::has_template(&binary, &cache) {
        say(format!(
            "initialising a data directory for {}, once",
            binary.version
        ));
    }
    blocking(move || {
        let template = mysqld::template(&binary, &cache)?;
        Ok(Recipe { binary, template })
    })
    .await?
}

async fn start(
    recipe: &Recipe,
    place: &Place,
    all: &[Identity],
    router: &Router,
) -> Result<Vec<Member>, Failure> {
    let snapshot = router.control.snapshot();
    let with_options = |one: &Identity| (one.clone(), fleet::options(place, one, all, &snapshot));
    let servers: Vec<_> = all.iter().map(with_options).collect();
    let recipe = recipe.clone();
    blocking(move || fleet::start(&recipe, servers)).await?
}
