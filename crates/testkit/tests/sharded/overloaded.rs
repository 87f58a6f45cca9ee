//! A router whose servers let nobody in quickly, or not yet: what it left behind comes to an end, and what it does not know
//! yet is waited for.

use std::net::TcpListener;
use std::time::Duration;

use testkit::client::Login;
use testkit::failover::relay::{Cut, Relay};
use testkit::proxy::{Proxy, Trap};
use testkit::server::{Release, Server};
use testkit::{Client, Farm, wait_until};

/// Farms of a loaded machine take their time.
const PATIENCE: Duration = Duration::from_secs(180);

/// A probe takes no longer, even on a loaded machine; to be let in takes longer than that, and less than a step may.
const PROBE: &str = "probe_timeout_ms=6000";
const LET_IN: Duration = Duration::from_secs(8);
const STEP: &str = "step_timeout_ms=120000";

fn app(farm: &Farm) -> Client {
    let login = Login {
        user: "app",
        password: "secret",
        patience: PATIENCE,
        ..Login::default()
    };
    Client::login(farm.sql, &login).expect("a login")
}

fn make_groups(farm: &Farm, addresses: [String; 2]) {
    for (group, address) in ["g1", "g2"].into_iter().zip(&addresses) {
        farm.json(&["group", "create", group]);
        farm.json(&["group", "add", group, address]);
    }
}

/// What a router left behind is ended, though each login at the server takes longer than a probe may.
fn branches_end_at_a_server_that_lets_nobody_in_quickly(release: Release) {
    let Some(servers) = Server::start_some(2, release, &[]) else {
        return;
    };
    let proxy = Proxy::new(servers[1].address());
    // Without the word that says what they are.
    let of_release = release.xa_flags().get(1..).unwrap_or_default();
    let farm = Farm::serve(&[&[PROBE, STEP], of_release].concat());
    make_groups(
        &farm,
        [servers[0].address().to_string(), proxy.address.to_string()],
    );
    farm.json(&["sharding", "assign_database", "one", "g1"]);
    farm.json(&["sharding", "assign_database", "two", "g2"]);
    let mut root = farm.client();
    root.set_patience(PATIENCE).expect("a socket");
    root.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    for name in ["one", "two"] {
        root.run(&format!("CREATE DATABASE {name}"));
        root.run(&format!("GRANT ALL ON {name}.* TO app@'%'"));
        root.run(&format!("CREATE TABLE {name}.t (id INT PRIMARY KEY)"));
    }
    let mut client = app(&farm);
    let mut second = servers[1].client();
    // The first transaction's branches would be ended by the connection on which the server is asked what it lists.
    for id in 1..=2 {
        client.run("BEGIN");
        client.run(&format!("INSERT INTO one.t VALUES ({id})"));
        client.run(&format!("INSERT INTO two.t VALUES ({id})"));
        if id == 2 {
            proxy.set(Trap::Request("XA COMMIT"));
            proxy.delay(LET_IN);
        }
        client.run("COMMIT");
    }
    assert!(proxy.is_sprung(), "the branch's connection broke");
    wait_until(PATIENCE, "a branch that recovery has ended", || {
        second.rows("XA RECOVER").is_empty()
    });
    assert_eq!(second.value("SELECT COUNT(*) FROM two.t"), "2");
}

/// True when statements have waited.
fn has_held(client: &mut Client) -> bool {
    let rows = client.rows("HEDDLE STATUS");
    rows.iter().any(|row| match &row[..] {
        [Some(name), Some(value), ..] => name.ends_with("statements_held") && value != "0",
        _ => false,
    })
}

/// A router that has begun and does not know the columns of a table lets its statements wait.
fn statements_wait_for_the_columns_of_their_tables(release: Release) {
    let Some(servers) = Server::start_some(2, release, &[]) else {
        return;
    };
    let relay = Relay::start(servers[1].address());
    let of_release = release.xa_flags().get(1..).unwrap_or_default();
    let mut farm = Farm::serve(&[&["failover_wait_ms=120000"], of_release].concat());
    make_groups(
        &farm,
        [
            servers[0].address().to_string(),
            relay.address().to_string(),
        ],
    );
    // The columns may come before the first probe: statements wait for a primary of an active group, too.
    for group in ["g1", "g2"] {
        farm.json(&["group", "activate", group]);
    }
    let mut root = farm.client();
    root.set_patience(PATIENCE).expect("a socket");
    root.rows("HEDDLE sharding create_definition SLOTS g2 shop");
    root.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    root.run("CREATE DATABASE shop");
    root.run(
        "CREATE TABLE shop.orders (note VARCHAR(9), id INT PRIMARY KEY) \
         /*heddle shard_map=shop shard_key=id*/",
    );
    drop(root);
    farm.kill_up();
    let cut = Cut {
        to_server: true,
        from_server: true,
    };
    relay.cut(cut);
    wait_until(PATIENCE, "the addresses of the router that died", || {
        let addresses = [farm.sql, farm.kv, farm.http];
        addresses.iter().all(|it| TcpListener::bind(it).is_ok())
    });
    farm.start_again();
    let mut client = farm.client();
    client.set_patience(PATIENCE).expect("a socket");
    let inserted = std::thread::scope(|scope| {
        // Only the table's columns tell which of the two values is the key.
        let insert = scope.spawn(|| client.query("INSERT INTO shop.orders VALUES ('x', 1)"));
        let mut other = farm.client();
        other.set_patience(PATIENCE).expect("a socket");
        wait_until(PATIENCE, "a statement that waits", || {
            insert.is_finished() || has_held(&mut other)
        });
        relay.cut(Cut::default());
        insert.join().expect("no panic")
    });
    inserted.expect("the columns came");
    let rows = client.rows("SELECT note, id FROM shop.orders");
    assert_eq!(rows, [[Some("x".to_owned()), Some("1".to_owned())]]);
}

testkit::on_both_engines! {
    branches_end_at_a_server_that_lets_nobody_in_quickly,
    statements_wait_for_the_columns_of_their_tables,
}
