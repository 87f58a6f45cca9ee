//! Whose certificate it is and who signed it, as the servers write it: `/C=DE/O=Example/CN=anna`.
//!
//! Only what accounts can ask for is read, from certificates that have been verified before.
//! Source: RFC 5280, section 4.1; the names of attributes are OpenSSL's.

use rustls::pki_types::CertificateDer;

/// The two names of a peer's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerCertificate {
    pub subject: String,
    pub issuer: String,
}

pub(crate) const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const BMP_STRING: u8 = 0x1E;
pub(crate) const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
pub(crate) const VERSION: u8 = 0xA0;

impl PeerCertificate {
    /// Reads the names; None when the bytes are no certificate.
    pub(crate) fn read(certificate: &CertificateDer<'_>) -> Option<PeerCertificate> {
        let mut whole = Der(certificate.as_ref());
        let mut outer = Der(whole.expect(SEQUENCE)?);
        let mut inner = Der(outer.expect(SEQUENCE)?);
        if inner.0.first() == Some(&VERSION) {
            inner.next()?;
        }
        inner.expect(INTEGER)?;
        inner.expect(SEQUENCE)?;
        let issuer = inner.expect(SEQUENCE)?;
        inner.expect(SEQUENCE)?;
        let subject = inner.expect(SEQUENCE)?;
        Some(PeerCertificate {
            subject: name(subject)?,
            issuer: name(issuer)?,
        })
    }
}

/// Tag, length, value; one behind the other.
pub(crate) struct Der<'a>(pub(crate) &'a [u8]);

impl<'a> Der<'a> {
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (bytes, rest) = match first {
            0..=0x7F => (usize::from(first), rest),
            0x81..=0x84 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7F))?;
                let bytes = length
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (bytes, rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(bytes)?;
        self.0 = rest;
        Some((tag, value))
    }

    pub(crate) fn expect(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next()
            .and_then(|(found, value)| (found == tag).then_some(value))
    }
}

/// A distinguished name on one line.
fn name(bytes: &[u8]) -> Option<String> {
    let mut line = String::new();
    let mut parts = Der(bytes);
    while !parts.0.is_empty() {
        let mut set = Der(parts.expect(SET)?);
        while !set.0.is_empty() {
            let mut pair = Der(set.expect(SEQUENCE)?);
            let kind = pair.expect(OBJECT_IDENTIFIER)?;
            let (tag, value) = pair.next()?;
            line.push('/');
            line.push_str(&attribute(kind));
            line.push('=');
            push_value(&mut line, tag, value);
        }
    }
    Some(line)
}

fn attribute(kind: &[u8]) -> String {
    let known = match kind {
        [0x55, 0x04, 3] => "CN",
        [0x55, 0x04, 4] => "SN",
        [0x55, 0x04, 5] => "serialNumber",
        [0x55, 0x04, 6] => "C",
        [0x55, 0x04, 7] => "L",
        [0x55, 0x04, 8] => "ST",
        [0x55, 0x04, 9] => "street",
        [0x55, 0x04, 10] => "O",
        [0x55, 0x04, 11] => "OU",
        [0x55, 0x04, 12] => "title",
        [0x55, 0x04, 13] => "description",
        [0x55, 0x04, 41] => "name",
        [0x55, 0x04, 42] => "GN",
        [0x55, 0x04, 43] => "initials",
        [0x55, 0x04, 46] => "dnQualifier",
        [0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 1, 9, 1] => "emailAddress",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 1] => "UID",
        [0x09, 0x92, 0x26, 0x89, 0x93, 0xF2, 0x2C, 0x64, 1, 25] => "DC",
        other => return dotted(other),
    };
    known.to_owned()
}

/// An object identifier in numbers.
fn dotted(kind: &[u8]) -> String {
    let mut text = String::new();
    let mut number = 0u64;
    for byte in kind {
        number = number << 7 | u64::from(byte & 0x7F);
        if byte & 0x80 != 0 {
            continue;
        }
        if text.is_empty() {
            let first = (number / 40).min(2);
            text = format!("{first}.{}", number - first * 40);
        } else {
            text.push_str(&format!(".{number}"));
        }
        number = 0;
    }
    text
}

/// Printable ASCII as it is, every other byte as `\xNN`, as OpenSSL does on one line.
fn push_value(line: &mut String, tag: u8, value: &[u8]) {
    let narrow: Vec<u8>;
    let value = if tag == BMP_STRING && value.chunks_exact(2).all(|pair| pair[0] == 0) {
        narrow = value.chunks_exact(2).map(|pair| pair[1]).collect();
        &narrow
    } else {
        value
    };
    for &byte in value {
        match byte {
            b' '..=b'~' => line.push(char::from(byte)),
            other => line.push_str(&format!("\\x{other:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_openssl_writes_them() {
        let mut parameters = rcgen::CertificateParams::default();
        let subject = &mut parameters.distinguished_name;
        *subject = rcgen::DistinguishedName::new();
        subject.push(rcgen::DnType::CountryName, "DE");
        subject.push(rcgen::DnType::OrganizationName, "M\u{fc}hle");
        subject.push(rcgen::DnType::CommonName, "anna");
        let email = rcgen::DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]);
        subject.push(email, "a@b.c");
        subject.push(rcgen::DnType::CustomDnType(vec![2, 5, 4, 99]), "odd");
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let read = PeerCertificate::read(certificate.der()).expect("it is one");
        let expected = "/C=DE/O=M\\xC3\\xBChle/CN=anna/emailAddress=a@b.c/2.5.4.99=odd";
        assert_eq!(read.subject, expected);
        assert_eq!(read.issuer, expected);
    }

    #[test]
    fn no_cut_of_a_certificate_is_read_or_panics() {
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = rcgen::CertificateParams::default().self_signed(&key);
        let certificate = certificate.expect("a certificate");
        for end in 0..certificate.der().len() {
            let cut = CertificateDer::from(&certificate.der()[..end]);
            assert_eq!(PeerCertificate::read(&cut), None);
        }
    }
}
