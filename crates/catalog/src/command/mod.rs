//! What a command is: how it is called, what it answers, and the table of all commands.
//!
//! A door turns what it received into a [`Call`] and a [`Table`] or [`CommandError`] into its own
//! form; names, arguments, help and effects stand in [`TABLE`] only.

mod arguments;
mod spec;
mod table;
mod verb;

use std::borrow::Cow;
use std::collections::BTreeMap;

use farm::Access;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use arguments::Arguments;
pub use spec::{ArgSpec, CommandSpec};
pub use table::{TABLE, find};
pub use verb::{DoneBy, MapVerb, StreamVerb, Verb};

/// Longest name of an author.
const BY_CHARS_MAX: usize = 200;

/// One call of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The first word, for example `group`.
    pub group: String,
    /// The second word, for example `lookup_servers`.
    pub command: String,
    /// Positional arguments, in the order of the table.
    #[serde(default)]
    pub args: Vec<String>,
    /// Arguments given by name; a name of the table's, once.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// Who asks, for the history: an account, or what a client says of itself.
    #[serde(default)]
    pub by: String,
    /// What the caller may ask for, as the door has found out. The router's own calls may be anything;
    /// a router of an older version has looked itself.
    #[serde(default = "of_router")]
    pub access: Access,
    /// Another router asks: this one answers for itself and passes nothing on.
    #[serde(skip)]
    pub from_peer: bool,
}

impl Call {
    /// A call of the router's own, with positional arguments only. A door says with [`Call::with`] who
    /// asks.
    pub fn new(group: &str, command: &str, args: &[&str]) -> Call {
        Call {
            group: group.to_owned(),
            command: command.to_owned(),
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            options: BTreeMap::new(),
            by: String::new(),
            access: of_router(),
            from_peer: false,
        }
    }

    /// A call from words: group, command, arguments; `--name=value` or `--name value` gives an argument
    /// by name. Of an argument that is true or false, `--name` alone means `true`.
    pub fn parse<S: AsRef<str>>(words: &[S]) -> Result<Call, CommandError> {
        let [group, command, rest @ ..] = words else {
            return Err(CommandError::Usage(
                "a command is two words, for example `group lookup_servers`; `manage help` lists all"
                    .to_owned(),
            ));
        };
        let mut call = Call::new(group.as_ref(), command.as_ref(), &[]);
        let spec = call.spec().ok();
        let takes_value = |name: &str| {
            let mut args = spec.iter().flat_map(|spec| spec.args);
            args.any(|arg| arg.name == name && !arg.switch)
        };
        let mut rest = rest.iter().peekable();
        while let Some(word) = rest.next() {
            match word.as_ref().strip_prefix("--") {
                Some(option) if !option.is_empty() => {
                    let behind = |word: &&S| !word.as_ref().starts_with("--");
                    let (name, value) = match option.split_once('=') {
                        Some(pair) => pair,
                        None if takes_value(option) => {
                            let value = rest.next_if(behind).map_or("", |word| word.as_ref());
                            (option, value)
                        }
                        None => (option, "true"),
                    };
                    call.options.insert(name.to_owned(), value.to_owned());
                }
                _ => call.args.push(word.as_ref().to_owned()),
            }
        }
        Ok(call)
    }

    /// The same call with its author.
    pub fn by(self, by: &str) -> Call {
        let printable = by.chars().filter(|c| !c.is_control());
        let by = printable.take(BY_CHARS_MAX).collect();
        Call { by, ..self }
    }

    /// The same call of somebody who may ask for so much.
    pub fn with(self, access: Access) -> Call {
        Call { access, ..self }
    }

    /// Whether the caller may ask for this.
    ///
    /// # Errors
    /// The right that is needed, and how to come by it; or there is no such command.
    pub fn check(&self) -> Result<(), CommandError> {
        let needed = self.spec()?.access;
        if self.access >= needed {
            return Ok(());
        }
        Err(CommandError::Denied(format!(
            "access denied: `{} {}` needs the {} right; {}",
            self.group,
            self.command,
            needed.name(),
            cure(needed)
        )))
    }

    /// The row of the table that this call names, or a usage error that lists what there is.
    pub fn spec(&self) -> Result<&'static CommandSpec, CommandError> {
        table::find(&self.group, &self.command)
    }

    /// True when the command may change the farm, so that the caller needs the right to do so. An
    /// unknown command counts as a change.
    pub fn changes(&self) -> bool {
        self.spec().map_or(true, |spec| spec.changes)
    }
}

/// The router asks itself.
fn of_router() -> Access {
    Access::Admin
}

/// How to come by a right.
pub fn cure(needed: Access) -> &'static str {
    match needed {
        Access::Public | Access::Monitor => {
            "over HTTP send the header Authorization: Bearer TOKEN with the token of DIR/monitor-token or \
             DIR/token, which the command line takes from HEDDLE_TOKEN; in SQL use an account with \
             PROCESS, or one that monitor_users names"
        }
        Access::Admin => {
            "over HTTP send the header Authorization: Bearer TOKEN with the token of DIR/token, which the \
             command line takes from HEDDLE_TOKEN; in SQL use an account with all privileges"
        }
    }
}

/// Columns of what Fabric's procedures answer.
const PROCEDURE: [&str; 4] = ["uuid", "finished", "success", "result"];

/// The answer of a command: rows of JSON values under fixed column names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<Cow<'static, str>>,
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table without rows yet.
    pub fn new(columns: &[&'static str]) -> Table {
        Table {
            columns: columns.iter().copied().map(Cow::from).collect(),
            rows: Vec::new(),
        }
    }

    /// The answer of a procedure, Fabric's four columns.
    pub fn procedure(uuid: String, result: Value) -> Table {
        Table {
            rows: vec![vec![uuid.into(), true.into(), true.into(), result]],
            ..Table::new(&PROCEDURE)
        }
    }

    /// The answer of a procedure that goes on as a job of this id.
    pub fn begun(uuid: String) -> Table {
        Table {
            rows: vec![vec![uuid.into(), false.into(), true.into(), Value::Null]],
            ..Table::new(&PROCEDURE)
        }
    }

    /// One JSON array of row objects: what `--json` and the HTTP door send.
    pub fn to_json(&self) -> Value {
        let row = |cells: &Vec<Value>| -> Value {
            let fields = self.columns.iter().map(|name| name.to_string());
            Value::Object(fields.zip(cells.iter().cloned()).collect())
        };
        Value::Array(self.rows.iter().map(row).collect())
    }
}

/// Why a command did not do what it was asked. The text says what, where and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The call itself is wrong: no such command, a missing argument, a value out of range.
    #[error("{0}")]
    Usage(String),
    /// The caller has not the right that this needs.
    #[error("{0}")]
    Denied(String),
    /// The call is right but the farm does not admit it now.
    #[error("{0}")]
    Refused(String),
    /// The records that the caller went by were changed before it wrote. Nothing was written.
    #[error("the farm was changed from elsewhere at the same time; look at it and try again")]
    Stale,
    /// Heddle itself failed; nothing that the caller could have done better.
    #[error("{0}")]
    Internal(String),
}

impl From<crate::Error> for CommandError {
    fn from(error: crate::Error) -> CommandError {
        CommandError::Internal(error.to_string())
    }
}

impl From<meta::Error> for CommandError {
    fn from(error: meta::Error) -> CommandError {
        CommandError::Internal(error.to_string())
    }
}

impl From<engine::Error> for CommandError {
    /// A server's refusal is the farm's: the text names the server and the cure.
    fn from(error: engine::Error) -> CommandError {
        CommandError::Refused(error.to_string())
    }
}

impl From<machines::failover::Failed> for CommandError {
    /// A step of a change of primary that a server did not do.
    fn from(failed: machines::failover::Failed) -> CommandError {
        CommandError::Refused(failed.text)
    }
}
