//! Whether a password that a client has told is the one whose hash an account has.

use farm::AuthPlugin;
use mysql_wire::auth::{self, ParsecTerms};

use crate::secrets::BackendCredential;

/// The way to log in takes this password, as can be seen at once.
pub fn fits(way: &AuthPlugin, configured: Option<&BackendCredential>, password: &[u8]) -> bool {
    match way {
        AuthPlugin::Native(None) => password.is_empty(),
        AuthPlugin::Native(Some(stage2)) => {
            auth::native_stage2(&auth::native_stage1(password)) == *stage2
        }
        AuthPlugin::CachingSha2(hash) | AuthPlugin::Sha256(hash) => {
            hash.is_empty() && password.is_empty()
        }
        AuthPlugin::Ed25519(public) => auth::ed25519_public(password) == *public,
        // One password is not enough, or is looked at elsewhere.
        AuthPlugin::Factors(_) | AuthPlugin::Parsec { .. } => false,
        AuthPlugin::Socket { .. } | AuthPlugin::Unsupported(_) | AuthPlugin::Clear { .. } => {
            configured.is_some_and(|one| {
                let same = |known: &[u8]| auth::equal(known, password);
                one.password.with(same) == Some(true)
            })
        }
    }
}

/// Whether it is the password whose hash a server stored for this way to log in. Takes milliseconds: the
/// verifiers do it.
pub fn is_stored(password: &[u8], way: &AuthPlugin) -> bool {
    match way {
        AuthPlugin::CachingSha2(hash) => auth::sha2_stored_verify(password, hash),
        AuthPlugin::Sha256(hash) => auth::sha256_stored_verify(password, hash),
        &AuthPlugin::Parsec {
            doublings,
            salt,
            ref public,
        } => {
            let terms = ParsecTerms { doublings, salt };
            auth::equal(&terms.public(password), public)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_fits_its_own_account() {
        let hash = auth::native_stage2(&auth::native_stage1(b"secret"));
        let cases = [
            (AuthPlugin::Native(None), "", "secret"),
            (AuthPlugin::Native(Some(hash)), "secret", ""),
            (AuthPlugin::Ed25519(auth::ed25519_public(b"secret")), "secret", "Secret"),
            (AuthPlugin::CachingSha2(Vec::new().into()), "", "x"),
        ];
        for (way, right, wrong) in cases {
            assert!(fits(&way, None, right.as_bytes()), "{way:?}");
            assert!(!fits(&way, None, wrong.as_bytes()), "{way:?}");
        }
        let unknown = AuthPlugin::Unsupported("pam".into());
        assert!(!fits(&unknown, None, b""));
    }
}
