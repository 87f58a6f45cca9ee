//! When a certificate ends.
//!
//! Source: RFC 5280, section 4.1.2.5.

use std::time::Duration;

use rcgen::date_time_ymd;

use crate::certificate::{CertificateError, chain};
use crate::subject::{Der, INTEGER, SEQUENCE, VERSION};

const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

const DAY_S: u64 = 86_400;

/// Until when the first certificate of a PEM file is good, in seconds since 1970; 0 where its end cannot be read.
///
/// # Errors
/// It is not PEM, or has no certificate.
pub fn certificate_ends_s(pem: &[u8]) -> Result<u64, CertificateError> {
    let all = chain(pem)?;
    let first = all.first().ok_or(CertificateError::NoCertificate)?;
    Ok(not_after(first).unwrap_or(0))
}

fn not_after(certificate: &[u8]) -> Option<u64> {
    let mut whole = Der(certificate);
    let mut outer = Der(whole.expect(SEQUENCE)?);
    let mut inner = Der(outer.expect(SEQUENCE)?);
    if inner.0.first() == Some(&VERSION) {
        inner.next()?;
    }
    inner.expect(INTEGER)?;
    inner.expect(SEQUENCE)?;
    inner.expect(SEQUENCE)?;
    let mut validity = Der(inner.expect(SEQUENCE)?);
    validity.next()?;
    match validity.next()? {
        // Years before 50 are of this century.
        (UTC_TIME, text) => {
            let (year, rest) = number(text, 2)?;
            let century = if year < 50 { 2000 } else { 1900 };
            seconds(century + year, rest)
        }
        (GENERALIZED_TIME, text) => {
            let (year, rest) = number(text, 4)?;
            seconds(year, rest)
        }
        _ => None,
    }
}

/// `MMDDHHMMSSZ` of a year as seconds since 1970.
fn seconds(year: u32, rest: &[u8]) -> Option<u64> {
    let (month, rest) = number(rest, 2)?;
    let (day, rest) = number(rest, 2)?;
    let (hour, rest) = number(rest, 2)?;
    let (minute, rest) = number(rest, 2)?;
    let (second, _) = number(rest, 2)?;
    let month = u8::try_from(month)
        .ok()
        .filter(|it| (1..=12).contains(it))?;
    let year = i32::try_from(year).ok().filter(|it| *it >= 1970)?;
    let of_month =
        u64::from(day.checked_sub(1)?) * DAY_S + u64::from(hour * 3600 + minute * 60 + second);
    let at = date_time_ymd(year, month, 1) + Duration::from_secs(of_month);
    u64::try_from(at.unix_timestamp()).ok()
}

/// A number of so many digits, and what is behind it.
fn number(text: &[u8], digits: usize) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(digits)?;
    let digits = std::str::from_utf8(digits).ok()?;
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn made_until(year: i32) -> Vec<u8> {
        let mut parameters = CertificateParams::new(Vec::new()).expect("no names");
        parameters.not_before = date_time_ymd(2020, 1, 1);
        parameters.not_after = date_time_ymd(year, 2, 28);
        let key = KeyPair::generate().expect("a key");
        let made = parameters.self_signed(&key).expect("signed");
        made.pem().into_bytes()
    }

    #[test]
    fn both_forms_of_time_are_read() {
        for year in [2030, 2049, 2050, 2999] {
            let ends = date_time_ymd(year, 2, 28).unix_timestamp();
            let read = certificate_ends_s(&made_until(year)).expect("a certificate");
            assert_eq!(i64::try_from(read), Ok(ends), "{year}");
        }
        assert_eq!(
            certificate_ends_s(b""),
            Err(CertificateError::NoCertificate)
        );
        assert_eq!(not_after(b"\x30\x03abc"), None);
    }
}
