//! `heddle serve`: a router in front of servers that somebody else runs.

use crate::cli;
use crate::failure::Failure;
use crate::logging;
use crate::printing::say;
use crate::router::{Router, Signals, addresses_are_free, runtime};
use crate::rules::Source;
use crate::settings::{self, Settings};
use crate::store;
use crate::up::token;

/// Serves until a signal ends it; with `--check`, only says whether the file is right.
///
/// # Errors
/// Each wrong line of the file, or what keeps the router from starting.
pub fn run(flags: cli::Serve) -> Result<(), Failure> {
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
    runtime()?.block_on(router(settings))
}

async fn router(settings: Settings) -> Result<(), Failure> {
    let mut signals = Signals::install(false)?;
    addresses_are_free(&settings)?;
    let state = settings.state_dir.clone();
    std::fs::create_dir_all(&state).map_err(|error| {
        Failure::new(format!(
            "cannot make state_dir {}: {error}",
            state.display()
        ))
    })?;
    let token = token(&state)?;
    let (router, http) = Router::open(settings, &state, token, None).await?;
    let life = async {
        let door = router.open_sql_door()?;
        let (sql, http) = (door.address(), router.http_address);
        say(format!("ready sql={sql} kv=- http={http}"));
        signals.next().await;
        say("stopping: clients may finish their transactions");
        router.drain(door).await
    };
    let outcome = router.run_with(http, life).await;
    if outcome.is_ok() {
        say("stopped");
    }
    outcome
}
