//! What is wrong with a farm: the checks of `heddle doctor`, as pure functions over facts.
//!
//! Job: [`TABLE`] has a row for each check; [`findings`] runs all rows over the facts that somebody gathered, and says
//! what is wrong, how grave it is, what it breaks, what was read, and how to mend it.
//!
//! Invariants: a check reads facts and nothing else; what was not read is no fault; a finding's name never changes, so
//! that monitoring can go by it; a healthy farm has no finding.
//!
//! Must not know: how facts are gathered, who asked, and whether anybody mends what was found.

mod checks;
pub mod facts;
mod finding;
mod page;
mod table;
mod trail;

pub use facts::{FarmFacts, GroupFacts, RouterFacts, ServerFacts};
pub use finding::{Finding, Fix, Scope, Severity};
pub use page::page;
pub use table::{Check, TABLE, findings};
pub use trail::{Change, Trail};
