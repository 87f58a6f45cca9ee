//! What an account demands of the connection that its client comes by: `REQUIRE SSL`, `X509`, or
//! certain names.

/// The clause `REQUIRE` of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TlsDemand {
    #[default]
    None,
    /// `REQUIRE SSL`.
    Any,
    /// `REQUIRE X509`: a certificate of the client's own, verified.
    X509,
    /// Each that is not empty must be so; `cipher` alone needs no certificate.
    Specified {
        cipher: String,
        issuer: String,
        subject: String,
    },
}

/// What is known of a client's connection inside TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFacts {
    /// By its OpenSSL name.
    pub cipher: &'static str,
    /// Issuer and subject of the client's certificate, on one line as the servers write them.
    pub certificate: Option<(String, String)>,
}

impl TlsDemand {
    /// Whether a client may come by this connection; None is one without TLS.
    pub fn is_met(&self, facts: Option<&TlsFacts>) -> bool {
        let Some(facts) = facts else {
            return *self == TlsDemand::None;
        };
        match self {
            TlsDemand::None | TlsDemand::Any => true,
            TlsDemand::X509 => facts.certificate.is_some(),
            TlsDemand::Specified {
                cipher,
                issuer,
                subject,
            } => {
                let names = facts.certificate.as_ref();
                let is =
                    |wanted: &str, found: Option<&str>| wanted.is_empty() || found == Some(wanted);
                is(cipher, Some(facts.cipher))
                    && is(issuer, names.map(|(issuer, _)| issuer.as_str()))
                    && is(subject, names.map(|(_, subject)| subject.as_str()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_demand_wants_what_it_names() {
        let bare = TlsFacts {
            cipher: "A",
            certificate: None,
        };
        let with = TlsFacts {
            cipher: "A",
            certificate: Some(("/CN=ca".to_owned(), "/CN=me".to_owned())),
        };
        let named = |cipher: &str, issuer: &str, subject: &str| TlsDemand::Specified {
            cipher: cipher.to_owned(),
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
        };
        for (demand, expected) in [
            (TlsDemand::None, [true, true, true]),
            (TlsDemand::Any, [false, true, true]),
            (TlsDemand::X509, [false, false, true]),
            (named("A", "", ""), [false, true, true]),
            (named("B", "", ""), [false, false, false]),
            (named("", "/CN=ca", "/CN=me"), [false, false, true]),
            (named("", "/CN=other", ""), [false, false, false]),
            (named("", "", "/CN=you"), [false, false, false]),
        ] {
            let met = [None, Some(&bare), Some(&with)].map(|facts| demand.is_met(facts));
            assert_eq!(met, expected, "{demand:?}");
        }
    }
}
