//! HTTP Digest as Fabric's connectors speak it: MD5, `qop="auth"`, and a path that is always `/RPC2`,
//! whatever path was asked.
//!
//! Pure: the time and the secret are passed in. A nonce carries when it was given and a seal, so that
//! nothing is kept for strangers; what is kept of a nonce that a client has used is its last count.

use std::collections::HashMap;

use md5::{Digest as _, Md5};
use mysql_wire::auth::equal;

/// The realm of Fabric; part of the hash that its users have stored.
pub const REALM: &str = "MySQL Fabric";

/// A nonce may be used for so long.
pub const NONCE_MS: u64 = 120_000;

/// So many nonces are remembered that clients began to use within [`NONCE_MS`]; more clients are asked again.
const NONCES_MAX: usize = 262_144;

/// The path in the hash of clients that ask at another one.
const PATH: &str = "/RPC2";

/// Who may come in, and which nonces are in use.
pub struct Gate {
    user: String,
    /// MD5 of user, realm and password.
    stored: String,
    secret: [u8; 16],
    given: u64,
    used: Used,
}

/// The last count that came with each nonce in use. A nonce is forgotten when it has surely expired.
#[derive(Default)]
struct Used {
    young: HashMap<String, u32>,
    old: HashMap<String, u32>,
    /// When the young ones began to be collected.
    since_ms: u64,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It proves that the client knows the password.
    Welcome,
    /// It shows nothing, or a nonce that has expired: the client is asked (401).
    Ask { stale: bool },
    /// What it shows is wrong (400, as in Fabric).
    Refused,
}

impl Gate {
    /// One user. `secret` seals nonces, and differs from start to start.
    pub fn new(user: &str, password: &str, secret: [u8; 16]) -> Gate {
        Gate {
            user: user.to_owned(),
            stored: md5(&format!("{user}:{REALM}:{password}")),
            secret,
            given: 0,
            used: Used::default(),
        }
    }

    /// The header `WWW-Authenticate` of a 401. Neither nonce nor opaque has `=` or `,` in it, which
    /// Connector/J does not read.
    pub fn challenge(&mut self, stale: bool, now_ms: u64) -> String {
        self.given += 1;
        let head = format!("{now_ms:016x}{:016x}", self.given);
        let nonce = format!("{head}{}", self.seal(&head));
        let opaque = self.seal("opaque");
        let stale = if stale { ", stale=true" } else { "" };
        format!(
            "Digest realm=\"{REALM}\", nonce=\"{nonce}\", algorithm=\"MD5\", opaque=\"{opaque}\", \
             qop=\"auth\"{stale}"
        )
    }

    /// Looks at the header `Authorization` of a request with this method.
    pub fn judge(&mut self, header: Option<&str>, method: &str, now_ms: u64) -> Verdict {
        let fields = header.and_then(|text| {
            let (scheme, rest) = text.trim().split_once(' ')?;
            scheme.eq_ignore_ascii_case("digest").then(|| fields(rest))
        });
        let Some(fields) = fields else {
            return Verdict::Ask { stale: false };
        };
        let of = |name: &str| fields.get(name).map_or("", String::as_str);
        let nonce = of("nonce");
        let Some(since_ms) = self.born(nonce) else {
            // A router that has started anew does not know the nonces of the one before.
            return Verdict::Ask { stale: true };
        };
        let algorithm = of("algorithm");
        let fits = of("username") == self.user
            && of("realm") == REALM
            && of("qop") == "auth"
            && (algorithm.is_empty() || algorithm.eq_ignore_ascii_case("MD5"));
        let (count, cnonce) = (of("nc"), of("cnonce"));
        let answer = |path: &str| {
            let what = md5(&format!("{method}:{path}"));
            md5(&format!(
                "{}:{nonce}:{count}:{cnonce}:auth:{what}",
                self.stored
            ))
        };
        let response = of("response").to_ascii_lowercase();
        let proves = |path: &str| equal(answer(path).as_bytes(), response.as_bytes());
        if !fits || !(proves(of("uri")) || proves(PATH)) {
            return Verdict::Refused;
        }
        let Ok(count) = u32::from_str_radix(count, 16) else {
            return Verdict::Refused;
        };
        match now_ms.saturating_sub(since_ms) <= NONCE_MS && self.used.is_next(nonce, count, now_ms)
        {
            true => Verdict::Welcome,
            false => Verdict::Ask { stale: true },
        }
    }

    /// When a nonce was given; `None` for one that this gate has not sealed.
    fn born(&self, nonce: &str) -> Option<u64> {
        let (head, seal) = nonce.split_at_checked(32)?;
        let is_ours = equal(self.seal(head).as_bytes(), seal.as_bytes());
        let born = head.get(..16)?;
        u64::from_str_radix(born, 16).ok().filter(|_| is_ours)
    }

    fn seal(&self, text: &str) -> String {
        let inner = Md5::new().chain_update(self.secret).chain_update(text);
        let outer = Md5::new().chain_update(self.secret);
        hex::encode(outer.chain_update(inner.finalize()).finalize())
    }
}

impl Used {
    /// Whether this count of a nonce is new: what was overheard cannot be sent again.
    fn is_next(&mut self, nonce: &str, count: u32, now_ms: u64) -> bool {
        if now_ms.saturating_sub(self.since_ms) > NONCE_MS {
            self.old = std::mem::take(&mut self.young);
            self.since_ms = now_ms;
        }
        let young = self.young.get_mut(nonce);
        if let Some(last) = young.or_else(|| self.old.get_mut(nonce)) {
            let is_next = count > *last;
            *last = count.max(*last);
            return is_next;
        }
        if count == 0 || self.young.len() >= NONCES_MAX {
            return false;
        }
        self.young.insert(nonce.to_owned(), count);
        true
    }
}

/// The header `Authorization` that answers a challenge, for a client with this name and password.
/// `None` when the challenge is none that it can answer.
pub fn answer(
    challenge: &str,
    user: &str,
    password: &str,
    path: &str,
    cnonce: &str,
) -> Option<String> {
    let (_, rest) = challenge.trim().split_once(' ')?;
    let fields = fields(rest);
    let (realm, nonce) = (fields.get("realm")?, fields.get("nonce")?);
    let opaque = fields.get("opaque").map_or("", String::as_str);
    let secret = md5(&format!("{user}:{realm}:{password}"));
    let what = md5(&format!("POST:{path}"));
    let response = md5(&format!("{secret}:{nonce}:00000001:{cnonce}:auth:{what}"));
    Some(format!(
        "Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"{path}\", \
         response=\"{response}\", algorithm=\"MD5\", opaque=\"{opaque}\", qop=auth, nc=00000001, \
         cnonce=\"{cnonce}\""
    ))
}

fn md5(text: &str) -> String {
    hex::encode(Md5::digest(text))
}

/// The fields of a header: `name=value` or `name="value"`, between commas. What is none is left out.
fn fields(text: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut rest = text;
    while let Some((name, behind)) = rest.split_once('=') {
        let name = name.trim_matches([',', ' ', '\t']).to_ascii_lowercase();
        let (value, left) = value(behind.trim_start());
        found.insert(name, value);
        rest = left;
    }
    found
}

/// One value, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(',').unwrap_or(text.len());
        return (text[..end].trim().to_owned(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &quoted[at + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => value.push(character),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate() -> Gate {
        Gate::new("admin", "secret", [7; 16])
    }

    fn field(header: &str, name: &str) -> String {
        fields(header.split_once(' ').expect("a scheme").1)[name].clone()
    }

    #[test]
    fn the_example_of_the_standard_gives_its_response() {
        // RFC 2617, 3.5.
        let stored = md5("Mufasa:testrealm@host.com:Circle Of Life");
        let what = md5("GET:/dir/index.html");
        let nonce = "dcd98b7102dd2f0e8b11d0f600bfb0c093";
        let response = md5(&format!("{stored}:{nonce}:00000001:0a4f113b:auth:{what}"));
        assert_eq!(response, "6629fae49393a05397450978507c4ef1");
    }

    #[test]
    fn a_challenge_is_answered() {
        let mut gate = gate();
        let challenge = gate.challenge(false, 1000);
        for name in ["nonce", "opaque"] {
            let value = field(&challenge, name);
            assert!(!value.contains(['=', ',']) && !value.is_empty(), "{value}");
        }
        let right = answer(&challenge, "admin", "secret", "/RPC2", "abc").expect("a challenge");
        assert_eq!(gate.judge(Some(&right), "POST", 2000), Verdict::Welcome);
        let again = gate.judge(Some(&right), "POST", 2000);
        assert_eq!(again, Verdict::Ask { stale: true }, "it was overheard");
    }

    #[test]
    fn the_path_may_be_another_one_than_that_of_the_hash() {
        let mut gate = gate();
        let challenge = gate.challenge(false, 0);
        let header = answer(&challenge, "admin", "secret", "/RPC2", "abc").expect("a challenge");
        // Connector/J asks at «/» and hashes /RPC2.
        let header = header.replace("uri=\"/RPC2\"", "uri=\"/\"");
        assert_eq!(gate.judge(Some(&header), "POST", 0), Verdict::Welcome);
        let challenge = gate.challenge(false, 0);
        let header = answer(&challenge, "admin", "secret", "/", "abc").expect("a challenge");
        assert_eq!(gate.judge(Some(&header), "POST", 0), Verdict::Welcome);
    }

    #[test]
    fn counts_grow_and_nonces_expire() {
        let mut gate = gate();
        let nonce = field(&gate.challenge(false, 0), "nonce");
        let mut ask = |count: &str, now_ms| {
            let what = md5("POST:/RPC2");
            let stored = md5("admin:MySQL Fabric:secret");
            let response = md5(&format!("{stored}:{nonce}:{count}:x:auth:{what}"));
            let header = format!(
                "digest username=admin,realm=\"MySQL Fabric\" , nonce={nonce},uri=/RPC2,\
                 qop=\"auth\",nc={count},cnonce=\"x\",response={response}"
            );
            gate.judge(Some(&header), "POST", now_ms)
        };
        assert_eq!(ask("00000001", 1), Verdict::Welcome);
        assert_eq!(ask("00000002", NONCE_MS), Verdict::Welcome);
        assert_eq!(ask("00000002", 2), Verdict::Ask { stale: true });
        assert_eq!(ask("00000009", 3), Verdict::Welcome);
        let late = ask("0000000a", NONCE_MS + 1);
        assert_eq!(late, Verdict::Ask { stale: true });
        assert_eq!(ask("nonsense", 4), Verdict::Refused);
    }

    #[test]
    fn what_is_wrong_is_refused_and_what_is_missing_is_asked_for() {
        let mut gate = gate();
        assert_eq!(gate.judge(None, "POST", 0), Verdict::Ask { stale: false });
        let basic = gate.judge(Some("Basic YTpi"), "POST", 0);
        assert_eq!(basic, Verdict::Ask { stale: false });
        let challenge = gate.challenge(false, 0);
        let wrong = |user: &str, password: &str| {
            answer(&challenge, user, password, "/RPC2", "x").expect("a challenge")
        };
        for header in [wrong("admin", "Secret"), wrong("root", "secret")] {
            assert_eq!(gate.judge(Some(&header), "POST", 0), Verdict::Refused);
        }
        let right = wrong("admin", "secret");
        assert_eq!(gate.judge(Some(&right), "GET", 0), Verdict::Refused);
        let other_realm = right.replace("MySQL Fabric", "MySQL");
        assert_eq!(gate.judge(Some(&other_realm), "POST", 0), Verdict::Refused);
        let forged = right.replace(&field(&challenge, "nonce"), "00");
        let verdict = gate.judge(Some(&forged), "POST", 0);
        assert_eq!(verdict, Verdict::Ask { stale: true });
    }

    #[test]
    fn any_header_is_read() {
        let mut gate = gate();
        for odd in [
            "Digest",
            "Digest =",
            "Digest a=\"\\",
            "Digest nonce=\"é\", =,=\"=",
        ] {
            assert_ne!(gate.judge(Some(odd), "POST", 0), Verdict::Welcome, "{odd}");
        }
        assert_eq!(fields("a=\"x,\\\"y\" , b=c")["a"], "x,\"y");
        assert_eq!(fields("a=\"x,\\\"y\" , b=c")["b"], "c");
    }
}
