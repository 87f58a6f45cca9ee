//! What binlogs of real servers have beyond plain transactions: ALTERs in two phases, rows without the names of their
//! columns, the events themselves.

mod events;
mod two_phase;
mod unnamed;

use std::path::PathBuf;
use std::process::Command;

use testkit::{Client, Release};

use crate::dump::printer;

/// The file that the server writes now.
fn present_file(client: &mut Client) -> PathBuf {
    let data = client.value("SELECT @@datadir");
    let files = client.rows("SHOW BINARY LOGS");
    let last = files.last().and_then(|row| row[0].clone());
    PathBuf::from(data).join(last.expect("a file"))
}

/// What the release's own program shows of a file; `None` where it is not installed.
fn shown(release: Release, flags: &[&str], file: &str) -> Option<String> {
    let output = Command::new(printer(release)?)
        .args(["-v", "--base64-output=decode-rows"])
        .args(flags)
        .arg(file)
        .output();
    let output = output.ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{file}: {said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}
