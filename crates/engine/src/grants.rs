//! The accounts of servers that should have the same ones: what differs, and making what is missing.
//! As statements; nothing is read from or written to the tables of accounts but names.

use std::collections::BTreeMap;

use farm::Engine;
use mysql_async::Row;

use crate::definitions::{Difference, Drift};
use crate::error::Error;
use crate::link::{Link, quoted, text_at};

/// Accounts of the servers themselves.
const INTERNAL: &str = "User NOT IN ('mariadb.sys','mysql.sys','mysql.session','mysql.infoschema') \
                        AND User<>'PUBLIC'";

/// How an account, or a role, is made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Made {
    create: String,
    grants: Vec<String>,
}

impl Made {
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
        let list = if mariadb {
            format!(
                "SELECT User, Host, JSON_VALUE(Priv, '$.is_role') FROM mysql.global_priv \
                 WHERE {INTERNAL}"
            )
        } else {
            // Hashes of passwords may have any bytes; versions before 8.0.17 show them as they are.
            let hex = "SET SESSION print_identified_with_as_hex=ON";
            match link.run(OPERATION, hex, timeout_ms).await {
                Err(error) if error.number() == Some(1193) => {}
                other => other?,
            }
            format!("SELECT User, Host, NULL FROM mysql.user WHERE {INTERNAL}")
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
    /// Whatever the server refuses, with its name.
    pub async fn make_missing(
        &self,
        link: &mut Link,
        there: &Granted,
        timeout_ms: u64,
    ) -> Result<(), Error> {
        const OPERATION: &str = "make accounts";
        let missing = self.accounts.iter();
        let missing = missing.filter(|(name, _)| !there.accounts.contains_key(*name));
        let missing: Vec<&Made> = missing.map(|(_, made)| made).collect();
        // A grant may name another of them, as a role.
        for made in &missing {
            link.run(OPERATION, &made.create, timeout_ms).await?;
        }
        for grant in missing.iter().flat_map(|made| &made.grants) {
            link.run(OPERATION, grant, timeout_ms).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Made, unsalted};

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
