//! Rows and branches of transactions over groups, on real servers.

use crate::root::{MS, link};
use engine::Link;
use engine::decisions::{self, Bar, Decision};
use enginesql::seal::Key;
use farm::ServerId;
use farm::dist_txn::{Branch, GlobalId, Place, RouterLife, Verdict, farm_number};
use testkit::{Client, Release, Server};

const FARM: u64 = 0x00ff_275c_0a0d_1a80;

fn key() -> Key {
    Key::new("secret", "farm")
}

/// The text by which this transaction is decided, with a branch in group 2.
fn calls(id: GlobalId) -> String {
    enginesql::decision::decide(&key().seal(id), [2])
}

fn id(sequence: u32, coordinator: &mut Client) -> GlobalId {
    GlobalId {
        farm: FARM,
        coordinator: 1,
        at_ms: 1_790_000_000_000,
        router: RouterLife {
            slot: 0,
            started_ms: 1,
        },
        sequence,
        at: place(coordinator),
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
    assert_eq!(decisions::make(&mut link, FARM, &key(), MS).await, Ok(true));
    assert_eq!(
        decisions::make(&mut link, FARM, &key(), MS).await,
        Ok(false)
    );
    let mut app = app(&server);
    let one = id(1, &mut app);
    app.run("BEGIN");
    app.run("INSERT INTO d.t (v) VALUES (1), (2)");
    let packet = format!(
        "{}; COMMIT",
        enginesql::decision::decide(&key().seal(one), [2, 5])
    );
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
    let mut all = all.expect("rows");
    let age_ms = all[0].age_ms.take().expect("its time");
    assert!(age_ms < MS, "{age_ms}");
    let decided = Decision {
        id: one,
        verdict: Verdict::Commit,
        groups: vec![2, 5],
        age_ms: None,
    };
    assert_eq!(all, [decided]);
    // It can write nothing else there.
    assert_eq!(
        app.error("INSERT INTO heddle.mark VALUES ('x', 'abort', '', NOW())"),
        1142
    );
    assert_eq!(app.error("CALL heddle.decide('order-17', '2')"), 1370);
    // A transaction that was barred stays open and undecided.
    let two = id(2, &mut app);
    assert_eq!(
        decisions::bar(&mut link, &two, &key(), MS).await,
        Ok(Bar::Stands)
    );
    app.run("BEGIN");
    app.run("INSERT INTO d.t (v) VALUES (3)");
    let packet = format!("{}; COMMIT", calls(two));
    assert_eq!(app.error(&packet), 1062);
    app.run("ROLLBACK");
    assert_eq!(root.value("SELECT MAX(v) FROM d.t"), "2");
}

/// What an account that may decide tries with ids that are not its own transaction's.
async fn ids_cannot_be_made_up(release: Release) {
    let Some((server, mut root)) = start(release) else {
        return;
    };
    root.run("CREATE USER app@'%' IDENTIFIED BY 'x'");
    root.run("GRANT SELECT, INSERT ON d.* TO app@'%'");
    let mut link = link(&server).await;
    assert_eq!(decisions::make(&mut link, FARM, &key(), MS).await, Ok(true));
    assert_eq!(decisions::grant(&mut link, "app", "%", MS).await, Ok(()));
    let (mut victim, mut thief) = (app(&server), app(&server));
    let wanted = id(1, &mut victim);
    let own = id(2, &mut thief);
    let sealed = key().seal(wanted);
    let far = GlobalId {
        at_ms: u64::MAX >> 16,
        ..own
    };
    let others = Key::new("another secret", "farm");
    let forged = [
        // Another's transaction, whose seal was seen; one to come; one of no farm.
        enginesql::decision::decide(&sealed, [2]),
        enginesql::decision::decide(&others.seal(own), [2]),
        enginesql::decision::decide(&key().seal(GlobalId { farm: 7, ..own }), [2]),
        format!("CALL heddle.decide(X'{own}','2')"),
        format!("CALL heddle.decide(X'{wanted}','2')"),
        format!("CALL heddle.decide(CONCAT(X'{far}', REPEAT('x', 16)),'2')"),
        format!("CALL heddle.hold(X'{own}','2','x')"),
        format!("CALL heddle.hold(CONCAT(X'{own}', REPEAT('x', 16)),'2','x')"),
        "CALL heddle.decide(NULL, NULL)".to_owned(),
        "CALL heddle.decide('', '')".to_owned(),
        format!("CALL heddle.decide(REPEAT('{}', 60), '2')", "x"),
    ];
    thief.run("BEGIN");
    for text in &forged {
        assert_eq!(thief.error(text), 1370, "{text}");
    }
    // None of them holds the commit barrier, or a row, while its transaction is open.
    let holder = async |link: &mut Link| {
        let taken = engine::barriers::take(link, MS).await;
        let _ = engine::barriers::let_go(link, MS).await;
        taken
    };
    assert_eq!(holder(&mut link).await, Ok(engine::barriers::Taking::Held));
    victim.run("BEGIN");
    victim.run("INSERT INTO d.t (v) VALUES (1)");
    let packet = format!("{}; COMMIT", enginesql::decision::decide(&sealed, [2]));
    victim.query(packet.as_str()).expect("decided");
    thief.run("COMMIT");
    assert_eq!(root.value("SELECT COUNT(*) FROM heddle.mark"), "2");
    // The key is not for it to see, and neither are the rows.
    for table in ["secret", "mark", "gate"] {
        let read = format!("SELECT * FROM heddle.{table}");
        assert_eq!(thief.error(&read), 1142, "{table}");
        assert!([1142, 1044].contains(&thief.error(&format!("LOCK TABLES heddle.{table} READ"))));
    }
    // What the session calls the time is not when it was decided.
    let third = id(3, &mut victim);
    victim.run("SET timestamp = 2000000000");
    let packet = format!("{}; COMMIT", calls(third));
    victim.query(packet.as_str()).expect("decided");
    let rows = decisions::decisions(&mut link, FARM, Some(&wanted), 9, MS).await;
    let rows = rows.expect("rows");
    assert!(rows[0].age_ms.is_some_and(|age| age < MS), "{rows:?}");
}

/// Looks once who keeps the commit barrier from a link that waits for it, a moment after it has begun to wait.
/// MariaDB tells nothing new to who asks without a pause.
async fn look_once(looker: &mut Link, waiting: u64) -> Vec<u32> {
    for _ in 0..50 {
        let rows = decisions::decisions(looker, FARM, None, 1, MS).await;
        rows.expect("the server answers");
    }
    let found = engine::barriers::dismiss_holders(looker, waiting, MS).await;
    found.expect("the server tells")
}

/// An account that may read all tables keeps no commit barrier, and whoever commits is let alone.
async fn barriers_are_the_routers(release: Release) {
    // Without it MySQL does not tell who has a lock.
    let Some(server) = Server::start_with(release, &[("performance_schema", "ON")]) else {
        return;
    };
    let mut root = server.client();
    root.run("CREATE USER app@'%' IDENTIFIED BY 'x'");
    root.run("GRANT SELECT, UPDATE, LOCK TABLES ON *.* TO app@'%'");
    let (mut taker, mut looker) = (link(&server).await, link(&server).await);
    let made = decisions::make(&mut taker, FARM, &key(), MS).await;
    assert_eq!(made, Ok(true));
    let waiting = taker.id();
    for holding in [
        "SELECT id FROM heddle.gate LOCK IN SHARE MODE",
        "SELECT id FROM heddle.gate FOR UPDATE",
    ] {
        let mut holder = app(&server);
        holder.run("BEGIN");
        holder.rows(holding);
        let mut taken = engine::barriers::Taking::Busy;
        while taken == engine::barriers::Taking::Busy {
            let take = engine::barriers::take(&mut taker, MS);
            let look = look_once(&mut looker, waiting);
            let (told, _) = tokio::join!(take, look);
            taken = told.expect("the server answers");
        }
        assert!(holder.ping().is_err(), "{holding}");
        assert_eq!(engine::barriers::let_go(&mut taker, MS).await, Ok(()));
    }
    // A router's own connection stays.
    root.run("BEGIN");
    root.rows("SELECT id FROM heddle.gate LOCK IN SHARE MODE");
    for _ in 0..3 {
        let take = engine::barriers::take(&mut taker, MS);
        let (taken, ended) = tokio::join!(take, look_once(&mut looker, waiting));
        assert_eq!(
            (taken, ended),
            (Ok(engine::barriers::Taking::Busy), Vec::new())
        );
    }
    root.run("COMMIT");
}

/// Rows that older routines took are removed when they are of nobody, and stay when they may be needed.
async fn rows_of_nobody_go(release: Release) {
    let Some((server, mut root)) = start(release) else {
        return;
    };
    let mut link = link(&server).await;
    decisions::make(&mut link, FARM, &key(), MS)
        .await
        .expect("made");
    let (other, third) = (FARM + 1, FARM + 2);
    decisions::make(&mut link, other, &key(), MS)
        .await
        .expect("made");
    let of = |farm| GlobalId {
        farm,
        ..id(1, &mut server.client())
    };
    let (own, known, unknown) = (of(FARM), of(other), of(third));
    let row = |id: &str, at: &str| {
        format!(
            "INSERT INTO heddle.mark (id, state, branches, at) VALUES ({id}, 'commit', '', {at})"
        )
    };
    for id in [own, known, unknown] {
        root.run(&row(&format!("X'{id}'"), "NOW(3)"));
    }
    root.run(&row("'order-17'", "NOW(3) - INTERVAL 1 HOUR"));
    root.run(&row("X'ffffffffffffffffffffffffffff'", "NOW(3)"));
    let removed = decisions::remove_foreign(&mut link, FARM, 60_000, 9, MS).await;
    assert_eq!(removed, Ok(1), "the others are not old enough");
    let removed = decisions::remove_foreign(&mut link, FARM, 0, 1, MS).await;
    assert_eq!(removed, Ok(1), "one by one");
    let removed = decisions::remove_foreign(&mut link, FARM, 0, 9, MS).await;
    assert_eq!(removed, Ok(1));
    let left = root.rows("SELECT LOWER(HEX(id)) FROM heddle.mark ORDER BY id");
    let left: Vec<String> = left
        .iter()
        .map(|row| row[0].clone().expect("an id"))
        .collect();
    assert_eq!(left, ["00".to_owned(), own.to_string(), known.to_string()]);
}

/// Routers of the form before and of this one decide by turns.
async fn older_routers_decide(release: Release) {
    let Some((server, mut root)) = start(release) else {
        return;
    };
    let mut link = link(&server).await;
    assert_eq!(decisions::make(&mut link, FARM, &key(), MS).await, Ok(true));
    let one = id(1, &mut root);
    // An older router takes the number for a missing right, and makes its own form again.
    assert_eq!(
        root.error(&format!("CALL heddle.decide(X'{one}','2')")),
        1370
    );
    root.run("DROP PROCEDURE heddle.decide");
    root.run(
        "CREATE PROCEDURE heddle.decide(IN of_id VARBINARY(64), IN of_groups VARCHAR(4096)) \
         COMMENT 'Heddle: form 3' BEGIN \
         IF LENGTH(of_id) <> 45 THEN SIGNAL SQLSTATE '45000'; END IF; \
         INSERT INTO heddle.mark (id, state, branches) VALUES (of_id, 'commit', of_groups); END",
    );
    root.run(&format!("CALL heddle.decide(X'{one}','2')"));
    // Rows of its making are read as before.
    assert_eq!(
        decisions::look(&mut link, &one, MS).await,
        Ok(Some(Verdict::Commit))
    );
    let two = id(2, &mut root);
    let packet = calls(two);
    assert_eq!(root.error(&packet), enginesql::decision::SIGNALLED);
    assert_eq!(decisions::make(&mut link, FARM, &key(), MS).await, Ok(true));
    root.run(&packet);
    assert_eq!(
        decisions::make(&mut link, FARM, &key(), MS).await,
        Ok(false)
    );
    // A farm whose secret is another one is believed again.
    let changed = Key::new("another secret", "farm");
    let three = id(3, &mut root);
    let packet = enginesql::decision::decide(&changed.seal(three), [2]);
    assert_eq!(root.error(&packet), 1370);
    assert_eq!(
        decisions::make(&mut link, FARM, &changed, MS).await,
        Ok(true)
    );
    root.run(&packet);
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
        let made = decisions::make(&mut link(&server).await, FARM, &key(), MS).await;
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
    assert_eq!(
        decisions::bar(&mut link, &stale, &key(), MS).await,
        Ok(Bar::Stands)
    );
    assert_eq!(
        decisions::bar(&mut link, &stale, &key(), MS).await,
        Ok(Bar::Taken)
    );
    assert_eq!(look(&mut link, &stale).await, Ok(Some(Verdict::Abort)));
    root.run("BEGIN");
    root.run("INSERT INTO d.t (v) VALUES (1)");
    root.run(&calls(open));
    assert_eq!(look(&mut link, &open).await, Ok(None));
    assert_eq!(
        decisions::bar(&mut link, &open, &key(), MS).await,
        Ok(Bar::Open)
    );
    root.run("COMMIT");
    assert_eq!(
        decisions::bar(&mut link, &open, &key(), MS).await,
        Ok(Bar::Taken)
    );
    assert_eq!(look(&mut link, &open).await, Ok(Some(Verdict::Commit)));
    // Whoever holds the commit barrier holds up decisions, and nothing else.
    let mut holder = server.client();
    holder.run("BEGIN");
    holder.rows("SELECT id FROM heddle.gate WHERE id = 1 FOR UPDATE");
    root.run("SET SESSION innodb_lock_wait_timeout = 1");
    let third = id(3, &mut root);
    root.run("BEGIN");
    root.run("INSERT INTO d.t (v) VALUES (2)");
    let packet = format!("{}; COMMIT", calls(third));
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
    assert_eq!(root.error(&calls(third)), 1644);
}

/// Heddle's account may write into a server that is read-only. The next primary gets such rows and ends of its own, and this
/// server could not follow it.
async fn nothing_is_decided_where_another_leads(release: Release) {
    let Some((server, mut root)) = start(release) else {
        return;
    };
    let mut link = link(&server).await;
    let (stale, late) = (id(1, &mut root), id(2, &mut root));
    assert_eq!(
        decisions::bar(&mut link, &stale, &key(), MS).await,
        Ok(Bar::Stands)
    );
    let mut owner = server.client();
    let branch = prepare(&mut owner, stale, "INSERT INTO d.t (v) VALUES (1)");
    root.run("SET GLOBAL read_only = 1");
    let left = [
        decisions::bar(&mut link, &late, &key(), MS).await.map(drop),
        decisions::remove(&mut link, &[stale], MS).await,
        engine::end_branch(&mut link, &branch, Verdict::Abort, MS)
            .await
            .map(drop),
    ];
    for left in left {
        let is_left = matches!(left, Err(engine::Error::Lost { .. }));
        assert!(is_left, "{left:?}");
    }
    let rows = "SELECT COUNT(*) FROM heddle.mark WHERE id <> X'00'";
    assert_eq!(root.value(rows), "1");
    root.run("SET GLOBAL read_only = 0");
    // The link is of use again, and no transaction is open on it.
    assert_eq!(
        decisions::bar(&mut link, &late, &key(), MS).await,
        Ok(Bar::Stands)
    );
    assert_eq!(root.value(rows), "2");
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
    // Its owner is there: nobody else gets it, but where it is nobody's once it is prepared.
    let detached = server.detaches_xa();
    let prepared = engine::prepared(&mut link, FARM, MS).await.expect("a list");
    assert_eq!((&prepared.ours[..], prepared.others), (&[one][..], 1));
    assert_eq!(prepared.own.len(), 1, "the application's");
    let ended = engine::end_branch(&mut link, &one, Verdict::Commit, MS).await;
    assert_eq!(ended, Ok(detached));
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
        detached || root.query(format!("XA COMMIT {one}").as_str()).is_ok()
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
    ids_cannot_be_made_up made_up_ids_on_mariadb made_up_ids_on_mysql;
    barriers_are_the_routers barriers_on_mariadb barriers_on_mysql;
    nothing_is_decided_where_another_leads replaced_on_mariadb replaced_on_mysql;
    rows_of_nobody_go rows_of_nobody_on_mariadb rows_of_nobody_on_mysql;
    older_routers_decide older_routers_on_mariadb older_routers_on_mysql;
    filters_bar filters_bar_on_mariadb filters_bar_on_mysql;
    rows_judge rows_judge_on_mariadb rows_judge_on_mysql;
    branches_end branches_end_on_mariadb branches_end_on_mysql;
}
