//! The user variables of one session: what their values are, and which connection alone knows some of them.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use backend::{Residue, Value, Variable};

/// The variables of one session.
#[derive(Debug, Default)]
pub struct Variables {
    /// What was never assigned is absent.
    pub values: BTreeMap<Box<str>, Value>,
    /// Names whose values are known to the connection `home` only.
    pub unfetched: BTreeSet<Box<str>>,
    /// How often they have changed.
    pub version: u64,
    /// The connection that last had them all.
    pub home: u64,
    /// Values went with a connection that broke, and the client does not know yet.
    pub lost: bool,
}

impl Variables {
    /// The connection where they are.
    pub fn home(&self) -> u64 {
        self.home
    }

    /// The names that only their connection knows the values of.
    pub fn unfetched(&self) -> &BTreeSet<Box<str>> {
        &self.unfetched
    }

    /// Their connection is gone. True when values went with it, which are NULL from now on.
    pub fn lose(&mut self) -> bool {
        !std::mem::take(&mut self.unfetched).is_empty()
    }

    /// The same between two statements: the next one is told.
    pub(crate) fn lose_silently(&mut self) {
        self.lost |= self.lose();
    }

    /// The client does not know yet that values were lost.
    pub fn lost(&self) -> bool {
        self.lost
    }

    /// The same, and from now on it does.
    pub fn take_lost(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// Takes up what their connection said.
    pub fn learn(&mut self, residue: Residue) {
        for (name, value) in residue.variables {
            match value {
                Variable::TooLarge => continue,
                Variable::Set(value) => self.values.insert(name.clone(), value),
                Variable::Unset => None,
            };
            self.unfetched.remove(&name);
        }
    }

    /// NULL is `None`.
    pub fn assign(&mut self, name: &str, value: Option<Rc<[u8]>>) {
        match value {
            Some(expression) => {
                self.unfetched.remove(name);
                let null = false;
                self.values.insert(name.into(), Value { expression, null });
            }
            // It keeps the type that it had.
            None => {
                if let Some(value) = self.values.get_mut(name) {
                    value.null = true;
                }
            }
        }
    }

    pub(super) fn leave_on_connection(&mut self, name: &str) {
        self.values.remove(name);
        self.unfetched.insert(name.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        Value {
            expression: text.as_bytes().into(),
            null: false,
        }
    }

    #[test]
    fn what_only_a_connection_knows_is_asked_or_lost() {
        let mut variables = Variables::default();
        variables.assign("a", Some(b"1"[..].into()));
        variables.leave_on_connection("a");
        variables.leave_on_connection("b");
        let unfetched: Vec<&str> = variables.unfetched().iter().map(|name| &**name).collect();
        assert_eq!(unfetched, ["a", "b"]);
        let said = [("a", Variable::Set(value("2"))), ("b", Variable::TooLarge)];
        variables.learn(Residue {
            variables: said.map(|(name, said)| (name.into(), said)).into(),
            ..Residue::default()
        });
        assert_eq!(variables.values["a"], value("2"));
        assert_eq!(variables.unfetched().len(), 1, "what is too large stays there");
        variables.lose_silently();
        assert!(variables.lost() && variables.unfetched().is_empty());
        assert!(variables.take_lost() && !variables.lost(), "it is told once");
        assert!(!variables.lose(), "nothing went with a connection that had nothing");
    }

    #[test]
    fn a_variable_that_becomes_null_keeps_its_type() {
        let mut variables = Variables::default();
        variables.assign("a", None);
        assert!(variables.values.is_empty(), "it was never assigned");
        variables.assign("a", Some(b"'x'"[..].into()));
        variables.assign("a", None);
        let null = Value {
            null: true,
            ..value("'x'")
        };
        assert_eq!(variables.values["a"], null);
    }
}
