//! The proof of change streams: routers, primaries, appliers and targets die, primaries change, rows move, and every
//! consumer has each change once, in order, and transactions over groups whole.
//!
//! `make test-changes` runs it with more kills.

use testkit::Release;
use testkit::consumers::{mistakes_are_found, prove};

#[test]
#[ignore = "kills for minutes: make test-changes"]
fn whatever_dies_every_consumer_has_the_farm() {
    prove("MariaDB, three groups", Release::Installed, 6);
}

#[test]
#[ignore = "kills for minutes: make test-changes"]
fn on_a_newer_mysql() {
    prove("a newer MySQL, three groups", Release::MySqlNewer, 3);
}

/// What the proof itself is worth.
#[test]
fn mistakes_in_what_was_told_are_found() {
    mistakes_are_found(Release::Installed);
}
