//! `[[rule]]` and `[[user]]` in `heddle.toml` or in the rules file.

use std::collections::HashSet;
use std::sync::Arc;

use farm::dist_txn::Atomic;
use routing::rules::{
    Actions, Conditions, Fallback, Hook, Network, Rewrite, Rule, Rules, ServerName, Servers, Side,
    UserDefaults,
};
use session::{Level, UNBOUNDED_MS};
use sqltext::Digest;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::file::LineOf;

/// The names of the tables.
pub const RULE: &str = "rule";
pub const USER: &str = "user";

/// More rules than this are a mistake: each statement is held against all of them.
const RULES_MAX: usize = 1000;

/// A hook is waited for so long unless the rule says otherwise.
const HOOK_TIMEOUT_MS: u64 = 100;

const DAY_MS: u64 = 86_400_000;

const RULE_KEYS: &str = "name, continue; conditions user, database, table, digest, regex, comment, \
    client, class; actions servers, level, max_lag_ms, rewrite, rewrite_to, timeout_ms, mirror, \
    delay_ms, refuse, hook, hook_timeout_ms, hook_fallback, hook_cache_ms, hook_sends";

type Error = (usize, String);

/// Reads the arrays of tables under both names into `rules`; errors are lines with what is wrong.
pub fn read(
    name: &str,
    value: &Spanned<DeValue<'_>>,
    line_of: LineOf<'_>,
    rules: &mut Rules,
    errors: &mut Vec<Error>,
) {
    let DeValue::Array(tables) = value.get_ref() else {
        let line = line_of(value.span().start);
        errors.push((line, format!("{name}: write it as a table, [[{name}]]")));
        return;
    };
    for table in tables {
        let line = line_of(table.span().start);
        let DeValue::Table(keys) = table.get_ref() else {
            errors.push((line, format!("{name}: write it as a table, [[{name}]]")));
            continue;
        };
        let mut keys = Keys::new(name, line, keys, line_of);
        if name == USER {
            let user = keys.user();
            rules.users.push(user);
        } else {
            let rule = keys.rule(rules.list.len() + 1);
            rules.list.push(rule);
        }
        keys.refuse_rest();
        errors.append(&mut keys.errors);
    }
    if rules.list.len() > RULES_MAX {
        let line = line_of(value.span().start);
        errors.push((line, format!("rule: there may be {RULES_MAX}")));
    }
}

/// Every name stands once.
pub fn names_are_unique(rules: &Rules) -> Result<(), String> {
    let mut seen = HashSet::new();
    for rule in &rules.list {
        if !seen.insert(&rule.name) {
            return Err(format!(
                "{}: rule: the name {:?} is taken",
                rule.place, rule.name
            ));
        }
    }
    Ok(())
}

/// The keys of one table, each taken once.
struct Keys<'a> {
    table: &'a str,
    line: usize,
    keys: &'a DeTable<'a>,
    line_of: LineOf<'a>,
    taken: Vec<&'static str>,
    errors: Vec<Error>,
}

impl<'a> Keys<'a> {
    fn new(table: &'a str, line: usize, keys: &'a DeTable<'a>, line_of: LineOf<'a>) -> Keys<'a> {
        Keys {
            table,
            line,
            keys,
            line_of,
            taken: Vec::new(),
            errors: Vec::new(),
        }
    }

    fn rule(&mut self, number: usize) -> Rule {
        let name = self
            .text("name")
            .unwrap_or_else(|| format!("rule {number}"));
        Rule {
            name: name.into(),
            place: self.line.to_string(),
            conditions: self.conditions(),
            actions: self.actions(),
            goes_on: self.switch("continue").unwrap_or_default(),
            matched: Arc::default(),
        }
    }

    fn conditions(&mut self) -> Conditions {
        let digest = |text: &str| {
            let digest = text.parse::<Digest>();
            digest.map_err(|_| "32 hexadecimal digits, as HEDDLE EXPLAIN shows them")
        };
        let network = |text: &str| Network::parse(text).ok_or("an address or ADDRESS/BITS");
        let regex = |text: &str| regex::Regex::new(text).map_err(|error| broken(&error));
        let side = |text: &str| match text {
            "read" => Ok(Side::Read),
            "write" => Ok(Side::Write),
            _ => Err("read or write"),
        };
        Conditions {
            users: self.texts("user"),
            databases: self.texts("database"),
            tables: self.each("table", |text: &str| match text.contains('.') {
                true => Ok(text.to_owned()),
                false => Err("DATABASE.TABLE, with the wildcards % and _"),
            }),
            digests: self.each("digest", digest),
            regex: self.one("regex", regex),
            comments: self.each("comment", |text: &str| {
                Ok::<_, &str>(text.trim().to_owned())
            }),
            clients: self.each("client", network),
            side: self.one("class", side),
        }
    }

    fn actions(&mut self) -> Actions {
        let servers: Vec<ServerName> =
            self.each("servers", |text: &str| Ok::<_, &str>(ServerName::new(text)));
        let refuse = self.text("refuse");
        let mirror = self.text("mirror");
        Actions {
            servers: (!servers.is_empty()).then(|| Arc::new(Servers(servers))),
            level: self.level("level"),
            rewrite: self.rewrite(),
            timeout_ms: self.number("timeout_ms", 0, 30 * DAY_MS),
            mirror: mirror.map(|name| Arc::new(ServerName::new(&name))),
            delay_ms: self.number("delay_ms", 1, 60_000),
            refuse: refuse.map(Into::into),
            hook: self.hook(),
        }
    }

    /// A level, with the bound of eventual reads.
    fn level(&mut self, key: &'static str) -> Option<Level> {
        let level = self.one(key, level_named);
        let max_lag_ms = self.number("max_lag_ms", 0, UNBOUNDED_MS);
        match (level, max_lag_ms) {
            (Some(Level::Eventual { .. }), Some(max_lag_ms)) => {
                let max_lag_us = (max_lag_ms < UNBOUNDED_MS).then(|| max_lag_ms * 1000);
                Some(Level::Eventual { max_lag_us })
            }
            (_, Some(_)) => {
                self.wrong("max_lag_ms", "has a meaning with level = \"eventual\" only");
                level
            }
            (level, None) => level,
        }
    }

    fn rewrite(&mut self) -> Option<Arc<Rewrite>> {
        let find = self.one("rewrite", |text: &str| {
            regex::bytes::Regex::new(text).map_err(|error| broken(&error))
        });
        let to = self.any_text("rewrite_to");
        match (find, to) {
            (Some(find), Some(to)) => Some(Arc::new(Rewrite { find, to })),
            (None, Some(_)) if !self.has("rewrite") => {
                self.wrong("rewrite_to", "has a meaning with rewrite only");
                None
            }
            (Some(_), None) if !self.has("rewrite_to") => {
                self.wrong("rewrite", "needs rewrite_to");
                None
            }
            _ => None,
        }
    }

    fn hook(&mut self) -> Option<Arc<Hook>> {
        let url = self.text("hook");
        let timeout_ms = self.number("hook_timeout_ms", 1, 60_000);
        let fallback = self.one("hook_fallback", |text: &str| match text {
            "route" => Ok(Fallback::Route),
            "primary" => Ok(Fallback::Primary),
            "refuse" => Ok(Fallback::Refuse),
            _ => Err("route, primary or refuse"),
        });
        let cache_ms = self.number("hook_cache_ms", 0, DAY_MS);
        let sends = self.one("hook_sends", |text: &str| match text {
            "text" => Ok(true),
            "digest" => Ok(false),
            _ => Err("text or digest"),
        });
        let Some(url) = url else {
            for key in [
                "hook_timeout_ms",
                "hook_fallback",
                "hook_cache_ms",
                "hook_sends",
            ] {
                if self.has(key) && !self.has("hook") {
                    self.wrong(key, "has a meaning with hook only");
                }
            }
            return None;
        };
        let Some((host, port, path)) = Hook::address(&url) else {
            self.wrong("hook", "is no http://HOST[:PORT][/PATH]");
            return None;
        };
        Some(Arc::new(Hook {
            url,
            host,
            port,
            path,
            timeout_ms: timeout_ms.unwrap_or(HOOK_TIMEOUT_MS),
            fallback: fallback.unwrap_or_default(),
            cache_ms: cache_ms.unwrap_or_default(),
            sends_text: sends.unwrap_or(true),
        }))
    }

    fn user(&mut self) -> UserDefaults {
        let name = self.any_text("name");
        if name.is_none() && !self.has("name") {
            let text = format!("{}: name must be given", self.table);
            self.errors.push((self.line, text));
        }
        let host = self.text("host");
        UserDefaults {
            user: name.unwrap_or_default(),
            host,
            level: self.one("consistency", level_named),
            max_lag_ms: self.number("max_lag_ms", 0, UNBOUNDED_MS),
            monotonic: self.one("monotonic", on_or_off),
            marks: self.one("marks", on_or_off),
            atomic: self.one("atomic", |text: &str| {
                Atomic::parse(text).ok_or("xa, single or best-effort")
            }),
            group: self.text("group"),
        }
    }

    fn has(&self, key: &str) -> bool {
        self.keys.iter().any(|(name, _)| &**name.get_ref() == key)
    }

    fn take(&mut self, key: &'static str) -> Option<&'a DeValue<'a>> {
        self.taken.push(key);
        let (_, value) = self
            .keys
            .iter()
            .find(|(name, _)| &**name.get_ref() == key)?;
        Some(value.get_ref())
    }

    fn wrong(&mut self, key: &str, what: impl AsRef<str>) {
        let found = self.keys.iter().find(|(name, _)| &**name.get_ref() == key);
        let line = found.map_or(self.line, |(name, _)| (self.line_of)(name.span().start));
        let text = format!("{}: {key}: {}", self.table, what.as_ref());
        self.errors.push((line, text));
    }

    /// A text that may be empty.
    fn any_text(&mut self, key: &'static str) -> Option<String> {
        match self.take(key)? {
            DeValue::String(text) => Some(text.to_string()),
            _ => {
                self.wrong(key, "write a text in quotes");
                None
            }
        }
    }

    fn text(&mut self, key: &'static str) -> Option<String> {
        let text = self.any_text(key)?;
        if text.trim().is_empty() {
            self.wrong(key, "is empty");
            return None;
        }
        Some(text)
    }

    /// A text, or a list of them; each is one alternative.
    fn texts(&mut self, key: &'static str) -> Vec<String> {
        let given: Option<Vec<String>> = match self.take(key) {
            None => return Vec::new(),
            Some(DeValue::String(text)) => Some(vec![text.to_string()]),
            Some(DeValue::Array(items)) => {
                let texts = items.iter().map(|item| match item.get_ref() {
                    DeValue::String(text) => Some(text.to_string()),
                    _ => None,
                });
                texts.collect()
            }
            Some(_) => None,
        };
        match given {
            Some(texts) if !texts.is_empty() && texts.iter().all(|t| !t.trim().is_empty()) => texts,
            _ => {
                self.wrong(
                    key,
                    "write a text in quotes, or a list of texts; none is empty",
                );
                Vec::new()
            }
        }
    }

    fn each<T, E: AsRef<str>>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Vec<T> {
        let mut all = Vec::new();
        for text in self.texts(key) {
            match read(&text) {
                Ok(value) => all.push(value),
                Err(wants) => self.wrong(key, format!("{text:?} is not {}", wants.as_ref())),
            }
        }
        all
    }

    fn one<T, E: AsRef<str>>(
        &mut self,
        key: &'static str,
        read: impl Fn(&str) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(key)?;
        match read(&text) {
            Ok(value) => Some(value),
            Err(wants) => {
                self.wrong(key, format!("{text:?} is not {}", wants.as_ref()));
                None
            }
        }
    }

    fn number(&mut self, key: &'static str, min: u64, max: u64) -> Option<u64> {
        let number = match self.take(key)? {
            DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix()).ok(),
            _ => None,
        };
        let number = number.filter(|number| (min..=max).contains(number));
        if number.is_none() {
            self.wrong(key, format!("must be a number from {min} to {max}"));
        }
        number
    }

    fn switch(&mut self, key: &'static str) -> Option<bool> {
        match self.take(key)? {
            DeValue::Boolean(on) => Some(*on),
            _ => {
                self.wrong(key, "write true or false");
                None
            }
        }
    }

    /// Keys that nobody has asked for.
    fn refuse_rest(&mut self) {
        let known = match self.table {
            USER => "name, host, consistency, max_lag_ms, monotonic, marks, atomic",
            _ => RULE_KEYS,
        };
        for (name, _) in self.keys {
            let key: &str = name.get_ref();
            if !self.taken.contains(&key) {
                let line = (self.line_of)(name.span().start);
                let text = format!("{}: unknown key `{key}`; it has {known}", self.table);
                self.errors.push((line, text));
            }
        }
    }
}

/// What is wrong with an expression, on one line.
fn broken(error: &regex::Error) -> String {
    let text = error.to_string();
    let why = text.lines().last().unwrap_or_default().trim();
    format!(
        "a regular expression ({})",
        why.trim_start_matches("error: ")
    )
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;

fn level_named(text: &str) -> Result<Level, &'static str> {
    Level::named(text.as_bytes()).ok_or(Level::NAMES)
}

fn on_or_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("on or off"),
    }
}
