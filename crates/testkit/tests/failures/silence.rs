//! A replica of a whole farm that falls silent while clients read there.

use testkit::Farm;
use testkit::farm::Member;

/// Reads that Heddle sends to replicas: one that reads rows, and one that asks the server who it is.
const READS: [&str; 2] = [
    "SELECT COUNT(*) FROM d.t WHERE a > 0",
    "/*ms=slave*/ SELECT COUNT(*) + @@server_id * 0 FROM d.t",
];

/// The replica, stopped until this is dropped.
struct Frozen<'a>(&'a Member);

impl<'a> Frozen<'a> {
    fn new(member: &'a Member) -> Frozen<'a> {
        member.signal("STOP");
        Frozen(member)
    }
}

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        self.0.signal("CONT");
    }
}

#[test]
fn reads_leave_a_replica_that_falls_silent() {
    let Some(farm) = Farm::start(&["--replicas", "1"]) else {
        return;
    };
    let mut writer = farm.client();
    writer.run("CREATE DATABASE d");
    writer.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    writer.run("INSERT INTO d.t VALUES (1), (2)");
    let replica = farm.in_role("g1", "SECONDARY").expect("a replica");
    let mut readers: Vec<_> = READS.iter().map(|read| (farm.client(), *read)).collect();
    let id = replica.client().value("SELECT @@server_id");
    for (reader, _) in &mut readers {
        assert_eq!(reader.value("/*ms=slave*/ SELECT @@server_id"), id);
    }
    // What a transaction has read is compared with what it reads again elsewhere, so this one does not ask for the id.
    let mut inside = farm.client();
    inside.run("START TRANSACTION READ ONLY");
    assert_eq!(inside.value(READS[0]), "2");
    readers.push((inside, READS[0]));
    let frozen = Frozen::new(&replica);
    // The primary has nobody who could acknowledge its commits, but answers reads.
    let under_way: Vec<_> = readers
        .into_iter()
        .map(|(mut reader, read)| std::thread::spawn(move || reader.value(read)))
        .collect();
    for reader in under_way {
        assert_eq!(reader.join().expect("answered"), "2");
    }
    drop(frozen);
}
