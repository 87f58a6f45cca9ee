//! `heddle serve`: a router in front of servers that somebody else runs.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::cli;
use crate::configuration::rules::Source;
use crate::doors::listeners::{Listeners, addresses_are_free};
use crate::failure::Failure;
use crate::handover::life::{Life, Program};
use crate::handover::take::Predecessor;
use crate::host::logging;
use crate::host::signals::Signals;
use crate::host::systemd::Systemd;
use crate::printing::say;
use crate::router::{Router, runtime};
use crate::settings::{self, Settings};
use crate::store;
use crate::store::state_dir;
use crate::up::Tokens;

/// Serves until a signal ends it; with `--check`, only says whether the file is right.
///
/// # Errors
/// Each wrong line of the file, or what keeps the router from starting.
pub fn run(flags: cli::Serve) -> Result<(), Failure> {
    // Before anything else is opened.
    let sockets = reactor::inherited();
    // Asked for now: later another program may stand at this path, and that one is to be run then.
    let program = Program::of_this();
    let mut settings = settings::read(&flags.config).map_err(Failure::new)?;
    store::name_etcd(&mut settings, flags.etcd.as_deref())?;
    flags.common.apply(&mut settings).map_err(Failure::usage)?;
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    let read = settings.read_passwords(credentials.as_deref());
    read.map_err(Failure::new)?;
    store::check(&settings)?;
    let rules = Source::of(&settings).read();
    rules.map_err(Failure::new)?;
    if flags.check {
        say(format!("{} is right", flags.config.display()));
        return Ok(());
    }
    keep_inside(&settings)?;
    logging::start(&settings);
    runtime()?.block_on(router(settings, program, sockets))
}

/// Lets nobody of the same user look into the process, where that is wished.
fn keep_inside(settings: &Settings) -> Result<(), Failure> {
    if settings.core_dumps.0 {
        return Ok(());
    }
    let done = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    done.map_err(|error| Failure::new(format!("core_dumps = off: {error}")))
}

async fn router(
    settings: Settings,
    program: Program,
    sockets: Vec<(String, OwnedFd)>,
) -> Result<(), Failure> {
    let signals = Signals::install(false)?;
    let systemd = Systemd::of_environment();
    let state = settings.state_dir.clone();
    state_dir::prepare(&state)?;
    let mut listeners = Listeners::default();
    let mut before = Predecessor::find(&state, &settings, &mut listeners).await?;
    listeners.take_all(&settings, sockets)?;
    addresses_are_free(&settings, &listeners).await?;
    let tokens = Tokens::of(&state)?;
    let are_expected = !listeners.sql.is_empty();
    if let Some(before) = &mut before {
        say(format!("taking over from process {}", before.process));
        before.take_store().await?;
    }
    let router = Router::open(settings, &state, tokens, None, listeners).await?;
    router.http.serve(before.is_none());
    let life = async {
        if are_expected {
            router.knows_farm().await;
        }
        let doors = router.open_doors()?;
        let life = Life {
            router: &router,
            doors,
            state: &state,
            before: None,
            signals,
            systemd,
            program,
        };
        life.live(before).await
    };
    let outcome = router.run_with(life).await;
    if outcome.is_ok() {
        say("stopped");
    }
    outcome
}
