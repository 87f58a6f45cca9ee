//! Which server it is, from `@@version`.

use std::fmt;

use farm::Engine;

/// Engine and version of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    pub engine: Engine,
    /// `10.11.6` is 101106, `8.0.36` is 80036: the form of version comments.
    pub number: u32,
    /// As the server says it.
    pub text: String,
}

/// Oldest servers that a farm takes. Before them, GTIDs or session tracking are incomplete.
const MARIADB_MIN: u32 = 100_500;
const MYSQL_MIN: u32 = 80_000;

impl Version {
    /// Reads `@@version`. Percona Server counts as MySQL.
    pub fn parse(text: &str) -> Option<Version> {
        let engine = if text.contains("MariaDB") {
            Engine::MariaDb
        } else {
            Engine::MySql
        };
        let numbers = text
            .split(|c: char| c != '.' && !c.is_ascii_digit())
            .next()?;
        let mut parts = numbers.split('.').map(|part| part.parse::<u32>().ok());
        let major = parts.next()??;
        let minor = parts.next()??;
        let patch = parts.next().flatten().unwrap_or(0);
        if major > 999 || minor > 99 || patch > 99 {
            return None;
        }
        Some(Version {
            engine,
            number: major * 10_000 + minor * 100 + patch,
            text: text.to_owned(),
        })
    }

    /// The release without its last number, as in `1011` and `800`: servers of one release follow each other.
    pub fn release(&self) -> u32 {
        self.number / 100
    }

    /// Why a farm does not take a server of this version, if so.
    pub fn objection(&self) -> Option<String> {
        let (name, min) = match self.engine {
            Engine::MariaDb => ("MariaDB 10.5", MARIADB_MIN),
            Engine::MySql => ("MySQL 8.0", MYSQL_MIN),
        };
        (self.number < min).then(|| format!("its version is {self}; upgrade it to {name} or newer"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_both_engines() {
        let read = |text| Version::parse(text).map(|v| (v.engine, v.number));
        assert_eq!(
            read("10.11.19-MariaDB-0+deb12u1"),
            Some((Engine::MariaDb, 101_119))
        );
        assert_eq!(read("11.4.5-MariaDB-log"), Some((Engine::MariaDb, 110_405)));
        assert_eq!(read("8.0.12"), Some((Engine::MySql, 80_012)));
        assert_eq!(read("8.0.36-28.1"), Some((Engine::MySql, 80_036)));
        assert_eq!(read("8.4"), Some((Engine::MySql, 80_400)));
        assert_eq!(read("unknown"), None);
    }

    #[test]
    fn old_servers_are_named_with_the_cure() {
        let old = Version::parse("10.1.48-MariaDB").expect("a version");
        assert_eq!(
            old.objection().as_deref(),
            Some("its version is 10.1.48-MariaDB; upgrade it to MariaDB 10.5 or newer")
        );
        assert_eq!(
            Version::parse("8.0.12").expect("a version").objection(),
            None
        );
    }
}
