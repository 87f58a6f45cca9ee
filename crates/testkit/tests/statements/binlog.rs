//! The SQL door: replicas and readers of the binlog, straight and through Heddle.

use std::process::Command as Process;
use std::time::Duration;

use mysql_wire::command::Command;
use testkit::client::{Failure, Login};
use testkit::{Client, Door, Release, Server, wait_until};

const SOON: Duration = Duration::from_secs(30);

/// The dump does not wait for what will be written.
const NON_BLOCK: u16 = 1;

/// A server with a binlog of two files, and where its content begins.
fn server(release: Release, settings: &[(&str, &str)]) -> Option<Server> {
    let server = Server::start_with(release, settings)?;
    let mut client = server.client();
    client.run("CREATE DATABASE log");
    client.run("CREATE TABLE log.t (id INT PRIMARY KEY AUTO_INCREMENT, b LONGBLOB)");
    client.run("INSERT INTO log.t (b) VALUES ('one'), (REPEAT('x', 100000))");
    client.run("FLUSH BINARY LOGS");
    client.run("INSERT INTO log.t (b) VALUES ('two')");
    Some(server)
}

/// The names of the server's binlogs.
fn logs(server: &Server) -> Vec<String> {
    let rows = server.client().rows("SHOW BINARY LOGS");
    let names = rows.into_iter().map(|mut row| row.swap_remove(0));
    names.map(|name| name.expect("a name")).collect()
}

/// COM_BINLOG_DUMP from the beginning of a file, as a reader with this id.
fn dump(client: &mut Client, file: &str, flags: u16, id: u32) {
    let mut payload = 4u32.to_le_bytes().to_vec();
    payload.extend_from_slice(&flags.to_le_bytes());
    payload.extend_from_slice(&id.to_le_bytes());
    payload.extend_from_slice(file.as_bytes());
    client
        .send_command(Command::BinlogDump, &payload)
        .expect("sent");
}

/// The packets up to the end of the stream.
fn events(client: &mut Client) -> Result<Vec<Vec<u8>>, Failure> {
    let mut events = Vec::new();
    loop {
        let packet = client.read_packet()?;
        match packet[0] {
            0 => events.push(packet),
            0xFE => return Ok(events),
            _ => panic!("{}", String::from_utf8_lossy(&packet)),
        }
    }
}

/// Reads events until one holds these bytes.
fn read_until(client: &mut Client, wanted: &[u8]) {
    loop {
        let packet = client.read_packet().expect("an event");
        assert_eq!(packet[0], 0, "{}", String::from_utf8_lossy(&packet));
        if packet.windows(wanted.len()).any(|part| part == wanted) {
            return;
        }
    }
}

/// Reads until the stream ends by an error, and gives its number.
fn error_at_end(client: &mut Client) -> u16 {
    loop {
        let packet = client.read_packet().expect("a packet");
        if let [0xFF, low, high, ..] = packet[..] {
            return u16::from_le_bytes([low, high]);
        }
    }
}

/// What MariaDB's own tool prints of these files.
fn printed(port: u16, files: &[String]) -> Option<Vec<u8>> {
    let mut command = Process::new("mariadb-binlog");
    command.args(["--no-defaults", "--read-from-remote-server", "--user=root"]);
    command.args(["--host=127.0.0.1", &format!("--port={port}"), "-vv"]);
    let output = match command.args(files).output() {
        Ok(output) => output,
        Err(error) => {
            testkit::skip(&format!("mariadb-binlog: {error}"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(output.stdout)
}

#[test]
fn mariadb_binlog_prints_the_same_through_heddle() {
    let Some(server) = server(Release::Installed, &[]) else {
        return;
    };
    let door = Door::start(&[&server], |_| {});
    let files = logs(&server);
    assert!(files.len() >= 2, "{files:?}");
    let Some(straight) = printed(server.address().port(), &files) else {
        return;
    };
    let text = String::from_utf8_lossy(&straight);
    assert!(text.contains("INSERT INTO `log`.`t`"), "{text}");
    let through = printed(door.address().port(), &files).expect("it is there");
    assert!(straight == through, "{}", String::from_utf8_lossy(&through));
    door.wait_unused();
}

#[test]
fn a_dump_that_does_not_wait_gives_the_same_packets_and_ends_the_session() {
    for release in Release::ALL {
        let Some(server) = server(release, &[]) else {
            continue;
        };
        // An event of more than one packet.
        let mut writer = server.client();
        writer.run("INSERT INTO log.t (b) VALUES (REPEAT('y', 17 << 20))");
        let door = Door::start(&[&server], |_| {});
        let files = logs(&server);
        let [straight, through] = [server.address(), door.address()].map(|address| {
            let read = |file: &String| {
                let mut client = Client::connect(address, "root", "").expect("root");
                // Checksums are only sent to who knows of them.
                client.run("SET @master_binlog_checksum = @@global.binlog_checksum");
                dump(&mut client, file, NON_BLOCK, 700);
                let events = events(&mut client).expect("the end of the log");
                assert!(client.is_closed_within(SOON), "{address}");
                events
            };
            files.iter().flat_map(read).collect::<Vec<_>>()
        });
        assert!(straight == through, "{release:?}");
        assert!(through.len() > 10);
        assert!(through.iter().any(|event| event.len() > 17 << 20));
        assert_eq!(door.counter("pins_replication"), files.len() as u64);
        door.wait_unused();
    }
}

#[test]
fn mysql_dumps_by_gtid() {
    let gtids = [("gtid_mode", "ON"), ("enforce_gtid_consistency", "ON")];
    let Some(server) = server(Release::MySql80, &gtids) else {
        return;
    };
    let door = Door::start(&[&server], |_| {});
    // No set of GTIDs: everything is wanted, from wherever it begins.
    let mut payload = NON_BLOCK.to_le_bytes().to_vec();
    payload.extend_from_slice(&701u32.to_le_bytes());
    payload.extend_from_slice(&0u32.to_le_bytes());
    payload.extend_from_slice(&4u64.to_le_bytes());
    payload.extend_from_slice(&8u32.to_le_bytes());
    payload.extend_from_slice(&0u64.to_le_bytes());
    let [straight, through] = [server.client(), door.client()].map(|mut client| {
        client.run("SET @master_binlog_checksum = 'NONE', @slave_uuid = UUID()");
        client
            .send_command(Command::BinlogDumpGtid, &payload)
            .expect("sent");
        events(&mut client).expect("the end of the logs")
    });
    assert!(straight.len() > 10 && straight == through);
}

#[test]
fn who_may_read_is_the_servers_word() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(server) = server(release, &[]) else {
            continue;
        };
        let mut root = server.client();
        let way = match release {
            Release::MySql80 => "WITH mysql_native_password ",
            _ => "",
        };
        root.run(&format!(
            "CREATE USER log_a@'%' IDENTIFIED {way}BY 'secret'"
        ));
        root.run("GRANT SELECT ON log.* TO log_a@'%'");
        let door = Door::start(&[&server], |tuning| tuning.live_accounts = true);
        let login = Login {
            user: "log_a",
            password: "secret",
            ..Login::default()
        };
        let file = &logs(&server)[0];
        let said = [server.address(), door.address()].map(|address| {
            let mut client = Client::login(address, &login).expect("logged in");
            client
                .send_command(Command::RegisterSlave, &[0; 18])
                .expect("sent");
            let failure = client.read_done().expect_err("refused");
            dump(&mut client, file, NON_BLOCK, 702);
            assert_eq!(error_at_end(&mut client), 1227);
            assert_eq!(client.value("SELECT COUNT(*) FROM log.t"), "3");
            failure.to_string()
        });
        assert_eq!(said[0], said[1]);
        assert!(said[1].contains("Access denied"), "{}", said[1]);
    }
}

#[test]
fn a_stream_ends_by_kill_and_drain_and_not_by_a_limit_for_statements() {
    let Some(server) = server(Release::Installed, &[]) else {
        return;
    };
    let door = Door::start(&[&server], |tuning| {
        tuning.settings.statement_timeout_ms = 1_500;
        tuning.settings.idle_timeout_s = 3;
    });
    let mut writer = server.client();
    let mut readers = [703, 704].map(|id| {
        let mut client = door.client();
        client.run("SET @master_binlog_checksum = @@global.binlog_checksum");
        client.run("SET @mariadb_slave_capability = 4, @slave_connect_state = ''");
        dump(&mut client, "", 0, id);
        read_until(&mut client, b"two");
        client
    });
    wait_until(SOON, "both are counted", || {
        door.counter("binlog_streams_now") == 2
    });
    // A limit that ends another statement, and one that ends an idle client, have left them alone.
    let mut idle = door.client();
    let ended = door.client().query("SELECT SLEEP(60) + 0 * @@autocommit");
    assert!(ended.is_err() || door.counter("statements_timed_out") == 1);
    assert!(idle.is_closed_within(SOON));
    writer.run("INSERT INTO log.t (b) VALUES ('three')");
    for reader in &mut readers {
        read_until(reader, b"three");
    }
    let [mut killed, mut drained] = readers;
    let mut killer = door.client();
    let list = killer.rows("SHOW PROCESSLIST");
    let own = |row: &&Vec<Option<String>>| row[0] == Some(killed.connection_id.to_string());
    let row = list.iter().find(own).expect("it is listed");
    assert_eq!(row[4].as_deref(), Some("Binlog Dump"), "{row:?}");
    killer.run(&format!("KILL {}", killed.connection_id));
    assert!(killed.is_closed_within(SOON));
    drop(killer);
    door.drain(SOON);
    assert_eq!(error_at_end(&mut drained), 1053);
    wait_until(SOON, "the server's own threads have ended", || {
        let sql =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE command LIKE 'Binlog%'";
        writer.run("INSERT INTO log.t (b) VALUES ('four')");
        writer.value(sql) == "0"
    });
}
