//! Tests of the scan: properties that hold for all texts.

use super::*;
use crate::lexer::mode::{Dialect, Multibyte};
use crate::shape::normal::normalise;

const MARIADB: Mode = Mode::new(Dialect::MariaDb, 101_106);

/// A small generator; the same numbers in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }
}

fn modes() -> Vec<Mode> {
    let mut all = Vec::new();
    for (dialect, version) in [(Dialect::MariaDb, 101_106), (Dialect::MySql, 80_036)] {
        for bits in 0..4 {
            for multibyte in [
                Multibyte::None,
                Multibyte::Gbk,
                Multibyte::SingleByte,
                Multibyte::Unknown,
            ] {
                let mut mode = Mode::new(dialect, version);
                mode.ansi_quotes = bits & 1 != 0;
                mode.no_backslash_escapes = bits & 2 != 0;
                mode.multibyte = multibyte;
                all.push(mode);
            }
        }
    }
    all
}

fn read(text: &str) -> Scan {
    let mut scan = Scan::new();
    scan.read(text.as_bytes(), &MARIADB);
    scan
}

fn shape(text: &str) -> u128 {
    read(text).shape
}

#[test]
fn any_bytes_can_be_read() {
    let pieces: &[&[u8]] = &[
        b"SELECT ", b"'", b"\"", b"`", b"\\", b"/*", b"*/", b"/*!", b"50000", b"--", b" ", b"#",
        b"\n", b"@", b"@@", b".", b"5", b"1e", b"0x", b"IN", b"(", b")", b",", b"VALUES", b";",
        b"SET ", b"=", b"-", b"\x81", b"\xA0", b"\x00", b"?", b"heddle ", b"BEGIN", b"WITH ", b"a",
    ];
    let mut random = Random(0x5DEE_CE66);
    let mut scan = Scan::new();
    let mut normal = String::new();
    for mode in modes() {
        for _ in 0..400 {
            let mut text = Vec::new();
            for _ in 0..random.below(30) {
                match random.below(8) {
                    0 => text.push(random.below(256) as u8),
                    _ => text.extend_from_slice(pieces[random.below(pieces.len())]),
                }
            }
            scan.read(&text, &mode);
            let mut end = 0;
            for span in &scan.literals {
                assert!(span.start >= end && span.end > span.start);
                assert!(span.end as usize <= text.len());
                end = span.end;
            }
            normalise(&text, &mode, &mut normal);
            crate::assignments(&text, &mode).for_each(drop);
            crate::statements(&text, &mode);
            crate::heddle_words(&text, &mode);
            crate::unquote(&text, &mode);
        }
    }
}

#[test]
fn reading_again_gives_the_same() {
    let mut scan = Scan::new();
    let mut normal = String::new();
    scan.read(b"INSERT INTO t VALUES (1,(2", &MARIADB);
    scan.read(b"/*ms=slave*/SELECT @a, 'x'", &MARIADB);
    scan.read(b"SELECT 1", &MARIADB);
    let fresh = read("SELECT 1");
    assert_eq!(scan.shape, fresh.shape);
    assert_eq!(
        (scan.class, scan.facts, scan.hint.ms),
        (Class::Read, Facts::empty(), None)
    );
    normalise(b"x", &MARIADB, &mut normal);
    normalise(b"SELECT 1", &MARIADB, &mut normal);
    assert_eq!(normal, "SELECT ?");
}

#[test]
fn shapes_ignore_values_space_and_comments() {
    let one = shape("SELECT a FROM t WHERE b = 1 AND c IN ('x', 'y')");
    assert_eq!(
        one,
        shape("select a\nfrom t /* c */ where b=-2.5e3 and c in (0x1F) -- end")
    );
    assert_eq!(one, shape("SELECT a FROM t WHERE b = ? AND c IN (?, ?, ?)"));
    assert_ne!(one, shape("SELECT a FROM t WHERE b = 1 OR c IN ('x', 'y')"));
    assert_ne!(
        one,
        shape("SELECT a FROM T WHERE b = 1 AND c IN ('x', 'y')")
    );
    assert_ne!(
        one,
        shape("/*ms=master*/SELECT a FROM t WHERE b = 1 AND c IN ('x', 'y')")
    );
}

#[test]
fn shapes_fold_lists_of_any_length() {
    let rows = |count: usize| format!("INSERT INTO t VALUES {}(1,'x')", "(2,'y'),".repeat(count));
    assert_eq!(shape(&rows(0)), shape(&rows(1)));
    assert_eq!(shape(&rows(0)), shape(&rows(1000)));
    assert_ne!(
        shape("INSERT INTO t VALUES (1),(2)"),
        shape("INSERT INTO t VALUES (1,2)")
    );
    assert_ne!(shape("SELECT a IN (b, c)"), shape("SELECT a IN (b, c, c)"));
    assert_ne!(shape("SELECT f(1, 2)"), shape("SELECT f(1)"));
    // Lists within lists, deeper than they are followed.
    let nest = |value: &str| {
        format!(
            "SELECT 1 IN {}{value}{}",
            "(1 IN (".repeat(9),
            "))".repeat(9)
        )
    };
    assert_eq!(shape(&nest("2")), shape(&nest("'x'")));
    // A list that the statement's end cuts off says nothing about the next statement.
    assert_ne!(
        shape("SELECT a IN (1, ; SELECT 2"),
        shape("SELECT a IN (1; SELECT 2")
    );
}

#[test]
fn names_that_look_alike_have_their_own_shapes() {
    let names = [
        "SELECT a",
        "SELECT `a`",
        "SELECT @a",
        "SELECT @@a",
        "SELECT ab",
        "SELECT a b",
        "SELECT a.b",
        "SELECT a . b",
        "SELECT a(b)",
        "SELECT a (b)",
        "SELECT abcdefgh",
        "SELECT abcdefghi",
        "SELECT abcdefgha",
        "SELECT aaaaaaaabbbbbbbbcccccccc",
        "SELECT aaaaaaaaxbbbbbbbcccccccc",
        "SELECT ?",
        "SELECT a = b",
        "SELECT a < = b",
        "SELECT a <= b",
        "SELECT;a",
        "SELECT a;",
    ];
    for (index, a) in names.iter().enumerate() {
        for b in &names[index + 1..] {
            assert_ne!(shape(a), shape(b), "{a} / {b}");
        }
    }
}

/// Names that were made to meet: the halves of one, exchanged, give the same product in an unkeyed hash of
/// before. Whoever finds such a pair would put a plan of his own in the place of another's.
#[test]
fn nobody_makes_two_names_meet() {
    let made = b"\xE25\x81Rm\xC3x\xCE\xFF3\x8EKy\xC0q\xDA";
    let [one, other] = [&b"kaaauramvgnxaqhy"[..], made].map(|name| {
        let mut scan = Scan::new();
        scan.read(&[b"SELECT a FROM ", name].concat(), &MARIADB);
        scan.shape
    });
    assert_ne!(one, other);
}

#[test]
fn the_room_of_a_huge_text_is_given_back() {
    let mut scan = Scan::new();
    let text = format!("SELECT {}1", "1,".repeat(LITERALS_KEPT * 4));
    scan.read(text.as_bytes(), &MARIADB);
    assert_eq!(scan.literals.len(), LITERALS_KEPT * 4 + 1);
    scan.read(b"SELECT 1", &MARIADB);
    assert!(scan.literals.capacity() <= LITERALS_KEPT);
}

#[test]
fn classes_of_several_statements_combine() {
    assert_eq!(read("SELECT 1; SELECT 2;").class, Class::Read);
    assert_eq!(read("SELECT 1; DELETE FROM t").class, Class::Write);
    assert_eq!(read("DELETE FROM t; SELECT 1").class, Class::Write);
    assert_eq!(read("SET a=1; SET b=2").class, Class::Set);
    assert_eq!(read("SELECT 1; SET b=2").class, Class::Other);
    assert_eq!(read("SELECT 1; SELECT @a").class, Class::Other);
    assert_eq!(read("SELECT 1; SELECT 'a").class, Class::Other);
    assert_eq!(read(";;").class, Class::Empty);
    let scan = read("COMMIT; SELECT GET_LOCK('a', 1)");
    assert_eq!(
        scan.verb,
        Verb::Commit {
            chain: None,
            release: None
        }
    );
    assert_eq!(scan.facts, Facts::USER_LOCK | Facts::MULTIPLE);
    assert_eq!(scan.statements, 2);
}

#[test]
fn changes_of_accounts_are_seen() {
    let facts = |text: &str| read(text).facts;
    for text in [
        "CREATE USER a@b IDENTIFIED BY 'x'",
        "create or replace user a",
        "DROP USER IF EXISTS a",
        "ALTER USER USER() IDENTIFIED BY 'y'",
        "RENAME USER a TO b",
        "SET PASSWORD = 'x'",
        "SET DEFAULT ROLE r TO a",
        "GRANT ALL ON *.* TO a",
        "REVOKE ALL ON *.* FROM a",
        "FLUSH PRIVILEGES",
        "SELECT 1; DROP ROLE r",
    ] {
        assert!(facts(text).contains(Facts::ACCOUNTS), "{text}");
    }
    for text in [
        "CREATE TABLE user (a INT)",
        "SET autocommit = 1",
        "SELECT user FROM t",
    ] {
        assert!(!facts(text).contains(Facts::ACCOUNTS), "{text}");
    }
}

#[test]
fn changes_of_databases_are_seen() {
    for text in [
        "CREATE DATABASE d",
        "create or replace schema d",
        "ALTER DATABASE CHARACTER SET latin1",
        "DROP SCHEMA IF EXISTS d",
        "DROP DATABASE d; CREATE TABLE t (a INT)",
    ] {
        assert!(read(text).facts.contains(Facts::DATABASE), "{text}");
    }
    for text in ["CREATE TABLE `database` (a INT)", "SELECT DATABASE()"] {
        assert!(!read(text).facts.contains(Facts::DATABASE), "{text}");
    }
}

#[test]
fn variables_hidden_by_a_comment_are_not_lost() {
    let facts = read("SELECT @@session/**/.last_insert_id").facts;
    assert_eq!(facts, Facts::LAST_INSERT_ID | Facts::SYSTEM_VARIABLE);
    let facts = read("SELECT @@local . `heddle_token`, last_insert_id").facts;
    assert_eq!(facts, Facts::HEDDLE_SETTING | Facts::SYSTEM_VARIABLE);
}
