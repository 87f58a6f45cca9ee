//! Keys and values on tables of real servers of both engines: what commands answer, what their tables
//! have afterwards, and what many of them at once become.

use std::sync::mpsc;
use std::time::Duration;

use farm::{Container, Containers};
use kv::{Change, Expiry, Item, Kv, Mode, Op, Outcome};
use session::{Message, Own, Visit};
use testkit::{Door, Release, Stage};

const SOON: Duration = Duration::from_secs(60);

struct Farm {
    stage: Stage,
    door: Door,
}

fn farms() -> impl Iterator<Item = Farm> {
    let releases = [Release::Installed, Release::MySql80].into_iter();
    releases.filter_map(Stage::start_with).map(|stage| {
        stage.everywhere(
            "CREATE DATABASE d; \
             CREATE TABLE d.t (k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PRIMARY KEY, \
               v MEDIUMBLOB, f INT UNSIGNED NOT NULL DEFAULT 0, c BIGINT UNSIGNED NOT NULL DEFAULT 0, \
               e BIGINT NOT NULL DEFAULT 0); \
             CREATE TABLE d.parent (id INT PRIMARY KEY); INSERT INTO d.parent VALUES (1); \
             CREATE TABLE d.child (k VARCHAR(50) COLLATE utf8mb4_general_ci PRIMARY KEY, \
               name VARCHAR(10), parent INT, mail VARCHAR(20) UNIQUE, \
               extra INT NOT NULL, FOREIGN KEY (parent) REFERENCES d.parent (id)) \
               CHARACTER SET utf8mb4",
        );
        let mut first = Container::new("t", "d", "t", "k", &["v"]);
        first.flags = Some("f".to_owned());
        first.cas = Some("c".to_owned());
        first.expiry = Some("e".to_owned());
        first.flush = true;
        first.consistency = Some("strong".to_owned());
        let mut child = Container::new("child", "d", "child", "k", &["name", "parent", "mail"]);
        child.consistency = Some("strong".to_owned());
        let lost = Container::new("lost", "d", "none", "k", &["v"]);
        let door = stage.door();
        door.publish(|snapshot| {
            snapshot.containers = Containers::new([first, child, lost]).into();
        });
        Farm { stage, door }
    })
}

/// A visit to a core that submits all commands at once; then their outcomes come.
pub(crate) fn submitting(
    container: &'static str,
    ops: Vec<Op>,
) -> (Visit, mpsc::Receiver<Vec<Outcome>>) {
    let (tell, told) = mpsc::channel();
    let visit = Visit::new(move |core| {
        let own = Own {
            user: "root".into(),
            password: None,
        };
        let kv = Kv::on(&core, &own).expect("nobody else is the core's guest");
        let store = kv.container(Some(container)).expect("it is declared");
        let tickets: Vec<_> = ops.into_iter().map(|op| store.submit(op)).collect();
        let wait = async move {
            let mut outcomes = Vec::new();
            for ticket in tickets {
                outcomes.push(ticket.await);
            }
            let _ = tell.send(outcomes);
            drop(store);
        };
        reactor::spawn(wait).detach();
    });
    (visit, told)
}

impl Farm {
    /// Submits all commands at once on one core; their outcomes.
    fn all(&self, container: &'static str, ops: Vec<Op>) -> Vec<Outcome> {
        let (visit, told) = submitting(container, ops);
        assert!(self.door.dealer().deal(Message::Visit(visit)));
        told.recv_timeout(SOON).expect("a core answers")
    }

    fn one(&self, container: &'static str, key: &str, change: Change) -> Outcome {
        let mut outcomes = self.all(container, vec![op(key, change)]);
        outcomes.pop().expect("one outcome of one command")
    }

    fn get(&self, container: &'static str, key: &str) -> Option<Item> {
        match self.one(container, key, Change::Get) {
            Outcome::Hit(item) => Some(item),
            Outcome::Miss => None,
            other => panic!("a get answered {other:?}"),
        }
    }

    fn value(&self, container: &'static str, key: &str) -> Option<String> {
        let item = self.get(container, key)?;
        Some(String::from_utf8_lossy(&item.value).into_owned())
    }

    fn sql(&self, text: &str) {
        let done = self.stage.primary.client().query(text);
        done.expect("the statement is right");
    }
}

fn op(key: &str, change: Change) -> Op {
    Op {
        key: key.as_bytes().into(),
        change,
    }
}

fn store(mode: Mode, value: impl AsRef<[u8]>) -> Change {
    Change::Store {
        mode,
        value: value.as_ref().into(),
        flags: 3,
        expiry: Expiry::Never,
        cas: None,
    }
}

fn set(value: impl AsRef<[u8]>) -> Change {
    store(Mode::Set, value)
}

fn with_cas(value: &str, cas: u64) -> Change {
    match set(value) {
        Change::Store {
            mode,
            value,
            flags,
            expiry,
            ..
        } => Change::Store {
            mode,
            value,
            flags,
            expiry,
            cas: Some(cas),
        },
        other => other,
    }
}

fn is_stored(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Stored { .. })
}

#[test]
fn commands_do_on_rows_what_memcached_does_on_items() {
    for farm in farms() {
        assert_eq!(farm.get("t", "a"), None);
        assert!(is_stored(&farm.one("t", "a", set(b"it's \\ \0\xff"))));
        let item = farm.get("t", "a").expect("it is there");
        assert_eq!(item.value, b"it's \\ \0\xff");
        assert_eq!((item.flags, item.ttl_s), (3, None));
        assert_eq!(
            farm.one("t", "a", store(Mode::Add, "x")),
            Outcome::NotStored
        );
        assert_eq!(
            farm.one("t", "b", store(Mode::Replace, "x")),
            Outcome::NotStored
        );
        assert!(is_stored(&farm.one("t", "b", store(Mode::Add, "5"))));
        let append = store(Mode::Append { vivify: false }, "0");
        assert!(is_stored(&farm.one("t", "b", append)));
        let count = Change::Count {
            by: 7,
            down: false,
            initial: None,
            expiry: None,
            cas: None,
        };
        let counted = farm.one("t", "b", count.clone());
        assert!(
            matches!(counted, Outcome::Number { value: 57, .. }),
            "{counted:?}"
        );
        assert!(matches!(farm.one("t", "a", count), Outcome::Refused(why) if why.by_client));
        let old = farm.get("t", "b").expect("it is there").cas;
        farm.sql("UPDATE d.t SET v='58' WHERE k='b'");
        assert_eq!(
            farm.one("t", "b", with_cas("9", old)),
            Outcome::Exists,
            "SQL changed it"
        );
        let now = farm.get("t", "b").expect("it is there").cas;
        assert!(is_stored(&farm.one("t", "b", with_cas("9", now))));
        assert_eq!(
            farm.one("t", "b", Change::Delete { cas: Some(now) }),
            Outcome::Exists
        );
        assert_eq!(
            farm.one("t", "b", Change::Delete { cas: None }),
            Outcome::Deleted
        );
        assert_eq!(
            farm.one("t", "b", Change::Delete { cas: None }),
            Outcome::NotFound
        );
        assert_eq!(
            farm.one("t", "a", Change::Touch(Expiry::After(100))),
            Outcome::Touched
        );
        let left = farm.get("t", "a").and_then(|item| item.ttl_s);
        assert!(
            left.is_some_and(|left| (90..=100).contains(&left)),
            "{left:?}"
        );
        assert_eq!(
            farm.one("t", "a", Change::Touch(Expiry::Past)),
            Outcome::Touched
        );
        assert_eq!(farm.get("t", "a"), None);
        assert!(is_stored(&farm.one("t", "a", store(Mode::Add, "again"))));
        assert_eq!(farm.value("t", "a").as_deref(), Some("again"));
    }
}

#[test]
fn commands_of_many_at_once_are_each_answered_for_themselves() {
    for farm in farms() {
        let mut ops: Vec<Op> = (0..600)
            .map(|n| op(&format!("k{n}"), set(format!("v{n}"))))
            .collect();
        ops.push(op("k1", Change::Get));
        ops.push(op("k1", store(Mode::Append { vivify: false }, "+")));
        ops.push(op("k1", Change::Get));
        ops.push(op("k2", Change::Delete { cas: None }));
        ops.push(op("k2", store(Mode::Add, "anew")));
        ops.push(op("k2", Change::Get));
        let outcomes = farm.all("t", ops);
        assert!(outcomes[..600].iter().all(is_stored));
        let value = |at: usize| match &outcomes[at] {
            Outcome::Hit(item) => String::from_utf8_lossy(&item.value).into_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(
            (value(600), value(602), value(605)),
            ("v1".into(), "v1+".into(), "anew".into())
        );
        let gets = (0..700)
            .map(|n| op(&format!("k{n}"), Change::Get))
            .collect();
        let outcomes = farm.all("t", gets);
        let hits = outcomes.iter().filter(|one| matches!(one, Outcome::Hit(_)));
        assert_eq!(hits.count(), 600);
    }
}

#[test]
fn constraints_hold_and_one_bad_row_fails_alone() {
    for farm in farms() {
        farm.sql("ALTER TABLE d.child MODIFY extra INT NOT NULL DEFAULT 5");
        let outcomes = farm.all(
            "child",
            vec![
                op("a", set("Ann|1|a@x")),
                op("b", set("Bob|2|b@x")),
                op("c", set("Cid||a@x")),
                op("d", set("Dan|1|d@x")),
                op("e", set("a name that is too long|1|e@x")),
                op("f", set("Fin|no number|f@x")),
                op("g", set("1|1|1|1")),
            ],
        );
        assert!(
            is_stored(&outcomes[0]) && is_stored(&outcomes[3]),
            "{outcomes:?}"
        );
        assert_eq!(outcomes[1], Outcome::NotStored, "no such parent");
        assert_eq!(outcomes[2], Outcome::NotStored, "the mail is another's");
        for refused in &outcomes[4..7] {
            assert!(
                matches!(refused, Outcome::Refused(why) if why.by_client),
                "{refused:?}"
            );
        }
        assert_eq!(farm.value("child", "a").as_deref(), Some("Ann|1|a@x"));
        assert_eq!(
            farm.value("child", "A").as_deref(),
            Some("Ann|1|a@x"),
            "by its collation"
        );
        let both = vec![
            op("a", Change::Get),
            op("A", Change::Get),
            op("é", Change::Get),
        ];
        let hits = farm.all("child", both);
        let hit = |one: &Outcome| matches!(one, Outcome::Hit(_));
        assert_eq!(
            hits.iter().map(hit).collect::<Vec<_>>(),
            [true, true, false]
        );
        assert_eq!(farm.value("child", "c"), None);
    }
}

#[test]
fn rows_with_columns_of_others_can_be_changed_but_not_made() {
    for farm in farms() {
        farm.sql("INSERT INTO d.child VALUES ('a', 'Ann', 1, NULL, 7)");
        assert!(is_stored(&farm.one("child", "a", set("Eve|1|e@x"))));
        assert_eq!(farm.value("child", "a").as_deref(), Some("Eve|1|e@x"));
        assert_eq!(farm.one("child", "b", set("Bob|1|b@x")), Outcome::NotStored);
        let both = vec![op("a", set("Ida|1|")), op("b", set("Bob|1|b@x"))];
        let outcomes = farm.all("child", both);
        assert!(
            is_stored(&outcomes[0]) && outcomes[1] == Outcome::NotStored,
            "{outcomes:?}"
        );
    }
}

#[test]
fn a_table_that_is_not_as_declared_is_told_and_looked_at_again() {
    for farm in farms() {
        let refused = farm.one("lost", "a", Change::Get);
        assert!(matches!(&refused, Outcome::Refused(why) if why.text.contains("container lost")));
        // Where a key may be many rows, none is stored.
        farm.sql("CREATE TABLE d.none (k INT, u INT, v VARCHAR(10), INDEX (k), UNIQUE (k, u))");
        let told = farm.one("lost", "1", set("x"));
        assert!(
            matches!(&told, Outcome::Refused(why) if why.text.contains("no unique index")),
            "{told:?}"
        );
        farm.sql("DROP TABLE d.none");
        farm.sql("CREATE TABLE d.some (k INT PRIMARY KEY, v VARCHAR(10))");
        farm.sql("CREATE VIEW d.none AS SELECT k, v FROM d.some");
        assert!(is_stored(&farm.one("lost", "1", set("x"))));
        assert_eq!(farm.value("lost", "1").as_deref(), Some("x"));
        farm.sql("DROP VIEW d.none");
        assert!(!is_stored(&farm.one("lost", "1", set("x"))));
        farm.sql("CREATE TABLE d.none (k INT PRIMARY KEY, v VARCHAR(10))");
        assert!(is_stored(&farm.one("lost", "1", set("x"))));
        assert_eq!(
            farm.get("lost", "01"),
            None,
            "another text than the number's"
        );
        assert!(matches!(farm.one("lost", "x", set("x")), Outcome::Refused(why) if why.by_client));
        farm.sql("ALTER TABLE d.none CHANGE v w VARCHAR(10)");
        let gone = farm.one("lost", "1", set("y"));
        assert!(
            matches!(gone, Outcome::Refused(_) | Outcome::NotStored),
            "{gone:?}"
        );
        let told = farm.one("lost", "1", set("y"));
        assert!(
            matches!(&told, Outcome::Refused(why) if why.text.contains("no column v")),
            "{told:?}"
        );
        farm.sql("ALTER TABLE d.none CHANGE w v VARCHAR(10)");
        assert!(is_stored(&farm.one("lost", "1", set("z"))));
    }
}
