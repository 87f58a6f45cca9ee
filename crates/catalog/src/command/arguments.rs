//! The arguments of one call, matched with the table and read as what they mean.

use std::collections::BTreeMap;
use std::str::FromStr;

use farm::Access;

use super::{Call, CommandError, CommandSpec};
use crate::configuration::{Author, DOCUMENT_BYTES_MAX};
use crate::method::Method;

/// Longest argument; descriptions are the longest there are.
const ARGUMENT_BYTES_MAX: usize = 4096;

/// Longest token of the change stream.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// The longest value of an argument: a document is longer than what else there is.
fn bytes_max(name: &str) -> usize {
    match name {
        "document" => DOCUMENT_BYTES_MAX,
        "token" => TOKEN_BYTES_MAX,
        _ => ARGUMENT_BYTES_MAX,
    }
}

/// Longest `timeout` argument.
const TIMEOUT_S_MAX: u64 = 3600;

/// The arguments by name. Empty ones count as not given, as Fabric's connectors send them.
#[derive(Debug)]
pub struct Arguments {
    spec: &'static CommandSpec,
    values: BTreeMap<&'static str, String>,
    by: String,
    access: Access,
}

impl Arguments {
    /// Matches a call with its row of the table.
    pub fn resolve(spec: &'static CommandSpec, call: &Call) -> Result<Arguments, CommandError> {
        let usage = |what: String| CommandError::Usage(format!("{what}; usage: {}", spec.usage()));
        if call.args.len() > spec.args.len() {
            return Err(usage(format!("too many arguments ({})", call.args.len())));
        }
        let mut values = BTreeMap::new();
        for (arg, value) in spec.args.iter().zip(&call.args) {
            values.insert(arg.name, value.clone());
        }
        for (name, value) in &call.options {
            let Some(arg) = spec.args.iter().find(|arg| arg.name == name) else {
                return Err(usage(format!("there is no argument {name:?}")));
            };
            if values.insert(arg.name, value.clone()).is_some() {
                return Err(usage(format!("{name} is given twice")));
            }
        }
        values.retain(|_, value| !value.is_empty());
        if let Some((name, _)) = values
            .iter()
            .find(|(name, value)| value.len() > bytes_max(name))
        {
            return Err(usage(format!(
                "{name} is longer than {} bytes",
                bytes_max(name)
            )));
        }
        let missing = spec
            .args
            .iter()
            .find(|arg| !arg.optional && !values.contains_key(arg.name));
        if let Some(arg) = missing {
            let name = arg.name.to_ascii_uppercase();
            return Err(usage(format!("{name} is missing: {}", arg.help)));
        }
        let by = match call.by.trim() {
            "" => "somebody",
            by => by,
        };
        Ok(Arguments {
            spec,
            values,
            by: by.to_owned(),
            access: call.access,
        })
    }

    /// Who asks for what, for the history.
    pub fn author(&self) -> Author {
        let given = self.spec.args.iter();
        let given = given.filter_map(|arg| self.values.get(arg.name));
        let mut comment = format!("{} {}", self.spec.group, self.spec.command);
        for word in given {
            comment.push(' ');
            comment.push_str(word);
        }
        Author {
            by: self.by.clone(),
            comment,
        }
    }

    /// What the caller may ask for: some commands show more to who may see it.
    pub fn access(&self) -> Access {
        self.access
    }

    /// An argument that may be missing.
    pub fn get(&self, name: &str) -> Option<&str> {
        debug_assert!(
            self.spec.args.iter().any(|arg| arg.name == name),
            "{name} is in the table"
        );
        self.values.get(name).map(String::as_str)
    }

    /// A required argument; the table has made sure that it is there.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A switch; false when it is missing.
    pub fn switch(&self, name: &str) -> Result<bool, CommandError> {
        match self.get(name).map(str::to_ascii_lowercase).as_deref() {
            None | Some("false" | "0" | "no" | "off") => Ok(false),
            Some("true" | "1" | "yes" | "on") => Ok(true),
            Some(other) => Err(self.bad(name, other, "true or false")),
        }
    }

    /// A number, or anything else that can be read from text.
    pub fn parse<T: FromStr>(&self, name: &str, what: &str) -> Result<Option<T>, CommandError> {
        self.get(name)
            .map(|text| text.parse().map_err(|_| self.bad(name, text, what)))
            .transpose()
    }

    /// The argument `timeout`, in seconds, as milliseconds.
    pub fn timeout_ms(&self, default_ms: u64) -> Result<u64, CommandError> {
        const WHAT: &str = "seconds from 1 to 3600";
        match self.parse::<u64>("timeout", WHAT)? {
            None => Ok(default_ms),
            Some(seconds) if (1..=TIMEOUT_S_MAX).contains(&seconds) => Ok(seconds * 1000),
            Some(other) => Err(self.bad("timeout", &other.to_string(), WHAT)),
        }
    }

    /// The argument `method` of commands that fill a server.
    pub fn method(&self) -> Result<Option<Method>, CommandError> {
        let Some(given) = self.get("method") else {
            return Ok(None);
        };
        let method = Method::parse(given).ok_or_else(|| self.bad("method", given, Method::NAMES));
        method.map(Some)
    }

    /// «This is no such thing», with what it should be.
    pub fn bad(&self, name: &str, given: &str, what: &str) -> CommandError {
        let name = name.to_ascii_uppercase();
        let usage = self.spec.usage();
        CommandError::Usage(format!(
            "{name} is {given:?} but must be {what}; usage: {usage}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(words: &[&str]) -> Result<Arguments, String> {
        let call = Call::parse(words).expect("two words");
        Arguments::resolve(call.spec().expect("in the table"), &call)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn positions_and_names() {
        let args =
            resolve(&["group", "add", "g1", "h:1", "--name=s1", "--timeout=3"]).expect("fit");
        assert_eq!((args.text("group_id"), args.text("address")), ("g1", "h:1"));
        assert_eq!(args.get("name"), Some("s1"));
        assert_eq!(args.timeout_ms(5), Ok(3000));
        assert_eq!(args.switch("update_only"), Ok(false));
        let args = resolve(&["group", "add", "g1", "h:1", "", "--update_only"]).expect("fit");
        assert_eq!(args.timeout_ms(5), Ok(5), "an empty argument is none");
        assert_eq!(args.switch("update_only"), Ok(true));
    }

    #[test]
    fn wrong_calls_say_how_it_is_done() {
        let error = |words: &[&str]| resolve(words).expect_err("wrong");
        assert!(error(&["group", "add", "g1"]).contains("ADDRESS is missing: HOST:PORT"));
        assert!(error(&["group", "destroy", "a", "b"]).contains("usage: group destroy GROUP_ID"));
        assert!(error(&["group", "destroy", "a", "--force"]).contains("no argument \"force\""));
        let twice = ["group", "destroy", "a", "--group_id=b"];
        assert!(error(&twice).contains("group_id is given twice"));
        let args = resolve(&["group", "add", "g", "h:1", "soon", "maybe"]).expect("fits by number");
        assert!(
            args.timeout_ms(1)
                .expect_err("no number")
                .to_string()
                .contains("1 to 3600")
        );
        assert!(
            args.switch("update_only")
                .expect_err("no switch")
                .to_string()
                .contains("maybe")
        );
    }
}
