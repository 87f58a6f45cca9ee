//! What is read of accounts by an account that may not read all of it.

use std::collections::BTreeSet;

use engine::{Link, Login};
use farm::{Accounts, Engine};
use testkit::{Release, Server};

use crate::root::{MS, link, login};

/// One of the questions is refused, and those behind it in the same packet with it. All others are answered.
fn what_is_refused_keeps_nothing_else_back(release: Release) {
    let Some(server) = Server::start_with(release, &[]) else {
        return;
    };
    let mut client = server.client();
    client.run("CREATE USER sees@'%' IDENTIFIED BY ''");
    client.run("GRANT PROCESS ON *.* TO sees@'%'");
    client.run("CREATE ROLE reader");
    client.run("GRANT reader TO sees@'%'");
    let readable = match server.engine() {
        Engine::MariaDb => &["global_priv"][..],
        Engine::MySql => &["user", "global_grants"],
    };
    for table in readable {
        client.run(&format!("GRANT SELECT ON mysql.{table} TO sees@'%'"));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut root = link(&server).await;
        let own = Login {
            user: "sees".to_owned(),
            ..login(&server)
        };
        let mut sees = Link::open(&own, MS).await.expect("a link");
        let all = engine::accounts(&mut root, MS).await.expect("all");
        let part = engine::accounts(&mut sees, MS).await.expect("a part");
        assert_eq!(names(&part), names(&all));
        assert_ne!(all.databases, 0);
        assert_eq!(part.databases, 0, "grants on databases were refused");
        let own = ("sees".to_owned(), "%".to_owned());
        assert!(part.global_rights[&own].see && all.global_rights[&own].see);
        // The link is as good as before.
        let seen = engine::seen_as(&mut sees, MS).await.expect("an answer");
        assert_eq!(
            seen,
            engine::seen_as(&mut sees, MS).await.expect("the same")
        );
        assert!(seen.is_some_and(|seen| seen.is_loopback()), "{seen:?}");
    });
}

fn names(accounts: &Accounts) -> BTreeSet<(String, String)> {
    let name = |account: &farm::Account| (account.user.to_string(), account.host.to_string());
    accounts.iter().map(name).collect()
}

testkit::on_both_engines! {
    what_is_refused_keeps_nothing_else_back,
}
