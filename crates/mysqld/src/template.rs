//! An initialised data directory, made once per server version and copied for every new server.
//!
//! Initialising takes seconds; a copy takes a fraction of one. The template is complete or absent: it
//! is built beside its final name and renamed, under a file lock that serves several processes.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use farm::Engine;

use crate::{Binary, Error};

/// Changes whenever the statements or options below change, so that old templates are not used.
const RECIPE: u32 = 1;

/// The redo log's size; the template has it already, so that a first start need not build another.
pub(crate) const REDO_LOG: &str = "48M";

/// Where templates are kept: the user's cache directory when it can be written, else `dir/.cache`.
pub fn cache_dir(dir: &Path) -> PathBuf {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or(home)
        .map(|base| base.join("heddle"))
        .filter(|path| fs::create_dir_all(path).is_ok() && writable(path))
        .unwrap_or_else(|| dir.join(".cache"))
}

fn writable(dir: &Path) -> bool {
    let probe = dir.join(format!(".probe-{}", std::process::id()));
    let made = File::create(&probe).is_ok();
    let _ = fs::remove_file(&probe);
    made
}

/// The template for this binary, made now if the cache does not have it.
///
/// # Errors
/// `Initialise` with the server's own last words, or `File` for the cache directory.
pub fn template(binary: &Binary, cache: &Path) -> Result<PathBuf, Error> {
    let key = key(binary);
    let finished = cache.join(&key);
    if finished.is_dir() {
        return Ok(finished);
    }
    fs::create_dir_all(cache).map_err(Error::file("create directory", cache))?;
    let lock_path = cache.join(format!("{key}.lock"));
    let lock = File::create(&lock_path).map_err(Error::file("create", &lock_path))?;
    lock.lock().map_err(Error::file("lock", &lock_path))?;
    if finished.is_dir() {
        return Ok(finished); // Another process made it while we waited for the lock.
    }
    let building = cache.join(format!("{key}.building"));
    let temporary = cache.join(format!("{key}.tmp"));
    for folder in [&building, &temporary] {
        remove_tree(folder)?;
        fs::create_dir_all(folder).map_err(Error::file("create directory", folder))?;
    }
    match binary.engine {
        Engine::MariaDb => initialise_mariadb(binary, &building, &temporary)?,
        Engine::MySql => initialise_mysql(binary, &building, &temporary)?,
    }
    remove_tree(&temporary)?;
    // A copied identity would make every server the same one; each makes its own when it starts.
    let _ = fs::remove_file(building.join("auto.cnf"));
    fs::rename(&building, &finished).map_err(Error::file("rename", &building))?;
    Ok(finished)
}

/// True when [`template`] has nothing to make.
pub fn has_template(binary: &Binary, cache: &Path) -> bool {
    cache.join(key(binary)).is_dir()
}

fn key(binary: &Binary) -> String {
    format!("{}-{}-{RECIPE}", binary.engine.name(), binary.version).replace('/', "_")
}

/// Copies the template to `data` unless that exists. The copy appears whole or not at all.
pub(crate) fn instantiate(template: &Path, data: &Path) -> Result<(), Error> {
    if data.is_dir() {
        return Ok(());
    }
    let building = data.with_extension("building");
    remove_tree(&building)?;
    copy_tree(template, &building)?;
    fs::rename(&building, data).map_err(Error::file("rename", &building))
}

fn initialise_mysql(binary: &Binary, data: &Path, temporary: &Path) -> Result<(), Error> {
    let mut command = initialiser(binary, data, temporary);
    command.arg("--initialize-insecure");
    finish(binary, command, Vec::new())
}

/// What `mariadb-install-db` does, without the script: not every package has it, and it wants to
/// resolve host names.
fn initialise_mariadb(binary: &Binary, data: &Path, temporary: &Path) -> Result<(), Error> {
    let mut command = initialiser(binary, data, temporary);
    command.args([
        "--bootstrap",
        "--enforce-storage-engine=",
        "--loose-skip-ssl",
    ]);
    command.args(["--aria-log-file-size=8M", "--net-buffer-length=16K"]);
    let share = binary.share();
    // The bootstrap reader wants each statement to end a line.
    let mut sql = Vec::from("CREATE DATABASE IF NOT EXISTS mysql;\nUSE mysql;\n");
    // NULL: root logs in by password, and it has none.
    sql.extend_from_slice(b"SET @auth_root_socket=NULL;\n");
    for stem in [
        "system_tables",
        "performance_tables",
        "system_tables_data",
        "fill_help_tables",
        "maria_add_gis_sp_bootstrap",
        "sys_schema",
    ] {
        let names = [
            format!("mariadb_{stem}.sql"),
            format!("mysql_{stem}.sql"),
            format!("{stem}.sql"),
        ];
        let path = names
            .iter()
            .map(|name| share.join(name))
            .find(|path| path.is_file())
            .ok_or_else(|| Error::ShareMissing {
                path: binary.path.clone(),
                share: share.clone(),
            })?;
        let text = fs::read(&path).map_err(Error::file("read", &path))?;
        // Accounts for this machine's host name are of no use on loopback.
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            if !line
                .windows(17)
                .any(|window| window == b"@current_hostname")
            {
                sql.extend_from_slice(line);
            }
        }
        sql.push(b'\n');
    }
    finish(binary, command, sql)
}

/// The options that both engines share. Durability does not matter until the rename.
///
/// A MariaDB server that starts deletes all temporary tables in its directory for them, so that one is its own: in
/// `/tmp` it would delete those of the machine's other servers, which answer with error 6 then, or crash.
fn initialiser(binary: &Binary, data: &Path, temporary: &Path) -> Command {
    let mut command = binary.command();
    command
        .arg("--no-defaults")
        .arg(format!("--basedir={}", binary.base().display()))
        .arg(format!("--lc-messages-dir={}", binary.share().display()))
        .arg(format!(
            "--character-sets-dir={}",
            binary.share().join("charsets").display()
        ))
        .arg(format!("--datadir={}", data.display()))
        .arg(format!("--tmpdir={}", temporary.display()))
        .arg(format!("--innodb-log-file-size={REDO_LOG}"))
        .args([
            "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=0",
            "--max-allowed-packet=8M",
        ])
        .current_dir(data);
    if rustix::process::geteuid().is_root() {
        command.arg("--user=root");
    }
    command
}

/// Runs the command with the statements as its input and keeps what it says for the error.
fn finish(binary: &Binary, mut command: Command, sql: Vec<u8>) -> Result<(), Error> {
    let failed = |reason: String| Error::Initialise {
        path: binary.path.clone(),
        reason,
    };
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    let mut stdin = child.stdin.take().expect("stdin was asked for above");
    // A thread of its own: a server that complains a lot before it has read everything would
    // otherwise wait for us while we wait for it.
    let writer = std::thread::spawn(move || stdin.write_all(&sql));
    let output = child
        .wait_with_output()
        .map_err(|error| failed(error.to_string()))?;
    let written = writer.join().unwrap_or(Ok(()));
    if output.status.success() && written.is_ok() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<&str> = said.lines().filter(|line| line.contains("ERROR")).collect();
    let words = if errors.is_empty() {
        said.lines().collect()
    } else {
        errors
    };
    let last = &words[words.len().saturating_sub(3)..];
    Err(failed(format!("{}: {}", output.status, last.join(" | "))))
}

fn remove_tree(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", path)(error))
        }
        _ => Ok(()),
    }
}

/// Copies directories and plain files; `fs::copy` shares blocks where the file system can.
fn copy_tree(from: &Path, to: &Path) -> Result<(), Error> {
    fs::create_dir_all(to).map_err(Error::file("create directory", to))?;
    for entry in fs::read_dir(from).map_err(Error::file("read directory", from))? {
        let entry = entry.map_err(Error::file("read directory", from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(Error::file("look at", &source))?;
        if kind.is_dir() {
            copy_tree(&source, &target)?;
        } else if kind.is_file() {
            fs::copy(&source, &target).map_err(Error::file("copy", &source))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_made_once_and_never_over_data() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let template = dir.path().join("template");
        fs::create_dir_all(template.join("mysql")).expect("made");
        fs::write(template.join("mysql/user.frm"), "one").expect("written");
        let data = dir.path().join("data");
        // Remains of a copy that was cut short are replaced, not completed.
        fs::create_dir_all(dir.path().join("data.building/junk")).expect("made");
        instantiate(&template, &data).expect("copied");
        assert_eq!(
            fs::read(data.join("mysql/user.frm")).expect("there"),
            b"one"
        );
        assert!(!data.join("junk").exists());

        fs::write(template.join("mysql/user.frm"), "two").expect("written");
        instantiate(&template, &data).expect("nothing to do");
        assert_eq!(
            fs::read(data.join("mysql/user.frm")).expect("there"),
            b"one"
        );
    }
}
