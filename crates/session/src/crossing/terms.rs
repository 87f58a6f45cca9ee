//! What an operator chose for transactions over several groups.

/// What a transaction that touches a second group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atomic {
    /// All or nothing.
    #[default]
    Xa,
    /// Refused.
    Single,
    /// The groups commit one after the other.
    BestEffort,
}

impl Atomic {
    /// As settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Atomic::Xa => "xa",
            Atomic::Single => "single",
            Atomic::BestEffort => "best-effort",
        }
    }
}

/// The settings of transactions over several groups.
#[derive(Clone, Copy, Debug)]
pub struct CrossTerms {
    pub atomic: Atomic,
    /// A lock that is waited for longer ends the whole transaction; 0 leaves it to the servers.
    pub lock_wait_ms: u64,
    /// Servers take part whose XA does not survive every crash.
    pub unsafe_xa: bool,
}

impl Default for CrossTerms {
    fn default() -> CrossTerms {
        CrossTerms {
            atomic: Atomic::Xa,
            lock_wait_ms: 2000,
            unsafe_xa: false,
        }
    }
}
