//! What a check found.

use std::fmt;

/// How grave a finding is, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing; nothing breaks now.
    Info,
    /// Something breaks after a fault that is to be expected.
    Warning,
    /// Something is broken, or an acknowledged commit can be lost.
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Server,
    Group,
    Router,
}

impl Scope {
    pub fn name(self) -> &'static str {
        match self {
            Scope::Server => "server",
            Scope::Group => "group",
            Scope::Router => "router",
        }
    }
}

/// Whether `heddle doctor --fix` mends a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// It can lose nothing and end nothing, and is taken back as easily.
    Safe,
    /// It is done when somebody agreed; what may follow.
    Asks(&'static str),
    /// It is never done; why.
    Refused(&'static str),
}

impl Fix {
    /// A word for it: `safe`, `asks`, `refused`.
    pub fn name(self) -> &'static str {
        match self {
            Fix::Safe => "safe",
            Fix::Asks(_) => "asks",
            Fix::Refused(_) => "refused",
        }
    }

    /// Why it is not simply done; empty where it is.
    pub fn why(self) -> &'static str {
        match self {
            Fix::Safe => "",
            Fix::Asks(why) | Fix::Refused(why) => why,
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    pub severity: Severity,
    pub scope: Scope,
    /// The server's address, or the name of the group or router.
    pub of: String,
    /// The group's name; empty for routers.
    pub group: String,
    /// What was read.
    pub evidence: String,
    pub breaks: String,
    /// The statement or line that mends it.
    pub cure: String,
    pub fix: Fix,
    /// The statement of `fix`, to be run on the server `of`; empty where `fix` is refused.
    pub statement: String,
}

/// What a check says of what it looked at. What it leaves out stands in its row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) evidence: String,
    pub(crate) severity: Option<Severity>,
    /// Another server of the group, where a check of a group finds fault with one.
    pub(crate) server: Option<String>,
    pub(crate) breaks: Option<String>,
    pub(crate) cure: Option<String>,
    pub(crate) statement: String,
}

impl Found {
    pub(crate) fn new(evidence: impl Into<String>) -> Found {
        Found {
            evidence: evidence.into(),
            ..Found::default()
        }
    }

    pub(crate) fn at(mut self, server: &str) -> Found {
        self.server = Some(server.to_owned());
        self
    }

    pub(crate) fn grave(mut self, severity: Severity) -> Found {
        self.severity = Some(severity);
        self
    }

    pub(crate) fn breaks(mut self, what: impl Into<String>) -> Found {
        self.breaks = Some(what.into());
        self
    }

    pub(crate) fn cure(mut self, cure: impl Into<String>) -> Found {
        self.cure = Some(cure.into());
        self
    }

    /// A statement that mends it.
    pub(crate) fn statement(mut self, sql: impl Into<String>) -> Found {
        self.statement = sql.into();
        self
    }
}
