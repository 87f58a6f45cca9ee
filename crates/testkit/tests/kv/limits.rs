//! The key-value door when clients, tables or the router itself go another way than commands do: clients
//! that leave in the middle or never read, the end of the router, TLS, accounts with limits, values that
//! are too large, tables that are changed, rows that expire.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use testkit::client::{Login, any_certificate};
use testkit::network::{connect_from, own_address};
use testkit::raw::{Raw, show};
use testkit::{Client, Farm, Release, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn farm(release: Release, flags: &[&str]) -> Option<Farm> {
    Farm::start_on(release, &[&["--replicas", "0"], flags].concat())
}

/// What is under way is answered, then the connection is closed; who is idle is closed at once.
fn the_end_answers_what_is_under_way(release: Release) {
    let Some(mut farm) = farm(release, &[]) else {
        return;
    };
    let mut raw = Raw::connect(farm.kv);
    raw.asks("set held 0 0 1\r\n1\r\n", "STORED\r\n");
    let mut idle = Raw::connect(farm.kv);
    idle.asks("mn\r\n", "MN\r\n");
    // Somebody past the router holds the row, so that the command is under way for long.
    let mut holder: Client = farm.members()[0].client();
    holder.run("BEGIN");
    holder.run("UPDATE heddle.kv SET v = '2' WHERE k = 'held'");
    raw.say("append held 0 0 1\r\n3\r\nget held\r\n");
    let mut watching = farm.members()[0].client();
    // What InnoDB tells of transactions stays as it is while it is asked too often.
    let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT%`kv`% FOR UPDATE'";
    wait_until(PATIENCE, "the command is under way", || {
        watching.value(waits) != "0"
    });
    let kv = farm.kv;
    std::thread::scope(|scope| {
        let ends = scope.spawn(|| farm.stop().success());
        wait_until(PATIENCE, "nobody is let in any more", || {
            std::net::TcpStream::connect(kv).is_err()
        });
        idle.is_closed();
        holder.run("COMMIT");
        raw.hears("STORED\r\nVALUE held 0 2\r\n23\r\nEND\r\n");
        raw.is_closed();
        drop(watching);
        drop(holder);
        assert!(ends.join().expect("it does not panic"));
    });
}

/// Half a line and half a value are nothing; what came whole before them is carried out.
#[test]
fn clients_that_leave_in_the_middle() {
    let Some(farm) = farm(Release::Installed, &[]) else {
        return;
    };
    for half in [
        "set half 0 0 10\r\nabc",
        "set half 0 0 3\r\nabc",
        "set half 0 0 3",
        "ms half 3 T0\r\nab",
        "delete who",
        "incr who 1",
        "s",
    ] {
        let mut raw = Raw::connect(farm.kv);
        raw.say(format!("set who 0 0 2\r\n42\r\n{half}"));
        let closed = raw.0.shutdown(Shutdown::Write);
        closed.expect("the connection is there");
        raw.hears("STORED\r\n");
        raw.is_closed();
        let mut other = Raw::connect(farm.kv);
        other.asks("get half who\r\n", "VALUE who 0 2\r\n42\r\nEND\r\n");
    }
    // Who has gone without a word: nothing of it is left.
    let mut gone = Raw::connect(farm.kv);
    gone.asks("mn\r\n", "MN\r\n");
    gone.say("set half 0 0 1000000\r\nabc");
    drop(gone);
    wait_until(PATIENCE, "its session ends", || {
        // Containers have sessions of Heddle's own.
        let rows = farm.json(&["session", "list"]);
        rows.iter().all(|row| row["door"] == "own")
    });
    Raw::connect(farm.kv).asks("get half\r\n", "END\r\n");
}

fn resident_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.expect("the process is there")
}

/// Who asks and never reads is not read from after a while, whatever it asks for, and costs others nothing.
#[test]
fn a_client_that_never_reads_is_held_up() {
    let Some(farm) = farm(Release::Installed, &[]) else {
        return;
    };
    let mut raw = Raw::connect(farm.kv);
    let large = "x".repeat(1 << 20);
    raw.asks(
        format!("set large 0 0 {}\r\n{large}\r\n", large.len()),
        "STORED\r\n",
    );
    let before_kb = resident_kb(farm.pid());
    let limit = raw.0.set_write_timeout(Some(Duration::from_secs(2)));
    limit.expect("a socket has time limits");
    let many = "get large\r\n".repeat(10_000);
    let mut sent = 0;
    let error = loop {
        match raw.0.write(many.as_bytes()) {
            Ok(bytes) => sent += bytes,
            Err(error) => break error,
        }
        assert!(sent < 64 << 20, "{sent} bytes were taken");
    };
    let full = [ErrorKind::WouldBlock, ErrorKind::TimedOut];
    assert!(full.contains(&error.kind()), "{error}");
    let grown_kb = resident_kb(farm.pid()).saturating_sub(before_kb);
    assert!(grown_kb < 100 << 10, "{grown_kb} kB");
    // Others are served, and it is when it reads.
    Raw::connect(farm.kv).asks("get none\r\n", "END\r\n");
    for _ in 0..20 {
        raw.hears(format!(
            "VALUE large 0 {}\r\n{large}\r\nEND\r\n",
            large.len()
        ));
    }
}

/// More requests than may be under way, of every kind, are answered in their order.
#[test]
fn pipelines_have_no_end() {
    let Some(farm) = farm(Release::Installed, &[]) else {
        return;
    };
    let raw = Raw::connect(farm.kv);
    let mut writer = raw.0.try_clone().expect("a second handle");
    let turns = 20_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut text = String::new();
            for turn in 0..turns {
                let key = turn % 100;
                text.push_str(&format!(
                    "ms p{key} 6 O{turn}\r\n{turn:06}\r\nmg p{key} v O{turn}\r\n"
                ));
            }
            writer
                .write_all(text.as_bytes())
                .expect("the door takes it");
        });
        let mut reader = std::io::BufReader::new(raw.0);
        let mut expected = String::new();
        for turn in 0..turns {
            expected.push_str(&format!("HD O{turn}\r\nVA 6 O{turn}\r\n{turn:06}\r\n"));
        }
        let mut heard = vec![0; expected.len()];
        reader.read_exact(&mut heard).expect("all is answered");
        assert!(heard == expected.as_bytes(), "other replies");
    });
}

fn secure(farm: &Farm) -> StreamOwned<ClientConnection, std::net::TcpStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    let tls = ClientConnection::new(any_certificate(), name).expect("a client");
    StreamOwned::new(tls, Raw::connect(farm.kv).0)
}

fn says(stream: &mut impl ReadWrite, bytes: &str, expected: &str) {
    stream.write_all(bytes.as_bytes()).expect("it is taken");
    let mut heard = vec![0; expected.len()];
    stream.read_exact(&mut heard).expect("it is answered");
    assert_eq!(show(&heard), expected);
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

/// Within TLS everything is as without it; where it is required, nothing is said without it, and accounts
/// may demand it.
fn clients_use_tls_and_log_in_within_it(release: Release) {
    let Some(farm) = farm(
        release,
        &["--set", "kv_auth=on", "--set", "tls_clients=preferred"],
    ) else {
        return;
    };
    let mut sql = farm.client();
    sql.run("CREATE USER careful IDENTIFIED BY 'pw' REQUIRE SSL");
    sql.run("GRANT ALL ON heddle.* TO careful");
    sql.run("CREATE USER usual IDENTIFIED BY 'pw'");
    sql.run("GRANT ALL ON heddle.* TO usual");
    let denied = "CLIENT_ERROR authentication failure\r\n";
    Raw::connect(farm.kv).asks("set x 0 0 10\r\ncareful pw\r\n", denied);
    let mut stream = secure(&farm);
    says(&mut stream, "get a\r\n", "CLIENT_ERROR unauthenticated\r\n");
    says(&mut stream, "set x 0 0 10\r\ncareful no\r\n", denied);
    says(&mut stream, "set x 0 0 10\r\ncareful pw\r\n", "STORED\r\n");
    // Its rights are what the servers say to it, and they demand TLS of the router, too.
    says(
        &mut stream,
        "get a\r\n",
        "SERVER_ERROR the account's rights on container default are not known: \
         Access denied for user 'careful'@'localhost' (using password: YES); connect again\r\n",
    );
    let mut stream = secure(&farm);
    says(&mut stream, "set x 0 0 8\r\nusual pw\r\n", "STORED\r\n");
    let large = "y".repeat(300_000);
    says(
        &mut stream,
        &format!("set a 0 0 300000\r\n{large}\r\nget a\r\n"),
        &format!("STORED\r\nVALUE a 0 300000\r\n{large}\r\nEND\r\n"),
    );
    drop(farm);
    let Some(farm) = self::farm(release, &["--set", "tls_clients=required"]) else {
        return;
    };
    let mut plain = Raw::connect(farm.kv);
    plain.asks("get a\r\n", "CLIENT_ERROR this server speaks TLS only\r\n");
    plain.is_closed();
    says(&mut secure(&farm), "mn\r\n", "MN\r\n");
}

/// An account's limit of connections counts here, and so does that of all clients.
fn accounts_have_limits(release: Release) {
    let Some(farm) = farm(release, &["--set", "kv_auth=on"]) else {
        return;
    };
    let mut sql = farm.client();
    sql.run("CREATE USER few IDENTIFIED BY 'pw' WITH MAX_USER_CONNECTIONS 2");
    sql.run("GRANT ALL ON heddle.* TO few");
    let login = "set x 0 0 6\r\nfew pw\r\n";
    let denied = "CLIENT_ERROR authentication failure\r\n";
    let mut first = Raw::connect(farm.kv);
    wait_until(PATIENCE, "the account is known", || {
        let mut raw = Raw::connect(farm.kv);
        raw.say(login);
        raw.line() == "STORED"
    });
    first.asks(login, "STORED\r\n");
    let mut second = Raw::connect(farm.kv);
    wait_until(PATIENCE, "there is room for a second", || {
        second.say(login);
        if second.line() == "STORED" {
            return true;
        }
        second = Raw::connect(farm.kv);
        false
    });
    Raw::connect(farm.kv).asks(login, denied);
    // The SQL door counts them, too.
    assert!(Client::connect(farm.sql, "few", "pw").is_err());
    drop(first);
    wait_until(PATIENCE, "there is room again", || {
        Client::connect(farm.sql, "few", "pw").is_ok()
    });
}

/// Values may be as large as the door and their container say.
#[test]
fn items_have_a_size() {
    let Some(farm) = farm(Release::Installed, &["--set", "kv_value_bytes_max=5000000"]) else {
        return;
    };
    let mut sql = farm.client();
    sql.run("CREATE TABLE heddle.small (k INT PRIMARY KEY, v LONGBLOB)");
    farm.make_container("small --table=heddle.small --key=k --values=v --value_bytes_max=100");
    farm.make_container("big --table=heddle.small --key=k --values=v --value_bytes_max=5000000");
    let mut raw = Raw::connect(farm.kv);
    let too_large = "SERVER_ERROR object too large for cache\r\n";
    let set = |name: &str, bytes: usize| {
        let value = "z".repeat(bytes);
        format!("set @@{name}.1 0 0 {bytes}\r\n{value}\r\n")
    };
    raw.asks(set("small", 100), "STORED\r\n");
    raw.asks(set("small", 101), too_large);
    raw.asks("append @@small.1 0 0 1\r\nz\r\n", too_large);
    raw.asks("ms @@small.1 1 MP\r\nz\r\n", too_large);
    raw.asks(set("big", 5_000_000), "STORED\r\n");
    raw.asks(set("big", 5_000_001), too_large);
    assert_eq!(sql.value("SELECT LENGTH(v) FROM heddle.small"), "5000000");
}

/// A table that is changed while clients use it.
fn tables_change(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut sql = farm.client();
    sql.run("CREATE TABLE heddle.moving (k INT PRIMARY KEY, v INT, w VARCHAR(20))");
    farm.make_container("moving --table=heddle.moving --key=k --values=v,w --cache_bytes=1000000");
    let mut raw = Raw::connect(farm.kv);
    raw.asks("get @@moving.1\r\n", "END\r\n");
    raw.asks("set 1 0 0 3\r\n5|a\r\n", "STORED\r\n");
    // More columns, in another order, of other types.
    sql.run("ALTER TABLE heddle.moving ADD COLUMN extra INT NOT NULL DEFAULT 3 FIRST");
    sql.run("ALTER TABLE heddle.moving MODIFY v VARCHAR(20) AFTER w");
    raw.asks("get 1\r\n", "VALUE 1 0 3\r\n5|a\r\nEND\r\n");
    wait_until(PATIENCE, "text is taken", || {
        raw.say("set 1 0 0 3\r\nx|b\r\n");
        raw.line() == "STORED"
    });
    raw.asks("get 1\r\n", "VALUE 1 0 3\r\nx|b\r\nEND\r\n");
    // A column is gone, and comes back.
    sql.run("ALTER TABLE heddle.moving RENAME COLUMN w TO u");
    for request in ["get 1\r\n", "set 1 0 0 3\r\ny|c\r\n", "incr 1 1\r\n"] {
        raw.say(request);
        let line = raw.line();
        assert!(line.starts_with("SERVER_ERROR "), "{request}: {line}");
    }
    assert_eq!(sql.value("SELECT v FROM heddle.moving"), "x");
    sql.run("ALTER TABLE heddle.moving RENAME COLUMN u TO w");
    wait_until(PATIENCE, "the column is seen", || {
        raw.say("set 1 0 0 3\r\ny|c\r\n");
        raw.line() == "STORED"
    });
    raw.asks("get 1\r\n", "VALUE 1 0 3\r\ny|c\r\nEND\r\n");
    // The table is gone, and comes back with another key.
    sql.run("DROP TABLE heddle.moving");
    raw.say("get 1\r\n");
    let line = raw.line();
    assert!(line.starts_with("SERVER_ERROR "), "{line}");
    sql.run("CREATE TABLE heddle.moving (k VARCHAR(9) PRIMARY KEY, v TEXT, w TEXT)");
    wait_until(PATIENCE, "the table is seen", || {
        raw.say("set one 0 0 3\r\n1|2\r\n");
        raw.line() == "STORED"
    });
    raw.asks("get one 1\r\n", "VALUE one 0 3\r\n1|2\r\nEND\r\n");
}

/// Expired rows are deleted in the background, others stay.
fn expired_rows_are_deleted(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut sql = farm.client();
    sql.run(
        "INSERT INTO heddle.kv (k, v, expire) VALUES ('old', 'x', 5), ('stays', 'x', 0), \
         ('later', 'x', UNIX_TIMESTAMP() + 3600)",
    );
    // No client has asked for anything.
    wait_until(PATIENCE, "the row is deleted", || {
        sql.value("SELECT GROUP_CONCAT(k ORDER BY k) FROM heddle.kv") == "later,stays"
    });
}

/// Keys with ZEROFILL look otherwise in the binlog: their rows are not remembered.
fn keys_with_zeros_in_front_are_not_remembered(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut sql = farm.client();
    sql.run("CREATE TABLE heddle.zeros (k INT(5) ZEROFILL PRIMARY KEY, v VARCHAR(9))");
    sql.run("INSERT INTO heddle.zeros VALUES (7, 'one')");
    farm.make_container("zeros --table=heddle.zeros --key=k --values=v --cache_bytes=1000000");
    wait_until(PATIENCE, "the reason is told", || {
        let rows = farm.json(&["kv", "cache"]);
        // Until the container is known there are none.
        let state = rows.first().and_then(|row| row["state"].as_str());
        state.is_some_and(|state| state.contains("ZEROFILL"))
    });
    let mut raw = Raw::connect(farm.kv);
    for turn in 0..20 {
        sql.run(&format!("UPDATE heddle.zeros SET v = '{turn:03}'"));
        raw.asks(
            "get @@zeros.00007\r\n",
            format!("VALUE @@zeros.00007 0 3\r\n{turn:03}\r\nEND\r\n"),
        );
    }
}

/// Whether this logs in; the door may have closed the connection before.
fn logs_in(raw: &mut Raw, login: &str) -> bool {
    let mut heard = [0; 8];
    let said = raw.0.write_all(login.as_bytes());
    said.is_ok() && raw.0.read_exact(&mut heard).is_ok() && heard == *b"STORED\r\n"
}

/// Who has not logged in has a limit of its own, over all doors.
#[test]
fn strangers_have_a_limit_of_their_own() {
    let Some(farm) = farm(
        Release::Installed,
        &["--set", "kv_auth=on", "--set", "logins_max=1"],
    ) else {
        return;
    };
    let login = "set x 0 0 6\r\nkv one\r\n";
    farm.client().run("CREATE USER kv IDENTIFIED BY 'one'");
    let mut member = Raw::connect(farm.kv);
    member.asks(login, "STORED\r\n");
    let silent = Raw::connect(farm.kv);
    let full = "Too many connections: too many clients are logging in";
    let mut late = Raw::connect(farm.kv);
    late.hears(format!("ERROR {full}\r\n"));
    late.is_closed();
    let refused = Client::connect(farm.sql, "root", "").expect_err("no place");
    assert_eq!(refused.number(), 1040, "{refused}");
    member.asks("mn\r\n", "MN\r\n");
    drop(silent);
    wait_until(PATIENCE, "the next one may log in", || {
        logs_in(&mut Raw::connect(farm.kv), login)
    });
}

/// Guesses at this door count, and so does the wait that they bring at the other one.
#[test]
fn an_address_whose_logins_fail_has_to_wait() {
    let Some(from) = own_address() else { return };
    let Some(farm) = farm(
        Release::Installed,
        &["--set", "kv_auth=on", "--set", "login_failures=3"],
    ) else {
        return;
    };
    farm.client().run("CREATE USER kv IDENTIFIED BY 'one'");
    let connect = || Raw(connect_from(from, farm.kv).expect("the door listens"));
    let guess = "set x 0 0 8\r\nkv guess\r\n";
    let mut guesses = connect();
    for _ in 0..3 {
        guesses.asks(guess, "CLIENT_ERROR authentication failure\r\n");
    }
    // Its next guess is not looked at, nor is anybody let in from there.
    guesses.say(guess);
    guesses.is_closed();
    let told = connect().line();
    assert!(
        told.starts_with(&format!("ERROR Host '{from}' is blocked")),
        "{told}"
    );
    let outside = Login {
        from: Some(from),
        ..Login::default()
    };
    let refused = Client::login(farm.sql, &outside).expect_err("it has to wait");
    assert_eq!(refused.number(), 1129, "{refused}");
    let login = "set x 0 0 6\r\nkv one\r\n";
    Raw::connect(farm.kv).asks(login, "STORED\r\n");
    wait_until(PATIENCE, "the wait is over", || {
        logs_in(&mut connect(), login)
    });
}

testkit::on_both_engines! {
    the_end_answers_what_is_under_way,
    clients_use_tls_and_log_in_within_it,
    accounts_have_limits,
    tables_change,
    expired_rows_are_deleted,
    keys_with_zeros_in_front_are_not_remembered,
}
