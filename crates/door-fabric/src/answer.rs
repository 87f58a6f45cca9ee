//! What a command answers, before it has the form of any client.

use crate::value::Value;

/// Rows under names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    pub names: Vec<&'static str>,
    pub rows: Vec<Vec<Value>>,
}

impl Set {
    /// A set without rows yet.
    pub fn new(names: &[&'static str]) -> Set {
        Set {
            names: names.to_vec(),
            rows: Vec::new(),
        }
    }
}

/// What became of a procedure.
#[derive(Clone, Debug, PartialEq)]
pub struct Done {
    pub uuid: String,
    /// False for one that goes on.
    pub finished: bool,
    pub result: Value,
    /// The action that its steps name.
    pub action: &'static str,
    /// When it began and ended, in seconds since 1970.
    pub began_s: f64,
    pub ended_s: f64,
}

/// An answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Sets(Vec<Set>),
    Done(Done),
    /// A procedure of this id, which nobody waits for.
    Begun(String),
    /// An answer that is no packet in any release: the list of methods.
    Plain(Value),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// There is no such method.
    #[error("method \"{0}\" is not supported")]
    Unknown(String),
    /// Its parameters do not fit.
    #[error("{0}")]
    Signature(String),
    /// The caller may not.
    #[error("{0}")]
    Denied(String),
    /// It was tried, or refused with a reason.
    #[error("{0}")]
    Failed(String),
}

impl Done {
    /// The first set of a procedure's answer.
    pub fn outcome(&self) -> Set {
        let finished = Value::Bool(self.finished);
        let row = vec![
            self.uuid.as_str().into(),
            finished,
            true.into(),
            self.result.clone(),
        ];
        Set {
            names: vec!["uuid", "finished", "success", "result"],
            rows: vec![row],
        }
    }

    /// Its steps: state, success, when and description of each. 3, 4 and 5 are Fabric's created, processing
    /// and complete; 2 is its success.
    pub fn steps(&self) -> Set {
        let action = self.action;
        let mut steps = vec![
            (3, self.began_s, format!("Triggered by {action}.")),
            (4, self.began_s, format!("Executing action ({action}).")),
        ];
        if self.finished {
            steps.push((5, self.ended_s, format!("Executed action ({action}).")));
        }
        let row = |(state, when, text): (i64, f64, String)| {
            vec![state.into(), 2i64.into(), Value::Double(when), text.into()]
        };
        Set {
            names: vec!["state", "success", "when", "description"],
            rows: steps.into_iter().map(row).collect(),
        }
    }
}
