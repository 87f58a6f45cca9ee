//! How a question to a peer travels, and what shows that it comes from a router of the same farm.
//!
//! Inside TLS: the asking router and the asked one both show a certificate that the farm's authority signed.
//! The authority is a private key in the state store (`/farm/authority`); each process makes a certificate
//! of its own with it, in memory, and another one before that ends or when the authority is another.
//!
//! In clear, by the farm's secret: as releases did that knew no better. Only where `peers_in_clear` is on, and
//! only with a router whose registration in the store lacks the mark that it speaks TLS. Nobody on the network
//! writes registrations, so nobody there can bring two routers to it.

use std::collections::BTreeSet;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use channel::{Authority, ClientConfig, Mutual};

use catalog::Secret;

/// What a peer's certificate is for, and what is asked for at the beginning of TLS: by it the HTTP door tells
/// peers from clients.
pub const TLS_NAME: &str = "peer.heddle.internal";

/// How one question travels.
#[derive(Clone)]
pub enum Way {
    /// Inside TLS, with these certificates.
    Tls(Arc<ClientConfig>),
    /// As plain HTTP with the farm's secret, to a router of an older release.
    InClear(Secret),
}

impl Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Way::Tls(_) => "Tls",
            Way::InClear(_) => "InClear",
        })
    }
}

/// What this process shows its peers, and of what it has warned.
#[derive(Default)]
pub(crate) struct Ways {
    shown: Mutex<Option<Shown>>,
    /// Each of these is told once.
    warned: Mutex<BTreeSet<String>>,
}

/// A certificate, and the authority that signed it.
struct Shown {
    authority: Secret,
    mutual: Arc<Mutual>,
}

impl Ways {
    /// What is to be shown now under this authority.
    pub(super) fn mutual(
        &self,
        authority: &Secret,
        now: SystemTime,
    ) -> Result<Arc<Mutual>, String> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shown) = &*shown
            && shown.authority == *authority
            && shown.mutual.is_fresh(now)
        {
            return Ok(Arc::clone(&shown.mutual));
        }
        let signed = Authority::from_key(authority.reveal());
        let signed = signed.and_then(|signer| signer.sign(TLS_NAME, now));
        let mutual = Arc::new(signed.map_err(|error| {
            format!(
                "this router cannot make its certificate for the farm's other routers: what the state store \
                 has under /farm/authority is no authority ({error}); make another one at the router that leads, \
                 by `heddle router rotate_authority`"
            )
        })?);
        *shown = Some(Shown {
            authority: authority.clone(),
            mutual: Arc::clone(&mutual),
        });
        Ok(mutual)
    }

    /// True the first time.
    pub(super) fn is_news(&self, of: &str) -> bool {
        let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
        warned.insert(of.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn authority() -> Secret {
        Secret::new(&Authority::new_key().expect("a key"))
    }

    #[test]
    fn a_certificate_is_made_anew_before_it_ends_and_for_another_authority() {
        let (ways, farm) = (Ways::default(), authority());
        let now = SystemTime::now();
        let made = |farm: &Secret, at| ways.mutual(farm, at).expect("a certificate");
        let first = made(&farm, now);
        let hours = |hours: u64| Duration::from_secs(hours * 3600);
        assert!(Arc::ptr_eq(&first, &made(&farm, now + hours(23))));
        let second = made(&farm, now + hours(25));
        assert!(!Arc::ptr_eq(&first, &second));
        // A clock that was set back.
        let third = made(&farm, now);
        assert!(!Arc::ptr_eq(&second, &third));
        let other = made(&authority(), now);
        assert!(!Arc::ptr_eq(&third, &other));
    }

    #[test]
    fn what_is_no_authority_is_told_with_its_key() {
        let error = Ways::default().mutual(&Secret::new("x"), SystemTime::now());
        let error = error.expect_err("no PEM");
        assert!(error.contains("/farm/authority"), "{error}");
        let way = Way::InClear(Secret::new("told"));
        assert_eq!(format!("{way:?}"), "InClear");
    }

    #[test]
    fn each_warning_is_given_once() {
        let ways = Ways::default();
        assert!(ways.is_news("a") && ways.is_news("b") && !ways.is_news("a"));
    }
}
