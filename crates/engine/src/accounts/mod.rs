//! The accounts of a server, as the data plane needs them to admit clients, and their privileges.
//!
//! Job: read accounts with all that proves them; compare and make them on servers that should have the same ones
//! ([`grants`]); say which privileges Heddle's own account needs and has ([`needed`], [`own_privileges`]).
//!
//! Invariants: a password is never asked for, only what proves one.
//!
//! Must not know: clients, which account a client gets.

pub(crate) mod global_rights;
pub mod grants;
pub mod needed;
pub mod own_privileges;
mod ways;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

use farm::{Account, Accounts, Engine, PasswordLocking, TlsDemand};
use mysql_async::Row;
use serde_json::Value;

use crate::error::Error;
use crate::link::{Link, bytes_at, text_at};
use global_rights::Rights;
use ways::{pam_asks, ways, ways_of_mysql};

const OPERATION: &str = "read its accounts";

/// Seconds of a day, in which lifetimes of passwords are counted.
const DAY_S: i64 = 86_400;

/// MariaDB's bit for SUPER in `mysql.global_priv`, as in its grant tables.
const SUPER: u64 = 1 << 15;

/// MariaDB's privileges on everything that all its releases have. An account that has them all may be said to
/// have more, which are of later releases.
const ALL_MARIADB: u64 = (1 << 38) - 1;

/// The rights of an account that has all privileges on everything.
const EVERYTHING: u64 = 1;

/// What a login is given by roles, as a number that changes with it.
const ROLES_MARIADB: &str =
    "SELECT SUM(CRC32(CONCAT_WS(',', Host, User, Role, Admin_option))) FROM mysql.roles_mapping";

const ROLES_MYSQL: &str = "SELECT CONCAT_WS(',', \
     (SELECT SUM(CRC32(CONCAT_WS(',', FROM_HOST, FROM_USER, TO_HOST, TO_USER))) \
         FROM mysql.role_edges), \
     (SELECT SUM(CRC32(CONCAT_WS(',', HOST, USER, DEFAULT_ROLE_HOST, DEFAULT_ROLE_USER))) \
         FROM mysql.default_roles), \
     (SELECT SUM(CRC32(CONCAT_WS(',', USER, HOST, PRIV))) FROM mysql.global_grants), \
     (SELECT SUM(CRC32(CONCAT_WS(',', u.User, u.Host, PRIVILEGES))) FROM mysql.user u \
         JOIN mysql.role_edges ON User = FROM_USER AND Host = FROM_HOST), \
     @@mandatory_roles, @@activate_all_roles_on_login)";

/// Tables of grants that both engines have: whose each row is, and what makes it. A row is told from
/// others by all of its key but the grantee, so that two accounts with the same grants have the same
/// rows.
const GRANTS: [(&str, &str); 5] = [
    ("db", "Db, PRIVILEGES"),
    ("tables_priv", "Db, Table_name, Table_priv, Column_priv"),
    ("columns_priv", "Db, Table_name, Column_name, Column_priv"),
    ("procs_priv", "Db, Routine_type, Routine_name, Proc_priv"),
    ("proxies_priv", "Proxied_host, Proxied_user, With_grant"),
];

const GRANTS_MARIADB: [(&str, &str); 1] = [("roles_mapping", "Role, Admin_option")];

/// What only MySQL has; the grantee of a role is at the edge's end.
const GRANTS_MYSQL: [(&str, &str); 3] = [
    ("global_grants", "PRIV, WITH_GRANT_OPTION"),
    ("default_roles", "DEFAULT_ROLE_HOST, DEFAULT_ROLE_USER"),
    (
        "(SELECT TO_USER AS User, TO_HOST AS Host, FROM_USER, FROM_HOST, WITH_ADMIN_OPTION \
          FROM mysql.role_edges) AS edges",
        "FROM_USER, FROM_HOST, WITH_ADMIN_OPTION",
    ),
];

/// The columns of `mysql.db`.
const OF_DATABASE: &str = "Select_priv, Insert_priv, Update_priv, Delete_priv, Create_priv, \
     Drop_priv, Grant_priv, References_priv, Index_priv, Alter_priv, Create_tmp_table_priv, \
     Lock_tables_priv, Create_view_priv, Show_view_priv, Create_routine_priv, Alter_routine_priv, \
     Execute_priv, Event_priv, Trigger_priv";

/// The columns of MySQL's `mysql.user`.
const OF_USER: &str = "Select_priv, Insert_priv, Update_priv, Delete_priv, Create_priv, Drop_priv, \
     Reload_priv, Shutdown_priv, Process_priv, File_priv, Grant_priv, References_priv, Index_priv, \
     Alter_priv, Show_db_priv, Super_priv, Create_tmp_table_priv, Lock_tables_priv, Execute_priv, \
     Repl_slave_priv, Repl_client_priv, Create_view_priv, Show_view_priv, Create_routine_priv, \
     Alter_routine_priv, Create_user_priv, Event_priv, Trigger_priv, Create_tablespace_priv, \
     Create_role_priv, Drop_role_priv";

/// Since this release MySQL's accounts can be locked by wrong passwords.
const LOCKING_SINCE: u32 = 80_019;

/// Reads all accounts that may log in, roles left out.
pub async fn accounts(link: &mut Link, timeout_ms: u64) -> Result<Accounts, Error> {
    match link.version().engine {
        Engine::MariaDb => mariadb(link, timeout_ms).await,
        Engine::MySql => mysql(link, timeout_ms).await,
    }
}

/// Where this server sees the link's own end, which is where it sees clients that come through this router;
/// `None` where it knows only a name. It is asked once for each link.
pub async fn seen_as(link: &mut Link, timeout_ms: u64) -> Result<Option<IpAddr>, Error> {
    if let Some(seen) = link.seen_as {
        return Ok(seen);
    }
    let seen = ask_seen_as(link, timeout_ms).await?;
    link.seen_as = Some(seen);
    Ok(seen)
}

async fn ask_seen_as(link: &mut Link, timeout_ms: u64) -> Result<Option<IpAddr>, Error> {
    let sql = "SELECT SUBSTRING_INDEX(USER(), '@', -1)";
    let host = link.cell(OPERATION, sql, timeout_ms).await?;
    Ok(host.and_then(|host| match &*host {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        host => host.parse().ok(),
    }))
}

/// The answer of a server to one of several questions.
type Answered = Result<Vec<Row>, Error>;

/// What stands for the roles' gifts. A server that does not let them be read has them unchanged for ever.
fn roles(answered: Answered) -> u64 {
    answered.map_or(0, |rows| {
        digest(&rows.first().and_then(|row| bytes_at(row, 0)))
    })
}

/// What is granted, by user and host: a number for each that stands for all of its rows.
type Granted = BTreeMap<(String, String), String>;

/// The grants of all accounts and roles that have any on less than everything. `None` where a server does
/// not let them be read.
fn granted(answered: Answered) -> Option<Granted> {
    let rows = answered.ok()?;
    let cell = |row: &_, index| text_at(row, index).unwrap_or_default();
    let each = rows
        .iter()
        .map(|row| ((cell(row, 0), cell(row, 1)), cell(row, 2)));
    Some(each.collect())
}

/// One row for each grantee. Rows are summed by 64 bits of SHA-256 each: their order is free, and no two
/// rows of one grantee are equal.
fn granted_sql(own: &[(&str, &str)]) -> String {
    let part = |(table, columns): &(&str, &str)| {
        let columns = columns.replace("PRIVILEGES", OF_DATABASE);
        let (name, from) = match table.starts_with('(') {
            true => ("edges", (*table).to_owned()),
            false => (*table, format!("mysql.{table}")),
        };
        format!(
            "SELECT CAST(User AS BINARY) AS User, CAST(Host AS BINARY) AS Host, CAST(CONV(LEFT(SHA2(CONCAT_WS(CHAR(0), '{name}', {columns}), 256), \
             16), 16, 10) AS UNSIGNED) AS part FROM {from}"
        )
    };
    let parts: Vec<String> = GRANTS.iter().chain(own).map(part).collect();
    format!(
        "SELECT User, Host, BIT_XOR(part) FROM ({}) AS parts GROUP BY User, Host",
        parts.join(" UNION ALL ")
    )
}

fn digest(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

async fn mariadb(link: &mut Link, timeout_ms: u64) -> Result<Accounts, Error> {
    let sql = "SELECT User, Host, Priv, UNIX_TIMESTAMP(), @@default_password_lifetime, \
               @@max_password_errors FROM mysql.global_priv";
    let texts = [
        sql,
        PAM_ASKS_CLEAR,
        ROLES_MARIADB,
        &granted_sql(&GRANTS_MARIADB),
        global_rights::RIGHTS_MARIADB,
        global_rights::EDGES_MARIADB,
    ];
    let answered = link.each(OPERATION, texts, timeout_ms).await?;
    let [rows, pam, gifts, grants, rights, edges] = answered;
    let (rows, pam) = (rows?, pam?);
    let pam_dialog = pam.first().and_then(|row| text_at(row, 1)).as_deref() != Some("ON");
    let mut roles = roles(gifts);
    let mut accounts = Vec::with_capacity(rows.len());
    for row in &rows {
        let user = text_at(row, 0).unwrap_or_default();
        let host = text_at(row, 1).unwrap_or_default();
        let json = bytes_at(row, 2).unwrap_or_default();
        let number = |index| text_at(row, index).and_then(|text| text.parse().ok());
        let ages = Ages {
            now_s: number(3).unwrap_or(0),
            lifetime_days: number(4).unwrap_or(0),
        };
        match from_global_priv(&user, &host, &json, &ages) {
            Some(mut account) => {
                account.locking = max_password_errors(number(5));
                account
                    .ways
                    .iter_mut()
                    .for_each(|way| pam_asks(way, pam_dialog));
                accounts.push(account);
            }
            None => roles = digest(&(roles, user, json)),
        }
    }
    let global_rights = global_rights::of(Engine::MariaDb, rights.ok(), edges.ok());
    Ok(complete(accounts, roles, granted(grants), global_rights))
}

/// Empty where PAM is not there.
const PAM_ASKS_CLEAR: &str = "SHOW GLOBAL VARIABLES LIKE 'pam_use_cleartext_plugin'";

/// MariaDB's limit is one for all accounts; its default is the greatest number, which is none.
fn max_password_errors(value: Option<i64>) -> Option<PasswordLocking> {
    let failures_max = u32::try_from(value?).ok()?;
    (1..u32::MAX)
        .contains(&failures_max)
        .then_some(PasswordLocking {
            failures_max,
            days: None,
        })
}

/// MySQL's are attributes of the account. One of them alone does nothing; less than 0 days are for ever.
fn password_locking(attributes: &[u8]) -> Option<PasswordLocking> {
    let attributes: Value = serde_json::from_slice(attributes).ok()?;
    let locking = &attributes["Password_locking"];
    let failures_max = u32::try_from(locking["failed_login_attempts"].as_u64()?).ok()?;
    let days = locking["password_lock_time_days"].as_i64()?;
    (failures_max > 0 && days != 0).then_some(PasswordLocking {
        failures_max,
        days: u32::try_from(days).ok(),
    })
}

/// The accounts, whose own privileges are known, with what else they are granted, and what roles add.
fn complete(
    mut accounts: Vec<Account>,
    roles: u64,
    granted: Option<Granted>,
    global_rights: Rights,
) -> Accounts {
    for account in &mut accounts {
        let name = (account.user.to_string(), account.host.to_string());
        account.rights = match &granted {
            _ if account.rights == EVERYTHING => EVERYTHING,
            Some(granted) => digest(&(account.privileges, granted.get(&name))),
            // Nobody can say that two of them may do the same.
            None => digest(&name),
        };
        account.privileges = digest(&(account.privileges, roles));
    }
    let mut accounts = Accounts::new(accounts);
    accounts.databases = granted.map_or(0, |granted| digest(&granted));
    accounts.global_rights = global_rights;
    accounts
}

/// Whether all of MySQL's static privileges are there.
fn all_of_user(columns: &str) -> bool {
    !columns.is_empty() && columns.bytes().all(|column| column == b'Y')
}

/// Databases that a global privilege of MySQL's does not reach: partial revokes.
fn restrictions(attributes: &str) -> Option<String> {
    let attributes: Value = serde_json::from_str(attributes).ok()?;
    Some(attributes.get("Restrictions")?.to_string())
}

async fn mysql(link: &mut Link, timeout_ms: u64) -> Result<Accounts, Error> {
    let attributes = match link.version().number >= LOCKING_SINCE {
        true => "User_attributes",
        false => "NULL",
    };
    let sql = format!(
        "SELECT User, Host, plugin, authentication_string, account_locked, Super_priv, \
         max_user_connections, password_expired='Y' OR IFNULL(password_last_changed < NOW() - \
         INTERVAL NULLIF(IFNULL(password_lifetime, @@default_password_lifetime), 0) DAY, 0), \
         ssl_type, ssl_cipher, x509_issuer, x509_subject, CONCAT({OF_USER}), \
         {attributes} FROM mysql.user"
    );
    let texts = [
        &*sql,
        &ROLES_MYSQL.replace("PRIVILEGES", OF_USER),
        &granted_sql(&GRANTS_MYSQL),
        global_rights::RIGHTS_MYSQL,
        global_rights::EDGES_MYSQL,
    ];
    let answered = link.each(OPERATION, texts, timeout_ms).await?;
    let [rows, gifts, grants, rights, edges] = answered;
    let account = |row: &_| {
        let cell = |index| text_at(row, index).unwrap_or_default();
        let hash = bytes_at(row, 3).unwrap_or_default();
        Account {
            user: cell(0).into(),
            host: cell(1).into(),
            ways: ways_of_mysql(&cell(2), &hash, &cell(13)),
            locked: cell(4) == "Y",
            expired: cell(7) == "1",
            tls: match cell(8).as_str() {
                "ANY" => TlsDemand::Any,
                "X509" => TlsDemand::X509,
                "SPECIFIED" => TlsDemand::Specified {
                    cipher: cell(9),
                    issuer: cell(10),
                    subject: cell(11),
                },
                _ => TlsDemand::None,
            },
            connections_max: cell(6).parse().unwrap_or(0),
            locking: bytes_at(row, 13).and_then(|attributes| password_locking(&attributes)),
            admin: cell(5) == "Y",
            privileges: digest(&(cell(12), restrictions(&cell(13)))),
            rights: match all_of_user(&cell(12)) && restrictions(&cell(13)).is_none() {
                true => EVERYTHING,
                false => 0,
            },
        }
    };
    let accounts = rows?.iter().map(account).collect();
    let global_rights = global_rights::of(Engine::MySql, rights.ok(), edges.ok());
    Ok(complete(
        accounts,
        roles(gifts),
        granted(grants),
        global_rights,
    ))
}

/// By which a password's age is judged.
#[derive(Clone, Copy, Debug, Default)]
struct Ages {
    now_s: i64,
    /// Of accounts without a lifetime of their own; 0 for ever.
    lifetime_days: i64,
}

impl Ages {
    /// MariaDB writes «expired» as a password that was last changed at 0.
    fn expired(&self, privileges: &Value) -> bool {
        let Some(changed_s) = privileges["password_last_changed"].as_i64() else {
            return false;
        };
        let own = privileges["password_lifetime"].as_i64();
        let days = own.filter(|&days| days >= 0).unwrap_or(self.lifetime_days);
        changed_s == 0
            || (days > 0 && self.now_s >= changed_s.saturating_add(days.saturating_mul(DAY_S)))
    }
}

/// One row of `mysql.global_priv`; `None` for a role, which cannot log in.
fn from_global_priv(user: &str, host: &str, json: &[u8], ages: &Ages) -> Option<Account> {
    let privileges: Value = serde_json::from_slice(json).unwrap_or(Value::Null);
    if privileges["is_role"] == Value::Bool(true) {
        return None;
    }
    let access = privileges["access"].as_u64().unwrap_or(0);
    Some(Account {
        user: user.into(),
        host: host.into(),
        ways: ways(&privileges),
        locked: privileges["account_locked"] == Value::Bool(true),
        expired: ages.expired(&privileges),
        tls: tls_demand(&privileges),
        connections_max: privileges["max_user_connections"]
            .as_u64()
            .and_then(|max| u32::try_from(max).ok())
            .unwrap_or(0),
        locking: None,
        admin: access & SUPER != 0,
        privileges: digest(&(access, privileges["default_role"].as_str())),
        rights: match access & ALL_MARIADB {
            ALL_MARIADB => EVERYTHING,
            _ => 0,
        },
    })
}

/// The clause REQUIRE, in MariaDB's numbers.
fn tls_demand(privileges: &Value) -> TlsDemand {
    let text = |key: &str| privileges[key].as_str().unwrap_or_default().to_owned();
    match privileges["ssl_type"].as_i64() {
        Some(1) => TlsDemand::Any,
        Some(2) => TlsDemand::X509,
        Some(3) => TlsDemand::Specified {
            cipher: text("ssl_cipher"),
            issuer: text("x509_issuer"),
            subject: text("x509_subject"),
        },
        _ => TlsDemand::None,
    }
}

#[cfg(test)]
mod tests {
    use farm::AuthPlugin;

    use super::*;

    fn read(json: &str) -> Account {
        let ages = Ages {
            now_s: 2_000_000,
            lifetime_days: 0,
        };
        from_global_priv("u", "%", json.as_bytes(), &ages).expect("no role")
    }

    #[test]
    fn global_priv_of_a_plain_account() {
        let account = read(r#"{"access":0,"plugin":"mysql_native_password"}"#);
        assert_eq!(account.ways, [AuthPlugin::Native(None)]);
        assert!(!account.admin && !account.locked);
    }

    #[test]
    fn global_priv_of_all_privileges_and_of_a_locked_account() {
        let json = r#"{"access":18446744073709551615,"plugin":"mysql_native_password",
            "authentication_string":"","account_locked":true,"password_last_changed":0}"#;
        let account = read(json);
        assert!(account.admin && account.locked && account.expired);
        assert_eq!(account.ways, [AuthPlugin::Native(None)]);
        assert!(
            !read(r#"{"access":16384}"#).admin,
            "one privilege is not SUPER"
        );
    }

    #[test]
    fn passwords_expire_by_command_and_by_age() {
        let changed = |json: &str| read(json).expired;
        assert!(changed(r#"{"password_last_changed":0}"#));
        assert!(!changed(
            r#"{"password_last_changed":1,"password_lifetime":-1}"#
        ));
        assert!(changed(
            r#"{"password_last_changed":1,"password_lifetime":20}"#
        ));
        assert!(!changed(
            r#"{"password_last_changed":1000000,"password_lifetime":20}"#
        ));
        assert!(!changed(r#"{}"#));
        assert_eq!(read(r#"{"max_user_connections":3}"#).connections_max, 3);
    }

    #[test]
    fn what_locks_an_account() {
        let of = |json: &str| password_locking(json.as_bytes()).map(|l| (l.failures_max, l.days));
        let both = |failures: i64, days: i64| {
            format!(
                r#"{{"Password_locking": {{"failed_login_attempts": {failures},
                "password_lock_time_days": {days}}}}}"#
            )
        };
        assert_eq!(of(&both(3, 2)), Some((3, Some(2))));
        assert_eq!(of(&both(3, -1)), Some((3, None)));
        assert_eq!([of(&both(3, 0)), of(&both(0, 2))], [None, None]);
        assert_eq!([of(""), of("{}"), of(r#"{"metadata": {}}"#)], [None; 3]);
        let global = |value| max_password_errors(value).map(|l| (l.failures_max, l.days));
        assert_eq!(global(Some(3)), Some((3, None)));
        assert_eq!(global(Some(u32::MAX.into())), None, "the default");
        assert_eq!([global(Some(0)), global(None)], [None, None]);
    }

    #[test]
    fn roles_and_damaged_rows() {
        assert_eq!(
            from_global_priv("r", "", br#"{"is_role":true}"#, &Ages::default()),
            None
        );
        // A row that is no JSON admits nobody with rights: MariaDB itself treats it as no privilege.
        let damaged = from_global_priv("u", "%", b"{", &Ages::default()).expect("an account");
        assert!(!damaged.admin);
    }
}
