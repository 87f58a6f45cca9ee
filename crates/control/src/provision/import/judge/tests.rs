//! What is said of replication setups, from the answers of their servers.

use engine::topology::Follower;
use engine::{Observation, Replica};

use crate::observe::samples::observation;

use super::*;

/// A server on this port, by which it is told from others; it follows the one on `of`.
fn named(port: u16, of: Option<u16>, followers: &[u16]) -> Named {
    let version = Version::parse("10.11.6-MariaDB").expect("a version");
    let replica = |of: u16| Replica {
        primary_host: "h".to_owned(),
        primary_port: of,
        by_gtid: true,
        io: Thread::Running,
        sql: Thread::Running,
        io_error: None,
        sql_error: None,
        received: String::new(),
    };
    let follows: Vec<Upstream> = of
        .into_iter()
        .map(|of| Upstream {
            channel: String::new(),
            replica: replica(of),
            server_id: of.into(),
            uuid: None,
            filters: Vec::new(),
            delay_s: 0,
        })
        .collect();
    let follower = |&port: &u16| Follower {
        server_id: port.into(),
        host: "h".to_owned(),
        port,
    };
    Named {
        host: "h".to_owned(),
        port,
        place: Place {
            observation: Observation {
                version: version.text.clone(),
                server_id: port.into(),
                read_only: of.is_some(),
                replica: of.map(replica),
                ..observation()
            },
            version,
            account: "'heddle'@'%'".to_owned(),
            follows,
            followers: Some(followers.iter().map(follower).collect()),
            readers: Vec::new(),
            acknowledges: Some(true),
            cluster: None,
            heartbeats: Vec::new(),
        },
    }
}

fn errors(named: &[Named], without: &[u64]) -> Vec<String> {
    let without = without.iter().copied().collect();
    let all = judge(named, 0, &without, "own");
    let errors = all.into_iter().filter(|it| it.kind == Kind::Error);
    errors
        .map(|it| format!("{} {}", it.server, it.text))
        .collect()
}

/// What one error says, and that there is no other.
#[track_caller]
fn one_error(named: &[Named], words: &str) -> Finding {
    let all = judge(named, 0, &BTreeSet::new(), "own");
    let mut errors = all.into_iter().filter(|it| it.kind == Kind::Error);
    let error = errors.next().expect(words);
    assert!(error.text.contains(words), "{error:?}");
    assert_eq!(errors.next(), None);
    error
}

#[test]
fn a_primary_with_its_replicas_has_nothing_against_it() {
    let setup = [
        named(1, None, &[2, 3]),
        named(2, Some(1), &[]),
        named(3, Some(1), &[]),
    ];
    assert_eq!(head(&setup), Head::Primary(0));
    assert_eq!(errors(&setup, &[]), Vec::<String>::new());
    let asked_at_a_replica = [named(2, Some(1), &[]), named(1, None, &[2])];
    assert_eq!(head(&asked_at_a_replica), Head::Primary(1));
}

#[test]
fn who_was_not_named_is_told_and_stays_out_only_by_word() {
    let setup = [named(1, None, &[2, 3]), named(2, Some(1), &[])];
    let error = one_error(&setup, "followed by h:3 (server_id 3)");
    assert!(error.text.contains("--without=3"));
    assert_eq!(errors(&setup, &[3]), Vec::<String>::new());
    let hidden = [named(1, None, &[2])];
    let Head::None(why) = head(&[named(2, Some(1), &[])]) else {
        panic!("its primary was not named");
    };
    assert!(why.text.contains("follows h:1"), "{why:?}");
    one_error(&hidden, "--servers");
}

#[test]
fn chains_and_circles() {
    let chain = [
        named(1, None, &[2]),
        named(2, Some(1), &[3]),
        named(3, Some(2), &[]),
    ];
    let found = errors(&chain, &[]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].contains("server_id 3 follows it: a chain"),
        "{found:?}"
    );
    assert!(
        found[1].contains("follows h:2 and not the primary h:1"),
        "{found:?}"
    );
    let circle = [named(1, Some(2), &[2]), named(2, Some(1), &[1])];
    let Head::None(why) = head(&circle) else {
        panic!("nobody leads");
    };
    assert!(why.text.contains("h:1, h:2 follow each other in a circle"));
    assert_eq!(why.cure, "STOP SLAVE; RESET SLAVE ALL");
}

#[test]
fn what_no_group_bears() {
    let with = |change: &dyn Fn(&mut Named)| {
        let mut setup = vec![named(1, None, &[2]), named(2, Some(1), &[])];
        change(&mut setup[1]);
        setup
    };
    let other_engine = with(&|it| {
        it.place.version = Version::parse("8.0.45").expect("a version");
    });
    one_error(&other_engine, "GTIDs differ");
    let stopped = with(&|it| it.place.follows[0].replica.sql = Thread::Stopped);
    assert_eq!(one_error(&stopped, "does not run").cure, "START SLAVE");
    let filtered = with(&|it| it.place.follows[0].filters = vec!["replicate_do_db=a".to_owned()]);
    one_error(&filtered, "replicate_do_db=a");
    let channel = with(&|it| it.place.follows[0].channel = "x".to_owned());
    one_error(&channel, "named connection");
    let twice = with(&|it| it.place.follows.push(it.place.follows[0].clone()));
    one_error(&twice, "several servers");
    let alone = with(&|it| it.place.follows.clear());
    one_error(&alone, "follows nobody");
    let blind = with(&|it| it.place.followers = None);
    assert!(
        one_error(&blind, "may not ask")
            .cure
            .ends_with("TO 'heddle'@'%'")
    );
    let cluster = with(&|it| it.place.cluster = Some("a Galera cluster"));
    one_error(&cluster, "Galera");
    let mut closed = with(&|_| {});
    closed[0].place.observation.read_only = true;
    assert_eq!(
        one_error(&closed, "read-only").cure,
        "SET GLOBAL read_only=0"
    );
}

#[test]
fn another_farms_servers() {
    let mut setup = vec![named(1, None, &[])];
    setup[0].place.heartbeats = vec![("own:3".to_owned(), 1), ("other".to_owned(), 2)];
    one_error(&setup, "router of farm other wrote its heartbeat 2 s ago");
    setup[0].place.heartbeats = vec![("other:1".to_owned(), 86_400)];
    assert_eq!(
        errors(&setup, &[]),
        Vec::<String>::new(),
        "that one is gone"
    );
}
