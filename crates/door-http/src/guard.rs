//! Who may ask at all, and for what: see [`Access`].
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
use catalog::Secret;
use farm::Access;

use crate::answer::Refusal;
use crate::serving::{Demand, FromPeer, InClear};

/// Paths that say nothing but whether the router is well.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

/// What a request is measured by.
#[derive(Clone)]
pub(crate) struct Guard {
    token: Secret,
    /// Of those who may only look.
    monitor_token: Secret,
    older: Older,
    hosts: Arc<[String]>,
    tls: Demand,
}

/// Routers of releases that know no TLS between routers: their bearer token is the farm's secret.
#[derive(Clone)]
pub(crate) struct Older {
    pub(crate) secret: Secret,
    /// Asked when somebody shows it: whether such a router lives and may ask so.
    pub(crate) may_ask: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl Guard {
    pub(crate) fn new(token: &str, monitor_token: &str, older: Older, hosts: &[String]) -> Guard {
        let hosts = hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        Guard {
            token: Secret::new(token),
            monitor_token: Secret::new(monitor_token),
            older,
            hosts,
            tls: Demand::Welcome,
        }
    }

    /// The same, with this about TLS.
    pub(crate) fn demanding(self, tls: Demand) -> Guard {
        Guard { tls, ..self }
    }

    /// Refuses a request that somebody on its way could read, where that is not to be. Health is asked for
    /// without a token, and by load balancers that can do no more.
    fn check_way(&self, path: &str, in_clear: Option<&InClear>) -> Result<(), Refusal> {
        match (self.tls, in_clear) {
            (Demand::Required, Some(InClear)) if !HEALTH.contains(&path) => Err(Refusal::new(
                StatusCode::UPGRADE_REQUIRED,
                "this router takes plain HTTP from its own machine only",
                "write https:// in front of its address, and give the command line its certificate or \
                 authority (--ca FILE, HEDDLE_CA); what was sent in clear, a token above all, may be known",
            )),
            _ => Ok(()),
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

    /// What the request's token opens.
    fn access(&self, headers: &HeaderMap) -> Access {
        match () {
            () if bears(headers, &self.token) => Access::Admin,
            () if bears(headers, &self.monitor_token) => Access::Monitor,
            () => Access::Public,
        }
    }

    /// True when another router of the farm asks as older releases do.
    fn is_from_older(&self, headers: &HeaderMap) -> bool {
        bears(headers, &self.older.secret) && (self.older.may_ask)()
    }
}

/// True when the request carries this token; an empty one nobody carries.
fn bears(headers: &HeaderMap, token: &Secret) -> bool {
    let given = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim());
    given.is_some_and(|given| token.is(given))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A colon inside the brackets of an IPv6 address is no port's.
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Runs before every request.
pub(crate) async fn check(
    State(guard): State<Guard>,
    mut request: Request,
    next: Next,
) -> Response {
    let is_from_peer = request.extensions().get::<FromPeer>().is_some();
    if !is_from_peer && guard.is_from_older(request.headers()) {
        request.extensions_mut().insert(FromPeer);
    } else if !is_from_peer {
        // A peer calls by whatever name it was told; no browser has its certificate.
        let way = guard.check_way(request.uri().path(), request.extensions().get());
        if let Err(refusal) = way.and_then(|()| guard.check_place(request.headers())) {
            return refusal.into_response();
        }
    }
    let access = guard.access(request.headers());
    request.extensions_mut().insert(access);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let no_store = header::HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(no_store);
    let nosniff = header::HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

/// Runs before the requests of one path, which needs this right.
pub(crate) async fn admit(State(needed): State<Access>, request: Request, next: Next) -> Response {
    let given = request.extensions().get().copied().unwrap_or_default();
    match denied(given, needed) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    }
}

/// The refusal of a request that has less than the right that it needs.
pub(crate) fn denied(given: Access, needed: Access) -> Option<Refusal> {
    if given >= needed {
        return None;
    }
    let status = match given {
        Access::Public => StatusCode::UNAUTHORIZED,
        Access::Monitor | Access::Admin => StatusCode::FORBIDDEN,
    };
    let error = format!("this needs the {} right", needed.name());
    Some(Refusal::new(status, &error, catalog::cure(needed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A farm with this secret, in which routers of older releases live or not.
    fn older(secret: &str, live: bool) -> Older {
        Older {
            secret: Secret::new(secret),
            may_ask: Arc::new(move || live),
        }
    }

    fn guard() -> Guard {
        let hosts = ["Farm.Example".to_owned()];
        Guard::new("secret", "watch", older("farm", true), &hosts)
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
    fn plain_requests_of_other_machines_are_refused_where_tls_is_demanded() {
        assert!(guard().check_way("/", Some(&InClear)).is_ok());
        let strict = guard().demanding(Demand::Required);
        assert!(strict.check_way("/", None).is_ok());
        assert!(strict.check_way("/readyz", Some(&InClear)).is_ok());
        let refusal = strict.check_way("/", Some(&InClear)).expect_err("in clear");
        assert_eq!(refusal.status.as_u16(), 426);
        assert!(refusal.cure.contains("https://"), "{}", refusal.cure);
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
        let access = |value| guard().access(&headers(&[(header::AUTHORIZATION, value)]));
        assert_eq!(access("Bearer secret"), Access::Admin);
        assert_eq!(access("bearer secret"), Access::Admin);
        assert_eq!(access("Bearer watch"), Access::Monitor);
        for wrong in [
            "Bearer secre",
            "Bearer secret2",
            "Basic secret",
            "secret",
            "Bearer farm",
        ] {
            assert_eq!(access(wrong), Access::Public, "{wrong}");
        }
        assert_eq!(guard().access(&HeaderMap::new()), Access::Public);
        let closed = Guard::new("", "", older("", true), &[]);
        let nothing = headers(&[(header::AUTHORIZATION, "Bearer ")]);
        assert_eq!(closed.access(&nothing), Access::Public);
        assert!(!closed.is_from_older(&nothing));
        let farm = headers(&[(header::AUTHORIZATION, "Bearer farm")]);
        assert!(guard().is_from_older(&farm));
        let upgraded = Guard::new("", "", older("farm", false), &[]);
        assert!(!upgraded.is_from_older(&farm), "nobody has to ask so");
    }

    #[test]
    fn who_shows_too_little_is_told_what_is_needed() {
        assert!(denied(Access::Admin, Access::Monitor).is_none());
        assert!(denied(Access::Public, Access::Public).is_none());
        let stranger = denied(Access::Public, Access::Monitor).expect("denied");
        assert_eq!(stranger.status, StatusCode::UNAUTHORIZED);
        let watcher = denied(Access::Monitor, Access::Admin).expect("denied");
        assert_eq!(watcher.status, StatusCode::FORBIDDEN);
        assert!(watcher.error.contains("admin") && watcher.cure.contains("DIR/token"));
    }
}
