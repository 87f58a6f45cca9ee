//! The farm's configuration as a history: one document, whose versions are kept, and which is in force
//! on every router of the farm.
//!
//! Keys: `/config/current` names the version that counts; `/config/version/NNNNNNNNNN` is one version.
//! A version is never changed; going back makes a new one. Settings, rules and users are the
//! operator's text; groups are taken from the records, which commands change too: each such command
//! makes a version in its own transaction, so that the history tells of all of them.
//!
//! Here is what a router keeps of it ([`current`]) and what it asks of whoever reads documents ([`document`]). The
//! context of the control plane follows the store by the one and the other.

pub(crate) mod current;
pub(crate) mod document;

pub use document::{Documents, Draft, NoDocuments, ShownSetting};
