//! `[[backend_credential]]` in `heddle.toml`.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::passwords;

/// The name of the tables.
pub const KEY: &str = "backend_credential";

/// A `[[backend_credential]]` of the file: how to log in to servers for an account whose clients do
/// not reveal it.
#[derive(Clone, Default)]
pub struct BackendCredential {
    pub user: String,
    /// The account's host pattern; `None` for every host.
    pub host: Option<String>,
    pub password: String,
    /// The account to use on the servers; `None` for the same.
    pub server_user: Option<String>,
}

/// Secrets stay out of logs.
impl std::fmt::Debug for BackendCredential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BackendCredential({:?}@{:?})", self.user, self.host)
    }
}

/// Reads the array of tables; the error is a line and what is wrong there.
pub fn read(
    value: &Spanned<DeValue<'_>>,
    line_of: &dyn Fn(usize) -> usize,
) -> Result<Vec<BackendCredential>, (usize, String)> {
    let line = line_of(value.span().start);
    let wrong = || (line, format!("{KEY}: write it as a table, [[{KEY}]]"));
    let DeValue::Array(tables) = value.get_ref() else {
        return Err(wrong());
    };
    tables
        .iter()
        .map(|table| match table.get_ref() {
            DeValue::Table(keys) => one(keys, line_of(table.span().start), line_of),
            _ => Err(wrong()),
        })
        .collect()
}

fn one(
    keys: &DeTable<'_>,
    line: usize,
    line_of: &dyn Fn(usize) -> usize,
) -> Result<BackendCredential, (usize, String)> {
    let mut credential = BackendCredential::default();
    let mut has_password = false;
    for (key, value) in keys {
        let line = line_of(key.span().start);
        let name: &str = key.get_ref();
        let DeValue::String(text) = value.get_ref() else {
            return Err((line, format!("{KEY}: {name}: write a text in quotes")));
        };
        let text = text.to_string();
        match name {
            "user" => credential.user = text,
            "host" => credential.host = Some(text),
            "server_user" => credential.server_user = Some(text),
            "password" if !has_password => (credential.password, has_password) = (text, true),
            "password_file" if !has_password => {
                let read = passwords::read(Path::new(&text));
                credential.password =
                    read.map_err(|error| (line, format!("{KEY}: {name}: {error}")))?;
                has_password = true;
            }
            "password" | "password_file" => {
                let what = format!("{KEY}: set password or password_file, not both");
                return Err((line, what));
            }
            _ => {
                let known = "user, host, password, password_file, server_user";
                return Err((line, format!("{KEY}: unknown key `{name}`; it has {known}")));
            }
        }
    }
    if credential.user.is_empty() || !has_password {
        return Err((line, format!("{KEY}: user and password must be given")));
    }
    Ok(credential)
}

#[cfg(test)]
mod tests {
    use super::super::file::parse;

    #[test]
    fn tables_of_credentials() {
        let text = "threads = 2\n[[backend_credential]]\nuser = \"app\"\npassword = \"x\"\n\
                    [[backend_credential]]\nuser = \"pam\"\nhost = \"10.%\"\npassword = \"y\"\n\
                    server_user = \"pam_backend\"\n";
        let settings = parse(text).expect("nothing is wrong");
        let [app, pam] = &settings.backend_credentials[..] else {
            panic!("two")
        };
        assert_eq!((&*app.user, &*app.password, &app.host), ("app", "x", &None));
        assert_eq!(pam.host.as_deref(), Some("10.%"));
        assert_eq!(pam.server_user.as_deref(), Some("pam_backend"));
        assert!(!format!("{app:?}").contains('x'), "no secret in logs");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, line, part) in [
            ("[[backend_credential]]\nuser = \"a\"", 1, "must be given"),
            ("[[backend_credential]]\npasword = \"a\"", 2, "`pasword`"),
            ("[[backend_credential]]\nuser = 3", 2, "in quotes"),
            ("backend_credential = 3", 1, "[[backend_credential]]"),
            (
                "[backend_credential]\nuser = \"a\"",
                1,
                "[[backend_credential]]",
            ),
        ] {
            let errors = parse(text).expect_err("it is wrong");
            assert!(
                errors[0].0 == line && errors[0].1.contains(part),
                "{text}: {errors:?}"
            );
        }
    }
}
