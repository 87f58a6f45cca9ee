//! Files and directories that only the user of the router may read, whatever its umask is.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{Result, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The mode of every file that a router writes.
const FILE_MODE: u32 = 0o600;

/// The mode of the directories that hold them.
const DIRECTORY_MODE: u32 = 0o700;

/// Opens a file to read and write it; one that is not there is made. Its content stays.
pub fn open(path: &Path) -> Result<File> {
    closed_to_others(OpenOptions::new().create(true).truncate(false), path)
}

/// Opens a file to write it from its beginning; what it held is gone.
pub fn create(path: &Path) -> Result<File> {
    closed_to_others(OpenOptions::new().create(true).truncate(true), path)
}

/// Makes a file that holds this text.
pub fn write(path: &Path, text: &str) -> Result<()> {
    create(path)?.write_all(text.as_bytes())
}

/// Makes a directory, and those above it that are missing. One that is there stays as it is.
pub fn create_dir(path: &Path) -> Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// A file that was there may have been open to others, so its mode is set, too.
fn closed_to_others(options: &mut OpenOptions, path: &Path) -> Result<File> {
    let file = options.read(true).write(true).mode(FILE_MODE).open(path)?;
    if file.metadata()?.permissions().mode() & 0o777 != FILE_MODE {
        file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        let found = std::fs::metadata(path).expect("it is there");
        found.permissions().mode() & 0o777
    }

    #[test]
    fn files_are_closed_to_others_also_those_that_were_open() {
        let home = tempfile::tempdir().expect("a temporary directory");
        let dir = home.path().join("a/b");
        create_dir(&dir).expect("made");
        assert_eq!((mode(&dir), mode(&home.path().join("a"))), (0o700, 0o700));
        let file = dir.join("file");
        std::fs::write(&file, "old").expect("written");
        std::fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("its owner may");
        drop(open(&file).expect("opened"));
        assert_eq!(mode(&file), 0o600);
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "old");
        write(&file, "new").expect("written");
        assert_eq!(std::fs::read_to_string(&file).expect("read"), "new");
    }
}
