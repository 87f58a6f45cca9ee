//! The error that ends the program.

use std::fmt::Display;

/// One line for the operator, and the exit status.
#[derive(Debug, PartialEq, Eq)]
pub struct Failure {
    /// What is wrong and how to mend it.
    pub text: String,
    pub code: u8,
}

impl Failure {
    /// The farm or the machine refused: exit 1.
    pub fn new(text: impl Display) -> Failure {
        Failure {
            text: text.to_string(),
            code: 1,
        }
    }

    /// The command line was wrong: exit 2.
    pub fn usage(text: impl Display) -> Failure {
        Failure {
            text: text.to_string(),
            code: 2,
        }
    }
}

impl From<mysqld::Error> for Failure {
    fn from(error: mysqld::Error) -> Failure {
        Failure::new(error)
    }
}

impl From<catalog::Error> for Failure {
    fn from(error: catalog::Error) -> Failure {
        Failure::new(error)
    }
}

impl From<catalog::CommandError> for Failure {
    fn from(error: catalog::CommandError) -> Failure {
        match error {
            catalog::CommandError::Usage(text) => Failure::usage(text),
            other => Failure::new(other),
        }
    }
}

impl From<door_http::Error> for Failure {
    fn from(error: door_http::Error) -> Failure {
        Failure::new(error)
    }
}
