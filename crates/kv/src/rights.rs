//! What an account may do with a container: what the servers let it do with its table.

use farm::Container;
use session::{Internal, Lost, ServerRefusal};
use sqltext::ticked;

/// The rights of one account on one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    pub read: bool,
    /// To store, count and touch, which change rows that are there and make new ones.
    pub write: bool,
    pub delete: bool,
    /// Why one of them could not be found out.
    pub unknown: Option<String>,
}

/// The account, or a part of it, lacks a right: on a table, a column, a database, the function of a
/// view, or any at all.
const DENIED: [u16; 5] = [1044, 1142, 1143, 1227, 1370];

/// The statement is right but for the table, which says so itself when it is used: no such table, no
/// such column, no default.
const OTHERWISE: [u16; 3] = [1146, 1054, 1364];

impl Allowed {
    /// Everything, for who needs not be asked about.
    pub fn all() -> Allowed {
        Allowed {
            read: true,
            write: true,
            delete: true,
            unknown: None,
        }
    }

    /// Asks the servers on an internal session of the account, by statements that are prepared and never run.
    ///
    /// # Errors
    /// The internal session is lost.
    pub async fn ask(internal: &mut Internal, container: &Container) -> Result<Allowed, Lost> {
        let mut allowed = Allowed::all();
        let [read, write, delete] = statements(container);
        allowed.read = allowed.may(internal, &read).await?;
        allowed.write = allowed.read && allowed.may(internal, &write).await?;
        allowed.delete = allowed.read && allowed.may(internal, &delete).await?;
        Ok(allowed)
    }

    async fn may(&mut self, internal: &mut Internal, text: &str) -> Result<bool, Lost> {
        match internal.prepare(text.as_bytes()).await? {
            Ok(id) => {
                internal.close(id).await?;
                Ok(true)
            }
            Err(ServerRefusal { number, .. }) if OTHERWISE.contains(&number) => Ok(true),
            Err(ServerRefusal { number, .. }) if DENIED.contains(&number) => Ok(false),
            Err(refusal) => {
                self.unknown = Some(String::from_utf8_lossy(&refusal.message).into_owned());
                Ok(false)
            }
        }
    }
}

fn statements(container: &Container) -> [String; 3] {
    let table = format!(
        "{}.{}",
        ticked(&container.database),
        ticked(&container.table)
    );
    let key = ticked(&container.key);
    let values: Vec<String> = container.values.iter().map(|name| ticked(name)).collect();
    let columns = values.join(",");
    let marks = ",?".repeat(values.len());
    let first = values.first().map_or("", String::as_str);
    [
        format!("SELECT {key},{columns} FROM {table} WHERE {key} IN (?)"),
        format!(
            "INSERT INTO {table} ({key},{columns}) VALUES (?{marks}) ON DUPLICATE KEY UPDATE {first}=VALUES({first})"
        ),
        format!("DELETE FROM {table} WHERE {key} IN (?)"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_names_all_columns() {
        let [read, write, delete] = statements(&Container::new("c", "d", "t`", "k", &["v", "w"]));
        assert_eq!(read, "SELECT `k`,`v`,`w` FROM `d`.`t``` WHERE `k` IN (?)");
        assert_eq!(
            write,
            "INSERT INTO `d`.`t``` (`k`,`v`,`w`) VALUES (?,?,?) ON DUPLICATE KEY UPDATE `v`=VALUES(`v`)"
        );
        assert_eq!(delete, "DELETE FROM `d`.`t``` WHERE `k` IN (?)");
    }
}
