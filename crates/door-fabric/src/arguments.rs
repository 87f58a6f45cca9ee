//! The parameters of one call, matched with its command.

use std::collections::BTreeMap;

use crate::table::Command;
use crate::value::Value;

/// The arguments by Fabric's names. What is empty, and what Python calls None, counts as not given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arguments {
    values: BTreeMap<&'static str, String>,
    /// More parameters came than the command has now: releases before 1.4.2 had one more.
    pub has_sync: bool,
}

/// Why parameters do not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// Too many or too few, or a name that the command does not have.
    #[error("{0}")]
    Signature(String),
    /// A value of a type that cannot be meant.
    #[error("{0}")]
    Kind(String),
}

impl Arguments {
    /// Matches parameters with a command: in order, and those of a last struct by their names.
    ///
    /// # Errors
    /// They do not fit; the texts are those of Fabric's Python.
    pub fn bind(command: &Command, params: &[Value]) -> Result<Arguments, Misfit> {
        let known: Vec<_> = command.all_params().collect();
        let mut values = BTreeMap::new();
        let (mut in_order, named) = match params {
            [rest @ .., Value::Struct(named)] => (rest, named.as_slice()),
            all => (all, &[][..]),
        };
        // `sharding.lookup_servers` had the switch of all procedures in 1.4.0.
        let has_sync = in_order.len() == known.len() + 1
            && matches!(in_order.last(), Some(Value::Bool(_)))
            && !command.is_procedure();
        if has_sync {
            in_order = &in_order[..known.len()];
        }
        let needed = known.iter().filter(|it| it.default.is_none()).count();
        if in_order.len() > known.len() {
            return Err(arity(command, in_order.len()));
        }
        for (param, value) in known.iter().zip(in_order) {
            values.insert(param.name, word(param.name, value)?);
        }
        for (name, value) in named {
            let Some(param) = known.iter().find(|it| it.name == name) else {
                return Err(Misfit::Signature(format!(
                    "execute() got an unexpected keyword argument '{name}'"
                )));
            };
            if values.insert(param.name, word(name, value)?).is_some() {
                return Err(Misfit::Signature(format!(
                    "execute() got multiple values for keyword argument '{name}'"
                )));
            }
        }
        let given = known[..needed]
            .iter()
            .all(|it| values.contains_key(it.name));
        if !given {
            return Err(arity(command, in_order.len() + named.len()));
        }
        values.retain(|_, value| !value.is_empty() && value != "None");
        for param in known.iter().filter(|it| it.default.is_some()) {
            let default = param.default.unwrap_or_default();
            if !default.is_empty() {
                values
                    .entry(param.name)
                    .or_insert_with(|| default.to_owned());
            }
        }
        Ok(Arguments { values, has_sync })
    }

    /// An argument; `None` where it is not given and its default is None.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    /// An argument, or nothing.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A switch; what Python takes for false is false.
    pub fn switch(&self, name: &str) -> bool {
        let value = self.text(name).to_ascii_lowercase();
        !matches!(value.as_str(), "" | "false" | "0" | "no" | "off")
    }
}

/// «Too few or too many», as Python says it; the first of its arguments is the command itself.
fn arity(command: &Command, given: usize) -> Misfit {
    let params = command.all_params();
    let (needed, optional): (Vec<_>, Vec<_>) = params.partition(|it| it.default.is_none());
    let (least, most) = (needed.len() + 1, needed.len() + optional.len() + 1);
    let bound = match (least == most, given + 1 > most) {
        (true, _) => format!("exactly {most}"),
        (false, true) => format!("at most {most}"),
        (false, false) => format!("at least {least}"),
    };
    let given = given + 1;
    Misfit::Signature(format!("execute() takes {bound} arguments ({given} given)"))
}

/// A value as a word; of an array its values between commas.
fn word(name: &str, value: &Value) -> Result<String, Misfit> {
    let of_array = |values: &[Value]| {
        let words: Option<Vec<String>> = values.iter().map(Value::word).collect();
        words.map(|words| words.join(","))
    };
    let word = match value {
        Value::Array(values) => of_array(values),
        single => single.word(),
    };
    word.ok_or_else(|| {
        let kind = value.kind();
        Misfit::Kind(format!(
            "{name} is neither text, number nor boolean but a {kind}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::find;

    fn bind(method: &str, params: &[Value]) -> Result<Arguments, String> {
        let command = find(method).expect(method);
        Arguments::bind(command, params).map_err(|error| error.to_string())
    }

    #[test]
    fn positions_names_and_defaults() {
        let named = Value::Struct(vec![("synchronous".to_owned(), false.into())]);
        let args = bind("group.promote", &["g".into(), Value::Nil, named]).expect("fits");
        assert_eq!((args.text("group_id"), args.get("slave_id")), ("g", None));
        assert!(!args.switch("synchronous") && !args.switch("update_only"));
        let args = bind(
            "threat.report_failure",
            &["uuid".into(), "me".into(), 2013i64.into()],
        );
        let args = args.expect("fits");
        assert_eq!((args.text("reporter"), args.text("error")), ("me", "2013"));
        assert!(args.switch("synchronous"));
    }

    #[test]
    fn the_calls_of_old_clients_fit() {
        let of_mysqlnd_ms = ["d.t".into(), "7".into(), "LOCAL".into(), true.into()];
        let args = bind("sharding.lookup_servers", &of_mysqlnd_ms).expect("fits");
        assert!(args.has_sync);
        assert_eq!(args.text("key"), "7");
        let args = bind("dump.servers", &[0i64.into(), "g".into()]).expect("fits");
        assert!(!args.has_sync);
        assert_eq!(args.text("patterns"), "g");
    }

    #[test]
    fn what_does_not_fit_is_said_as_python_does() {
        let error = |method: &str, params: &[Value]| bind(method, params).expect_err(method);
        let few = error("group.lookup_servers", &[]);
        assert_eq!(few, "execute() takes at least 2 arguments (1 given)");
        let many = error("manage.ping", &["x".into()]);
        assert_eq!(many, "execute() takes exactly 1 arguments (2 given)");
        let nobody = Value::Struct(vec![("grop".to_owned(), "g".into())]);
        assert!(error("group.create", &[nobody]).contains("'grop'"));
        let twice = Value::Struct(vec![("group_id".to_owned(), "g".into())]);
        assert!(error("group.create", &["g".into(), twice]).contains("multiple values"));
        let odd = Value::Array(vec![Value::Array(Vec::new())]);
        assert!(error("group.create", &[odd]).contains("array"));
    }
}
