//! Two groups behind one door: database `one` is on the first, `two` on the second, and each has a
//! table `t`. A group is one server, so that tests may look at it past the door.

use std::sync::Arc;

use farm::Sharding;
use routing::rules::Rulebook;

use crate::client::Client;
use crate::door::stage::Stage;
use crate::door::{Door, Tuning};
use crate::servers::server::Release;

/// The groups' servers and their door.
pub struct Two {
    /// Its primary is the first group's server, its replica the second's.
    pub stage: Stage,
    pub door: Door,
    /// The door's.
    pub rules: Arc<Rulebook>,
}

impl Two {
    /// One for each engine that can be had; of MySQL the newest that the machine has.
    pub fn farms() -> Vec<Two> {
        let releases = [Release::Installed, Release::newest_mysql()];
        releases.into_iter().filter_map(Two::start).collect()
    }

    /// One of this release.
    pub fn start(release: Release) -> Option<Two> {
        Two::start_with(release, |_| {})
    }

    /// The same by other settings.
    pub fn start_with(release: Release, tune: impl FnOnce(&mut Tuning)) -> Option<Two> {
        Stage::start_with(release).map(|stage| Two::new(stage, tune))
    }

    fn new(stage: Stage, tune: impl FnOnce(&mut Tuning)) -> Two {
        stage.let_decide();
        for (server, name) in [(&stage.primary, "one"), (&stage.replica, "two")] {
            let mut client = server.client();
            client.run(&format!("CREATE DATABASE {name}"));
            client.run(&format!(
                "CREATE TABLE {name}.t (id INT PRIMARY KEY, v INT NOT NULL)"
            ));
            client.run("CREATE DATABASE both_of_them");
        }
        let rules = Arc::<Rulebook>::default();
        // 8.0.12 is older than MySQL's safe XA.
        let unsafe_xa = stage.release == Release::MySql80;
        let door = stage.door_with(|tuning| {
            tuning.settings.dist_txns.unsafe_xa = unsafe_xa;
            tuning.rules = Arc::clone(&rules);
            tune(tuning);
        });
        door.spread();
        door.publish(|snapshot| {
            let mut sharding = Sharding::new(1, Vec::new());
            sharding.assign("one", "g1".into());
            sharding.assign("two", "g2".into());
            snapshot.sharding = Some(Arc::new(sharding));
        });
        Two { stage, door, rules }
    }

    /// A new connection through the door.
    #[track_caller]
    pub fn client(&self) -> Client {
        self.door.client()
    }

    /// Runs a text on both servers, past the door; `{}` in it is the group's database.
    ///
    /// # Panics
    /// When a server refuses it.
    #[track_caller]
    pub fn on_both(&self, sql: &str) {
        for (server, name) in [(&self.stage.primary, "one"), (&self.stage.replica, "two")] {
            server.client().run(&sql.replace("{}", name));
        }
    }

    /// The servers are MySQL's.
    pub fn is_mysql(&self) -> bool {
        let version = "SELECT @@version LIKE '8.%'";
        self.stage.primary.client().value(version) == "1"
    }

    /// The rows of `t` on each group, past the door: their ids.
    #[track_caller]
    pub fn ids(&self) -> [String; 2] {
        [(&self.stage.primary, "one"), (&self.stage.replica, "two")].map(|(server, name)| {
            let ids = "SELECT COALESCE(GROUP_CONCAT(id ORDER BY id), '')";
            server.client().value(&format!("{ids} FROM {name}.t"))
        })
    }

    /// No branch is left on any server.
    ///
    /// # Panics
    /// When one is.
    #[track_caller]
    pub fn nothing_is_prepared(&self) {
        for server in [&self.stage.primary, &self.stage.replica] {
            let listed = server.client().rows("XA RECOVER");
            assert_eq!(listed, Vec::<Vec<Option<String>>>::new());
        }
    }

    /// Nothing is left prepared; empties the tables.
    ///
    /// # Panics
    /// When a branch is left.
    #[track_caller]
    pub fn clean(&self) {
        self.nothing_is_prepared();
        self.on_both("DELETE FROM {}.t");
    }
}
