//! Statements that are traced: which are, and the spans that each hands over.

use std::sync::mpsc::Receiver;
use std::time::Duration;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::query::NO_ATTRIBUTES;
use statistics::{Door as StatementDoor, Failed, Kind, Span, Stage as Of, Traced, trace_queue};
use testkit::client::Login;
use testkit::{Door, Release, Stage, wait_until};

/// For what a core does behind an answer, and for what must come.
const SOON: Duration = Duration::from_secs(30);

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A client's word about a trace, with these flags.
fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn tracing(stage: &Stage, one_in: u64) -> (Door, Receiver<Traced>) {
    let (queue, traced) = trace_queue();
    let door = stage.door_with(|tuning| {
        tuning.traces = Some(queue);
        tuning.counting.trace_one_in = one_in;
        tuning.settings.failover_wait_ms = 60_000;
    });
    (door, traced)
}

#[track_caller]
fn next(traced: &Receiver<Traced>) -> Traced {
    traced.recv_timeout(SOON).expect("a traced statement")
}

fn stages(traced: &Traced) -> Vec<Of> {
    traced.spans.iter().map(|span| span.stage).collect()
}

/// Every part lies within the statement, or within the part that it belongs to.
#[track_caller]
fn is_in_order(traced: &Traced) {
    for span in &traced.spans {
        let (began, ended) = match span.within {
            Some(at) => (traced.spans[at].began_ns, traced.spans[at].ended_ns),
            None => (traced.began_ns, traced.ended_ns),
        };
        assert!(
            began <= span.began_ns && span.began_ns <= span.ended_ns && span.ended_ns <= ended,
            "{traced:?}"
        );
    }
}

fn port(span: &Span) -> Option<u16> {
    span.peer.as_ref().map(|peer| peer.port)
}

#[test]
fn a_clients_trace_goes_on_in_spans() {
    for stage in &Stage::of_both_engines() {
        let (door, traced) = tracing(stage, 0);
        let mut client = door.client_in("stage");
        client.rows("SELECT name FROM who");
        client.rows(&format!(
            "SELECT name FROM who /*traceparent='{}'*/",
            traceparent("00")
        ));
        client.rows(&format!(
            "/*ms=master*/ SELECT name, 4711 FROM who /*route='/a',traceparent='{}'*/",
            traceparent("01")
        ));
        let first = next(&traced);
        is_in_order(&first);
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        assert_eq!(hex(&first.context.trace), TRACE);
        assert_eq!(
            first.context.parent.map(|it| hex(&it)),
            Some(PARENT.to_owned())
        );
        assert_eq!(stages(&first), [Of::Connection, Of::Server]);
        let primary = stage.primary.address().port();
        assert_eq!([0, 1].map(|at| port(&first.spans[at])), [Some(primary); 2]);
        let engine = stage.primary.engine().name();
        let peer = first.spans[1].peer.clone().expect("it ran there");
        assert_eq!((peer.engine, &*peer.group), (engine, "g1"));
        assert_eq!(
            (first.spans[1].rows, first.spans[1].failed),
            (Some(1), None)
        );
        assert_eq!((&*first.tag, &*first.database), ("route=/a", "stage"));
        assert_eq!(first.text, "/*ms=master*/ SELECT name, ? FROM who");

        let failing = format!(
            "SELECT nothing FROM who /*traceparent='{}'*/",
            traceparent("01")
        );
        let error = client.error(&failing);
        let second = next(&traced);
        assert_eq!(second.call.error, Some(error));
        let last = second.spans.last().expect("it was sent");
        assert_eq!(
            (last.stage, last.failed),
            (Of::Server, Some(Failed::Error(error)))
        );
        wait_until(SOON, "it is counted", || {
            door.counter("statements_traced") == 2
        });
        assert!(traced.try_recv().is_err(), "nobody asked for more");
    }
}

#[test]
fn one_of_so_many_is_traced_while_digests_are_on() {
    let Some(stage) = Stage::shared() else { return };
    let (door, traced) = tracing(&stage, 1);
    let mut client = door.client();
    client.rows("SELECT name FROM stage.who");
    assert_eq!(next(&traced).context.parent, None);
    let statement = client
        .prepare("SELECT name FROM stage.who WHERE ? = 7")
        .expect("prepared");
    assert!(next(&traced).prepares);
    client.execute(&statement, &[7.into()]).expect("executed");
    let executed = next(&traced);
    assert_eq!(executed.text, "SELECT name FROM stage.who WHERE ? = ?");
    let texts = [
        "SELECT 1 FROM stage.who",
        "SELECT 2, 3 FROM stage.who",
        "SELECT nothing FROM stage.who",
    ];
    client.pipelined(&texts);
    let all: Vec<Traced> = texts.iter().map(|_| next(&traced)).collect();
    for pipelined in &all {
        is_in_order(pipelined);
        let server = pipelined.spans.last().expect("it was sent");
        assert_eq!(
            (server.stage, port(server)),
            (Of::Server, port(&all[0].spans[0])),
            "{all:?}"
        );
    }
    assert!(all[1].call.error.is_none() && all[2].call.error.is_some());
    door.tune(|in_force| in_force.counting.trace_one_in = 0);
    client.rows("SELECT 'a' FROM stage.who");
    door.tune(|in_force| {
        in_force.counting.trace_one_in = 1;
        in_force.counting.on = false;
    });
    client.rows("SELECT 'a', 'b' FROM stage.who");
    door.tune(|in_force| in_force.counting.on = true);
    client.rows("SELECT 'a', 'b', 'c' FROM stage.who");
    assert_eq!(next(&traced).text, "SELECT ?, ?, ? FROM stage.who");
}

#[test]
fn a_statement_that_waited_for_a_primary_says_so() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("traced_hold");
    stage.everywhere("CREATE TABLE traced_hold.t (a INT)");
    let (door, traced) = tracing(&stage, 0);
    let mut client = door.client_in("traced_hold");
    let insert = format!(
        "INSERT INTO t VALUES (4711) /*traceparent='{}'*/",
        traceparent("01")
    );
    door.cut(0);
    let writing = std::thread::spawn(move || client.run(&insert).affected_rows);
    wait_until(SOON, "the write waits", || {
        door.counter("statements_held_now") == 1
    });
    door.promote(1);
    assert_eq!(writing.join().expect("answered"), 1);
    let held = next(&traced);
    is_in_order(&held);
    let stages = stages(&held);
    let wait = stages
        .iter()
        .position(|it| *it == Of::Primary)
        .expect("it waited");
    assert_eq!(stages[wait + 1..], [Of::Connection, Of::Server], "{held:?}");
    let server = held.spans.last().expect("it was sent");
    assert_eq!(port(server), Some(stage.replica.address().port()));
    let waited_ns = held.spans[wait].ended_ns - held.spans[wait].began_ns;
    assert!(
        waited_ns / 1000 <= held.call.waiting_us && waited_ns > 0,
        "{held:?}"
    );
}

#[test]
fn query_attributes_carry_a_trace() {
    let Some(stage) = Stage::start_with(Release::newest_mysql()) else {
        return;
    };
    let (door, traced) = tracing(&stage, 0);
    let usual = Login::default();
    let login = Login {
        database: Some("stage"),
        capabilities: usual.capabilities | Capabilities::QUERY_ATTRIBUTES,
        ..usual
    };
    let mut client = door.login(&login).expect("root");
    if !client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES) {
        // An older MySQL.
        return;
    }
    let value = traceparent("01");
    // One attribute «traceparent», a string.
    let mut attribute = b"\x01\x01\0\x01\xFE\0\x0Btraceparent".to_vec();
    attribute.push(u8::try_from(value.len()).expect("it is short"));
    attribute.extend_from_slice(value.as_bytes());
    for attributes in [&NO_ATTRIBUTES[..], &attribute, &NO_ATTRIBUTES] {
        let query = [attributes, b"SELECT name FROM who"].concat();
        client.send_command(Command::Query, &query).expect("sent");
        client.read_results(false).expect("a row");
    }
    assert!(next(&traced).context.parent.is_some());
    assert!(traced.try_recv().is_err());

    let statement = client
        .prepare("SELECT name FROM who WHERE ? = 7")
        .expect("prepared");
    // One parameter, a LONGLONG, and the attribute.
    let mut body = statement.id.to_le_bytes().to_vec();
    body.extend_from_slice(b"\x08\x01\0\0\0\x02\0\x01\x08\0\0\xFE\0\x0Btraceparent");
    body.extend_from_slice(b"\x07\0\0\0\0\0\0\0");
    body.push(u8::try_from(value.len()).expect("it is short"));
    body.extend_from_slice(value.as_bytes());
    client
        .send_command(Command::StmtExecute, &body)
        .expect("sent");
    client.read_results(true).expect("a row");
    let executed = next(&traced);
    assert_eq!(executed.context.parent.map(|it| it[1]), Some(0xF0));

    // «route», beside a context in a comment.
    let mut query = b"\x01\x01\0\x01\xFE\0\x05route\x02/a".to_vec();
    let text = format!("SELECT name FROM who /*traceparent='{value}'*/");
    query.extend_from_slice(text.as_bytes());
    client.send_command(Command::Query, &query).expect("sent");
    client.read_results(false).expect("a row");
    assert_eq!(next(&traced).tag, "route=/a");
}

#[test]
fn what_is_prepared_has_a_span_and_counts_nowhere() {
    for stage in &Stage::of_both_engines() {
        let (door, traced) = tracing(stage, 0);
        let mut client = door.client_in("stage");
        let plain = client.prepare("SELECT name FROM who WHERE ? = 1");
        let traced_text = format!(
            "SELECT name FROM who WHERE ? = 2 /*route='/p',traceparent='{}'*/",
            traceparent("01")
        );
        let statement = client.prepare(&traced_text).expect("prepared");
        let prepared = next(&traced);
        is_in_order(&prepared);
        assert!(prepared.prepares && prepared.call.error.is_none());
        assert_eq!(stages(&prepared), [Of::Connection, Of::Server]);
        assert_eq!(prepared.text, "SELECT name FROM who WHERE ? = ?");
        assert_eq!(prepared.tag, "route=/p");
        client.execute(&statement, &[2.into()]).expect("executed");
        let executed = next(&traced);
        assert!(!executed.prepares);
        assert_eq!(executed.context.trace, prepared.context.trace);
        assert_ne!(executed.context.span, prepared.context.span);
        assert_eq!(executed.digest, prepared.digest);

        let wrong = format!(
            "SELECT nothing FROM who /*traceparent='{}'*/",
            traceparent("01")
        );
        client.prepare(&wrong).expect_err("there is no such column");
        let failed = next(&traced);
        assert!(failed.prepares && failed.call.error.is_some(), "{failed:?}");
        drop(plain);
        let measured = door.measured();
        let reads = measured.latency(Kind::Read, StatementDoor::Sql, "g1");
        assert_eq!(reads.times.iter().sum::<u64>(), 1, "the execution alone");
        let exemplar = measured
            .exemplars
            .within((Kind::Read, StatementDoor::Sql, "g1"), 0, None);
        assert_eq!(exemplar.map(|it| it.trace), Some(executed.context.trace));
    }
}

#[test]
fn attributes_say_where_a_statement_comes_from() {
    let Some(stage) = Stage::shared() else { return };
    let (door, traced) = tracing(&stage, 1);
    let login = Login {
        attributes: &[("_os", "Linux"), ("program_name", "night's job")],
        ..Login::default()
    };
    let mut client = door.login(&login).expect("root");
    client.rows("SELECT name FROM stage.who");
    assert_eq!(next(&traced).tag, "program_name=nights job");
    client.rows("SELECT name FROM stage.who /*route='/b'*/");
    assert_eq!(next(&traced).tag, "route=/b");
}
