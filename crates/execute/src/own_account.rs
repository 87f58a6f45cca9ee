//! Heddle's own account at the servers, and what internal sessions may do by it.

use std::rc::Rc;
use std::sync::Arc;

use backend::{Credential, Entitlement, Profile, Secret};
use farm::AuthPlugin;
use mysql_wire::capability::Capabilities;

/// The account by which Heddle itself uses the servers.
#[derive(Clone)]
pub struct Own {
    pub user: Arc<str>,
    /// `None` for an account without a password.
    pub password: Option<Arc<Secret>>,
}

/// utf8mb4_general_ci, which both engines have.
pub const COLLATION: u8 = 45;

/// Host patterns of entitlements that no account has: of internal sessions, and of Heddle at the scratch server.
const OWN: &str = "heddle itself";
pub(crate) const AT_SCRATCH: &str = "the scratch server";

/// What Heddle may do by its own account, whatever accounts the farm has.
pub(crate) fn own_entitlement(user: &str, place: &str) -> Entitlement {
    Entitlement {
        user: user.into(),
        host: place.into(),
        way: AuthPlugin::Native(None),
        privileges: 0,
        limited: false,
        expired: false,
        alike: None,
        // Its password is the configuration's own: a server that does not take it there loses nothing.
        is_same_locally: true,
    }
}

/// True for an [`own_entitlement`].
pub(crate) fn is_own(entitlement: &Entitlement) -> bool {
    [OWN, AT_SCRATCH].contains(&&*entitlement.host)
}

impl Own {
    pub fn profile(&self) -> Profile {
        let credential = match &self.password {
            Some(password) => Credential::Password(password.clone()),
            None => Credential::Empty,
        };
        Profile {
            user: Rc::from(self.user.as_bytes()),
            credential,
            collation: COLLATION,
            flags: Capabilities::empty(),
            client: None,
            entitlement: own_entitlement(&self.user, OWN),
        }
    }
}
