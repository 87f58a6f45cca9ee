//! Rows and branches of transactions over groups, on real servers.

mod root;

use engine::Link;
use engine::decisions::{self, Bar, Decision};
use farm::ServerId;
use farm::crossing::{Branch, GlobalId, Place, RouterLife, Verdict, farm_number};
use root::{MS, link};
use testkit::{Client, Release, Server};

const FARM: u64 = 0x00ff_275c_0a0d_1a80;

fn id(sequence: u32, decider: &mut Client) -> GlobalId {
    GlobalId {
        farm: FARM,
        decider: 1,
        at_ms: 1_790_000_000_000,
        router: RouterLife {
            slot: 0,
            started_ms: 1,
        },
        sequence,
        at: place(decider),
    }
}

fn place(client: &mut Client) -> Place {
    let connection = client.value("SELECT CONNECTION_ID()");
    Place {
        server: ServerId(1),
        connection: connection.parse().expect("a number"),
    }
}

/// A branch of this connection that is prepared.
fn prepare(client: &mut Client, id: GlobalId, sql: &str) -> Branch {
    let branch = Branch {
        id,
        group: 2,
        owner: place(client),
    };
    client.run(&format!("XA START {branch}"));
    client.query(sql).expect("runs");
    client.run(&format!("XA END {branch}"));
    client.run(&format!("XA PREPARE {branch}"));
    branch
}

fn start(release: Release) -> Option<(Server, Client)> {
    let server = Server::start(release)?;
    let mut client = server.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v INT) ENGINE=InnoDB");
    client.run("INSERT INTO d.t (v) VALUES (0)");
    client.run("CREATE TABLE d.u (v INT PRIMARY KEY) ENGINE=InnoDB");
    Some((server, client))
}

fn app(server: &Server) -> Client {
    Client::connect(server.address(), "app", "x").expect("an account")
}

/// What a client's own account may do, and what its connection shows of it.
async fn accounts_decide(release: Release) {
    let Some((server, mut root)) = start(release) else {
        return;
    };
    root.run("CREATE USER app@'%' IDENTIFIED BY 'x'");
    root.run("GRANT SELECT, INSERT ON d.* TO app@'%'");
    let mut link = link(&server).await;
    assert_eq!(decisions::make(&mut link, MS).await, Ok(true));
    assert_eq!(decisions::make(&mut link, MS).await, Ok(false));
    let mut app = app(&server);
    let one = id(1, &mut app);
    app.run("BEGIN");
    app.run("INSERT INTO d.t (v) VALUES (1), (2)");
    let packet = format!("{}; COMMIT", decisions::decide(&one, [2, 5]));
    assert_eq!(app.error(&packet), 1370, "nobody gave it the right");
    // The transaction is still there, and the right counts at once.
    assert_eq!(decisions::grant(&mut link, "app", "%", MS).await, Ok(()));
    let missing = decisions::grant(&mut link, "nobody", "%", MS).await;
    assert!(missing.is_err(), "no account is made by the way");
    let replies = app.query(&packet).expect("decided");
    assert_eq!(replies.len(), 2, "{replies:?}");
    let seen = "SELECT CONCAT_WS(' ', LAST_INSERT_ID(), ROW_COUNT(), @@warning_count)";
    assert_eq!(app.value(seen), "2 0 0");
    let all = decisions::decisions(&mut link, FARM, None, 10, MS).await;
    let decided = Decision {
        id: one,
        verdict: Verdict::Commit,
        groups: vec![2, 5],
    };
    assert_eq!(all, Ok(vec![decided]));
    // It can write nothing else there.
    assert_eq!(
        app.error("INSERT INTO heddle.mark VALUES ('x', 'abort', '', NOW())"),
        1142
    );
    assert_eq!(app.error("CALL heddle.decide('order-17', '2')"), 1644);
    // A transaction that was barred stays open and undecided.
    let two = id(2, &mut app);
    assert_eq!(decisions::bar(&mut link, &two, MS).await, Ok(Bar::Stands));
    app.run("BEGIN");
    app.run("INSERT INTO d.t (v) VALUES (3)");
    let packet = format!("{}; COMMIT", decisions::decide(&two, [2]));
    assert_eq!(app.error(&packet), 1062);
    app.run("ROLLBACK");
    assert_eq!(root.value("SELECT MAX(v) FROM d.t"), "2");
}

/// A server whose binlog leaves decisions out makes none, and says why.
async fn filters_bar(release: Release) {
    for (filter, databases, bars) in [
        ("binlog_ignore_db", "heddle", true),
        ("binlog_do_db", "d", true),
        ("binlog_ignore_db", "d", false),
    ] {
        let Some(server) = Server::start_with(release, &[(filter, databases)]) else {
            return;
        };
        let made = decisions::make(&mut link(&server).await, MS).await;
        match bars {
            true => {
                let why = made.expect_err("a refusal").to_string();
                assert!(why.contains(filter), "{why}");
            }
            false => assert_eq!(made, Ok(true)),
        }
    }
}

/// Who comes second, the decision or the row that bars it, finds the other.
async fn rows_judge(release: Release) {
    let Some((server, mut root)) = start(release) else {
        return;
    };
    let mut link = link(&server).await;
    let (open, stale) = (id(1, &mut root), id(2, &mut root));
    let look = async |link: &mut Link, id| decisions::look(link, id, MS).await;
    assert_eq!(look(&mut link, &open).await, Ok(None), "no table yet");
    assert_eq!(
        decisions::decisions(&mut link, FARM, None, 9, MS).await,
        Ok(Vec::new())
    );
    assert_eq!(decisions::bar(&mut link, &stale, MS).await, Ok(Bar::Stands));
    assert_eq!(decisions::bar(&mut link, &stale, MS).await, Ok(Bar::Taken));
    assert_eq!(look(&mut link, &stale).await, Ok(Some(Verdict::Abort)));
    root.run("BEGIN");
    root.run("INSERT INTO d.t (v) VALUES (1)");
    root.run(&decisions::decide(&open, [2]));
    assert_eq!(look(&mut link, &open).await, Ok(None));
    assert_eq!(decisions::bar(&mut link, &open, MS).await, Ok(Bar::Open));
    root.run("COMMIT");
    assert_eq!(decisions::bar(&mut link, &open, MS).await, Ok(Bar::Taken));
    assert_eq!(look(&mut link, &open).await, Ok(Some(Verdict::Commit)));
    // Whoever holds the gate holds up decisions, and nothing else.
    let mut holder = server.client();
    holder.run("BEGIN");
    holder.rows("SELECT id FROM heddle.gate WHERE id = 1 FOR UPDATE");
    root.run("SET SESSION innodb_lock_wait_timeout = 1");
    let third = id(3, &mut root);
    root.run("BEGIN");
    root.run("INSERT INTO d.t (v) VALUES (2)");
    let packet = format!("{}; COMMIT", decisions::decide(&third, [2]));
    assert_eq!(root.error(&packet), 1205);
    holder.run("COMMIT");
    root.query(packet.as_str()).expect("decided");
    // In the order of their ids, page by page, and other farms' not at all.
    let page = async |link: &mut Link, behind| {
        let rows = decisions::decisions(link, FARM, behind, 2, MS).await;
        let ids = rows.expect("rows").into_iter().map(|row| row.id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(page(&mut link, None).await, [open, stale]);
    assert_eq!(page(&mut link, Some(&stale)).await, [third]);
    let others = decisions::decisions(&mut link, FARM + 1, None, 9, MS).await;
    assert_eq!(others, Ok(Vec::new()));
    let all = [open, stale, third];
    assert_eq!(decisions::remove(&mut link, &all, MS).await, Ok(()));
    assert!(page(&mut link, None).await.is_empty());
    assert_eq!(
        root.value("SELECT COUNT(*) FROM heddle.mark"),
        "1",
        "never empty"
    );
    // A server that is read-only decides nothing, whoever asks.
    root.run("SET GLOBAL read_only = 1");
    assert_eq!(root.error(&decisions::decide(&third, [2])), 1644);
}

/// Branches are found, told from others', and ended by somebody else than their owner.
async fn branches_end(release: Release) {
    let Some((server, mut root)) = start(release) else {
        return;
    };
    let mut link = link(&server).await;
    let (mut first, mut second, mut foreign) = (server.client(), server.client(), server.client());
    let ids = [id(1, &mut root), id(2, &mut root)];
    let one = prepare(&mut first, ids[0], "INSERT INTO d.t (v) VALUES (1)");
    let other_farm = GlobalId { farm: 7, ..ids[0] };
    prepare(&mut foreign, other_farm, "INSERT INTO d.t (v) VALUES (7)");
    let bytes: String = (0..64).map(|byte| format!("{:02x}", byte * 4)).collect();
    let mut application = server.client();
    for verb in ["START", "END", "PREPARE"] {
        application.run(&format!("XA {verb} X'{bytes}',X'{bytes}',7"));
    }
    // Its owner is there: nobody else gets it.
    let prepared = engine::prepared(&mut link, FARM, MS).await.expect("a list");
    assert_eq!((&prepared.ours[..], prepared.others), (&[one][..], 1));
    assert_eq!(prepared.own.len(), 1, "the application's");
    let ended = engine::end_branch(&mut link, &one, Verdict::Commit, MS).await;
    assert_eq!(ended, Ok(false));
    // An id of before a restart is somebody else's.
    assert_eq!(
        engine::free_branch(&mut link, &one, u64::MAX, MS).await,
        Ok(false)
    );
    let own = Branch {
        owner: Place {
            connection: link.id(),
            ..one.owner
        },
        ..one
    };
    assert_eq!(engine::free_branch(&mut link, &own, 0, MS).await, Ok(false));
    assert_eq!(engine::free_branch(&mut link, &one, 0, MS).await, Ok(true));
    let deadline = std::time::Duration::from_secs(20);
    testkit::wait_until(deadline, "the branch is free", || {
        root.query(format!("XA COMMIT {one}").as_str()).is_ok()
    });
    assert_eq!(root.value("SELECT COUNT(*) FROM d.t WHERE v = 1"), "1");
    let ended = engine::end_branch(&mut link, &one, Verdict::Commit, MS).await;
    assert_eq!(ended, Ok(false), "there is none any more");
    // One whose owner is gone, and one that changed nothing.
    for sql in [
        "INSERT INTO d.t (v) VALUES (2)",
        "SELECT * FROM d.u FOR UPDATE",
    ] {
        let two = prepare(&mut second, ids[1], sql);
        drop(std::mem::replace(&mut second, server.client()));
        testkit::wait_until(deadline, "the owner is gone", || {
            let count = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ";
            root.value(&format!("{count}{}", two.owner.connection)) == "0"
        });
        assert_eq!(engine::free_branch(&mut link, &two, 0, MS).await, Ok(false));
        engine::end_branch(&mut link, &two, Verdict::Abort, MS)
            .await
            .expect("ended");
        let prepared = engine::prepared(&mut link, FARM, MS).await.expect("a list");
        assert_eq!((prepared.ours.len(), prepared.others), (0, 1));
    }
    assert_eq!(root.value("SELECT COUNT(*) FROM d.t WHERE v = 2"), "0");
    assert_ne!(farm_number("a"), farm_number("b"));
}

macro_rules! on_both {
    ($($name:ident $maria:ident $mysql:ident;)*) => {$(
        #[tokio::test]
        async fn $maria() {
            $name(Release::Installed).await;
        }

        #[tokio::test]
        async fn $mysql() {
            $name(Release::MySql80).await;
        }
    )*};
}

on_both! {
    accounts_decide accounts_decide_on_mariadb accounts_decide_on_mysql;
    filters_bar filters_bar_on_mariadb filters_bar_on_mysql;
    rows_judge rows_judge_on_mariadb rows_judge_on_mysql;
    branches_end branches_end_on_mariadb branches_end_on_mysql;
}
