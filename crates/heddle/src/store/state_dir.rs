//! The state directory: only the router's user may look into it, since the key of the farm's authority is there.

use std::fs::{self, Metadata, Permissions};
use std::io::Error;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use meta::private;

use crate::failure::Failure;
use crate::printing::say;

/// What group and others may do.
const OTHERS: u32 = 0o077;

/// Directories with this bit are shared by design, as `/tmp` is.
const STICKY: u32 = 0o1000;

/// Makes the directory, or takes away from it and from its files what others may do there. What it had
/// to take away it says in one line.
///
/// # Errors
/// It cannot be made, belongs to another user or is shared by design, or one of its files belongs to
/// another user.
pub fn prepare(dir: &Path) -> Result<(), Failure> {
    private::create_dir(dir).map_err(|error| failed("make", dir, &error))?;
    mend(dir)
}

/// The same for a directory that may not be there yet.
///
/// # Errors
/// As for [`prepare`].
pub fn mend(dir: &Path) -> Result<(), Failure> {
    if !dir.exists() {
        return Ok(());
    }
    let user = rustix::process::geteuid().as_raw();
    let found = fs::metadata(dir).map_err(|error| failed("read", dir, &error))?;
    check_directory(dir, &found, user)?;
    let mut open = Vec::new();
    for entry in fs::read_dir(dir).map_err(|error| failed("read", dir, &error))? {
        let path = entry.map_err(|error| failed("read", dir, &error))?.path();
        // A file that vanished meanwhile is open to nobody.
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        if is_open(&path, &found, user)? {
            open.push((path, found));
        }
    }
    if found.mode() & OTHERS != 0 {
        open.push((dir.to_owned(), found));
    }
    close(dir, open)
}

fn check_directory(dir: &Path, found: &Metadata, user: u32) -> Result<(), Failure> {
    let shown = dir.display();
    if found.uid() != user {
        return Err(Failure::new(format!(
            "the state directory {shown} belongs to the user with id {}, and this process runs as {user}: \
             run it as that user, or `chown -R {user} {shown}`",
            found.uid()
        )));
    }
    if found.mode() & STICKY != 0 {
        return Err(Failure::new(format!(
            "the state directory {shown} is shared with other users: name one of the router's own in \
             state_dir"
        )));
    }
    Ok(())
}

/// Whether others may do something with this file of the directory. Root may do everything anyway, so
/// its files, for example a certificate, are left as they are.
fn is_open(path: &Path, found: &Metadata, user: u32) -> Result<bool, Failure> {
    if !found.is_file() || found.uid() == 0 && user != 0 {
        return Ok(false);
    }
    if found.uid() != user {
        return Err(Failure::new(format!(
            "{} belongs to the user with id {}, and this process runs as {user}: somebody else wrote \
             into the state directory; remove the file, or `chown` it",
            path.display(),
            found.uid()
        )));
    }
    Ok(found.mode() & OTHERS != 0)
}

fn close(dir: &Path, open: Vec<(PathBuf, Metadata)>) -> Result<(), Failure> {
    if open.is_empty() {
        return Ok(());
    }
    let mut names = Vec::new();
    for (path, found) in open {
        let mode = found.mode() & 0o7777 & !OTHERS;
        fs::set_permissions(&path, Permissions::from_mode(mode))
            .map_err(|error| failed("close to other users", &path, &error))?;
        let name = path.file_name().filter(|_| path != dir);
        names.push(
            name.map_or(dir.to_string_lossy(), |name| name.to_string_lossy())
                .into_owned(),
        );
    }
    say(format!(
        "WARNING: other users could read the state in {}, where the key of the farm's authority is; closed to them \
         now: {}",
        dir.display(),
        names.join(", ")
    ));
    Ok(())
}

fn failed(what: &str, path: &Path, error: &Error) -> Failure {
    Failure::new(format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("its owner may");
    }

    #[test]
    fn what_others_could_read_is_closed() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path().join("a/state");
        prepare(&dir).expect("made");
        assert_eq!(mode(&dir), 0o700);
        let (text, program) = (dir.join("state.redb"), dir.join("run"));
        for (file, mode) in [(&text, 0o644), (&program, 0o755)] {
            fs::write(file, "x").expect("written");
            set(file, mode);
        }
        set(&dir, 0o2755);
        prepare(&dir).expect("mended");
        assert_eq!(mode(&dir), 0o2700);
        assert_eq!((mode(&text), mode(&program)), (0o600, 0o700));
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let found = fs::metadata(home.path()).expect("it is there");
        let other = found.uid() + 1;
        let failure = check_directory(home.path(), &found, other).expect_err("another's");
        assert!(failure.text.contains("chown"), "{}", failure.text);
        let file = home.path().join("state.redb");
        fs::write(&file, "x").expect("written");
        let found = fs::metadata(&file).expect("it is there");
        if found.uid() != 0 {
            is_open(&file, &found, other).expect_err("another's");
        }
        set(home.path(), 0o1777);
        let failure = prepare(home.path()).expect_err("shared");
        assert!(failure.text.contains("state_dir"), "{}", failure.text);
        assert_eq!(mode(home.path()), 0o1777, "it was left alone");
    }
}
