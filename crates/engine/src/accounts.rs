//! The accounts of a server, as the data plane needs them to admit clients.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use farm::{Account, Accounts, AuthPlugin, Engine, TlsDemand};
use mysql_wire::auth::{ed25519_public_parse, native_stage2_parse};
use serde_json::Value;

use crate::error::Error;
use crate::link::{Link, bytes_at, text_at};

const OPERATION: &str = "read its accounts";

const NATIVE: &str = "mysql_native_password";
const CACHING_SHA2: &str = "caching_sha2_password";
const SHA256: &str = "sha256_password";
const ED25519: &str = "ed25519";

/// Seconds of a day, in which lifetimes of passwords are counted.
const DAY_S: i64 = 86_400;

/// MariaDB's bit for SUPER in `mysql.global_priv`, as in its grant tables.
const SUPER: u64 = 1 << 15;

/// A hash that no password has: what `invalid` and damaged hashes become, so that the client gets
/// «access denied» as from the server itself.
const NO_PASSWORD_FITS: AuthPlugin = AuthPlugin::Native(Some([0; 20]));

/// What a login is given by roles, and privileges on databases, as two numbers that change with them.
const GRANTS_MARIADB: &str = "SELECT \
     (SELECT SUM(CRC32(CONCAT_WS(',', Host, User, Role, Admin_option))) FROM mysql.roles_mapping), \
     (SELECT SUM(CRC32(CONCAT_WS(',', Host, Db, User, PRIVILEGES))) FROM mysql.db)";

const GRANTS_MYSQL: &str = "SELECT CONCAT_WS(',', \
     (SELECT SUM(CRC32(CONCAT_WS(',', FROM_HOST, FROM_USER, TO_HOST, TO_USER))) \
         FROM mysql.role_edges), \
     (SELECT SUM(CRC32(CONCAT_WS(',', HOST, USER, DEFAULT_ROLE_HOST, DEFAULT_ROLE_USER))) \
         FROM mysql.default_roles), \
     (SELECT SUM(CRC32(CONCAT_WS(',', USER, HOST, PRIV))) FROM mysql.global_grants), \
     (SELECT SUM(CRC32(CONCAT_WS(',', u.User, u.Host, PRIVILEGES))) FROM mysql.user u \
         JOIN mysql.role_edges ON User = FROM_USER AND Host = FROM_HOST), \
     @@mandatory_roles, @@activate_all_roles_on_login), \
     (SELECT SUM(CRC32(CONCAT_WS(',', Host, Db, User, PRIVILEGES))) FROM mysql.db)";

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

/// Reads all accounts that may log in, roles left out.
pub async fn accounts(link: &mut Link, timeout_ms: u64) -> Result<Accounts, Error> {
    match link.version().engine {
        Engine::MariaDb => mariadb(link, timeout_ms).await,
        Engine::MySql => mysql(link, timeout_ms).await,
    }
}

/// What stands for the roles' gifts, and for privileges on databases. A server that does not let them
/// be read has them unchanged for ever.
async fn grants(link: &mut Link, sql: &str, timeout_ms: u64) -> Result<[u64; 2], Error> {
    let rows = match link.rows(OPERATION, sql, timeout_ms).await {
        Err(error) if error.number().is_some() => return Ok([0, 0]),
        rows => rows?,
    };
    let cell = |index| rows.first().and_then(|row| bytes_at(row, index));
    Ok([digest(&cell(0)), digest(&cell(1))])
}

fn digest(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

async fn mariadb(link: &mut Link, timeout_ms: u64) -> Result<Accounts, Error> {
    let sql = "SELECT User, Host, Priv, UNIX_TIMESTAMP(), @@default_password_lifetime \
               FROM mysql.global_priv";
    let rows = link.rows(OPERATION, sql, timeout_ms).await?;
    let sql = GRANTS_MARIADB.replace("PRIVILEGES", OF_DATABASE);
    let [mut roles, databases] = grants(link, &sql, timeout_ms).await?;
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
            Some(account) => accounts.push(account),
            None => roles = digest(&(roles, user, json)),
        }
    }
    Ok(complete(accounts, roles, databases))
}

/// The accounts, whose own privileges are known, with what roles and databases add.
fn complete(mut accounts: Vec<Account>, roles: u64, databases: u64) -> Accounts {
    for account in &mut accounts {
        account.privileges = digest(&(account.privileges, roles));
    }
    let mut accounts = Accounts::new(accounts);
    accounts.databases = databases;
    accounts
}

async fn mysql(link: &mut Link, timeout_ms: u64) -> Result<Accounts, Error> {
    let sql = format!(
        "SELECT User, Host, plugin, authentication_string, account_locked, Super_priv, \
         max_user_connections, password_expired='Y' OR IFNULL(password_last_changed < NOW() - \
         INTERVAL NULLIF(IFNULL(password_lifetime, @@default_password_lifetime), 0) DAY, 0), \
         ssl_type, ssl_cipher, x509_issuer, x509_subject, CONCAT({OF_USER}) FROM mysql.user"
    );
    let rows = link.rows(OPERATION, &sql, timeout_ms).await?;
    let account = |row: &_| {
        let cell = |index| text_at(row, index).unwrap_or_default();
        Account {
            user: cell(0).into(),
            host: cell(1).into(),
            ways: vec![plugin(&cell(2), &bytes_at(row, 3).unwrap_or_default())],
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
            admin: cell(5) == "Y",
            privileges: digest(&cell(12)),
        }
    };
    let accounts = rows.iter().map(account).collect();
    // The roles come first: the columns of accounts have some names of those of databases.
    let (roles, of_databases) = GRANTS_MYSQL.rsplit_once("PRIVILEGES").unwrap_or_default();
    let roles = roles.replace("PRIVILEGES", OF_USER);
    let sql = [&roles, OF_DATABASE, of_databases].concat();
    let [roles, databases] = grants(link, &sql, timeout_ms).await?;
    Ok(complete(accounts, roles, databases))
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
        admin: access & SUPER != 0,
        privileges: digest(&(access, privileges["default_role"].as_str())),
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

/// The ways to log in. With `auth_or` an account has several; an empty element stands for the one at
/// the top.
fn ways(privileges: &Value) -> Vec<AuthPlugin> {
    let own = |value: &Value| -> Option<AuthPlugin> {
        let name = value["plugin"].as_str()?;
        let hash = value["authentication_string"].as_str().unwrap_or_default();
        Some(plugin(name, hash.as_bytes()))
    };
    // Accounts older than plugins have none: a native password.
    let top = own(privileges).unwrap_or_else(|| {
        plugin(
            NATIVE,
            privileges["authentication_string"]
                .as_str()
                .unwrap_or_default()
                .as_bytes(),
        )
    });
    let Some(ways) = privileges["auth_or"].as_array() else {
        return vec![top];
    };
    let way = |way: &Value| own(way).unwrap_or_else(|| top.clone());
    ways.iter().map(way).collect()
}

fn plugin(name: &str, hash: &[u8]) -> AuthPlugin {
    match name {
        NATIVE | "" => native(hash),
        CACHING_SHA2 => AuthPlugin::CachingSha2(Arc::from(hash)),
        SHA256 => AuthPlugin::Sha256(Arc::from(hash)),
        ED25519 => ed25519_public_parse(hash).map_or(NO_PASSWORD_FITS, AuthPlugin::Ed25519),
        other => AuthPlugin::Unsupported(other.into()),
    }
}

/// `*` and 40 hex digits are SHA1(SHA1(password)); nothing at all is an empty password.
fn native(hash: &[u8]) -> AuthPlugin {
    if hash.is_empty() {
        return AuthPlugin::Native(None);
    }
    native_stage2_parse(hash).map_or(NO_PASSWORD_FITS, |stage2| AuthPlugin::Native(Some(stage2)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Account {
        let ages = Ages {
            now_s: 2_000_000,
            lifetime_days: 0,
        };
        from_global_priv("u", "%", json.as_bytes(), &ages).expect("no role")
    }

    /// SHA1(SHA1("secret")), as `SELECT PASSWORD('secret')` shows it.
    const SECRET: &str = "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";

    #[test]
    fn native_hashes() {
        let AuthPlugin::Native(Some(hash)) = native(SECRET.as_bytes()) else {
            panic!("a hash")
        };
        assert_eq!((hash[0], hash[1], hash[19]), (0x14, 0xE6, 0xE7));
        assert_eq!(native(b""), AuthPlugin::Native(None));
        assert_eq!(native(b"invalid"), NO_PASSWORD_FITS);
        assert_eq!(native(b"*14E6"), NO_PASSWORD_FITS);
        assert_eq!(
            native(format!("*{}", "zz".repeat(20)).as_bytes()),
            NO_PASSWORD_FITS
        );
    }

    #[test]
    fn global_priv_of_a_plain_account() {
        let account = read(&format!(
            r#"{{"access":0,"plugin":"mysql_native_password","authentication_string":"{SECRET}"}}"#
        ));
        assert_eq!(account.ways, [native(SECRET.as_bytes())]);
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
    fn global_priv_with_several_ways_to_log_in() {
        // What mariadb-install-db makes for root: no password fits, or the Unix socket.
        let root = r#"{"access":32768,"plugin":"mysql_native_password",
            "authentication_string":"invalid","auth_or":[{},{"plugin":"unix_socket"}]}"#;
        let socket = AuthPlugin::Unsupported("unix_socket".into());
        assert_eq!(read(root).ways, [NO_PASSWORD_FITS, socket.clone()]);
        let both = format!(
            r#"{{"plugin":"unix_socket","auth_or":[{{}},{{"plugin":"mysql_native_password",
            "authentication_string":"{SECRET}"}}]}}"#
        );
        assert_eq!(read(&both).ways, [socket, native(SECRET.as_bytes())]);
        let key = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        let signs = |key| format!(r#"{{"plugin":"ed25519","authentication_string":"{key}"}}"#);
        assert!(matches!(
            read(&signs(key)).ways[..],
            [AuthPlugin::Ed25519(_)]
        ));
        assert_eq!(read(&signs("x")).ways, [NO_PASSWORD_FITS]);
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
    fn roles_and_damaged_rows() {
        assert_eq!(
            from_global_priv("r", "", br#"{"is_role":true}"#, &Ages::default()),
            None
        );
        // A row that is no JSON admits nobody with rights: MariaDB itself treats it as no privilege.
        let damaged = from_global_priv("u", "%", b"{", &Ages::default()).expect("an account");
        assert!(!damaged.admin);
    }

    #[test]
    fn sha2_hashes_are_bytes_and_not_text() {
        let hash = b"$A$005$\x01\xff\x00rest";
        assert_eq!(
            plugin(CACHING_SHA2, hash),
            AuthPlugin::CachingSha2(Arc::from(&hash[..]))
        );
        assert_eq!(
            plugin(CACHING_SHA2, b""),
            AuthPlugin::CachingSha2(Arc::from(&b""[..]))
        );
    }
}
