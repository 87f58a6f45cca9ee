//! Who may ask at all, and who may change.
//!
//! A page of a foreign site can make its visitor's browser send requests here, and a name whose
//! address changes (DNS rebinding) can make them look like the site's own. Both betray themselves:
//! the first by Origin, the second by Host. So Host must be an address, `localhost` or a configured
//! name, and Origin, where there is one, must be the same place as Host.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::peers::Secret;

use crate::answer::Refusal;

/// What a request is measured by.
#[derive(Clone)]
pub(crate) struct Guard {
    token: Arc<str>,
    /// The farm's, which its routers show each other.
    secret: Secret,
    hosts: Arc<[String]>,
}

/// Put into a request of another router of the farm: its bearer token is the farm's secret.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromPeer;

/// Put into a request whose bearer token is right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayChange;

impl Guard {
    pub(crate) fn new(token: &str, secret: Secret, hosts: &[String]) -> Guard {
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Guard {
            token: token.into(),
            secret,
            hosts,
        }
    }

    /// Refuses a request from a foreign place.
    fn check_place(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let forbidden = |error: &str, cure: &str| Refusal::new(StatusCode::FORBIDDEN, error, cure);
        let host = headers
            .get(header::HOST)
            .and_then(|host| host.to_str().ok());
        let Some(host) = host else {
            return Err(forbidden(
                "the request has no Host header",
                "use HTTP/1.1 with a Host",
            ));
        };
        if !self.is_ours(host) {
            return Err(forbidden(
                &format!("requests for host {host:?} are not served here"),
                "call Heddle by its IP address or localhost, or add the name to http_hosts",
            ));
        }
        let Some(origin) = headers.get(header::ORIGIN) else {
            return Ok(());
        };
        let place = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.split_once("://"));
        match place {
            Some((_, place)) if place.eq_ignore_ascii_case(host) => Ok(()),
            _ => Err(forbidden(
                "the request comes from a page of another site",
                "send it from Heddle's own page, or without a browser",
            )),
        }
    }

    /// Addresses cannot be rebound; names can, so only known ones count.
    fn is_ours(&self, host: &str) -> bool {
        let name = without_port(host).to_ascii_lowercase();
        let address = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'));
        name == "localhost"
            || address.unwrap_or(&name).parse::<IpAddr>().is_ok()
            || self.hosts.contains(&name)
    }

    /// True when the request carries the token.
    fn may_change(&self, headers: &HeaderMap) -> bool {
        bears(headers, &self.token)
    }

    /// True when another router of the farm asks.
    fn is_from_peer(&self, headers: &HeaderMap) -> bool {
        bears(headers, self.secret.reveal())
    }
}

/// True when the request carries this token; an empty one nobody carries.
fn bears(headers: &HeaderMap, token: &str) -> bool {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    !token.is_empty() && given.is_some_and(|given| equal(given, token))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A colon inside the brackets of an IPv6 address is no port's.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Compares in a time that does not tell how much was right.
fn equal(a: &str, b: &str) -> bool {
    let differences = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differences == 0
}

/// Runs before every request.
pub(crate) async fn check(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    // A peer calls by whatever name it was told; no page of a foreign site knows the secret.
    if guard.is_from_peer(request.headers()) {
        request.extensions_mut().insert(FromPeer);
    } else if let Err(refusal) = guard.check_place(request.headers()) {
        return refusal.into_response();
    }
    if guard.may_change(request.headers()) {
        request.extensions_mut().insert(MayChange);
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let no_store = header::HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    let nosniff = header::HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        Guard::new("secret", Secret::new("farm"), &["Farm.Example".to_owned()])
    }

    fn headers(pairs: &[(header::HeaderName, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (name.clone(), value.parse().expect("legal")))
            .collect()
    }

    #[test]
    fn hosts() {
        let serves = |host: &str| {
            guard()
                .check_place(&headers(&[(header::HOST, host)]))
                .is_ok()
        };
        for ours in [
            "127.0.0.1:6080",
            "127.0.0.1",
            "[::1]:6080",
            "[::1]",
            "localhost:6080",
            "10.1.2.3",
            "FARM.example",
            "farm.example:80",
        ] {
            assert!(serves(ours), "{ours}");
        }
        for foreign in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.nip.io",
            "",
        ] {
            assert!(!serves(foreign), "{foreign}");
        }
        assert!(guard().check_place(&HeaderMap::new()).is_err());
    }

    #[test]
    fn origins_must_be_the_host() {
        let place = |host, origin| {
            guard().check_place(&headers(&[(header::HOST, host), (header::ORIGIN, origin)]))
        };
        assert!(place("localhost:6080", "http://localhost:6080").is_ok());
        assert!(place("localhost:6080", "http://localhost:8080").is_err());
        assert!(place("localhost:6080", "https://evil.example").is_err());
        assert!(place("localhost:6080", "null").is_err());
    }

    #[test]
    fn tokens() {
        let may = |value| guard().may_change(&headers(&[(header::AUTHORIZATION, value)]));
        assert!(may("Bearer secret") && may("bearer secret"));
        assert!(!may("Bearer secre") && !may("Bearer secret2") && !may("Basic secret"));
        assert!(!may("secret"));
        assert!(!guard().may_change(&HeaderMap::new()));
        let closed = Guard::new("", Secret::default(), &[]);
        let nothing = headers(&[(header::AUTHORIZATION, "Bearer ")]);
        assert!(!closed.may_change(&nothing) && !closed.is_from_peer(&nothing));
        let farm = headers(&[(header::AUTHORIZATION, "Bearer farm")]);
        assert!(guard().is_from_peer(&farm) && !guard().may_change(&farm));
    }
}
