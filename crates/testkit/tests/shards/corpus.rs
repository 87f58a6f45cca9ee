//! The files of `test/shards`: schemas and statements, with directives in comments.

use std::fs;
use std::path::Path;

use farm::Engine;
use testkit::client::Value;

/// Where the rows of a table belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// By this column, on the map of this name.
    Sharded { map: String, key: String },
    /// On every group of this map.
    Global(String),
    /// On one group.
    Single,
}

/// A table of a schema.
#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub create: String,
    pub place: Place,
}

/// One folder: a database with its tables, and the files that run in it.
pub struct Corpus {
    /// The folder's name, and the database's.
    pub name: String,
    pub tables: Vec<Table>,
    pub files: Vec<File>,
}

/// One file of statements, which finds the tables as the schema and the data leave them.
pub struct File {
    pub name: String,
    pub steps: Vec<Step>,
}

/// How much of the order of rows is the statement's to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The statement gives all of it.
    Total,
    /// It gives none.
    Free,
    /// It orders by these columns, from 0; rows that are equal in them stand in any order.
    By(Vec<usize>),
}

/// One statement.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it begins, from 1.
    pub line: usize,
    pub session: String,
    pub text: String,
    pub on: Option<Engine>,
    pub order: Order,
    /// Columns, from 0, whose values are the server's to choose.
    pub free: Vec<usize>,
    /// Columns, from 0, that hold floating point sums: equal but for the last digits.
    pub about: Vec<usize>,
    /// It is prepared, and executed with these.
    pub with: Option<Vec<Value>>,
    /// It makes a table that belongs there.
    pub fresh: Option<Place>,
    /// A farm may say that it does not do this over several groups.
    pub may_be_refused: bool,
}

impl Step {
    /// A statement without any directive.
    pub fn plain(line: usize, text: &str) -> Step {
        Step {
            line,
            session: "a".to_owned(),
            text: text.to_owned(),
            on: None,
            order: order_of(text),
            free: Vec::new(),
            about: Vec::new(),
            with: None,
            fresh: None,
            may_be_refused: false,
        }
    }
}

/// All folders, by name.
pub fn read_all(folder: &Path) -> Vec<Corpus> {
    let mut corpora: Vec<Corpus> = entries(folder)
        .iter()
        .filter(|path| path.is_dir())
        .map(|path| read(path))
        .collect();
    corpora.sort_by(|a, b| a.name.cmp(&b.name));
    corpora
}

fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry of the folder").path())
        .collect();
    paths.sort();
    paths
}

fn read(folder: &Path) -> Corpus {
    let mut corpus = Corpus {
        name: stem(folder),
        tables: Vec::new(),
        files: Vec::new(),
    };
    for path in entries(folder) {
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let steps = parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if stem(&path) == "schema" {
            corpus.tables = steps.into_iter().map(table).collect();
        } else {
            let name = stem(&path);
            corpus.files.push(File { name, steps });
        }
    }
    corpus
}

fn stem(path: &Path) -> String {
    let stem = path.file_stem().expect("an entry has a name");
    stem.to_string_lossy().into_owned()
}

fn table(step: Step) -> Table {
    Table {
        name: created(&step.text).unwrap_or_else(|| panic!("{}: no table", step.text)),
        place: step
            .fresh
            .unwrap_or_else(|| panic!("{}: no place", step.text)),
        create: step.text,
    }
}

/// The table that a CREATE TABLE makes.
pub fn created(text: &str) -> Option<String> {
    let rest = text.strip_prefix("CREATE TABLE ")?;
    rest.split([' ', '(']).next().map(str::to_owned)
}

/// Reads one file; the error names the line.
fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut session = "a".to_owned();
    let mut next = Step::plain(0, "");
    let mut said_order = false;
    for (at, line) in text.lines().enumerate() {
        let fail = |what: &str| format!("line {}: {what}: {line}", at + 1);
        if next.text.is_empty() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(directive) = line.strip_prefix("-- ") {
                if let Some(name) = directive.strip_prefix("session: ") {
                    name.clone_into(&mut session);
                    continue;
                }
                said_order |= directive == "bag" || directive.starts_with("order: ");
                direct(&mut next, directive).ok_or_else(|| fail("a directive"))?;
                continue;
            }
            next.line = at + 1;
        } else {
            next.text.push('\n');
        }
        next.text.push_str(line);
        if let Some(whole) = next.text.strip_suffix(';') {
            next.text = whole.to_owned();
            next.session.clone_from(&session);
            if !said_order {
                next.order = order_of(&next.text);
            }
            steps.push(std::mem::replace(&mut next, Step::plain(0, "")));
            said_order = false;
        }
    }
    if next.text.is_empty() {
        return Ok(steps);
    }
    Err(format!("line {}: a statement without end", next.line))
}

fn direct(step: &mut Step, directive: &str) -> Option<()> {
    let (name, value) = directive.split_once(": ").unwrap_or((directive, ""));
    match name {
        "bag" => step.order = Order::Free,
        "order" => step.order = Order::By(numbers(value)?),
        "free" => step.free = numbers(value)?,
        "about" => step.about = numbers(value)?,
        "may be refused" => step.may_be_refused = true,
        "with" => step.with = Some(values(value)?),
        "sharded" | "fresh sharded" => {
            let (map, key) = value.split_once(' ')?;
            let (map, key) = (map.to_owned(), key.to_owned());
            step.fresh = Some(Place::Sharded { map, key });
        }
        "global" => step.fresh = Some(Place::Global(value.to_owned())),
        "single" => step.fresh = Some(Place::Single),
        "engine" => {
            step.on = Some(match value {
                "mariadb" => Engine::MariaDb,
                "mysql" => Engine::MySql,
                _ => return None,
            });
        }
        _ => return None,
    }
    Some(())
}

/// Columns count from 1 in the files.
fn numbers(text: &str) -> Option<Vec<usize>> {
    let number = |word: &str| word.parse::<usize>().ok()?.checked_sub(1);
    text.split(' ').map(number).collect()
}

/// `7, 'text', 1.5, null`.
fn values(text: &str) -> Option<Vec<Value>> {
    let value = |word: &str| {
        if word == "null" {
            return Some(Value::Null);
        }
        if let Some(text) = word.strip_prefix('\'') {
            return Some(Value::from(text.strip_suffix('\'')?));
        }
        let whole = word.parse::<i64>().ok().map(Value::Int);
        whole.or_else(|| word.parse().ok().map(Value::Double))
    };
    text.split(", ").map(value).collect()
}

/// What the text alone tells: an ORDER BY outside of all parentheses is taken to give a total order.
/// A file says otherwise where it does not.
pub fn order_of(text: &str) -> Order {
    let mut depth = 0usize;
    let mut quote = None;
    let bytes = text.as_bytes();
    for (at, &byte) in bytes.iter().enumerate() {
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'\'' | b'"' | b'`') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') => depth = depth.saturating_sub(1),
            (None, b'O') if depth == 0 && bytes[at..].starts_with(b"ORDER BY") => {
                return Order::Total;
            }
            _ => {}
        }
    }
    Order::Free
}
