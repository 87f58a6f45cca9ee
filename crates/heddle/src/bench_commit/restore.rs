//! What has to be done on servers so that they are as before.
//!
//! It is written down before anything is changed, and done over connections of its own: those that measure may be
//! in the middle of something.

use engine::commits;
use engine::{Link, Login};

use super::TIMEOUT_MS;
use crate::failure::Failure;
use crate::printing;

/// What is to be done on one server.
struct Owed {
    login: Login,
    sql: String,
}

pub struct Restorer {
    primary: Login,
    owed: Vec<Owed>,
}

impl Restorer {
    pub fn new(primary: Login) -> Restorer {
        Restorer {
            primary,
            owed: Vec::new(),
        }
    }

    /// Notes the values of these variables; of an applier of the first that the server has. Returns that one's name.
    ///
    /// # Errors
    /// The server cannot be asked, or has none of them.
    pub async fn keep(
        &mut self,
        link: &mut Link,
        names: &[&'static str],
        of_applier: bool,
    ) -> Result<&'static str, Failure> {
        let found = commits::variables(link, names, TIMEOUT_MS)
            .await
            .map_err(Failure::new)?;
        let value = |name: &&&str| found.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        let mut first = None;
        for name in names.iter() {
            let Some((_, value)) = value(&name) else {
                continue;
            };
            let sql = match of_applier {
                true => commits::setting_of_applier(link, name, value),
                false => commits::setting(name, value),
            };
            let login = match of_applier {
                true => link.login().clone(),
                false => self.primary.clone(),
            };
            self.owed.push(Owed { login, sql });
            first.get_or_insert(*name);
            if of_applier {
                break;
            }
        }
        let missing = || Failure::new(format!("{} has no {}", link.address(), names.join(", ")));
        first.ok_or_else(missing)
    }

    /// Notes what else is to be done on the primary.
    pub fn also(&mut self, sql: String) {
        self.owed.push(Owed {
            login: self.primary.clone(),
            sql,
        });
    }

    /// Does all of it, the last first.
    ///
    /// # Errors
    /// A part could not be done: the text says what is left to the operator.
    pub async fn restore(self) -> Result<(), Failure> {
        let mut left = Vec::new();
        for Owed { login, sql } in self.owed.into_iter().rev() {
            let done = async {
                let mut link = Link::open(&login, TIMEOUT_MS).await?;
                commits::run(&mut link, &sql, TIMEOUT_MS).await
            };
            if let Err(error) = done.await {
                printing::complain(&error.to_string());
                left.push(format!("{}:{}: {sql}", login.host, login.port));
            }
        }
        match left.is_empty() {
            true => Ok(()),
            false => Err(Failure::new(format!(
                "not restored; run there: {}",
                left.join("; ")
            ))),
        }
    }
}
