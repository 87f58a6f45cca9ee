//! The tables of a corpus on one server and, placed by their maps, on several.

use std::collections::BTreeMap;
use std::sync::Arc;

use farm::Engine;
use farm::shard::{Bound, KeyType, SLOTS, Shard, ShardIx, ShardKind, ShardMap, ShardedTable};
use farm::sharding::{Column, Placement, Sharding, TableSchema};
use mysql_wire::capability::Capabilities;
use planner::{Answer, Asked, answer};
use routing::shard::{Literal, locate, stored};
use sqltext::{Dialect, Mode};
use testkit::client::{Client, Failure, Login, Reply};
use testkit::{Release, Server};

use crate::carrying;
use crate::corpus::{Corpus, Place, Step};
use crate::data;
use crate::dice::Dice;
use crate::outcome::Outcome;

/// Servers with the same tables: one with all rows, the others with theirs.
pub struct Spread {
    servers: Vec<Server>,
    pub one: Client,
    /// The server with all rows as if it were the only group.
    alone: BTreeMap<Arc<str>, Client>,
    groups: BTreeMap<Arc<str>, Client>,
    scratch: Client,
    /// The corpus that is filled in.
    database: String,
    sharding: Sharding,
    mode: Mode,
}

impl Spread {
    /// `None` where the servers cannot be had.
    pub fn start(release: Release, shards: usize) -> Option<Spread> {
        let servers: Option<Vec<Server>> = (0..=shards).map(|_| Server::start(release)).collect();
        let servers = servers?;
        let one = servers[0].client();
        let usual = Login::default();
        let takes_files = Login {
            capabilities: usual.capabilities | Capabilities::LOCAL_FILES,
            ..usual
        };
        let scratch = Client::login(servers[0].address(), &takes_files);
        let mut scratch = scratch.expect("root has no password");
        for server in &servers {
            server.client().run("CREATE DATABASE heddle");
        }
        scratch.run("SET GLOBAL local_infile = ON");
        let clients = servers[1..].iter().map(Server::client);
        let names = (1..).map(|at| Arc::from(format!("g{at}")));
        let dialect = match servers[0].engine() {
            Engine::MariaDb => Dialect::MariaDb,
            Engine::MySql => Dialect::MySql,
        };
        Some(Spread {
            one,
            alone: BTreeMap::from([("all".into(), servers[0].client())]),
            groups: names.zip(clients).collect(),
            scratch,
            database: String::new(),
            sharding: Sharding::default(),
            mode: Mode::new(dialect, 101_100),
            servers,
        })
    }

    pub fn engine(&self) -> Engine {
        self.servers[0].engine()
    }

    /// Makes the tables and puts their rows where they belong.
    pub fn fill(&mut self, corpus: &Corpus) {
        let name = &corpus.name;
        self.database.clone_from(name);
        let clients = self.groups.values_mut();
        let mut dice = Dice::new(7);
        for client in clients.chain([&mut self.one]) {
            client.run(&format!("DROP DATABASE IF EXISTS {name}"));
            client.run(&format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
            client.use_database(name).expect("it is there");
            for table in &corpus.tables {
                client.run(&table.create);
            }
            for (table, mut rows) in data::rows(name) {
                dice.shuffle(&mut rows);
                for rows in rows.chunks(40) {
                    let text = format!("INSERT INTO {table} VALUES {}", rows.join(", "));
                    client.query(&text).expect("rows of the table");
                }
            }
        }
        for client in self.alone.values_mut().chain([&mut self.scratch]) {
            client.use_database(name).expect("it is there");
        }
        self.declare(corpus);
        for table in &corpus.tables {
            self.place(name, &table.name, &table.place);
        }
    }

    fn declare(&mut self, corpus: &Corpus) {
        let mut maps: Vec<String> = Vec::new();
        for table in &corpus.tables {
            if let Place::Sharded { map, .. } | Place::Global(map) = &table.place
                && !maps.contains(map)
            {
                maps.push(map.clone());
            }
        }
        let names: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        let mut dice = Dice::new(99);
        let made = (0..).zip(&maps).map(|(id, _)| ShardMap {
            id,
            kind: ShardKind::Slots,
            global_group: names[0].clone(),
            shards: (1..)
                .zip(&names)
                .map(|(id, group)| Shard {
                    id,
                    group: group.clone(),
                    bound: Bound::Slots,
                    enabled: true,
                })
                .collect(),
            slots: (0..SLOTS)
                .map(|_| ShardIx(u16::try_from(dice.below(names.len())).expect("few")))
                .collect(),
        });
        let mut sharding = Sharding::new(1, made.collect());
        for table in &corpus.tables {
            let schema = schema(&mut self.one, &corpus.name, &table.name);
            let id = |map: &String| {
                let at = maps.iter().position(|it| it == map).expect("listed above");
                u32::try_from(at).expect("few")
            };
            match &table.place {
                Place::Sharded { map, key } => {
                    let column = &schema.columns[schema.column(key).expect("it has the key")];
                    let placed = ShardedTable {
                        database: corpus.name.as_str().into(),
                        table: table.name.as_str().into(),
                        column: key.as_str().into(),
                        key: key_type(column),
                        map: id(map),
                    };
                    sharding.declare(&corpus.name, &table.name, Placement::Sharded(placed));
                }
                Place::Global(map) => {
                    let map = id(map);
                    sharding.declare(&corpus.name, &table.name, Placement::Global { map });
                }
                Place::Single => {}
            }
            sharding.describe(&corpus.name, &table.name, Arc::new(schema));
        }
        self.sharding = sharding;
    }

    /// Makes views everywhere.
    pub fn make_views(&mut self, definitions: &[Step]) {
        for step in definitions {
            for client in self.groups.values_mut().chain([&mut self.one]) {
                client.run(&step.text);
            }
        }
        let bodies = self.one.rows(&format!(
            "SELECT table_name, view_definition FROM information_schema.views
             WHERE table_schema = '{}'",
            self.database
        ));
        for row in bodies {
            let name = row[0].clone().expect("a view has a name");
            let schema = TableSchema {
                view: true,
                body: row[1].as_deref().map(Into::into),
                ..schema(&mut self.one, &self.database, &name)
            };
            self.sharding
                .describe(&self.database, &name, Arc::new(schema));
        }
        planner::views::see(&mut self.sharding);
    }

    /// Takes the rows away that belong elsewhere.
    fn place(&mut self, database: &str, table: &str, place: &Place) {
        match place {
            Place::Global(_) => {}
            Place::Single => {
                for client in self.groups.values_mut().skip(1) {
                    client.run(&format!("DELETE FROM {table}"));
                }
            }
            Place::Sharded { key, .. } => {
                let farm::sharding::Placed::Sharded(placed) = self.sharding.placed(database, table)
                else {
                    panic!("{table} is declared");
                };
                let map = &self.sharding.map(placed.map).expect("declared").map;
                let keys = self
                    .one
                    .rows(&format!("SELECT DISTINCT {key} FROM {table}"));
                for row in keys {
                    let value = row[0].clone().expect("a key is not NULL");
                    let literal = Literal::Text(value.as_bytes());
                    let stored = stored(literal, placed.key).expect("a key");
                    let at = locate(map, &stored).expect("a place");
                    let own = &map.shard(at).group;
                    let value = value.replace('\\', "\\\\").replace('\'', "''");
                    for (group, client) in &mut self.groups {
                        if group != own {
                            client.run(&format!("DELETE FROM {table} WHERE {key} = '{value}'"));
                        }
                    }
                }
            }
        }
    }

    /// What the groups together answer.
    pub fn ask(&mut self, text: &str) -> (Outcome, Option<Answer>) {
        match self.answered(text, &self.sharding) {
            Ok(answer) => (self.carry(&answer), Some(answer)),
            Err(failure) => (Err(failure), None),
        }
    }

    /// How the planner would have a text answered that is told this of the tables.
    pub fn answered(&self, text: &str, sharding: &Sharding) -> Result<Answer, Failure> {
        let home = self.groups.keys().next().expect("some").clone();
        let asked = self.asked(sharding, &home);
        answer(text, &asked).map_err(|reason| carrying::refused(&format!("{reason:?}")))
    }

    /// The scalar subqueries of a text that are asked first.
    pub fn scalars(&self, text: &str) -> Vec<planner::Scalar> {
        let home = self.groups.keys().next().expect("some").clone();
        planner::scalars(text, &self.asked(&self.sharding, &home))
    }

    /// All ways to answer a text that is gathered by sending tables to the groups.
    pub fn broadcasts(&self, text: &str, gathered: &Answer) -> Vec<Answer> {
        let home = self.groups.keys().next().expect("some").clone();
        planner::every_broadcast(text, &self.asked(&self.sharding, &home), gathered)
    }

    fn asked<'a>(&'a self, sharding: &'a Sharding, home: &'a Arc<str>) -> Asked<'a> {
        Asked {
            sharding,
            home,
            database: &self.database,
            mode: &self.mode,
            scratch: "gather_",
            changing: None,
        }
    }

    /// What comes of an answer on the groups.
    pub fn carry(&mut self, answer: &Answer) -> Outcome {
        carrying::carry(answer, &mut self.groups, &mut self.scratch)
    }

    pub fn sharding(&self) -> &Sharding {
        &self.sharding
    }

    pub fn mode(&self) -> &Mode {
        &self.mode
    }
}

impl Spread {
    /// Runs a SET on every connection that answers.
    pub fn tell(&mut self, set: &str) {
        let groups = self.groups.values_mut().chain(self.alone.values_mut());
        for client in groups.chain([&mut self.one, &mut self.scratch]) {
            client.run(set);
        }
    }

    /// What an answer for several groups gives where one server has all rows: its texts there must not
    /// ask for more than that server answers well.
    pub fn ask_alone(&mut self, answer: &Answer) -> Outcome {
        let mut answer = answer.clone();
        let sent = answer.sending.iter_mut().flat_map(|it| &mut it.fragments);
        let otherwise = answer.otherwise.iter_mut().flat_map(|it| &mut it.fragments);
        for fragment in answer.fragments.iter_mut().chain(sent).chain(otherwise) {
            fragment.groups = self.alone.keys().cloned().collect();
        }
        carrying::carry(&answer, &mut self.alone, &mut self.scratch)
    }
}

fn key_type(column: &Column) -> KeyType {
    match &*column.data_type {
        "tinyint" | "smallint" | "int" | "bigint" => KeyType::Integer,
        "date" => KeyType::Date,
        "datetime" => KeyType::Datetime,
        "binary" | "varbinary" => KeyType::Bytes,
        _ => {
            let collation = column.collation.as_deref().unwrap_or("binary");
            KeyType::Text {
                folds: !collation.ends_with("_bin"),
                pads: !collation.contains("0900"),
            }
        }
    }
}

/// As information_schema tells it.
fn schema(client: &mut Client, database: &str, table: &str) -> TableSchema {
    let rows = client.rows(&format!(
        "SELECT column_name, data_type, column_type, collation_name, is_nullable, extra, column_key
         FROM information_schema.columns
         WHERE table_schema = '{database}' AND table_name = '{table}' ORDER BY ordinal_position"
    ));
    let mut schema = TableSchema::default();
    for (at, row) in rows.into_iter().enumerate() {
        let text = |at: usize| row[at].clone().unwrap_or_default();
        schema.columns.push(Column {
            name: text(0).into(),
            data_type: text(1).into(),
            full_type: text(2).into(),
            collation: row[3].as_deref().map(Into::into),
            nullable: text(4) == "YES",
            auto_increment: text(5).contains("auto_increment"),
            generated: text(5).contains("GENERATED"),
            invisible: text(5).contains("INVISIBLE"),
            default: None,
        });
        if text(6) == "PRI" {
            schema.primary.push(u16::try_from(at).expect("few"));
        }
    }
    let keys = client.rows(&format!(
        "SELECT GROUP_CONCAT(column_name ORDER BY seq_in_index)
         FROM information_schema.statistics
         WHERE table_schema = '{database}' AND table_name = '{table}' AND non_unique = 0
           AND index_name <> 'PRIMARY' GROUP BY index_name"
    ));
    for row in keys {
        let names = row[0].clone().expect("a key has columns");
        let places = names.split(',').map(|name| {
            let at = schema.column(name).expect("a column of the table");
            u16::try_from(at).expect("few")
        });
        let places = places.collect();
        schema.unique.push(places);
    }
    schema
}

/// The one result of a statement.
pub fn rows_of(outcome: Outcome) -> Result<testkit::client::Rows, Failure> {
    match outcome?.pop() {
        Some(Reply::Rows(rows)) => Ok(rows),
        other => panic!("no rows: {other:?}"),
    }
}
