//! What a command is, and its arguments. The commands themselves are in [`super::table`].

use farm::Access;

use super::verb::{DoneBy, Verb};

/// One argument of a command.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    pub name: &'static str,
    pub optional: bool,
    /// True or false; without a value it is true.
    pub switch: bool,
    pub help: &'static str,
}

/// One command.
#[derive(Clone, Copy, Debug)]
pub struct CommandSpec {
    pub group: &'static str,
    pub command: &'static str,
    pub args: &'static [ArgSpec],
    /// Who may ask for it, by whatever door.
    pub access: Access,
    /// True when it may change the farm or end a client's work; it needs the admin right then.
    pub changes: bool,
    pub help: &'static str,
    /// Which router carries it out.
    pub done_by: DoneBy,
    pub verb: Verb,
}

pub(super) const fn required(name: &'static str, help: &'static str) -> ArgSpec {
    ArgSpec {
        name,
        optional: false,
        switch: false,
        help,
    }
}

pub(super) const fn optional(name: &'static str, help: &'static str) -> ArgSpec {
    ArgSpec {
        name,
        optional: true,
        switch: false,
        help,
    }
}

pub(super) const fn switch(name: &'static str, help: &'static str) -> ArgSpec {
    ArgSpec {
        switch: true,
        ..optional(name, help)
    }
}
