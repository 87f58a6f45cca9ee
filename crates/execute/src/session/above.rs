//! What a session needs to know of the layers above it.
//!
//! Everything else that those layers do for a statement they do on its way down or on its answer's way up. Two
//! questions come up in the middle of a run, and only the layers above have the answers. Each is a function that
//! the front hands over when it opens a session.

use std::pin::Pin;

use crate::client::end::End;
use crate::execution::exec::Shape;
use crate::execution::statement_run::Stays;
use crate::session::Session;

/// Runs the text that is the session's current request, as the front runs a client's.
pub type RunText =
    for<'s> fn(&'s mut Session, Shape) -> Pin<Box<dyn Future<Output = Result<(), End>> + 's>>;

/// The functions of the layers above.
#[derive(Clone, Copy)]
pub struct Above {
    /// Asked of commands that came behind the one under way, before they are sent ahead of its answer: whoever
    /// places statements says whether one would go to the same group.
    pub stays: Stays,
    /// A text of several statements is run one statement after the other, each as if it had come alone: it may be a
    /// KILL, a SHOW that Heddle answers, or a statement of Heddle's own, and the rules in force hold for each.
    pub run_text: RunText,
}
