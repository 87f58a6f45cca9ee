//! Runs every scenario on one server, in several ways, straight and through Heddle.

use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use mysql_wire::capability::Capabilities;
use testkit::{Client, Door, Release, Server};

use crate::compare::{Comparison, Used};
use crate::noise::{self, Noise};
use crate::play::{Record, Way, database, play};
use crate::scenario::{self, Act, Scenario, Step, holds};
use crate::transcript::Transcript;

/// How the door stands before the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Road {
    /// As many connections as anybody wants.
    Wide,
    /// As many connections as the scenario has sessions, and a noisy session that uses them too.
    Narrow,
    /// As `Narrow`, and reads go to the server's other face: a «replica» that is the same server.
    Split,
}

const TRACK: Capabilities = Capabilities::SESSION_TRACK;
const EOF: Capabilities = Capabilities::DEPRECATE_EOF;

/// The ways of a client, and the roads that are tried for each.
const WAYS: [(Way, &[Road]); 4] = [
    (
        Way {
            name: "text",
            with: Capabilities::LOCAL_FILES,
            without: Capabilities::empty(),
            collation: 45,
            prepares: false,
        },
        &[Road::Wide, Road::Narrow],
    ),
    (
        Way {
            name: "text, deprecate EOF, no tracking, single statements",
            with: EOF,
            without: TRACK.union(Capabilities::MULTI_STATEMENTS),
            collation: 8,
            prepares: false,
        },
        &[Road::Split],
    ),
    (
        Way {
            name: "prepared, deprecate EOF, found rows",
            with: EOF.union(Capabilities::FOUND_ROWS),
            without: Capabilities::empty(),
            collation: 45,
            prepares: true,
        },
        &[Road::Narrow],
    ),
    (
        Way {
            name: "prepared, no tracking",
            with: Capabilities::empty(),
            without: TRACK,
            collation: 45,
            prepares: true,
        },
        &[Road::Wide],
    ),
];

/// Scenarios that run at the same time on one server.
const THREADS: usize = 3;

/// Long enough for a connection that is just being given back, on a loaded machine; short, since the
/// noise waits this long whenever the scenario holds a connection.
const NARROW_WAIT_MS: u64 = 40;

/// Below this share of steps that succeed, the scenarios test error messages only.
const SUCCEED_PERCENT_MIN: usize = 60;

const SERVER_SETTINGS: [(&str, &str); 6] = [
    ("max_allowed_packet", "64M"),
    ("max_connections", "400"),
    ("local_infile", "1"),
    ("performance_schema", "OFF"),
    ("event_scheduler", "OFF"),
    // Estimates of EXPLAIN do not change behind our back.
    ("innodb_stats_auto_recalc", "OFF"),
];

/// What all scenarios of one server have found.
#[derive(Default)]
struct Findings {
    differences: Vec<String>,
    steps: usize,
    compared: usize,
    succeeded: usize,
}

/// The test for one release.
pub fn all(release: Release) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/diff");
    let mut scenarios = scenario::read_all(&folder);
    if let Some(only) = std::env::var_os("HEDDLE_DIFF") {
        scenarios.retain(|scenario| only == *scenario.name);
    }
    let Some(server) = Server::start_with(release, &SERVER_SETTINGS) else {
        return;
    };
    noise::prepare(&server);
    let label = scenario::label(server.engine(), &server.client().version);
    let trial = Trial {
        server: &server,
        label: &label,
    };
    let findings = Mutex::new(Findings::default());
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
                    trial.one(scenario, &findings);
                }
            });
        }
    });
    let found = findings.into_inner().expect("no thread panicked");
    // Not a print macro: the test runner would swallow it.
    let _ = writeln!(
        std::io::stderr(),
        "{label}: {} statements, {} comparisons, {} of them of statements that succeed",
        found.steps,
        found.compared,
        found.succeeded
    );
    assert!(
        found.differences.is_empty(),
        "{} differences\n\n{}",
        found.differences.len(),
        found.differences.join("\n\n")
    );
    let alone = std::env::var_os("HEDDLE_DIFF").is_some();
    assert!(alone || found.succeeded * 100 >= found.compared * SUCCEED_PERCENT_MIN);
}

/// One server, and what directives call it.
struct Trial<'a> {
    server: &'a Server,
    label: &'a str,
}

impl Trial<'_> {
    /// All ways and roads of one scenario.
    fn one(&self, scenario: &Scenario, findings: &Mutex<Findings>) {
        let mut admin = self.server.client();
        let mut used = Used::new();
        let mut sum = Findings::default();
        // Large replies are walked in one way like in another.
        let ways = if scenario.heavy { 1 } else { WAYS.len() };
        for (way, roads) in &WAYS[..ways] {
            fresh_database(&mut admin, scenario);
            let address = self.server.address();
            let straight = play(scenario, address, self.label, way, &mut |_| {});
            let heavy = |road: &&Road| scenario.heavy && **road != Road::Wide;
            for road in roads.iter().filter(|road| !heavy(road)) {
                fresh_database(&mut admin, scenario);
                let through = self.play_through(scenario, way, *road);
                let mut found = self.judge(scenario, way, [&straight, &through], &mut used);
                if std::env::var_os("HEDDLE_DIFF_ALL").is_none() {
                    found.differences.truncate(1);
                }
                for difference in &mut found.differences {
                    difference.push_str(&format!("\nway: {}; road: {road:?}", way.name));
                }
                sum.add(found);
            }
        }
        let _ = admin.query(format!("DROP DATABASE {}", database(scenario)));
        let here = |step: &&Step| holds(&step.on, self.label);
        for step in scenario.steps.iter().filter(here) {
            sum.steps += 1;
            let idle = step.exceptions.iter().filter(|exception| {
                holds(&exception.on, self.label)
                    && !exception.at_times
                    && !used.contains(&exception.line)
            });
            sum.differences.extend(idle.map(|exception| {
                format!(
                    "{}.sql:{}: nothing differs there any more: remove the exception",
                    scenario.name, exception.line
                )
            }));
        }
        findings.lock().expect("no thread panicked").add(sum);
    }

    fn play_through(&self, scenario: &Scenario, way: &Way, road: Road) -> Record {
        let members: &[&Server] = match road {
            Road::Wide | Road::Narrow => &[self.server],
            Road::Split => &[self.server, self.server],
        };
        let door = Door::start(members, |tuning| {
            if road != Road::Wide {
                tuning.settings.pool.connections_max = scenario.sessions;
                tuning.settings.pool.wait_ms = NARROW_WAIT_MS;
            }
        });
        let mut noise = (road != Road::Wide).then(|| Noise::new(&door));
        play(scenario, door.address(), self.label, way, &mut |step| {
            // Long data has no reply, so it cannot wait for a connection that the noise still has.
            if let (Some(noise), false) = (&mut noise, matches!(step.act, Act::LongData(..))) {
                noise.make();
            }
        })
    }

    /// Compares two runs step by step.
    fn judge(
        &self,
        scenario: &Scenario,
        way: &Way,
        [straight, through]: [&Record; 2],
        used: &mut Used,
    ) -> Findings {
        let mut found = Findings::default();
        let usual = testkit::client::Login::default().capabilities;
        for ((step, straight), through) in scenario.steps.iter().zip(straight).zip(through) {
            let (Some(straight), Some(through)) = (straight, through) else {
                continue;
            };
            found.compared += 1;
            found.succeeded += usize::from(!straight.iter().any(Transcript::failed));
            let mut comparison = Comparison {
                step,
                label: self.label,
                capabilities: (usual | way.with) - way.without,
                used,
            };
            if let Some(difference) = comparison.difference(straight, through) {
                found.differences.push(format!(
                    "{}.sql:{} ({}): {difference}",
                    scenario.name, step.line, step.session
                ));
            }
        }
        found
    }
}

impl Findings {
    fn add(&mut self, more: Findings) {
        self.differences.extend(more.differences);
        self.steps += more.steps;
        self.compared += more.compared;
        self.succeeded += more.succeeded;
    }
}

fn fresh_database(admin: &mut Client, scenario: &Scenario) {
    let name = database(scenario);
    let sql = format!("DROP DATABASE IF EXISTS {name}; CREATE DATABASE {name}");
    admin.query(sql).expect("an empty database");
}
