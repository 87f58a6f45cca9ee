//! The accounts of servers that should have the same ones: what differs, and making what is missing.
//! As statements; nothing is read from or written to the tables of accounts but names.

use std::collections::BTreeMap;

use enginesql::quoted;
use farm::Engine;
use mysql_async::Row;

use crate::clone_plugin::ACCOUNT_PREFIX;
use crate::error::Error;
use crate::link::{Link, text_at};
use crate::schema::definitions::{Difference, Drift};

/// What accounts of servers should be the same: not those of the servers themselves, nor that of a clone
/// under way, which its donor alone has.
fn shared() -> String {
    let prefix = quoted(ACCOUNT_PREFIX);
    format!(
        "User NOT IN ('mariadb.sys','mysql.sys','mysql.session','mysql.infoschema') \
         AND User<>'PUBLIC' AND LOCATE({prefix}, User)<>1"
    )
}

/// How an account, or a role, is made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    create: String,
    grants: Vec<String>,
}

impl Made {
    fn is_role(&self) -> bool {
        self.create.starts_with("CREATE ROLE ")
    }

    /// Equal but for what a server makes of a password with a salt of its own.
    fn is_like(&self, other: &Made) -> bool {
        // Heddle grants what its own routines need when an account first needs them.
        let foreign = |made: &'_ Made| -> Vec<String> {
            let grants = made.grants.iter();
            grants
                .filter(|it| !it.contains(" `heddle`."))
                .cloned()
                .collect()
        };
        foreign(self) == foreign(other) && unsalted(&self.create) == unsalted(&other.create)
    }
}

/// Plugins that store a password with a random salt.
const SALTED: [&str; 3] = ["caching_sha2_password", "sha256_password", "parsec"];

/// The statement without the hash of such a password.
fn unsalted(create: &str) -> String {
    let plugin = SALTED.iter().find_map(|name| create.find(name));
    let words = [" AS ", " USING "];
    let hash = plugin.and_then(|plugin| {
        let rest = &create[plugin..];
        let begins = words
            .iter()
            .filter_map(|word| Some(rest.find(word)? + word.len()));
        let begin = plugin + begins.min()?;
        let text = &create[begin..];
        let end = match text.strip_prefix('\'') {
            // The hash may have any bytes, quotes among them.
            Some(inner) => {
                let end = inner.find("' REQUIRE ").or_else(|| inner.find('\''));
                end.map(|at| at + 2)?
            }
            None => text.find(' ').unwrap_or(text.len()),
        };
        Some((begin, begin + end))
    });
    match hash {
        Some((from, to)) => format!("{}{}", &create[..from], &create[to..]),
        None => create.to_owned(),
    }
}

/// All accounts of a server by name.
pub struct Granted {
    accounts: BTreeMap<String, Made>,
}

impl Granted {
    /// Reads them.
    pub async fn read(link: &mut Link, timeout_ms: u64) -> Result<Granted, Error> {
        const OPERATION: &str = "show its accounts";
        let mariadb = link.version().engine == Engine::MariaDb;
        let shared = shared();
        let list = if mariadb {
            format!(
                "SELECT User, Host, JSON_VALUE(Priv, '$.is_role') FROM mysql.global_priv \
                 WHERE {shared}"
            )
        } else {
            // Hashes of passwords may have any bytes; versions before 8.0.17 show them as they are.
            let hex = "SET SESSION print_identified_with_as_hex=ON";
            match link.run(OPERATION, hex, timeout_ms).await {
                Err(error) if error.number() == Some(1193) => {}
                other => other?,
            }
            format!("SELECT User, Host, NULL FROM mysql.user WHERE {shared}")
        };
        let cell = |row: &Row, at| text_at(row, at).unwrap_or_default();
        let mut accounts = BTreeMap::new();
        for row in link.rows(OPERATION, &list, timeout_ms).await? {
            let is_role = text_at(&row, 2).is_some();
            let user = quoted(&cell(&row, 0));
            let name = match is_role {
                true => user,
                false => format!("{user}@{}", quoted(&cell(&row, 1))),
            };
            let create = match is_role {
                true => format!("CREATE ROLE {name}"),
                false => {
                    let sql = format!("SHOW CREATE USER {name}");
                    let create = link.cell(OPERATION, &sql, timeout_ms).await?;
                    create.unwrap_or_default()
                }
            };
            let sql = format!("SHOW GRANTS FOR {name}");
            let grants = link.rows(OPERATION, &sql, timeout_ms).await?;
            let grants = grants.iter().map(|row| cell(row, 0)).collect();
            accounts.insert(name, Made { create, grants });
        }
        Ok(Granted { accounts })
    }

    /// What `there` has not as these.
    pub fn differences(&self, there: &Granted) -> Vec<Difference> {
        let mut all = Vec::new();
        for (name, made) in &self.accounts {
            let kind = match there.accounts.get(name) {
                None => Drift::Missing,
                Some(other) if !made.is_like(other) => Drift::Different,
                Some(_) => continue,
            };
            all.push(Difference {
                what: format!("account {name}"),
                kind,
            });
        }
        for name in there.accounts.keys() {
            if !self.accounts.contains_key(name) {
                all.push(Difference {
                    what: format!("account {name}"),
                    kind: Drift::Surplus,
                });
            }
        }
        all
    }

    /// Makes on a server the accounts that it lacks; those that it has stay as they are.
    ///
    /// # Errors
    /// Whatever the server refuses, with its name. Then none of them is there: one without its privileges
    /// would be taken for made.
    pub async fn make_missing(
        &self,
        link: &mut Link,
        there: &Granted,
        timeout_ms: u64,
    ) -> Result<(), Error> {
        let missing = self.accounts.iter();
        let missing = missing.filter(|(name, _)| !there.accounts.contains_key(*name));
        let missing: Vec<(&String, &Made)> = missing.collect();
        let made = make(link, &missing, timeout_ms).await;
        if matches!(made, Err(Error::Refused { .. })) {
            for (name, made) in &missing {
                let drop = match made.is_role() {
                    true => format!("DROP ROLE IF EXISTS {name}"),
                    false => format!("DROP USER IF EXISTS {name}"),
                };
                // What was refused is told; it may be this as well.
                let _ = link.run(MAKE, &drop, timeout_ms).await;
            }
        }
        made
    }
}

const MAKE: &str = "make accounts";

async fn make(link: &mut Link, missing: &[(&String, &Made)], timeout_ms: u64) -> Result<(), Error> {
    // A grant may name another of them, as a role.
    for (_, made) in missing {
        link.run(MAKE, &made.create, timeout_ms).await?;
    }
    for (name, made) in missing {
        // That an account has nothing is no grant, and takes GRANT OPTION on everything to say.
        let nothing = |grant: &&String| {
            grant.starts_with("GRANT USAGE ON *.* ") && !grant.ends_with(" WITH GRANT OPTION")
        };
        for grant in made.grants.iter().filter(|grant| !nothing(grant)) {
            let given = link.run(MAKE, grant, timeout_ms).await;
            given.map_err(|error| not_given(error, name, grant))?;
        }
    }
    Ok(())
}

/// ER_DBACCESS_DENIED, ER_ACCESS_DENIED, ER_TABLEACCESS_DENIED, ER_COLUMNACCESS_DENIED,
/// ER_SPECIFIC_ACCESS_DENIED, ER_PROCACCESS_DENIED: what a GRANT gets that gives more than its giver has.
const DENIED: [u16; 6] = [1044, 1045, 1142, 1143, 1227, 1370];

/// Says of a refused GRANT what it was to give: the server names only who was to give it.
fn not_given(error: Error, name: &str, grant: &str) -> Error {
    match error {
        Error::Refused {
            operation,
            server,
            number,
            message,
            ..
        } if DENIED.contains(&number) => {
            // What follows may be the hash of a password.
            let privileges = grant.rsplit_once(" TO ").map_or("", |(given, _)| given);
            let privileges = privileges.strip_prefix("GRANT ").unwrap_or(privileges);
            Error::Refused {
                operation,
                server,
                number,
                message: format!("{message}; it was to give {name} {privileges}"),
                cure: "; grant that to the account that Heddle uses there WITH GRANT OPTION, or make the \
                       account on that server yourself"
                    .to_owned(),
            }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::{Made, not_given, unsalted};
    use crate::error::Error;

    #[test]
    fn what_was_to_be_given_is_told_without_its_password() {
        let error = Error::Refused {
            operation: "make accounts",
            server: "h:1".to_owned(),
            number: 1045,
            message: "Access denied".to_owned(),
            cure: "; check user and password".to_owned(),
        };
        let grant = "GRANT SELECT ON `d`.* TO `a`@`%` IDENTIFIED BY PASSWORD '*12'";
        let text = not_given(error, "'a'@'%'", grant).to_string();
        assert!(
            text.contains("to give 'a'@'%' SELECT ON `d`.*") && text.contains("WITH GRANT OPTION"),
            "{text}"
        );
        assert!(
            !text.contains("*12") && !text.contains("check user"),
            "{text}"
        );
    }

    #[test]
    fn what_heddle_grants_does_not_count() {
        let made = |grants: &[&str]| Made {
            create: "CREATE USER a".to_owned(),
            grants: grants.iter().map(|&grant| grant.to_owned()).collect(),
        };
        let own = "GRANT EXECUTE ON PROCEDURE `heddle`.`decide` TO `a`@`%`";
        let usage = "GRANT USAGE ON *.* TO `a`@`%`";
        assert!(made(&[usage, own]).is_like(&made(&[usage])));
        assert!(!made(&[usage]).is_like(&made(&[])));
    }

    #[test]
    fn salts_do_not_count() {
        let made = |hash: &str| {
            format!(
                "CREATE USER `a`@`%` IDENTIFIED WITH 'caching_sha2_password' AS {hash} REQUIRE NONE"
            )
        };
        assert_eq!(unsalted(&made("'$A$005$x y'")), unsalted(&made("0x2441")));
        assert_eq!(
            unsalted(&made("'$A$005$a'' \\'b'")),
            unsalted(&made("0x2441"))
        );
        let native = "CREATE USER a IDENTIFIED WITH 'mysql_native_password' AS '*12'";
        assert_eq!(unsalted(native), native);
    }
}
