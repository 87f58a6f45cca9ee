//! What an operator may change of all this while statements run.

/// The settings in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Statements are counted and timed at all.
    pub on: bool,
    /// What the digests of all cores may take together.
    pub bytes_max: usize,
    /// A text is shown as it came, literals included, unless it may carry a password.
    pub examples: bool,
    /// A statement that takes so long is slow; 0 for none.
    pub slow_us: u64,
    /// One of so many slow statements is written down; at least 1.
    pub slow_one_in: u64,
    /// Of statements whose client says nothing of a trace, one of so many is traced; 0 for none.
    pub trace_one_in: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            on: true,
            bytes_max: 16 << 20,
            examples: false,
            slow_us: 0,
            slow_one_in: 1,
            trace_one_in: 0,
        }
    }
}
