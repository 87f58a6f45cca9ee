//! The server's executable: where it is, what it is, and where its support files are.

use std::path::{Path, PathBuf};
use std::process::Command;

use farm::Engine;

use crate::Error;

/// Where packages put servers that are not on everyone's PATH.
const USUAL_DIRS: &[&str] = &[
    "/usr/sbin",
    "/usr/local/sbin",
    "/usr/libexec",
    "/usr/bin",
    "/usr/local/bin",
    "/usr/local/mysql/bin",
    "/usr/local/mariadb/bin",
    "/opt/mysql/bin",
    "/opt/mariadb/bin",
];

/// A server executable that answered `--version`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Absolute, with symbolic links resolved.
    pub path: PathBuf,
    pub engine: Engine,
    /// As the server will say it in `@@version`, without distribution suffixes that only the running
    /// server knows, for example `10.11.6-MariaDB-0+deb12u1` or `8.0.36`.
    pub version: String,
}

impl Binary {
    /// The given executable (or one in the given directory or its `bin`), else the first of this
    /// engine on PATH or in the usual places.
    ///
    /// # Errors
    /// `BinaryMissing` when nothing is found; `BinaryUnusable` when `given` is not such a server.
    pub fn find(engine: Engine, given: Option<&Path>) -> Result<Binary, Error> {
        if let Some(given) = given {
            return Binary::given(engine, given);
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let dirs = std::env::split_paths(&path).chain(USUAL_DIRS.iter().map(PathBuf::from));
        dirs.flat_map(|dir| names(engine).iter().map(move |name| dir.join(name)))
            .filter(|path| path.is_file())
            .find_map(|path| {
                Binary::inspect(&path)
                    .ok()
                    .filter(|found| found.engine == engine)
            })
            .ok_or(Error::BinaryMissing {
                engine: product(engine),
                cure: cure(engine),
            })
    }

    fn given(engine: Engine, given: &Path) -> Result<Binary, Error> {
        let unusable = |reason: String| Error::BinaryUnusable {
            path: given.to_owned(),
            engine: product(engine),
            reason,
        };
        let path = if given.is_dir() {
            let dirs = [given.to_owned(), given.join("bin"), given.join("sbin")];
            dirs.iter()
                .flat_map(|dir| names(engine).iter().map(move |name| dir.join(name)))
                .find(|path| path.is_file())
                .ok_or_else(|| unusable(format!("no {} in it", names(engine)[0])))?
        } else {
            given.to_owned()
        };
        let binary = Binary::inspect(&path).map_err(unusable)?;
        if binary.engine != engine {
            return Err(unusable(format!(
                "it is {} {}",
                product(binary.engine),
                binary.version
            )));
        }
        Ok(binary)
    }

    /// Runs `--version`. The error is for people.
    fn inspect(path: &Path) -> Result<Binary, String> {
        let path = path.canonicalize().map_err(|error| error.to_string())?;
        let output = Command::new(&path)
            .args(["--no-defaults", "--version"])
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (engine, version) = parse_version(&text).ok_or_else(|| {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said
                .lines()
                .next()
                .or(text.lines().next())
                .unwrap_or("nothing")
                .trim();
            format!("its --version said: {said}")
        })?;
        Ok(Binary {
            path,
            engine,
            version,
        })
    }

    /// The installation's root: the parent of the directory that holds the executable.
    pub fn base(&self) -> &Path {
        self.path
            .parent()
            .and_then(Path::parent)
            .unwrap_or(Path::new("/"))
    }

    /// Where error messages, character sets and system-table scripts are. Packages differ; the
    /// English messages mark the right directory.
    pub fn share(&self) -> PathBuf {
        let share = self.base().join("share");
        ["mariadb", "mysql", ""]
            .iter()
            .map(|name| share.join(name))
            .find(|dir| dir.join("english/errmsg.sys").is_file())
            .unwrap_or_else(|| share.join("mysql"))
    }

    /// True when commits can be made to wait for a replica: MariaDB has it built in, MySQL needs a
    /// pair of plugins, which small packages leave out.
    pub fn has_semi_sync(&self) -> bool {
        self.engine == Engine::MariaDb || self.semi_sync_plugins().is_some()
    }

    /// MySQL's plugins for semi-sync and the directory they are in: those for a primary and for a
    /// replica, under the names that MySQL had until 8.0.25 and still ships beside the new ones, else
    /// under the new names.
    pub(crate) fn semi_sync_plugins(&self) -> Option<(PathBuf, [&'static str; 2])> {
        let names = [
            ["semisync_master.so", "semisync_slave.so"],
            ["semisync_source.so", "semisync_replica.so"],
        ];
        let dirs = ["lib/plugin", "lib/mysql/plugin", "lib64/mysql/plugin"];
        let all = names
            .into_iter()
            .flat_map(|pair| dirs.map(|dir| (self.base().join(dir), pair)));
        let mut there = all.filter(|(dir, pair)| pair.iter().all(|file| dir.join(file).is_file()));
        there.next()
    }

    /// A command that runs the server with the libraries that came with it, if any did.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        let own: Vec<PathBuf> = ["lib", "libs"]
            .iter()
            .map(|name| self.base().join(name))
            .filter(|dir| dir.is_dir() && self.base() != Path::new("/usr"))
            .collect();
        if !own.is_empty() {
            let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
            let dirs = own.into_iter().chain(std::env::split_paths(&before));
            if let Ok(joined) = std::env::join_paths(dirs) {
                command.env("LD_LIBRARY_PATH", joined);
            }
        }
        command
    }
}

fn names(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::MariaDb => &["mariadbd", "mysqld"],
        Engine::MySql => &["mysqld"],
    }
}

fn product(engine: Engine) -> &'static str {
    match engine {
        Engine::MariaDb => "MariaDB",
        Engine::MySql => "MySQL",
    }
}

fn cure(engine: Engine) -> &'static str {
    match engine {
        Engine::MariaDb => "apt install mariadb-server, or give its place with --mysqld PATH",
        Engine::MySql => "install mysql-server, or give its place with --mysqld PATH",
    }
}

/// Reads `mariadbd  Ver 10.11.6-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)`.
fn parse_version(text: &str) -> Option<(Engine, String)> {
    let mut words = text
        .split_whitespace()
        .skip_while(|word| *word != "Ver")
        .skip(1);
    let version = words
        .next()
        .filter(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let engine = if version.contains("MariaDB") {
        Engine::MariaDb
    } else {
        Engine::MySql
    };
    Some((engine, version.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_both_engines() {
        let debian = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64";
        assert_eq!(
            parse_version(debian),
            Some((Engine::MariaDb, "10.11.19-MariaDB-0+deb12u1".to_owned()))
        );
        let mysql = "/opt/bin/mysqld  Ver 8.0.12 for linux-glibc2.12 on x86_64 (MySQL Community)";
        assert_eq!(
            parse_version(mysql),
            Some((Engine::MySql, "8.0.12".to_owned()))
        );
        assert_eq!(parse_version("bash: no such thing"), None);
        assert_eq!(parse_version("GNU Ver four"), None);
    }

    #[test]
    fn a_program_that_is_no_server_is_refused_by_name() {
        let error = Binary::find(Engine::MariaDb, Some(Path::new("/bin/true")))
            .expect_err("true is no database server");
        let text = error.to_string();
        assert!(
            text.contains("/bin/true") && text.contains("MariaDB"),
            "{text}"
        );

        let missing = Binary::find(Engine::MariaDb, Some(Path::new("/nonexistent/mariadbd")))
            .expect_err("nothing is there");
        assert!(missing.to_string().contains("No such file"), "{missing}");
    }

    #[test]
    fn a_server_of_the_other_engine_is_refused() {
        let Ok(found) = Binary::find(Engine::MariaDb, None) else {
            return; // No server on this machine: the tests that need one say so.
        };
        let error = Binary::find(Engine::MySql, Some(&found.path)).expect_err("it is MariaDB");
        assert!(error.to_string().contains("it is MariaDB"), "{error}");
    }
}
