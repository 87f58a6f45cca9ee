//! A farm that is sharded as its users do it: maps by commands, tables by CREATE TABLE, definitions
//! that change on all groups, and what becomes of a table that cannot be declared.

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

fn what_fails_leaves_nothing(client: &mut Client, members: &[Member]) {
    let error = refused(
        client,
        "CREATE TABLE bad (a INT) /*heddle shard_map=shop shard_key=a*/",
    );
    assert!(error.contains("no primary key"), "{error:?}");
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
