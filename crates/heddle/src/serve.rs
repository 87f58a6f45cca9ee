//! `heddle serve`: a router in front of servers that somebody else runs.

use std::os::fd::OwnedFd;

use crate::cli;
use crate::failure::Failure;
use crate::handover::life::{Life, Program};
use crate::handover::take::Predecessor;
use crate::listeners::Listeners;
use crate::logging;
use crate::printing::say;
use crate::router::{Router, Signals, addresses_are_free, make_directory, runtime};
use crate::rules::Source;
use crate::settings::{self, Settings};
use crate::store;
use crate::systemd::Systemd;
use crate::up::token;

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
    store::check(&settings)?;
    let rules = Source::of(&settings).read();
    rules.map_err(Failure::new)?;
    if flags.check {
        say(format!("{} is right", flags.config.display()));
        return Ok(());
    }
    logging::start(&settings);
    runtime()?.block_on(router(settings, program, sockets))
}

async fn router(
    settings: Settings,
    program: Program,
    sockets: Vec<(String, OwnedFd)>,
) -> Result<(), Failure> {
    let signals = Signals::install(false)?;
    let systemd = Systemd::of_environment();
    let state = settings.state_dir.clone();
    make_directory(&state)?;
    let mut listeners = Listeners::default();
    let mut before = Predecessor::find(&state, &settings, &mut listeners).await?;
    listeners.take_all(&settings, sockets)?;
    addresses_are_free(&settings, &listeners)?;
    let token = token(&state)?;
    let are_expected = listeners.sql.is_some();
    if let Some(before) = &mut before {
        say(format!("taking over from process {}", before.process));
        before.take_store().await?;
    }
    let (router, http) = Router::open(settings, &state, token, None, listeners).await?;
    router.serve_http(before.is_none());
    let http_socket = http.listener();
    let life = async {
        if are_expected {
            router.knows_farm().await;
        }
        let doors = router.open_doors()?;
        let life = Life {
            router: &router,
            doors,
            http: http_socket,
            state: &state,
            before: None,
            signals,
            systemd,
            program,
        };
        life.live(before).await
    };
    let outcome = router.run_with(http, life).await;
    if outcome.is_ok() {
        say("stopped");
    }
    outcome
}
