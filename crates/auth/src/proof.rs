//! What clients prove, without a word to them: what a claim says, what an offer is worth for each of an
//! account's ways to log in, and how it is refused.
//!
//! Must not know: how a client is asked, and who counts.

use std::net::IpAddr;
use std::rc::Rc;

use backend::{Credential, Profile, Secret};
use farm::local::address_of;
use farm::{Account, AuthPlugin, ClientError, Engine, TlsFacts, error};
use mysql_wire::auth::{self, SALT_BYTES};
use mysql_wire::capability::Capabilities;
use zeroize::Zeroizing;

use crate::entitled::entitlement_of;
use crate::secrets::Secrets;

/// An error, and the details for its text.
pub type Refused = (&'static ClientError, Vec<String>);

/// What a client says of itself.
pub struct Claim<'a> {
    pub user: &'a [u8],
    pub peer: IpAddr,
    pub offer: Offer,
    pub collation: u8,
    pub flags: Capabilities,
}

/// What a client has brought so far to prove itself with. Kept between two looks at the accounts,
/// because a client answers a question only once.
pub struct Offer {
    pub plugin: Vec<u8>,
    /// What the proof was made for.
    pub salt: Vec<u8>,
    /// Of some plugins it is the password itself.
    pub proof: Zeroizing<Vec<u8>>,
    /// The password, once the client has sent it.
    pub password: Option<Zeroizing<Vec<u8>>>,
}

impl Offer {
    /// The proof that came with the login, made for `plugin` and `salt`.
    pub fn new(plugin: &[u8], salt: [u8; SALT_BYTES], proof: &[u8]) -> Offer {
        Offer {
            plugin: plugin.to_vec(),
            salt: salt.to_vec(),
            proof: Zeroizing::new(proof.to_vec()),
            password: None,
        }
    }
}

/// How a client fares with one way to log in.
pub enum Proof {
    Right(Credential),
    Wrong,
    /// Heddle could not log in to servers for the client, whatever it proves.
    Unspeakable(Refused),
}

impl Proof {
    /// The way gives Heddle nothing to log in to servers with.
    pub fn unspeakable(way: &AuthPlugin) -> Proof {
        Proof::Unspeakable(match way {
            AuthPlugin::Factors(plugins) => (&error::SEVERAL_FACTORS, vec![plugins.to_string()]),
            way => (&error::AUTH_PLUGIN_UNSUPPORTED, vec![plugin_of(way).to_owned()]),
        })
    }
}

impl Offer {
    /// No password: MySQL's own client sends a NUL for it.
    pub fn is_blank(&self) -> bool {
        matches!(self.proof[..], [] | [0])
    }

    pub fn blank(&self) -> Proof {
        if self.is_blank() {
            Proof::Right(Credential::Empty)
        } else {
            Proof::Wrong
        }
    }

    /// SHA1(password), if the proof is right.
    pub fn native(&self, stage2: &[u8; 20]) -> Option<[u8; 20]> {
        auth::native_verify(&self.proof, self.salt.first_chunk()?, stage2)
    }

    /// True when the scramble is of this password.
    pub fn knows(&self, password: &Secret) -> bool {
        let Some(salt) = self.salt.first_chunk() else {
            return false;
        };
        let right = password.with(|password| {
            if self.plugin == auth::CACHING_SHA2.as_bytes() {
                let stage2 = auth::sha2_stage2(&auth::sha2_stage1(password));
                return auth::sha2_verify(&self.proof, salt, &stage2).is_some();
            }
            let stage2 = auth::native_stage2(&auth::native_stage1(password));
            auth::native_verify(&self.proof, salt, &stage2).is_some()
        });
        right == Some(true)
    }

    /// True when it is a scramble of the password that is remembered for this way.
    fn is_of_remembered(&self, account: &Account, way: &AuthPlugin, secrets: &Secrets) -> bool {
        let known = secrets.find(account, way);
        known.is_some_and(|known| self.knows(&known))
    }

    /// The account's ways to log in, first those for which the client need not be asked again.
    pub fn ways_in_order<'a>(
        &self,
        account: &'a Account,
        secrets: &Secrets,
    ) -> Vec<&'a AuthPlugin> {
        let mut ways: Vec<&AuthPlugin> = account.ways.iter().collect();
        ways.sort_by_key(|way| {
            let same = plugin_of(way).as_bytes() == self.plugin;
            (!same, !(same && self.is_of_remembered(account, way, secrets)))
        });
        ways
    }
}

impl Claim<'_> {
    pub fn profile(&self, credential: Credential, account: &Account, way: AuthPlugin) -> Profile {
        Profile {
            user: Rc::from(self.user),
            credential,
            collation: self.collation,
            flags: self.flags,
            client: Some(address_of(self.peer)),
            entitlement: entitlement_of(account, way),
        }
    }

    /// The client as the servers name it.
    pub fn who(&self) -> String {
        let user = String::from_utf8_lossy(self.user);
        match address_of(self.peer) {
            ip if ip.is_loopback() => format!("'{user}'@'localhost'"),
            ip => format!("'{user}'@'{ip}'"),
        }
    }

    pub fn denied(&self) -> Refused {
        let using = if self.offer.is_blank() { "NO" } else { "YES" };
        let who = format!("{} (using password: {using})", self.who());
        (&error::ACCESS_DENIED, vec![who])
    }

    /// What of an account keeps somebody out who knows its password. `elsewhere` says that another account
    /// logs in to the servers for it.
    pub fn barred(
        &self,
        account: &Account,
        tls: Option<&TlsFacts>,
        engine: Engine,
        elsewhere: bool,
    ) -> Option<Refused> {
        if !account.tls.is_met(tls) {
            return Some(self.denied());
        }
        if account.locked {
            let error = match engine {
                Engine::MariaDb => &error::ACCOUNT_LOCKED,
                Engine::MySql => &error::ACCOUNT_LOCKED_MYSQL,
            };
            return Some((error, vec![self.who()]));
        }
        // The login at the server would be another account's, whose password is none of theirs.
        (account.expired && elsewhere).then_some((&error::PASSWORD_EXPIRED, Vec::new()))
    }
}

/// The plugin that a client speaks for a way to log in.
pub fn plugin_of(way: &AuthPlugin) -> &str {
    match way {
        AuthPlugin::Native(_) => auth::NATIVE,
        AuthPlugin::CachingSha2(_) => auth::CACHING_SHA2,
        AuthPlugin::Sha256(_) => auth::SHA256,
        AuthPlugin::Ed25519(_) => auth::ED25519,
        AuthPlugin::Parsec { .. } => auth::PARSEC,
        AuthPlugin::Clear { dialog: true, .. } => auth::DIALOG,
        AuthPlugin::Clear { .. } => auth::CLEAR,
        AuthPlugin::Socket { plugin: name, .. }
        | AuthPlugin::Unsupported(name)
        | AuthPlugin::Factors(name) => name,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::samples;

    const SALT: [u8; SALT_BYTES] = *b"abcdefghijklmnopqrst";

    fn account(ways: Vec<AuthPlugin>) -> Account {
        Account {
            ways,
            ..samples::account()
        }
    }

    fn claim(plugin: &str, proof: &[u8]) -> Claim<'static> {
        Claim {
            user: b"app",
            peer: "10.0.0.7".parse().expect("an address"),
            offer: Offer::new(plugin.as_bytes(), SALT, proof),
            collation: 45,
            flags: Capabilities::empty(),
        }
    }

    #[test]
    fn a_native_proof_reveals_what_logs_in_to_servers() {
        let stage1 = auth::native_stage1(b"secret");
        let stage2 = auth::native_stage2(&stage1);
        let mut proof = auth::native_scramble(&stage1, &SALT).to_vec();
        let offer = |proof: &[u8]| Offer::new(auth::NATIVE.as_bytes(), SALT, proof);
        assert_eq!(offer(&proof).native(&stage2), Some(stage1));
        assert!(offer(&proof).knows(&Secret::new(b"secret")));
        assert!(!offer(&proof).knows(&Secret::new(b"Secret")));
        proof[0] ^= 1;
        assert_eq!(offer(&proof).native(&stage2), None);
    }

    #[test]
    fn only_no_password_is_blank() {
        let blank =
            |proof: &[u8]| matches!(claim(auth::NATIVE, proof).offer.blank(), Proof::Right(_));
        assert_eq!([&b""[..], b"\0", b"\0\0", b"x"].map(blank), [true, true, false, false]);
    }

    #[test]
    fn the_way_that_the_client_spoke_for_comes_first() {
        let stored = |hash: &[u8]| AuthPlugin::CachingSha2(Arc::from(hash));
        let ways = vec![
            AuthPlugin::Native(Some([1; 20])),
            stored(b"one"),
            stored(b"two"),
        ];
        let (account, secrets) = (account(ways), Secrets::default());
        let _held = secrets.remember(&account, &account.ways[2], b"secret");
        let proof = auth::sha2_scramble(&auth::sha2_stage1(b"secret"), &SALT);
        let offer = Offer::new(auth::CACHING_SHA2.as_bytes(), SALT, &proof);
        let order = offer.ways_in_order(&account, &secrets);
        let expected: Vec<&AuthPlugin> = [2, 1, 0].map(|at| &account.ways[at]).into();
        assert_eq!(order, expected, "the one that is remembered needs no word more");
    }

    #[test]
    fn who_knows_the_password_may_be_barred_all_the_same() {
        let claim = claim(auth::NATIVE, b"x");
        let barred = |account: &Account, engine, elsewhere| {
            let refused = claim.barred(account, None, engine, elsewhere);
            refused.map(|(error, details)| (error.number, details))
        };
        let open = account(Vec::new());
        assert_eq!(barred(&open, Engine::MySql, true), None);
        let mut expired = open.clone();
        expired.expired = true;
        assert_eq!(barred(&expired, Engine::MySql, false), None, "its server says so");
        let number = error::PASSWORD_EXPIRED.number;
        assert_eq!(barred(&expired, Engine::MySql, true), Some((number, Vec::new())));
        let mut locked = open.clone();
        locked.locked = true;
        let who = vec!["'app'@'10.0.0.7'".to_owned()];
        assert_eq!(barred(&locked, Engine::MariaDb, false), Some((4151, who.clone())));
        assert_eq!(barred(&locked, Engine::MySql, false), Some((3118, who)));
        let mut tls = open;
        tls.tls = farm::TlsDemand::Any;
        let denied = vec!["'app'@'10.0.0.7' (using password: YES)".to_owned()];
        assert_eq!(barred(&tls, Engine::MySql, false), Some((1045, denied)));
    }
}
