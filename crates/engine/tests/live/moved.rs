//! What Heddle writes of its own at real servers that may take no writes any more: rows that move, and ids.

use engine::part::{Ferry, PartTable};
use engine::sequence;
use testkit::{Release, Server};

use crate::root::{MS, link, login};

/// Heddle's account may write into a server that takes no writes. What a move wrote there nobody would get.
fn a_server_that_takes_no_writes_gets_no_rows(release: Release) {
    let Some(servers) = Server::start_some(2, release, &[]) else {
        return;
    };
    for server in &servers {
        let mut client = server.client();
        client.run("CREATE DATABASE shop");
        client.run("CREATE TABLE shop.t (id INT PRIMARY KEY)");
    }
    let mut target = servers[1].client();
    servers[0]
        .client()
        .run("INSERT INTO shop.t VALUES (1), (2)");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut source = link(&servers[0]).await;
        let read = PartTable::read(&mut source, "shop", "t", "TRUE", MS).await;
        let (table, objections) = read.expect("a table");
        assert!(objections.is_empty(), "{objections:?}");
        let ferry = Ferry::open(&login(&servers[0]), &login(&servers[1]), MS).await;
        let mut ferry = ferry.expect("both sides");
        target.run("SET GLOBAL read_only=1");
        let keys = [vec!["1".to_owned()]];
        let refusals = [
            ferry.copy(&table, None, 100).await.map(|piece| piece.rows),
            ferry.bring(&table, &keys).await,
        ];
        for refused in refusals {
            let error = refused.expect_err("it takes no writes").to_string();
            assert!(error.contains("takes no writes any more"), "{error}");
        }
        assert_eq!(target.value("SELECT COUNT(*) FROM shop.t"), "0");
        target.run("SET GLOBAL read_only=0");
        let copied = ferry.copy(&table, None, 100).await.expect("it takes them");
        assert_eq!(copied.rows, 2);
    });
    assert_eq!(target.value("SELECT COUNT(*) FROM shop.t"), "2");
}

/// Ids that another primary does not know to be taken would be given out twice.
fn a_server_that_takes_no_writes_gives_no_ids(release: Release) {
    let Some(server) = Server::start_with(release, &[]) else {
        return;
    };
    let mut client = server.client();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(async {
        let mut link = link(&server).await;
        sequence::begin(&mut link, "d.t", 5, MS)
            .await
            .expect("it begins");
        let taken = sequence::take(&mut link, "d.t", 1, 10, MS).await;
        assert_eq!(taken.expect("ids"), Some(5));
        client.run("SET GLOBAL read_only=1");
        let taken = sequence::take(&mut link, "d.t", 1, 10, MS).await;
        let error = taken.expect_err("it takes no writes").to_string();
        assert!(error.contains("takes no writes any more"), "{error}");
        client.run("SET GLOBAL read_only=0");
        // An error in the middle of a packet leaves its transaction open.
        drop(link);
    });
    let sql = "SELECT next FROM heddle.sequence WHERE name = 'd.t'";
    assert_eq!(client.value(sql), "15");
}

testkit::on_both_engines! {
    a_server_that_takes_no_writes_gives_no_ids,
    a_server_that_takes_no_writes_gets_no_rows,
}
