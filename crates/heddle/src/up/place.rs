//! The directory of `heddle up`: who uses it, its token, what stands where.
//!
//! ```text
//! DIR/up.lock            held while a `heddle up` runs on DIR; holds its pid
//! DIR/token              bearer token of the HTTP door, for everything; readable by the owner only
//! DIR/monitor-token      the same, for what only shows the farm
//! DIR/farm.json          addresses, servers and pids, for tools
//! DIR/state/             the farm's state store
//! DIR/servers/g1-1/      one server: server.json, my.cnf, data/, error.log, socket, pid file
//! DIR/scratch/           the scratch server, where the farm has needed one; nothing in it is kept
//! ```

use std::fs::{self, File, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use meta::private;

use crate::failure::Failure;

/// A locked directory. One that this run made vanishes again unless it was kept: a start that fails
/// leaves nothing behind.
#[derive(Debug)]
pub struct Place {
    /// Absolute.
    pub dir: PathBuf,
    /// True until [`Place::keep`] in a directory that did not exist before.
    vanishes: AtomicBool,
    /// The lock ends with the process, however that ends.
    _lock: File,
}

impl Place {
    /// Makes the directory if need be, and locks it.
    ///
    /// # Errors
    /// It cannot be written, or another `heddle up` runs on it.
    pub fn open(dir: &Path) -> Result<Place, Failure> {
        let new = !dir.exists();
        let unwritable = |error: std::io::Error| {
            let dir = dir.display();
            Failure::new(format!(
                "cannot write to {dir}: {error}; choose another with --data DIR"
            ))
        };
        private::create_dir(dir).map_err(unwritable)?;
        let mut lock = private::open(&dir.join("up.lock")).map_err(unwritable)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                let _ = lock.read_to_string(&mut pid);
                return Err(Failure::new(format!(
                    "{} is in use by another heddle up (pid {}); stop that one, or choose another \
                     directory with --data DIR",
                    dir.display(),
                    pid.trim()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(unwritable(error)),
        }
        lock.set_len(0).map_err(unwritable)?;
        writeln!(lock, "{}", std::process::id()).map_err(unwritable)?;
        let dir = dir.canonicalize().map_err(unwritable)?;
        Ok(Place {
            dir,
            vanishes: AtomicBool::new(new),
            _lock: lock,
        })
    }

    /// From now on there is data worth keeping.
    pub fn keep(&self) {
        self.vanishes.store(false, Ordering::Relaxed);
    }

    /// The directory of the server of this name.
    pub fn server(&self, name: &str) -> PathBuf {
        self.dir.join("servers").join(name)
    }

    /// The directory of the state store.
    pub fn state(&self) -> PathBuf {
        self.dir.join("state")
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if *self.vanishes.get_mut() {
            let _ = fs::remove_dir_all(&self.dir);
        }
    }
}

/// What opens the HTTP door.
#[derive(Clone, Debug)]
pub struct Tokens {
    /// For everything.
    pub admin: String,
    /// For what only shows the farm.
    pub monitor: String,
}

impl Tokens {
    /// The tokens in this directory, made now if there are none.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn of(dir: &Path) -> Result<Tokens, Failure> {
        Ok(Tokens {
            admin: token(&dir.join("token"))?,
            monitor: token(&dir.join("monitor-token"))?,
        })
    }
}

/// The token in this file, made now if there is none: 32 hexadecimal digits.
fn token(path: &Path) -> Result<String, Failure> {
    let failed = |what: &str, error: std::io::Error| {
        Failure::new(format!("cannot {what} {}: {error}", path.display()))
    };
    // Also one that others could read is closed to them.
    let mut text = String::new();
    private::open(path)
        .and_then(|mut file| file.read_to_string(&mut text))
        .map_err(|error| failed("read", error))?;
    if !text.trim().is_empty() {
        return Ok(text.trim().to_owned());
    }
    let mut bytes = [0u8; 16];
    let random = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    random.map_err(|error| Failure::new(format!("cannot read /dev/urandom: {error}")))?;
    let token = hex::encode(bytes);
    private::write(path, &format!("{token}\n")).map_err(|error| failed("write", error))?;
    Ok(token)
}

/// Replaces a file at once: readers see the old text or the new one, never a part.
///
/// # Errors
/// The directory cannot be written.
pub fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let beside = path.with_extension("new");
    fs::write(&beside, text)
        .and_then(|()| fs::rename(&beside, path))
        .map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_that_was_made_vanishes_unless_it_is_kept() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path().join("farm");
        drop(Place::open(&dir).expect("writable"));
        assert!(!dir.exists());
        let place = Place::open(&dir).expect("writable");
        place.keep();
        drop(place);
        assert!(dir.exists());
        drop(Place::open(&dir).expect("writable"));
        assert!(dir.exists(), "it was there before");
    }

    #[test]
    fn a_directory_has_one_user() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let _first = Place::open(home.path()).expect("writable");
        let failure = Place::open(home.path()).expect_err("in use");
        let pid = std::process::id().to_string();
        assert!(
            failure.text.contains(&pid) && failure.text.contains("--data"),
            "{failure:?}"
        );
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named_with_the_cure() {
        let failure = Place::open(Path::new("/dev/null/farm")).expect_err("not a directory");
        assert!(failure.text.contains("/dev/null/farm") && failure.text.contains("--data"));
    }

    #[test]
    fn the_token_is_secret_and_stays() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let tokens = Tokens::of(home.path()).expect("writable");
        assert_ne!(tokens.admin, tokens.monitor);
        let (path, made) = (home.path().join("token"), tokens.admin);
        assert_eq!(made.len(), 32);
        let mode = || fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("its owner may");
        assert_eq!(token(&path).expect("readable"), made);
        assert_eq!(mode() & 0o777, 0o600, "it is closed again");
    }
}
