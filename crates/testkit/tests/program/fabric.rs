//! The Fabric door of a whole farm, asked with the bytes that clients of MySQL Fabric send.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Duration;

use door_fabric::Value;
use door_fabric::digest;
use door_fabric::xml::call;
use regex::Regex;
use testkit::client::Client;
use testkit::router::Router;
use testkit::{Farm, Release, wait_until};

/// For what takes a server's end and a change of primary.
const SOON: Duration = Duration::from_secs(60);

/// What Connector/Python 2.1.7 writes around a call.
pub(super) const PYTHON: &str = "POST /RPC2 HTTP/1.1\r\nAccept-Encoding: identity\r\nHost: HOST\r\n\
                      Content-Type: text/xml\r\nUser-Agent: MySQL Connector Python/2.1.7\r\n\
                      Connection: close\r\n";

/// What Connector/J 5.1.49 writes.
const JAVA: &str = "POST / HTTP/1.1\r\nContent-Type: text/xml\r\nAccept: text/xml\r\n\
                    User-Agent: MySQL XML-RPC\r\nHost: HOST\r\nConnection: close\r\n";

/// What the streams of PHP 5 write for mysqlnd_ms.
pub(super) const PHP: &str =
    "POST /RPC2 HTTP/1.0\r\nHost: HOST\r\nConnection: close\r\nContent-type: text/xml\r\n";

/// An answer: status, head and body.
pub(super) struct Heard {
    pub status: u16,
    head: String,
    pub body: String,
}

/// Sends one request as it is, and hears all of the answer.
pub(super) fn ask(door: SocketAddr, head: &str, body: &str) -> Heard {
    let head = head.replace("HOST", &door.to_string());
    let request = format!("{head}Content-Length: {}\r\n\r\n{body}", body.len());
    let mut stream = TcpStream::connect(door).expect("the door is open");
    // One that is refused before it has all of the request ends the connection.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).expect("answers are text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer of HTTP");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
    Heard {
        status: status.expect("a status"),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

/// A call as Python's `xmlrpc.client` writes it.
fn python(farm: &Farm, method: &str, params: &[Value]) -> String {
    let heard = ask(farm.fabric, PYTHON, &call(method, params));
    assert_eq!(heard.status, 200, "{method}: {}", heard.body);
    heard.body
}

/// A call as mysqlnd_ms and PHP's samples write it; the values stand as strings.
fn php(farm: &Farm, method: &str, params: &[&str]) -> String {
    let param = |text: &&str| format!("<param><value><string>{text}</string></value></param>");
    let params: String = params.iter().map(param).collect();
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<methodCall><methodName>{method}</methodName>\
         <params>\n{params}</params>\n</methodCall>"
    );
    let heard = ask(farm.fabric, PHP, &body);
    assert_eq!(heard.status, 200, "{method}: {}", heard.body);
    heard.body
}

/// Identities and ports differ from farm to farm; here each is the number of its server.
fn steady(farm: &Farm, text: &str) -> String {
    let mut text = text.replace('\n', "");
    for (at, row) in servers(farm).iter().enumerate() {
        text = text.replace(&row[0], &format!("UUID-{at}"));
        text = text.replace(&row[3], &format!("PORT-{at}"));
    }
    text = text.replace(&farm.fabric.port().to_string(), "PORT-FABRIC");
    let moment = Regex::new(r"<double>\d{9,}(\.\d+)?</double>").expect("a pattern");
    let text = moment
        .replace_all(&text, "<double>WHEN</double>")
        .into_owned();
    let uuid = Regex::new("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}").expect("a pattern");
    uuid.replace_all(&text, "UUID").into_owned()
}

/// The cells of all rows of an answer's first set that are between `<row>` tags, as texts.
pub(super) fn rows(body: &str) -> Vec<Vec<String>> {
    let rows = body.split_once("<name>rows</name>");
    rows.map(|(_, rows)| flat_rows(rows)).unwrap_or_default()
}

/// The same of an answer that names no columns.
pub(super) fn flat_rows(rows: &str) -> Vec<Vec<String>> {
    let cell = Regex::new("<(?:string|int|double|boolean)>([^<]*)</").expect("a pattern");
    let row = Regex::new("<value><array><data>((?:<value><[a-z]+>[^<]*</[a-z]+></value>)+)</data>");
    let row = row.expect("a pattern");
    row.captures_iter(rows)
        .map(|row| {
            cell.captures_iter(&row[1])
                .map(|cell| cell[1].to_owned())
                .collect()
        })
        .collect()
}

/// What `dump.servers` says: UUID, group, host, port, mode, status, weight; in the order of the ports.
fn servers(farm: &Farm) -> Vec<Vec<String>> {
    let mut servers = rows(&python(farm, "dump.servers", &[0i64.into(), "".into()]));
    servers.sort_by_key(|row| row[3].clone());
    servers
}

fn primary(farm: &Farm, group: &str) -> Option<String> {
    let servers = servers(farm);
    let mut of_group = servers.iter().filter(|row| row[1] == group);
    of_group.find(|row| row[5] == "3").map(|row| row[0].clone())
}

pub(super) fn error(body: &str) -> String {
    let packet = Regex::new(
        "<int>1</int></value><value><string>[^<]*</string></value><value><int>1</int></value><value><string>([^<]*)<",
    );
    let packet = packet
        .expect("a pattern")
        .captures(body)
        .map(|it| it[1].to_owned());
    packet.unwrap_or_default()
}

fn clients_of_every_release_are_answered_in_their_form(release: Release) {
    let flags = ["--groups", "3", "--replicas", "1"];
    let flags = [&flags[..], release.xa_flags()].concat();
    let Some(farm) = Farm::start_on(release, &flags) else {
        return;
    };
    wait_until(SOON, "all servers in dump.servers", || {
        servers(&farm).len() == 6
    });
    shard(&farm);
    compare_with_golden(&farm);
    curl_is_answered(&farm);
    calls_of_mysql_are_answered(&farm);
    the_words_of_mysqlfabric_are_taken(&farm);
    what_is_wrong_is_a_fault(&farm);
    procedures_run_without_a_waiter(&farm);
    look_ups_are_counted(&farm);
    a_switch_over_shows(&farm);
    a_failure_shows(&farm);
}

/// The quick start of Fabric, by its own commands.
fn shard(farm: &Farm) {
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY)");
    let made = python(
        farm,
        "sharding.create_definition",
        &["RANGE".into(), "g1".into()],
    );
    assert_eq!(rows(&made)[0][1..], ["1", "1", "1"], "{made}");
    let added = python(
        farm,
        "sharding.add_table",
        &[1i64.into(), "d.t".into(), "id".into()],
    );
    assert_eq!(error(&added), "", "{added}");
    let shards = [1i64.into(), "g2/1,g3/100".into(), "ENABLED".into()];
    let added = python(farm, "sharding.add_shard", &shards);
    assert_eq!(error(&added), "", "{added}");
    client.run("INSERT INTO d.t VALUES (7), (150)");
    let of_key = |key: i64| {
        let found = python(farm, "sharding.lookup_servers", &["d.t".into(), key.into()]);
        rows(&found)
            .iter()
            .map(|row| row[0].clone())
            .collect::<Vec<_>>()
    };
    let of_group = |group: &str| {
        let found = python(farm, "group.lookup_servers", &[group.into()]);
        rows(&found)
            .iter()
            .map(|row| row[0].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!((of_key(7), of_key(150)), (of_group("g2"), of_group("g3")));
    for (group, key) in [("g2", "7"), ("g3", "150")] {
        let primary = farm.primary(group);
        assert_eq!(primary.client().value("SELECT id FROM d.t"), key);
    }
}

/// Each command that shows something, in the forms of the three releases.
fn compare_with_golden(farm: &Farm) {
    let none: [&str; 0] = [];
    let commands: [(&str, &[&str]); 14] = [
        ("dump.fabric_nodes", &["protocol.xmlrpc"]),
        ("dump.servers", &none),
        ("dump.shard_maps", &none),
        ("dump.shard_index", &none),
        ("dump.shard_tables", &none),
        ("dump.sharding_information", &["0", "d.t"]),
        ("group.lookup_groups", &none),
        ("group.lookup_servers", &["g2"]),
        ("group.description", &["g2", "shards"]),
        ("sharding.lookup_servers", &["d.t", "7", "LOCAL"]),
        ("sharding.lookup_table", &["d.t"]),
        ("sharding.list_definitions", &none),
        ("sharding.list_tables", &["RANGE"]),
        ("provider.list", &none),
    ];
    let mut text = String::new();
    for (method, params) in commands {
        let values: Vec<Value> = params.iter().map(|&text| text.into()).collect();
        for path in ["/1.5/RPC2", "/1.4.2/RPC2", "/1.4.0/RPC2"] {
            let head = PYTHON.replace("/RPC2", path);
            let heard = ask(farm.fabric, &head, &call(method, &values));
            let answer = steady(farm, &heard.body);
            text.push_str(&format!("# {method} {path}\n{answer}\n"));
        }
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/fabric.txt");
    if std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() {
        std::fs::write(path, &text).expect("the file is written");
    }
    let golden = std::fs::read_to_string(path).expect("the golden file is there");
    for (found, expected) in text.lines().zip(golden.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text.lines().count(), golden.lines().count());
    each_client_gets_its_form(farm);
}

fn each_client_gets_its_form(farm: &Farm) {
    let packet = "<methodResponse><params><param><value><array><data><value><int>1</int>";
    let flat = "<methodResponse><params><param><value><array><data><value><boolean>1</boolean>";
    let dump = "<methodResponse><params><param><value><array><data><value><int>0</int>";
    let begins = |body: &str, with: &str| {
        let body = body.replace('\n', "");
        assert!(
            body.starts_with(&format!("<?xml version='1.0'?>{with}")),
            "{body}"
        );
    };
    begins(
        &python(farm, "group.lookup_servers", &["g1".into()]),
        packet,
    );
    begins(&php(farm, "group.lookup_servers", &["g1"]), flat);
    begins(
        &php(farm, "sharding.lookup_servers", &["d.t", "7", "LOCAL"]),
        flat,
    );
    for method in [
        "dump.servers",
        "dump.shard_index",
        "dump.shard_maps",
        "dump.shard_tables",
    ] {
        begins(&php(farm, method, &[]), dump);
        let java = call(method, &[0i64.into(), "".into()]);
        begins(&ask(farm.fabric, JAVA, &java).body, packet);
    }
    let probe = python(farm, "_some_nonexisting_method", &[]);
    assert!(
        probe.contains("<fault>") && probe.contains("is not supported"),
        "{probe}"
    );
    let empty = ask(farm.fabric, JAVA, "");
    assert_eq!(empty.status, 400, "nobody has to log in");
}

fn curl_is_answered(farm: &Farm) {
    let body = "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?><methodCall><methodName>group.lookup_groups\
                </methodName></methodCall>";
    let url = format!("http://{}/", farm.fabric);
    let output = Command::new("curl")
        .args(["--silent", "--data", body, &url])
        .output();
    let Ok(output) = output else {
        return testkit::skip(&"curl is not installed");
    };
    let said = String::from_utf8_lossy(&output.stdout).replace('\n', "");
    let expected = "<value><array><data><value><string>g1</string></value></data></array></value>";
    assert!(said.contains(expected), "{said}");
}

/// What `mariadb` prints for a statement at the door for CALLs, and what it complains of.
fn mariadb(door: SocketAddr, statement: &str) -> (String, String) {
    let output = Command::new("mariadb")
        .args([
            "--no-defaults",
            "--host=127.0.0.1",
            "--skip-ssl",
            "--user=admin",
        ])
        .arg(format!("--port={}", door.port()))
        .args(["--batch", "-e", statement])
        .output()
        .expect("mariadb runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn calls_of_mysql_are_answered(farm: &Farm) {
    let (said, wrong) = mariadb(
        farm.fabric_mysql,
        "CALL group.lookup_servers('g1', status='PRIMARY')",
    );
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(wrong, "");
    assert_eq!(lines[0], "fabric_uuid\tttl\tmessage");
    assert!(lines[1].ends_with("\t1\tNULL"), "{said}");
    assert_eq!(lines[2], "server_uuid\taddress\tstatus\tmode\tweight");
    assert!(lines[3].contains("\tPRIMARY\tREAD_WRITE\t1"), "{said}");
    let (said, _) = mariadb(farm.fabric_mysql, "CALL group.description('g1', 'first')");
    assert!(said.contains("uuid\tfinished\tsuccess\tresult"), "{said}");
    assert!(
        said.contains("Executed action (_update_group_description)."),
        "{said}"
    );
    let (said, _) = mariadb(
        farm.fabric_mysql,
        "SET format='json'; CALL dump.shard_maps()",
    );
    let map = r#"[{"mapping_id":1,"type_name":"RANGE","global_group_id":"g1"}]"#;
    assert!(said.contains(map), "{said}");
    let (_, wrong) = mariadb(farm.fabric_mysql, "CALL group.nothing()");
    assert!(wrong.contains("ERROR 1305 (42000)"), "{wrong}");
    let (_, wrong) = mariadb(farm.fabric_mysql, "CALL group.lookup_servers('nobody')");
    assert!(
        wrong.contains("ERROR 1107 (22000)") && wrong.contains("does not exist"),
        "{wrong}"
    );
    let (said, _) = mariadb(farm.fabric_mysql, "SHOW CREATE PROCEDURE group.promote");
    assert!(
        said.contains("CALL group.promote(group_id, slave_id=NULL"),
        "{said}"
    );
}

fn the_words_of_mysqlfabric_are_taken(farm: &Farm) {
    let ask = |words: &[&str]| {
        let output = Command::new(testkit::farm::heddle())
            .arg("fabric")
            .args(words)
            .env("HEDDLE_FABRIC", farm.fabric.to_string())
            .output()
            .expect("the program can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let (code, said, _) = ask(&["group", "lookup_servers", "g1", "--status=PRIMARY"]);
    let primary = primary(farm, "g1").expect("a primary");
    assert!(
        code == Some(0) && said.contains(&primary) && said.contains("Time-To-Live: 1"),
        "{said}"
    );
    let (code, _, wrong) = ask(&["group", "lookup_servers", "nobody"]);
    let expected = "heddle: GroupError: Group (nobody) does not exist.\n";
    assert_eq!((code, wrong.as_str()), (Some(1), expected));
    let (code, _, wrong) = ask(&["group", "lookup_servers"]);
    assert_eq!(code, Some(2), "{wrong}");
    let (code, said, _) = ask(&["list-commands"]);
    assert!(
        code == Some(0) && said.contains("sharding split_shard shard_id group_id"),
        "{said}"
    );
}

fn what_is_wrong_is_a_fault(farm: &Farm) {
    let few = python(farm, "group.lookup_servers", &[]);
    let expected =
        "&lt;type 'exceptions.TypeError'&gt;:execute() takes at least 2 arguments (1 given)";
    assert!(few.contains("<fault>") && few.contains(expected), "{few}");
    let unknown = python(farm, "group.lookup_servers", &["nobody".into()]);
    assert_eq!(
        error(&unknown),
        "GroupError: Group (nobody) does not exist."
    );
    let twice = python(farm, "group.create", &["g1".into()]);
    assert_eq!(error(&twice), "GroupError: Group (g1) already exists.");
    let stranger = python(
        farm,
        "threat.report_failure",
        &["nobody".into(), "me".into()],
    );
    assert_eq!(
        error(&stranger),
        "ServerError: Server (nobody) does not exist."
    );
    let outside = python(
        farm,
        "sharding.lookup_servers",
        &["d.t".into(), 0i64.into()],
    );
    assert!(error(&outside).contains("in no shard"), "{outside}");
    let odd = python(
        farm,
        "group.promote",
        &["g1".into(), "".into(), true.into()],
    );
    assert!(error(&odd).contains("update_only"), "{odd}");
    for bad in [
        "<methodCall>",
        "no XML at all",
        "<!DOCTYPE a [<!ENTITY b 'b'>]><methodCall/>",
    ] {
        let heard = ask(farm.fabric, PYTHON, bad);
        assert!(heard.body.contains("ExpatError"), "{}", heard.body);
    }
    let huge = call("group.create", &["x".repeat(100_000).into()]);
    assert_eq!(ask(farm.fabric, PYTHON, &huge).status, 413);
    let get = ask(farm.fabric, &PYTHON.replace("POST", "GET"), "");
    assert_eq!(get.status, 405);
    let foreign = PYTHON.replace("HOST", "evil.example");
    assert_eq!(
        ask(farm.fabric, &foreign, &call("manage.ping", &[])).status,
        403
    );
    let methods = python(farm, "system.listMethods", &[]);
    assert!(
        methods.contains("<string>sharding.split_shard</string>"),
        "{methods}"
    );
}

fn procedures_run_without_a_waiter(farm: &Farm) {
    let later = Value::Struct(vec![("synchronous".to_owned(), false.into())]);
    let begun = rows(&python(farm, "group.create", &["g9".into(), later]));
    assert_eq!(begun[0].len(), 1, "{begun:?}");
    let ended = python(
        farm,
        "event.wait_for_procedures",
        &[begun[0][0].as_str().into()],
    );
    assert_eq!(rows(&ended)[0], [&*begun[0][0], "1", "1", "1"], "{ended}");
    let destroyed = python(farm, "group.destroy", &["g9".into()]);
    assert_eq!(error(&destroyed), "", "{destroyed}");
    let counted = rows(&python(
        farm,
        "statistics.procedure",
        &["group.create".into()],
    ));
    assert_eq!(counted, [["group.create", "2", "1"]], "one of them failed");
    let node = rows(&python(farm, "statistics.node", &[]));
    assert_eq!(node[0].len(), 3, "{node:?}");
}

fn look_ups_are_counted(farm: &Farm) {
    let mut client = farm.client();
    let counted: BTreeMap<String, u64> = client
        .rows("HEDDLE STATUS LIKE 'fabric%'")
        .into_iter()
        .filter_map(|row| Some((row[0].clone()?, row[1].clone()?.parse().ok()?)))
        .collect();
    assert_eq!(counted.len(), 5, "{counted:?}");
    for (name, count) in &counted {
        assert!(*count > 0, "{name}");
    }
    assert_eq!(counted["fabric_sharding_lookup_servers_xml_failure"], 3);
}

fn a_switch_over_shows(farm: &Farm) {
    let before = primary(farm, "g1").expect("a primary");
    let promoted = python(farm, "group.promote", &["g1".into()]);
    assert_eq!(error(&promoted), "", "{promoted}");
    wait_until(SOON, "the new primary in dump.servers", || {
        primary(farm, "g1").is_some_and(|now| now != before)
    });
    let of_before = servers(farm).into_iter().find(|row| row[0] == before);
    let of_before = of_before.expect("it serves on");
    assert_eq!(of_before[4..6], ["1", "2"], "READ_ONLY and SECONDARY");
}

fn a_failure_shows(farm: &Farm) {
    let before = primary(farm, "g2").expect("a primary");
    let member = farm.primary("g2");
    member.signal("STOP");
    let reported = python(
        farm,
        "threat.report_failure",
        &[before.as_str().into(), "a client".into(), 2013i64.into()],
    );
    assert_eq!(error(&reported), "", "{reported}");
    wait_until(SOON, "another primary, and the old one is gone", || {
        let servers = servers(farm);
        let lives = servers.iter().any(|row| row[0] == before);
        let now = servers.iter().any(|row| row[1] == "g2" && row[5] == "3");
        now && !lives
    });
    member.signal("CONT");
}

#[test]
fn a_user_logs_in_by_digest() {
    let port = testkit::ports::free_port();
    let door = SocketAddr::from(([127, 0, 0, 1], port));
    let listen = format!("fabric_listen={door}");
    let _farm = Farm::serve(&[&listen, "fabric_user=admin", "fabric_password=secret"]);
    let ping = call("manage.ping", &[]);
    let first = ask(door, JAVA, "");
    assert_eq!(first.status, 401);
    let challenge = |heard: &Heard| {
        let mut lines = heard.head.lines();
        let line = lines.find(|line| line.to_lowercase().starts_with("www-authenticate:"));
        let (_, challenge) = line
            .expect("a challenge")
            .split_once(": ")
            .expect("a header");
        challenge.to_owned()
    };
    let challenge = challenge(&first);
    let with = |password: &str| {
        let answer =
            digest::answer(&challenge, "admin", password, "/RPC2", "c").expect("a challenge");
        format!("{JAVA}Authorization: {answer}\r\n")
    };
    assert_eq!(ask(door, &with("wrong"), &ping).status, 400);
    let right = ask(door, &with("secret"), &ping);
    assert_eq!(right.status, 200, "{}", right.body);
    let again = ask(door, &with("secret"), &ping);
    assert_eq!(again.status, 401, "what was overheard is worth nothing");
    assert!(again.head.contains("stale=true"), "{}", again.head);
}

#[test]
fn a_stranger_sees_signs_of_life_only() {
    let port = testkit::ports::free_port();
    let door = SocketAddr::from(([127, 0, 0, 1], port));
    let farm = Farm::serve(&[&format!("fabric_listen={door}")]);
    let status = |method: &str| ask(door, PYTHON, &call(method, &[])).status;
    assert_eq!((status("manage.ping"), status("dump.servers")), (200, 403));
    let token = std::fs::read_to_string(farm.dir().join("monitor-token")).expect("a token");
    let head = format!("{PYTHON}Authorization: Bearer {}\r\n", token.trim());
    let heard = ask(
        door,
        &head,
        &call("dump.servers", &[0i64.into(), "".into()]),
    );
    assert_eq!(heard.status, 200, "{}", heard.body);
}

#[test]
fn the_sockets_go_to_a_successor() {
    let [door, calls] = [(); 2].map(|()| {
        let port = testkit::ports::free_port();
        SocketAddr::from(([127, 0, 0, 1], port))
    });
    let settings = format!("fabric_listen = \"{door}\"\nfabric_mysql_listen = \"{calls}\"\n");
    let mut router = Router::start(&settings);
    let process = router.process().id().to_string();
    let signalled = Command::new("kill").args(["-USR2", &process]).status();
    assert!(signalled.expect("kill runs").success());
    wait_until(SOON, "a successor", || router.says("has taken over"));
    assert_ne!(router.taken_over_by().to_string(), process);
    let ping = ask(door, PYTHON, &call("manage.ping", &[]));
    assert_eq!(ping.status, 200, "{}", ping.body);
    let (_, wrong) = mariadb(calls, "CALL manage.ping()");
    assert_eq!(wrong, "");
}

/// Where the doors are, for those who do not know it.
#[test]
fn the_door_stands_in_farm_json() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client: Client = farm.client();
    let nodes = client.rows("HEDDLE DUMP FABRIC_NODES");
    let node = |door: SocketAddr| vec![Some("127.0.0.1".to_owned()), Some(door.port().to_string())];
    assert_eq!(nodes, [node(farm.fabric), node(farm.fabric_mysql)]);
    let file = std::fs::read_to_string(farm.dir().join("farm.json")).expect("the file is there");
    assert!(
        file.contains(&format!("\"fabric\": \"{}\"", farm.fabric)),
        "{file}"
    );
}

testkit::on_both_engines! {
    clients_of_every_release_are_answered_in_their_form,
}
