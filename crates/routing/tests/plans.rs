//! Where statements go: a farm, a session's standing, and the plan that follows.
//!
//! The farm has a primary `p` (id 1) and two replicas `a` and `b` (2 and 3). Moments are
//! microseconds; positions are MariaDB's in one domain, written as their sequence numbers.

use std::time::Instant;

use farm::{Engine, GroupKind, Mode, Position, Server, ServerId, Snapshot, Status, samples};
use routing::rules::{ServerName, Servers};
use routing::{
    Balance, LastRead, Level, Near, Need, Plan, Preferences, Reason, Slowness, Standing, Strategy,
    plan, plan_all,
};
use sqltext::MsHint;

const P: ServerId = ServerId(1);
const A: ServerId = ServerId(2);
const B: ServerId = ServerId(3);

fn at(sequence: u64) -> Position {
    Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
}

fn server(id: ServerId) -> Server {
    let status = match id == P {
        true => Status::Primary,
        false => Status::Replica,
    };
    let mut server = samples::server(id.0, "g", status);
    server.name = ["p", "a", "b"][id.0 as usize - 1].into();
    server.host = format!("10.0.{}.1", id.0).into();
    server.port = 3306;
    server.health.sql_running = (id != P).then_some(true);
    server
}

/// The farm, and who is to plan for it.
struct Scene {
    servers: Vec<Server>,
    kind: GroupKind,
    balance: Balance,
}

fn scene() -> Scene {
    Scene {
        servers: vec![server(P), server(A), server(B)],
        kind: GroupKind::Replication,
        balance: Balance::default(),
    }
}

/// The same servers as the nodes of a Galera cluster.
fn cluster() -> Scene {
    let mut scene = scene();
    scene.kind = GroupKind::Galera;
    for node in &mut scene.servers {
        (node.status, node.mode) = (Status::Primary, Mode::ReadWrite);
        (node.health.read_only, node.health.sql_running) = (false, None);
    }
    scene
}

impl Scene {
    fn server(&mut self, id: ServerId) -> &mut Server {
        &mut self.servers[id.0 as usize - 1]
    }

    /// The server had this position when it was asked at this moment.
    fn knows(mut self, id: ServerId, sequence: u64, asked_us: u64) -> Scene {
        self.server(id).fresh.learn(at(sequence), asked_us);
        self
    }

    /// Everything from before this moment is on the server, which is so far behind.
    fn complete(mut self, id: ServerId, until_us: u64, lag_us: u64) -> Scene {
        let server = self.server(id);
        server.fresh.complete(until_us);
        server.fresh.set_lag_us(Some(lag_us));
        self
    }

    fn dead(mut self, id: ServerId) -> Scene {
        self.server(id).health.alive = false;
        self
    }

    fn preferring(mut self, preferences: Preferences) -> Scene {
        self.balance = Balance::new(preferences, 7);
        self
    }

    fn snapshot(&self) -> Snapshot {
        let mut group = samples::group("g", self.servers.clone());
        group.kind = self.kind;
        samples::snapshot("f", Instant::now(), vec![group])
    }

    fn plan(&mut self, read: bool, hint: Option<MsHint>, standing: &Standing<'_>) -> Plan {
        self.planned(read, hint, standing, &[]).expect("a plan")
    }

    fn planned(
        &mut self,
        read: bool,
        hint: Option<MsHint>,
        standing: &Standing<'_>,
        avoid: &[ServerId],
    ) -> Result<Plan, String> {
        let snapshot = self.snapshot();
        let standing = Standing {
            group: snapshot.home().map(|home| &**home),
            ..*standing
        };
        plan(
            &snapshot,
            read,
            hint,
            &standing,
            avoid,
            &mut self.balance,
            &|_| 0,
        )
        .map_err(|refusal| refusal.error.name.to_owned())
    }

    /// Where a read goes, how often, out of so many.
    fn shares(&mut self, standing: &Standing<'_>, turns: usize) -> [usize; 3] {
        let mut shares = [0; 3];
        for _ in 0..turns {
            shares[self.plan(true, None, standing).server.0 as usize - 1] += 1;
        }
        shares
    }
}

const NEED: Need<'static> = Need {
    level: Level::Session,
    required: None,
    unproved: false,
    last_read: None,
    now_us: 1_000_000,
    wait_us: 20_000,
};

const STANDING: Standing<'static> = Standing {
    group: None,
    held: None,
    last_used: None,
    last_replica: None,
    autocommit: true,
    need: NEED,
    among: None,
};

fn needing(need: Need<'_>) -> Standing<'_> {
    Standing {
        group: None,
        held: None,
        last_used: None,
        last_replica: None,
        autocommit: true,
        need,
        among: None,
    }
}

fn eventual(max_lag_us: Option<u64>) -> Standing<'static> {
    needing(Need {
        level: Level::Eventual { max_lag_us },
        ..NEED
    })
}

#[test]
fn reads_take_turns_and_the_rest_is_the_primarys() {
    let mut scene = scene();
    assert_eq!(scene.shares(&STANDING, 10), [0, 5, 5]);
    let write = scene.plan(false, None, &STANDING);
    assert_eq!((write.server, write.reason), (P, Reason::NotARead));
    assert!(!write.read_only);
}

#[test]
fn nothing_moves_inside_a_transaction_or_a_pin() {
    let held = Standing {
        held: Some(A),
        ..STANDING
    };
    for hint in [None, Some(MsHint::Master), Some(MsHint::Slave)] {
        let plan = scene().plan(true, hint, &held);
        assert_eq!((plan.server, plan.reason), (A, Reason::Held));
    }
}

#[test]
fn hints_choose() {
    let plan = |hint| scene().plan(true, Some(hint), &STANDING);
    assert_eq!(plan(MsHint::Master).server, P);
    assert_eq!(plan(MsHint::Strong).server, P);
    assert_eq!(plan(MsHint::Slave).server, A);
    let last = Standing {
        last_used: Some(B),
        ..STANDING
    };
    assert_eq!(scene().plan(true, Some(MsHint::LastUsed), &last).server, B);
    // A write follows its last server only where that one takes writes.
    assert_eq!(scene().plan(false, Some(MsHint::LastUsed), &last).server, P);
    assert_eq!(
        scene().plan(false, Some(MsHint::Slave), &STANDING).server,
        P
    );
}

#[test]
fn all_servers_are_the_primary_and_whoever_takes_reads() {
    let all = |scene: &Scene, among: Option<&Servers>| {
        let plans = plan_all(&scene.snapshot().groups[0], among);
        let plans = plans.map_err(|refusal| (refusal.error.name, refusal.detail))?;
        assert!(plans.iter().all(|plan| plan.read_only && !plan.wait));
        Ok(plans.iter().map(|plan| plan.server).collect::<Vec<_>>())
    };
    assert_eq!(all(&scene(), None), Ok(vec![P, A, B]));
    // Whoever takes the writes comes first, wherever it stands in the list.
    let mut led = scene();
    led.servers.rotate_left(1);
    assert_eq!(all(&led, None), Ok(vec![P, A, B]));
    assert_eq!(all(&cluster(), None), Ok(vec![P, A, B]));
    // A spare, a faulty server and one that is offline are none of them, dead or alive.
    for (status, mode) in [
        (Status::Spare, Mode::Offline),
        (Status::Faulty, Mode::Offline),
        (Status::Replica, Mode::Offline),
    ] {
        let mut without = scene().dead(A);
        (without.server(A).status, without.server(A).mode) = (status, mode);
        assert_eq!(all(&without, None), Ok(vec![P, B]));
    }
    // A replica that stands still is asked; one that is dead would be missing.
    let mut still = scene();
    still.server(B).health.sql_running = Some(false);
    assert_eq!(all(&still, None), Ok(vec![P, A, B]));
    let missing = ("ALL_SERVERS_MISSING", "10.0.2.1:3306 of group g".to_owned());
    assert_eq!(all(&scene().dead(A), None), Err(missing));
    let one = Servers(vec![ServerName::new("b")]);
    assert_eq!(all(&scene().dead(A), Some(&one)), Ok(vec![B]));
}

#[test]
fn without_autocommit_reads_are_the_primarys_unless_their_author_says_otherwise() {
    let standing = Standing {
        autocommit: false,
        ..STANDING
    };
    let read = scene().plan(true, None, &standing);
    assert_eq!((read.server, read.reason), (P, Reason::NoAutocommit));
    assert_eq!(scene().plan(true, Some(MsHint::Slave), &standing).server, A);
    assert_eq!(
        scene().plan(true, Some(MsHint::Eventual), &standing).server,
        P
    );
}

#[test]
fn a_session_reads_where_its_writes_are_known_to_be() {
    let required = at(7);
    let standing = needing(Need {
        required: Some(&required),
        ..NEED
    });
    // One replica is known to have them: it serves every time.
    let mut known = scene().knows(A, 6, 10).knows(B, 7, 10);
    assert_eq!(known.shares(&standing, 6), [0, 0, 6]);
    // None is: one is asked, in its turn.
    let mut asked = scene().knows(A, 6, 10);
    let plan = asked.plan(true, None, &standing);
    assert!(plan.wait && plan.server != P && plan.narrowed);
    // Both were asked in vain, or are known to be too far behind to be asked.
    let plan = asked
        .planned(true, None, &standing, &[A, B])
        .expect("a plan");
    assert_eq!(plan.server, P);
    let mut late = scene().complete(A, 5, 90_000).complete(B, 5, 90_000);
    let plan = late.plan(true, None, &standing);
    assert_eq!((plan.server, plan.reason), (P, Reason::TooOld));
}

#[test]
fn what_is_not_proved_is_read_from_the_primary() {
    let standing = needing(Need {
        unproved: true,
        ..NEED
    });
    let mut scene = scene().knows(A, 99, 10).knows(B, 99, 10);
    assert_eq!(scene.plan(true, None, &standing).server, P);
    let plan = scene.plan(true, Some(MsHint::Slave), &standing);
    assert_eq!(plan.server, A, "its author has said where");
}

#[test]
fn reads_never_go_back_in_time() {
    let after = |server| {
        needing(Need {
            last_read: Some(LastRead {
                server,
                ended_us: 500,
            }),
            ..NEED
        })
    };
    // Nothing is known since the last read: the session stays, or goes to the primary.
    assert_eq!(scene().shares(&after(A), 4), [0, 4, 0]);
    assert_eq!(scene().shares(&after(P), 4), [4, 0, 0]);
    // What was learnt before that read ended proves nothing.
    let mut early = scene().knows(A, 5, 499).knows(B, 9, 499);
    assert_eq!(early.shares(&after(A), 4), [0, 4, 0]);
    // What was learnt since does, where the other one has it.
    let mut free = scene().knows(A, 5, 501).knows(B, 5, 400);
    assert_eq!(free.shares(&after(A), 4), [0, 2, 2]);
    let mut behind = scene().knows(A, 5, 501).knows(B, 4, 600);
    assert_eq!(behind.shares(&after(A), 4), [0, 4, 0]);
    let mut caught_up = scene().knows(P, 5, 501).knows(A, 4, 600).knows(B, 6, 600);
    assert_eq!(caught_up.shares(&after(P), 4), [0, 0, 4]);
    // The server of the last read is gone.
    let mut gone = scene().dead(A);
    assert_eq!(gone.plan(true, None, &after(A)).server, P);
    // So it is for eventual reads, too.
    let mut eventual = after(A);
    eventual.need.level = Level::Eventual { max_lag_us: None };
    assert_eq!(scene().shares(&eventual, 4), [0, 4, 0]);
}

#[test]
fn eventual_reads_are_bounded_by_what_is_surely_there() {
    let aged = || {
        scene()
            .complete(A, 960_000, 5000)
            .complete(B, 700_000, 5000)
    };
    assert_eq!(aged().shares(&eventual(Some(50_000)), 4), [0, 4, 0]);
    assert_eq!(aged().shares(&eventual(Some(400_000)), 4), [0, 2, 2]);
    assert_eq!(aged().shares(&eventual(Some(10_000)), 4), [4, 0, 0]);
    // Nobody knows how old their data are: they serve only reads without a bound.
    assert_eq!(scene().shares(&eventual(Some(400_000)), 4), [4, 0, 0]);
    assert_eq!(scene().shares(&eventual(None), 4), [0, 2, 2]);
}

#[test]
fn strong_reads_are_the_primarys() {
    let standing = needing(Need {
        level: Level::Strong,
        ..NEED
    });
    let plan = scene().plan(true, None, &standing);
    assert_eq!((plan.server, plan.reason), (P, Reason::Strong));
}

#[test]
fn a_promise_is_kept_even_when_nobody_can() {
    let required = at(7);
    let standing = needing(Need {
        required: Some(&required),
        ..NEED
    });
    let mut lost = scene()
        .dead(P)
        .knows(A, 6, 10)
        .complete(A, 5, 90_000)
        .dead(B);
    let refused = lost.planned(true, None, &standing, &[]);
    assert_eq!(refused, Err("NO_SERVER".to_owned()));
    assert_eq!(
        lost.planned(true, None, &eventual(None), &[])
            .map(|p| p.server),
        Ok(A)
    );
    let write = lost.planned(false, None, &STANDING, &[]);
    assert_eq!(write, Err("NO_PRIMARY".to_owned()));
}

#[test]
fn servers_that_do_not_serve_get_no_reads() {
    let spoiled: [fn(&mut Server); 5] = [
        |server| server.mode = Mode::Offline,
        |server| server.mode = Mode::WriteOnly,
        |server| server.status = Status::Spare,
        |server| server.status = Status::Faulty,
        |server| server.health.sql_running = Some(false),
    ];
    for spoil in spoiled {
        let mut scene = scene();
        spoil(scene.server(A));
        assert_eq!(scene.shares(&STANDING, 4), [0, 0, 4]);
    }
    // A primary that takes writes only still serves what nobody else can.
    let mut alone = scene().dead(A).dead(B);
    alone.server(P).mode = Mode::WriteOnly;
    let plan = alone.plan(true, None, &STANDING);
    assert_eq!((plan.server, plan.reason), (P, Reason::NoReplica));
}

#[test]
fn weights_count_and_those_that_waited_are_made_up_for() {
    let mut scene = scene();
    scene.server(A).weight = 3.0;
    assert_eq!(scene.shares(&STANDING, 400), [0, 300, 100]);
    assert!(!scene.balance.overdrawn(A) && scene.balance.overdrawn(P));
    // A session that must stay with A for 30 reads ...
    let stays = needing(Need {
        last_read: Some(LastRead {
            server: A,
            ended_us: 1,
        }),
        ..NEED
    });
    assert_eq!(scene.shares(&stays, 30), [0, 30, 0]);
    // ... is made up for by others.
    assert_eq!(scene.shares(&STANDING, 370), [0, 270, 100]);
}

#[test]
fn strategies() {
    let with = |strategy| {
        scene().preferring(Preferences {
            strategy,
            ..Preferences::default()
        })
    };
    let mut random = with(Strategy::Random);
    random.server(A).weight = 3.0;
    let [_, a, b] = random.shares(&STANDING, 10_000);
    assert!((7350..7650).contains(&a) && a + b == 10_000, "{a} and {b}");

    let mut fastest = with(Strategy::Fastest);
    for _ in 0..32 {
        fastest.balance.answered(A, 900, 10);
        fastest.balance.answered(B, 300, 10);
    }
    let [_, a, b] = fastest.shares(&STANDING, 640);
    assert!(b > 620 && a > 0, "now and then the other one is tried: {a}");

    let mut sticky = with(Strategy::Sticky);
    let stays = Standing {
        last_replica: Some(B),
        ..STANDING
    };
    assert_eq!(sticky.shares(&stays, 5), [0, 0, 5]);
    assert_eq!(sticky.shares(&STANDING, 4), [0, 2, 2]);

    let mut least = with(Strategy::LeastConnections);
    let snapshot = least.snapshot();
    let busy = |id: ServerId| if id == A { 5 } else { 2 };
    let standing = Standing {
        group: snapshot.home().map(|home| &**home),
        ..STANDING
    };
    for _ in 0..4 {
        let plan = plan(
            &snapshot,
            true,
            None,
            &standing,
            &[],
            &mut least.balance,
            &busy,
        );
        assert_eq!(plan.map(|plan| plan.server), Ok(B));
    }
}

#[test]
fn near_servers_come_first_while_they_would_do() {
    let near = |text: &str| {
        scene().preferring(Preferences {
            near: vec![Near::parse(text).expect("a place")],
            ..Preferences::default()
        })
    };
    for text in ["10.0.3.0/24", "10.0.3.1", "b", "10.0.3.1:3306"] {
        assert_eq!(near(text).shares(&STANDING, 3), [0, 0, 3], "{text}");
        assert_eq!(near(text).dead(B).shares(&STANDING, 3), [0, 3, 0]);
    }
    assert_eq!(near("0.0.0.0/0").shares(&STANDING, 4), [0, 2, 2]);
    for text in ["10.0.0.0/33", "10.0.0.0/x", "", "a/24"] {
        assert!(Near::parse(text).is_err(), "{text}");
    }
}

#[test]
fn failing_and_slow_servers_are_out_for_a_while_and_come_back() {
    let mut scene = scene().preferring(Preferences {
        slowness: Slowness {
            least_us: 1000,
            factor: 5,
        },
        ..Preferences::default()
    });
    let later = |now_us| needing(Need { now_us, ..NEED });
    scene.balance.failed(A, 1_000_000);
    assert_eq!(scene.shares(&later(1_500_000), 4), [0, 0, 4]);
    assert_eq!(scene.shares(&later(2_000_001), 2)[1], 2, "it has waited");
    // A second time in a row it is out for longer.
    scene.balance.failed(A, 2_100_000);
    assert!(scene.balance.is_out(A, 4_000_000) && !scene.balance.is_out(A, 4_100_000));
    // Slow beside the others, and slow enough to matter.
    for _ in 0..40 {
        scene.balance.answered(B, 300, 5_000_000);
    }
    for _ in 0..40 {
        scene.balance.answered(A, 900, 5_000_000);
    }
    assert!(!scene.balance.is_out(A, 5_000_001), "under the least");
    for _ in 0..40 {
        scene.balance.answered(A, 90_000, 6_000_000);
    }
    assert!(scene.balance.is_out(A, 6_000_001));
    // Better a server that is out than none.
    let mut alone = scene.dead(B).dead(P);
    assert_eq!(alone.plan(true, None, &later(6_000_001)).server, A);
}

#[test]
fn one_node_of_a_cluster_takes_the_writes_and_the_others_read() {
    let mut nodes = cluster();
    let write = nodes.plan(false, None, &STANDING);
    assert_eq!((write.server, write.read_only), (P, false));
    assert_eq!(nodes.shares(&STANDING, 10), [0, 5, 5]);
    let read = nodes.plan(true, None, &STANDING);
    assert!(read.read_only && !read.wait, "the node itself waits");
    // What the session wrote elsewhere needs no proof: a node waits for what the cluster has.
    let required = at(99);
    let wrote = needing(Need {
        required: Some(&required),
        ..NEED
    });
    assert_eq!(nodes.plan(true, None, &wrote).server, B);
    let last = Standing {
        last_used: Some(B),
        ..STANDING
    };
    assert_eq!(nodes.plan(false, Some(MsHint::LastUsed), &last).server, P);

    let mut survivors = cluster().dead(P);
    let write = survivors.plan(false, None, &STANDING);
    assert_eq!((write.server, write.read_only), (A, false), "no promotion");
    assert_eq!(survivors.shares(&STANDING, 4), [0, 0, 4]);
    let mut alone = cluster().dead(P).dead(A);
    let read = alone.plan(true, None, &STANDING);
    assert_eq!((read.server, read.read_only), (B, false));
    let mut none = cluster().dead(P).dead(A).dead(B);
    assert_eq!(
        none.planned(false, None, &STANDING, &[]),
        Err("NO_PRIMARY".to_owned())
    );
}
