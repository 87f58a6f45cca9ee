//! Who connections are logged in as, and how long what proves it stays in memory.
//!
//! A session has a [`Pass`], and so has each connection of the pools that was opened for it. What a
//! pass can prove its account with is wiped when the last of them is gone.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::sync::{Arc, Mutex, PoisonError};

use farm::AuthPlugin;
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use rustc_hash::FxHashMap;
use zeroize::Zeroizing;

/// A password in memory: overwritten when nobody needs it any more, or when it has become wrong.
/// Shared by the cores.
pub struct Secret {
    bytes: Mutex<Option<Zeroizing<Vec<u8>>>>,
}

impl Secret {
    /// A password, which lives as long as somebody holds this.
    pub fn new(password: &[u8]) -> Arc<Secret> {
        let bytes = Zeroizing::new(password.to_vec());
        Arc::new(Secret {
            bytes: Mutex::new(Some(bytes)),
        })
    }

    /// Does something with the password; `None` when it has been wiped.
    pub fn with<T>(&self, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.as_ref().map(|bytes| work(bytes))
    }

    /// Forgets the password now, whoever holds it.
    pub fn wipe(&self) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The same password. One that was wiped is equal to itself only.
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        if std::ptr::eq(self, other) {
            return true;
        }
        // One lock at a time: two that compare the other way round cannot wait for each other.
        let theirs = other.with(|bytes| Zeroizing::new(bytes.to_vec()));
        theirs.is_some_and(|theirs| self.with(|mine| auth::equal(mine, &theirs)) == Some(true))
    }
}

impl Eq for Secret {}

/// What an account's identity can be proved with.
#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    /// The account has no password.
    Empty,
    /// SHA1(password): enough for `mysql_native_password`.
    NativeStage1(Zeroizing<[u8; 20]>),
    /// The password itself: enough for every plugin that Heddle speaks.
    Password(Arc<Secret>),
}

/// Secrets stay out of logs.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credential::Empty => "Empty",
            Credential::NativeStage1(_) => "NativeStage1(…)",
            Credential::Password(_) => "Password(…)",
        })
    }
}

/// The account by which a client was let in, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entitlement {
    /// Name and host pattern of the account; the name is empty for the anonymous one.
    pub user: Arc<str>,
    pub host: Arc<str>,
    /// The way in which the client proved itself.
    pub way: AuthPlugin,
    /// What stood for the account's global privileges and roles: a login keeps those that it found.
    pub privileges: u64,
    /// The servers count the account's connections, so none may be idle for nobody.
    pub limited: bool,
    /// The password has expired: servers refuse everything but a change of it. Connections are left
    /// as their login made them, and serve one session only.
    pub expired: bool,
    /// Where the servers know several accounts by which such a login could be taken, and not all may
    /// do the same: those that may do what this one may, it among them, each with its user and host.
    pub alike: Option<Arc<[UserAtHost]>>,
    /// A server that is reached by its Unix socket finds the same account, as that of a client at
    /// `localhost`.
    pub is_same_locally: bool,
}

/// The name and the host pattern of an account.
pub type UserAtHost = (Arc<str>, Arc<str>);

/// How a login looks to the server: what cannot be changed later on the same connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub user: Rc<[u8]>,
    pub credential: Credential,
    pub collation: u8,
    /// The client's flags that change what the server does: FOUND_ROWS, IGNORE_SPACE, INTERACTIVE,
    /// MULTI_STATEMENTS, …
    pub flags: Capabilities,
    /// Where the client is, for servers that are told: then its connections are shared only with others
    /// of that address. `None` for Heddle itself.
    pub client: Option<IpAddr>,
    pub entitlement: Entitlement,
}

/// The right to use the connections of one profile; clones are the same right.
#[derive(Clone, Debug)]
pub struct Pass(Rc<Registered>);

#[derive(Debug)]
struct Registered {
    number: u32,
    /// The same for all passes of one user name.
    user: u32,
    profile: Profile,
    /// The account has changed since: connections go on, new ones can hardly be had.
    stale: Cell<bool>,
    /// How often it became unsure whether servers take its logins for the right account. Connections from
    /// before serve nobody any more.
    edition: Cell<u32>,
}

impl Pass {
    /// How the connections of this pass log in.
    pub fn profile(&self) -> &Profile {
        &self.0.profile
    }

    /// The account has changed since.
    pub(crate) fn is_stale(&self) -> bool {
        self.0.stale.get()
    }

    pub(crate) fn edition(&self) -> u32 {
        self.0.edition.get()
    }

    pub(crate) fn number(&self) -> u32 {
        self.0.number
    }

    /// A number above 0 for the user.
    pub(crate) fn user(&self) -> u32 {
        self.0.user
    }

    /// True when its connections are closed as soon as no session has the pass.
    pub fn ends_with_sessions(&self) -> bool {
        let entitlement = &self.0.profile.entitlement;
        self.0.stale.get() || entitlement.limited || entitlement.expired
    }

    /// Sessions and connections that have this pass.
    pub(crate) fn holders(&self) -> usize {
        Rc::strong_count(&self.0)
    }
}

/// The passes of one user; those that nobody has any more are left out when it is looked at.
type OfUser = Vec<Weak<Registered>>;

/// The passes of one core that somebody has.
#[derive(Default)]
pub(crate) struct Passes {
    by_user: RefCell<FxHashMap<Rc<[u8]>, OfUser>>,
    by_number: RefCell<FxHashMap<u32, Weak<Registered>>>,
    last: Cell<u32>,
}

impl Passes {
    /// The pass for this profile: the one that others have already, else a new one.
    pub(crate) fn pass(&self, profile: Profile) -> Pass {
        let mut by_user = self.by_user.borrow_mut();
        let of_user = by_user.entry(profile.user.clone()).or_default();
        of_user.retain(|known| known.strong_count() > 0);
        let mut known = of_user.iter().filter_map(Weak::upgrade);
        if let Some(known) = known.find(|known| known.profile == profile) {
            return Pass(known);
        }
        drop(known);
        let mut by_number = self.by_number.borrow_mut();
        let mut number = self.last.get().wrapping_add(1);
        while number == 0 || by_number.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        self.last.set(number);
        let sibling = of_user.iter().find_map(Weak::upgrade);
        let user = sibling.map_or(number, |sibling| sibling.user);
        let stale = Cell::new(false);
        let edition = Cell::new(0);
        let registered = Rc::new(Registered {
            number,
            user,
            profile,
            stale,
            edition,
        });
        of_user.push(Rc::downgrade(&registered));
        by_number.insert(number, Rc::downgrade(&registered));
        Pass(registered)
    }

    /// The pass of this number, while somebody has it.
    pub(crate) fn find(&self, number: u32) -> Option<Pass> {
        let by_number = self.by_number.borrow();
        by_number.get(&number)?.upgrade().map(Pass)
    }

    /// Marks the passes whose accounts are not `valid` any more, and begins another edition of those that
    /// are not `alike`.
    pub(crate) fn review(
        &self,
        valid: impl Fn(&Entitlement) -> bool,
        alike: impl Fn(&Entitlement) -> bool,
    ) {
        for known in self.by_number.borrow().values().filter_map(Weak::upgrade) {
            let entitlement = &known.profile.entitlement;
            let (is_valid, is_alike) = (valid(entitlement), alike(entitlement));
            known.stale.set(!is_valid || !is_alike);
            if !is_alike {
                known.edition.set(known.edition.get().wrapping_add(1));
            }
        }
    }

    /// Forgets the passes that nobody has.
    pub(crate) fn prune(&self) {
        let mut by_number = self.by_number.borrow_mut();
        let before = by_number.len();
        by_number.retain(|_, known| known.strong_count() > 0);
        if by_number.len() < before {
            self.by_user.borrow_mut().retain(|_, known| {
                known.retain(|known| known.strong_count() > 0);
                !known.is_empty()
            });
        }
    }

    /// How many are known, those that nobody has any more among them.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.by_number.borrow().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(secret: &Arc<Secret>) -> Profile {
        Profile {
            user: Rc::from(&b"app"[..]),
            credential: Credential::Password(secret.clone()),
            collation: 45,
            flags: Capabilities::empty(),
            client: None,
            entitlement: Entitlement {
                user: "app".into(),
                host: "%".into(),
                way: AuthPlugin::CachingSha2(Arc::from(&b"x"[..])),
                privileges: 0,
                limited: false,
                expired: false,
                alike: None,
                is_same_locally: false,
            },
        }
    }

    #[test]
    fn a_password_goes_with_the_last_pass() {
        let passes = Passes::default();
        let secret = Secret::new(b"secret");
        let weak = Arc::downgrade(&secret);
        let one = passes.pass(profile(&secret));
        let two = passes.pass(profile(&Secret::new(b"secret")));
        assert_eq!(one.number(), two.number(), "the same right");
        assert_eq!(one.holders(), 2);
        let other = passes.pass(profile(&Secret::new(b"other")));
        assert_ne!(one.number(), other.number());
        drop((secret, one));
        assert!(weak.upgrade().is_some(), "the second has it");
        drop(two);
        assert!(
            weak.upgrade().is_none(),
            "and it was overwritten as it went"
        );
        passes.prune();
        assert_eq!(passes.len(), 1);
    }

    #[test]
    fn a_wiped_password_is_gone_for_all_who_hold_it() {
        let secret = Secret::new(b"secret");
        let held = secret.clone();
        secret.wipe();
        assert_eq!(held.with(<[u8]>::len), None);
        assert!(*held == *secret && *held != *Secret::new(b"secret"));
        assert!(!format!("{:?}", Credential::Password(held)).contains("secret"));
    }

    #[test]
    fn a_review_marks_what_is_stale_and_unmarks_it() {
        let passes = Passes::default();
        let pass = passes.pass(profile(&Secret::new(b"secret")));
        passes.review(|_| false, |_| true);
        assert!(pass.ends_with_sessions());
        passes.review(|_| true, |_| false);
        assert!(pass.ends_with_sessions() && pass.edition() == 1);
        passes.review(|entitlement| &*entitlement.host == "%", |_| true);
        assert!(!pass.ends_with_sessions());
        assert!(passes.find(pass.number()).is_some());
    }
}
