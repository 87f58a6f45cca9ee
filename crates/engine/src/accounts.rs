//! The accounts of a server, as the data plane needs them to admit clients.

use std::sync::Arc;

use farm::{Account, AuthPlugin, Engine};
use serde_json::Value;

use crate::error::Error;
use crate::link::{Link, bytes_at, text_at};

const OPERATION: &str = "read its accounts";

const NATIVE: &str = "mysql_native_password";
const CACHING_SHA2: &str = "caching_sha2_password";

/// MariaDB's bit for SUPER in `mysql.global_priv`, as in its grant tables.
const SUPER: u64 = 1 << 15;

/// A hash that no password has: what `invalid` and damaged hashes become, so that the client gets
/// «access denied» as from the server itself.
const NO_PASSWORD_FITS: AuthPlugin = AuthPlugin::Native(Some([0; 20]));

/// Reads all accounts that may log in, roles left out.
pub async fn accounts(link: &mut Link, timeout_ms: u64) -> Result<Vec<Account>, Error> {
    match link.version().engine {
        Engine::MariaDb => mariadb(link, timeout_ms).await,
        Engine::MySql => mysql(link, timeout_ms).await,
    }
}

async fn mariadb(link: &mut Link, timeout_ms: u64) -> Result<Vec<Account>, Error> {
    let rows = link
        .rows(
            OPERATION,
            "SELECT User, Host, Priv FROM mysql.global_priv",
            timeout_ms,
        )
        .await?;
    let account = |row: &_| {
        let user = text_at(row, 0).unwrap_or_default();
        let host = text_at(row, 1).unwrap_or_default();
        let json = bytes_at(row, 2).unwrap_or_default();
        from_global_priv(&user, &host, &json)
    };
    Ok(rows.iter().filter_map(account).collect())
}

async fn mysql(link: &mut Link, timeout_ms: u64) -> Result<Vec<Account>, Error> {
    let sql = "SELECT User, Host, plugin, authentication_string, account_locked, Super_priv \
               FROM mysql.user";
    let rows = link.rows(OPERATION, sql, timeout_ms).await?;
    let account = |row: &_| {
        let cell = |index| text_at(row, index).unwrap_or_default();
        Account {
            user: cell(0).into(),
            host: cell(1).into(),
            plugin: plugin(&cell(2), &bytes_at(row, 3).unwrap_or_default()),
            locked: cell(4) == "Y",
            admin: cell(5) == "Y",
        }
    };
    Ok(rows.iter().map(account).collect())
}

/// One row of `mysql.global_priv`; `None` for a role, which cannot log in.
fn from_global_priv(user: &str, host: &str, json: &[u8]) -> Option<Account> {
    let privileges: Value = serde_json::from_slice(json).unwrap_or(Value::Null);
    if privileges["is_role"] == Value::Bool(true) {
        return None;
    }
    let access = privileges["access"].as_u64().unwrap_or(0);
    Some(Account {
        user: user.into(),
        host: host.into(),
        plugin: method(&privileges),
        locked: privileges["account_locked"] == Value::Bool(true),
        admin: access & SUPER != 0,
    })
}

/// The first way to log in that Heddle can check. With `auth_or` an account has several; an empty
/// element stands for the one at the top.
fn method(privileges: &Value) -> AuthPlugin {
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
        return top;
    };
    let mut methods: Vec<AuthPlugin> = ways
        .iter()
        .map(|way| own(way).unwrap_or_else(|| top.clone()))
        .collect();
    // A hash that nothing fits is worth less than another way with a password.
    methods.sort_by_key(|method| match method {
        AuthPlugin::Unsupported(_) => 2,
        no_password_fits if *no_password_fits == NO_PASSWORD_FITS => 1,
        _ => 0,
    });
    methods.into_iter().next().unwrap_or(top)
}

fn plugin(name: &str, hash: &[u8]) -> AuthPlugin {
    match name {
        NATIVE | "" => native(hash),
        CACHING_SHA2 => AuthPlugin::CachingSha2(Arc::from(hash)),
        other => AuthPlugin::Unsupported(other.into()),
    }
}

/// `*` and 40 hex digits are SHA1(SHA1(password)); nothing at all is an empty password.
fn native(hash: &[u8]) -> AuthPlugin {
    if hash.is_empty() {
        return AuthPlugin::Native(None);
    }
    let Some(digits) = hash.strip_prefix(b"*").filter(|digits| digits.len() == 40) else {
        return NO_PASSWORD_FITS;
    };
    let mut bytes = [0u8; 20];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |c: u8| {
            char::from(c)
                .to_digit(16)
                .and_then(|value| u8::try_from(value).ok())
        };
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else {
            return NO_PASSWORD_FITS;
        };
        *byte = high << 4 | low;
    }
    AuthPlugin::Native(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Account {
        from_global_priv("u", "%", json.as_bytes()).expect("no role")
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
        assert_eq!(account.plugin, native(SECRET.as_bytes()));
        assert!(!account.admin && !account.locked);
    }

    #[test]
    fn global_priv_of_all_privileges_and_of_a_locked_account() {
        let json = r#"{"access":18446744073709551615,"plugin":"mysql_native_password",
            "authentication_string":"","account_locked":true,"password_last_changed":0}"#;
        let account = read(json);
        assert!(account.admin && account.locked);
        assert_eq!(account.plugin, AuthPlugin::Native(None));
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
        assert_eq!(read(root).plugin, NO_PASSWORD_FITS);
        let both = format!(
            r#"{{"plugin":"unix_socket","auth_or":[{{}},{{"plugin":"mysql_native_password",
            "authentication_string":"{SECRET}"}}]}}"#
        );
        assert_eq!(read(&both).plugin, native(SECRET.as_bytes()));
        let none = r#"{"plugin":"ed25519","authentication_string":"x"}"#;
        assert_eq!(read(none).plugin, AuthPlugin::Unsupported("ed25519".into()));
    }

    #[test]
    fn roles_and_damaged_rows() {
        assert_eq!(from_global_priv("r", "", br#"{"is_role":true}"#), None);
        // A row that is no JSON admits nobody with rights: MariaDB itself treats it as no privilege.
        let damaged = from_global_priv("u", "%", b"{").expect("an account");
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
