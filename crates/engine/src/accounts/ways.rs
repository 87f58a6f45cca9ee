//! By what an account can be logged in to, as the servers keep it: plugins and what is stored of passwords.

use std::sync::Arc;

use farm::AuthPlugin;
use mysql_wire::auth::{ParsecTerms, ed25519_public_parse, native_stage2_parse};
use serde_json::Value;

const NATIVE: &str = "mysql_native_password";
const CACHING_SHA2: &str = "caching_sha2_password";
const SHA256: &str = "sha256_password";
const ED25519: &str = "ed25519";
const PARSEC: &str = "parsec";

/// Those that ask the operating system who is at the other end of a Unix socket.
const SOCKETS: [&str; 2] = ["unix_socket", "auth_socket"];

/// Plugins to which the client sends the password itself, and whether by MariaDB's `dialog`; MariaDB's own
/// can be told to do without.
const CLEAR: [(&str, bool); 5] = [
    ("pam", true),
    ("auth_pam", true),
    ("auth_pam_compat", false),
    ("authentication_pam", false),
    ("authentication_ldap_simple", false),
];
/// MariaDB's, whose setting says how it asks.
const PAM: &str = "pam";

/// A hash that no password has: what `invalid` and damaged hashes become, so that the client gets
/// «access denied» as from the server itself.
const NO_PASSWORD_FITS: AuthPlugin = AuthPlugin::Native(Some([0; 20]));

/// How MariaDB's PAM asks for a password is set for the server.
pub(super) fn pam_asks(way: &mut AuthPlugin, by_dialog: bool) {
    if let AuthPlugin::Clear { plugin, dialog } = way
        && **plugin == *PAM
    {
        *dialog = by_dialog;
    }
}

/// The account's own way, and the same with the password that ALTER USER … RETAIN CURRENT PASSWORD kept. Of
/// an account with several factors no single one lets anybody in.
pub(super) fn ways_of_mysql(name: &str, hash: &[u8], attributes: &str) -> Vec<AuthPlugin> {
    let attributes: Value = serde_json::from_str(attributes).unwrap_or(Value::Null);
    if let Some(factors) = attributes["multi_factor_authentication"].as_array()
        && !factors.is_empty()
    {
        let names = factors
            .iter()
            .map(|one| one["plugin"].as_str().unwrap_or("?"));
        let names: Vec<&str> = names.collect();
        return vec![AuthPlugin::Factors(names.join(" and ").into())];
    }
    let mut ways = vec![plugin(name, hash)];
    if let Some(retained) = attributes["additional_password"].as_str()
        && !retained.is_empty()
    {
        ways.push(plugin(name, retained.as_bytes()));
    }
    ways
}

/// The ways to log in. With `auth_or` an account has several; an empty element stands for the one at
/// the top.
pub(super) fn ways(privileges: &Value) -> Vec<AuthPlugin> {
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
        PARSEC => parsec(hash),
        socket if SOCKETS.contains(&socket) => AuthPlugin::Socket {
            plugin: socket.into(),
            os_user: String::from_utf8_lossy(hash).into(),
        },
        other => match CLEAR.iter().find(|(name, _)| *name == other) {
            Some((name, dialog)) => AuthPlugin::Clear {
                plugin: (*name).into(),
                dialog: *dialog,
            },
            None => AuthPlugin::Unsupported(other.into()),
        },
    }
}

fn parsec(stored: &[u8]) -> AuthPlugin {
    let Some((terms, public)) = ParsecTerms::parse(stored) else {
        return NO_PASSWORD_FITS;
    };
    AuthPlugin::Parsec {
        doublings: terms.doublings,
        salt: terms.salt,
        public,
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

    fn ways_of(json: &str) -> Vec<AuthPlugin> {
        ways(&serde_json::from_str(json).expect("JSON"))
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
    fn two_passwords_and_several_factors() {
        let hash = native(SECRET.as_bytes());
        let of = |attributes: &str| ways_of_mysql(NATIVE, b"", attributes);
        assert_eq!(of(""), [AuthPlugin::Native(None)]);
        let retained = format!(r#"{{"additional_password": "{SECRET}"}}"#);
        assert_eq!(of(&retained), [AuthPlugin::Native(None), hash]);
        assert_eq!(of(r#"{"additional_password": ""}"#).len(), 1);
        // Salts have control characters.
        let sha2 = ways_of_mysql(
            CACHING_SHA2,
            b"$A$005$x",
            r#"{"additional_password": "$A$005$\u0001\n\"y"}"#,
        );
        assert_eq!(
            sha2[1],
            AuthPlugin::CachingSha2(Arc::from(&b"$A$005$\x01\n\"y"[..]))
        );
        let factors = r#"{"multi_factor_authentication": [{"plugin": "authentication_webauthn"}],
            "additional_password": "x"}"#;
        assert_eq!(
            of(factors),
            [AuthPlugin::Factors("authentication_webauthn".into())]
        );
        assert_eq!(of(r#"{"multi_factor_authentication": []}"#).len(), 1);
    }

    #[test]
    fn plugins_that_need_the_password_itself() {
        let pam = |dialog| AuthPlugin::Clear {
            plugin: "pam".into(),
            dialog,
        };
        let mut way = plugin("pam", b"mysql");
        assert_eq!(way, pam(true));
        pam_asks(&mut way, false);
        assert_eq!(way, pam(false));
        let mut ldap = plugin("authentication_ldap_simple", b"");
        pam_asks(&mut ldap, true);
        assert!(matches!(ldap, AuthPlugin::Clear { dialog: false, .. }));
        assert_eq!(plugin(PARSEC, b"P0:x:y"), NO_PASSWORD_FITS);
        assert!(matches!(
            plugin(
                PARSEC,
                b"P0:AQIDBAUGBwgJCgsMDQ4PEBES:Gnd4wCHlzSphQI3fTActL1GTImv1fKdOXzucRojTOsw"
            ),
            AuthPlugin::Parsec { doublings: 0, .. }
        ));
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

    #[test]
    fn global_priv_with_several_ways_to_log_in() {
        // What mariadb-install-db makes for root: no password fits, or the Unix socket.
        let root = r#"{"access":32768,"plugin":"mysql_native_password",
            "authentication_string":"invalid","auth_or":[{},{"plugin":"unix_socket"}]}"#;
        let socket = AuthPlugin::Socket {
            plugin: "unix_socket".into(),
            os_user: "".into(),
        };
        assert_eq!(ways_of(root), [NO_PASSWORD_FITS, socket.clone()]);
        let both = format!(
            r#"{{"plugin":"unix_socket","auth_or":[{{}},{{"plugin":"mysql_native_password",
            "authentication_string":"{SECRET}"}}]}}"#
        );
        assert_eq!(ways_of(&both), [socket, native(SECRET.as_bytes())]);
        let key = "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        let signs = |key| format!(r#"{{"plugin":"ed25519","authentication_string":"{key}"}}"#);
        assert!(matches!(ways_of(&signs(key))[..], [AuthPlugin::Ed25519(_)]));
        assert_eq!(ways_of(&signs("x")), [NO_PASSWORD_FITS]);
    }
}
