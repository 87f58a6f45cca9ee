//! What operators decide about reads that fail, and errors that pass.

/// Where a read goes whose server cannot be reached. The names are those of mysqlnd_ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failover {
    /// The client gets the error.
    Disabled,
    /// To the primary.
    Master,
    /// To the other replicas, then to the primary.
    #[default]
    LoopBeforeMaster,
}

/// Which transactions stay where. Inside one nothing moves, in either case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stickiness {
    /// Every transaction is the primary's.
    Master,
    /// START TRANSACTION READ ONLY may run on a replica.
    #[default]
    On,
}

/// Errors that pass by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transient {
    /// Their numbers; 0 is none.
    pub errors: [u16; 8],
    /// How often a statement is repeated.
    pub tries: u32,
    pub pause_us: u64,
}

impl Transient {
    /// True when a statement that met this error may be repeated.
    pub fn allows(&self, number: u16) -> bool {
        self.tries > 0 && number != 0 && self.errors.contains(&number)
    }
}

/// Settings of reads beyond their consistency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pub failover: Failover,
    pub stickiness: Stickiness,
    pub transient: Transient,
    /// After a session's first write everything of it goes to the primary.
    pub master_on_write: bool,
    /// A replica that has not begun to answer a read after so long is raced by another; 0 for never.
    pub hedge_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_never_passes() {
        let mut transient = Transient {
            errors: [1205, 0, 0, 0, 0, 0, 0, 0],
            tries: 1,
            pause_us: 0,
        };
        assert!(transient.allows(1205));
        assert!(!transient.allows(0) && !transient.allows(1213));
        transient.tries = 0;
        assert!(!transient.allows(1205), "it was repeated as often as it may");
    }
}
