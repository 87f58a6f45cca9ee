//! LOAD DATA LOCAL on a farm of three groups: a sharded and a global table have the rows that a table of
//! one group has of the same file, each where it belongs, and none of them when something is wrong.

use std::time::Duration;

use mysql_wire::capability::Capabilities;
use testkit::client::{Login, Reply};
use testkit::{Client, Farm, Release, wait_until_listed};

const COLUMNS: &str = "(id BIGINT AUTO_INCREMENT, customer_id INT NOT NULL, note VARCHAR(40), \
                       amount DECIMAL(8,2), PRIMARY KEY (id), KEY (customer_id)) \
                       CHARACTER SET utf8mb4";

fn start(release: Release) -> Option<(Farm, Client)> {
    // A lock may be waited for until the test lets go of it.
    let mut flags = vec!["--groups", "3", "--replicas", "0"];
    flags.extend(["--set", "cross_lock_wait_ms=60000"]);
    flags.extend(release.xa_flags());
    let farm = Farm::start_on(release, &flags)?;
    for member in farm.members() {
        member.client().run("SET GLOBAL local_infile = ON");
    }
    let login = Login::default();
    let login = Login {
        capabilities: login.capabilities | Capabilities::LOCAL_FILES,
        ..login
    };
    let mut client = Client::login(farm.sql, &login).expect("root may log in");
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2,g3' ENABLED");
    client.run("CREATE DATABASE plain CHARACTER SET utf8mb4");
    client.run(&format!("CREATE TABLE plain.t {COLUMNS}"));
    client.run("CREATE DATABASE shop CHARACTER SET utf8mb4");
    client.run("USE shop");
    let sharded = "/*heddle shard_map=shop shard_key=customer_id*/";
    client.run(&format!("CREATE TABLE sharded {COLUMNS} {sharded}"));
    let global = "/*heddle global_map=shop*/";
    client.run(&format!("CREATE TABLE everywhere {COLUMNS} {global}"));
    Some((farm, client))
}

/// What a text says with this file in packets of so many bytes: its numbers and info, or its error.
fn load(client: &mut Client, sql: &str, file: &str, packet: usize) -> Result<String, String> {
    let packets = file.as_bytes().chunks(packet);
    client.files = [packets.map(<[u8]>::to_vec).collect()].into();
    match client.query(sql) {
        Ok(replies) => match &replies[..] {
            [Reply::Done(ok)] => Ok(format!("{} {} {}", ok.affected_rows, ok.warnings, ok.info)),
            other => Ok(format!("{other:?}")),
        },
        Err(failure) => Err(format!("{failure:?}")),
    }
}

fn all(client: &mut Client, table: &str) -> Vec<Vec<Option<String>>> {
    client.rows(&format!(
        "SELECT customer_id, note, amount, id FROM {table} ORDER BY customer_id, id, note"
    ))
}

/// Clauses behind the table's name, and a file; all ids are in it.
const FILES: [(&str, &str); 5] = [
    (
        "",
        "1\t1\tone\t1.5\n2\t2\ta\\tb\\\\\t\\N\n3\t77\t\\N\t0\n4\t4\tline\\\nend\t2\n",
    ),
    (
        "CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"' \
         LINES TERMINATED BY '\\r\\n' IGNORE 1 LINES (customer_id, note, @a, id) SET amount = @a * 2",
        "\"customer\",note,amount,id\r\n5,\"quoted, \"\"it\"\"\r\nso\",1,5\r\n6,käse,2.25,6\r\n\"7\",,3,7\r\n8,last,4,8",
    ),
    (
        "FIELDS TERMINATED BY '||' ESCAPED BY '' LINES STARTING BY '>' (id, customer_id, note)",
        "nothing >11||11||x\n>12||12||y\\\n\n",
    ),
    (
        "FIELDS TERMINATED BY ';' (id, @k, note) SET customer_id = @k, amount = LENGTH(note)",
        "21; 21 ;abc\n22;22;defg\n23;23;too;many\n24;24\n",
    ),
    // The key is too long a word for its column, but warnings do not stop a client's file.
    (
        "(id, customer_id, note, amount)",
        "31\t31\ta note that is longer than its column has room\tx\n1\t1\tagain\t0\n",
    ),
];

fn same_rows(client: &mut Client) {
    for (clauses, file) in FILES {
        for packet in [3, 1000] {
            client.run("DELETE FROM plain.t");
            client.run("DELETE FROM sharded");
            client.run("DELETE FROM everywhere");
            let text =
                |table: &str| format!("LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} {clauses}");
            let plain = load(client, &text("plain.t"), file, packet);
            let sharded = load(client, &text("sharded"), file, packet);
            let global = load(client, &text("everywhere"), file, packet);
            assert_eq!(sharded, plain, "{clauses}");
            assert_eq!(global, plain, "{clauses}");
            let rows = all(client, "plain.t");
            assert!(rows.len() > 1, "{plain:?}");
            assert_eq!(all(client, "sharded"), rows, "{clauses}");
            assert_eq!(all(client, "everywhere"), rows, "{clauses}");
        }
    }
    let verified = client.rows("HEDDLE sharding verify");
    assert!(verified.is_empty(), "{verified:?}");
}

/// Ids that the file does not have are given by Heddle, and are the same on all groups.
fn ids_are_given(client: &mut Client) {
    client.run("DELETE FROM sharded");
    client.run("DELETE FROM everywhere");
    let file: String = (1..=3000)
        .map(|row| format!("{},note {row}\n", row % 97))
        .collect();
    for table in ["sharded", "everywhere"] {
        let text = format!(
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE {table} FIELDS TERMINATED BY ',' (customer_id, note)"
        );
        let said = load(client, &text, &file, 8000).expect(table);
        assert_eq!(
            said,
            "3000 0 Records: 3000  Deleted: 0  Skipped: 0  Warnings: 0"
        );
        let count = format!("SELECT COUNT(DISTINCT id), COUNT(DISTINCT note) FROM {table}");
        let counts = client.rows(&count);
        assert_eq!(counts, [[Some("3000".to_owned()), Some("3000".to_owned())]]);
    }
    let verified = client.rows("HEDDLE sharding verify");
    assert!(verified.is_empty(), "{verified:?}");
}

/// Nothing of a file is left in which something is wrong, alone and within a transaction.
fn all_or_nothing(client: &mut Client) {
    client.run("DELETE FROM sharded");
    let text = "LOAD DATA LOCAL INFILE 'f' INTO TABLE sharded";
    for (file, number) in [
        ("1\t1\ta\t1\n2\t2\tb\t1\n3\t\\N\tc\t1\n", 1048),
        ("1\t1\ta\t1\n2\tx\tb\t1\n3\t3\tc\t1\n", 1366),
        ("1\t1\ta\t1\n2\n3\t3\tc\t1\n", 1364),
    ] {
        client.files = [vec![file.as_bytes().to_vec()]].into();
        assert_eq!(client.error(text), number, "{file}");
        assert_eq!(client.value("SELECT COUNT(*) FROM sharded"), "0");
    }
    client.run("BEGIN");
    client.run("INSERT INTO sharded (id, customer_id) VALUES (1, 1), (2, 2), (3, 3)");
    let refused = load(client, text, "4\t4\ta\t1\n5\t\\N\tb\t1\n", 5).expect_err("a NULL");
    assert!(refused.contains("customer_id, in row 2"), "{refused}");
    assert_eq!(client.value("SELECT COUNT(*) FROM sharded"), "3");
    let file: String = (10..20)
        .map(|row| format!("{row}\t{row}\tx\t1\n"))
        .collect();
    load(client, text, &file, 64).expect("rows");
    assert_eq!(client.value("SELECT COUNT(*) FROM sharded"), "13");
    client.run("ROLLBACK");
    assert_eq!(client.value("SELECT COUNT(*) FROM sharded"), "0");
    // The servers themselves refuse it.
    let absent = format!("{text} (id, customer_id, absent)");
    assert_eq!(client.error(&absent), 1054);
    assert_eq!(
        client.error("LOAD DATA INFILE 'f' INTO TABLE sharded"),
        1235
    );
    let explained = client.rows(&format!("HEDDLE EXPLAIN {text}"));
    assert_eq!(
        explained[0][1].as_deref(),
        Some("g1,g2,g3"),
        "{explained:?}"
    );
}

/// While one server takes nothing, since a row waits for a lock, another one gets what comes behind.
fn others_are_fed(farm: &Farm, mut client: Client) {
    const SLOW_ROWS: u64 = 16_000;
    const FAST_ROWS: u64 = 30_000;
    const FIRST: u64 = 1_000_000;
    client.run("DELETE FROM sharded");
    let values: Vec<String> = (1..60).map(|key| format!("({key}, {key})")).collect();
    let insert = "INSERT INTO sharded (id, customer_id) VALUES";
    client.run(&format!("{insert} {}", values.join(", ")));
    let of = |group: &str| {
        let mut members = farm.members().into_iter();
        let member = members.find(|it| it.group == group);
        let mut server = member.expect("a group's server").client();
        let key = server.value("SELECT MIN(customer_id) FROM shop.sharded");
        (server, key)
    };
    let ((mut slow, slow_key), (mut fast, fast_key)) = (of("g2"), of("g3"));
    slow.run("BEGIN");
    slow.run(&format!(
        "INSERT INTO shop.sharded (id, customer_id) VALUES ({FIRST}, {slow_key})"
    ));
    let row = |at: u64| {
        let key = if at < SLOW_ROWS { &slow_key } else { &fast_key };
        format!("{},{key},note of row number {at}\n", FIRST + at)
    };
    let file: String = (0..SLOW_ROWS + FAST_ROWS).map(row).collect();
    let text = "LOAD DATA LOCAL INFILE 'f' INTO TABLE sharded FIELDS TERMINATED BY ',' \
                (id, customer_id, note)";
    let loading = std::thread::spawn(move || load(&mut client, text, &file, 16_000));
    let changed = "SELECT COALESCE(MAX(trx_rows_modified), 0) FROM information_schema.innodb_trx";
    // The last piece of its rows may wait for the file's end.
    wait_until_listed(
        Duration::from_secs(40),
        "the other server has its rows",
        || {
            let rows: u64 = fast.value(changed).parse().expect("a number");
            rows > FAST_ROWS - 10_000
        },
    );
    slow.run("ROLLBACK");
    let said = loading.join().expect("the client lives").expect("all rows");
    let rows = SLOW_ROWS + FAST_ROWS;
    assert_eq!(
        said,
        format!("{rows} 0 Records: {rows}  Deleted: 0  Skipped: 0  Warnings: 0")
    );
}

fn files_are_split(release: Release) {
    let Some((farm, mut client)) = start(release) else {
        return;
    };
    same_rows(&mut client);
    ids_are_given(&mut client);
    all_or_nothing(&mut client);
    others_are_fed(&farm, client);
}

#[test]
fn files_are_split_by_shard_on_mariadb() {
    files_are_split(Release::Installed);
}

#[test]
fn files_are_split_by_shard_on_mysql() {
    files_are_split(Release::MySql80);
}
