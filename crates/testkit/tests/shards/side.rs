//! What statements are played to: one server, or a farm whose tables are sharded.

use std::net::SocketAddr;

use mysql_wire::capability::Capabilities;
use testkit::client::{Client, Login, Value};
use testkit::{Release, Server};

use crate::corpus::{Corpus, Table};
use crate::data;
use crate::dice::Dice;

/// Rows in one INSERT of the first data.
const BATCH: usize = 40;

/// Values of a row in the text protocol, for comparing what tables hold.
pub type Contents = Vec<Vec<Value>>;

/// Somewhere that a corpus can be played to.
pub trait Side {
    /// A database of this name with the tables of the corpus, empty, and no other table.
    fn build(&mut self, corpus: &Corpus);

    /// No rows in any of these tables.
    fn empty(&mut self, corpus: &Corpus);

    /// Where clients connect.
    fn address(&self) -> SocketAddr;

    /// All committed rows of a table, in any order; the error says what is wrong with where they lie.
    fn contents(&mut self, database: &str, table: &Table) -> Result<Contents, String>;

    /// What is wrong with where rows lie.
    fn verify(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// A client as `root` with this database.
    fn client(&self, database: &str) -> Client {
        let login = Login {
            database: Some(database),
            ..Login::default()
        };
        let with = Capabilities::MULTI_STATEMENTS | Capabilities::DEPRECATE_EOF;
        let capabilities = login.capabilities | with;
        let login = Login {
            capabilities,
            ..login
        };
        Client::login(self.address(), &login).expect("root has no password")
    }

    /// Puts the first rows in, of all tables or of one. `order` says in which order they come.
    fn fill(&mut self, corpus: &Corpus, order: Option<u64>, only: Option<&str>) {
        let mut some = Corpus {
            name: corpus.name.clone(),
            tables: corpus.tables.clone(),
            files: Vec::new(),
        };
        some.tables
            .retain(|table| only.is_none_or(|only| only == table.name));
        self.empty(&some);
        let mut client = self.client(&corpus.name);
        for (table, mut rows) in data::rows(&corpus.name) {
            if only.is_some_and(|only| only != table) {
                continue;
            }
            if let Some(seed) = order {
                Dice::new(seed).shuffle(&mut rows);
            }
            for batch in rows.chunks(BATCH) {
                let text = format!("INSERT INTO {table} VALUES {}", batch.join(", "));
                if let Err(failure) = client.query(&text) {
                    panic!("{failure}\n{text}");
                }
            }
        }
    }
}

/// One server.
pub struct Plain(Server);

impl Plain {
    /// `None` where it cannot be had.
    pub fn start(release: Release) -> Option<Plain> {
        Server::start_with(release, &SETTINGS).map(Plain)
    }
}

/// Of all servers here.
pub const SETTINGS: [(&str, &str); 2] = [
    ("max_connections", "200"),
    // Functions of the corpus can be made on servers that write a binlog.
    ("log_bin_trust_function_creators", "ON"),
];

impl Side for Plain {
    fn build(&mut self, corpus: &Corpus) {
        build_on(&mut self.0.client(), corpus);
    }

    fn empty(&mut self, corpus: &Corpus) {
        empty_on(&mut self.0.client(), corpus);
    }

    fn address(&self) -> SocketAddr {
        self.0.address()
    }

    fn contents(&mut self, database: &str, table: &Table) -> Result<Contents, String> {
        contents_of(&mut self.0.client(), database, table)
    }
}

/// Makes the database and its tables on one server.
pub fn build_on(client: &mut Client, corpus: &Corpus) {
    let name = &corpus.name;
    client.run(&format!("DROP DATABASE IF EXISTS {name}"));
    client.run(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
    client.use_database(name).expect("it is there");
    for table in &corpus.tables {
        client.run(&table.create);
    }
}

/// Takes all rows away on one server, past any door.
pub fn empty_on(client: &mut Client, corpus: &Corpus) {
    client.use_database(&corpus.name).expect("it is there");
    for table in &corpus.tables {
        client.run(&format!("DELETE FROM {}", table.name));
    }
}

/// The rows of one server, sorted; the error is the server's.
pub fn contents_of(client: &mut Client, database: &str, table: &Table) -> Result<Contents, String> {
    let text = format!("SELECT * FROM {database}.{}", table.name);
    match client.query(&text).as_deref() {
        Ok([testkit::client::Reply::Rows(rows)]) => {
            let mut rows = rows.rows.clone();
            sort(&mut rows);
            Ok(rows)
        }
        other => Err(format!("{text}: {other:?}")),
    }
}

/// In the order of their bytes.
pub fn sort(rows: &mut Contents) {
    rows.sort_by_cached_key(|row| format!("{row:?}"));
}
