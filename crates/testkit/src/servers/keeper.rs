//! Ends what a test process leaves behind when its handles are never dropped: it was killed, or it
//! kept a server in a static.
//!
//! A shell waits on a pipe whose other end this process holds. When the process ends, however it
//! ends, the shell reads the end of the pipe, kills every process that still runs on a directory that
//! it was told of, and removes the directory.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Lines are `+DIR` and `-DIR`; directories of tests have no spaces. Two rounds, since `heddle up`
/// may start another server while it is found.
const SCRIPT: &str = r#"
dirs=
while read -r line; do
    dir=${line#?}
    case $line in
        +*) dirs="$dirs $dir" ;;
        -*) kept=; for one in $dirs; do [ "$one" = "$dir" ] || kept="$kept $one"; done; dirs=$kept ;;
    esac
done
for round in 1 2; do
    for dir in $dirs; do
        for file in $(grep -lsF -- "$dir/" /proc/[0-9]*/cmdline); do
            pid=${file#/proc/}
            kill -9 "${pid%/cmdline}" 2>/dev/null
        done
    done
done
for dir in $dirs; do
    find "$dir" -path '*/trace/live' -type l -lname '/dev/shm/*' 2>/dev/null | while read -r live; do
        rm -rf "$(readlink "$live")"
    done
    rm -rf "$dir"
done
"#;

/// A router's last steps are there, outside of its state directory, so that they outlive its process.
const MEMORY: &str = "/dev/shm";

/// From now on, what runs on this directory ends with this process.
pub(crate) fn keep(dir: &Path) {
    tell('+', dir);
}

/// The directory's processes have ended and its files are gone.
pub(crate) fn forget(dir: &Path) {
    tell('-', dir);
}

/// Removes what the routers of this state directory, which have ended, keep in memory: megabytes for each.
pub(crate) fn forget_rings(state: &Path) {
    if let Ok(rings) = fs::read_link(state.join("trace/live"))
        && rings.starts_with(MEMORY)
    {
        // Another user's, or gone already: not ours to mend.
        let _ = fs::remove_dir_all(rings);
    }
}

fn tell(sign: char, dir: &Path) {
    static PIPE: OnceLock<Option<Mutex<ChildStdin>>> = OnceLock::new();
    // Without a shell nothing is kept, which costs an orphan at worst.
    if let Some(pipe) = PIPE.get_or_init(start) {
        let mut pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(pipe, "{sign}{}", dir.display());
    }
}

fn start() -> Option<Mutex<ChildStdin>> {
    let mut child = Command::new("sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // Ctrl-C ends the tests, not what cleans up behind them.
        .process_group(0)
        .spawn()
        .ok()?;
    child.stdin.take().map(Mutex::new)
}
