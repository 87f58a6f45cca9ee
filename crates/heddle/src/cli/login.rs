//! How a command that works on one server, without a farm, logs in there.

use std::path::Path;

use engine::{Known, LinkTls, Login};

use crate::failure::Failure;

/// The host and the port of HOST:PORT; `None` where it is something else.
pub fn place_of(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

/// The login of this user, with the password that the file has; without a file there is none.
///
/// # Errors
/// The file cannot be read.
pub fn login(
    (host, port): (&str, u16),
    user: &str,
    password_file: Option<&Path>,
) -> Result<Login, Failure> {
    let password = match password_file {
        Some(file) => std::fs::read_to_string(file)
            .map_err(|error| Failure::new(format!("{}: {error}", file.display())))?,
        None => String::new(),
    };
    Ok(Login {
        host: host.trim_matches(['[', ']']).to_owned(),
        port,
        user: user.to_owned(),
        password: password.trim_end_matches(['\n', '\r']).to_owned(),
        tls: LinkTls::Preferred,
        known: Known::FirstUse,
        engine: None,
    })
}
