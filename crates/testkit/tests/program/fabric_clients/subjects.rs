//! The clients: programs that `clients.py` brings and runs, and those that are requests over HTTP alone.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use testkit::Farm;
use testkit::client::{Client, Reply};

use crate::fabric::{PHP, ask, flat_rows};

const USER: &str = "app";
const PASSWORD: &str = "secret";

/// Which shard maps a client can use.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Maps {
    RangeOnly,
    OfEveryKind,
}

/// Whether a client reports failures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Reports {
    WhenAsked,
    /// When a connection breaks.
    OfItself,
    Never,
}

/// What is told what to do in one line (`clients.py` has the words), and answers with a value or an error.
pub trait Asked {
    fn ask(&mut self, line: &str) -> Result<String, String>;
}

/// A client under test.
pub struct Subject {
    pub name: &'static str,
    pub client: Box<dyn Asked>,
    pub maps: Maps,
    pub reports: Reports,
    /// False for one whose statements never begin.
    pub has_statements: bool,
}

impl Subject {
    /// What it answers to a line that must be done.
    #[track_caller]
    pub fn must(&mut self, line: &str) -> String {
        let said = self.client.ask(line);
        said.unwrap_or_else(|error| panic!("{}: {line}: {error}", self.name))
    }
}

/// All clients that can be had here; those that cannot are named.
pub fn subjects(farm: &Farm) -> Vec<Subject> {
    use Maps::{OfEveryKind, RangeOnly};
    use Reports::{Never, OfItself, WhenAsked};

    // The hash of a text of Python 3 is an error of the connector.
    let programs = [
        ("connector-python-2.0.4", OfEveryKind, WhenAsked),
        ("connector-python-2.0.4-on-3", RangeOnly, WhenAsked),
        ("connector-python-2.1.7", OfEveryKind, WhenAsked),
        ("connector-python-2.1.7-on-3", RangeOnly, WhenAsked),
        ("connector-python-2.1.7-calls", OfEveryKind, WhenAsked),
        ("connector-python-2.1.7-calls-on-3", RangeOnly, WhenAsked),
        ("connector-j-5.1.41", OfEveryKind, OfItself),
        ("connector-j-5.1.49", OfEveryKind, OfItself),
    ];
    let programs = programs.into_iter().filter_map(|(name, maps, reports)| {
        Some(Subject {
            name,
            client: Box::new(Spoken::start(name, farm)?),
            maps,
            reports,
            has_statements: name != "connector-j-5.1.49",
        })
    });
    let look_ups = [
        ("mysqlnd_ms, direct", LookUp::Direct, OfEveryKind, Never),
        ("mysqlnd_ms, dump", LookUp::Dump, RangeOnly, Never),
        ("curl", LookUp::Curl, OfEveryKind, WhenAsked),
    ];
    let look_ups = look_ups.map(|(name, how, maps, reports)| Subject {
        name,
        client: Box::new(Requests::new(farm.fabric, how)),
        maps,
        reports,
        has_statements: true,
    });
    programs.chain(look_ups).collect()
}

/// A program that takes lines and answers each with a line; ended when dropped.
struct Spoken {
    process: Child,
    told: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Spoken {
    /// `None` where the client cannot be had; why is said, and is no failure even where no test may be
    /// skipped: a registry that is away is nobody's fault here.
    fn start(name: &str, farm: &Farm) -> Option<Spoken> {
        let seeds = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../test/compat/seeds");
        let process = Command::new("python3")
            .arg(seeds.join("fabric/clients.py"))
            .arg(name)
            .env("FABRIC", farm.fabric.to_string())
            .env("FABRIC_CALLS", farm.fabric_mysql.to_string())
            .env("MYSQL_USER", USER)
            .env("MYSQL_PASSWORD", PASSWORD)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = process
            .inspect_err(|error| testkit::skip(&format!("{name}: python3: {error}")))
            .ok()?;
        let told = process.stdin.take().expect("stdin was asked for");
        let said = process.stdout.take().expect("stdout was asked for");
        let mut client = Spoken {
            process,
            told,
            said: BufReader::new(said),
        };
        let first = client.line();
        if first != "ready" {
            let _ = writeln!(std::io::stderr(), "without {name}: {first}");
            assert!(first.starts_with("missing: "), "{name}: {first}");
            return None;
        }
        Some(client)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        let read = self.said.read_line(&mut line);
        assert!(read.is_ok_and(|bytes| bytes > 0), "the client has ended");
        line.trim_end().to_owned()
    }
}

impl Asked for Spoken {
    fn ask(&mut self, line: &str) -> Result<String, String> {
        let sent = writeln!(self.told, "{line}");
        sent.expect("the client reads");
        let said = self.line();
        match said.split_once(' ') {
            Some(("ok", value)) => Ok(value.to_owned()),
            _ => Err(said),
        }
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Who looks servers up, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LookUp {
    /// mysqlnd_ms with the strategy `direct`: it asks for each choice.
    Direct,
    /// mysqlnd_ms with the strategy `dump`: it takes four tables, and finds the shard itself.
    Dump,
    /// The samples of the first releases: the program curl.
    Curl,
}

/// What a statement is about.
enum Wanted {
    Key(String, String),
    Group(String),
}

/// A client that is its requests over HTTP; it runs its statements by a driver of its own.
struct Requests {
    door: SocketAddr,
    how: LookUp,
    wanted: Wanted,
    connection: Option<Client>,
}

impl Requests {
    fn new(door: SocketAddr, how: LookUp) -> Requests {
        Requests {
            door,
            how,
            wanted: Wanted::Group("g1".to_owned()),
            connection: None,
        }
    }

    fn call(&self, method: &str, params: &str) -> Result<String, String> {
        let body = format!(
            "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<methodCall><methodName>{method}</methodName><params>{params}</params>\n\
             </methodCall>"
        );
        if self.how != LookUp::Curl {
            let heard = ask(self.door, PHP, &body);
            assert_eq!(heard.status, 200, "{method}: {}", heard.body);
            return Ok(heard.body);
        }
        let url = format!("http://{}/", self.door);
        let output = Command::new("curl")
            .args(["--silent", "--fail", "--data", &body, &url])
            .output();
        let output = output.map_err(|error| format!("curl: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(format!("curl: {}", output.status)),
        }
    }

    /// The address that takes writes.
    fn address(&self) -> Result<String, String> {
        if self.how == LookUp::Dump {
            return self.dumped();
        }
        let body = match &self.wanted {
            Wanted::Group(group) => {
                let params = format!(
                    "\n<param><!-- group --><value><string>{group}</string></value></param>"
                );
                self.call("group.lookup_servers", &params)?
            }
            Wanted::Key(table, key) => {
                let mut params = format!(
                    "\n<param><!-- table --><value><string>{table}</string></value></param>\n\
                     <param><!-- shard key --><value><string>{key}</string></value></param>\n\
                     <param><!-- hint --><value><string>LOCAL</string></value></param>\n"
                );
                if self.how == LookUp::Direct {
                    params += "<param><!-- sync --><value><boolean>1</boolean></value></param>";
                }
                self.call("sharding.lookup_servers", &params)?
            }
        };
        // [uuid, address, is the primary, status]
        let servers = flat_rows(&body);
        let primary = servers.iter().find(|row| row[2] == "1");
        primary
            .map(|row| row[1].clone())
            .ok_or_else(|| format!("no usable servers: {body}"))
    }

    /// The same by the four tables, as the extension reads them.
    fn dumped(&self) -> Result<String, String> {
        let dump = |name: &str| Ok::<_, String>(flat_rows(&self.call(name, "")?));
        let servers = dump("dump.servers")?;
        let index = dump("dump.shard_index")?;
        let maps = dump("dump.shard_maps")?;
        let tables = dump("dump.shard_tables")?;
        // One row that it cannot read ends each list, and an empty one ends the request.
        assert!(maps.iter().all(|row| row[1] == "RANGE"), "{maps:?}");
        for list in [&servers, &index, &maps, &tables] {
            assert!(!list.is_empty());
        }
        assert!(
            servers
                .iter()
                .all(|row| matches!(row[4].as_str(), "0" | "1" | "3"))
        );
        let group = match &self.wanted {
            Wanted::Group(group) => group.clone(),
            Wanted::Key(table, key) => {
                let key: i64 = key.parse().expect("a number");
                let mapped = tables
                    .iter()
                    .find(|row| format!("{}.{}", row[0], row[1]) == *table);
                let mapped = mapped.ok_or("the table is on no map")?;
                let of_map = index.iter().filter(|row| row[1] == mapped[3]);
                // The bounds ascend: the last one that is not above the key.
                let mut below =
                    of_map.filter(|row| row[0].parse::<i64>().is_ok_and(|it| it <= key));
                below.next_back().ok_or("no shard has the key")?[3].clone()
            }
        };
        let primary = servers.iter().find(|row| row[1] == group && row[4] == "3");
        let primary = primary.ok_or_else(|| format!("{group} has no master"))?;
        Ok(format!("{}:{}", primary[2], primary[3]))
    }

    fn run(&mut self, text: &str) -> Result<String, String> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                let address = self.address()?.parse().map_err(|_| "no address")?;
                let connected = Client::connect(address, USER, PASSWORD);
                connected.map_err(|failure| failure.to_string())?
            }
        };
        let replies = connection
            .query(text)
            .map_err(|failure| failure.to_string())?;
        // One that failed is not used again.
        self.connection = Some(connection);
        let first = match replies.first() {
            Some(Reply::Rows(rows)) => rows.text().first().and_then(|row| row[0].clone()),
            _ => None,
        };
        Ok(first.unwrap_or_else(|| "done".to_owned()))
    }
}

impl Asked for Requests {
    fn ask(&mut self, line: &str) -> Result<String, String> {
        let (word, rest) = line.split_once(' ').expect("two words");
        match word {
            "key" | "group" => {
                self.connection = None;
                self.wanted = match rest.split_once(' ') {
                    Some((table, key)) => Wanted::Key(table.to_owned(), key.to_owned()),
                    None => Wanted::Group(rest.to_owned()),
                };
                Ok("chosen".to_owned())
            }
            "report" => {
                let params = format!("<param><value><string>{rest}</string></value></param>");
                self.call("threat.report_failure", &params)
            }
            "sql" => self.run(rest),
            word => panic!("{word} is no word for this client"),
        }
    }
}
