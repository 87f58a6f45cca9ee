//! The farm's configuration as a document: TOML with a head, `[settings]`, `[[rule]]`, `[[user]]` and
//! groups. It is read whole, so that all that is wrong is told at once; it is written so that an
//! operator's comments stay.

use std::fmt::Write;

use catalog::configuration::{FORMAT, GroupPart, Groups, ServerPart, WEIGHT_MAX, Wrong};
use control::configuration::Draft;
use farm::{GroupKind, Mode};
use routing::rules::Rules;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml_edit::{DocumentMut, Item, TableLike};

use super::file::{LineOf, parse_toml, raw};
use super::{Applies, Setting, Settings, find, names_are_unique, rules, unknown};

const FORMAT_KEY: &str = "format";
const VERSION_KEY: &str = "version";
const SETTINGS: &str = "settings";
const GROUP: &str = "group";
const SERVER: &str = "server";

/// How the first line of a shown document begins.
const HEADING: &str = "# Configuration of the farm, version";

/// The lines of a shown document before the text.
const HEAD_LINES: usize = 4;

const NO_FAIL: &str = "writing to a String cannot fail";

/// What a document says.
#[derive(Clone, Debug)]
pub struct Reading {
    pub draft: Draft,
    /// A router's settings with the document's over them; their rules are the document's.
    pub settings: Settings,
}

/// Reads a whole document; its settings come over `onto`, from whom `from` tells.
///
/// # Errors
/// All wrong lines, with what is wrong.
pub fn read(document: &str, onto: &Settings, from: &str) -> Result<Reading, Vec<Wrong>> {
    let line_of = |offset: usize| document[..offset.min(document.len())].matches('\n').count() + 1;
    let table = parse_toml(document, &line_of)?;
    if let Some(newer) = newer(&table, &line_of) {
        // What else it says may have another meaning there.
        return Err(vec![newer]);
    }
    let mut reader = Reader {
        line_of: &line_of,
        from,
        errors: Vec::new(),
        draft: Draft::default(),
        settings: Settings {
            rules: Rules::default(),
            ..onto.clone()
        },
    };
    for (key, value) in table.get_ref() {
        reader.part(key, value);
    }
    if let Err(twice) = names_are_unique(&reader.settings.rules) {
        let (line, what) = twice.split_once(": ").unwrap_or(("", &twice));
        reader
            .errors
            .push((line.parse().unwrap_or_default(), what.to_owned()));
    }
    let Reader {
        mut errors,
        mut draft,
        mut settings,
        ..
    } = reader;
    if !errors.is_empty() {
        errors.sort();
        return Err(errors);
    }
    for rule in &mut settings.rules.list {
        let line = rule
            .place
            .parse()
            .map_or(0, |line: usize| line + HEAD_LINES);
        rule.place = format!("{from}:{line}");
    }
    draft.text = own_text(document).map_err(|what| vec![(0, what)])?;
    Ok(Reading { draft, settings })
}

/// The wrong line of a document that a newer Heddle wrote.
fn newer(table: &Spanned<DeTable<'_>>, line_of: LineOf<'_>) -> Option<Wrong> {
    let (key, value) = table.get_ref().get_key_value(FORMAT_KEY)?;
    let format = number(value.get_ref()).filter(|&format| format > u64::from(FORMAT))?;
    let ours = env!("CARGO_PKG_VERSION");
    let what = format!(
        "a newer Heddle wrote this document (format {format}; this is {ours}, which knows format \
         {FORMAT}): use that one"
    );
    Some((line_of(key.span().start), what))
}

fn number(value: &DeValue<'_>) -> Option<u64> {
    match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
        _ => None,
    }
}

struct Reader<'a> {
    line_of: LineOf<'a>,
    from: &'a str,
    errors: Vec<Wrong>,
    draft: Draft,
    settings: Settings,
}

type Key<'a> = Spanned<std::borrow::Cow<'a, str>>;

impl Reader<'_> {
    fn part(&mut self, key: &Key<'_>, value: &Spanned<DeValue<'_>>) {
        let name: &str = key.get_ref();
        let line = (self.line_of)(key.span().start);
        match name {
            FORMAT_KEY if number(value.get_ref()).is_some_and(|format| format > 0) => {}
            VERSION_KEY if number(value.get_ref()).is_some() => {
                self.draft.version = number(value.get_ref());
            }
            FORMAT_KEY | VERSION_KEY => self.wrong(line, format!("{name}: write a whole number")),
            SETTINGS => match value.get_ref() {
                DeValue::Table(settings) => self.settings(settings),
                _ => self.wrong(line, "write it as a table, [settings]".to_owned()),
            },
            rules::RULE | rules::USER => {
                let line_of = self.line_of;
                let rules = &mut self.settings.rules;
                rules::read(name, value, line_of, rules, &mut self.errors);
            }
            GROUP => match value.get_ref() {
                DeValue::Table(groups) => self.groups(groups),
                _ => self.wrong(line, "write it as a table, [group.NAME]".to_owned()),
            },
            name if find(name).is_some() => {
                self.wrong(line, format!("{name}: settings stand under [settings] here"));
            }
            name => self.wrong(
                line,
                format!("there is no `{name}` here; a document has [settings], [[rule]], [[user]] and [group.NAME]"),
            ),
        }
    }

    fn wrong(&mut self, line: usize, what: String) {
        self.errors.push((line, what));
    }

    fn settings(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let name: &str = key.get_ref();
            let line = (self.line_of)(key.span().start);
            let from = self.from.to_owned();
            let result = match find(name) {
                None => Err(unknown(name)),
                Some(setting) => match of_router(setting) {
                    Some(why) => Err(format!("{name} is each router's own: {why}")),
                    None => raw(value.get_ref())
                        .and_then(|raw| self.settings.give(setting, &raw, from))
                        .map_err(|wrong| format!("{name}: {wrong}")),
                },
            };
            if let Err(what) = result {
                self.wrong(line, what);
            }
        }
    }

    fn groups(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = key.get_ref().to_string();
            let line = (self.line_of)(key.span().start);
            let DeValue::Table(keys) = value.get_ref() else {
                self.wrong(line, format!("group: write it as a table, [group.{name}]"));
                continue;
            };
            let part = self.group(&name, line, keys);
            self.draft.groups.insert(name, part);
        }
    }

    fn group(&mut self, name: &str, line: usize, keys: &DeTable<'_>) -> GroupPart {
        let mut part = GroupPart {
            line,
            ..GroupPart::default()
        };
        for (key, value) in keys {
            let line = (self.line_of)(key.span().start);
            let wrong = match (&**key.get_ref(), value.get_ref()) {
                ("kind", DeValue::String(word)) => match GroupKind::parse(word) {
                    Some(kind) => {
                        part.kind = Some(kind);
                        continue;
                    }
                    None => format!("kind: {word:?} is none of replication, galera, media"),
                },
                ("description", DeValue::String(text)) => {
                    part.description = text.to_string();
                    continue;
                }
                ("active", DeValue::Boolean(active)) => {
                    part.active = *active;
                    continue;
                }
                (SERVER, DeValue::Table(servers)) => {
                    self.servers(name, servers, &mut part);
                    continue;
                }
                (key @ ("kind" | "description"), _) => format!("{key}: write a text in quotes"),
                ("active", _) => "active: write true or false".to_owned(),
                (SERVER, _) => format!("server: write it as a table, [group.{name}.server.NAME]"),
                (key, _) => format!(
                    "unknown key `{key}`; a group has kind, description, active and servers \
                     ([group.{name}.server.NAME])"
                ),
            };
            self.wrong(line, format!("group {name}: {wrong}"));
        }
        part
    }

    fn servers(&mut self, group: &str, servers: &DeTable<'_>, part: &mut GroupPart) {
        for (key, value) in servers {
            let name = key.get_ref().to_string();
            let line = (self.line_of)(key.span().start);
            let DeValue::Table(keys) = value.get_ref() else {
                let what = format!("server: write it as a table, [group.{group}.server.{name}]");
                self.wrong(line, what);
                continue;
            };
            let server = self.server(&name, line, keys);
            part.servers.insert(name, server);
        }
    }

    fn server(&mut self, name: &str, line: usize, keys: &DeTable<'_>) -> ServerPart {
        let mut part = ServerPart {
            line,
            ..ServerPart::default()
        };
        for (key, value) in keys {
            let line = (self.line_of)(key.span().start);
            let value = value.get_ref();
            let wrong = match &**key.get_ref() {
                "weight" => match weight(value) {
                    Some(weight) => {
                        part.weight = weight;
                        continue;
                    }
                    None => format!("weight: write a number above 0 and at most {WEIGHT_MAX}"),
                },
                "mode" => match mode(value) {
                    Some(mode) => {
                        part.mode = Some(mode);
                        continue;
                    }
                    None => "mode: write one of OFFLINE, READ_ONLY, WRITE_ONLY, READ_WRITE in \
                             quotes"
                        .to_owned(),
                },
                key @ ("spare" | "promotable") => match (key, value) {
                    ("spare", DeValue::Boolean(spare)) => {
                        part.spare = *spare;
                        continue;
                    }
                    (_, DeValue::Boolean(may)) => {
                        part.never_primary = !may;
                        continue;
                    }
                    _ => format!("{key}: write true or false"),
                },
                key => {
                    format!("unknown key `{key}`; a server has weight, mode, spare, promotable")
                }
            };
            self.wrong(line, format!("server {name}: {wrong}"));
        }
        part
    }
}

fn weight(value: &DeValue<'_>) -> Option<f64> {
    let weight: f64 = match value {
        DeValue::Float(number) => number.as_str().parse().ok()?,
        DeValue::Integer(_) => u32::try_from(number(value)?).ok()?.into(),
        _ => return None,
    };
    (weight > 0.0 && weight <= WEIGHT_MAX).then_some(weight)
}

fn mode(value: &DeValue<'_>) -> Option<Mode> {
    match value {
        DeValue::String(word) => Mode::parse(word),
        _ => None,
    }
}

/// Why a setting cannot stand in the farm's document; `None` when it can.
fn of_router(setting: &Setting) -> Option<String> {
    if setting.applies == Applies::Live {
        return None;
    }
    let why = match setting.name {
        "threads" | "io" => "it depends on the machine",
        "state_dir" | "errant_dir" | "sink_files_dir" | "binlog_tool_dir" | "rules_file" => {
            "it names a place on one machine"
        }
        "fence_command" | "fence_timeout_ms" | "event_command" => {
            "a document must not run programs on all machines"
        }
        "relaxed_replicas" => "whether commits are safe is decided when a router starts",
        "drain_s" => "how long a machine may take to stop is its own affair",
        name if name.starts_with("tls_") => "it names files of one machine, or goes with them",
        name if name.starts_with("log_") => "where its log goes is its own affair",
        name if name.starts_with("admin_") || name.starts_with("replication_") => {
            "the history must not hold passwords"
        }
        name if name.ends_with("_listen") => "two routers cannot listen at one address",
        name if name.contains("etcd") => "it is needed to read the document at all",
        _ => "it is read when the router starts",
    };
    Some(format!("{why}; it belongs into heddle.toml"))
}

/// The text without what the farm itself keeps: head and groups.
fn own_text(document: &str) -> Result<String, String> {
    let lines = document.lines();
    let kept: Vec<&str> = lines.filter(|line| !line.starts_with(HEADING)).collect();
    let mut edited: DocumentMut = parse_edit(&kept.join("\n"))?;
    let mut before = String::new();
    for name in [FORMAT_KEY, VERSION_KEY] {
        // A comment above such a key is about what follows.
        let prefix = edited.key(name).and_then(|key| key.leaf_decor().prefix());
        before.push_str(prefix.and_then(|raw| raw.as_str()).unwrap_or_default());
        edited.remove(name);
    }
    edited.remove(GROUP);
    let text = format!("{before}{edited}");
    match text.trim() {
        "" => Ok(String::new()),
        text => Ok(format!("{text}\n")),
    }
}

fn parse_edit(text: &str) -> Result<DocumentMut, String> {
    let parsed = text.parse::<DocumentMut>();
    parsed.map_err(|error| error.message().to_owned())
}

/// The text with one setting changed, or without it.
///
/// # Errors
/// There is no such setting, or it is each router's own.
pub fn assign(text: &str, name: &str, value: Option<&str>) -> Result<String, String> {
    let setting = find(name).ok_or_else(|| unknown(name))?;
    if let Some(why) = of_router(setting) {
        return Err(format!("{name} is each router's own: {why}"));
    }
    let mut edited = parse_edit(text)?;
    if !edited.contains_key(SETTINGS) {
        let mut table = toml_edit::Table::new();
        // Before the rules, which are at the end of most documents.
        table.set_position(Some(-1));
        edited.insert(SETTINGS, Item::Table(table));
    }
    let settings = edited[SETTINGS].as_table_like_mut();
    let settings: &mut dyn TableLike = settings.ok_or("settings is no table; write [settings]")?;
    match value {
        Some(value) => {
            let mut given = written(setting, value)?;
            if let Some(old) = settings.get(name).and_then(Item::as_value) {
                *given.decor_mut() = old.decor().clone();
            }
            match settings.get_mut(name) {
                Some(item) => *item = Item::Value(given),
                None => drop(settings.insert(name, Item::Value(given))),
            }
        }
        None if settings.remove(name).is_some() => {}
        None => return Err(format!("the document does not have `{name}`")),
    }
    Ok(edited.to_string().trim_start().to_owned())
}

/// A word of the command line as TOML.
fn written(setting: &Setting, word: &str) -> Result<toml_edit::Value, String> {
    if setting.kind == "number" {
        let number: i64 = word
            .parse()
            .map_err(|_| format!("{}: {word:?} is not a whole number", setting.name))?;
        return Ok(number.into());
    }
    if setting.kind.starts_with("list") {
        let items = word.split(',').map(str::trim);
        let items = items.filter(|item| !item.is_empty());
        return Ok(toml_edit::Value::from_iter(items));
    }
    Ok(word.into())
}

/// The whole document as an operator sees it.
pub fn show(head: Option<(u64, &str)>, text: &str, groups: &Groups) -> String {
    let mut shown = String::new();
    if let Some((version, heading)) = head {
        let heading = heading.replace(['\n', '\r'], " ");
        write!(
            shown,
            "{HEADING} {version}, {heading}\n{FORMAT_KEY} = {FORMAT}\n{VERSION_KEY} = {version}\n\n"
        )
        .expect(NO_FAIL);
    }
    shown.push_str(text);
    for (name, group) in groups {
        let name = key(name);
        write!(shown, "\n[{GROUP}.{name}]\n").expect(NO_FAIL);
        if let Some(primary) = &group.primary {
            let primary = primary.replace(['\n', '\r'], " ");
            writeln!(shown, "# the primary was {primary}").expect(NO_FAIL);
        }
        if let Some(kind) = group.kind {
            writeln!(shown, "kind = {}", quoted(kind.name())).expect(NO_FAIL);
        }
        let description = quoted(&group.description);
        let active = group.active;
        writeln!(shown, "description = {description}\nactive = {active}").expect(NO_FAIL);
        for (server, part) in &group.servers {
            let server = key(server);
            let weight = toml_edit::Value::from(part.weight);
            write!(
                shown,
                "\n[{GROUP}.{name}.{SERVER}.{server}]\nweight = {weight}\n"
            )
            .expect(NO_FAIL);
            if let Some(mode) = part.mode {
                writeln!(shown, "mode = {}", quoted(mode.name())).expect(NO_FAIL);
            }
            if part.spare {
                shown.push_str("spare = true\n");
            }
            if part.never_primary {
                shown.push_str("promotable = false\n");
            }
        }
    }
    shown
}

fn key(name: &str) -> String {
    toml_edit::Key::new(name).to_string()
}

fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

#[cfg(test)]
#[path = "farm_tests.rs"]
mod tests;
