//! Whether what is said to servers can be read on the way, and how long that stays so.

use crate::checks::{At, set};
use crate::finding::{Found, Severity};

/// So long before its end a certificate is told of.
pub(crate) const SOON_S: u64 = 30 * 86_400;

pub(crate) fn missing(at: &At<'_>) -> Option<Found> {
    let has = match at.server.named(&["have_ssl"]) {
        Some((_, value)) => value == "YES",
        // MySQL since 8.4 has it wherever it has a certificate.
        None => !at.server.variable(&["ssl_cert"])?.is_empty(),
    };
    (!at.server.near && !has).then(|| Found::new("it offers no TLS"))
}

pub(crate) fn clear_allowed(at: &At<'_>) -> Option<Found> {
    let demanded = at.server.is_on(&["require_secure_transport"])?;
    let name = "require_secure_transport";
    (!at.server.near && !demanded)
        .then(|| set(at, Found::new(format!("{name} is OFF")), name, "ON"))
}

pub(crate) fn old_versions(at: &At<'_>) -> Option<Found> {
    let versions = at.server.variable(&["tls_version"])?;
    let mut each = versions.split(',').map(str::trim);
    each.any(|it| matches!(it, "TLSv1" | "TLSv1.0" | "TLSv1.1"))
        .then(|| Found::new(format!("tls_version is {versions}")))
}

pub(crate) fn certificate(at: &At<'_>) -> Option<Found> {
    let text = at.server.counter(&["ssl_server_not_after"])?;
    let found = ends(seconds(text)?, now_s(at.farm)?)?;
    Some(Found::new(format!("its certificate ends {text}")).grave(found))
}

pub(crate) fn now_s(farm: &crate::FarmFacts) -> Option<u64> {
    let clock_ms = farm.routers.first()?.clock_ms;
    (clock_ms > 0).then_some(clock_ms / 1000)
}

/// How grave it is that a certificate ends then; `None` while it lasts.
pub(crate) fn ends(ends_s: u64, now_s: u64) -> Option<Severity> {
    match ends_s {
        _ if ends_s <= now_s => Some(Severity::Error),
        _ if ends_s - now_s <= SOON_S => Some(Severity::Warning),
        _ => None,
    }
}

/// Seconds since 1970 of a time as OpenSSL writes it: `Nov 23 05:06:07 2036 GMT`.
fn seconds(text: &str) -> Option<u64> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut words = text.split_whitespace();
    let month = MONTHS.find(words.next()?).filter(|at| at % 3 == 0)? as u64 / 3 + 1;
    let day: u64 = words.next()?.parse().ok()?;
    let mut clock = words
        .next()?
        .split(':')
        .map(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds) = (clock.next()??, clock.next()??, clock.next()??);
    let year: u64 = words.next()?.parse().ok().filter(|year| *year >= 1970)?;
    Some(days(year, month, day) * 86_400 + hours * 3600 + minutes * 60 + seconds)
}

/// Days since 1970 of a date of the Gregorian calendar.
fn days(year: u64, month: u64, day: u64) -> u64 {
    // The year begins in March, so that a leap day is the last one.
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let of_year = (153 * month + 2) / 5 + day.saturating_sub(1);
    365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_certificates() {
        assert_eq!(seconds("Jan  1 00:00:00 1970 GMT"), Some(0));
        assert_eq!(seconds("Feb 29 00:00:00 2000 GMT"), Some(951_782_400));
        assert_eq!(seconds("Jan  1 00:00:01 2026 GMT"), Some(1_767_225_601));
        assert_eq!(seconds("an 1 00:00:01 2026 GMT"), None);
        assert_eq!(seconds(""), None);
        assert_eq!(ends(10, 10), Some(Severity::Error));
        assert_eq!(ends(10 + SOON_S, 10), Some(Severity::Warning));
        assert_eq!(ends(11 + SOON_S, 10), None);
    }
}
