//! The spans of transactions over two groups: what Heddle itself sends for their branches is told with the statement for
//! which it is sent.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use statistics::{Stage as Of, Traced, trace_queue};
use testkit::{Release, Two};

/// For what a core does behind an answer.
const SOON: Duration = Duration::from_secs(30);

/// The next statement that begins so, and the commands of Heddle's own among its parts: the words, and the group. Those
/// of one moment come in any order.
#[track_caller]
fn commands(traced: &Receiver<Traced>, begin: &str) -> Vec<(&'static str, String)> {
    let statement = loop {
        let next = traced.recv_timeout(SOON).expect("a traced statement");
        if next.text.starts_with(begin) {
            break next;
        }
    };
    let mut all = Vec::new();
    for span in &statement.spans {
        assert!(
            statement.began_ns <= span.began_ns && span.ended_ns <= statement.ended_ns,
            "{statement:?}"
        );
        if let Of::Command(name) = span.stage {
            let peer = span.peer.clone().expect("it was sent to a server");
            assert_eq!(span.failed, None, "{statement:?}");
            all.push((name, peer.group));
        }
    }
    all
}

/// Two groups on either engine, one farm after the other, with spans of every statement.
fn traced_farms() -> impl Iterator<Item = (Two, Receiver<Traced>)> {
    let releases = [Release::Installed, Release::newest_mysql()];
    releases.into_iter().filter_map(|release| {
        let (queue, traced) = trace_queue();
        let two = Two::start_with(release, |tuning| {
            tuning.traces = Some(queue);
            tuning.counting.trace_one_in = 1;
        })?;
        Some((two, traced))
    })
}

fn is(told: &[(&'static str, String)], expected: &[(&str, &str)]) {
    let told: Vec<_> = told.iter().map(|(name, group)| (*name, &**group)).collect();
    assert_eq!(told, expected);
}

#[test]
fn branches_are_told_from_their_beginning_to_their_end() {
    for (two, traced) in traced_farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        is(&commands(&traced, "INSERT INTO one"), &[]);
        is(&commands(&traced, "INSERT INTO two"), &[("XA START", "g2")]);
        client.run("COMMIT");
        let committed = [("XA PREPARE", "g2"), ("COMMIT", "g1"), ("XA COMMIT", "g2")];
        is(&commands(&traced, "COMMIT"), &committed);

        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (3, 0)");
        client.run("INSERT INTO two.t VALUES (4, 0)");
        client.run("ROLLBACK");
        let mut undone = commands(&traced, "ROLLBACK");
        undone.sort();
        is(&undone, &[("ROLLBACK", "g1"), ("XA ROLLBACK", "g2")]);

        // One group ends its transaction itself.
        client.run("BEGIN");
        client.run("INSERT INTO one.t VALUES (5, 0)");
        client.run("COMMIT");
        is(&commands(&traced, "COMMIT"), &[]);
        two.clean();
    }
}

#[test]
fn so_are_those_of_a_clients_own_xa_transaction() {
    for (two, traced) in traced_farms() {
        let mut client = two.client();
        client.run("XA START 'mine'");
        client.run("INSERT INTO one.t VALUES (1, 0)");
        client.run("INSERT INTO two.t VALUES (2, 0)");
        client.run("XA END 'mine'");
        client.run("XA PREPARE 'mine'");
        let mut prepared = commands(&traced, "XA PREPARE");
        prepared.sort();
        is(&prepared, &[("XA PREPARE", "g1"), ("XA PREPARE", "g2")]);
        client.run("XA COMMIT 'mine'");
        let mut committed = commands(&traced, "XA COMMIT");
        committed.sort();
        is(&committed, &[("XA COMMIT", "g1"), ("XA COMMIT", "g2")]);
        assert_eq!(two.ids(), ["1", "2"]);
        two.clean();
    }
}
