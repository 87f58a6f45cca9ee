//! The login of a connection to a broker: SASL with PLAIN or SCRAM.
//!
//! Invariants: a password is told to a broker by PLAIN only inside TLS, or where an operator asked for PLAIN; a broker
//! that cannot prove by SCRAM that it knows the password is no broker of this account.

use std::sync::Arc;

use rustls::ClientConfig;

use super::broker::Broker;
use super::scram::{Hash, Scram};
use super::wire::{Reader, Writer};
use crate::account::Account;
use crate::link::trust_of;
use crate::spec::Spec;
use crate::undelivered::Undelivered;

const HANDSHAKE: (i16, i16) = (17, 1);
const AUTHENTICATE: (i16, i16) = (36, 0);

/// UNSUPPORTED_SASL_MECHANISM.
const UNSUPPORTED: i16 = 33;

/// Letters of a nonce.
const NONCE_BYTES: usize = 24;

/// How brokers are entered: read when a session begins, so that files which were written anew count.
pub(super) struct Entrance {
    pub(super) trust: Option<Arc<ClientConfig>>,
    user: String,
    password: String,
    /// The one that the operator wants.
    wanted: Option<Mechanism>,
}

/// A mechanism of SASL, the strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    ScramSha512,
    ScramSha256,
    Plain,
}

impl Mechanism {
    /// All of them, as brokers name them.
    const ALL: [(Mechanism, &'static str); 3] = [
        (Mechanism::ScramSha512, "SCRAM-SHA-512"),
        (Mechanism::ScramSha256, "SCRAM-SHA-256"),
        (Mechanism::Plain, "PLAIN"),
    ];

    /// The mechanism of this name, in letters of any case.
    pub fn named(name: &str) -> Option<Mechanism> {
        let mut all = Mechanism::ALL.into_iter();
        let found = all.find(|(_, it)| it.eq_ignore_ascii_case(name));
        found.map(|(mechanism, _)| mechanism)
    }

    fn name(self) -> &'static str {
        let mut all = Mechanism::ALL.into_iter();
        all.find(|(it, _)| *it == self).map_or("", |(_, name)| name)
    }
}

impl Entrance {
    pub(super) fn of(spec: &Spec) -> Result<Entrance, Undelivered> {
        let Account { mechanism, .. } = &spec.account;
        let (user, password) = spec.account.read()?;
        Ok(Entrance {
            trust: trust_of(spec)?,
            user,
            password,
            wanted: Mechanism::named(mechanism),
        })
    }

    /// Nobody has to log in.
    pub(super) fn is_open(&self) -> bool {
        self.user.is_empty()
    }

    /// The mechanism that is tried first.
    pub(super) fn first(&self) -> Mechanism {
        self.wanted.unwrap_or(Mechanism::ScramSha512)
    }

    /// The strongest of those that a broker offers.
    fn strongest(&self, offered: &[String]) -> Result<Mechanism, String> {
        let mut known: Vec<Mechanism> = offered
            .iter()
            .filter_map(|it| Mechanism::named(it))
            .collect();
        known.sort();
        let offers = offered.join(", ");
        match (self.wanted, known.first()) {
            (Some(wanted), _) => Err(format!("it offers {offers}, and not {}", wanted.name())),
            (None, None) => Err(format!(
                "it offers {offers}, and sinks know SCRAM-SHA-512, SCRAM-SHA-256 and PLAIN"
            )),
            (None, Some(Mechanism::Plain)) if self.trust.is_none() => Err(
                "it offers PLAIN alone, which tells the password to everybody on the way; use --tls, or ask for it \
                 by --mechanism plain"
                    .to_owned(),
            ),
            (None, Some(mechanism)) => Ok(*mechanism),
        }
    }
}

impl Broker {
    /// Logs in by a mechanism; `Some` names another one with which a new connection has to begin.
    pub(super) async fn log_in(
        &mut self,
        entrance: &Entrance,
        mechanism: Mechanism,
    ) -> Result<Option<Mechanism>, Undelivered> {
        let mut request = Writer::default();
        request.text(mechanism.name());
        let answer = self.ask(HANDSHAKE, request).await?;
        let mut read = Reader(&answer);
        let (Some(number), Some(offered)) = (read.i16(), read.list(Reader::text)) else {
            return Err(self.broken());
        };
        match number {
            0 => {}
            UNSUPPORTED => {
                let other = entrance.strongest(&offered);
                return other.map(Some).map_err(|why| self.failed(&why));
            }
            number => return Err(self.failed(&super::error(number))),
        }
        let (user, password) = (&*entrance.user, &*entrance.password);
        match mechanism {
            Mechanism::Plain => {
                let told = format!("\0{user}\0{password}");
                self.authenticate(told.as_bytes()).await?;
            }
            Mechanism::ScramSha256 => self.scram(Hash::Sha256, user, password).await?,
            Mechanism::ScramSha512 => self.scram(Hash::Sha512, user, password).await?,
        }
        Ok(None)
    }

    async fn scram(&mut self, hash: Hash, user: &str, password: &str) -> Result<(), Undelivered> {
        let nonce = nonce().ok_or_else(|| self.failed("there are no random numbers"))?;
        let scram = Scram::new(hash, user, password, &nonce);
        let server = self.authenticate(scram.begin().as_bytes()).await?;
        let server = String::from_utf8_lossy(&server).into_owned();
        let proof = scram.prove(&server).map_err(|why| self.failed(why))?;
        let answer = self.authenticate(proof.message.as_bytes()).await?;
        match answer == proof.answer.as_bytes() {
            true => Ok(()),
            false => Err(self.failed("it does not know the password of the account itself")),
        }
    }

    async fn authenticate(&mut self, bytes: &[u8]) -> Result<Vec<u8>, Undelivered> {
        let mut request = Writer::default();
        request.bytes(bytes);
        let answer = self.ask(AUTHENTICATE, request).await?;
        let mut read = Reader(&answer);
        let mut parse = || Some((read.i16()?, read.text()?, read.bytes()?.to_vec()));
        match parse() {
            Some((0, _, bytes)) => Ok(bytes),
            Some((_, why, _)) => Err(self.failed(&format!("the login is refused: {why}"))),
            None => Err(self.broken()),
        }
    }
}

/// Letters and digits that nobody had before.
fn nonce() -> Option<String> {
    let mut bytes = [0; NONCE_BYTES];
    let provider = rustls::crypto::ring::default_provider();
    provider.secure_random.fill(&mut bytes).ok()?;
    Some(hex::encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entrance(wanted: Option<Mechanism>, is_secure: bool) -> Entrance {
        let trust = is_secure.then(|| crate::http::trust("").expect("the Web's"));
        Entrance {
            trust,
            user: "u".to_owned(),
            password: String::new(),
            wanted,
        }
    }

    #[test]
    fn the_strongest_mechanism_is_taken_and_plain_only_inside_tls() {
        let choose = |entrance: &Entrance, offered: &[&str]| {
            let offered: Vec<String> = offered.iter().map(|it| (*it).to_owned()).collect();
            entrance.strongest(&offered)
        };
        let (secure, open) = (entrance(None, true), entrance(None, false));
        let all = ["PLAIN", "GSSAPI", "SCRAM-SHA-256"];
        assert_eq!(choose(&open, &all), Ok(Mechanism::ScramSha256));
        assert_eq!(choose(&secure, &["PLAIN"]), Ok(Mechanism::Plain));
        let refused = choose(&open, &["PLAIN"]);
        assert!(refused.is_err_and(|why| why.contains("--tls")));
        assert!(choose(&secure, &["GSSAPI"]).is_err());
        let wanted = entrance(Mechanism::named("scram-sha-512"), true);
        assert!(choose(&wanted, &all).is_err());
        assert_eq!(Mechanism::named("oauthbearer"), None);
    }
}
