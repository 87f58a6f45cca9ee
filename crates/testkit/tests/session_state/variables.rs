//! The SQL door: the variables of a session are those that it would have straight, on whichever
//! connection it runs and whoever used that before.

use std::collections::BTreeMap;

use mysql_wire::capability::Capabilities;
use testkit::client::{Login, Reply};
use testkit::door::Door;
use testkit::{Client, Release, Server};

/// The releases that this machine has, a newer MySQL among them.
pub fn servers(settings: &[(&str, &str)]) -> Vec<Server> {
    let releases = Release::ALL.into_iter().chain([Release::MySqlNewer]);
    releases
        .filter_map(|release| Server::start_with(release, settings))
        .collect()
}

/// A door whose sessions all share one server connection.
pub fn narrow(server: &Server) -> Door {
    Door::start(&[server], |tuning| {
        tuning.follow_accounts();
        tuning.settings.pool.connections_max = 1;
    })
}

/// Of the connection, the moment or the statement: no two sessions have the same. And what is not the
/// servers' to say.
const OF_THE_MOMENT: [&str; 9] = [
    "socket",
    "pseudo_thread_id",
    "rand_seed1",
    "rand_seed2",
    "timestamp",
    "statement_id",
    "last_gtid",
    "last_insert_id",
    "identity",
];

type Variables = BTreeMap<String, String>;

/// What a session has; the error where its own settings forbid the question.
fn variables(client: &mut Client) -> Variables {
    let replies = match client.query("SHOW SESSION VARIABLES") {
        Ok(replies) => replies,
        Err(error) => return [("error".to_owned(), error.to_string())].into(),
    };
    let [Reply::Rows(rows)] = &replies[..] else {
        panic!("a list");
    };
    let text = |cell: &Option<String>| cell.clone().unwrap_or_default();
    let rows = rows.text().into_iter();
    let all = rows.map(|row| (text(&row[0]), text(&row[1])));
    all.filter(|(name, _)| !OF_THE_MOMENT.contains(&&**name))
        .collect()
}

/// What one has and the other has not.
fn differences(one: &Variables, other: &Variables) -> Vec<String> {
    let names = one
        .keys()
        .chain(other.keys().filter(|name| !one.contains_key(*name)));
    names
        .filter(|name| one.get(*name) != other.get(*name))
        .map(|name| format!("{name}: {:?} and {:?}", one.get(name), other.get(name)))
        .collect()
}

#[test]
fn a_connection_that_was_reset_has_the_variables_of_a_login() {
    // A login sets more than a reset: what the server runs for it, what its account has, and what
    // its client is.
    let settings = [
        (
            "init_connect",
            "SET SESSION max_join_size = 4711, lc_time_names = 'en_IN'",
        ),
        ("interactive_timeout", "7000"),
    ];
    for server in servers(&settings) {
        let mut root = server.client();
        root.run("CREATE DATABASE own CHARACTER SET latin2 COLLATE latin2_hungarian_ci");
        let way = match server.engine() {
            farm::Engine::MariaDb => "IDENTIFIED BY 'secret'",
            farm::Engine::MySql => "IDENTIFIED WITH mysql_native_password BY 'secret'",
        };
        root.run(&format!("CREATE USER plain@'%' {way}"));
        root.run("GRANT ALL ON own.* TO plain@'%'");
        if server.engine() == farm::Engine::MariaDb {
            root.run("ALTER USER plain@'%' WITH MAX_STATEMENT_TIME 7");
        }
        let root = Login {
            database: Some("own"),
            ..Login::default()
        };
        let plain = Login {
            user: "plain",
            password: "secret",
            ..root.clone()
        };
        let interactive = Login {
            capabilities: root.capabilities | Capabilities::INTERACTIVE,
            ..root.clone()
        };
        for login in [&root, &plain, &interactive] {
            let straight = Client::login(server.address(), login);
            let straight = variables(&mut straight.expect("admitted"));
            let door = narrow(&server);
            let mut first = door.login(login).expect("admitted");
            let same = |client: &mut Client, what: &str| {
                let differences = differences(&straight, &variables(client));
                assert!(differences.is_empty(), "{what}: {differences:#?}");
            };
            same(&mut first, "a login");
            first.run("SET @x = 1, max_join_size = 815, lc_time_names = 'en_GB'");
            first.run("SET wait_timeout = 5000, sql_mode = ''");
            let mut second = door.login(login).expect("admitted");
            same(&mut second, "after another session");
            first.run("CREATE TEMPORARY TABLE tmp (a INT)");
            first.quit();
            same(
                &mut second,
                "after a session that was tied to the connection",
            );
            second.run("CREATE TEMPORARY TABLE tmp (a INT)");
            second.reset().expect("reset");
            second.quit();
            same(&mut door.login(login).expect("admitted"), "after a reset");
        }
    }
}

#[test]
fn files_are_read_in_the_charset_of_the_database() {
    for server in servers(&[("character_set_server", "latin1"), ("local_infile", "ON")]) {
        let mut straight = server.client();
        straight.run("CREATE DATABASE files CHARACTER SET utf8mb4");
        straight.run("CREATE TABLE files.t (a VARCHAR(20))");
        let door = narrow(&server);
        let login = Login {
            database: Some("files"),
            capabilities: Login::default().capabilities | Capabilities::LOCAL_FILES,
            ..Login::default()
        };
        let mut tied = door.login(&login).expect("admitted");
        tied.run("CREATE TEMPORARY TABLE tmp (a INT)");
        tied.quit();
        let mut client = door.login(&login).expect("admitted");
        client.files = vec![vec!["Zürich\n".as_bytes().to_vec()]].into();
        client.run("LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
        assert_eq!(client.value("SELECT HEX(a) FROM t"), "5AC3BC72696368");
        assert!(door.counter("connections_renewed") > 0);
    }
}

/// A session variable and values that some server may take for it.
struct Candidate {
    name: String,
    values: Vec<String>,
}

/// All session variables of a server. On MariaDB it says itself what they may be.
fn candidates(server: &Server) -> Vec<Candidate> {
    let mut client = server.client();
    let ask = match server.engine() {
        farm::Engine::MariaDb => {
            "SELECT LOWER(VARIABLE_NAME), SESSION_VALUE, ENUM_VALUE_LIST \
             FROM information_schema.SYSTEM_VARIABLES WHERE VARIABLE_SCOPE <> 'GLOBAL' ORDER BY 1"
        }
        farm::Engine::MySql => {
            "SELECT VARIABLE_NAME, VARIABLE_VALUE, NULL \
             FROM performance_schema.session_variables ORDER BY 1"
        }
    };
    let rows = client.rows(ask).into_iter();
    let candidate = |row: Vec<Option<String>>| {
        let text = |at: usize| row[at].clone().unwrap_or_default();
        let (name, now) = (text(0), text(1));
        let mut values: Vec<String> = match (now.as_str(), now.parse::<i64>()) {
            ("ON", _) => vec!["OFF".to_owned()],
            ("OFF", _) => vec!["ON".to_owned()],
            (_, Ok(number)) => vec![
                (number / 2).to_string(),
                (number.saturating_add(1024)).to_string(),
            ],
            _ if name.starts_with("character_set_") => vec!["'latin2'".to_owned()],
            _ if name.starts_with("collation_") => vec!["'latin2_bin'".to_owned()],
            _ => vec![
                "'en_GB'".to_owned(),
                "'+03:00'".to_owned(),
                "2.5".to_owned(),
            ],
        };
        let words = text(2);
        values.extend(words.split(',').map(|word| format!("'{word}'")));
        values.extend(["1".to_owned(), "''".to_owned(), "'MyISAM'".to_owned()]);
        values.extend(["'READ-COMMITTED'".to_owned(), "'NONE'".to_owned()]);
        Candidate { name, values }
    };
    rows.map(candidate).collect()
}

/// What a comparison cannot bear.
const NOT_TRIED: [&str; 5] = [
    // Without Galera, MariaDB 11 says that it does not set it, and has set it.
    "wsrep_trx_fragment_unit",
    "debug",
    "debug_sync",
    // Half of the clients of this test speak UTF-8 only.
    "character_set_client",
    "pseudo_thread_id",
];

/// A session straight at a server and one through a door, and a second one that shares its connection.
struct Pair<'a> {
    server: &'a Server,
    door: Door,
    straight: Client,
    through: Client,
    other: Client,
    untouched: Variables,
    wrong: Vec<String>,
}

impl<'a> Pair<'a> {
    fn new(server: &'a Server) -> Pair<'a> {
        let door = narrow(server);
        Pair {
            straight: server.client(),
            through: door.client(),
            other: door.client(),
            untouched: variables(&mut server.client()),
            wrong: Vec::new(),
            server,
            door,
        }
    }

    /// Runs a SET in both sessions and compares what they have then. True when it was done.
    fn set(&mut self, sql: &str) -> bool {
        let before = self.door.counter("pins_variable");
        let number = |client: &mut Client| client.query(sql).err().map(|error| error.number());
        let (one, two) = (number(&mut self.straight), number(&mut self.through));
        let mut wrong = Vec::new();
        if one != two {
            wrong.push(format!("{one:?} and {two:?}"));
        }
        // Without autocommit the list has opened a transaction; and what a statement leaves is counted
        // behind its reply.
        self.commit();
        let pinned = self.door.counter("pins_variable") > before;
        if !pinned {
            let seen = differences(&self.untouched, &variables(&mut self.other));
            wrong.extend(seen.iter().map(|it| format!("another session finds {it}")));
        }
        let (straight, through) = (variables(&mut self.straight), variables(&mut self.through));
        self.commit();
        wrong.extend(differences(&straight, &through));
        self.wrong
            .extend(wrong.iter().map(|it| format!("{sql}: {it}")));
        if !wrong.is_empty() {
            // What went wrong once is told once.
            let before = std::mem::take(&mut self.wrong);
            *self = Pair::new(self.server);
            self.wrong = before;
        } else if pinned {
            self.straight = self.server.client();
            self.through = self.door.client();
        }
        one.is_none()
    }

    fn commit(&mut self) {
        for client in [&mut self.straight, &mut self.through] {
            client.run("COMMIT AND NO CHAIN NO RELEASE");
        }
    }
}

#[test]
fn every_variable_is_the_sessions_own() {
    let mut all: Vec<String> = Vec::new();
    for server in servers(&[]) {
        let mut setter = server.client();
        let mut pair = Pair::new(&server);
        let mut set = 0;
        for Candidate { name, values } in candidates(&server) {
            if NOT_TRIED.contains(&&*name) {
                continue;
            }
            let takes = |value: &&String| {
                let sql = format!("SET SESSION {name} = {value}");
                setter.query(&sql).is_ok()
            };
            let value = values.iter().find(takes).map_or("1", String::as_str);
            set += usize::from(pair.set(&format!("SET SESSION {name} = {value}")));
            pair.set(&format!("SET SESSION {name} = DEFAULT"));
            // MySQL 8.0.12 breaks an OK that reports 251 bytes of changes: they must not add up.
            pair.straight.reset().expect("reset");
            pair.through.reset().expect("reset");
        }
        assert!(set > 100, "{set} variables");
        let wrong = pair.wrong.iter();
        all.extend(wrong.map(|wrong| format!("{}: {wrong}", server.version())));
    }
    assert!(all.is_empty(), "{all:#?}");
}

/// Values that servers write in another way than they were given, that change how the next SET is read, or
/// whose characters mean something in a text. `{dir}` is a directory with an odd name.
const ODD: [&str; 62] = [
    "SET sql_mode = 'ANSI'",
    "SET sql_mode = 'TRADITIONAL'",
    "SET sql_mode = 'ORACLE'",
    "SET time_zone = '+3:0'",
    "SET sql_mode = 4",
    "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "SET innodb_tmpdir = '{dir}'",
    "SET lc_time_names = 12, lc_messages = 'en_US'",
    "SET sql_mode = ''",
    "SET time_zone = DEFAULT, innodb_tmpdir = NULL",
    "SET innodb_tmpdir = ''",
    "SET innodb_tmpdir = DEFAULT",
    "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,HIGH_NOT_PRECEDENCE,IGNORE_SPACE'",
    "SET NAMES latin2",
    "SET NAMES latin1 COLLATE latin1_german2_ci",
    "SET character_set_results = NULL",
    "SET character_set_results = utf8mb4",
    "SET character_set_results = 8",
    "SET collation_connection = utf8mb4_bin",
    "SET character_set_connection = latin5",
    "SET NAMES DEFAULT",
    "SET NAMES utf8mb4",
    "SET CHARACTER SET latin1",
    "SET CHARACTER SET DEFAULT",
    "SET NAMES utf8mb4",
    "SET optimizer_switch = 'mrr=off,index_merge=off'",
    "SET optimizer_switch = 'index_merge=default'",
    "SET optimizer_switch = DEFAULT",
    "SET default_storage_engine = myisam",
    "SET default_tmp_storage_engine = 'mEMORY'",
    "SET default_storage_engine = DEFAULT, default_tmp_storage_engine = DEFAULT",
    "SET enforce_storage_engine = InnoDB",
    "SET enforce_storage_engine = NULL",
    "SET group_concat_max_len = 1",
    "SET sql_select_limit = 18446744073709551615",
    "SET sql_select_limit = 17, sql_auto_is_null = 1",
    "SET sql_select_limit = DEFAULT",
    "SET long_query_time = 0.0000014",
    "SET long_query_time = 1e-3",
    "SET max_statement_time = 2.5",
    "SET max_execution_time = 4000",
    "SET innodb_lock_wait_timeout = 99999999999",
    "SET lock_wait_timeout = 0",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY",
    "SET SESSION TRANSACTION READ WRITE",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "SET optimizer_trace = 'enabled=on'",
    "SET optimizer_trace = DEFAULT",
    "SET session_track_system_variables = ''",
    "SET time_zone = '-11:59'",
    "SET session_track_system_variables = 'time_zone,sql_mode'",
    "SET session_track_system_variables = '*'",
    "SET session_track_schema = OFF",
    "SET session_track_system_variables = NULL",
    "SET default_regex_flags = 'DOTALL,MULTILINE'",
    "SET old_mode = ''",
    "SET character_set_collations = 'utf8mb4=utf8mb4_bin'",
    "SET note_verbosity = 'basic,explain'",
    "SET explain_format = 'TREE'",
    "SET default_collation_for_utf8mb4 = utf8mb4_general_ci",
    "SET binlog_row_value_options = 'PARTIAL_JSON'",
    "SET terminology_use_previous = 'BEFORE_8_0_26'",
];

#[test]
fn odd_values_are_the_sessions_own() {
    let parent = tempfile::tempdir().expect("a directory");
    let dir = parent.path().join("o'dd\\n \u{fc}");
    std::fs::create_dir(&dir).expect("an odd directory");
    // As it stands in a text of the mode NO_BACKSLASH_ESCAPES.
    let dir = dir.display().to_string().replace('\'', "''");
    let mut all: Vec<String> = Vec::new();
    for server in servers(&[]) {
        let mut pair = Pair::new(&server);
        let mut set = 0;
        for sql in ODD {
            set += usize::from(pair.set(&sql.replace("{dir}", &dir)));
        }
        assert!(set > 40, "{set} were taken");
        all.extend(
            pair.wrong
                .iter()
                .map(|wrong| format!("{}: {wrong}", server.version())),
        );
    }
    assert!(all.is_empty(), "{all:#?}");
}
