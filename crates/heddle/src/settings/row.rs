//! What is said of a setting in its row, and of a value that was given.

/// When a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// At once. It may stand in the farm's configuration, and then holds on all routers.
    Live,
    /// At the next start of the router, whose own it is.
    Restart,
}

impl Applies {
    pub(super) fn name(self) -> &'static str {
        match self {
            Applies::Live => "immediately",
            Applies::Restart => "at restart",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    pub name: &'static str,
    /// What values look like, for people.
    pub kind: &'static str,
    /// Empty where the value is not a quantity.
    pub unit: &'static str,
    pub default: &'static str,
    /// For numbers, the least and the greatest.
    pub bounds: Option<(u64, u64)>,
    pub applies: Applies,
    pub text: &'static str,
}

/// A value that was given, and by whom, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    pub value: String,
    /// `heddle.toml:12`, `--set`, `version 7`.
    pub from: String,
}
