//! What the control plane asks of whoever knows settings and rules: it keeps the farm's document, and
//! does not read it.

use std::fmt::Debug;

use catalog::configuration::{Groups, Wrong};

use crate::settings::Settings;

/// A document that an operator wrote, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// The version that it was made from, if it says so.
    pub version: Option<u64>,
    /// Settings, rules and users, with the operator's comments.
    pub text: String,
    pub groups: Groups,
}

/// One setting as it is in force on a router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownSetting {
    pub name: &'static str,
    pub value: String,
    /// `default`, a file with its line, a flag, or the version of the configuration.
    pub from: String,
    pub default: &'static str,
    /// A document may have it, and it applies at once.
    pub of_farm: bool,
}

/// Reads and writes documents, and puts in force what they say.
pub trait Documents: Send + Sync + Debug {
    /// Reads a whole document; all that is wrong with it is told.
    fn read(&self, document: &str) -> Result<Draft, Vec<Wrong>>;

    /// The whole document as an operator sees it; without a version it has no head.
    fn show(&self, head: Option<(u64, &str)>, text: &str, groups: &Groups) -> String;

    /// The text with one setting changed, or without it.
    fn assign(&self, text: &str, name: &str, value: Option<&str>) -> Result<String, String>;

    /// Puts in force on this router what a text says, over what its own files say: rules, what
    /// sessions go by, and the control plane's part, which is written to `settings`. Nothing is
    /// changed when something is wrong.
    fn apply(&self, version: u64, text: &str, settings: &mut Settings) -> Result<(), Vec<Wrong>>;

    /// All settings as they are in force.
    fn settings(&self) -> Vec<ShownSetting>;
}

/// For a control plane without a router around it, in tests and tools: documents say nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoDocuments;

impl Documents for NoDocuments {
    fn read(&self, document: &str) -> Result<Draft, Vec<Wrong>> {
        Ok(Draft {
            text: document.to_owned(),
            ..Draft::default()
        })
    }

    fn show(&self, _head: Option<(u64, &str)>, text: &str, groups: &Groups) -> String {
        let names: Vec<&str> = groups.keys().map(String::as_str).collect();
        format!("{text}groups: {}\n", names.join(", "))
    }

    fn assign(&self, _text: &str, name: &str, _value: Option<&str>) -> Result<String, String> {
        Err(format!("there is no setting `{name}`"))
    }

    fn apply(&self, _version: u64, _text: &str, _to: &mut Settings) -> Result<(), Vec<Wrong>> {
        Ok(())
    }

    fn settings(&self) -> Vec<ShownSetting> {
        Vec::new()
    }
}
