//! Real servers that a test binary starts once, for doors in this process.
//!
//! The «replica» of a [`Stage`] is a second, independent server: what differs between the two shows
//! which of them answered. Each has `stage.who`, a table with one row: `primary` or `replica`.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use farm::dist_txn::farm_number;

use crate::door::admin::{FARM_ID, decision_key, with_link};
use crate::door::{Door, Tuning};
use crate::servers::server::{Release, Server};

/// A primary and a server that plays its replica, shared by the tests that run at the same time.
pub struct Stage {
    pub release: Release,
    pub primary: Server,
    pub replica: Server,
}

impl Stage {
    /// The servers of this test binary; started for the first test, ended with the last one.
    /// `None` where no server can be had.
    pub fn shared() -> Option<Arc<Stage>> {
        Stage::shared_of(Release::Installed)
    }

    /// A stage of MariaDB and one of the newest MySQL. What the machine does not have is left out.
    pub fn of_both_engines() -> Vec<Arc<Stage>> {
        let releases = [Release::Installed, Release::newest_mysql()];
        releases.into_iter().filter_map(Stage::shared_of).collect()
    }

    fn shared_of(release: Release) -> Option<Arc<Stage>> {
        static SHARED: Mutex<Vec<(Release, Weak<Stage>)>> = Mutex::new(Vec::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.retain(|(_, stage)| stage.strong_count() > 0);
        let found = shared.iter().find(|(of, _)| *of == release);
        if let Some(stage) = found.and_then(|(_, stage)| stage.upgrade()) {
            return Some(stage);
        }
        let stage = Arc::new(Stage::start_with(release)?);
        shared.push((release, Arc::downgrade(&stage)));
        Some(stage)
    }

    /// Servers of a test's own, for one that stops them.
    pub fn start() -> Option<Stage> {
        Stage::start_with(Release::Installed)
    }

    /// The same of another release.
    pub fn start_with(release: Release) -> Option<Stage> {
        let settings = [("max_allowed_packet", "64M"), ("max_connections", "400")];
        let servers = Server::start_some(2, release, &settings)?;
        let [primary, replica] = <[Server; 2]>::try_from(servers).ok()?;
        for (name, server) in [("primary", &primary), ("replica", &replica)] {
            let mut client = server.client();
            client.run("CREATE DATABASE stage");
            client.run("CREATE TABLE stage.who (name VARCHAR(20))");
            client.run(&format!("INSERT INTO stage.who VALUES ('{name}')"));
        }
        Some(Stage {
            release,
            primary,
            replica,
        })
    }

    /// Runs a text on both servers, past any door.
    ///
    /// # Panics
    /// When a server refuses it.
    #[track_caller]
    pub fn everywhere(&self, sql: &str) {
        for server in [&self.primary, &self.replica] {
            server.client().query(sql).expect("the statement is right");
        }
    }

    /// An empty database on both servers.
    #[track_caller]
    pub fn database(&self, name: &str) {
        self.everywhere(&format!(
            "DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}"
        ));
    }

    /// Makes on both what a group needs to decide transactions over several.
    pub fn let_decide(&self) {
        for server in [&self.primary, &self.replica] {
            with_link(server.address(), async |mut link| {
                let made = engine::decisions::make(
                    &mut link,
                    farm_number(FARM_ID),
                    &decision_key(),
                    10_000,
                )
                .await;
                made.expect("root may make tables");
            });
        }
    }

    /// A door in front of both, with the settings of most tests.
    pub fn door(&self) -> Door {
        self.door_with(|_| {})
    }

    /// A door in front of both, with other settings.
    pub fn door_with(&self, tune: impl FnOnce(&mut Tuning)) -> Door {
        Door::start(&[&self.primary, &self.replica], tune)
    }
}
