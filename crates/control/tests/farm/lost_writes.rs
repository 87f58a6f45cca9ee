//! Writes whose answers were lost with the primary: they are looked for in the log of the next one, which is read while
//! that one is being prepared.

use std::sync::mpsc;

use farm::{Fate, LostWrite, ServerId, TableRows};
use testkit::{Release, Server, wait_until};

use crate::plane::{PATIENCE, Plane, farm_of, servers_of, wait_until_settled};

/// A write of the first server's that carried this tag, or was to carry it.
fn lost(plane: &Plane, server: &Server, tag: &str) -> LostWrite {
    let snapshot = plane.published.load();
    let address = server.address().to_string();
    let mut known = snapshot.groups.iter().flat_map(|group| &group.servers);
    let known = known.find(|known| known.address() == address);
    let sent_us = u64::try_from(snapshot.origin.elapsed().as_micros()).expect("microseconds");
    LostWrite {
        group: "g".to_owned(),
        server: ServerId(known.expect("a member").id.0),
        thread_id: 1,
        tag: tag.to_owned(),
        after: String::new(),
        sent_us,
        opened_s: 0,
    }
}

fn lost_writes_are_answered_by_the_next_primary(release: Release) {
    let Some(mut servers) = servers_of::<3>(release) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let plane = farm_of(dir.path(), &servers);
    plane.rows(&["group", "activate", "g"]);
    let mut client = servers[0].client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)");
    for server in &servers {
        wait_until_settled(server);
    }
    let asked = ["done-1", "gone-1", "done-2"].map(|tag| lost(&plane, &servers[0], tag));
    // Servers log the statements of connections that began after they were told to.
    let mut client = servers[0].client();
    client.run("/*heddle:done-1*/ INSERT INTO d.t (b) VALUES (1), (2)");
    client.run("/*heddle:done-2*/ UPDATE d.t SET b = 7");
    for server in &servers[1..] {
        wait_until(PATIENCE, "the last write", || {
            let sql = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd'";
            server.client().value(sql) == "1"
                && server
                    .client()
                    .value("SELECT COUNT(*) FROM d.t WHERE b = 7")
                    == "2"
        });
    }
    drop(client);
    servers[0].kill();
    let commander = plane.control.commander();
    let answers: Vec<_> = asked
        .into_iter()
        .map(|lost| {
            let (tell, told) = mpsc::channel();
            commander.resolve(lost, Box::new(move |fate| drop(tell.send(fate))));
            told
        })
        .collect();
    let fates = answers
        .iter()
        .map(|told| told.recv_timeout(PATIENCE).expect("an answer"));
    let fates: Vec<Fate> = fates.collect();
    let rows = |fate: &Fate| match fate {
        Fate::Committed {
            rows: Some(rows), ..
        } => rows.clone(),
        other => panic!("{other:?} in {fates:?}"),
    };
    let touched = |inserted, updated, insert_id| TableRows {
        database: "d".to_owned(),
        table: "t".to_owned(),
        inserted,
        updated,
        deleted: 0,
        insert_id,
    };
    assert_eq!(rows(&fates[0]), [touched(2, 0, Some(1))]);
    assert_eq!(fates[1], Fate::Lost);
    assert_eq!(rows(&fates[2]), [touched(0, 2, Some(1))]);
    let snapshot = plane.published.load();
    let primary = snapshot.groups[0].primary().expect("a primary");
    assert_ne!(primary.address(), servers[0].address().to_string());
}

#[test]
fn lost_writes_are_answered_by_the_next_primary_on_mariadb() {
    lost_writes_are_answered_by_the_next_primary(Release::Installed);
}

#[test]
fn lost_writes_are_answered_by_the_next_primary_on_mysql() {
    lost_writes_are_answered_by_the_next_primary(Release::newest_mysql());
}
