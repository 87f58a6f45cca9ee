//! The scenarios of `test/diff`, run straight to a server and through Heddle: every packet that the
//! client gets must be the same. `test/diff/README.md` says how to add one.
//!
//! `HEDDLE_DIFF=name` runs one scenario only; `HEDDLE_DIFF_ALL=1` lists every difference, not only
//! the first one of each run.

mod compare;
mod fields;
mod noise;
mod play;
mod run;
mod scenario;
mod transcript;
mod values;

use testkit::Release;

#[test]
fn on_the_installed_mariadb() {
    run::all(Release::Installed);
}

#[test]
fn on_mariadb_11_4() {
    run::all(Release::MariaDb114);
}

#[test]
fn on_mysql_8_0() {
    run::all(Release::MySql80);
}
