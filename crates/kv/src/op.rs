//! What can be asked of a container, and what it answers.

/// Seconds: a shorter expiry is counted from now, a longer one from 1970. memcached's own rule.
const RELATIVE_S_MAX: i64 = 60 * 60 * 24 * 30;

/// When an item expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    Never,
    /// It has expired already.
    Past,
    /// In so many seconds from now.
    After(u32),
    /// At this second since 1970.
    At(u64),
}

impl Expiry {
    /// As memcached reads `exptime`: 0 is never, negative numbers are past.
    pub fn from_wire(exptime: i64) -> Expiry {
        match exptime {
            0 => Expiry::Never,
            ..0 => Expiry::Past,
            1..=RELATIVE_S_MAX => Expiry::After(u32::try_from(exptime).unwrap_or(u32::MAX)),
            _ => Expiry::At(exptime.unsigned_abs()),
        }
    }

    /// As the expiry column has it, at the second `now_s` since 1970: 0 is never, 1 is long past.
    pub fn stored(self, now_s: u64) -> u64 {
        match self {
            Expiry::Never => 0,
            Expiry::Past => 1,
            Expiry::After(seconds) => now_s + u64::from(seconds),
            Expiry::At(second) => second.max(1),
        }
    }
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Set,
    /// Only where there is none.
    Add,
    /// Only where there is one.
    Replace,
    /// Behind, or in front of, the one that is there, which keeps its flags and expiry. Where there is
    /// none and `vivify` says so, it is stored.
    Append {
        vivify: bool,
    },
    Prepend {
        vivify: bool,
    },
}

/// A command on one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    pub key: Box<[u8]>,
    pub change: Change,
}

/// What becomes of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Get,
    /// Get, answered with [`Outcome::Row`].
    Read,
    /// Get, and another expiry.
    GetAndTouch(Expiry),
    Store {
        mode: Mode,
        value: Box<[u8]>,
        flags: u32,
        expiry: Expiry,
        /// Only while the item has this cas.
        cas: Option<u64>,
    },
    /// A row by its parts, one for each column of the value.
    Write {
        parts: Box<[Option<Vec<u8>>]>,
        mode: Mode,
        expiry: Expiry,
        cas: Option<u64>,
    },
    Delete {
        cas: Option<u64>,
    },
    /// Adds to a number, which wraps at 2^64, or takes from it, down to 0.
    Count {
        by: u64,
        down: bool,
        /// What is stored where there is none, and its expiry.
        initial: Option<(u64, Expiry)>,
        /// A new expiry for one that is there.
        expiry: Option<Expiry>,
        cas: Option<u64>,
    },
    Touch(Expiry),
    /// A change of another kind; a row that it writes has this cas, which the cas column makes so.
    Stamped {
        cas: u64,
        change: Box<Change>,
    },
}

impl Op {
    /// Bytes of its key and of the value that it brings.
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.change.value_bytes()
    }
}

impl Change {
    /// What is changed, whatever cas the row is to have.
    pub fn plain(&self) -> &Change {
        match self {
            Change::Stamped { change, .. } => change.plain(),
            other => other,
        }
    }

    /// Bytes of the value that it brings.
    pub(crate) fn value_bytes(&self) -> usize {
        match self.plain() {
            Change::Store { value, .. } => value.len(),
            Change::Write { parts, .. } => parts.iter().flatten().map(Vec::len).sum(),
            _ => 0,
        }
    }

    /// A value for a key, whatever is there.
    pub(crate) fn is_plain_set(&self) -> bool {
        let Change::Store { mode, cas, .. } = self else {
            return false;
        };
        *mode == Mode::Set && cas.is_none()
    }

    /// It leaves everything as it is.
    pub fn is_read(&self) -> bool {
        matches!(self, Change::Get | Change::Read)
    }
}

/// What a key has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub value: Vec<u8>,
    pub flags: u32,
    /// Differs whenever a column of the container does.
    pub cas: u64,
    /// Seconds left; `None` for ever.
    pub ttl_s: Option<u64>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Hit(Item),
    Row {
        parts: Vec<Option<Vec<u8>>>,
        /// Which columns have integers.
        integers: Vec<bool>,
        cas: u64,
        ttl_s: Option<u64>,
    },
    /// A get found nothing.
    Miss,
    Stored {
        cas: u64,
    },
    /// The condition of add or replace does not hold, or the table refuses the row.
    NotStored,
    /// There is another cas.
    Exists,
    /// There is nothing to change.
    NotFound,
    Deleted,
    Touched,
    /// All rows are gone.
    Done,
    Number {
        value: u64,
        cas: u64,
        /// Seconds left; `None` for ever.
        ttl_s: Option<u64>,
    },
    Refused(Refusal),
}

/// Why a command was not carried out, for the client to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The client's own mistake; else the server's state.
    pub by_client: bool,
    /// One line.
    pub text: String,
}

impl Refusal {
    /// The command can never be carried out.
    pub fn client(text: impl Into<String>) -> Refusal {
        Refusal {
            by_client: true,
            text: text.into(),
        }
    }

    /// It could be at another time.
    pub fn server(text: impl Into<String>) -> Refusal {
        Refusal {
            by_client: false,
            text: text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiries_are_read_as_memcached_does() {
        let stored = |exptime| Expiry::from_wire(exptime).stored(1_000_000_000);
        assert_eq!(stored(0), 0);
        assert_eq!(stored(-1), 1);
        assert_eq!(stored(60), 1_000_000_060);
        assert_eq!(stored(RELATIVE_S_MAX), 1_000_000_000 + 2_592_000);
        assert_eq!(stored(RELATIVE_S_MAX + 1), 2_592_001);
    }
}
