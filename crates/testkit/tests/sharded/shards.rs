//! A farm that is sharded as its users do it: maps by commands, tables by CREATE TABLE, definitions
//! that change on all groups, and what becomes of a table that cannot be declared.

use testkit::client::Value;
use testkit::farm::Member;
use testkit::{Client, Farm, Release};

/// A farm of three groups without replicas.
fn farm(release: Release) -> Option<Farm> {
    Farm::start_on(release, &["--groups", "3", "--replicas", "0"])
}

/// Has a map called `shop` with a shard on each group.
fn mapped(client: &mut Client) {
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2,g3' ENABLED");
}

const ORDERS: &str = "CREATE TABLE orders (id BIGINT AUTO_INCREMENT, customer_id INT NOT NULL, \
                      note VARCHAR(20), PRIMARY KEY (id), KEY (customer_id)) \
                      /*heddle shard_map=shop shard_key=customer_id*/";

fn definitions_go_to_all_groups(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    let mut client = Client::connect(farm.sql, "root", "").expect("root may log in");
    client.run("CREATE DATABASE early");
    mapped(&mut client);
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(ORDERS);
    client.run(
        "CREATE TABLE products (id INT PRIMARY KEY, name VARCHAR(20)) /*heddle global_map=shop*/",
    );
    client.run("CREATE TABLE notes (id INT PRIMARY KEY)");
    client.run("ALTER TABLE orders ADD COLUMN extra INT");
    client.run("CREATE VIEW names AS SELECT name FROM products");
    client.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    client.run("GRANT ALL ON shop.* TO app@'%'");
    let tables = client.rows("HEDDLE sharding list_tables");
    assert_eq!(tables.len(), 2, "{tables:?}");
    assert_eq!(
        client.rows("HEDDLE sharding verify"),
        Vec::<Vec<Option<String>>>::new()
    );
    for member in farm.members() {
        let mut server = member.client();
        let extra = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema='shop' \
                     AND table_name='orders' AND column_name='extra'";
        assert_eq!(server.value(extra), "1", "{}", member.name);
        assert_eq!(
            server.rows("SHOW TABLES IN shop").len(),
            4,
            "{}",
            member.name
        );
        assert_eq!(
            server.rows("SHOW DATABASES LIKE 'early'").len(),
            1,
            "{}",
            member.name
        );
    }
    rows_are_where_they_belong(&mut client, &farm.members());
    if release == Release::Installed {
        a_definition_commits(&mut client);
        what_is_set_behind_a_definition_holds_everywhere(&mut client);
    }
    a_declaration_looks_at_its_table_only(&mut client, &farm.members());
    what_a_server_computes_leaves_no_transaction(&mut client, release == Release::Installed);
    a_temporary_table_is_changed_where_it_is(&mut client);
    what_definitions_warn_of_counts_once(&mut client, release == Release::Installed);
    what_fails_leaves_nothing(&mut client, &farm.members());
    client.run("TRUNCATE TABLE orders");
    client.run("DROP TABLE orders");
    assert_eq!(client.rows("HEDDLE sharding list_tables").len(), 1);
    client.run("DROP DATABASE shop");
    assert_eq!(client.rows("HEDDLE sharding list_tables").len(), 0);
    for member in farm.members() {
        assert_eq!(member.client().rows("SHOW DATABASES LIKE 'shop'").len(), 0);
    }
}

fn rows_are_where_they_belong(client: &mut Client, members: &[Member]) {
    for customer in 1..=30 {
        let insert =
            format!("INSERT INTO orders (id, customer_id) VALUES ({customer}, {customer})");
        client.run(&insert);
    }
    let count = |member: &Member| -> usize {
        let count = member.client().value("SELECT COUNT(*) FROM shop.orders");
        count.parse().expect("a number")
    };
    let counts: Vec<usize> = members.iter().map(count).collect();
    assert_eq!(counts.iter().sum::<usize>(), 30, "{counts:?}");
    assert!(counts.iter().all(|count| *count > 3), "{counts:?}");
    let verified = client.rows("HEDDLE sharding verify");
    assert!(verified.is_empty(), "{verified:?}");
}

/// The text of an error.
fn refused(client: &mut Client, sql: &str) -> String {
    let failure = client.query(sql).expect_err(sql);
    format!("{failure:?}")
}

/// A definition commits what is open, on all its groups.
fn a_definition_commits(client: &mut Client) {
    client.run("BEGIN");
    for customer in 101..=110 {
        let insert =
            format!("INSERT INTO orders (id, customer_id) VALUES ({customer}, {customer})");
        client.run(&insert);
    }
    client.run("CREATE TABLE later (id INT PRIMARY KEY)");
    client.run("ROLLBACK");
    let count = "SELECT COUNT(*) FROM orders WHERE customer_id > 100";
    assert_eq!(client.value(count), "10");
    client.run("DROP TABLE later");
}

/// Without autocommit the connections of a definition stay with the session.
fn what_is_set_behind_a_definition_holds_everywhere(client: &mut Client) {
    client.run("SET autocommit = 0");
    client.run("CREATE DATABASE elsewhere");
    client.run("USE elsewhere");
    client.run(
        "CREATE TABLE orders (id BIGINT, customer_id INT, PRIMARY KEY (id, customer_id)) \
         /*heddle shard_map=shop shard_key=customer_id*/",
    );
    client.run("USE shop");
    client.run("CREATE TABLE later (id INT PRIMARY KEY)");
    client.run("USE elsewhere");
    for customer in 201..=210 {
        let insert =
            format!("INSERT INTO orders (id, customer_id) VALUES ({customer}, {customer})");
        client.run(&insert);
    }
    client.run("COMMIT");
    client.run("SET autocommit = 1");
    assert_eq!(client.value("SELECT COUNT(*) FROM elsewhere.orders"), "10");
    client.run("USE shop");
    client.run("DROP DATABASE elsewhere");
    client.run("DROP TABLE later");
}

/// However many tables the database has.
fn a_declaration_looks_at_its_table_only(client: &mut Client, members: &[Member]) {
    for number in 0..20 {
        client.run(&format!(
            "CREATE TABLE one_of_many_{number} (id INT PRIMARY KEY)"
        ));
    }
    let shown = |member: &Member| -> u64 {
        let status = "SHOW GLOBAL STATUS LIKE 'Com_show_create_table'";
        let row = member.client().rows(status).remove(0).remove(1);
        row.and_then(|text| text.parse().ok()).expect("a number")
    };
    let before: Vec<u64> = members.iter().map(shown).collect();
    client.run(
        "CREATE TABLE parts (id BIGINT, customer_id INT, PRIMARY KEY (id, customer_id)) \
         /*heddle shard_map=shop shard_key=customer_id*/",
    );
    for (member, before) in members.iter().zip(before) {
        let looks = shown(member) - before;
        assert!(looks < 5, "{looks} on {}", member.name);
    }
    client.run("DROP TABLE parts");
    for number in 0..20 {
        client.run(&format!("DROP TABLE one_of_many_{number}"));
    }
}

/// Its name is of one connection, whatever other tables of the database are on all groups.
fn a_temporary_table_is_changed_where_it_is(client: &mut Client) {
    for text in [
        "CREATE TEMPORARY TABLE own (id INT PRIMARY KEY, word VARCHAR(20))",
        "CREATE INDEX by_word ON own (word)",
        "ALTER TABLE shop.own ADD COLUMN more INT DEFAULT 7",
        "INSERT INTO own (id, word) VALUES (1, 'a')",
        "DROP INDEX by_word ON own",
    ] {
        client.run(text);
    }
    assert_eq!(client.value("SELECT more FROM own"), "7");
    client.run("TRUNCATE TABLE own");
    client.run("DROP TABLE own");
    let left = client.rows("HEDDLE sharding list_changes");
    assert!(left.is_empty(), "{left:?}");
}

/// Without autocommit a question for a key's value would begin a transaction of its own on a connection
/// that others get then.
/// Each group has its own rows to warn of, but all have the same text. `rows`: the servers' XA is safe for
/// rows of several groups.
fn what_definitions_warn_of_counts_once(client: &mut Client, rows: bool) {
    let mut warns = |text: &str| {
        let told = client.run(text);
        let rows = client.rows("SHOW WARNINGS");
        assert_eq!(rows.len(), usize::from(told.warnings), "{text}: {rows:?}");
        (told.warnings, told.info)
    };
    for text in [
        "DROP VIEW IF EXISTS missing",
        "DROP PROCEDURE IF EXISTS missing",
        "CREATE TABLE IF NOT EXISTS orders (id INT)",
        "CREATE DATABASE IF NOT EXISTS shop",
    ] {
        assert_eq!(warns(text).0, 1, "{text}");
    }
    if !rows {
        return;
    }
    warns(
        "CREATE TABLE cut (id INT PRIMARY KEY, s VARCHAR(9)) /*heddle shard_map=shop shard_key=id*/",
    );
    warns("CREATE TABLE all_cut (id INT PRIMARY KEY, s VARCHAR(9)) /*heddle global_map=shop*/");
    let rows: Vec<String> = (1..=20).map(|id| format!("({id}, 'longer')")).collect();
    let rows = rows.join(", ");
    for table in ["cut", "all_cut"] {
        warns(&format!("INSERT INTO {table} VALUES {rows}"));
    }
    warns("SET sql_mode = ''");
    for table in ["cut", "all_cut"] {
        let (warnings, info) = warns(&format!("ALTER TABLE {table} MODIFY s VARCHAR(2)"));
        let all = "Records: 20  Duplicates: 0  Warnings: 20";
        assert_eq!((warnings, &*info), (20, all), "{table}");
    }
    warns("DROP TABLE cut, all_cut");
    warns("SET sql_mode = DEFAULT");
}

fn what_a_server_computes_leaves_no_transaction(client: &mut Client, mariadb: bool) {
    client.run("CREATE TABLE numbers (next INT PRIMARY KEY)");
    client.run("INSERT INTO numbers VALUES (300)");
    client.run(
        "CREATE FUNCTION next_number() RETURNS INT READS SQL DATA \
         RETURN (SELECT next FROM numbers LIMIT 1)",
    );
    client.run("SET autocommit = 0");
    for id in 301..=304 {
        let insert = format!("INSERT INTO orders (id, customer_id) VALUES ({id}, next_number())");
        client.run(&insert);
        let count = "SELECT COUNT(*) FROM orders WHERE customer_id = 300";
        assert_eq!(client.value(count), (id - 300).to_string());
        client.run("COMMIT");
    }
    client.run("SET autocommit = 1");
    // Wherever the session was last: the function's table is on one group.
    for customer in 1..=12 {
        client.value(&format!(
            "SELECT COUNT(*) FROM orders WHERE customer_id = {customer}"
        ));
        assert_eq!(client.value("SELECT next_number()"), "300");
        client.run("SET @number = next_number()");
        assert_eq!(client.value("SELECT @number"), "300");
    }
    if mariadb {
        client.run("CREATE SEQUENCE tickets");
        for customer in 1..=12 {
            client.value(&format!(
                "SELECT COUNT(*) FROM orders WHERE customer_id = {customer}"
            ));
            assert_eq!(
                client.value("SELECT NEXTVAL(tickets)"),
                (customer * 3 - 2).to_string()
            );
            assert_eq!(
                client.value("SELECT NEXT VALUE FOR shop.tickets"),
                (customer * 3 - 1).to_string()
            );
            let insert = format!(
                "INSERT INTO orders (id, customer_id) VALUES ({}, 300 + NEXTVAL(tickets))",
                400 + customer
            );
            client.run(&insert);
        }
        client.run("DROP SEQUENCE tickets");
        client.run("DELETE FROM orders WHERE customer_id > 300");
    }
    // It waits for nobody's transaction.
    client.run("SET lock_wait_timeout = 5");
    client.run("DROP TABLE numbers");
    client.run("DROP FUNCTION next_number");
    client.run("DELETE FROM orders WHERE customer_id = 300");
}

fn what_fails_leaves_nothing(client: &mut Client, members: &[Member]) {
    let error = refused(
        client,
        "CREATE TABLE bad (a DECIMAL(5,2)) /*heddle shard_map=shop shard_key=a*/",
    );
    assert!(error.contains("a shard key is an integer"), "{error:?}");
    let error = refused(
        client,
        "CREATE TABLE bad (a INT) /*heddle shard_map=x shard_key=a*/",
    );
    assert!(error.contains("no shard map x"), "{error:?}");
    let error = refused(client, "ALTER TABLE orders DROP COLUMN customer_id");
    assert!(error.contains("is the shard key"), "{error:?}");
    assert_eq!(
        client.error("ALTER TABLE orders ADD COLUMN extra INT"),
        1060
    );
    for member in members {
        assert_eq!(
            member.client().rows("SHOW TABLES IN shop LIKE 'bad'").len(),
            0
        );
    }
    // What one group cannot take is said, written down, and resumed once it can.
    let twins =
        "INSERT INTO shop.orders (id, customer_id, note) VALUES (1001, 1, 'x'), (1002, 1, 'x')";
    members[2].client().run(twins);
    let error = refused(
        client,
        "ALTER TABLE orders ADD UNIQUE u (note, id, customer_id), ADD UNIQUE w (note, customer_id)",
    );
    assert!(error.contains("group g3 refused it"), "{error}");
    let left = client.rows("HEDDLE sharding list_changes");
    assert_eq!(
        (left.len(), left[0][1].as_deref()),
        (1, Some("g3")),
        "{left:?}"
    );
    assert!(!client.rows("HEDDLE sharding verify").is_empty());
    members[2]
        .client()
        .run("DELETE FROM shop.orders WHERE id > 1000");
    let id = left[0][0].clone().unwrap_or_default();
    client.rows(&format!("HEDDLE sharding resume_change '{id}'"));
    assert_eq!(client.rows("HEDDLE sharding list_changes").len(), 0);
    let verified = client.rows("HEDDLE sharding verify");
    assert!(verified.is_empty(), "{verified:?}");
}

#[test]
fn definitions_go_to_all_groups_on_mariadb() {
    definitions_go_to_all_groups(Release::Installed);
}

#[test]
fn definitions_go_to_all_groups_on_mysql() {
    definitions_go_to_all_groups(Release::MySql80);
}

/// A table with this key and these values for it, as an INSERT may have them: each row is found again
/// by its own key, on one shard.
fn keys_of_bytes(client: &mut Client, column: &str, values: &[&str]) {
    client.run(&format!(
        "CREATE TABLE tokens (id {column} PRIMARY KEY, n INT NOT NULL) \
         /*heddle shard_map=shop shard_key=id*/"
    ));
    for (n, value) in values.iter().enumerate() {
        client.run(&format!("INSERT INTO tokens (n, id) VALUES ({n}, {value})"));
    }
    let rows = client.rows("SELECT HEX(id), CONVERT(id USING latin1), n FROM tokens");
    assert_eq!(rows.len(), values.len());
    for row in &rows {
        let [hex, text, n] = [0, 1, 2].map(|at| row[at].clone().expect("no NULL"));
        let literal = match column {
            "UUID" => format!("'{}'", text.to_uppercase()),
            _ => format!("X'{hex}'"),
        };
        let one = format!("SELECT n FROM tokens WHERE id = {literal}");
        assert_eq!(client.value(&one), n, "{column}: {literal}");
        let way = client.rows(&format!("HEDDLE EXPLAIN {one}"));
        // Of one group its server is told.
        let server = way[0][1].as_deref().unwrap_or_default();
        assert!(
            way.len() == 1 && server.starts_with("127.0.0.1:"),
            "{way:?}"
        );
        let update = format!("UPDATE tokens SET n = n + 1000 WHERE id = {literal}");
        assert_eq!(client.run(&update).affected_rows, 1);
    }
    let insert = client.prepare("INSERT INTO tokens (id, n) VALUES (?, 100)");
    let insert = insert.expect("it can be prepared");
    let key = match column {
        "UUID" => b"6CCD780C-BABA-1026-9564-5B8C656024DB".to_vec(),
        _ => b"\xff\x00\x01\xfe\x80\x27\x5c\xff\xff\x00\x01\xfe\x80\x27\x5c\xff".to_vec(),
    };
    client
        .execute(&insert, &[Value::Bytes(key.clone())])
        .expect("a new key");
    let find = client
        .prepare("SELECT n FROM tokens WHERE id = ?")
        .expect("it can be prepared");
    let found = client.execute(&find, &[Value::Bytes(key)]).expect("rows");
    assert!(format!("{found:?}").contains("100"), "{found:?}");
    let verified = client.rows("HEDDLE sharding verify");
    assert!(verified.is_empty(), "{column}: {verified:?}");
    client.run("DROP TABLE tokens");
}

fn keys_may_be_bytes(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    let mut client = Client::connect(farm.sql, "root", "").expect("root may log in");
    mapped(&mut client);
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    let mut values: Vec<String> = (0..30).map(|it| format!("UNHEX(MD5('{it}'))")).collect();
    values.extend((0..6).map(|it| format!("X'{it:02x}00ff5c278000000000000000000000'")));
    // Shorter ones get zeros behind them, and what the server has to compute may be any bytes.
    values.extend(["'ab'", "X'61'", "0x6200", "'16 letters in it'"].map(str::to_owned));
    values.extend((0..6).map(|_| "UNHEX(REPLACE(UUID(), '-', ''))".to_owned()));
    let mysql = release != Release::Installed;
    let uuid = "6ccd780c-baba-1026-9564-5b8c656024da";
    let made = mysql.then(|| {
        [
            "UUID_TO_BIN(UUID())".to_owned(),
            format!("UUID_TO_BIN('{uuid}')"),
        ]
    });
    values.extend(made.into_iter().flatten());
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    keys_of_bytes(&mut client, "BINARY(16)", &values);
    let varying: Vec<&str> = values
        .iter()
        .copied()
        .filter(|it| !it.starts_with("0x"))
        .collect();
    keys_of_bytes(&mut client, "VARBINARY(16)", &varying);
    if mysql {
        return;
    }
    let quoted = format!("'{uuid}'");
    let mut values = vec![
        "UUID()",
        "uuid()",
        &quoted,
        "'6CCD780CBABA102695645B8C656024DD'",
    ];
    values.extend(["X'6ccd780cbaba102695645b8c656024de'", "UUID()", "UUID()"]);
    keys_of_bytes(&mut client, "UUID", &values);
    let refused = refused(
        &mut client,
        "CREATE TABLE odd (id FLOAT PRIMARY KEY) /*heddle shard_map=shop shard_key=id*/",
    );
    assert!(refused.contains("BINARY, VARBINARY, UUID"), "{refused}");
}

#[test]
fn keys_may_be_bytes_on_mariadb() {
    keys_may_be_bytes(Release::Installed);
}

#[test]
fn keys_may_be_bytes_on_mysql() {
    keys_may_be_bytes(Release::newest_mysql());
}
