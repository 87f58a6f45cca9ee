//! A login by SCRAM: both sides prove that they know the password, and none of them tells it.
//!
//! Source: RFC 5802 and RFC 7677. Invariants: a server that does not know the password is never taken for one that
//! does, and one that asks for endless work is refused.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hmac::{Hmac, Mac};
use sha2::{Digest, Sha256, Sha512};

/// How often the password is hashed, as servers ask for it.
const ROUNDS_MIN: u32 = 4096;
const ROUNDS_MAX: u32 = 200_000;

/// In front of a client's messages: no channel is bound, and the same as the server is told once more.
const HEADER: &str = "n,,";

/// What is hashed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn of(self, data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => Sha256::digest(data).to_vec(),
            Hash::Sha512 => Sha512::digest(data).to_vec(),
        }
    }

    fn mac(self, key: &[u8], data: &[u8]) -> Vec<u8> {
        match self {
            Hash::Sha256 => mac::<Hmac<Sha256>>(key, data),
            Hash::Sha512 => mac::<Hmac<Sha512>>(key, data),
        }
    }

    /// The salted password.
    fn rounds(self, password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
        let mut last = self.mac(password, &[salt, &[0, 0, 0, 1]].concat());
        let mut all = last.clone();
        for _ in 1..rounds {
            last = self.mac(password, &last);
            all.iter_mut().zip(&last).for_each(|(all, it)| *all ^= it);
        }
        all
    }
}

fn mac<M: Mac + hmac::digest::KeyInit>(key: &[u8], data: &[u8]) -> Vec<u8> {
    // Any length of a key will do.
    let Ok(mut mac) = <M as Mac>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(data);
    mac.finalize().into_bytes().to_vec()
}

/// A login that has begun.
pub(super) struct Scram {
    hash: Hash,
    password: String,
    nonce: String,
    /// The client's first message without its header.
    first: String,
}

/// The client's last message, and what the server says when it knows the password.
pub(super) struct Proof {
    pub(super) message: String,
    pub(super) answer: String,
}

impl Scram {
    /// With a nonce of letters and digits that nobody had before.
    pub(super) fn new(hash: Hash, user: &str, password: &str, nonce: &str) -> Scram {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Scram {
            hash,
            password: password.to_owned(),
            nonce: nonce.to_owned(),
            first: format!("n={user},r={nonce}"),
        }
    }

    /// The client's first message.
    pub(super) fn begin(&self) -> String {
        format!("{HEADER}{}", self.first)
    }

    /// Answers the server's first message.
    pub(super) fn prove(&self, server: &str) -> Result<Proof, &'static str> {
        const BROKEN: &str = "its answer to SCRAM's first message is none";
        let mut fields = server.split(',');
        let mut field = |name: &str| fields.next().and_then(|it| it.strip_prefix(name));
        let nonce = field("r=").ok_or(BROKEN)?;
        let salt = field("s=").and_then(|it| BASE64.decode(it).ok());
        let rounds = field("i=").and_then(|it| it.parse::<u32>().ok());
        let (salt, rounds) = salt.zip(rounds).ok_or(BROKEN)?;
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err(BROKEN);
        }
        if !(ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds) {
            return Err("it asks for too few or too many rounds of SCRAM");
        }
        let hash = self.hash;
        let salted = hash.rounds(self.password.as_bytes(), &salt, rounds);
        let key = hash.mac(&salted, b"Client Key");
        let bare = format!("c={},r={nonce}", BASE64.encode(HEADER));
        let signed = format!("{},{server},{bare}", self.first);
        let signature = hash.mac(&hash.of(&key), signed.as_bytes());
        let proof: Vec<u8> = key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let of_server = hash.mac(&hash.mac(&salted, b"Server Key"), signed.as_bytes());
        Ok(Proof {
            message: format!("{bare},p={}", BASE64.encode(proof)),
            answer: format!("v={}", BASE64.encode(of_server)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_is_proved() {
        let scram = Scram::new(Hash::Sha256, "user", "pencil", "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.begin(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                      s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let proof = scram.prove(server).expect("a proof");
        assert_eq!(
            proof.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(
            proof.answer,
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn servers_that_ask_for_something_else_are_refused() {
        let scram = Scram::new(Hash::Sha512, "a,b=c", "x", "abc");
        assert_eq!(scram.begin(), "n,,n=a=2Cb=3Dc,r=abc");
        for wrong in [
            "",
            "r=abc,s=AA==,i=4096",
            "r=other,s=AA==,i=4096",
            "r=abcd,s=!,i=4096",
            "r=abcd,s=AA==,i=1",
            "r=abcd,s=AA==,i=4000000000",
        ] {
            assert!(scram.prove(wrong).is_err(), "{wrong}");
        }
    }
}
