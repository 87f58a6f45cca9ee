//! With what a broker is logged in to. Secrets are in files on each router, read at each login; of them only the names
//! are known to the farm.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::undelivered::{Undelivered, later};

/// Longest file with a secret.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// An account at a broker; empty where nobody has to log in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    pub user: String,
    /// A file on each router; its first line is the password.
    pub password_file: String,
    /// Of Kafka: by which of its mechanisms; empty for the strongest that the broker offers.
    pub mechanism: String,
    /// Of NATS: a file on each router whose first line is a token.
    pub token_file: String,
    /// Of NATS: a file on each router with the seed of a user's NKEY.
    pub nkey_file: String,
    /// Of NATS: a file on each router with a user's JWT and the seed of its NKEY.
    pub credentials_file: String,
}

impl Account {
    /// The user and the password.
    pub(crate) fn read(&self) -> Result<(String, String), Undelivered> {
        let password = match &*self.password_file {
            "" => String::new(),
            file => first_line(file)?,
        };
        Ok((self.user.clone(), password))
    }

    /// Which kinds of login it names: one is right at most.
    pub fn kinds(&self) -> Vec<&'static str> {
        let all = [
            ("user", &self.user),
            ("token_file", &self.token_file),
            ("nkey_file", &self.nkey_file),
            ("credentials_file", &self.credentials_file),
        ];
        let named = all.into_iter().filter(|(_, value)| !value.is_empty());
        named.map(|(name, _)| name).collect()
    }
}

/// The first line of a file with a secret.
pub(crate) fn first_line(file: &str) -> Result<String, Undelivered> {
    let text = secret(file)?;
    Ok(text
        .lines()
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_owned())
}

/// All of a file with secrets.
pub(crate) fn secret(file: &str) -> Result<String, Undelivered> {
    let failed = |why: String| later(format!("{file}: {why}"));
    let metadata = std::fs::metadata(Path::new(file)).map_err(|it| failed(it.to_string()))?;
    if metadata.len() > SECRET_BYTES_MAX {
        return Err(failed("it is too long for a secret".to_owned()));
    }
    std::fs::read_to_string(file).map_err(|it| failed(it.to_string()))
}
