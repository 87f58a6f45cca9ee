//! The scratch server of `heddle up`: one more process beside the farm's servers, on which SELECTs run
//! whose rows come from several groups.
//!
//! It starts when the farm has its first shard map, since others have no use for it, and is started
//! again whenever it ends. Until it serves, a primary stands in for it; accounts that may make no tables there
//! wait for it.

use std::fs;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use control::pace::next_look;
use farm::Published;
use mysqld::{Options, Server};
use session::{Scratch, ScratchServer};
use tokio::sync::watch;

use super::fleet::{self, Identity, Recipe};
use super::place::Place;
use super::supervisor::Record;
use crate::failure::Failure;
use crate::printing::{complain, say};
use crate::router::blocking;

/// Its name in messages and in `farm.json`, where it has no group.
pub const NAME: &str = "scratch";

/// No server of a group has this number.
const SERVER_ID: u32 = 1_000_000;

/// How often the process, or the farm's need of one, is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// One that lived for less than this is started again only after a pause.
const STABLE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_secs(2);

/// For an orderly end, which saves nothing.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// What is left of the last run goes. The account may do nothing but what gathered statements need,
/// whatever their texts say. Names stand for themselves: the server listens on loopback only.
const INIT: &str = "\
DROP DATABASE IF EXISTS heddle;
CREATE DATABASE heddle;
CREATE USER IF NOT EXISTS heddle_scratch@'%';
GRANT SELECT, INSERT, CREATE, DROP, CREATE TEMPORARY TABLES ON heddle.* TO heddle_scratch@'%';
";

/// What the guard of the scratch server goes by.
pub struct Plan {
    pub published: Arc<Published>,
    /// Where sessions look for it.
    pub cell: Arc<Scratch>,
    pub place: Arc<Place>,
    pub recipe: Recipe,
    pub record: Arc<Record>,
    pub all: Vec<Identity>,
    pub port: u16,
}

/// Keeps it running while the farm needs it, until `stop` turns true; then it is ended.
pub async fn guard(plan: Plan, mut stop: watch::Receiver<bool>) {
    let mut server: Option<Server> = None;
    let mut started: Option<Instant> = None;
    plan.cell.set_guarded(true);
    loop {
        let runs = server.as_mut().is_some_and(Server::is_running);
        let needed = plan.published.load().sharding.is_some();
        if !runs && (needed || server.is_some()) {
            plan.cell.set(None);
            if server.take().is_some() {
                say(format!("{NAME} ended; starting it again"));
            }
            let lately = started.is_some_and(|started| started.elapsed() < STABLE);
            if lately && ends(&mut stop, tokio::time::sleep(PAUSE)).await {
                break;
            }
            started = Some(Instant::now());
            let begun = start(&plan).await;
            plan.cell.set_guarded(begun.is_ok());
            match begun {
                Ok(begun) => server = Some(begun),
                Err(failure) => complain(&format!(
                    "{NAME}: {}; a primary stands in for it",
                    failure.text
                )),
            }
        }
        let look = next_look(plan.published.load().origin, LOOK);
        if ends(&mut stop, look).await {
            break;
        }
    }
    plan.cell.set_guarded(false);
    plan.cell.set(None);
    if let Some(server) = server {
        let ended = blocking(move || end(server)).await;
        if let Err(failure) = ended {
            complain(&failure.text);
        }
    }
}

fn end(mut server: Server) {
    if let Err(error) = server.stop(STOP_PATIENCE) {
        complain(&error.to_string());
    }
}

/// True when the farm stops within the pause.
async fn ends(stop: &mut watch::Receiver<bool>, pause: impl Future<Output = ()>) -> bool {
    // An error means that the sender is gone, which is the end as well.
    tokio::select! {
        stopped = stop.wait_for(|&stopped| stopped) => { let _ = stopped; true }
        () = pause => false,
    }
}

async fn start(plan: &Plan) -> Result<Server, Failure> {
    let mut options = Options::new(NAME, &plan.place.dir.join(NAME), plan.port, SERVER_ID);
    options.scratch = true;
    options.buffer_pool_bytes = 32 << 20;
    let recipe = plan.recipe.clone();
    let server = blocking(move || launch(&recipe, options)).await??;
    say(format!(
        "{NAME} is up: on 127.0.0.1:{} (pid {})",
        plan.port,
        server.pid()
    ));
    plan.record.scratch(plan.port, server.pid());
    if let Err(failure) = plan.record.write(&plan.place, &plan.recipe, &plan.all) {
        complain(&failure.text);
    }
    plan.cell.set(Some(ScratchServer {
        host: "127.0.0.1".into(),
        port: plan.port,
        user: "heddle_scratch".to_owned(),
        password: String::new(),
    }));
    Ok(server)
}

fn launch(recipe: &Recipe, options: Options) -> Result<Server, Failure> {
    // One that a `heddle up` left which was killed holds nothing that anybody wants.
    if let Some(mut left) = Server::adopt(options.clone()) {
        left.kill()?;
    }
    let init = options.init_file();
    fs::create_dir_all(&options.dir)
        .and_then(|()| fs::write(&init, INIT))
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", init.display())))?;
    Ok(fleet::launch(recipe, options)?)
}
