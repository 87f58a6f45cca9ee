//! Texts that open something.

use std::fmt::{self, Debug};
use std::sync::Arc;

/// A text that opens something to whoever shows it: a token, the farm's secret, a private key.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The secret of this text; an empty one opens nothing.
    pub fn new(text: &str) -> Secret {
        Secret(text.into())
    }

    /// The text, to be used or kept.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether this is it, found in a time that does not tell how much of it was right. Nothing is an empty one.
    pub fn is(&self, given: &str) -> bool {
        let pairs = self.0.bytes().zip(given.bytes());
        let differences = pairs.fold(0, |all, (a, b)| all | (a ^ b));
        !self.0.is_empty() && self.0.len() == given.len() && differences == 0
    }
}

/// Secrets stay out of logs.
impl Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
