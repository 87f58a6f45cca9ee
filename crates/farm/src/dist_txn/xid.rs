//! Names of XA transactions, as clients and servers write them.

use std::fmt;

use crate::dist_txn::FORMAT;

/// Most bytes of either part.
pub const PART_BYTES_MAX: usize = 64;

/// The `formatID` of a name that is written without one.
const FORMAT_DEFAULT: u32 = 1;

/// The name of an XA transaction: an application's own, or that of a branch of Heddle's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Xid {
    format: u32,
    gtrid: Vec<u8>,
    bqual: Vec<u8>,
}

impl Xid {
    /// `None` when a part is longer than [`PART_BYTES_MAX`].
    pub fn new(gtrid: &[u8], bqual: &[u8], format: Option<u32>) -> Option<Xid> {
        let fits = gtrid.len() <= PART_BYTES_MAX && bqual.len() <= PART_BYTES_MAX;
        fits.then(|| Xid {
            format: format.unwrap_or(FORMAT_DEFAULT),
            gtrid: gtrid.to_vec(),
            bqual: bqual.to_vec(),
        })
    }

    /// It has the `formatID` of Heddle's branches: no application may use it.
    pub fn is_reserved(&self) -> bool {
        self.format == FORMAT
    }

    /// All of it, so that names are equal exactly when these bytes are.
    pub fn key(&self) -> Vec<u8> {
        let length = u8::try_from(self.gtrid.len()).unwrap_or(u8::MAX);
        [
            &self.format.to_be_bytes()[..],
            &[length],
            &self.gtrid,
            &self.bqual,
        ]
        .concat()
    }

    /// Reads [`Xid::key`].
    pub fn of_key(key: &[u8]) -> Option<Xid> {
        let (format, rest) = key.split_first_chunk()?;
        let (length, rest) = rest.split_first()?;
        let (gtrid, bqual) = rest.split_at_checked(usize::from(*length))?;
        Xid::new(gtrid, bqual, Some(u32::from_be_bytes(*format)))
    }
}

/// As statements of XA name it: `X'gtrid',X'bqual',formatID`.
impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (gtrid, bqual) = (hex::encode(&self.gtrid), hex::encode(&self.bqual));
        write!(f, "X'{gtrid}',X'{bqual}',{}", self.format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_and_read() {
        let xid = Xid::new(b"or'der", b"\0\xff", None).expect("short");
        assert_eq!(xid.to_string(), "X'6f7227646572',X'00ff',1");
        assert_eq!(Xid::of_key(&xid.key()), Some(xid.clone()));
        assert!(!xid.is_reserved());
        let other = Xid::new(b"or'der\0", b"\xff", None).expect("short");
        assert_ne!(other.key(), xid.key());
        assert_eq!(Xid::new(&[0; 65], b"", None), None);
        for cut in 0..12 {
            assert_ne!(Xid::of_key(&xid.key()[..cut]), Some(xid.clone()));
        }
        let ours = Xid::new(b"", b"", Some(FORMAT)).expect("short");
        assert!(ours.is_reserved());
    }
}
