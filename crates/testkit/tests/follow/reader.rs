//! A reader of binlogs that speaks the protocol itself, and sees each packet.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use farm::{Engine, Position};
use mysql_wire::command::Command;
use testkit::client::Failure;
use testkit::{Client, Release};

/// So readers are known: a server ends one whose number comes again.
fn next_id() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(100_000);
    LAST.fetch_add(1, Ordering::Relaxed)
}

/// What a replica says before it asks for the stream, besides its position.
const PREPARED: &str = "SET @master_binlog_checksum = @@global.binlog_checksum, \
                        @mariadb_slave_capability = 4, @slave_uuid = UUID()";

pub fn engine_of(release: Release) -> Engine {
    match release {
        Release::Installed | Release::MariaDb114 => Engine::MariaDb,
        Release::MySql80 | Release::MySqlNewer => Engine::MySql,
    }
}

/// What the server has executed: where a reader begins that wants what comes.
pub fn position(client: &mut Client, engine: Engine) -> String {
    match engine {
        Engine::MariaDb => client.value("SELECT @@global.gtid_binlog_pos"),
        Engine::MySql => client
            .value("SELECT @@global.gtid_executed")
            .replace('\n', ""),
    }
}

/// Prepares a stream that waits for what will be written, and asks for it.
pub fn begin(client: &mut Client, engine: Engine, from: &str) {
    client.run(PREPARED);
    if engine == Engine::MariaDb {
        client.run(&format!("SET @slave_connect_state = '{from}'"));
    }
    ask(client, engine, from);
}

/// Asks for the stream alone.
pub fn ask(client: &mut Client, engine: Engine, from: &str) {
    if engine == Engine::MariaDb {
        let mut payload = 4u32.to_le_bytes().to_vec();
        payload.extend_from_slice(&0u16.to_le_bytes());
        payload.extend_from_slice(&next_id().to_le_bytes());
        return client
            .send_command(Command::BinlogDump, &payload)
            .expect("sent");
    }
    let gtids = encoded(from);
    let mut payload = 0u16.to_le_bytes().to_vec();
    payload.extend_from_slice(&next_id().to_le_bytes());
    payload.extend_from_slice(&0u32.to_le_bytes());
    payload.extend_from_slice(&4u64.to_le_bytes());
    payload.extend_from_slice(&(gtids.len() as u32).to_le_bytes());
    payload.extend_from_slice(&gtids);
    client
        .send_command(Command::BinlogDumpGtid, &payload)
        .expect("sent");
}

/// A set of GTIDs as MySQL's protocol has it.
fn encoded(text: &str) -> Vec<u8> {
    let Some(Position::MySql(sources)) = Position::parse(Engine::MySql, text) else {
        panic!("{text}");
    };
    let mut out = (sources.len() as u64).to_le_bytes().to_vec();
    for (uuid, intervals) in &sources {
        let digits: String = uuid.split('-').collect();
        let pairs = (0..16).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16));
        out.extend(pairs.map(|byte| byte.expect("a UUID")));
        out.extend((intervals.len() as u64).to_le_bytes());
        for (from, to) in intervals {
            out.extend(from.to_le_bytes());
            out.extend((to + 1).to_le_bytes());
        }
    }
    out
}

/// A stream of what is written at this address from here on.
pub fn reader(address: SocketAddr, engine: Engine) -> Client {
    let mut client = Client::connect(address, "root", "").expect("root has no password");
    let from = position(&mut client, engine);
    begin(&mut client, engine, &from);
    client
}

fn has(packet: &[u8], wanted: &str) -> bool {
    packet
        .windows(wanted.len())
        .any(|part| part == wanted.as_bytes())
}

/// Reads events until one holds this text.
#[track_caller]
pub fn read_until(client: &mut Client, wanted: &str) {
    loop {
        let packet = client.read_packet().expect("an event");
        assert_eq!(packet[0], 0, "{}", String::from_utf8_lossy(&packet));
        if has(&packet, wanted) {
            return;
        }
    }
}

/// Reads to the end, by an error or with the connection: whether an event holds this text, and the error's
/// number, 0 without one.
pub fn read_to_end(client: &mut Client, text: &str) -> (bool, u16) {
    let mut found = false;
    loop {
        match client.read_packet() {
            Ok(packet) if packet[0] == 0xFF => {
                return (found, u16::from_le_bytes([packet[1], packet[2]]));
            }
            Ok(packet) if packet[0] == 0xFE && packet.len() < 9 => return (found, 0),
            Ok(packet) => found |= has(&packet, text),
            Err(Failure::Io(_)) => return (found, 0),
            Err(failure) => panic!("{failure}"),
        }
    }
}
