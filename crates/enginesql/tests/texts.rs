//! Golden files: what each release of an engine is told, word by word, as in `testdata`. A DBA can read them
//! beside the manual. `UPDATE_GOLDEN=1` writes them anew; commit such a change only if you know why each line
//! changed, and only if servers of that release were asked.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use enginesql::seal::Key;
use enginesql::words::{Source, TABLE, change_primary};
use enginesql::{Version, decision, position};
use farm::Engine;
use farm::dist_txn::GlobalId;

/// The golden file of each release, and what a server of it says of its version.
const RELEASES: [(&str, &str); 9] = [
    ("mysql_5_7", "5.7.44-log"),
    ("mysql_8_0_22", "8.0.22"),
    ("mysql_8_0", "8.0.45"),
    ("mysql_8_4", "8.4.6"),
    ("mysql_9", "9.4.0"),
    ("mariadb_10_5", "10.5.29-MariaDB"),
    ("mariadb_10_11", "10.11.14-MariaDB-0+deb12u2"),
    ("mariadb_11_4", "11.4.5-MariaDB-log"),
    ("mariadb_12", "12.0.2-MariaDB"),
];

/// Compares a text with its golden file, or writes it.
fn check(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata");
    let path = folder.join(name).with_extension("txt");
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, text).expect("the golden file can be written");
    }
    let golden = fs::read_to_string(&path).unwrap_or_default();
    assert!(golden == text, "{name}.txt should be:\n{text}");
}

/// A text with the places that most differ on lines of their own.
fn lines(sql: &str) -> String {
    sql.replace("; ", ";\n    ").replace(", ", ",\n    ")
}

#[test]
fn each_release_hears_its_own_words() {
    for (name, says) in RELEASES {
        let version = Version::parse(says).expect("a version");
        let mut text = format!("# {says}\n");
        for word in TABLE {
            let manual = word.manual[usize::from(version.engine == Engine::MySql)];
            writeln!(text, "\n# {}: {manual}", word.name).expect("a string takes all");
            writeln!(text, "{}", word.of(&version).trim_end()).expect("a string takes all");
        }
        for password in ["", "it's"] {
            let primary = Source {
                host: "10.0.0.1",
                port: 3306,
                user: "repl",
                password,
            };
            let change = change_primary(&version, primary);
            write!(
                text,
                "\n# with the password {password:?}\n{}\n",
                lines(&change)
            )
            .expect("a string takes all");
        }
        check(name, &text);
    }
}

#[test]
fn decisions_are_made_and_called_by_these_texts() {
    let key = Key::new("secret", "farm");
    let id = GlobalId::decode(&[&b"HD\x01"[..], &[7; 42]].concat()).expect("an id");
    let sealed = key.seal(id);
    let mut text = String::new();
    let mut part = |title: &str, sql: &str| {
        write!(text, "# {title}\n{}\n\n", lines(sql)).expect("a string takes all");
    };
    part("tables", &decision::tables());
    for routine in decision::routines() {
        part("routine", &routine);
    }
    part("the key is there", &decision::has_key(7, &key));
    part("the key is given", &decision::keep_key(7, &key));
    for engine in [Engine::MariaDb, Engine::MySql] {
        let grants = decision::grants(engine, "o'hara", "%");
        part(&format!("grants, {}", engine.name()), &grants);
        part("executed", position::executed(engine));
        let wait = position::wait_for(engine, "0-1-7", 1050);
        part("a wait", &wait);
    }
    part("decide", &decision::decide(&sealed, [2, 3]));
    part("decide without branches", &decision::decide(&sealed, []));
    let xid = farm::Xid::new(b"g", b"b", None).expect("a name");
    part("hold", &decision::hold(&sealed, [2], &xid));
    part("view", decision::VIEW);
    check("decision", &text);
}
