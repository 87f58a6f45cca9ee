//! Scenario files: SQL with directives in comments. `test/diff/README.md` describes the format.

use std::fs;
use std::path::Path;

use farm::Engine;
use mysql_wire::command::Command;

use crate::values::{Param, params, unescape};

/// One file.
pub struct Scenario {
    /// The file's name without `.sql`; also names its database.
    pub name: String,
    /// Large replies: fewer of the ways to run are tried.
    pub heavy: bool,
    pub steps: Vec<Step>,
    /// How many sessions take part.
    pub sessions: usize,
}

/// One thing that one session does.
pub struct Step {
    /// Where it begins, from 1.
    pub line: usize,
    pub session: String,
    /// Runs on such servers only: the beginning of their [`label`].
    pub on: Option<String>,
    pub act: Act,
    pub exceptions: Vec<Exception>,
    /// What the client sends when the server asks for a local file.
    pub local_file: Vec<u8>,
    /// Not sent as a prepared statement in the runs that prepare every text.
    pub text_only: bool,
}

/// What is done. Names are those of prepared statements.
pub enum Act {
    Query(Vec<u8>),
    Prepare(String, Vec<u8>),
    Execute {
        name: String,
        params: Vec<Param>,
        cursor: bool,
        /// The types are sent with the values.
        typed: bool,
    },
    Fetch(String, u32),
    LongData(String, u16, Vec<u8>),
    ResetStatement(String),
    CloseStatement(String),
    /// A command whose reply is one packet.
    Single(Command, Vec<u8>),
    FieldList(Vec<u8>),
    /// COM_CHANGE_USER to `root` with this database.
    ChangeUser(Option<String>),
    /// Ends the session; its next step logs in anew.
    Quit,
}

/// A field that may differ, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception {
    pub line: usize,
    pub field: String,
    /// The beginning of the [`label`] of the servers where it may.
    pub on: Option<String>,
    /// It need not differ: the reason begins with «at times».
    pub at_times: bool,
}

/// All scenarios of a folder, by name.
pub fn read_all(folder: &Path) -> Vec<Scenario> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut scenarios = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry of the folder").path();
        if path.extension().is_some_and(|extension| extension == "sql") {
            let text = fs::read(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
            let name = path.file_stem().expect("a file has a name");
            let name = name.to_string_lossy().into_owned();
            scenarios.push(
                parse(&name, &text).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
            );
        }
    }
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    scenarios
}

/// What directives have said for the next step.
#[derive(Default)]
struct Next {
    on: Option<String>,
    exceptions: Vec<Exception>,
    local_file: Vec<u8>,
    escapes: bool,
    text_only: bool,
}

struct Parser<'a> {
    lines: Vec<&'a [u8]>,
    at: usize,
    next: Next,
    /// Of the directive `engine from here`.
    on: Option<String>,
    session: String,
    heavy: bool,
    steps: Vec<Step>,
}

/// Reads one scenario; the error names the line.
pub fn parse(name: &str, text: &[u8]) -> Result<Scenario, String> {
    let mut parser = Parser {
        lines: text.split(|byte| *byte == b'\n').collect(),
        at: 0,
        next: Next::default(),
        on: None,
        session: "a".to_owned(),
        heavy: false,
        steps: Vec::new(),
    };
    while parser.at < parser.lines.len() {
        let line = parser.at + 1;
        parser
            .item()
            .map_err(|error| format!("line {line}: {error}"))?;
    }
    let mut names: Vec<&str> = parser.steps.iter().map(|step| &*step.session).collect();
    names.sort_unstable();
    names.dedup();
    Ok(Scenario {
        name: name.to_owned(),
        heavy: parser.heavy,
        sessions: names.len(),
        steps: parser.steps,
    })
}

impl Parser<'_> {
    /// A comment, a directive or a statement.
    fn item(&mut self) -> Result<(), String> {
        let first = self.lines[self.at].trim_ascii();
        if first.is_empty() || first.starts_with(b"#") {
            self.at += 1;
            return Ok(());
        }
        let Some(directive) = first.strip_prefix(b"-- ") else {
            return self.statement();
        };
        let directive = std::str::from_utf8(directive).map_err(|error| error.to_string())?;
        let (head, value) = directive.split_once(':').unwrap_or((directive, ""));
        let value = value.trim_start();
        let line = self.at + 1;
        self.at += 1;
        if !self.modifier(head, value, line)? {
            let act = self.act(head, value)?;
            self.push(act, line);
        }
        Ok(())
    }

    /// True when the directive is about steps to come.
    fn modifier(&mut self, head: &str, value: &str, line: usize) -> Result<bool, String> {
        let (word, rest) = head.split_once(' ').unwrap_or((head, ""));
        match head {
            "session" => self.session = value.to_owned(),
            "heavy" => self.heavy = true,
            "engine" => self.next.on = Some(on(value)?),
            "engine from here" if value == "both" => self.on = None,
            "engine from here" => self.on = Some(on(value)?),
            "escapes" => self.next.escapes = true,
            "text only" => self.next.text_only = true,
            "local file" => self.next.local_file = unescape(value.as_bytes())?,
            "block" => {
                let text = self.block()?;
                self.push(Act::Query(text), line);
            }
            _ if word == "exception" => {
                let (field, on) = match rest.split_once(" on ") {
                    Some((field, name)) => (field, Some(on(name)?)),
                    None => (rest, None),
                };
                if value.is_empty() {
                    return Err("an exception needs its reason".to_owned());
                }
                self.next.exceptions.push(Exception {
                    line,
                    field: field.to_owned(),
                    on,
                    at_times: value.starts_with("at times"),
                });
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// A directive that is a step by itself.
    fn act(&self, head: &str, value: &str) -> Result<Act, String> {
        let (word, rest) = head.split_once(' ').unwrap_or((head, ""));
        let name = rest.to_owned();
        let number = |text: &str| text.parse::<u32>().map_err(|error| error.to_string());
        let execute = |cursor, typed| {
            let params = params(value)?;
            let name = name.clone();
            Ok::<_, String>(Act::Execute {
                name,
                params,
                cursor,
                typed,
            })
        };
        let database = (!value.is_empty()).then(|| value.to_owned());
        Ok(match (head, word) {
            ("ping", _) => Act::Single(Command::Ping, Vec::new()),
            ("reset connection", _) => Act::Single(Command::ResetConnection, Vec::new()),
            ("init_db", _) => Act::Single(Command::InitDb, value.as_bytes().to_vec()),
            ("set_option", _) => {
                Act::Single(Command::SetOption, vec![number(value)?.to_le_bytes()[0], 0])
            }
            ("field_list", _) => {
                let (table, wild) = value.split_once(' ').unwrap_or((value, ""));
                Act::FieldList([table.as_bytes(), b"\0", wild.as_bytes()].concat())
            }
            ("raw", _) => {
                let bytes = unescape(value.as_bytes())?;
                let (byte, body) = bytes.split_first().ok_or("no command byte")?;
                let command = Command::try_from(*byte).map_err(|error| error.to_string())?;
                Act::Single(command, body.to_vec())
            }
            ("change user", _) => Act::ChangeUser(database),
            ("quit", _) => Act::Quit,
            (_, "prepare") => Act::Prepare(name, value.trim_end_matches(';').into()),
            (_, "execute") => execute(false, true)?,
            (_, "again") => execute(false, false)?,
            (_, "cursor") => execute(true, true)?,
            (_, "fetch") => Act::Fetch(name, number(value)?),
            (_, "long") => {
                let (name, param) = rest.split_once(' ').ok_or("which parameter?")?;
                let param = param.parse().map_err(|_| "a parameter's number")?;
                Act::LongData(name.to_owned(), param, unescape(value.as_bytes())?)
            }
            (_, "reset") => Act::ResetStatement(name),
            (_, "close") => Act::CloseStatement(name),
            _ => return Err(format!("no such directive: {head}")),
        })
    }

    /// The lines up to `-- end`, as they are.
    fn block(&mut self) -> Result<Vec<u8>, String> {
        let start = self.at;
        while let Some(line) = self.lines.get(self.at) {
            self.at += 1;
            if line.trim_ascii() == b"-- end" {
                let text = self.lines[start..self.at - 1].join(&b'\n');
                return self.escaped(text);
            }
        }
        Err("a block without its end".to_owned())
    }

    /// The lines up to one that ends in a semicolon, without that.
    fn statement(&mut self) -> Result<(), String> {
        let start = self.at;
        while let Some(line) = self.lines.get(self.at) {
            self.at += 1;
            if line.trim_ascii_end().ends_with(b";") {
                let text = self.lines[start..self.at].join(&b'\n');
                let text = text.trim_ascii_end();
                let text = self.escaped(text[..text.len() - 1].to_vec())?;
                self.push(Act::Query(text), start + 1);
                return Ok(());
            }
        }
        Err("a statement without its semicolon".to_owned())
    }

    fn escaped(&self, text: Vec<u8>) -> Result<Vec<u8>, String> {
        if self.next.escapes {
            return unescape(&text);
        }
        Ok(text)
    }

    fn push(&mut self, act: Act, line: usize) {
        let next = std::mem::take(&mut self.next);
        self.steps.push(Step {
            line,
            session: self.session.clone(),
            on: next.on.or(self.on.clone()),
            act,
            exceptions: next.exceptions,
            local_file: next.local_file,
            text_only: next.text_only,
        });
    }
}

/// The beginning of a label.
fn on(name: &str) -> Result<String, String> {
    if name.starts_with("mariadb") || name.starts_with("mysql") {
        return Ok(name.to_owned());
    }
    Err(format!("no such server: {name}"))
}

/// What directives call a server: `mariadb 11.4`. `greeted` is the version in its greeting.
pub fn label(engine: Engine, greeted: &str) -> String {
    // MariaDB pretends to be a replication slave's friend of old.
    let version = greeted.strip_prefix("5.5.5-").unwrap_or(greeted);
    let numbers: Vec<&str> = version.split(['.', '-']).take(2).collect();
    let name = match engine {
        Engine::MariaDb => "mariadb",
        Engine::MySql => "mysql",
    };
    format!("{name} {}", numbers.join("."))
}

/// True when something that is said of such servers, or of all, holds for this one.
pub fn holds(on: &Option<String>, label: &str) -> bool {
    on.as_deref().is_none_or(|on| label.starts_with(on))
}
