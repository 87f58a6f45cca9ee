//! How a session's texts are read: by the farm's engine and release, and by the sql_mode and the character
//! set that the session has.

use sqltext::{Dialect, Mode, Multibyte};

use crate::per_core::Core;
use crate::session::user::SessionUser;
use crate::variables::session_variables::SessionVariables;

/// Texts are read by the session's settings of now.
pub fn read_by_mode(core: &Core, user: &SessionUser, variables: &mut SessionVariables) {
    let mut mode = mode_of(core);
    match (variables.state.variable("sql_mode"), &user.mode) {
        (Some(own), _) => mode.set_sql_mode(&String::from_utf8_lossy(own)),
        (None, Some(login)) => mode.set_sql_mode(login),
        (None, None) => {}
    }
    if let Some(charset) = variables.state.variable("character_set_client") {
        mode.multibyte = Multibyte::of_charset(&String::from_utf8_lossy(charset));
    }
    variables.mode = mode;
}

/// How text is read for the farm's engine before a session has changed anything.
pub(crate) fn mode_of(core: &Core) -> Mode {
    let snapshot = core.snapshot();
    let home = snapshot.home();
    let Some((group, primary)) = home.and_then(|group| Some((group, group.primary()?))) else {
        return Mode::new(Dialect::MariaDb, 100_600);
    };
    let dialect = match primary.engine {
        farm::Engine::MariaDb => Dialect::MariaDb,
        farm::Engine::MySql => Dialect::MySql,
    };
    let mut mode = Mode::new(dialect, version_number(&primary.version));
    // A server that does not answer was not asked either; those of a group are set up alike.
    let mut known = std::iter::once(primary).chain(&group.servers);
    if let Some(server) = known.find(|it| !it.health.sql_mode.is_empty()) {
        mode.set_sql_mode(&server.health.sql_mode);
    }
    mode
}

/// True where servers give the sessions of an account another sql_mode than the global one.
pub fn logins_set_mode(core: &Core) -> bool {
    let snapshot = core.snapshot();
    let mut servers = snapshot.home().into_iter().flat_map(|group| &group.servers);
    servers.any(|server| server.health.logins_set_mode)
}

/// True where servers say why they close the connection of a client that was silent for too long.
pub fn tells_of_timeouts(core: &Core) -> bool {
    let mode = mode_of(core);
    mode.dialect == Dialect::MySql && mode.version >= 80_024
}

/// `10.11.6-MariaDB` as 101106.
pub fn version_number(version: &str) -> u32 {
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || parts.next().and_then(Result::ok).unwrap_or(0).min(99);
    next() * 10_000 + next() * 100 + next()
}

#[cfg(test)]
mod tests {
    #[test]
    fn versions_are_numbered_as_the_servers_number_them() {
        assert_eq!(super::version_number("10.11.6-MariaDB-0+deb12u1"), 101_106);
        assert_eq!(super::version_number("8.0.12"), 80_012);
        assert_eq!(super::version_number(""), 0);
    }
}
