//! The SQL door: query attributes, which MySQL has since 8.0.23.
//!
//! The primary is a real MySQL 8.0.12 behind a peer that makes it look like a later one: it offers
//! attributes, notes those that come, and takes them off. The replica has none of this.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::handshake::Greeting;
use mysql_wire::packet::{self, HEADER_BYTES, Header};
use mysql_wire::query::{NO_ATTRIBUTES, Query};
use mysql_wire::statement::Execute;
use testkit::client::{Failure, Login, Reply};
use testkit::{Client, Door, Release, Stage};

/// Attributes in the order in which they came, without those of texts that have none.
type Notes = Arc<Mutex<Vec<Vec<u8>>>>;

/// Starts the peer in front of `server`; it ends with the process.
fn peer(server: SocketAddr) -> (u16, Notes) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    let notes = Notes::default();
    let all = notes.clone();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(server).expect("the server is there");
            let (mut down, mut up) = (
                client.try_clone().expect("a handle"),
                server.try_clone().expect("a handle"),
            );
            let notes = all.clone();
            std::thread::spawn(move || answers(server, &mut down));
            std::thread::spawn(move || requests(client, &mut up, &notes));
        }
    });
    (port, notes)
}

fn packet(from: &mut TcpStream) -> Option<(Header, Vec<u8>)> {
    let mut start = [0; HEADER_BYTES];
    from.read_exact(&mut start).ok()?;
    let header = Header::parse(&start)?;
    let mut payload = vec![0; header.payload_bytes];
    from.read_exact(&mut payload).ok()?;
    Some((header, payload))
}

fn put(to: &mut TcpStream, sequence: u8, payload: &[u8]) -> Option<()> {
    let (mut out, mut sequence) = (Vec::new(), sequence);
    packet::write(&mut out, &mut sequence, payload);
    to.write_all(&out).ok()
}

/// From the server: its greeting offers attributes.
fn answers(mut server: TcpStream, client: &mut TcpStream) -> Option<()> {
    let (_, payload) = packet(&mut server)?;
    let mut greeting = Greeting::decode(&payload).expect("a greeting");
    greeting.version = "8.0.36";
    greeting.capabilities |= Capabilities::QUERY_ATTRIBUTES;
    let mut changed = Vec::new();
    greeting.encode(&mut changed);
    put(client, 0, &changed)?;
    std::io::copy(&mut server, client).ok()?;
    client.shutdown(std::net::Shutdown::Both).ok()
}

/// From the client: attributes are noted and taken off. Statements have one parameter.
fn requests(mut client: TcpStream, server: &mut TcpStream, notes: &Notes) -> Option<()> {
    let (_, mut login) = packet(&mut client)?;
    let asked = u32::from_le_bytes(*login.first_chunk()?);
    let bit = Capabilities::QUERY_ATTRIBUTES.low();
    login[..4].copy_from_slice(&(asked & !bit).to_le_bytes());
    put(server, 1, &login)?;
    while let Some((header, payload)) = packet(&mut client) {
        let mut plain = payload.clone();
        let named = asked & bit != 0 && header.sequence == 0;
        if named && payload[0] == Command::Query as u8 {
            let query = Query::decode(&payload[1..]).expect("attributes");
            if query.attributes != NO_ATTRIBUTES {
                notes.lock().ok()?.push(query.attributes.to_vec());
            }
            plain = [&payload[..1], query.text].concat();
        } else if named && payload[0] == Command::StmtExecute as u8 {
            let execute = Execute::decode(&payload[1..], 1, true).expect("an execution");
            if execute.params > 1 {
                notes.lock().ok()?.push(execute.types.to_vec());
            }
            plain.truncate(1);
            execute
                .encode_plain(1, b"", false, &mut plain)
                .expect("types");
        }
        put(server, header.sequence, &plain)?;
    }
    server.shutdown(std::net::Shutdown::Both).ok()
}

fn stage() -> Option<(Stage, Door, Notes)> {
    let stage = Stage::start_with(Release::MySql80)?;
    let (port, notes) = peer(stage.primary.address());
    let door = stage.door();
    door.change(0, |server| server.port = port);
    Some((stage, door, notes))
}

fn login() -> Login<'static> {
    let usual = Login::default();
    Login {
        database: Some("stage"),
        capabilities: usual.capabilities | Capabilities::QUERY_ATTRIBUTES,
        ..usual
    }
}

/// «trace» = "id" as a string.
const TRACE: &[u8] = b"\x01\x01\0\x01\xFE\0\x05trace\x02id";

fn query(client: &mut Client, attributes: &[u8], sql: &str) -> Result<Vec<Reply>, Failure> {
    client.send_command(Command::Query, &[attributes, sql.as_bytes()].concat())?;
    client.read_results(false)
}

#[track_caller]
fn value(client: &mut Client, attributes: &[u8], sql: &str) -> String {
    match query(client, attributes, sql).expect(sql).remove(0) {
        Reply::Rows(rows) => rows.text()[0][0].clone().expect("a value"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn attributes_reach_the_servers_that_take_them() {
    let Some((_stage, door, notes)) = stage() else {
        return;
    };
    let mut client = door.login(&login()).expect("root");
    assert!(client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES));
    assert_eq!(client.version, "8.0.36");
    let noted = || std::mem::take(&mut *notes.lock().expect("not poisoned"));
    let who = "SELECT name FROM who";
    // To the replica, without them.
    assert_eq!(value(&mut client, TRACE, who), "replica");
    assert_eq!(value(&mut client, &NO_ATTRIBUTES, who), "replica");
    assert!(noted().is_empty());
    // To the primary, with them.
    let first = "/*ms=master*/ SELECT name FROM who";
    assert_eq!(value(&mut client, TRACE, first), "primary");
    assert_eq!(noted(), [TRACE]);
    assert_eq!(value(&mut client, &NO_ATTRIBUTES, first), "primary");
    assert!(noted().is_empty());
    query(&mut client, TRACE, "SET SESSION sql_mode = 'ANSI_QUOTES'").expect("set");
    query(&mut client, TRACE, "BEGIN").expect("begun");
    assert_eq!(
        value(&mut client, TRACE, "SELECT \"name\" FROM who"),
        "primary"
    );
    query(&mut client, TRACE, "ROLLBACK").expect("rolled back");
    assert_eq!(noted().len(), 4);
    // What Heddle answers by itself.
    assert_eq!(
        value(&mut client, TRACE, "SELECT CONNECTION_ID()"),
        client.connection_id.to_string()
    );
    let broken = query(&mut client, b"\x05\x01", "SELECT 1").expect_err("malformed");
    assert_eq!(broken.number(), 1835);
    client.ping().expect("the session goes on");
    let mut plain = door.client_in("stage");
    assert_eq!(plain.value(first), "primary");
    assert_eq!(plain.value(who), "replica");
}

#[test]
fn executions_have_attributes_too() {
    let Some((_stage, door, notes)) = stage() else {
        return;
    };
    let mut client = door.login(&login()).expect("root");
    for (hint, who) in [("", "replica"), ("/*ms=master*/ ", "primary")] {
        let sql = format!("{hint}SELECT name FROM who WHERE ? = 7");
        let statement = client.prepare(&sql).expect("prepared");
        let id = statement.id.to_le_bytes();
        // One parameter, a LONGLONG; then the same and an attribute.
        let plain = b"\0\x01\0\0\0\x01\0\x01\x08\0\0\x07\0\0\0\0\0\0\0";
        let traced = b"\x08\x01\0\0\0\x02\0\x01\x08\0\0\xFE\0\x05trace\x07\0\0\0\0\0\0\0\x02id";
        for body in [&plain[..], &traced[..], &plain[..]] {
            client
                .send_command(Command::StmtExecute, &[&id[..], body].concat())
                .expect("sent");
            let replies = client.read_results(true).expect("a row");
            assert!(format!("{replies:?}").contains(&format!("{:?}", who.as_bytes())));
        }
        client.close(statement).expect("sent");
    }
    assert_eq!(notes.lock().expect("not poisoned").len(), 1);
}
