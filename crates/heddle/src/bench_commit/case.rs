//! The cases of a measurement, and the settings that make each: decided here, set elsewhere.

use farm::Engine;

/// Threads with which a replica applies where it does so in parallel.
const APPLIERS: &str = "4";

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// Commits wait for others, to reach the disk with them.
    pub group_commit: bool,
    pub sync_binlog: bool,
    /// Replicas apply in several threads; `None` without replicas.
    pub parallel: Option<bool>,
    pub threads: u32,
}

/// All cases, so that settings change seldom.
pub fn cases(threads: &[u32], has_replicas: bool) -> Vec<Case> {
    let parallel: &[Option<bool>] = match has_replicas {
        true => &[Some(false), Some(true)],
        false => &[None],
    };
    let mut all = Vec::new();
    for &parallel in parallel {
        for sync_binlog in [true, false] {
            for group_commit in [false, true] {
                let one = |&threads: &u32| Case {
                    group_commit,
                    sync_binlog,
                    parallel,
                    threads,
                };
                all.extend(threads.iter().map(one));
            }
        }
    }
    all
}

/// The variables of a primary that cases change.
pub fn names_of_primary(engine: Engine) -> [&'static str; 3] {
    match engine {
        Engine::MariaDb => [
            "sync_binlog",
            "binlog_commit_wait_count",
            "binlog_commit_wait_usec",
        ],
        Engine::MySql => [
            "sync_binlog",
            "binlog_group_commit_sync_no_delay_count",
            "binlog_group_commit_sync_delay",
        ],
    }
}

/// Those of a replica; of several that mean the same the first that the server has.
pub fn names_of_replica(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::MariaDb => &["slave_parallel_threads"],
        Engine::MySql => &["replica_parallel_workers", "slave_parallel_workers"],
    }
}

impl Case {
    /// What the variables of a primary have to be, in the order of their names.
    pub fn of_primary(self, wait_us: u64) -> [String; 3] {
        let (count, wait_us) = match self.group_commit {
            true => (u64::from(self.threads), wait_us),
            false => (0, 0),
        };
        let sync = u8::from(self.sync_binlog);
        [sync.to_string(), count.to_string(), wait_us.to_string()]
    }

    /// What the variable of a replica has to be, called so.
    pub fn of_replica(self, name: &str) -> Option<&'static str> {
        // MySQL counts the only thread as a worker.
        let alone = if name.ends_with("workers") { "1" } else { "0" };
        self.parallel
            .map(|parallel| if parallel { APPLIERS } else { alone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_meets_every_other() {
        let all = cases(&[1, 8], true);
        assert_eq!(all.len(), 16);
        assert_eq!(cases(&[1, 8], false).len(), 8);
        let differ = all
            .iter()
            .enumerate()
            .all(|(at, one)| !all[..at].contains(one));
        assert!(differ);
        let on = all
            .iter()
            .find(|it| it.group_commit && it.threads == 8)
            .expect("one");
        assert_eq!(on.of_primary(500), ["1", "8", "500"]);
        let off = all
            .iter()
            .find(|it| !it.group_commit && !it.sync_binlog)
            .expect("one");
        assert_eq!(off.of_primary(500), ["0", "0", "0"]);
        assert_eq!(off.of_replica("slave_parallel_threads"), Some("0"));
        assert_eq!(off.of_replica("replica_parallel_workers"), Some("1"));
    }
}
