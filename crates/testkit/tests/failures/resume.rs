//! The SQL door when a server dies in the middle of a result: the read goes on elsewhere, or says that
//! it cannot.

use std::time::Duration;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use session::Fault;
use testkit::client::{Failure, Login, Reply};
use testkit::{Client, Door, Server, Stage, wait_until};

const PATIENCE: Duration = Duration::from_secs(20);

/// More than the buffers between server and client hold.
const ROWS: u32 = 40_000;
const READ: &str = "SELECT a, b FROM resume.t ORDER BY a";

/// A stage whose servers have the same large table.
fn stage() -> Option<Stage> {
    let stage = Stage::start()?;
    stage.database("resume");
    stage.everywhere("CREATE TABLE resume.t (a INT PRIMARY KEY, b VARCHAR(2000))");
    // Compressed, it is still large.
    let digests: Vec<String> = (0..8)
        .map(|at| format!("SHA2(seq * 8 + {at}, 512)"))
        .collect();
    stage.everywhere(&format!(
        "INSERT INTO resume.t SELECT seq, CONCAT({}) FROM resume.seq_1_to_{ROWS}",
        digests.join(", ")
    ));
    Some(stage)
}

fn door(stage: &Stage) -> Door {
    stage.door_with(|tuning| tuning.settings.failover_wait_ms = 60_000)
}

/// Has the client ask, and waits until the result cannot get on because nobody reads it.
fn begin(door: &Door, client: &mut Client, ask: impl FnOnce(&mut Client)) {
    ask(client);
    wait_until(PATIENCE, "the result is under way", || {
        door.counter("pool_in_use") == 1
    });
    let packet = client.read_packet().expect("the number of columns");
    assert_eq!(packet, [2]);
}

/// Reads the rest of the result: the number of its rows.
fn rest(client: &mut Client) -> Result<usize, Failure> {
    let ends = !client.capabilities.contains(Capabilities::DEPRECATE_EOF);
    for _ in 0..2 + usize::from(ends) {
        client.read_packet()?;
    }
    let mut rows = 0;
    loop {
        let packet = client.read_packet()?;
        match packet.first() {
            Some(0xFF) => return Err(client.server_failure(&packet)),
            Some(0xFE) => return Ok(rows),
            _ => rows += 1,
        }
    }
}

fn query(client: &mut Client) {
    client
        .send_command(Command::Query, READ.as_bytes())
        .expect("sent");
}

fn direct(server: &Server) -> Vec<Vec<Option<String>>> {
    server.client().rows(READ)
}

#[test]
fn a_read_goes_on_where_the_rows_are_the_same() {
    let Some(mut stage) = stage() else { return };
    let door = door(&stage);
    let mut client = door.client();
    let whole = direct(&stage.primary);
    assert_eq!(whole.len(), ROWS as usize);
    query(&mut client);
    // A statement of which no client has anything would run again, and not go on.
    client.wait_for_answer().expect("the first rows");
    stage.replica.kill();
    let replies = client.read_results(false).expect("it goes on");
    let [Reply::Rows(rows)] = &replies[..] else {
        panic!("one result");
    };
    assert!(rows.text() == whole, "the same rows");
    assert_eq!(door.counter("reads_resumed"), 1);
    assert_eq!(door.counter("reads_resumed_in_vain"), 0);
    assert!(
        door.suspects()
            .iter()
            .any(|(_, fault)| *fault == Fault::Reset)
    );
    assert_eq!(client.value("SELECT 1"), "1");
    drop(client);
    door.wait_unused();
}

#[test]
fn a_primary_that_is_cut_lets_a_compressed_read_go_on() {
    let Some(mut stage) = stage() else { return };
    let door = door(&stage);
    let login = Login {
        compress: Some(channel::Algorithm::Zlib),
        ..Login::default()
    };
    let mut client = door.login(&login).expect("compressed");
    begin(&door, &mut client, |client| {
        let text = format!("/*ms=master*/ {READ}");
        client
            .send_command(Command::Query, text.as_bytes())
            .expect("sent");
    });
    stage.primary.freeze();
    door.cut(0);
    let reader = std::thread::spawn(move || {
        let rows = rest(&mut client).expect("it goes on");
        (rows, client)
    });
    wait_until(PATIENCE, "it waits", || {
        door.counter("statements_held_now") == 1
    });
    door.promote(1);
    let (rows, mut client) = reader.join().expect("no panic");
    assert_eq!(rows, ROWS as usize);
    assert_eq!(door.counter("reads_resumed"), 1);
    stage.primary.thaw();
    assert_eq!(
        client.value("/*ms=master*/ SELECT name FROM stage.who"),
        "replica"
    );
}

#[test]
fn an_execution_goes_on_too() {
    let Some(mut stage) = stage() else { return };
    let door = door(&stage);
    let mut client = door.client();
    let statement = client
        .prepare("SELECT a, b FROM resume.t WHERE a > ? ORDER BY a")
        .expect("ok");
    begin(&door, &mut client, |client| {
        client
            .send_execute(statement.id, 0, &[0.into()])
            .expect("sent");
    });
    stage.replica.kill();
    assert_eq!(rest(&mut client).expect("it goes on"), ROWS as usize);
    assert_eq!(door.counter("reads_resumed"), 1);
}

#[test]
fn other_rows_are_an_error_and_never_mixed() {
    let Some(mut stage) = stage() else { return };
    // Before what the client has when its server dies.
    let mut direct = stage.primary.client();
    direct.run("UPDATE resume.t SET b = REPLACE(b, 'a', 'b') WHERE a = 10");
    let door = door(&stage);
    let mut client = door.client();
    begin(&door, &mut client, query);
    stage.replica.kill();
    match rest(&mut client) {
        Err(Failure::Server { number, .. }) => assert_eq!(number, 1158),
        // In the middle of a row nothing can be said.
        Err(_) => assert_eq!(door.counter("results_torn"), 1),
        Ok(rows) => panic!("{rows} rows of two tables"),
    }
    assert_eq!(door.counter("reads_resumed_in_vain"), 1);
    drop(client);
    door.wait_unused();
}

#[test]
fn in_a_transaction_nothing_is_read_twice() {
    let Some(mut stage) = stage() else { return };
    let door = door(&stage);
    let mut client = door.client();
    client.run("BEGIN");
    begin(&door, &mut client, query);
    stage.primary.kill();
    assert!(rest(&mut client).is_err());
    assert_eq!(door.counter("reads_resumed"), 0);
}
