//! The SQL door: small differences from a server by which drivers notice that it is none.

use std::process::Command;
use std::time::Duration;

use farm::Engine;
use testkit::client::{Login, Reply};
use testkit::door::{Door, Tuning};
use testkit::{Client, Release, Server, wait_until};

fn servers() -> Vec<Server> {
    [Release::Installed, Release::MySql80]
        .into_iter()
        .filter_map(Server::start)
        .collect()
}

#[test]
fn a_client_without_a_password_may_prefer_another_plugin() {
    for server in servers() {
        let mut root = server.client();
        let plugins = match server.engine() {
            farm::Engine::MariaDb => &["mysql_native_password"][..],
            farm::Engine::MySql => &["mysql_native_password", "caching_sha2_password"],
        };
        for plugin in plugins {
            root.run(&format!(
                "CREATE USER open_{plugin}@'%' IDENTIFIED WITH {plugin}"
            ));
        }
        let door = Door::start(&[&server], Tuning::follow_accounts);
        for plugin in plugins {
            for preferred in ["mysql_native_password", "caching_sha2_password"] {
                let answer = |port: u16| {
                    let asked = Command::new("mariadb")
                        .args([
                            "--no-defaults",
                            "--host=127.0.0.1",
                            "--skip-ssl",
                            "-N",
                            "-e",
                        ])
                        .args(["SELECT 7", &format!("--default-auth={preferred}")])
                        .args([format!("--port={port}"), format!("--user=open_{plugin}")])
                        .output()
                        .expect("the client is there, as its server is");
                    String::from_utf8_lossy(&[asked.stdout, asked.stderr].concat()).into_owned()
                };
                let straight = answer(server.address().port());
                let through = answer(door.address().port());
                assert_eq!(straight, through, "{plugin} for {preferred}");
                assert_eq!(through, "7\n", "{plugin} for {preferred}");
            }
        }
    }
}

#[test]
fn a_transaction_that_its_server_ends_for_being_idle_is_over() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    let mut straight = server.client();
    straight.run("CREATE DATABASE idle");
    straight.run("CREATE TABLE idle.t (a INT) ENGINE=InnoDB");
    let door = Door::start(&[&server], |tuning| {
        tuning.settings.failover_wait_ms = 10_000
    });
    let mut client = door.client_in("idle");
    for name in ["idle_transaction_timeout", "idle_write_transaction_timeout"] {
        client.run(&format!("SET SESSION {name} = 2"));
        client.run("BEGIN");
        client.run("INSERT INTO t VALUES (1)");
        let open = "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'idle'";
        wait_until(Duration::from_secs(60), "the server ends it", || {
            straight.value(open) == "0"
        });
        let heard = client
            .query("INSERT INTO t VALUES (2)")
            .expect_err("it is over");
        assert_eq!(heard.number(), 1213, "{heard}");
        client.run("ROLLBACK");
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "0", "{name}");
        client.run(&format!("SET SESSION {name} = 0"));
    }
    // One that was lost for another reason goes on.
    client.run("SET SESSION idle_transaction_timeout = 600");
    client.run("BEGIN");
    client.run("INSERT INTO t VALUES (3)");
    let thread = "SELECT MAX(id) FROM information_schema.processlist WHERE db = 'idle'";
    let thread = straight.value(thread);
    straight.run(&format!("KILL {thread}"));
    client.run("INSERT INTO t VALUES (4)");
    client.run("COMMIT");
    assert_eq!(straight.value("SELECT SUM(a) FROM idle.t"), "7");
}

#[test]
fn nobody_is_told_of_a_socket_past_the_router() {
    for server in servers() {
        let door = Door::start(&[&server], |_| {});
        let mut client = door.client();
        assert!(server.client().value("SELECT @@socket").len() > 4);
        // As mysql_async asks.
        let sql = "SELECT @@max_allowed_packet,@@wait_timeout,@@socket";
        assert_eq!(client.rows(sql)[0][2].as_deref(), Some(""));
        assert_eq!(client.value("SELECT @@GLOBAL.socket"), "");
        let prepared = client.prepare("SELECT @@socket").expect("prepared");
        assert_eq!(prepared.columns[0].name, "@@socket");
        let schema = match server.engine() {
            farm::Engine::MariaDb => "information_schema",
            farm::Engine::MySql => "performance_schema",
        };
        for (ask, at) in [
            ("SHOW VARIABLES LIKE 'socket'".to_owned(), 1),
            ("SHOW GLOBAL VARIABLES LIKE 'SOCK%'".to_owned(), 1),
            (
                "SHOW SESSION VARIABLES WHERE Variable_name = 'socket'".to_owned(),
                1,
            ),
            (
                format!(
                    "SELECT VARIABLE_VALUE FROM {schema}.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'socket'"
                ),
                0,
            ),
            (
                format!(
                    "SELECT VARIABLE_VALUE FROM {schema}.session_variables v WHERE v.VARIABLE_NAME = 'socket'"
                ),
                0,
            ),
        ] {
            let ask = match server.engine() {
                farm::Engine::MariaDb => ask,
                farm::Engine::MySql => ask.replace("GLOBAL_VARIABLES W", "global_variables W"),
            };
            assert_eq!(client.rows(&ask)[0][at].as_deref(), Some(""), "{ask}");
            let prepared = client.prepare(&ask).expect("prepared");
            let found = client.execute(&prepared, &[]).expect("executed");
            let Reply::Rows(rows) = &found[0] else {
                panic!("{ask}");
            };
            assert_eq!(rows.text()[0][at].as_deref(), Some(""), "{ask}, prepared");
        }
        assert!(
            client
                .rows("SHOW VARIABLES WHERE Value = 'no such thing'")
                .is_empty()
        );
        assert!(client.rows("SHOW VARIABLES").len() > 300);
    }
}

#[test]
fn what_a_prepare_warns_of_can_be_asked_for() {
    for server in servers() {
        let door = Door::start(&[&server], |_| {});
        let play = |client: &mut Client, between: &mut dyn FnMut()| {
            let mut seen = Vec::new();
            let mut look = |client: &mut Client| {
                between();
                let ask = ["SHOW WARNINGS", "SHOW COUNT(*) WARNINGS"];
                seen.extend(ask.map(|sql| format!("{:?}", client.rows(sql))));
            };
            let clean = client.prepare("SELECT 1").expect("prepared");
            look(client);
            client.run("SET @a = 1");
            let warns = client.prepare("SELECT 1 AS ` `").expect("prepared");
            look(client);
            client.close(warns).expect("closed");
            // What uses a table ends the warnings before it on both engines; SET may leave them.
            client.rows("SELECT COUNT(*) FROM mysql.user");
            look(client);
            client.prepare("SELECT 1 AS `  x`").expect("prepared");
            look(client);
            client.close(clean).expect("closed");
            seen
        };
        let straight = play(&mut server.client(), &mut || {});
        assert!(straight[2].contains("1474"), "{straight:?}");
        let mut other = door.client();
        let through = play(&mut door.client(), &mut || drop(other.query("DO 1")));
        assert_eq!(straight, through);
    }
}

/// What SHOW STATUS says of a counter.
fn status(client: &mut Client, name: &str) -> u64 {
    let rows = client.rows(&format!("SHOW SESSION STATUS LIKE '{name}'"));
    let value = rows[0][1].as_deref().expect("a value");
    value.parse().expect("a number")
}

#[test]
fn a_session_counts_its_own_statements() {
    for server in servers() {
        server.client().run("CREATE DATABASE counts");
        server
            .client()
            .run("CREATE TABLE counts.t (a INT PRIMARY KEY) ENGINE=InnoDB");
        server
            .client()
            .run("INSERT INTO counts.t VALUES (1), (2), (3)");
        let door = Door::start(&[&server], |tuning| {
            tuning.settings.pool.connections_max = 1;
        });
        let mut other = door.client_in("counts");
        for _ in 0..50 {
            other.rows("SELECT * FROM t");
        }
        other.quit();
        let mut client = door.client_in("counts");
        let first = status(&mut client, "Com_select");
        assert!(first < 5, "those of others: {first}");
        client.rows("SELECT 1 FROM t");
        client.rows("SELECT 2 FROM t");
        assert_eq!(status(&mut client, "Com_select"), first + 2);
        // As people look at what a statement reads.
        client.run("FLUSH STATUS");
        client.rows("SELECT a FROM t");
        let read = client.rows("SHOW STATUS LIKE 'Handler_read%next'");
        let all: u64 = read
            .iter()
            .filter_map(|row| row[1].as_deref()?.parse::<u64>().ok())
            .sum();
        assert!((3..100).contains(&all), "{read:?}");
        assert_eq!(door.counter("pins_status"), 1);
        // What is the server's own needs no connection of one's own.
        client.quit();
        let mut client = door.client_in("counts");
        client.rows("SHOW STATUS LIKE 'Threads_connected'");
        client.rows("SHOW GLOBAL STATUS");
        client.rows("SHOW STATUS LIKE 'Ssl_cipher'");
        assert_eq!(door.counter("pins_status"), 1);
        let before = status(&mut client, "Com_select");
        client.run("BEGIN");
        client.rows("SELECT 1 FROM t");
        client.run("COMMIT");
        assert_eq!(status(&mut client, "Com_select"), before + 1);
        client.reset().expect("reset");
        assert!(status(&mut client, "Com_select") < 5);
    }
}

/// Programs find values by the names that they wrote.
#[test]
fn columns_of_status_tables_are_named_as_they_are_written() {
    for server in servers() {
        let schema = match server.engine() {
            Engine::MariaDb => "information_schema",
            Engine::MySql => "performance_schema",
        };
        let door = Door::start(&[&server], |_| ());
        let text = format!(
            "SELECT variable_name, s.Variable_Value FROM {schema}.session_status s WHERE variable_name = 'ssl_cipher'"
        );
        let names = |client: &mut Client| {
            let replies = client.query(&text).expect("rows");
            let [Reply::Rows(rows)] = &replies[..] else {
                panic!("{replies:?}");
            };
            let names = rows.columns.iter().map(|column| column.name.clone());
            names.collect::<Vec<_>>()
        };
        let straight = names(&mut server.client());
        assert_eq!(names(&mut door.client()), straight, "{schema}");
    }
}

#[test]
fn variables_that_are_null_follow_their_session() {
    for release in Release::ALL {
        let Some(server) = Server::start(release) else {
            continue;
        };
        let door = Door::start(&[&server], |tuning| {
            tuning.settings.pool.connections_max = 1;
        });
        let all = server.client().rows("SHOW SESSION VARIABLES");
        let names = [
            "default_tmp_storage_engine",
            "enforce_storage_engine",
            "innodb_tmpdir",
            "innodb_ft_user_stopword_table",
            "character_set_results",
        ];
        let has = |name: &&&str| all.iter().any(|row| row[0].as_deref() == Some(**name));
        for name in names.iter().filter(has) {
            let (mut one, mut two) = (door.client(), door.client());
            let set = format!("SET SESSION {name} = NULL");
            if one.query(&set).is_err() {
                continue;
            }
            let ask = format!("SELECT @@session.{name} IS NULL");
            let others = two.value(&ask);
            assert_eq!(one.value(&ask), "1", "{name}");
            assert_eq!(two.value(&ask), others, "{name}");
            assert_eq!(one.value(&ask), "1", "{name}");
            assert_eq!(door.counter("variables_refused"), 0, "{name}");
        }
    }
}

#[test]
fn warnings_stay_over_a_set_on_another_connection() {
    for server in servers() {
        let door = Door::start(&[&server], |tuning| {
            tuning.settings.pool.connections_max = 1;
        });
        let mut straight = server.client();
        let (mut one, mut two) = (door.client(), door.client());
        for set in [
            "SET @x = 1",
            "SET sql_mode = @@sql_mode",
            "BEGIN",
            "COMMIT",
            "USE mysql",
            "SET @x = (SELECT COUNT(*) FROM mysql.user)",
        ] {
            let warned = |client: &mut Client, between: &mut dyn FnMut()| {
                client.rows("SELECT CAST('a' AS SIGNED) FROM (SELECT 1) x");
                between();
                client.run(set);
                between();
                client.rows("SHOW WARNINGS").len()
            };
            let wanted = warned(&mut straight, &mut || {});
            straight.run("COMMIT");
            if set != "BEGIN" {
                let found = warned(&mut one, &mut || drop(two.rows("SELECT 2")));
                assert_eq!(found, wanted, "{set}");
            }
        }
    }
}

#[test]
fn after_three_failures_mariadb_hears_of_no_other_user() {
    for server in servers() {
        let door = Door::start(&[&server], |_| {});
        let mut client = door.client();
        let wrong = Login {
            password: "wrong",
            ..Login::default()
        };
        let mut refusal = |login: &Login<'_>| {
            let refused = client.change_user(login);
            refused.expect_err("refused").number()
        };
        if server.engine() == farm::Engine::MySql {
            assert_eq!(refusal(&wrong), 1045);
            assert!(client.is_closed_within(Duration::from_secs(20)));
            continue;
        }
        for _ in 0..3 {
            assert_eq!(refusal(&wrong), 1045);
        }
        assert_eq!(refusal(&wrong), 1047);
        assert_eq!(refusal(&Login::default()), 1047);
        assert_eq!(client.value("SELECT 1"), "1");
    }
}

#[test]
fn the_mode_that_init_connect_sets_reads_the_texts() {
    for release in [Release::Installed, Release::MySql80] {
        let init = "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'";
        let Some(server) = Server::start_with(release, &[("init_connect", init)]) else {
            continue;
        };
        let way = match server.engine() {
            farm::Engine::MariaDb => "IDENTIFIED BY 'secret'",
            farm::Engine::MySql => "IDENTIFIED WITH mysql_native_password BY 'secret'",
        };
        server.client().run(&format!("CREATE USER moded@'%' {way}"));
        let door = Door::start(&[&server], Tuning::follow_accounts);
        door.change(0, |server| server.health.logins_set_mode = true);
        let login = Login {
            user: "moded",
            password: "secret",
            ..Login::default()
        };
        let mut client = door.login(&login).expect("admitted");
        // Where a backslash escapes, all of this is one string.
        let text = r"SELECT '\', CONNECTION_ID(), 1 -- '";
        let rows = client.rows(text);
        let id = client.connection_id.to_string();
        assert_eq!(rows[0].get(1).cloned().flatten(), Some(id), "{rows:?}");
        client.run("SET sql_mode = ''");
        assert_eq!(client.rows(text)[0].len(), 1);
        // Of root nothing is set.
        assert_eq!(door.client().rows(text)[0].len(), 1);
    }
}

#[test]
fn a_kill_takes_what_the_servers_take() {
    for server in servers() {
        let door = Door::start(&[&server], |_| {});
        let (mut client, mut other) = (door.client(), door.client());
        let by_list = "KILL (SELECT ID FROM information_schema.processlist WHERE DB = 'mysql')";
        if server.engine() == farm::Engine::MariaDb {
            client.run("CREATE DATABASE kills");
            client.run("CREATE SEQUENCE kills.s");
            assert_eq!(client.error("KILL (SELECT 1)+LASTVAL(kills.s)"), 1970);
            assert_eq!(client.error(by_list), 1970);
            assert_eq!(client.error("KILL (SELECT 4000000000)"), 1094);
        } else {
            other.use_database("mysql").expect("it is there");
            client.run(by_list);
            assert!(other.is_closed_within(Duration::from_secs(20)));
        }
    }
}
